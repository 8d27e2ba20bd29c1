//! Completion in real shells, and man pages on the disk.

use std::fs;

use crate::support::World;

const GRAPH: &str = "\
name: demo
nodes:
- {id: build, run: 'true', worktree: app}
- {id: bundle, run: 'true', worktree: web, depends_on: [build]}
";

/// A world where `omg` is on the PATH, with a run and files to choose from.
fn world() -> World {
    let world = World::new();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_omg"), world.path().join("bin/omg")).unwrap();
    let graph = world.graph(GRAPH);
    for id in ["first", "second"] {
        world.omg(&["run", &graph, "--run-id", id]).expect(0);
    }
    world.write("ci.yaml", GRAPH);
    world.write("my ci.yml", GRAPH);
    world.write("notes.txt", "");
    world.write("graphs/x.yaml", GRAPH);
    world
}

fn is_installed(shell: &str) -> bool {
    std::process::Command::new(shell)
        .arg("-c")
        .arg("exit 0")
        .output()
        .is_ok_and(|ended| ended.status.success())
}

/// Returns what bash offers at the end of a line that is cut into these words.
#[track_caller]
fn bash(world: &World, words: &[&str]) -> Vec<String> {
    let script = "source <(omg completions bash) && [[ $(complete -p omg) == 'complete -F _omg omg' ]] || exit 9\n\
        COMP_WORDS=(omg \"$@\"); COMP_CWORD=$#; _omg omg \"${@: -1}\"\n\
        for one in \"${COMPREPLY[@]}\"; do printf '%s\\n' \"$one\"; done";
    let output = world.command("bash").args(["--norc", "-c", script, "bash"]).args(words).output().unwrap();
    let ended = crate::support::Ended::from(output).expect(0);
    assert_eq!(ended.stderr, "");
    ended.stdout.lines().map(str::to_string).collect()
}

#[test]
fn bash_completes_what_the_words_before_ask_for() {
    let world = world();
    assert!(
        ["run", "graph", "show", "completions"]
            .iter()
            .all(|name| bash(&world, &[""]).contains(&name.to_string()))
    );
    assert_eq!(bash(&world, &["res"]), ["resume"]);
    assert_eq!(bash(&world, &["graph", "--format", "d"]), ["dot"]);
    assert_eq!(bash(&world, &["run", "--dry"]), ["--dry-run"]);
    assert_eq!(bash(&world, &["show", ""]), ["second", "first", "latest"]);
    assert_eq!(bash(&world, &["show", "f"]), ["first"]);
    assert_eq!(bash(&world, &["logs", "first", "bu"]), ["build", "bundle"]);
    assert_eq!(bash(&world, &["logs", "latest", "bun"]), ["bundle"]);
    assert_eq!(bash(&world, &["logs", "nowhere", ""]), Vec::<String>::new());
    assert_eq!(bash(&world, &["lanes", "discard", "fi"]), ["first"]);
    assert_eq!(bash(&world, &["lanes", "discard", "first", ""]), ["app", "web"]);
    // bash cuts words at `=`, and puts what it is given in the place of the last piece.
    assert_eq!(bash(&world, &["graph", "--run", "=", "se"]), ["second"]);
    assert_eq!(bash(&world, &["graph", "--run", "="]), ["second", "first", "latest"]);
    assert_eq!(bash(&world, &["graph", "--run=se"]), ["--run=second"]);
    for words in [["run", ""], ["lint", ""], ["graph", ""]] {
        let mut files = bash(&world, &words);
        files.sort();
        assert_eq!(files, [".git", "ci.yaml", "graphs", "my ci.yml"], "{words:?}");
    }
    assert_eq!(bash(&world, &["run", "graphs/"]), ["graphs/x.yaml"]);
    assert_eq!(bash(&world, &["run", "--worktree-root", "gr"]), ["graphs"]);
    assert_eq!(bash(&world, &["runs", ""]), Vec::<String>::new());
    assert_eq!(bash(&world, &["run", "ci.yaml", "--run-id", ""]), Vec::<String>::new());
}

#[test]
fn fish_completes_with_what_each_word_is_for() {
    if !is_installed("fish") {
        return;
    }
    let world = world();
    let fish = |line: &str| {
        let script = format!("omg completions fish | source; complete -C '{line}'");
        let output = world.command("fish").args(["--no-config", "-c", &script]).output().unwrap();
        crate::support::Ended::from(output).expect(0).stdout
    };
    assert_eq!(fish("omg show "), "first\nlatest\nsecond\n");
    assert_eq!(fish("omg logs first bun"), "bundle\n");
    assert_eq!(fish("omg graph --run=se"), "--run=second\n");
    assert!(fish("omg sch").starts_with("schema\tPrint a JSON Schema"), "{}", fish("omg sch"));
    assert!(fish("omg run c").contains("ci.yaml"));
}

#[test]
fn zsh_reads_its_script_and_hears_the_same_words() {
    if !is_installed("zsh") {
        return;
    }
    let world = world();
    // The functions of zsh's line editor are replaced by ones that tell what they are given.
    let script = "compdef() { print -r -- \"compdef $*\" }; _files() { print -r -- \"files $*\" }\n\
        _describe() { print -rl -- \"${(@P)4}\" }; source <(omg completions zsh)\n\
        words=(omg \"$@\"); CURRENT=$#words; _omg || print nothing";
    let zsh = |line: &[&str]| {
        let output = world.command("zsh").args(["-f", "-c", script, "zsh"]).args(line).output().unwrap();
        let ended = crate::support::Ended::from(output).expect(0);
        assert_eq!(ended.stderr, "");
        ended.stdout
    };
    assert_eq!(zsh(&["show", ""]), "compdef _omg omg\nsecond:\nfirst:\nlatest:\n");
    assert_eq!(zsh(&["logs", "first", "bun"]), "compdef _omg omg\nbundle:\n");
    assert!(zsh(&["sch"]).contains("\nschema:Print a JSON Schema"), "{}", zsh(&["sch"]));
    assert_eq!(zsh(&["runs", ""]), "compdef _omg omg\nnothing\n");
    assert_eq!(zsh(&["run", ""]), "compdef _omg omg\nfiles -g *.(yaml|yml)\n");
}

#[test]
fn every_command_has_a_man_page() {
    let world = World::bare();
    let page = world.omg(&["man"]).expect(0).stdout;
    assert!(page.contains(".TH omg 1") && page.contains(".SH SYNOPSIS"), "{page}");
    let told = world.omg(&["man", "share/man1"]).expect(0).stdout;
    let folder = world.repo().join("share/man1");
    let count = fs::read_dir(&folder).unwrap().count();
    assert_eq!(told, format!("wrote {count} pages into share/man1\n"));
    // The help names each command once, in lines that begin with it.
    let help = world.omg(&["help"]).expect(0).stdout;
    let commands = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let names: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() > 10, "{help}");
    for name in names {
        let text = fs::read_to_string(folder.join(format!("omg-{name}.1")))
            .unwrap_or_else(|_| panic!("no page for {name}"));
        assert!(text.contains(&format!("omg\\-{name}")), "{text}");
    }
    fs::write(world.repo().join("file"), "").unwrap();
    world.omg(&["man", "file"]).expect(3);
}

#[test]
fn a_completion_says_nothing_where_something_is_wrong() {
    let mut world = World::bare();
    world.extra.push(("OMG_CONCURRENCY".into(), "none".into()));
    let ended = world.omg(&["__complete", "bash", "--", "show", ""]).expect(0);
    assert_eq!(ended.text(), "");
}
