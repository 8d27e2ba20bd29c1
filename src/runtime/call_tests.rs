//! The command lines of each runtime.

use std::path::Path;

use indexmap::IndexMap;

use super::call::*;
use super::told::Format;
use crate::graph::model::{PermissionMode, PromptWay, ResultWay, RuntimeSpec};
use crate::money::Usd;

const ID: &str = "605d46b9-cbaf-4d65-833b-3ba8b940c183";

fn ask() -> Ask<'static> {
    Ask {
        prompt: "do it",
        prompt_file: Path::new("/r/prompt"),
        result_file: Path::new("/r/result"),
        model: None,
        agent: None,
        permission: PermissionMode::DontAsk,
        allowed_tools: &[],
        budget: None,
        session: Session::New(ID),
        is_planned: false,
    }
}

fn tools(entries: &[&str]) -> Vec<String> {
    entries.iter().map(|entry| (*entry).to_owned()).collect()
}

/// Checks the command line, its words parted by `|`.
#[track_caller]
fn check(runtime: &Runtime, ask: &Ask<'_>, expected: &str) -> Call {
    let call = runtime.call(ask);
    assert_eq!(call.argv.join("|"), expected);
    call
}

#[test]
fn claude_is_called() {
    let claude = &Runtime::Claude;
    let call = check(
        claude,
        &ask(),
        &format!("claude|-p|do it|--output-format|json|--permission-mode|dontAsk|--session-id|{ID}"),
    );
    assert_eq!((call.stdin, call.format, call.session.as_deref()), (None, Format::Claude, Some(ID)));
    assert_eq!(call.environment, []);
    let granted = tools(&["Read", "Bash(git *)"]);
    let all = Ask {
        model: Some("opus"),
        agent: Some("reviewer"),
        permission: PermissionMode::AcceptEdits,
        allowed_tools: &granted,
        budget: Some(Usd::from_micros(1_500_000)),
        session: Session::Resume("s1"),
        ..ask()
    };
    let call = check(
        claude,
        &all,
        "claude|-p|do it|--output-format|json|--permission-mode|acceptEdits|--model|opus|\
         --max-budget-usd|1.5|--agent|reviewer|--allowedTools|Read,Bash(git *)|--resume|s1",
    );
    assert_eq!(call.session, None);
    // An entry with a comma stands for itself, and a flag ends the list.
    let granted = tools(&["Bash(echo a,b)", "Read"]);
    check(
        claude,
        &Ask { allowed_tools: &granted, ..ask() },
        &format!(
            "claude|-p|do it|--output-format|json|--permission-mode|dontAsk|--allowedTools|\
             Bash(echo a,b)|Read|--session-id|{ID}"
        ),
    );
    for mode in PermissionMode::ALL {
        let argv = claude.call(&Ask { permission: mode, ..ask() }).argv;
        assert!(argv.windows(2).any(|pair| pair == ["--permission-mode", mode.word()]), "{argv:?}");
    }
}

#[test]
fn a_planned_node_gets_what_it_was_granted() {
    let granted = tools(&["Read", "Bash(git diff:*)", "Bash(git log:*)", "Edit"]);
    let planned = Ask {
        allowed_tools: &granted,
        is_planned: true,
        permission: PermissionMode::BypassPermissions,
        agent: Some("x"),
        ..ask()
    };
    let argv = Runtime::Claude.call(&planned).argv;
    let at =
        |flag: &str| argv.iter().position(|word| word == flag).unwrap_or_else(|| panic!("{flag}: {argv:?}"));
    let value = |flag: &str| argv[at(flag) + 1].as_str();
    assert_eq!(value("--permission-mode"), "dontAsk");
    assert_eq!(value("--setting-sources"), "");
    assert_eq!(value("--allowedTools"), "Read,Bash(git diff:*),Bash(git log:*),Edit");
    assert_eq!(value("--tools"), "Read,Bash,Edit");
    let denied: Vec<&str> = value("--disallowedTools").split(',').collect();
    for (tool, is_denied) in [
        ("Task", true),
        ("WebFetch", true),
        ("WebSearch", true),
        ("NotebookEdit", true),
        ("Write", true),
        ("Bash", false),
        ("Read", false),
        ("Edit", false),
    ] {
        assert_eq!(denied.contains(&tool), is_denied, "{tool}");
    }
    let order = ["--setting-sources", "--agent", "--allowedTools", "--tools", "--strict-mcp-config"];
    let mut places: Vec<usize> = order.map(at).to_vec();
    places.extend([at("--disallowedTools"), at("--session-id")]);
    assert!(places.is_sorted(), "{argv:?}");
    // What looks like a flag is none of the tools, or it would be a flag.
    for entries in [&["--dangerously-skip-permissions"][..], &["Bash(echo a,b)", " --mcp-config", "Read"]] {
        let granted = tools(entries);
        let argv = Runtime::Claude.call(&Ask { allowed_tools: &granted, is_planned: true, ..ask() }).argv;
        let is_flag = |word: &&String| word.contains("--dangerously") || word.contains("--mcp");
        assert_eq!(argv.iter().find(is_flag), None);
    }
    let none = Runtime::Claude.call(&Ask { is_planned: true, ..ask() }).argv;
    assert!(none.windows(2).any(|pair| pair == ["--tools", ""]), "{none:?}");
    assert!(!none.contains(&"--allowedTools".to_owned()), "{none:?}");
}

#[test]
fn codex_is_called() {
    let codex = &Runtime::Codex;
    let call =
        check(codex, &ask(), "codex|exec|--json|--skip-git-repo-check|--sandbox|workspace-write|do it");
    assert_eq!((call.stdin, call.format, call.session), (None, Format::Codex, None));
    check(
        codex,
        &Ask { model: Some("m"), session: Session::Resume("t1"), permission: PermissionMode::Plan, ..ask() },
        "codex|exec|--json|--skip-git-repo-check|--model|m|--sandbox|read-only|-c|\
         sandbox_mode=\"read-only\"|resume|t1|do it",
    );
    let bypass = Ask { permission: PermissionMode::BypassPermissions, ..ask() };
    check(
        codex,
        &bypass,
        "codex|exec|--json|--skip-git-repo-check|--dangerously-bypass-approvals-and-sandbox|do it",
    );
    check(
        codex,
        &Ask { session: Session::Resume("t1"), ..bypass },
        "codex|exec|--json|--skip-git-repo-check|--dangerously-bypass-approvals-and-sandbox|resume|t1|do it",
    );
    for (granted, mode, sandbox) in [
        (&["Read", "Grep"][..], PermissionMode::DontAsk, "read-only"),
        (&[], PermissionMode::AcceptEdits, "read-only"),
        (&["Read", "Edit"], PermissionMode::DontAsk, "workspace-write"),
        (&["Bash(git *)"], PermissionMode::BypassPermissions, "workspace-write"),
        (&["Edit"], PermissionMode::Plan, "read-only"),
    ] {
        let granted = tools(granted);
        let planned = Ask { allowed_tools: &granted, permission: mode, is_planned: true, ..ask() };
        check(codex, &planned, &format!("codex|exec|--json|--skip-git-repo-check|--sandbox|{sandbox}|do it"));
    }
}

#[test]
fn a_prompt_that_can_t_be_an_argument_goes_by_stdin() {
    let spec = own(&["x", "{prompt}", "-m={prompt}"], PromptWay::Arg, ResultWay::Stdout);
    let (longest, too_long) = ("x".repeat(PROMPT_ARG_MAX), "x".repeat(PROMPT_ARG_MAX + 1));
    for (prompt, is_argument) in
        [("a", true), (&longest, true), (&too_long, false), ("- a list", false), ("a\0b", false), ("", true)]
    {
        let ask = Ask { prompt, ..ask() };
        let expected_stdin = (!is_argument).then(|| Path::new("/r/prompt"));
        for (runtime, at, instead) in
            [(&Runtime::Claude, 2, "--output-format"), (&Runtime::Codex, 6, "-"), (&spec, 1, "-m=")]
        {
            let call = runtime.call(&ask);
            assert_eq!(call.stdin.as_deref(), expected_stdin, "{}", prompt.len());
            assert_eq!(call.argv[at], if is_argument { prompt } else { instead });
            assert!(call.argv.iter().all(|word| word.len() <= PROMPT_ARG_MAX + 3 && !word.contains('\0')));
        }
    }
}

fn own(command: &[&str], prompt: PromptWay, result: ResultWay) -> Runtime {
    Runtime::Own(RuntimeSpec { command: tools(command), prompt, result, resume: tools(&["-r", "{session}"]) })
}

#[test]
fn a_runtime_of_the_graph_s_own_is_called() {
    let stdout = ResultWay::Stdout;
    let call = check(&own(&["x", "-q"], PromptWay::Stdin, stdout.clone()), &ask(), "x|-q");
    assert_eq!((call.stdin.as_deref(), &call.format), (Some(Path::new("/r/prompt")), &Format::Plain));
    assert_eq!((call.session, call.environment.len()), (None, 1));
    assert_eq!(call.environment[0], ("OMG_PROMPT_FILE".to_owned(), "/r/prompt".to_owned()));

    let all = own(
        &[
            "x",
            "--id={session}",
            "{model}",
            "{prompt_file}>{result_file}",
            "{prompt}",
            "{other}",
            "{",
            "{{model}}",
        ],
        PromptWay::Arg,
        ResultWay::File,
    );
    // What is put in is not looked at again.
    let braces = Ask { prompt: "{model}", model: Some("m"), ..ask() };
    let call =
        check(&all, &braces, &format!("x|--id={ID}|m|/r/prompt>/r/result|{{model}}|{{other}}|{{|{{m}}"));
    assert_eq!((call.stdin, call.format, call.session.as_deref()), (None, Format::File, Some(ID)));
    assert_eq!(call.environment[1], ("OMG_RESULT_FILE".to_owned(), "/r/result".to_owned()));

    let resumed = Ask { session: Session::Resume("s1"), ..ask() };
    let call = check(&own(&["x", "{session}"], PromptWay::Arg, stdout.clone()), &resumed, "x|s1|-r|s1|do it");
    assert_eq!(call.session, None);
    check(&own(&["x", "-p={prompt}"], PromptWay::Arg, stdout.clone()), &resumed, "x|-p=do it|-r|s1");
    check(&own(&["x", "{model}"], PromptWay::Stdin, stdout.clone()), &ask(), "x|");

    let call = check(&own(&["x"], PromptWay::File, ResultWay::Json("/a".into())), &ask(), "x|/r/prompt");
    assert_eq!((call.stdin, call.format), (None, Format::Pointer("/a".into())));
    check(&own(&["x", "@{prompt_file}"], PromptWay::File, stdout), &ask(), "x|@/r/prompt");
}

#[test]
fn runtimes_have_names() {
    let spec = |command: &[&str]| RuntimeSpec {
        command: tools(command),
        prompt: PromptWay::Stdin,
        result: ResultWay::Stdout,
        resume: Vec::new(),
    };
    let mut specs = IndexMap::new();
    let program = |name: &str, specs: &IndexMap<String, RuntimeSpec>| {
        Runtime::named(name, specs).map(|runtime| runtime.program().to_owned())
    };
    assert_eq!(Runtime::named("claude", &specs), Some(Runtime::Claude));
    assert_eq!(Runtime::named("codex", &specs), Some(Runtime::Codex));
    assert_eq!(Runtime::named("mine", &specs), None);
    specs.insert("mine".to_owned(), spec(&["/opt/x", "y"]));
    specs.insert("claude".to_owned(), spec(&[]));
    assert_eq!(program("mine", &specs).as_deref(), Some("/opt/x"));
    assert_eq!(program("claude", &specs).as_deref(), Some(""));
    assert_eq!(program("codex", &specs).as_deref(), Some("codex"));
}
