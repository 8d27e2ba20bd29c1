//! Everything that the outcome of a provisioning depends on, as one number.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::plan::{ProvisionPlan, StepCommand};
use crate::ids::hex;

/// What a file was found to be. Contents and absences count, times never: a checkout makes all of them new.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileState {
    /// Nothing is there.
    Absent,
    /// A plain file: SHA-256 of its content, lower-case hex.
    Plain(String),
    /// A symbolic link: where it leads.
    Link(String),
    /// A folder, or something stranger.
    Other,
}

/// What goes into a fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// What is run.
    pub plan: &'a ProvisionPlan,
    /// Versions by program.
    pub tools: &'a BTreeMap<String, String>,
    /// Every probed file, absent ones too, by its path in the lane.
    pub files: &'a BTreeMap<String, FileState>,
    /// What the overlay copied in, hashed.
    pub overlay: Option<&'a str>,
}

/// Returns the fingerprint of a provisioning of the lane at `root`: environments and editable installs
/// hold absolute paths, so the place is part of it. Each field goes in with its length before it, so that
/// no two inputs can be shifted into one.
pub fn fingerprint(inputs: &Inputs<'_>, root: &str) -> String {
    let mut hash = Sha256::new();
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    field(b"omg provision 2");
    for part in [std::env::consts::OS, std::env::consts::ARCH, LIBC] {
        field(part.as_bytes());
    }
    field(root.as_bytes());
    field(inputs.overlay.unwrap_or_default().as_bytes());
    for step in &inputs.plan.steps {
        field(step.display().as_bytes());
        match &step.command {
            StepCommand::Hook(hook) => {
                field(&hook.bytes);
                field(&[u8::from(hook.executable)]);
            }
            StepCommand::Ours(row) => {
                for (name, value) in row.set {
                    field(name.as_bytes());
                    field(value.as_bytes());
                }
            }
            StepCommand::Line(_) => {}
        }
    }
    for (program, version) in inputs.tools {
        field(program.as_bytes());
        field(version.as_bytes());
    }
    for (name, state) in inputs.files {
        field(name.as_bytes());
        let (kind, text) = match state {
            FileState::Absent => ("absent", ""),
            FileState::Plain(digest) => ("plain", digest.as_str()),
            FileState::Link(target) => ("link", target.as_str()),
            FileState::Other => ("other", ""),
        };
        field(kind.as_bytes());
        field(text.as_bytes());
    }
    hex(&hash.finalize())
}

const LIBC: &str = if cfg!(target_env = "musl") { "musl" } else { "other" };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::model::ProvisionChoice;
    use crate::provision::plan::{Seen, plan};

    #[test]
    fn it_changes_with_each_input_and_with_nothing_else() {
        let seen = |lock: &str| Seen {
            files: [(lock.to_string(), Vec::new())].into(),
            tracked: [lock.to_string()].into(),
            ..Seen::default()
        };
        let npm = plan(&ProvisionChoice::Ladder, &[], &seen("package-lock.json"));
        let uv = plan(&ProvisionChoice::Ladder, &[], &seen("uv.lock"));
        let tools: BTreeMap<String, String> = [("npm".to_string(), "11".to_string())].into();
        let newer: BTreeMap<String, String> = [("npm".to_string(), "12".to_string())].into();
        let files = |state: FileState| BTreeMap::from([("a".to_string(), state)]);
        let absent = files(FileState::Absent);
        let base = Inputs { plan: &npm, tools: &tools, files: &absent, overlay: None };
        let first = fingerprint(&base, "/l");
        assert_eq!(first, fingerprint(&base.clone(), "/l"));
        let plain = [files(FileState::Plain("x".into())), files(FileState::Plain("y".into()))];
        let link = files(FileState::Link("x".into()));
        let none = BTreeMap::new();
        let mut all = vec![first, fingerprint(&base, "/m")];
        all.extend([
            fingerprint(&Inputs { plan: &uv, ..base }, "/l"),
            fingerprint(&Inputs { tools: &newer, ..base }, "/l"),
            fingerprint(&Inputs { files: &plain[0], ..base }, "/l"),
            fingerprint(&Inputs { files: &plain[1], ..base }, "/l"),
            fingerprint(&Inputs { files: &link, ..base }, "/l"),
            fingerprint(&Inputs { files: &none, ..base }, "/l"),
            fingerprint(&Inputs { overlay: Some("o"), ..base }, "/l"),
        ]);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "two different inputs have one fingerprint");
    }
}
