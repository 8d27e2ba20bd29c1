//! npm, pnpm, Yarn and bun.

use crate::bench::Bench;

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
