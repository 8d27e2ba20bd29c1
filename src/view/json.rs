//! JSON text as it may reach a terminal.

use std::borrow::Cow;
use std::fmt::Write;

use crate::graph::commands;

/// Returns JSON that means the same, with every character that commands a terminal escaped.
///
/// JSON itself demands that of the first 32 only. All of them stand in strings, where an escape may.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c != '\n' && commands(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || !commands(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_stays_the_same() {
        let value = serde_json::json!({"a\u{9b}\u{202e}": ["\u{1b}[2J\n", "\u{e0041}", "é"]});
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        let text = harmless(&pretty);
        assert!(text.chars().all(|c| c == '\n' || !commands(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
