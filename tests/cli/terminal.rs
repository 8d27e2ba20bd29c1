//! A terminal for a test: a pseudo-terminal whose screen can be read.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::PATIENCE;

/// A program on a terminal of its own. Killed when the test is over.
pub struct Terminal {
    controller: OwnedFd,
    child: Child,
    screen: Arc<Mutex<vt100::Parser>>,
    raw: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts a program with every stream on a terminal of this size.
    pub fn start(mut command: Command, (columns, rows): (u16, u16)) -> Terminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
        let end = File::options().read(true).write(true).open(name).unwrap();
        tcsetwinsize(&end, size(columns, rows)).unwrap();
        let streams = || end.try_clone().unwrap();
        let child = command.stdin(streams()).stdout(streams()).stderr(streams()).spawn().unwrap();
        drop((command, end));
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 1000)));
        let raw = Arc::new(Mutex::new(Vec::new()));
        let mut from = File::from(controller.try_clone().unwrap());
        let (shown, kept) = (Arc::clone(&screen), Arc::clone(&raw));
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The other end's last user is gone: EIO.
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                shown.lock().unwrap().process(&buffer[..read]);
                kept.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Terminal { controller, child, screen, raw, reader: Some(reader) }
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// The screen's text, without the blanks at its end.
    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// All that was ever written to it.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.raw.lock().unwrap()).into_owned()
    }

    /// The screen's text once it is as wanted.
    #[track_caller]
    pub fn wait_text(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let start = std::time::Instant::now();
        loop {
            let text = self.text();
            if holds(&text) {
                return text;
            }
            assert!(start.elapsed() < PATIENCE, "{what} did not come about; the screen is:\n{text}");
            std::thread::yield_now();
        }
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(rows, columns);
        tcsetwinsize(self.controller.as_fd(), size(columns, rows)).unwrap();
    }

    /// Waits for the program's end and everything that it wrote.
    pub fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}
