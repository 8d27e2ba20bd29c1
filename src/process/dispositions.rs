//! What the system does with a signal, where it is no more ours to say.
#![expect(unsafe_code, reason = "the standard library has no word for it")]

use rustix::process::Signal;

/// Gives signals back to the system once nobody listens for them any more: a Ctrl-C then ends the program, as it
/// would have before. Those that were ignored when the program began must not be among them.
///
/// What listened for them before hears nothing from here on.
pub fn give_back(signals: &[Signal]) {
    for signal in signals {
        // SAFETY: signal(2) with SIG_DFL installs no code of ours, and whatever handler it replaces is
        // code that stays where it is.
        unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) };
    }
}
