//! Standard error as a place for lines, with a region below them that is drawn anew.
#![expect(clippy::disallowed_methods, reason = "asks the terminal for its size and writes to it")]

use std::io::Write;

use crate::view::style::Style;

/// Smallest screen that is drawn on, in columns and rows.
const SMALLEST: (usize, usize) = (20, 5);

/// Standard error.
pub struct Screen {
    live: bool,
    style: Style,
    /// What stands below the lines now.
    region: Vec<String>,
}

impl Screen {
    /// Returns the screen; `live` where a region may be drawn.
    pub fn new(live: bool) -> Screen {
        let plain = anstream::AutoStream::choice(&std::io::stderr()) == anstream::ColorChoice::Never;
        Screen { live, style: Style { color: !plain }, region: Vec::new() }
    }

    /// Returns how words look on it.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Returns whether a region is drawn.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Returns its columns and rows, where a region can be drawn on it now.
    pub fn size(&self) -> Option<(usize, usize)> {
        let size =
            if self.live { rustix::termios::tcgetwinsize(std::io::stderr()).ok()? } else { return None };
        let size = (usize::from(size.ws_col), usize::from(size.ws_row));
        (size.0 >= SMALLEST.0 && size.1 >= SMALLEST.1).then_some(size)
    }

    /// Adds lines above the region and draws it anew, in one write: nothing is ever seen half drawn.
    pub fn show(&mut self, lines: &[String], region: &[String]) {
        if lines.is_empty() && self.region == region {
            return;
        }
        let mut text = String::new();
        if !self.region.is_empty() {
            // A terminal that became narrower may have wrapped what stood there, or cut it off. Going up by more than
            // was written would take lines with it that are not ours.
            text.push_str(&format!("\r\u{1b}[{}A\u{1b}[J", self.region.len()));
        }
        for line in lines.iter().chain(region) {
            text.push_str(line);
            text.push('\n');
        }
        self.region = region.to_vec();
        let mut err = std::io::stderr().lock();
        // Nobody reads any more: the run goes on without an audience.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}
