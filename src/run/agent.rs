//! Agents: what an attempt is told, how its runtime is called, and what it told in the end.
#![expect(clippy::disallowed_methods, reason = "writes prompts and reads what agents told")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

use jiff::ZonedDateTime;
use jiff::tz::TimeZone;

use super::RunDir;
use super::perform::{Stage, last_lines, read_result};
use crate::graph::Graph;
use crate::graph::model::{Agent, FeedbackArc, Piece};
use crate::graph::template::Quote;
use crate::ids::{IntentId, NodeIx, sha256};
use crate::process::capture::result_in;
use crate::process::protocol::{JobExit, JobSpec, Text};
use crate::provision::{durable, tools};
use crate::runtime::{Ask, Beside, Call, Ended, Format, Reply, ReplySeen, Runtime, Session, clip_end, fence};
use crate::schedule::action::{Brief, Called};
use crate::schedule::event::Gate;
use crate::schedule::fact::SessionStart;
use crate::schedule::fault::{Exit, FaultClass};
use crate::schedule::state::Judged;

/// Characters of an earlier reply that a further attempt is quoted.
const REMEMBERED_MAX: usize = 8_000;

/// Characters of what a judging node found that its arc is quoted.
const FEEDBACK_MAX: usize = 16_000;

/// Bytes of a log's end in which signs of a provider are looked for.
const LOG_TAIL: u64 = 16 << 10;

/// Most replies that are read at a time: each may take a few MiB while it is.
pub const READERS_MAX: usize = 4;

/// A variable by which Claude Code knows that it was started by itself, which it refuses: an agent of a run is on its
/// own, wherever omg was started.
const NESTED: &str = "CLAUDECODE";

impl Stage {
    /// Returns the job of an attempt of an agent; its prompt is on disk. Errors: how the attempt ended before it
    /// began.
    pub(super) fn agent_spec(
        &self,
        intent: &IntentId,
        node: NodeIx,
        attempt: u32,
        agent: &Agent,
        brief: &Brief,
    ) -> Result<JobSpec, Box<Exit>> {
        let not_started = |reason: String| Box::new(Exit { not_started: Some(reason), ..Exit::default() });
        let this = self.graph().node(node);
        let name = brief.runtime.as_deref().unwrap_or(&agent.runtimes[0]);
        let runtime = Runtime::named(name, &self.graph().parts().runtimes)
            .ok_or_else(|| not_started(format!("no runtime is named `{name}`")))?;
        let findings = self.feedback(brief.feedback);
        let lanes = self.lanes.borrow();
        let place = self.place(&lanes, findings.as_deref());
        let text = |error: super::environment::Unrendered| not_started(error.to_string());
        let mut prompt = place.render(node, &agent.prompt, Quote::Prompt, &read_result).map_err(text)?;
        if let Some((judge, _)) = brief.feedback
            && let Some(findings) = &findings
            && is_told_here(self.graph(), judge, node)
        {
            let id = &self.graph().node(judge).id;
            let source = format!("what node {id} found wrong with the round before");
            prompt.push_str(&format!("\n\n{}", fence(findings, &source)));
        }
        if let Some(judged) = brief.remembered {
            prompt.push_str(&self.remembered(node, judged));
        }
        let folder = place.folder(node, None, &read_result).map_err(text)?;
        let mut environment = place.of_node(node, attempt, intent.as_str(), &read_result).map_err(text)?;
        environment.remove(NESTED);
        let prompt_file = self.dir.prompt(&this.id, attempt);
        let disk_full = |error: io::Error| {
            let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
            let reason = Some(format!("its prompt could not be written: {error}"));
            Box::new(Exit { not_started: reason, disk_full: full, ..Exit::default() })
        };
        write_plain(&prompt_file, prompt.as_bytes()).map_err(disk_full)?;
        // One of an attempt that was not delivered would be taken for this one's.
        for stale in [self.dir.reply(&this.id, attempt), self.dir.stdout(&this.id, attempt)] {
            let _ = fs::remove_file(stale);
        }
        let new = session_id(self, intent);
        let Call { argv, stdin, environment: own, .. } = runtime.call(&Ask {
            prompt: &prompt,
            prompt_file: &prompt_file,
            result_file: &self.dir.reply(&this.id, attempt),
            model: agent.model.as_deref(),
            agent: agent.agent.as_deref(),
            permission: agent.permission,
            allowed_tools: &agent.allowed_tools,
            budget: brief.budget,
            session: match &brief.session {
                Some(SessionStart::Resumed(id)) => Session::Resume(id),
                Some(SessionStart::Cold(_)) | None => Session::New(&new),
            },
            is_planned: self.file.planned,
        });
        for (name, value) in own {
            environment.set(name, value);
        }
        self.add_variables_of_installation(node, &mut environment);
        let program = argv.first().map(String::as_str).unwrap_or_default();
        if folder.is_dir() && tools::find(program, &environment, &folder).is_none() {
            let reason = Some(format!("`{program}`, which runtime {name} needs, is not in its PATH"));
            return Err(Box::new(Exit { not_started: reason, missing: true, ..Exit::default() }));
        }
        Ok(JobSpec {
            job: intent.to_string(),
            argv: argv.iter().map(|word| Text::from(word.as_str())).collect(),
            cwd: folder,
            environment,
            stdin,
            log: self.dir.attempt_log(&this.id, attempt),
            stdout: Some(self.dir.stdout(&this.id, attempt)),
            result: None,
            direct: false,
            record: Some(self.dir.exits()),
            output_max: this.output_max,
            grace_ms: this.grace.as_millis() as u64,
        })
    }

    /// Returns what the node that judges an arc found, by the attempt with which it sent the arc back.
    pub(super) fn feedback(&self, feedback: Option<(NodeIx, Judged)>) -> Option<String> {
        let (judge, Judged { attempt, class }) = feedback?;
        let id = &self.graph().node(judge).id;
        let reply = || read_result(&self.dir.result_of(id, attempt)).filter(|text| !text.trim().is_empty());
        let log = |path: &Path| Some(end_of(path)).filter(|text| !text.trim().is_empty());
        let found = match class {
            FaultClass::VerifyFailed => log(&self.dir.verify_log(id, attempt)).or_else(reply),
            // What a command found wrong, it often says on standard error.
            _ if self.graph().agent(judge).is_none() => {
                log(&self.dir.attempt_log(id, attempt)).or_else(reply)
            }
            _ => reply().or_else(|| log(&self.dir.attempt_log(id, attempt))),
        };
        Some(clip_end(
            &found.unwrap_or_else(|| format!("it said nothing; {}", in_words(class))),
            FEEDBACK_MAX,
        ))
    }

    /// Returns what a further attempt is told of the one before: what it replied, as data, and how it ended; never
    /// by which check.
    fn remembered(&self, node: NodeIx, Judged { attempt, class }: Judged) -> String {
        let id = &self.graph().node(node).id;
        let said = read_result(&self.dir.result_of(id, attempt)).filter(|text| !text.trim().is_empty());
        let how = in_words(class);
        match said {
            Some(said) => format!(
                "\n\nAn attempt at this before did not pass: {how}. What it replied:\n{}",
                fence(&clip_end(&said, REMEMBERED_MAX), &format!("attempt {attempt} of this task"))
            ),
            None => format!("\n\nAn attempt at this before did not pass: {how}. It left no reply.\n"),
        }
    }

    /// Returns how an agent's process ended, with what it told; its reply is its node's result, durably.
    pub(super) async fn agent_exit(
        &self,
        node: NodeIx,
        attempt: u32,
        called: &Called,
        exit: &JobExit,
    ) -> io::Result<Exit> {
        let Some(agent) = self.graph().agent(node) else { return Ok(Exit::default()) };
        let name = called.runtime.as_deref().unwrap_or(&agent.runtimes[0]);
        let runtime = Runtime::named(name, &self.graph().parts().runtimes)
            .ok_or_else(|| io::Error::other(format!("no runtime is named `{name}`")))?;
        let names_sessions = runtime.takes_session_ids();
        let (dir, id) = (self.dir.clone(), self.graph().node(node).id.clone());
        let ended = Ended { code: exit.code, signal: exit.signal };
        let now = self.seams.clock.now().to_zoned_datetime(TimeZone::system());
        let turn = Rc::clone(&self.readers);
        let _turn = turn.acquire().await;
        let reply = tokio::task::spawn_blocking(move || {
            let reply = read_reply(&dir, &id, attempt, &runtime, ended, &now)?;
            keep_result(&dir, &id, attempt, reply.text.as_deref().unwrap_or_default())?;
            Ok::<_, io::Error>(reply.told)
        });
        let mut told = reply.await.map_err(io::Error::other)??;
        if told.session.is_none() && !called.is_resumed && names_sessions {
            // It was told which to begin, and need not repeat it.
            told.session = Some(session_id(self, &IntentId::from(exit.job.as_str())));
        }
        let mut exit = super::perform::exit_of(exit, None, None);
        let path = self.dir.result(&self.graph().node(node).id);
        exit.result_matches = super::perform::result_matches(self.graph(), node, &path);
        exit.told = Some(told);
        Ok(exit)
    }
}

impl Stage {
    /// Makes what a person said at gates their results.
    pub(super) fn keep_notes(&self, gates: &[Gate]) {
        for gate in gates {
            let path = self.dir.result(&self.graph().node(gate.node).id);
            if let Err(error) = durable::write(&path, gate.note.as_deref().unwrap_or_default().as_bytes()) {
                self.observer.warn(&format!("{}: {error}", path.display()));
            }
        }
    }
}

/// Reads what an attempt told.
fn read_reply(
    dir: &RunDir,
    id: &crate::ids::NodeId,
    attempt: u32,
    runtime: &Runtime,
    ended: Ended,
    now: &ZonedDateTime,
) -> io::Result<Reply> {
    let stdout_end = last_lines(&dir.stdout(id, attempt), LOG_TAIL);
    let stderr_end = without(&last_lines(&dir.attempt_log(id, attempt), LOG_TAIL), &stdout_end);
    let beside = Beside { stdout: &stdout_end, stderr: &stderr_end };
    let stdout: Box<dyn Read> = match File::open(dir.stdout(id, attempt)) {
        Ok(file) => Box::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Box::new(io::empty()),
        Err(error) => return Err(error),
    };
    let mut reply = crate::runtime::read(&runtime.format(), stdout, beside, ended, now)?;
    if runtime.format() == Format::File
        && reply.told.reply == ReplySeen::Good
        && !dir.reply(id, attempt).is_file()
    {
        reply.told.reply = ReplySeen::Unreadable;
        reply.told.detail = Some("it left no file with a reply".into());
    }
    // What a runtime said in place of a reply is its error, not the JSON around it.
    let said_error = reply.told.reply == ReplySeen::SaidError;
    if reply.text.is_none() && said_error {
        reply.text = reply.told.detail.clone().map(String::into_bytes);
    }
    if reply.text.is_none() && !said_error {
        let file = match runtime.format() {
            Format::File => dir.reply(id, attempt),
            // What could not be read is kept as it came.
            Format::Claude | Format::Codex | Format::Plain | Format::Pointer(_) => dir.stdout(id, attempt),
        };
        reply.text = Some(result_in(&file)?);
    }
    Ok(reply)
}

/// Returns the lines of a log of both streams that are not of standard output.
fn without(log: &str, stdout: &str) -> String {
    let of_stdout: std::collections::BTreeSet<&str> = stdout.lines().map(str::trim).collect();
    let rest = log.lines().filter(|line| !of_stdout.contains(line.trim()));
    rest.flat_map(|line| [line, "\n"]).collect()
}

/// Writes a file that only has to be there as long as its run does.
fn write_plain(path: &Path, bytes: &[u8]) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, bytes)
}

/// Makes `text` the result of an attempt, and of its node. Durable on return.
fn keep_result(dir: &RunDir, id: &crate::ids::NodeId, attempt: u32, text: &[u8]) -> io::Result<()> {
    durable::write(&dir.result_of(id, attempt), text)?;
    durable::write(&dir.result(id), text)
}

/// Keeps the result of an attempt of a command under the attempt's own name too, where its node may run again in
/// another round.
pub(super) fn keep_round(dir: &RunDir, graph: &Graph, node: NodeIx, attempt: u32) {
    if graph.arc_of(node).is_none() || graph.agent(node).is_some() {
        return;
    }
    let id = &graph.node(node).id;
    let kept = dir.result_of(id, attempt);
    let _ = fs::remove_file(&kept);
    // Where it can't be kept, the round is still told by its log.
    let _ = fs::hard_link(dir.result(id), kept);
}

/// Returns whether the findings of the node at `judge` are put to the prompt of `node` unasked: it is where the round
/// begins, and no prompt of the round asks for them.
fn is_told_here(graph: &Graph, judge: NodeIx, node: NodeIx) -> bool {
    let asks = |ix: &NodeIx| {
        let of = graph.node(*ix);
        let texts = graph.agent(*ix).map(|agent| &agent.prompt).into_iter().chain(of.env.values());
        texts.flat_map(|text| &text.0).any(|piece| *piece == Piece::Feedback(judge))
    };
    let is_first = graph.arc_at(judge).is_some_and(|FeedbackArc { rerun, .. }| rerun == node);
    is_first && !graph.body(judge).iter().any(asks)
}

fn in_words(class: FaultClass) -> &'static str {
    match class {
        FaultClass::NonzeroExit => "its exit status was not 0",
        FaultClass::Timeout => "it took longer than it may",
        FaultClass::ResultMismatch => "its reply was not what was asked for",
        FaultClass::VerifyFailed => "a check of what it did failed",
        FaultClass::LockfileOutOfSync => "it left a manifest and its lockfile at odds",
        FaultClass::OutputError => "its reply could not be read, or was too long",
        FaultClass::BudgetExceeded => "it cost more than it may",
        FaultClass::AgentError => "it ended with an error",
        FaultClass::Crashed => "it crashed",
        FaultClass::CommandNotFound
        | FaultClass::VerifyNotRun
        | FaultClass::VerifyTimeout
        | FaultClass::Killed
        | FaultClass::SpawnFailed
        | FaultClass::WorktreeAcquireFailed
        | FaultClass::LaneRefused
        | FaultClass::LaneBranchGone
        | FaultClass::OverlayFailed
        | FaultClass::WorkspaceProvisionFailed
        | FaultClass::DiskFull
        | FaultClass::Interrupted
        | FaultClass::Unknown
        | FaultClass::RunBudgetSpent
        | FaultClass::GateRejected
        | FaultClass::RuntimeMissing
        | FaultClass::SessionGone
        | FaultClass::ProviderLimit
        | FaultClass::ProviderRateLimited
        | FaultClass::ProviderOverloaded
        | FaultClass::ProviderAuth
        | FaultClass::ProviderIndeterminate
        | FaultClass::Bug => "something else went wrong",
    }
}

fn end_of(path: &Path) -> String {
    last_lines(path, 4 * FEEDBACK_MAX as u64)
}

/// Returns an id for a session that an attempt begins: of the form of a random UUID (RFC 9562), and the same whenever
/// it is asked for of the same act.
fn session_id(stage: &Stage, intent: &IntentId) -> String {
    let hash = sha256(format!("{} {} {intent}", stage.file.run_id, stage.file.created_at).as_bytes());
    let (a, b, c, d, e) = (&hash[..8], &hash[8..12], &hash[13..16], &hash[17..20], &hash[20..32]);
    format!("{a}-{b}-4{c}-8{d}-{e}")
}
