//! How a provisioning try ended → its finer cause. Exit codes alone do not classify: package
//! managers pass a script's code through (measured), so text comes first and the code last.

/// Why a provisioning try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A program is not there.
    ToolMissing,
    /// A registry could not be reached.
    Network,
    /// A registry refused us.
    Auth,
    /// No space or no inodes.
    DiskFull,
    /// Its time was over.
    Timeout,
    /// A script of the repository's or of a package's failed.
    ScriptFailed,
    /// Manifest and lockfile disagree.
    LockMismatch,
    /// A signal that was not ours.
    Killed,
    /// Anything else.
    Unknown,
}

impl Cause {
    /// Returns the word for it in the journal.
    pub fn word(self) -> &'static str {
        match self {
            Cause::ToolMissing => "tool-missing",
            Cause::Network => "network",
            Cause::Auth => "auth",
            Cause::DiskFull => "disk-full",
            Cause::Timeout => "timeout",
            Cause::ScriptFailed => "script-failed",
            Cause::LockMismatch => "lock-mismatch",
            Cause::Killed => "killed",
            Cause::Unknown => "unknown",
        }
    }

    /// Returns whether a repeat may end differently.
    pub fn may_be_transient(self) -> bool {
        match self {
            Cause::Network | Cause::Timeout | Cause::ScriptFailed | Cause::Killed | Cause::Unknown => true,
            Cause::ToolMissing | Cause::Auth | Cause::DiskFull | Cause::LockMismatch => false,
        }
    }
}

/// Texts that tools print, first match wins (provisioning.md, measured with npm 11, pnpm 9 to 12,
/// yarn 1 and 4, bun 1.4, uv 0.13, pip 23, cargo 1.95).
const TEXTS: [(&str, Cause); 34] = [
    ("ENOSPC", Cause::DiskFull),
    ("No space left on device", Cause::DiskFull),
    ("os error 28", Cause::DiskFull),
    ("Disk quota exceeded", Cause::DiskFull),
    ("ERR_PNPM_OUTDATED_LOCKFILE", Cause::LockMismatch),
    ("can only install packages when your package.json and package-lock.json", Cause::LockMismatch),
    ("YN0028", Cause::LockMismatch),
    ("Your lockfile needs to be updated", Cause::LockMismatch),
    ("lockfile is frozen", Cause::LockMismatch),
    ("needs to be updated, but `--locked` was provided", Cause::LockMismatch),
    ("because --locked was passed", Cause::LockMismatch),
    ("changed significantly since", Cause::LockMismatch),
    ("E401", Cause::Auth),
    ("E403", Cause::Auth),
    ("401 Unauthorized", Cause::Auth),
    ("403 Forbidden", Cause::Auth),
    ("ECONNREFUSED", Cause::Network),
    ("ECONNRESET", Cause::Network),
    ("ENOTFOUND", Cause::Network),
    ("EAI_AGAIN", Cause::Network),
    ("ETIMEDOUT", Cause::Network),
    ("ENOTCACHED", Cause::Network),
    ("ConnectionRefused", Cause::Network),
    ("Connection refused", Cause::Network),
    ("NewConnectionError", Cause::Network),
    ("ProxyError", Cause::Network),
    ("trouble with your network", Cause::Network),
    ("Network connectivity is disabled", Cause::Network),
    ("Could not connect", Cause::Network),
    ("Could not resolve host", Cause::Network),
    ("npm error command failed", Cause::ScriptFailed),
    ("ELIFECYCLE", Cause::ScriptFailed),
    ("postinstall: Failed", Cause::ScriptFailed),
    ("Failed to build", Cause::ScriptFailed),
];

/// Returns the cause of a try that ended with `code` or by a signal, with `tail` as the last of its
/// output; `opaque` says that a person wrote the command.
pub fn cause(code: Option<i32>, tail: &str, opaque: bool) -> Cause {
    if let Some((_, cause)) = TEXTS.iter().find(|(text, _)| tail.contains(text)) {
        return *cause;
    }
    match code {
        None => Cause::Killed,
        Some(126 | 127) => Cause::ToolMissing,
        Some(_) if opaque => Cause::ScriptFailed,
        Some(_) => Cause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: Option<i32>, tail: &str, opaque: bool, expected: Cause) {
        assert_eq!(cause(code, tail, opaque), expected);
    }

    #[test]
    fn text_comes_before_the_code() {
        check(Some(1), "npm error code ECONNREFUSED", false, Cause::Network);
        check(Some(127), "npm error command failed\nsh: 1: tsc: not found", false, Cause::ScriptFailed);
        check(Some(2), "No space left on device (os error 28)", false, Cause::DiskFull);
        check(Some(127), "sh: 1: pnpm: not found", true, Cause::ToolMissing);
        check(Some(9), "", true, Cause::ScriptFailed);
        check(Some(9), "", false, Cause::Unknown);
        check(None, "", true, Cause::Killed);
        check(Some(1), "ERR_PNPM_OUTDATED_LOCKFILE  Cannot install", false, Cause::LockMismatch);
    }
}
