//! Secrets from the system's generator of random numbers.

use std::io;

use anabranch_transport::rng::Streams;
use anabranch_transport::secret::Secret;

/// A new secret.
///
/// # Errors
/// When the system has no generator of random numbers.
pub fn secret() -> io::Result<Secret> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(Secret(bytes))
}

/// The source of numbers that need not be secret, such as the jitter of heartbeats: they differ in each run
/// of the program.
///
/// # Errors
/// As [`secret`].
pub fn streams() -> io::Result<Streams> {
    Ok(Streams { seed: getrandom::u64().map_err(io::Error::other)?, replication: 0 })
}
