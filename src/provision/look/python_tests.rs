//! Environments.

use super::tests::Tree;
use super::{Hole, Look};

const SITE: &str = ".venv/lib/python3.11/site-packages";

fn venv(files: &[(&str, &str)]) -> Tree {
    let tree = Tree::new(files);
    tree.put(".venv/pyvenv.cfg", "home = /usr/bin\n");
    tree.put("python", "");
    tree.link(".venv/bin/python", "../../python");
    tree.distribution("Foo_Bar", "1.0.0");
    tree.distribution("tabulate", "0.9.0");
    tree
}

impl Tree {
    fn distribution(&self, name: &str, version: &str) {
        let info = format!("{name}-{version}.dist-info");
        let script = format!("#!{}\nprint()\n", self.at(".venv/bin/python").display());
        self.put(&format!("{SITE}/{info}/METADATA"), "Name: x\n");
        self.put(&format!("{SITE}/{name}/__init__.py"), "x = 1\n");
        self.put(&format!("{SITE}/{name}/py.typed"), "");
        self.put(&format!(".venv/bin/{name}"), &script);
        let record = format!(
            "../../../bin/{name},sha256=a,{}\n{info}/METADATA,sha256=a,8\n{info}/RECORD,,\n{name}/__init__.py,sha256=a,6\n{name}/py.typed,sha256=a,0\n{name}/__pycache__/__init__.cpython-311.pyc,,\n",
            script.len()
        );
        self.put(&format!("{SITE}/{info}/RECORD"), &record);
    }
}

#[test]
fn a_venv_is_whole_by_the_records_of_what_is_in_it() {
    let witnesses = venv(&[]).whole(Look::Venv);
    assert!(witnesses.iter().any(|witness| witness.path.ends_with("tabulate/__init__.py")), "{witnesses:?}");
    let file = format!("{SITE}/tabulate/__init__.py");
    let tree = venv(&[]);
    tree.gone(&format!("{SITE}/tabulate"));
    tree.missing(Look::Venv, &file);
    // What another lane wrote into a file that a shared cache links to.
    let tree = venv(&[]);
    tree.put(&file, "x = 22\n");
    assert_eq!(tree.look(Look::Venv), Err(Hole::OtherSize { path: file.into(), wanted: 6, found: 7 }));
    let tree = venv(&[]);
    tree.gone(&format!("{SITE}/tabulate-0.9.0.dist-info/RECORD"));
    tree.missing(Look::Venv, &format!("{SITE}/tabulate-0.9.0.dist-info/RECORD"));
    let tree = venv(&[]);
    tree.put(&format!("{SITE}/tabulate-0.9.0.dist-info/RECORD"), "half a li");
    tree.unreadable(Look::Venv, &format!("{SITE}/tabulate-0.9.0.dist-info/RECORD"));
}

#[test]
fn files_may_be_links_to_a_cache() {
    // `uv sync --link-mode symlink`
    let tree = venv(&[]);
    let cache = Tree::new(&[("METADATA", "Name: x\n")]);
    let metadata = format!("{SITE}/tabulate-0.9.0.dist-info/METADATA");
    tree.gone(&metadata);
    tree.link(&metadata, cache.at("METADATA").to_str().unwrap());
    tree.whole(Look::Venv);
    cache.gone("METADATA");
    tree.missing(Look::Venv, &metadata);
}

#[test]
fn a_venv_that_is_not_this_trees_is_found_out() {
    let tree = venv(&[]);
    tree.gone(".venv/pyvenv.cfg");
    tree.no_mark(Look::Venv, ".venv/pyvenv.cfg");
    let tree = venv(&[]);
    tree.gone("python");
    tree.missing(Look::Venv, ".venv/bin/python");
    let tree = venv(&[]);
    tree.put(".venv/bin/tool", "#!/elsewhere/.venv/bin/python\n");
    let outside = |path: &str, prefix: &str| Err(Hole::Outside { path: path.into(), prefix: prefix.into() });
    assert_eq!(tree.look(Look::Venv), outside(".venv/bin/tool", "/elsewhere/.venv/bin/python"));
    let tree = venv(&[]);
    tree.put(".venv/pyvenv.cfg", "command = /usr/bin/python3 -m venv /elsewhere/my lane/.venv\n");
    assert_eq!(tree.look(Look::Venv), outside(".venv/pyvenv.cfg", "/elsewhere/my lane/.venv"));
    let tree = venv(&[]);
    let other = venv(&[]);
    tree.gone(".venv");
    tree.missing(Look::Venv, ".venv");
    tree.link(".venv", other.at(".venv").to_str().unwrap());
    assert_eq!(tree.look(Look::Venv), Err(Hole::Link { path: ".venv".into() }));
}

#[test]
fn an_editable_project_is_this_trees_own() {
    let project = "[project]\nname = \"foo-bar\"\n";
    let tree = venv(&[("pyproject.toml", project)]);
    let origin = format!("{SITE}/Foo_Bar-1.0.0.dist-info/direct_url.json");
    let url = |place: &str| format!(r#"{{"url":"file://{place}","dir_info":{{"editable":true}}}}"#);
    tree.put(&origin, &url(tree.root().to_str().unwrap()));
    tree.whole(Look::Venv);
    tree.put(&origin, &url("/elsewhere"));
    assert!(matches!(tree.look(Look::Venv), Err(Hole::Outside { .. })));
    // Another distribution may come from anywhere.
    tree.put("pyproject.toml", "[project]\nname = \"tabulate\"\n");
    tree.whole(Look::Venv);
}

#[test]
fn requirements_are_asked_for_as_far_as_they_can_be_decided() {
    let list = "# all\nfoo.bar == 1.0 # why\ntabulate[wide]>=0.9\nabsent; sys_platform == 'win32'\n-r more/other.txt\n-c constraints.txt\n--no-binary :all:\n./local\n";
    let tree = venv(&[("requirements.txt", list), ("more/other.txt", "Tabulate\n")]);
    tree.whole(Look::Venv);
    tree.put("more/other.txt", "six\n");
    tree.missing(Look::Venv, ".venv");
    tree.put("more/other.txt", "tabulate==0.9.1\n");
    tree.other_version(Look::Venv, "tabulate");
    tree.gone("more/other.txt");
    tree.missing(Look::Venv, "more/other.txt");
    // A real lockfile comes before a list that is often its export.
    tree.put("pdm.lock", "");
    tree.whole(Look::Venv);
}

#[test]
fn uv_locks_are_followed_along_needs_without_markers() {
    let lock = |more: &str| {
        format!(
            "version = 1\n[[package]]\nname = \"p\"\nversion = \"0\"\nsource = {{ virtual = \".\" }}\ndependencies = [{{ name = \"tabulate\", extra = [\"w\"] }}, {{ name = \"win\", marker = \"x\" }}]\n[package.dev-dependencies]\ndev = [{{ name = \"foo-bar\" }}]\ndocs = [{{ name = \"sphinx\" }}]\n[[package]]\nname = \"tabulate\"\nversion = \"0.9.0\"\nsource = {{ registry = \"r\" }}\n[package.optional-dependencies]\nw = [{more}]\n[[package]]\nname = \"foo-bar\"\nversion = \"1.0.0\"\nsource = {{ registry = \"r\" }}\n[[package]]\nname = \"six\"\nversion = \"1.0\"\nsource = {{ registry = \"r\" }}\n"
        )
    };
    let tree = venv(&[("uv.lock", &lock("")), ("pyproject.toml", "[project]\nname = \"p\"\n")]);
    tree.whole(Look::Venv);
    tree.put("uv.lock", &lock("{ name = \"six\" }"));
    tree.missing(Look::Venv, ".venv");
    tree.distribution("six", "1.1");
    tree.other_version(Look::Venv, "six");
    tree.put("pyproject.toml", "[tool.uv]\ndefault-groups = [\"docs\"]\n");
    tree.put("uv.lock", &lock(""));
    tree.put(".venv/lib/python3.11/site-packages/sphinx.egg-link", "");
    tree.whole(Look::Venv);
    tree.put("uv.lock", "[package]");
    tree.unreadable(Look::Venv, "uv.lock");
}

#[test]
fn poetry_locks_are_read_by_their_groups() {
    let lock = "[[package]]\nname = \"tabulate\"\nversion = \"0.9.0\"\noptional = false\ngroups = [\"main\"]\n[[package]]\nname = \"foo-bar\"\nversion = \"1.0.0\"\noptional = false\ngroups = [\"dev\"]\n[[package]]\nname = \"sphinx\"\nversion = \"1\"\noptional = false\ngroups = [\"docs\"]\n[[package]]\nname = \"win\"\nversion = \"1\"\noptional = false\ngroups = [\"main\"]\nmarkers = \"x\"\n[[package]]\nname = \"extra\"\nversion = \"1\"\noptional = true\ngroups = [\"main\"]\n[metadata]\nlock-version = \"2.1\"\n";
    let manifest = "[tool.poetry.group.docs]\noptional = true\n";
    let tree = venv(&[("poetry.lock", lock), ("pyproject.toml", manifest)]);
    tree.whole(Look::Poetry);
    tree.whole(Look::Venv);
    tree.put("pyproject.toml", "");
    tree.missing(Look::Poetry, ".venv");
    // Poetry 1 keeps neither groups nor markers here.
    tree.put(
        "poetry.lock",
        &lock.lines().filter(|line| !line.starts_with("groups")).collect::<Vec<_>>().join("\n"),
    );
    tree.put("pyproject.toml", "[tool.poetry.dependencies]\npython = \"^3\"\ntabulate = \"*\"\n");
    tree.whole(Look::Poetry);
    tree.gone("poetry.lock");
    tree.missing(Look::Poetry, "poetry.lock");
}
