//! The `omg` program: calls the command line and ends with its code.
#![expect(clippy::disallowed_methods, reason = "the one place where the program ends")]

fn main() {
    std::process::exit(omg::cli::main());
}
