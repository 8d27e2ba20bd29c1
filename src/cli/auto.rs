//! `omg auto`: plan, show, ask, run.

use super::args::AutoArgs;
use super::leg::{Shown, claim_and_run, leg_options, next_leg, presentation};
use super::output;
use super::presentation::Presentation;
use crate::api::auto::{AutoRequest, Earlier, Ids, Plan};
use crate::api::find::Found;
use crate::api::leg_options::LegOptions;
use crate::api::{self, Refusal, exit};
use crate::settings::Settings;

/// `omg auto`.
pub fn auto(settings: &Settings, args: AutoArgs, verbose: bool) -> Result<i32, Refusal> {
    let shown =
        Shown { presentation: presentation(settings, &args.leg, verbose), junit: args.leg.junit.clone() };
    let options = leg_options(&args.leg, false, false);
    let request =
        AutoRequest { goal: args.goal, run_id: args.run_id, runtime: args.runtime, pass_env: args.pass_env };
    if !options.gates.is_empty() {
        let hint = "a plan has no gates: you are asked before it runs";
        return Err(Refusal::new(exit::USAGE, "there is nothing to approve in a plan", Some(hint.into())));
    }
    let ids = api::auto::ids(&request)?;
    let plan = match plan(settings, &request, &ids, &options, &shown)? {
        Ok(plan) => plan,
        Err(code) => return Ok(code),
    };
    let prepared = api::start::prepare(settings, &api::auto::planned(&request, &ids, &plan, &options))?;
    output::problems(&prepared.warnings);
    for line in api::plan::describe(settings, &prepared)? {
        // Standard output is the journal's, where that was asked for.
        match shown.presentation {
            Presentation::Json => output::complain(&line),
            _ => output::result(&line),
        }
    }
    output::complain(&format!("the plan: {}", plan.display()));
    let again = format!("omg run --planned {}", plan.display());
    if args.plan_only {
        output::complain(&format!("run it with `{again}`"));
        return Ok(exit::OK);
    }
    if !args.yes && !output::ask("run it?") {
        output::complain(&format!("not run; `{again}` runs it"));
        return Ok(exit::PAUSED);
    }
    claim_and_run(settings, prepared, &options, &shown, false, |dir| api::auto::keep(&plan, dir))
}

/// Returns the file of an accepted plan; or the code to end with where there is none.
fn plan(
    settings: &Settings,
    request: &AutoRequest,
    ids: &Ids,
    options: &LegOptions,
    shown: &Shown,
) -> Result<Result<std::path::PathBuf, i32>, Refusal> {
    let of_planning = LegOptions { gates: Vec::new(), ..options.clone() };
    let shown = Shown { junit: None, ..shown.clone() };
    let planning = || api::find::run(settings, Some(&ids.planning));
    let earlier = api::auto::earlier(settings, ids)?;
    if earlier.is_none() {
        let prepared = api::start::prepare(settings, &api::auto::planning(settings, request, ids)?)?;
        let code = claim_and_run(settings, prepared, &of_planning, &shown, false, |_| Ok(()))?;
        if code != exit::OK {
            return Ok(Err(code));
        }
    }
    if earlier == Some(Earlier::Corrected) {
        return corrected(&planning()?).map(Ok);
    }
    let refused = match api::auto::judge(&planning()?, "plan", 1)? {
        Plan::Good(plan) => return Ok(Ok(plan)),
        Plan::Refused(problems, kept) => {
            output::problems(&problems);
            output::complain(&format!("the plan was refused: {}; it is asked for once more", kept.display()));
            problems
        }
    };
    let correction = api::auto::correction(settings, request, &refused, &of_planning)?;
    let code = next_leg(settings, planning()?, &correction, &shown, false)?;
    if code != exit::OK {
        return Ok(Err(code));
    }
    corrected(&planning()?).map(Ok)
}

/// Returns the file of a corrected plan. Errors: it is refused too; exit code 2.
fn corrected(planning: &Found) -> Result<std::path::PathBuf, Refusal> {
    match api::auto::judge(planning, "correct", 2)? {
        Plan::Good(plan) => Ok(plan),
        Plan::Refused(problems, kept) => {
            let message = format!("the corrected plan was refused too: {}", kept.display());
            Err(Refusal { problems, ..Refusal::new(exit::USAGE, message, None) })
        }
    }
}
