//! What a row of the table of package managers says.

use super::cause::Says;
use super::look::Look;

/// What rows of one kind have in common: at most one of them answers for a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Content that git itself does not put into a checkout.
    LargeFiles,
    /// Repositories inside the repository.
    Submodules,
    /// Node.js.
    Node,
    /// Deno.
    Deno,
    /// Python.
    Python,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Ruby.
    Ruby,
    /// PHP.
    Php,
    /// Elixir.
    Elixir,
    /// .NET.
    Dotnet,
    /// The Java virtual machine.
    Jvm,
}

/// When a row applies to a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Git tracks one of its lockfiles.
    Locked,
    /// Git tracks its lockfile, and that holds the first, or the second is tracked too.
    LockedWith(&'static str, &'static str),
    /// Git tracks all of these.
    Tracked(&'static [&'static str]),
    /// A tracked file holds this text.
    Holds(&'static str, &'static str),
    /// `package.json` has dependencies.
    NodeDependencies,
    /// `pyproject.toml` has a `project` table.
    PythonProject,
}

/// What may not happen beside a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Anything may.
    No,
    /// Another step of its kind on this machine: it would damage a cache that all share.
    Cache,
    /// Another step of its kind in this repository: both write its configuration.
    Repository,
}

/// One package manager.
#[derive(Debug)]
pub struct Ecosystem {
    /// Its name.
    pub name: &'static str,
    /// What it excludes and is excluded by.
    pub family: Family,
    /// When it applies.
    pub when: When,
    /// Its lockfiles.
    pub locks: &'static [&'static str],
    /// What it reads besides, wherever it lies below the root: a workspace has many.
    pub manifests: &'static [&'static str],
    /// What changes an install, at the root.
    pub settings: &'static [&'static str],
    /// What is run, through `sh -c` in the root.
    pub command: &'static str,
    /// The program without which there is no use in trying: on the `PATH`, or `./` in the root.
    pub tool: &'static str,
    /// Programs whose versions the outcome depends on, each with the words that make it tell.
    pub versions: &'static [(&'static str, &'static [&'static str])],
    /// What it leaves once it is done, below the root; where that depends on the lockfile, `look` knows.
    pub mark: Option<&'static str>,
    /// How its work is looked at.
    pub look: Look,
    /// Folders that it makes, and can make again.
    pub folders: &'static [&'static str],
    /// Variables set for it.
    pub set: &'static [(&'static str, &'static str)],
    /// Variables that would lead it elsewhere.
    pub unset: &'static [&'static str],
    /// Variables set for the nodes of the lane, unless they have them.
    pub for_nodes: &'static [(&'static str, &'static str)],
    /// What it says when it fails.
    pub says: &'static [Says],
    /// What it says when it did not do all that one would expect, and what to do about that.
    pub remarks: &'static [(&'static str, &'static str)],
    /// Whether what it did is a node's to change from then on: where it is done already, it is not done again.
    pub once: bool,
    /// What may not happen beside it.
    pub alone: Alone,
    /// Whether versions are not pinned.
    pub unpinned: bool,
}

/// What most rows have.
pub(super) const PLAIN: Ecosystem = Ecosystem {
    name: "",
    family: Family::Node,
    when: When::Locked,
    locks: &[],
    manifests: &[],
    settings: &[],
    command: "",
    tool: "",
    versions: &[],
    mark: None,
    look: Look::Nothing,
    folders: &[],
    set: &[],
    unset: &[],
    for_nodes: &[],
    says: &[],
    remarks: &[],
    once: false,
    alone: Alone::No,
    unpinned: false,
};

impl Ecosystem {
    /// Returns the files that it probes in a root.
    pub fn probed(&self) -> impl Iterator<Item = &'static str> {
        let of_condition: &[&str] = match self.when {
            When::Tracked(names) => names,
            When::Holds(..)
            | When::Locked
            | When::LockedWith(..)
            | When::NodeDependencies
            | When::PythonProject => &[],
        };
        self.locks.iter().chain(self.manifests).chain(self.settings).chain(of_condition).copied()
    }
}
