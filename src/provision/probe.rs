//! Which files of a lane are looked at, and what speaks against installing there.
#![expect(clippy::disallowed_methods, reason = "looks for folders that tools would find by mistake")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::ecosystem::Family;
use super::ecosystems::{ECOSYSTEMS, probed_names};
use super::hints;
use super::mark::{self, node_modules_above};
use super::plan::{self, HOOK_PLACES, ProvisionPlan, below, roots_of};
use super::receipt;
use crate::graph::model::{Provision, ProvisionChoice};

/// Bytes of a manifest or lockfile that a plan looks into.
pub const MANIFEST_MAX: u64 = 16 << 20;

/// Files of Node's that change an install and have no fixed name.
const FOLDERS_OF_PATCHES: [&str; 3] = ["patches", ".yarn/patches", ".yarn/plugins"];

/// Returns the files that are probed in a lane, absent ones too, by their path in it.
pub fn names(provision: &Provision) -> Vec<String> {
    let mut names: Vec<String> = if provision.choice == ProvisionChoice::Nothing {
        Vec::new()
    } else {
        let roots = roots_of(&provision.roots);
        let probed = probed_names();
        roots.iter().flat_map(|root| probed.iter().map(|name| below(root, name))).collect()
    };
    names.extend(provision.inputs.iter().cloned());
    names.sort();
    names.dedup();
    names
}

/// Returns the files whose content at the base commit is asked for: the hooks, what is probed, and set-up
/// files of other tools.
pub fn at_base(provision: &Provision) -> Vec<String> {
    let places = HOOK_PLACES.iter().copied().chain(hints::places());
    places.map(str::to_string).chain(names(provision)).collect()
}

/// Returns the lockfiles and manifests of every row in a lane's roots, absent ones too.
pub fn locks_and_manifests(provision: &Provision) -> Vec<String> {
    let names = ECOSYSTEMS.iter().flat_map(|row| row.locks.iter().chain(row.manifests));
    let names: BTreeSet<&str> = names.copied().collect();
    roots_of(&provision.roots).iter().flat_map(|root| names.iter().map(|name| below(root, name))).collect()
}

/// Returns the patterns of the manifests of a workspace's members.
pub fn manifest_patterns(provision: &Provision) -> Vec<String> {
    let manifests: BTreeSet<&str> = ECOSYSTEMS.iter().flat_map(|row| row.manifests).copied().collect();
    let of_root =
        |root: &String| manifests.iter().map(|name| below(root, &format!("**/{name}"))).collect::<Vec<_>>();
    roots_of(&provision.roots).iter().flat_map(of_root).collect()
}

/// Returns the patterns of the tracked files that a fingerprint covers besides: manifests of a workspace's
/// members, wherever they lie, and patches.
pub fn patterns(provision: &Provision) -> Vec<String> {
    if provision.choice == ProvisionChoice::Nothing {
        return Vec::new();
    }
    let mut patterns = names(provision);
    patterns.extend(manifest_patterns(provision));
    for root in roots_of(&provision.roots) {
        patterns.extend(FOLDERS_OF_PATCHES.iter().map(|name| below(&root, &format!("{name}/**"))));
    }
    patterns.sort();
    patterns.dedup();
    patterns
}

/// Returns the files of a lane at `root` that lists of requirements among `files` include, each once.
pub fn included(root: &Path, files: &BTreeMap<String, Vec<u8>>) -> BTreeSet<String> {
    let is_list = |name: &&String| name.rsplit('/').next() == Some("requirements.txt");
    let mut queue: Vec<String> = files.keys().filter(is_list).cloned().collect();
    let mut found = BTreeSet::new();
    while let Some(name) = queue.pop().filter(|_| found.len() < INCLUDED_MAX) {
        let read = receipt::read_files(root, std::slice::from_ref(&name), MANIFEST_MAX);
        let text =
            read.get(&name).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
        queue.extend(plan::included(&name, &text).into_iter().filter(|name| found.insert(name.clone())));
    }
    found
}

/// Most lists of requirements that are followed.
const INCLUDED_MAX: usize = 100;

/// Returns why something outside the lane would be used or changed in its place; `None` where nothing is seen.
pub fn not_isolated(root: &Path, plan: &ProvisionPlan) -> Option<String> {
    let is_node = plan.is_node || plan.rows().any(|row| row.family == Family::Node);
    if let Some(above) = node_modules_above(root).filter(|_| is_node) {
        return Some(format!(
            "{} holds node_modules, in which Node looks too: the lane would seem complete",
            above.display()
        ));
    }
    // A link on the way leads an install out of the lane.
    let roots = plan.steps.iter().map(|step| step.root.clone());
    let parents = mark::whole(plan)
        .into_iter()
        .filter_map(|folder| Some(Path::new(&folder).parent()?.to_string_lossy().into_owned()));
    for folder in roots.chain(parents) {
        let mut at = root.to_path_buf();
        for part in Path::new(&folder).components() {
            at.push(part);
            if fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_symlink()) {
                return Some(format!(
                    "{} is a symbolic link, and leads an install out of the lane",
                    at.display()
                ));
            }
        }
    }
    None
}

/// Returns what is said of a program that is not there.
pub fn tool_missing(tool: &str, plan: &ProvisionPlan) -> String {
    let step = plan.steps.iter().find(|step| step.row().is_some_and(|row| row.tool == tool));
    let line = step.map(super::Step::display).unwrap_or_default();
    match tool.strip_prefix("./") {
        Some(file) => format!("{file} can't be executed, and `{line}` needs it"),
        None => format!("`{tool}` is not on the PATH, and `{line}` needs it"),
    }
}
