//! What a document says of agents and of what runs them.

use super::model::{PermissionMode, Piece, PromptWay, ResultWay, Template};
use super::*;
use crate::ids::NodeIx;
use crate::money::Usd;

fn good(text: &str) -> Graph {
    match load("g.yaml", text, &|_| None, Trust::Reviewed) {
        Ok(loaded) if loaded.warnings.is_empty() => loaded.graph,
        Ok(loaded) => panic!("{}", render(&loaded.warnings, false)),
        Err(problems) => panic!("{}", render(&problems, false)),
    }
}

#[test]
fn an_agent_has_what_its_node_its_defaults_and_its_graph_say() {
    let text = "\
name: x
budget_usd: 5
runtime: [codex, mine]
runtimes:
  mine: {command: [my-agent, '{prompt_file}'], prompt: file, result: 'json:/reply', resume: [--session, '{session}']}
defaults: {model: m, permission_mode: plan, budget_usd: 0.5}
nodes:
- {id: a, prompt: 'do {{ run.id }}', allowed_tools: [Read, 'Bash(git diff *)'], budget_usd: 0}
- {id: b, prompt: p, depends_on: [a], handoff: session, runtime: claude, agent: reviewer, feedback: {rerun: a, max: 2}}
- {id: c, prompt: p, depends_on: [b], runtime: [claude, claude]}
";
    let graph = good(text);
    let [a, b, c] = [0, 1, 2].map(|ix| graph.agent(NodeIx(ix)).unwrap());
    assert_eq!(a.prompt, Template(vec![Piece::Text("do ".into()), Piece::RunId]));
    assert_eq!(
        (&a.runtimes[..], a.goes_on, a.budget),
        (&["codex".to_string(), "mine".into()][..], false, None)
    );
    assert_eq!((a.model.as_deref(), a.permission), (Some("m"), PermissionMode::Plan));
    assert_eq!(a.allowed_tools, ["Read", "Bash(git diff *)"]);
    assert_eq!((&b.runtimes[..], b.goes_on), (&["claude".to_string()][..], true));
    assert_eq!((b.agent.as_deref(), b.budget), (Some("reviewer"), Usd::from_dollars(0.5)));
    assert_eq!(c.runtimes, ["claude"]);
    assert_eq!(graph.parts().budget, Usd::from_dollars(5.0));
    let spec = &graph.parts().runtimes["mine"];
    assert_eq!(
        (spec.prompt, &spec.result, &spec.resume[..]),
        (
            PromptWay::File,
            &ResultWay::Json("/reply".into()),
            &["--session".to_string(), "{session}".into()][..]
        )
    );
    let arc = graph.arc_at(NodeIx(1)).unwrap();
    assert_eq!((arc.rerun, arc.max, graph.body(arc.node)), (NodeIx(0), 2, &[NodeIx(0), NodeIx(1)][..]));
    assert_eq!((graph.arc_at(NodeIx(0)), graph.arc_of(NodeIx(2))), (None, None));
}

#[test]
fn names_of_runtimes_mean_something() {
    let wrong = |text: &str, expected: &str| {
        let problems = load("g.yaml", text, &|_| None, Trust::Reviewed).unwrap_err();
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(messages, [expected], "{text}");
    };
    wrong(
        "name: x\nruntime: cluade\nnodes:\n- {id: a, prompt: p}\n",
        "no runtime is named `cluade`; there are `claude` or `codex`",
    );
    wrong(
        "name: x\ndefaults: {runtime: my}\nruntimes: {mine: {command: [x]}}\nnodes:\n- {id: a, prompt: p}\n- {id: b, prompt: p}\n",
        "no runtime is named `my`; there are `claude`, `codex` or `mine`",
    );
    wrong(
        "name: x\nruntimes: {mine: {prompt: arg}}\nnodes:\n- {id: a, run: x}\n",
        "runtime `mine` has no `command`",
    );
    wrong(
        "name: x\nruntimes: {mine: {command: [x], result: 'json:reply'}}\nnodes:\n- {id: a, run: x}\n",
        "`result` of a runtime: `json:reply` is none of `stdout`, `file` and `json:` with a pointer such as `json:/result`",
    );
    wrong(
        "name: x\nruntime: codex\nnodes:\n- {id: a, prompt: p, agent: reviewer}\n",
        "`codex` has no agents of its own to choose from",
    );
}
