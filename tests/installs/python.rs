//! uv, pip and poetry.

use crate::bench::{Bench, Edits};

const PROJECT: &str = "[project]\nname = \"p\"\nversion = \"0.1.0\"\nrequires-python = \">=3.9\"\ndependencies = [\"idna==3.7\"]\n[dependency-groups]\ndev = [\"pyflakes==3.2.0\"]\n";
const POETRY: &str = "[project]\nname = \"p\"\nversion = \"0.1.0\"\nrequires-python = \">=3.9\"\ndependencies = [\"idna (==3.7)\"]\n[tool.poetry]\npackage-mode = false\n[tool.poetry.group.dev.dependencies]\npyflakes = \"3.2.0\"\n";
const NEEDS: &str = ".venv/bin/pyflakes --version | cut -d \" \" -f 1 && .venv/bin/python -c \"import idna\"";

fn bench<'a>(
    tools: &'a [&'a str],
    programs: &'a [&'a str],
    files: &'a [(&'a str, &'a str)],
    lock: &'a str,
    locked: &'a [&'a str],
) -> Bench<'a> {
    Bench {
        tools,
        programs,
        variables: &[],
        files,
        lock,
        locked,
        provision: "",
        needs: NEEDS,
        prints: "3.2.0",
        removes: Some(".venv/lib/python3*/site-packages/idna"),
    }
}

#[test]
fn uv() {
    bench(&["uv"], &["uv", "python3"], &[("pyproject.toml", PROJECT)], "uv lock", &["uv.lock"]).run("uv");
}

#[test]
fn pip_with_requirements() {
    let files = [("requirements.txt", "-r more.txt\npyflakes==3.2.0\n"), ("more.txt", "idna==3.7 # why\n")];
    bench(&[], &["python3"], &files, "", &[]).run("pip");
}

#[test]
fn poetry() {
    let files = [("pyproject.toml", POETRY)];
    bench(&["poetry"], &["poetry", "python3"], &files, "poetry lock -n", &["poetry.lock"]).run("poetry");
}

const ONE_MORE: &str = ".venv/bin/python -c \"import six\"";

#[test]
fn uv_after_edits() {
    bench(&["uv"], &["uv", "python3"], &[("pyproject.toml", PROJECT)], "uv lock", &["uv.lock"]).edited(
        "uv, edited",
        &Edits {
            manifest: "sed -i \"s/\\\"idna==3.7\\\"/&, \\\"six==1.16.0\\\"/\" pyproject.toml",
            relock: "uv lock",
            needs: ONE_MORE,
            again: "uv sync --locked",
        },
    );
}

#[test]
fn poetry_after_edits() {
    let files = [("pyproject.toml", POETRY)];
    bench(&["poetry"], &["poetry", "python3"], &files, "poetry lock -n", &["poetry.lock"]).edited(
        "poetry, edited",
        &Edits {
            manifest: "sed -i \"s/\\\"idna (==3.7)\\\"/&, \\\"six (==1.16.0)\\\"/\" pyproject.toml",
            relock: "poetry lock -n",
            needs: ONE_MORE,
            again: "POETRY_VIRTUALENVS_IN_PROJECT=true poetry sync -n",
        },
    );
}

/// Measured: with these, installers write into an environment that is not the lane's.
#[test]
fn python_with_a_leaked_environment() {
    let variables = [
        ("CONDA_PREFIX", "{world}/elsewhere"),
        ("PYTHONPATH", "{world}/elsewhere"),
        ("UV_PROJECT_ENVIRONMENT", "{world}/elsewhere"),
        ("VIRTUAL_ENV", "{world}/elsewhere"),
    ];
    let lock = "env -u UV_PROJECT_ENVIRONMENT uv lock";
    let mut bench = bench(&["uv"], &["uv", "python3"], &[("pyproject.toml", PROJECT)], lock, &["uv.lock"]);
    bench.variables = &variables;
    bench.run("uv, leaked environment");
    let files = [("pyproject.toml", POETRY)];
    let mut bench =
        self::bench(&["poetry"], &["poetry", "python3"], &files, "poetry lock -n", &["poetry.lock"]);
    bench.variables = &variables;
    bench.run("poetry, leaked environment");
}
