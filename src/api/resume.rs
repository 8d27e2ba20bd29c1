//! `omg resume`: the next leg of a run.
#![expect(clippy::disallowed_methods, reason = "looks whether the graph file has changed")]

use std::rc::Rc;

use super::Refusal;
use super::amend::{AmendRequest, Amendment, amend};
use super::find::Found;
use super::leg::{Claimed, Ended, LegOptions, Link, exit_code, mask, now, run_leg};
use super::outlook::{Amended, outlook};
use super::ready::{Space, find_again, journal_is_there, lanes_in_reach, readiness};
use crate::graph::{Graph, Problem};
use crate::ids::{Leg, NodeIx, sha256};
use crate::journal::replay::replay;
use crate::journal::store::{self, Journal};
use crate::journal::{Record, RunDir, RunFile};
use crate::run::{Observer, RunError, amended, leg, settle};
use crate::schedule::Fact;
use crate::schedule::agents::has_money;
use crate::schedule::fact::{EndState, RunStatus, StopReason};
use crate::schedule::state::{Names, NodePhase, RunState};
use crate::settings::Settings;
use crate::view;
use crate::worktree::{GitWorktrees, Repository};

/// What a user asks `omg resume` for.
#[derive(Clone, Debug, Default)]
pub struct ResumeRequest {
    /// What holds for the leg.
    pub options: LegOptions,
    /// The graph with which the run goes on, where that is another.
    pub amend: Option<AmendRequest>,
    /// Only say what would be done: claim, end, make and write nothing.
    pub dry_run: bool,
}

/// What the next leg of a run would be.
pub enum Prepared {
    /// One may begin.
    Leg(Box<Ready>),
    /// It was only asked what it would be; as lines for a person.
    Outlook(Vec<String>),
    /// There is nothing to run; the run's own code, and what would open something again.
    NothingToDo {
        /// The code to end with.
        exit: i32,
        /// What to say.
        message: String,
    },
}

/// A leg that may begin: the run is claimed.
pub struct Ready {
    /// What the run will be.
    pub file: RunFile,
    /// Its folder.
    pub dir: RunDir,
    /// What was written so far.
    pub records: Vec<Record>,
    /// What the leg will do, as lines for a person.
    pub outlook: Vec<String>,
    claim: leg::Claim,
    amendment: Option<(u32, Vec<Fact>)>,
    repository: Option<Repository>,
    space: Space,
}

/// What a prepared leg came to.
#[derive(Debug)]
pub enum Resumed {
    /// It was run.
    Leg(Ended),
    /// A supervisor that outlives this process goes on with it; its first runner's process.
    Detached(u32),
}

/// What a person should know before a leg begins.
#[derive(Clone, Copy, Debug)]
pub enum Say<'a> {
    /// A line.
    Note(&'a str),
    /// What is odd about an amended graph but allowed.
    Warnings(&'a [Problem]),
}

/// Claims a run and returns what its next leg will be; `say` tells a person what there is to know first.
///
/// What a dead leg left running is ended before anything else. Errors: a living process holds the run, with code
/// 5; the amendment is refused, with code 2; what keeps its lanes from being made, with code 3.
pub fn prepare(
    settings: &Settings,
    found: Found,
    request: &ResumeRequest,
    say: &mut dyn FnMut(Say<'_>),
) -> Result<Prepared, Refusal> {
    let Found { file, dir } = found;
    if request.dry_run || request.amend.is_some() {
        refuse_held(&dir, &file)?;
        // What is refused is refused before anything is claimed or ended.
        look(settings, file.clone(), &dir, request)?;
    }
    let claim = if request.dry_run { None } else { Some(claim(&dir, &file, say)?) };
    // Read again under the claim: the last leg may have written until it was gone.
    let Seen { file, records, state, amendment } = look(settings, file, &dir, request)?;
    let options = &request.options;
    super::gates::check(&file.graph, &state, &options.gates, options.retry_failed)?;
    if !amendment.as_ref().is_some_and(Amendment::matters) && !has_work(&file.graph, &state, options) {
        if amendment.is_some() {
            say(Say::Note("no node changed, so the run keeps the graph that it has"));
        }
        return Ok(nothing_to_do(&file, &state, request));
    }
    say_of_graph(&file, request, amendment.as_ref(), say);
    let plan = Plan::of(settings, &dir, file, state, options, amendment);
    let Some(claim) = claim else { return Ok(Prepared::Outlook(plan.lines)) };
    let Plan { file, state, amendment, lines } = plan;
    let mut note = |line: &str| say(Say::Note(line));
    let (repository, space) = ready_lanes(settings, &file, &dir, &state, options, &mut note)?;
    Ok(Prepared::Leg(Box::new(Ready {
        file,
        dir,
        records,
        outlook: lines,
        claim,
        amendment,
        repository,
        space,
    })))
}

/// Errors: what is wrong with a request, whatever becomes of the run until it is carried out; exit code 2.
pub fn check(settings: &Settings, found: &Found, request: &ResumeRequest) -> Result<(), Refusal> {
    let options = &request.options;
    let seen = look(settings, found.file.clone(), &found.dir, request)?;
    super::gates::check(&seen.file.graph, &seen.state, &options.gates, options.retry_failed)
}

/// A run as it stands, and what is to become of its graph.
struct Seen {
    file: RunFile,
    records: Vec<Record>,
    state: RunState,
    amendment: Option<Amendment>,
}

fn look(settings: &Settings, file: RunFile, dir: &RunDir, request: &ResumeRequest) -> Result<Seen, Refusal> {
    let records = store::read(&dir.events()).map_err(RunError::from)?;
    journal_is_there(dir, &records)?;
    let file = if amended::newest(&records) > 0 { amended::at(dir, &records)? } else { file };
    let state = replay(&file.graph, &Names::of(&file.graph), &records)
        .map_err(|(seq, error)| RunError::Unfit { seq, reason: error.to_string() })?;
    let amendment = match &request.amend {
        Some(asked) => amend(settings, &file, &records, &state, asked)?,
        None => None,
    };
    Ok(Seen { file, records, state, amendment })
}

/// Runs a prepared leg to its end, or hands it to a supervisor that outlives this process. An amendment is durable
/// before the event that commits it, and that before the leg.
pub fn go(
    settings: &Settings,
    ready: Ready,
    options: &LegOptions,
    is_detached: bool,
    observer: Rc<dyn Observer>,
) -> Result<Resumed, Refusal> {
    let Ready { file, dir, claim, amendment, repository, space, .. } = ready;
    if let Some((number, facts)) = amendment {
        amended::write(&dir, number, &file)?;
        commit(settings, &file, &dir, &claim, facts, &*observer)?;
    }
    if is_detached {
        let lock = claim.share().map_err(|source| RunError::Io { path: dir.lock(), source })?;
        let pid =
            super::detach::detach(settings, &dir, &file.run_id, lock, options, crate::run::keep::STARTED)?;
        return Ok(Resumed::Detached(pid));
    }
    let claimed = Claimed { file, dir, claim, repository, space, link: Link::Own };
    run_leg(settings, claimed, options, observer).map(Resumed::Leg)
}

/// Writes the facts of an amendment under the claim, in the name of the leg that is about to begin.
fn commit(
    settings: &Settings,
    file: &RunFile,
    dir: &RunDir,
    claim: &leg::Claim,
    facts: Vec<Fact>,
    observer: &dyn Observer,
) -> Result<(), RunError> {
    let next = |records: &[Record]| (Leg(leg::last_leg(records).0 + 1), claim.generation);
    let (mut journal, _) = Journal::open(&dir.events(), next, mask(settings, file), claim.fence(dir)?)?;
    for line in journal.append(facts, now())? {
        observer.recorded(&line.record, &line.text);
    }
    Ok(())
}

/// Refuses where a living process holds the run, and claims nothing.
fn refuse_held(dir: &RunDir, file: &RunFile) -> Result<(), RunError> {
    let run = file.run_id.clone();
    let held = |holder: leg::Holder| RunError::Held { run, pid: holder.pid, leg: holder.leg.0 };
    leg::holder(dir).map_or(Ok(()), |holder| Err(held(holder)))
}

fn claim(dir: &RunDir, file: &RunFile, say: &mut dyn FnMut(Say<'_>)) -> Result<leg::Claim, Refusal> {
    let before = store::read(&dir.events()).map_err(RunError::from)?;
    let claim = leg::claim(dir, &file.run_id, &before, leg::Purpose::Leg)?;
    for ended in leg::end_leftovers(dir, Some(&file.graph))? {
        say(Say::Note(&format!("ended what an earlier leg left running: {ended}")));
    }
    Ok(claim)
}

/// Says what there is to know of the run's graph and the graph's file.
fn say_of_graph(
    file: &RunFile,
    request: &ResumeRequest,
    amendment: Option<&Amendment>,
    say: &mut dyn FnMut(Say<'_>),
) {
    let path = file.graph_path.display();
    match (&request.amend, amendment) {
        (_, Some(amendment)) => {
            say(Say::Warnings(&amendment.warnings));
            amendment.notes.iter().for_each(|note| say(Say::Note(note)));
        }
        (Some(_), None) => say(Say::Note("the run has that very graph already")),
        (None, None) => {
            if std::fs::read(&file.graph_path).is_ok_and(|bytes| sha256(&bytes) != file.graph_sha256) {
                say(Say::Note(&format!(
                    "{path} has changed since the run began; the run goes on with the graph it has, \
                     `--graph {path}` with the one in the file"
                )));
            }
        }
    }
}

/// What a leg will be.
struct Plan {
    file: RunFile,
    state: RunState,
    amendment: Option<(u32, Vec<Fact>)>,
    lines: Vec<String>,
}

impl Plan {
    fn of(
        settings: &Settings,
        dir: &RunDir,
        file: RunFile,
        state: RunState,
        options: &LegOptions,
        amendment: Option<Amendment>,
    ) -> Plan {
        let of_before = mask(settings, &file);
        let mut lines = Vec::new();
        let plan = match amendment {
            None => {
                let ended = ended(&file, &state, dir);
                lines.extend(outlook(&file.graph, &state, options, &ended, None).lines());
                Plan { file, state, amendment: None, lines }
            }
            Some(amendment) => {
                let Amendment { file, number, difference, named, reopened, facts, state, .. } = amendment;
                lines.extend(view::outlook::difference(&difference));
                let ended = ended(&file, &state, dir);
                let amended = Amended { difference: &difference, reopened: &reopened, named: &named };
                lines.extend(outlook(&file.graph, &state, options, &ended, Some(amended)).lines());
                Plan { file, state, amendment: Some((number, facts)), lines }
            }
        };
        let of_now = mask(settings, &plan.file);
        let lines = plan.lines.iter().map(|line| of_now.text(&of_before.text(line))).collect();
        Plan { lines, ..plan }
    }
}

/// Returns the nodes in flight that ended by themselves while nobody looked, so that what they came to counts.
fn ended(file: &RunFile, state: &RunState, dir: &RunDir) -> Vec<NodeIx> {
    let graph = &file.graph;
    let exits = settle::exits_of_their_own(graph, dir, state);
    // Without its `verify` nobody can say yet what it came to.
    exits.into_iter().filter(|ix| graph.node(*ix).check.verify.is_none()).collect()
}

/// Returns the run's repository and the room that its lanes have, for a leg with these options; `note` tells a person
/// what is odd about them but allowed.
///
/// Errors: lanes are away, or can't be made.
pub(super) fn ready_lanes(
    settings: &Settings,
    file: &RunFile,
    dir: &RunDir,
    state: &RunState,
    options: &LegOptions,
    note: &mut dyn FnMut(&str),
) -> Result<(Option<Repository>, Space), Refusal> {
    lanes_in_reach(file, dir, state)?;
    let Some(of_run) = &file.repository else { return Ok((None, Space::default())) };
    let worktrees = GitWorktrees::new(&settings.environment);
    let found = find_again(&worktrees, of_run)?;
    let mut opened = state.clone();
    open(&file.graph, &mut opened, options);
    let ready = readiness(&worktrees, &found, file, &opened)?;
    ready.notes.iter().for_each(|line| note(line));
    let space = ready.enough()?;
    Ok((Some(found), space))
}

fn stop_of(state: &RunState) -> Option<StopReason> {
    match state.finished {
        Some(RunStatus::Interrupted | RunStatus::Cancelled) => state.stop,
        _ => None,
    }
}

/// Returns whether a leg with these options would find anything to do: a node to run, or the end of a
/// leg that was killed before it had cleaned up.
fn has_work(graph: &Graph, state: &RunState, options: &LegOptions) -> bool {
    state.finished.is_none()
        // What a person says is written down, also of a gate whose turn has not come.
        || !options.gates.is_empty()
        || graph.node_ixs().map(|ix| (ix, state.node(ix))).any(|(ix, node)| match &node.phase {
            NodePhase::Waiting | NodePhase::InFlight(_) => true,
            NodePhase::Over(EndState::Cancelled | EndState::Interrupted) => true,
            NodePhase::Over(EndState::Paused) => {
                !graph.is_gate(ix) || super::gates::is_decided(graph, state, ix, &options.gates)
            }
            NodePhase::Over(EndState::Failed) => options.retry_failed,
            NodePhase::Over(EndState::Blocked) => {
                options.retry_blocked || node.wants_room() || node.wants_money() && has_money(graph, state.cost.known)
            }
            // Behind something that is blocked, so it waits on unless that is opened again.
            NodePhase::Over(EndState::Waiting | EndState::Skipped | EndState::Passed) => false,
        })
}

/// Opens what the leg will open, so that readiness is judged for what will run.
fn open(graph: &Graph, state: &mut RunState, options: &LegOptions) {
    let has_money = has_money(graph, state.cost.known);
    for node in &mut state.nodes {
        let opened = match &node.phase {
            NodePhase::Waiting | NodePhase::InFlight(_) => true,
            NodePhase::Over(end) => match end {
                EndState::Passed => false,
                EndState::Failed => options.retry_failed,
                EndState::Blocked => {
                    options.retry_blocked || node.wants_room() || node.wants_money() && has_money
                }
                EndState::Skipped => options.retry_failed || options.retry_blocked,
                EndState::Paused | EndState::Waiting | EndState::Cancelled | EndState::Interrupted => true,
            },
        };
        if opened {
            node.phase = NodePhase::Waiting;
        }
    }
}

fn nothing_to_do(file: &RunFile, state: &RunState, request: &ResumeRequest) -> Prepared {
    let message = what_would_open(&file.run_id, &file.graph, state);
    if request.dry_run {
        let mut lines = outlook(&file.graph, state, &request.options, &[], None).lines();
        lines.push(message);
        return Prepared::Outlook(lines);
    }
    let status = state.finished.unwrap_or_else(|| state.status());
    Prepared::NothingToDo { exit: exit_code(status, stop_of(state)), message }
}

fn what_would_open(run: &crate::ids::RunId, graph: &Graph, state: &RunState) -> String {
    let count = |end| state.nodes.iter().filter(|node| node.phase == NodePhase::Over(end)).count();
    let (failed, blocked) = (count(EndState::Failed), count(EndState::Blocked));
    let mut message = format!("nothing to do in run {run}");
    let paused = graph.node_ixs().filter(|ix| state.end_of(*ix) == Some(EndState::Paused));
    for gate in paused.map(|ix| &graph.node(ix).id) {
        message.push_str(&format!(
            "; gate `{gate}` waits for a person: `omg resume {run} --approve {gate}`, or `--reject {gate}`"
        ));
    }
    if failed > 0 {
        message.push_str(&format!("; {failed} failed: `omg resume {run} --retry-failed` opens them again"));
    }
    if blocked > 0 {
        message
            .push_str(&format!("; {blocked} blocked: `omg resume {run} --retry-blocked` opens them again"));
    }
    message
}
