//! Trees made by hand, each after a real one of the tool that it stands for.
#![expect(clippy::disallowed_methods, reason = "tests make trees")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Hole, Look, Witness, look, still_whole};

pub(super) struct Tree(tempfile::TempDir);

impl Tree {
    pub fn new(files: &[(&str, &str)]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        files.iter().for_each(|(path, text)| tree.put(path, text));
        tree
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    /// Puts a Node package.
    pub fn package(&self, folder: &str, version: &str) {
        let name = folder.rsplit("node_modules/").next().unwrap();
        self.put(&format!("{folder}/package.json"), &format!(r#"{{"name":"{name}","version":"{version}"}}"#));
    }

    pub fn link(&self, path: &str, target: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        symlink(target, self.at(path)).unwrap();
    }

    pub fn gone(&self, path: &str) {
        match fs::symlink_metadata(self.at(path)).unwrap().is_dir() {
            true => fs::remove_dir_all(self.at(path)).unwrap(),
            false => fs::remove_file(self.at(path)).unwrap(),
        }
    }

    pub fn rename(&self, from: &str, to: &str) {
        fs::rename(self.at(from), self.at(to)).unwrap();
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn empty(&self, path: &str) {
        self.gone(path);
        fs::create_dir(self.at(path)).unwrap();
    }

    pub fn look(&self, kind: Look) -> Result<Vec<Witness>, Hole> {
        look(kind, self.0.path())
    }

    /// The look passes, and so does a glance at its witnesses.
    #[track_caller]
    pub fn whole(&self, kind: Look) -> Vec<Witness> {
        let witnesses = self.look(kind).unwrap_or_else(|hole| panic!("{hole}"));
        assert_eq!(still_whole(self.0.path(), &witnesses), Ok(()));
        witnesses
    }

    #[track_caller]
    pub fn missing(&self, kind: Look, path: &str) {
        match self.look(kind) {
            Err(Hole::Missing { path: found, .. }) => assert_eq!(found, Path::new(path)),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn is_empty(&self, kind: Look, path: &str) {
        assert_eq!(self.look(kind), Err(Hole::Empty { path: path.into() }));
    }

    #[track_caller]
    pub fn no_mark(&self, kind: Look, path: &str) {
        assert_eq!(self.look(kind), Err(Hole::NoMark { path: path.into() }));
    }

    #[track_caller]
    pub fn other_version(&self, kind: Look, package: &str) {
        assert!(
            matches!(self.look(kind), Err(Hole::OtherVersion { package: found, .. }) if found == package),
            "{:?}",
            self.look(kind)
        );
    }

    #[track_caller]
    pub fn unreadable(&self, kind: Look, path: &str) {
        assert!(
            matches!(self.look(kind), Err(Hole::Unreadable { path: found, .. }) if found == Path::new(path)),
            "{:?}",
            self.look(kind)
        );
    }
}
