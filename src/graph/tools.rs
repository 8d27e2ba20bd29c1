//! Which entry of `allowed_tools` grants a whole shell.
//!
//! The question is what an entry could be used for, not what it was meant for; doubt is a yes.

/// Programs that run whatever they are given, beside shells and interpreters.
const LAUNCHERS: &[&str] = &[
    "env",
    "xargs",
    "sudo",
    "doas",
    "su",
    "runuser",
    "pkexec",
    "eval",
    "exec",
    "command",
    "builtin",
    "source",
    ".",
    "nohup",
    "setsid",
    "time",
    "timeout",
    "nice",
    "ionice",
    "stdbuf",
    "parallel",
    "watch",
    "script",
    "npx",
    "bunx",
    "pnpx",
    "uv",
    "uvx",
    "pipx",
    "nix",
    "nix-shell",
    "unshare",
    "chroot",
    "nsenter",
    "strace",
    "ltrace",
    "gdb",
    "docker",
    "podman",
    "ssh",
    "vim",
    "vi",
    "nvim",
    "emacs",
    "find",
    "tmux",
    "screen",
    "at",
    "crontab",
    "systemd-run",
];

const SHELLS: &[&str] = &[
    "sh",
    "bash",
    "rbash",
    "zsh",
    "dash",
    "ash",
    "ksh",
    "mksh",
    "pdksh",
    "fish",
    "csh",
    "tcsh",
    "busybox",
    "toybox",
    "pwsh",
    "powershell",
    "cmd",
];

const INTERPRETERS: &[&str] = &[
    "python",
    "ipython",
    "pypy",
    "node",
    "nodejs",
    "deno",
    "bun",
    "tsx",
    "ts-node",
    "perl",
    "ruby",
    "irb",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "wish",
    "expect",
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "osascript",
    "rscript",
    "julia",
    "java",
    "dotnet",
    "sqlite3",
    "psql",
];

/// Returns why `entry` of an `allowed_tools` grants a whole shell, or `None` where it does not.
pub(super) fn whole_shell(entry: &str) -> Option<String> {
    let entry = entry.trim();
    let (tool, pattern) = match entry.split_once('(') {
        Some((tool, rest)) => match rest.strip_suffix(')') {
            Some(pattern) => (tool.trim(), Some(pattern.trim())),
            None => return Some("its parentheses do not match".to_owned()),
        },
        None => (entry, None),
    };
    // Agents take the list as one argument, parted by commas or blanks: an entry with one is several.
    if tool.contains([',', ' ', '\t', '\n', ')'])
        || pattern.is_some_and(|pattern| pattern.contains([',', '\n']))
    {
        return Some("one entry names one tool".to_owned());
    }
    if tool.is_empty() || tool.contains('*') {
        return Some("it is every tool".to_owned());
    }
    if is_program_of(tool, SHELLS) && !tool.eq_ignore_ascii_case("bash") {
        return Some("it is the whole shell".to_owned());
    }
    if !tool.eq_ignore_ascii_case("bash") {
        return None;
    }
    match pattern {
        None | Some("" | "*" | ":*") => Some("it is the whole shell".to_owned()),
        Some(pattern) => commands(pattern).find_map(|command| runs_anything(&command)),
    }
}

/// Returns the stretches of a command line that may each begin with a program.
fn commands(pattern: &str) -> impl Iterator<Item = String> + '_ {
    let parts = pattern.split([';', '&', '|', '(', ')', '`', '{', '}', '\n']);
    // Quotes and backslashes hide nothing from a shell: `\sh` and `"sh"` are `sh`.
    parts.map(|part| part.replace(['"', '\'', '\\'], "")).filter(|part| !part.trim().is_empty())
}

fn runs_anything(command: &str) -> Option<String> {
    // `sh:*` is how some agents write "`sh` and whatever follows".
    let words = || command.split_whitespace().map(|word| word.split(':').next().unwrap_or(word));
    if let Some(shell) = words().map(base_name).find(|word| is_program_of(word, SHELLS)) {
        return Some(format!("`{shell}` is a shell"));
    }
    let is_before_program = |word: &str| is_assignment(word) || word == "!" || word.starts_with(['<', '>']);
    let program = words().find(|word| !is_before_program(word))?;
    if program.is_empty() || program.starts_with('$') || program.contains(['*', '?', '[']) {
        return Some("it is any command at all".to_owned());
    }
    let name = base_name(program);
    let kinds: [(&[&str], &str); 2] =
        [(INTERPRETERS, "runs any code it is given"), (LAUNCHERS, "runs any command it is given")];
    let kind = kinds.iter().find(|(programs, _)| is_program_of(name, programs));
    kind.map(|(_, what)| format!("`{name}` {what}"))
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// Returns whether `name` is one of `programs`, with or without a version: `python3.12`, `node-20`.
fn is_program_of(name: &str, programs: &[&str]) -> bool {
    let lower = name.to_ascii_lowercase();
    let name = lower.strip_suffix(".exe").unwrap_or(&lower);
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    programs.contains(&name) || (!unversioned.is_empty() && programs.contains(&unversioned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_grant_a_whole_shell_are_known() {
        for entry in [
            "Bash",
            "bash",
            " Bash ",
            "Bash()",
            "Bash(*)",
            "Bash( * )",
            "Bash(:*)",
            "*",
            "B*",
            "",
            "Bash(sh)",
            "Bash(sh -c *)",
            "Bash(/bin/sh *)",
            "Bash(/usr/bin/env *)",
            "Bash(env *)",
            "Bash(env FOO=1 git *)",
            "Bash(python3 *)",
            "Bash(python3.12:*)",
            "Bash(/opt/py/bin/python *)",
            "Bash(node *)",
            "Bash(perl -e *)",
            "Bash(xargs *)",
            "Bash(sudo *)",
            "Bash(A=1 B=2 bash *)",
            "Bash(git * | sh)",
            "Bash(git status && zsh *)",
            "Bash(\"sh\" -c *)",
            "Bash(\\sh *)",
            "Bash(s* x)",
            "Bash(* --version)",
            "Bash(bash:*)",
            "Bash(PYTHON3 *)",
            "Bash(git log $(sh *))",
            "Bash(. *)",
            "Bash(eval *)",
            "Read,Bash",
            "Read Bash",
            "Bash(git *),Bash(*)",
            "Bash(git *",
            "Bash(busybox *)",
            "Bash(awk *)",
            "Bash(timeout 5 *)",
            "PowerShell",
            "Bash(npx *)",
            "Bash(pwsh.exe *)",
            "Bash(git log,Bash)",
            "Bash($SHELL -c *)",
            "Bash(find . -exec sh *)",
            "Bash(>x python *)",
        ] {
            assert!(whole_shell(entry).is_some(), "{entry}");
        }
    }

    #[test]
    fn narrow_entries_are_left_alone() {
        for entry in [
            "Read",
            "Edit",
            "Write",
            "Grep",
            "WebFetch(domain:example.org)",
            "Bash(git *)",
            "Bash(git diff*)",
            "Bash(make *)",
            "Bash(go test *)",
            "Bash(gh pr view *)",
            "Bash(cargo test:*)",
            "Bash(ls -la)",
            "Bash(./scripts/check *)",
            "Bash(shellcheck *)",
            "Bash(nodemon-check *)",
            "mcp__files__read",
            "Bash(cat *)",
            "Bash(go env *)",
            "Bash(echo $HOME)",
        ] {
            assert_eq!(whole_shell(entry), None, "{entry}");
        }
    }
}
