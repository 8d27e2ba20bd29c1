//! What could stand at the cursor of a command line, by the grammar of `args`. Pure: looking things up is the
//! caller's.

use clap::{Arg, Command};

/// What could stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What comes before the value in the word at the cursor: `--run=`, or nothing.
    pub lead: String,
    /// What has been typed of the value.
    pub typed: String,
    /// What the value is.
    pub what: What,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// One of these words, each with what it is for.
    Words(Vec<(String, String)>),
    /// A run.
    Run,
    /// A run, or a node of the latest one.
    RunOrNode,
    /// A node of a run, where one is named, else of a graph file.
    Node(Source),
    /// A lane, likewise.
    Lane(Source),
    /// A graph file.
    GraphFile,
    /// A folder.
    Folder,
    /// Nothing that could be known.
    Unknown,
}

/// Where nodes and lanes are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The run that the words before name.
    pub run: Option<String>,
    /// The graph file that they name.
    pub graph: Option<String>,
}

/// Returns the words that a shell gave, with those that it cut at `=` joined, and whether the last was.
///
/// bash hands `--run=x` over as three words; the candidates then stand for the last of them alone.
pub fn joined(words: &[String]) -> (Vec<String>, bool) {
    let mut out: Vec<String> = Vec::new();
    let mut was_joined = false;
    for word in words {
        let open = out.last().is_some_and(|last| last.starts_with("--") && last.ends_with('=')) && was_joined;
        let begins =
            word == "=" && out.last().is_some_and(|last| last.starts_with("--") && !last.contains('='));
        was_joined = begins || open;
        match out.last_mut() {
            Some(last) if was_joined => last.push_str(word),
            _ => out.push(word.clone()),
        }
    }
    (out, was_joined)
}

/// Returns what could stand in the place of the last of `words`, which follow the name of the program.
pub fn wanted(root: &Command, words: &[String]) -> Wanted {
    let (current, before) = match words.split_last() {
        Some((current, before)) => (current.as_str(), before),
        None => ("", &[] as &[String]),
    };
    let mut seen = Seen::new(root);
    before.iter().for_each(|word| seen.take(word));
    let value = |typed: &str, what: What| Wanted { lead: String::new(), typed: typed.to_string(), what };
    if let Some(arg) = seen.pending {
        return value(current, seen.what(arg));
    }
    if seen.only_positionals {
        return value(current, seen.next_positional());
    }
    if let Some((flag, typed)) = current.strip_prefix("--").and_then(|rest| rest.split_once('=')) {
        let what = seen.long(flag).map_or(What::Unknown, |arg| seen.what(arg));
        return Wanted { lead: format!("--{flag}="), typed: typed.to_string(), what };
    }
    if current.starts_with('-') {
        return value(current, What::Words(seen.flags()));
    }
    let mut what = seen.next_positional();
    if seen.positionals == 0 && seen.command.has_subcommands() {
        let commands = seen.command.get_subcommands().filter(|command| !command.is_hide_set());
        let names = commands.map(|command| (command.get_name().to_string(), about(command.get_about())));
        // Where a value may stand too, names come first only if one of them is begun.
        let names: Vec<(String, String)> = names.filter(|(name, _)| name.starts_with(current)).collect();
        if what == What::Unknown || !current.is_empty() && !names.is_empty() {
            what = What::Words(names);
        }
    }
    value(current, what)
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_string()
}

/// What the words before the cursor have said.
struct Seen<'c> {
    command: &'c Command,
    positionals: usize,
    only_positionals: bool,
    pending: Option<&'c Arg>,
    given: Vec<(String, String)>,
    flags_given: Vec<String>,
}

impl<'c> Seen<'c> {
    fn new(command: &'c Command) -> Seen<'c> {
        Seen {
            command,
            positionals: 0,
            only_positionals: false,
            pending: None,
            given: Vec::new(),
            flags_given: Vec::new(),
        }
    }

    fn take(&mut self, word: &str) {
        if let Some(arg) = self.pending.take() {
            self.note(arg, word);
        } else if self.only_positionals {
            self.take_positional(word);
        } else if word == "--" {
            self.only_positionals = true;
        } else if let Some(flag) = word.strip_prefix("--") {
            let (name, value) =
                flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            self.flags_given.push(name.to_string());
            match (self.long(name).filter(|arg| takes_value(arg)), value) {
                (Some(arg), Some(value)) => self.note(arg, value),
                (arg, None) => self.pending = arg,
                (None, Some(_)) => {}
            }
        } else if let Some(flag) = word.strip_prefix('-').and_then(|rest| rest.chars().next()) {
            let is_alone = word.len() == 1 + flag.len_utf8();
            let arg = self.command.get_arguments().find(|arg| arg.get_short() == Some(flag));
            self.pending = arg.filter(|arg| is_alone && takes_value(arg));
        } else if let Some(command) = self.subcommand(word) {
            self.command = command;
        } else {
            self.take_positional(word);
        }
    }

    fn subcommand(&self, word: &str) -> Option<&'c Command> {
        if self.positionals > 0 { None } else { self.command.find_subcommand(word) }
    }

    fn take_positional(&mut self, word: &str) {
        if let Some(arg) = self.positional() {
            self.note(arg, word);
        }
        self.positionals += 1;
    }

    fn positional(&self) -> Option<&'c Arg> {
        let mut all = self.command.get_positionals();
        let last = self.command.get_positionals().last();
        let is_many = |arg: &&Arg| matches!(arg.get_action(), clap::ArgAction::Append);
        all.nth(self.positionals).or_else(|| last.filter(is_many))
    }

    fn next_positional(&self) -> What {
        self.positional().map_or(What::Unknown, |arg| self.what(arg))
    }

    fn long(&self, name: &str) -> Option<&'c Arg> {
        self.command.get_arguments().find(|arg| arg.get_long() == Some(name))
    }

    fn note(&mut self, arg: &Arg, value: &str) {
        self.given.push((kind(arg), value.to_string()));
    }

    fn given(&self, kind: &str) -> Option<String> {
        let is_it = |of: &str| of.split('|').next() == Some(kind);
        self.given.iter().find(|(of, _)| is_it(of)).map(|(_, value)| value.clone())
    }

    fn flags(&self) -> Vec<(String, String)> {
        let is_open = |arg: &&Arg| {
            let name = arg.get_long().unwrap_or_default();
            let again = matches!(arg.get_action(), clap::ArgAction::Append | clap::ArgAction::Count);
            !arg.is_hide_set() && (again || !self.flags_given.iter().any(|given| given == name))
        };
        let flags = self.command.get_arguments().filter(is_open);
        flags.filter_map(|arg| Some((format!("--{}", arg.get_long()?), about(arg.get_help())))).collect()
    }

    /// Returns what the value of an argument is: by its closed set, else by its name.
    fn what(&self, arg: &Arg) -> What {
        let words: Vec<(String, String)> = arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| (value.get_name().to_string(), about(value.get_help())))
            .collect();
        if !words.is_empty() && takes_value(arg) {
            return What::Words(words);
        }
        let source = || Source { run: self.given("RUN"), graph: self.given("GRAPH") };
        match kind(arg).as_str() {
            "RUN" => What::Run,
            "RUN|NODE" => What::RunOrNode,
            "NODE" => What::Node(source()),
            "LANE" => What::Lane(source()),
            "GRAPH" | "FILE" => What::GraphFile,
            "FOLDER" => What::Folder,
            _ => What::Unknown,
        }
    }
}

/// Returns what a value is called in the help: `RUN`, `NODE`, `GRAPH`.
fn kind(arg: &Arg) -> String {
    let named = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let name = named.unwrap_or_else(|| arg.get_id().to_string()).to_uppercase();
    if name == "GRAPHS" { "GRAPH".into() } else { name }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// Returns the script that a shell reads once.
pub fn script(shell: super::args::Shell) -> &'static str {
    match shell {
        super::args::Shell::Bash => include_str!("completions/omg.bash"),
        super::args::Shell::Zsh => include_str!("completions/omg.zsh"),
        super::args::Shell::Fish => include_str!("completions/omg.fish"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Cli;
    use clap::CommandFactory;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_string).collect()
    }

    fn at(line: &str) -> Wanted {
        let mut root = Cli::command();
        root.build();
        wanted(&root, &words(line))
    }

    #[track_caller]
    fn names(line: &str) -> Vec<String> {
        match at(line).what {
            What::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_flags_and_closed_sets_are_known() {
        assert!(
            ["run", "show", "graph", "completions"].iter().all(|name| names("").contains(&name.to_string()))
        );
        assert!(!names("").iter().any(|name| name.starts_with("__")));
        assert_eq!(names("sch"), ["schema"]);
        assert!(names("run -").contains(&"--dry-run".to_string()));
        assert!(!names("run --dry-run -").contains(&"--dry-run".to_string()));
        assert!(names("run --input a=b --").contains(&"--input".to_string()));
        assert!(names("show --").contains(&"--color".to_string()));
        assert_eq!(names("graph --format "), ["text", "dot", "mermaid", "json"]);
        assert_eq!(names("--color "), ["auto", "always", "never"]);
        assert_eq!(names("completions "), ["bash", "zsh", "fish"]);
        let format = at("graph --format=d");
        assert_eq!((format.lead.as_str(), format.typed.as_str()), ("--format=", "d"));
    }

    #[test]
    fn values_are_told_by_what_they_are_called() {
        assert_eq!(at("show ").what, What::Run);
        assert_eq!(at("-v show --json l").what, What::Run);
        assert_eq!(at("graph --run ").what, What::Run);
        assert_eq!(at("lanes ").what, What::Run);
        assert_eq!(at("gc ").what, What::Run);
        assert_eq!(at("gc r1 ").what, What::Run);
        assert_eq!(names("lanes dis"), ["discard"]);
        let of_run = Source { run: Some("r1".into()), graph: None };
        assert_eq!(at("logs r1 ").what, What::Node(of_run.clone()));
        assert_eq!(at("explain ").what, What::RunOrNode);
        assert_eq!(at("explain r1 ").what, What::Node(of_run.clone()));
        assert_eq!(at("lanes discard r1 ").what, What::Lane(of_run));
        let of_graph = Source { run: None, graph: Some("g.yaml".into()) };
        assert_eq!(at("run g.yaml --only ").what, What::Node(of_graph.clone()));
        assert_eq!(at("run g.yaml --from a --until ").what, What::Node(of_graph));
        assert_eq!(at("run ").what, What::GraphFile);
        assert_eq!(at("run -j 4 ").what, What::GraphFile);
        assert_eq!(at("run -j4 ").what, What::GraphFile);
        assert_eq!(at("lint a.yaml b.yaml ").what, What::GraphFile);
        assert_eq!(at("run --worktree-root ").what, What::Folder);
        assert_eq!(at("run -- -").what, What::GraphFile);
        for nothing in ["run a.yaml ", "runs ", "run -j ", "run --no-such ", "nonsense ", "show a b "] {
            let what = at(nothing).what;
            assert!(matches!(what, What::Unknown | What::GraphFile), "{nothing}: {what:?}");
        }
    }

    #[test]
    fn what_bash_cuts_at_an_equals_sign_is_joined() {
        assert_eq!(joined(&words("graph --run = r1")), (words("graph --run=r1"), true));
        assert_eq!(joined(&words("graph --run =")), (words("graph --run="), true));
        assert_eq!(joined(&words("graph --run=r1")), (words("graph --run=r1"), false));
        assert_eq!(joined(&words("graph --run = r1 x")), (words("graph --run=r1 x"), false));
        assert_eq!(joined(&words("run --input a = b")), (words("run --input a = b"), false));
    }
}
