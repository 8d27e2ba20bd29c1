//! How words and times look to people.

use std::time::Duration;

/// Whether words get colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// They do.
    pub color: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }

    /// Returns text that tells of trouble.
    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Returns a heading.
    pub fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Returns a state's word in its colour.
    pub fn state(self, word: &str) -> String {
        let code = match word {
            "passed" => "32",
            "failed" => "31",
            "blocked" | "interrupted" | "cancelled" | "paused" => "33",
            "running" | "ready" => "36",
            _ => "2",
        };
        self.paint(code, word)
    }
}

/// Returns a time for people: `0.4 s`, `12 s`, `3 min 20 s`.
pub fn duration(ms: u64) -> String {
    let duration = Duration::from_millis(ms);
    let seconds = duration.as_secs();
    if seconds >= 60 {
        format!("{} min {} s", seconds / 60, seconds % 60)
    } else if seconds >= 10 {
        format!("{seconds} s")
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}
