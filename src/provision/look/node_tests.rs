//! npm, pnpm, Yarn 1 and bun.
use std::path::Path;

use super::tests::Tree;
use super::{Hole, Look, look, still_whole};

const NPM_LOCK: &str = r#"{"lockfileVersion":3,"packages":{
  "":{"dependencies":{"a":"^1"}},
  "node_modules/a":{"version":"1.0.0","bin":{"a":"bin/a.js"}},
  "node_modules/a/node_modules/b":{"version":"2.0.0","dev":true},
  "node_modules/alias":{"name":"real","version":"3.0.0"},
  "node_modules/bundled":{"version":"9.9.9","inBundle":true},
  "node_modules/mac":{"version":"1.0.0","optional":true,"os":["darwin"]},
  "node_modules/peer":{"version":"1.0.0","peer":true},
  "node_modules/w":{"resolved":"packages/w","link":true},
  "packages/w":{"version":"0.0.1"},
  "packages/w/node_modules/a":{"version":"0.9.0"}}}"#;

const NPM_HIDDEN: &str = r#"{"lockfileVersion":3,"packages":{"node_modules/a":{"version":"1.0.0"}}}"#;

fn npm() -> Tree {
    let tree = Tree::new(&[
        ("package.json", r#"{"dependencies":{"a":"^1"}}"#),
        ("package-lock.json", NPM_LOCK),
        ("node_modules/.package-lock.json", NPM_HIDDEN),
        ("node_modules/a/bin/a.js", "x"),
        ("packages/w/package.json", "{}"),
    ]);
    tree.package("node_modules/a", "1.0.0");
    tree.package("node_modules/a/node_modules/b", "2.0.0");
    tree.package("node_modules/alias", "v3.0.0");
    tree.package("node_modules/bundled", "9.9.0");
    tree.package("packages/w/node_modules/a", "0.9.0");
    tree.link("node_modules/w", "../packages/w");
    tree
}

#[test]
fn npm_is_whole_with_workspaces_aliases_bundles_and_without_what_other_platforms_need() {
    let witnesses = npm().whole(Look::Npm);
    let paths: Vec<&str> = witnesses.iter().map(|witness| witness.path.to_str().unwrap()).collect();
    for path in
        ["node_modules/.package-lock.json", "node_modules/a/node_modules/b/package.json", "node_modules/w"]
    {
        assert!(paths.contains(&path), "{path} {paths:?}");
    }
}

#[test]
fn npm_half_a_tree_is_found_out() {
    let tree = npm();
    tree.empty("node_modules/a/node_modules/b");
    tree.missing(Look::Npm, "node_modules/a/node_modules/b/package.json");
    let tree = npm();
    tree.gone("node_modules");
    tree.missing(Look::Npm, "node_modules/a/package.json");
    let tree = npm();
    tree.gone("node_modules/.package-lock.json");
    tree.no_mark(Look::Npm, "node_modules/.package-lock.json");
    let tree = npm();
    tree.gone("packages/w");
    tree.missing(Look::Npm, "node_modules/w");
}

#[test]
fn npm_files_that_a_full_disk_left_empty_are_found_out() {
    for path in ["node_modules/a/package.json", "node_modules/a/bin/a.js", "node_modules/.package-lock.json"]
    {
        let tree = npm();
        tree.put(path, "");
        tree.is_empty(Look::Npm, path);
    }
    let tree = npm();
    tree.put("node_modules/a/package.json", "{\"name\":");
    tree.unreadable(Look::Npm, "node_modules/a/package.json");
    tree.put("node_modules/a/package.json", "{}");
    tree.put("package-lock.json", "<<<<<<< ours");
    tree.unreadable(Look::Npm, "package-lock.json");
}

#[test]
fn npm_a_tree_of_another_lockfile_is_found_out() {
    let tree = npm();
    tree.package("node_modules/alias", "3.0.1");
    tree.other_version(Look::Npm, "alias");
}

#[test]
fn npm_a_mark_that_lists_what_is_not_there_is_found_out() {
    // `npm install --package-lock-only` writes such a one.
    let tree = npm();
    let hidden = r#"{"lockfileVersion":3,"packages":{"node_modules/mac":{"version":"1.0.0"}}}"#;
    tree.put("node_modules/.package-lock.json", hidden);
    tree.missing(Look::Npm, "node_modules/mac/package.json");
    let tree = Tree::new(&[
        ("package.json", r#"{"dependencies":{"a":"1"}}"#),
        (
            "node_modules/.package-lock.json",
            r#"{"lockfileVersion":3,"packages":{"node_modules/b":{"version":"1.0.0"}}}"#,
        ),
    ]);
    tree.package("node_modules/a", "1.0.0");
    tree.missing(Look::Npm, "node_modules/b/package.json");
    tree.package("node_modules/b", "1.0.0");
    tree.whole(Look::Npm);
}

#[test]
fn npm_links_out_of_the_tree_are_found_out() {
    let other = npm();
    let tree = npm();
    tree.gone("node_modules");
    tree.link("node_modules", other.at("node_modules").to_str().unwrap());
    assert_eq!(tree.look(Look::Npm), Err(Hole::Link { path: "node_modules".into() }));
    let tree = npm();
    tree.gone("node_modules/a");
    tree.link("node_modules/a", other.at("node_modules/a").to_str().unwrap());
    assert!(matches!(tree.look(Look::Npm), Err(Hole::Outside { .. })), "{:?}", tree.look(Look::Npm));
    let tree = npm();
    tree.gone("node_modules");
    tree.put("node_modules", "a file");
    assert_eq!(tree.look(Look::Npm), Err(Hole::NotAFolder { path: "node_modules".into() }));
}

#[test]
fn npm_without_packages_needs_no_tree() {
    for lock in [r#"{"lockfileVersion":3,"packages":{"":{"name":"n"}}}"#, r#"{"lockfileVersion":1}"#, "{}"] {
        let tree = Tree::new(&[("package.json", "{}"), ("package-lock.json", lock)]);
        assert_eq!(tree.whole(Look::Npm), []);
    }
    assert_eq!(Tree::new(&[("package.json", "{}")]).whole(Look::Npm), []);
}

#[test]
fn npm_lockfiles_of_version_1_and_shrinkwraps_are_read() {
    let lock = r#"{"lockfileVersion":1,"dependencies":{
      "a":{"version":"1.0.0","dependencies":{"b":{"version":"2.0.0"}}},
      "alias":{"version":"npm:real@3.0.0"},
      "git":{"version":"git+ssh://git@example.invalid/x.git#abc"},
      "mac":{"version":"1.0.0","optional":true},
      "w":{"version":"file:packages/w","dependencies":{"a":{"version":"0.9.0"}}}}}"#;
    let tree = npm();
    tree.package("node_modules/git", "4.0.0");
    // A shrinkwrap comes before a lockfile, as with npm.
    tree.put("npm-shrinkwrap.json", lock);
    tree.put("package-lock.json", "not read");
    tree.whole(Look::Npm);
    tree.gone("packages/w/node_modules/a");
    tree.missing(Look::Npm, "packages/w/node_modules/a/package.json");
    tree.package("packages/w/node_modules/a", "0.9.0");
    tree.empty("node_modules/git");
    tree.missing(Look::Npm, "node_modules/git/package.json");
}

#[test]
fn npm_linked_layouts_keep_packages_in_a_store() {
    let tree = Tree::new(&[
        (
            "package-lock.json",
            r#"{"lockfileVersion":3,"packages":{"node_modules/a":{"version":"1.0.0"},"node_modules/b":{"version":"2.0.0"}}}"#,
        ),
        (
            "node_modules/.package-lock.json",
            r#"{"lockfileVersion":3,"packages":{"node_modules/.store/a@1.0.0-x":{},"node_modules/.store/b@2.0.0-y":{}}}"#,
        ),
    ]);
    tree.package("node_modules/.store/a@1.0.0-x/node_modules/a", "1.0.0");
    tree.package("node_modules/.store/b@2.0.0-y/node_modules/b", "2.0.0");
    tree.link("node_modules/a", ".store/a@1.0.0-x/node_modules/a");
    tree.whole(Look::Npm);
    tree.empty("node_modules/.store/b@2.0.0-y/node_modules/b");
    tree.is_empty(Look::Npm, "node_modules/.store/b@2.0.0-y/node_modules/b");
}

const PNPM_LOCK: &str = "lockfileVersion: '9.0'\n\nimporters:\n\n  .:\n    dependencies:\n      a:\n        specifier: ^1\n        version: 1.0.0(b@2.0.0)\n      w:\n        specifier: workspace:*\n        version: link:packages/w\n    devDependencies:\n      alias:\n        specifier: npm:b@2\n        version: b@2.0.0\n\n  packages/w:\n    dependencies:\n      a:\n        specifier: ^1\n        version: 1.0.0(b@2.0.0)\n\npackages:\n\n  a@1.0.0:\n    resolution: {integrity: sha512-a==}\n\n  b@2.0.0:\n    resolution: {integrity: sha512-b==}\n\n  '@s/mac@1.0.0':\n    resolution: {integrity: sha512-c==}\n    os: [darwin]\n\n  loc@file:local:\n    resolution: {directory: local, type: directory}\n\nsnapshots:\n\n  a@1.0.0(b@2.0.0):\n    dependencies:\n      b: 2.0.0\n\n  b@2.0.0: {}\n\n  '@s/mac@1.0.0':\n    optional: true\n\n  loc@file:local: {}\n";

fn pnpm() -> Tree {
    let tree = Tree::new(&[
        ("package.json", "{}"),
        ("packages/w/package.json", "{}"),
        ("pnpm-lock.yaml", PNPM_LOCK),
        (
            "node_modules/.modules.yaml",
            r#"{"layoutVersion":5,"nodeLinker":"isolated","skipped":["@s/mac@1.0.0"],"virtualStoreDir":".pnpm"}"#,
        ),
        ("node_modules/.pnpm/lock.yaml", PNPM_LOCK),
    ]);
    tree.package("node_modules/.pnpm/a@1.0.0_b@2.0.0/node_modules/a", "1.0.0");
    tree.link("node_modules/.pnpm/a@1.0.0_b@2.0.0/node_modules/b", "../../b@2.0.0/node_modules/b");
    tree.package("node_modules/.pnpm/b@2.0.0/node_modules/b", "2.0.0");
    tree.package("node_modules/.pnpm/loc@file+local/node_modules/loc", "5.0.0");
    tree.link("node_modules/.pnpm/node_modules/b", "../b@2.0.0/node_modules/b");
    tree.link("node_modules/a", ".pnpm/a@1.0.0_b@2.0.0/node_modules/a");
    tree.link("node_modules/alias", ".pnpm/b@2.0.0/node_modules/b");
    tree.link("node_modules/w", "../packages/w");
    tree.link("packages/w/node_modules/a", "../../../node_modules/.pnpm/a@1.0.0_b@2.0.0/node_modules/a");
    tree
}

#[test]
fn pnpm_isolated_is_whole_and_its_holes_are_found_out() {
    pnpm().whole(Look::Pnpm);
    let tree = pnpm();
    tree.gone("node_modules/.modules.yaml");
    tree.no_mark(Look::Pnpm, "node_modules/.modules.yaml");
    let tree = pnpm();
    tree.empty("node_modules/.pnpm/b@2.0.0/node_modules/b");
    tree.is_empty(Look::Pnpm, "node_modules/.pnpm/b@2.0.0/node_modules/b");
    let tree = pnpm();
    tree.gone("node_modules/.pnpm/loc@file+local");
    tree.missing(Look::Pnpm, "node_modules/loc");
    let tree = pnpm();
    tree.gone("packages/w/node_modules/a");
    tree.gone("node_modules/a");
    tree.missing(Look::Pnpm, "node_modules/a");
    // A tree without development dependencies.
    let tree = pnpm();
    tree.gone("node_modules/alias");
    tree.missing(Look::Pnpm, "node_modules/alias");
    let tree = pnpm();
    tree.package("node_modules/.pnpm/b@2.0.0/node_modules/b", "2.0.1");
    tree.other_version(Look::Pnpm, "b");
    let tree = pnpm();
    tree.gone("node_modules");
    tree.missing(Look::Pnpm, "node_modules");
}

#[test]
fn pnpm_lockfiles_that_are_none_are_said() {
    let tree = pnpm();
    tree.put("pnpm-lock.yaml", "<<<<<<< ours\n");
    tree.unreadable(Look::Pnpm, "pnpm-lock.yaml");
    let tree = pnpm();
    tree.put("node_modules/.modules.yaml", "{");
    tree.unreadable(Look::Pnpm, "node_modules/.modules.yaml");
}

#[test]
fn pnpm_hoisted_is_looked_at_where_it_says_itself() {
    let tree = Tree::new(&[
        ("package.json", "{}"),
        ("packages/w/package.json", "{}"),
        ("pnpm-lock.yaml", PNPM_LOCK),
        (
            "node_modules/.modules.yaml",
            "hoistedLocations:\n  a@1.0.0(b@2.0.0):\n    - node_modules/a\n  b@2.0.0:\n    - node_modules/b\n    - node_modules/alias\n  loc@file:local:\n    - node_modules/loc\nlayoutVersion: 5\nnodeLinker: hoisted\nskipped:\n  - '@s/mac@1.0.0'\nvirtualStoreDir: .pnpm\n",
        ),
    ]);
    for (name, version) in [("a", "1.0.0"), ("b", "2.0.0"), ("alias", "2.0.0"), ("loc", "5.0.0")] {
        tree.package(&format!("node_modules/{name}"), version);
    }
    tree.link("node_modules/w", "../packages/w");
    tree.whole(Look::Pnpm);
    tree.empty("node_modules/alias");
    tree.missing(Look::Pnpm, "node_modules/alias/package.json");
}

#[test]
fn pnpm_without_packages_needs_no_tree() {
    let lock = "lockfileVersion: '9.0'\n\nimporters:\n\n  .: {}\n";
    assert_eq!(Tree::new(&[("package.json", "{}"), ("pnpm-lock.yaml", lock)]).whole(Look::Pnpm), []);
}

#[test]
fn pnpm_8_spells_its_keys_with_a_slash() {
    let lock = "lockfileVersion: '6.0'\n\ndependencies:\n  a:\n    specifier: ^1\n    version: 1.0.0\n\npackages:\n\n  /a@1.0.0(b@1.0.0):\n    dev: false\n\n  /mac@1.0.0:\n    optional: true\n\n  file:local:\n    resolution: {directory: local, type: directory}\n    name: loc\n";
    let tree = Tree::new(&[
        ("package.json", "{}"),
        ("pnpm-lock.yaml", lock),
        (
            "node_modules/.modules.yaml",
            "layoutVersion: 5\nnodeLinker: isolated\nskipped:\n  - /mac/1.0.0\nvirtualStoreDir: .pnpm\n",
        ),
    ]);
    tree.package("node_modules/.pnpm/a@1.0.0_b@1.0.0/node_modules/a", "1.0.0");
    tree.package("node_modules/.pnpm/file+local/node_modules/loc", "1.0.0");
    tree.link("node_modules/a", ".pnpm/a@1.0.0_b@1.0.0/node_modules/a");
    tree.whole(Look::Pnpm);
    tree.gone("node_modules/.pnpm/a@1.0.0_b@1.0.0/node_modules/a");
    tree.missing(Look::Pnpm, "node_modules/.pnpm/a@1.0.0_b@1.0.0/node_modules");
}

const YARN_LOCK: &str = "# yarn lockfile v1\n\n\na@^1, a@^1.0:\n  version \"1.0.0\"\n  dependencies:\n    b \"^2\"\n  optionalDependencies:\n    mac \"^1\"\n\nb@^2:\n  version \"2.0.0\"\n\n\"dev@npm:real@^3\":\n  version \"3.0.0\"\n\nmac@^1:\n  version \"1.0.0\"\n\n\"here@link:./here\":\n  version \"0.0.0\"\n  uid \"\"\n\nstray@^1:\n  version \"1.0.0\"\n";

fn yarn() -> Tree {
    let tree = Tree::new(&[
        (
            "package.json",
            r#"{"workspaces":["packages/*"],"dependencies":{"a":"^1","here":"link:./here","w":"1.0.0"},"devDependencies":{"dev":"npm:real@^3"}}"#,
        ),
        ("packages/w/package.json", r#"{"name":"w","dependencies":{"b":"^2"}}"#),
        ("yarn.lock", YARN_LOCK),
        ("node_modules/.yarn-integrity", "{}"),
        ("node_modules/.cache/x", ""),
    ]);
    tree.package("node_modules/a", "1.0.0");
    tree.package("node_modules/b", "2.0.0");
    tree.package("node_modules/dev", "3.0.0");
    tree.link("node_modules/w", "../packages/w");
    tree.put("here/x.js", "");
    tree.link("node_modules/here", "../here");
    tree
}

#[test]
fn yarn_1_is_whole_without_optional_packages_and_its_holes_are_found_out() {
    yarn().whole(Look::YarnClassic);
    for name in ["a", "b", "dev"] {
        let tree = yarn();
        tree.empty(&format!("node_modules/{name}"));
        tree.is_empty(Look::YarnClassic, &format!("node_modules/{name}"));
        tree.gone(&format!("node_modules/{name}"));
        tree.missing(Look::YarnClassic, &format!("node_modules/{name}"));
    }
    let tree = yarn();
    tree.gone("node_modules/.yarn-integrity");
    tree.no_mark(Look::YarnClassic, "node_modules/.yarn-integrity");
    let tree = yarn();
    tree.package("node_modules/b", "2.0.1");
    tree.other_version(Look::YarnClassic, "b");
    let tree = yarn();
    tree.put("yarn.lock", "<<<<<<< ours\n");
    tree.unreadable(Look::YarnClassic, "yarn.lock");
    let tree = Tree::new(&[("package.json", "{}"), ("yarn.lock", "# yarn lockfile v1\n")]);
    assert_eq!(tree.whole(Look::YarnClassic), []);
}

const BUN_LOCK: &str = r#"{
  "lockfileVersion": 1,
  "workspaces": {
    "": { "name": "p", "dependencies": { "a": "^1", "w": "workspace:*", }, "devDependencies": { "alias": "npm:real@3", }, },
    "packages/w": { "name": "w", "dependencies": { "b": "^1" } },
  },
  "packages": {
    "a": ["a@1.0.0", "", { "dependencies": { "b": "^2" }, "optionalDependencies": { "mac": "1.0.0" } }, "sha512-a=="],
    "alias": ["real@3.0.0", "", {}, "sha512-b=="],
    "b": ["b@1.0.0", "", {}, "sha512-c=="],
    "mac": ["mac@1.0.0", "", { "os": "darwin" }, "sha512-d=="],
    "w": ["w@workspace:packages/w"],
    "a/b": ["b@2.0.0", "", {}, "sha512-e=="], // comment
  }
}"#;

#[test]
fn bun_hoisted_is_whole_and_its_holes_are_found_out() {
    let make = || {
        let tree =
            Tree::new(&[("package.json", "{}"), ("packages/w/package.json", "{}"), ("bun.lock", BUN_LOCK)]);
        tree.package("node_modules/a", "1.0.0");
        tree.package("node_modules/a/node_modules/b", "2.0.0");
        tree.package("node_modules/b", "1.0.0");
        tree.package("node_modules/alias", "3.0.0");
        tree.link("node_modules/w", "../packages/w");
        tree
    };
    make().whole(Look::Bun);
    let tree = make();
    tree.empty("node_modules/a/node_modules/b");
    tree.is_empty(Look::Bun, "node_modules/a/node_modules/b");
    let tree = make();
    tree.gone("node_modules/a/node_modules/b");
    tree.other_version(Look::Bun, "b");
    let tree = make();
    tree.gone("node_modules/alias");
    tree.missing(Look::Bun, "node_modules/alias");
    let tree = make();
    tree.gone("node_modules/w");
    tree.missing(Look::Bun, "node_modules/w");
    let tree = make();
    tree.put("bun.lock", "{");
    tree.unreadable(Look::Bun, "bun.lock");
}

#[test]
fn bun_isolated_is_whole_and_its_holes_are_found_out() {
    let tree =
        Tree::new(&[("package.json", "{}"), ("packages/w/package.json", "{}"), ("bun.lock", BUN_LOCK)]);
    for (folder, name, version) in [
        ("a@1.0.0", "a", "1.0.0"),
        ("b@1.0.0", "b", "1.0.0"),
        ("b@2.0.0", "b", "2.0.0"),
        ("real@3.0.0", "real", "3.0.0"),
    ] {
        tree.package(&format!("node_modules/.bun/{folder}/node_modules/{name}"), version);
    }
    tree.link("node_modules/a", ".bun/a@1.0.0/node_modules/a");
    tree.link("node_modules/alias", ".bun/real@3.0.0/node_modules/real");
    tree.link("node_modules/w", "../packages/w");
    tree.link("packages/w/node_modules/b", "../../../node_modules/.bun/b@1.0.0/node_modules/b");
    tree.whole(Look::Bun);
    tree.gone("node_modules/alias");
    tree.missing(Look::Bun, "node_modules/alias");
    tree.link("node_modules/alias", ".bun/real@3.0.0/node_modules/real");
    tree.gone("node_modules/.bun/b@2.0.0");
    tree.other_version(Look::Bun, "b");
}

#[test]
fn of_a_binary_lockfile_the_manifest_is_what_is_known() {
    let tree = Tree::new(&[("package.json", r#"{"dependencies":{"a":"1"}}"#), ("bun.lockb", "\u{1}")]);
    tree.missing(Look::Bun, "node_modules/a/package.json");
    tree.package("node_modules/a", "1.0.0");
    tree.whole(Look::Bun);
}

#[test]
fn a_glance_sees_what_is_gone_smaller_or_linked() {
    let tree = npm();
    let witnesses = tree.whole(Look::Npm);
    let glance = || still_whole(tree.root(), &witnesses);
    tree.gone("node_modules/a/node_modules");
    assert!(
        matches!(glance(), Err(Hole::Missing { path, .. }) if path == Path::new("node_modules/a/node_modules/b"))
    );
    tree.package("node_modules/a/node_modules/b", "2.0.0");
    assert_eq!(glance(), Ok(()));
    tree.package("node_modules/a/node_modules/b", "2.0.11");
    assert!(matches!(glance(), Err(Hole::OtherSize { .. })));
    tree.package("node_modules/a/node_modules/b", "2.0.0");
    tree.rename("node_modules", "real");
    tree.link("node_modules", "real");
    assert_eq!(glance(), Err(Hole::Link { path: "node_modules".into() }));
    assert_eq!(look(Look::Nothing, tree.root()), Ok(Vec::new()));
}

#[test]
fn holes_are_said_for_people() {
    let tree = npm();
    tree.empty("node_modules/alias");
    let hole = tree.look(Look::Npm).unwrap_err();
    assert_eq!(hole.to_string(), "alias is not installed: `node_modules/alias/package.json` is not there");
}
