//! A YAML value with a place for everything in it.
//!
//! Plain data; how it is made of text is `source`'s, of other trees `expand`'s.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use super::problem::Pos;

/// A text that may stand at many places and is kept once.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Word(Rc<str>);

impl Word {
    /// Returns its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Rc<str>>> From<T> for Word {
    fn from(text: T) -> Word {
        Word(text.into())
    }
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Word {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// A value with its place. Shared wherever an alias repeats it.
#[derive(Debug)]
pub(super) struct Tree {
    /// Where it was written; for an alias the place of the anchor.
    pub at: Pos,
    pub value: Value,
    pub height: u16,
    pub size: Size,
}

/// What a tree stands for, aliases counted as often as they repeat it; at the most what the number holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub values: u32,
    /// Of text.
    pub bytes: u32,
}

impl Size {
    /// Adds what another tree stands for.
    pub fn add(&mut self, other: Size) {
        self.values = self.values.saturating_add(other.values);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

#[derive(Debug)]
pub(super) enum Value {
    /// A scalar: its text, and whether it was written without quotes (only then is `~` a null).
    Text {
        text: Word,
        plain: bool,
    },
    List(Box<[Rc<Tree>]>),
    Map(Box<[Entry]>),
}

/// One key of a map with its value. Keys of a map are unique.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: Word,
    pub at: Pos,
    pub value: Rc<Tree>,
}

impl Tree {
    /// Returns a tree made by substitution, with the place of what it stands for.
    pub fn made(at: Pos, value: Value) -> Rc<Tree> {
        let (height, size) = measure(&value);
        Rc::new(Tree { at, value, height, size })
    }

    /// Returns whether this is an unquoted null: nothing, `~` or `null`.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Text { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Returns the text of a scalar that is not null; numbers and booleans as they were written.
    pub fn text(&self) -> Option<&str> {
        self.word().map(Word::as_str)
    }

    /// The same, to be kept without a copy.
    pub fn word(&self) -> Option<&Word> {
        match &self.value {
            Value::Text { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Returns the text of an unquoted scalar.
    pub fn plain(&self) -> Option<&str> {
        match &self.value {
            Value::Text { text, plain: true } => Some(text),
            _ => None,
        }
    }

    /// Returns the entries of a map.
    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the items of a list.
    pub fn items(&self) -> Option<&[Rc<Tree>]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the entry of a map under `key`.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries()?.iter().find(|entry| entry.key == key)
    }

    /// Returns what it is, in the words of a message: `a list`, `` `4` ``.
    pub fn what(&self) -> String {
        match &self.value {
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
            Value::Text { .. } if self.is_null() => "nothing".to_owned(),
            Value::Text { text, .. }
                if text.len() > 240 || text.chars().count() > 60 || text.contains('\n') =>
            {
                "text".to_owned()
            }
            Value::Text { text, plain: true } => format!("`{text}`"),
            Value::Text { text, plain: false } => format!("the text `{text}`"),
        }
    }
}

fn measure(value: &Value) -> (u16, Size) {
    let mut height = 0;
    let mut size = Size { values: 1, bytes: 0 };
    let mut count = |child: &Tree| {
        height = height.max(child.height + 1);
        size.add(child.size);
    };
    match value {
        Value::Text { text, .. } => size.bytes = u32::try_from(text.len()).unwrap_or(u32::MAX),
        Value::List(items) => items.iter().for_each(|item| count(item)),
        Value::Map(entries) => entries.iter().for_each(|entry| count(&entry.value)),
    }
    (height, size)
}
