//! What a node, its `verify` and a lane's provisioning see, and how templates become text.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::RunDir;
use crate::graph::model::{NodeKind, Piece, Template};
use crate::graph::template::Quote;
use crate::graph::{Graph, artifact_mentions, artifact_variable};
use crate::ids::{LaneIx, NodeIx, RunId};
use crate::journal::RunFile;
use crate::process::environment::Environment;
use crate::provision::excludes;
use crate::runtime::fence;
use crate::schedule::state::MadeLane;

/// How many ancestors' artifacts are named in a node's environment unasked, nearest first: it has a limit
/// (execve(2)), and each name costs every process of the node. What the node names itself is there too.
const ARTIFACTS_MAX: usize = 128;

/// What the surroundings of a node depend on.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The run.
    pub file: &'a RunFile,
    /// Its folder.
    pub dir: &'a RunDir,
    /// What every child starts from: [`Environment::for_child`] of what omg itself was started with.
    pub parent: &'a Environment,
    /// The lanes that were made, by index.
    pub lanes: &'a [Option<MadeLane>],
    /// What the node that judges the arc found, in a further round of it.
    pub feedback: Option<&'a str>,
}

/// A token that has no value here, though the graph was checked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token of `{node}` has no value: {piece}")]
pub struct Unrendered {
    /// The node.
    pub node: String,
    /// The token.
    pub piece: String,
}

impl<'a> Place<'a> {
    fn graph(&self) -> &'a Graph {
        &self.file.graph
    }

    fn made(&self, lane: LaneIx) -> Option<&'a MadeLane> {
        self.lanes.get(lane.at()).and_then(Option::as_ref)
    }

    /// Returns the text of a template of `node`.
    ///
    /// `read` returns the content of a result. Errors: a token without a value.
    pub fn render(
        &self,
        node: NodeIx,
        template: &Template,
        quote: Quote,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<String, Unrendered> {
        let graph = self.graph();
        let own = graph.node(node).lane.and_then(|lane| self.made(lane));
        let path = |path: &Path| Some(path.to_string_lossy().into_owned());
        let value = |piece: &Piece| match piece {
            Piece::Text(text) => Some(text.clone()),
            Piece::Input(name) => self.file.inputs.get(name).cloned(),
            Piece::ArtifactPath(other) => path(&self.dir.result(&graph.node(*other).id)),
            Piece::ArtifactText(other) => {
                let id = &graph.node(*other).id;
                // What was skipped has none.
                let text = read(&self.dir.result(id)).unwrap_or_default();
                Some(if quote == Quote::Prompt {
                    fence(&text, &format!("the result of node {id}"))
                } else {
                    text
                })
            }
            Piece::Feedback(other) => Some(match (self.feedback, quote) {
                (None, _) => String::new(),
                (Some(text), Quote::Prompt) => {
                    fence(text, &format!("what node {} found", graph.node(*other).id))
                }
                (Some(text), Quote::Shell | Quote::None) => text.to_string(),
            }),
            Piece::RunId => Some(self.file.run_id.to_string()),
            Piece::LanePath => own.and_then(|lane| path(&lane.path)),
            Piece::LaneBranch => own.map(|lane| lane.branch.clone()),
            Piece::LaneBase => own.map(|lane| lane.base.to_string()),
            Piece::OtherLaneBranch(lane) => self.made(*lane).map(|lane| lane.branch.clone()),
            Piece::OtherLanePath(lane) => self.made(*lane).and_then(|lane| path(&lane.path)),
        };
        template.render(value, quote).map_err(|piece| Unrendered {
            node: graph.node(node).id.to_string(),
            piece: format!("{piece:?}"),
        })
    }

    /// Returns what an attempt of `node` sees, and its `verify` too; `job` marks its processes.
    pub fn of_node(
        &self,
        node: NodeIx,
        attempt: u32,
        job: &str,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<Environment, Unrendered> {
        let graph = self.graph();
        let this = graph.node(node);
        let mut own: IndexMap<String, String> = IndexMap::new();
        for (name, template) in graph.parts().env.iter().chain(&this.env) {
            // A variable can't hold a NUL, and what a node produced may.
            own.insert(
                name.clone(),
                self.render(node, template, Quote::None, read)?.replace('\0', "\u{fffd}"),
            );
        }
        let mut environment = self.parent.clone();
        if let Some(lane) = this.lane.and_then(|lane| self.made(lane)) {
            let keep: Vec<String> = own.keys().chain(&self.file.pass_env).cloned().collect();
            environment = environment.for_lane(&keep);
            environment.set("OMG_LANE", graph.lane(this.lane.unwrap_or(LaneIx(0))).name.as_str());
            environment.set("OMG_LANE_PATH", lane.path.as_os_str());
            environment.set("OMG_BRANCH", lane.branch.as_str());
            environment.set("OMG_BASE", lane.base.as_str());
            self.set_identity(&mut environment);
        }
        for (name, value) in own {
            environment.set(name, value);
        }
        if let Some(lane) = this.lane {
            excludes::apply(&self.dir.lane(&graph.lane(lane).name), &mut environment);
        }
        self.set_run(&mut environment, job);
        environment.set("OMG_NODE", this.id.as_str());
        environment.set("OMG_ATTEMPT", attempt.to_string());
        for lane in graph.lanes_before(node) {
            if let Some(made) = self.made(lane) {
                let name = format!("OMG_LANE_{}_BRANCH", variable(graph.lane(lane).name.as_str()));
                environment.set(name, made.branch.as_str());
            }
        }
        for other in self.artifacts_of(node) {
            let id = &graph.node(other).id;
            environment.set(artifact_variable(id.as_str()), self.dir.result(id));
        }
        Ok(environment)
    }

    /// Returns the ancestors whose artifacts `node` finds in its environment: all it depends on directly,
    /// the nearest, and those whose variable stands in its own text.
    fn artifacts_of(&self, node: NodeIx) -> Vec<NodeIx> {
        let graph = self.graph();
        let this = graph.node(node);
        let mut found = graph.nearest_ancestors(node, ARTIFACTS_MAX.max(this.depends_on.len()));
        let own = match &this.kind {
            NodeKind::Command { run } => Some(run),
            NodeKind::Agent(agent) => Some(&agent.prompt),
            NodeKind::Gate => None,
        };
        let templates = own.into_iter().chain(this.check.verify.as_ref().map(|verify| &verify.command));
        let mentioned: Vec<String> = templates
            .chain(this.env.values())
            .chain(graph.parts().env.values())
            .flat_map(artifact_mentions)
            .collect();
        let variable = |other: &NodeIx| artifact_variable(graph.node(*other).id.as_str());
        let near = |name: &String| found.iter().any(|other| variable(other) == *name);
        if !mentioned.iter().all(near) {
            let far = graph.ancestors(node).into_iter().skip(found.len());
            let far = far.filter(|other| mentioned.contains(&variable(other)));
            found.extend(far.collect::<Vec<_>>());
        }
        found
    }

    /// Returns what the provisioning of a lane sees: the graph's variables among it, but for those with
    /// a token that only a node has a value for.
    pub fn of_provisioning(&self, lane: LaneIx) -> Environment {
        let own: Vec<(String, String)> = self
            .graph()
            .parts()
            .env
            .iter()
            .filter_map(|(name, template)| {
                let value = template.render(|piece| self.of_lane(lane, piece), Quote::None).ok()?;
                Some((name.clone(), value))
            })
            .collect();
        let keep: Vec<String> =
            own.iter().map(|(name, _)| name).chain(&self.file.pass_env).cloned().collect();
        let mut environment = self.parent.clone().for_lane(&keep);
        for (name, value) in crate::provision::apply::HOOK_INSTALLERS_OFF {
            environment.set(name, value);
        }
        if let Some(made) = self.made(lane) {
            environment.set("OMG_LANE", self.graph().lane(lane).name.as_str());
            environment.set("OMG_LANE_PATH", made.path.as_os_str());
            environment.set("OMG_BRANCH", made.branch.as_str());
            environment.set("OMG_BASE", made.base.as_str());
        }
        self.set_identity(&mut environment);
        for (name, value) in own {
            environment.set(name, value);
        }
        excludes::apply(&self.dir.lane(&self.graph().lane(lane).name), &mut environment);
        self.set_run(&mut environment, "");
        environment
    }

    /// Returns what a token stands for in a lane, whatever the node.
    fn of_lane(&self, lane: LaneIx, piece: &Piece) -> Option<String> {
        let made = self.made(lane);
        match piece {
            Piece::Text(text) => Some(text.clone()),
            Piece::Input(name) => self.file.inputs.get(name).cloned(),
            Piece::RunId => Some(self.file.run_id.to_string()),
            Piece::LanePath => made.map(|made| made.path.to_string_lossy().into_owned()),
            Piece::LaneBranch => made.map(|made| made.branch.clone()),
            Piece::LaneBase => made.map(|made| made.base.to_string()),
            Piece::ArtifactPath(_)
            | Piece::ArtifactText(_)
            | Piece::Feedback(_)
            | Piece::OtherLaneBranch(_)
            | Piece::OtherLanePath(_) => None,
        }
    }

    fn set_run(&self, environment: &mut Environment, job: &str) {
        environment.set("OMG_RUN_ID", self.file.run_id.as_str());
        environment.set("OMG_RUN_DIR", self.dir.root().as_os_str());
        environment.set("OMG_JOB", job);
        if let Some(repository) = &self.file.repository {
            let repo = repository.top.as_ref().unwrap_or(&repository.common_dir);
            environment.set("OMG_REPO", repo.as_os_str());
        }
    }

    fn set_identity(&self, environment: &mut Environment) {
        if let Some(identity) = &self.graph().parts().identity {
            for (name, value) in [
                ("GIT_AUTHOR_NAME", &identity.name),
                ("GIT_AUTHOR_EMAIL", &identity.email),
                ("GIT_COMMITTER_NAME", &identity.name),
                ("GIT_COMMITTER_EMAIL", &identity.email),
            ] {
                environment.set(name, value.as_str());
            }
        }
    }

    /// Returns the folder that `node` runs in.
    pub fn folder(
        &self,
        node: NodeIx,
        cwd: Option<&Template>,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<PathBuf, Unrendered> {
        let this = self.graph().node(node);
        let start = match this.lane.and_then(|lane| self.made(lane)) {
            Some(lane) => lane.path.clone(),
            None => match &this.cwd {
                Some(own) => self.file.folder.join(self.render(node, own, Quote::None, read)?),
                None => self.file.folder.clone(),
            },
        };
        match cwd {
            Some(cwd) => Ok(start.join(self.render(node, cwd, Quote::None, read)?)),
            None => Ok(start),
        }
    }
}

/// Returns what a runner's git children see: what its parent had, marked as this run's.
pub fn of_git(parent: &Environment, run: &RunId, dir: &RunDir) -> Environment {
    let mut environment = parent.clone();
    environment.set("OMG_RUN_ID", run.as_str());
    environment.set("OMG_RUN_DIR", dir.root().as_os_str());
    environment
}

/// Returns a name as part of a variable's: upper case, other characters as `_`.
pub fn variable(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}
