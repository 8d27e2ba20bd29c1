//! What is wrong with a graph file, and where it stands.
//!
//! Knows positions and words; nothing of YAML or of the grammar. How it is shown is `show`'s.

use std::sync::Arc;

use serde::Serialize;

use super::code::Code;
use super::excerpt::{Excerpt, clip, excerpt};
use super::source::FILE_BYTES_MAX;

/// Problems that are kept of one graph; a wholly foreign file must not fill the memory.
const PROBLEMS_MAX: usize = 10_000;

/// Longest message and hint, in bytes. Values are clipped where they are put in; this is for the rest.
const MESSAGE_BYTES_MAX: usize = 4_000;

/// Work spent on spellings, in characters compared with characters; a wholly foreign file must not
/// cost n² comparisons.
const COMPARED_MAX: usize = 20_000_000;

/// One thing wrong with a graph file. Serialises as DESIGN.md section 14 names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The kind of problem: a stable word.
    pub code: Code,
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
    /// The line it stands in, where the problem has a place in the text.
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

impl Problem {
    /// Returns the problem of a file that can't be read at all.
    pub fn unreadable(file: String, reason: String) -> Problem {
        Problem::whole(Code::Unreadable, file, reason)
    }

    /// Returns the problem of a file that has more bytes than are read.
    pub fn too_large(file: String, bytes: u64) -> Problem {
        let message = format!("the file has {bytes} bytes; a graph may have {FILE_BYTES_MAX} (8 MiB)");
        Problem::whole(Code::FileTooLarge, file, message)
    }

    /// Returns the problem of a file whose bytes are no UTF-8, at the first that is not.
    pub fn not_utf8(file: String, bytes: &[u8]) -> Problem {
        if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = bytes {
            let mut problem = Problem::whole(Code::NotText, file, "the file is UTF-16, not UTF-8".into());
            problem.hint("save it as UTF-8");
            return problem;
        }
        // What is wrong is replaced; up to there both texts are alike.
        let valid = bytes.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(valid + 1_000)]);
        let at = Pos::of_offset(0, &text, valid);
        let mut problem =
            Problem::whole(Code::NotText, file, format!("the byte 0x{:02x} is not UTF-8 here", bytes[valid]));
        problem.hint("save the file as UTF-8");
        Problem { line: at.line, column: at.column, excerpt: Some(excerpt(&text, at)), ..problem }
    }

    fn whole(code: Code, file: String, message: String) -> Problem {
        let severity = Severity::Error;
        Problem { code, severity, message, file, line: 1, column: 1, hint: None, excerpt: None }
    }

    /// Sets the way out.
    pub(super) fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        self.hint = Some(bounded(hint.into()));
        self
    }
}

/// Returns a message cut in its middle where it is too long for anyone to read.
fn bounded(message: String) -> String {
    if message.len() <= MESSAGE_BYTES_MAX {
        return message;
    }
    let half = MESSAGE_BYTES_MAX / 2;
    let head = (0..=half).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    let tail = (message.len() - half..).find(|at| message.is_char_boundary(*at)).unwrap_or(message.len());
    format!("{} … {}", &message[..head], &message[tail..])
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

impl Pos {
    /// Returns the beginning of a file.
    pub fn start_of(file: u16) -> Pos {
        Pos { file, line: 1, column: 1, start: 0, end: 0 }
    }

    /// Returns the place of the character that begins at byte `offset` of a file's text.
    pub fn of_offset(file: u16, text: &str, offset: usize) -> Pos {
        let before = &text[..offset];
        let begin = before.rfind(['\n', '\r']).map_or(0, |found| found + 1);
        let breaks =
            before.matches('\n').count() + before.matches('\r').count() - before.matches("\r\n").count();
        Pos {
            file,
            line: breaks as u32 + 1,
            column: before[begin..].chars().count() as u32 + 1,
            start: offset as u32,
            end: (offset + text[offset..].chars().next().map_or(0, char::len_utf8)) as u32,
        }
    }
}

/// Where problems are gathered while a file is read, and the files they point into.
#[derive(Debug, Default)]
pub(super) struct Report {
    files: Vec<(String, Arc<str>)>,
    found: Vec<(Pos, Problem)>,
    has_errors: bool,
    /// The last of those that are not kept, and how many there are.
    dropped: Option<(Problem, usize)>,
    compared: usize,
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
    pub fn error(&mut self, code: Code, at: Pos, message: impl Into<String>) -> &mut Problem {
        self.add(Severity::Error, code, at, message.into())
    }

    /// Notes a warning and returns it, so that a hint can be given.
    pub fn warning(&mut self, code: Code, at: Pos, message: impl Into<String>) -> &mut Problem {
        self.add(Severity::Warning, code, at, message.into())
    }

    /// Returns the known word nearest to `word`, where one is near enough to be meant.
    pub fn nearest<'a>(&mut self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        // Only a word that is not longer than a name may be is compared at all.
        if self.compared > COMPARED_MAX || word.len() > 200 {
            return None;
        }
        nearest_counted(word, known, &mut self.compared)
    }

    /// Returns whether nothing that forbids the use of the graph was found.
    pub fn is_clean(&self) -> bool {
        !self.has_errors
    }

    /// Notes a problem of a file that could not be read as text.
    pub fn foreign(&mut self, problem: Problem) {
        let file = self.add_file(&problem.file, "");
        self.keep(Pos::start_of(file), problem);
    }

    /// Returns everything found, each once, by file and position.
    pub fn finish(mut self) -> Vec<Problem> {
        self.found.sort_by(|(a_at, a), (b_at, b)| {
            let key = |at: &Pos, problem: &Problem| (at.file, at.start, problem.severity, problem.code);
            key(a_at, a).cmp(&key(b_at, b)).then_with(|| a.message.cmp(&b.message))
        });
        let mut problems: Vec<Problem> = self.found.into_iter().map(|(_, problem)| problem).collect();
        problems.dedup();
        if let Some((last, count)) = self.dropped {
            let message = format!("problems beyond the first {PROBLEMS_MAX} are not listed: {count} more");
            problems.push(Problem::whole(Code::MoreProblems, last.file, message));
        }
        problems
    }

    /// Returns what was found under one code, each once, by file and position.
    pub fn finish_only(mut self, code: Code) -> Vec<Problem> {
        self.found.retain(|(_, problem)| problem.code == code);
        self.finish()
    }

    fn add(&mut self, severity: Severity, code: Code, at: Pos, message: String) -> &mut Problem {
        let (file, text) = &self.files[usize::from(at.file)];
        let is_kept = self.found.len() < PROBLEMS_MAX;
        let problem = Problem {
            code,
            severity,
            message: bounded(message),
            file: file.clone(),
            line: at.line,
            column: at.column,
            hint: None,
            excerpt: is_kept.then(|| excerpt(text, at)),
        };
        self.keep(at, problem)
    }

    fn keep(&mut self, at: Pos, problem: Problem) -> &mut Problem {
        self.has_errors |= problem.severity == Severity::Error;
        if self.found.len() < PROBLEMS_MAX {
            self.found.push((at, problem));
            let (_, problem) = self.found.last_mut().expect("just pushed");
            return problem;
        }
        let count = self.dropped.as_ref().map_or(0, |(_, count)| *count) + 1;
        &mut self.dropped.insert((problem, count)).0
    }
}

/// Returns the word of `known` nearest to `word`, where one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_counted(word, known, &mut 0)
}

/// The same; adds to `compared` what it cost.
fn nearest_counted<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    compared: &mut usize,
) -> Option<&'a str> {
    let length = word.chars().count();
    let most = (length / 3).max(1);
    let lower = word.to_lowercase();
    known
        .into_iter()
        .filter(|other| {
            *compared += 1;
            other.chars().count().abs_diff(length) <= most && *other != word
        })
        .collect::<Vec<_>>()
        .into_iter()
        .map_while(|other| {
            *compared += length * other.len();
            (*compared <= COMPARED_MAX)
                .then(|| (strsim::damerau_levenshtein(&lower, &other.to_lowercase()), other))
        })
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

/// Returns words as a list for people: `` `a`, `b` or `c` ``.
pub(super) fn list_or<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{}`", clip(word))).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::show::render;

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
            .error(Code::UnknownNode, at, "node `ä` depends on `lnit`, which is not in this graph")
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
        report.warning(Code::UnusedLane, Pos { file: 0, line: 1, column: 1, start: 0, end: 4 }, "m");
        let problems = report.finish();
        assert!(render(&problems, true).contains('\u{1b}'));
        assert!(!render(&problems, false).contains('\u{1b}'));
    }

    #[test]
    fn json_has_exactly_the_fields_of_the_contract() {
        let mut report = report();
        report.error(Code::Cycle, Pos { file: 0, line: 1, column: 7, start: 6, end: 7 }, "m");
        assert_eq!(
            serde_json::to_string(&report.finish()).unwrap(),
            r#"[{"code":"cycle","severity":"error","message":"m","file":"ci.yaml","line":1,"column":7,"hint":null}]"#
        );
    }

    #[test]
    fn a_long_line_is_shortened_and_the_place_stays_true() {
        let mut report = Report::default();
        let file = report.add_file("one.json", &"x".repeat(100_000));
        report.error(Code::Cycle, Pos { file, line: 1, column: 50_001, start: 50_000, end: 50_001 }, "m");
        let text = render(&report.finish(), false);
        let side = "x".repeat(60);
        let caret = format!("  | {}^\n", " ".repeat(61));
        assert!(text.contains("one.json:1:50001") && text.ends_with(&caret), "{text}");
        assert!(text.contains(&format!("1 | …{side}x{side}…\n")), "{text}");
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let mut report = report();
        for line in 0..PROBLEMS_MAX as u32 + 3 {
            report
                .error(Code::Cycle, Pos { file: 0, line, column: 1, start: 0, end: 1 }, "m".repeat(5_000))
                .hint("h".repeat(5_000));
        }
        let problems = report.finish();
        assert_eq!(problems.len(), PROBLEMS_MAX + 1);
        let last = &problems[PROBLEMS_MAX];
        assert_eq!((last.code, last.line), (Code::MoreProblems, 1));
        assert!(last.message.contains("not listed: 3 more"), "{}", last.message);
        assert!(problems.iter().all(|problem| problem.message.len() < 4_100));
    }

    #[test]
    fn bytes_that_are_no_text_have_a_place() {
        let place = |bytes: &[u8]| {
            let problem = Problem::not_utf8("g".into(), bytes);
            (problem.line, problem.column, problem.message)
        };
        assert_eq!(place(b"a\r\n\xc3\xa9\xff: 1\n"), (2, 2, "the byte 0xff is not UTF-8 here".into()));
        assert_eq!(place(b"\xff\xfea\0").2, "the file is UTF-16, not UTF-8");
        assert_eq!(place(b"\x80").0, 1);
    }

    #[test]
    fn spellings_cost_a_bounded_amount() {
        let known: Vec<String> = (0..20_000).map(|at| format!("{at:0>64}")).collect();
        let mut report = report();
        for _ in 0..1_000 {
            report.nearest(&"1".repeat(64), known.iter().map(String::as_str));
        }
        assert!(report.compared < COMPARED_MAX + 100_000, "{}", report.compared);
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
