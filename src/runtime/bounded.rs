//! Text of any length, of which one end is kept.

/// Which end of a value is kept, and how many bytes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The first bytes.
    Start(usize),
    /// The last bytes.
    End(usize),
}

/// What was kept of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounded {
    /// The kept end, of whole characters; U+FFFD for what is no UTF-8.
    pub text: String,
    /// Whether something is missing.
    pub is_cut: bool,
    /// Bytes of the whole text.
    pub bytes: u64,
}

/// Takes a text in pieces. Memory: twice what is kept.
#[derive(Debug)]
pub(super) struct Taker {
    keep: Keep,
    kept: Vec<u8>,
    bytes: u64,
}

impl Taker {
    pub(super) fn new(keep: Keep) -> Taker {
        Taker { keep, kept: Vec::new(), bytes: 0 }
    }

    pub(super) fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        match self.keep {
            Keep::Start(max) => {
                let room = max.saturating_sub(self.kept.len());
                self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            Keep::End(max) => {
                self.kept.extend_from_slice(&piece[piece.len().saturating_sub(max)..]);
                // Moved to the front only once in a while, so that each byte costs the same.
                if self.kept.len() > 2 * max {
                    self.kept.drain(..self.kept.len() - max);
                }
            }
        }
    }

    pub(super) fn finish(mut self) -> Bounded {
        if let Keep::End(max) = self.keep {
            self.kept.drain(..self.kept.len().saturating_sub(max));
        }
        let is_cut = (self.kept.len() as u64) < self.bytes;
        let mut whole = self.kept.as_slice();
        if is_cut {
            whole = match self.keep {
                Keep::Start(_) => match std::str::from_utf8(whole) {
                    Err(error) if error.error_len().is_none() => &whole[..error.valid_up_to()],
                    Ok(_) | Err(_) => whole,
                },
                Keep::End(_) => {
                    let is_inside = |byte: &u8| byte & 0xC0 == 0x80;
                    let inside = whole.iter().take(3).take_while(|byte| is_inside(byte)).count();
                    &whole[inside..]
                }
            };
        }
        Bounded { text: String::from_utf8_lossy(whole).into_owned(), is_cut, bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_end_is_kept() {
        let cases: [(Keep, &[&str], &str, bool); 9] = [
            (Keep::Start(3), &["ab"], "ab", false),
            (Keep::Start(3), &["ab", "c"], "abc", false),
            (Keep::Start(3), &["ab", "cd"], "abc", true),
            (Keep::Start(0), &["ab"], "", true),
            (Keep::Start(3), &["aäää"], "aä", true),
            (Keep::End(3), &["a", "b", "c"], "abc", false),
            (Keep::End(3), &["a", "bcdefgh", "i"], "ghi", true),
            (Keep::End(3), &["äää", "a"], "äa", true),
            (Keep::End(0), &["a", "b"], "", true),
        ];
        for (keep, pieces, text, is_cut) in cases {
            let mut taker = Taker::new(keep);
            pieces.iter().for_each(|piece| taker.take(piece.as_bytes()));
            let bytes = pieces.concat().len() as u64;
            assert_eq!(taker.finish(), Bounded { text: text.into(), is_cut, bytes }, "{keep:?} {pieces:?}");
        }
    }
}
