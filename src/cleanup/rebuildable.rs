//! Which ignored files may go: what a tool can make again. Everything else that git ignores is work.
#![expect(clippy::disallowed_methods, reason = "reads tags and digests inside a lane")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{KnownFile, OverlayFile};
use crate::worktree::known_by;

/// The first bytes of a valid CACHEDIR.TAG (bford.info/cachedir).
const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Returns whether `file`, a path below `tree`, is or lies in a folder that can be made again:
/// `listed` by the receipt of provisioning, tagged as a cache, or of a kind that only tools write.
pub fn is_rebuildable(tree: &Path, file: &Path, listed: &[PathBuf]) -> bool {
    listed.iter().any(|listed| file.starts_with(listed))
        || file
            .ancestors()
            .filter(|part| !part.as_os_str().is_empty())
            .any(|part| is_rebuildable_folder(&tree.join(part)))
}

fn is_rebuildable_folder(folder: &Path) -> bool {
    if !fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir()) {
        return false;
    }
    match folder.file_name().and_then(|name| name.to_str()) {
        Some("node_modules" | "__pycache__") => true,
        Some(".venv") if is_file(&folder.join("pyvenv.cfg")) => true,
        _ => is_tagged(&folder.join("CACHEDIR.TAG")),
    }
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

fn is_tagged(tag: &Path) -> bool {
    let mut start = [0; SIGNATURE.len()];
    is_file(tag)
        && fs::File::open(tag).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == *SIGNATURE
}

/// How a file stands to the overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlaid {
    /// The overlay did not copy it.
    No,
    /// It is as it was copied.
    Unchanged,
    /// It was changed since, or cannot be read.
    Edited,
}

/// Returns how `file`, a path below `tree`, stands to `overlay`.
pub fn overlaid(tree: &Path, file: &Path, overlay: &[OverlayFile]) -> Overlaid {
    let Some(copied) = overlay.iter().find(|copied| copied.path == file) else { return Overlaid::No };
    if holds(&tree.join(file), &copied.sha256) { Overlaid::Unchanged } else { Overlaid::Edited }
}

/// Returns whether provisioning made `file`, a path below `tree`, and it is as that left it. `made` is sorted by path.
pub fn is_as_made(tree: &Path, file: &Path, made: &[KnownFile]) -> bool {
    let found = made.binary_search_by(|known| known.path.as_path().cmp(file));
    found.is_ok_and(|at| known_by(&tree.join(file)).is_ok_and(|now| now == made[at].sha256))
}

fn holds(path: &Path, sha256: &str) -> bool {
    is_file(path) && known_by(path).is_ok_and(|now| now == sha256)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(tree: &Path, file: &str, text: &[u8]) {
        let path = tree.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn only_what_a_tool_makes_again_may_go() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        put(tree, "target/CACHEDIR.TAG", &[SIGNATURE, b"\n# made by cargo"].concat());
        put(tree, "target/debug/x", b"");
        put(tree, "forged/CACHEDIR.TAG", b"Signature: no");
        put(tree, "a/node_modules/m/i.js", b"");
        put(tree, "p/__pycache__/m.pyc", b"");
        put(tree, ".venv/pyvenv.cfg", b"");
        put(tree, "v/.venv/x", b"");
        put(tree, "made/by/provision", b"");
        put(tree, "f/node_modules", b"a file");
        let listed = [PathBuf::from("made")];
        for yes in ["target", "target/debug/x", "a/node_modules", "p/__pycache__/m.pyc", ".venv", "made/by"] {
            assert!(is_rebuildable(tree, Path::new(yes), &listed), "{yes}");
        }
        for no in ["forged", "v/.venv", "f/node_modules", "a", "madeup", "debug.log"] {
            assert!(!is_rebuildable(tree, Path::new(no), &listed), "{no}");
        }
    }

    #[test]
    fn an_overlay_file_is_known_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), ".env", b"abc");
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_string();
        let overlay =
            [OverlayFile { path: ".env".into(), sha256, size: 3, tracked: false, blobs: Vec::new() }];
        let ask = |file: &str| overlaid(folder.path(), Path::new(file), &overlay);
        assert_eq!((ask(".env"), ask("other")), (Overlaid::Unchanged, Overlaid::No));
        put(folder.path(), ".env", b"abd");
        assert_eq!(ask(".env"), Overlaid::Edited);
    }
}
