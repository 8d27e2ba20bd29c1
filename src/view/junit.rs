//! A run as a JUnit file, which CI systems read: a node is a test case.

use super::{NodeView, RunView};

/// Returns the file's text. `tail` gives the last lines of a node's log, for nodes that did not pass.
pub fn junit(view: &RunView, tail: impl Fn(&NodeView) -> String) -> String {
    let count = |states: &[&str]| view.nodes.iter().filter(|node| states.contains(&node.state)).count();
    let attributes = format!(
        "name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\"",
        escape(&view.graph),
        view.nodes.len(),
        count(&["failed"]),
        count(&ERRORS),
        count(&SKIPPED),
        seconds(view.duration_ms),
    );
    let stamp = view.started_at.map(|at| format!(" timestamp=\"{at}\"")).unwrap_or_default();
    let mut text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {attributes}>\n");
    text += &format!("  <testsuite {attributes}{stamp} id=\"{}\">\n", escape(&view.run_id));
    for node in &view.nodes {
        text += &case(view, node, &tail);
    }
    text + "  </testsuite>\n</testsuites>\n"
}

/// States that are no verdict on the node.
const ERRORS: [&str; 6] = ["blocked", "interrupted", "cancelled", "running", "ready", "paused"];
/// States of nodes that were not to run, or not yet.
const SKIPPED: [&str; 2] = ["skipped", "waiting"];

fn case(view: &RunView, node: &NodeView, tail: impl Fn(&NodeView) -> String) -> String {
    let class = match &node.lane {
        Some(lane) => format!("{}.{lane}", view.graph),
        None => view.graph.clone(),
    };
    let mut text = format!(
        "    <testcase name=\"{}\" classname=\"{}\" time=\"{}\"",
        escape(&node.id),
        escape(&class),
        seconds(node.duration_ms.unwrap_or(0))
    );
    let kind = match node.state {
        "passed" => None,
        "failed" => Some("failure"),
        state if SKIPPED.contains(&state) => Some("skipped"),
        _ => Some("error"),
    };
    let Some(kind) = kind.or((node.attempts > 1).then_some("flaky")) else { return text + "/>\n" };
    text += ">\n";
    if node.attempts > 1 {
        let attempts = node.attempts;
        text +=
            &format!("      <properties><property name=\"attempts\" value=\"{attempts}\"/></properties>\n");
    }
    if kind != "flaky" {
        let (class, message) = match (&node.fault, &node.because) {
            (Some(fault), _) => (fault.class.word(), fault.detail.clone()),
            (None, Some(because)) => (node.state, format!("needs {because}")),
            (None, None) => (node.state, node.state.to_string()),
        };
        let kind_of = if kind == "skipped" { String::new() } else { format!(" type=\"{}\"", escape(class)) };
        let said = if kind == "skipped" { String::new() } else { escape(&tail(node)) };
        text += &format!("      <{kind} message=\"{}\"{kind_of}>{said}</{kind}>\n", escape(&message));
    }
    text + "    </testcase>\n"
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Escapes text for content and attributes, without what XML 1.0 has no form for.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push_str(&format!("&#{};", c as u32)),
            ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => escaped.push(c),
            _ => escaped.push('\u{fffd}'),
        }
    }
    escaped
}
