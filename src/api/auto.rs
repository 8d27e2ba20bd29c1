//! `omg auto`: a goal → an agent's plan → a planned graph that may be run. The planning is a run of its own.
#![expect(clippy::disallowed_methods, reason = "reads the planner's reply")]

use std::path::{Path, PathBuf};

use super::amend::AmendRequest;
use super::find::Found;
use super::leg::LegOptions;
use super::lint::PLANNED_MARK;
use super::resume::ResumeRequest;
use super::start::RunRequest;
use super::{Refusal, exit};
use crate::graph::{Problem, Trust, load, render};
use crate::ids::RunId;
use crate::journal::RunDir;
use crate::provision::durable;
use crate::run::RunError;
use crate::runtime::fence;
use crate::settings::Settings;

/// The graph that asks for a plan.
const PLAN: &str = include_str!("auto/plan.yaml");

/// The node that asks for it again, with what was refused.
const CORRECT: &str = include_str!("auto/correct.txt");

/// Most characters of refusals that are given back.
const REFUSALS_MAX: usize = 20_000;

/// What a user asks `omg auto` for.
#[derive(Clone, Debug, Default)]
pub struct AutoRequest {
    /// What is to be done.
    pub goal: String,
    /// The id of the run of the plan, where the user names it.
    pub run_id: Option<String>,
    /// What runs the planner and the plan's agents, where the user names it.
    pub runtime: Option<String>,
    /// Further variables that reach nodes.
    pub pass_env: Vec<String>,
}

/// What became of a plan.
pub enum Plan {
    /// It may be run; the file that it is kept in.
    Good(PathBuf),
    /// It may not; every reason, and the file that it is kept in.
    Refused(Vec<Problem>, PathBuf),
}

/// The ids of the two runs: of the planning, and of what is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Of the planning.
    pub planning: String,
    /// Of what is planned.
    pub run: String,
}

/// Returns the ids of the runs that `request` asks for. Errors: one that can't be an id; exit code 2.
pub fn ids(request: &AutoRequest) -> Result<Ids, Refusal> {
    let run = super::start::run_id(request.run_id.as_deref())?;
    let planning = format!("{run}-plan");
    if RunId::parse(&planning).is_none() {
        let message = format!("the run id `{run}` is too long: its planning is a run named `{planning}`");
        return Err(Refusal::new(exit::USAGE, message, Some("name it in at most 35 characters".into())));
    }
    Ok(Ids { planning, run: run.to_string() })
}

/// How far a planning of an earlier call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// There is a plan.
    Planned,
    /// It was refused, and there is another.
    Corrected,
}

/// Returns how far a planning of that id came that is over, so that it need not be paid for again; `None` where there is
/// none. One that is not over is in the way: [`super::start::prepare`] says so.
pub fn earlier(settings: &Settings, ids: &Ids) -> Result<Option<Earlier>, Refusal> {
    let dir = RunDir::new(&settings.home, &RunId::from(ids.planning.clone()));
    if !dir.root().exists() {
        return Ok(None);
    }
    let view = super::find::run(settings, Some(&ids.planning))?.view()?;
    let has_passed = |id: &str| view.nodes.iter().any(|node| node.id == id && node.state == "passed");
    Ok(match (has_passed("plan"), has_passed("correct")) {
        (_, true) => Some(Earlier::Corrected),
        (true, false) => Some(Earlier::Planned),
        (false, false) => None,
    })
}

/// Returns what to run for a plan. The graph for it is on disk.
pub fn planning(settings: &Settings, request: &AutoRequest, ids: &Ids) -> Result<RunRequest, Refusal> {
    Ok(RunRequest {
        graph: write(&settings.home.join("auto/plan.yaml"), PLAN)?,
        inputs: vec![("goal".into(), request.goal.clone())],
        run_id: Some(ids.planning.clone()),
        pass_env: request.pass_env.clone(),
        runtime: request.runtime.clone(),
        ..RunRequest::default()
    })
}

/// Returns how to go on with a planning whose plan was refused: it is asked for once more, with every reason. The
/// graph for it is on disk.
pub fn correction(
    settings: &Settings,
    request: &AutoRequest,
    refusals: &[Problem],
    options: &LegOptions,
) -> Result<ResumeRequest, Refusal> {
    let reasons: String = render(refusals, false).chars().take(REFUSALS_MAX).collect();
    // They show lines of the plan, which nobody has read.
    let reasons = fence(&reasons, "the check of the plan, with the lines that it refused");
    let amend = AmendRequest {
        graph: write(&settings.home.join("auto/correct.yaml"), &graph_of_correction())?,
        inputs: vec![("refusals".into(), reasons)],
        reopen: Vec::new(),
        runtime: request.runtime.clone(),
    };
    Ok(ResumeRequest { options: options.clone(), amend: Some(amend), dry_run: false })
}

/// Judges the plan that a planning's node replied, and keeps it in the run's folder, also where it is refused. `number`
/// counts the plans of this planning, from 1.
///
/// Errors: the reply can't be read, or the plan not be written.
pub fn judge(planning: &Found, node: &str, number: u32) -> Result<Plan, Refusal> {
    let Found { file, dir } = planning;
    let id = crate::ids::NodeId::from(node.to_string());
    let reply = dir.result(&id);
    let io = |path: &Path, source| Refusal::from(RunError::Io { path: path.into(), source });
    let text = std::fs::read(&reply).map_err(|source| io(&reply, source))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let plan = format!("{PLANNED_MARK}; run {}\n{}\n", file.run_id, document_in(&text).trim_end());
    let name = format!("plan-{number}.yaml");
    match load(&name, &plan, &|_| None, Trust::Planned) {
        Ok(_) => Ok(Plan::Good(write(&dir.root().join(&name), &plan)?)),
        Err(problems) => {
            let kept = dir.root().join(format!("plan-{number}.refused.yaml"));
            Ok(Plan::Refused(problems, write(&kept, &plan)?))
        }
    }
}

/// Returns what to run for an accepted plan.
pub fn planned(request: &AutoRequest, ids: &Ids, plan: &Path, options: &LegOptions) -> RunRequest {
    RunRequest {
        graph: plan.to_path_buf(),
        run_id: Some(ids.run.clone()),
        planned: true,
        pass_env: request.pass_env.clone(),
        runtime: request.runtime.clone(),
        gates: options.gates.clone(),
        ..RunRequest::default()
    }
}

/// Keeps a copy of an accepted plan in the folder of its own run.
pub fn keep(plan: &Path, dir: &RunDir) -> Result<(), Refusal> {
    let io = |source| Refusal::from(RunError::Io { path: plan.into(), source });
    let text = std::fs::read_to_string(plan).map_err(io)?;
    write(&dir.root().join("plan.yaml"), &text).map(drop)
}

/// Returns the graph of a planning with the node that asks once more.
fn graph_of_correction() -> String {
    let with_refusals = "inputs:\n  refusals: {description: why the plan was refused}\n";
    format!("{}{CORRECT}", PLAN.replacen("inputs:\n", with_refusals, 1))
}

fn write(path: &Path, text: &str) -> Result<PathBuf, Refusal> {
    let io = |source| Refusal::from(RunError::Io { path: path.into(), source });
    durable::write(path, text.as_bytes()).map_err(io)?;
    Ok(path.to_path_buf())
}

/// Returns the document in a reply: what stands in its last fenced block that holds a graph, else all of it.
fn document_in(reply: &str) -> &str {
    let mut found = None;
    let mut rest = reply;
    while let Some(open) = rest.find("```") {
        let after = &rest[open + 3..];
        let Some((_, body)) = after.split_once('\n') else { break };
        let Some(close) = body.find("\n```").or_else(|| body.starts_with("```").then_some(0)) else {
            // A fence that is never closed goes to the end.
            found = Some(body);
            break;
        };
        let block = &body[..close];
        if block.contains("nodes") {
            found = Some(block);
        }
        rest = &body[close..].trim_start_matches('\n')[3..];
    }
    found.unwrap_or(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_found_in_what_surrounds_it() {
        for (reply, expected) in [
            ("name: x\nnodes: []", "name: x\nnodes: []"),
            ("Here it is:\n```yaml\nname: x\nnodes: []\n```\nDone.", "name: x\nnodes: []"),
            ("```json\n{\"nodes\": []}\n```", "{\"nodes\": []}"),
            ("```sh\nls\n```\n\n```yaml\nnodes: [1]\n```\n\n```sh\nls\n```", "nodes: [1]"),
            ("```yaml\nnodes: [1]\n```\nno, this:\n```yaml\nnodes: [2]\n```", "nodes: [2]"),
            ("```yaml\nnodes: [1]", "nodes: [1]"),
            ("```\n```", "```\n```"),
        ] {
            assert_eq!(document_in(reply), expected, "{reply}");
        }
    }

    #[test]
    fn the_graphs_of_a_planning_are_right() {
        let loaded = load("plan.yaml", PLAN, &|_| None, Trust::Reviewed).unwrap();
        assert!(loaded.warnings.is_empty());
        let corrected = load("correct.yaml", &graph_of_correction(), &|_| None, Trust::Reviewed).unwrap();
        assert!(corrected.warnings.is_empty());
        assert_eq!(corrected.graph.nodes().len(), 2);
    }

    #[test]
    fn the_example_of_a_plan_is_one_that_may_be_run() {
        let plain = PLAN.replace("{{{{", "{{");
        let lines: Vec<&str> = plain.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
        let text = format!("{PLANNED_MARK}\n{}\n", document_in(&lines.join("\n")));
        load("plan.yaml", &text, &|_| None, Trust::Planned).unwrap();
    }
}
