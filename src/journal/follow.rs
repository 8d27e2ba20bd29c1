//! A journal read while another process writes it.
#![expect(clippy::disallowed_methods, reason = "reads events.jsonl")]

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::JournalError;
use super::record::parse_after;
use super::store::Line;

/// Reads a journal piece by piece.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    at: u64,
    lines: u64,
}

impl Follower {
    /// Returns a reader that is at the journal's beginning; there need not be one yet.
    pub fn new(path: &Path) -> Follower {
        Follower { path: path.to_path_buf(), at: 0, lines: 0 }
    }

    /// Returns the lines that are there now and were not before. A last one that is not whole yet comes once
    /// it is.
    ///
    /// Errors: it can't be read, or a line is damaged.
    pub fn more(&mut self) -> Result<Vec<Line>, JournalError> {
        let bytes = self.read().map_err(|source| JournalError::Io { path: self.path.clone(), source })?;
        let parsed = parse_after(self.lines, &bytes).map_err(|(line, reason)| JournalError::Damaged {
            path: self.path.clone(),
            line,
            reason,
        })?;
        self.at += parsed.length as u64;
        self.lines += parsed.records.len() as u64;
        let texts = bytes[..parsed.length].split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
        let lines = parsed.records.into_iter().zip(texts);
        Ok(lines.map(|(record, text)| Line { record, text: text.into_owned() }).collect())
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match File::open(&self.path) {
            Ok(mut file) => {
                file.seek(SeekFrom::Start(self.at))?;
                file.read_to_end(&mut bytes)?;
                Ok(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(bytes),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn each_line_comes_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut follower = Follower::new(&path);
        assert_eq!(follower.more().unwrap().len(), 0);
        let line = |seq: u32| {
            format!(
                "{{\"seq\":{seq},\"ts\":\"2026-01-01T00:00:00Z\",\"leg\":1,\"gen\":1,\"event\":\"run.finished\",\"status\":\"passed\"}}\n"
            )
        };
        let mut file = File::create(&path).unwrap();
        file.write_all(line(1).as_bytes()).unwrap();
        let (first, rest) = (line(2), line(3));
        file.write_all(&first.as_bytes()[..20]).unwrap();
        let seqs = |follower: &mut Follower| {
            follower.more().unwrap().iter().map(|line| line.record.seq).collect::<Vec<_>>()
        };
        assert_eq!(seqs(&mut follower), [1]);
        assert_eq!(seqs(&mut follower), [0u64; 0]);
        file.write_all(&first.as_bytes()[20..]).unwrap();
        file.write_all(rest.as_bytes()).unwrap();
        assert_eq!(seqs(&mut follower), [2, 3]);
        file.write_all(b"nonsense\n").unwrap();
        assert!(matches!(follower.more(), Err(JournalError::Damaged { line: 4, .. })));
    }
}
