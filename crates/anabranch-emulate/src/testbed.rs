//! A testbed: the flows of a scenario on the kernel's own stacks, over the scenario's links.

use std::fs::File;

use anabranch::scenario::Scenario;
use anabranch::sim::{Emulation, Outcome};
use anabranch_transport::time::Duration;

use crate::emulator::Emulator;
use crate::kernel::{self, Flows};

/// A run of a scenario on the kernel, in real time.
pub struct Testbed {
    emulator: Emulator,
}

/// What is asked of a run, beside its scenario.
#[derive(Debug)]
pub struct Setup {
    /// Which random numbers there are.
    pub replication: u64,
    /// Whether there are traces.
    pub trace: bool,
    /// How often connections are asked for their state.
    pub interval: Duration,
    /// Where the packets that nodes send and receive are written.
    pub capture: Option<File>,
}

impl Testbed {
    /// What no kernel has of what the scenario asks for; nothing is done about it.
    ///
    /// # Errors
    /// A sentence, of the scenario too.
    pub fn check(scenario: &Scenario) -> Result<(), String> {
        let emulation = Emulation::build_testbed(scenario, 0, false).map_err(|error| error.to_string())?;
        Flows::of(&emulation, Duration::ZERO).map(|_| ())
    }

    /// Makes everything and begins.
    ///
    /// # Errors
    /// One sentence: of the scenario, or of what this system does not permit or its kernel does not have.
    pub fn start(scenario: &Scenario, setup: Setup) -> Result<Self, String> {
        let Setup { replication, trace, interval, capture } = setup;
        let emulation =
            Emulation::build_testbed(scenario, replication, trace).map_err(|error| error.to_string())?;
        let flows = Flows::of(&emulation, interval)?;
        Ok(Self { emulator: Emulator::start_with(emulation, Some(&flows), capture)? })
    }

    /// The release of the kernel.
    pub fn kernel() -> String {
        kernel::release()
    }

    /// The thread that carries packets and serves the sockets, for who wants to give it another priority.
    pub fn thread_id(&self) -> i32 {
        self.emulator.thread_id()
    }

    /// Whether it has ended: its applications are done, or its time is over.
    pub fn is_over(&self) -> bool {
        self.emulator.is_over()
    }

    /// Ends it, and gives what a run of the scenario gives, and how late packets were.
    ///
    /// # Errors
    /// When the capture could not be written.
    pub fn finish(self) -> Result<Outcome, String> {
        self.emulator.into_carrier()?.finish()
    }
}
