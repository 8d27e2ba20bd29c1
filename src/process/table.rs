//! The system's process table, as far as this program needs it.
//!
//! Where there is no `/proc` (macOS) the table reads as empty: descendants outside a job's process
//! group are then not seen.
#![expect(clippy::disallowed_methods, reason = "reads /proc")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// Its start time, clock ticks since boot; with `pid` its identity.
    pub start_time: u64,
    /// Whether it has ended and only waits to be reaped.
    pub zombie: bool,
    /// Its name, at most 15 bytes.
    pub name: String,
}

/// Returns every process, by id.
pub fn scan() -> BTreeMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| process(pid).map(|process| (pid, process)))
        .collect()
}

/// Returns one process, where it exists.
pub fn process(pid: u32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(&stat)
}

/// Reads a line of `/proc/PID/stat`; the name may hold anything, so what counts is its last `)`.
fn parse(stat: &[u8]) -> Option<Process> {
    let stat = String::from_utf8_lossy(stat);
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(Process {
        pid: pid.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
        zombie: matches!(fields.first(), Some(&"Z" | &"X")),
        name: name.to_string(),
    })
}

/// Returns the start time of a process, where it exists and has not ended.
pub fn start_time(pid: u32) -> Option<u64> {
    // Asked for every job: nothing else of the line is made anything of.
    let mut line = [0; 1024];
    let length =
        fs::File::open(format!("/proc/{pid}/stat")).and_then(|mut stat| stat.read(&mut line)).ok()?;
    let after_name = line[..length].iter().rposition(|byte| *byte == b')')? + 2;
    let mut fields = line.get(after_name..length)?.split(|byte| *byte == b' ');
    let state = fields.next()?;
    let start = fields.nth(18)?;
    if matches!(state, b"Z" | b"X") { None } else { std::str::from_utf8(start).ok()?.parse().ok() }
}

/// Returns what tells this boot of the machine from any other: start times count from it. Empty where the system
/// does not tell.
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_string()).unwrap_or_default()
}

/// Returns the value that a process was started with for `name`; `None` where it has none or we may
/// not look.
pub fn variable(pid: u32, name: &str) -> Option<Vec<u8>> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environ.split(|byte| *byte == 0).find_map(|pair| {
        let rest = pair.strip_prefix(name.as_bytes())?;
        Some(rest.strip_prefix(b"=")?.to_vec())
    })
}

/// Returns the direct children of this process, or `None` where the kernel does not tell.
///
/// Meant for a process of one thread: the kernel keeps the list for each thread.
pub fn children() -> Option<Vec<u32>> {
    let own = std::process::id();
    let list = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
    Some(list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// Returns every living process that was started with `OMG_RUN_DIR` set to `run_dir`: what a node,
/// a provisioning or a git command of that run started, whoever its parent is now.
pub fn marked(run_dir: &Path) -> Vec<Process> {
    scan()
        .into_values()
        .filter(|process| !process.zombie)
        .filter(|process| {
            variable(process.pid, "OMG_RUN_DIR").is_some_and(|value| value == run_dir.as_os_str().as_bytes())
        })
        .collect()
}

/// Returns every living process that was started with `OMG_RUN_DIR`, by the folder that it names.
pub fn marked_by_run() -> BTreeMap<PathBuf, Vec<Process>> {
    let mut found: BTreeMap<PathBuf, Vec<Process>> = BTreeMap::new();
    for process in scan().into_values().filter(|process| !process.zombie) {
        if let Some(value) = variable(process.pid, "OMG_RUN_DIR") {
            found.entry(PathBuf::from(OsString::from_vec(value))).or_default().push(process);
        }
    }
    found
}

/// Returns whether a process whose name begins with `name` has its folder in one of `folders`.
pub fn named_works_in(name: &str, folders: &[&Path]) -> bool {
    scan().into_values().filter(|process| process.name.starts_with(name)).any(|process| {
        let cwd = fs::read_link(format!("/proc/{}/cwd", process.pid));
        cwd.is_ok_and(|cwd| folders.iter().any(|folder| cwd.starts_with(folder)))
    })
}

/// Returns the descendants of `root`, not itself.
pub fn descendants(table: &BTreeMap<u32, Process>, root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for process in table.values() {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = Vec::new();
    let mut queue = vec![root];
    while let Some(pid) = queue.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            found.push(*child);
            queue.push(*child);
        }
    }
    found
}

/// Returns whether a process other than this one has its folder, root or an open file in `tree`.
///
/// A child of ours between its fork and its exec still has our own open files, those of our other
/// threads among them; it is not at work. Processes of other users hide theirs from us. Without `/proc`
/// (macOS) nothing is seen. Errors: the table or `tree` can't be read.
pub fn worked_in(tree: &Path) -> io::Result<bool> {
    let tree = fs::canonicalize(tree)?;
    let processes = match fs::read_dir("/proc") {
        Ok(processes) => processes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let (own, own_program) = (std::process::id(), fs::read_link("/proc/self/exe").ok());
    for entry in processes.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if pid == own {
            continue;
        }
        let folder = entry.path();
        let points_inside = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(&tree));
        let mut open = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        let at_work = points_inside(&folder.join("cwd"))
            || points_inside(&folder.join("root"))
            || open.any(|file| points_inside(&file.path()));
        let unborn = || {
            process(pid).is_some_and(|process| process.parent == own)
                && fs::read_link(folder.join("exe")).ok() == own_program
        };
        if at_work && !unborn() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let mut fields = vec!["0"; 50];
        (fields[0], fields[1], fields[2], fields[3], fields[19]) = ("Z", "1", "2", "3", "99");
        let line = format!("7 (a) b (c) {}", fields.join(" "));
        let process = parse(line.as_bytes()).unwrap();
        assert_eq!((process.pid, process.name.as_str(), process.parent), (7, "a) b (c", 1));
        assert_eq!((process.group, process.session, process.start_time, process.zombie), (2, 3, 99, true));
    }

    #[test]
    fn we_find_ourselves() {
        let own = std::process::id();
        assert_eq!(scan()[&own].pid, own);
        assert_eq!(start_time(own), process(own).map(|process| process.start_time));
        assert!(descendants(&scan(), 1).contains(&own) || own == 1);
    }
}
