//! Conformance by scripts in packetdrill's language, run in virtual time against the endpoints of
//! `anabranch-transport`: no clock, no socket.
//!
//! A script is read by [`parser`] into the statements of [`script`], and run statement by statement. What a statement
//! means for a protocol, its executor knows: `executor.rs` tells how one is added. Shell commands that scripts set the
//! system up with are settings of the endpoint (`shell.rs`), and blocks of Python are computed by `python/`.

mod executor;
pub mod parser;
mod python;
mod run;
pub mod script;
mod shell;
mod tcp;
mod verdict;

pub use parser::ScriptError;
pub use verdict::{Report, Verdict};

/// How scripts are run.
pub struct Options<'a> {
    /// The profile of the endpoint, such as `linux_6`; none: the one that the suites are about.
    pub profile: Option<&'a str>,
    /// Reads a file that a script names, relative to it; none if it is not there.
    pub read: &'a dyn Fn(&str) -> Option<String>,
}

/// Reads a script and runs it.
///
/// # Errors
/// When the text is no script: the line, what was found there and what is allowed.
pub fn drill(text: &str, options: &Options<'_>) -> Result<Report, ScriptError> {
    // The suites for SCTP have branches by system.
    let system = if options.profile.is_some_and(|profile| profile.starts_with("linux")) { "Linux" } else { "FreeBSD" };
    Ok(run::run(&parser::parse(text, &[system])?, options))
}
