//! The rules of tokens that depend on the node that holds them: its lane, its ancestors, its arc.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::code::Code;
use super::model::{Lane, Piece, Template};
use super::problem::Pos;
use super::raw::{RawKind, RawText};
use super::resolve::{Names, Resolved, artifact_variable};
use super::validate::{Checked, Placed};
use crate::ids::LaneIx;

/// What a token needs: that an ancestor of `node` bears `mark`.
#[derive(Debug)]
struct Need {
    node: u32,
    mark: usize,
    at: Pos,
    message: String,
}

/// What ancestors are asked for: to be a node, or to work in a lane.
#[derive(Debug, Default)]
struct Marks {
    bearers: Vec<Vec<u32>>,
    of_nodes: BTreeMap<u32, usize>,
    of_lanes: BTreeMap<LaneIx, usize>,
}

impl Marks {
    fn of_node(&mut self, node: u32) -> usize {
        *self.of_nodes.entry(node).or_insert_with(|| {
            self.bearers.push(vec![node]);
            self.bearers.len() - 1
        })
    }

    fn of_lane(&mut self, lane: LaneIx, lane_of: &[Option<LaneIx>]) -> usize {
        *self.of_lanes.entry(lane).or_insert_with(|| {
            let in_lane = |(node, of): (usize, &Option<LaneIx>)| (*of == Some(lane)).then_some(node as u32);
            self.bearers.push(lane_of.iter().enumerate().filter_map(in_lane).collect());
            self.bearers.len() - 1
        })
    }
}

/// A node's templates, once its tokens are known to mean something.
#[derive(Debug, Default)]
pub(super) struct NodeTexts {
    pub prompt: Option<Template>,
    pub run: Option<Template>,
    pub cwd: Option<Template>,
    pub env: IndexMap<String, Template>,
    pub verify_command: Option<Template>,
    pub verify_cwd: Option<Template>,
}

/// The rules of tokens that depend on the node that holds them.
pub(super) struct TokenRules<'a> {
    pub names: &'a Names,
    pub lane_of: &'a [Option<LaneIx>],
    pub lanes: &'a [Lane],
    pub graph_env: &'a IndexMap<String, Resolved>,
}

impl TokenRules<'_> {
    /// Returns every node's templates, after saying which tokens stand where they mean nothing.
    pub fn check(&self, checked: &mut Checked<'_>) -> Vec<NodeTexts> {
        let mut marks = Marks::default();
        let mut needs = Vec::new();
        let mut texts = Vec::with_capacity(checked.nodes.len());
        for node in 0..checked.nodes.len() as u32 {
            let mut tokens = Vec::new();
            texts.push(self.resolve(checked, node, &mut tokens));
            if checked.kinds[node as usize] != Some(RawKind::Gate) {
                tokens.extend(self.graph_env.values().flat_map(|var| var.tokens.iter().cloned()));
            }
            for (piece, at) in tokens {
                self.check_token(checked, node, &piece, at, &mut marks, &mut needs);
            }
        }
        self.check_variables(checked);
        self.check_needs(checked, &marks, needs);
        texts
    }

    fn resolve(&self, checked: &mut Checked<'_>, node: u32, tokens: &mut Vec<(Piece, Pos)>) -> NodeTexts {
        let raw = &checked.nodes[node as usize].raw;
        let report = &mut *checked.report;
        let mut resolve = |text: &RawText, is_command: bool| {
            let resolved = self.names.resolve(report, text, is_command);
            tokens.extend(resolved.tokens);
            resolved.template
        };
        let check = raw.check.as_ref();
        NodeTexts {
            prompt: raw.prompt.as_ref().map(|text| resolve(text, false)),
            run: raw.run.as_ref().map(|text| resolve(text, true)),
            cwd: raw.cwd.as_ref().map(|text| resolve(text, false)),
            env: raw.env.iter().flatten().map(|var| (var.name.clone(), resolve(&var.text, false))).collect(),
            verify_command: check
                .and_then(|check| check.verify_command.as_ref())
                .map(|text| resolve(text, true)),
            verify_cwd: check.and_then(|check| check.verify_cwd.as_ref()).map(|text| resolve(text, false)),
        }
    }

    fn check_token(
        &self,
        checked: &mut Checked<'_>,
        node: u32,
        piece: &Piece,
        at: Pos,
        marks: &mut Marks,
        needs: &mut Vec<Need>,
    ) {
        let who = checked.name(node).to_owned();
        match piece {
            Piece::Text(_) | Piece::Input(_) | Piece::RunId => {}
            Piece::LanePath | Piece::LaneBranch | Piece::LaneBase => {
                if self.lane_of[node as usize].is_none() {
                    let message = format!("node `{who}` has no lane that this token could name");
                    checked
                        .report
                        .error(Code::TokenWithoutLane, at, message)
                        .hint("give the node a `worktree`");
                }
            }
            Piece::ArtifactPath(of) | Piece::ArtifactText(of) => {
                let name = checked.name(of.0).to_owned();
                let message = format!("node `{who}` reads the result of `{name}`, but does not wait for it");
                let mark = marks.of_node(of.0);
                needs.push(Need { node, mark, at, message });
            }
            Piece::OtherLaneBranch(lane) | Piece::OtherLanePath(lane) => {
                let name = self.lanes[lane.at()].name.clone();
                let message = format!("node `{who}` names lane `{name}`, but waits for no node in it");
                let mark = marks.of_lane(*lane, self.lane_of);
                needs.push(Need { node, mark, at, message });
            }
            Piece::Feedback(of) => {
                let is_inside =
                    checked.bodies.get(&of.0).is_some_and(|body| body.binary_search(&node).is_ok());
                if !is_inside {
                    let name = checked.name(of.0).to_owned();
                    let message = if checked.nodes[of.at()].raw.feedback.is_some() {
                        format!(
                            "node `{who}` is not run again by the feedback of `{name}`, and gets none of it"
                        )
                    } else {
                        format!("node `{name}` has no `feedback` that this token could read")
                    };
                    checked.report.error(Code::FeedbackOutsideArc, at, message);
                }
            }
        }
    }

    /// Two ancestors of a command must not have one `OMG_ARTIFACT_…` variable. One report a variable.
    fn check_variables(&self, checked: &mut Checked<'_>) {
        let mut by_variable: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (node, placed) in checked.nodes.iter().enumerate() {
            if let Some(id) = &placed.raw.id {
                by_variable.entry(artifact_variable(&id.value)).or_default().push(node as u32);
            }
        }
        let (variables, groups): (Vec<String>, Vec<Vec<u32>>) =
            by_variable.into_iter().filter(|(_, nodes)| nodes.len() > 1).unzip();
        let is_command = |node: u32| checked.kinds[node as usize] == Some(RawKind::Command);
        let found = checked.reach.below_two(&groups, is_command);
        for (variable, found) in variables.into_iter().zip(found) {
            let Some((reader, one, other)) = found else { continue };
            let [who, one, other] = [reader, one, other].map(|node| checked.name(node).to_owned());
            let at = checked.nodes[reader as usize].at;
            let message =
                format!("node `{who}` waits for `{one}` and `{other}`, and both are `${variable}` to it");
            checked.report.error(Code::SameVariable, at, message).hint("rename one of the two");
        }
    }

    /// Returns which nodes have ancestors that can't be known: there is a cycle, or a misspelt id, at or
    /// above them. That has been reported; what follows from it would only be noise.
    fn doubtful(&self, checked: &Checked<'_>) -> Vec<bool> {
        let dangles = |node: &Placed| {
            node.raw.depends_on.iter().any(|edge| !self.names.nodes.contains_key(edge.id.value.as_str()))
        };
        let nodes = || checked.nodes.iter().zip(&checked.on_cycles);
        let own: Vec<bool> = nodes().map(|(node, on_cycle)| *on_cycle || dangles(node)).collect();
        let bearers = (0_u32..).zip(&own).filter(|(_, own)| **own).map(|(node, _)| node).collect();
        let questions: Vec<(u32, usize)> = (0..own.len() as u32).map(|node| (node, 0)).collect();
        let above = checked.reach.has_ancestor(&questions, &[bearers]);
        own.into_iter().zip(above).map(|(own, above)| own || above).collect()
    }

    fn check_needs(&self, checked: &mut Checked<'_>, marks: &Marks, needs: Vec<Need>) {
        let questions: Vec<(u32, usize)> = needs.iter().map(|need| (need.node, need.mark)).collect();
        let answers = checked.reach.has_ancestor(&questions, &marks.bearers);
        let is_doubtful = self.doubtful(checked);
        for (need, is_met) in needs.into_iter().zip(answers) {
            if !is_met && !is_doubtful[need.node as usize] {
                checked
                    .report
                    .error(Code::NotAnAncestor, need.at, need.message)
                    .hint("add it to `depends_on`, directly or through another node");
            }
        }
    }
}
