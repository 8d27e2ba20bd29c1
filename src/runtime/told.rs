//! What an agent's process told: its reply, session and cost, or why there is none.
//!
//! The shapes are those of `claude -p --output-format json` (stream-json too), of `codex exec --json`, and of
//! runtimes of the graph's own. The caller judges the exit status; here it only says whether signs are looked
//! for.

use std::io::{self, Read};

use jiff::ZonedDateTime;
use serde::{Deserialize, Serialize};

use super::scan::{Bounded, Found, Keep, Object, Scanner, Value, Wanted};
use super::sign::{Sign, sign_of, sign_of_reply};
use crate::money::{Tokens, Usd};

/// Bytes of a reply that are kept, its last.
pub const REPLY_MAX: usize = 1 << 20;
/// Bytes of a reply that may be a CLI's sentence instead.
const SENTENCE_MAX: usize = 300;
/// Characters of an error's text in which signs are looked for.
const ERROR_MAX: usize = 2000;
/// Lines of a log, its last, in which signs are looked for.
const LOG_LINES: usize = 10;
/// Bytes of a log from which on it may be the rest of a longer one.
const LOG_WHOLE_MAX: usize = 1000;
const DETAIL_MAX: usize = 300;
const SESSION_MAX: usize = 200;

/// The shape of a runtime's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object at the end, as Claude Code writes it; also an array or lines of messages that ends in
    /// it.
    Claude,
    /// Lines of JSON, as Codex writes them.
    Codex,
    /// All of stdout is the reply.
    Plain,
    /// The reply is at this JSON pointer of the last object that has it.
    Pointer(String),
    /// The reply is in a file; stdout is just log.
    File,
}

/// Whether a reply was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplySeen {
    /// The agent came to an end and said so.
    Good,
    /// The runtime itself says that it failed.
    SaidError,
    /// Neither was found in the output.
    #[default]
    Unreadable,
}

/// What an agent's process told, whatever its runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Whether a reply was seen.
    pub reply: ReplySeen,
    /// The session, to go on with it; of letters, digits and `._:-`, at most 200 of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it cost; `None` where that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Usd>,
    /// The tokens it took, where that is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// How often the model was asked, where that is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Whether the runtime stopped at the budget it was given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over_budget: bool,
    /// What provider or CLI say of themselves, where it did not go well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<Sign>,
    /// An error's first line for people: no control characters, at most 300 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What was told, with the reply itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// All but the reply's text.
    pub told: Told,
    /// The reply's last MiB, cut at a line start where it was cut, without its final line break; also what a
    /// failed agent said last. `None` where the format leaves it elsewhere (`Plain`, `File`), or there is
    /// none.
    pub text: Option<Vec<u8>>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// What was read, before signs are looked for.
#[derive(Default)]
struct Seen {
    told: Told,
    text: Option<Bounded>,
    /// The error's own text.
    error: Option<String>,
}

/// Returns what an agent told on `stdout`.
///
/// `said` is the end of what it wrote beside its reply. `now` is what times of day are counted from. Errors: those of
/// `stdout`.
///
/// Signs are looked for where something went wrong, and only in what the CLI itself says: an error's own text, and what
/// was written beside a reply that is missing. Whoever replied was served; and of a runtime that is not known, what
/// goes to standard output is the agent's work.
pub fn read(
    format: &Format,
    stdout: impl Read,
    said: Beside<'_>,
    ended: Ended,
    now: &ZonedDateTime,
) -> io::Result<Reply> {
    let mut seen = match format {
        Format::Claude => claude(stdout)?,
        Format::Codex => codex(stdout)?,
        Format::Plain => Seen { told: Told { reply: ReplySeen::Good, ..Told::default() }, ..Seen::default() },
        Format::Pointer(pointer) => pointed(stdout, pointer)?,
        Format::File => Seen { told: Told { reply: ReplySeen::Good, ..Told::default() }, ..Seen::default() },
    };
    let is_known = matches!(format, Format::Claude | Format::Codex);
    if let (ReplySeen::Good, Some(text), true) = (seen.told.reply, &seen.text, is_known) {
        not_a_sentence(&mut seen.told, text, now);
    }
    let told = &mut seen.told;
    let went_well = told.reply == ReplySeen::Good && ended.code == Some(0) && ended.signal.is_none();
    if told.sign.is_none() && !went_well {
        // A reply is an agent's work, whatever the exit status: it may speak of limits.
        let error: Option<String> = seen.error.as_deref().map(|text| text.chars().take(ERROR_MAX).collect());
        told.sign = error.and_then(|error| sign_of(&error, now));
        // That these reply is no more than that nothing is known of it.
        let is_silent = matches!(format, Format::Plain | Format::File) || told.reply != ReplySeen::Good;
        let of_log = || {
            let on_stdout = || sentence_in(said.stdout, now).filter(|_| is_known);
            sign_in_log(said.stderr, now).or_else(on_stdout).filter(|_| is_silent)
        };
        if told.sign.is_none()
            && let Some((sign, line)) = of_log()
        {
            told.sign = Some(sign);
            // An error's own words say more than a line of the log, which says more than that nothing was
            // read.
            told.detail = seen.error.as_deref().and_then(detail).or_else(|| detail(&line));
        }
    }
    if told.detail.is_none() {
        told.detail = seen.error.as_deref().and_then(detail);
    }
    Ok(Reply { told: seen.told, text: seen.text.map(reply_text) })
}

/// Turns a reply that is a CLI's sentence about its provider into the error that it is.
fn not_a_sentence(told: &mut Told, text: &Bounded, now: &ZonedDateTime) {
    let is_short = text.bytes <= SENTENCE_MAX as u64;
    if let Some(sign) = is_short.then(|| sign_of_reply(&text.text, now)).flatten() {
        (told.reply, told.sign, told.detail) = (ReplySeen::SaidError, Some(sign), detail(&text.text));
    }
}

/// What a process wrote beside its reply, or in place of one: the last lines of each stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// Of standard output.
    pub stdout: &'a str,
    /// Of standard error.
    pub stderr: &'a str,
}

/// Returns the sign in the last lines of what a CLI wrote, of which one is a sentence about its provider and nothing
/// else; and the line.
fn sentence_in(text: &str, now: &ZonedDateTime) -> Option<(Sign, String)> {
    let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(LOG_LINES);
    lines
        .filter(|line| line.len() <= SENTENCE_MAX)
        .find_map(|line| sign_of_reply(line, now).map(|sign| (sign, line.to_string())))
}

/// Returns the sign in the last lines of a log, each by itself, the last first, and the line.
fn sign_in_log(log_tail: &str, now: &ZonedDateTime) -> Option<(Sign, String)> {
    // The first line may be the rest of one, and so of a reply in JSON; that of a short log is whole.
    let is_cut = log_tail.len() >= LOG_WHOLE_MAX;
    let is_rest = |at: usize, line: &str| at == 0 && is_cut && line.ends_with(['}', ']', '"']);
    let lines = log_tail.lines().enumerate().filter(|(at, line)| !is_rest(*at, line.trim_end()));
    let lines: Vec<&str> = lines.map(|(_, line)| line.trim()).filter(|line| !line.is_empty()).collect();
    let last = lines.iter().rev().take(LOG_LINES);
    last.flat_map(|line| spoken(line)).find_map(|line| sign_of(&line, now).map(|sign| (sign, line)))
}

/// Returns what a line of a log says: itself, and where it is JSON the error in it, since the rest may be an
/// agent's work.
fn spoken(line: &str) -> Vec<String> {
    let is_json = line.starts_with('{') || line.starts_with("[{") || line.starts_with("[\"");
    if !is_json {
        return vec![line.chars().take(ERROR_MAX).collect()];
    }
    let paths = ["/error", "/error/message", "/error/status", "/error/type", "/error/code"];
    let wanted = paths.map(|path| Wanted::new(path, Keep::Start(ERROR_MAX)));
    let mut scanner = Scanner::new(line.as_bytes(), &wanted);
    let mut said = Vec::new();
    while let Ok(Some(found)) = scanner.next() {
        if let Found::Object(object) = found {
            said.extend(
                paths.iter().filter_map(|path| object.text(path)).map(|text| format!("error: {}", text.text)),
            );
        }
    }
    said
}

/// Returns the first line that is not empty, for people.
fn detail(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(DETAIL_MAX).collect())
}

/// Returns the result as it is kept: cut at a line start where it was cut, without its final line break.
fn reply_text(text: Bounded) -> Vec<u8> {
    // Where it was cut, the first kept byte is the one before the last MiB.
    let first = || text.text.chars().next().map_or(0, char::len_utf8);
    let start = if text.is_cut { text.text.find('\n').map_or_else(first, |at| at + 1) } else { 0 };
    let kept = &text.text[start..];
    let kept = kept.strip_suffix('\n').unwrap_or(kept);
    kept.strip_suffix('\r').unwrap_or(kept).as_bytes().to_vec()
}

const REPLY: Keep = Keep::End(REPLY_MAX + 1);
const SHORT: Keep = Keep::Start(SESSION_MAX + 1);
const ERROR: Keep = Keep::Start(4 * ERROR_MAX);

fn session(object: &Object, pointer: &str) -> Option<String> {
    let text = object.text(pointer).filter(|text| !text.is_cut)?.text.as_str();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
    // It becomes an argument, so it may not look like a flag.
    let is_name = text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_plain);
    (is_name && text.len() <= SESSION_MAX).then(|| text.to_owned())
}

fn claude(stdout: impl Read) -> io::Result<Seen> {
    const ERRORS: [&str; 3] = ["/errors/0", "/errors/1", "/errors/2"];
    let shorts = ["/type", "/subtype", "/session_id"].map(|path| Wanted::new(path, SHORT));
    let errors = ERRORS.map(|path| Wanted::new(path, ERROR));
    let rest = ["/is_error", "/total_cost_usd", "/num_turns"].map(|path| Wanted::new(path, Keep::Start(8)));
    let usage = CLAUDE_USAGE.map(|path| Wanted::new(path, Keep::Start(0)));
    let wanted =
        [vec![Wanted::new("/result", REPLY)], shorts.into(), errors.into(), rest.into(), usage.into()];
    let mut scanner = Scanner::new(stdout, &wanted.concat());
    let (mut envelope, mut untyped, mut named, mut is_unfinished) = (None, None, None, false);
    while let Some(found) = scanner.next()? {
        is_unfinished = found == Found::Unfinished;
        let Found::Object(object) = found else { continue };
        named = session(&object, "/session_id").or(named);
        if object.text("/type").is_some_and(|word| word.text == "result") {
            envelope = Some(object);
        } else if object.get("/type").is_none()
            && ["/result", "/is_error", "/session_id"].iter().any(|path| object.get(path).is_some())
        {
            untyped = Some(object);
        }
    }
    let Some(envelope) = envelope.or(untyped) else {
        return Ok(Seen { told: Told { session: named, ..unreadable(is_unfinished) }, ..Seen::default() });
    };
    let subtype = envelope.text("/subtype").map(|word| word.text.clone());
    let is_success = subtype.as_ref().is_none_or(|word| word == "success");
    let text = envelope.text("/result").cloned();
    let reply = match (says_error(&envelope) || !is_success, &text) {
        (true, _) => ReplySeen::SaidError,
        (false, Some(_)) => ReplySeen::Good,
        (false, None) => ReplySeen::Unreadable,
    };
    let told = Told {
        session: session(&envelope, "/session_id").or(named),
        cost: envelope.number("/total_cost_usd").and_then(Usd::from_dollars),
        tokens: claude_tokens(&envelope),
        turns: envelope.count("/num_turns"),
        over_budget: subtype.as_deref() == Some("error_max_budget_usd"),
        ..if reply == ReplySeen::Unreadable { unreadable(false) } else { Told { reply, ..Told::default() } }
    };
    let errors = ERRORS.iter().filter_map(|path| envelope.text(path));
    let mut said: Vec<&str> = errors.chain(&text).map(|text| text.text.as_str()).collect();
    // The subtype alone is a word for people, where nothing else is said.
    said.extend(subtype.as_deref().filter(|_| !is_success));
    said.retain(|text| !text.trim().is_empty());
    let error = (reply == ReplySeen::SaidError).then(|| said.join("\n"));
    Ok(Seen { told, text, error })
}

/// Returns whether an object says that it is of an error, in whatever form: only a plain no is none.
fn says_error(object: &Object) -> bool {
    match object.get("/is_error") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is)) => *is,
        Some(Value::Number(digits)) => digits != "0",
        Some(Value::Text(text)) => !matches!(text.text.as_str(), "" | "false" | "0"),
        Some(Value::Other(_)) => true,
    }
}

const CLAUDE_USAGE: [&str; 4] = [
    "/usage/input_tokens",
    "/usage/output_tokens",
    "/usage/cache_read_input_tokens",
    "/usage/cache_creation_input_tokens",
];

fn claude_tokens(envelope: &Object) -> Option<Tokens> {
    let counts = CLAUDE_USAGE.map(|path| envelope.count(path));
    let [input, output, cache_read, cache_write] = counts.map(Option::unwrap_or_default);
    counts.iter().any(Option::is_some).then_some(Tokens { input, output, cache_read, cache_write })
}

fn unreadable(is_unfinished: bool) -> Told {
    let said =
        if is_unfinished { "its output ends in the midst of a JSON value" } else { "no reply in its output" };
    Told { reply: ReplySeen::Unreadable, detail: Some(said.to_owned()), ..Told::default() }
}

fn codex(stdout: impl Read) -> io::Result<Seen> {
    const USAGE: [&str; 3] = ["/usage/input_tokens", "/usage/cached_input_tokens", "/usage/output_tokens"];
    let shorts =
        ["/type", "/thread_id", "/item/type", "/item/item_type"].map(|path| Wanted::new(path, SHORT));
    let errors = ["/message", "/error/message"].map(|path| Wanted::new(path, ERROR));
    let usage = USAGE.map(|path| Wanted::new(path, Keep::Start(0)));
    let wanted = [vec![Wanted::new("/item/text", REPLY)], shorts.into(), errors.into(), usage.into()];
    let mut scanner = Scanner::new(stdout, &wanted.concat());
    let (mut seen, mut is_complete, mut is_unfinished) = (Seen::default(), false, false);
    while let Some(found) = scanner.next()? {
        is_unfinished = found == Found::Unfinished;
        let Found::Object(event) = found else { continue };
        let word = |pointer: &str| event.text(pointer).map(|word| word.text.as_str());
        match word("/type") {
            Some("thread.started") => seen.told.session = session(&event, "/thread_id"),
            Some("item.completed") => {
                let kind = word("/item/type").or(word("/item/item_type"));
                if matches!(kind, Some("agent_message" | "assistant_message")) {
                    seen.text = event.text("/item/text").cloned().or(seen.text);
                }
            }
            Some("turn.completed") => {
                (is_complete, seen.error) = (true, None);
                seen.told.turns = Some(seen.told.turns.unwrap_or(0) + 1);
                let counts = USAGE.map(|path| event.count(path));
                let [input, cache_read, output] = counts.map(Option::unwrap_or_default);
                if counts.iter().any(Option::is_some) {
                    // What came from the cache is counted in `input_tokens` too.
                    let input = input.saturating_sub(cache_read);
                    let tokens = Tokens { input, output, cache_read, cache_write: 0 };
                    seen.told.tokens = Some(seen.told.tokens.unwrap_or_default().plus(tokens));
                }
            }
            Some("turn.failed" | "error") => {
                is_complete = false;
                let said = word("/error/message").or(word("/message")).unwrap_or("the turn failed");
                seen.error = Some(said.to_owned());
            }
            Some(_) | None => {}
        }
    }
    if seen.error.is_some() {
        seen.told.reply = ReplySeen::SaidError;
    } else if is_complete && seen.text.is_some() {
        seen.told.reply = ReplySeen::Good;
    } else {
        seen.told.detail = unreadable(is_unfinished).detail;
    }
    Ok(seen)
}

fn pointed(stdout: impl Read, pointer: &str) -> io::Result<Seen> {
    const COSTS: [&str; 2] = ["/total_cost_usd", "/cost_usd"];
    let errors = ["/error", "/error/message", "/message"].map(|path| Wanted::new(path, ERROR));
    let rest = ["/is_error", COSTS[0], COSTS[1]].map(|path| Wanted::new(path, Keep::Start(8)));
    let wanted = [vec![Wanted::new("/session_id", SHORT)], errors.into(), rest.into()].concat();
    // The reply may be any of these.
    let mut wanted: Vec<Wanted> = wanted.into_iter().filter(|wanted| wanted.pointer != pointer).collect();
    wanted.push(Wanted::new(pointer, REPLY));
    let mut scanner = Scanner::new(stdout, &wanted);
    let (mut last, mut failed, mut named, mut is_unfinished) = (None, None, None, false);
    while let Some(found) = scanner.next()? {
        is_unfinished = found == Found::Unfinished;
        let Found::Object(object) = found else { continue };
        named = session(&object, "/session_id").or(named);
        if object.get(pointer).is_some_and(|value| *value != Value::Null) {
            (last, failed) = (Some(object), None);
        } else if says_error(&object) {
            failed = Some(object);
        }
    }
    let Some(object) = failed.or(last) else {
        return Ok(Seen { told: Told { session: named, ..unreadable(is_unfinished) }, ..Seen::default() });
    };
    let is_error = says_error(&object);
    let reply = if is_error { ReplySeen::SaidError } else { ReplySeen::Good };
    let cost = COSTS.iter().find_map(|path| object.number(path)).and_then(Usd::from_dollars);
    let text = object.get(pointer).and_then(written);
    let said = ["/error/message", "/error", "/message"].iter().find_map(|path| object.text(path));
    let error = said.or(text.as_ref()).filter(|_| is_error).map(|text| text.text.clone());
    let session = session(&object, "/session_id").or(named);
    Ok(Seen { told: Told { reply, session, cost, ..Told::default() }, text, error })
}

/// Returns a value as text: a string's own, else its JSON.
fn written(value: &Value) -> Option<Bounded> {
    let whole = |text: String| Bounded { bytes: text.len() as u64, is_cut: false, text };
    match value {
        Value::Null => None,
        Value::Bool(is) => Some(whole(is.to_string())),
        Value::Number(digits) => Some(whole(digits.clone())),
        Value::Text(text) | Value::Other(text) => Some(text.clone()),
    }
}
