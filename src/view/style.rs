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

/// Returns a time as a clock shows it: `0:07`, `12:03`, `1:02:03`.
pub fn clock(ms: u64) -> String {
    let seconds = ms / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Returns a line that may hold what a node printed, fit for a terminal: colours stay where they are wanted,
/// and end with the line; nothing else moves a cursor, rings or clears.
pub fn printable(line: &str, style: Style) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut painted = false;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                let sequence = escape(&mut rest);
                if style.color && sequence.ends_with('m') && sequence.starts_with('[') {
                    painted = true;
                    shown.push('\u{1b}');
                    shown.push_str(&sequence);
                }
            }
            '\t' => shown.push(c),
            // Controls of the second block begin sequences too; marks of direction turn text round.
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {}
            c => shown.push(c),
        }
    }
    if painted && !shown.ends_with("\u{1b}[0m") {
        shown.push_str("\u{1b}[0m");
    }
    shown
}

/// Returns what follows an escape character up to the end of its sequence (ECMA-48, section 5.4).
fn escape(rest: &mut std::str::Chars<'_>) -> String {
    let mut sequence = String::new();
    let Some(kind) = rest.next() else { return sequence };
    sequence.push(kind);
    match kind {
        // A control sequence ends with a letter or the like.
        '[' => {
            for c in rest.by_ref() {
                sequence.push(c);
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        }
        // Strings (titles, links) end with BEL or another escape.
        ']' | 'P' | 'X' | '^' | '_' => {
            while let Some(c) = rest.next() {
                if c == '\u{7}' || (c == '\u{1b}' && rest.next().is_some()) {
                    break;
                }
            }
        }
        _ => {}
    }
    sequence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_printed_moves_nothing() {
        let shown = |line| printable(line, Style { color: true });
        assert_eq!(shown("a\tb"), "a\tb");
        assert_eq!(shown("\u{1b}[31mred"), "\u{1b}[31mred\u{1b}[0m");
        assert_eq!(shown("\u{1b}[31mred\u{1b}[0m"), "\u{1b}[31mred\u{1b}[0m");
        assert_eq!(shown("a\u{1b}[2Jb\u{1b}[3;4Hc\rd\u{7}e\u{8}f"), "abcdef");
        assert_eq!(shown("\u{1b}]0;title\u{7}x\u{1b}]8;;link\u{1b}\\y"), "xy");
        assert_eq!(shown("a\u{9b}31mb\u{202e}c"), "a31mbc");
        assert_eq!(shown("a\u{1b}"), "a");
        assert_eq!(printable("\u{1b}[31mred\u{1b}[0m", Style { color: false }), "red");
    }

    #[test]
    fn a_clock_counts_hours_only_where_there_are_some() {
        let shown: Vec<String> = [0, 7_999, 723_000, 3_723_000].into_iter().map(clock).collect();
        assert_eq!(shown, ["0:00", "0:07", "12:03", "1:02:03"]);
    }
}
