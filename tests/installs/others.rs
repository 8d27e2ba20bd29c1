//! cargo, go and submodules.

use std::fs;

use crate::bench::{Bench, Edits};

fn cargo_bench() -> Bench<'static> {
    Bench {
        tools: &[],
        programs: &["cargo"],
        // Not the machine's own, so that the cache is cold.
        variables: &[("CARGO_HOME", "{world}/cargo")],
        files: &[
            (
                "Cargo.toml",
                "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nitoa = \"1\"\n[workspace]\n",
            ),
            ("src/main.rs", "fn main() { println!(\"{}\", itoa::Buffer::new().format(123)); }\n"),
            (".gitignore", "target\n"),
        ],
        lock: "cargo generate-lockfile",
        locked: &["Cargo.lock"],
        provision: "",
        // What was fetched has to be enough.
        needs: "cargo run --quiet --offline --locked",
        prints: "123",
        removes: None,
    }
}

#[test]
fn cargo() {
    cargo_bench().run("cargo");
}

#[test]
fn cargo_after_edits() {
    cargo_bench().edited(
        "cargo, edited",
        &Edits {
            manifest: "sed -i \"s/^itoa.*/&\\nryu = \\\"1\\\"/\" Cargo.toml",
            relock: "cargo metadata --format-version 1 >/dev/null",
            needs: "cargo tree --offline --locked | grep ryu",
            again: "cargo fetch --locked",
        },
    );
}

/// Makes a module proxy in a folder: one module, as `go help goproxy` has it.
const PROXY: &str = r#"
import json, os, zipfile
folder = "../proxy/example.invalid/greet/@v"
os.makedirs(folder)
mod = "module example.invalid/greet\n\ngo 1.18\n"
code = 'package greet\n\nfunc Hello() string { return "hello from the module" }\n'
open(folder + "/list", "w").write("v1.0.0\n")
open(folder + "/v1.0.0.info", "w").write(json.dumps({"Version": "v1.0.0", "Time": "2024-01-01T00:00:00Z"}))
open(folder + "/v1.0.0.mod", "w").write(mod)
with zipfile.ZipFile(folder + "/v1.0.0.zip", "w") as archive:
    archive.writestr("example.invalid/greet@v1.0.0/go.mod", mod)
    archive.writestr("example.invalid/greet@v1.0.0/greet.go", code)
"#;

#[test]
fn go() {
    Bench {
        tools: &[],
        programs: &["go", "python3"],
        variables: &[
            ("GOPROXY", "file://{world}/proxy"),
            ("GONOSUMDB", "example.invalid"),
            ("GOSUMDB", "off"),
            // Else the test's folder could not be removed.
            ("GOFLAGS", "-modcacherw"),
        ],
        files: &[
            ("go.mod", "module p\n\ngo 1.18\n\nrequire example.invalid/greet v1.0.0\n"),
            (
                "main.go",
                "package main\n\nimport \"example.invalid/greet\"\n\nfunc main() { println2(greet.Hello()) }\n",
            ),
            (
                "print.go",
                "package main\n\nimport \"fmt\"\n\nfunc println2(text string) { fmt.Println(text) }\n",
            ),
            ("proxy.py", PROXY),
        ],
        lock: "python3 proxy.py && go mod tidy",
        locked: &["go.sum"],
        provision: "",
        // What was downloaded has to be enough.
        needs: "GOPROXY=off go run .",
        prints: "hello from the module",
        removes: None,
    }
    .run("go");
}

#[test]
fn submodules() {
    let bench = Bench {
        tools: &[],
        programs: &["git"],
        variables: &[],
        files: &[("a.txt", "one\n")],
        lock: "",
        locked: &[],
        provision: "",
        needs: "cat sub/inner/deep.txt sub/lib.txt",
        prints: "deep\nlib",
        removes: Some("sub"),
    };
    let Some(world) = bench.world("submodules") else { return };
    // Git refuses submodules by path unless it is told otherwise.
    let config = world.path().join("gitconfig");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text + "[protocol \"file\"]\n allow = always\n").unwrap();
    for (name, file, text) in [("inner", "deep.txt", "deep\n"), ("sub", "lib.txt", "lib\n")] {
        let folder = world.path().join("origins").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), text).unwrap();
        let folder = folder.display();
        world.git(&format!("-C {folder} init -q ."));
        if name == "sub" {
            let inner = world.path().join("origins/inner");
            world.git(&format!("-C {folder} submodule --quiet add {} inner", inner.display()));
        }
        world.git(&format!("-C {folder} add -A"));
        world.git(&format!("-C {folder} commit -q -m x"));
    }
    let sub = world.path().join("origins/sub");
    world.git(&format!("submodule --quiet add {} sub", sub.display()));
    world.git("submodule --quiet update --init --recursive");
    world.git("commit -q -m sub");
    bench.course(&world);
}

#[test]
fn several_roots() {
    let pyproject = "[project]\nname = \"p\"\nversion = \"0.1.0\"\nrequires-python = \">=3.9\"\ndependencies = [\"pyflakes==3.2.0\"]\n";
    Bench {
        tools: &["uv"],
        programs: &["npm", "node", "uv", "python3"],
        variables: &[],
        files: &[
            ("web/package.json", r#"{"name":"web","version":"1.0.0","dependencies":{"semver":"7.5.4"}}"#),
            ("api/pyproject.toml", pyproject),
            (".gitignore", "node_modules\n"),
        ],
        lock: "(cd web && npm install --package-lock-only --ignore-scripts) && cd api && uv lock",
        locked: &["web/package-lock.json", "api/uv.lock"],
        provision: "provision: {roots: [web, api]}\n",
        needs: "web/node_modules/.bin/semver 1.2.3 && api/.venv/bin/pyflakes --version | cut -d \" \" -f 1",
        prints: "1.2.3\n3.2.0",
        removes: Some("web/node_modules/semver"),
    }
    .run("several roots");
}
