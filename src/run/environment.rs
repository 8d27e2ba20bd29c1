//! What a node, its `verify` and a lane's provisioning see, and how templates become text.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::RunDir;
use crate::graph::Graph;
use crate::graph::model::{Piece, Template};
use crate::graph::template::Quote;
use crate::ids::{LaneIx, NodeIx, RunId};
use crate::journal::RunFile;
use crate::process::environment::Environment;
use crate::schedule::state::MadeLane;

/// Most ancestors whose artifacts are all named in a node's environment; of more, only those that it
/// depends on directly are, since an environment has a limit (execve(2)).
const ARTIFACTS_MAX: usize = 512;

/// What the surroundings of a node depend on.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The run.
    pub file: &'a RunFile,
    /// Its folder.
    pub dir: &'a RunDir,
    /// What omg itself was started with.
    pub parent: &'a Environment,
    /// The lanes that were made, by index.
    pub lanes: &'a [Option<MadeLane>],
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
            Piece::ArtifactText(other) => read(&self.dir.result(&graph.node(*other).id)),
            // No arc runs in this build, so it is always the first round.
            Piece::Feedback(_) => Some(String::new()),
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
            own.insert(name.clone(), self.render(node, template, Quote::None, read)?);
        }
        let mut environment = self.parent.for_child(&self.file.pass_env);
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
        self.set_run(&mut environment, job);
        environment.set("OMG_NODE", this.id.as_str());
        environment.set("OMG_ATTEMPT", attempt.to_string());
        let ancestors = graph.ancestors(node);
        for other in &ancestors {
            if let Some(lane) = graph.node(*other).lane
                && let Some(made) = self.made(lane)
            {
                let name = format!("OMG_LANE_{}_BRANCH", variable(graph.lane(lane).name.as_str()));
                environment.set(name, made.branch.as_str());
            }
        }
        let named: Vec<NodeIx> = if ancestors.len() <= ARTIFACTS_MAX {
            ancestors
        } else {
            this.depends_on.iter().map(|dependency| dependency.node).collect()
        };
        for other in named {
            let id = &graph.node(other).id;
            environment.set(format!("OMG_ARTIFACT_{}", variable(id.as_str())), self.dir.result(id));
        }
        Ok(environment)
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
        let mut environment = self.parent.for_child(&self.file.pass_env).for_lane(&keep);
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
