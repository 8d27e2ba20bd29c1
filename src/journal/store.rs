//! The journal on disk: append, fsync, torn tail.
#![expect(clippy::disallowed_methods, reason = "reads and appends events.jsonl")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::mask::Mask;
use super::record::{Parsed, parse, sealed};
use super::{JournalError, Record, Store};
use crate::failpoint::{self, Point};
use crate::fence::Fence;
use crate::ids::{Generation, Leg};
use crate::schedule::Fact;

/// Returns the records of the journal at `path`, a torn last line left out; none where there is no
/// journal yet. Changes nothing. Errors: it can't be read, or a line is damaged.
pub fn read(path: &Path) -> Result<Vec<Record>, JournalError> {
    load(path).map(|parsed| parsed.records)
}

fn load(path: &Path) -> Result<Parsed, JournalError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(JournalError::Io { path: path.into(), source }),
    };
    parse(&bytes).map_err(|(line, reason)| JournalError::Damaged { path: path.into(), line, reason })
}

/// Adds what follows the first `length` bytes of a journal to `events.torn` beside it, durably: nobody built on
/// it, and yet it tells of what was about to be.
fn set_torn_aside(path: &Path, length: u64) -> io::Result<()> {
    let mut journal = File::open(path)?;
    journal.seek(SeekFrom::Start(length))?;
    let mut torn = OpenOptions::new().create(true).append(true).open(path.with_extension("torn"))?;
    io::copy(&mut journal, &mut torn)?;
    torn.write_all(b"\n")?;
    torn.sync_data()
}

/// A file that lines are appended to.
#[derive(Debug)]
struct FileStore(File);

impl Store for FileStore {
    fn append(&mut self, lines: &[u8], durable: bool) -> io::Result<()> {
        failpoint::at(Point::JournalBefore);
        self.0.write_all(lines)?;
        failpoint::at(Point::JournalWritten);
        if durable {
            self.0.sync_data()?;
            failpoint::at(Point::JournalSynced);
        }
        Ok(())
    }
}

/// The journal of a run, open for writing. Only who holds the run's lock may have one.
pub struct Journal {
    path: PathBuf,
    store: Box<dyn Store>,
    next: u64,
    /// The number of the last line that is durable.
    synced: u64,
    leg: Leg,
    generation: Generation,
    mask: Mask,
    fence: Fence,
    poisoned: bool,
}

impl Journal {
    /// Opens the journal at `path` for a leg, and returns it with what it holds.
    ///
    /// `fence` is asked before each write. A torn end is moved to `events.torn` beside it, or the next line would be glued to it. Errors: it can't be read
    /// or written, or a line is damaged.
    pub fn open(
        path: &Path,
        leg: impl FnOnce(&[Record]) -> (Leg, Generation),
        mask: Mask,
        fence: Fence,
    ) -> Result<(Journal, Vec<Record>), JournalError> {
        let io = |source| JournalError::Io { path: path.into(), source };
        let parsed = load(path)?;
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(io)?;
        if file.metadata().map_err(io)?.len() > parsed.length as u64 {
            set_torn_aside(path, parsed.length as u64).map_err(io)?;
            file.set_len(parsed.length as u64).map_err(io)?;
        }
        // What a killed leg wrote without a sync is built on from here.
        file.sync_data().map_err(io)?;
        if parsed.records.is_empty()
            && let Some(folder) = path.parent()
        {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;
        }
        let (leg, generation) = leg(&parsed.records);
        let next = parsed.records.last().map_or(1, |last| last.seq + 1);
        let store = Box::new(FileStore(file));
        let synced = next - 1;
        Ok((
            Journal { path: path.into(), store, next, synced, leg, generation, mask, fence, poisoned: false },
            parsed.records,
        ))
    }

    /// Returns an empty journal over another store.
    #[cfg(test)]
    pub(crate) fn over(store: Box<dyn Store>, leg: Leg, generation: Generation) -> Journal {
        Journal {
            path: "events.jsonl".into(),
            store,
            next: 1,
            synced: 0,
            leg,
            generation,
            mask: Mask::default(),
            fence: Fence::default(),
            poisoned: false,
        }
    }

    /// Appends facts as one batch and returns their records with their lines, secrets masked. Durable on
    /// return, but for facts that need not be ([`Fact::must_last`]) and stand alone.
    ///
    /// Errors: a newer holder has the run, and nothing was written; or the write or its sync failed. Linux reports a failed sync once and forgets the pages,
    /// so after an error nothing more is written.
    pub fn append(&mut self, facts: Vec<Fact>, now: Timestamp) -> Result<Vec<Line>, JournalError> {
        if self.poisoned {
            return Err(JournalError::Poisoned { path: self.path.clone() });
        }
        self.fence.check()?;
        let lines = facts.len() as u32;
        let durable = facts.iter().any(Fact::must_last);
        let mut batch = String::new();
        let mut written = Vec::with_capacity(facts.len());
        for fact in facts {
            let record = Record {
                seq: self.next + written.len() as u64,
                ts: now,
                leg: self.leg,
                r#gen: self.generation,
                target: fact.target().map(str::to_string),
                synced: written.is_empty().then_some(self.synced),
                batch: (written.is_empty() && lines > 1).then_some(lines),
                fact,
            };
            let line = serde_json::to_string(&record)
                .map_err(|error| JournalError::Io { path: self.path.clone(), source: error.into() })?;
            let text = sealed(self.mask.json(line));
            batch.push_str(&text);
            batch.push('\n');
            written.push(Line { record, text });
        }
        if written.is_empty() {
            return Ok(written);
        }
        if let Err(source) = self.store.append(batch.as_bytes(), durable) {
            self.poisoned = true;
            return Err(JournalError::Io { path: self.path.clone(), source });
        }
        self.next += written.len() as u64;
        if durable {
            self.synced = self.next - 1;
        }
        Ok(written)
    }
}

/// A line of the journal.
#[derive(Debug)]
pub struct Line {
    /// What it says.
    pub record: Record,
    /// As it stands there, secrets masked, without its line break.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::fact::{RunStatus, StopReason};

    fn leg(_: &[Record]) -> (Leg, Generation) {
        (Leg(1), Generation(1))
    }

    #[test]
    fn what_is_appended_is_read_back_after_a_torn_tail() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let done = Fact::RunFinished { status: RunStatus::Passed };
        let stop = Fact::Stopping { reason: StopReason::Cancel };
        let (mut journal, before) = Journal::open(&path, leg, Mask::default(), Fence::default()).unwrap();
        assert_eq!(before, []);
        journal.append(vec![done.clone()], Timestamp::UNIX_EPOCH).unwrap();
        drop(journal);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"seq\":2,").unwrap();
        assert_eq!(read(&path).unwrap().len(), 1);
        let (mut journal, before) = Journal::open(&path, leg, Mask::default(), Fence::default()).unwrap();
        assert_eq!(before.len(), 1);
        assert_eq!(fs::read(path.with_extension("torn")).unwrap(), b"{\"seq\":2,\n");
        journal.append(vec![stop.clone(), done], Timestamp::UNIX_EPOCH).unwrap();
        let all = read(&path).unwrap();
        assert_eq!(all.iter().map(|record| record.seq).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(all[1].fact, stop);
    }

    #[test]
    fn secrets_do_not_reach_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mask = Mask::of_values(["hunter22".to_string()]);
        let (mut journal, _) = Journal::open(&path, leg, mask, Fence::default()).unwrap();
        let fact = Fact::DispatchFailed {
            node: "a".into(),
            intent: crate::ids::IntentId::from("g1-1"),
            reason: "saw hunter22".into(),
        };
        let lines = journal.append(vec![fact], Timestamp::UNIX_EPOCH).unwrap();
        assert!(!fs::read_to_string(&path).unwrap().contains("hunter22"));
        assert!(lines[0].text.contains("saw ***"));
    }

    /// Counts appends that were to be durable, and others.
    struct Counting(std::sync::Arc<std::sync::Mutex<[u32; 2]>>);

    impl Store for Counting {
        fn append(&mut self, _: &[u8], durable: bool) -> io::Result<()> {
            self.0.lock().unwrap()[usize::from(durable)] += 1;
            Ok(())
        }
    }

    #[test]
    fn only_what_announces_nothing_waits_for_the_next_sync() {
        let counts = std::sync::Arc::default();
        let mut journal = Journal {
            path: "events.jsonl".into(),
            store: Box::new(Counting(std::sync::Arc::clone(&counts))),
            next: 1,
            synced: 0,
            leg: Leg(1),
            generation: Generation(1),
            mask: Mask::default(),
            fence: Fence::default(),
            poisoned: false,
        };
        let started = Fact::NodeStarted {
            node: "a".into(),
            attempt: 1,
            intent: crate::ids::IntentId::from("g1-1"),
            pid: 1,
            start_time: 1,
            lane: None,
        };
        let done = Fact::RunFinished { status: RunStatus::Passed };
        for facts in [vec![started.clone()], vec![started, done.clone()], vec![done], vec![]] {
            journal.append(facts, Timestamp::UNIX_EPOCH).unwrap();
        }
        assert_eq!(*counts.lock().unwrap(), [1, 2]);
    }

    struct Broken(u32);

    impl Store for Broken {
        fn append(&mut self, _: &[u8], _: bool) -> io::Result<()> {
            self.0 += 1;
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn after_a_failed_write_nothing_more_is_written() {
        let mut journal = Journal {
            path: "events.jsonl".into(),
            store: Box::new(Broken(0)),
            next: 1,
            synced: 0,
            leg: Leg(1),
            generation: Generation(1),
            mask: Mask::default(),
            fence: Fence::default(),
            poisoned: false,
        };
        let facts = [Fact::RunFinished { status: RunStatus::Passed }];
        assert!(matches!(
            journal.append(facts.to_vec(), Timestamp::UNIX_EPOCH),
            Err(JournalError::Io { .. })
        ));
        assert!(matches!(
            journal.append(facts.to_vec(), Timestamp::UNIX_EPOCH),
            Err(JournalError::Poisoned { .. })
        ));
    }

    /// What two holders leave who do not heed each other's lock; `fenced` says whether they heed the generation.
    fn two_holders(fenced: bool) -> (Result<Vec<Line>, JournalError>, Result<Vec<Record>, JournalError>) {
        let folder = tempfile::tempdir().unwrap();
        let (path, lock) = (folder.path().join("events.jsonl"), folder.path().join("run.lock"));
        let hold = |generation: u64| {
            let _ = fs::remove_file(&lock);
            fs::write(&lock, format!("1 1 {generation} 1 leg\n")).unwrap();
            let fence = match fenced {
                true => Fence::of(&lock, File::open(&lock).unwrap(), Generation(generation)),
                false => Fence::default(),
            };
            let leg = |_: &[Record]| (Leg(generation as u32), Generation(generation));
            Journal::open(&path, leg, Mask::default(), fence).unwrap().0
        };
        let facts = || vec![Fact::Stopping { reason: StopReason::Cancel }];
        let mut older = hold(1);
        older.append(facts(), Timestamp::UNIX_EPOCH).unwrap();
        let mut newer = hold(2);
        newer.append(facts(), Timestamp::UNIX_EPOCH).unwrap();
        let late = older.append(facts(), Timestamp::UNIX_EPOCH);
        newer.append(facts(), Timestamp::UNIX_EPOCH).unwrap();
        (late, read(&path))
    }

    #[test]
    fn an_older_holder_writes_nothing_and_where_the_check_is_taken_out_the_journal_tells() {
        let (late, records) = two_holders(true);
        assert!(matches!(late, Err(JournalError::Overtaken(_))));
        assert_eq!(records.unwrap().len(), 3);
        let (late, records) = two_holders(false);
        assert!(late.is_ok());
        assert!(matches!(records, Err(JournalError::Damaged { line: 3, .. })));
    }
}
