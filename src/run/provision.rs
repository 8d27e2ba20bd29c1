//! The actuator that makes a lane fit to work in.
#![expect(clippy::disallowed_methods, reason = "makes the lane's folder, asks what is in a lane")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::forecast::forecast;
use super::freshness::{InLeg, IndexState, index_state};
use super::install::Installer;
use super::perform::Stage;
use crate::graph::model::{Piece, ProvisionChoice};
use crate::ids::{IntentId, LaneIx, sha256};
use crate::provision::apply::{Failure, Site};
use crate::provision::cause::{Cause, Verdict};
use crate::provision::copy;
use crate::provision::excludes;
use crate::provision::fingerprint::{FileState, Inputs, fingerprint};
use crate::provision::hints;
use crate::provision::learned::{self, Learned};
use crate::provision::mark;
use crate::provision::overlay::overlay_digest;
use crate::provision::plan::{HOOK_PLACES, Hook, ProvisionPlan, Seen, plan};
use crate::provision::probe;
use crate::provision::receipt::{self, Known, MadeFile, Receipt, Standing, states};
use crate::provision::tools::{Asking, find};
use crate::schedule::Event;
use crate::schedule::event::{ProvisionFailure, Provisioned};
use crate::schedule::state::{LaneRecord, MadeLane};
use crate::worktree::{WorktreeError, Worktrees};

/// What was done.
struct Done {
    receipt: Receipt,
    sha256: String,
    skipped: Option<String>,
}

impl Stage {
    /// Returns which of the lanes that are not there can't be made fit, and what installing took the last time. Where that can't be told, it is found out later.
    pub async fn forecasts(&self) -> (Vec<(LaneIx, ProvisionFailure)>, Vec<(LaneIx, Learned)>) {
        let (Some(repository), Some(of_run)) = (self.repository.clone(), self.file.repository.as_ref())
        else {
            return Default::default();
        };
        let known = learned::load(&self.learned);
        let (mut unfit, mut took) = (Vec::new(), Vec::new());
        for lane in self.graph().lane_ixs() {
            let name = &self.graph().lane(lane).name;
            let (root, base) = (of_run.path_of(name), of_run.base_of(name).clone());
            let provision = self.graph().provision(lane).clone();
            if root.exists() || provision.choice == ProvisionChoice::Nothing || provision.skip_if.is_some() {
                continue;
            }
            let environment = self.place(&self.lanes.borrow(), None).of_provisioning(lane);
            let repository = repository.clone();
            let asked = self
                .ask(move |worktrees| {
                    forecast(worktrees, &repository, &base, &provision, &root, &environment)
                })
                .await;
            let Ok(forecast) = asked else { continue };
            if let Some(failure) = forecast.unfit.filter(|_| !self.path_depends_on_lane()) {
                unfit.push((lane, told(failure, false, false)));
            }
            took.extend(known.get(&forecast.key).map(|learned| (lane, *learned)));
        }
        (unfit, took)
    }

    /// Returns whether programs may be found in a lane only once it is there.
    fn path_depends_on_lane(&self) -> bool {
        let path = self.graph().parts().env.get("PATH");
        path.is_some_and(|path| path.0.iter().any(|piece| matches!(piece, Piece::LanePath)))
    }

    pub(super) async fn provision(&self, intent: IntentId, lane: LaneIx, number: u32, record: LaneRecord) {
        let Some(made) = self.lanes.borrow()[lane.at()].clone() else {
            let failure = Failure::new(Cause::Unknown, None, "the lane is not made");
            return self.answer(Event::NotProvisioned { intent, failure: told(failure, false, false) });
        };
        let said = RefCell::default();
        let outcome = self.try_to_provision(&intent, lane, number, &record, &made, &said).await;
        let notes = said.take();
        for note in &notes {
            self.observer.warn(&format!("lane `{}`: {note}", self.graph().lane(lane).name));
        }
        self.jobs.borrow_mut().remove(&intent);
        self.answer(match outcome {
            Ok(done) => Event::Provisioned {
                intent,
                receipt: Provisioned {
                    cmd: done.receipt.cmd,
                    exit_code: done.receipt.exit_code,
                    duration_ms: if done.skipped.is_some() { 0 } else { done.receipt.duration_ms },
                    fingerprint: done.receipt.fingerprint,
                    receipt: done.sha256,
                    reason: done.skipped.clone().or(done.receipt.reason),
                    skipped: done.skipped.is_some(),
                    notes,
                },
            },
            Err(failure) => {
                let edited =
                    failure.verdict.cause == Cause::LockMismatch && self.edited_since_base(lane, &made).await;
                let receipt = self.dir.lane(&self.graph().lane(lane).name).join(receipt::NAME);
                let kept = edited && receipt.exists();
                Event::NotProvisioned { intent, failure: told(failure, edited, kept) }
            }
        });
    }

    async fn try_to_provision(
        &self,
        intent: &IntentId,
        lane: LaneIx,
        number: u32,
        record: &LaneRecord,
        lane_made: &MadeLane,
        said: &RefCell<Vec<String>>,
    ) -> Result<Done, Failure> {
        let settings = self.graph().provision(lane);
        let broken = |detail: String| Failure::new(Cause::Unknown, None, detail);
        if !lane_made.path.is_dir() {
            let detail = format!("the lane's folder {} is gone", lane_made.path.display());
            let verdict = Verdict { cause: Cause::Unknown, again: false };
            return Err(Failure { verdict, ..Failure::new(Cause::Unknown, None, detail) });
        }
        let index = index_state(&lane_made.git_dir);
        let (seen, inputs) = self.seen(lane, &lane_made.path).await.map_err(broken)?;
        let plan = plan(&settings.choice, &settings.roots, &seen);
        said.borrow_mut().extend(plan.warnings.clone());
        let site = self.site(lane, number, lane_made);
        isolated(&site, &plan)?;
        has_tools(&site, &plan)?;
        std::fs::create_dir_all(&site.folder).map_err(|error| broken(error.to_string()))?;
        let before = receipt::load(&site.receipt(), record.receipt.as_deref());
        let overlay = self.overlay_digest(lane);
        let stage = self;
        let attempt =
            Try { stage, intent, lane, record, said, site, plan, seen, inputs, index, overlay, before };
        match attempt.still_holds().await {
            Some(done) => Ok(done),
            None => attempt.run(number).await,
        }
    }

    /// Writes the mirror of a receipt into the tree. One that git tracks would be a promise to every later
    /// lane, so it is refused.
    async fn mirror(&self, receipt: &Receipt, site: &Site, mirror: &str) -> Result<MadeFile, Failure> {
        let failure = |detail: String| Failure::new(Cause::Unknown, receipt.cmd.clone(), detail);
        let (root, names) = (site.root.clone(), vec![mirror.to_string()]);
        let tracked = self.ask(move |worktrees| worktrees.tracked(&root, &names)).await.map_err(failure)?;
        if !tracked.is_empty() {
            let detail =
                format!("`receipt_file` {mirror} is tracked by git, so each new lane would have one");
            return Err(Failure::new(Cause::TrackedChanged, receipt.cmd.clone(), detail));
        }
        let refused = |detail: String| Failure::new(Cause::NotIsolated, receipt.cmd.clone(), detail);
        if receipt::is_taken(&site.root, mirror) {
            return Err(refused(format!("`receipt_file` {mirror} would replace a file that is there")));
        }
        let made = receipt::write_mirror(receipt, &site.root, mirror);
        let made = made.map_err(|error| refused(error.to_string()))?;
        self.exclude(site, &[PathBuf::from(mirror)]).await;
        Ok(made)
    }

    fn site(&self, lane: LaneIx, number: u32, made: &MadeLane) -> Site {
        let graph = self.graph();
        let parts = graph.parts();
        let lock =
            self.repository.as_ref().map(|repository| repository.common_dir.join("omg-provision.lock"));
        Site {
            root: made.path.clone(),
            git_dir: made.git_dir.clone(),
            folder: self.dir.lane(&graph.lane(lane).name),
            number,
            environment: self.place(&self.lanes.borrow(), None).of_provisioning(lane),
            own: parts.env.keys().chain(&self.file.pass_env).cloned().collect(),
            shell: parts.shell.clone(),
            timeout: graph.provision(lane).timeout,
            cache_lock: self.cache_lock.clone(),
            repository_lock: lock.unwrap_or_else(|| self.cache_lock.clone()),
        }
    }

    /// Asks git something, beside the loop.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Worktrees) -> Result<T, WorktreeError> + Send + 'static,
    ) -> Result<T, String> {
        let worktrees = Arc::clone(&self.seams.worktrees);
        let asked = tokio::task::spawn_blocking(move || question(&*worktrees)).await;
        asked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// Looks at a lane as provisioning sees it. Returns that, and every file that the fingerprint covers.
    async fn seen(&self, lane: LaneIx, root: &Path) -> Result<(Seen, Vec<String>), String> {
        let provision = self.graph().provision(lane).clone();
        let (Some(repository), Some(file)) = (self.repository.clone(), self.file.repository.as_ref()) else {
            return Err("a lane without a repository".into());
        };
        let base = file.base_of(&self.graph().lane(lane).name).clone();
        let place = root.to_path_buf();
        let question = move |worktrees: &dyn Worktrees| {
            let tracked = worktrees.tracked(&place, &probe::patterns(&provision))?;
            let names = probe::names(&provision);
            let mut at_base = worktrees.files_at(&repository, &base, &probe::at_base(&provision))?;
            let is_stray = |place: &&&str| {
                let in_checkout = repository.top.as_ref().is_some_and(|top| top.join(place).is_file());
                in_checkout && !at_base.contains_key(**place)
            };
            let stray_hook = HOOK_PLACES.iter().find(is_stray).map(|place| place.to_string());
            let hook = HOOK_PLACES.iter().find_map(|place| {
                let file = at_base.remove(*place)?;
                Some(Hook { place: place.to_string(), bytes: file.bytes, executable: file.executable })
            });
            let of_others = at_base.into_iter().map(|(name, file)| (name, file.bytes)).collect();
            let hints = hints::hints(&of_others);
            let files = receipt::read_files(&place, &names, probe::MANIFEST_MAX);
            let mut inputs: BTreeSet<String> = names.into_iter().chain(tracked.iter().cloned()).collect();
            inputs.extend(probe::included(&place, &files));
            Ok((Seen { files, tracked, hook, stray_hook, hints }, inputs.into_iter().collect()))
        };
        self.ask(question).await
    }

    /// Returns whether a node changed a manifest or lockfile that the lane began with. Where that can't be
    /// told, nobody is blamed.
    async fn edited_since_base(&self, lane: LaneIx, made: &MadeLane) -> bool {
        let provision = self.graph().provision(lane).clone();
        let (Some(repository), base) = (self.repository.clone(), made.base.clone()) else { return false };
        let root = made.path.clone();
        // Local files were copied in by omg.
        let copied =
            copy::ledger(&self.dir.lane(&self.graph().lane(lane).name)).ok().flatten().unwrap_or_default();
        let question = move |worktrees: &dyn Worktrees| {
            let mut names: BTreeSet<String> = probe::locks_and_manifests(&provision).into_iter().collect();
            names.extend(worktrees.tracked(&root, &probe::manifest_patterns(&provision))?);
            let names: Vec<String> = names.into_iter().filter(|name| copied.get(name).is_none()).collect();
            let at_base = worktrees.files_at(&repository, &base, &names)?;
            let states = states(&root, &names);
            Ok(names.iter().any(|name| match (at_base.get(name), states.get(name)) {
                (Some(file), Some(FileState::Plain(digest))) => sha256(&file.bytes) != *digest,
                (Some(_), _) => true,
                (None, Some(FileState::Plain(_) | FileState::Link(_))) => true,
                (None, _) => false,
            }))
        };
        self.ask(question).await.unwrap_or(false)
    }

    /// Returns what the overlay copied into a lane, hashed.
    fn overlay_digest(&self, lane: LaneIx) -> Option<String> {
        self.graph().overlay(lane)?;
        let ledger = copy::ledger(&self.dir.lane(&self.graph().lane(lane).name)).ok()??;
        overlay_digest(&ledger)
    }

    /// Has git ignore what an installation made and the repository does not ignore, in the lane's own
    /// processes: `git add -A` would commit it. Where that can't be done the lane is as it would be without.
    pub(super) async fn exclude(&self, site: &Site, paths: &[PathBuf]) {
        if paths.is_empty() {
            return;
        }
        let (root, folder) = (site.root.clone(), site.folder.clone());
        let paths: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let excluded = self
            .ask(move |worktrees| {
                let users = worktrees.excludes_file(&root)?;
                let written = excludes::add_excludes(&folder, users.as_deref(), &paths);
                written.map_err(|error| WorktreeError::Io { path: folder, detail: error.to_string() })
            })
            .await;
        if let Err(error) = excluded {
            self.observer.warn(&format!("what was installed is not hidden from `git add`: {error}"));
        }
    }
}

/// One try to make a lane fit, and what was seen before it.
struct Try<'a> {
    stage: &'a Stage,
    intent: &'a IntentId,
    lane: LaneIx,
    record: &'a LaneRecord,
    said: &'a RefCell<Vec<String>>,
    site: Site,
    plan: ProvisionPlan,
    seen: Seen,
    inputs: Vec<String>,
    index: Option<IndexState>,
    overlay: Option<String>,
    /// The receipt of before, where it is the one that was written.
    before: Option<Receipt>,
}

impl Try<'_> {
    /// Returns what proves that nothing has to be run; `None` where something has.
    async fn still_holds(&self) -> Option<Done> {
        let before = self.before.as_ref()?;
        if mark::find(&self.site.folder).is_some() || before.inputs != self.inputs {
            return None;
        }
        let known = Known {
            path: &self.site.receipt(),
            sha256: self.record.receipt.as_deref(),
            root: &self.site.root,
            plan: &self.plan,
            tools: &before.tools,
            overlay: self.overlay.as_deref(),
        };
        let Standing::Fresh(receipt) = receipt::standing(&known) else { return None };
        // Programs are asked for their versions only where nothing else has changed.
        if self.versions().await != before.tools {
            return None;
        }
        let sha256 = self.record.receipt.clone().unwrap_or_default();
        self.keep(&before.tools, &sha256);
        Some(Done { receipt: *receipt, sha256, skipped: Some("its receipt still holds".into()) })
    }

    /// Installs what there is to install, and leaves a receipt.
    async fn run(&self, number: u32) -> Result<Done, Failure> {
        let settings = self.stage.graph().provision(self.lane);
        let files = looked_at(&self.site.root, &self.inputs).await;
        let mut new = Receipt {
            cmd: self.plan.display(),
            exit_code: (!self.plan.steps.is_empty()).then_some(0),
            at: self.stage.seams.clock.now(),
            duration_ms: 0,
            fingerprint: String::new(),
            rung: self.plan.rung,
            reason: self.plan.reason.clone(),
            tools: BTreeMap::new(),
            inputs: self.inputs.clone(),
            installed: Vec::new(),
            made: Vec::new(),
            files: None,
            mirror: settings.receipt_file.clone(),
        };
        let mut files_made = Vec::new();
        // What omg itself began to install is looked at, not trusted.
        let is_nobodys = mark::find(&self.site.folder).is_none()
            && self.before.as_ref().is_none_or(|before| before.installed.is_empty());
        let is_there = |path: &&String| is_nobodys && self.site.root.join(path).exists();
        if let Some(path) = settings.skip_if.as_ref().filter(is_there) {
            new.cmd = None;
            new.exit_code = None;
            new.reason = Some(format!("{path} is there, and `skip_if` trusts it"));
        } else if !self.plan.steps.is_empty() {
            files_made = self.install(number, &mut new, &files).await?;
        }
        // Only now: an installer that misbehaves is met in its own time and with its own log.
        new.tools = self.versions().await;
        let overlay = self.overlay.as_deref();
        let facts = Inputs { plan: &self.plan, tools: &new.tools, files: &files, overlay };
        new.fingerprint = fingerprint(&facts, &self.site.root.to_string_lossy());
        if let Some(mirror) = &settings.receipt_file {
            let mirrored = self.stage.mirror(&new, &self.site, mirror).await?;
            files_made.retain(|file| file.path != mirrored.path);
            files_made.push(mirrored);
        }
        let sha256 = self.seal(&mut new, &files_made).map_err(|error| {
            let full = error.kind() == std::io::ErrorKind::StorageFull;
            let cause = if full { Cause::DiskFull } else { Cause::Unknown };
            Failure::new(cause, self.plan.display(), format!("its receipt could not be written: {error}"))
        })?;
        self.keep(&new.tools, &sha256);
        Ok(Done { receipt: new, sha256, skipped: None })
    }

    /// Runs the steps and notes in the receipt what they left. Returns the files that they made.
    async fn install(
        &self,
        number: u32,
        new: &mut Receipt,
        files: &BTreeMap<String, FileState>,
    ) -> Result<Vec<MadeFile>, Failure> {
        let installer = Installer {
            stage: self.stage,
            site: &self.site,
            plan: &self.plan,
            before: self.before.as_ref(),
            intent: self.intent,
            said: self.said,
        };
        let space = self.stage.space_before(&self.site.root);
        let installed = installer.install(number, &|step| self.job("", step)).await;
        let (bytes, inodes) = self.stage.space_taken(&self.site.root, space);
        if let (Err(failure), Some(before), Some(sha256)) = (&installed, &self.before, &self.record.receipt)
            && failure.verdict.cause == Cause::LockMismatch
        {
            // Who left manifest and lockfile at odds may mend it in what was installed before.
            self.keep(&before.tools, sha256);
        }
        let (ran, left) = installed?;
        self.said.borrow_mut().extend(ran.remarks);
        // What it read may have changed under it, and then nobody knows what was installed.
        let after = looked_at(&self.site.root, &self.inputs).await;
        if let Some((name, _)) = files.iter().find(|(name, state)| after.get(*name) != Some(*state)) {
            let detail = format!("{name} changed while it was installed");
            return Err(Failure::new(Cause::Unknown, self.plan.display(), detail));
        }
        let end = self.stage.seams.clock.now();
        new.duration_ms = (end.as_millisecond() - new.at.as_millisecond()).max(0) as u64;
        new.at = end;
        new.installed = ran.installed;
        new.made = left.folders;
        let learned = Learned { ms: new.duration_ms, bytes, inodes };
        learned::learn(&self.stage.learned, &learned::key(&self.plan, &self.seen), learned);
        Ok(left.files)
    }

    /// Writes the receipt, then takes the mark away. Returns the receipt's hash.
    fn seal(&self, new: &mut Receipt, files_made: &[MadeFile]) -> std::io::Result<String> {
        new.files = receipt::save_files(files_made, &self.site.folder)?;
        let sha256 = receipt::save(new, &self.site.receipt(), &self.site.git_dir)?;
        mark::clear(&self.site.folder)?;
        Ok(sha256)
    }

    async fn versions(&self) -> BTreeMap<String, String> {
        let answers = self.site.folder.join("versions.log");
        let asking = Asking {
            spawner: &*self.stage.seams.spawner,
            environment: &self.site.environment,
            folder: &self.site.root,
            answers: &answers,
            job: &|number| self.job("version.", number),
        };
        self.stage.versions.of(&self.plan, &asking).await
    }

    /// Names a job, so that it can be ended; `None` where the act is to end already.
    fn job(&self, what: &str, step: usize) -> Option<String> {
        if self.stage.is_ended(self.intent) {
            return None;
        }
        let job = format!("{}.{what}{}", self.intent, step + 1);
        self.stage.jobs.borrow_mut().insert(self.intent.clone(), job.clone());
        Some(job)
    }

    /// Keeps what the lane is held against in this leg.
    fn keep(&self, tools: &BTreeMap<String, String>, receipt: &str) {
        let in_leg = InLeg {
            plan: self.plan.clone(),
            tools: tools.clone(),
            receipt: receipt.to_string(),
            overlay: self.overlay.clone(),
            index: self.index,
        };
        self.stage.provisioned.borrow_mut().insert(self.lane, in_leg);
    }
}

/// Returns what each of `names` is, looked at beside the loop.
async fn looked_at(root: &Path, names: &[String]) -> BTreeMap<String, FileState> {
    let (root, names) = (root.to_path_buf(), names.to_vec());
    tokio::task::spawn_blocking(move || states(&root, &names)).await.unwrap_or_default()
}

/// Fails where something outside the lane would be used or changed in its place.
fn isolated(site: &Site, plan: &ProvisionPlan) -> Result<(), Failure> {
    if let Some(reason) = probe::not_isolated(&site.root, plan) {
        return Err(Failure::new(Cause::NotIsolated, plan.display(), reason));
    }
    Ok(())
}

/// Fails where a program that a step stands or falls with is not there.
fn has_tools(site: &Site, plan: &ProvisionPlan) -> Result<(), Failure> {
    for (tool, root) in plan.tools_at_once() {
        if find(tool, &site.environment, &site.root.join(root)).is_none() {
            let detail = probe::tool_missing(tool, plan);
            return Err(Failure::new(Cause::ToolMissing, plan.display(), detail));
        }
    }
    Ok(())
}

/// Returns a failure as the scheduler takes it.
pub(super) fn told(failure: Failure, edited: bool, kept: bool) -> ProvisionFailure {
    let detail = if edited { failure.detail.clone() } else { failure.with_way_out() };
    ProvisionFailure {
        cmd: failure.cmd,
        exit_code: failure.exit_code,
        cause: failure.verdict.cause.word().into(),
        detail,
        log_tail: failure.log_tail,
        may_differ: failure.verdict.again,
        ended_by_us: failure.ended_by_us,
        edited,
        kept,
    }
}
