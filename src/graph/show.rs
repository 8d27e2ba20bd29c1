//! Problems as text for people.

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::excerpt::{Excerpt, visible};
use super::problem::{Problem, Severity};

/// Returns the problems as text for people, in the order given, a blank line between two.
///
/// Whatever the file holds, nothing in the text commands a terminal but the colours asked for.
pub fn render(problems: &[Problem], color: bool) -> String {
    render_each(problems.iter(), color)
}

/// Returns the first `most` problems of each file as text, errors rather than warnings; and after them a
/// line for each file that has more.
pub fn render_some(problems: &[Problem], most: usize, color: bool) -> String {
    let mut files: Vec<&str> = Vec::new();
    for problem in problems {
        if !files.contains(&problem.file.as_str()) {
            files.push(&problem.file);
        }
    }
    let mut is_shown = vec![false; problems.len()];
    let mut rest = String::new();
    for file in files {
        let of_file = || problems.iter().enumerate().filter(move |(_, problem)| problem.file == file);
        let of = |severity| of_file().filter(move |(_, problem)| problem.severity == severity);
        for (at, _) in of(Severity::Error).chain(of(Severity::Warning)).take(most) {
            is_shown[at] = true;
        }
        let left_out = of_file().count().saturating_sub(most);
        if left_out > 0 {
            let file = visible(file);
            rest.push_str(&format!(
                "\n{file}: {left_out} more not shown; `omg lint --json` lists them all\n"
            ));
        }
    }
    let shown = problems.iter().zip(&is_shown).filter(|(_, is_shown)| **is_shown).map(|(problem, _)| problem);
    render_each(shown, color) + &rest
}

fn render_each<'p>(problems: impl Iterator<Item = &'p Problem>, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for problem in problems {
        if !text.is_empty() {
            text.push('\n');
        }
        let shown = renderer.render(&[group(problem)]);
        // The crate puts a line of `:::` between a place that it is told and an excerpt.
        let is_cut = problem.excerpt.as_ref().is_some_and(|excerpt| excerpt.cut);
        let is_joint = |at: usize, line: &str| is_cut && at == 3 && line.contains(":::");
        for (_, line) in shown.lines().enumerate().filter(|(at, line)| !is_joint(*at, line)) {
            text.push_str(line);
            text.push('\n');
        }
        if let Some(hint) = &problem.hint {
            text.push_str(&format!("hint: {}\n", visible(hint)));
        }
    }
    text
}

fn group(problem: &Problem) -> Group<'_> {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(visible(&problem.message));
    let (file, line) = (visible(&problem.file), problem.line as usize);
    // An excerpt that begins in the middle of its line knows nothing of the column.
    let place = || Origin::path(file.clone()).line(line).char_column(problem.column as usize);
    let source = |excerpt: &Excerpt| {
        Snippet::source(excerpt.text.clone())
            .line_start(line)
            .annotation(AnnotationKind::Primary.span(excerpt.mark.clone()))
    };
    match &problem.excerpt {
        Some(excerpt) if excerpt.cut => title.element(place()).element(source(excerpt)),
        Some(excerpt) => title.element(source(excerpt).path(file)),
        None => title.element(place()),
    }
}
