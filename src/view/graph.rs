//! A graph as people and programs are shown it: levels in text, a drawing for dot or mermaid, JSON.

use std::collections::VecDeque;
use std::fmt::Write;

use serde::Serialize;

use super::RunView;
use super::style::Style;
use super::table::columns;
use crate::graph::Graph;
use crate::graph::model::On;
use crate::graph::visible;
use crate::ids::{LaneIx, NodeIx};
use crate::schedule::fact::RunStatus;

/// Number of the JSON shape. Fields are added, never renamed or removed, under one number.
pub const SCHEMA: u32 = 1;

/// Dependencies that a line of text names; of more it says how many.
const NAMED_MAX: usize = 6;

/// Characters of a description that a line of text shows.
const DESCRIPTION_CHARS_MAX: usize = 60;

/// A graph to be shown, and how a run of it stands where one is given.
#[derive(Clone, Debug, Serialize)]
pub struct GraphView<'g> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The graph's name.
    pub name: &'g str,
    /// The run whose states are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<&'g str>,
    /// How that run stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Nodes, in file order.
    pub nodes: Vec<NodeShape<'g>>,
    /// What waits for what, in file order of the nodes that wait.
    pub edges: Vec<EdgeShape<'g>>,
    /// Feedback arcs, in file order.
    pub feedback: Vec<ArcShape<'g>>,
    /// Lanes, in order of first mention.
    pub lanes: Vec<LaneShape<'g>>,
}

/// A node of a graph.
#[derive(Clone, Debug, Serialize)]
pub struct NodeShape<'g> {
    /// Its name.
    pub id: &'g str,
    /// `command`, `agent` or `gate`.
    pub r#type: &'static str,
    /// Its description.
    pub description: Option<&'g str>,
    /// Its lane.
    pub lane: Option<&'g str>,
    /// Edges on the longest path to it from a node that waits for nothing.
    pub level: u32,
    /// Where it stands in the run: a word of DESIGN.md section 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
}

/// An edge.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EdgeShape<'g> {
    /// The node that is waited for.
    pub from: &'g str,
    /// The node that waits.
    pub to: &'g str,
    /// The ending that it waits for.
    pub on: On,
    #[serde(skip)]
    ends: (NodeIx, NodeIx),
}

/// A feedback arc.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ArcShape<'g> {
    /// The node that judges.
    pub node: &'g str,
    /// The node that its feedback runs again from.
    pub rerun: &'g str,
    /// How often at most.
    pub max: u32,
    #[serde(skip)]
    ends: (NodeIx, NodeIx),
}

/// A lane.
#[derive(Clone, Debug, Serialize)]
pub struct LaneShape<'g> {
    /// Its name.
    pub name: &'g str,
    /// The nodes that work in it, in file order.
    pub nodes: Vec<&'g str>,
    #[serde(skip)]
    members: Vec<NodeIx>,
}

impl<'g> GraphView<'g> {
    /// Returns what is shown of a graph, and of a run of it.
    pub fn of(graph: &'g Graph, run: Option<&'g RunView>) -> GraphView<'g> {
        let id = |ix: NodeIx| graph.node(ix).id.as_str();
        let lane = |ix: LaneIx| graph.lane(ix).name.as_str();
        let levels = levels(graph);
        let nodes = graph.node_ixs().map(|ix| {
            let node = graph.node(ix);
            NodeShape {
                id: id(ix),
                r#type: node.kind.word(),
                description: node.description.as_deref(),
                lane: node.lane.map(lane),
                level: levels[ix.at()],
                state: run.and_then(|run| run.nodes.get(ix.at())).map(|node| node.state),
            }
        });
        let edges = graph.node_ixs().flat_map(|to| {
            graph.node(to).depends_on.iter().map(move |dependency| EdgeShape {
                from: id(dependency.node),
                to: id(to),
                on: dependency.on,
                ends: (dependency.node, to),
            })
        });
        let feedback = graph.parts().feedback.iter().map(|arc| ArcShape {
            node: id(arc.node),
            rerun: id(arc.rerun),
            max: arc.max,
            ends: (arc.node, arc.rerun),
        });
        let mut lanes: Vec<LaneShape<'g>> = graph
            .lane_ixs()
            .map(|ix| LaneShape { name: lane(ix), nodes: Vec::new(), members: Vec::new() })
            .collect();
        for ix in graph.node_ixs() {
            if let Some(of) = graph.node(ix).lane {
                lanes[of.at()].nodes.push(id(ix));
                lanes[of.at()].members.push(ix);
            }
        }
        // An amendment may have taken the nodes of a lane away; the lane is still the run's.
        lanes.retain(|lane| !lane.members.is_empty());
        GraphView {
            schema: SCHEMA,
            name: &graph.parts().name,
            run_id: run.map(|run| run.run_id.as_str()),
            status: run.map(|run| run.status),
            nodes: nodes.collect(),
            edges: edges.collect(),
            feedback: feedback.collect(),
            lanes,
        }
    }

    /// Returns the graph as lines for people: its nodes level by level, each with what it waits for.
    pub fn text(&self, style: Style) -> Vec<String> {
        let mut lines = vec![self.head(style), String::new()];
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|at| self.nodes[*at].level);
        let mut waits: Vec<Vec<EdgeShape<'_>>> = vec![Vec::new(); self.nodes.len()];
        for edge in &self.edges {
            waits[edge.ends.1.at()].push(*edge);
        }
        let mut reruns = vec![None; self.nodes.len()];
        for arc in &self.feedback {
            reruns[arc.ends.0.at()] = Some(arc);
        }
        let row = |at: &usize| self.row(&self.nodes[*at], &waits[*at], reruns[*at], style);
        let rows: Vec<Vec<String>> = order.iter().map(row).collect();
        let mut level = None;
        for (at, line) in order.iter().zip(columns(&rows)) {
            let of = self.nodes[*at].level;
            if level.replace(of) != Some(of) {
                lines.push(style.strong(&format!("level {}", of + 1)));
            }
            lines.push(format!("  {line}"));
        }
        lines
    }

    fn head(&self, style: Style) -> String {
        let counted =
            |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let mut head = format!(
            "{}: {}, {}, {}",
            style.strong(&visible(self.name)),
            counted(self.nodes.len(), "node"),
            counted(self.edges.len(), "edge"),
            counted(self.lanes.len(), "lane"),
        );
        if let (Some(run), Some(status)) = (self.run_id, self.status) {
            let _ = write!(head, "; run {run} {}", style.state(status.word()));
        }
        head
    }

    fn row(
        &self,
        node: &NodeShape<'_>,
        waits: &[EdgeShape<'_>],
        reruns: Option<&ArcShape<'_>>,
        style: Style,
    ) -> Vec<String> {
        let mut row = vec![node.id.to_string()];
        row.extend(node.state.map(|state| style.state(state)));
        row.push(node.r#type.to_string());
        row.push(node.lane.map(|lane| format!("lane {lane}")).unwrap_or_default());
        let mut rest = Vec::new();
        if !waits.is_empty() {
            let named = waits.iter().take(NAMED_MAX).map(|edge| match condition(edge.on) {
                Some(on) => format!("{} ({on})", edge.from),
                None => edge.from.to_string(),
            });
            let more = waits.len().saturating_sub(NAMED_MAX);
            let more = (more > 0).then(|| format!("and {more} more"));
            rest.push(format!("after {}", named.chain(more).collect::<Vec<_>>().join(", ")));
        }
        if let Some(arc) = reruns {
            rest.push(format!("feedback: again from {}, at most {}", arc.rerun, arc.max));
        }
        if let Some(first) =
            node.description.and_then(|text| text.lines().find(|line| !line.trim().is_empty()))
        {
            let shown: String = first.trim().chars().take(DESCRIPTION_CHARS_MAX).collect();
            rest.push(format!("# {}", visible(&shown)));
        }
        row.push(rest.join("; "));
        row
    }

    /// Returns the graph in the language of Graphviz: lanes as clusters, feedback dashed, states as colours.
    pub fn dot(&self) -> String {
        let mut out = String::from("digraph omg {\n  graph [rankdir=LR, labelloc=t, label=\"");
        out.push_str(&dot_text(&self.title()));
        out.push_str("\"];\n  node [shape=box, style=filled, fillcolor=white];\n");
        for (at, node) in self.nodes.iter().enumerate() {
            let label = label(node).map(dot_text).collect::<Vec<_>>().join("\\n");
            let _ = write!(out, "  n{at} [label=\"{label}\"");
            match node.r#type {
                "agent" => out.push_str(", style=\"filled,rounded\""),
                "gate" => out.push_str(", shape=hexagon"),
                _ => {}
            }
            if let Some(state) = node.state {
                let _ = write!(out, ", fillcolor=\"{}\", tooltip=\"{state}\"", color(state));
            }
            out.push_str("];\n");
        }
        for (at, lane) in self.lanes.iter().enumerate() {
            let name = dot_text(lane.name);
            let _ = write!(out, "  subgraph cluster_{at} {{ label=\"lane {name}\"; style=rounded;");
            for node in &lane.members {
                let _ = write!(out, " n{};", node.0);
            }
            out.push_str(" }\n");
        }
        for edge in &self.edges {
            let (from, to) = (edge.ends.0.0, edge.ends.1.0);
            let _ = match condition(edge.on) {
                None => writeln!(out, "  n{from} -> n{to};"),
                Some(on) => writeln!(out, "  n{from} -> n{to} [label=\"{on}\"];"),
            };
        }
        for arc in &self.feedback {
            let (node, rerun, max) = (arc.ends.0.0, arc.ends.1.0, arc.max);
            let label = format!("feedback, at most {max}");
            let _ =
                writeln!(out, "  n{node} -> n{rerun} [style=dashed, constraint=false, label=\"{label}\"];");
        }
        out.push_str("}\n");
        out
    }

    /// Returns the graph as a mermaid flowchart: lanes as subgraphs, feedback dotted, states as classes.
    pub fn mermaid(&self) -> String {
        let mut out = format!("---\ntitle: \"{}\"\n---\nflowchart LR\n", yaml_text(&self.title()));
        for (at, node) in self.nodes.iter().enumerate() {
            let label = label(node).map(mermaid_text).collect::<Vec<_>>().join("<br/>");
            let (open, close) = match node.r#type {
                "agent" => ("(", ")"),
                "gate" => ("{{", "}}"),
                _ => ("[", "]"),
            };
            let _ = write!(out, "  n{at}{open}\"{label}\"{close}");
            if let Some(state) = node.state {
                let _ = write!(out, ":::{state}");
            }
            out.push('\n');
        }
        for (at, lane) in self.lanes.iter().enumerate() {
            let _ = writeln!(out, "  subgraph lane{at}[\"lane {}\"]", mermaid_text(lane.name));
            for node in &lane.members {
                let _ = writeln!(out, "    n{}", node.0);
            }
            out.push_str("  end\n");
        }
        for edge in &self.edges {
            let (from, to) = (edge.ends.0.0, edge.ends.1.0);
            let _ = match condition(edge.on) {
                None => writeln!(out, "  n{from} --> n{to}"),
                Some(on) => writeln!(out, "  n{from} -->|{on}| n{to}"),
            };
        }
        for arc in &self.feedback {
            let (node, rerun) = (arc.ends.0.0, arc.ends.1.0);
            let _ = writeln!(out, "  n{node} -.->|\"feedback, at most {}\"| n{rerun}", arc.max);
        }
        let mut states: Vec<&str> = self.nodes.iter().filter_map(|node| node.state).collect();
        states.sort_unstable();
        states.dedup();
        for state in states {
            let _ = writeln!(out, "  classDef {state} fill:{}", color(state));
        }
        out
    }

    fn title(&self) -> String {
        match (self.run_id, self.status) {
            (Some(run), Some(status)) => format!("{}: run {run} {}", self.name, status.word()),
            _ => self.name.to_string(),
        }
    }
}

/// Returns how far each node is from what waits for nothing: edges of the longest path. No recursion.
fn levels(graph: &Graph) -> Vec<u32> {
    let mut levels = vec![0; graph.nodes().len()];
    let mut unmet: Vec<usize> = graph.nodes().iter().map(|node| node.depends_on.len()).collect();
    let mut open: VecDeque<NodeIx> = graph.node_ixs().filter(|ix| unmet[ix.at()] == 0).collect();
    while let Some(ix) = open.pop_front() {
        for (next, _) in graph.dependents(ix) {
            levels[next.at()] = levels[next.at()].max(levels[ix.at()] + 1);
            unmet[next.at()] -= 1;
            if unmet[next.at()] == 0 {
                open.push_back(next);
            }
        }
    }
    levels
}

fn condition(on: On) -> Option<&'static str> {
    match on {
        On::Passed => None,
        On::Finished => Some("finished"),
        On::Failed => Some("failed"),
    }
}

/// Returns the lines of a node's label.
fn label<'n>(node: &'n NodeShape<'_>) -> impl Iterator<Item = &'n str> {
    let description =
        node.description.into_iter().flat_map(str::lines).filter(|line| !line.trim().is_empty());
    std::iter::once(node.id).chain(description)
}

/// Returns the colour of a state, light enough for black text.
fn color(state: &str) -> &'static str {
    match state {
        "passed" => "#b7e1b0",
        "failed" => "#f4a9a0",
        "blocked" | "interrupted" | "cancelled" | "paused" => "#f5d98b",
        "running" | "ready" => "#a9d3f2",
        _ => "#e2e2e2",
    }
}

/// Returns text as it stands between double quotes in dot's language.
fn dot_text(text: &str) -> String {
    visible(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Returns text as it stands between double quotes in mermaid's language: what it or HTML would read as
/// more than text, directives (`%%{`) among it, is an entity.
fn mermaid_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '"' | '#' | '&' | '<' | '>' | '`' | '\\' | '%' | '$' | ';' | '{' | '}' => {
                let _ = write!(out, "#{};", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}

/// Returns text as it stands between double quotes in YAML, where mermaid takes its title from.
fn yaml_text(text: &str) -> String {
    visible(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Trust, load};

    const TEXT: &str = r#"
name: demo "x" \
nodes:
- {id: write, prompt: w, worktree: app, description: "say \"hi\" \\ <b>%%{init}%%</b> # `x` $y$; \e[31m\nand more"}
- {id: check, run: x, depends_on: [write], feedback: {rerun: write, max: 2}}
- {id: ok, type: gate, depends_on: [check]}
- {id: tell, run: x, depends_on: [{id: check, on: failed}, {id: ok, on: finished}], worktree: app}
"#;

    fn graph(text: &str) -> Graph {
        load("g.yaml", text, &|_| None, Trust::Reviewed).unwrap().graph
    }

    #[test]
    fn text_goes_level_by_level() {
        let graph = graph(TEXT);
        let lines = GraphView::of(&graph, None).text(Style::default());
        let expected = [
            r#"demo "x" \: 4 nodes, 4 edges, 1 lane"#,
            "",
            "level 1",
            r#"  write  agent    lane app  # say "hi" \ <b>%%{init}%%</b> # `x` $y$; ␛[31m"#,
            "level 2",
            "  check  command            after write; feedback: again from write, at most 2",
            "level 3",
            "  ok     gate               after check",
            "level 4",
            "  tell   command  lane app  after check (failed), ok (finished)",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn dot_is_escaped_and_complete() {
        let graph = graph(TEXT);
        let expected = r##"digraph omg {
  graph [rankdir=LR, labelloc=t, label="demo \"x\" \\"];
  node [shape=box, style=filled, fillcolor=white];
  n0 [label="write\nsay \"hi\" \\ <b>%%{init}%%</b> # `x` $y$; ␛[31m\nand more", style="filled,rounded"];
  n1 [label="check"];
  n2 [label="ok", shape=hexagon];
  n3 [label="tell"];
  subgraph cluster_0 { label="lane app"; style=rounded; n0; n3; }
  n0 -> n1;
  n1 -> n2;
  n1 -> n3 [label="failed"];
  n2 -> n3 [label="finished"];
  n1 -> n0 [style=dashed, constraint=false, label="feedback, at most 2"];
}
"##;
        assert_eq!(GraphView::of(&graph, None).dot(), expected);
    }

    #[test]
    fn mermaid_is_escaped_and_complete() {
        let graph = graph(TEXT);
        let expected = r##"---
title: "demo \"x\" \\"
---
flowchart LR
  n0("write<br/>say #34;hi#34; #92; #60;b#62;#37;#37;#123;init#125;#37;#37;#60;/b#62; #35; #96;x#96; #36;y#36;#59; ␛[31m<br/>and more")
  n1["check"]
  n2{{"ok"}}
  n3["tell"]
  subgraph lane0["lane app"]
    n0
    n3
  end
  n0 --> n1
  n1 --> n2
  n1 -->|failed| n3
  n2 -->|finished| n3
  n1 -.->|"feedback, at most 2"| n0
"##;
        assert_eq!(GraphView::of(&graph, None).mermaid(), expected);
    }

    #[test]
    fn json_has_the_fields_that_the_documents_name() {
        let graph = graph(
            "name: n\nnodes: [{id: a, run: x, worktree: l}, {id: b, prompt: x, depends_on: [a], feedback: {rerun: a, max: 1}}]\n",
        );
        let expected = serde_json::json!({
            "schema": 1,
            "name": "n",
            "nodes": [
                {"id": "a", "type": "command", "description": null, "lane": "l", "level": 0},
                {"id": "b", "type": "agent", "description": null, "lane": null, "level": 1},
            ],
            "edges": [{"from": "a", "to": "b", "on": "passed"}],
            "feedback": [{"node": "b", "rerun": "a", "max": 1}],
            "lanes": [{"name": "l", "nodes": ["a"]}],
        });
        assert_eq!(serde_json::to_value(GraphView::of(&graph, None)).unwrap(), expected);
    }

    #[test]
    fn a_line_names_a_few_dependencies_and_counts_the_rest() {
        let mut text = String::from("name: x\nnodes:\n");
        let ids: Vec<String> = (0..9).map(|at| format!("n{at}")).collect();
        ids.iter().for_each(|id| text.push_str(&format!("- {{id: {id}, run: x}}\n")));
        text.push_str(&format!("- {{id: all, run: x, depends_on: [{}]}}\n", ids.join(", ")));
        let graph = graph(&text);
        let lines = GraphView::of(&graph, None).text(Style::default());
        assert!(lines.last().unwrap().ends_with("after n0, n1, n2, n3, n4, n5, and 3 more"), "{lines:?}");
    }

    #[test]
    fn a_chain_of_ten_thousand_nodes_has_as_many_levels() {
        let mut text = String::from("name: x\nnodes:\n- {id: n0, run: x}\n");
        (1..10_000)
            .for_each(|at| text.push_str(&format!("- {{id: n{at}, run: x, depends_on: [n{}]}}\n", at - 1)));
        let graph = graph(&text);
        let view = GraphView::of(&graph, None);
        assert_eq!(view.nodes[9_999].level, 9_999);
        assert_eq!(view.text(Style::default()).len(), 20_002);
    }
}
