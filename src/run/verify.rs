//! `verify`: the engine's own look at what a node did.
#![expect(clippy::disallowed_methods, reason = "reads what `verify` wrote")]

use std::fs;
use std::path::Path;

use super::perform::{Stage, read_result, shell_argv};
use crate::graph::template::Quote;
use crate::ids::{IntentId, NodeIx};
use crate::process::client::{end_of, start_of};
use crate::process::protocol::JobSpec;
use crate::process::{JobEnd, JobStart};
use crate::schedule::Event;
use crate::schedule::fault::VerifyOutcome;
use crate::schedule::state::Judged;

/// Bytes of a log that `output_matches` looks at, and of a result that `result_matches` does.
const MATCHED_MAX: u64 = 1 << 20;

impl Stage {
    pub(super) async fn verify(
        &self,
        intent: IntentId,
        node: NodeIx,
        attempt: u32,
        is_followed: bool,
        feedback: Option<(NodeIx, Judged)>,
    ) {
        let is_checked = self.graph().node(node).check.verify.is_some();
        if let Some(stale) = self.not_fit(node).await
            // Of the last of a lane only what it leaves to be merged counts.
            && (is_checked || is_followed || (stale.of_inputs && self.has_lockfile(node)))
        {
            return self.answer(stale.told(intent));
        }
        if !is_checked {
            return self.answer(Event::LaneFit { intent });
        }
        if let Some(reason) = self.not_overlaid(node) {
            return self.answer(Event::LaneStale { intent, reason, overlay_gone: true });
        }
        let outcome = match self.verify_spec(&intent, node, attempt, self.feedback(feedback).as_deref()) {
            Ok((spec, timeout)) => self.run_verify(&intent, node, spec, timeout).await,
            Err(reason) => VerifyOutcome::NotStarted(reason),
        };
        self.jobs.borrow_mut().remove(&intent);
        self.answer(Event::Verified { intent, outcome });
    }

    fn verify_spec(
        &self,
        intent: &IntentId,
        node: NodeIx,
        attempt: u32,
        findings: Option<&str>,
    ) -> Result<(JobSpec, std::time::Duration), String> {
        let graph = self.graph();
        let this = graph.node(node);
        let Some(verify) = &this.check.verify else { return Err("there is no `verify`".into()) };
        let job = format!("{intent}.verify");
        let lanes = self.lanes.borrow();
        let place = self.place(&lanes, findings);
        let text = |error: super::environment::Unrendered| error.to_string();
        let line = place.render(node, &verify.command, Quote::Shell, &read_result).map_err(text)?;
        let mut environment = place.of_node(node, attempt, &job, &read_result).map_err(text)?;
        self.add_variables_of_installation(node, &mut environment);
        let log = self.dir.verify_log(&this.id, attempt);
        // The log is matched against, so it holds this run of it alone.
        let _ = fs::remove_file(&log);
        let spec = JobSpec {
            job,
            argv: shell_argv(graph, &line),
            cwd: place.folder(node, verify.cwd.as_ref(), &read_result).map_err(text)?,
            environment,
            stdin: None,
            log,
            stdout: None,
            result: None,
            direct: true,
            record: None,
            output_max: this.output_max,
            grace_ms: this.grace.as_millis() as u64,
        };
        Ok((spec, verify.timeout))
    }

    async fn run_verify(
        &self,
        intent: &IntentId,
        node: NodeIx,
        spec: JobSpec,
        timeout: std::time::Duration,
    ) -> VerifyOutcome {
        if self.is_ended(intent) {
            return VerifyOutcome::Ended;
        }
        let (name, log) = (spec.job.clone(), spec.log.clone());
        self.jobs.borrow_mut().insert(intent.clone(), name.clone());
        let job = self.seams.spawner.start(spec);
        match start_of(job.started).await {
            JobStart::Started { .. } => {}
            JobStart::NotStarted { reason, .. } => return VerifyOutcome::NotStarted(reason),
            JobStart::SupervisorLost => return VerifyOutcome::Ended,
        }
        let mut ended = std::pin::pin!(end_of(job.ended));
        let pauses = self.seams.spawner.pauses();
        let deadline = pauses.deadline(timeout);
        let end = tokio::select! {
            biased;
            end = ended.as_mut() => end,
            () = pauses.wait(&deadline) => {
                self.seams.spawner.end(&name, false);
                ended.await;
                return VerifyOutcome::TimedOut;
            }
        };
        match end {
            JobEnd::SupervisorLost => VerifyOutcome::Ended,
            JobEnd::Exited(exit) if exit.disk_full => VerifyOutcome::DiskFull,
            JobEnd::Exited(exit) if exit.output_overflow => VerifyOutcome::Overflow,
            JobEnd::Exited(exit) if exit.ended_by_us => VerifyOutcome::Ended,
            JobEnd::Exited(exit) => {
                let pattern = self
                    .graph()
                    .node(node)
                    .check
                    .verify
                    .as_ref()
                    .and_then(|verify| verify.output_matches.as_ref());
                let output_matches = pattern.is_none_or(|pattern| {
                    regex::Regex::new(pattern).is_ok_and(|regex| regex.is_match(&read_start(&log)))
                });
                VerifyOutcome::Exited { code: exit.code, output_matches }
            }
        }
    }
}

fn read_start(path: &Path) -> String {
    use std::io::Read;
    let mut bytes = Vec::new();
    if let Ok(file) = fs::File::open(path) {
        let _ = file.take(MATCHED_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
