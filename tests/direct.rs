//! A command line that is executed without a shell, against the same line through `sh`: exit, output, log and
//! environment must be the same. Where `sh` is not dash, no line goes without it, and both ways are one.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "a test sets up the programs and folders that lines name")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use omg::process::client::{Supervisor, end_of, start_of};
use omg::process::environment::Environment;
use omg::process::protocol::{JobExit, JobSpec, Text};
use omg::process::{JobEnd, JobStart, Spawner, direct};

/// A folder with programs, and the supervisor that runs lines in it.
struct Bench {
    folder: tempfile::TempDir,
    supervisor: Supervisor,
    count: std::cell::Cell<u32>,
}

/// What can be seen of a job.
#[derive(Debug, PartialEq)]
struct Seen {
    exit: JobExit,
    log: String,
    result: String,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("place");
        for sub in ["place/sub", "place/bin", "place/first/tool", "place/a-folder"] {
            fs::create_dir_all(folder.path().join(sub)).unwrap();
        }
        symlink(&place, folder.path().join("link")).unwrap();
        let program = |path: &str, text: &str, mode: u32| {
            fs::write(place.join(path), text).unwrap();
            fs::set_permissions(place.join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        program("bin/tool", "#!/bin/sh\nprintf '<%s>' \"$0\" \"$@\"; echo; echo err >&2\n", 0o755);
        program("bin/die", "#!/bin/sh\necho dying; kill -$1 $$\n", 0o755);
        program("bin/leave", "#!/bin/sh\nexit $1\n", 0o755);
        program("bin/parent", "#!/bin/sh\necho $PPID\n", 0o755);
        program("bin/bare", "printf '<%s>' bare \"$@\"; echo\n", 0o755);
        program("bin/closed", "#!/bin/sh\necho never\n", 0o644);
        program("bin/lost", "#!/nonexistent/interpreter\n", 0o755);
        program("bin/é", "#!/bin/sh\necho accent\n", 0o755);
        program("local", "#!/bin/sh\necho local \"$0\" \"$@\"\n", 0o755);
        program("first/leave", "not executable", 0o644);
        // Whoever runs the tests may have had signals ignored, and what is ignored stays so: a shell's `&` does that.
        let usual = format!("#!/bin/sh\nexec env --default-signal {} \"$@\"\n", env!("CARGO_BIN_EXE_omg"));
        program("omg", &usual, 0o755);
        let omg = place.join("omg");
        let base = Environment::from_iter([("PATH", "/usr/bin:/bin")]);
        let supervisor = Supervisor::start(&omg, folder.path(), &base, Default::default()).unwrap();
        Bench { folder, supervisor, count: Default::default() }
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("place")
    }

    fn environment(&self) -> Environment {
        let path = format!("{}/bin:/usr/bin:/bin", self.place().display());
        Environment::from_iter([
            ("PATH", path.as_str()),
            ("OMG_RUN_DIR", self.folder.path().to_str().unwrap()),
            ("OMG_JOB", "same"),
            ("A", "value with spaces"),
        ])
    }

    async fn run(&self, line: &str, cwd: &Path, environment: &Environment, direct: bool) -> Seen {
        self.count.set(self.count.get() + 1);
        let file = |what: &str| self.folder.path().join(format!("{}.{what}", self.count.get()));
        let job = self.supervisor.start(JobSpec {
            job: format!("{}", self.count.get()),
            argv: ["sh", "-c", line].map(Text::from).to_vec(),
            cwd: cwd.to_path_buf(),
            environment: environment.clone(),
            stdin: None,
            log: file("log"),
            stdout: None,
            result: Some(file("result")),
            direct,
            record: None,
            output_max: 1 << 20,
            grace_ms: 300,
        });
        assert!(matches!(start_of(job.started).await, JobStart::Started { .. }), "{line:?}");
        let end = tokio::time::timeout(Duration::from_secs(60), end_of(job.ended)).await;
        let Ok(JobEnd::Exited(exit)) = end else { panic!("{line:?}: {end:?}") };
        // The streams come through two pipes, between which there is no order; nor is there one among the
        // variables of an environment.
        let sorted = |what| {
            let text = String::from_utf8_lossy(&fs::read(file(what)).unwrap()).into_owned();
            let mut lines: Vec<&str> = text.split('\n').collect();
            lines.sort();
            lines.join("\n")
        };
        Seen { exit: JobExit { job: "".into(), ..exit }, log: sorted("log"), result: sorted("result") }
    }

    /// Runs a line both ways, and returns what was seen of it, the same each time.
    async fn both(&self, line: &str, cwd: &Path, environment: &Environment) -> Seen {
        let shell = self.run(line, cwd, environment, false).await;
        let direct = self.run(line, cwd, environment, true).await;
        assert_eq!(direct, shell, "{line:?} in {} with {environment:?}", cwd.display());
        direct
    }
}

fn on_a_bench<F: AsyncFnOnce(&Bench)>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { test(&Bench::new()).await });
}

fn is_dash() -> bool {
    fs::canonicalize("/bin/sh").is_ok_and(|sh| sh.ends_with("dash"))
}

#[test]
fn a_plain_line_is_the_supervisors_own_child() {
    on_a_bench(async |bench| {
        let parent = |seen: Seen| seen.result.parse::<u32>().unwrap();
        let (cwd, environment) = (bench.place(), bench.environment());
        let direct = parent(bench.run("parent", &cwd, &environment, true).await);
        let line = fs::read_to_string(bench.folder.path().join("supervisor.lock")).unwrap();
        let supervisor: u32 = line.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(direct == supervisor, is_dash());
        let through_shell = parent(bench.run("parent", &cwd, &environment, false).await);
        assert!(!is_dash() || through_shell != supervisor);
    });
}

#[test]
fn every_kind_of_line_ends_the_same() {
    let lines = [
        "tool",
        "tool a 'b  c' \"d e\" ''",
        "./local x",
        "local",
        "sub",
        "./a-folder",
        "a-folder",
        "first/tool",
        "closed",
        "./bin/closed",
        "lost",
        "bare a b",
        "./bin/bare x",
        "missing",
        "missing 'a b'",
        "./missing",
        "leave 0",
        "leave 7",
        "leave 126",
        "leave 127",
        "leave 130",
        "leave 255",
        "true",
        "false",
        "echo a  b",
        "printf %s x",
        "test a = b",
        "é",
        "tool é",
        "env",
        "env A=b",
        "pwd",
        "/bin/pwd",
        "/usr/bin/env",
        "cat",
        "tool a;tool b",
        "tool>x",
        "$A",
        "A=1 env",
        "kill -9 $$",
        "exit 3",
        "exec leave 4",
        ". ./local",
        "cd sub",
        "\n  tool a\n",
        "tool \\\n a",
        "tool # no",
        "tool a#b",
        "tool ~",
        "tool *",
        "tool {a,b}",
        "tool [ab]",
        "tool !",
        "! leave 1",
        "if",
        "tool 'open",
        "tool \"open",
        "tool `leave 0`",
        "tool 'a\nb'",
        "ls /proc/self/fd",
        "type tool",
        "umask",
        "setsid leave 5",
        "env A=1 setsid leave 6",
        "-tool",
        "+tool",
        "/bin/sh -c true",
    ];
    on_a_bench(async |bench| {
        for line in lines {
            bench.both(line, &bench.place(), &bench.environment()).await;
        }
    });
}

#[test]
fn a_program_that_a_signal_ends_is_told_of_as_by_a_shell() {
    on_a_bench(async |bench| {
        for signal in
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31, 34, 40, 64]
        {
            let line = format!("die {signal}");
            if matches!(signal, 1 | 2 | 3 | 9 | 15) {
                // What others send is told as what it is: it may have been meant for the whole group, and a shell
                // would have died of it too.
                let seen = bench.run(&line, &bench.place(), &bench.environment(), true).await;
                let told = (seen.exit.code, seen.exit.signal);
                assert!(!is_dash() || told == (None, Some(signal)), "{line}: {told:?}");
                continue;
            }
            let seen = bench.both(&line, &bench.place(), &bench.environment()).await;
            // Whether it comes as a status or as the signal itself depends on the shell.
            assert!(seen.exit.code == Some(128 + signal) || seen.exit.signal == Some(signal), "{seen:?}");
        }
    });
}

#[test]
fn a_program_sees_the_same_environment() {
    on_a_bench(async |bench| {
        let place = bench.place();
        let text = |path: &Path| path.to_str().unwrap().to_string();
        let further = [
            ("PWD", "/elsewhere".to_string()),
            ("PWD", text(&place)),
            ("PWD", text(&bench.folder.path().join("link"))),
            ("PWD", "relative".to_string()),
            ("OLDPWD", "/old".to_string()),
            ("BASH_FUNC_tool%%", "() { echo function; }".to_string()),
            ("not-a-name", "x".to_string()),
            ("1X", "x".to_string()),
            ("IFS", ",".to_string()),
            ("PPID", "1".to_string()),
            ("OPTIND", "5".to_string()),
            ("LINENO", "9".to_string()),
            ("PS4", "+ ".to_string()),
            ("ENV", "/nonexistent".to_string()),
            ("SHLVL", "3".to_string()),
            ("_", "/usr/bin/other".to_string()),
            ("EMPTY", String::new()),
            ("PATH", format!("{}/first:{}/bin:/usr/bin:/bin", text(&place), text(&place))),
            ("PATH", "bin:/usr/bin:/bin".to_string()),
            ("PATH", ":/usr/bin:/bin".to_string()),
            ("PATH", format!("/usr/bin:/bin:{}/bin:", text(&place))),
            ("PATH", "/nonexistent".to_string()),
            ("PATH", format!("/usr/bin:/bin:{}/bin:%func", text(&place))),
        ];
        for (name, value) in further {
            let mut environment = bench.environment();
            environment.set(name, value);
            for cwd in [place.clone(), bench.folder.path().join("link"), place.join("sub")] {
                for line in ["/usr/bin/env", "tool x", "leave 3", "./local"] {
                    bench.both(line, &cwd, &environment).await;
                }
            }
        }
    });
}

/// Numbers that look random and are the same each time (Knuth's constants for 64 bits).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn any_line_ends_the_same() {
    let parts = [
        "tool", "leave", "./local", "missing", "bare", " ", " ", " ", "  ", "\t", "a", "b=c", "-x",
        "--long=1", "'", "'q r'", "\"", "\"s t\"", "3", "0", "$A", "\\", ";", "&&", "||", "#", "=", "/", ".",
        ":", ",", "@", "%", "+", "*", "?", "~", "!", "(", ")", "{", "}", "[", "]", "<x", "2>&1", "\n", "`",
        "if", "fi", "true", "é", "^",
    ];
    let mut numbers = Numbers(20_261_130);
    on_a_bench(async |bench| {
        let mut without_a_shell = 0;
        for _ in 0..400 {
            let start = ["tool ", "leave ", "./local ", "bare ", ""][numbers.below(5)];
            let length = numbers.below(7);
            let line =
                (0..length).fold(start.to_string(), |line, _| line + parts[numbers.below(parts.len())]);
            // Neither `&` nor `|` is among the parts: what runs side by side has no order.
            without_a_shell += u32::from(direct::words(&line).is_some());
            bench.both(&line, &bench.place(), &bench.environment()).await;
        }
        assert!(
            without_a_shell > 50,
            "{without_a_shell} lines went without a shell: too few to tell anything"
        );
    });
}
