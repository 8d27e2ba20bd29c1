//! The graph file as a JSON Schema, for editors and other programs.
//!
//! It accepts every file that the grammar does, and refuses what can be told from shapes alone: keys, types,
//! closed sets, grammars of words. What takes two places to know (names, edges, cycles, tokens) is `lint`'s.

use serde_json::{Map, Value, json};

use super::grammar::{CLEANUPS, ON_FAILS, PROVISION_RETRIES, PROVISION_WHENS};
use super::grammar_node::{ACCESSES, ENDINGS, HANDOFFS, KINDS};
use super::grammar_runtime::PROMPT_WAYS;
use super::keys::{
    CheckKey, DependencyKey, FeedbackKey, GraphKey, IdentityKey, InputKey, LaneKey, NodeKey, OverlayKey,
    PreflightKey, ProvisionKey, RetryKey, RuntimeKey, VerifyKey,
};
use super::model::{DEPENDENCY_FOLDERS, PermissionMode, RetryCause};

/// Where an editor finds what a schema of this kind means.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// An id, as [`crate::ids::is_id`] has it.
const ID: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";

/// Returns the schema of a graph file, in draft 2020-12 of JSON Schema.
pub fn schema() -> Value {
    let mut top = object(GraphKey::ALL.iter().map(|key| (key.word(), graph_key(*key))), &["name", "nodes"]);
    top.insert("$schema".into(), DIALECT.into());
    top.insert("title".into(), "omg graph".into());
    top.insert("patternProperties".into(), json!({"^x-": true}));
    // A node says what it does, where `defaults` do not.
    let gives_work = |key: &str| json!({"required": [key]});
    let defaults = json!({"anyOf": Vec::from(["run", "prompt", "type"].map(gives_work))});
    top.insert("if".into(), json!({"not": {"required": ["defaults"], "properties": {"defaults": defaults}}}));
    top.insert("then".into(), json!({"properties": {"nodes": {"items": {"$ref": "#/$defs/working"}}}}));
    top.insert(
        "$defs".into(),
        json!({
            "node": node(),
            "working": working(),
            "provision": provision(),
            "overlay": overlay(),
            "env": env(),
            "strings": text_or_texts(),
        }),
    );
    Value::Object(top)
}

/// Returns the schema of a key at the top.
fn graph_key(key: GraphKey) -> Value {
    let (schema, what) = match key {
        GraphKey::Name => (filled(), "The graph's name."),
        GraphKey::Version => (text(), "For people."),
        GraphKey::Description => (text(), "For people."),
        GraphKey::Inputs => {
            (inputs(), "What `--input` gives: names, or a map with descriptions and defaults.")
        }
        GraphKey::Env => (defined("env"), "Variables for every node and every verify."),
        GraphKey::Shell => (not_empty(filled()), "The words before a command line. Default: [sh, -c]."),
        GraphKey::Concurrency => (count(1), "Most processes at a time. Default: the cores."),
        GraphKey::OnFail => (choice(ON_FAILS), "What a task failure does to the rest. Default: halt."),
        GraphKey::Base => (filled(), "The commit that lanes begin at: any revision. Default: HEAD."),
        GraphKey::Lanes => (lanes(), "Settings of single lanes."),
        GraphKey::Provision => (defined("provision"), "How lanes get their dependencies."),
        GraphKey::Overlay => (defined("overlay"), "Local files that are copied into lanes."),
        GraphKey::Preflight => (preflight(), "What must hold before the first node. Checked, not run."),
        GraphKey::Cleanup => (choice(CLEANUPS), "What happens to lanes that hold work. Default: safe."),
        GraphKey::Grace => (duration(), "Time between TERM and KILL. Default: 10s."),
        GraphKey::OutputMax => (size(), "What a node may write before it fails. Default: 1GiB."),
        GraphKey::PassEnv => {
            (array(unlike(filled(), "=")), "Variables that reach nodes although they are removed by default.")
        }
        GraphKey::Identity => (identity(), "Who commits in lanes. Default: git's own."),
        GraphKey::Runtime => (defined("strings"), "What runs agents; several in order. Default: claude."),
        GraphKey::Runtimes => (
            json!({"type": "object", "additionalProperties": runtime()}),
            "Command lines that agents can run through, by name.",
        ),
        GraphKey::BudgetUsd => (dollars(), "Most money of the run, over all its legs; 0: no limit."),
        GraphKey::OnFault => (map(), "What follows faults. Checked, not run."),
        GraphKey::Defaults => (defaults(), "Keys for every node that does not say otherwise."),
        GraphKey::Nodes => (not_empty(defined("node")), "The units of work."),
    };
    described(schema, what)
}

/// Returns the schema of a key of a node, or of `defaults`.
fn node_key(key: NodeKey, is_default: bool) -> Value {
    let (schema, what) = match key {
        NodeKey::Id => (id(), "Its name; unique, also when case is ignored."),
        NodeKey::Type => (choice(KINDS), "What it is. Default: `run` makes a command, `prompt` an agent."),
        NodeKey::Description => (text(), "Shown in views."),
        NodeKey::Run => (filled(), "A command line."),
        NodeKey::Prompt => (filled(), "What an agent is asked."),
        NodeKey::DependsOn => (depends_on(), "The nodes that it waits for."),
        NodeKey::Worktree => (worktree(is_default), "The lane it works in, or `none`."),
        NodeKey::Access => (choice(ACCESSES), "What it does to its lane. Default: write."),
        NodeKey::Cwd => (filled(), "Where it runs; not together with a lane."),
        NodeKey::Env => (defined("env"), "Its variables, over the graph's."),
        NodeKey::Timeout => {
            (limit(), "Longest time of one attempt. Default: none for commands, 20m for agents.")
        }
        NodeKey::SuccessCheck => (success_check(), "What must hold for it to pass. Default: exit status 0."),
        NodeKey::Retry => (retry(), "Further attempts."),
        NodeKey::Feedback => (feedback(), "A bounded re-run after a judgment failure."),
        NodeKey::Handoff => (
            choice(HANDOFFS),
            "What it takes from the node before it: its result, or its session. Default: artifact.",
        ),
        NodeKey::AllowedTools => (array(filled()), "Tools that the agent may use unasked."),
        NodeKey::PermissionMode => {
            let modes = PermissionMode::ALL.map(PermissionMode::word);
            (json!({"enum": modes}), "How an agent asks before it acts. Default: dontAsk.")
        }
        NodeKey::Agent => (filled(), "The runtime's own agent to use."),
        NodeKey::BudgetUsd => (dollars(), "Most money of one attempt; 0: no limit."),
        NodeKey::Runtime => {
            (defined("strings"), "What runs the agent; several in order. Default: the graph's.")
        }
        NodeKey::Model => (filled(), "The agent's model."),
        NodeKey::Protect => (defined("strings"), "What it may not change. Checked, not run."),
        NodeKey::Scope => (defined("strings"), "What alone it may change. Checked, not run."),
        NodeKey::ExpectChanges => (boolean(), "Whether it must change something. Checked, not run."),
        NodeKey::OnFault => (map(), "What follows faults. Checked, not run."),
        NodeKey::Grace => (duration(), "Time between TERM and KILL. Default: the graph's."),
        NodeKey::OutputMax => (size(), "What it may write before it fails. Default: the graph's."),
        NodeKey::Use => (id(), "The fragment it stands for."),
        NodeKey::With => (map(), "What the points of the fragment are bound to."),
    };
    described(schema, what)
}

fn node() -> Value {
    let mut node = object(NodeKey::ALL.iter().map(|key| (key.word(), node_key(*key, false))), &["id"]);
    // What cites a fragment is taken away before a node is judged.
    let for_gates =
        NodeKey::ALL.iter().filter(|key| key.is_for_gates() || matches!(key, NodeKey::Use | NodeKey::With));
    let for_gates: Vec<&str> = for_gates.map(|key| key.word()).collect();
    let session = json!({"required": ["handoff"], "properties": {"handoff": {"const": "session"}}});
    node.insert("dependentRequired".into(), json!({"with": ["use"]}));
    node.insert(
        "allOf".into(),
        json!([
            {"not": {"required": ["run", "prompt"]}},
            {"not": {"required": ["use", "prompt"]}},
            {
                "if": {"required": ["cwd", "worktree"]},
                "then": {"properties": {"worktree": {"const": "none"}}},
            },
            {"if": of_type(&["gate"]), "then": {"propertyNames": {"enum": for_gates}}},
            {"if": of_type(&["agent", "claude-run"]), "then": {"not": {"required": ["run"]}}},
            {"if": of_type(&["command"]), "then": {"not": {"required": ["prompt"]}}},
            {
                "if": session,
                "then": {
                    "required": ["depends_on"],
                    "properties": {"depends_on": {"minItems": 1, "maxItems": 1}},
                    "not": {"required": ["run"]},
                },
            },
        ]),
    );
    Value::Object(node)
}

/// Returns what holds for a node that `defaults` give nothing to do.
fn working() -> Value {
    let any = |keys: &[&str]| json!({"anyOf": keys.iter().map(|key| json!({"required": [key]})).collect::<Vec<_>>()});
    json!({
        "if": of_type(&["gate"]),
        "else": {
            "if": of_type(&["agent", "claude-run"]),
            "then": any(&["prompt", "use"]),
            "else": {"if": of_type(&["command"]), "then": any(&["run", "use"]), "else": any(&["run", "prompt", "use"])},
        },
    })
}

fn of_type(words: &[&str]) -> Value {
    json!({"required": ["type"], "properties": {"type": {"enum": words}}})
}

fn defaults() -> Value {
    let keys = NodeKey::ALL.iter().filter(|key| !key.is_own());
    let mut defaults = object(keys.map(|key| (key.word(), node_key(*key, true))), &[]);
    defaults.insert("not".into(), json!({"required": ["cwd", "worktree"]}));
    Value::Object(defaults)
}

fn inputs() -> Value {
    let name = json!({"pattern": "^_?[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"});
    let mut named = filled();
    named["pattern"] = name["pattern"].clone();
    let input = object(
        InputKey::ALL.iter().map(|key| {
            let schema = match key {
                InputKey::Description | InputKey::Default => text(),
            };
            (key.word(), schema)
        }),
        &[],
    );
    json!({
        "anyOf": [
            {"type": "array", "items": named, "uniqueItems": true},
            {"type": "object", "propertyNames": name, "additionalProperties": or_null(Value::Object(input))},
        ],
    })
}

fn lanes() -> Value {
    let lane = object(
        LaneKey::ALL.iter().map(|key| {
            let schema = match key {
                LaneKey::Base => filled(),
                LaneKey::Provision => defined("provision"),
                LaneKey::Overlay => defined("overlay"),
                LaneKey::Ports => count(1),
                LaneKey::Cleanup => choice(CLEANUPS),
            };
            (key.word(), schema)
        }),
        &[],
    );
    let name = unlike(lane_name(json!({"pattern": ID})), "^[Nn][Oo][Nn][Ee]$");
    json!({"type": "object", "propertyNames": name, "additionalProperties": or_null(Value::Object(lane))})
}

/// Returns `of` without the words that git or omg keeps from being a lane's name.
fn lane_name(of: Value) -> Value {
    let per_node = "^[Pp][Ee][Rr]-[Nn][Oo][Dd][Ee]$";
    let words = ["\\.\\.", "\\.lock$", "\\.$", "\\.old-[0-9]+$", per_node];
    words.into_iter().fold(of, unlike)
}

fn worktree(is_default: bool) -> Value {
    let name = lane_name(id());
    if is_default { json!({"anyOf": [name, {"const": "per-node"}]}) } else { name }
}

fn provision() -> Value {
    let step = unlike(filled(), "^none$");
    let choice_of = |step: Value| json!({"anyOf": [filled(), not_empty(step)]});
    let whole = object(
        ProvisionKey::ALL.iter().map(|key| {
            let schema = match key {
                ProvisionKey::Command => choice_of(step.clone()),
                ProvisionKey::Timeout => limit(),
                ProvisionKey::Retry => choice(PROVISION_RETRIES),
                ProvisionKey::When => choice(PROVISION_WHENS),
                ProvisionKey::MaxParallel => count(1),
                ProvisionKey::Roots | ProvisionKey::Inputs => array(inner_path()),
                ProvisionKey::SkipIf | ProvisionKey::ReceiptFile => inner_path(),
            };
            (key.word(), schema)
        }),
        &[],
    );
    json!({"anyOf": [filled(), not_empty(step.clone()), Value::Object(whole)]})
}

fn overlay() -> Value {
    let paths = array(overlay_path());
    let whole = object(
        OverlayKey::ALL.iter().map(|key| {
            let schema = match key {
                OverlayKey::Paths => paths.clone(),
                OverlayKey::IncludeFile => boolean(),
            };
            (key.word(), schema)
        }),
        &[],
    );
    json!({"anyOf": [{"const": "none"}, paths, Value::Object(whole)]})
}

fn overlay_path() -> Value {
    let folders = DEPENDENCY_FOLDERS.map(|folder| folder.replace('.', "\\.")).join("|");
    let whole_tree = "^[./]*$";
    let of_git = "(^|/)\\.[gG][iI][tT](/|$)";
    let rules = [
        whole_tree.to_string(),
        of_git.to_string(),
        format!("(^|/)({folders})(/|$)"),
        "[*?\\x00-\\x1f\\x7f]".into(),
    ];
    rules.iter().fold(inner_path(), |schema, rule| unlike(schema, rule))
}

fn preflight() -> Value {
    Value::Object(object(
        PreflightKey::ALL.iter().map(|key| {
            let schema = match key {
                PreflightKey::Tools => array(filled()),
                PreflightKey::Env => array(unlike(filled(), "=")),
                PreflightKey::MinFree => size(),
                PreflightKey::Identity => boolean(),
                PreflightKey::Baseline => filled(),
            };
            (key.word(), schema)
        }),
        &[],
    ))
}

fn identity() -> Value {
    Value::Object(object(
        IdentityKey::ALL.iter().map(|key| {
            let schema = match key {
                IdentityKey::Name | IdentityKey::Email => filled(),
            };
            (key.word(), schema)
        }),
        &["name", "email"],
    ))
}

fn depends_on() -> Value {
    let dependency = object(
        DependencyKey::ALL.iter().map(|key| {
            let schema = match key {
                DependencyKey::Id => filled(),
                DependencyKey::On => choice(ENDINGS),
            };
            (key.word(), schema)
        }),
        &["id"],
    );
    json!({"type": "array", "items": {"anyOf": [filled(), Value::Object(dependency)]}, "uniqueItems": true})
}

fn success_check() -> Value {
    let verify = object(
        VerifyKey::ALL.iter().map(|key| {
            let schema = match key {
                VerifyKey::Command | VerifyKey::Cwd => filled(),
                VerifyKey::Timeout => limit(),
                VerifyKey::ExpectExit => json!({"type": "integer", "minimum": 0, "maximum": 255}),
                VerifyKey::OutputMatches => text(),
            };
            (key.word(), schema)
        }),
        &["command"],
    );
    Value::Object(object(
        CheckKey::ALL.iter().map(|key| {
            let schema = match key {
                CheckKey::ExitZero => boolean(),
                CheckKey::ResultMatches => text(),
                CheckKey::Verify => Value::Object(verify.clone()),
            };
            (key.word(), schema)
        }),
        &[],
    ))
}

fn runtime() -> Value {
    let result = json!({"type": "string", "pattern": "^(stdout|file|json:/.*)$"});
    Value::Object(object(
        RuntimeKey::ALL.iter().map(|key| {
            let schema = match key {
                RuntimeKey::Command | RuntimeKey::Resume => not_empty(filled()),
                RuntimeKey::Prompt => choice(PROMPT_WAYS),
                RuntimeKey::Result => result.clone(),
            };
            (key.word(), schema)
        }),
        &[RuntimeKey::Command.word()],
    ))
}

fn retry() -> Value {
    let causes = RetryCause::ALL.map(RetryCause::word);
    Value::Object(object(
        RetryKey::ALL.iter().map(|key| {
            let schema = match key {
                RetryKey::Max => count(0),
                RetryKey::On => not_empty(json!({"enum": causes})),
                RetryKey::Backoff => duration(),
            };
            (key.word(), schema)
        }),
        &[],
    ))
}

fn feedback() -> Value {
    Value::Object(object(
        FeedbackKey::ALL.iter().map(|key| {
            let schema = match key {
                FeedbackKey::Rerun => filled(),
                FeedbackKey::Max => count(1),
            };
            (key.word(), schema)
        }),
        &["rerun", "max"],
    ))
}

/// Returns a map that holds these keys and no others.
fn object(keys: impl Iterator<Item = (&'static str, Value)>, required: &[&str]) -> Map<String, Value> {
    let properties: Map<String, Value> = keys.map(|(key, schema)| (key.to_owned(), schema)).collect();
    let mut object = Map::new();
    object.insert("type".into(), "object".into());
    object.insert("properties".into(), Value::Object(properties));
    object.insert("additionalProperties".into(), false.into());
    if !required.is_empty() {
        object.insert("required".into(), required.into());
    }
    object
}

fn described(mut schema: Value, what: &str) -> Value {
    schema["description"] = what.into();
    schema
}

fn defined(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

/// Numbers and booleans are text as they were written.
fn text() -> Value {
    json!({"type": ["string", "number", "boolean"]})
}

fn filled() -> Value {
    json!({"type": ["string", "number", "boolean"], "pattern": "\\S"})
}

fn id() -> Value {
    json!({"type": ["string", "number", "boolean"], "pattern": ID, "minimum": 0})
}

/// Returns `schema` without the texts that match a pattern. Only of text can a pattern say no.
fn unlike(mut schema: Value, pattern: &str) -> Value {
    let no = json!({"not": {"type": "string", "pattern": pattern}});
    match schema["allOf"].as_array_mut() {
        Some(all) => all.push(no),
        None => schema["allOf"] = json!([no]),
    }
    schema
}

fn inner_path() -> Value {
    unlike(filled(), "^[/~]|(^|/)\\.\\.(/|$)")
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

fn count(least: u32) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": u32::MAX})
}

fn dollars() -> Value {
    json!({"type": "number", "minimum": 0})
}

fn duration() -> Value {
    json!({"type": "string", "pattern": "^(([0-9]+\\.?[0-9]*|\\.[0-9]+)(h|m|s|ms))+$"})
}

/// A duration longer than nothing.
fn limit() -> Value {
    let mut limit = duration();
    limit["allOf"] = json!([{"pattern": "[1-9]"}]);
    limit
}

fn size() -> Value {
    let written = "^([0-9]+\\s*B?|([0-9]+\\.?[0-9]*|\\.[0-9]+)\\s*(KiB|MiB|GiB|TiB))$";
    json!({"anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": written, "allOf": [{"pattern": "[1-9]"}]},
    ]})
}

fn choice<T>(set: &[(&str, T)]) -> Value {
    json!({"enum": set.iter().map(|(word, _)| *word).collect::<Vec<_>>()})
}

fn array(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn not_empty(items: Value) -> Value {
    json!({"type": "array", "items": items, "minItems": 1})
}

fn text_or_texts() -> Value {
    json!({"anyOf": [filled(), array(filled())]})
}

fn env() -> Value {
    let name = unlike(json!({}), "^OMG_|=|^$");
    json!({"type": "object", "propertyNames": name, "additionalProperties": text()})
}

fn map() -> Value {
    json!({"type": "object"})
}

fn or_null(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}
