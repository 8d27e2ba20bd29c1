//! What the log of a CI system makes folds and annotations of.
//!
//! GitHub reads commands out of anything that a step prints, so what a node printed is fenced: the reading of
//! commands is switched off round it, by a word that the node can't know.

use crate::view::{RunView, table};

/// Where a node stands in the graph file, as the CI system names files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The file, relative to what was checked out where it lies in there.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
}

/// Returns the command that marks a spot with an error in GitHub's view of a change.
pub fn github_error(spot: &Spot, title: &str, message: &str) -> String {
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    format!(
        "::error file={},line={},title={}::{}",
        property(&spot.file),
        spot.line,
        property(title),
        data(message)
    )
}

/// Escapes text for the data of a command: GitHub undoes it.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Returns lines as a fold of GitHub's, with no command of theirs heeded. `word` must be one that who made
/// the lines can't know.
pub fn github_group(title: &str, lines: &[String], word: &str) -> Vec<String> {
    let head = [format!("::group::{}", data(title)), format!("::stop-commands::{word}")];
    let foot = [format!("::{word}::"), "::endgroup::".to_string()];
    head.into_iter().chain(lines.iter().cloned()).chain(foot).collect()
}

/// Returns a line of ours in which a node's words may stand, with nothing in it that GitHub takes for a
/// command: the one form counts anywhere in a line, the other at its start.
pub fn github_line(line: &str) -> String {
    let line = line.replace("##[", "##\u{200b}[").replace(['\r', '\n'], " ");
    if line.trim_start().starts_with("::") { format!("\u{200b}{}", line.trim_start()) } else { line }
}

/// Returns lines as a collapsed section of GitLab's; `at` is the time in seconds since 1970.
pub fn gitlab_section(name: &str, title: &str, lines: &[String], at: i64) -> Vec<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let clear = "\r\u{1b}[0K";
    let head = format!("\u{1b}[0Ksection_start:{at}:{name}[collapsed=true]{clear}{title}");
    let foot = format!("\u{1b}[0Ksection_end:{at}:{name}{clear}");
    // A line of a node's that begins a section of its own would fold what follows it.
    let inert = |line: &String| {
        line.replace("section_start:", "section start:").replace("section_end:", "section end:")
    };
    [head].into_iter().chain(lines.iter().map(inert)).chain([foot]).collect()
}

/// Returns a run's end as GitHub's page of a job shows it: Markdown.
pub fn github_summary(view: &RunView) -> String {
    let cell = |text: &str| {
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let marks = "\\`*_{}[]()#+!|~";
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace("://", ":&#47;/");
        text.chars()
            .flat_map(|c| marks.contains(c).then_some('\\').into_iter().chain([c]))
            .collect::<String>()
    };
    let mut text = format!("### omg: {} {}\n\n", cell(&view.graph), view.status.word());
    text += "| node | state | attempts | time | lane | |\n|---|---|--:|--:|---|---|\n";
    for node in table::listed(view) {
        let row = [
            cell(&node.id),
            node.state.to_string(),
            node.attempts.to_string(),
            node.duration_ms.map(crate::view::style::duration).unwrap_or_default(),
            cell(node.lane.as_deref().unwrap_or_default()),
            cell(&table::why(node)),
        ];
        text += &format!("| {} |\n", row.join(" | "));
    }
    if let Some(rest) = table::unlisted(view) {
        text += &format!("\n{rest}\n");
    }
    for lane in view.lanes.iter().filter(|lane| lane.state == "kept") {
        let note = lane.cleanup.as_ref().and_then(|cleanup| cleanup.note.as_deref()).unwrap_or_default();
        text += &format!("\n- lane **{}** on `{}`: {}\n", cell(&lane.name), cell(&lane.branch), cell(note));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_nodes_ends_an_annotation_early() {
        let spot = Spot { file: "a,b:c.yaml".into(), line: 3 };
        assert_eq!(
            github_error(&spot, "x: y", "50%\n::error::z"),
            "::error file=a%2Cb%3Ac.yaml,line=3,title=x%3A y::50%25%0A::error::z"
        );
    }

    #[test]
    fn a_nodes_lines_give_no_commands() {
        let lines = github_group("log", &["::set-env name=PATH::x".into()], "w0rd");
        assert_eq!(
            lines,
            ["::group::log", "::stop-commands::w0rd", "::set-env name=PATH::x", "::w0rd::", "::endgroup::"]
        );
        for line in ["::error::x", "  ::error::x", "a ##[error]x", "a\n::error::x"] {
            let shown = github_line(line);
            assert!(
                !shown.trim_start().starts_with("::") && !shown.contains("##[") && !shown.contains('\n'),
                "{shown}"
            );
        }
        assert_eq!(github_line("a: passed"), "a: passed");
    }

    #[test]
    fn a_section_has_one_name_and_one_end() {
        let lines = gitlab_section("a/b c", "log of a", &["section_end:1:a_b_c".into()], 7);
        assert_eq!(lines[0], "\u{1b}[0Ksection_start:7:a_b_c[collapsed=true]\r\u{1b}[0Klog of a");
        assert_eq!(lines[1], "section end:1:a_b_c");
        assert_eq!(lines[2], "\u{1b}[0Ksection_end:7:a_b_c\r\u{1b}[0K");
    }
}
