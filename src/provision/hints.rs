//! Set-up files of other tools: named to people, and never run unasked. What they hold was written for
//! another place and another trust.

use std::collections::BTreeMap;

/// A set-up file of another tool.
struct Other {
    /// Its place in the repository.
    place: &'static str,
    /// Whose it is.
    whose: &'static str,
    /// How the command that it would run is found in it.
    command: Command,
}

/// How the command of a set-up file is found.
enum Command {
    /// It can't be told: its steps are no shell commands.
    Untold,
    /// The file is run itself.
    Itself,
    /// At the first of these places in a JSON file: a command, or a list of them.
    Json(&'static [&'static str]),
    /// A target of these names in a makefile; the word is what runs it.
    Target(&'static str),
}

const OTHERS: &[Other] = &[
    Other {
        place: ".cursor/worktrees.json",
        whose: "Cursor's",
        command: Command::Json(&["/setup-worktree-unix", "/setup-worktree"]),
    },
    Other { place: ".cursor/environment.json", whose: "Cursor's", command: Command::Json(&["/install"]) },
    Other { place: "conductor.json", whose: "Conductor's", command: Command::Json(&["/scripts/setup"]) },
    Other { place: ".conductor/settings.toml", whose: "Conductor's", command: Command::Untold },
    Other { place: ".superset/config.json", whose: "Superset's", command: Command::Json(&["/setup"]) },
    Other { place: ".devcontainer/devcontainer.json", whose: "a dev container's", command: Command::Untold },
    Other { place: ".devcontainer.json", whose: "a dev container's", command: Command::Untold },
    Other {
        place: ".github/workflows/copilot-setup-steps.yml",
        whose: "GitHub Copilot's",
        command: Command::Untold,
    },
    Other { place: "Makefile", whose: "make's", command: Command::Target("make") },
    Other { place: "makefile", whose: "make's", command: Command::Target("make") },
    Other { place: "justfile", whose: "just's", command: Command::Target("just") },
    Other { place: "Justfile", whose: "just's", command: Command::Target("just") },
    Other { place: "bin/setup", whose: "the repository's", command: Command::Itself },
    Other { place: "script/bootstrap", whose: "the repository's", command: Command::Itself },
    Other { place: "script/setup", whose: "the repository's", command: Command::Itself },
    Other { place: "scripts/setup.sh", whose: "the repository's", command: Command::Itself },
];

/// Names of targets that set something up.
const TARGETS: [&str; 3] = ["setup", "bootstrap", "deps"];

/// Longest command that a hint quotes, in characters.
const QUOTED_MAX: usize = 120;

/// Returns the files that are looked for, by their place in the repository.
pub fn places() -> impl Iterator<Item = &'static str> {
    OTHERS.iter().map(|other| other.place)
}

/// Returns what is said of the set-up files among `files`, one line each.
pub fn hints(files: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    OTHERS
        .iter()
        .filter_map(|other| {
            let text = String::from_utf8_lossy(files.get(other.place)?);
            let command = command(other, &text)?;
            let way = match command {
                Some(line) if line.chars().count() <= QUOTED_MAX && !line.contains(['\n', '"', '\'']) => {
                    format!("`provision: [auto, \"{line}\"]` in the graph would run it")
                }
                Some(_) | None => "`provision` in the graph can name what it does".to_string(),
            };
            Some(format!("{} is {} set-up, and is not run: {way}", other.place, other.whose))
        })
        .collect()
}

/// Returns the command that a file would run, `None` in it where that can't be told; `None` where the file sets
/// nothing up.
fn command(other: &Other, text: &str) -> Option<Option<String>> {
    match other.command {
        Command::Untold => Some(None),
        Command::Itself => Some(Some(format!("./{}", other.place))),
        Command::Json(places) => {
            let Ok(parsed) = serde_json::from_str::<serde_json::Value>(text) else { return Some(None) };
            let found = places.iter().find_map(|place| parsed.pointer(place))?;
            let list = |items: &Vec<serde_json::Value>| {
                let lines: Option<Vec<&str>> = items.iter().map(serde_json::Value::as_str).collect();
                lines.map(|lines| lines.join(" && "))
            };
            Some(found.as_str().map(str::to_string).or_else(|| list(found.as_array()?)))
        }
        Command::Target(program) => {
            let is_target = |name: &&&str| {
                text.lines().any(|line| {
                    line.strip_prefix(**name).is_some_and(|rest| rest.trim_start().starts_with(':'))
                })
            };
            let name = TARGETS.iter().find(is_target)?;
            Some(Some(format!("{program} {name}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(place: &str, text: &str, expected: &[&str]) {
        let files = BTreeMap::from([(place.to_string(), text.as_bytes().to_vec())]);
        assert_eq!(hints(&files), expected);
    }

    #[test]
    fn set_up_files_are_named_with_what_would_run_them() {
        check(
            ".cursor/worktrees.json",
            r#"{"setup-worktree": ["npm ci", "cp a b"]}"#,
            &[
                ".cursor/worktrees.json is Cursor's set-up, and is not run: `provision: [auto, \"npm ci && cp a b\"]` in the graph would run it",
            ],
        );
        check(
            "conductor.json",
            r#"{"scripts": {"setup": "./setup.sh"}}"#,
            &[
                "conductor.json is Conductor's set-up, and is not run: `provision: [auto, \"./setup.sh\"]` in the graph would run it",
            ],
        );
        check(
            "Makefile",
            "all: x\nsetup :\n\ttrue\n",
            &[
                "Makefile is make's set-up, and is not run: `provision: [auto, \"make setup\"]` in the graph would run it",
            ],
        );
        check(
            ".devcontainer/devcontainer.json",
            "{ // comments\n}",
            &[
                ".devcontainer/devcontainer.json is a dev container's set-up, and is not run: `provision` in the graph can name what it does",
            ],
        );
        check(
            ".cursor/worktrees.json",
            "not JSON",
            &[
                ".cursor/worktrees.json is Cursor's set-up, and is not run: `provision` in the graph can name what it does",
            ],
        );
    }

    #[test]
    fn what_sets_nothing_up_is_not_named() {
        check("Makefile", "all:\n\ttrue\nsetup_x:\n", &[]);
        check("conductor.json", "{}", &[]);
        check("README.md", "setup:\n", &[]);
    }
}
