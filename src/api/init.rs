//! `omg init`: a graph to begin with.
#![expect(clippy::disallowed_methods, reason = "writes the new graph file")]

use std::io::Write;
use std::path::Path;

use super::{Refusal, exit};

/// What a new graph holds: runs as it is in any repository with a commit.
pub const STARTER: &str = r#"# Run it:    omg run graph.yaml
# Check it:  omg lint graph.yaml
name: starter

# Who commits in lanes. Leave it out to use git's own configuration.
identity: {name: omg, email: omg@localhost}

nodes:
  # Each lane is a git worktree of its own, on a branch of its own; both edit at the same time.
  - id: edit-a
    worktree: a
    run: |
      echo "from lane a" > omg-a.txt
      git add omg-a.txt && git commit -q -m "lane a: a first edit"
  - id: edit-b
    worktree: b
    run: |
      echo "from lane b" > omg-b.txt
      git add omg-b.txt && git commit -q -m "lane b: a first edit"

  # A node that waits for both. It runs in your own folder, and only looks.
  - id: report
    depends_on: [edit-a, edit-b]
    run: git log --oneline -1 {{ lanes.a.branch }} && git log --oneline -1 {{ lanes.b.branch }}
"#;

/// Writes a starter graph to `path`. Never over an existing file.
pub fn init(path: &Path) -> Result<(), Refusal> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(STARTER.as_bytes())).map_err(|error| {
        let path = path.display();
        let (message, hint) = match error.kind() {
            std::io::ErrorKind::AlreadyExists => (
                format!("{path} is there already, and is not written over"),
                Some("name another file: `omg init FILE`".to_string()),
            ),
            _ => (format!("{path}: {error}"), None),
        };
        Refusal::new(exit::USAGE, message, hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Trust, load};

    #[test]
    fn the_starter_is_a_graph_that_runs() {
        let loaded = load("graph.yaml", STARTER, &|_| None, Trust::Reviewed).unwrap();
        assert!(loaded.warnings.is_empty() && loaded.graph.parts().later.is_empty());
    }
}
