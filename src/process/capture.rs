//! A job's output on its way to disk: capped, never held in memory.
//!
//! The log is for people and not synced; the result is what later nodes build on, and is. A job that
//! wrote nothing to its standard output leaves an empty result, for which nothing needs to be synced: a
//! file that is lost reads the same.
#![expect(clippy::disallowed_methods, reason = "writes the log and the result of a job")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::failpoint::{self, Point};

/// Bytes of standard output that a result keeps (DESIGN.md section 2): 1 MiB.
pub const RESULT_MAX: u64 = 1 << 20;

/// Which stream a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output: goes to the log and to the result.
    Out,
    /// Standard error: goes to the log.
    Err,
}

/// What happened to a piece of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the log.
    All,
    /// The job wrote more than it may; this and what follows is dropped.
    Overflow,
    /// The disk is full; this and what follows is dropped.
    DiskFull,
}

/// The files that a job's output goes to.
#[derive(Debug)]
pub struct Capture {
    log: File,
    /// Where the result goes in the end, and what of it is there so far.
    result: Option<(PathBuf, Option<Tail>)>,
    /// What gets the standard output alone, whole, and whether it got any.
    stdout: Option<(File, bool)>,
    /// Places among our open files for the result and its folder: where there are none left, the job can wait
    /// before it begins, and could not when it has written something.
    places: Vec<File>,
    left: u64,
    state: Written,
}

impl Capture {
    /// Opens the log for adding to; the result is begun by the first output that belongs to it.
    pub fn open(
        log: &Path,
        result: Option<&Path>,
        stdout: Option<&Path>,
        output_max: u64,
    ) -> io::Result<Capture> {
        let open = || OpenOptions::new().create(true).append(true).open(log);
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                log.parent().map_or(Ok(()), fs::create_dir_all)?;
                open()?
            }
            opened => opened?,
        };
        let places = match result {
            Some(_) => vec![file.try_clone()?, file.try_clone()?],
            None => Vec::new(),
        };
        let result = result.map(|place| (place.to_path_buf(), None));
        let stdout = stdout.map(File::create).transpose()?.map(|file| (file, false));
        Ok(Capture { log: file, result, stdout, places, left: output_max, state: Written::All })
    }

    /// Writes a piece of output. Not durable.
    pub fn write(&mut self, stream: Stream, bytes: &[u8]) -> Written {
        if self.state != Written::All {
            return self.state;
        }
        let fits = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let written = self.log.write_all(&bytes[..fits]).and_then(|()| match (&mut self.result, stream) {
            (Some((place, tail)), Stream::Out) => {
                if tail.is_none() {
                    self.places.pop();
                }
                begun(place, tail)?.write(&bytes[..fits])
            }
            (Some(_) | None, Stream::Out | Stream::Err) => Ok(()),
        });
        let written = written.and_then(|()| match (&mut self.stdout, stream) {
            (Some((file, any)), Stream::Out) => {
                *any = true;
                file.write_all(&bytes[..fits])
            }
            (Some(_) | None, Stream::Out | Stream::Err) => Ok(()),
        });
        self.left -= fits as u64;
        if written.is_err() {
            // Any other error of a plain file write means as little about the job as a full disk.
            self.state = Written::DiskFull;
        } else if fits < bytes.len() {
            self.state = Written::Overflow;
        }
        self.state
    }

    /// Returns whether [`Capture::finish`] waits for the disk.
    pub fn has_result(&self) -> bool {
        matches!(self.result, Some((_, Some(_)))) || matches!(self.stdout, Some((_, true)))
    }

    /// Puts the result in its place: its last [`RESULT_MAX`] bytes, cut at a line start, the final
    /// line break removed. The result is durable on return, and so is what got the standard output alone; the log
    /// not.
    pub fn finish(mut self) -> io::Result<()> {
        self.places.clear();
        if let Some((file, true)) = &self.stdout {
            file.sync_data()?;
        }
        match self.result {
            Some((place, Some(tail))) => tail.finish(&place),
            // Renamed into its place: what is there may be kept under a further name.
            Some((place, None)) => {
                let draft = place.with_extension("draft");
                File::create(&draft)?;
                fs::rename(draft, place)
            }
            None => Ok(()),
        }
    }
}

fn begun<'t>(place: &Path, tail: &'t mut Option<Tail>) -> io::Result<&'t mut Tail> {
    match tail {
        Some(tail) => Ok(tail),
        None => Ok(tail.insert(Tail::create(place)?)),
    }
}

/// The last stretch of a stream, kept in a file of at most three times [`RESULT_MAX`].
#[derive(Debug)]
struct Tail {
    file: File,
    length: u64,
    cut: bool,
    draft: PathBuf,
}

impl Tail {
    fn create(place: &Path) -> io::Result<Tail> {
        let draft = place.with_extension("draft");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&draft)?;
        Ok(Tail { file, length: 0, cut: false, draft })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        if self.length > 2 * RESULT_MAX + bytes.len() as u64 {
            self.shrink()?;
        }
        Ok(())
    }

    /// Keeps the last [`RESULT_MAX`] bytes and the one before them, which tells a line's start.
    fn shrink(&mut self) -> io::Result<()> {
        let keep = RESULT_MAX + 1;
        if self.length <= keep {
            return Ok(());
        }
        let mut last = Vec::new();
        self.file.seek(SeekFrom::Start(self.length - keep))?;
        self.file.read_to_end(&mut last)?;
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&last)?;
        self.length = last.len() as u64;
        self.cut = true;
        Ok(())
    }

    fn finish(mut self, place: &Path) -> io::Result<()> {
        self.shrink()?;
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut bytes)?;
        let result = result_of(&bytes, self.cut);
        if !bytes.starts_with(result) {
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(result)?;
        }
        self.file.set_len(result.len() as u64)?;
        self.file.sync_data()?;
        failpoint::at(Point::ResultSynced);
        fs::rename(&self.draft, place)?;
        failpoint::at(Point::ResultNamed);
        match place.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// Returns the result that is in a file of output: its last [`RESULT_MAX`] bytes, cut at a line start where there was
/// more, without the final line break; of a file that is not there, none.
pub fn result_in(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let skipped = file.metadata()?.len().saturating_sub(RESULT_MAX + 1);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(RESULT_MAX + 1).read_to_end(&mut bytes)?;
    Ok(result_of(&bytes, skipped > 0).to_vec())
}

/// Returns the result in `bytes`; where `cut`, they begin with the byte before it and are cut at the
/// first line start, if there is one.
fn result_of(bytes: &[u8], cut: bool) -> &[u8] {
    let start = if cut { bytes.iter().position(|byte| *byte == b'\n').map_or(1, |at| at + 1) } else { 0 };
    let result = &bytes[start.min(bytes.len())..];
    let result = result.strip_suffix(b"\n").unwrap_or(result);
    result.strip_suffix(b"\r").unwrap_or(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pieces: &[(Stream, &[u8])], output_max: u64) -> (Written, Vec<u8>, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let (log, result) = (folder.path().join("n/log"), folder.path().join("n/result"));
        let mut capture = Capture::open(&log, Some(&result), None, output_max).unwrap();
        let mut written = Written::All;
        for (stream, bytes) in pieces {
            written = capture.write(*stream, bytes);
        }
        capture.finish().unwrap();
        (written, fs::read(log).unwrap(), fs::read(result).unwrap())
    }

    #[test]
    fn the_log_has_both_streams_and_the_result_one() {
        let pieces: [(Stream, &[u8]); 3] =
            [(Stream::Out, b"a\n"), (Stream::Err, b"e\n"), (Stream::Out, b"b\n")];
        let (written, log, result) = captured(&pieces, 100);
        assert_eq!((written, &log[..], &result[..]), (Written::All, &b"a\ne\nb\n"[..], &b"a\nb"[..]));
    }

    #[test]
    fn a_job_that_says_nothing_empties_the_result_of_before() {
        let folder = tempfile::tempdir().unwrap();
        let (log, result) = (folder.path().join("n/log"), folder.path().join("n/result"));
        for pieces in [&[b"one\n".as_slice()][..], &[]] {
            let mut capture = Capture::open(&log, Some(&result), None, 100).unwrap();
            for bytes in pieces {
                capture.write(Stream::Out, bytes);
            }
            assert_eq!(capture.has_result(), !pieces.is_empty());
            capture.finish().unwrap();
            assert_eq!(fs::read(&result).unwrap(), if pieces.is_empty() { &b""[..] } else { b"one" });
        }
    }

    #[test]
    fn what_is_too_much_is_dropped() {
        let (written, log, _) = captured(&[(Stream::Out, b"12345"), (Stream::Out, b"6")], 3);
        assert_eq!((written, &log[..]), (Written::Overflow, &b"123"[..]));
        let (written, ..) = captured(&[(Stream::Out, b"123")], 3);
        assert_eq!(written, Written::All);
    }

    #[test]
    fn a_long_result_keeps_its_last_whole_lines() {
        let line = [b"0123456789abcde".as_slice(), b"\n"].concat();
        let chunk = line.repeat(4096);
        let pieces: Vec<(Stream, &[u8])> = (0..80).map(|_| (Stream::Out, &chunk[..])).collect();
        let (_, log, result) = captured(&pieces, 1 << 30);
        assert_eq!(log.len(), 80 * chunk.len());
        assert_eq!(result.len() as u64, RESULT_MAX - 1);
        assert!(result.starts_with(b"0123456789abcde\n") && result.ends_with(b"abcde"));
    }

    #[test]
    fn a_result_without_a_line_break_is_cut_anywhere() {
        assert_eq!(result_of(b"xabc", true), b"abc");
        assert_eq!(result_of(b"x\nabc\r\n", true), b"abc");
        assert_eq!(result_of(b"abc\n\n", false), b"abc\n");
    }
}
