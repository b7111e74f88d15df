//! A testbed: the flows of a scenario on the kernel's own stacks, over the scenario's links.

use std::fs::File;
use std::path::PathBuf;

use anabranch::scenario::Scenario;
use anabranch::sim::{Emulation, Outcome};
use anabranch_transport::time::Duration;

use crate::clock;
use crate::emulator::Emulator;
use crate::kernel::{self, Flows};
use crate::space::Stop;

/// A run of a scenario on the kernel, in real time.
pub struct Testbed {
    emulator: Emulator,
}

/// A run that has been built and has not yet changed anything in the system.
pub struct Prepared {
    emulation: Emulation,
    flows: Flows,
}

impl Prepared {
    /// The run of a scenario with these random numbers; `trace` says whether there are traces, `interval` how
    /// often connections are asked for their state, and `usrsctp` is the program of an end on usrsctp, if
    /// flows of SCTP run on that instead of the kernel.
    ///
    /// # Errors
    /// A sentence about the scenario, or about what no kernel, or usrsctp, has of what it asks for.
    pub fn new(
        scenario: &Scenario,
        replication: u64,
        trace: bool,
        interval: Duration,
        usrsctp: Option<PathBuf>,
    ) -> Result<Self, String> {
        let emulation =
            Emulation::build_testbed(scenario, replication, trace).map_err(|error| error.to_string())?;
        let flows = Flows::of(&emulation, interval, usrsctp)?;
        Ok(Self { emulation, flows })
    }

    /// Makes everything and begins; packets that nodes send and receive are written to `capture`. Another
    /// thread may give it up with `stop`.
    ///
    /// # Errors
    /// A sentence about what this system does not permit or its kernel does not have.
    pub fn start(self, capture: Option<File>, stop: &Stop) -> Result<Testbed, String> {
        Ok(Testbed { emulator: Emulator::start_with(self.emulation, Some(&self.flows), capture, stop)? })
    }
}

impl Testbed {
    /// The release of the kernel.
    pub fn kernel() -> String {
        kernel::release()
    }

    /// Whether that kernel is a user-mode Linux in virtual time.
    pub fn is_virtual() -> bool {
        clock::is_virtual()
    }

    /// The thread that carries packets and serves the sockets, for those who want to change its priority.
    pub fn thread_id(&self) -> i32 {
        self.emulator.thread_id()
    }

    /// Whether it has ended: its applications are done, or its time is over.
    pub fn is_over(&self) -> bool {
        self.emulator.is_over()
    }

    /// Ends the run; gives its results and how late packets were.
    ///
    /// # Errors
    /// When the capture could not be written.
    pub fn finish(self) -> Result<Outcome, String> {
        self.emulator.into_carrier()?.finish()
    }
}
