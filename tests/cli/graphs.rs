//! The example graphs, run as their comments say.

use crate::agents::with_claude;
use crate::support::World;

fn graph(name: &str) -> String {
    format!("{}/graphs/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// A world where git knows nobody: the examples bring their own identity.
fn nobody() -> World {
    let world = World::new();
    std::fs::write(world.path().join("gitconfig"), "[user]\n useConfigOnly = true\n").unwrap();
    world
}

#[test]
fn every_example_is_run_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["parallel-edit.yaml", "quickstart.yaml", "resume.yaml", "review-loop.yaml"]);
}

#[test]
fn quickstart_merges_three_lanes_without_a_git_identity() {
    let world = nobody();
    let ended = world.omg(&["run", &graph("quickstart"), "--run-id", "r1"]).expect(0);
    for lane in ["a", "b", "c"] {
        assert_eq!(
            world.git(&format!("show omg/r1/together:quickstart/{lane}.txt")),
            format!("written in lane {lane}")
        );
    }
    for text in [
        world.run_dir().display().to_string(),
        world.lane("together").display().to_string(),
        "omg/r1/together".into(),
    ] {
        assert!(ended.text().contains(&text), "{text}: {}", ended.text());
    }
    assert_eq!(world.git("status --porcelain"), "");
    assert!(!world.repo().join("quickstart").exists());
}

#[test]
fn parallel_edit_passes_and_its_other_way_fails_as_it_says() {
    let world = nobody();
    world.omg(&["run", &graph("parallel-edit"), "--run-id", "r1"]).expect(0);
    assert_eq!(world.node("edit-notes")["attempts"], 2);
    assert_eq!(world.result("report"), "the list has 2 lines");
    assert_eq!(world.state("say-so"), "skipped");
    let other = nobody();
    other.omg(&["run", &graph("parallel-edit"), "--run-id", "r1", "--input", "break=yes"]).expect(1);
    assert_eq!(
        (other.state("edit-notes"), other.state("report"), other.state("say-so")),
        ("failed".into(), "passed".into(), "passed".into())
    );
    assert!(!other.branches().contains(&"omg/r1/notes".to_string()));
}

#[test]
fn resume_goes_on_where_it_stopped() {
    let world = nobody();
    let flag = world.path().join("flag");
    let input = format!("flag={}", flag.display());
    world.omg(&["run", &graph("resume"), "--run-id", "r1", "--input", &input]).expect(1);
    std::fs::write(flag, "").unwrap();
    world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    assert_eq!(world.node("edit")["attempts"], 1);
    assert_eq!(world.result("check"), "made in the first leg");
}

#[test]
fn review_loop_sends_the_work_back_once_and_waits_for_a_person() {
    let world = with_claude(nobody());
    world.behave("implement", "echo $OMG_ATTEMPT >> notes; git add -A; git commit -qm notes; say done");
    world.behave(
        "review",
        "if [ $OMG_ATTEMPT = 1 ]; then say 'notes:1 is no sentence\nVERDICT: REJECT'; else say 'VERDICT: APPROVE'; fi",
    );
    let path = graph("review-loop");
    world.omg(&["run", &path, "--run-id", "r1", "--input", "task=take notes"]).expect(4);
    assert_eq!(
        (world.state("review"), world.state("ship"), world.state("log")),
        ("passed".into(), "paused".into(), "waiting".into())
    );
    assert!(!world.prompt("implement", 1).contains("notes:1"));
    assert!(world.prompt("implement", 2).contains("notes:1 is no sentence"));
    assert!(world.prompt("review", 1).contains("take notes"));
    world.omg(&["resume", "r1", "--approve", "ship", "--note", "to the attic"]).expect(0);
    assert!(world.result("log").starts_with("shipped: to the attic\n"), "{}", world.result("log"));
    assert_eq!(world.git("rev-list --count main..omg/r1/work"), "2");

    let other = with_claude(nobody());
    other.behave("implement", "echo a >> notes; git add -A; git commit -qm notes; say done");
    other.behave("review", "say 'VERDICT: APPROVE'");
    other.omg(&["run", &path, "--run-id", "r1", "--input", "task=take notes"]).expect(4);
    other.omg(&["resume", "r1", "--reject", "ship", "--note", "too long"]).expect(1);
    assert_eq!((other.state("ship"), other.state("log")), ("failed".into(), "skipped".into()));
}
