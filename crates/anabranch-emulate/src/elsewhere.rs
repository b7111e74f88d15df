//! Systems that have no network namespaces or no TUN devices of this kind.

use std::fs::File;

use anabranch::scenario::Scenario;

/// What ends the making of an emulation.
#[derive(Debug, Default)]
pub struct Stop;

/// An emulator cannot exist on this system.
pub enum Emulator {}

impl Emulator {
    /// Fails with a sentence that says why there are no emulations.
    ///
    /// # Errors
    /// Always.
    pub fn start(
        _scenario: &Scenario,
        _replication: u64,
        _capture: Option<File>,
        _stop: &Stop,
    ) -> Result<Self, String> {
        Err("an emulation needs network namespaces and TUN devices, which only Linux has".into())
    }
}
