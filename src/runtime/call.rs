//! How a runtime is called: the words of its command line, its input, and the shape of what it will say.
//!
//! The flags are those of Claude Code 2 and of Codex 0.3x and later.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::told::Format;
use crate::graph::model::{PermissionMode, PromptWay, ResultWay, RuntimeSpec};
use crate::money::Usd;

/// Bytes of a prompt that may be an argument. Linux takes 128 KiB in one (MAX_ARG_STRLEN).
pub const PROMPT_ARG_MAX: usize = 96 * 1024;

/// Tools that Claude Code has by itself, older names too. A planned node gets those it was granted and no
/// other.
const CLAUDE_TOOLS: [&str; 32] = [
    "Agent",
    "AskUserQuestion",
    "Bash",
    "BashOutput",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EnterWorktree",
    "ExitWorktree",
    "Glob",
    "Grep",
    "KillShell",
    "ListMcpResourcesTool",
    "Monitor",
    "MultiEdit",
    "NotebookEdit",
    "PowerShell",
    "PushNotification",
    "Read",
    "ReadMcpResourceTool",
    "RemoteTrigger",
    "ScheduleWakeup",
    "Skill",
    "SlashCommand",
    "Task",
    "TaskOutput",
    "TaskStop",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// Tools that change files or may.
const WRITING_TOOLS: [&str; 5] = ["Edit", "MultiEdit", "Write", "NotebookEdit", "Bash"];

/// What an agent is asked.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The prompt itself.
    pub prompt: &'a str,
    /// A file that holds the same.
    pub prompt_file: &'a Path,
    /// Where a runtime that writes its reply to a file writes it.
    pub result_file: &'a Path,
    /// The model, where one is named.
    pub model: Option<&'a str>,
    /// The sub-agent, where one is named.
    pub agent: Option<&'a str>,
    /// How it asks before it acts.
    pub permission: PermissionMode,
    /// What it may use without asking; with `is_planned`, all that it may use.
    pub allowed_tools: &'a [String],
    /// The most that it may cost.
    pub budget: Option<Usd>,
    /// Its session.
    pub session: Session<'a>,
    /// Whether the node was planned, not reviewed: nothing of the user's settings may widen what it was
    /// granted.
    pub is_planned: bool,
}

/// The session that an agent works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session<'a> {
    /// A new one; this UUID is its id with runtimes that take one.
    New(&'a str),
    /// This one goes on.
    Resume(&'a str),
}

/// How an agent's process is started, and how what it says is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Program and arguments. Paths in it that are no UTF-8 are not exact.
    pub argv: Vec<String>,
    /// The file that is its standard input: the prompt's, where the prompt goes that way. Else it has none.
    pub stdin: Option<PathBuf>,
    /// The shape of its output.
    pub format: Format,
    /// Variables for it alone.
    pub environment: Vec<(String, String)>,
    /// The id of a new session, where the call itself assigns it.
    pub session: Option<String>,
}

/// A coding agent's CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// One that the graph describes.
    Own(RuntimeSpec),
}

impl Runtime {
    /// Returns the runtime named `name`: one of `specs`, whatever its name, else a built-in one.
    pub fn named(name: &str, specs: &IndexMap<String, RuntimeSpec>) -> Option<Runtime> {
        match (specs.get(name), name) {
            (Some(spec), _) => Some(Runtime::Own(spec.clone())),
            (None, "claude") => Some(Runtime::Claude),
            (None, "codex") => Some(Runtime::Codex),
            (None, _) => None,
        }
    }

    /// Returns the program that is started, as it is looked up; empty for a spec without a command.
    pub fn program(&self) -> &str {
        match self {
            Runtime::Claude => "claude",
            Runtime::Codex => "codex",
            Runtime::Own(spec) => spec.command.first().map_or("", String::as_str),
        }
    }

    /// Returns whether the id of a session that it begins is given to it.
    pub fn takes_session_ids(&self) -> bool {
        match self {
            Runtime::Claude => true,
            Runtime::Codex => false,
            Runtime::Own(spec) => spec.command.iter().any(|word| word.contains("{session}")),
        }
    }

    /// Returns the shape of its output.
    pub fn format(&self) -> Format {
        match self {
            Runtime::Claude => Format::Claude,
            Runtime::Codex => Format::Codex,
            Runtime::Own(spec) => match &spec.result {
                ResultWay::Stdout => Format::Plain,
                ResultWay::Json(pointer) => Format::Pointer(pointer.clone()),
                ResultWay::File => Format::File,
            },
        }
    }

    /// Returns how it is called for `ask`.
    ///
    /// A prompt that can't be an argument (too long, a leading `-`, a NUL) goes by standard input, also to a
    /// runtime whose spec asks for an argument: `{prompt}` is empty then, and an argument of only that is
    /// left out.
    pub fn call(&self, ask: &Ask<'_>) -> Call {
        match self {
            Runtime::Claude => claude(ask),
            Runtime::Codex => codex(ask),
            Runtime::Own(spec) => own(spec, ask),
        }
    }
}

fn fits_argument(prompt: &str) -> bool {
    prompt.len() <= PROMPT_ARG_MAX && !prompt.starts_with('-') && !prompt.contains('\0')
}

/// Returns the mode that is asked for; a planned node may not have leave for everything.
fn permission(ask: &Ask<'_>) -> PermissionMode {
    match ask.permission {
        PermissionMode::BypassPermissions if ask.is_planned => PermissionMode::DontAsk,
        mode => mode,
    }
}

/// Returns the granted entries. One that looks like a flag is no tool's, and would be a flag.
fn granted<'a>(ask: &Ask<'a>) -> Vec<&'a str> {
    ask.allowed_tools
        .iter()
        .map(String::as_str)
        .filter(|entry| !entry.trim_start().starts_with('-'))
        .collect()
}

/// Returns the names of the granted tools, without what is granted of each, each once.
fn tool_names<'a>(ask: &Ask<'a>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    let names = granted(ask).into_iter().map(|entry| entry.split('(').next().unwrap_or(entry).trim());
    names.filter(|name| !name.is_empty() && seen.insert(*name)).collect()
}

fn claude(ask: &Ask<'_>) -> Call {
    let is_argument = fits_argument(ask.prompt);
    let mut argv = Argv::new(&["claude", "-p"]);
    argv.extend(is_argument.then_some(ask.prompt));
    argv.extend(["--output-format", "json", "--permission-mode", permission(ask).word()]);
    argv.flag("--model", ask.model);
    argv.flag("--max-budget-usd", ask.budget.map(Usd::decimal).as_deref());
    argv.flag("--setting-sources", ask.is_planned.then_some(""));
    argv.flag("--agent", ask.agent);
    let granted = granted(ask);
    if granted.iter().any(|entry| entry.contains(',')) {
        // It takes values up to the next flag, and there is always one: the session's.
        argv.extend(["--allowedTools"]);
        argv.extend(granted);
    } else if !granted.is_empty() {
        argv.flag("--allowedTools", Some(&granted.join(",")));
    }
    if ask.is_planned {
        let tools = tool_names(ask);
        let denied: Vec<&str> = CLAUDE_TOOLS.into_iter().filter(|tool| !tools.contains(tool)).collect();
        argv.flag("--tools", Some(&tools.join(",")));
        argv.extend(["--strict-mcp-config"]);
        argv.flag(
            "--disallowedTools",
            Some(&denied.join(",")).filter(|denied| !denied.is_empty()).map(String::as_str),
        );
    }
    let session = match ask.session {
        Session::New(id) => {
            argv.flag("--session-id", Some(id));
            Some(id.to_owned())
        }
        Session::Resume(id) => {
            argv.flag("--resume", Some(id));
            None
        }
    };
    let stdin = (!is_argument).then(|| ask.prompt_file.to_owned());
    Call { argv: argv.0, stdin, format: Format::Claude, environment: Vec::new(), session }
}

fn codex(ask: &Ask<'_>) -> Call {
    let is_argument = fits_argument(ask.prompt);
    let mut argv = Argv::new(&["codex", "exec", "--json", "--skip-git-repo-check"]);
    argv.flag("--model", ask.model);
    let may_write = !ask.is_planned || tool_names(ask).iter().any(|tool| WRITING_TOOLS.contains(tool));
    let sandbox = match permission(ask) {
        PermissionMode::BypassPermissions => None,
        PermissionMode::Plan => Some("read-only"),
        PermissionMode::AcceptEdits
        | PermissionMode::Auto
        | PermissionMode::DontAsk
        | PermissionMode::Manual => Some(if may_write { "workspace-write" } else { "read-only" }),
    };
    match sandbox {
        Some(sandbox) => argv.flag("--sandbox", Some(sandbox)),
        None => argv.extend(["--dangerously-bypass-approvals-and-sandbox"]),
    }
    if let Session::Resume(id) = ask.session {
        // A session that goes on takes its sandbox from the configuration; flags must come before the word.
        argv.flag("-c", sandbox.map(|sandbox| format!("sandbox_mode=\"{sandbox}\"")).as_deref());
        argv.extend(["resume", id]);
    }
    argv.extend([if is_argument { ask.prompt } else { "-" }]);
    let stdin = (!is_argument).then(|| ask.prompt_file.to_owned());
    Call { argv: argv.0, stdin, format: Format::Codex, environment: Vec::new(), session: None }
}

fn own(spec: &RuntimeSpec, ask: &Ask<'_>) -> Call {
    let (prompt_file, result_file) = (ask.prompt_file.to_string_lossy(), ask.result_file.to_string_lossy());
    let is_argument = spec.prompt == PromptWay::Arg && fits_argument(ask.prompt);
    let (Session::New(session) | Session::Resume(session)) = ask.session;
    let values = [
        ("{prompt}", if is_argument { ask.prompt } else { "" }),
        ("{prompt_file}", &prompt_file),
        ("{result_file}", &result_file),
        ("{session}", session),
        ("{model}", ask.model.unwrap_or_default()),
    ];
    let is_resumed = matches!(ask.session, Session::Resume(_));
    let further = if is_resumed { spec.resume.as_slice() } else { &[] };
    let template: Vec<&String> = spec.command.iter().chain(further).collect();
    let names = |placeholder: &str| template.iter().any(|argument| argument.contains(placeholder));
    let is_kept = |argument: &&&String| is_argument || argument.as_str() != "{prompt}";
    let mut argv = Argv(template.iter().filter(is_kept).map(|argument| filled(argument, &values)).collect());
    let stdin = match spec.prompt {
        PromptWay::Stdin => true,
        PromptWay::Arg => {
            argv.extend((is_argument && !names("{prompt}")).then_some(ask.prompt));
            !is_argument
        }
        PromptWay::File => {
            argv.extend((!names("{prompt_file}")).then_some(&*prompt_file));
            false
        }
    };
    let mut environment = vec![("OMG_PROMPT_FILE".to_owned(), prompt_file.clone().into_owned())];
    let format = match &spec.result {
        ResultWay::Stdout => Format::Plain,
        ResultWay::Json(pointer) => Format::Pointer(pointer.clone()),
        ResultWay::File => {
            environment.push(("OMG_RESULT_FILE".to_owned(), result_file.clone().into_owned()));
            Format::File
        }
    };
    let is_assigned = !is_resumed && names("{session}");
    let stdin = stdin.then(|| ask.prompt_file.to_owned());
    Call { argv: argv.0, stdin, format, environment, session: is_assigned.then(|| session.to_owned()) }
}

/// Returns `argument` with its placeholders replaced, in one go: what is put in is not looked at again.
fn filled(argument: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = argument;
    while let Some(at) = rest.find('{') {
        out += &rest[..at];
        rest = &rest[at..];
        match values.iter().find(|(placeholder, _)| rest.starts_with(placeholder)) {
            Some((placeholder, value)) => {
                out += value;
                rest = &rest[placeholder.len()..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

struct Argv(Vec<String>);

impl Argv {
    fn new(words: &[&str]) -> Argv {
        Argv(words.iter().map(|word| (*word).to_owned()).collect())
    }

    fn extend<'w>(&mut self, words: impl IntoIterator<Item = &'w str>) {
        self.0.extend(words.into_iter().map(str::to_owned));
    }

    /// Adds a flag, where it has a value.
    fn flag(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.extend([name, value]);
        }
    }
}
