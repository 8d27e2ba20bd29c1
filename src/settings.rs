//! The sole reader of the environment and of the user's configuration file.
//!
//! Each value comes from a flag, else a variable, else the graph, else the file, else the default
//! (DESIGN.md section 11).
#![expect(clippy::disallowed_methods, reason = "the sole reader of the environment and the configuration")]

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::graph::model::ProvisionWhen;
use crate::process::environment::Environment;

/// How lane branches are named, unless the user says otherwise.
pub const BRANCH_TEMPLATE_DEFAULT: &str = "omg/{run}/{lane}";

/// What the environment and the configuration file say; flags and the graph come in where used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The environment of this process.
    pub environment: Environment,
    /// The folder of this process.
    pub folder: PathBuf,
    /// Where runs are kept.
    pub home: PathBuf,
    /// What the variables say.
    pub variables: Choices,
    /// What the configuration file says.
    pub file: Choices,
    /// Which logs to show, as tracing's filters have it.
    pub log: Option<String>,
}

/// What a user may choose, each where it is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choices {
    /// Most processes at a time.
    pub concurrency: Option<NonZeroU32>,
    /// What progress and results look like.
    pub output: Option<OutputMode>,
    /// Where lanes live.
    pub worktree_root: Option<PathBuf>,
    /// How lane branches are named.
    pub branch_template: Option<String>,
    /// When lanes are prepared.
    pub provision_when: Option<ProvisionWhen>,
}

/// What progress looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputMode {
    /// By what standard error is.
    #[default]
    Auto,
    /// A line an event.
    Plain,
    /// The journal's own lines, to standard output.
    Json,
    /// Folds and annotations in a log of GitHub's.
    Github,
    /// Sections in a log of GitLab's.
    Gitlab,
}

/// A setting that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A variable has a value that means nothing.
    #[error("{name}={value}: {reason}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The configuration file can't be used.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no folder to work in, or no home to keep runs in.
    #[error("{0}")]
    Nowhere(String),
}

/// Returns the arguments of this process, without its name.
pub fn arguments() -> Vec<OsString> {
    std::env::args_os().skip(1).collect()
}

/// Returns how many processes this machine runs at once.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Returns the environment that this process was started with.
pub fn own_environment() -> Environment {
    std::env::vars_os().collect()
}

impl Settings {
    /// Returns what the environment and the configuration file of this process say.
    ///
    /// Errors: a value that means nothing, or no place to keep runs in.
    pub fn read() -> Result<Settings, SettingsError> {
        let environment = own_environment();
        let folder = std::env::current_dir()
            .map_err(|error| SettingsError::Nowhere(format!("the present folder can't be used: {error}")))?;
        let home = home(&environment).map(|home| real(&folder.join(home))).ok_or_else(|| {
            SettingsError::Nowhere("no home for runs: set OMG_HOME, XDG_STATE_HOME or HOME".into())
        })?;
        let file = match config_path(&environment) {
            Some(path) => from_file(&path)?,
            None => Choices::default(),
        };
        Ok(Settings {
            variables: from_variables(&environment)?,
            log: environment.text("OMG_LOG").map(str::to_string),
            environment,
            folder,
            home,
            file,
        })
    }
}

/// Returns a path with every link in the part of it that exists followed, so that one home has one
/// spelling: what a run started carries it, and is found by it.
fn real(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(existing) = std::fs::canonicalize(ancestor) {
            let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            return if rest.as_os_str().is_empty() { existing } else { existing.join(rest) };
        }
    }
    path.to_path_buf()
}

fn path_in(environment: &Environment, name: &str) -> Option<PathBuf> {
    environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn home(environment: &Environment) -> Option<PathBuf> {
    path_in(environment, "OMG_HOME")
        .or_else(|| {
            path_in(environment, "XDG_STATE_HOME").filter(|path| path.is_absolute()).map(|p| p.join("omg"))
        })
        .or_else(|| path_in(environment, "HOME").map(|path| path.join(".local/state/omg")))
}

fn config_path(environment: &Environment) -> Option<PathBuf> {
    path_in(environment, "XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| path_in(environment, "HOME").map(|path| path.join(".config")))
        .map(|path| path.join("omg/config.toml"))
}

fn from_file(path: &Path) -> Result<Choices, SettingsError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Choices::default()),
        Err(error) => return Err(SettingsError::File { path: path.into(), reason: error.to_string() }),
    };
    toml::from_str(&text)
        .map_err(|error| SettingsError::File { path: path.into(), reason: error.to_string() })
}

fn from_variables(environment: &Environment) -> Result<Choices, SettingsError> {
    fn parsed<T>(
        environment: &Environment,
        name: &'static str,
        parse: impl Fn(&str) -> Option<T>,
        reason: &str,
    ) -> Result<Option<T>, SettingsError> {
        match environment.text(name).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(value) => match parse(value) {
                Some(parsed) => Ok(Some(parsed)),
                None => Err(SettingsError::Variable { name, value: value.into(), reason: reason.into() }),
            },
        }
    }
    Ok(Choices {
        concurrency: parsed(
            environment,
            "OMG_CONCURRENCY",
            |text| text.parse().ok(),
            "a number from 1 is due",
        )?,
        output: parsed(
            environment,
            "OMG_OUTPUT",
            OutputMode::parse,
            "auto, plain, json, github or gitlab is due",
        )?,
        worktree_root: path_in(environment, "OMG_WORKTREE_ROOT"),
        branch_template: parsed(environment, "OMG_BRANCH_TEMPLATE", |text| Some(text.to_string()), "")?,
        provision_when: parsed(
            environment,
            "OMG_PROVISION_WHEN",
            parse_when,
            "run-start or first-use is due",
        )?,
    })
}

impl OutputMode {
    /// Returns the mode of a word.
    pub fn parse(word: &str) -> Option<OutputMode> {
        match word {
            "auto" => Some(OutputMode::Auto),
            "plain" => Some(OutputMode::Plain),
            "json" => Some(OutputMode::Json),
            "github" => Some(OutputMode::Github),
            "gitlab" => Some(OutputMode::Gitlab),
            _ => None,
        }
    }
}

/// Returns when lanes are prepared, of a word.
pub fn parse_when(word: &str) -> Option<ProvisionWhen> {
    match word {
        "run-start" => Some(ProvisionWhen::RunStart),
        "first-use" => Some(ProvisionWhen::FirstUse),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_follows_the_base_directory_rules() {
        let with = |pairs: &[(&str, &str)]| home(&Environment::from_iter(pairs.iter().copied()));
        assert_eq!(with(&[("HOME", "/h")]), Some("/h/.local/state/omg".into()));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), Some("/s/omg".into()));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_STATE_HOME", "rel")]), Some("/h/.local/state/omg".into()));
        assert_eq!(with(&[("OMG_HOME", "/o"), ("XDG_STATE_HOME", "/s")]), Some("/o".into()));
        assert_eq!(with(&[("OMG_HOME", "")]), None);
    }

    #[test]
    fn one_home_has_one_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&place, place.join("link")).unwrap();
        assert_eq!(real(&place.join("link/not/there")), place.join("not/there"));
    }

    #[test]
    fn a_variable_that_means_nothing_is_named() {
        let error = from_variables(&Environment::from_iter([("OMG_CONCURRENCY", "0")])).unwrap_err();
        assert_eq!(error.to_string(), "OMG_CONCURRENCY=0: a number from 1 is due");
        let choices = from_variables(&Environment::from_iter([("OMG_OUTPUT", "json")])).unwrap();
        assert_eq!(choices.output, Some(OutputMode::Json));
    }

    #[test]
    fn an_unknown_key_in_the_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, "concurency = 3\n").unwrap();
        let error = from_file(&path).unwrap_err().to_string();
        assert!(error.contains("concurency") && error.contains("config.toml"), "{error}");
        std::fs::write(&path, "concurrency = 3\nprovision_when = \"first-use\"\n").unwrap();
        let choices = from_file(&path).unwrap();
        assert_eq!(choices.concurrency.map(NonZeroU32::get), Some(3));
        assert_eq!(choices.provision_when, Some(ProvisionWhen::FirstUse));
    }
}
