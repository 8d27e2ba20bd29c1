//! The text of a file as a tree with a place for everything in it.
//!
//! The only file that knows the YAML crate. It reads parser events rather than serde values: only so
//! does every scalar keep its spelling (`version: 1.10`), every duplicate both its places, and every
//! alias its target by reference, which leaves an alias bomb nothing to multiply.

use std::collections::BTreeMap;
use std::rc::Rc;

use indexmap::IndexSet;
use serde_yaml::granit_parser::{
    ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, Span, StructureStyle, Tag,
};

use super::code::Code;
use super::excerpt::clip;
use super::problem::{Pos, Problem, Report};
use super::tree::{Entry, Size, Tree, Value, Word};

/// Largest file that is read, in bytes: 8 MiB.
pub const FILE_BYTES_MAX: usize = 8 << 20;

/// Deepest nesting, aliases included. The grammar needs seven; trees are dropped by recursion.
const HEIGHT_MAX: u16 = 100;

/// Longest text that is kept once for all its places, in bytes.
const WORD_BYTES_MAX: usize = 64;

/// Most values, keys among them, that a file may hold. No graph of 8 MiB that runs anything has as many.
const VALUES_MAX: u32 = 2_500_000;

/// Most values that aliases may repeat, in all.
const REPEATED_VALUES_MAX: u32 = 1_000_000;

/// Most text that aliases may repeat, in bytes.
const REPEATED_BYTES_MAX: u32 = 64 << 20;

/// Returns the tree of one file, or `None` where its YAML can't be read; problems go to `report`.
///
/// Duplicate keys are noted and reading goes on; anything else that is wrong ends it.
pub(super) fn parse(report: &mut Report, name: &str, text: &str) -> Option<Rc<Tree>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > FILE_BYTES_MAX {
        report.foreign(Problem::too_large(name.to_owned(), text.len() as u64));
        return None;
    }
    let file = report.add_file(name, text);
    if let Some((offset, c)) = text.char_indices().find(|(_, c)| is_no_text(*c)) {
        let message = format!("the character U+{:04X} has no place in a text file", u32::from(c));
        report
            .error(Code::NotText, Pos::of_offset(file, text, offset), message)
            .hint("between double quotes YAML writes it as an escape, such as `\\e`");
        return None;
    }
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.emit_unresolved_aliases = true;
    let mut builder = Builder {
        report,
        file,
        text,
        has_tabs: text.contains('\t'),
        flow_depth: 0,
        frames: Vec::new(),
        anchors: BTreeMap::new(),
        words: IndexSet::new(),
        values: 0,
        repeated: Size::default(),
        documents: 0,
        root: None,
    };
    let mut parser = Parser::new_from_str_with_options(text, options);
    while let Some(next) = parser.next_event() {
        let taken = match next {
            Ok((event, span)) => builder.take(event, span),
            Err(error) => builder.syntax_error(&error),
        };
        taken.ok()?;
    }
    let root = builder.root.take().filter(|root| !root.is_null());
    if root.is_none() {
        report.error(Code::EmptyFile, Pos::start_of(file), "the file is empty");
    }
    root
}

/// Returns whether YAML forbids a character in a file (production `c-printable` of YAML 1.2).
fn is_no_text(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}')
}

/// The reading ends; why is in the report.
#[derive(Debug)]
struct Stop;

/// A list or map that is not closed yet.
#[derive(Debug)]
struct Frame {
    at: Pos,
    anchor: usize,
    flow: bool,
    open: Open,
}

#[derive(Debug)]
enum Open {
    List(Vec<Rc<Tree>>),
    Map { key: Option<Rc<Tree>>, pairs: Vec<(Rc<Tree>, Rc<Tree>)> },
}

struct Builder<'r, 't> {
    report: &'r mut Report,
    file: u16,
    text: &'t str,
    has_tabs: bool,
    flow_depth: u32,
    frames: Vec<Frame>,
    anchors: BTreeMap<usize, Rc<Tree>>,
    /// Short texts that came before: ids and keys come again and again.
    words: IndexSet<Word>,
    values: u32,
    repeated: Size,
    documents: u32,
    root: Option<Rc<Tree>>,
}

impl Builder<'_, '_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Stop> {
        let at = self.pos(span);
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return self.stop(
                        Code::SecondDocument,
                        at,
                        "a graph is one document; a second one begins here",
                    );
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.check_indentation(at)?;
                let mut plain = style == ScalarStyle::Plain;
                if let Some(tag) = tag {
                    self.check_tag(&tag, at)?;
                    plain &= tag.core_suffix() != Some("str");
                }
                let text = self.word(&text);
                self.put(Tree::made(at, Value::Text { text, plain }), anchor)
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.open(at, anchor, style == StructureStyle::Flow, tag.as_deref(), Open::List(Vec::new()))
            }
            Event::MappingStart(style, anchor, tag) => {
                let open = Open::Map { key: None, pairs: Vec::new() };
                self.open(at, anchor, style == StructureStyle::Flow, tag.as_deref(), open)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.frames.pop() else { return Ok(()) };
                self.flow_depth -= u32::from(frame.flow);
                let value = match frame.open {
                    Open::List(items) => Value::List(items.into()),
                    Open::Map { pairs, .. } => Value::Map(self.close_map(pairs).into()),
                };
                self.put(Tree::made(frame.at, value), frame.anchor)
            }
            Event::Alias(anchor) => self.repeat(anchor, at),
            Event::UnresolvedAlias(name) => {
                let name = clip(&name);
                let message = format!("`*{name}` has no anchor `&{name}` before it");
                self.stop(Code::UnknownAnchor, at, message)
            }
            // Where streams and documents begin and end, and what the options leave out.
            _ => Ok(()),
        }
    }

    /// Returns a text, the same for the same words.
    fn word(&mut self, text: &str) -> Word {
        if text.len() > WORD_BYTES_MAX {
            return text.into();
        }
        if let Some(known) = self.words.get(text) {
            return known.clone();
        }
        let word = Word::from(text);
        self.words.insert(word.clone());
        word
    }

    fn open(
        &mut self,
        at: Pos,
        anchor: usize,
        flow: bool,
        tag: Option<&Tag>,
        open: Open,
    ) -> Result<(), Stop> {
        self.check_indentation(at)?;
        if let Some(tag) = tag {
            self.check_tag(tag, at)?;
        }
        if self.frames.len() >= usize::from(HEIGHT_MAX) {
            return self.too_deep(at);
        }
        // What a container covers is of no use to a reader; its first character says where it is.
        let at = Pos { end: at.start, ..at };
        self.flow_depth += u32::from(flow);
        self.frames.push(Frame { at, anchor, flow, open });
        Ok(())
    }

    fn repeat(&mut self, anchor: usize, at: Pos) -> Result<(), Stop> {
        let Some(tree) = self.anchors.get(&anchor).cloned() else {
            return self.stop(Code::AliasInItself, at, "an alias stands inside its own anchor");
        };
        self.repeated.add(tree.size);
        if self.repeated.values > REPEATED_VALUES_MAX {
            let message = format!("aliases repeat more than {REPEATED_VALUES_MAX} values");
            return self.stop(Code::AliasBomb, at, message);
        }
        if self.repeated.bytes > REPEATED_BYTES_MAX {
            let message = format!("aliases repeat more than {} MiB of text", REPEATED_BYTES_MAX >> 20);
            return self.stop(Code::AliasBomb, at, message);
        }
        self.put(tree, 0)
    }

    fn put(&mut self, tree: Rc<Tree>, anchor: usize) -> Result<(), Stop> {
        let at = tree.at;
        self.values += 1;
        if self.values > VALUES_MAX {
            let message = format!("the file holds more than {VALUES_MAX} values");
            return self.stop(Code::TooManyValues, at, message);
        }
        if self.frames.len() + usize::from(tree.height) > usize::from(HEIGHT_MAX) {
            return self.too_deep(at);
        }
        if anchor != 0 {
            self.anchors.insert(anchor, tree.clone());
        }
        match self.frames.last_mut().map(|frame| &mut frame.open) {
            None => self.root = Some(tree),
            Some(Open::List(items)) => items.push(tree),
            Some(Open::Map { key, pairs }) => match key.take() {
                Some(key) => pairs.push((key, tree)),
                None if matches!(tree.value, Value::Text { .. }) => *key = Some(tree),
                None => {
                    return self.stop(Code::BadKey, at, format!("a key must be text, not {}", tree.what()));
                }
            },
        }
        Ok(())
    }

    /// Applies `<<` (own keys win, then the earlier of several maps) and reports keys that come twice.
    fn close_map(&mut self, pairs: Vec<(Rc<Tree>, Rc<Tree>)>) -> Vec<Entry> {
        let mut places: BTreeMap<Word, Pos> = BTreeMap::new();
        let mut entries = Vec::with_capacity(pairs.len());
        let mut merged: Vec<Rc<Tree>> = Vec::new();
        for (key, value) in pairs {
            let Value::Text { text, plain } = &key.value else { continue };
            if let Some(first) = places.get(text) {
                let message =
                    format!("the key `{}` comes twice; the first is at line {}", clip(text), first.line);
                self.report.error(Code::DuplicateKey, key.at, message);
                continue;
            }
            places.insert(text.clone(), key.at);
            if !plain || *text != "<<" {
                entries.push(Entry { key: text.clone(), at: key.at, value });
                continue;
            }
            match &value.value {
                Value::Map(_) => merged.push(value),
                Value::List(maps) if maps.iter().all(|map| map.entries().is_some()) => {
                    merged.extend(maps.iter().cloned());
                }
                _ => {
                    let message = format!("`<<` takes a map or a list of maps, not {}", value.what());
                    self.report.error(Code::BadMerge, value.at, message);
                }
            }
        }
        for entry in merged.iter().filter_map(|map| map.entries()).flatten() {
            if !places.contains_key(&entry.key) {
                places.insert(entry.key.clone(), entry.at);
                entries.push(entry.clone());
            }
        }
        entries
    }

    fn check_tag(&mut self, tag: &Tag, at: Pos) -> Result<(), Stop> {
        match tag.core_suffix() {
            Some("str" | "int" | "float" | "bool" | "null" | "map" | "seq") => Ok(()),
            _ => self.stop(
                Code::YamlTag,
                at,
                format!("the tag `{}` means nothing in a graph", clip(&tag.original().to_string())),
            ),
        }
    }

    /// The parser lets some tabs through that people mean as indentation.
    fn check_indentation(&mut self, at: Pos) -> Result<(), Stop> {
        if !self.has_tabs || self.flow_depth > 0 {
            return Ok(());
        }
        let start = at.start as usize;
        let begin = self.text[..start].rfind(['\n', '\r']).map_or(0, |found| found + 1);
        match tab_in_indentation(&self.text[begin..start]) {
            Some(column) => self.stop_at_tab(begin, at.line, column),
            None => Ok(()),
        }
    }

    /// A tab makes the parser fail somewhere near; the tab itself is the better place.
    fn syntax_error(&mut self, error: &ScanError) -> Result<(), Stop> {
        let at = self.pos(Span::empty(*error.marker()));
        if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
            return self.too_deep(at);
        }
        let mut begin = self.text[..at.start as usize].rfind('\n').map_or(0, |found| found + 1);
        for (line, text) in (at.line..).zip(self.text[begin..].split_inclusive('\n')) {
            let is_comment_or_blank = text.trim_start().starts_with('#') || text.trim().is_empty();
            if let (Some(column), false) = (tab_in_indentation(text), is_comment_or_blank) {
                return self.stop_at_tab(begin, line, column);
            }
            if line > at.line && !is_comment_or_blank {
                break;
            }
            begin += text.len();
        }
        let problem = self.report.error(Code::YamlSyntax, at, format!("this is not YAML: {}", error.info()));
        if let ErrorKind::MappingValueNotAllowed = error.kind() {
            problem.hint("text that holds `: ` needs quotes, and the keys of one map begin in one column");
        }
        Err(Stop)
    }

    fn stop_at_tab(&mut self, begin: usize, line: u32, column: usize) -> Result<(), Stop> {
        let start = (begin + column) as u32;
        // Only spaces come before it: bytes are characters.
        let at = Pos { file: self.file, line, column: column as u32 + 1, start, end: start + 1 };
        self.report
            .error(Code::TabIndentation, at, "a tab is used for indentation")
            .hint("indent with spaces; YAML allows no tabs there");
        Err(Stop)
    }

    fn too_deep(&mut self, at: Pos) -> Result<(), Stop> {
        self.stop(Code::TooDeep, at, format!("nested deeper than {HEIGHT_MAX} levels"))
    }

    fn stop(&mut self, code: Code, at: Pos, message: impl Into<String>) -> Result<(), Stop> {
        self.report.error(code, at, message);
        Err(Stop)
    }

    fn pos(&self, span: Span) -> Pos {
        let start = span.start.byte_offset().unwrap_or(0).min(self.text.len());
        let end = span.end.byte_offset().unwrap_or(start).clamp(start, self.text.len());
        Pos {
            file: self.file,
            line: span.start.line() as u32,
            column: span.start.col() as u32 + 1,
            start: start as u32,
            end: end as u32,
        }
    }
}

/// Returns the place of the first tab in the white space that a line begins with.
fn tab_in_indentation(line: &str) -> Option<usize> {
    let indentation = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
    indentation.find('\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Rc<Tree>, String> {
        let mut report = Report::default();
        let root = parse(&mut report, "g.yaml", text);
        let problems = report.finish();
        if problems.is_empty() {
            return root.ok_or_else(|| "neither a tree nor a problem".to_owned());
        }
        let lines: Vec<String> = problems
            .iter()
            .map(|problem| {
                format!("{}:{} {} {}", problem.line, problem.column, problem.code, problem.message)
            })
            .collect();
        Err(lines.join("\n"))
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let found = read(text).map(|_| ()).unwrap_err();
        assert!(found.starts_with(expected), "{found}");
    }

    fn text_of<'a>(tree: &'a Tree, key: &str) -> &'a str {
        tree.entry(key).and_then(|entry| entry.value.text()).unwrap()
    }

    #[test]
    fn scalars_keep_their_spelling() {
        let tree = read("a: 1.10\nb: 010\nc: '~'\nd: !!str 5\n").unwrap();
        assert_eq!(text_of(&tree, "a"), "1.10");
        assert_eq!(text_of(&tree, "b"), "010");
        assert_eq!(text_of(&tree, "c"), "~");
        assert_eq!(tree.entry("d").unwrap().value.plain(), None);
        assert!(read("a: ~\nb:\n").unwrap().entries().unwrap().iter().all(|entry| entry.value.is_null()));
    }

    #[test]
    fn a_byte_order_mark_and_carriage_returns_change_no_position() {
        for text in ["a: 1\nbé: [x, yy]\n", "\u{feff}a: 1\r\nbé: [x, yy]\r\n"] {
            let tree = read(text).unwrap();
            let at = tree.entry("bé").unwrap().value.items().unwrap()[1].at;
            assert_eq!((at.line, at.column, at.end - at.start), (2, 9, 2), "{text:?}");
        }
    }

    #[test]
    fn merge_keys_fill_in_what_is_not_said() {
        let tree = read("x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {c: 3, <<: [*x, *y]}\n").unwrap();
        let z = &tree.entry("z").unwrap().value;
        assert_eq!([text_of(z, "a"), text_of(z, "b"), text_of(z, "c")], ["1", "1", "3"]);
        check_error("a: {<<: 3}\n", "1:9 bad-merge");
    }

    #[test]
    fn one_anchor_may_be_merged_by_many() {
        let mut text = String::from("x: &x {a: 1, b: 2}\nnodes:\n");
        for at in 0..2000 {
            text.push_str(&format!("- {{<<: *x, id: n{at}}}\n"));
        }
        assert_eq!(read(&text).unwrap().entry("nodes").unwrap().value.items().unwrap().len(), 2000);
    }

    #[test]
    fn aliases_multiply_nothing() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for at in 1..30 {
            let uses = vec![format!("*a{}", at - 1); 10].join(", ");
            text.push_str(&format!("a{at}: &a{at} [{uses}]\n"));
        }
        check_error(&text, "6:45 alias-bomb");
        let text = "x".repeat(1 << 20);
        check_error(
            &format!("a: &a {text}\nb: [{}]\n", vec!["*a"; 65].join(", ")),
            "2:261 alias-bomb aliases repeat more than 64 MiB",
        );
        check_error("a: &a [*a]\n", "1:8 alias-in-itself");
        check_error("a: *b\n", "1:4 unknown-anchor `*b` has no anchor");
    }

    #[test]
    fn deep_nesting_is_refused_also_where_aliases_make_it() {
        check_error(&format!("a: {}", "[".repeat(5000)), "1:259 too-deep");
        check_error(&format!("a: {}{}", "[".repeat(200), "]".repeat(200)), "1:103 too-deep");
        check_error(&"- ".repeat(100_000), "1:201 too-deep");
        let mut text = format!("a0: &a0 {}{}\n", "[".repeat(60), "]".repeat(60));
        text.push_str(&format!("a1: {}*a0{}\n", "[".repeat(60), "]".repeat(60)));
        check_error(&text, "1:9 too-deep");
    }

    #[test]
    fn tabs_are_pointed_at() {
        check_error("a:\n\tb: 1\n", "2:1 tab-indentation");
        check_error("a:\n  b: x\n\tc: 1\n", "3:1 tab-indentation");
        check_error("a:\n  - b: x\n  \t c: 1\n", "3:3 tab-indentation");
        for fine in ["a: |\n  x\n  \ty\n", "{\n\t\"a\": [\n\t\t1]\n}\n", "a: 1\n\t# c\nb: 2\n", "a: x\ty\n"] {
            assert!(read(fine).is_ok(), "{fine:?}: {}", read(fine).unwrap_err());
        }
    }

    #[test]
    fn what_is_no_graph_file_is_said_in_own_words() {
        for empty in ["", "\n\n", "# only a comment\n", "---\n", "\u{feff}"] {
            check_error(empty, "1:1 empty-file the file is empty");
        }
        check_error("a: 1\n---\nb: 2\n", "2:1 second-document");
        check_error("a: 'x\n", "1:4 yaml-syntax");
        check_error("a: !worktree x\n", "1:");
        check_error("[a]: 1\n", "1:1 bad-key");
        check_error(&" ".repeat(FILE_BYTES_MAX + 1), "1:1 file-too-large");
    }

    #[test]
    fn every_duplicate_key_is_reported_with_both_places() {
        check_error(
            "a: 1\nb: {c: 1, c: 2}\na: 2\n",
            "2:11 duplicate-key the key `c` comes twice; the first is at line 2\n\
             3:1 duplicate-key the key `a` comes twice; the first is at line 1",
        );
    }
}
