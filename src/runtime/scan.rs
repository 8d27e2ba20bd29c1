//! JSON in a stream, of which only named values are kept, so that memory is bounded whatever comes.
//!
//! The stream may hold lines of other text before, between and after its values. What does not read as JSON
//! is skipped up to the next line; there is no way back in the stream.

use std::io::{self, Read};
use std::rc::Rc;

use super::bounded::Taker;
pub use super::bounded::{Bounded, Keep};

/// Containers within containers beyond which a value counts as malformed.
pub const DEPTH_MAX: usize = 256;
/// Characters of the longest number that is read; a longer one is malformed.
const NUMBER_MAX: usize = 1024;
/// Bytes of a key that are compared; a longer one is no wanted one.
const KEY_MAX: usize = 1024;
const BUFFER: usize = 64 * 1024;
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// A value that the caller wants of each object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Where it is: a JSON pointer (RFC 6901), `/usage/input_tokens`.
    pub pointer: String,
    /// How much of it is kept.
    pub keep: Keep,
}

impl Wanted {
    /// Returns the wish for the value at `pointer`.
    pub fn new(pointer: impl Into<String>, keep: Keep) -> Wanted {
        Wanted { pointer: pointer.into(), keep }
    }
}

/// A wanted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as written.
    Number(String),
    /// A string, its escapes resolved.
    Text(Bounded),
    /// An object or an array, as written.
    Other(Bounded),
}

/// The wanted values of one object; where a key stands twice, the last wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    wanted: Rc<[Path]>,
    values: Vec<Option<Value>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Path {
    pointer: String,
    keep: Keep,
    segments: Vec<String>,
}

impl Object {
    /// Returns the value at a wanted `pointer`; `None` where the object has none, or it was not wanted.
    pub fn get(&self, pointer: &str) -> Option<&Value> {
        let at = self.wanted.iter().position(|path| path.pointer == pointer)?;
        self.values[at].as_ref()
    }

    /// Returns the string at a wanted `pointer`.
    pub fn text(&self, pointer: &str) -> Option<&Bounded> {
        match self.get(pointer)? {
            Value::Text(text) => Some(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Other(_) => None,
        }
    }

    /// Returns the number at a wanted `pointer`, as a floating point number.
    pub fn number(&self, pointer: &str) -> Option<f64> {
        match self.get(pointer)? {
            Value::Number(digits) => digits.parse().ok(),
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::Other(_) => None,
        }
    }

    /// Returns the number at a wanted `pointer` where it is a whole one from 0.
    pub fn count(&self, pointer: &str) -> Option<u64> {
        let Value::Number(digits) = self.get(pointer)? else { return None };
        let whole = || self.number(pointer).filter(|n| (0.0..=9e15).contains(n) && n.fract() == 0.0);
        digits.parse().ok().or_else(|| whole().map(|n| n as u64))
    }

    /// Returns whether the value at a wanted `pointer` is `true`.
    pub fn is_true(&self, pointer: &str) -> bool {
        self.get(pointer) == Some(&Value::Bool(true))
    }
}

/// What the stream holds next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// An object of the stream's own, or an element of an array of its own.
    Object(Object),
    /// Something that began like a value and is none; the scan goes on after it.
    Malformed,
    /// A value began, and the stream ended in the midst of it.
    Unfinished,
}

/// Goes over a stream once. Memory: its buffer, and twice what the wanted values keep.
pub struct Scanner<R> {
    input: Input<R>,
    wanted: Rc<[Path]>,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between values: at the beginning of a line, or right after a value.
    Between,
    /// Inside an array of the stream's own; `true` where an element was read.
    Elements(bool),
}

/// Why a value could not be read.
enum Stop {
    Io(io::Error),
    Malformed,
    Ended,
}

type Step<T> = Result<T, Stop>;

impl<R: Read> Scanner<R> {
    /// Returns a scanner of `reader`. Panics where more than 64 values are wanted.
    pub fn new(reader: R, wanted: &[Wanted]) -> Scanner<R> {
        assert!(wanted.len() <= 64, "more values are wanted than a mask has bits");
        let segment = |segment: &str| segment.replace("~1", "/").replace("~0", "~");
        let path = |wanted: &Wanted| Path {
            pointer: wanted.pointer.clone(),
            keep: wanted.keep,
            segments: wanted.pointer.split('/').skip(1).map(segment).collect(),
        };
        Scanner {
            input: Input::new(reader),
            wanted: wanted.iter().map(path).collect(),
            place: Place::Between,
        }
    }

    /// Returns what comes next; `None` at the end of the stream, and from then on.
    #[expect(clippy::should_implement_trait, reason = "an error is not an item")]
    pub fn next(&mut self) -> io::Result<Option<Found>> {
        loop {
            let found = match self.place {
                Place::Between => self.value_or_line(),
                Place::Elements(is_after_one) => self.element(is_after_one),
            };
            match found {
                Ok(Some(object)) => return Ok(Some(Found::Object(object))),
                Ok(None) if self.place == Place::Between && self.input.peek()?.is_none() => return Ok(None),
                Ok(None) => {}
                Err(Stop::Io(error)) => return Err(error),
                Err(Stop::Ended) => {
                    self.forget();
                    return Ok(Some(Found::Unfinished));
                }
                Err(Stop::Malformed) => {
                    self.forget();
                    // Where the fault is the first thing in its line, this line may hold a value.
                    if !self.input.is_line_start {
                        self.input.skip_line()?;
                    }
                    return Ok(Some(Found::Malformed));
                }
            }
        }
    }

    fn forget(&mut self) {
        self.place = Place::Between;
        self.input.captures.clear();
    }

    /// Reads a value where one begins, else goes to the next line.
    fn value_or_line(&mut self) -> Step<Option<Object>> {
        self.input.skip_blanks()?;
        match self.input.peek()? {
            Some(b'{') => self.object().map(Some),
            Some(b'[') => {
                self.input.advance(1);
                self.place = Place::Elements(false);
                Ok(None)
            }
            Some(_) | None => {
                self.input.skip_line()?;
                Ok(None)
            }
        }
    }

    /// Reads on in an array of the stream's own up to its next object or its end.
    fn element(&mut self, is_after_one: bool) -> Step<Option<Object>> {
        let mut next = self.input.peek_value()?;
        if next == b']' {
            self.input.advance(1);
            self.place = Place::Between;
            return Ok(None);
        }
        if is_after_one {
            self.input.expect(b',')?;
            next = self.input.peek_value()?;
        }
        self.place = Place::Elements(true);
        if next == b'{' {
            return self.object().map(Some);
        }
        self.value(0, 1, &mut [])?;
        Ok(None)
    }

    fn object(&mut self) -> Step<Object> {
        let mut values = vec![None; self.wanted.len()];
        let all = if values.is_empty() { 0 } else { u64::MAX >> (64 - values.len()) };
        self.value(all, 0, &mut values)?;
        Ok(Object { wanted: Rc::clone(&self.wanted), values })
    }

    /// Reads a value. `mask` has a bit for each wanted path whose first `depth` segments lead here.
    fn value(&mut self, mask: u64, depth: usize, values: &mut [Option<Value>]) -> Step<()> {
        let here = bits(mask).find(|&at| self.wanted[at].segments.len() == depth);
        let keep = here.map(|at| self.wanted[at].keep);
        let first = self.input.peek_value()?;
        let value = match first {
            b'{' | b'[' => {
                if depth >= DEPTH_MAX {
                    return Err(Stop::Malformed);
                }
                if let Some(keep) = keep {
                    self.input.captures.push(Taker::new(keep));
                }
                if first == b'{' {
                    self.members(mask, depth, values)?;
                } else {
                    self.elements(mask, depth, values)?;
                }
                let raw = keep.and_then(|_| self.input.captures.pop());
                raw.map(|raw| Value::Other(raw.finish()))
            }
            b'"' => {
                let mut taker = keep.map(Taker::new);
                self.input.string(taker.as_mut())?;
                taker.map(|taker| Value::Text(taker.finish()))
            }
            b't' => self.input.word(b"true").map(|()| Some(Value::Bool(true)))?,
            b'f' => self.input.word(b"false").map(|()| Some(Value::Bool(false)))?,
            b'n' => self.input.word(b"null").map(|()| Some(Value::Null))?,
            b'-' | b'0'..=b'9' => Some(Value::Number(self.input.number()?)),
            _ => return Err(Stop::Malformed),
        };
        if let Some(at) = here {
            values[at] = value;
        }
        Ok(())
    }

    fn members(&mut self, mask: u64, depth: usize, values: &mut [Option<Value>]) -> Step<()> {
        self.input.expect(b'{')?;
        if self.input.peek_value()? == b'}' {
            self.input.advance(1);
            return Ok(());
        }
        loop {
            if self.input.peek_value()? != b'"' {
                return Err(Stop::Malformed);
            }
            let mut key = (mask != 0).then(|| Taker::new(Keep::Start(KEY_MAX)));
            self.input.string(key.as_mut())?;
            let key = key.map(Taker::finish).filter(|key| !key.is_cut);
            let below = key.map_or(0, |key| self.below(mask, depth, &key.text));
            // The last of equal keys wins, with all that is in it.
            bits(below).for_each(|at| values[at] = None);
            self.input.peek_value()?;
            self.input.expect(b':')?;
            self.value(below, depth + 1, values)?;
            match self.input.peek_value()? {
                b',' => self.input.advance(1),
                b'}' => {
                    self.input.advance(1);
                    return Ok(());
                }
                _ => return Err(Stop::Malformed),
            }
        }
    }

    fn elements(&mut self, mask: u64, depth: usize, values: &mut [Option<Value>]) -> Step<()> {
        self.input.expect(b'[')?;
        if self.input.peek_value()? == b']' {
            self.input.advance(1);
            return Ok(());
        }
        for index in 0_u64.. {
            let below = if mask == 0 { 0 } else { self.below(mask, depth, &index.to_string()) };
            self.value(below, depth + 1, values)?;
            match self.input.peek_value()? {
                b',' => self.input.advance(1),
                b']' => break,
                _ => return Err(Stop::Malformed),
            }
        }
        self.input.advance(1);
        Ok(())
    }

    /// Returns the paths of `mask` that go on with `segment` below `depth`.
    fn below(&self, mask: u64, depth: usize, segment: &str) -> u64 {
        let goes_on = |at: &usize| self.wanted[*at].segments.get(depth).is_some_and(|next| next == segment);
        bits(mask).filter(goes_on).fold(0, |mask, at| mask | 1 << at)
    }
}

fn bits(mask: u64) -> impl Iterator<Item = usize> {
    (0..64 - mask.leading_zeros() as usize).filter(move |at| mask >> at & 1 == 1)
}

/// The stream, with the bytes that are at hand.
struct Input<R> {
    reader: R,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    has_ended: bool,
    is_first: bool,
    /// Whether only blanks were taken since the last line break.
    is_line_start: bool,
    /// Containers that are kept as written, outermost first.
    captures: Vec<Taker>,
}

impl<R: Read> Input<R> {
    fn new(reader: R) -> Input<R> {
        let buffer = vec![0; BUFFER];
        let (captures, is_line_start) = (Vec::new(), true);
        Input { reader, buffer, at: 0, end: 0, has_ended: false, is_first: true, is_line_start, captures }
    }

    /// Returns the bytes at hand, at least one unless the stream has ended.
    fn at_hand(&mut self) -> io::Result<&[u8]> {
        while self.at == self.end && !self.has_ended {
            match self.reader.read(&mut self.buffer) {
                Ok(0) => self.has_ended = true,
                Ok(bytes) => (self.at, self.end) = (0, bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.buffer[self.at..self.end])
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.at_hand()?.first().copied())
    }

    /// Takes `count` bytes, which are at hand.
    fn advance(&mut self, count: usize) {
        let taken = &self.buffer[self.at..self.at + count];
        self.captures.iter_mut().for_each(|capture| capture.take(taken));
        self.at += count;
        self.is_line_start = false;
    }

    /// Skips blanks, line breaks too, and the mark that a stream may begin with.
    fn skip_blanks(&mut self) -> io::Result<()> {
        if self.is_first {
            self.is_first = false;
            for byte in BYTE_ORDER_MARK {
                if self.peek()? != Some(byte) {
                    break;
                }
                self.at += 1;
            }
        }
        while let Some(byte @ (b' ' | b'\t' | b'\r' | b'\n')) = self.peek()? {
            let is_line_start = self.is_line_start || byte == b'\n';
            self.advance(1);
            self.is_line_start = is_line_start;
        }
        Ok(())
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.at_hand()?;
            let (length, line_end) = (bytes.len(), bytes.iter().position(|byte| *byte == b'\n'));
            if length == 0 {
                return Ok(());
            }
            self.at += line_end.map_or(length, |at| at + 1);
            if line_end.is_some() {
                self.is_line_start = true;
                return Ok(());
            }
        }
    }

    /// Returns the first byte of what follows in a value.
    fn peek_value(&mut self) -> Step<u8> {
        self.skip_blanks()?;
        self.peek()?.ok_or(Stop::Ended)
    }

    fn next(&mut self) -> Step<u8> {
        let byte = self.peek()?.ok_or(Stop::Ended)?;
        self.advance(1);
        Ok(byte)
    }

    fn expect(&mut self, byte: u8) -> Step<()> {
        if self.peek()?.ok_or(Stop::Ended)? != byte {
            return Err(Stop::Malformed);
        }
        self.advance(1);
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Step<()> {
        word.iter().try_for_each(|byte| self.expect(*byte))
    }

    fn number(&mut self) -> Step<String> {
        let mut digits = String::new();
        while let Some(byte @ (b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) = self.peek()? {
            digits.push(char::from(byte));
            if digits.len() > NUMBER_MAX {
                return Err(Stop::Malformed);
            }
            self.advance(1);
        }
        if digits.parse::<f64>().is_err() {
            return Err(Stop::Malformed);
        }
        Ok(digits)
    }

    /// Reads a string, from quote to quote, into `taker`. It ends with its line at the latest.
    fn string(&mut self, mut taker: Option<&mut Taker>) -> Step<()> {
        self.expect(b'"')?;
        loop {
            let bytes = self.at_hand()?;
            if bytes.is_empty() {
                return Err(Stop::Ended);
            }
            let plain = plain_length(bytes);
            if let Some(taker) = taker.as_deref_mut() {
                taker.take(&bytes[..plain]);
            }
            self.advance(plain);
            match self.peek()? {
                Some(b'"') => {
                    self.advance(1);
                    return Ok(());
                }
                Some(b'\\') => {
                    self.advance(1);
                    self.escape(taker.as_deref_mut())?;
                }
                Some(b'\n') => return Err(Stop::Malformed),
                Some(_) => {}
                None => return Err(Stop::Ended),
            }
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, taker: Option<&mut Taker>) -> Step<()> {
        let plain = match self.next()? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode(taker),
            _ => return Err(Stop::Malformed),
        };
        if let Some(taker) = taker {
            taker.take(&[plain]);
        }
        Ok(())
    }

    /// Reads what follows `\u`, and the second half of a pair; half a pair is U+FFFD.
    fn unicode(&mut self, mut taker: Option<&mut Taker>) -> Step<()> {
        let mut put = |c: char| {
            if let Some(taker) = taker.as_deref_mut() {
                taker.take(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        };
        let mut unit = self.hex()?;
        while (0xD800..0xDC00).contains(&unit) {
            if self.peek()? != Some(b'\\') {
                break;
            }
            self.advance(1);
            if self.peek()? != Some(b'u') {
                put(char::REPLACEMENT_CHARACTER);
                return self.escape(taker);
            }
            self.advance(1);
            let second = self.hex()?;
            if (0xDC00..0xE000).contains(&second) {
                let code = 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00);
                put(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(());
            }
            put(char::REPLACEMENT_CHARACTER);
            unit = second;
        }
        put(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
        Ok(())
    }

    fn hex(&mut self) -> Step<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            unit = unit << 4 | char::from(self.next()?).to_digit(16).ok_or(Stop::Malformed)?;
        }
        Ok(unit)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Io(error)
    }
}

/// Returns how many bytes come before the first quote, backslash or line break.
///
/// Eight at a time: a byte of a word is zero where subtracting 1 from it borrows.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    const QUOTES: u64 = u64::from_ne_bytes([b'"'; 8]);
    const BACKSLASHES: u64 = u64::from_ne_bytes([b'\\'; 8]);
    const BREAKS: u64 = u64::from_ne_bytes([b'\n'; 8]);
    let mut at = 0;
    while let Some(word) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_ne_bytes(*word);
        let (quote, backslash, line_break) = (word ^ QUOTES, word ^ BACKSLASHES, word ^ BREAKS);
        let zeros = quote.wrapping_sub(ONES) & !quote
            | backslash.wrapping_sub(ONES) & !backslash
            | line_break.wrapping_sub(ONES) & !line_break;
        if zeros & HIGHS != 0 {
            break;
        }
        at += 8;
    }
    let is_end = |byte: &u8| matches!(byte, b'"' | b'\\' | b'\n');
    bytes[at..].iter().position(is_end).map_or(bytes.len(), |rest| at + rest)
}
