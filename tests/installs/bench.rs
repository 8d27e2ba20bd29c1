//! A repository of one ecosystem, what needs its install, and what is asked of every such lane.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::support::{Ended, World};

/// Seconds after which a run that does not end is a fault.
const TIMEOUT: &str = "500";

/// Variables by which a machine says how its registries are reached; all else stays outside.
const PASSED: [&str; 16] = [
    "ALL_PROXY",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "REQUESTS_CA_BUNDLE",
    "RUSTUP_TOOLCHAIN",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "npm_config_registry",
];
const PASSED_PREFIXES: [&str; 4] = ["BUN_CONFIG_", "NPM_CONFIG_", "PIP_", "UV_"];

/// What one ecosystem is tested with.
pub struct Bench<'a> {
    /// The folders in TOOLS_DIR whose `bin` goes onto the PATH, first the first.
    pub tools: &'a [&'a str],
    /// Programs that have to be on the PATH by then.
    pub programs: &'a [&'a str],
    /// Variables that the ecosystem needs, `{world}` being the test's folder.
    pub variables: &'a [(&'a str, &'a str)],
    /// The repository without its lockfile.
    pub files: &'a [(&'a str, &'a str)],
    /// Makes the lockfile, in a copy of the files with a home of its own.
    pub lock: &'a str,
    /// The lockfiles.
    pub locked: &'a [&'a str],
    /// What the graph says of provisioning, a line; mostly nothing.
    pub provision: &'a str,
    /// What a node runs that needs the install.
    pub needs: &'a str,
    /// What it prints then.
    pub prints: &'a str,
    /// What a careless node removes, so that the next one's lane has to be renewed; none where nothing is
    /// installed into the tree.
    pub removes: Option<&'a str>,
}

impl Bench<'_> {
    /// Runs the whole course; says so where it can't.
    #[track_caller]
    pub fn run(&self, name: &str) {
        if let Some(world) = self.world(name) {
            self.course(&world);
        }
    }

    /// Returns the repository, committed with its lockfile; `None` where the tools are not here, which is said.
    #[track_caller]
    pub fn world(&self, name: &str) -> Option<World> {
        let skip = |why: &str| {
            // Past the harness, which swallows what a passing test prints; in one piece, on a line of its own.
            let line = format!("\nskipped: {name}: {why}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
        };
        let needs_nothing = self.tools.is_empty() && self.programs == ["git"];
        if std::env::var_os("REGISTRIES").is_none() && !needs_nothing {
            skip("REGISTRIES is not set");
            return None;
        }
        let tools = std::env::var_os("TOOLS_DIR").map(PathBuf::from).unwrap_or_default();
        if tools.as_os_str().is_empty() && !needs_nothing {
            skip("TOOLS_DIR is not set; run .ci/tools");
            return None;
        }
        let tools = fs::canonicalize(&tools).unwrap_or(tools);
        let mut world = World::bare();
        let folders = self.tools.iter().map(|folder| tools.join(folder).join("bin"));
        let system = std::env::var_os("PATH").unwrap();
        let path: Vec<PathBuf> = folders.chain(std::env::split_paths(&system)).collect();
        for program in self.programs {
            if !path.iter().any(|folder| folder.join(program).is_file()) {
                skip(&format!("{program} is not here"));
                return None;
            }
        }
        self.surround(&mut world, std::env::join_paths(path).unwrap());
        self.commit(&world);
        Some(world)
    }

    fn surround(&self, world: &mut World, path: OsString) {
        let passed = std::env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            PASSED.contains(&&*name) || PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        });
        world.extra.extend(passed);
        let here = world.path().display().to_string();
        let mut set = |name: &str, value: OsString| world.extra.push((name.into(), value));
        set("PATH", path);
        // Where rustup keeps toolchains, which a home of the test's own has none of.
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        set("RUSTUP_HOME", std::env::var_os("RUSTUP_HOME").unwrap_or(home.join(".rustup").into()));
        for (name, value) in self.variables {
            set(name, value.replace("{world}", &here).into());
        }
    }

    fn commit(&self, world: &World) {
        let scratch = world.path().join("scratch");
        for root in [scratch.clone(), world.repo()] {
            for (name, text) in self.files {
                let path = root.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        if !self.lock.is_empty() {
            let mut command = world.command("sh");
            command.args(["-c", self.lock]).current_dir(&scratch);
            // With a home of its own, so that the lanes begin with cold caches.
            let home = world.path().join("other-home");
            fs::create_dir_all(&home).unwrap();
            command.env("HOME", &home).env("CARGO_HOME", home.join("cargo"));
            let output = command.output().unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert!(
                output.status.success(),
                "{}: {}{}",
                self.lock,
                text(&output.stdout),
                text(&output.stderr)
            );
        }
        for name in self.locked {
            fs::copy(scratch.join(name), world.repo().join(name)).unwrap();
        }
        world.git("init -q .");
        world.git("add -A");
        world.git("commit -q -m base");
    }

    #[track_caller]
    pub fn course(&self, world: &World) {
        self.two_lanes_on_a_cold_cache(world);
        if let Some(removes) = self.removes {
            self.a_lane_that_lost_a_package_is_renewed(world, removes);
        }
    }

    /// Two lanes are installed side by side, both work, and both are gone afterwards.
    #[track_caller]
    fn two_lanes_on_a_cold_cache(&self, world: &World) {
        let provision = self.provision;
        let graph = format!(
            "name: x\n{provision}nodes:\n- {{id: a, worktree: l, run: {needs}}}\n- {{id: b, worktree: m, run: {needs}}}\n",
            needs = quoted(self.needs)
        );
        let ended = omg(world, &graph, "r1");
        assert_eq!(ended.code, Some(0), "{}{}", ended.text(), logs(world, "r1"));
        for (node, lane) in [("a", "l"), ("b", "m")] {
            assert_eq!(world.result(node), self.prints, "{node}");
            let cleanup = world.lane_view(lane)["cleanup"].clone();
            assert_eq!(cleanup["branch"], "deleted", "{cleanup}");
            assert!(!world.lane(lane).exists(), "{cleanup}");
        }
        assert_eq!(world.branches(), ["main"]);
        let entries = world.git("worktree list --porcelain");
        assert_eq!(entries.matches("worktree ").count(), 1, "{entries}");
        assert_eq!(world.git("status --porcelain"), "");
    }

    /// A node removes a part of what was installed: the next one finds it there again.
    #[track_caller]
    fn a_lane_that_lost_a_package_is_renewed(&self, world: &World, removes: &str) {
        let provision = self.provision;
        let graph = format!(
            "name: x\n{provision}nodes:\n- {{id: a, worktree: l, run: {}}}\n- {{id: b, worktree: l, depends_on: [a], run: {}}}\n",
            quoted(&format!("test -e {removes} && rm -rf {removes}")),
            quoted(self.needs)
        );
        let ended = omg(world, &graph, "r2");
        assert_eq!(ended.code, Some(0), "{}{}", ended.text(), logs(world, "r2"));
        assert_eq!(performed(world, "r2"), 2);
    }
}

/// What nodes do to manifests and lockfiles.
pub struct Edits<'a> {
    /// Asks for one more package in the manifest alone.
    pub manifest: &'a str,
    /// Brings the lockfile after it, installing nothing.
    pub relock: &'a str,
    /// Needs the package that was added.
    pub needs: &'a str,
    /// Installs by the lockfile, as a careful `verify` does.
    pub again: &'a str,
}

impl Bench<'_> {
    /// A node's own edits: the tree follows a lockfile, and a manifest that left its lockfile behind is the
    /// node's fault.
    #[track_caller]
    pub fn edited(&self, name: &str, edits: &Edits) {
        let Some(world) = self.world(name) else { return };
        let Edits { manifest, relock, needs, again } = edits;
        let both = quoted(&format!("{manifest} && {relock}"));
        let provision = self.provision;
        let graph = format!(
            "name: x\n{provision}nodes:\n- {{id: a, worktree: l, run: {both}, success_check: {{verify: {{command: {needs}}}}}}}\n- {{id: b, worktree: l, depends_on: [a], run: {needs}}}\n",
            needs = quoted(needs)
        );
        let ended = omg(&world, &graph, "r1");
        assert_eq!(ended.code, Some(0), "{}{}", ended.text(), logs(&world, "r1"));
        assert_eq!(performed(&world, "r1"), 2);

        let provision = self.provision;
        let graph = format!(
            "name: x\n{provision}nodes:\n- {{id: a, worktree: l, run: {}, success_check: {{verify: {{command: 'true'}}}}}}\n",
            quoted(manifest)
        );
        let ended = omg(&world, &graph, "r2");
        assert_eq!(ended.code, Some(1), "{}{}", ended.text(), logs(&world, "r2"));
        assert!(ended.text().contains("lockfile-out-of-sync"), "{}{}", ended.text(), logs(&world, "r2"));

        let provision = self.provision;
        let graph = format!(
            "name: x\n{provision}nodes:\n- {{id: a, worktree: l, run: 'true', success_check: {{verify: {{command: {}}}}}}}\n- {{id: b, worktree: l, depends_on: [a], run: {}}}\n",
            quoted(again),
            quoted(self.needs)
        );
        let ended = omg(&world, &graph, "r3");
        assert_eq!(ended.code, Some(0), "{}{}", ended.text(), logs(&world, "r3"));
        assert_eq!(performed(&world, "r3"), 1);
    }
}

/// Returns how many installs of a run succeeded.
fn performed(world: &World, run: &str) -> usize {
    let journal = read(&world.home().join("runs").join(run).join("events.jsonl"));
    journal.matches("\"provision.performed\"").count()
}

/// Runs a graph with room for two lanes at once. Registries take their time, so that there is more of it
/// than other tests have.
fn omg(world: &World, graph: &str, run: &str) -> Ended {
    let graph = world.graph(graph);
    let mut command = world.command("timeout");
    command.args(["--kill-after=5", TIMEOUT, env!("CARGO_BIN_EXE_omg"), "run", &graph]);
    command.args(["--run-id", run, "--concurrency", "2"]);
    command.output().unwrap().into()
}

/// Returns a text as YAML in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// What the installs of a run said, for a test that fails.
fn logs(world: &World, run: &str) -> String {
    let mut text = String::new();
    for lane in
        fs::read_dir(world.home().join("runs").join(run).join("lanes")).into_iter().flatten().flatten()
    {
        for log in fs::read_dir(lane.path()).into_iter().flatten().flatten() {
            if log.path().extension().is_some_and(|extension| extension == "log") {
                text += &format!("\n-- {}\n{}", log.path().display(), read(&log.path()));
            }
        }
    }
    text
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
