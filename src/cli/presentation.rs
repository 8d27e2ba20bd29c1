//! What a leg is shown as: by flag and settings, and by what the other end is.

use crate::process::environment::Environment;
use crate::settings::OutputMode;

/// What a leg is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presentation {
    /// Lines, and below them what is in progress.
    Live,
    /// A line an event.
    Plain,
    /// The journal's own lines, to standard output.
    Json,
    /// Lines, folds and annotations as GitHub reads them.
    Github,
    /// Lines and sections as GitLab reads them.
    Gitlab,
}

/// Returns what a leg is shown as. `is_terminal` is standard error's, `verbose` whether logs go there too.
pub fn choose(mode: OutputMode, is_terminal: bool, verbose: bool, environment: &Environment) -> Presentation {
    let on = |name: &str| environment.text(name).is_some_and(|value| !matches!(value, "" | "0" | "false"));
    match mode {
        OutputMode::Plain => Presentation::Plain,
        OutputMode::Json => Presentation::Json,
        OutputMode::Github => Presentation::Github,
        OutputMode::Gitlab => Presentation::Gitlab,
        OutputMode::Auto if on("GITHUB_ACTIONS") => Presentation::Github,
        OutputMode::Auto if on("GITLAB_CI") => Presentation::Gitlab,
        OutputMode::Auto => {
            let can_move = !matches!(environment.text("TERM"), None | Some("" | "dumb"));
            // Logs are written past us, and would tear what is drawn.
            let live = is_terminal && can_move && !on("CI") && !verbose;
            if live { Presentation::Live } else { Presentation::Plain }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mode: OutputMode, is_terminal: bool, variables: &[(&str, &str)], expected: Presentation) {
        let environment = Environment::from_iter(variables.iter().copied());
        assert_eq!(choose(mode, is_terminal, false, &environment), expected, "{variables:?}");
    }

    #[test]
    fn a_terminal_is_drawn_on_and_everything_else_is_not() {
        use OutputMode::Auto;
        check(Auto, true, &[("TERM", "xterm")], Presentation::Live);
        check(Auto, true, &[("TERM", "xterm"), ("CI", "false")], Presentation::Live);
        check(Auto, false, &[("TERM", "xterm")], Presentation::Plain);
        check(Auto, true, &[("TERM", "dumb")], Presentation::Plain);
        check(Auto, true, &[], Presentation::Plain);
        check(Auto, true, &[("TERM", "xterm"), ("CI", "true")], Presentation::Plain);
        check(Auto, false, &[("CI", "true"), ("GITHUB_ACTIONS", "true")], Presentation::Github);
        check(Auto, false, &[("CI", "true"), ("GITLAB_CI", "true")], Presentation::Gitlab);
        check(OutputMode::Plain, true, &[("TERM", "xterm"), ("GITHUB_ACTIONS", "true")], Presentation::Plain);
        check(OutputMode::Json, true, &[("TERM", "xterm")], Presentation::Json);
    }
}
