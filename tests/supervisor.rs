//! The supervisor with real processes: every kind of child that tries to outlive its job.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test reads what processes leave behind, and starts one that is none of ours"
)]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use omg::process::client::{Supervisor, end_of, start_of};
use omg::process::environment::Environment;
use omg::process::protocol::{JobExit, JobSpec, Text};
use omg::process::{JobEnd, JobStart, Spawner, table};

fn omg() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_omg"))
}

fn environment(run_dir: &Path, job: &str) -> Environment {
    Environment::from_iter([
        ("PATH", "/usr/local/bin:/usr/bin:/bin".to_string()),
        ("OMG_RUN_DIR", run_dir.display().to_string()),
        ("OMG_JOB", job.to_string()),
    ])
}

fn spec(run_dir: &Path, job: &str, line: &str) -> JobSpec {
    JobSpec {
        job: job.into(),
        argv: ["sh", "-c", line].map(Text::from).to_vec(),
        cwd: run_dir.to_path_buf(),
        environment: environment(run_dir, job),
        stdin: None,
        log: run_dir.join(format!("{job}.log")),
        stdout: None,
        result: Some(run_dir.join(format!("{job}.result"))),
        direct: false,
        record: Some(run_dir.join(format!("{job}.exit"))),
        output_max: 1 << 20,
        grace_ms: 300,
    }
}

async fn run(supervisor: &Supervisor, spec: JobSpec) -> JobExit {
    let job = supervisor.start(spec);
    assert!(matches!(start_of(job.started).await, JobStart::Started { .. }));
    match tokio::time::timeout(Duration::from_secs(60), end_of(job.ended)).await {
        Ok(JobEnd::Exited(exit)) => exit,
        other => panic!("{other:?}"),
    }
}

/// Nothing that carries this run's mark lives, its supervisor aside.
fn assert_all_gone(run_dir: &Path) {
    let rest: Vec<_> = table::marked(run_dir).into_iter().filter(|process| process.name != "omg").collect();
    assert_eq!(rest, []);
}

fn with_supervisor<F: AsyncFnOnce(&Supervisor, &Path)>(test: F) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let supervisor = Supervisor::start(
            &omg(),
            folder.path(),
            &environment(folder.path(), "supervisor"),
            Default::default(),
        )
        .unwrap();
        test(&supervisor, folder.path()).await;
    });
}

#[test]
fn a_job_leaves_its_status_log_result_and_record() {
    with_supervisor(async |supervisor, run_dir| {
        let exit = run(supervisor, spec(run_dir, "a", "echo out; echo err >&2; exit 3")).await;
        assert_eq!((exit.code, exit.signal, exit.ended_by_us), (Some(3), None, false));
        assert_eq!(std::fs::read_to_string(run_dir.join("a.result")).unwrap(), "out");
        let log = std::fs::read_to_string(run_dir.join("a.log")).unwrap();
        assert!(log.contains("out\n") && log.contains("err\n"), "{log}");
        let record: JobExit =
            serde_json::from_slice(&std::fs::read(run_dir.join("a.exit")).unwrap()).unwrap();
        assert_eq!(record, exit);
    });
}

/// A terminal's signals and its hang-up reach sessions: ours must not be the runner's.
#[test]
fn it_leads_a_session_of_its_own_and_its_jobs_are_in_it() {
    with_supervisor(async |supervisor, run_dir| {
        let job = supervisor.start(spec(run_dir, "a", "echo ready; sleep 7070"));
        let JobStart::Started { pid, .. } = start_of(job.started).await else { panic!() };
        let line = std::fs::read_to_string(run_dir.join("supervisor.lock")).unwrap();
        let own: u32 = line.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(table::process(own).unwrap().session, own);
        let job_process = table::process(pid).unwrap();
        assert_eq!((job_process.session, job_process.group), (own, pid));
        supervisor.end("a", true);
        assert!(matches!(end_of(job.ended).await, JobEnd::Exited(_)));
    });
}

#[test]
fn what_a_job_leaves_running_is_ended_and_named() {
    let leaves = [
        ("plain", "sleep 7001 & echo done"),
        ("session", "setsid sleep 7002 & echo done"),
        ("double-fork", "(setsid sh -c 'sleep 7003 & exit' &) ; echo done"),
        ("no-marks", "(env -i /usr/bin/setsid /bin/sh -c '/bin/sleep 7004 & exit' &) ; sleep 0.1; echo done"),
        ("ignores-term", "(trap '' TERM; sleep 7005; sleep 7006) & echo done"),
        ("holds-the-pipe", "sleep 7007 2>&1 & echo done"),
    ];
    with_supervisor(async |supervisor, run_dir| {
        for (name, line) in leaves {
            let exit = run(supervisor, spec(run_dir, name, line)).await;
            assert_eq!(exit.code, Some(0), "{name}");
            assert!(!exit.ended_by_us, "{name}");
            assert!(!exit.leftovers.is_empty(), "{name}");
            assert_all_gone(run_dir);
            assert_eq!(std::fs::read_to_string(run_dir.join(format!("{name}.result"))).unwrap(), "done");
        }
        let sleeps = table::scan().into_values().filter(|p| p.name == "sleep").map(|p| p.pid);
        let ours = sleeps.filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("sleep\u{0}700")
        });
        assert_eq!(ours.collect::<Vec<_>>(), Vec::<u32>::new());
    });
}

#[test]
fn ending_a_job_ends_its_tree_with_term_first() {
    with_supervisor(async |supervisor, run_dir| {
        let polite = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
        let stubborn = "trap '' TERM; (setsid sleep 7010 &); echo ready; while :; do sleep 0.05; done";
        for (name, line, code) in [("polite", polite, Some(0)), ("stubborn", stubborn, None)] {
            let job = supervisor.start(spec(run_dir, name, line));
            assert!(matches!(start_of(job.started).await, JobStart::Started { .. }));
            let log = run_dir.join(format!("{name}.log"));
            while !std::fs::read_to_string(&log).unwrap_or_default().contains("ready") {
                tokio::task::yield_now().await;
            }
            supervisor.end(name, false);
            let JobEnd::Exited(exit) = end_of(job.ended).await else { panic!("lost") };
            assert!(exit.ended_by_us);
            assert_eq!(exit.code, code, "{name}");
            assert_all_gone(run_dir);
        }
    });
}

#[test]
fn two_jobs_do_not_end_each_others_daemons() {
    with_supervisor(async |supervisor, run_dir| {
        let first = supervisor.start(spec(run_dir, "first", "(setsid sleep 7020 &); echo ready; sleep 7021"));
        assert!(matches!(start_of(first.started).await, JobStart::Started { .. }));
        while !std::fs::read_to_string(run_dir.join("first.log")).unwrap_or_default().contains("ready") {
            tokio::task::yield_now().await;
        }
        let exit = run(supervisor, spec(run_dir, "second", "(setsid sleep 7022 &); true")).await;
        assert_eq!(exit.leftovers.len(), 1, "{:?}", exit.leftovers);
        let alive = table::marked(run_dir).into_iter().filter(|process| process.name == "sleep").count();
        assert_eq!(alive, 2);
        supervisor.end("first", true);
        assert!(matches!(end_of(first.ended).await, JobEnd::Exited(_)));
        assert_all_gone(run_dir);
    });
}

#[test]
fn what_sheds_every_mark_still_ends_with_its_own_job() {
    with_supervisor(async |supervisor, run_dir| {
        let long = supervisor.start(spec(run_dir, "long", "echo ready; sleep 7060"));
        assert!(matches!(start_of(long.started).await, JobStart::Started { .. }));
        let line = "(env -i /usr/bin/setsid /bin/sh -c '/bin/sleep 7061 & exit' &) ; sleep 0.1; true";
        for round in ["b1", "b2"] {
            let exit = run(supervisor, spec(run_dir, round, line)).await;
            assert_eq!(exit.leftovers.len(), 1, "{:?}", exit.leftovers);
            let alive = table::scan().into_values().filter(|process| {
                let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
                line.starts_with(b"/bin/sleep\x007061")
            });
            assert_eq!(alive.count(), 0);
        }
        supervisor.end("long", true);
        let JobEnd::Exited(exit) = end_of(long.ended).await else { panic!("lost") };
        assert_eq!(exit.leftovers, Vec::<String>::new());
    });
}

#[test]
fn output_past_its_limit_ends_the_job() {
    with_supervisor(async |supervisor, run_dir| {
        let exit = run(supervisor, spec(run_dir, "flood", "yes")).await;
        assert!(exit.output_overflow && exit.ended_by_us);
        assert_eq!(std::fs::metadata(run_dir.join("flood.log")).unwrap().len(), 1 << 20);
    });
}

#[test]
fn what_cannot_start_is_said() {
    with_supervisor(async |supervisor, run_dir| {
        let nowhere = JobSpec { cwd: run_dir.join("nowhere"), ..spec(run_dir, "a", "true") };
        let job = supervisor.start(nowhere);
        let JobStart::NotStarted { reason, .. } = start_of(job.started).await else { panic!() };
        assert!(reason.contains("nowhere"), "{reason}");
        let missing = JobSpec { argv: vec![Text::from("/nonexistent/x")], ..spec(run_dir, "b", "") };
        assert_eq!(run(supervisor, missing).await.code, Some(127));
    });
}

#[test]
fn more_jobs_than_there_are_files_for_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let run_dir = folder.path();
    let few = run_dir.join("few");
    std::fs::write(&few, format!("#!/bin/sh\nulimit -n 40\nexec {} \"$@\"\n", omg().display())).unwrap();
    std::fs::set_permissions(&few, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let supervisor =
            Supervisor::start(&few, run_dir, &environment(run_dir, "supervisor"), Default::default())
                .unwrap();
        let line = "echo begun; while ! test -e go; do sleep 0.01; done";
        let one =
            |n| JobSpec { record: Some(run_dir.join("exits")), ..spec(run_dir, &format!("j{n}"), line) };
        let jobs: Vec<_> = (0..20).map(|n| supervisor.start(one(n))).collect();
        let begun = || {
            let log = |n| std::fs::read_to_string(run_dir.join(format!("j{n}.log"))).unwrap_or_default();
            (0..20).filter(|n| log(*n).contains("begun")).count()
        };
        while begun() < 2 {
            tokio::task::yield_now().await;
        }
        std::fs::write(run_dir.join("go"), "").unwrap();
        for job in jobs {
            let started = start_of(job.started).await;
            assert!(matches!(started, JobStart::Started { .. }), "{started:?}");
            let JobEnd::Exited(exit) = end_of(job.ended).await else { panic!("lost") };
            assert_eq!(exit.code, Some(0));
        }
    });
}

#[test]
fn when_the_runner_dies_the_supervisor_ends_its_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let run_dir = folder.path();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let log = run_dir.join("a.log");
    runtime.block_on(async {
        let supervisor =
            Supervisor::start(&omg(), run_dir, &environment(run_dir, "supervisor"), Default::default())
                .unwrap();
        let job = supervisor.start(spec(run_dir, "a", "trap '' TERM; echo ready; sleep 7030; sleep 7031"));
        assert!(matches!(start_of(job.started).await, JobStart::Started { .. }));
        while !std::fs::read_to_string(&log).unwrap_or_default().contains("ready") {
            tokio::task::yield_now().await;
        }
    });
    // The runtime is gone, and with it our end of the lifeline.
    drop(runtime);
    assert!(
        omg::process::survivors::outlive_supervisor(
            run_dir,
            Duration::from_secs(30),
            omg::process::survivors::Late::Kill
        )
        .unwrap()
    );
    assert_eq!(table::marked(run_dir), []);
    let record: JobExit = serde_json::from_slice(&std::fs::read(run_dir.join("a.exit")).unwrap()).unwrap();
    assert!(record.ended_by_us);
}

#[test]
fn when_the_supervisor_is_killed_its_leaders_die_and_the_rest_is_found() {
    with_supervisor(async |supervisor, run_dir| {
        let job = supervisor.start(spec(run_dir, "a", "(setsid sleep 7040 &); echo ready; sleep 7041"));
        let JobStart::Started { pid, start_time } = start_of(job.started).await else { panic!() };
        while !std::fs::read_to_string(run_dir.join("a.log")).unwrap_or_default().contains("ready") {
            tokio::task::yield_now().await;
        }
        let line = std::fs::read_to_string(run_dir.join("supervisor.lock")).unwrap();
        let supervisor_pid: i32 = line.split(' ').next().unwrap().parse().unwrap();
        let pid_of = rustix::process::Pid::from_raw(supervisor_pid).unwrap();
        rustix::process::kill_process(pid_of, rustix::process::Signal::KILL).unwrap();
        assert_eq!(end_of(job.ended).await, JobEnd::SupervisorLost);
        while table::start_time(pid) == Some(start_time) {
            tokio::task::yield_now().await;
        }
        let ended = omg::process::survivors::end_survivors(run_dir);
        // Which of them have become `sleep` by then, or been forked at all, is open.
        assert!(!ended.is_empty());
        assert_eq!(table::marked(run_dir), []);
    });
}

/// A process of another run, or of nobody's, is never signalled.
#[test]
fn a_bystander_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut bystander = std::process::Command::new("sleep")
        .arg("7050")
        .env("OMG_RUN_DIR", folder.path().join("other"))
        .process_group(0)
        .spawn()
        .unwrap();
    assert_eq!(omg::process::survivors::end_survivors(folder.path()), Vec::<String>::new());
    assert_eq!(bystander.try_wait().unwrap(), None);
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}
