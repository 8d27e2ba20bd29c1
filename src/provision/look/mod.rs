//! A look at an installed tree: whether an install that says it succeeded left what it should have.
//!
//! Exit 0, the tool's own mark and a folder that is there prove nothing by themselves: on a nearly full
//! disk, after a kill and with a leaked setting, each was measured with half a tree or none. So a look
//! compares what the lockfile asks for with what lies on the disk, and names the first hole. Where a lockfile
//! leaves open whether a package belongs here (another platform's, an optional one, a marker that only the
//! installer can decide), its absence is no hole.

mod berry;
mod bun;
mod npm;
mod others;
mod outline;
mod packages;
mod pnpm;
mod submodules;
mod tree;
mod venv;
mod wanted;
mod yarn;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use tree::Ground;

pub use tree::still_whole;

/// What is known about the trees that one kind of installer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// npm: `npm-shrinkwrap.json`, `package-lock.json`, or only `package.json`, against `node_modules`.
    Npm,
    /// pnpm 8 to 11: `pnpm-lock.yaml` against `node_modules`, isolated or hoisted.
    Pnpm,
    /// Yarn 1: `yarn.lock` against `node_modules`.
    YarnClassic,
    /// Yarn 2 and later, by its linker: plug'n'play, `node_modules`, or pnpm's layout.
    YarnBerry,
    /// bun: `bun.lock` against `node_modules`; of the binary `bun.lockb` only what the manifest names.
    Bun,
    /// A `.venv`: each distribution whole by its own record, and those there that `uv.lock`, else
    /// `poetry.lock`, else `requirements.txt`, else `pyproject.toml` asks for.
    Venv,
    /// The same, with `poetry.lock` as what is asked for.
    Poetry,
    /// Git submodules: each one of the index checked out at its commit, and those inside them.
    Submodules,
    /// Git LFS: no tracked file is still the pointer to its content.
    Lfs,
    /// Composer: `composer.lock` against what it says of itself in `vendor`.
    Composer,
    /// Bundler: `Gemfile.lock` against gems inside the tree; those of a shared home are not looked at.
    Bundler,
    /// Mix: the folders of `deps`.
    Mix,
    /// .NET: what `dotnet restore` says of itself in each project's `obj`.
    Dotnet,
    /// Nothing is installed into the tree.
    Nothing,
}

/// A file that an install left and that belongs to its proof.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Witness {
    /// Its place, relative to the root that was looked at; of links, the place that they lead to.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// What an installed tree lacks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Hole {
    /// The file that the tool writes last is not there.
    #[error("`{}`, which is written when an install is complete, is not there", .path.display())]
    NoMark {
        /// Where it would be.
        path: PathBuf,
    },
    /// Something that was asked for is not there.
    #[error("{what} is not installed: `{}` is not there", .path.display())]
    Missing {
        /// What was asked for.
        what: String,
        /// Where it would be.
        path: PathBuf,
    },
    /// A file without content, or a folder without files.
    #[error("`{}` is empty", .path.display())]
    Empty {
        /// Where it is.
        path: PathBuf,
    },
    /// Another version than the lockfile's.
    #[error("{package} {found} is installed, and the lockfile has {wanted}")]
    OtherVersion {
        /// Whose.
        package: String,
        /// The lockfile's.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// A file of another size than was recorded.
    #[error("`{}` has {found} bytes, and {wanted} were recorded", .path.display())]
    OtherSize {
        /// Where it is.
        path: PathBuf,
        /// What was recorded, in bytes.
        wanted: u64,
        /// What is there, in bytes.
        found: u64,
    },
    /// Something else stands where a folder should.
    #[error("`{}` is not a folder", .path.display())]
    NotAFolder {
        /// Where it is.
        path: PathBuf,
    },
    /// A link stands where a folder of the lane's own should, so that an install would write elsewhere.
    #[error("`{}` is a symbolic link, and what is installed would lie elsewhere", .path.display())]
    Link {
        /// Where it is.
        path: PathBuf,
    },
    /// Something leads out of the tree.
    #[error("`{}` leads to `{}`, which is not part of this tree", .path.display(), .prefix.display())]
    Outside {
        /// What does.
        path: PathBuf,
        /// Where to.
        prefix: PathBuf,
    },
    /// A file that can't be read, or is not what its name says.
    #[error("`{}` can't be read: {detail}", .path.display())]
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// Why.
        detail: String,
    },
}

/// Returns the files that prove the install at `root` whole, by path; none where nothing is installed into
/// the tree. Reads lockfiles and every manifest of an installed package. Errors: the first hole found.
pub fn look(look: Look, root: &Path) -> Result<Vec<Witness>, Hole> {
    let mut ground = Ground::new(root)?;
    match look {
        Look::Npm => npm::look(&mut ground)?,
        Look::Pnpm => pnpm::look(&mut ground)?,
        Look::YarnClassic => yarn::look(&mut ground)?,
        Look::YarnBerry => berry::look(&mut ground)?,
        Look::Bun => bun::look(&mut ground)?,
        Look::Venv => venv::look(&mut ground, venv::Asker::Any)?,
        Look::Poetry => venv::look(&mut ground, venv::Asker::Poetry)?,
        Look::Submodules => submodules::look(&mut ground)?,
        Look::Lfs => submodules::look_lfs(&mut ground)?,
        Look::Composer => others::composer(&mut ground)?,
        Look::Bundler => others::bundler(&mut ground)?,
        Look::Mix => others::mix(&mut ground)?,
        Look::Dotnet => others::dotnet(&mut ground)?,
        Look::Nothing => {}
    }
    Ok(ground.witnesses())
}

#[cfg(test)]
mod berry_tests;
#[cfg(test)]
mod node_tests;
#[cfg(test)]
mod other_tests;
#[cfg(test)]
mod python_tests;
#[cfg(test)]
mod tests;
