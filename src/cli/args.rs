//! The command line's grammar.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::graph::model::ProvisionWhen;
use crate::graph::select::Selection;
use crate::settings::OutputMode;

/// Runs a reviewed graph of commands; every node that edits gets a prepared git worktree.
#[derive(Debug, Parser)]
#[command(name = "omg", version, about, max_term_width = 100)]
pub struct Cli {
    /// Show what the program does, in more detail the more often it is given.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,

    /// Whether words get colours.
    #[arg(long, value_enum, default_value = "auto", global = true)]
    pub color: Color,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Whether words get colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// Where the output is a terminal; NO_COLOR and CLICOLOR_FORCE are heeded.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a graph.
    Run(Box<RunArgs>),
    /// Go on with a run: what was cancelled, interrupted or still waits.
    Resume(ResumeArgs),
    /// Check graph files; every problem at once.
    Lint(LintArgs),
    /// Show a graph, or how a run of it stands: as text, for Graphviz or mermaid, or as JSON.
    Graph(GraphArgs),
    /// Print a JSON Schema of the graph file, for editors.
    Schema,
    /// Print a script by which a shell completes commands, flags, runs, nodes, lanes and graph files.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the man page of omg, or write those of all commands.
    Man {
        /// The folder to write them into; made where it is not there.
        folder: Option<PathBuf>,
    },
    /// Ask an agent for a plan that reaches a goal, show it and, with a yes, run it as a planned graph.
    Auto(Box<AutoArgs>),
    /// Say what is wrong on this machine and in this repository: what lanes would be provisioned with, and
    /// what is missing for that. Exits with 1 where something is wrong.
    Doctor {
        /// The graph whose lanes are looked at; without one, a lane at HEAD as most graphs would make it.
        graph: Option<PathBuf>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// List all runs, newest first.
    Runs {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a run: its nodes, and the lanes it kept.
    Show {
        /// The run: an id, a unique prefix, or `latest`.
        run: Option<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Look on as a run goes on, until its leg is over; ends with the run's own code.
    Watch {
        /// The run: an id, a unique prefix, or `latest`.
        run: Option<String>,
        /// The journal's lines, from the first on.
        #[arg(long)]
        json: bool,
    },
    /// Look on at a living run as `omg run` would show it; a Ctrl-C leaves it running. Ends with the run's own
    /// code.
    Attach {
        /// The run: an id, a unique prefix, or `latest`.
        run: Option<String>,
    },
    /// Say why a node ran, waits, was skipped or is blocked, from the journal.
    Explain {
        /// A node of the latest run; or the run, where a node follows: an id, a unique prefix, or `latest`.
        #[arg(value_name = "RUN|NODE")]
        first: String,
        /// The node of that run.
        #[arg(value_name = "NODE")]
        second: Option<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the log of a node's last attempt.
    Logs {
        /// The run: an id, a unique prefix, or `latest`.
        run: String,
        /// The node.
        node: String,
        /// Go on until the node is over.
        #[arg(short, long)]
        follow: bool,
    },
    /// List the lanes of a run, or discard one.
    #[command(args_conflicts_with_subcommands = true)]
    Lanes {
        /// What to do with a lane; without it they are listed.
        #[command(subcommand)]
        action: Option<LaneAction>,
        /// The run: an id, a unique prefix, or `latest`.
        run: Option<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// End a living run, its cleanup included.
    Cancel {
        /// The run; may be left out where exactly one lives here.
        run: Option<String>,
    },
    /// Put in order what dead runs left: end their processes, give their lanes a verdict as at a leg's end.
    /// Runs that live are left alone. Folders of runs go only where --older-than or --keep asks for it.
    Gc(GcArgs),
    /// Write a graph to begin with.
    Init {
        /// The file to write.
        #[arg(default_value = "graph.yaml")]
        file: PathBuf,
    },
}

/// Flags of `omg gc`.
#[derive(Debug, Args)]
pub struct GcArgs {
    /// The runs to look at, each an id or a unique prefix; all where left out. Where folders are to go, that of
    /// a run that is named goes also if it holds work: what its lanes hold is rescued into refs first.
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// Say what would be done; make, claim and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Remove folders of runs without a sign of life for so long: `7d`, `2w`, `12h`.
    #[arg(long, value_name = "DURATION", value_parser = age)]
    pub older_than: Option<Duration>,
    /// Remove folders of runs but the newest so many of each repository.
    #[arg(long, value_name = "N")]
    pub keep: Option<u32>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// What to do with a lane.
#[derive(Debug, Subcommand)]
pub enum LaneAction {
    /// Remove a lane that a run kept; what is in it is rescued first.
    Discard {
        /// The run.
        run: String,
        /// The lane.
        lane: String,
    },
}

/// Flags of `omg run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The graph file.
    pub graph: PathBuf,
    /// An input of the graph, NAME=VALUE; may be given often.
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = input)]
    pub inputs: Vec<(String, String)>,
    /// The run's id; by default made from the time.
    #[arg(long, value_name = "ID")]
    pub run_id: Option<String>,
    /// The commit that lanes begin at.
    #[arg(long, value_name = "REVISION")]
    pub base: Option<String>,
    /// Which nodes are run.
    #[command(flatten)]
    pub select: SelectArgs,
    /// Treat the graph as untrusted: it may not touch worktrees or name commands.
    #[arg(long)]
    pub planned: bool,
    /// Say what would be run, and why; make and start nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// A variable that reaches nodes although it is scrubbed by default; may be given often.
    #[arg(long, value_name = "NAME")]
    pub pass_env: Vec<String>,
    /// Where lanes live, instead of in the run's folder.
    #[arg(long, value_name = "FOLDER")]
    pub worktree_root: Option<PathBuf>,
    /// Go on without this terminal: a supervisor of the run's own outlives this command, and starts the run's
    /// process again where that dies. Prints the run's id.
    #[arg(short, long, conflicts_with_all = ["dry_run", "output", "junit", "wait"])]
    pub detach: bool,
    /// What holds for this leg.
    #[command(flatten)]
    pub leg: LegArgs,
}

/// Flags of `omg auto`.
#[derive(Debug, Args)]
pub struct AutoArgs {
    /// What is to be done, in a sentence or many.
    pub goal: String,
    /// Run the plan without asking.
    #[arg(short, long, conflicts_with = "plan_only")]
    pub yes: bool,
    /// Make and show the plan; do not run it.
    #[arg(long)]
    pub plan_only: bool,
    /// What runs the planner and the plan's agents: `claude` or `codex`.
    #[arg(long, value_name = "RUNTIME")]
    pub runtime: Option<String>,
    /// The id of the plan's run; its planning is the run ID-plan. By default made from the time.
    #[arg(long, value_name = "ID")]
    pub run_id: Option<String>,
    /// A variable that reaches agents although it is scrubbed by default; may be given often.
    #[arg(long, value_name = "NAME")]
    pub pass_env: Vec<String>,
    /// What holds for the legs.
    #[command(flatten)]
    pub leg: LegArgs,
}

/// Flags that leave a part of a graph.
#[derive(Debug, Args)]
pub struct SelectArgs {
    /// Exactly this node, what it waits for being taken as given; may be given often.
    #[arg(long, value_name = "NODE", conflicts_with_all = ["from", "until"])]
    pub only: Vec<String>,
    /// This node and all that waits for it; may be given often. With --until: what lies between.
    #[arg(long, value_name = "NODE")]
    pub from: Vec<String>,
    /// This node and all that it waits for; may be given often.
    #[arg(long, value_name = "NODE")]
    pub until: Vec<String>,
}

impl From<SelectArgs> for Selection {
    fn from(SelectArgs { only, from, until }: SelectArgs) -> Selection {
        Selection { only, from, until }
    }
}

/// Flags of every leg.
#[derive(Debug, Args)]
pub struct LegArgs {
    /// Most processes at a time.
    #[arg(short = 'j', long, value_name = "N")]
    pub concurrency: Option<NonZeroU32>,
    /// After a failure, prune only what needed the failed node.
    #[arg(long)]
    pub keep_going: bool,
    /// When lanes are prepared.
    #[arg(long, value_enum, value_name = "WHEN")]
    pub provision_when: Option<When>,
    /// Pass this gate when its turn comes; may be given often.
    #[arg(long, value_name = "GATE")]
    pub approve: Vec<String>,
    /// Where a provider's limit pauses the run, sleep until it is over, then go on.
    #[arg(long)]
    pub wait: bool,
    /// What progress and results look like.
    #[arg(long, value_enum, value_name = "MODE")]
    pub output: Option<Output>,
    /// Write how each node ended to this file, as JUnit has it.
    #[arg(long, value_name = "PATH")]
    pub junit: Option<PathBuf>,
}

/// When lanes are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// All that are needed if all goes well, before the first node.
    RunStart,
    /// Each just before its first node.
    FirstUse,
}

impl From<When> for ProvisionWhen {
    fn from(when: When) -> ProvisionWhen {
        match when {
            When::RunStart => ProvisionWhen::RunStart,
            When::FirstUse => ProvisionWhen::FirstUse,
        }
    }
}

/// What progress and results look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// By what standard error is: a terminal, a pipe, the log of a CI system.
    Auto,
    /// A line an event.
    Plain,
    /// The journal's own lines, to standard output.
    Json,
    /// Lines with the folds and annotations of GitHub Actions.
    Github,
    /// Lines with the sections of GitLab CI.
    Gitlab,
}

impl From<Output> for OutputMode {
    fn from(output: Output) -> OutputMode {
        match output {
            Output::Auto => OutputMode::Auto,
            Output::Plain => OutputMode::Plain,
            Output::Json => OutputMode::Json,
            Output::Github => OutputMode::Github,
            Output::Gitlab => OutputMode::Gitlab,
        }
    }
}

/// Flags of `omg resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The run: an id, a unique prefix, or `latest`.
    pub run: Option<String>,
    /// Open what failed again, and what was skipped through it.
    #[arg(long)]
    pub retry_failed: bool,
    /// Open what is blocked again, and what waits behind it.
    #[arg(long)]
    pub retry_blocked: bool,
    /// Say no at this gate: it fails, and what needs it is skipped; may be given often.
    #[arg(long, value_name = "GATE")]
    pub reject: Vec<String>,
    /// What the gates that are approved or rejected here are told beside that; it is their result.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Go on with the graph in this file: nodes that have not passed may be other, new or gone.
    #[arg(long, value_name = "FILE")]
    pub graph: Option<PathBuf>,
    /// Let this node run again although it has passed; may be given often.
    #[arg(long, value_name = "NODE", requires = "graph")]
    pub reopen: Vec<String>,
    /// An input that only the new graph has, NAME=VALUE; may be given often.
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = input, requires = "graph")]
    pub inputs: Vec<(String, String)>,
    /// Say what would be kept and what would run, and why; make, end and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Go on without this terminal, as `omg run --detach` does.
    #[arg(short, long, conflicts_with_all = ["dry_run", "output", "junit", "wait"])]
    pub detach: bool,
    /// What holds for this leg.
    #[command(flatten)]
    pub leg: LegArgs,
}

/// Flags of `omg lint`.
#[derive(Debug, Args)]
pub struct LintArgs {
    /// Graph files.
    #[arg(required = true)]
    pub graphs: Vec<PathBuf>,
    /// Treat them as untrusted.
    #[arg(long)]
    pub planned: bool,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `omg graph`.
#[derive(Debug, Args)]
pub struct GraphArgs {
    /// The graph file.
    #[arg(required_unless_present = "run")]
    pub graph: Option<PathBuf>,
    /// Show the graph of this run with the states of its nodes: an id, a unique prefix, or `latest`.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["graph", "only", "from", "until"])]
    pub run: Option<String>,
    /// Which nodes are shown.
    #[command(flatten)]
    pub select: SelectArgs,
    /// What it is shown as.
    #[arg(long, value_enum, default_value = "text")]
    pub format: GraphFormat,
    /// As JSON: the same as `--format json`.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// A shell that completions are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

/// What a graph is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    /// Level by level, for people.
    Text,
    /// For Graphviz.
    Dot,
    /// A mermaid flowchart.
    Mermaid,
    /// For programs.
    Json,
}

fn age(text: &str) -> Result<Duration, String> {
    crate::api::gc::judge::age(text).ok_or_else(|| "a duration like `7d`, `2w` or `12h` is due".to_string())
}

fn input(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        Some(_) | None => Err("NAME=VALUE is due".to_string()),
    }
}
