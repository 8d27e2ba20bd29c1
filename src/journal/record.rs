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
}

/// What of a journal's bytes can be used.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    /// The lines.
    pub records: Vec<Record>,
    /// How many bytes they take; what follows is a torn last line.
    pub length: usize,
}

/// Returns the records in `bytes`, a torn last line left out.
///
/// Errors: the number, from 1, of a line that is damaged, and why. A last line without its line
/// break is torn, not damaged.
pub fn parse(bytes: &[u8]) -> Result<Parsed, (usize, String)> {
    parse_after(0, bytes)
}

/// Returns the records in `bytes`, which follow `before` others; as [`parse`], lines counted from the first.
pub fn parse_after(before: u64, bytes: &[u8]) -> Result<Parsed, (usize, String)> {
    let mut records: Vec<Record> = Vec::new();
    let mut length = 0;
    while let Some(end) = bytes[length..].iter().position(|byte| *byte == b'\n') {
        let line = before as usize + records.len() + 1;
        let record: Record = serde_json::from_slice(&bytes[length..length + end])
            .map_err(|error| (line, error.to_string()))?;
        let expected = records.last().map_or(before, |last| last.seq) + 1;
        if record.seq != expected {
            return Err((line, format!("it has the number {} where {expected} is due", record.seq)));
        }
        records.push(record);
        length += end + 1;
    }
    Ok(Parsed { records, length })
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
}
