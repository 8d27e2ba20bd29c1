//! Runs that are killed: the runner, its supervisor or both, at a named place or at a random time; then resumed;
//! then held against what git, the files and the side effects of the nodes say.
//!
//! Without libtest: the table is the result. `--kills N` kills at N random times (the default is few), `--seed S`
//! chooses them, `--every-point` kills at every place that the run comes to, each time it comes there, instead of a
//! sample. The exit status is 1 where anything was lost, done twice, left running or left behind.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "builds repositories, starts programs, kills them and prints a table"
)]

mod oracle;
mod world;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use world::{Blow, Mode, Moment, Victim, World};

/// Kills at random times where none are asked for.
const KILLS: usize = 12;
/// Kills at named places where not all are asked for.
const POINTS: usize = 16;

/// SplitMix64; a seed is a schedule.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

struct Args {
    kills: usize,
    seed: u64,
    every_point: bool,
}

fn args() -> Args {
    let mut args = Args { kills: KILLS, seed: 1, every_point: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number is due");
        match word.as_str() {
            "--kills" => args.kills = number() as usize,
            "--seed" => args.seed = number(),
            "--every-point" => args.every_point = true,
            // What cargo and people pass to every test.
            _ => {}
        }
    }
    args
}

fn main() -> ExitCode {
    if cfg!(not(debug_assertions)) {
        println!("test result: ok. 0 passed; a release build has no failpoints");
        return ExitCode::SUCCESS;
    }
    let args = args();
    let baseline = world::baseline();
    println!(
        "a run that nobody kills takes {} ms and comes to {} places, {} times in all",
        baseline.took.as_millis(),
        baseline.points.len(),
        baseline.points.values().sum::<u32>()
    );
    let blows = blows(&args, &baseline);
    println!("{} kills, seed {}", blows.len(), args.seed);
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(blow) = blows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let world = World::new();
                    let outcome = world.strike(blow);
                    let complaints = match &outcome {
                        Ok(_) => oracle::judge(&world, blow.victim == Victim::All),
                        Err(complaint) => vec![complaint.clone()],
                    };
                    for complaint in &complaints {
                        println!("{blow:?}: {complaint}");
                    }
                    if !complaints.is_empty() && std::env::var_os("KEEP_WORLDS").is_some() {
                        println!("  kept: {}", world.keep().display());
                    }
                    let struck = outcome.unwrap_or(false);
                    found.lock().expect("no worker panics").push((
                        blow.clone(),
                        struck,
                        complaints.is_empty(),
                    ));
                }
            });
        }
    });
    print(&found.into_inner().expect("no worker panics"))
}

/// Returns what is done to whom, and when.
fn blows(args: &Args, baseline: &world::Baseline) -> Vec<Blow> {
    let mut dice = Dice(args.seed);
    let mut blows = Vec::new();
    for (name, count) in &baseline.points {
        let times: Vec<u32> = match args.every_point {
            true => (1..=*count).collect(),
            false => vec![1 + dice.below(u64::from(*count)) as u32],
        };
        for time in times {
            let at = |both| Moment::Point { name: name.clone(), time, both };
            blows.push(Blow {
                mode: Mode::Foreground,
                victim: Victim::Runner,
                at: at(false),
                seed: dice.roll(),
            });
            if args.every_point || dice.below(2) == 0 {
                blows.push(Blow {
                    mode: Mode::Foreground,
                    victim: Victim::Both,
                    at: at(true),
                    seed: dice.roll(),
                });
            }
        }
        blows.push(Blow {
            mode: Mode::Detached,
            victim: dice.pick(&[Victim::Runner, Victim::Both]),
            at: Moment::Point {
                name: name.clone(),
                time: 1 + dice.below(u64::from(*count)) as u32,
                both: dice.below(3) == 0,
            },
            seed: dice.roll(),
        });
    }
    if !args.every_point {
        while blows.len() > POINTS {
            blows.swap_remove(dice.below(blows.len() as u64) as usize);
        }
    }
    let took = baseline.took.as_millis() as u64;
    for _ in 0..args.kills {
        blows.push(Blow {
            mode: dice.pick(&[Mode::Foreground, Mode::Foreground, Mode::Detached]),
            victim: dice.pick(&[Victim::Runner, Victim::Supervisor, Victim::Both, Victim::All]),
            at: Moment::After(std::time::Duration::from_millis(dice.below(took))),
            seed: dice.roll(),
        });
    }
    blows
}

fn print(found: &[(Blow, bool, bool)]) -> ExitCode {
    let mut rows: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for (blow, struck, clean) in found {
        let when = match blow.at {
            Moment::Point { .. } => "at a place",
            Moment::After(_) => "at a time",
        };
        let row = rows.entry(format!("{:?} {:?} {when}", blow.mode, blow.victim)).or_default();
        row[0] += 1;
        row[1] += usize::from(*struck);
        row[2] += usize::from(!clean);
    }
    println!("\n{:<36} {:>6} {:>10} {:>10}", "who was killed", "kills", "in time", "violations");
    for (name, [all, struck, wrong]) in &rows {
        println!("{name:<36} {all:>6} {struck:>10} {wrong:>10}");
    }
    let wrong = found.iter().filter(|(_, _, clean)| !clean).count();
    let struck = found.iter().filter(|(_, struck, _)| *struck).count();
    let word = if wrong == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {} passed; {wrong} failed; {struck} of {} kills came before the run was over",
        found.len() - wrong,
        found.len()
    );
    // A harness that strikes nothing shows nothing.
    if wrong == 0 && struck * 3 > found.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
