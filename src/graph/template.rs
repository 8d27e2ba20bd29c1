//! Tokens in text: their grammar, their places, and how a template becomes text again.
//!
//! Knows the shape of a token, not whether what it names exists: that is `resolve`'s.

use std::borrow::Cow;

use super::model::{Graph, Piece, Template};
use super::problem::Pos;
use super::reader::At;

/// A stretch of a text as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stretch<'t> {
    /// Itself; `{{{{` has become `{{`.
    Text(Cow<'t, str>),
    /// What stands between `{{` and `}}`, and where in the text the `{{` is.
    Token { body: &'t str, offset: usize },
    /// A `{{` without its `}}`, and where in the text it is.
    Unclosed { offset: usize },
}

/// A token that follows the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Input(&'t str),
    Artifact {
        id: &'t str,
        inline: bool,
    },
    Feedback(&'t str),
    RunId,
    LanePath,
    LaneBranch,
    LaneBase,
    OtherLaneBranch(&'t str),
    OtherLanePath(&'t str),
    /// Only a fragment knows it.
    With(&'t str),
}

/// The tokens of a graph, as they are listed for people.
pub(super) const TOKENS: [&str; 9] = [
    "inputs.NAME",
    "artifacts.ID",
    "artifacts.ID | inline",
    "feedback.ID",
    "run.id",
    "lane.path",
    "lane.branch",
    "lane.base",
    "lanes.NAME.branch",
];

/// Returns the stretches of `text`, in order; none of the texts is empty. Takes time in its length only.
pub(super) fn stretches(text: &str) -> Vec<Stretch<'_>> {
    let mut found = Vec::new();
    let mut literal = String::new();
    let mut at = 0;
    let (mut opens, mut closes) = (Ahead::new(text, "{{"), Ahead::new(text, "}}"));
    while let Some(open) = opens.from(at) {
        literal.push_str(&text[at..open]);
        let inner = open + 2;
        if text[inner..].starts_with("{{") {
            literal.push_str("{{");
            at = inner + 2;
            continue;
        }
        if !literal.is_empty() {
            found.push(Stretch::Text(Cow::Owned(std::mem::take(&mut literal))));
        }
        match closes.from(inner) {
            Some(close) if opens.from(inner).is_none_or(|next| next >= close) => {
                found.push(Stretch::Token { body: &text[inner..close], offset: open });
                at = close + 2;
            }
            _ => {
                found.push(Stretch::Unclosed { offset: open });
                at = inner;
            }
        }
    }
    literal.push_str(&text[at..]);
    if !literal.is_empty() {
        found.push(Stretch::Text(Cow::Owned(literal)));
    }
    found
}

/// Where a word comes next in a text, asked from places that only grow.
struct Ahead<'t> {
    text: &'t str,
    word: &'static str,
    next: Option<usize>,
}

impl<'t> Ahead<'t> {
    fn new(text: &'t str, word: &'static str) -> Ahead<'t> {
        Ahead { text, word, next: text.find(word) }
    }

    fn from(&mut self, at: usize) -> Option<usize> {
        if self.next.is_some_and(|next| next < at) {
            self.next = self.text[at..].find(self.word).map(|next| at + next);
        }
        self.next
    }
}

/// Returns the token that `body`, what stands between the braces, is.
pub(super) fn token(body: &str) -> Option<Token<'_>> {
    let (path, filter) = match body.split_once('|') {
        Some((path, filter)) => (path.trim(), Some(filter.trim())),
        None => (body.trim(), None),
    };
    let (kind, rest) = path.split_once('.')?;
    let is_name = !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric() || "._-/+".contains(c));
    if !is_name {
        return None;
    }
    match (kind, rest, filter) {
        ("artifacts", id, Some("inline")) => Some(Token::Artifact { id, inline: true }),
        (_, _, Some(_)) => None,
        ("artifacts", id, None) => Some(Token::Artifact { id, inline: false }),
        ("inputs", name, None) => Some(Token::Input(name)),
        ("feedback", id, None) => Some(Token::Feedback(id)),
        ("with", name, None) => Some(Token::With(name)),
        ("run", "id", None) => Some(Token::RunId),
        ("lane", "path", None) => Some(Token::LanePath),
        ("lane", "branch", None) => Some(Token::LaneBranch),
        ("lane", "base", None) => Some(Token::LaneBase),
        ("lanes", rest, None) => match rest.rsplit_once('.')? {
            (name, "branch") if !name.is_empty() => Some(Token::OtherLaneBranch(name)),
            (name, "path") if !name.is_empty() => Some(Token::OtherLanePath(name)),
            _ => None,
        },
        _ => None,
    }
}

/// Where in a file the tokens of a scalar stand.
///
/// A scalar's text differs from its spelling (quotes, escapes, indentation), so braces are counted: the
/// third in the text is the third in the file. Where the counts differ, the scalar's own place.
pub(super) struct TokenPlaces<'t> {
    text: &'t At<String>,
    written: &'t str,
    /// Starts of `{{` in the spelling, from the next on; none where the counts differ.
    opens: Option<std::str::MatchIndices<'t, &'static str>>,
    /// How many of them have been taken.
    taken: usize,
    /// How far the text has been counted, and how many `{{` came before.
    counted: (usize, usize),
    /// The place told last, and where in the spelling it is.
    last: (Pos, usize),
}

impl<'t> TokenPlaces<'t> {
    /// Returns the places of the tokens in `text`, a scalar of the file with this content.
    pub fn new(source: &'t str, text: &'t At<String>) -> TokenPlaces<'t> {
        let written = &source[text.at.start as usize..text.at.end as usize];
        let is_alike = written.matches("{{").count() == text.value.matches("{{").count();
        let opens = is_alike.then(|| written.match_indices("{{"));
        TokenPlaces { text, written, opens, taken: 0, counted: (0, 0), last: (text.at, 0) }
    }

    /// Returns the place of the `{{` at `offset` in the text. Asked in the order of the text, so that all
    /// answers together take time in its length only.
    pub fn next(&mut self, offset: usize, length: usize) -> Pos {
        let nth = self.counted.1 + self.text.value[self.counted.0..offset].matches("{{").count();
        self.counted = (offset, nth);
        let Some((found, _)) = self.opens.as_mut().and_then(|opens| opens.nth(nth - self.taken)) else {
            return self.text.at;
        };
        self.taken = nth + 1;
        let (before, from) = self.last;
        let stretch = &self.written[from..found];
        let start = self.text.at.start + found as u32;
        let end = (start as usize + length).min(self.text.at.end as usize) as u32;
        let (line, column) = match stretch.rsplit_once('\n') {
            Some((lines, line)) => {
                (before.line + lines.matches('\n').count() as u32 + 1, line.chars().count() as u32 + 1)
            }
            None => (before.line, before.column + stretch.chars().count() as u32),
        };
        let at = Pos { line, column, start, end, ..self.text.at };
        self.last = (at, found);
        at
    }
}

/// What becomes of values as they land in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quote {
    /// A shell reads the text: paths, branches and the like become one word each. Inputs stay as
    /// they are: they are the user's own words, and may be several.
    Shell,
    /// A model reads the text: what a node produced is set apart as data, by whoever looks values up.
    Prompt,
    /// Nothing.
    None,
}

impl Template {
    /// Returns the text as its author wrote it in `graph`, tokens and all, each with one blank inside its braces.
    pub fn written(&self, graph: &Graph) -> String {
        let id = |ix: &crate::ids::NodeIx| graph.node(*ix).id.as_str();
        let lane = |ix: &crate::ids::LaneIx| graph.lane(*ix).name.as_str();
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.replace("{{", "{{{{"),
            Piece::Input(name) => format!("{{{{ inputs.{name} }}}}"),
            Piece::ArtifactPath(ix) => format!("{{{{ artifacts.{} }}}}", id(ix)),
            Piece::ArtifactText(ix) => format!("{{{{ artifacts.{} | inline }}}}", id(ix)),
            Piece::Feedback(ix) => format!("{{{{ feedback.{} }}}}", id(ix)),
            Piece::RunId => "{{ run.id }}".into(),
            Piece::LanePath => "{{ lane.path }}".into(),
            Piece::LaneBranch => "{{ lane.branch }}".into(),
            Piece::LaneBase => "{{ lane.base }}".into(),
            Piece::OtherLaneBranch(ix) => format!("{{{{ lanes.{}.branch }}}}", lane(ix)),
            Piece::OtherLanePath(ix) => format!("{{{{ lanes.{}.path }}}}", lane(ix)),
        };
        self.0.iter().map(piece).collect()
    }

    /// Returns the text, with each token replaced by what `lookup` says it stands for.
    ///
    /// Errors: the first piece that `lookup` has nothing for.
    pub fn render(&self, lookup: impl Fn(&Piece) -> Option<String>, quote: Quote) -> Result<String, &Piece> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Input(_) => text.push_str(&lookup(piece).ok_or(piece)?),
                Piece::ArtifactPath(_)
                | Piece::ArtifactText(_)
                | Piece::Feedback(_)
                | Piece::RunId
                | Piece::LanePath
                | Piece::LaneBranch
                | Piece::LaneBase
                | Piece::OtherLaneBranch(_)
                | Piece::OtherLanePath(_) => {
                    let value = lookup(piece).ok_or(piece)?;
                    match quote {
                        Quote::Shell => text.push_str(&shell_word(&value)),
                        Quote::Prompt | Quote::None => text.push_str(&value),
                    }
                }
            }
        }
        Ok(text)
    }
}

/// Returns `value` as one word of a POSIX shell; what needs no quotes gets none.
pub fn shell_word(value: &str) -> Cow<'_, str> {
    let is_safe = |b: u8| b.is_ascii_alphanumeric() || b"_-./:@%+,=".contains(&b);
    if !value.is_empty() && value.bytes().all(is_safe) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("'{}'", value.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeIx;

    #[test]
    fn texts_are_taken_apart() {
        let token = |body, offset| Stretch::Token { body, offset };
        let text = |text| Stretch::Text(Cow::Borrowed(text));
        for (written, expected) in [
            ("", vec![]),
            ("a } }} b", vec![text("a } }} b")]),
            ("a{{x}}b", vec![text("a"), token("x", 1), text("b")]),
            ("{{{{ x }}", vec![text("{{ x }}")]),
            ("{{{{{{ x }}", vec![text("{{"), token(" x ", 4)]),
            ("é{{ x", vec![text("é"), Stretch::Unclosed { offset: 2 }, text(" x")]),
            ("{{ a {{ b }}", vec![Stretch::Unclosed { offset: 0 }, text(" a "), token(" b ", 5)]),
        ] {
            assert_eq!(stretches(written), expected, "{written}");
        }
    }

    #[test]
    fn tokens_follow_the_grammar() {
        for (body, expected) in [
            (" inputs.x-1 ", Token::Input("x-1")),
            ("artifacts.a/b", Token::Artifact { id: "a/b", inline: false }),
            (" artifacts.a.b|inline ", Token::Artifact { id: "a.b", inline: true }),
            ("feedback.r", Token::Feedback("r")),
            ("run.id", Token::RunId),
            ("lane.base", Token::LaneBase),
            ("lanes.a.b.branch", Token::OtherLaneBranch("a.b")),
            ("lanes.a.path", Token::OtherLanePath("a")),
        ] {
            assert_eq!(token(body), Some(expected), "{body}");
        }
        for bad in [
            "",
            "x",
            ".x",
            "inputs.",
            "Inputs.x",
            "inputs.x | inline",
            "inputs.a b",
            "artifacts.a | upper",
            "run.ID",
            "lane.name",
            "lanes.a",
            "lanes.a.base",
            "lanes..path",
            "artifacts.a | inline | inline",
            "env.X",
        ] {
            assert_eq!(token(bad), None, "{bad}");
        }
    }

    #[test]
    fn paths_become_one_word_of_a_command_and_inputs_stay() {
        let template = Template(vec![
            Piece::Text("cat ".into()),
            Piece::ArtifactPath(NodeIx(0)),
            Piece::Text(" ".into()),
            Piece::Input("flags".into()),
        ]);
        let lookup = |piece: &Piece| match piece {
            Piece::ArtifactPath(_) => Some("/it's $HOME/a b".to_owned()),
            Piece::Input(_) => Some("-n -v".to_owned()),
            _ => None,
        };
        assert_eq!(template.render(lookup, Quote::Shell).unwrap(), r"cat '/it'\''s $HOME/a b' -n -v");
        assert_eq!(template.render(lookup, Quote::None).unwrap(), "cat /it's $HOME/a b -n -v");
        assert_eq!(Template(vec![Piece::RunId]).render(lookup, Quote::None), Err(&Piece::RunId));
        assert_eq!(shell_word("/plain/path-1.txt"), "/plain/path-1.txt");
        assert_eq!(shell_word(""), "''");
    }
}
