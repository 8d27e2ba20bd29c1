//! The command line: decode, call, encode. Decides nothing.

pub mod hidden;
pub mod output;

/// Runs the command line of this process. Returns its exit code.
pub fn main() -> i32 {
    let arguments: Vec<std::ffi::OsString> = crate::settings::arguments();
    if let Some(code) = hidden::run(&arguments) {
        return code;
    }
    0
}
