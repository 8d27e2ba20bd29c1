//! One installation in a lane, from the mark that it began to what it left.
#![expect(clippy::disallowed_methods, reason = "asks what the user's checkout has")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::perform::Stage;
use crate::ids::IntentId;
use crate::provision::apply::{self, Failure, Ran, Site};
use crate::provision::cause::Cause;
use crate::provision::made::{Made, made};
use crate::provision::mark;
use crate::provision::plan::ProvisionPlan;
use crate::provision::receipt::{self, Receipt};
use crate::schedule::Event;
use crate::worktree::{Installing, TreeState, Worktrees};

/// How many of the files that a command made stand for all of them.
const PRODUCTS_MAX: usize = 20;

/// Most files that are hidden from git one by one: it compares every path with each.
const HIDDEN_MAX: usize = 500;

/// One installation, from its mark to what it left.
pub(super) struct Installer<'a> {
    pub stage: &'a Stage,
    pub site: &'a Site,
    pub plan: &'a ProvisionPlan,
    pub before: Option<&'a Receipt>,
    pub intent: &'a IntentId,
    pub said: &'a RefCell<Vec<String>>,
}

impl Installer<'_> {
    fn failed(&self, cause: Cause, detail: impl Into<String>) -> Failure {
        Failure {
            log_tail: apply::tail(&self.site.log()),
            ..Failure::new(cause, self.plan.display(), detail)
        }
    }

    pub async fn install(
        &self,
        number: u32,
        job: &dyn Fn(usize) -> Option<String>,
    ) -> Result<(Ran, Made), Failure> {
        let stage = self.stage;
        let unknown = |detail: String| self.failed(Cause::Unknown, detail);
        let repository =
            stage.repository.clone().ok_or_else(|| unknown("a lane without a repository".into()))?;
        let in_repository = repository.clone();
        let begun = stage.ask(move |worktrees| worktrees.begin_install(&in_repository)).await;
        let installing = begun.map_err(unknown)?;
        self.tell_of_left_over(&installing);
        let ended = self.install_between(number, job, &installing).await;
        let end = move |worktrees: &dyn Worktrees| worktrees.end_install(&repository, installing);
        if let Err(error) = stage.ask(end).await {
            self.said
                .borrow_mut()
                .push(format!("the note of core.hooksPath could not be taken away: {error}"));
        }
        ended
    }

    async fn install_between(
        &self,
        number: u32,
        job: &dyn Fn(usize) -> Option<String>,
        installing: &Installing,
    ) -> Result<(Ran, Made), Failure> {
        let (stage, site) = (self.stage, self.site);
        let unknown = |detail: String| self.failed(Cause::Unknown, detail);
        let before = self.tree_state().await?;
        let earlier = self.unedited().await;
        let marked = self.begin(number, &before).await?;
        let told = |line: &str| {
            stage.answer(Event::Provisioning { intent: self.intent.clone(), cmd: line.to_string() });
        };
        let asked = || stage.is_ended(self.intent);
        let ran = apply::run(self.plan, site, &*stage.seams.spawner, job, &asked, &told).await;
        self.look_after_shared(installing).await;
        let mut ran = match ran {
            Ok(ran) => ran,
            Err(failure) => {
                // Where this can't be told, all that is changed is held against the next try.
                if let Ok(after) = self.tree_state().await
                    && mark::ended(&site.folder, &marked, &after).is_ok()
                    && after.head == marked.head
                    && changed(&marked.changed, &after.changed).is_empty()
                {
                    self.keep_what_was_not_touched(&failure);
                }
                return Err(failure);
            }
        };
        if stage.seams.worktrees.room(&site.root).is_ok_and(|room| room.bytes == 0 || room.inodes == 0) {
            return Err(self.failed(Cause::DiskFull, "no space is left where the lane is"));
        }
        let after = self.tree_state().await?;
        let changed = changed(&marked.changed, &after.changed);
        if after.head != marked.head || !changed.is_empty() {
            let noted = mark::ended(&site.folder, &marked, &after);
            noted.map_err(|error| unknown(error.to_string()))?;
        }
        if after.head != marked.head {
            return Err(self.failed(Cause::TrackedChanged, "it changed what is checked out"));
        }
        if !changed.is_empty() {
            let names: Vec<String> = changed.iter().take(5).map(|path| path.display().to_string()).collect();
            let more =
                if changed.len() > 5 { format!(" and {} more", changed.len() - 5) } else { String::new() };
            let detail = format!("it changed files that git tracks: {}{more}", names.join(", "));
            return Err(self.failed(Cause::TrackedChanged, detail));
        }
        let is_new = |path: &&PathBuf| !marked.others.contains(*path);
        let untracked: Vec<PathBuf> = after.untracked.iter().filter(is_new).cloned().collect();
        let ignored = after.ignored.iter().filter(is_new);
        let others: Vec<PathBuf> = untracked.iter().chain(ignored).cloned().chain(earlier).collect();
        let is_ours = |folder: &String| marked.ours.contains(folder) || self.made_before(folder);
        let whole = mark::whole(self.plan).into_iter().filter(is_ours);
        let (root, folders): (_, Vec<String>) = (site.root.clone(), whole.collect());
        let left = tokio::task::spawn_blocking(move || made(&root, &folders, &others)).await;
        let left = left.map_err(|error| unknown(error.to_string()))?;
        // One by one: a node may put its own beside them. What a command of the graph's makes may be meant to be
        // committed.
        let is_ours = self.plan.steps.iter().all(|step| step.row().is_some());
        let is_untracked =
            |path: &PathBuf| untracked.iter().any(|new| path.starts_with(new) || new.starts_with(path));
        let files = left.files.iter().map(|file| &file.path).filter(|_| is_ours).take(HIDDEN_MAX);
        let hidden: Vec<PathBuf> =
            left.folders.iter().chain(files).filter(|path| is_untracked(path)).cloned().collect();
        stage.exclude(site, &hidden).await;
        for installed in ran.installed.iter_mut().filter(|installed| installed.witnesses.is_empty()) {
            let products = left.files.iter().map(|file| file.path.clone());
            installed.products = products.take(PRODUCTS_MAX).collect();
        }
        Ok((ran, left))
    }

    /// Takes the old receipt away and leaves the mark; where one is there, or the tree is not to be trusted,
    /// what is half-made goes first.
    async fn begin(&self, number: u32, now: &TreeState) -> Result<mark::Mark, Failure> {
        let (site, plan) = (self.site, self.plan);
        let io = |error: std::io::Error| {
            let full = error.kind() == std::io::ErrorKind::StorageFull;
            self.failed(if full { Cause::DiskFull } else { Cause::Unknown }, error.to_string())
        };
        let links = mark::links(&site.root, plan);
        let (root, names) = (site.root.clone(), links.clone());
        let asked = self.stage.ask(move |worktrees| worktrees.tracked(&root, &names)).await;
        let of_git = asked.map_err(|detail| self.failed(Cause::Unknown, detail))?;
        if let Some(link) = of_git.first() {
            let detail =
                format!("{link} is a symbolic link that git tracks: an install would go where it leads");
            return Err(self.failed(Cause::NotIsolated, detail));
        }
        for link in links {
            mark::unlink(&site.root.join(link)).map_err(io)?;
        }
        let generation = self.intent.generation();
        if let Some(half_made) = mark::of_tree(&site.folder, &site.root) {
            let (root, names) = (site.root.clone(), half_made.removable(generation));
            let inside: Vec<String> = names.iter().map(|name| format!("{name}/**")).collect();
            let asked = self.stage.ask(move |worktrees| worktrees.tracked(&root, &inside)).await;
            let tracked = asked.map_err(|detail| self.failed(Cause::Unknown, detail))?;
            let folders = mark::removable(&site.root, names.iter(), &tracked);
            let removed = tokio::task::spawn_blocking(move || mark::remove(&folders)).await;
            removed.map_err(|error| self.failed(Cause::Unknown, error.to_string()))?.map_err(io)?;
        }
        let made = self.before.map_or(&[][..], |receipt| &receipt.made);
        let (folder, root) = (&site.folder, &site.root);
        let beginning = mark::Beginning { folder, root, plan, number, generation, made };
        let marked = mark::set(&beginning, now).map_err(io)?;
        receipt::withdraw(&site.receipt(), &site.git_dir).map_err(io)?;
        Ok(marked)
    }

    /// Where a tool found manifest and lockfile at odds and touched nothing, what was installed before is
    /// what it was, and so is its receipt: stale, and true.
    fn keep_what_was_not_touched(&self, failure: &Failure) {
        let Some(before) = self.before.filter(|_| failure.verdict.cause == Cause::LockMismatch) else {
            return;
        };
        if receipt::is_whole(before, &self.site.root)
            && receipt::save(before, &self.site.receipt(), &self.site.git_dir).is_ok()
        {
            let _ = mark::clear(&self.site.folder);
        }
    }

    async fn tree_state(&self) -> Result<TreeState, Failure> {
        let root = self.site.root.clone();
        let asked = self.stage.ask(move |worktrees| worktrees.tree_state(&root)).await;
        asked.map_err(|detail| self.failed(Cause::Unknown, detail))
    }

    fn made_before(&self, folder: &str) -> bool {
        self.before.is_some_and(|before| before.made.iter().any(|made| made == Path::new(folder)))
    }

    /// Returns the files of an earlier installation that are as it left them.
    async fn unedited(&self) -> Vec<PathBuf> {
        let Some(before) = self.before.filter(|before| before.files.is_some()) else { return Vec::new() };
        let (before, folder, root) = (before.clone(), self.site.folder.clone(), self.site.root.clone());
        let compared = tokio::task::spawn_blocking(move || {
            let files = receipt::load_files(&before, &folder).into_iter();
            files.filter(|file| file.is_as_made(&root)).map(|file| file.path).collect()
        });
        compared.await.unwrap_or_default()
    }

    /// Says what an installation that came to no end left for every worktree. It may be the user's by now.
    fn tell_of_left_over(&self, installing: &Installing) {
        let said = |value: &Option<String>| value.clone().unwrap_or_else(|| "unset".into());
        let Some(was) = &installing.left_over else { return };
        let way = match was {
            Some(was) => format!("git config core.hooksPath '{was}'"),
            None => "git config --unset core.hooksPath".to_string(),
        };
        self.said.borrow_mut().push(format!(
            "core.hooksPath is {} for every worktree, and was {} before an installation that came to no end; `{way}` puts it back",
            said(&installing.before.hooks_path),
            said(was)
        ));
    }

    /// Returns whether a value of `core.hooksPath` makes sense in the user's own checkout: then an installer for a
    /// lane is not who put it there, as far as anybody can tell.
    fn may_be_the_users(&self, value: Option<&str>) -> bool {
        let Some(value) = value else { return true };
        if Path::new(value).starts_with(&self.site.root) {
            return false;
        }
        let repository = self.stage.repository.as_ref();
        repository.is_some_and(|repository| repository.folder().join(value).is_dir())
    }

    /// Puts `core.hooksPath` back where the installation changed it, and names what else it changed for
    /// every worktree.
    async fn look_after_shared(&self, installing: &Installing) {
        let stage = self.stage;
        let Some(repository) = stage.repository.clone() else { return };
        let in_repository = repository.clone();
        let Ok(after) = stage.ask(move |worktrees| worktrees.shared(&in_repository)).await else { return };
        let before = &installing.before;
        let by = self.plan.display().unwrap_or_default();
        // Among others, what it was when this one began may have been an installer's already.
        let then = if installing.among_others { &installing.original } else { &before.hooks_path }.clone();
        let is_new = after.hooks_path != before.hooks_path || installing.among_others;
        let is_other = is_new && after.hooks_path != then;
        let is_named = is_other && self.may_be_the_users(after.hooks_path.as_deref());
        if is_other && !is_named {
            let (now, original) = (after.hooks_path.clone(), then.clone());
            let put_back = move |worktrees: &dyn Worktrees| {
                worktrees.put_back_hooks_path(&repository, now.as_deref(), then.as_deref())
            };
            let said = |value: &Option<String>| value.clone().unwrap_or_else(|| "unset".into());
            let was = format!("core.hooksPath {} (it was {})", said(&after.hooks_path), said(&original));
            let note = match stage.ask(put_back).await {
                Ok(true) => format!("`{by}` set {was} for every worktree; it was put back"),
                Ok(false) => {
                    format!("`{by}` set {was} for every worktree; somebody changed it since, so it stays")
                }
                Err(error) => {
                    format!("`{by}` set {was} for every worktree, and it could not be put back: {error}")
                }
            };
            self.said.borrow_mut().push(note);
        }
        let mut changes = after.changes_since(before);
        if is_named {
            changes.push("core.hooksPath".into());
        }
        let changes = changes.into_iter();
        let notes = changes.map(|change| format!("while `{by}` ran, {change} changed for every worktree"));
        self.said.borrow_mut().extend(notes);
    }
}

/// Returns the tracked files that are not what they were.
fn changed(before: &BTreeMap<PathBuf, String>, after: &BTreeMap<PathBuf, String>) -> BTreeSet<PathBuf> {
    let names = before.keys().chain(after.keys());
    names.filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}
