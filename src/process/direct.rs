//! Which `sh -c LINE` comes to the same without `sh`, and what is executed then.
//!
//! A shell that only splits a line into words and starts a program costs as much as the program. make
//! leaves it out in that case, and so do we, but only where nothing can be told apart: the shell is
//! dash, whose doings are known, and the line is one program with plain words. Everything else goes
//! to the shell, which then also says what is wrong with it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::environment::Environment;

/// Words that dash does not look for in `PATH`, by dash(1); and those of other shells that people
/// could mean, for which dash then has the say.
const SHELL_WORDS: [&str; 72] = [
    ".", ":", "[", "[[", "alias", "bg", "bind", "break", "builtin", "caller", "case", "cd", "chdir",
    "command", "complete", "continue", "declare", "dirs", "disown", "do", "done", "echo", "elif", "else",
    "enable", "esac", "eval", "exec", "exit", "export", "false", "fc", "fg", "fi", "for", "function",
    "getopts", "hash", "help", "history", "if", "in", "jobs", "kill", "let", "local", "logout", "mapfile",
    "printf", "pwd", "read", "readonly", "return", "select", "set", "shift", "source", "test", "then",
    "time", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "until",
    "wait", "while",
];

/// Programs that ask the system for what the leader of a process group can't have. Through a shell they are not
/// its leader; without one they would be, and `setsid` would leave its work to a child and be over at once.
const NO_LEADERS: [&str; 1] = ["setsid"];

/// Bytes from which on one argument is too long for execve(2) (MAX_ARG_STRLEN): such a line `sh` never sees.
const LINE_MAX: usize = 128 * 1024;

/// The program that `sh` has to be.
const DASH: [&str; 2] = ["/usr/bin/dash", "/bin/dash"];

/// Variables that dash sets anew, whatever it is given.
const SHELL_VARIABLES: [&str; 4] = ["IFS", "LINENO", "OPTIND", "PPID"];

/// Returns the words of a command line that is one program with plain arguments; `None` where it
/// takes a shell to tell what it means.
pub fn words(line: &str) -> Option<Vec<String>> {
    // What begins like an option is one to `sh -c`.
    if line.len() >= LINE_MAX || line.starts_with(['-', '+']) {
        return None;
    }
    let line = line.trim_matches([' ', '\t', '\n']);
    let mut words = Vec::new();
    let mut characters = line.chars().peekable();
    while let Some(first) = characters.next_if(|c| !matches!(c, ' ' | '\t')).or_else(|| {
        while characters.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        characters.next()
    }) {
        words.push(word(first, &mut characters)?);
    }
    let name: &String = words.first()?;
    let assignment = name.contains('=');
    let leads = |word: &String| NO_LEADERS.contains(&word.rsplit('/').next().unwrap_or_default());
    if words.iter().any(leads) {
        return None;
    }
    (!name.is_empty() && !assignment && !SHELL_WORDS.contains(&name.as_str())).then_some(words)
}

/// Returns the word that begins with `first`; `None` where it holds what means something to a shell.
fn word(first: char, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let mut word = String::new();
    let mut next = Some(first);
    while let Some(character) = next {
        match character {
            ' ' | '\t' => break,
            '\'' => loop {
                match rest.next()? {
                    '\'' => break,
                    inner => word.push(inner),
                }
            },
            '"' => loop {
                match rest.next()? {
                    '"' => break,
                    '$' | '`' | '\\' => return None,
                    inner => word.push(inner),
                }
            },
            plain if is_plain(plain) => word.push(plain),
            _ => return None,
        }
        next = rest.next();
    }
    Some(word)
}

/// Returns whether a character outside quotes stands for itself wherever it stands in a word.
fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_./:=,@%+-".contains(character)
}

/// What is known of the files that a lookup meets.
pub trait Files {
    /// Returns whether this is a regular file that somebody may execute.
    fn is_program(&self, path: &Path) -> bool;

    /// Returns the file behind a path once every link is followed.
    fn real_path(&self, path: &Path) -> Option<PathBuf>;

    /// Returns what `sh` is for who has this `PATH`. By default it is looked for; who is asked often may remember.
    fn shell(&self, path: &OsStr, cwd: &Path) -> Option<Shell>
    where
        Self: Sized,
    {
        Shell::found(path, cwd, self)
    }

    /// Returns whether both name one folder.
    fn is_same_folder(&self, one: &Path, other: &Path) -> bool;
}

/// What `sh` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shell {
    /// Its path.
    pub path: PathBuf,
    /// Whether its doings are known.
    pub is_dash: bool,
}

impl Shell {
    /// Returns what is found as `sh` in `path`.
    pub fn found(path: &OsStr, cwd: &Path, files: &impl Files) -> Option<Shell> {
        let shell = look_up(OsStr::new("sh"), path, cwd, files)?;
        let real = files.real_path(&cwd.join(&shell))?;
        Some(Shell { is_dash: DASH.iter().any(|dash| real == Path::new(dash)), path: shell })
    }
}

/// Returns the words, the program's path and the environment with which `sh -c line` in `cwd` would
/// start a program; `None` where it takes the shell.
pub fn resolve(
    line: &str,
    cwd: &Path,
    environment: &Environment,
    files: &impl Files,
) -> Option<(Vec<String>, PathBuf, Environment)> {
    let words = words(line)?;
    if SHELL_VARIABLES.iter().any(|name| environment.get(name).is_some()) {
        return None;
    }
    // dash gives `%` in PATH a meaning of its own.
    let path = environment.get("PATH").filter(|path| !path.as_bytes().contains(&b'%'))?;
    if !files.shell(path, cwd)?.is_dash {
        return None;
    }
    let program = look_up(OsStr::new(words.first()?), path, cwd, files)?;
    Some((words, program, as_a_shell_hands_it_on(cwd, environment, files)?))
}

/// Returns the file that `name` stands for, as execvp(3) and dash look for it; `None` where there is no
/// such program. What has a slash in it is a path, seen from `cwd`.
pub fn look_up(name: &OsStr, path: &OsStr, cwd: &Path, files: &impl Files) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|program| files.is_program(&cwd.join(program)));
    }
    let folders = path.as_bytes().split(|byte| *byte == b':');
    // A folder that is named from where one stands makes a program that is named so too, as it will see.
    let within = |folder: &[u8]| {
        let separator: &[u8] = if folder.is_empty() { b"" } else { b"/" };
        PathBuf::from(OsString::from_vec([folder, separator, name.as_bytes()].concat()))
    };
    folders.map(within).find(|candidate| files.is_program(&cwd.join(candidate)))
}

/// Returns what dash makes of the environment: names that are none to it are gone, and `PWD` is true.
fn as_a_shell_hands_it_on(cwd: &Path, environment: &Environment, files: &impl Files) -> Option<Environment> {
    let mut handed = environment.clone();
    handed.0.retain(|name, _| is_name(name));
    let told = environment.get("PWD").map(Path::new).filter(|told| told.is_absolute());
    if !told.is_some_and(|told| files.is_same_folder(told, cwd)) {
        handed.set("PWD", files.real_path(cwd)?);
    }
    Some(handed)
}

fn is_name(name: &OsString) -> bool {
    let name = name.as_bytes();
    !name.first().is_none_or(u8::is_ascii_digit)
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Returns what dash makes of a program that `signal` ended: its own exit status, and the line that it
/// writes to its standard error. The texts are those of strsignal(3), seen from dash 0.5.12.
///
/// `None` for signals that others send: to the program, or to all of its group, and then dash would have died of
/// it too. What is unknown is no fault of the node's, so the signal itself is told.
pub fn told_of_signal(signal: i32, dumped_core: bool) -> Option<(i32, String)> {
    let text = match signal {
        // HUP, INT, QUIT, KILL, TERM
        1 | 2 | 3 | 9 | 15 => return None,
        // PIPE passes in silence.
        13 => return Some((128 + signal, String::new())),
        4 => "Illegal instruction",
        5 => "Trace/breakpoint trap",
        6 => "Aborted",
        7 => "Bus error",
        8 => "Floating point exception",
        10 => "User defined signal 1",
        11 => "Segmentation fault",
        12 => "User defined signal 2",
        14 => "Alarm clock",
        16 => "Stack fault",
        24 => "CPU time limit exceeded",
        25 => "File size limit exceeded",
        26 => "Virtual timer expired",
        27 => "Profiling timer expired",
        29 => "I/O possible",
        30 => "Power failure",
        31 => "Bad system call",
        other => &format!("Real-time signal {}", other - 34),
    };
    Some((128 + signal, format!("{text}{}\n", if dumped_core { " (core dumped)" } else { "" })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files as a test wants them: programs, and one link.
    struct Seen(&'static [&'static str]);

    impl Files for Seen {
        fn is_program(&self, path: &Path) -> bool {
            self.0.iter().any(|program| path == Path::new(program))
        }

        fn real_path(&self, path: &Path) -> Option<PathBuf> {
            Some(if path == Path::new("/bin/sh") { "/usr/bin/dash".into() } else { path.to_path_buf() })
        }

        fn is_same_folder(&self, one: &Path, other: &Path) -> bool {
            one == other || (one == Path::new("/link") && other == Path::new("/place"))
        }
    }

    const SEEN: Seen = Seen(&["/bin/sh", "/bin/tool", "/place/here", "/place/sub/tool"]);

    #[track_caller]
    fn check(line: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|words| words.iter().map(ToString::to_string).collect());
        assert_eq!(words(line), expected, "{line:?}");
    }

    #[test]
    fn plain_words_need_no_shell() {
        check("tool", Some(&["tool"]));
        check("  tool -a --b=c x/y.z\n", Some(&["tool", "-a", "--b=c", "x/y.z"]));
        check("tool 'a  b' \"c d\" ''", Some(&["tool", "a  b", "c d", ""]));
        check("tool a'b'\"c\"d", Some(&["tool", "abcd"]));
        check("tool 'a\nb'", Some(&["tool", "a\nb"]));
        check("./tool\targ", Some(&["./tool", "arg"]));
    }

    #[test]
    fn what_means_something_to_a_shell_goes_to_one() {
        for line in [
            "",
            "  ",
            "''",
            "A=1 tool",
            "A=1",
            "tool; tool",
            "tool | tool",
            "tool > x",
            "tool 2>&1",
            "tool &",
            "tool $A",
            "tool \"$A\"",
            "tool `a`",
            "tool \"a\\b\"",
            "tool *.c",
            "tool ~",
            "tool a?",
            "tool [a]",
            "tool {a,b}",
            "tool #x",
            "tool\ntool",
            "tool a\\ b",
            "tool 'a",
            "tool \"a",
            "(tool)",
            "! tool",
            "tool a^b",
            "true",
            "echo a",
            "[ a ]",
            "cd x",
            "exec tool",
            ". x",
            "if",
            "'true'",
            "tool \u{e9}",
            "tool a\rb",
            "-tool",
            "+x",
            "setsid tool",
            "env A=1 /usr/bin/setsid tool",
        ] {
            check(line, None);
        }
    }

    #[track_caller]
    fn resolved(line: &str, environment: &[(&str, &str)]) -> Option<(PathBuf, Environment)> {
        let environment = Environment::from_iter(environment.iter().copied());
        resolve(line, Path::new("/place"), &environment, &SEEN).map(|(_, program, seen)| (program, seen))
    }

    #[test]
    fn the_program_is_the_first_in_path() {
        let program = |line, path| resolved(line, &[("PATH", path)]).map(|(program, _)| program);
        assert_eq!(program("tool", "/none:/bin"), Some("/bin/tool".into()));
        assert_eq!(program("tool", "sub:/bin"), Some("sub/tool".into()));
        assert_eq!(program("tool", "/bin/"), Some("/bin//tool".into()));
        assert_eq!(program("here", "/bin:"), Some("here".into()));
        assert_eq!(program("./here", "/bin"), Some("./here".into()));
        assert_eq!(program("missing", "/bin"), None);
        assert_eq!(program("tool", "/bin:/%func"), None);
        assert_eq!(program("tool", "/none"), None, "the shell is not there");
    }

    #[test]
    fn the_environment_is_as_dash_hands_it_on() {
        let base = ("PATH", "/bin");
        let seen = |further| resolved("tool", &[base, further]).map(|(_, seen)| seen);
        let expected = |pairs: &[(&str, &str)]| Some(Environment::from_iter(pairs.iter().copied()));
        assert_eq!(seen(("A", "1")), expected(&[base, ("A", "1"), ("PWD", "/place")]));
        assert_eq!(seen(("PWD", "/elsewhere")), expected(&[base, ("PWD", "/place")]));
        assert_eq!(seen(("PWD", "/link")), expected(&[base, ("PWD", "/link")]));
        assert_eq!(seen(("BASH_FUNC_x%%", "() {")), expected(&[base, ("PWD", "/place")]));
        assert_eq!(seen(("1A", "x")), expected(&[base, ("PWD", "/place")]));
        assert_eq!(seen(("IFS", " ")), None);
    }
}
