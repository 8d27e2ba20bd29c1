//! Tokens resolved to what they name, and what each of them needs of the graph.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;

use super::code::Code;
use super::excerpt::clip;
use super::model::{Input, Piece, Template};
use super::problem::{Pos, Report, list_or};
use super::raw::RawText;
use super::template::{Stretch, TOKENS, Token, TokenPlaces, stretches, token};
use crate::ids::{LaneIx, NodeIx};

/// What a name in a token or a `depends_on` can mean.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub inputs: IndexMap<String, Input>,
    /// Ids, and the names of spliced subgraphs, which stand for their exits.
    pub nodes: BTreeMap<String, NodeIx>,
    pub lanes: BTreeMap<String, LaneIx>,
    /// Names that stand in the file for a node that was turned down: enough was said of them there.
    pub turned_down: BTreeSet<String>,
}

/// A template, and the place of each of its tokens.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub template: Template,
    pub tokens: Vec<(Piece, Pos)>,
}

impl Names {
    /// Returns the node that `id` names, after saying so where there is none. `who` begins the message.
    pub fn node(&self, report: &mut Report, who: &str, id: &str, at: Pos) -> Option<NodeIx> {
        let found = self.nodes.get(id).copied();
        if found.is_none() && !self.turned_down.contains(id) {
            // A node can't be meant by what it says itself.
            let is_own = |name: &str| who.contains(&format!("`{name}`"));
            let near = report.nearest(id, self.nodes.keys().map(String::as_str).filter(|name| !is_own(name)));
            let problem = report.error(
                Code::UnknownNode,
                at,
                format!("{who} `{}`, which is not in this graph", clip(id)),
            );
            if let Some(near) = near {
                problem.hint(format!("did you mean `{near}`?"));
            }
        }
        found
    }

    /// Returns the template of a text. `is_command` says that a shell will read it.
    pub fn resolve(&self, report: &mut Report, text: &RawText, is_command: bool) -> Resolved {
        let mut resolved = Resolved::default();
        if !text.value.contains("{{") {
            if !text.value.is_empty() {
                resolved.template = Template::literal(text.value.clone());
            }
            return resolved;
        }
        let source = report.text(text.at.file);
        let mut places = TokenPlaces::new(&source, text);
        for stretch in stretches(&text.value) {
            match stretch {
                Stretch::Text(literal) => resolved.template.0.push(Piece::Text(literal.into_owned())),
                Stretch::Unclosed { offset } => {
                    let at = places.next(offset, 2);
                    report
                        .error(Code::UnclosedToken, at, "`{{` has no `}}` after it")
                        .hint("write `{{{{` for a literal `{{`");
                }
                Stretch::Token { body, offset } => {
                    let at = places.next(offset, body.len() + 4);
                    if let Some(piece) = self.piece(report, body, at, is_command) {
                        resolved.template.0.push(piece.clone());
                        resolved.tokens.push((piece, at));
                    }
                }
            }
        }
        resolved
    }

    fn piece(&self, report: &mut Report, body: &str, at: Pos, is_command: bool) -> Option<Piece> {
        let Some(token) = token(body) else {
            unknown_token(report, body, at);
            return None;
        };
        match token {
            Token::Input(name) if self.inputs.contains_key(name) => Some(Piece::Input(name.to_owned())),
            Token::Input(name) => {
                let near = report.nearest(name, self.inputs.keys().map(String::as_str));
                let shown = clip(name);
                let message = format!("`{{{{ inputs.{shown} }}}}`: the graph declares no input `{shown}`");
                let problem = report.error(Code::UnknownInput, at, message);
                match near {
                    Some(near) => problem.hint(format!("did you mean `{near}`?")),
                    None => problem.hint(format!("add `{shown}` to `inputs`")),
                };
                None
            }
            Token::Artifact { id, inline } => {
                let node = self.node(report, "this token reads the result of", id, at)?;
                if inline && is_command {
                    self.produced_text_in_command(report, Code::ArtifactsInlineInCommand, id, at);
                    return None;
                }
                Some(if inline { Piece::ArtifactText(node) } else { Piece::ArtifactPath(node) })
            }
            Token::Feedback(id) => {
                let node = self.node(report, "this token reads the feedback of", id, at)?;
                if is_command {
                    self.produced_text_in_command(report, Code::FeedbackInCommand, id, at);
                    return None;
                }
                Some(Piece::Feedback(node))
            }
            Token::RunId => Some(Piece::RunId),
            Token::LanePath => Some(Piece::LanePath),
            Token::LaneBranch => Some(Piece::LaneBranch),
            Token::LaneBase => Some(Piece::LaneBase),
            Token::OtherLaneBranch(name) => self.lane(report, name, at).map(Piece::OtherLaneBranch),
            Token::OtherLanePath(name) => self.lane(report, name, at).map(Piece::OtherLanePath),
            Token::With(name) => {
                let message = format!("`{{{{ with.{} }}}}` means something in a fragment only", clip(name));
                report.error(Code::UnknownToken, at, message);
                None
            }
        }
    }

    fn lane(&self, report: &mut Report, name: &str, at: Pos) -> Option<LaneIx> {
        let found = self.lanes.get(name).copied();
        if found.is_none() {
            let near = report.nearest(name, self.lanes.keys().map(String::as_str));
            let problem =
                report.error(Code::UnknownLane, at, format!("no node works in a lane `{}`", clip(name)));
            if let Some(near) = near {
                problem.hint(format!("did you mean `{near}`?"));
            }
        }
        found
    }

    fn produced_text_in_command(&self, report: &mut Report, code: Code, id: &str, at: Pos) {
        let message =
            format!("the text that `{id}` produced would be read by a shell as part of this command");
        let hint = format!(
            "use the path, `{{{{ artifacts.{id} }}}}`, or `\"${}\"`, which holds the same path",
            artifact_variable(id)
        );
        report.error(code, at, message).hint(hint);
    }
}

/// What the names of variables for artifacts begin with.
const ARTIFACT: &str = "OMG_ARTIFACT_";

/// Returns the variable that holds the path of a node's result: upper case, other characters as `_`.
pub fn artifact_variable(id: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("{ARTIFACT}{}", id.chars().map(upper).collect::<String>())
}

/// Returns the names of variables for artifacts that stand in a template's own text.
pub fn artifact_mentions(template: &Template) -> Vec<String> {
    let texts = template.0.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text),
        _ => None,
    });
    let starts = texts.flat_map(|text| text.match_indices(ARTIFACT).map(|(at, _)| &text[at..]));
    let name =
        |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
    starts.map(name).collect()
}

fn unknown_token(report: &mut Report, body: &str, at: Pos) {
    let body = body.trim();
    let shown: String = body.chars().take(60).collect();
    // Only the words before the name can be misspelt; the name itself is the author's.
    let (kind, rest) = body.split_once('.').unwrap_or((body, ""));
    let kinds = ["inputs", "artifacts", "feedback", "run", "lane", "lanes"];
    let near = report.nearest(kind.trim(), kinds).filter(|near| *near != kind.trim());
    let problem = report.error(Code::UnknownToken, at, format!("`{{{{ {shown} }}}}` is no token"));
    match near {
        Some(near) if !rest.is_empty() => {
            problem.hint(format!("did you mean `{{{{ {near}.{} }}}}`?", clip(rest)))
        }
        _ => problem.hint(format!("tokens are {}; write `{{{{{{{{` for a literal `{{{{`", list_or(TOKENS))),
    };
}
