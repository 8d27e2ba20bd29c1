//! Files of the run directory that have to be there, whole, whatever happens next.
#![expect(clippy::disallowed_methods, reason = "writes files of the run directory")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::failpoint::{self, Point};

/// Writes a file that nobody else may read, and the folder that it lies in. Durable on return; a reader sees the
/// old one or the new one.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let draft = path.with_file_name(name);
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    failpoint::at(Point::FileWritten);
    file.sync_data()?;
    failpoint::at(Point::FileSynced);
    fs::rename(&draft, path)?;
    failpoint::at(Point::FileNamed);
    File::open(folder)?.sync_all()
}
