//! Trees read as values of one type each: text, numbers, durations, sizes, closed sets.
//!
//! Every method returns `None` after it has said what is wrong, so that reading goes on.

use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use super::code::Code;
use super::excerpt::clip;
use super::problem::{Pos, Report, list_or};
use super::tree::{Entry, Tree, Word};
use crate::money::Usd;

/// A value with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At<T> {
    pub at: Pos,
    pub value: T,
}

impl At<Word> {
    fn owned(self) -> At<String> {
        At { at: self.at, value: self.value.to_string() }
    }
}

/// Reads trees; what is wrong goes to the report.
#[derive(Debug)]
pub(super) struct Reader<'r> {
    pub report: &'r mut Report,
}

impl Reader<'_> {
    /// Reads text. Numbers and booleans are text as they were written.
    pub fn text(&mut self, what: &str, tree: &Tree) -> Option<At<String>> {
        self.word(what, tree).map(At::owned)
    }

    fn word(&mut self, what: &str, tree: &Tree) -> Option<At<Word>> {
        match tree.word() {
            Some(text) if text.contains('\0') => {
                self.report.error(Code::WrongValue, tree.at, format!("{what} holds a null byte"));
                None
            }
            Some(text) => Some(At { at: tree.at, value: text.clone() }),
            None => self.wrong_type(what, "text", tree),
        }
    }

    /// Reads text that is not blank.
    pub fn filled_text(&mut self, what: &str, tree: &Tree) -> Option<At<String>> {
        self.filled_word(what, tree).map(At::owned)
    }

    /// The same, without a copy of what may come again and again.
    pub fn filled_word(&mut self, what: &str, tree: &Tree) -> Option<At<Word>> {
        let text = self.word(what, tree)?;
        if text.value.trim().is_empty() {
            self.report.error(Code::EmptyValue, tree.at, format!("{what} is empty"));
            return None;
        }
        Some(text)
    }

    /// Reads `true` or `false`, and nothing that merely looks like them.
    pub fn boolean(&mut self, what: &str, tree: &Tree) -> Option<bool> {
        match tree.plain() {
            Some("true" | "True" | "TRUE") => Some(true),
            Some("false" | "False" | "FALSE") => Some(false),
            _ => self.wrong_type(what, "`true` or `false`", tree),
        }
    }

    /// Reads a whole number of at least `least`.
    pub fn count(&mut self, what: &str, least: u32, tree: &Tree) -> Option<u32> {
        match tree.plain().and_then(whole_number) {
            Some(number) if number >= i64::from(least) && number <= i64::from(u32::MAX) => {
                Some(number as u32)
            }
            Some(number) if number < i64::from(least) => {
                self.report.error(
                    Code::WrongValue,
                    tree.at,
                    format!("{what} is at least {least}, not {number}"),
                );
                None
            }
            Some(number) => {
                self.report.error(Code::WrongValue, tree.at, format!("{what} is too large: {number}"));
                None
            }
            None => self.wrong_type(what, "a whole number", tree),
        }
    }

    /// Reads a whole number of at least 1.
    pub fn positive(&mut self, what: &str, tree: &Tree) -> Option<NonZeroU32> {
        self.count(what, 1, tree).and_then(NonZeroU32::new)
    }

    /// Reads an amount of dollars: finite and not negative.
    fn dollars(&mut self, what: &str, tree: &Tree) -> Option<f64> {
        let number = match tree.plain() {
            Some(".nan" | ".NaN" | ".NAN") => Some(f64::NAN),
            Some(".inf" | ".Inf" | ".INF" | "+.inf") => Some(f64::INFINITY),
            Some("-.inf" | "-.Inf" | "-.INF") => Some(f64::NEG_INFINITY),
            Some(text) if text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE_".contains(&b)) => {
                text.parse().ok()
            }
            _ => None,
        };
        match number {
            Some(number) if f64::is_finite(number) && number >= 0.0 => Some(number),
            Some(_) => {
                let message = format!("{what} is an amount of at least 0, not {}", tree.what());
                self.report.error(Code::WrongValue, tree.at, message);
                None
            }
            None => self.wrong_type(what, "a number of dollars", tree),
        }
    }

    /// Reads an amount of money that may be spent; 0 is no limit, as in the graphs of before.
    pub fn budget(&mut self, what: &str, tree: &Tree) -> Option<Usd> {
        let dollars = self.dollars(what, tree)?;
        let amount = Usd::from_dollars(dollars);
        if amount == Some(Usd::default()) && dollars > 0.0 {
            let message = format!("{what} is less than a millionth of a dollar: {}", tree.what());
            self.report.error(Code::WrongValue, tree.at, message);
        }
        if amount.is_none() {
            let message = format!("{what} is more than any run costs: {}", tree.what());
            self.report.error(Code::WrongValue, tree.at, message);
        }
        amount.filter(|amount| *amount > Usd::default())
    }

    /// Reads a duration such as `45m`, `1h30m`, `1.5h`, `90s` or `500ms`.
    pub fn duration(&mut self, what: &str, tree: &Tree) -> Option<At<Duration>> {
        let Some(text) = tree.text() else { return self.wrong_type(what, "a duration like `45m`", tree) };
        match parse_duration(text) {
            Some(value) => Some(At { at: tree.at, value }),
            None => {
                let message =
                    format!("{what} takes a duration like `45m`, `1h30m` or `500ms`, not `{}`", clip(text));
                let problem = self.report.error(Code::WrongDuration, tree.at, message);
                if text.parse::<f64>().is_ok_and(|number| number > 0.0) {
                    let text = clip(text);
                    problem.hint(format!("a number needs its unit: `{text}s` or `{text}m`"));
                }
                None
            }
        }
    }

    /// Reads a duration longer than nothing.
    pub fn limit(&mut self, what: &str, tree: &Tree) -> Option<At<Duration>> {
        let limit = self.duration(what, tree)?;
        if limit.value.is_zero() {
            self.report.error(Code::WrongValue, tree.at, format!("{what} is longer than nothing"));
            return None;
        }
        Some(limit)
    }

    /// Reads a size such as `1GiB`, `64MiB` or a plain number of bytes; at least one byte.
    pub fn size(&mut self, what: &str, tree: &Tree) -> Option<At<u64>> {
        let Some(text) = tree.text() else { return self.wrong_type(what, "a size like `64MiB`", tree) };
        match parse_size(text) {
            Some(value) if value > 0 => Some(At { at: tree.at, value }),
            _ => {
                let message = format!(
                    "{what} takes a size like `64MiB`, `1GiB` or a number of bytes, not `{}`",
                    clip(text)
                );
                self.report
                    .error(Code::WrongSize, tree.at, message)
                    .hint("the units are `KiB`, `MiB`, `GiB` and `TiB`");
                None
            }
        }
    }

    /// Reads one word of a closed set.
    pub fn choice<T: Copy>(&mut self, what: &str, set: &[(&'static str, T)], tree: &Tree) -> Option<At<T>> {
        let words = || set.iter().map(|(word, _)| *word);
        let Some(text) = tree.text() else {
            return self.wrong_type(what, &list_or(words()), tree);
        };
        if let Some((_, value)) = set.iter().find(|(word, _)| *word == text) {
            return Some(At { at: tree.at, value: *value });
        }
        let near = self.report.nearest(text, words());
        let message = format!("{what} is {}, not `{}`", list_or(words()), clip(text));
        let problem = self.report.error(Code::UnknownValue, tree.at, message);
        if let Some(near) = near {
            problem.hint(format!("did you mean `{near}`?"));
        }
        None
    }

    /// Reads a list.
    pub fn list<'t>(&mut self, what: &str, of: &str, tree: &'t Tree) -> Option<&'t [Rc<Tree>]> {
        let items = tree.items();
        if items.is_none() {
            let message = format!("{what} takes a list of {of}, not {}", tree.what());
            let problem = self.report.error(Code::WrongType, tree.at, message);
            if let Some(text) = tree.text().filter(|text| !text.contains(['\n', ',', ' '])) {
                problem.hint(format!("write `[{}]`", clip(text)));
            }
        }
        items
    }

    /// Reads a list of texts, none of them empty.
    pub fn texts(&mut self, what: &str, of: &str, tree: &Tree) -> Option<Vec<At<String>>> {
        let items = self.list(what, of, tree)?;
        let entry = format!("an entry of {what}");
        Some(items.iter().filter_map(|item| self.filled_text(&entry, item)).collect())
    }

    /// Reads a text, or a list of texts.
    pub fn text_or_texts(&mut self, what: &str, of: &str, tree: &Tree) -> Option<Vec<At<String>>> {
        if tree.text().is_some() {
            return self.filled_text(what, tree).map(|text| vec![text]);
        }
        self.texts(what, of, tree)
    }

    /// Reads a map.
    pub fn map<'t>(&mut self, what: &str, tree: &'t Tree) -> Option<&'t [Entry]> {
        let entries = tree.entries();
        if entries.is_none() {
            self.wrong_type::<()>(what, "a map", tree);
        }
        entries
    }

    /// Says that a key is not one of `known`, and which one may be meant.
    pub fn unknown_key<'k>(
        &mut self,
        whose: &str,
        entry: &Entry,
        known: impl Iterator<Item = &'k str> + Clone,
    ) {
        let near = self.report.nearest(&entry.key, known.clone());
        let message = format!("{whose} has no key `{}`", clip(&entry.key));
        let problem = self.report.error(Code::UnknownKey, entry.at, message);
        match near {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem.hint(format!("it takes {}", list_or(known))),
        };
    }

    /// Says that a value is of another type than it should be.
    pub fn wrong_type<T>(&mut self, what: &str, wanted: &str, tree: &Tree) -> Option<T> {
        self.report.error(Code::WrongType, tree.at, format!("{what} takes {wanted}, not {}", tree.what()));
        None
    }
}

fn whole_number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    // A leading zero is octal to some readers and decimal to others: neither.
    let is_plain = digits == "0" || !digits.starts_with('0');
    (is_plain && digits.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Returns the duration of `text`, in whole milliseconds; numbers with a unit, one after the other.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut millis = 0.0_f64;
    while !rest.is_empty() || text.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        millis += number
            * match &rest[..letters] {
                "h" => 3_600_000.0,
                "m" => 60_000.0,
                "s" => 1_000.0,
                "ms" => 1.0,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    // A thousand years: far from what overflows anywhere, and longer than any run.
    (millis <= 3.2e13).then(|| Duration::from_millis(millis.round() as u64))
}

/// Returns the bytes that `text` stands for.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let factor: u64 = match text[digits..].trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    match text[..digits].parse::<u64>() {
        Ok(number) => number.checked_mul(factor),
        Err(_) if factor > 1 => {
            let bytes = text[..digits].parse::<f64>().ok()? * factor as f64;
            (bytes < 1e18).then_some(bytes as u64)
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, millis) in [
            ("45m", 2_700_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("90s", 90_000),
            ("500ms", 500),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in
            ["", "30", "m", "1", "-1s", "1 m", "1d", "1hm", "1..5h", ".", "1e9h", "99999999999999h", "1h 30m"]
        {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_are_binary_or_bytes() {
        for (text, bytes) in
            [("1GiB", 1 << 30), ("64MiB", 64 << 20), ("1.5KiB", 1536), ("2 TiB", 2 << 40), ("17", 17)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for bad in ["", "1GB", "1G", "-1", "GiB", "1.5", "1e3", "99999999TiB", "20000000TiB"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn whole_numbers_are_decimal() {
        assert_eq!(whole_number("10"), Some(10));
        assert_eq!(whole_number("-3"), Some(-3));
        for bad in ["010", "0x1f", "1_000", "1.0", "", "-", "many"] {
            assert_eq!(whole_number(bad), None, "{bad}");
        }
    }
}
