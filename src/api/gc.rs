//! `omg gc`: puts in order what dead runs left, and removes the folders of old runs where that is asked.

mod disk;
pub mod judge;
mod order;
pub mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use self::judge::{Facts, Rules, stays};
use self::order::{Held, NotHeld, foresee};
use self::survey::{Known, Place, Standing, Surveyed, Surveyor, first};
use super::ready::lanes_away;
use super::{Complaint, Refusal, exit, find};
use crate::cleanup::Policy;
use crate::ids::RunId;
use crate::run::seams::{Clock, SystemClock};
use crate::run::{RunError, leg};
use crate::schedule::fact::RunStatus;
use crate::settings::Settings;
use crate::view::gc::{Outcome, SCHEMA, Space, TidiedLane, TidiedRun, Tidying};

/// What is asked of `omg gc`.
#[derive(Clone, Debug, Default)]
pub struct GcRequest {
    /// The runs to look at; all where it names none.
    pub runs: Vec<String>,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Which folders of runs are to go.
    pub rules: Rules,
}

/// Puts in order what dead runs left, and returns what was done with the code to end with. A run that a
/// living process holds, that is paused, or that can't be read is left as it is.
///
/// Idempotent; killed anywhere, the next call goes on. Errors: a run is named that is none.
pub fn gc(settings: &Settings, request: &GcRequest) -> Result<(Tidying, i32), Refusal> {
    let named = request.runs.iter().map(|name| find::id(settings, name));
    let named = named.collect::<Result<BTreeSet<RunId>, Refusal>>()?;
    let now = SystemClock.now();
    let gc = Gc {
        settings,
        request,
        surveyor: Surveyor::new(settings),
        newer: if request.rules.ask_for_any() { newer(settings) } else { BTreeMap::new() },
        now,
    };
    let ids = if named.is_empty() { find::folders(&settings.home) } else { named.iter().cloned().collect() };
    let runs: Vec<TidiedRun> = ids.iter().map(|id| gc.run(id, named.contains(id))).collect();
    // They are of no run that could be named.
    let leftovers = match named.is_empty() {
        true => disk::leftovers(&settings.home.join("runs"), request.dry_run, now),
        false => Vec::new(),
    };
    let total = |of: fn(&TidiedRun) -> Space| runs.iter().map(of).fold(Space::default(), Space::and);
    let gone = leftovers.iter().filter(|leftover| leftover.removed);
    let found = Tidying {
        schema: SCHEMA,
        dry_run: request.dry_run,
        freed: gone.fold(total(|run| run.freed), |sum, leftover| sum.and(leftover.space)),
        kept: total(|run| run.kept),
        runs,
        leftovers,
    };
    let is_held =
        |run: &TidiedRun| run.outcome == Outcome::Held && named.contains(&RunId::from(run.run_id.as_str()));
    let exit = match (found.runs.iter().any(is_held), found.has_failed()) {
        (true, _) => exit::HELD,
        (false, true) => exit::BLOCKED,
        (false, false) => exit::OK,
    };
    Ok((found, exit))
}

/// Returns, for each run that can be read, how many of its repository are newer.
fn newer(settings: &Settings) -> BTreeMap<RunId, usize> {
    let mut counts: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut newer = BTreeMap::new();
    for run in find::all(settings) {
        let place = run.file.repository.map_or(run.file.folder, |of_run| of_run.common_dir);
        let count = counts.entry(place).or_default();
        newer.insert(run.file.run_id, *count);
        *count += 1;
    }
    newer
}

struct Gc<'a> {
    settings: &'a Settings,
    request: &'a GcRequest,
    surveyor: Surveyor<'a>,
    newer: BTreeMap<RunId, usize>,
    now: Timestamp,
}

impl Gc<'_> {
    fn run(&self, id: &RunId, named: bool) -> TidiedRun {
        let seen = self.surveyor.look(id);
        let before = disk::space(&trees(&seen));
        let mut run = TidiedRun {
            run_id: id.to_string(),
            folder: seen.dir.root().to_path_buf(),
            status: match &seen.standing {
                Standing::Held(_) => Some(RunStatus::Running),
                Standing::Unreadable(_) => None,
                Standing::Known(known) => Some(known.status()),
            },
            outcome: Outcome::InOrder,
            why: Vec::new(),
            hint: None,
            processes: Vec::new(),
            lanes: Vec::new(),
            old_trees: Vec::new(),
            freed: Space::default(),
            kept: before,
        };
        match &seen.standing {
            Standing::Held(who) => run.held(who.clone()),
            Standing::Unreadable(complaint) => run.failed(complaint.clone()),
            Standing::Known(known) => self.put_in_order(&mut run, &seen, known, named),
        }
        if run.outcome != Outcome::Held {
            self.remove_where_asked(&mut run, &seen, named);
        }
        if !self.request.dry_run {
            let rest =
                if run.outcome == Outcome::Removed { Space::default() } else { disk::space(&trees(&seen)) };
            (run.freed, run.kept) = (before.less(rest), rest);
        } else {
            run.freed = if run.outcome == Outcome::Removed { before } else { foreseen(&run, &seen) };
            run.kept = before.less(run.freed);
        }
        run
    }

    /// What is not this call's to do is left as it is, and said.
    fn put_in_order(&self, run: &mut TidiedRun, seen: &Surveyed, known: &Known, named: bool) {
        run.old_trees = known.old_trees();
        if known.status() == RunStatus::Paused {
            run.outcome = Outcome::Paused;
            if named {
                run.why.push("it is paused, and keeps its lanes whole".into());
            }
            return;
        }
        if known.is_in_order() {
            return;
        }
        if let (Place::Away(complaint), false) = (&known.repository, known.due.is_empty()) {
            return run.failed(complaint.clone());
        }
        if let (Some(root), false) = (known.lanes_away(&seen.dir), known.due.is_empty()) {
            let message = format!("{}, where its lanes are, is away", root.display());
            let hint = "put it back, then `omg gc` again; nothing of the run was touched";
            return run.failed(Complaint { message, hint: Some(hint.into()) });
        }
        if self.request.dry_run {
            run.processes.clone_from(&known.processes);
            run.lanes = foresee(self.settings, known, &seen.dir);
            run.outcome = Outcome::PutInOrder;
            return;
        }
        let done = self.claim(seen, known).and_then(|mut held| {
            run.processes.clone_from(&held.ended);
            let due = held.known.due.clone();
            let swept = held.sweep(&due, None).map(|lanes| run.lanes = lanes);
            let done = swept.and_then(|()| held.finish());
            held.release();
            done.map_err(|error| NotHeld::Unusable(first(error.into())))
        });
        match done {
            Ok(()) => run.outcome = if is_done(&run.lanes) { Outcome::PutInOrder } else { Outcome::Failed },
            Err(NotHeld::Held(who)) => run.held(who),
            Err(NotHeld::Unusable(complaint)) => run.failed(complaint),
        }
        self.surveyor.forget();
        if let Ok(known) = self.surveyor.known(&seen.dir) {
            run.status = Some(known.status());
        }
    }

    fn claim(&self, seen: &Surveyed, known: &Known) -> Result<Held<'_>, NotHeld> {
        Held::claim(self.settings, &self.surveyor, &seen.id, &seen.dir, &known.records)
    }

    fn remove_where_asked(&self, run: &mut TidiedRun, seen: &Surveyed, named: bool) {
        let age = |since: Timestamp| {
            let age = self.now.duration_since(since);
            Duration::try_from(age).unwrap_or_default()
        };
        let newer = self.newer.get(&seen.id).copied().unwrap_or(usize::MAX);
        let old = self.last_sign(seen).map(age).unwrap_or_default();
        // What could not be put in order is looked at by a person first.
        if !self.request.rules.apply_to(old, newer) || (run.outcome == Outcome::Failed && !named) {
            return;
        }
        let removed = match (&seen.standing, self.request.dry_run) {
            (Standing::Held(_), _) => return,
            (Standing::Unreadable(_) | Standing::Known(_), true) => Ok(self.would_stay(run, seen, named)),
            (Standing::Unreadable(complaint), false) => self.remove_unreadable(seen, complaint, named),
            (Standing::Known(known), false) => self.remove(run, seen, known, named),
        };
        match removed {
            Ok(why) if why.is_empty() => {
                (run.outcome, run.hint) = (Outcome::Removed, None);
                run.why.clear();
            }
            Ok(why) => run.why.extend(why.into_iter().map(|why| format!("its folder is kept: {why}"))),
            Err(NotHeld::Held(who)) => run.held(who),
            Err(NotHeld::Unusable(complaint)) => run.failed(complaint),
        }
    }

    /// Returns when the run last gave a sign of life.
    fn last_sign(&self, seen: &Surveyed) -> Option<Timestamp> {
        match &seen.standing {
            Standing::Held(_) => None,
            Standing::Unreadable(_) => disk::last_change(seen.dir.root()),
            Standing::Known(known) => Some(crate::view::run::last_sign(&known.file, &known.records)),
        }
    }

    fn would_stay(&self, run: &TidiedRun, seen: &Surveyed, named: bool) -> Vec<String> {
        let mut facts = match &seen.standing {
            Standing::Held(who) => return vec![who.clone()],
            Standing::Unreadable(complaint) => unreadable(seen, complaint),
            Standing::Known(known) => self.facts(seen, known, &run.lanes),
        };
        let Standing::Known(known) = &seen.standing else { return stays(&facts, named) };
        let going = known.file.repository.iter().flat_map(|of_run| {
            let gone = run.lanes.iter().filter(|lane| lane.tree == "removed");
            gone.map(|lane| of_run.path_of(&lane.name.as_str().into()))
        });
        let going: Vec<PathBuf> = going.collect();
        // Of a run that is named, lanes are discarded first; whether one of them stays shows only then.
        let lanes = if named { known.lane_paths() } else { Vec::new() };
        facts.trees.retain(|tree| !going.contains(tree) && !lanes.contains(tree));
        stays(&facts, named)
    }

    fn remove_unreadable(
        &self,
        seen: &Surveyed,
        complaint: &Complaint,
        named: bool,
    ) -> Result<Vec<String>, NotHeld> {
        let why = stays(&unreadable(seen, complaint), named);
        if !why.is_empty() {
            return Ok(why);
        }
        let claim = order::claim(&seen.dir, &seen.id, &[])?;
        let ended =
            leg::end_leftovers(&seen.dir, None).map_err(|error| NotHeld::Unusable(first(error.into())))?;
        tracing::info!(?ended, "ended what the run had left running");
        let removed = disk::remove(seen.dir.root()).map_err(|error| not_removed(seen, &error));
        claim.release();
        removed.map(|()| why)
    }

    /// Removes the folder of a run unless something speaks against it, which is returned. All is judged
    /// under the claim.
    fn remove(
        &self,
        run: &mut TidiedRun,
        seen: &Surveyed,
        known: &Known,
        named: bool,
    ) -> Result<Vec<String>, NotHeld> {
        // Asked first, so that a run which stays is not claimed for nothing.
        let now = self.surveyor.known(&seen.dir).map_err(NotHeld::Unusable)?;
        let why = stays(&self.facts(seen, &now, &[]), named);
        if !why.is_empty() && !named {
            return Ok(why);
        }
        if let Some(root) = lanes_away(&now.file, &seen.dir, &now.state) {
            return Ok(vec![format!("{}, where its lanes are, is away", root.display())]);
        }
        let mut held = self.claim(seen, known)?;
        if named {
            let with_tree = |path: &PathBuf| disk::is_there(path);
            let lanes = held.known.file.graph.lane_ixs().zip(held.known.lane_paths());
            let lanes: Vec<_> = lanes.filter(|(_, path)| with_tree(path)).map(|(lane, _)| lane).collect();
            let swept = held.sweep(&lanes, Some(Policy::Discard));
            let swept = swept.map_err(|error: RunError| NotHeld::Unusable(first(error.into())))?;
            run.lanes.extend(swept);
            self.surveyor.forget();
        }
        let mut why = stays(&self.facts(seen, &held.known, &[]), named);
        // Who reads where files were saved finds them there.
        let saved_now = rescued(seen).filter(|folder| {
            run.lanes
                .iter()
                .flat_map(|lane| &lane.saved)
                .any(|place| std::path::Path::new(place).starts_with(folder))
        });
        why.extend(saved_now.map(|folder| {
            format!(
                "files of its lanes were saved in {} just now; the next `omg gc` that names it removes them",
                folder.display()
            )
        }));
        if why.is_empty() {
            let root = held.known.file.repository.as_ref().map(|of_run| of_run.worktree_root.clone());
            held.fence.check().map_err(|overtaken| NotHeld::Held(overtaken.to_string()))?;
            disk::remove(seen.dir.root()).map_err(|error| not_removed(seen, &error))?;
            root.iter().for_each(|root| disk::remove_empty_root(root));
        }
        held.release();
        Ok(why)
    }

    /// `foreseen`: lanes whose verdict is not in the journal yet.
    fn facts(&self, seen: &Surveyed, known: &Known, foreseen: &[TidiedLane]) -> Facts {
        let is_foreseen = |name: &&str| foreseen.iter().any(|lane| lane.name == *name);
        let waiting = known.due_names().into_iter().filter(|name| !is_foreseen(name));
        let (branches, repository) = match self.branches(known, foreseen) {
            Ok(branches) => (branches, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Facts {
            status: Some(known.status()),
            unreadable: None,
            rescued: rescued(seen),
            trees: kept_trees(seen, Some(known)),
            waiting: waiting.map(str::to_string).collect(),
            branches,
            repository,
        }
    }

    /// Returns the branches that a run kept and nothing else reaches, also those that a lane gave up when it
    /// began anew. Errors: the repository can't be asked, in words.
    fn branches(&self, known: &Known, foreseen: &[TidiedLane]) -> Result<Vec<String>, String> {
        let (graph, state) = (&known.file.graph, &known.state);
        let Some(of_run) = &known.file.repository else { return Ok(Vec::new()) };
        let (mut kept, mut anew) = (Vec::new(), Vec::new());
        for lane in graph.lane_ixs() {
            let name = &graph.lane(lane).name;
            let branch = of_run.branch_of(&known.file.run_id, name);
            let keeps = |lane: &TidiedLane| lane.name == name.as_str() && lane.branch == "kept";
            if !state.lane(lane).set_aside.is_empty() {
                anew.push(format!("{branch}.old-"));
            }
            if state.lane(lane).branch_kept || foreseen.iter().any(keeps) {
                kept.push(branch);
            }
        }
        let repository = match &known.repository {
            Place::None => return Ok(Vec::new()),
            Place::Here(repository) => repository,
            Place::Away(_) if kept.is_empty() && anew.is_empty() => return Ok(Vec::new()),
            Place::Away(complaint) => return Err(format!("it kept branches, and {}", complaint.message)),
        };
        let unread = |error: crate::worktree::WorktreeError| format!("its branches can't be read: {error}");
        let worktrees = &self.surveyor.worktrees;
        if !anew.is_empty() {
            let all = worktrees.branches(repository).map_err(unread)?;
            kept.extend(all.into_iter().filter(|name| anew.iter().any(|begin| name.starts_with(begin))));
        }
        let mut alone = Vec::new();
        for branch in kept {
            if worktrees.is_reached_elsewhere(repository, &branch).map_err(unread)? == Some(false) {
                alone.push(branch);
            }
        }
        Ok(alone)
    }
}

impl TidiedRun {
    fn held(&mut self, who: String) {
        self.outcome = Outcome::Held;
        self.why = vec![who];
    }

    fn failed(&mut self, complaint: Complaint) {
        self.outcome = Outcome::Failed;
        self.why.push(complaint.message);
        self.hint = complaint.hint;
    }
}

/// Returns whether every lane came to an end, be it that it is kept.
fn is_done(lanes: &[TidiedLane]) -> bool {
    const UNDONE: [&str; 4] = ["unfinished", "rescue-failed", "unreadable", "repository-away"];
    !lanes.iter().any(|lane| UNDONE.contains(&lane.reason.as_str()))
}

fn not_removed(seen: &Surveyed, error: &std::io::Error) -> NotHeld {
    NotHeld::Unusable(Complaint {
        message: format!("{} could not be removed: {error}", seen.dir.root().display()),
        hint: Some("the next `omg gc` goes on".into()),
    })
}

fn rescued(seen: &Surveyed) -> Option<PathBuf> {
    let folder = seen.dir.root().join("rescued");
    disk::has_files(&folder).then_some(folder)
}

/// Returns the trees of lanes that are there, whatever the journal says.
fn kept_trees(seen: &Surveyed, known: Option<&Known>) -> Vec<PathBuf> {
    let mut trees: BTreeSet<PathBuf> = disk::folders_in(&seen.dir.worktrees()).into_iter().collect();
    if let Some(known) = known {
        let elsewhere = known.lane_paths().into_iter().chain(known.old_trees());
        trees.extend(elsewhere.filter(|tree| disk::is_there(tree)));
    }
    trees.into_iter().collect()
}

fn unreadable(seen: &Surveyed, complaint: &Complaint) -> Facts {
    Facts {
        unreadable: Some(complaint.message.clone()),
        rescued: rescued(seen),
        trees: kept_trees(seen, None),
        ..Facts::default()
    }
}

/// Returns all that a run takes on the disk.
fn trees(seen: &Surveyed) -> Vec<PathBuf> {
    let mut trees = vec![seen.dir.root().to_path_buf()];
    if let Standing::Known(known) = &seen.standing {
        let lanes = known.lane_paths();
        let beside = lanes.iter().flat_map(|lane| crate::worktree::beside_lane(lane));
        let all = lanes.iter().cloned().chain(beside).chain(known.old_trees());
        trees.extend(all.filter(|tree| !tree.starts_with(seen.dir.root())));
    }
    trees
}

/// Returns what would be freed by the lanes of a run; what of them is rescued is not freed, and counts here.
fn foreseen(run: &TidiedRun, seen: &Surveyed) -> Space {
    let Standing::Known(known) = &seen.standing else { return Space::default() };
    let Some(of_run) = &known.file.repository else { return Space::default() };
    let going = run.lanes.iter().filter(|lane| lane.tree == "removed");
    let paths = going.flat_map(|lane| {
        let path = of_run.path_of(&lane.name.as_str().into());
        crate::worktree::beside_lane(&path).into_iter().chain([path])
    });
    disk::space(&paths.collect::<Vec<PathBuf>>())
}
