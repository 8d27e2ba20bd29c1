//! Yarn 2 and later.

use std::path::Path;

use super::Look;
use super::tests::Tree;

const BERRY_LOCK: &str = "__metadata:\n  version: 8\n\n\"a@npm:^1\":\n  version: 1.0.0\n  resolution: \"a@npm:1.0.0\"\n  dependencies:\n    mac: \"npm:^1\"\n    opt: \"npm:^1\"\n    ts: \"npm:^5\"\n  dependenciesMeta:\n    opt:\n      optional: true\n  languageName: node\n  linkType: hard\n\n\"mac@npm:^1\":\n  version: 1.0.0\n  resolution: \"mac@npm:1.0.0\"\n  conditions: os=darwin\n  linkType: hard\n\n\"opt@npm:^1\":\n  version: 1.0.0\n  resolution: \"opt@npm:1.0.0\"\n  linkType: hard\n\n\"p@workspace:.\":\n  version: 0.0.0-use.local\n  resolution: \"p@workspace:.\"\n  dependencies:\n    a: \"npm:^1\"\n  linkType: soft\n\n\"ts@npm:^5\":\n  version: 5.0.0\n  resolution: \"ts@npm:5.0.0\"\n  linkType: hard\n\n\"ts@patch:ts@npm%3A^5#optional!builtin<compat/typescript>\":\n  version: 5.0.0\n  resolution: \"ts@patch:ts@npm%3A5.0.0#optional!builtin<compat/typescript>::version=5.0.0&hash=1\"\n  linkType: hard\n";

fn berry_modules() -> Tree {
    let state = "__metadata:\n  version: 1\n\n\"a@npm:1.0.0\":\n  locations:\n    - \"node_modules/a\"\n\n\"p@workspace:.\":\n  locations:\n    - \"\"\n  bin:\n    \".\":\n      \"a\": \"a/b.js\"\n\n\"ts@patch:ts@npm%3A5.0.0#optional!builtin<compat/typescript>::version=5.0.0&hash=1\":\n  locations:\n    - \"node_modules/ts\"\n";
    let tree = Tree::new(&[
        ("package.json", r#"{"dependencies":{"a":"^1"}}"#),
        (".yarnrc.yml", "nodeLinker: node-modules\n"),
        ("yarn.lock", BERRY_LOCK),
        (".yarn/install-state.gz", "x"),
        ("node_modules/.yarn-state.yml", state),
    ]);
    tree.package("node_modules/a", "1.0.0");
    tree.package("node_modules/ts", "5.0.0");
    tree
}

#[test]
fn berry_with_node_modules_is_looked_at_by_its_state() {
    let kind = Look::YarnBerry;
    berry_modules().whole(kind);
    let tree = berry_modules();
    tree.empty("node_modules/a");
    tree.missing(kind, "node_modules/a/package.json");
    for mark in ["node_modules/.yarn-state.yml", ".yarn/install-state.gz"] {
        let tree = berry_modules();
        tree.gone(mark);
        tree.no_mark(kind, mark);
    }
    let tree = berry_modules();
    tree.package("node_modules/a", "1.0.1");
    tree.other_version(kind, "a");
    // A state older than the lockfile.
    let tree = berry_modules();
    tree.put(
        "node_modules/.yarn-state.yml",
        "__metadata:\n  version: 1\n\n\"a@npm:1.0.0\":\n  locations:\n    - \"node_modules/a\"\n",
    );
    tree.missing(kind, "node_modules/ts");
    let tree = berry_modules();
    tree.put("yarn.lock", "# yarn lockfile v1\n");
    tree.unreadable(kind, "yarn.lock");
}

fn berry_pnp() -> Tree {
    let data = "#!/usr/bin/env node\nconst RAW_RUNTIME_STATE =\n'{\\\n  \"packageRegistryData\": [\\\n    [\"a\", [[\"npm:1.0.0\", {\"packageLocation\": \"./.yarn/cache/a-npm-1.0.0-x.zip/node_modules/a/\"}]]],\\\n    [\"b\\'s\", [[\"virtual:1f#npm:1.0.0\", {\"packageLocation\": \"./.yarn/__virtual__/b/0/c.zip/node_modules/b/\"}]]],\\\n    [\"mac\", [[\"npm:1.0.0\", {\"packageLocation\": \"./.yarn/unplugged/mac-x/node_modules/mac/\"}]]],\\\n    [\"p\", [[\"workspace:.\", {\"packageLocation\": \"./\"}]]],\\\n    [\"ts\", [[\"npm:5.0.0\", {\"packageLocation\": \"./.yarn/unplugged/ts-x/node_modules/ts/\"}]]]\\\n  ]\\\n}';\n\nfunction x() { return '}'; }\n";
    let tree = Tree::new(&[
        ("package.json", r#"{"dependencies":{"a":"^1"}}"#),
        ("yarn.lock", BERRY_LOCK),
        (".pnp.cjs", data),
        (".yarn/install-state.gz", "x"),
        (".yarn/cache/a-npm-1.0.0-x.zip", "zip"),
    ]);
    tree.package(".yarn/unplugged/ts-x/node_modules/ts", "5.0.0");
    tree
}

#[test]
fn berry_plug_n_play_is_looked_at_by_its_resolver() {
    let kind = Look::YarnBerry;
    let witnesses = berry_pnp().whole(kind);
    assert!(witnesses.iter().any(|witness| witness.path == Path::new(".yarn/cache/a-npm-1.0.0-x.zip")));
    let tree = berry_pnp();
    tree.gone(".pnp.cjs");
    tree.no_mark(kind, ".pnp.cjs");
    let tree = berry_pnp();
    tree.gone(".yarn/cache/a-npm-1.0.0-x.zip");
    tree.missing(kind, ".yarn/cache/a-npm-1.0.0-x.zip");
    let tree = berry_pnp();
    tree.empty(".yarn/unplugged/ts-x");
    tree.missing(kind, ".yarn/unplugged/ts-x/node_modules/ts/package.json");
    let tree = berry_pnp();
    tree.put(".pnp.cjs", "const RAW_RUNTIME_STATE =\n'{\\\n");
    tree.unreadable(kind, ".pnp.cjs");
}
