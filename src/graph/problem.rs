//! What is wrong with a graph file, where it stands, and how it is shown.
//!
//! Knows positions and words; nothing of YAML or of the grammar.

use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde::Serialize;

/// Lines longer than this many bytes are named but not shown.
const EXCERPT_BYTES_MAX: usize = 400;

/// Spellings are compared for this many problems; a wholly foreign file must not cost n² comparisons.
const SUGGESTIONS_MAX: u32 = 30;

/// One thing wrong with a graph file. Serialises as DESIGN.md section 14 names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// A stable kebab-case name for the kind of problem.
    pub code: &'static str,
    /// Whether the graph can be used all the same.
    pub severity: Severity,
    /// What is wrong, with the value that is; lower case, no full stop.
    pub message: String,
    /// The file, as the caller named it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The way out, where one is known.
    pub hint: Option<String>,
    /// The line it stands in; `None` where that is too long to show.
    #[serde(skip)]
    pub excerpt: Option<Excerpt>,
}

/// Whether a graph with a problem can be used all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It can't.
    Error,
    /// It can.
    Warning,
}

/// A line of a file with a stretch of it marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line without its break.
    pub text: String,
    /// The marked bytes of `text`.
    pub mark: Range<usize>,
}

impl Problem {
    /// Returns the problem of a file that can't be read at all.
    pub fn unreadable(file: String, reason: String) -> Problem {
        Problem {
            code: "unreadable",
            severity: Severity::Error,
            message: reason,
            file,
            line: 1,
            column: 1,
            hint: None,
            excerpt: None,
        }
    }

    /// Sets the way out.
    pub(super) fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Returns the problems as text for people, in the order given, a blank line between two.
pub fn render(problems: &[Problem], color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for problem in problems {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&renderer.render(&[group(problem)]));
        text.push('\n');
        if let Some(hint) = &problem.hint {
            text.push_str(&format!("hint: {hint}\n"));
        }
    }
    text
}

fn group(problem: &Problem) -> Group<'_> {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(problem.message.as_str());
    match &problem.excerpt {
        Some(excerpt) => title.element(
            Snippet::source(excerpt.text.as_str())
                .line_start(problem.line as usize)
                .path(problem.file.as_str())
                .annotation(AnnotationKind::Primary.span(excerpt.mark.clone())),
        ),
        None => title.element(
            Origin::path(problem.file.as_str())
                .line(problem.line as usize)
                .char_column(problem.column as usize),
        ),
    }
}

/// A stretch of one of the files that a [`Report`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pos {
    pub file: u16,
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    /// Bytes of the file's text.
    pub start: u32,
    pub end: u32,
}

/// Where problems are gathered while a file is read, and the files they point into.
#[derive(Debug, Default)]
pub(super) struct Report {
    files: Vec<(String, Arc<str>)>,
    found: Vec<(Pos, Problem)>,
    suggestions: u32,
}

impl Report {
    /// Returns the number by which a [`Pos`] names this file.
    pub fn add_file(&mut self, name: &str, text: &str) -> u16 {
        self.files.push((name.to_owned(), Arc::from(text)));
        (self.files.len() - 1) as u16
    }

    /// Returns the text of a file.
    pub fn text(&self, file: u16) -> Arc<str> {
        self.files[usize::from(file)].1.clone()
    }

    /// Returns `name:line` for a place, for messages that name a second one.
    pub fn place(&self, at: Pos, seen_from: Pos) -> String {
        if at.file == seen_from.file {
            format!("line {}", at.line)
        } else {
            format!("{}:{}", self.files[usize::from(at.file)].0, at.line)
        }
    }

    /// Notes an error and returns it, so that a hint can be given.
    pub fn error(&mut self, code: &'static str, at: Pos, message: impl Into<String>) -> &mut Problem {
        self.add(Severity::Error, code, at, message.into())
    }

    /// Notes a warning and returns it, so that a hint can be given.
    pub fn warning(&mut self, code: &'static str, at: Pos, message: impl Into<String>) -> &mut Problem {
        self.add(Severity::Warning, code, at, message.into())
    }

    /// Returns the known word nearest to `word`, where one is near enough to be meant.
    pub fn nearest<'a>(&mut self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        if self.suggestions == SUGGESTIONS_MAX || word.len() > 200 {
            return None;
        }
        self.suggestions += 1;
        nearest(word, known)
    }

    /// Returns whether nothing that forbids the use of the graph was found.
    pub fn is_clean(&self) -> bool {
        self.found.iter().all(|(_, problem)| problem.severity != Severity::Error)
    }

    /// Returns the problem found last.
    pub fn last(&mut self) -> Option<&mut Problem> {
        self.found.last_mut().map(|(_, problem)| problem)
    }

    /// Returns everything found, each once, by file and position.
    pub fn finish(mut self) -> Vec<Problem> {
        self.found.sort_by(|(a_at, a), (b_at, b)| {
            let key = |at: &Pos, problem: &Problem| (at.file, at.start, problem.severity, problem.code);
            key(a_at, a).cmp(&key(b_at, b)).then_with(|| a.message.cmp(&b.message))
        });
        let mut problems: Vec<Problem> = self.found.into_iter().map(|(_, problem)| problem).collect();
        problems.dedup();
        problems
    }

    /// Returns what was found under one code, each once, by file and position.
    pub fn finish_only(mut self, code: &'static str) -> Vec<Problem> {
        self.found.retain(|(_, problem)| problem.code == code);
        self.finish()
    }

    fn add(&mut self, severity: Severity, code: &'static str, at: Pos, message: String) -> &mut Problem {
        let (file, text) = &self.files[usize::from(at.file)];
        let problem = Problem {
            code,
            severity,
            message,
            file: file.clone(),
            line: at.line,
            column: at.column,
            hint: None,
            excerpt: excerpt(text, at),
        };
        self.found.push((at, problem));
        let (_, problem) = self.found.last_mut().expect("just pushed");
        problem
    }
}

/// Returns the word of `known` nearest to `word`, where one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let most = (length / 3).max(1);
    let lower = word.to_lowercase();
    known
        .into_iter()
        .filter(|other| other.chars().count().abs_diff(length) <= most && *other != word)
        .map(|other| (strsim::damerau_levenshtein(&lower, &other.to_lowercase()), other))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

/// Returns words as a list for people: `` `a`, `b` or `c` ``.
pub(super) fn list_or<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn excerpt(text: &str, at: Pos) -> Option<Excerpt> {
    let (start, end) = (at.start as usize, at.end as usize);
    // Bytes are searched, not characters: the windows may cut one in half.
    let bytes = text.as_bytes();
    let from = start.saturating_sub(EXCERPT_BYTES_MAX);
    let begin = match bytes[from..start].iter().rposition(|byte| *byte == b'\n') {
        Some(found) => from + found + 1,
        None if from == 0 => 0,
        None => return None,
    };
    let until = (start + EXCERPT_BYTES_MAX).min(bytes.len());
    let stop = match bytes[start..until].iter().position(|byte| *byte == b'\n') {
        Some(found) => start + found,
        None if until == bytes.len() => until,
        None => return None,
    };
    let line = text[begin..stop].trim_end_matches('\r');
    // A token's length is that of its text; where the file spells it with escapes, the end may be off.
    let boundary = |at: usize| (at.min(line.len())..line.len()).find(|at| line.is_char_boundary(*at));
    let [mark_start, mark_end] =
        [start, end.clamp(start, stop)].map(|at| boundary(at - begin).unwrap_or(line.len()));
    Some(Excerpt { text: line.to_owned(), mark: mark_start..mark_end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        report.add_file("ci.yaml", "name: x\r\nnodes: [{id: ä, depends_on: [lnit]}]\n");
        report
    }

    #[test]
    fn a_problem_shows_its_place_its_line_and_the_way_out() {
        let mut report = report();
        let at = Pos { file: 0, line: 2, column: 30, start: 39, end: 43 };
        report
            .error("unknown-node", at, "node `ä` depends on `lnit`, which is not in this graph")
            .hint("did you mean `lint`?");
        let text = render(&report.finish(), false);
        let expected = "\
error: node `ä` depends on `lnit`, which is not in this graph
 --> ci.yaml:2:30
  |
2 | nodes: [{id: ä, depends_on: [lnit]}]
  |                              ^^^^
hint: did you mean `lint`?
";
        assert_eq!(text, expected);
    }

    #[test]
    fn colour_is_asked_for() {
        let mut report = report();
        report.warning("w", Pos { file: 0, line: 1, column: 1, start: 0, end: 4 }, "m");
        let problems = report.finish();
        assert!(render(&problems, true).contains('\u{1b}'));
        assert!(!render(&problems, false).contains('\u{1b}'));
    }

    #[test]
    fn json_has_exactly_the_fields_of_the_contract() {
        let mut report = report();
        report.error("c", Pos { file: 0, line: 1, column: 7, start: 6, end: 7 }, "m");
        assert_eq!(
            serde_json::to_string(&report.finish()).unwrap(),
            r#"[{"code":"c","severity":"error","message":"m","file":"ci.yaml","line":1,"column":7,"hint":null}]"#
        );
    }

    #[test]
    fn a_line_too_long_to_show_is_still_named() {
        let mut report = Report::default();
        let file = report.add_file("one.json", &"x".repeat(100_000));
        report.error("c", Pos { file, line: 1, column: 50_001, start: 50_000, end: 50_001 }, "m");
        let text = render(&report.finish(), false);
        assert!(text.contains("one.json:1:50001"), "{text}");
        assert!(text.len() < 200, "{text}");
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        assert_eq!(nearest("lnit", ["build", "lint"]), Some("lint"));
        assert_eq!(nearest("depend_on", ["depends_on", "id"]), Some("depends_on"));
        assert_eq!(nearest("Build", ["build"]), Some("build"));
        assert_eq!(nearest("deploy", ["build", "lint"]), None);
    }

    #[test]
    fn words_are_listed_for_people() {
        assert_eq!(list_or(["a", "b", "c"]), "`a`, `b` or `c`");
        assert_eq!(list_or(["a"]), "`a`");
    }
}
