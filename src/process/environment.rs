//! What a child process sees: a pure function of what the parent had.
//!
//! Git's own variables decide which repository a git child works in, so a runner started from a
//! hook would act on the wrong one (facts measured with git 2.47.3, git.md section 6).

use std::ffi::{OsStr, OsString};

use indexmap::IndexMap;

/// An environment: names and values in order, names unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(pub IndexMap<OsString, OsString>);

/// Model keys that no child sees unless they are named (DESIGN.md section 13).
pub const MODEL_KEYS: [&str; 4] =
    ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY"];

/// What points git at a repository, an index, objects or a worktree: `git rev-parse
/// --local-env-vars` without the configuration that a parent injects on purpose, and the four that
/// the list leaves out and that were seen to break a `worktree add`.
const GIT_PLACE: [&str; 19] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REFLOG_ACTION",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
    "GIT_CEILING_DIRECTORIES",
];

/// Dates that would be stamped on every commit of every lane.
const GIT_DATES: [&str; 2] = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"];

/// Names that a hook exports; they are the user's own configuration anywhere else.
const GIT_NAMES: [&str; 4] =
    ["GIT_AUTHOR_EMAIL", "GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_NAME"];

/// What an outer run told the node that we were started in; it is not about ours. Its `OMG_RUN_ID` and
/// `OMG_RUN_DIR` stay until ours take their place: by them what a dead run has left running is found.
const OUTER_RUN: [&str; 8] =
    ["OMG_ATTEMPT", "OMG_BASE", "OMG_BRANCH", "OMG_JOB", "OMG_LANE", "OMG_LANE_PATH", "OMG_NODE", "OMG_REPO"];

/// What redirects a lane's install or build into another place.
const TOOL_PLACE: [&str; 6] =
    ["CARGO_TARGET_DIR", "NODE_ENV", "PYTHONHOME", "PYTHONPATH", "UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV"];

impl Environment {
    /// Returns the value of `name`.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Returns the value of `name` where it is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(OsStr::to_str)
    }

    /// Sets `name`, keeping its place where it had one.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// Takes `name` out. Setting it empty would not do: git reads an empty `GIT_DIR` as a value.
    pub fn remove(&mut self, name: &str) {
        self.0.shift_remove(OsStr::new(name));
    }

    /// Returns whether a git hook started us: git exports its own execution path to hooks only
    /// together with one of its place variables, or a prefix to an alias.
    pub fn is_of_a_git_hook(&self) -> bool {
        ["GIT_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_QUARANTINE_PATH"]
            .iter()
            .any(|name| self.get(name).is_some())
    }

    /// Returns what any child starts from: no variable that points git elsewhere, no injected
    /// dates, no model key that `pass` does not name. Configuration that a parent injects
    /// (`GIT_CONFIG_*`) and identity stay, unless a hook set the identity.
    pub fn for_child(&self, pass: &[String]) -> Environment {
        let from_hook = self.is_of_a_git_hook();
        let mut child = self.clone();
        child.0.retain(|name, _| {
            let name = name.to_string_lossy();
            let name = name.as_ref();
            if pass.iter().any(|passed| passed == name) {
                return true;
            }
            !(GIT_PLACE.contains(&name)
                || GIT_DATES.contains(&name)
                || (from_hook && GIT_NAMES.contains(&name))
                || MODEL_KEYS.contains(&name)
                || OUTER_RUN.contains(&name)
                || ["OMG_ARTIFACT_", "OMG_LANE_", "OMG_PORT"].iter().any(|outer| name.starts_with(outer)))
        });
        child
    }

    /// Returns this without what would redirect a lane's tools, `keep` aside.
    pub fn for_lane(mut self, keep: &[String]) -> Environment {
        self.0.retain(|name, _| {
            let name = name.to_string_lossy();
            let name = name.as_ref();
            keep.iter().any(|kept| kept == name)
                || !(TOOL_PLACE.contains(&name) || name.to_ascii_lowercase().starts_with("npm_config_"))
        });
        self
    }

    /// Returns what git itself gets when we ask it: [`Environment::for_child`], no prompt, messages
    /// in the C locale, and no traces among them.
    pub fn for_git(&self, pass: &[String]) -> Environment {
        let mut child = self.for_child(pass);
        let is_ours = |name: &str| !name.starts_with("GIT_TRACE") && !name.ends_with("_PATHSPECS");
        child.0.retain(|name, _| is_ours(&name.to_string_lossy()));
        child.set("GIT_TERMINAL_PROMPT", "0");
        child.set("LC_ALL", "C");
        child
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Environment(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(environment: &Environment) -> Vec<String> {
        environment.0.keys().map(|name| name.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_child_is_not_pointed_at_another_repository() {
        let parent = Environment::from_iter(
            GIT_PLACE.iter().chain(&GIT_DATES).chain(&MODEL_KEYS).map(|name| (*name, "x")),
        );
        assert_eq!(names(&parent.for_child(&[])), Vec::<String>::new());
    }

    #[test]
    fn what_is_named_passes_and_injected_configuration_stays() {
        let parent = Environment::from_iter([
            ("OPENAI_API_KEY", "k"),
            ("CODEX_API_KEY", "k"),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_AUTHOR_NAME", "me"),
        ]);
        let child = parent.for_child(&["OPENAI_API_KEY".to_string()]);
        assert_eq!(
            names(&child),
            ["OPENAI_API_KEY", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_AUTHOR_NAME"]
        );
    }

    #[test]
    fn what_a_run_is_known_by_reaches_its_git() {
        let parent =
            Environment::from_iter([("OMG_RUN_DIR", "/r"), ("OMG_RUN_ID", "r"), ("OMG_NODE", "outer")]);
        assert_eq!(names(&parent.for_git(&[]))[..2], ["OMG_RUN_DIR", "OMG_RUN_ID"]);
        assert_eq!(names(&parent.for_child(&[])), ["OMG_RUN_DIR", "OMG_RUN_ID"]);
    }

    #[test]
    fn a_hook_hands_on_no_identity() {
        let parent = Environment::from_iter([("GIT_INDEX_FILE", "i"), ("GIT_AUTHOR_NAME", "me")]);
        assert_eq!(names(&parent.for_child(&[])), Vec::<String>::new());
    }

    #[test]
    fn a_lane_keeps_its_tools_at_home() {
        let parent = Environment::from_iter([
            ("PATH", "p"),
            ("VIRTUAL_ENV", "v"),
            ("npm_config_dry_run", "true"),
            ("NPM_CONFIG_OMIT", "dev"),
            ("CARGO_TARGET_DIR", "t"),
        ]);
        let child = parent.for_lane(&["CARGO_TARGET_DIR".to_string()]);
        assert_eq!(names(&child), ["PATH", "CARGO_TARGET_DIR"]);
    }
}
