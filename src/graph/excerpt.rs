//! The stretch of a line that a problem shows, and what of a file's text may reach a terminal.

use std::borrow::Cow;
use std::ops::Range;

use super::problem::Pos;

/// Longest line that is shown whole, in bytes.
const LINE_BYTES_MAX: usize = 140;

/// Most bytes of a longer line that are shown on each side of a mark.
const SIDE_BYTES_MAX: usize = 60;

/// Most bytes that are marked: of what is longer, its beginning.
const MARK_BYTES_MAX: usize = 120;

/// What a value is cut to in a message, in characters.
const CLIP_CHARS: usize = 80;

/// A line of a file, or a stretch of a long one, with a part of it marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line without its break; `…` stands where it was cut. Nothing in it commands a terminal.
    pub text: String,
    /// The marked bytes of `text`.
    pub mark: Range<usize>,
    /// Whether `text` begins in the middle of the line.
    pub cut: bool,
}

/// Returns the line that a place stands in, cut to what can be shown.
pub(super) fn excerpt(text: &str, at: Pos) -> Excerpt {
    let (start, end) = (at.start as usize, at.end as usize);
    let (begin, stop) = bounds(text, start, start, LINE_BYTES_MAX);
    let mark_most = (start + MARK_BYTES_MAX).min(stop);
    // A token's length is that of its text; where the file spells it with escapes, the end may be off.
    let mark_end = inwards(text, end.clamp(start, mark_most)).min(stop);
    let is_whole = stop - begin <= LINE_BYTES_MAX && !is_cut_left(text, begin) && !is_cut_right(text, stop);
    let (begin, stop) = if is_whole { (begin, stop) } else { bounds(text, start, mark_end, SIDE_BYTES_MAX) };
    let cut = is_cut_left(text, begin);
    let mut line = String::from(if cut { "…" } else { "" });
    line.push_str(&plain(&text[begin..start]));
    let mark_start = line.len();
    line.push_str(&plain(&text[start..mark_end]));
    let mark = mark_start..line.len();
    line.push_str(&plain(&text[mark_end..stop]));
    if is_cut_right(text, stop) {
        line.push('…');
    }
    Excerpt { text: line, mark, cut }
}

/// Returns where the line round `start..end` begins and ends, or how far it goes within `most` bytes.
fn bounds(text: &str, start: usize, end: usize, most: usize) -> (usize, usize) {
    // Bytes are searched, not characters: the windows may cut one in half.
    let bytes = text.as_bytes();
    let from = start.saturating_sub(most);
    let until = (end + most).min(bytes.len());
    let begin = bytes[from..start].iter().rposition(is_break).map_or(inwards(text, from), |at| from + at + 1);
    let stop = bytes[end..until].iter().position(is_break).map_or(outwards(text, until), |at| end + at);
    (begin, stop)
}

fn is_break(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn is_cut_left(text: &str, begin: usize) -> bool {
    begin > 0 && !is_break(&text.as_bytes()[begin - 1])
}

fn is_cut_right(text: &str, stop: usize) -> bool {
    text.as_bytes().get(stop).is_some_and(|byte| !is_break(byte))
}

/// Returns the nearest boundary of a character at or after `at`.
fn inwards(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Returns the nearest boundary of a character at or before `at`.
fn outwards(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns text in which tabs stay and everything else that [`visible`] replaces does not.
fn plain(text: &str) -> String {
    text.split('\t').map(visible).collect::<Vec<_>>().join("\t")
}

/// Returns text that is safe to show: what would command a terminal, or reorder what it shows, is
/// replaced by its picture (`␛`), or by `�` where it has none.
///
/// Line breaks and tabs are replaced too: the text stays one line.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if commands(c) { picture(c) } else { c }).collect())
}

fn picture(c: char) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('�'),
        '\x7f' => '␡',
        _ => '�',
    }
}

/// Returns whether a character commands a terminal, or the order of what is shown: controls, line and
/// paragraph separators, and the marks, embeddings, overrides and isolates of Unicode's UAX 9.
pub fn commands(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns a value as a message shows it: whole, or its beginning and `…`.
pub(super) fn clip(value: &str) -> Cow<'_, str> {
    match value.char_indices().nth(CLIP_CHARS) {
        Some((cut, _)) => Cow::Owned(format!("{}…", &value[..cut])),
        None => Cow::Borrowed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, marked: &str, shown: &str) {
        let start = text.find(marked).unwrap();
        let at = Pos { file: 0, line: 1, column: 1, start: start as u32, end: (start + marked.len()) as u32 };
        let found = excerpt(text, at);
        assert_eq!(found.text, shown);
        assert!(marked.starts_with(&found.text[found.mark.clone()]), "{found:?}");
    }

    #[test]
    fn a_line_is_shown_whole_up_to_any_kind_of_break() {
        check("a\nb: x\nc", "x", "b: x");
        check("a\r\nb: x\r\nc", "x", "b: x");
        check("a\rb: x\rc", "x", "b: x");
        check("x", "x", "x");
    }

    #[test]
    fn a_long_line_is_cut_on_both_sides_and_between_characters() {
        let side = "é".repeat(500);
        let shown = format!("…{0}KEY{0}…", "é".repeat(30));
        check(&format!("{side}KEY{side}"), "KEY", &shown);
        check(&format!("a{side}KEY{side}"), "KEY", &shown);
        let long = "k".repeat(1000);
        check(&long, &long, &format!("{}…", "k".repeat(180)));
    }

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(visible("a\u{1b}[31m\n\t\u{7f}\u{9b}\u{202e}b"), "a␛[31m␊␉␡��b");
        assert!(matches!(visible("日本 e\u{301} 👩\u{200d}🚀"), Cow::Borrowed(_)));
        check("a: \u{202e}x\ty", "x", "a: �x\ty");
    }

    #[test]
    fn values_are_cut_to_what_a_message_holds() {
        assert_eq!(clip("short"), "short");
        assert_eq!(clip(&"é".repeat(81)), format!("{}…", "é".repeat(80)));
    }
}
