//! A line of `events.jsonl`: a fact with its place and time.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{Generation, Leg};
use crate::schedule::Fact;

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// When it was written, UTC.
    pub ts: Timestamp,
    /// The leg that wrote it.
    pub leg: Leg,
    /// The claim under which it was written.
    pub r#gen: Generation,
    /// What became true.
    #[serde(flatten)]
    pub fact: Fact,
    /// What an act that is announced is on: a lane or a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// On the first line of what was written at once: the number of the last line that was durable by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synced: Option<u64>,
    /// On the first line of several that were written at once: how many there are. They count all or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
}

/// Number of the journal's format. Every leg writes it into its `run.started`.
///
/// 1: each line ends with `sum`, and the first of each batch has `synced`. Before that, none had.
pub const FORMAT: u32 = 1;

/// What stands before a line's checksum, and after it.
const SUM: (&str, &str) = (",\"sum\":\"", "\"}");
/// Digits of a checksum.
const SUM_DIGITS: usize = 8;

/// Returns `line`, a JSON object, with its checksum as the last field: the CRC-32 of all before that field.
pub fn sealed(mut line: String) -> String {
    line.pop();
    let sum = crc32fast::hash(line.as_bytes());
    line.push_str(&format!("{}{sum:08x}{}", SUM.0, SUM.1));
    line
}

/// Whether a line is what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seal {
    /// It is.
    Holds,
    /// It is not.
    Broken,
    /// It has no checksum: an early build wrote it, or not all of it is there.
    Missing,
}

fn seal_of(line: &[u8]) -> Seal {
    let ending = SUM.0.len() + SUM_DIGITS + SUM.1.len();
    let Some(at) = line.len().checked_sub(ending) else { return Seal::Missing };
    let (body, ending) = line.split_at(at);
    let Some(digits) =
        ending.strip_prefix(SUM.0.as_bytes()).and_then(|rest| rest.strip_suffix(SUM.1.as_bytes()))
    else {
        return Seal::Missing;
    };
    let stated = std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok());
    if stated == Some(crc32fast::hash(body)) { Seal::Holds } else { Seal::Broken }
}

/// What of a journal's bytes can be used.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    /// The lines.
    pub records: Vec<Record>,
    /// How many bytes they take; what follows is torn: a write that a kill or the loss of power cut short, and
    /// on which nothing was built.
    pub length: usize,
}

/// Returns the records in `bytes`, a torn end left out: a batch counts whole or not at all.
///
/// Errors: the number, from 1, of a line that is damaged, and why. An end is torn, not damaged, where it has
/// no line break, or where the disk gave back zeros for what was never written; and no later line says that it
/// was durable.
pub fn parse(bytes: &[u8]) -> Result<Parsed, (usize, String)> {
    parse_after(0, bytes)
}

/// Returns the records in `bytes`, which follow `before` others; as [`parse`], lines counted from the first.
pub fn parse_after(before: u64, bytes: &[u8]) -> Result<Parsed, (usize, String)> {
    let mut records: Vec<Record> = Vec::new();
    let mut length = 0;
    let mut has_sums = false;
    // Where the last batch begins that is not whole yet, and how many of its lines are wanting.
    let mut batch: Option<(usize, usize, u32)> = None;
    while let Some(end) = bytes[length..].iter().position(|byte| *byte == b'\n') {
        let line = &bytes[length..length + end];
        let due = records.last().map_or(before, |last| last.seq) + 1;
        match record_of(line, due, has_sums) {
            Ok((record, seal)) => {
                batch = match (record.batch, batch) {
                    (Some(lines), _) if lines > 1 => Some((records.len(), length, lines - 1)),
                    (_, Some((first, start, wanting))) if wanting > 1 => Some((first, start, wanting - 1)),
                    (_, _) => None,
                };
                records.push(record);
                has_sums |= seal == Seal::Holds;
            }
            Err(_) if is_unwritten(&bytes[length..], due) => break,
            Err(reason) => return Err((before as usize + records.len() + 1, reason)),
        }
        length += end + 1;
    }
    if let Some((first, start, _)) = batch {
        records.truncate(first);
        length = start;
    }
    Ok(Parsed { records, length })
}

fn record_of(line: &[u8], due: u64, has_sums: bool) -> Result<(Record, Seal), String> {
    let seal = seal_of(line);
    if seal == Seal::Broken || (seal == Seal::Missing && has_sums) {
        return Err("its checksum does not hold: it is not what was written".into());
    }
    if let Some(format) = newer_format(line) {
        return Err(format!(
            "a newer omg wrote it, in format {format}; this one reads formats up to {FORMAT}"
        ));
    }
    let record: Record = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if seal == Seal::Missing && record.synced.is_some() {
        return Err("it has no checksum any more".into());
    }
    if record.seq != due {
        return Err(format!("it has the number {} where {due} is due", record.seq));
    }
    Ok((record, seal))
}

/// Returns the format that a `run.started` names, where it is newer than ours.
fn newer_format(line: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Head {
        format: Option<u32>,
    }
    let text = std::str::from_utf8(line).ok()?;
    if !text.contains("\"event\":\"run.started\"") {
        return None;
    }
    serde_json::from_str::<Head>(text).ok()?.format.filter(|format| *format > FORMAT)
}

/// Returns whether the bytes from a line on that can't be read were never durable: the disk has zeros where
/// something was to be written, and no whole line after them was written once they were durable.
fn is_unwritten(rest: &[u8], due: u64) -> bool {
    #[derive(Deserialize)]
    struct Head {
        synced: Option<u64>,
    }
    let zeros = rest.split(|byte| *byte == b'\n').next().is_some_and(|line| line.contains(&0));
    let was_durable = |line: &[u8]| {
        seal_of(line) == Seal::Holds
            && serde_json::from_slice::<Head>(line)
                .is_ok_and(|head| head.synced.is_some_and(|synced| synced >= due))
    };
    zeros && !rest.split(|byte| *byte == b'\n').skip(1).any(was_durable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::fact::RunStatus;

    fn line(seq: u64) -> Vec<u8> {
        let record = Record {
            seq,
            ts: Timestamp::UNIX_EPOCH,
            leg: Leg(1),
            r#gen: Generation(1),
            fact: Fact::RunFinished { status: RunStatus::Passed },
            target: None,
            synced: None,
            batch: None,
        };
        let mut line = serde_json::to_vec(&record).unwrap();
        line.push(b'\n');
        line
    }

    #[test]
    fn a_line_has_its_place_and_its_fact() {
        let text = String::from_utf8(line(1)).unwrap();
        assert_eq!(
            text,
            "{\"seq\":1,\"ts\":\"1970-01-01T00:00:00Z\",\"leg\":1,\"gen\":1,\"event\":\"run.finished\",\"status\":\"passed\"}\n"
        );
    }

    #[test]
    fn a_torn_last_line_is_left_out() {
        let whole = [line(1), line(2)].concat();
        for cut in 1..line(2).len() {
            let torn = &whole[..whole.len() - cut];
            let parsed = parse(torn).unwrap();
            assert_eq!((parsed.records.len(), parsed.length), (1, line(1).len()));
        }
        assert_eq!(parse(&whole).unwrap().records.len(), 2);
        assert_eq!(parse(b"").unwrap().records.len(), 0);
    }

    #[test]
    fn damage_is_named_by_its_line() {
        let broken = [line(1), b"{\n".to_vec(), line(3)].concat();
        assert_eq!(parse(&broken).unwrap_err().0, 2);
        let gap = [line(1), line(3)].concat();
        let (at, reason) = parse(&gap).unwrap_err();
        assert_eq!((at, reason.as_str()), (2, "it has the number 3 where 2 is due"));
    }

    /// A line as it stands in a journal, the first of its batch.
    fn written(seq: u64, synced: u64) -> Vec<u8> {
        let mut record: Record = serde_json::from_slice(&line(seq)).unwrap();
        record.synced = Some(synced);
        let mut line = sealed(serde_json::to_string(&record).unwrap()).into_bytes();
        line.push(b'\n');
        line
    }

    #[test]
    fn a_line_that_is_not_what_was_written_is_damage_also_at_the_end() {
        let whole = [written(1, 0), written(2, 1)].concat();
        assert_eq!(parse(&whole).unwrap().records.len(), 2);
        for at in 0..whole.len() - 1 {
            let mut changed = whole.clone();
            changed[at] ^= 0x04;
            let line = if at < written(1, 0).len() { 1 } else { 2 };
            match parse(&changed) {
                Err((named, _)) => assert_eq!(named, line, "byte {at}"),
                // A line break or a quote of the checksum that changes leaves no checksum; JSON still tells.
                Ok(parsed) => panic!("byte {at}: {parsed:?}"),
            }
        }
    }

    #[test]
    fn what_the_disk_never_got_is_torn_unless_something_was_built_on_it() {
        let mut hole = written(2, 1);
        hole[10..40].fill(0);
        let torn = [written(1, 0), hole.clone()].concat();
        let length = written(1, 0).len();
        assert_eq!((parse(&torn).unwrap().records.len(), parse(&torn).unwrap().length), (1, length));
        let same_batch = [torn.clone(), written(3, 1)].concat();
        assert_eq!(parse(&same_batch).unwrap().length, length);
        let built_on = [torn, written(3, 2)].concat();
        assert_eq!(parse(&built_on).unwrap_err().0, 2);
        hole[10..40].fill(b'x');
        assert_eq!(parse(&[written(1, 0), hole].concat()).unwrap_err().0, 2);
    }

    #[test]
    fn a_batch_counts_whole_or_not_at_all() {
        let of_batch = |seq: u64, lines: Option<u32>| {
            let mut record: Record = serde_json::from_slice(&line(seq)).unwrap();
            (record.synced, record.batch) = (lines.map(|_| 1), lines);
            sealed(serde_json::to_string(&record).unwrap())
                .into_bytes()
                .into_iter()
                .chain([b'\n'])
                .collect::<Vec<u8>>()
        };
        let before = of_batch(1, Some(1));
        let batch = [of_batch(2, Some(3)), of_batch(3, None), of_batch(4, None)].concat();
        for cut in 1..=batch.len() {
            let torn = &[before.clone(), batch[..batch.len() - cut].to_vec()].concat();
            let parsed = parse(torn).unwrap();
            assert_eq!((parsed.records.len(), parsed.length), (1, before.len()), "{cut} bytes short");
        }
        let whole = [before, batch].concat();
        assert_eq!(parse(&whole).unwrap().records.len(), 4);
        assert_eq!(parse_after(1, &whole[parse(&whole).unwrap().length..]).unwrap().records.len(), 0);
    }

    #[test]
    fn a_newer_format_is_refused_by_its_number() {
        let line = "{\"seq\":1,\"event\":\"run.started\",\"format\":7,\"unheard\":[]}";
        let (at, reason) = parse(format!("{}\n", sealed(line.into())).as_bytes()).unwrap_err();
        assert_eq!((at, reason.contains("newer omg") && reason.contains("format 7")), (1, true));
    }

    /// A field of an event's own may not have the name of one that every line has.
    #[test]
    fn every_event_is_read_back_as_it_was_written() {
        let overdue = Fact::ActOverdue {
            intent: crate::ids::IntentId::from("g1-1"),
            act: "kill".into(),
            of: "a".into(),
            after_ms: 1,
            next: "end-now".into(),
        };
        let source = include_str!("../schedule/fact.rs");
        let facts = source.split("pub enum Fact {").nth(1).and_then(|rest| rest.split("\nimpl Fact").next());
        for name in ["seq", "ts", "leg", "gen", "target", "synced", "batch", "sum", "event"] {
            assert!(!facts.unwrap().contains(&format!("\n        {name}:")), "an event has a field `{name}`");
        }
        let mut record: Record = serde_json::from_slice(&line(1)).unwrap();
        record.fact = overdue;
        let line = sealed(serde_json::to_string(&record).unwrap()) + "\n";
        assert_eq!(parse(line.as_bytes()).unwrap().records, [record]);
    }
}
