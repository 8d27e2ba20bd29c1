//! Secrets taken out of what is written and shown.

use std::ffi::OsString;

use indexmap::IndexMap;

/// What stands where a secret stood.
const MASK: &str = "***";

/// Shortest value that is masked: shorter ones would turn ordinary text into stars.
const LENGTH_MIN: usize = 4;

/// Endings of the names of variables whose values are secrets (DESIGN.md section 8).
const SECRET_ENDINGS: [&str; 4] = ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD"];

/// Knows the secrets of a run and takes them out of text.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    /// Longest first, so that one secret inside another leaves nothing behind.
    secrets: Vec<String>,
    /// The same as they stand in JSON.
    escaped: Vec<String>,
}

impl Mask {
    /// Returns a mask for the values of the variables in `environment` that are secrets by their
    /// name or named in `pass_env`.
    pub fn of(environment: &IndexMap<OsString, OsString>, pass_env: &[String]) -> Mask {
        let values = environment.iter().filter_map(|(name, value)| {
            let name = name.to_str()?;
            let secret = is_secret(name) || pass_env.iter().any(|passed| passed == name);
            secret.then(|| value.to_str().map(str::to_string)).flatten()
        });
        Mask::of_values(values)
    }

    /// Returns a mask for these values; those shorter than four bytes are left out.
    pub fn of_values(values: impl IntoIterator<Item = String>) -> Mask {
        let mut secrets: Vec<String> = values
            .into_iter()
            .map(|value| value.trim().to_string())
            .filter(|value| value.len() >= LENGTH_MIN)
            .collect();
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        let in_json = |secret: &String| {
            let quoted = serde_json::to_string(secret).unwrap_or_default();
            quoted.trim_matches('"').to_string()
        };
        let escaped = secrets.iter().map(in_json).filter(|escaped| !escaped.is_empty()).collect();
        Mask { secrets, escaped }
    }

    /// Returns this mask with further values.
    pub fn and(self, values: impl IntoIterator<Item = String>) -> Mask {
        Mask::of_values(self.secrets.into_iter().chain(values))
    }

    /// Returns `text` without secrets.
    pub fn text(&self, text: &str) -> String {
        let mut masked = text.to_string();
        for secret in &self.secrets {
            if masked.contains(secret.as_str()) {
                masked = masked.replace(secret.as_str(), MASK);
            }
        }
        masked
    }

    /// Returns a line of JSON without secrets, as they stand there: escaped.
    pub fn json(&self, mut line: String) -> String {
        for escaped in &self.escaped {
            if line.contains(escaped.as_str()) {
                line = line.replace(escaped.as_str(), MASK);
            }
        }
        line
    }
}

/// Returns whether the value of a variable of this name is a secret.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name_and_by_being_passed() {
        let environment = IndexMap::from(
            [
                ("A_TOKEN", "hunter22"),
                ("db_password", "pass\"word"),
                ("PLAIN", "visible"),
                ("X", "passed-on"),
            ]
            .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        );
        let mask = Mask::of(&environment, &["X".to_string()]);
        assert_eq!(mask.text("hunter22 visible passed-on"), "*** visible ***");
        assert_eq!(mask.json(r#"{"a":"pass\"word"}"#.into()), r#"{"a":"***"}"#);
    }

    #[test]
    fn a_secret_inside_another_leaves_nothing_and_short_ones_are_no_secrets() {
        let mask = Mask::of_values(["abcd".to_string(), "abcdefgh".to_string(), "ab".to_string()]);
        assert_eq!(mask.text("abcdefgh abcd ab"), "*** *** ab");
    }
}
