//! Man pages, made from the grammar of `args`.

use clap::{Command, CommandFactory};

use super::args::Cli;

/// A man page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its file's name: `omg-run.1`.
    pub file: String,
    /// Its text, in roff.
    pub text: Vec<u8>,
}

/// Returns a page for omg and one for each of its commands, the former first.
///
/// Errors: none that a writer into memory has.
pub fn pages() -> std::io::Result<Vec<Page>> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    let mut open = vec![&root];
    while let Some(command) = open.pop() {
        pages.push(page(command)?);
        open.extend(command.get_subcommands().filter(|command| !command.is_hide_set()));
    }
    Ok(pages)
}

fn page(command: &Command) -> std::io::Result<Page> {
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render(&mut text)?;
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    Ok(Page { file: format!("{name}.1"), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(command: &Command, lead: &str, found: &mut Vec<String>) {
        let name = if lead.is_empty() {
            command.get_name().to_string()
        } else {
            format!("{lead}-{}", command.get_name())
        };
        found.push(format!("{name}.1"));
        command.get_subcommands().for_each(|command| names(command, &name, found));
    }

    #[test]
    fn every_command_has_a_page_that_says_how_it_is_called() {
        let mut expected = Vec::new();
        names(&Cli::command(), "", &mut expected);
        expected.sort();
        let mut pages = pages().unwrap();
        assert_eq!(pages[0].file, "omg.1");
        pages.sort_by(|a, b| a.file.cmp(&b.file));
        let files: Vec<&str> = pages.iter().map(|page| page.file.as_str()).collect();
        assert_eq!(files, expected);
        assert!(files.contains(&"omg-lanes-discard.1"), "{files:?}");
        for page in &pages {
            let text = String::from_utf8(page.text.clone()).unwrap();
            for section in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS"] {
                assert!(text.contains(section), "{}: no {section}", page.file);
            }
        }
    }
}
