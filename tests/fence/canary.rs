//! Trips every wire of clippy.toml once. No target builds this file: `.ci/run` puts it into a copy of
//! the crate, lints that, and expects a report on every line that ends in `//~`.
//!
//! Clippy does no more than warn of a forbidden path that leads nowhere, and a warning about its own
//! configuration fails no build: a typing mistake in clippy.toml would take a wire down.
#![expect(dead_code, reason = "only ever linted")]

type Spawn = std::process::Command; //~ std::process::Command
type Map = std::collections::HashMap<u8, u8>; //~ std::collections::HashMap
type Set = std::collections::HashSet<u8>; //~ std::collections::HashSet

fn wires() {
    let _ = std::process::Command::new(""); //~ std::process::Command::new
    let _ = libc::fork as unsafe extern "C" fn() -> i32; //~ libc::fork
    let _ = libc::vfork as unsafe extern "C" fn() -> i32; //~ libc::vfork
    let _ = libc::clone as *const (); //~ libc::clone
    let _ = libc::posix_spawn as *const (); //~ libc::posix_spawn
    let _ = libc::posix_spawnp as *const (); //~ libc::posix_spawnp
    let _ = libc::execve as *const (); //~ libc::execve
    let _ = libc::execv as *const (); //~ libc::execv
    let _ = libc::execvp as *const (); //~ libc::execvp
    let _ = libc::system as *const (); //~ libc::system
    let _ = libc::popen as *const (); //~ libc::popen
    let _ = || std::process::exit(0); //~ std::process::exit
    let _ = std::env::var(""); //~ std::env::var
    let _ = std::env::var_os(""); //~ std::env::var_os
    let _ = std::env::vars(); //~ std::env::vars
    let _ = std::env::vars_os(); //~ std::env::vars_os
    let _ = std::env::current_dir(); //~ std::env::current_dir
    let _ = std::time::Instant::now(); //~ std::time::Instant::now
    let _ = std::time::SystemTime::now(); //~ std::time::SystemTime::now
    let _ = jiff::Timestamp::now(); //~ jiff::Timestamp::now
    std::thread::sleep(std::time::Duration::ZERO); //~ std::thread::sleep
    let _ = std::fs::canonicalize(""); //~ std::fs::canonicalize
    let _ = std::fs::copy("", ""); //~ std::fs::copy
    let _ = std::fs::create_dir(""); //~ std::fs::create_dir
    let _ = std::fs::create_dir_all(""); //~ std::fs::create_dir_all
    let _ = std::fs::hard_link("", ""); //~ std::fs::hard_link
    let _ = std::fs::metadata(""); //~ std::fs::metadata
    let _ = std::fs::read(""); //~ std::fs::read
    let _ = std::fs::read_dir(""); //~ std::fs::read_dir
    let _ = std::fs::read_link(""); //~ std::fs::read_link
    let _ = std::fs::read_to_string(""); //~ std::fs::read_to_string
    let _ = std::fs::remove_dir(""); //~ std::fs::remove_dir
    let _ = std::fs::remove_dir_all(""); //~ std::fs::remove_dir_all
    let _ = std::fs::remove_file(""); //~ std::fs::remove_file
    let _ = std::fs::rename("", ""); //~ std::fs::rename
    let _ = |to: std::fs::Permissions| std::fs::set_permissions("", to); //~ std::fs::set_permissions
    let _ = std::fs::symlink_metadata(""); //~ std::fs::symlink_metadata
    let _ = std::fs::write("", ""); //~ std::fs::write
    let _ = std::fs::File::create(""); //~ std::fs::File::create
    let _ = std::fs::File::open(""); //~ std::fs::File::open
    let _ = std::fs::OpenOptions::new(); //~ std::fs::OpenOptions::new
    let path = std::path::Path::new("");
    let _ = path.canonicalize(); //~ std::path::Path::canonicalize
    let _ = path.exists(); //~ std::path::Path::exists
    let _ = path.is_dir(); //~ std::path::Path::is_dir
    let _ = path.is_file(); //~ std::path::Path::is_file
    let _ = path.is_symlink(); //~ std::path::Path::is_symlink
    let _ = path.metadata(); //~ std::path::Path::metadata
    let _ = path.read_dir(); //~ std::path::Path::read_dir
    let _ = path.read_link(); //~ std::path::Path::read_link
    let _ = path.symlink_metadata(); //~ std::path::Path::symlink_metadata
    let _ = path.try_exists(); //~ std::path::Path::try_exists
    let _ = std::io::stdout(); //~ std::io::stdout
    let _ = std::io::stderr(); //~ std::io::stderr
    let _ = anstream::stdout(); //~ anstream::stdout
    let _ = anstream::stderr(); //~ anstream::stderr
    println!(); //~ std::println
    print!(""); //~ std::print
    eprintln!(); //~ std::eprintln
    eprint!(""); //~ std::eprint
    dbg!(); //~ std::dbg
}
