//! Whether the lanes that a leg needs can be made, before anything of them is: obstacles, room, where they are.
#![expect(clippy::disallowed_methods, reason = "looks which lanes are there")]

use super::{Complaint, Refusal, exit};
use crate::graph::Graph;
use crate::ids::{CommitId, LaneIx};
use crate::journal::runfile::RepositoryFile;
use crate::journal::{Record, RunDir, RunFile};
use crate::provision::learned::Learned;
use crate::readiness::judge::{Amount, MARGIN, lanes_that_fit};
use crate::schedule::ready::{lanes_needed, nodes_needed};
use crate::schedule::state::{LaneRecord, RunState};
use crate::worktree::{LaneHistory, LaneRequest, Repository, WorktreeError, Worktrees};

/// The lanes that a leg needs, and the room for them.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// What each takes, its installation not counted, in order of first mention.
    pub lanes: Vec<(LaneIx, Amount)>,
    /// What is free; `None` without lanes.
    pub free: Option<Amount>,
}

impl Space {
    /// Returns how many of the lanes fit at once, the first ones, with what installing into them took before. One
    /// whose tree alone fits is tried.
    pub fn lanes_that_fit(&self, learned: &[(LaneIx, Learned)]) -> usize {
        let Some(free) = self.free else { return 0 };
        let with_installation = |(lane, tree): &(LaneIx, Amount)| {
            let took = learned.iter().find(|(of, _)| of == lane).map(|(_, learned)| *learned);
            Amount {
                bytes: tree.bytes + took.map_or(0, |took| took.bytes),
                inodes: tree.inodes + took.map_or(0, |took| took.inodes),
            }
        };
        let amounts: Vec<Amount> = self.lanes.iter().map(with_installation).collect();
        lanes_that_fit(&amounts, free).max(usize::from(!amounts.is_empty()))
    }

    /// Returns what a person is told where not all fit.
    pub fn note(&self, fit: usize) -> Option<String> {
        let all = self.lanes.len();
        (fit < all).then(|| {
            format!("space for {fit} of {all} lanes at once; the others are prepared at their first use")
        })
    }
}

/// What has to be known before a leg may begin.
#[derive(Debug)]
pub struct Readiness {
    /// The lanes it needs, and the room for them.
    pub space: Space,
    /// Why not even one lane fits on the disk, where that is so.
    pub shortage: Option<Complaint>,
    /// What a person should know, one line each.
    pub notes: Vec<String>,
}

impl Readiness {
    /// Returns the room for the lanes. Errors: not even one fits; exit code 3.
    pub fn enough(self) -> Result<Space, Refusal> {
        match self.shortage {
            Some(complaint) => {
                Err(Refusal { exit: exit::BLOCKED, complaints: vec![complaint], problems: Vec::new() })
            }
            None => Ok(self.space),
        }
    }
}

/// Returns whether the lanes that a leg needs can be made, before anything of them is.
///
/// Errors: what stands in the way, with the lanes and nodes concerned; exit code 3.
pub fn readiness(
    worktrees: &dyn Worktrees,
    repository: &Repository,
    file: &RunFile,
    state: &RunState,
) -> Result<Readiness, Refusal> {
    let graph = &file.graph;
    let Some(of_run) = &file.repository else {
        return Ok(Readiness { space: Space::default(), shortage: None, notes: Vec::new() });
    };
    let needed = lanes_needed(graph, state);
    let requests: Vec<LaneRequest> = graph
        .lane_ixs()
        .filter(|ix| needed.contains(ix))
        .map(|ix| {
            let name = &graph.lane(ix).name;
            let record = state.lane(ix);
            LaneRequest {
                run: file.run_id.clone(),
                lane: name.clone(),
                path: of_run.path_of(name),
                branch: of_run.branch_of(&file.run_id, name),
                base: of_run.base_of(name).clone(),
                history: LaneHistory {
                    branch_made_by_run: record.branch_made,
                    kept_by_earlier_leg: record.branch_kept,
                    acquire_open: record.acquire_open,
                },
            }
        })
        .collect();
    let obstacles = worktrees.preflight(repository, &requests)?;
    if !obstacles.is_empty() {
        return Err(Refusal {
            exit: exit::BLOCKED,
            complaints: obstacles
                .into_iter()
                .map(|obstacle| Complaint {
                    message: format!(
                        "{}; needed by {}",
                        obstacle.message,
                        concerned(graph, state, &obstacle.lanes)
                    ),
                    hint: Some(obstacle.hint),
                })
                .collect(),
            problems: Vec::new(),
        });
    }
    let mut notes = Vec::new();
    // These looks only inform: where they fail, the run goes on.
    match worktrees.not_in_lanes(repository) {
        Ok(Some(rest)) => notes.push(not_in_lanes(rest.modified, rest.untracked)),
        Ok(None) => {}
        Err(error) => notes.push(format!("what of the checkout is not in the lanes is not known: {error}")),
    }
    if graph.parts().identity.is_none()
        && !requests.is_empty()
        && !worktrees.has_identity(repository).unwrap_or(true)
    {
        notes.push(
            "git does not know who commits here, so commits in lanes will fail: set user.name and user.email, or `identity` in the graph".into(),
        );
    }
    let names: Vec<crate::ids::LaneName> = requests.iter().map(|request| request.lane.clone()).collect();
    let mut amounts = Vec::new();
    let mut of_bases: Vec<(CommitId, Amount)> = Vec::new();
    for request in &requests {
        if request.path.is_dir() {
            amounts.push(Amount { bytes: 0, inodes: 0 });
            continue;
        }
        if let Some((_, known)) = of_bases.iter().find(|(base, _)| *base == request.base) {
            amounts.push(*known);
            continue;
        }
        let amount = match worktrees.footprint(repository, &request.base) {
            Ok(footprint) => Amount { bytes: footprint.bytes, inodes: footprint.inodes },
            Err(error) => {
                notes.push(format!("how much space lane {} needs is not known: {error}", request.lane));
                Amount { bytes: 0, inodes: 0 }
            }
        };
        of_bases.push((request.base.clone(), amount));
        amounts.push(amount);
    }
    let room = worktrees.room(&of_run.worktree_root)?;
    let free = Amount { bytes: room.bytes, inodes: room.inodes };
    let shortage = (lanes_that_fit(&amounts, free) == 0 && !amounts.is_empty()).then(|| Complaint {
            message: format!(
                "disk-full: too little space for even one lane at {}: {} MiB and {} inodes are free; a lane needs {} MiB and {}, and {} MiB and {} are left for logs and the journal",
                of_run.worktree_root.display(),
                free.bytes >> 20,
                free.inodes,
                amounts[0].bytes.div_ceil(1 << 20),
                amounts[0].inodes,
                MARGIN.bytes >> 20,
                MARGIN.inodes
            ) + &format!("; needed by {}", concerned(graph, state, &names)),
            hint: Some("make room, or move lanes with `--worktree-root`".into()),
        });
    let space = Space { lanes: needed.into_iter().zip(amounts).collect(), free: Some(free) };
    Ok(Readiness { space, shortage, notes })
}

/// Returns the folder of a run's lanes, where the user moved it out of the run's own, trees of lanes should be there,
/// and it is not: on a disk that is away, for one.
pub fn lanes_away<'a>(file: &'a RunFile, dir: &RunDir, state: &RunState) -> Option<&'a std::path::Path> {
    let root = &file.repository.as_ref()?.worktree_root;
    let has_tree = |lane: &LaneRecord| {
        lane.made.is_some() && lane.cleanup.as_ref().is_none_or(|cleanup| cleanup.tree == "kept")
    };
    let is_away = !root.starts_with(dir.root()) && !root.exists() && state.lanes.iter().any(has_tree);
    is_away.then_some(root.as_path())
}

/// Returns that a run without a journal never began. Errors: it did, and its journal is gone; exit code 3.
pub fn journal_is_there(dir: &RunDir, records: &[Record]) -> Result<(), Refusal> {
    if !records.is_empty() || !dir.exits().exists() {
        return Ok(());
    }
    Err(Refusal::new(
        exit::BLOCKED,
        format!("{}: it is empty or gone, and nodes have run", dir.events().display()),
        Some("bring it back: without it, what has passed would run again; lanes and results are where they were".into()),
    ))
}

/// Returns that the lanes of a run can be reached. Errors: they are away; exit code 3.
pub fn lanes_in_reach(file: &RunFile, dir: &RunDir, state: &RunState) -> Result<(), Refusal> {
    let Some(root) = lanes_away(file, dir, state) else { return Ok(()) };
    Err(Refusal::new(
        exit::BLOCKED,
        format!("the lanes of run `{}` are in {}, and that is not there", file.run_id, root.display()),
        Some(format!(
            "bring its disk back, then try again; if they are gone for good, `mkdir -p {}`",
            root.display()
        )),
    ))
}

/// Returns the repository of a run, found again where it was.
///
/// Errors: it is away, is another one now, or git does not work there; exit code 3.
pub fn find_again(worktrees: &dyn Worktrees, of_run: &RepositoryFile) -> Result<Repository, Refusal> {
    let common = &of_run.common_dir;
    let from = of_run.top.as_ref().filter(|top| top.is_dir()).unwrap_or(common);
    let found = worktrees.discover(from).map_err(|error| match error {
        WorktreeError::NotARepository { .. } => WorktreeError::Away { at: common.clone() },
        other => other,
    })?;
    if found.common_dir != *common {
        let message = format!(
            "{} is now of another repository, {}; this run is of {}",
            from.display(),
            found.common_dir.display(),
            common.display()
        );
        let hint = "move that one away and this one back, then try again; its lanes are where they were";
        return Err(Refusal::new(exit::BLOCKED, message, Some(hint.into())));
    }
    Ok(found)
}

fn concerned(graph: &Graph, state: &RunState, lanes: &[crate::ids::LaneName]) -> String {
    let nodes = nodes_needed(graph, state);
    let of = |name: &crate::ids::LaneName| {
        let ids: Vec<&str> = nodes
            .iter()
            .filter(|ix| graph.node(**ix).lane.is_some_and(|lane| graph.lane(lane).name == *name))
            .map(|ix| graph.node(*ix).id.as_str())
            .collect();
        format!("lane {name} ({})", ids.join(", "))
    };
    lanes.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// Returns what is said of changes in the checkout; at least one of the numbers is not 0.
fn not_in_lanes(modified: usize, untracked: usize) -> String {
    let counts: Vec<String> = [(modified, "modified"), (untracked, "untracked")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let files = if modified + untracked == 1 { "file is" } else { "files are" };
    format!("{} {files} not in the lanes", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::leg::{BUILD, unborn};
    use crate::graph::{Trust, load};
    use crate::ids::RunId;
    use crate::worktree::fake::FakeWorktrees;
    use crate::worktree::{Footprint, Room};

    fn ready(room: Room) -> Result<Readiness, Refusal> {
        let text = "name: x\nidentity: {name: a, email: b}\nnodes:\n\
            - {id: a, worktree: l, run: x}\n- {id: b, worktree: m, run: x}\n";
        let graph = load("g.yaml", text, &|_| None, Trust::Reviewed).unwrap().graph;
        let base = CommitId::from("0".repeat(40));
        let file = RunFile {
            selection: None,
            planned: false,
            schema: 1,
            run_id: RunId::from("r1"),
            created_at: jiff::Timestamp::UNIX_EPOCH,
            build: BUILD.into(),
            graph_path: "g.yaml".into(),
            graph_sha256: String::new(),
            inputs: Default::default(),
            folder: "/".into(),
            repository: Some(RepositoryFile {
                top: None,
                common_dir: "/nowhere".into(),
                base,
                lane_bases: Default::default(),
                worktree_root: "/nowhere/lanes".into(),
                branch_template: "omg/{run}/{lane}".into(),
            }),
            pass_env: Vec::new(),
            graph,
        };
        let repository =
            Repository { top: None, git_dir: "/nowhere".into(), common_dir: "/nowhere".into(), bare: true };
        let mut worktrees = FakeWorktrees::default();
        worktrees.repository = Some(repository.clone());
        worktrees.footprint = Some(Footprint { bytes: 100 << 20, inodes: 10, exact: true });
        worktrees.room = Some(room);
        readiness(&worktrees, &repository, &file, &unborn(&file.graph))
    }

    #[test]
    fn lanes_that_do_not_fit_at_once_wait_for_their_first_use() {
        let ready = ready(Room { bytes: 200 << 20, inodes: u64::MAX }).unwrap();
        assert_eq!(ready.notes, [""; 0]);
        let space = ready.enough().unwrap();
        assert_eq!(space.lanes_that_fit(&[]), 1);
        let note = "space for 1 of 2 lanes at once; the others are prepared at their first use";
        assert_eq!(space.note(1).as_deref(), Some(note));
    }

    #[test]
    fn what_installing_took_before_counts_but_never_keeps_a_lane_from_being_tried() {
        let room = Room { bytes: 1 << 30, inodes: u64::MAX };
        let space = ready(room).unwrap().enough().unwrap();
        assert_eq!(space.lanes_that_fit(&[]), 2);
        let learned = |bytes| [0, 1].map(|lane| (LaneIx(lane), Learned { ms: 1, bytes, inodes: 1 }));
        assert_eq!(space.lanes_that_fit(&learned(600 << 20)), 1);
        assert_eq!(space.lanes_that_fit(&learned(6 << 30)), 1);
    }

    #[test]
    fn too_little_space_or_inodes_for_one_lane_blocks_before_anything_is_made() {
        for room in [Room { bytes: 1 << 20, inodes: u64::MAX }, Room { bytes: u64::MAX, inodes: 3 }] {
            let refusal = ready(room).unwrap().enough().unwrap_err();
            assert_eq!(refusal.exit, exit::BLOCKED);
            assert!(refusal.complaints[0].message.contains("disk-full: too little space for even one lane"));
        }
    }

    #[test]
    fn what_is_not_in_the_lanes_is_counted_without_noughts() {
        for (modified, untracked, expected) in [
            (3, 2, "3 modified, 2 untracked files are not in the lanes"),
            (0, 2, "2 untracked files are not in the lanes"),
            (1, 0, "1 modified file is not in the lanes"),
        ] {
            assert_eq!(not_in_lanes(modified, untracked), expected);
        }
    }
}
