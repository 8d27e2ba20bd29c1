//! Moves a job's output from its pipes to its files, beside everything else the supervisor does.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

use super::capture::{Capture, Stream, Written};

/// How long the output of a job that is over may still come.
const DRAIN: Duration = Duration::from_millis(200);

/// What a job's output task says.
pub(super) enum Output {
    /// It could not all be written.
    Trouble(String, Written),
    /// Nothing more will come; whether the result is in its place.
    Done(String, io::Result<()>),
}

/// Moves a job's output to its files until both pipes close or the job is over and drained.
///
/// `over` brings the job's end, with what is to be added to the log: its last words.
pub(super) async fn write_output(
    job: String,
    mut capture: Capture,
    (stdout, stderr): (OwnedFd, OwnedFd),
    mut over: oneshot::Receiver<String>,
    to: mpsc::UnboundedSender<Output>,
) {
    let mut pipes = (pipe::Receiver::from_owned_fd(stdout).ok(), pipe::Receiver::from_owned_fd(stderr).ok());
    let mut deadline: Option<tokio::time::Instant> = None;
    let mut reported = false;
    let mut last_words = None;
    while pipes.0.is_some() || pipes.1.is_some() {
        let stream = tokio::select! {
            biased;
            // Somebody outside the tree holds the pipe; the job is over all the same.
            () = tokio::time::sleep_until(deadline.unwrap_or_else(tokio::time::Instant::now)),
                if deadline.is_some() => break,
            () = readable(&pipes.0) => Stream::Out,
            () = readable(&pipes.1) => Stream::Err,
            words = &mut over, if deadline.is_none() => {
                last_words = words.ok();
                deadline = Some(tokio::time::Instant::now() + DRAIN);
                continue;
            }
        };
        let pipe = match stream {
            Stream::Out => &mut pipes.0,
            Stream::Err => &mut pipes.1,
        };
        let written = pump(pipe, &mut capture, stream);
        if written != Written::All && !std::mem::replace(&mut reported, true) {
            let _ = to.send(Output::Trouble(job.clone(), written));
        }
    }
    let last_words = match last_words {
        Some(words) => words,
        None => over.await.unwrap_or_default(),
    };
    if !last_words.is_empty() {
        capture.write(Stream::Err, last_words.as_bytes());
    }
    let finished = if capture.has_result() {
        // It waits for the disk; other jobs do not.
        let finish = tokio::task::spawn_blocking(|| capture.finish());
        finish.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    } else {
        capture.finish()
    };
    let _ = to.send(Output::Done(job, finished));
}

/// Returns once there is something to read, or the end; never where there is no pipe.
async fn readable(pipe: &Option<pipe::Receiver>) {
    match pipe {
        Some(pipe) if pipe.readable().await.is_ok() => {}
        Some(_) | None => std::future::pending().await,
    }
}

/// Moves a piece of what is there to the job's files; at its end takes the pipe away.
fn pump(from: &mut Option<pipe::Receiver>, capture: &mut Capture, stream: Stream) -> Written {
    let mut buffer = [0; 32 * 1024];
    let Some(pipe) = from else { return Written::All };
    match pipe.try_read(&mut buffer) {
        Ok(read) if read > 0 => capture.write(stream, &buffer[..read]),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Written::All,
        Ok(_) | Err(_) => {
            *from = None;
            Written::All
        }
    }
}
