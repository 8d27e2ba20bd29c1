//! A folder for one row: its repository, its git, its home, and nothing of this machine's configuration.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Seconds after which a command that does not end is a fault.
const TIMEOUT: &str = "120";

/// One git of this machine.
#[derive(Debug)]
pub struct FoundGit {
    pub program: PathBuf,
    pub version: String,
}

/// The gits of this machine.
#[derive(Debug)]
pub struct Gits {
    /// In the order of the PATH.
    pub all: Vec<FoundGit>,
    /// The newest, which makes what older ones can't.
    pub newest: PathBuf,
}

impl Gits {
    /// Finds each git on the PATH and where systems keep one.
    pub fn found() -> Gits {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places =
            std::env::split_paths(&path).chain(["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from));
        let (mut all, mut seen): (Vec<FoundGit>, BTreeSet<PathBuf>) = (Vec::new(), BTreeSet::new());
        for program in places.map(|place| place.join("git")) {
            let Ok(real) = fs::canonicalize(&program) else { continue };
            let Ok(output) = Command::new(&program).arg("version").output() else { continue };
            let words = String::from_utf8_lossy(&output.stdout).into_owned();
            let Some(version) = words.split_whitespace().nth(2) else { continue };
            if seen.insert(real) && !all.iter().any(|other| other.version == version) {
                all.push(FoundGit { program, version: version.into() });
            }
        }
        let number = |version: &str| -> Vec<u32> {
            version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
        };
        let newest = all.iter().max_by_key(|git| number(&git.version)).map(|git| git.program.clone());
        Gits { newest: newest.expect("there is no git on this machine"), all }
    }
}

/// One row's folder. Gone when dropped.
pub struct World {
    folder: tempfile::TempDir,
    newest: PathBuf,
}

impl Drop for World {
    /// Opens what a row closed, or the folder could not be deleted.
    fn drop(&mut self) {
        let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(self.path()).stderr(Stdio::null()).status();
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub text: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { code: output.status.code(), text: text(&output.stdout) + &text(&output.stderr) }
    }
}

impl World {
    pub fn new(git: &Path, newest: &Path) -> World {
        let folder = tempfile::Builder::new().prefix("omg-kind-").tempdir().unwrap();
        // Some rows are run by another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let world = World { folder, newest: newest.to_path_buf() };
        fs::create_dir(world.path().join("bin")).unwrap();
        fs::write(
            world.path().join("gitconfig"),
            "[user]\n name = t\n email = t@example.invalid\n[init]\n defaultBranch = main\n[protocol \"file\"]\n allow = always\n[advice]\n detachedHead = false\n",
        )
        .unwrap();
        world.use_git(git);
        world
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes `git` the git of this world.
    pub fn use_git(&self, git: &Path) {
        let link = self.path().join("bin/git");
        let _ = fs::remove_file(&link);
        symlink(fs::canonicalize(git).unwrap(), link).unwrap();
    }

    /// Puts a script in the place of its git.
    pub fn wrap_git(&self, script: &str) {
        let link = self.path().join("bin/git");
        fs::remove_file(&link).unwrap();
        fs::write(&link, script).unwrap();
        fs::set_permissions(&link, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, program: &str, folder: &str, more: &[(&str, &str)]) -> Command {
        let system = std::env::var("PATH").unwrap();
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", format!("{}:{system}", self.path().join("bin").display()))
            .env("W", self.path())
            .env("NEWEST", &self.newest)
            .env("OMG", env!("CARGO_BIN_EXE_omg"))
            .env("HOME", self.path())
            .env("OMG_HOME", self.path().join("home"))
            .env("GIT_CONFIG_GLOBAL", self.path().join("gitconfig"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(more.iter().copied())
            .current_dir(self.path().join(folder))
            .stdin(Stdio::null());
        command
    }

    /// Runs a script in `folder` of this world. Errors: it failed, with all it said.
    pub fn script(&self, folder: &str, script: &str, more: &[(&str, &str)]) -> Result<String, String> {
        let output = self.command("sh", folder, more).args(["-euc", script]).output();
        let ended: Ended = output.map_err(|error| error.to_string())?.into();
        if ended.code == Some(0) { Ok(ended.text) } else { Err(ended.text) }
    }

    /// Runs omg in `folder`, as another user where `user` and this is root.
    pub fn omg(&self, folder: &str, user: bool, words: &[&str]) -> Ended {
        let mut command = self.command("timeout", folder, &[]);
        command.args(["--kill-after=5", TIMEOUT]);
        if user && rustix::process::geteuid().is_root() {
            // Where this program lies may be closed to others.
            let copy = self.path().join("omg");
            if !copy.exists() {
                // Not by this process: what it has open for writing, a child of another thread has too.
                let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_omg")).arg(&copy).status().unwrap();
                assert!(copied.success());
            }
            command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
        } else {
            command.arg(env!("CARGO_BIN_EXE_omg"));
        }
        command.args(words).output().unwrap().into()
    }
}
