//! What is seen of acts that a dead leg left open. `schedule::settling` says what follows from it.
#![expect(clippy::disallowed_methods, reason = "reads how jobs ended")]

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use super::perform::Stage;
use crate::graph::Graph;
use crate::ids::{IntentId, LaneIx, NodeIx};
use crate::journal::RunDir;
use crate::process::protocol::JobExit;
use crate::process::table;
use crate::provision::mark;
use crate::runtime::Told;
use crate::schedule::action::Called;
use crate::schedule::event::AcquiredLane;
use crate::schedule::settling::{LaneSeen, OpenAct, ProcessSeen, Seen};
use crate::schedule::state::{Flight, NodePhase, RunState};
use crate::worktree::Standing;

/// What is seen of one open act.
pub type SeenAct = (IntentId, OpenAct, Seen);

impl Stage {
    /// Looks at what each open act left, before anything else is done. Changes nothing, but that what an agent replied
    /// is its node's result from then on.
    pub async fn look_at_open(&self, state: &RunState) -> Vec<SeenAct> {
        let exits = if state.open.is_empty() { BTreeMap::new() } else { exits(&self.dir) };
        let mut seen = Vec::new();
        for (intent, act) in &state.open {
            let of_act = match *act {
                OpenAct::Acquire(lane) | OpenAct::Cleanup(lane) => self.see_lane(state, lane).await,
                OpenAct::Overlay(lane) => {
                    match super::overlay::copies(&self.dir, &self.graph().lane(lane).name) {
                        Ok(copies) if copies.is_empty() => Seen::Ledger(None),
                        Ok(copies) => Seen::Ledger(Some(copies.len())),
                        Err(error) => Seen::Unread(error.to_string()),
                    }
                }
                OpenAct::Provision(lane) => Seen::Installation {
                    marked: mark::find(&self.dir.lane(&self.graph().lane(lane).name)).is_some(),
                },
                OpenAct::Dispatch(node) => Seen::Process(self.see_process(state, node, &exits).await),
                OpenAct::Kill(node) => Seen::Survivors(self.survivors(state, node)),
                OpenAct::Restart => Seen::Runner,
            };
            seen.push((intent.clone(), *act, of_act));
        }
        seen
    }

    async fn see_lane(&self, state: &RunState, lane: LaneIx) -> Seen {
        let Some(mut request) = self.lane_request(lane, state.lane(lane)) else {
            return Seen::Unread("there is no repository".into());
        };
        let Some(repository) = self.repository.clone() else {
            return Seen::Unread("there is no repository".into());
        };
        request.history.acquire_open = true;
        let worktrees = Arc::clone(&self.seams.worktrees);
        let (branch, base) = (request.branch.clone(), request.base.clone());
        let standing = tokio::task::spawn_blocking(move || worktrees.standing(&repository, &request)).await;
        Seen::Lane(match standing {
            Ok(Standing::Nothing) => LaneSeen::Nothing,
            Ok(Standing::BranchOnly) => LaneSeen::BranchOnly,
            Ok(Standing::EntryOnly) => LaneSeen::EntryOnly,
            Ok(Standing::Half) => LaneSeen::Half,
            Ok(Standing::Aside) => LaneSeen::Aside,
            Ok(Standing::Whole(made)) => LaneSeen::Whole(Box::new(AcquiredLane {
                how: String::new(),
                path: made.path,
                branch,
                base,
                branch_made: made.branch_made,
                git_dir: made.git_dir,
                set_aside: None,
            })),
            Ok(Standing::Taken(words)) => LaneSeen::Taken(words),
            Err(error) => return Seen::Unread(error.to_string()),
        })
    }

    /// A job that lives under its supervisor counts before an exit on disk: it ended since, and says so itself.
    async fn see_process(
        &self,
        state: &RunState,
        node: NodeIx,
        exits: &BTreeMap<IntentId, JobExit>,
    ) -> ProcessSeen {
        let Some(job) = job_of(state, node) else { return ProcessSeen::Gone { left: None } };
        let inherited = self.seams.spawner.inherited();
        if let Some(living) = inherited.into_iter().find(|living| living.job == job.as_str()) {
            return ProcessSeen::Living {
                pid: living.pid,
                start_time: living.start_time,
                elapsed_ms: living.elapsed_ms,
            };
        }
        match exits.get(job) {
            Some(exit) => {
                let lane = self.graph().node(node).lane;
                let in_place = match lane {
                    None => true,
                    Some(lane) => {
                        matches!(self.see_lane(state, lane).await, Seen::Lane(LaneSeen::Whole(_)))
                    }
                };
                let (attempt, called) = flight_of(state, node)
                    .map_or((1, Called::default()), |flight| (flight.attempt, called(flight)));
                let exit = self.exit_of_attempt(node, attempt, &called, exit).await;
                ProcessSeen::Exited { exit: Box::new(exit), in_place }
            }
            None => ProcessSeen::Gone { left: self.left_by_agent(state, node).await.map(Box::new) },
        }
    }

    /// Returns what an agent had told of which no end is known; `None` where its process can't have begun, or there
    /// is no agent.
    async fn left_by_agent(&self, state: &RunState, node: NodeIx) -> Option<Told> {
        let flight = flight_of(state, node)?;
        self.graph().agent(node)?;
        let id = &self.graph().node(node).id;
        // The file is made right before the process is.
        if !flight.delivered && !self.dir.stdout(id, flight.attempt).is_file() {
            return None;
        }
        let exit = JobExit { job: flight.job.to_string(), ended_by_us: true, ..JobExit::default() };
        let exit = self.exit_of_attempt(node, flight.attempt, &called(flight), &exit).await;
        Some(exit.told.unwrap_or_default())
    }

    fn survivors(&self, state: &RunState, node: NodeIx) -> Vec<String> {
        let Some(job) = job_of(state, node) else { return Vec::new() };
        let is_of_job = |process: &table::Process| {
            table::variable(process.pid, "OMG_JOB").is_some_and(|name| name == job.as_str().as_bytes())
        };
        let rest = table::marked(self.dir.root()).into_iter().filter(is_of_job);
        rest.map(|process| format!("{} {}", process.pid, process.name)).collect()
    }
}

/// Returns the nodes in flight whose exit is on disk and was not asked for: by it they will be judged.
pub fn exits_of_their_own(graph: &Graph, dir: &RunDir, state: &RunState) -> Vec<NodeIx> {
    let flights: Vec<(NodeIx, &Flight)> = graph
        .node_ixs()
        .filter_map(|ix| match &state.node(ix).phase {
            NodePhase::InFlight(flight) => Some((ix, flight)),
            NodePhase::Waiting | NodePhase::Over(_) => None,
        })
        .collect();
    if flights.is_empty() {
        return Vec::new();
    }
    let exits = exits(dir);
    let is_its_own = |flight: &Flight| exits.get(&flight.job).is_some_and(|exit| !exit.ended_by_us);
    flights.into_iter().filter(|(_, flight)| is_its_own(flight)).map(|(ix, _)| ix).collect()
}

fn job_of(state: &RunState, node: NodeIx) -> Option<&IntentId> {
    flight_of(state, node).map(|flight| &flight.job)
}

fn called(flight: &Flight) -> Called {
    Called::of(flight.runtime.as_ref(), flight.session.as_ref())
}

fn flight_of(state: &RunState, node: NodeIx) -> Option<&Flight> {
    match &state.node(node).phase {
        NodePhase::InFlight(flight) => Some(flight),
        NodePhase::Waiting | NodePhase::Over(_) => None,
    }
}

/// Returns how jobs ended, as their supervisors wrote it. A line that was torn by a kill says nothing: its job is
/// then one without an exit.
fn exits(dir: &RunDir) -> BTreeMap<IntentId, JobExit> {
    let lines = fs::read(dir.exits()).unwrap_or_default();
    lines
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<JobExit>(line).ok())
        .map(|exit| (IntentId::from(exit.job.as_str()), exit))
        .collect()
}
