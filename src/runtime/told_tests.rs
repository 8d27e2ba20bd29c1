//! What is read of agents' output, runtime by runtime.

use std::io::Read;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};

use super::sign::{LimitKind, Sign};
use super::told::*;
use crate::money::{Tokens, Usd};
use ReplySeen::{Good, SaidError, Unreadable};

const DONE: Ended = Ended { code: Some(0), signal: None };
const FAILED: Ended = Ended { code: Some(1), signal: None };
const KILLED: Ended = Ended { code: None, signal: Some(9) };

fn noon() -> ZonedDateTime {
    "2026-12-01T12:00:00Z".parse::<Timestamp>().unwrap().to_zoned_datetime(TimeZone::UTC)
}

fn seen(format: &Format, stdout: &str, log: &str, ended: Ended) -> Reply {
    let said = Beside { stdout, stderr: log };
    read(format, stdout.as_bytes(), said, ended, &noon()).unwrap()
}

fn text(reply: &Reply) -> Option<&str> {
    reply.text.as_deref().map(|text| std::str::from_utf8(text).unwrap())
}

fn limit(kind: LimitKind) -> Option<Sign> {
    Some(Sign::Limit { kind, resets_at: None })
}

#[track_caller]
fn check(format: &Format, stdout: &str, reply: ReplySeen, expected_text: Option<&str>, detail: Option<&str>) {
    let found = seen(format, stdout, "", DONE);
    assert_eq!((found.told.reply, text(&found)), (reply, expected_text), "{stdout}");
    assert_eq!(found.told.detail.as_deref(), detail, "{stdout}");
}

const ENVELOPE: &str = r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":1,"num_turns":3,
"result":"done\n","session_id":"0b2e-4f","total_cost_usd":0.0123,"usage":{"input_tokens":5,"output_tokens":6,
"cache_read_input_tokens":7,"cache_creation_input_tokens":8,"service_tier":"x"}}"#;

#[test]
fn an_envelope_is_read_whole() {
    let told = Told {
        reply: Good,
        session: Some("0b2e-4f".into()),
        cost: Some(Usd::from_micros(12_300)),
        tokens: Some(Tokens { input: 5, output: 6, cache_read: 7, cache_write: 8 }),
        turns: Some(3),
        ..Told::default()
    };
    let expected = Reply { told, text: Some(b"done".to_vec()) };
    for stdout in [
        ENVELOPE.to_owned(),
        format!("A new version is there!\n\n{ENVELOPE}\nbye\n"),
        format!(
            "[{{\"type\":\"system\",\"session_id\":\"x\"}},{{\"type\":\"assistant\",\"message\":{{}}}},{ENVELOPE}]"
        ),
        format!("{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"x\"}}\n{ENVELOPE}\n"),
        format!("{}\n{ENVELOPE}\n{{\"hook\":1}}", ENVELOPE.replace("done", "earlier")),
        format!("{ENVELOPE}\n{{\"result\":\"of a hook\"}}"),
    ] {
        assert_eq!(seen(&Format::Claude, &stdout, "", DONE), expected, "{stdout}");
    }
}

#[test]
fn claude_says_how_it_went() {
    const NONE: Option<&str> = Some("no reply in its output");
    let cases: [(&str, ReplySeen, Option<&str>, Option<&str>); 15] = [
        (r#"{"type":"result","result":""}"#, Good, Some(""), None),
        (r#"{"result":"a","session_id":"s"}"#, Good, Some("a"), None),
        (r#"{"type":"result","result":"a\r\n"}"#, Good, Some("a"), None),
        (
            r#"{"type":"result","is_error":true,"result":"API broke\nmore"}"#,
            SaidError,
            Some("API broke\nmore"),
            Some("API broke"),
        ),
        (
            r#"{"type":"result","subtype":"error_max_turns","is_error":false}"#,
            SaidError,
            None,
            Some("error_max_turns"),
        ),
        (
            r#"{"type":"result","subtype":"error_during_execution","errors":["","it\u0007 broke"]}"#,
            SaidError,
            None,
            Some("it broke"),
        ),
        (r#"{"is_error":true}"#, SaidError, None, None),
        (r#"{"type":"result","result":5}"#, Unreadable, None, NONE),
        (r#"{"type":"result"}"#, Unreadable, None, NONE),
        (r#"{"type":"assistant","result":"no"}"#, Unreadable, None, NONE),
        (r#"{"hello":1}"#, Unreadable, None, NONE),
        ("All is done.", Unreadable, None, NONE),
        ("", Unreadable, None, NONE),
        (
            r#"{"type":"result","result":"cut"#,
            Unreadable,
            None,
            Some("its output ends in the midst of a JSON value"),
        ),
        ("{\"session_id\":\"s\",\"result\":null}", Unreadable, None, NONE),
    ];
    for (stdout, reply, text, detail) in cases {
        check(&Format::Claude, stdout, reply, text, detail);
    }
}

#[test]
fn a_budget_that_is_spent_is_told_with_session_and_cost() {
    let stdout =
        r#"{"type":"result","subtype":"error_max_budget_usd","session_id":"s1","total_cost_usd":1.5}"#;
    let told = seen(&Format::Claude, stdout, "", FAILED).told;
    let expected = Told {
        reply: SaidError,
        session: Some("s1".into()),
        cost: Some(Usd::from_micros(1_500_000)),
        over_budget: true,
        detail: Some("error_max_budget_usd".into()),
        ..Told::default()
    };
    assert_eq!(told, expected);
}

#[test]
fn a_session_is_a_plain_name() {
    let long = "a".repeat(201);
    let cases = [
        ("605d46b9-cbaf-4d65-833b-3ba8b940c183", true),
        ("a.b_c:d-1", true),
        (&long[1..], true),
        (&long, false),
        ("", false),
        ("--help", false),
        ("a b", false),
        ("a/../b", false),
        ("ä", false),
    ];
    for (name, is_session) in cases {
        for (format, stdout) in [
            (Format::Claude, format!("{{\"type\":\"result\",\"result\":\"\",\"session_id\":\"{name}\"}}")),
            // The init message of a stream without an end.
            (Format::Claude, format!("{{\"type\":\"system\",\"session_id\":\"{name}\"}}\n{{\"type\":")),
            (Format::Codex, format!("{{\"type\":\"thread.started\",\"thread_id\":\"{name}\"}}")),
            (Format::Pointer("/x".into()), format!("{{\"x\":\"\",\"session_id\":\"{name}\"}}")),
        ] {
            let session = seen(&format, &stdout, "", DONE).told.session;
            assert_eq!(session.as_deref(), is_session.then_some(name), "{stdout}");
        }
    }
    let cost = seen(&Format::Claude, r#"{"type":"result","total_cost_usd":-1}"#, "", DONE).told.cost;
    assert_eq!(cost, None);
}

const CODEX: &str = r#"{"type":"thread.started","thread_id":"t-1"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"0","type":"reasoning","text":"hm"}}
{"type":"item.completed","item":{"id":"1","type":"command_execution","output":"rate limit reached for x"}}
{"type":"item.completed","item":{"id":"2","type":"agent_message","text":"first"}}
{"type":"item.completed","item":{"id":"3","item_type":"assistant_message","text":"done\n"}}
{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":80,"output_tokens":7}}
"#;

#[test]
fn codex_is_read() {
    let found = seen(&Format::Codex, &format!("Reading prompt from stdin...\n{CODEX}"), "", DONE);
    let told = Told {
        reply: Good,
        session: Some("t-1".into()),
        tokens: Some(Tokens { input: 20, output: 7, cache_read: 80, cache_write: 0 }),
        turns: Some(1),
        ..Told::default()
    };
    assert_eq!(found, Reply { told, text: Some(b"done".to_vec()) });
    let twice = seen(&Format::Codex, &format!("{CODEX}{CODEX}"), "", DONE).told;
    assert_eq!(twice.tokens, Some(Tokens { input: 40, output: 14, cache_read: 160, cache_write: 0 }));
    assert_eq!(twice.turns, Some(2));
}

#[test]
fn codex_says_how_it_went() {
    let failed = r#"{"type":"turn.failed","error":{"message":"the model is gone"}}"#;
    let error = r#"{"type":"error","message":"Reconnecting... 1/5"}"#;
    let completed = r#"{"type":"turn.completed"}"#;
    let message = r#"{"type":"item.completed","item":{"type":"agent_message","text":"hi"}}"#;
    let none = Some("no reply in its output");
    check(&Format::Codex, &format!("{message}\n{failed}"), SaidError, Some("hi"), Some("the model is gone"));
    check(&Format::Codex, &format!("{CODEX}{failed}"), SaidError, Some("done"), Some("the model is gone"));
    check(&Format::Codex, &format!("{error}\n{message}\n{completed}"), Good, Some("hi"), None);
    check(&Format::Codex, &format!("{message}\n{error}"), SaidError, Some("hi"), Some("Reconnecting... 1/5"));
    check(&Format::Codex, message, Unreadable, Some("hi"), none);
    check(&Format::Codex, completed, Unreadable, None, none);
    check(&Format::Codex, "", Unreadable, None, none);
    check(
        &Format::Codex,
        "{\"type\"",
        Unreadable,
        None,
        Some("its output ends in the midst of a JSON value"),
    );
}

#[test]
fn other_formats_are_read() {
    check(&Format::Plain, "whatever", Good, None, None);
    check(&Format::File, "{\"is_error\":true}", Good, None, None);
    let none = Some("no reply in its output");
    for (pointer, stdout, reply, text, detail) in [
        ("/a/b", r#"{"a":{"b":"hi"}}"#, Good, Some("hi"), None),
        (
            "/a/b",
            "log\n{\"a\":{\"b\":\"one\"}}\n{\"a\":{\"b\":\"two\"}}\n{\"a\":{}}",
            Good,
            Some("two"),
            None,
        ),
        ("/a", r#"{"a":{"b": 1}}"#, Good, Some("{\"b\": 1}"), None),
        ("/a", r#"{"a":7}"#, Good, Some("7"), None),
        ("/a", r#"{"a":false}"#, Good, Some("false"), None),
        ("", r#"{"a":null}"#, Good, Some(r#"{"a":null}"#), None),
        ("/a", r#"{"a":null}"#, Unreadable, None, none),
        ("/a", "hi", Unreadable, None, none),
        ("/a", r#"{"a":"no key","is_error":true}"#, SaidError, Some("no key"), Some("no key")),
        ("/a", r#"{"is_error":true,"error":{"message":"no key"}}"#, SaidError, None, Some("no key")),
        ("/a", "{\"a\":\"hi\"}\n{\"is_error\":true,\"error\":\"broke\"}", SaidError, None, Some("broke")),
        ("/error", r#"{"error":"none"}"#, Good, Some("none"), None),
    ] {
        check(&Format::Pointer(pointer.into()), stdout, reply, text, detail);
    }
    let told =
        seen(&Format::Pointer("/a".into()), r#"{"a":"x","session_id":"s","cost_usd":0.5}"#, "", DONE).told;
    assert_eq!((told.session, told.cost), (Some("s".into()), Some(Usd::from_micros(500_000))));
}

/// Format, stdout, log and end of a process; what is told of them.
type Case<'t> = (&'t Format, String, &'t str, Ended, ReplySeen, Option<Sign>);

#[test]
fn signs_are_looked_for_only_where_it_went_wrong() {
    let said = |text: &str| format!("{{\"type\":\"result\",\"is_error\":true,\"result\":{text:?}}}");
    let good = |text: &str| format!("{{\"type\":\"result\",\"result\":{text:?}}}");
    let log = "Error: Too Many Requests";
    let rate = limit(LimitKind::Rate);
    let claude = &Format::Claude;
    let cases: [Case<'_>; 24] = [
        // What the envelope says comes first, then the log.
        (claude, said("You've hit your weekly limit"), log, FAILED, SaidError, limit(LimitKind::Weekly)),
        (claude, said("You've hit your weekly limit"), "", DONE, SaidError, limit(LimitKind::Weekly)),
        (claude, said("it broke"), log, FAILED, SaidError, rate),
        (claude, said("it broke"), "fine", FAILED, SaidError, None),
        // An agent's work may speak of anything.
        (claude, good("Too many requests are now answered with 429."), "", DONE, Good, None),
        (
            claude,
            good("API Error: 529 is now retried, and the rest of the text says why."),
            "",
            DONE,
            Good,
            None,
        ),
        (claude, good("fine"), log, DONE, Good, None),
        // Who replied was served.
        (claude, good("fine"), log, FAILED, Good, None),
        (claude, good("fine"), log, KILLED, Good, None),
        (claude, good("Too Many Requests"), &good("Too Many Requests"), FAILED, Good, None),
        // A success that is none.
        (
            claude,
            good("Claude AI usage limit reached|1735689600"),
            "",
            DONE,
            SaidError,
            limit(LimitKind::Usage),
        ),
        // Of a runtime that is not known, standard output is the agent's work.
        (&Format::Plain, "Credit balance is too low\n".into(), "", DONE, Good, None),
        (&Format::Plain, "Error: Too Many Requests".into(), "", FAILED, Good, None),
        (&Format::Plain, "x".into(), "  client: rate limit exceeded, try again in 1s", FAILED, Good, None),
        (&Format::Plain, "x".into(), log, FAILED, Good, rate),
        (claude, "test said: 429 Too Many Requests\n{\"type\":".into(), "", FAILED, Unreadable, None),
        (
            claude,
            "Invalid API key · Please run /login".into(),
            "",
            FAILED,
            Unreadable,
            Some(Sign::LoginExpired),
        ),
        (&Format::Plain, "Credit balance is too low\nis now told.".into(), "", DONE, Good, None),
        // No envelope.
        (claude, String::new(), log, FAILED, Unreadable, rate),
        (
            claude,
            String::new(),
            "env: 'node': No such file or directory",
            DONE,
            Unreadable,
            Some(Sign::Missing),
        ),
        (claude, String::new(), "API Error: 401 {\"x\":\"y\"}", FAILED, Unreadable, Some(Sign::LoginExpired)),
        (&Format::File, String::new(), log, FAILED, Good, rate),
        (&Format::File, String::new(), log, DONE, Good, None),
        (&Format::File, String::new(), "{\"error\":{\"status\":\"RESOURCE_EXHAUSTED\"}}", FAILED, Good, rate),
    ];
    for (format, stdout, log, ended, reply, sign) in cases {
        let told = seen(format, &stdout, log, ended).told;
        assert_eq!((told.reply, told.sign), (reply, sign), "{stdout} / {log}");
    }
}

#[test]
fn the_log_is_looked_at_from_its_end_and_not_far() {
    let sign = |log: &str| seen(&Format::Claude, "", log, FAILED).told.sign;
    let (limited, expired) = ("Error: Too Many Requests\n", "OAuth token has expired\n");
    assert_eq!(sign(&format!("{limited}{expired}\n\n")), Some(Sign::LoginExpired));
    assert_eq!(sign(&format!("{expired}{}", "fine\n\n".repeat(9))), Some(Sign::LoginExpired));
    assert_eq!(sign(&format!("{expired}{}", "fine\n\n".repeat(10))), None);
    // The rest of a line that was a reply in JSON.
    let rest = format!("it said: Too Many Requests\",\"x\":\"{}\"}}\n", "y".repeat(1000));
    assert_eq!(sign(&format!("error: hit your session limit {rest}")), None);
    let told = seen(&Format::Claude, "", &format!("x\n{limited}"), FAILED).told;
    assert_eq!(told.detail.as_deref(), Some("Error: Too Many Requests"));
}

#[test]
fn details_are_short_and_plain() {
    let long = format!("\\n  \\u001b[31m{}", "ä".repeat(400));
    let stdout = format!("{{\"type\":\"result\",\"is_error\":true,\"result\":\"{long}\"}}");
    let detail = seen(&Format::Claude, &stdout, "", DONE).told.detail.unwrap();
    assert_eq!(detail, format!("[31m{}", "ä".repeat(296)));
}

#[test]
fn the_last_mib_of_a_reply_is_kept_from_a_line_start() {
    let read = |line: &str, count: usize| {
        let body = line.repeat(count);
        let start = b"{\"type\":\"result\",\"num_turns\":2,\"result\":\"".as_slice();
        let stdout = start.chain(body.as_bytes()).chain(b"\",\"session_id\":\"s\"}\n".as_slice());
        let reply = read(&Format::Claude, stdout, Beside::default(), DONE, &noon()).unwrap();
        assert_eq!((reply.told.reply, reply.told.session.as_deref()), (Good, Some("s")));
        reply.text.unwrap()
    };
    // 20 bytes a line, so that the last MiB does not begin with one.
    let text = read("a line of 20 bytes.\\n", 1_000_000);
    assert_eq!(text.len(), REPLY_MAX / 20 * 20 - 1);
    assert!(text.starts_with(b"a line") && text.ends_with(b"\na line of 20 bytes."));
    // 16 bytes a line: it begins with a line, which is kept.
    assert_eq!(read("15 bytes a line\\n", 100_000).len(), REPLY_MAX - 1);
    // One line is cut where it has to be, between characters.
    let text = read("€", 500_000);
    assert!(text.len() <= REPLY_MAX && text.len() > REPLY_MAX - 8 && std::str::from_utf8(&text).is_ok());
}

#[test]
fn told_is_kept_as_json() {
    let mut told = seen(&Format::Claude, ENVELOPE, "", DONE).told;
    told.sign = limit(LimitKind::Session);
    let text = serde_json::to_string(&told).unwrap();
    assert!(text.starts_with(r#"{"reply":"good","session":"0b2e-4f","cost":0.0123,"#), "{text}");
    assert_eq!(serde_json::from_str::<Told>(&text).unwrap(), told);
    let least = serde_json::to_string(&Told { reply: SaidError, ..Told::default() }).unwrap();
    assert_eq!(least, r#"{"reply":"said-error"}"#);
    assert_eq!(serde_json::from_str::<Told>(&least).unwrap().reply, SaidError);
}
