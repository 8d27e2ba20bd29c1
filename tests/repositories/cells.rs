//! Fills the cells of a row. What is asserted is asserted by git, in scripts, on the repository itself.

use std::fs;

use crate::kinds::{Kind, Way};
use crate::world::{Ended, Gits, World};

/// The columns of the table.
pub const CELLS: [&str; 5] = ["create", "commit", "dirty", "empty", "resume"];

/// What stands in a cell.
#[derive(Clone, Debug)]
pub enum Cell {
    /// As promised.
    Green,
    /// Refused before anything was made, in one message that says what to do.
    Refused,
    /// Its lanes could not be made; said so, nothing left behind.
    Blocked,
    /// Kept whole, as nothing could be judged; said so.
    Kept,
    /// Such a repository can't be made here.
    NotHere(String),
    /// Not as promised.
    Red(String),
}

impl Cell {
    /// Returns the word for the table.
    pub fn word(&self) -> &'static str {
        match self {
            Cell::Green => "green",
            Cell::Refused => "refused",
            Cell::Blocked => "blocked",
            Cell::Kept => "kept",
            Cell::NotHere(_) => "n/a",
            Cell::Red(_) => "RED",
        }
    }
}

/// Which cells of a row are filled together.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// One leg with a lane for each of the first four.
    Leg,
    /// The last.
    Resume,
}

/// Returns the cells of one part of a row.
pub fn fill(gits: &Gits, git: usize, kind: &Kind, part: Part) -> Vec<(usize, Cell)> {
    let columns: Vec<usize> = match part {
        Part::Leg => (0..4).collect(),
        Part::Resume => vec![4],
    };
    let world = World::new(&gits.all[git].program, &gits.newest);
    let row = Row { world: &world, kind, git: &gits.all[git].program };
    let all = |cell: Cell| columns.iter().map(|column| (*column, cell.clone())).collect();
    if let Err(words) = row.set_up() {
        let last = words.lines().last().unwrap_or_default();
        return all(match last.strip_prefix("n/a: ") {
            Some(why) => Cell::NotHere(why.into()),
            None => Cell::Red(format!("the repository could not be made: {words}")),
        });
    }
    let outcome = match (part, kind.way) {
        (Part::Leg, Way::Works) => return row.works(),
        (Part::Leg, Way::Refused { says }) => row.refused(says).map(|()| Cell::Refused),
        (Part::Leg, Way::Blocked { says }) => row.blocked(says).map(|()| Cell::Blocked),
        (Part::Leg, Way::Vanishes { says, .. }) => row.vanishes(says).map(|()| Cell::Kept),
        (Part::Resume, Way::Works) => row.resumes().map(|()| Cell::Green),
        (Part::Resume, Way::Refused { says }) => row.resumes_once_mended(says).map(|()| Cell::Refused),
        (Part::Resume, Way::Blocked { .. }) => row.resumes_once_unblocked().map(|()| Cell::Green),
        (Part::Resume, Way::Vanishes { later, .. }) => row.resumes_once_mended(later).map(|()| Cell::Refused),
    };
    all(outcome.unwrap_or_else(Cell::Red))
}

/// What the four lanes of a leg do. `$W/reference` is what `git worktree add` makes of the base.
const NODES: [(&str, &str); 4] = [
    (
        "create",
        "same_as_reference\n\
         test \"$(git rev-parse HEAD)\" = \"$(cat $W/base)\"\n\
         test \"$(git rev-parse --abbrev-ref HEAD)\" = omg/r/create\n\
         is_empty \"$(git status --porcelain --ignored)\"\n",
    ),
    ("commit", "echo new > new.md\ngit add --sparse new.md\ngit commit -q -m work\n"),
    ("dirty", "echo edit >> \"$EDIT\"\necho u > untracked.txt\n"),
    ("empty", "true\n"),
];

/// Words for the scripts of nodes and of checks.
const WORDS: &str = r#"
set -eu
fails() { if "$@"; then return 1; fi; }
is_empty() { test -z "$1" || { echo "not empty: $1"; return 1; }; }
listing() { (cd "$1" && find . -name .git -prune -o -printf '%P %M %l\n' | LC_ALL=C sort); }
same_as_reference() {
    listing . > "$W/listing.$$"; listing "$W/reference" | diff - "$W/listing.$$"
    diff -r --no-dereference --exclude=.git "$W/reference" .
    git ls-files -v | diff "$W/reference.flags" -
}
"#;

/// What holds after a leg of a repository that works, by column.
const CHECKS: [&str; 4] = [
    "test ! -e $L/create\nfails git rev-parse -q --verify refs/heads/omg/r/create\n",
    "test ! -e $L/commit\n\
     test \"$(git rev-parse refs/heads/omg/r/commit^)\" = \"$(cat $W/base)\"\n\
     test \"$(git cat-file blob refs/heads/omg/r/commit:new.md)\" = new\n\
     is_empty \"$(git worktree list --porcelain | grep -F $L/commit)\"\n",
    "test \"$(git -C $L/dirty status --porcelain)\" = \"$(printf ' M %s\\n?? untracked.txt' \"$EDIT\")\"\n\
     test \"$(git rev-parse refs/heads/omg/r/dirty)\" = \"$(cat $W/base)\"\n\
     git worktree list --porcelain | grep -qF $L/dirty\n\
     is_empty \"$(git worktree list --porcelain | grep '^locked')\"\n\
     grep -q 'lane dirty: kept at' $W/said\n",
    "test ! -e $L/empty\nfails git rev-parse -q --verify refs/heads/omg/r/empty\n\
     is_empty \"$(git worktree list --porcelain | grep -F $L/empty)\"\n\
     is_empty \"$(grep 'lane empty.*\\(kept\\|removed\\)' $W/said)\"\n\
     git for-each-ref | grep -v refs/heads/omg/r/ | diff $W/refs -\n",
];

/// The node that is killed twice: amid its lane's checkout, and amid its work.
const KILLED: &str = r#"
test ! -e wip.txt || { test "$(git log -1 --format=%s)" = first; cat wip.txt > $W/seen; exit 0; }
same_as_reference
echo c > new.md
git add --sparse new.md
git commit -q -m first
echo wip > wip.txt
kill -9 $(cut -d' ' -f1 $OMG_RUN_DIR/run.lock)
exec sleep 600
"#;

/// A git that leaves half a checkout behind and kills who called it.
const KILLER: &str = r#"#!/bin/sh
case " $* " in *" read-tree "*" -u "*|*" checkout "*|*" reset --hard "*) ;; *) exec REAL "$@" ;; esac
REAL "$@" || exit $?
dir=$(REAL rev-parse --absolute-git-dir)
rm -f run.sh "$dir/index"
: > "$dir/index.lock"
kill -9 $PPID
"#;

struct Row<'a> {
    world: &'a World,
    kind: &'a Kind,
    git: &'a std::path::Path,
}

impl Row<'_> {
    fn script(&self, script: &str) -> Result<String, String> {
        let script = format!("{WORDS}{}\n{script}", crate::kinds::WORDS);
        let lanes = self.world.path().join("home/runs/r/worktrees");
        let mut more = vec![("L", lanes.to_str().unwrap_or_default()), ("EDIT", self.kind.edit)];
        if self.kind.user {
            // We look at what another user made.
            more.extend([("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory")]);
            more.push(("GIT_CONFIG_VALUE_0", "*"));
        }
        self.world.script("", &script, &more)
    }

    /// The same where omg is started.
    fn check(&self, script: &str) -> Result<(), String> {
        let script = format!("cd \"$W/{}\"\nset -x\n{script}", self.kind.start);
        self.script(&script).map(|_| ()).map_err(|words| format!("{words}\nomg said:\n{}", self.said()))
    }

    fn said(&self) -> String {
        fs::read_to_string(self.world.path().join("said")).unwrap_or_default()
    }

    fn set_up(&self) -> Result<(), String> {
        self.script(self.kind.setup)?;
        let reference = format!(
            "cd \"$W/{}\"\ngit rev-parse --verify '{}^{{commit}}' > $W/base",
            self.kind.start, self.kind.base
        );
        self.script(&reference)?;
        if !matches!(self.kind.way, Way::Blocked { .. }) {
            let made = format!(
                "cd \"$W/{}\"\n\
                 git worktree add -q --detach $W/ref $(cat $W/base)\n\
                 git -C $W/ref ls-files -v > $W/reference.flags\n\
                 cp -a $W/ref $W/reference\n\
                 git worktree remove --force $W/ref\n\
                 git for-each-ref > $W/refs\n{}",
                self.kind.start, self.kind.ready
            );
            self.script(&made)?;
        }
        Ok(())
    }

    fn graph(&self, nodes: &[(&str, &str)]) -> String {
        let mut text = String::from("name: matrix\nprovision: none\nnodes:\n");
        let mut after = String::new();
        if !self.kind.before.is_empty() {
            self.node_script("before", self.kind.before);
            text += "  - {id: before, run: 'sh -eu \"$W/before.sh\"'}\n";
            after = ", depends_on: [before]".into();
        }
        for (id, script) in nodes {
            self.node_script(id, &format!("{}\n{script}", self.kind.in_lane));
            text += &format!("  - {{id: {id}, worktree: {id}, run: 'sh -eu \"$W/{id}.sh\"'{after}}}\n");
        }
        let is_whole_leg = nodes.len() == NODES.len();
        if !self.kind.after.is_empty() && is_whole_leg {
            self.node_script("after", self.kind.after);
            let ids: Vec<&str> = nodes.iter().map(|(id, _)| *id).collect();
            let ids = ids.join(", ");
            text += &format!("  - {{id: after, run: 'sh -eu \"$W/after.sh\"', depends_on: [{ids}]}}\n");
        }
        let path = self.world.path().join("g.yaml");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn node_script(&self, id: &str, script: &str) {
        let edit = format!("EDIT='{}'\n", self.kind.edit);
        let script = format!("{WORDS}{}\n{edit}\n{script}", crate::kinds::WORDS);
        fs::write(self.world.path().join(format!("{id}.sh")), script).unwrap();
    }

    fn omg(&self, words: &[&str]) -> Ended {
        // A repository that is away takes the folder with it.
        let is_there = self.world.path().join(self.kind.start).is_dir();
        let folder = if is_there { self.kind.start } else { "" };
        let ended = self.world.omg(folder, self.kind.user, words);
        fs::write(self.world.path().join("said"), &ended.text).unwrap();
        ended
    }

    fn run(&self, nodes: &[(&str, &str)]) -> Ended {
        let graph = self.graph(nodes);
        let mut words = vec!["run", &graph, "--run-id", "r", "-j", "4"];
        words.extend(self.kind.flags);
        self.omg(&words)
    }

    fn expect(&self, ended: &Ended, code: Option<i32>, what: &str) -> Result<(), String> {
        if ended.code == code {
            return Ok(());
        }
        Err(format!("{what} ended with {:?}, not {code:?}:\n{}", ended.code, ended.text))
    }

    fn works(&self) -> Vec<(usize, Cell)> {
        let ended = self.run(&NODES);
        let whole = self
            .expect(&ended, Some(0), "the run")
            .and_then(|()| self.script(&format!("cd \"$W\"\n{}", self.kind.finally)).map(|_| ()))
            .and_then(|()| self.check("fails grep -n 'error:' $W/said"));
        CHECKS
            .iter()
            .enumerate()
            .map(|(column, check)| match whole.clone().and_then(|()| self.check(check)) {
                Ok(()) => (column, Cell::Green),
                Err(why) => (column, Cell::Red(why)),
            })
            .collect()
    }

    /// One message with a way out, and nothing was made.
    fn is_refusal(&self, ended: &Ended, says: &[&str]) -> Result<(), String> {
        self.expect(ended, Some(3), "omg")?;
        let errors = ended.text.lines().filter(|line| line.starts_with("error:")).count();
        if errors != 1 || !ended.text.contains("hint: ") {
            return Err(format!("not one message with a hint:\n{}", ended.text));
        }
        self.contains(&ended.text, says)
    }

    fn contains(&self, text: &str, says: &[&str]) -> Result<(), String> {
        match says.iter().find(|words| !text.contains(**words)) {
            Some(words) => Err(format!("does not say `{words}`:\n{text}")),
            None => Ok(()),
        }
    }

    fn refused(&self, says: &[&str]) -> Result<(), String> {
        const FILES: &str = "find . -path ./home/locks -prune -o -printf '%p %s %T@\\n' | grep -v '^./said\\|^\\. ' | LC_ALL=C sort";
        self.script(self.kind.spoil)?;
        self.graph(&NODES);
        if self.kind.user {
            self.script("test \"$(id -u)\" != 0 || cp \"$OMG\" \"$W/omg\"")?;
        }
        let before = self.script(FILES)?;
        let graph = self.world.path().join("g.yaml");
        let graph = graph.to_str().unwrap_or_default();
        let mut words = vec!["run", graph, "--run-id", "r"];
        words.extend(self.kind.flags);
        let ended = self.omg(&words);
        self.is_refusal(&ended, says)?;
        let after = self.script(FILES)?;
        if before == after { Ok(()) } else { Err(format!("files changed:\n{before}\n{after}")) }
    }

    fn blocked(&self, says: &[&str]) -> Result<(), String> {
        let ended = self.run(&NODES);
        self.expect(&ended, Some(3), "the run")?;
        self.contains(&ended.text, says)?;
        self.script(self.kind.mend)?;
        self.check(
            "is_empty \"$(git for-each-ref refs/heads/omg)\"\n\
             test \"$(git worktree list | wc -l)\" = 1\n\
             is_empty \"$(ls $L)\"\n",
        )
    }

    fn vanishes(&self, says: &[&str]) -> Result<(), String> {
        let ended = self.run(&NODES);
        self.contains(&ended.text, says)?;
        self.script(self.kind.mend)?;
        self.check(
            "for lane in create commit dirty empty; do git -C $L/$lane status > $W/out; done\n\
             test \"$(git cat-file blob refs/heads/omg/r/commit:new.md)\" = new\n\
             test \"$(cat $L/dirty/untracked.txt)\" = u\n",
        )
    }

    /// Kills a run amid the checkout of its lane.
    fn kill_amid_checkout(&self) -> Result<(), String> {
        self.world.wrap_git(&KILLER.replace("REAL", &self.git.display().to_string()));
        let ended = self.run(&[("lane", KILLED)]);
        self.world.use_git(self.git);
        self.was_killed(&ended)
    }

    /// `timeout` ends as what it ran did, or says 137 for it.
    fn was_killed(&self, ended: &Ended) -> Result<(), String> {
        let code = ended.code.filter(|code| *code != 137);
        self.expect(&Ended { code, text: ended.text.clone() }, None, "the run that is killed")
    }

    fn ends_whole(&self, words: &[&str]) -> Result<(), String> {
        let ended = self.omg(words);
        self.expect(&ended, Some(0), "the last leg")?;
        self.script(&format!("cd \"$W\"\n{}", self.kind.finally))?;
        self.check(
            "test \"$(cat $W/seen)\" = wip\n\
             test \"$(git rev-parse refs/heads/omg/r/lane^)\" = \"$(cat $W/base)\"\n\
             test \"$(git -C $L/lane status --porcelain)\" = '?? wip.txt'\n",
        )
    }

    fn resumes(&self) -> Result<(), String> {
        self.kill_amid_checkout()?;
        self.was_killed(&self.omg(&["resume", "r"]))?;
        self.ends_whole(&["resume", "r"])
    }

    fn resumes_once_mended(&self, says: &[&str]) -> Result<(), String> {
        let ended = self.run(&[("lane", KILLED)]);
        self.was_killed(&ended)?;
        self.script(self.kind.spoil)?;
        let ended = self.omg(&["resume", "r"]);
        self.is_refusal(&ended, says)?;
        self.script(&format!("test \"$(cat \"$L/lane/wip.txt\")\" = wip\n{}", self.kind.mend))?;
        self.ends_whole(&["resume", "r"])
    }

    fn resumes_once_unblocked(&self) -> Result<(), String> {
        let ended = self.run(&NODES[1..2]);
        self.expect(&ended, Some(3), "the run")?;
        self.script(self.kind.mend)?;
        let ended = self.omg(&["resume", "r", "--retry-blocked"]);
        self.expect(&ended, Some(0), "the leg after it was mended")?;
        self.check(CHECKS[1])
    }
}
