//! npm, pnpm, Yarn and bun.

use crate::bench::{Bench, Edits};

/// A development dependency with a program, and one beside it.
const MANIFEST: (&str, &str) = (
    "package.json",
    r#"{"name":"p","version":"1.0.0","private":true,"dependencies":{"is-odd":"3.0.1"},"devDependencies":{"semver":"7.5.4"}}"#,
);
const IGNORED: (&str, &str) = (".gitignore", "node_modules\n.yarn\n.pnp.*\n");
const NEEDS: &str = "node_modules/.bin/semver 1.2.3 && node -e 'require(\"is-odd\")'";

fn bench<'a>(
    tools: &'a [&'a str],
    programs: &'a [&'a str],
    lock: &'a str,
    locked: &'a [&'a str],
) -> Bench<'a> {
    Bench {
        tools,
        programs,
        variables: &[],
        files: &[MANIFEST, IGNORED],
        lock,
        locked,
        provision: "",
        needs: NEEDS,
        prints: "1.2.3",
        removes: Some("node_modules/is-odd"),
    }
}

#[test]
fn npm() {
    let lock = "npm install --package-lock-only --ignore-scripts";
    bench(&[], &["npm", "node"], lock, &["package-lock.json"]).run("npm");
}

#[test]
fn npm_with_an_old_lockfile() {
    let lock = "npm install --package-lock-only --ignore-scripts --lockfile-version 1";
    bench(&[], &["npm", "node"], lock, &["package-lock.json"]).run("npm, lockfile version 1");
}

#[test]
fn npm_with_workspaces() {
    let manifest = r#"{"name":"p","version":"1.0.0","private":true,"workspaces":["packages/*"],"devDependencies":{"semver":"7.5.4"}}"#;
    let member =
        r#"{"name":"member","version":"1.0.0","dependencies":{"is-odd":"3.0.1","chokidar":"3.6.0"}}"#;
    let mut bench = bench(
        &[],
        &["npm", "node"],
        "npm install --package-lock-only --ignore-scripts",
        &["package-lock.json"],
    );
    let files = [("package.json", manifest), ("packages/member/package.json", member), IGNORED];
    bench.files = &files;
    bench.run("npm, workspaces");
}

#[test]
fn pnpm_10() {
    bench(&["pnpm10"], &["pnpm", "node"], "pnpm install --lockfile-only", &["pnpm-lock.yaml"]).run("pnpm 10");
}

#[test]
fn pnpm_11() {
    let tools = ["pnpm11", "node22"];
    bench(&tools, &["pnpm", "node"], "pnpm install --lockfile-only", &["pnpm-lock.yaml"]).run("pnpm 11");
}

#[test]
fn yarn_1() {
    // It has no way to make the lockfile alone.
    bench(&["yarn1"], &["yarn", "node"], "yarn install", &["yarn.lock"]).run("yarn 1");
}

#[test]
fn yarn_4_with_node_modules() {
    let mut bench = bench(
        &["yarn4"],
        &["yarn", "node"],
        "touch yarn.lock && yarn install",
        &["yarn.lock", "package.json"],
    );
    let files = [MANIFEST, IGNORED, (".yarnrc.yml", "nodeLinker: node-modules\n")];
    bench.files = &files;
    bench.run("yarn 4, node-modules");
}

#[test]
fn yarn_4_with_plug_n_play() {
    let mut bench = bench(
        &["yarn4"],
        &["yarn", "node"],
        "touch yarn.lock && yarn install",
        &["yarn.lock", "package.json"],
    );
    let files = [MANIFEST, IGNORED, (".yarnrc.yml", "enableTelemetry: false\n")];
    bench.files = &files;
    bench.needs = "yarn run semver 1.2.3 && yarn node -e 'require(\"is-odd\")'";
    bench.removes = Some(".pnp.cjs");
    bench.run("yarn 4, plug'n'play");
}

#[test]
fn bun() {
    bench(&["bun"], &["bun", "node"], "bun install --lockfile-only", &["bun.lock"]).run("bun");
}

const MANIFEST_EDIT: &str =
    "sed -i \"s/\\\"is-odd\\\":/\\\"is-even\\\":\\\"1.0.0\\\",\\\"is-odd\\\":/\" package.json";

fn edits<'a>(relock: &'a str, again: &'a str) -> Edits<'a> {
    Edits { manifest: MANIFEST_EDIT, relock, needs: "node -e 'require(\"is-even\")'", again }
}

#[test]
fn npm_after_edits() {
    let lock = "npm install --package-lock-only --ignore-scripts";
    bench(&[], &["npm", "node"], lock, &["package-lock.json"])
        .edited("npm, edited", &edits(lock, "npm ci && node_modules/.bin/semver 1.2.3"));
}

#[test]
fn pnpm_10_after_edits() {
    let lock = "pnpm install --lockfile-only";
    bench(&["pnpm10"], &["pnpm", "node"], lock, &["pnpm-lock.yaml"])
        .edited("pnpm 10, edited", &edits(lock, "pnpm install --frozen-lockfile"));
}

#[test]
fn pnpm_11_after_edits() {
    let lock = "pnpm install --lockfile-only";
    bench(&["pnpm11", "node22"], &["pnpm", "node"], lock, &["pnpm-lock.yaml"])
        .edited("pnpm 11, edited", &edits(lock, "pnpm install --frozen-lockfile"));
}

#[test]
fn yarn_1_after_edits() {
    bench(&["yarn1"], &["yarn", "node"], "yarn install", &["yarn.lock", "package.json"])
        .edited("yarn 1, edited", &edits("yarn install", "yarn install --frozen-lockfile"));
}

#[test]
fn yarn_4_after_edits() {
    let locked = ["yarn.lock", "package.json"];
    let mut bench = bench(&["yarn4"], &["yarn", "node"], "touch yarn.lock && yarn install", &locked);
    let files = [MANIFEST, IGNORED, (".yarnrc.yml", "nodeLinker: node-modules\n")];
    bench.files = &files;
    let relock = "yarn install --no-immutable --mode=update-lockfile";
    bench.edited("yarn 4, edited", &edits(relock, "yarn install --immutable"));
}

#[test]
fn bun_after_edits() {
    let lock = "bun install --lockfile-only";
    bench(&["bun"], &["bun", "node"], lock, &["bun.lock"])
        .edited("bun, edited", &edits(lock, "bun install --frozen-lockfile"));
}

/// pnpm 11 installs before it runs a script, and rewrites the lockfile where it likes to.
#[test]
fn pnpm_11_runs_scripts_without_rewriting_the_lockfile() {
    let manifest = r#"{"name":"p","version":"1.0.0","private":true,"scripts":{"x":"semver 1.2.3"},"dependencies":{"is-odd":"3.0.1"},"devDependencies":{"semver":"7.5.4"}}"#;
    let tools = ["pnpm11", "node22"];
    let mut bench = bench(&tools, &["pnpm", "node"], "pnpm install --lockfile-only", &["pnpm-lock.yaml"]);
    let files = [("package.json", manifest), IGNORED];
    bench.files = &files;
    let needs = format!(
        "{MANIFEST_EDIT} && pnpm run --silent x && git diff --quiet pnpm-lock.yaml && git checkout -q package.json"
    );
    bench.needs = &needs;
    bench.run("pnpm 11, run");
}

/// Measured: with any of these npm alone ends 0 and leaves half a tree, or none.
#[test]
fn npm_with_leaked_settings() {
    for (name, value) in [
        ("NODE_ENV", "production"),
        ("npm_config_dry_run", "true"),
        ("npm_config_omit", "dev"),
        ("npm_config_package_lock_only", "true"),
    ] {
        let lock = "env -u npm_config_dry_run npm install --package-lock-only --ignore-scripts";
        let mut bench = bench(&[], &["npm", "node"], lock, &["package-lock.json"]);
        let variables = [(name, value)];
        bench.variables = &variables;
        bench.run(&format!("npm, {name}"));
    }
}
