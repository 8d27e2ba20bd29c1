//! The scanner on streams as they come, in one piece and byte by byte.

use std::io::{self, Read};

use super::scan::*;

const WANTED: [(&str, Keep); 9] = [
    ("/type", Keep::Start(16)),
    ("/result", Keep::End(8)),
    ("/usage", Keep::Start(20)),
    ("/usage/in", Keep::Start(16)),
    ("/errors/1", Keep::Start(16)),
    ("/a~1b/~0", Keep::Start(16)),
    ("/n", Keep::Start(16)),
    ("/list", Keep::End(4)),
    ("/it/text", Keep::Start(64)),
];

/// Hands out one byte at a time, and an interruption now and then.
struct Slow<'t>(&'t [u8], bool);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.0.read(&mut buffer[..1])
    }
}

fn scan(reader: impl Read, wanted: &[(&str, Keep)]) -> Vec<String> {
    let wanted: Vec<Wanted> = wanted.iter().map(|(pointer, keep)| Wanted::new(*pointer, *keep)).collect();
    let mut scanner = Scanner::new(reader, &wanted);
    let mut found = Vec::new();
    while let Some(next) = scanner.next().unwrap() {
        found.push(match next {
            Found::Object(object) => shown(&object, &wanted),
            Found::Malformed => "malformed".to_owned(),
            Found::Unfinished => "unfinished".to_owned(),
        });
    }
    assert_eq!(scanner.next().unwrap(), None);
    found
}

fn shown(object: &Object, wanted: &[Wanted]) -> String {
    let value = |wanted: &Wanted| {
        let cut = |text: &Bounded| if text.is_cut { format!("+{}", text.bytes) } else { String::new() };
        let value = match object.get(&wanted.pointer)? {
            Value::Null => "null".to_owned(),
            Value::Bool(is) => is.to_string(),
            Value::Number(digits) => digits.clone(),
            Value::Text(text) => format!("{:?}{}", text.text, cut(text)),
            Value::Other(raw) => format!("<{}>{}", raw.text, cut(raw)),
        };
        Some(format!("{}={value}", wanted.pointer))
    };
    wanted.iter().filter_map(value).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(stream: impl AsRef<[u8]>, expected: &[&str]) {
    let stream = stream.as_ref();
    let name = String::from_utf8_lossy(stream);
    assert_eq!(scan(stream, &WANTED), expected, "in one piece: {name}");
    assert_eq!(scan(Slow(stream, false), &WANTED), expected, "byte by byte: {name}");
}

#[test]
fn values_are_found_where_they_are() {
    check("", &[]);
    check("  \n\n", &[]);
    check("{}", &[""]);
    check(r#"{"type":"result","n":1}"#, &[r#"/type="result" /n=1"#]);
    check("{\"type\" :\t\"result\" ,\r\n \"n\" : -1.5e3 }\r\n", &[r#"/type="result" /n=-1.5e3"#]);
    check("\u{feff}{\"n\":true}", &["/n=true"]);
    check(r#"{"n":null,"type":false}"#, &["/type=false /n=null"]);
    check(r#"{"errors":["a","b","c"]}"#, &[r#"/errors/1="b""#]);
    check(r#"{"a/b":{"~":"x"},"a~1b":{"~0":"no"}}"#, &[r#"/a~1b/~0="x""#]);
    check(r#"{"x":{"type":"no","n":2},"y":[{"n":3}]}"#, &[""]);
    check(r#"{"usage":{"in":7, "x":[]}}"#, &[r#"/usage=<{"in":7, "x":[]}> /usage/in=7"#]);
    check(r#"{"list":[1, 2, 3]}"#, &["/list=<, 3]>+9"]);
    check(r#"{"usage":"none"}"#, &[r#"/usage="none""#]);
    check(r#"{"\u006e":5}"#, &["/n=5"]);
    check(format!(r#"{{"{}":1,"n":2}}"#, "k".repeat(100_000)), &["/n=2"]);
}

#[test]
fn the_last_of_equal_keys_wins() {
    check(r#"{"n":1,"n":2}"#, &["/n=2"]);
    check(r#"{"usage":{"in":1},"usage":{}}"#, &["/usage=<{}>"]);
    check(r#"{"usage":{"in":1},"usage":null}"#, &["/usage=null"]);
}

#[test]
fn objects_come_from_lines_arrays_and_rows() {
    check("{\"n\":1}\n{\"n\":2}\n", &["/n=1", "/n=2"]);
    check("{\"n\":1}{\"n\":2} [{\"n\":3}]", &["/n=1", "/n=2", "/n=3"]);
    check("[{\"n\":1},\n 5, \"x\", [{\"n\":9}], null, {\"n\":2}]", &["/n=1", "/n=2"]);
    check("[]\n[ ]\n{\"n\":1}", &["/n=1"]);
    check("Welcome!\n  {\"n\":1} done\nbye {\"n\":2}\n", &["/n=1"]);
    check("warning: x\r\n{\"n\":1}\r\nbye", &["/n=1"]);
}

#[test]
fn what_is_no_value_ends_with_its_line() {
    check("[INFO] started\n{\"n\":1}", &["malformed", "/n=1"]);
    check("[1/3] x\n[2026] y\n{\"n\":1}", &["malformed", "/n=1"]);
    check("{ not json }\n{\"n\":1}", &["malformed", "/n=1"]);
    check("{\"type\":\"assis\n{\"n\":1}", &["malformed", "/n=1"]);
    check("{\n{\"n\":1}\n", &["malformed", "/n=1"]);
    check("{\"usage\":{\"in\"\n{\"n\":1}", &["malformed", "/n=1"]);
    check("[{\"n\":1},{\"n\":}, {\"n\":3}]\n{\"n\":2}", &["/n=1", "malformed", "/n=2"]);
    check("[{\"n\":1} {\"n\":2}]\n", &["/n=1", "malformed"]);
    check("[{\"n\":1},]\n{\"n\":2}\n", &["/n=1", "malformed", "/n=2"]);
    for wrong in [
        r#"{"n":tru}"#,
        r#"{"n":1,}"#,
        r#"{"n" 1}"#,
        r#"{n:1}"#,
        r#"{"n":1-2}"#,
        r#"{"n":-}"#,
        r#"{"n":"\x"}"#,
        r#"{"n":"\u12g4"}"#,
        r#"{"n":[1 2]}"#,
        r#"{"n":[1}"#,
    ] {
        check(format!("{wrong}\n{{\"n\":1}}"), &["malformed", "/n=1"]);
    }
    check(format!("{{\"n\":{}}}\n{{\"n\":1}}", "1".repeat(2000)), &["malformed", "/n=1"]);
}

#[test]
fn a_stream_that_ends_too_soon_is_told() {
    for stream in
        ["{", "{\"n\":1", "{\"n\":\"abc", "{\"n\":\"a\\", "{\"n\":tr", "[", "{\"n\":[1,", "{\"n\":\"\\ud8"]
    {
        check(stream, &["unfinished"]);
    }
    check("[{\"n\":1},", &["/n=1", "unfinished"]);
    check("{\"n\":1}\n{\"n\":", &["/n=1", "unfinished"]);
}

#[test]
fn escapes_are_resolved() {
    let cases = [
        (r#"a\"b\\c\/d\b\f\n\r\t"#, "a\"b\\c/d\u{8}\u{c}\n\r\t"),
        (r"\u00e4\u20AC", "ä€"),
        (r"\ud83d\ude00!", "😀!"),
        (r"\ud83d!", "\u{fffd}!"),
        (r"\ud83d\n", "\u{fffd}\n"),
        (r"\ud83d\u0041", "\u{fffd}A"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
        (r"\ude00", "\u{fffd}"),
        ("tab\there", "tab\there"),
        ("ä€😀", "ä€😀"),
    ];
    for (written, read) in cases {
        check(format!("{{\"it\":{{\"text\":\"{written}\"}}}}"), &[&format!("/it/text={read:?}")]);
    }
    check(b"{\"it\":{\"text\":\"a\xff\xe2\x82b\"}}", &["/it/text=\"a\u{fffd}\u{fffd}b\""]);
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    check(format!("{{\"x\":{}}}\n{{\"n\":1}}", nested(DEPTH_MAX - 1)), &["", "/n=1"]);
    check(format!("{{\"x\":{}}}\n{{\"n\":1}}", nested(DEPTH_MAX)), &["malformed", "/n=1"]);
    check(format!("{}\n{{\"n\":1}}", "[".repeat(100_000)), &["malformed", "/n=1"]);
}

#[test]
fn the_end_of_a_long_text_is_kept() {
    check(r#"{"result":"0123456789"}"#, &[r#"/result="23456789"+10"#]);
    check(r#"{"result":"aaaäääää"}"#, &[r#"/result="ääää"+13"#]);
    check(r#"{"type":"0123456789abcdefgh"}"#, &[r#"/type="0123456789abcdef"+18"#]);
}

/// Makes a reply of `lines` lines without ever holding it.
struct Lines {
    next: u64,
    lines: u64,
    rest: Vec<u8>,
}

impl Lines {
    fn new(lines: u64) -> Lines {
        Lines { next: 0, lines, rest: b"{\"type\":\"result\",\"result\":\"".to_vec() }
    }
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && self.next <= self.lines {
            for _ in 0..500.min(self.lines - self.next) {
                self.rest
                    .extend_from_slice(format!("line {:>12} of a \\\"reply\\\"\\n", self.next).as_bytes());
                self.next += 1;
            }
            if self.next == self.lines {
                self.rest.extend_from_slice(b"\",\"n\":1}\n");
                self.next += 1;
            }
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}

#[test]
fn a_long_reply_is_read() {
    const LINE: u64 = "line 000000000000 of a \"reply\"\n".len() as u64;
    let lines = 20_000_000 / LINE + 1;
    let wanted =
        [("/type", Keep::Start(9)), ("/result", Keep::End(LINE as usize + 3)), ("/n", Keep::Start(9))];
    let last = format!("y\\\"\\nline {:>12} of a \\\"reply\\\"\\n", lines - 1);
    let expected = format!(r#"/type="result" /result="{last}"+{} /n=1"#, lines * LINE);
    assert_eq!(scan(Lines::new(lines), &wanted), [expected]);
}

#[test]
fn an_error_of_the_stream_is_returned() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    let mut scanner = Scanner::new(b"{\"n\":".chain(Broken), &[]);
    assert_eq!(scanner.next().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}
