//! Submodules, LFS, and what is read by its own word.

use std::path::Path;

use super::Look;
use super::tests::Tree;

fn repository(folder: &Path) -> git2::Repository {
    let mut options = git2::RepositoryInitOptions::new();
    git2::Repository::init_opts(folder, options.initial_head("main")).unwrap()
}

fn commit(repository: &git2::Repository) -> git2::Oid {
    let mut index = repository.index().unwrap();
    index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
    index.write().unwrap();
    let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
    let signature = git2::Signature::now("t", "t@example.invalid").unwrap();
    let parent = repository.head().ok().and_then(|head| head.peel_to_commit().ok());
    let parents: Vec<&git2::Commit> = parent.iter().collect();
    repository.commit(Some("HEAD"), &signature, &signature, "x", &tree, &parents).unwrap()
}

fn gitlink(repository: &git2::Repository, path: &str, at: git2::Oid) {
    let time = git2::IndexTime::new(0, 0);
    let entry = git2::IndexEntry {
        ctime: time,
        mtime: time,
        dev: 0,
        ino: 0,
        mode: 0o160_000,
        uid: 0,
        gid: 0,
        file_size: 0,
        id: at,
        flags: 0,
        flags_extended: 0,
        path: path.into(),
    };
    let mut index = repository.index().unwrap();
    index.add(&entry).unwrap();
    index.write().unwrap();
}

#[test]
fn submodules_are_checked_out() {
    let tree = Tree::new(&[
        ("sub/lib.c", "int x;\n"),
        (".gitmodules", "[submodule \"s\"]\n\tpath = sub\n\turl = u\n"),
    ]);
    let sub = repository(&tree.at("sub"));
    commit(&sub);
    let root = repository(tree.root());
    gitlink(&root, "sub", sub.head().unwrap().target().unwrap());
    tree.whole(Look::Submodules);
    // A node may remove what it likes of its files.
    tree.gone("sub/lib.c");
    tree.whole(Look::Submodules);
    tree.gone("sub/.git/index");
    tree.is_empty(Look::Submodules, "sub");
    tree.put("sub/lib.c", "int y;\n");
    // Or make a commit there.
    commit(&sub);
    tree.whole(Look::Submodules);
    tree.empty("sub");
    tree.missing(Look::Submodules, "sub/.git");
    // Git itself leaves this one alone.
    tree.put(".gitmodules", "[submodule \"s\"]\n\tpath = sub\n\turl = u\n\tupdate = none\n");
    tree.whole(Look::Submodules);
    tree.put(".gitmodules", "[submodule \"old\"]\n\tpath = gone\n\turl = u\n");
    tree.whole(Look::Submodules);
}

#[test]
fn lfs_pointers_are_found_where_attributes_say_so() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12345\n";
    let tree =
        Tree::new(&[("a.bin", pointer), ("fixture.txt", pointer), (".gitattributes", "*.bin filter=lfs\n")]);
    let root = repository(tree.root());
    commit(&root);
    tree.missing(Look::Lfs, "a.bin");
    tree.put("a.bin", "the content");
    tree.whole(Look::Lfs);
}

#[test]
fn composer_is_looked_at_by_its_own_list() {
    let tree = Tree::new(&[
        (
            "composer.lock",
            r#"{"packages":[{"name":"a/b","version":"1.0"},{"name":"a/m","version":"1","type":"metapackage"}],"packages-dev":[{"name":"a/dev","version":"2.0"}]}"#,
        ),
        ("vendor/autoload.php", "<?php"),
        (
            "vendor/composer/installed.json",
            r#"{"packages":[{"name":"a/b","version":"1.0","install-path":"../a/b"},{"name":"a/m","version":"1","install-path":null},{"name":"a/dev","version":"2.0","install-path":"../../elsewhere"}]}"#,
        ),
        ("vendor/a/b/x.php", "<?php"),
        ("elsewhere/x.php", "<?php"),
    ]);
    tree.whole(Look::Composer);
    tree.empty("elsewhere");
    tree.is_empty(Look::Composer, "elsewhere");
    tree.put("elsewhere/x.php", "<?php");
    tree.put("vendor/composer/installed.json", r#"{"packages":[{"name":"a/b","version":"1.0","install-path":"../a/b"},{"name":"a/m","version":"1","install-path":null}]}"#);
    tree.missing(Look::Composer, "vendor/a/dev");
    tree.gone("vendor/autoload.php");
    tree.no_mark(Look::Composer, "vendor/autoload.php");
    assert_eq!(Tree::new(&[("composer.lock", r#"{"packages":[]}"#)]).whole(Look::Composer), []);
}

#[test]
fn gems_mix_deps_and_nuget_restores_are_looked_at() {
    let lock = "GEM\n  remote: r\n  specs:\n    rack (3.0.0)\n    pg (1.0-x86_64-linux)\n    pg (1.0)\n\nPLATFORMS\n  ruby\n";
    let tree =
        Tree::new(&[("Gemfile.lock", lock), ("vendor/bundle/ruby/3.3.0/gems/rack-3.0.0/rack.rb", "x")]);
    tree.whole(Look::Bundler);
    tree.empty("vendor/bundle/ruby/3.3.0/gems/rack-3.0.0");
    tree.is_empty(Look::Bundler, "vendor/bundle/ruby/3.3.0/gems/rack-3.0.0");
    tree.empty("vendor/bundle/ruby");
    tree.missing(Look::Bundler, "vendor/bundle");
    tree.gone("vendor");
    tree.missing(Look::Bundler, "vendor/bundle");

    let tree =
        Tree::new(&[("mix.lock", "%{\n  \"jason\": {:hex, :jason},\n}\n"), ("deps/jason/mix.exs", "x")]);
    tree.whole(Look::Mix);
    tree.empty("deps/jason");
    tree.is_empty(Look::Mix, "deps/jason");
    tree.gone("deps");
    tree.missing(Look::Mix, "deps");

    let tree = Tree::new(&[
        ("src/a/a.csproj", "<Project/>"),
        ("src/a/obj/project.assets.json", "{}"),
        ("src/a/obj/project.nuget.cache", r#"{"success":true,"expectedPackageFiles":[]}"#),
    ]);
    tree.whole(Look::Dotnet);
    tree.put("src/a/obj/project.nuget.cache", r#"{"success":false}"#);
    tree.unreadable(Look::Dotnet, "src/a/obj/project.nuget.cache");
    tree.gone("src/a/obj");
    tree.no_mark(Look::Dotnet, "src/a/obj/project.assets.json");
}
