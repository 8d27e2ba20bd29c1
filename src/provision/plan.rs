//! The ladder: what a lane's roots look like → which commands make it fit (DESIGN.md section 4).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::ecosystem::{Alone, Ecosystem, Family, When};
use super::ecosystems::ECOSYSTEMS;
use crate::graph::model::{ProvisionChoice, ProvisionStep};

/// The places of the repository's own hook, the first that is tracked wins.
pub const HOOK_PLACES: [&str; 2] = [".omg/provision.sh", ".harness/provision.sh"];

/// What was seen of a lane before it is provisioned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Content of those probed files that exist, by their path in the lane.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Which of them git tracks; a lockfile that it does not is nobody's word.
    pub tracked: BTreeSet<String>,
    /// The repository's hook at the base commit.
    pub hook: Option<Hook>,
    /// A hook that is there and not tracked at the base commit, so not run.
    pub stray_hook: Option<String>,
    /// What is said of set-up files of other tools.
    pub hints: Vec<String>,
}

impl Seen {
    fn text(&self, name: &str) -> String {
        let bytes = self.files.get(name).map(Vec::as_slice).unwrap_or_default();
        // Package managers read over a byte order mark.
        String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)).into_owned()
    }
}

/// The repository's own hook, as it is at the base commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Its place in the repository.
    pub place: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether git has it as executable.
    pub executable: bool,
}

impl Hook {
    /// Returns whether it is started by itself and not through `sh`: it is executable and names its
    /// interpreter. Without one the kernel refuses it, with one `sh` would ignore it.
    pub fn runs_itself(&self) -> bool {
        self.executable && self.bytes.starts_with(b"#!")
    }
}

/// Which rung of the ladder answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rung {
    /// The graph's own word.
    Explicit,
    /// The repository's hook.
    Hook,
    /// Marker files.
    Detected,
    /// Nothing to do.
    Nothing,
}

/// What to run, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisionPlan {
    /// Which rung answered.
    pub rung: Rung,
    /// The commands; empty where there is nothing to do.
    pub steps: Vec<Step>,
    /// Why there is nothing to do, where there is not.
    pub reason: Option<String>,
    /// What a person should know, one line each.
    pub warnings: Vec<String>,
    /// The roots that were looked at, the lane's own (`""`) first.
    pub roots: Vec<String>,
    /// Whether Node will be looking for packages: there is a `package.json`, and something is run.
    pub is_node: bool,
    /// Whether no state of the lane can change it: the graph says that there is nothing to do.
    pub settled: bool,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it runs, relative to the lane's root; `""` is that root.
    pub root: String,
    /// What is run.
    pub command: StepCommand,
}

/// What a [`Step`] runs.
#[derive(Clone, Debug)]
pub enum StepCommand {
    /// A shell command line of the graph's, through the graph's shell.
    Line(String),
    /// The repository's hook.
    Hook(Hook),
    /// The command of a row, through `sh -c`.
    Ours(&'static Ecosystem),
}

impl PartialEq for StepCommand {
    fn eq(&self, other: &StepCommand) -> bool {
        match (self, other) {
            (StepCommand::Line(one), StepCommand::Line(two)) => one == two,
            (StepCommand::Hook(one), StepCommand::Hook(two)) => one == two,
            (StepCommand::Ours(one), StepCommand::Ours(two)) => one.name == two.name,
            (StepCommand::Line(_) | StepCommand::Hook(_) | StepCommand::Ours(_), _) => false,
        }
    }
}

impl Eq for StepCommand {}

impl Step {
    /// Returns what is run, for people and the journal.
    pub fn display(&self) -> String {
        let line = match &self.command {
            StepCommand::Line(line) => line,
            StepCommand::Hook(hook) => &hook.place,
            StepCommand::Ours(row) => row.command,
        };
        if self.root.is_empty() { line.to_string() } else { format!("(cd {} && {line})", self.root) }
    }

    /// Returns the text of what a person wrote; nothing where it is ours.
    pub fn script(&self) -> Cow<'_, str> {
        match &self.command {
            StepCommand::Line(line) => line.into(),
            StepCommand::Hook(hook) => String::from_utf8_lossy(&hook.bytes),
            StepCommand::Ours(_) => "".into(),
        }
    }

    /// Returns its row, where it is ours.
    pub fn row(&self) -> Option<&'static Ecosystem> {
        match self.command {
            StepCommand::Ours(row) => Some(row),
            StepCommand::Line(_) | StepCommand::Hook(_) => None,
        }
    }

    /// Returns what may not happen beside it.
    pub fn alone(&self) -> Alone {
        self.row().map_or(Alone::No, |row| row.alone)
    }
}

impl ProvisionPlan {
    /// Returns what is run as one line; `None` where there is nothing to do.
    pub fn display(&self) -> Option<String> {
        (!self.steps.is_empty())
            .then(|| self.steps.iter().map(Step::display).collect::<Vec<_>>().join(" && "))
    }

    /// Returns the rows that it uses.
    pub fn rows(&self) -> impl Iterator<Item = &'static Ecosystem> {
        self.steps.iter().filter_map(Step::row)
    }

    /// Returns the programs that it can't begin without, each with the root of its step. What comes after a
    /// command that a person wrote may be put there by that.
    pub fn tools_at_once(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.steps.iter().map_while(|step| Some((step.row()?.tool, step.root.as_str())))
    }
}

/// Returns a path below a root.
pub fn below(root: &str, name: &str) -> String {
    if root.is_empty() { name.to_string() } else { format!("{root}/{name}") }
}

/// Returns the files in the lane that a list of requirements at `name` includes, or is constrained by.
pub fn included(name: &str, text: &str) -> Vec<String> {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let of_line = |line: &str| {
        let words = ["--requirement", "--constraint", "-r", "-c"];
        let place = words.iter().find_map(|word| line.trim().strip_prefix(word))?;
        let place = place.trim_start_matches('=').split(" #").next()?.trim();
        let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in place.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()?),
                part => parts.push(part),
            }
        }
        (!place.contains("://") && !place.starts_with('/')).then(|| parts.join("/"))
    };
    text.lines().filter_map(of_line).collect()
}

/// Returns the roots that are looked at: the lane's own, then those the graph names, each once.
pub fn roots_of(further: &[String]) -> Vec<String> {
    let mut roots = vec![String::new()];
    for root in further {
        let parts: Vec<&str> = root.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let root = parts.join("/");
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

/// Returns what makes a lane fit that looks like `seen`, where the graph says `choice` and names the
/// further roots `further`.
pub fn plan(choice: &ProvisionChoice, further: &[String], seen: &Seen) -> ProvisionPlan {
    let roots = roots_of(further);
    let is_node = roots.iter().any(|root| seen.files.contains_key(&below(root, "package.json")));
    let plan = by_choice(choice, roots, seen);
    ProvisionPlan { is_node: is_node && !plan.steps.is_empty(), ..plan }
}

fn by_choice(choice: &ProvisionChoice, roots: Vec<String>, seen: &Seen) -> ProvisionPlan {
    match choice {
        ProvisionChoice::Nothing => ProvisionPlan {
            reason: Some("`provision: none`".into()),
            settled: true,
            ..empty(Rung::Nothing, roots)
        },
        ProvisionChoice::Ladder => ladder(roots, seen),
        ProvisionChoice::Steps(steps) => {
            let mut plan = empty(Rung::Explicit, roots.clone());
            for step in steps {
                match step {
                    ProvisionStep::Command(line) => plan
                        .steps
                        .push(Step { root: String::new(), command: StepCommand::Line(line.clone()) }),
                    ProvisionStep::Auto => {
                        let rest = ladder(roots.clone(), seen);
                        plan.steps.extend(rest.steps);
                        plan.warnings.extend(rest.warnings);
                    }
                }
            }
            if plan.steps.is_empty() {
                plan.rung = Rung::Nothing;
                plan.reason = Some(NOTHING_KNOWN.into());
            }
            plan
        }
    }
}

const NOTHING_KNOWN: &str = "no marker file of a known tool";

fn empty(rung: Rung, roots: Vec<String>) -> ProvisionPlan {
    ProvisionPlan {
        rung,
        steps: Vec::new(),
        reason: None,
        warnings: Vec::new(),
        roots,
        is_node: false,
        settled: false,
    }
}

/// The rungs below the graph's own word.
fn ladder(roots: Vec<String>, seen: &Seen) -> ProvisionPlan {
    if let Some(hook) = &seen.hook {
        let step = Step { root: String::new(), command: StepCommand::Hook(hook.clone()) };
        return ProvisionPlan { steps: vec![step], ..empty(Rung::Hook, roots) };
    }
    let mut plan = empty(Rung::Detected, roots.clone());
    if let Some(place) = &seen.stray_hook {
        plan.warnings.push(format!("{place} is not in the base commit, so it is not run"));
    }
    for root in roots {
        let inside = format!("{root}/");
        if !root.is_empty() && !seen.files.keys().any(|name| name.starts_with(&inside)) {
            plan.warnings.push(format!("root `{root}` has no marker file of a known tool"));
        }
        let detected = detect(&View { root: &root, seen }, &mut plan.warnings);
        plan.steps.extend(
            detected.into_iter().map(|row| Step { root: root.clone(), command: StepCommand::Ours(row) }),
        );
    }
    if plan.steps.is_empty() {
        plan.rung = Rung::Nothing;
        plan.reason = Some(
            plan.roots
                .iter()
                .find_map(|root| View { root, seen }.why_nothing())
                .unwrap_or(NOTHING_KNOWN)
                .into(),
        );
        // Nothing will be there that they would have made.
        plan.warnings.extend(seen.hints.clone());
    }
    plan
}

/// Returns the rows that answer for a root: of each family the first that applies, but where
/// `packageManager` names another.
fn detect(view: &View<'_>, warnings: &mut Vec<String>) -> Vec<&'static Ecosystem> {
    let mut found: Vec<&'static Ecosystem> = Vec::new();
    let mut at = 0;
    while at < ECOSYSTEMS.len() {
        let family = ECOSYSTEMS[at].family;
        let end = at + ECOSYSTEMS[at..].iter().take_while(|row| row.family == family).count();
        let applying: Vec<&'static Ecosystem> =
            ECOSYSTEMS[at..end].iter().filter(|row| view.applies(row)).collect();
        at = end;
        let Some(first) = applying.first().copied() else { continue };
        let declared = view.package_manager();
        let by_name = declared
            .as_deref()
            .and_then(|name| applying.iter().find(|row| row.tool == name && !row.locks.is_empty()).copied());
        let chosen = by_name.unwrap_or(first);
        let mut locked: Vec<&str> =
            applying.iter().flat_map(|row| row.locks).filter(|lock| view.is_tracked(lock)).copied().collect();
        locked.dedup();
        if by_name.is_none() && locked.iter().any(|lock| !chosen.locks.contains(lock)) {
            let way = match family {
                Family::Node => "`packageManager` in package.json decides",
                _ => "`provision` in the graph can name another",
            };
            warnings.push(format!(
                "several lockfiles ({}): {} is taken; {way}",
                locked.join(", "),
                chosen.name
            ));
        }
        if chosen.unpinned {
            let manifest = chosen.manifests.first().copied().unwrap_or("its manifest");
            warnings.push(format!(
                "{} has dependencies and no tracked lockfile: versions are not pinned",
                below(view.root, manifest)
            ));
        }
        found.push(chosen);
    }
    found
}

/// One root, as it was seen.
struct View<'a> {
    root: &'a str,
    seen: &'a Seen,
}

impl View<'_> {
    fn is_tracked(&self, name: &str) -> bool {
        self.seen.tracked.contains(&below(self.root, name))
    }

    fn text(&self, name: &str) -> String {
        self.seen.text(&below(self.root, name))
    }

    fn applies(&self, row: &Ecosystem) -> bool {
        let locked = || row.locks.iter().any(|lock| self.is_tracked(lock));
        match row.when {
            When::Locked => locked(),
            When::LockedWith(text, other) => {
                locked()
                    && (self.is_tracked(other) || row.locks.iter().any(|lock| self.text(lock).contains(text)))
            }
            When::Tracked(names) => names.iter().all(|name| self.is_tracked(name)),
            When::Holds(name, text) => self.is_tracked(name) && self.text(name).contains(text),
            // One that can't be read is the installer's to complain of.
            When::NodeDependencies if self.has("package.json") && self.manifest().is_null() => true,
            When::NodeDependencies => {
                let manifest = self.manifest();
                ["dependencies", "devDependencies", "optionalDependencies"]
                    .iter()
                    .any(|key| manifest[*key].as_object().is_some_and(|entries| !entries.is_empty()))
            }
            When::PythonProject => {
                let table = self.text("pyproject.toml").parse::<toml::Table>();
                self.has("pyproject.toml") && table.map_or(true, |table| table.contains_key("project"))
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.seen.files.contains_key(&below(self.root, name))
    }

    fn manifest(&self) -> serde_json::Value {
        serde_json::from_str(&self.text("package.json")).unwrap_or(serde_json::Value::Null)
    }

    /// Returns the package manager that `package.json` declares.
    fn package_manager(&self) -> Option<String> {
        let manifest = self.manifest();
        let declared = manifest["packageManager"].as_str();
        let declared = declared.or_else(|| manifest["devEngines"]["packageManager"]["name"].as_str())?;
        Some(declared.split('@').next().unwrap_or(declared).to_string())
    }

    /// Returns why a manifest that is there asks for nothing.
    fn why_nothing(&self) -> Option<&'static str> {
        if self.has("package.json") {
            return Some("package.json has no dependencies");
        }
        if self.has("pyproject.toml") {
            return Some("pyproject.toml has no project table");
        }
        // A plain fetch would create the lockfile and make the lane dirty.
        self.has("Cargo.toml")
            .then_some("Cargo.toml has no tracked Cargo.lock; cargo resolves when it builds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(files: &[(&str, &str)]) -> Seen {
        Seen {
            files: files.iter().map(|(name, text)| (name.to_string(), text.as_bytes().to_vec())).collect(),
            tracked: files.iter().map(|(name, _)| name.to_string()).collect(),
            ..Seen::default()
        }
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: Option<&str>, warnings: usize) {
        let plan = plan(&ProvisionChoice::Ladder, &[], &seen(files));
        assert_eq!(plan.display().as_deref(), expected);
        assert_eq!(plan.warnings.len(), warnings, "{:?}", plan.warnings);
        assert_eq!(plan.reason.is_some(), expected.is_none());
    }

    #[test]
    fn each_ecosystem_has_its_command() {
        check(&[("pnpm-lock.yaml", "")], Some("pnpm install --frozen-lockfile --prefer-offline"), 0);
        check(&[("package-lock.json", "")], Some("npm ci"), 0);
        check(&[("npm-shrinkwrap.json", "")], Some("npm ci"), 0);
        check(&[("yarn.lock", "# yarn lockfile v1")], Some("yarn install --frozen-lockfile"), 0);
        check(&[("yarn.lock", "__metadata:\n")], Some("yarn install --immutable"), 0);
        check(&[("bun.lock", "")], Some("bun install --frozen-lockfile"), 0);
        check(&[("uv.lock", ""), ("pyproject.toml", "[project]\n")], Some("uv sync --locked"), 0);
        check(&[("Cargo.toml", ""), ("Cargo.lock", "")], Some("cargo fetch --locked"), 0);
        check(&[("go.mod", "")], Some("go mod download"), 0);
        check(&[("Cargo.toml", "")], None, 0);
        check(&[("package.json", "{}")], None, 0);
        check(&[], None, 0);
    }

    #[test]
    fn several_ecosystems_get_a_step_each() {
        check(&[("package-lock.json", ""), ("Cargo.lock", "")], Some("npm ci && cargo fetch --locked"), 0);
    }

    #[test]
    fn the_declared_manager_decides_between_lockfiles() {
        let both = [("package-lock.json", ""), ("yarn.lock", ""), ("pnpm-lock.yaml", "")];
        check(&both, Some("pnpm install --frozen-lockfile --prefer-offline"), 1);
        let declared = [both.as_slice(), &[("package.json", r#"{"packageManager":"npm@11.1.0"}"#)]].concat();
        check(&declared, Some("npm ci"), 0);
    }

    #[test]
    fn no_lockfile_means_no_lockfile_is_written() {
        check(&[("package.json", r#"{"dependencies":{"a":"1"}}"#)], Some("npm install --no-package-lock"), 1);
        let mut untracked = seen(&[("package-lock.json", "{}")]);
        untracked.tracked.clear();
        assert_eq!(plan(&ProvisionChoice::Ladder, &[], &untracked).rung, Rung::Nothing);
    }

    #[test]
    fn python_never_goes_into_an_ambient_interpreter() {
        let tool_only = [("pyproject.toml", "[tool.ruff]\n"), ("requirements.txt", "a")];
        let plan = plan(&ProvisionChoice::Ladder, &[], &seen(&tool_only));
        let line = plan.display().unwrap();
        assert!(line.contains("-m venv --clear .venv") && line.ends_with("-r requirements.txt"), "{line}");
        check(&[("pyproject.toml", "[tool.ruff]\n")], None, 0);
    }

    #[test]
    fn the_ladder_stops_at_its_first_rung_that_answers() {
        let mut all = seen(&[("package-lock.json", "")]);
        let hook = Hook { place: HOOK_PLACES[0].into(), bytes: b"true".to_vec(), executable: true };
        all.hook = Some(hook.clone());
        let explicit = ProvisionChoice::Steps(vec![ProvisionStep::Command("make deps".into())]);
        assert_eq!(plan(&explicit, &[], &all).display().as_deref(), Some("make deps"));
        assert_eq!(plan(&ProvisionChoice::Nothing, &[], &all).steps, []);
        assert_eq!(plan(&ProvisionChoice::Ladder, &[], &all).display().as_deref(), Some(".omg/provision.sh"));
        let added = ProvisionChoice::Steps(vec![ProvisionStep::Auto, ProvisionStep::Command("x".into())]);
        assert_eq!(plan(&added, &[], &all).display().as_deref(), Some(".omg/provision.sh && x"));
        all.hook = None;
        all.stray_hook = Some(HOOK_PLACES[0].into());
        let stray = plan(&ProvisionChoice::Ladder, &[], &all);
        assert_eq!((stray.display().as_deref(), stray.warnings.len()), (Some("npm ci"), 1));
        assert!(!hook.runs_itself());
        assert!(Hook { bytes: b"#!/bin/sh\n".to_vec(), ..hook }.runs_itself());
    }

    #[test]
    fn further_roots_get_steps_of_their_own() {
        let seen = seen(&[
            ("package-lock.json", ""),
            ("web/pnpm-lock.yaml", ""),
            ("api/uv.lock", ""),
            ("x/go.mod", ""),
        ]);
        let roots = ["web".to_string(), "./api/".into(), "web".into()];
        let plan = plan(&ProvisionChoice::Ladder, &roots, &seen);
        let line = "npm ci && (cd web && pnpm install --frozen-lockfile --prefer-offline) && (cd api && uv sync --locked)";
        assert_eq!(plan.display().as_deref(), Some(line));
    }

    #[test]
    fn every_row_answers_for_its_own_markers() {
        for row in ECOSYSTEMS {
            let files: Vec<(&str, &str)> = match row.when {
                When::Locked => vec![(row.locks[0], "")],
                When::LockedWith(text, _) => vec![(row.locks[0], text)],
                When::Tracked(names) => names.iter().map(|name| (*name, "")).collect(),
                When::Holds(name, text) => vec![(name, text)],
                When::NodeDependencies => vec![("package.json", r#"{"devDependencies":{"a":"1"}}"#)],
                When::PythonProject => vec![("pyproject.toml", "[project]\nname='a'\n")],
            };
            check(&files, Some(row.command), usize::from(row.unpinned));
        }
    }

    #[test]
    fn lists_of_requirements_name_what_they_include() {
        let text = "-r base.txt\n--constraint=../limits.txt # x\nsix==1\n-rother/more.txt\n-r https://x/y\n-r /etc/x\n-c ../../out";
        assert_eq!(included("reqs/dev.txt", text), ["reqs/base.txt", "limits.txt", "reqs/other/more.txt"]);
    }

    #[test]
    fn families_lie_together_and_names_are_unique() {
        let families: Vec<Family> = ECOSYSTEMS.iter().map(|row| row.family).collect();
        let mut runs = families.clone();
        runs.dedup();
        let mut sorted = runs.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(runs.len(), sorted.len(), "a family is in two places of the table");
        for row in ECOSYSTEMS {
            assert_eq!(ECOSYSTEMS.iter().filter(|other| other.name == row.name).count(), 1, "{}", row.name);
        }
    }
}
