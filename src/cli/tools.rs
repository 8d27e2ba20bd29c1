//! The commands that show what omg knows to people, editors and shells: one function each.

use super::args::{GraphArgs, GraphFormat};
use super::output;
use crate::api::{self, Refusal, exit};
use crate::graph::Trust;
use crate::settings::Settings;
use crate::view::graph::GraphView;
use crate::view::json;

/// Shows a graph, or a run of one.
pub fn graph(settings: &Settings, args: &GraphArgs) -> Result<i32, Refusal> {
    let format = if args.json { GraphFormat::Json } else { args.format };
    match &args.graph {
        Some(path) => {
            let loaded = api::lint::graph(path, Trust::Reviewed).map_err(Refusal::of_problems)?;
            show(&GraphView::of(&loaded.graph, None), format)
        }
        None => {
            let found = api::find::run(settings, args.run.as_deref())?;
            let run = found.view()?;
            show(&GraphView::of(&found.file.graph, Some(&run)), format)
        }
    }
}

/// Prints the schema of the graph file.
pub fn schema() -> Result<i32, Refusal> {
    let text = serde_json::to_string_pretty(&crate::graph::schema())
        .map_err(|error| Refusal::new(exit::BUG, error.to_string(), None))?;
    output::result(&text);
    Ok(exit::OK)
}

fn show(view: &GraphView<'_>, format: GraphFormat) -> Result<i32, Refusal> {
    let text = match format {
        GraphFormat::Text => {
            output::result(&view.text(output::style()).join("\n"));
            return Ok(exit::OK);
        }
        GraphFormat::Dot => view.dot(),
        GraphFormat::Mermaid => view.mermaid(),
        // On one line: of a million edges, indentation would be the most.
        GraphFormat::Json => {
            let text = serde_json::to_string(view)
                .map_err(|error| Refusal::new(exit::BUG, error.to_string(), None))?;
            json::harmless(&text).into_owned() + "\n"
        }
    };
    output::raw(text.as_bytes());
    Ok(exit::OK)
}
