//! The kinds of repositories, each as the script that makes it.

/// What a lane of this kind must do.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// All that is promised.
    Works,
    /// Before anything is made, exit 3, one message that holds these words.
    Refused {
        /// Words of the message.
        says: &'static [&'static str],
    },
    /// The run ends with 3, its lanes are not there, and nothing is left of them.
    Blocked {
        /// Words of the messages.
        says: &'static [&'static str],
    },
    /// The repository is away when lanes are judged: they are kept whole.
    Vanishes {
        /// Words of the messages.
        says: &'static [&'static str],
        /// Words of the refusal to resume while it is away.
        later: &'static [&'static str],
    },
}

/// One kind of repository.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name in the table.
    pub name: &'static str,
    /// Makes it, in `$W`. Ends with `cannot WHY` where it can't be made here.
    pub setup: &'static str,
    /// Makes what must come after the reference was taken.
    pub ready: &'static str,
    /// The folder below `$W` that omg is started in.
    pub start: &'static str,
    /// Where lanes begin.
    pub base: &'static str,
    /// Further flags of `omg run`.
    pub flags: &'static [&'static str],
    /// A tracked file that a node edits.
    pub edit: &'static str,
    /// What each node of a lane does first.
    pub in_lane: &'static str,
    /// What a node does before the others begin, and after they are over.
    pub before: &'static str,
    /// See `before`.
    pub after: &'static str,
    /// Makes it unusable, and usable again.
    pub spoil: &'static str,
    /// See `spoil`.
    pub mend: &'static str,
    /// What holds at the end besides.
    pub finally: &'static str,
    /// Whether omg is started by another user than root.
    pub user: bool,
    /// What it must do.
    pub way: Way,
}

/// Words for all scripts.
pub const WORDS: &str = r#"
cannot() { echo "n/a: $1"; exit 1; }
content() {
    mkdir -p dir/sub other
    echo one > a.txt; echo b > dir/b.txt; echo c > dir/sub/c.txt; echo d > other/d.txt
    echo u > 'ü ñ.txt'; printf '#!/bin/sh\n' > run.sh; chmod 755 run.sh; ln -s a.txt link
    printf '*.log\n' > .gitignore
    git add -A; git commit -q -m first
    echo two >> a.txt; echo later > later.txt
    git add -A; git commit -q -m second
}
repo() { git init -q "$@" repo; cd repo; content; }
origin() { git init -q origin; (cd origin; content; git config uploadpack.allowFilter true; git config uploadpack.allowAnySHA1InWant true); }
"#;

const PLAIN: Kind = Kind {
    name: "plain",
    setup: "repo",
    ready: "",
    start: "repo",
    base: "HEAD",
    flags: &[],
    edit: "a.txt",
    in_lane: "",
    before: "",
    after: "",
    spoil: "",
    mend: "",
    finally: "",
    user: false,
    way: Way::Works,
};

/// Every kind, in the order of the table.
pub const KINDS: &[Kind] = &[
    PLAIN,
    Kind {
        name: "reftable refs",
        setup: "git init -q --ref-format=reftable probe 2>/dev/null || cannot 'this git lacks reftable (2.45 has it); see the row where it meets one'\nrm -rf probe\nrepo --ref-format=reftable",
        ..PLAIN
    },
    Kind {
        name: "reftable refs, git too old",
        setup: "fails git init -q --ref-format=reftable probe 2>/dev/null || cannot 'this git has reftable'\nrepo",
        spoil: "git -C repo config core.repositoryFormatVersion 1\ngit -C repo config extensions.refStorage reftable",
        mend: "git config -f repo/.git/config --unset extensions.refStorage\ngit config -f repo/.git/config core.repositoryFormatVersion 0",
        way: Way::Refused { says: &["refstorage", "a newer git"] },
        ..PLAIN
    },
    Kind { name: "SHA-256", setup: "repo --object-format=sha256", ..PLAIN },
    Kind { name: "shallow", setup: "origin\ngit clone -q --depth 1 file://$W/origin repo", ..PLAIN },
    Kind {
        name: "partial clone, remote gone",
        setup: "origin\ngit clone -q --filter=blob:none file://$W/origin repo\nmv origin gone",
        ..PLAIN
    },
    Kind {
        name: "partial clone, treeless",
        setup: "origin\ngit clone -q --filter=tree:0 file://$W/origin repo\nmv origin gone",
        ..PLAIN
    },
    Kind {
        name: "partial clone, base to fetch",
        setup: "origin\ngit clone -q --filter=blob:none file://$W/origin repo",
        // The reference fetched what the lanes are to fetch.
        ready: "cd $W; rm -rf repo; git clone -q --filter=blob:none file://$W/origin repo",
        base: "HEAD~1",
        flags: &["--base", "HEAD~1"],
        ..PLAIN
    },
    Kind {
        name: "partial clone, base out of reach",
        setup: "origin\ngit clone -q --filter=blob:none file://$W/origin repo\nmv origin gone",
        base: "HEAD~1",
        flags: &["--base", "HEAD~1"],
        mend: "mv gone origin",
        way: Way::Blocked { says: &["partial clone", "`git fetch origin` has to work", "--retry-blocked"] },
        ..PLAIN
    },
    Kind {
        name: "sparse, cone",
        setup: "repo\ngit sparse-checkout set --cone --no-sparse-index dir",
        ..PLAIN
    },
    Kind {
        name: "sparse, cone, sparse index",
        setup: "repo\ngit sparse-checkout set --cone --sparse-index dir",
        ..PLAIN
    },
    Kind {
        name: "sparse, not cone",
        setup: "repo\ngit sparse-checkout set --no-cone '/*' '!/other/' '!/later.txt'",
        ..PLAIN
    },
    Kind {
        name: "sparse by a node's own hand",
        // Else each lane's git writes that into the configuration they share, and they race.
        ready: "cd $W/repo; git config extensions.worktreeConfig true",
        in_lane: "case $0 in *create.sh|*lane.sh) ;; *) git sparse-checkout set dir ;; esac",
        finally: "git -C repo config --unset extensions.worktreeConfig || true",
        ..PLAIN
    },
    Kind {
        name: "split index",
        setup: "repo\ngit config core.splitIndex true\ngit update-index --split-index",
        ..PLAIN
    },
    Kind {
        name: "submodule, not filled",
        setup: "git init -q sm; (cd sm; content)\nrepo; git submodule --quiet add file://$W/sm sm; git commit -q -m sm",
        ..PLAIN
    },
    Kind {
        name: "submodule, submodule.recurse",
        setup: "git init -q sm; (cd sm; content)\nrepo; git submodule --quiet add file://$W/sm sm; git commit -q -m sm\ngit config submodule.recurse true",
        ..PLAIN
    },
    Kind {
        name: "submodule, filled in lanes",
        setup: "git init -q sm; (cd sm; content)\nrepo; git submodule --quiet add file://$W/sm sm; git commit -q -m sm",
        in_lane: "filled() { git submodule --quiet update --init; test -e sm/a.txt; }; test $0 = $W/create.sh || test -e wip.txt || test $0 = $W/lane.sh || filled",
        ..PLAIN
    },
    Kind {
        name: "inside a submodule",
        setup: "git init -q sm; (cd sm; content)\nrepo; git submodule --quiet add file://$W/sm sm; git commit -q -m sm",
        start: "repo/sm",
        ..PLAIN
    },
    Kind {
        name: "clean and smudge filters",
        setup: "git init -q repo; cd repo\ngit config filter.f.clean 'tr a-z A-Z'; git config filter.f.smudge 'tr A-Z a-z'; git config filter.f.required true\necho '*.txt filter=f' > .gitattributes; content",
        ..PLAIN
    },
    Kind {
        name: "filter without its program",
        setup: "git init -q repo; cd repo\necho '*.txt filter=f' > .gitattributes; content\ngit config filter.f.clean 'no-such-program'; git config filter.f.smudge 'no-such-program'",
        ..PLAIN
    },
    Kind {
        name: "required filter that fails",
        setup: "git init -q repo; cd repo\necho '*.txt filter=f' > .gitattributes; content\ngit config filter.f.clean cat; git config filter.f.smudge false; git config filter.f.required true",
        mend: "git -C repo config filter.f.smudge cat",
        way: Way::Blocked { says: &["filter.f has to work", "--retry-blocked"] },
        ..PLAIN
    },
    Kind {
        name: "core.autocrlf",
        setup: "git init -q repo; cd repo; git config core.autocrlf true; content",
        ..PLAIN
    },
    Kind {
        name: "eol attributes",
        setup: "git init -q repo; cd repo; printf '* text=auto eol=crlf\\n*.sh eol=lf\\ndir/b.txt ident\\n' > .gitattributes; content",
        ..PLAIN
    },
    Kind {
        name: "worktreeConfig",
        setup: "repo\ngit config extensions.worktreeConfig true\ngit config --worktree core.hooksPath /nonexistent",
        ..PLAIN
    },
    Kind {
        name: "relativeWorktrees, git too old",
        setup: "git init -q probe\ngit -C probe config core.repositoryFormatVersion 1\ngit -C probe config extensions.relativeWorktrees true\nfails git -C probe rev-parse 2>/dev/null || cannot 'this git knows it'\nrepo",
        spoil: "git -C repo config core.repositoryFormatVersion 1\ngit -C repo config extensions.relativeWorktrees true",
        mend: "git config -f repo/.git/config --unset extensions.relativeWorktrees\ngit config -f repo/.git/config core.repositoryFormatVersion 0",
        way: Way::Refused { says: &["relativeworktrees", "a newer git"] },
        ..PLAIN
    },
    Kind {
        name: "relative worktrees",
        setup: "git init -q probe\ngit -C probe config core.repositoryFormatVersion 1\ngit -C probe config extensions.relativeWorktrees true\ngit -C probe rev-parse 2>/dev/null || cannot 'this git does not know extensions.relativeWorktrees (2.48 does)'\nrepo\ngit config worktree.useRelativePaths true",
        ..PLAIN
    },
    Kind {
        name: "worktrees linked by relative paths",
        setup: "repo\ngit worktree add -q ../wt -b side\necho 'gitdir: ../repo/.git/worktrees/wt' > ../wt/.git\necho '../../../../wt/.git' > .git/worktrees/wt/gitdir",
        in_lane: "d=$(git rev-parse --absolute-git-dir); echo \"gitdir: $(realpath --relative-to=. $d)\" > .git",
        finally: "test \"$(git -C wt rev-parse --abbrev-ref HEAD)\" = side",
        ..PLAIN
    },
    Kind {
        name: "unknown extension",
        spoil: "git -C repo config core.repositoryFormatVersion 1\ngit -C repo config extensions.fromTheFuture true",
        mend: "git config -f repo/.git/config --unset extensions.fromTheFuture\ngit config -f repo/.git/config core.repositoryFormatVersion 0",
        way: Way::Refused { says: &["fromthefuture", "a newer git"] },
        ..PLAIN
    },
    Kind {
        name: "unknown format version",
        spoil: "git -C repo config core.repositoryFormatVersion 99",
        mend: "git config -f repo/.git/config core.repositoryFormatVersion 0",
        way: Way::Refused { says: &["99", "a newer git"] },
        ..PLAIN
    },
    Kind { name: "detached HEAD", setup: "repo; git checkout -q --detach", ..PLAIN },
    Kind {
        name: "HEAD moved during the run",
        before: "cd $W/repo; git commit -q --allow-empty -m moved",
        finally: "git -C repo update-ref refs/heads/main $(cat base)",
        ..PLAIN
    },
    Kind {
        name: "branch switched during the run",
        before: "cd $W/repo; test -e later.txt || exit 0; git checkout -q -b elsewhere HEAD~1",
        finally: "test \"$(git -C repo symbolic-ref --short HEAD)\" = elsewhere; git -C repo checkout -q main; git -C repo branch -q -D elsewhere",
        ..PLAIN
    },
    Kind {
        name: "HEAD without a commit",
        setup: "repo; git symbolic-ref HEAD refs/heads/unborn",
        base: "main",
        flags: &["--base", "main"],
        ..PLAIN
    },
    Kind {
        name: "no commit",
        spoil: "mv repo keep; git init -q repo",
        mend: "rm -rf repo; mv keep repo",
        way: Way::Refused { says: &["no commit yet", "git commit"] },
        ..PLAIN
    },
    Kind {
        name: "no repository",
        spoil: "mv repo/.git keep",
        mend: "mv keep repo/.git",
        way: Way::Refused { says: &["repository"] },
        ..PLAIN
    },
    Kind {
        name: "owned by another user",
        setup: "test \"$(id -u)\" = 0 || cannot 'only root can give a repository away'\nrepo",
        spoil: "chown -R 65533 repo",
        mend: "chown -R 0 repo",
        way: Way::Refused { says: &["does not trust", "safe.directory"] },
        ..PLAIN
    },
    Kind {
        name: "owned by another user, trusted",
        setup: "test \"$(id -u)\" = 0 || cannot 'only root can give a repository away'\nrepo\ngit config --global --add safe.directory '*'\nchown -R 65533 $W/repo",
        ..PLAIN
    },
    Kind {
        name: "git folder read-only",
        setup: "repo",
        ready: "test \"$(id -u)\" != 0 || chown -R 65534:65534 $W",
        user: true,
        spoil: "chmod -R a-w repo/.git",
        mend: "chmod -R u+w repo/.git",
        way: Way::Refused { says: &["can't be written", "repo/.git"] },
        ..PLAIN
    },
    Kind {
        name: "refs read-only",
        setup: "repo",
        ready: "test \"$(id -u)\" != 0 || chown -R 65534:65534 $W",
        user: true,
        spoil: "find repo/.git/refs -type d -exec chmod a-w {} +",
        mend: "chmod -R u+w repo/.git",
        way: Way::Refused { says: &["can't be written", "repo/.git/"] },
        ..PLAIN
    },
    Kind {
        name: "another user's, trusted, read-only",
        setup: "test \"$(id -u)\" = 0 || cannot 'only root can give a repository away'\nrepo\ngit config --global --add safe.directory '*'",
        ready: "chown -R 65534:65534 $W",
        user: true,
        spoil: "chown -R 0:0 repo",
        mend: "chown -R 65534:65534 repo",
        way: Way::Refused { says: &["can't be written", "repo/.git"] },
        ..PLAIN
    },
    Kind {
        name: "checkout read-only, git folder not",
        setup: "repo",
        ready: "test \"$(id -u)\" != 0 || chown -R 65534:65534 $W\nchmod -R a-w $W/repo/dir $W/repo/a.txt; chmod a-w $W/repo",
        user: true,
        finally: "chmod -R u+w repo",
        ..PLAIN
    },
    Kind {
        name: "bare",
        setup: "repo\ncd ..; git clone -q --bare repo bare.git",
        start: "bare.git",
        ..PLAIN
    },
    Kind {
        name: "bare, safe.bareRepository=explicit",
        setup: "repo\ncd ..; git clone -q --bare repo bare.git",
        start: "bare.git",
        spoil: "git config --global safe.bareRepository explicit",
        mend: "git config --global --unset safe.bareRepository",
        way: Way::Refused { says: &["bare.git", "safe.bareRepository all"] },
        ..PLAIN
    },
    Kind {
        name: "bare, worktreeConfig",
        setup: "repo\ncd ..; git clone -q --bare repo bare.git; cd bare.git; git config extensions.worktreeConfig true; git config --worktree core.bare true; git config --file config --unset core.bare",
        start: "bare.git",
        ..PLAIN
    },
    Kind {
        name: "bare, also for its worktrees",
        setup: "repo\ncd ..; git clone -q --bare repo bare.git",
        start: "bare.git",
        spoil: "git -C bare.git config extensions.worktreeConfig true",
        mend: "cd bare.git; git config --worktree core.bare true; git config --file config --unset core.bare",
        way: Way::Refused { says: &["for bare too", "config --worktree core.bare"] },
        ..PLAIN
    },
    Kind {
        name: "moved during the run",
        after: "mv $W/repo $W/away",
        spoil: "mv repo away",
        mend: "mv away repo",
        way: Way::Vanishes {
            says: &["repository-away", "repo/.git", "move it back"],
            later: &["repo/.git", "away from where it was", "move it back"],
        },
        ..PLAIN
    },
    Kind {
        name: "another in its place",
        after: "mv $W/repo $W/away; git init -q $W/repo; cd $W/repo; echo x > x; git add x; git commit -q -m other",
        spoil: "mv repo away; git init -q repo; cd repo; echo x > x; git add x; git commit -q -m other",
        mend: "rm -rf repo; mv away repo",
        way: Way::Vanishes {
            says: &["does not list it"],
            later: &["the base of lanes", "put the repository back"],
        },
        ..PLAIN
    },
    Kind { name: "linked worktree", setup: "repo; git worktree add -q ../wt -b side", start: "wt", ..PLAIN },
    Kind { name: "in a folder of the checkout", start: "repo/dir/sub", ..PLAIN },
    Kind {
        name: "separate git folder",
        setup: "git init -q --separate-git-dir=$W/elsewhere.git repo; cd repo; content",
        ..PLAIN
    },
    Kind {
        name: "behind a symbolic link",
        setup: "mkdir real; ln -s real way; cd way; repo",
        start: "way/repo",
        ..PLAIN
    },
    Kind {
        name: "borrowed objects",
        setup: "origin\ngit clone -q --shared origin repo; git clone -q --reference origin origin repo2",
        ..PLAIN
    },
    Kind {
        name: "borrowed objects, lender away",
        setup: "origin\ngit clone -q --shared origin repo",
        spoil: "mv origin away",
        mend: "mv away origin",
        way: Way::Refused { says: &["objects", "/repo", "git fsck"] },
        ..PLAIN
    },
    Kind {
        name: "broken configuration",
        spoil: "cp repo/.git/config keep; echo '[' >> repo/.git/config",
        mend: "mv keep repo/.git/config",
        way: Way::Refused { says: &["bad config", ".git/config"] },
        ..PLAIN
    },
    Kind {
        name: "half-made worktree of others",
        spoil: "mkdir -p repo/.git/worktrees/half; cd repo/.git/worktrees/half; echo $W/half/.git > gitdir; : > commondir; echo ref: refs/heads/half > HEAD",
        mend: "rm -r repo/.git/worktrees/half",
        way: Way::Refused { says: &["worktrees/half", "left half-made", "move that folder"] },
        ..PLAIN
    },
    Kind {
        name: "`.git` is a symbolic link",
        setup: "repo; mv .git ../real.git; ln -s ../real.git .git",
        ..PLAIN
    },
    Kind {
        name: "odd names",
        setup: "mkdir \"it's a ré po\"; cd \"it's a ré po\"; git init -q .; mkdir odd; (cd odd; : > \"$(printf 'line\\nbreak')\"; : > \"$(printf 'no\\377utf8')\"; : > ./-dash; : > ':colon'; : > 'a*b'; : > A; : > a; : > ' lead'; : > 'tab\t.x'); content",
        start: "it's a ré po",
        ..PLAIN
    },
    Kind {
        name: "packed refs, commit-graph, midx",
        setup: "repo; git pack-refs --all; git gc -q; git commit-graph write --reachable; git multi-pack-index write",
        ..PLAIN
    },
    Kind {
        name: "feature.manyFiles",
        setup: "repo; git config feature.manyFiles true; git config index.skipHash true; git update-index --index-version 4 --untracked-cache",
        ..PLAIN
    },
    Kind { name: "replaced commits", setup: "repo; git replace --graft HEAD", ..PLAIN },
    Kind {
        name: "hooks",
        setup: "repo; mkdir -p .git/hooks\nfor hook in post-checkout pre-commit reference-transaction post-index-change; do printf '#!/bin/sh\\nexit 0\\n' > .git/hooks/$hook; chmod 755 .git/hooks/$hook; done",
        ..PLAIN
    },
    Kind {
        name: "hostile configuration",
        setup: "repo\nfor set in status.showUntrackedFiles=no status.relativePaths=false diff.ignoreSubmodules=all core.fileMode=false core.logAllRefUpdates=false branch.autoSetupMerge=always core.fsmonitor=true core.untrackedCache=true core.quotePath=true core.abbrev=4 log.showSignature=true color.ui=always core.pager=false column.ui=always checkout.workers=4 checkout.thresholdForParallelism=1 gc.auto=1 core.preferSymlinkRefs=false core.precomposeUnicode=true core.sharedRepository=group diff.noprefix=true diff.renames=copies status.branch=true status.short=true push.default=nothing rerere.enabled=true log.date=relative core.attributesFile=/nonexistent pull.rebase=true; do git config ${set%%=*} ${set#*=}; done",
        in_lane: "git() { command git -c status.short=false -c status.branch=false -c color.ui=never -c status.showUntrackedFiles=normal -c column.ui=never \"$@\"; }",
        finally: "for key in status.short status.branch status.showUntrackedFiles color.ui column.ui; do git -C repo config --unset $key; done",
        ..PLAIN
    },
];
