//! Conformance by scripts in packetdrill's language, run in virtual time, without clock and socket: scripts
//! about TCP and Multipath TCP against endpoints of `anabranch-transport`, those about SCTP against a host of
//! `anabranch-live`.
//!
//! A script is read by [`parser`] into the statements of [`script`], and run statement by statement. What a
//! statement means for a protocol, its executor knows: `executor.rs` tells how one is added. Shell commands
//! that scripts set the system up with are settings of the endpoint (`shell.rs`), and blocks of Python are
//! computed by `python/`.

#[cfg(test)]
mod declared;
mod executor;
pub mod parser;
mod protocols;
mod python;
mod run;
pub mod script;
mod sctp;
mod shell;
mod sockets;
mod tcp;
mod verdict;

pub use parser::ScriptError;
pub use verdict::{Report, Verdict};

/// How scripts are run.
pub struct Options<'a> {
    /// The profile of the endpoint, such as `linux_6`; `None` means the one that the suites were written for.
    pub profile: Option<&'a str>,
    /// Reads a file that a script names, relative to the script or to the folder of its suite; [`None`] if it
    /// does not exist.
    pub read: &'a dyn Fn(&str) -> Option<String>,
    /// Whether the script is to be given up; asked now and then.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

/// The profiles of all protocols.
const PROFILES: [&str; 11] = [
    "freebsd",
    "freebsd_10",
    "linux",
    "linux_2_6_20",
    "linux_6",
    "ns2",
    "rfc",
    "rfc2960",
    "rfc4960",
    "rfc8684",
    "rfc9260",
];

/// Reads a script and runs it.
///
/// # Errors
/// One sentence: when the text is no script, the line, what was found there and what is allowed; when there
/// is no such profile, which ones there are; when the script was given up, that it was.
pub fn drill(text: &str, options: &Options<'_>) -> Result<Report, String> {
    if let Some(profile) = options.profile.filter(|profile| !PROFILES.contains(profile)) {
        return Err(format!("profile = `{profile}` is not one of {}", PROFILES.join(", ")));
    }
    // The suites for SCTP have different branches for different systems.
    let system =
        if options.profile.is_some_and(|profile| profile.starts_with("linux")) { "Linux" } else { "FreeBSD" };
    let script = parser::parse(text, &[system]).map_err(|error| error.to_string())?;
    run::run(&script, options)
}
