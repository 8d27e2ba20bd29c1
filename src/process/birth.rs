//! How a job's process comes to be on Linux: born in our memory, bound to us, then its own program.
//!
//! A fork copies the page tables of the process that forks, which here costs as much as the rest of
//! starting a small program; and what starts processes without a fork (posix_spawn(3)) can't ask for
//! a death signal. So this does what posix_spawn does inside, with that one request more: the child shares our
//! memory and has a stack of its own, we are suspended until it is its program or has failed
//! (clone(2), CLONE_VM and CLONE_VFORK), and in between it makes system calls and nothing else.
#![expect(unsafe_code, reason = "a process is made by hand; docs/adr/0006 says why")]
#![expect(clippy::disallowed_methods, reason = "makes a process by hand, in a few system calls")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// What the child needs, made ready before it is born: it may not allocate.
pub(super) struct Plan<'a> {
    /// The program's path.
    pub program: CString,
    /// What it is called as, and its arguments.
    pub argv: Vec<CString>,
    /// Its environment, `NAME=value` each.
    pub environment: Vec<CString>,
    /// Where it runs.
    pub cwd: CString,
    /// What it reads, and where it writes.
    pub streams: [BorrowedFd<'a>; 3],
}

/// Bytes of the child's stack. It calls a dozen thin wrappers.
const STACK: usize = 64 * 1024;

/// Signals that we handle or ignore; the child has to have them as a fresh process does.
const OURS: [c_int; 5] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGPIPE];

/// What parent and child have in common while the parent is suspended.
struct Shared {
    program: *const c_char,
    argv: *const *const c_char,
    environment: *const *const c_char,
    cwd: *const c_char,
    streams: [c_int; 3],
    parent: libc::pid_t,
    /// Why it did not become its program; 0 where it did.
    error: c_int,
}

/// Starts the planned process as the leader of its own group, to be killed when this thread's process
/// dies. Returns its id once it is its program; the caller reaps it.
///
/// Errors: it could not become its program; nothing of it is left. The calling thread has to live as
/// long as the process (prctl(2), PR_SET_PDEATHSIG).
pub(super) fn start(plan: &Plan<'_>) -> io::Result<u32> {
    let argv = pointers(&plan.argv);
    let environment = pointers(&plan.environment);
    let mut stack: Vec<u128> = Vec::with_capacity(STACK / size_of::<u128>());
    let mut shared = Shared {
        program: plan.program.as_ptr(),
        argv: argv.as_ptr(),
        environment: environment.as_ptr(),
        cwd: plan.cwd.as_ptr(),
        streams: plan.streams.map(|stream| stream.as_raw_fd()),
        parent: std::process::id() as libc::pid_t,
        error: 0,
    };
    let all = Blocked::all()?;
    // SAFETY: the stack lies in `stack` and grows down from its end, which is aligned for any value; what
    // `shared` points to, and itself, outlive the child's use of them, since CLONE_VFORK suspends this
    // thread until the child has executed its program or is gone; no signal handler can run in the
    // child meanwhile, since all are blocked. Other threads may run, and `child` takes no lock of theirs.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.capacity()).cast::<c_void>();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(child, top, flags, (&raw mut shared).cast())
    };
    let error = io::Error::last_os_error();
    drop(all);
    if pid < 0 {
        return Err(error);
    }
    // SAFETY: `shared` is ours again, and the child wrote to it behind the compiler's back.
    match unsafe { ptr::read_volatile(&raw const shared.error) } {
        0 => Ok(pid as u32),
        error => {
            // SAFETY: it is our child, and has ended; nothing else waits for it by its number.
            unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

/// Returns pointers to strings, and a null pointer behind them, as execve(2) wants them.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// The child's whole life before it is its program. Never returns to anywhere but the end of the child.
extern "C" fn child(shared: *mut c_void) -> c_int {
    let shared = shared.cast::<Shared>();
    // SAFETY: `start` hands us its own `Shared`, and is suspended. Only calls that are safe in a signal
    // handler (signal-safety(7)) are made; none touches memory but `shared` and this stack. What they
    // leave in `errno` is the suspended thread's, which reads it nowhere before setting it.
    unsafe {
        if become_program(&*shared) != 0 {
            (*shared).error = *libc::__errno_location();
        }
        libc::_exit(127)
    }
}

/// Becomes the program, or returns -1 with the reason in `errno`.
///
/// # Safety
///
/// Only in a child that shares memory with a suspended parent, with every signal blocked.
unsafe fn become_program(shared: &Shared) -> c_int {
    // SAFETY: every pointer was made by `start` and is valid while the parent is suspended; the structures
    // for signals are plain data for which zero is a valid value.
    unsafe {
        let mut fresh: libc::sigaction = std::mem::zeroed();
        fresh.sa_sigaction = libc::SIG_DFL;
        for signal in OURS {
            libc::sigaction(signal, &raw const fresh, ptr::null_mut());
        }
        let ready = libc::setpgid(0, 0) == 0
            && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
            && (0..3).all(|to| libc::dup2(shared.streams[to as usize], to) == to)
            && libc::chdir(shared.cwd) == 0;
        if !ready {
            return -1;
        }
        if libc::getppid() != shared.parent {
            // It died before we asked for the signal; then nobody would tell us.
            *libc::__errno_location() = libc::ESRCH;
            return -1;
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        libc::execve(shared.program, shared.argv, shared.environment)
    }
}

/// Every signal blocked in this thread, until it is dropped.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn all() -> io::Result<Blocked> {
        // SAFETY: both sets are ours, and zero is a valid value of a set.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) {
                0 => Ok(Blocked(before)),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}
