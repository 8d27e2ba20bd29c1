//! The ladder: what a lane's root looks like → which commands make it fit (DESIGN.md section 4).

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use crate::graph::model::{ProvisionChoice, ProvisionStep};

/// Files at a lane's root that say what has to be installed, or change what an install does.
/// All of them are part of the fingerprint, absent ones too.
pub const MARKERS: [&str; 26] = [
    ".cargo/config.toml",
    ".npmrc",
    ".pnpmfile.cjs",
    ".python-version",
    ".yarnrc",
    ".yarnrc.yml",
    "Cargo.lock",
    "Cargo.toml",
    "bun.lock",
    "bun.lockb",
    "bunfig.toml",
    "go.mod",
    "go.sum",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "package.json",
    "pip.conf",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "pyproject.toml",
    "requirements.txt",
    "rust-toolchain.toml",
    "setup.py",
    "uv.lock",
    "uv.toml",
    "yarn.lock",
];

/// The places of the repository's own hook, the first that is tracked wins.
pub const HOOK_PLACES: [&str; 2] = [".omg/provision.sh", ".harness/provision.sh"];

/// What was seen of a lane before it is provisioned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Content of those [`MARKERS`] and further inputs that exist.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Which of them git tracks; a lockfile that it does not is nobody's word.
    pub tracked: BTreeSet<String>,
    /// The repository's hook at the base commit.
    pub hook: Option<Hook>,
    /// A hook that is there and not tracked at the base commit, so not run.
    pub stray_hook: Option<String>,
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
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is run.
    pub command: StepCommand,
    /// The program that it stands or falls with, looked up before it is started.
    pub tool: Option<&'static str>,
    /// Whether two of them side by side damage a cache that lanes share.
    pub one_at_a_time: bool,
}

/// What a [`Step`] runs, in the lane's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepCommand {
    /// A shell command line of the graph's, through the graph's shell.
    Line(String),
    /// The repository's hook.
    Hook(Hook),
    /// A command line of ours, through `sh -c`.
    Ours(&'static str),
}

impl Step {
    /// Returns what is run, for people and the journal.
    pub fn display(&self) -> &str {
        match &self.command {
            StepCommand::Line(line) => line,
            StepCommand::Hook(hook) => &hook.place,
            StepCommand::Ours(line) => line,
        }
    }

    /// Returns whether a person wrote it, so that a repeat may end differently for all we know.
    pub fn is_opaque(&self) -> bool {
        match self.command {
            StepCommand::Line(_) | StepCommand::Hook(_) => true,
            StepCommand::Ours(_) => false,
        }
    }

    fn ours(line: &'static str, tool: &'static str) -> Step {
        Step { command: StepCommand::Ours(line), tool: Some(tool), one_at_a_time: false }
    }
}

impl ProvisionPlan {
    /// Returns what is run as one line; `None` where there is nothing to do.
    pub fn display(&self) -> Option<String> {
        (!self.steps.is_empty())
            .then(|| self.steps.iter().map(Step::display).collect::<Vec<_>>().join(" && "))
    }
}

/// Returns what makes a lane fit that looks like `seen`, where the graph says `choice`.
pub fn plan(choice: &ProvisionChoice, seen: &Seen) -> ProvisionPlan {
    match choice {
        ProvisionChoice::Nothing => ProvisionPlan {
            rung: Rung::Nothing,
            steps: Vec::new(),
            reason: Some("`provision: none`".into()),
            warnings: Vec::new(),
        },
        ProvisionChoice::Ladder => ladder(seen),
        ProvisionChoice::Steps(steps) => {
            let mut plan =
                ProvisionPlan { rung: Rung::Explicit, steps: Vec::new(), reason: None, warnings: Vec::new() };
            for step in steps {
                match step {
                    ProvisionStep::Command(line) => plan.steps.push(Step {
                        command: StepCommand::Line(line.clone()),
                        tool: None,
                        one_at_a_time: false,
                    }),
                    ProvisionStep::Auto => {
                        let rest = ladder(seen);
                        plan.steps.extend(rest.steps);
                        plan.warnings.extend(rest.warnings);
                    }
                }
            }
            if plan.steps.is_empty() {
                plan.reason = Some("no marker file of a known tool".into());
            }
            plan
        }
    }
}

/// The rungs below the graph's own word.
fn ladder(seen: &Seen) -> ProvisionPlan {
    if let Some(hook) = &seen.hook {
        let step = Step { command: StepCommand::Hook(hook.clone()), tool: None, one_at_a_time: false };
        return ProvisionPlan { rung: Rung::Hook, steps: vec![step], reason: None, warnings: Vec::new() };
    }
    let mut warnings = Vec::new();
    if let Some(place) = &seen.stray_hook {
        warnings.push(format!("{place} is not in the base commit, so it is not run"));
    }
    let mut steps = Vec::new();
    let mut reasons = Vec::new();
    for found in [node(seen, &mut warnings), python(seen, &mut warnings), cargo(seen), go(seen)] {
        match found {
            Found::Step(step) => steps.push(step),
            Found::NothingToDo(reason) => reasons.push(reason),
            Found::Absent => {}
        }
    }
    if steps.is_empty() {
        if reasons.is_empty() {
            reasons.push("no marker file of a known tool");
        }
        return ProvisionPlan { rung: Rung::Nothing, steps, reason: Some(reasons.join("; ")), warnings };
    }
    ProvisionPlan { rung: Rung::Detected, steps, reason: None, warnings }
}

/// What an ecosystem asks for.
enum Found {
    Step(Step),
    NothingToDo(&'static str),
    Absent,
}

fn node(seen: &Seen, warnings: &mut Vec<String>) -> Found {
    let pnpm = Step::ours("pnpm install --frozen-lockfile --prefer-offline", "pnpm");
    let npm = Step::ours("npm ci", "npm");
    let berry = seen.text("yarn.lock").contains("__metadata:") || seen.files.contains_key(".yarnrc.yml");
    let yarn = if berry {
        Step::ours("yarn install --immutable", "yarn")
    } else {
        // Measured: two installs on a cold cache at once fail both, three times of three.
        Step { one_at_a_time: true, ..Step::ours("yarn install --frozen-lockfile", "yarn") }
    };
    let bun = Step::ours("bun install --frozen-lockfile", "bun");
    let candidates: [(&str, &[&str], Step); 4] = [
        ("pnpm", &["pnpm-lock.yaml"], pnpm),
        ("npm", &["package-lock.json", "npm-shrinkwrap.json"], npm),
        ("yarn", &["yarn.lock"], yarn),
        ("bun", &["bun.lock", "bun.lockb"], bun),
    ];
    let locked: Vec<&(&str, &[&str], Step)> = candidates
        .iter()
        .filter(|(_, locks, _)| locks.iter().any(|lock| seen.tracked.contains(*lock)))
        .collect();
    let manifest: serde_json::Value =
        serde_json::from_str(&seen.text("package.json")).unwrap_or(serde_json::Value::Null);
    let declared = manifest["packageManager"].as_str().map(|text| text.split('@').next().unwrap_or(text));
    if let Some(declared) = declared
        && let Some((.., step)) = locked.iter().find(|(name, ..)| *name == declared)
    {
        return Found::Step(step.clone());
    }
    match locked.as_slice() {
        [] => {}
        [(.., step)] => return Found::Step(step.clone()),
        [(first, _, step), ..] => {
            let names: Vec<&str> = locked
                .iter()
                .flat_map(|(_, locks, _)| locks.iter().copied())
                .filter(|lock| seen.tracked.contains(*lock))
                .collect();
            warnings.push(format!(
                "several lockfiles ({}): {first} is taken; `packageManager` in package.json decides",
                names.join(", ")
            ));
            return Found::Step(step.clone());
        }
    }
    let has = |key: &str| manifest[key].as_object().is_some_and(|entries| !entries.is_empty());
    if has("dependencies") || has("devDependencies") || has("optionalDependencies") {
        warnings
            .push("package.json has dependencies and no tracked lockfile: versions are not pinned".into());
        return Found::Step(Step::ours("npm install --no-package-lock", "npm"));
    }
    if seen.files.contains_key("package.json") {
        return Found::NothingToDo("package.json has no dependencies");
    }
    Found::Absent
}

fn python(seen: &Seen, warnings: &mut Vec<String>) -> Found {
    // The environment ignores itself, as newer versions of venv have it do, or it would make the lane dirty.
    const REQUIREMENTS: &str = "python3 -m venv .venv && printf '*\\n' > .venv/.gitignore && .venv/bin/python -m pip install --require-virtualenv -r requirements.txt";
    const PROJECT: &str = "python3 -m venv .venv && printf '*\\n' > .venv/.gitignore && .venv/bin/python -m pip install --require-virtualenv -e .";
    if seen.tracked.contains("uv.lock") {
        return Found::Step(Step::ours("uv sync --locked", "uv"));
    }
    let pyproject: toml::Table = seen.text("pyproject.toml").parse().unwrap_or_default();
    if pyproject.contains_key("project") {
        warnings.push("pyproject.toml has no tracked uv.lock: versions are not pinned".into());
        return Found::Step(Step::ours(PROJECT, "python3"));
    }
    if seen.tracked.contains("requirements.txt") {
        return Found::Step(Step::ours(REQUIREMENTS, "python3"));
    }
    if seen.files.contains_key("pyproject.toml") {
        return Found::NothingToDo("pyproject.toml has no project table");
    }
    Found::Absent
}

fn cargo(seen: &Seen) -> Found {
    if seen.tracked.contains("Cargo.lock") {
        return Found::Step(Step::ours("cargo fetch --locked", "cargo"));
    }
    if seen.files.contains_key("Cargo.toml") {
        // A plain fetch would create the lockfile and make the lane dirty.
        return Found::NothingToDo("Cargo.toml has no tracked Cargo.lock; cargo resolves when it builds");
    }
    Found::Absent
}

fn go(seen: &Seen) -> Found {
    if seen.tracked.contains("go.mod") {
        return Found::Step(Step::ours("go mod download", "go"));
    }
    Found::Absent
}

impl Seen {
    fn text(&self, name: &str) -> String {
        self.files.get(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }
}

/// Returns the fingerprint of a provisioning: everything that its outcome depends on, hashed.
///
/// Each field goes in with its length before it, so that no two inputs can be shifted into one.
/// `names` are the probed files; absent ones count as absent.
pub fn fingerprint(
    plan: &ProvisionPlan,
    names: &[String],
    files: &BTreeMap<String, Vec<u8>>,
    lane_root: &str,
) -> String {
    let mut hash = Sha256::new();
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    field(b"omg provision 1");
    field(std::env::consts::OS.as_bytes());
    field(std::env::consts::ARCH.as_bytes());
    // Environments and editable installs hold absolute paths.
    field(lane_root.as_bytes());
    for step in &plan.steps {
        field(step.display().as_bytes());
        if let StepCommand::Hook(hook) = &step.command {
            field(&hook.bytes);
        }
    }
    for name in names {
        field(name.as_bytes());
        match files.get(name) {
            Some(bytes) => {
                field(b"present");
                field(bytes);
            }
            None => field(b"absent"),
        }
    }
    hex(&hash.finalize())
}

/// Returns bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
        let plan = plan(&ProvisionChoice::Ladder, &seen(files));
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
        assert_eq!(plan(&ProvisionChoice::Ladder, &untracked).rung, Rung::Nothing);
    }

    #[test]
    fn python_never_goes_into_an_ambient_interpreter() {
        let tool_only = [("pyproject.toml", "[tool.ruff]\n"), ("requirements.txt", "a")];
        let plan = plan(&ProvisionChoice::Ladder, &seen(&tool_only));
        let line = plan.display().unwrap();
        assert!(line.contains("-m venv .venv") && line.ends_with("-r requirements.txt"), "{line}");
        check(&[("pyproject.toml", "[tool.ruff]\n")], None, 0);
    }

    #[test]
    fn the_ladder_stops_at_its_first_rung_that_answers() {
        let mut all = seen(&[("package-lock.json", "")]);
        let hook = Hook { place: HOOK_PLACES[0].into(), bytes: b"true".to_vec(), executable: true };
        all.hook = Some(hook.clone());
        let explicit = ProvisionChoice::Steps(vec![ProvisionStep::Command("make deps".into())]);
        assert_eq!(plan(&explicit, &all).display().as_deref(), Some("make deps"));
        assert_eq!(plan(&ProvisionChoice::Nothing, &all).steps, []);
        assert_eq!(plan(&ProvisionChoice::Ladder, &all).display().as_deref(), Some(".omg/provision.sh"));
        let added = ProvisionChoice::Steps(vec![ProvisionStep::Auto, ProvisionStep::Command("x".into())]);
        assert_eq!(plan(&added, &all).display().as_deref(), Some(".omg/provision.sh && x"));
        all.hook = None;
        all.stray_hook = Some(HOOK_PLACES[0].into());
        let stray = plan(&ProvisionChoice::Ladder, &all);
        assert_eq!((stray.display().as_deref(), stray.warnings.len()), (Some("npm ci"), 1));
        assert!(!hook.runs_itself());
        assert!(Hook { bytes: b"#!/bin/sh\n".to_vec(), ..hook }.runs_itself());
    }

    #[test]
    fn the_fingerprint_changes_with_each_input() {
        let base = seen(&[("package-lock.json", "a")]);
        let names: Vec<String> = MARKERS.iter().map(|name| name.to_string()).collect();
        let of = |seen: &Seen, root: &str| {
            fingerprint(&plan(&ProvisionChoice::Ladder, seen), &names, &seen.files, root)
        };
        let first = of(&base, "/l");
        assert_eq!(first, of(&base.clone(), "/l"));
        let mut others = vec![of(&base, "/m")];
        for (name, text) in [("package-lock.json", "b"), (".npmrc", ""), ("package.json", "{}")] {
            let mut changed = base.clone();
            changed.files.insert(name.into(), text.into());
            others.push(of(&changed, "/l"));
        }
        assert!(!others.contains(&first));
        others.dedup();
        assert_eq!(others.len(), 4);
    }
}
