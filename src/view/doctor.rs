//! What a look at this machine and repository found, and how it is shown.

use serde::Serialize;

use super::style::{Style, printable};

/// Number of the shape of `doctor --json`.
pub const SCHEMA: u32 = 1;

/// What a look at this machine and repository found.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// The shape's number.
    pub schema: u32,
    /// What built the program.
    pub build: String,
    /// In the order in which they were looked at.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What: `git`, `home`, `lanes`, `repository`, `worktrees`, `locks`, `branches`, `run ID` or `lane NAME`.
    pub subject: String,
    /// How it is.
    pub state: State,
    /// What was seen, for people.
    pub detail: String,
    /// What mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// It will keep a run from doing its work.
    Wrong,
}

impl Diagnosis {
    /// Returns whether something is wrong.
    pub fn is_wrong(&self) -> bool {
        self.findings.iter().any(|finding| finding.state == State::Wrong)
    }
}

/// Returns the findings as lines: each subject with what was seen of it, what is wrong with its way out.
pub fn lines(found: &Diagnosis, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let mut last = None;
    for finding in &found.findings {
        if last != Some(&finding.subject) {
            lines.push(style.strong(&finding.subject));
            last = Some(&finding.subject);
        }
        let word = match finding.state {
            State::Ok => "",
            State::Note => "note: ",
            State::Wrong => "wrong: ",
        };
        let word = if finding.state == State::Wrong { style.bad(word) } else { word.to_string() };
        let detail =
            finding.detail.lines().map(|line| printable(line, style)).collect::<Vec<_>>().join("\n    ");
        lines.push(format!("  {word}{detail}"));
        lines.extend(finding.hint.iter().map(|hint| format!("    {hint}")));
    }
    let wrong = found.findings.iter().filter(|finding| finding.state == State::Wrong).count();
    lines.push(String::new());
    lines.push(match wrong {
        0 => "nothing is wrong".into(),
        1 => style.bad("1 thing is wrong"),
        count => style.bad(&format!("{count} things are wrong")),
    });
    lines
}
