//! Every kind of repository, held against what lanes promise: a table of kind × create, commit, dirty,
//! empty, resume, with each git that this machine has.
//!
//! Without libtest: the table is the result, printed also where all is well. Words on the command line
//! choose rows whose name holds one of them. The exit status is 1 where a cell is not as it must be.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "builds repositories, starts programs and prints a table"
)]

mod cells;
mod kinds;
mod world;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cells::{CELLS, Cell, Part};
use kinds::{KINDS, Kind};
use world::Gits;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let gits = Gits::found();
    let rows: Vec<(usize, &Kind)> = (0..gits.all.len())
        .flat_map(|git| KINDS.iter().map(move |kind| (git, kind)))
        .filter(|(git, kind)| {
            let name = format!("{} {}", gits.all[*git].version, kind.name);
            words.is_empty() || words.iter().any(|word| name.contains(word))
        })
        .collect();
    let jobs: Vec<(usize, Part)> =
        (0..rows.len()).flat_map(|row| [(row, Part::Leg), (row, Part::Resume)]).collect();
    let (next, cells) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let workers = std::thread::available_parallelism().map_or(2, usize::from) * 3;
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((row, part)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (git, kind) = rows[*row];
                    let found = cells::fill(&gits, git, kind, *part);
                    let mut cells = cells.lock().unwrap_or_else(PoisonError::into_inner);
                    cells.extend(found.into_iter().map(|(column, cell)| ((*row, column), cell)));
                }
            });
        }
    });
    let cells = cells.into_inner().unwrap_or_else(PoisonError::into_inner);
    print(&gits, &rows, &cells)
}

fn print(gits: &Gits, rows: &[(usize, &Kind)], cells: &BTreeMap<(usize, usize), Cell>) -> ExitCode {
    let wide = rows.iter().map(|(_, kind)| kind.name.chars().count()).max().unwrap_or(0);
    let (mut red, mut asides) = (Vec::new(), Vec::new());
    for (git, found) in gits.all.iter().enumerate() {
        if !rows.iter().any(|(of, _)| *of == git) {
            continue;
        }
        println!("\ngit {} ({})", found.version, found.program.display());
        println!("{:wide$}  {}", "", CELLS.map(|column| format!("{column:8}")).join(" "));
        for (row, (_, kind)) in rows.iter().enumerate().filter(|(_, (of, _))| *of == git) {
            let mut line = format!("{:wide$} ", kind.name);
            for (column, name) in CELLS.iter().enumerate() {
                let lost = Cell::Red("it was never filled".into());
                let cell = cells.get(&(row, column)).unwrap_or(&lost);
                line += &format!(" {:8}", cell.word());
                match cell {
                    Cell::Red(why) => red.push(format!("{} {}, {name}: {why}", found.version, kind.name)),
                    Cell::NotHere(why) => asides.push(format!("{} {}: {why}", found.version, kind.name)),
                    Cell::Green | Cell::Refused | Cell::Blocked | Cell::Kept => {}
                }
            }
            println!("{}", line.trim_end());
        }
    }
    asides.dedup();
    println!();
    for aside in &asides {
        println!("n/a: {aside}");
    }
    for why in &red {
        println!("\nRED: {why}");
    }
    println!("{} rows, {} cells, {} red", rows.len(), cells.len(), red.len());
    if red.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
