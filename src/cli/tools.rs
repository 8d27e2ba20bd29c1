//! The commands that show what omg knows to people, editors and shells: one function each.
#![expect(clippy::disallowed_methods, reason = "writes man pages")]

use std::path::Path;

use clap::CommandFactory;

use super::args::{Cli, GraphArgs, GraphFormat};
use super::complete::{Wanted, What, joined, wanted};
use super::{man, output};
use crate::api::{self, Refusal, exit};
use crate::graph::Trust;
use crate::settings::Settings;
use crate::view::graph::GraphView;
use crate::view::json;

/// Shows a graph, or a run of one.
pub fn graph(settings: &Settings, args: GraphArgs) -> Result<i32, Refusal> {
    let format = if args.json { GraphFormat::Json } else { args.format };
    match args.graph {
        Some(path) => {
            let loaded = api::lint::graph(&path, Trust::Reviewed).map_err(Refusal::of_problems)?;
            let part = api::start::part(loaded.graph, &args.select.into())?;
            part.notes.iter().for_each(|note| output::complain(&format!("note: {note}")));
            show(&GraphView::of(&part.graph, None), format)
        }
        None => {
            let found = api::find::run(settings, args.run.as_deref())?;
            let run = found.view()?;
            show(&GraphView::of(&found.file.graph, Some(&run)), format)
        }
    }
}

/// Prints what is wrong here, and ends with 1 where something is.
pub fn doctor(settings: &Settings, graph: Option<&Path>, json: bool) -> Result<i32, Refusal> {
    let found = api::doctor::doctor(settings, graph)?;
    if json {
        let text = serde_json::to_string_pretty(&found)
            .map_err(|error| Refusal::new(exit::BUG, error.to_string(), None))?;
        output::result(&json::harmless(&text));
    } else {
        output::result(&crate::view::doctor::lines(&found, output::style()).join("\n"));
    }
    Ok(if found.is_wrong() { exit::FAILED } else { exit::OK })
}

/// Prints the schema of the graph file.
pub fn schema() -> Result<i32, Refusal> {
    let text = serde_json::to_string_pretty(&crate::graph::schema())
        .map_err(|error| Refusal::new(exit::BUG, error.to_string(), None))?;
    output::result(&text);
    Ok(exit::OK)
}

/// Prints the page of omg, or writes all into a folder.
pub fn man(folder: Option<&Path>) -> Result<i32, Refusal> {
    let failed = |path: &Path, error: std::io::Error| {
        Refusal::new(exit::BLOCKED, format!("{}: {error}", path.display()), None)
    };
    let pages = man::pages().map_err(|error| Refusal::new(exit::BUG, error.to_string(), None))?;
    let Some(folder) = folder else {
        output::raw(&pages[0].text);
        return Ok(exit::OK);
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for page in &pages {
        let path = folder.join(&page.file);
        std::fs::write(&path, &page.text).map_err(|error| failed(&path, error))?;
    }
    output::result(&format!("wrote {} pages into {}", pages.len(), folder.display()));
    Ok(exit::OK)
}

/// Prints what could stand at the cursor, a line each: the word, a tab, what it is for. `:graphs` and
/// `:folders` leave files to the shell, which knows how it spells them.
pub fn complete(settings: &Settings, shell: &str, words: &[String]) {
    let (words, was_joined) = if shell == "bash" { joined(words) } else { (words.to_vec(), false) };
    let mut root = Cli::command();
    root.build();
    let Wanted { lead, typed, what } = wanted(&root, &words);
    let plain = |names: Vec<String>| names.into_iter().map(|name| (name, String::new())).collect();
    let candidates: Vec<(String, String)> = match what {
        What::Words(words) => words,
        What::Run => plain(api::names::runs(settings)),
        What::RunOrNode => {
            plain([api::names::nodes(settings, None, None), api::names::runs(settings)].concat())
        }
        What::Node(of) => plain(api::names::nodes(settings, of.run.as_deref(), of.graph.as_deref())),
        What::Lane(of) => plain(api::names::lanes(settings, of.run.as_deref(), of.graph.as_deref())),
        What::GraphFile => return output::result(":graphs"),
        What::Folder => return output::result(":folders"),
        What::Unknown => return,
    };
    let lead = if was_joined { "" } else { lead.as_str() };
    for (word, what) in candidates.iter().filter(|(word, _)| word.starts_with(&typed)) {
        output::result(&format!("{lead}{word}\t{what}"));
    }
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
