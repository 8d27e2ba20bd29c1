//! What an untrusted graph may ask for: a disposition for every key (DESIGN.md section 12).
//!
//! Judges trees, before the grammar reads them: a refusal comes before any other objection.

use super::code::Code;
use super::excerpt::clip;
use super::keys::{GraphKey, NodeKey};
use super::model::{AGENT_TIMEOUT_DEFAULT, OUTPUT_MAX_DEFAULT};
use super::problem::{Pos, Report};
use super::reader::{parse_duration, parse_size};
use super::tools::whole_shell;
use super::tree::{Entry, Tree};

/// The code of every refusal.
pub(super) const CODE: Code = Code::PlannedRefused;

const RETRY_MAX: u32 = 2;
const FEEDBACK_MAX: u32 = 2;

/// What becomes of a key of a planned graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    /// It only narrows or orders work.
    Allowed,
    /// Some of its values are refused.
    Bounded(Bound),
    /// It is refused, because of this.
    Refused(&'static str),
}

/// Which values of a key are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// Its own keys are judged one by one.
    Within,
    Kind,
    PermissionMode,
    AllowedTools,
    SuccessCheck,
    RetryMax,
    FeedbackMax,
    Timeout,
    OutputMax,
}

const CHECKOUT: &str = "it can't create checkouts or branches";
const PLACE: &str = "it can't choose where work happens";
const COMMAND: &str = "it can't name commands for omg to run";
const SURROUNDINGS: &str = "it can't change what processes see";
const RUNTIME: &str = "it can't choose what runs its agents";
const GUARD: &str = "guards are set by people";
const FILES: &str = "it can't choose files to be read into it";

/// Returns what becomes of a key at the top of a planned graph.
pub(super) fn of_graph_key(key: GraphKey) -> Disposition {
    use Disposition::{Allowed, Bounded, Refused};
    match key {
        GraphKey::Name
        | GraphKey::Version
        | GraphKey::Description
        | GraphKey::Inputs
        | GraphKey::Concurrency
        | GraphKey::OnFail
        | GraphKey::Grace
        | GraphKey::BudgetUsd => Allowed,
        GraphKey::OutputMax => Bounded(Bound::OutputMax),
        GraphKey::Defaults | GraphKey::Nodes => Bounded(Bound::Within),
        GraphKey::Lanes | GraphKey::Base => Refused(CHECKOUT),
        GraphKey::Provision | GraphKey::Preflight | GraphKey::Shell => Refused(COMMAND),
        GraphKey::Overlay => Refused(FILES),
        GraphKey::Env | GraphKey::PassEnv => Refused(SURROUNDINGS),
        GraphKey::Identity => Refused("it can't commit in a name of its choice"),
        GraphKey::Runtime | GraphKey::Runtimes => Refused(RUNTIME),
        GraphKey::Cleanup => Refused("it can't decide what is deleted"),
        GraphKey::OnFault => Refused(GUARD),
    }
}

/// Returns what becomes of a key of a planned node, or of a planned graph's `defaults`.
pub(super) fn of_node_key(key: NodeKey) -> Disposition {
    use Disposition::{Allowed, Bounded, Refused};
    match key {
        NodeKey::Id
        | NodeKey::Description
        | NodeKey::Prompt
        | NodeKey::DependsOn
        | NodeKey::Handoff
        | NodeKey::BudgetUsd
        | NodeKey::Model
        | NodeKey::ExpectChanges
        | NodeKey::Grace => Allowed,
        NodeKey::Type => Bounded(Bound::Kind),
        NodeKey::PermissionMode => Bounded(Bound::PermissionMode),
        NodeKey::AllowedTools => Bounded(Bound::AllowedTools),
        NodeKey::SuccessCheck => Bounded(Bound::SuccessCheck),
        NodeKey::Retry => Bounded(Bound::RetryMax),
        NodeKey::Feedback => Bounded(Bound::FeedbackMax),
        NodeKey::Timeout => Bounded(Bound::Timeout),
        NodeKey::OutputMax => Bounded(Bound::OutputMax),
        NodeKey::Worktree | NodeKey::Access => Refused(CHECKOUT),
        NodeKey::Cwd => Refused(PLACE),
        NodeKey::Run => Refused(COMMAND),
        NodeKey::Env => Refused(SURROUNDINGS),
        NodeKey::Agent | NodeKey::Runtime => Refused(RUNTIME),
        NodeKey::Protect | NodeKey::Scope | NodeKey::OnFault => Refused(GUARD),
        NodeKey::Use | NodeKey::With => Refused(FILES),
    }
}

/// Says everything that a planned graph may not ask for; returns whether there is such a thing.
pub(super) fn refusals(report: &mut Report, root: &Tree) -> bool {
    let mut judge = Judge { report, any: false };
    let mut defaults_list_tools = false;
    for entry in root.entries().unwrap_or_default() {
        let Some(key) = GraphKey::of(&entry.key) else { continue };
        judge.judge(of_graph_key(key), entry, "a planned graph");
        if key == GraphKey::Defaults {
            defaults_list_tools = entry.value.entry("allowed_tools").is_some();
            judge.judge_keys(&entry.value, "a default of a planned graph");
        }
    }
    let nodes = root.entry("nodes").and_then(|nodes| nodes.value.items()).unwrap_or_default();
    for node in nodes.iter().filter(|node| node.entries().is_some()) {
        judge.judge_keys(node, "a planned node");
        if !defaults_list_tools && node.entry("allowed_tools").is_none() {
            let at = node.entry("id").map_or(node.at, |id| id.value.at);
            judge.refuse(at, "a planned node lists its `allowed_tools`, and this one does not".to_owned());
        }
    }
    judge.any
}

struct Judge<'r> {
    report: &'r mut Report,
    any: bool,
}

impl Judge<'_> {
    fn judge_keys(&mut self, tree: &Tree, who: &str) {
        for entry in tree.entries().unwrap_or_default() {
            if let Some(key) = NodeKey::of(&entry.key) {
                self.judge(of_node_key(key), entry, who);
            }
        }
    }

    fn judge(&mut self, disposition: Disposition, entry: &Entry, who: &str) {
        let key = &entry.key;
        match disposition {
            Disposition::Allowed => {}
            Disposition::Refused(why) => self.refuse(entry.at, format!("{who} may not have `{key}`: {why}")),
            Disposition::Bounded(bound) => self.judge_bound(bound, entry, who),
        }
    }

    fn judge_bound(&mut self, bound: Bound, entry: &Entry, who: &str) {
        let value = &*entry.value;
        let text = value.text();
        match bound {
            Bound::Within => {}
            Bound::Kind => match text {
                Some("gate") => {
                    self.refuse(value.at, format!("{who} may not be a gate: people set where they are asked"))
                }
                Some("command") => self.refuse(value.at, format!("{who} may not be a command: {COMMAND}")),
                _ => {}
            },
            Bound::PermissionMode => {
                if text == Some("bypassPermissions") {
                    self.refuse(
                        value.at,
                        format!("{who} may not have `bypassPermissions`: it grants everything"),
                    );
                }
            }
            Bound::SuccessCheck => {
                if let Some(verify) = value.entry("verify") {
                    self.refuse(verify.at, format!("{who} may not have `verify`: {COMMAND}"));
                }
            }
            Bound::RetryMax => self.judge_max(value, "retry", RETRY_MAX, who),
            Bound::FeedbackMax => self.judge_max(value, "feedback", FEEDBACK_MAX, who),
            Bound::Timeout => {
                if text.and_then(parse_duration).is_some_and(|timeout| timeout > AGENT_TIMEOUT_DEFAULT) {
                    let message = format!("{who} may have a `timeout` of at most 20m, not {}", value.what());
                    self.refuse(value.at, message);
                }
            }
            Bound::OutputMax => {
                if text.and_then(parse_size).is_some_and(|size| size > OUTPUT_MAX_DEFAULT) {
                    let message =
                        format!("{who} may have an `output_max` of at most 1GiB, not {}", value.what());
                    self.refuse(value.at, message);
                }
            }
            Bound::AllowedTools => self.judge_tools(value, who),
        }
    }

    fn judge_max(&mut self, value: &Tree, key: &str, most: u32, who: &str) {
        let Some(max) = value.entry("max") else { return };
        let is_more = |text: &str| text.parse::<f64>().is_ok_and(|max| max > f64::from(most));
        if max.value.text().is_some_and(is_more) {
            let message = format!("{who} may have a `{key}.max` of at most {most}, not {}", max.value.what());
            self.refuse(max.value.at, message);
        }
    }

    fn judge_tools(&mut self, value: &Tree, who: &str) {
        let Some(tools) = value.items() else {
            self.refuse(value.at, format!("{who} lists its `allowed_tools`; this is {}", value.what()));
            return;
        };
        if tools.is_empty() {
            self.refuse(value.at, format!("{who} lists at least one of its `allowed_tools`"));
        }
        for tool in tools {
            let granted = tool.text().unwrap_or_default();
            if granted.trim_start().starts_with('-') {
                let message = format!("{who} may not have the tool `{}`: it reads as a flag", clip(granted));
                self.refuse(tool.at, message);
            }
            if let Some(why) = whole_shell(granted) {
                let message = format!("{who} may not have the tool `{}`: {why}", clip(granted));
                self.refuse(tool.at, message);
            }
        }
    }

    fn refuse(&mut self, at: Pos, message: String) {
        self.any = true;
        self.report.error(CODE, at, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::load::{Trust, load};
    use crate::graph::problem::Problem;

    const GOOD: &str = "\
name: x
description: d
inputs: [task]
concurrency: 2
on_fail: continue
budget_usd: 3
output_max: 1GiB
defaults: {timeout: 20m, allowed_tools: [Read, 'Bash(git diff *)'], retry: {max: 2}}
nodes:
- {id: a, prompt: do, permission_mode: plan, handoff: artifact, budget_usd: 1, model: m, grace: 1s}
- {id: b, prompt: do, depends_on: [a], feedback: {rerun: a, max: 2}, success_check: {result_matches: OK}}
";

    fn load_planned(text: &str) -> Result<(), Vec<Problem>> {
        let none = |_: &str| -> Option<Result<(String, String), Box<Problem>>> {
            panic!("a planned graph asked for a fragment")
        };
        load("p.yaml", text, &none, Trust::Planned).map(|_| ())
    }

    #[track_caller]
    fn check_refused(text: &str, line: u32, column: u32, words: &str) {
        let problems = load_planned(text).expect_err(text);
        let found = problems.iter().find(|problem| (problem.line, problem.column) == (line, column));
        let found = found.unwrap_or_else(|| panic!("nothing at {line}:{column}: {problems:#?}"));
        assert!(problems.iter().all(|problem| problem.code == CODE), "{problems:#?}");
        assert!(found.message.contains(words), "{}", found.message);
    }

    #[test]
    fn what_only_narrows_or_orders_work_is_allowed() {
        load_planned(GOOD).unwrap_or_else(|problems| panic!("{problems:#?}"));
    }

    /// A value for a key of a node; one that is refused, where any is.
    fn node_probe(key: NodeKey) -> &'static str {
        match key {
            NodeKey::Id | NodeKey::Prompt | NodeKey::Description | NodeKey::Model => "x",
            NodeKey::DependsOn => "[]",
            NodeKey::Handoff => "artifact",
            NodeKey::BudgetUsd => "1",
            NodeKey::ExpectChanges => "true",
            NodeKey::Grace => "1s",
            NodeKey::Type => "gate",
            NodeKey::PermissionMode => "bypassPermissions",
            NodeKey::AllowedTools => "[]",
            NodeKey::SuccessCheck => "{verify: {command: x}}",
            NodeKey::Retry => "{max: 3}",
            NodeKey::Feedback => "{rerun: a, max: 3}",
            NodeKey::Timeout => "21m",
            NodeKey::OutputMax => "1.1GiB",
            NodeKey::Worktree | NodeKey::Cwd | NodeKey::Run | NodeKey::Agent | NodeKey::Runtime => "x",
            NodeKey::Access => "read",
            NodeKey::Env | NodeKey::OnFault | NodeKey::With => "{A: b}",
            NodeKey::Protect | NodeKey::Scope => "[src]",
            NodeKey::Use => "fragment",
        }
    }

    #[test]
    fn every_key_of_a_node_is_judged_in_nodes_and_in_defaults() {
        for &key in NodeKey::ALL {
            let probe = format!("{}: {}", key.word(), node_probe(key));
            let tools = if key == NodeKey::AllowedTools { "" } else { ", allowed_tools: [Read]" };
            let node = format!("name: x\nnodes:\n- {{{probe}{tools}}}\n");
            let defaults = format!(
                "name: x\ndefaults: {{{probe}}}\nnodes:\n- {{id: n, prompt: p, allowed_tools: [Read]}}\n"
            );
            let is_refused = |text: &str| {
                load_planned(text)
                    .err()
                    .is_some_and(|problems| problems.iter().any(|problem| problem.code == CODE))
            };
            let expected = of_node_key(key) != Disposition::Allowed;
            assert_eq!(is_refused(&node), expected, "{node}");
            assert_eq!(is_refused(&defaults), expected, "{defaults}");
        }
    }

    #[test]
    fn every_key_of_a_graph_is_judged() {
        for &key in GraphKey::ALL {
            let probe = match key {
                GraphKey::Nodes => continue,
                GraphKey::Lanes | GraphKey::Env | GraphKey::Preflight | GraphKey::Runtimes => "{a: {}}",
                GraphKey::OutputMax => "2GiB",
                GraphKey::Defaults => "{cwd: x}",
                GraphKey::Inputs | GraphKey::Shell | GraphKey::Overlay | GraphKey::PassEnv => "[a]",
                GraphKey::Concurrency | GraphKey::BudgetUsd => "1",
                GraphKey::OnFail => "halt",
                GraphKey::Grace => "1s",
                _ => "x",
            };
            let name = if key == GraphKey::Name { "" } else { "name: x\n" };
            let text = format!(
                "{name}{}: {probe}\nnodes:\n- {{id: n, prompt: p, allowed_tools: [Read]}}\n",
                key.word()
            );
            let problems = load_planned(&text).err().unwrap_or_default();
            let is_refused = problems.iter().any(|problem| problem.code == CODE);
            assert_eq!(is_refused, of_graph_key(key) != Disposition::Allowed, "{text}{problems:#?}");
            if !is_refused {
                assert_eq!(problems, [], "{text}");
            }
        }
    }

    #[test]
    fn refusals_say_where_and_why() {
        check_refused("name: x\nlanes: {a: {}}\nnodes: []\n", 2, 1, "`lanes`: it can't create checkouts");
        check_refused("name: x\nnodes:\n- id: a\n  prompt: p\n", 3, 7, "lists its `allowed_tools`");
        check_refused(
            "nodes:\n- {id: a, allowed_tools: [Read, Bash]}\n",
            2,
            33,
            "`Bash`: it is the whole shell",
        );
        check_refused("nodes:\n- {id: a, allowed_tools: Bash}\n", 2, 26, "lists its `allowed_tools`");
        check_refused("defaults: {retry: {max: 9}}\nnodes: []\n", 1, 25, "at most 2, not `9`");
    }

    #[test]
    fn all_refusals_come_at_once_and_before_any_other_objection() {
        let text = "nome: x\nbase: main\nnodes:\n- {id: a, run: x, cwd: y, depends_on: [zzz], allowed_tools: ['*']}\n";
        let problems = load_planned(text).unwrap_err();
        let lines: Vec<_> =
            problems.iter().map(|problem| (problem.line, problem.column, problem.code)).collect();
        assert_eq!(lines, [(2, 1, CODE), (4, 11, CODE), (4, 19, CODE), (4, 62, CODE)]);
    }

    #[test]
    fn without_a_refusal_the_ordinary_rules_hold() {
        let problems =
            load_planned("name: x\nnodes:\n- {id: a, prompt: p, promt: q, allowed_tools: [Read]}\n")
                .unwrap_err();
        assert_eq!(problems.iter().map(|problem| problem.code).collect::<Vec<_>>(), ["unknown-key"]);
    }
}
