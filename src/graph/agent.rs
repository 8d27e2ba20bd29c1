//! How agents are called, as a graph says it: permission modes, and runtimes of the graph's own.

use serde::{Deserialize, Serialize};

/// How an agent asks before it acts; the words are those of Claude Code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Edits need no leave.
    AcceptEdits,
    /// The agent's own judge decides.
    Auto,
    /// Nothing needs leave.
    BypassPermissions,
    /// What was not granted before is refused: nobody is there to ask.
    #[default]
    DontAsk,
    /// Everything is asked.
    Manual,
    /// Nothing is changed.
    Plan,
}

impl PermissionMode {
    /// Every mode, in the order of their words.
    pub const ALL: [PermissionMode; 6] = [
        PermissionMode::AcceptEdits,
        PermissionMode::Auto,
        PermissionMode::BypassPermissions,
        PermissionMode::DontAsk,
        PermissionMode::Manual,
        PermissionMode::Plan,
    ];

    /// Returns the word for it in a graph file and on a command line.
    pub fn word(self) -> &'static str {
        match self {
            PermissionMode::AcceptEdits => "acceptEdits",
            PermissionMode::Auto => "auto",
            PermissionMode::BypassPermissions => "bypassPermissions",
            PermissionMode::DontAsk => "dontAsk",
            PermissionMode::Manual => "manual",
            PermissionMode::Plan => "plan",
        }
    }
}

/// A runtime of the graph's own: how an agent's program is called and where its reply is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeSpec {
    /// The program and its arguments, with placeholders: `{prompt}`, `{prompt_file}`, `{result_file}`,
    /// `{session}`, `{model}`.
    pub command: Vec<String>,
    /// How the prompt reaches it.
    #[serde(default)]
    pub prompt: PromptWay,
    /// Where its reply is.
    #[serde(default)]
    pub result: ResultWay,
    /// Further arguments where a session goes on, with `{session}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resume: Vec<String>,
}

/// How a prompt reaches a runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptWay {
    /// On standard input.
    #[default]
    Stdin,
    /// As an argument.
    Arg,
    /// In a file that an argument names.
    File,
}

/// Where a runtime's reply is. In files one word: `stdout`, `file`, `json:/pointer`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ResultWay {
    /// All of standard output.
    #[default]
    Stdout,
    /// At this JSON pointer of the last object on standard output that has it.
    Json(String),
    /// In the file whose path it is given.
    File,
}

/// A word that names no place of a reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of `stdout`, `file` and `json:` with a pointer such as `json:/result`")]
pub struct NoResultWay(pub String);

impl TryFrom<String> for ResultWay {
    type Error = NoResultWay;

    fn try_from(word: String) -> Result<ResultWay, NoResultWay> {
        match (word.as_str(), word.strip_prefix("json:")) {
            ("stdout", _) => Ok(ResultWay::Stdout),
            ("file", _) => Ok(ResultWay::File),
            (_, Some(pointer)) if pointer.starts_with('/') => Ok(ResultWay::Json(pointer.to_owned())),
            _ => Err(NoResultWay(word)),
        }
    }
}

impl From<ResultWay> for String {
    fn from(way: ResultWay) -> String {
        match way {
            ResultWay::Stdout => "stdout".to_owned(),
            ResultWay::Json(pointer) => format!("json:{pointer}"),
            ResultWay::File => "file".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_file() {
        for mode in PermissionMode::ALL {
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.word());
            assert_eq!(serde_json::from_value::<PermissionMode>(mode.word().into()).unwrap(), mode);
        }
    }

    #[test]
    fn a_runtime_is_kept_in_its_own_words() {
        let text = r#"{"command":["x"],"prompt":"arg","result":"json:/a/b","resume":["-r","{session}"]}"#;
        let spec = RuntimeSpec {
            command: vec!["x".into()],
            prompt: PromptWay::Arg,
            result: ResultWay::Json("/a/b".into()),
            resume: vec!["-r".into(), "{session}".into()],
        };
        assert_eq!(serde_json::from_str::<RuntimeSpec>(text).unwrap(), spec);
        assert_eq!(serde_json::to_string(&spec).unwrap(), text);
        let least: RuntimeSpec = serde_json::from_str(r#"{"command":["x"]}"#).unwrap();
        assert_eq!((least.prompt, least.result), (PromptWay::Stdin, ResultWay::Stdout));
        for (word, is_way) in
            [("file", true), ("stdout", true), ("json:", false), ("json:a", false), ("x", false)]
        {
            assert_eq!(ResultWay::try_from(word.to_owned()).is_ok(), is_way, "{word}");
        }
    }
}
