//! How a provisioning try ended → its finer cause. Exit codes alone do not classify: package
//! managers pass a script's code through (measured), so text comes first and the code last.

use super::ecosystem::Ecosystem;
use super::ecosystems::ECOSYSTEMS;

/// Why a provisioning try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A program is not there, or is not the one that the repository asks for.
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
    /// It ended well and left half an installation, or none.
    Incomplete,
    /// It changed files that git tracks.
    TrackedChanged,
    /// Something outside the lane would be used or changed in its place.
    NotIsolated,
    /// Anything else.
    Unknown,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 12] = [
        Cause::ToolMissing,
        Cause::Network,
        Cause::Auth,
        Cause::DiskFull,
        Cause::Timeout,
        Cause::ScriptFailed,
        Cause::LockMismatch,
        Cause::Killed,
        Cause::Incomplete,
        Cause::TrackedChanged,
        Cause::NotIsolated,
        Cause::Unknown,
    ];

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
            Cause::Incomplete => "incomplete",
            Cause::TrackedChanged => "tracked-changed",
            Cause::NotIsolated => "not-isolated",
            Cause::Unknown => "unknown",
        }
    }

    /// Returns whether a repeat may end differently, where the text does not say so itself.
    pub fn may_be_transient(self) -> bool {
        match self {
            Cause::Network
            | Cause::Timeout
            | Cause::ScriptFailed
            | Cause::Killed
            | Cause::Incomplete
            | Cause::Unknown => true,
            Cause::ToolMissing
            | Cause::Auth
            | Cause::DiskFull
            | Cause::LockMismatch
            | Cause::TrackedChanged
            | Cause::NotIsolated => false,
        }
    }

    /// Returns the way out, in one line; `None` where the log alone knows.
    pub fn hint(self) -> Option<&'static str> {
        match self {
            Cause::ToolMissing => Some("install it, or put it on the PATH"),
            Cause::Network => Some("see that the registry can be reached"),
            Cause::Auth => Some("log in to the registry, or name its token in `pass_env`"),
            Cause::DiskFull => Some("make room"),
            Cause::Timeout => Some("a larger `provision.timeout` gives it longer"),
            Cause::LockMismatch => {
                Some("manifest and lockfile disagree: bring them into line and commit both")
            }
            Cause::TrackedChanged => Some("commit what it makes, or have git ignore it"),
            Cause::NotIsolated => Some("take it away, or move lanes elsewhere with `--worktree-root`"),
            Cause::Killed => Some("something outside ended it; memory may be short"),
            Cause::ScriptFailed | Cause::Incomplete | Cause::Unknown => None,
        }
    }
}

/// A text by which a tool says why it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Says {
    /// Part of what it prints.
    pub text: &'static str,
    /// What that means.
    pub cause: Cause,
    /// Whether a repeat may end differently.
    pub again: bool,
}

impl Says {
    /// Returns a text after which a repeat would end the same.
    pub const fn once(text: &'static str, cause: Cause) -> Says {
        Says { text, cause, again: false }
    }

    /// Returns a text after which a repeat may end differently.
    pub const fn again(text: &'static str, cause: Cause) -> Says {
        Says { text, cause, again: true }
    }
}

/// A full disk, in every tool's words.
pub const DISK_FULL: [&str; 4] = ["ENOSPC", "No space left on device", "os error 28", "Disk quota exceeded"];

/// The same, where a tool goes on and ends with 0: words that a test or a script would not print by itself.
pub const DISK_FULL_BESIDE_SUCCESS: [&str; 4] =
    ["TAR_ENTRY_ERROR ENOSPC", "No space left on device", "os error 28", "Disk quota exceeded"];

/// A limit of the system's that has the name of a full disk.
const WATCHERS: &str = "System limit for number of file watchers";

/// What tools of several kinds print, asked after the tool's own row.
pub const EVERYWHERE: &[Says] = &[
    Says::again("503 Service Unavailable", Cause::Network),
    Says::again("502 Bad Gateway", Cause::Network),
    Says::again("429 Too Many Requests", Cause::Network),
    Says::once("401 Unauthorized", Cause::Auth),
    Says::once("403 Forbidden", Cause::Auth),
    Says::once("npm error code E401", Cause::Auth),
    Says::once("npm error code E403", Cause::Auth),
    Says::once("HTTP Error 401", Cause::Auth),
    Says::once("HTTP error 403", Cause::Auth),
    Says::once("could not read Username", Cause::Auth),
    Says::once("Permission denied (publickey", Cause::Auth),
    Says::again("ECONNREFUSED", Cause::Network),
    Says::again("ECONNRESET", Cause::Network),
    Says::again("ENOTFOUND", Cause::Network),
    Says::again("EAI_AGAIN", Cause::Network),
    Says::again("ETIMEDOUT", Cause::Network),
    Says::again("Connection refused", Cause::Network),
    Says::again("Connection reset", Cause::Network),
    Says::again("Connection timed out", Cause::Network),
    Says::again("Temporary failure in name resolution", Cause::Network),
    Says::again("Could not resolve host", Cause::Network),
    Says::again("Network is unreachable", Cause::Network),
];

/// What became of a try that did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Why.
    pub cause: Cause,
    /// Whether a repeat may end differently.
    pub again: bool,
}

impl From<Cause> for Verdict {
    fn from(cause: Cause) -> Verdict {
        Verdict { cause, again: cause.may_be_transient() }
    }
}

/// Returns the verdict on a try that ended with `code` or by a signal, with `tail` as what it
/// printed. `says` are the tool's own words; `opaque` says that a person wrote the command.
pub fn verdict(code: Option<i32>, tail: &str, says: &[Says], opaque: bool) -> Verdict {
    if DISK_FULL.iter().any(|text| tail.contains(text)) && !tail.contains(WATCHERS) {
        return Cause::DiskFull.into();
    }
    // A tool may speak of its network before it says that it was refused (measured with yarn 1), so what
    // no repeat mends comes first.
    let said = |again: bool| {
        let mut all = says.iter().chain(EVERYWHERE).filter(|says| says.again == again);
        all.find(|says| tail.contains(says.text))
    };
    if let Some(said) = said(false).or_else(|| said(true)) {
        return Verdict { cause: said.cause, again: said.again };
    }
    match code {
        None => Cause::Killed.into(),
        Some(126 | 127) => Cause::ToolMissing.into(),
        // What a shell says of a child that a signal ended.
        Some(129..=159) => Cause::Killed.into(),
        Some(_) if opaque => Cause::ScriptFailed.into(),
        Some(_) => Cause::Unknown.into(),
    }
}

/// Returns the rows whose tools the text of a command names.
pub fn named_in(script: &str) -> impl Iterator<Item = &'static Ecosystem> + Clone + '_ {
    let is_named = move |tool: &str| {
        let mut words = script.split(|c: char| !(c.is_alphanumeric() || c == '-'));
        words.any(|word| tool.trim_start_matches("./") == word)
    };
    ECOSYSTEMS.iter().filter(move |row| is_named(row.tool))
}

/// Returns the verdict on a command that a person wrote, whose text is `script`: the words of the tools that it
/// names count.
pub fn verdict_of_script(code: Option<i32>, tail: &str, script: &str) -> Verdict {
    let all: Vec<Says> = named_in(script).flat_map(|row| row.says).copied().collect();
    verdict(code, tail, &all, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provision::ecosystems::ecosystem;

    /// `row` names the tool; `""` stands for a command that a person wrote.
    #[track_caller]
    fn check(row: &str, code: Option<i32>, text: &str, cause: Cause, again: bool) {
        let found = match row {
            "" => verdict_of_script(code, text, "set -e; ./make; npm ci"),
            name => verdict(code, text, ecosystem(name).unwrap().says, false),
        };
        assert_eq!(found, Verdict { cause, again }, "{row}: {text}");
    }

    #[test]
    fn manifest_and_lockfile_at_odds() {
        for (row, code, text) in [
            (
                "npm",
                1,
                "npm error code EUSAGE\nnpm error\nnpm error `npm ci` can only install packages when your package.json and package-lock.json or npm-shrinkwrap.json are in sync.",
            ),
            (
                "pnpm",
                1,
                " ERR_PNPM_OUTDATED_LOCKFILE  Cannot install with \"frozen-lockfile\" because pnpm-lock.yaml is not up to date",
            ),
            ("pnpm", 1, "[ERR_PNPM_OUTDATED_LOCKFILE] Cannot install"),
            (
                "yarn",
                1,
                "error Your lockfile needs to be updated, but yarn was run with `--frozen-lockfile`.",
            ),
            (
                "yarn-berry",
                1,
                "YN0028: │ The lockfile would have been modified by this install, which is explicitly forbidden.",
            ),
            (
                "bun",
                1,
                "error: lockfile had changes, but lockfile is frozen\nnote: dependencies in package.json changed since bun.lock was saved",
            ),
            ("deno", 1, "error: The lockfile is out of date."),
            ("uv", 1, "error: The lockfile at `uv.lock` needs to be updated, but `--locked` was provided."),
            (
                "poetry",
                1,
                "Error: pyproject.toml changed significantly since poetry.lock was last generated. Run `poetry lock` to fix the lock file.",
            ),
            ("pdm", 1, "Lock file hash doesn't match pyproject.toml, packages may be outdated"),
            ("pipenv", 1, "Pipfile.lock is out-of-date. Run $ pipenv lock to update."),
            (
                "cargo",
                101,
                "error: the lock file Cargo.lock needs to be updated but --locked was passed to prevent this\nerror: cannot update the lock file Cargo.lock because --locked was passed to prevent this",
            ),
            ("go", 1, "missing go.sum entry for module providing package"),
            (
                "bundler",
                16,
                "The gemspecs for path gems changed, but the lockfile can't be updated because frozen mode is set",
            ),
            ("composer", 4, "Required package \"a/b\" is not present in the lock file."),
            ("mix", 1, "** (Mix) Your mix.lock is out of date and must be updated"),
            ("dotnet", 1, "error NU1004: The packages lock file is inconsistent"),
            (
                "",
                1,
                "npm error `npm ci` can only install packages when your package.json and package-lock.json",
            ),
        ] {
            check(row, Some(code), text, Cause::LockMismatch, false);
        }
    }

    #[test]
    fn registries_that_do_not_answer() {
        for (row, code, text) in [
            ("npm", 1, "npm error code ECONNREFUSED\nnpm error If you are behind a proxy"),
            ("npm", 1, "npm error code E503\nnpm error 503 Service Unavailable - GET"),
            ("pnpm", 1, " ECONNREFUSED  request to"),
            (
                "pnpm",
                1,
                "✗ Lockfile failed supply-chain policy check\n[ERR_PNPM_META_FETCH_FAIL] GET: fetch failed",
            ),
            ("pnpm", 1, " ERR_PNPM_FETCH_503  GET: Service Unavailable - 503"),
            ("yarn", 1, "error Error: connect ECONNREFUSED 127.0.0.1:9"),
            ("yarn", 1, "Request failed \"503 Service Unavailable\""),
            ("yarn-berry", 1, "YN0001: │ RequestError: connect ECONNREFUSED"),
            ("yarn-berry", 1, "YN0035: │ The registry appears to be down\nYN0035: │   Response Code: 503"),
            ("bun", 1, "error: ConnectionRefused downloading tarball"),
            ("uv", 2, "error sending request for url\ntcp connect error\nConnection refused (os error 111)"),
            ("uv", 1, "Network connectivity is disabled"),
            ("poetry", 1, "All attempts to connect to the server failed."),
            (
                "pip",
                1,
                "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No matching distribution found for a",
            ),
            ("cargo", 101, "error: failed to download from\nCaused by: Could not connect to server"),
            ("go", 1, "dial tcp: lookup proxy: no such host"),
            ("git-submodules", 1, "fatal: Could not read from remote repository."),
            ("", 2, "curl: (6) Could not resolve host: example.invalid"),
        ] {
            check(row, Some(code), text, Cause::Network, true);
        }
    }

    #[test]
    fn registries_that_refuse() {
        for (row, code, text) in [
            ("npm", 1, "npm error code E401\nnpm error 401 Unauthorized - GET"),
            ("npm", 1, "npm error code E403\nnpm error 403 403 Forbidden - GET"),
            ("pnpm", 1, " ERR_PNPM_FETCH_401  GET: Unauthorized - 401"),
            ("pnpm", 1, "[ERR_PNPM_FETCH_403] GET: Forbidden - 403"),
            (
                "yarn",
                1,
                "There appears to be trouble with your network connection. Retrying...\nRequest failed \"401 Unauthorized\"",
            ),
            ("yarn-berry", 1, "YN0041: │ a@npm:1: Invalid authentication (as an anonymous user)"),
            ("yarn-berry", 1, "YN0035: │   Response Code: 403 (Forbidden)"),
            ("bun", 1, "error: GET http://localhost/a.tgz - 401\n"),
            ("uv", 2, "HTTP status client error (401 Unauthorized)"),
            (
                "cargo",
                101,
                "Caused by: authenticated registries require a credential-provider to be configured",
            ),
            ("cargo", 101, "failed to get successful HTTP response from `http://localhost/`, got 403"),
            ("go", 1, "reading http://localhost/: 401 Unauthorized"),
            ("", 128, "fatal: could not read Username for 'https://localhost': terminal prompts disabled"),
        ] {
            check(row, Some(code), text, Cause::Auth, false);
        }
    }

    #[test]
    fn a_full_disk_comes_before_all_else() {
        for (row, code, text) in [
            ("npm", 1, "npm error code ENOSPC\nnpm error command failed"),
            ("uv", 2, "No space left on device (os error 28)"),
            ("", 1, "cp: error writing: Disk quota exceeded"),
        ] {
            check(row, Some(code), text, Cause::DiskFull, false);
        }
    }

    #[test]
    fn scripts_tools_and_the_rest() {
        check("npm", Some(127), "npm error command failed\nsh: 1: tsc: not found", Cause::ScriptFailed, true);
        check("npm", Some(1), "npm error code EBADENGINE", Cause::ToolMissing, false);
        check(
            "pnpm",
            Some(1),
            "[ERR_PNPM_IGNORED_BUILDS] Ignored build scripts: esbuild@0.21.5",
            Cause::ScriptFailed,
            false,
        );
        check("pnpm", Some(1), "This project is configured to use yarn", Cause::ToolMissing, false);
        check("cargo", Some(1), "error: toolchain '1.2' is not installed", Cause::ToolMissing, false);
        check("", Some(127), "sh: 1: pnpm: not found", Cause::ToolMissing, false);
        check("", Some(9), "", Cause::ScriptFailed, true);
        check("", Some(1), "bundle is not installed", Cause::ScriptFailed, true);
        check("uv", Some(9), "", Cause::Unknown, true);
        check("npm", None, "", Cause::Killed, true);
    }

    #[test]
    fn every_text_of_the_table_is_found_by_itself() {
        for row in crate::provision::ecosystems::ECOSYSTEMS {
            for said in row.says {
                let found = verdict(Some(1), said.text, row.says, false);
                assert_eq!(found.cause, said.cause, "{}: `{}` is shadowed", row.name, said.text);
            }
        }
    }
}
