//! A run that whoever drives it continues piece by piece, as an environment for learning does.
//!
//! Nothing waits between two pieces, neither a thread nor a lock: the run is an object, and what it has
//! computed so far is all that there is of it.

use anabranch_transport::endpoint::Command;
use anabranch_transport::flow::Side;
use anabranch_transport::observed::{Observed as _, PathSample};
use anabranch_transport::report::Row;
use anabranch_transport::time::Time;

use super::engine::Simulation;
use super::limits::{Guard, RunError};
use crate::scenario::ScenarioError;

/// A run in pieces. Its events and scalars are those of [`Simulation::run`], wherever it is interrupted;
/// warm-up and phases of the scenario have no meaning for it.
pub struct Stepped {
    simulation: Simulation,
    has_begun: bool,
    is_over: bool,
}

impl Stepped {
    /// A run that has not begun.
    pub const fn new(simulation: Simulation) -> Self {
        Self { simulation, has_begun: false, is_over: false }
    }

    /// The run, before it begins, to give its flows what is one's own.
    pub const fn simulation(&mut self) -> &mut Simulation {
        &mut self.simulation
    }

    /// The simulated time.
    pub const fn now(&self) -> Time {
        self.simulation.network.now
    }

    /// Whether there is nothing more to do: every application is done, or the time of the run is over.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Does all that happens up to this time, and no more than the run has.
    ///
    /// # Errors
    /// When a guard stops the run, which is called as in [`Simulation::run`], or a plug-in fails. The run is
    /// over then.
    pub fn advance(&mut self, until: Time, guard: &mut Guard<'_>) -> Result<(), RunError> {
        if self.is_over {
            return Ok(());
        }
        let done = self.handle_until(until, guard);
        self.is_over |= done.is_err();
        done
    }

    /// Ends the run if a plug-in has failed in what was asked of it since [`Stepped::advance`]: a path policy
    /// hears commands. To be called then, as the next run of the thread would be blamed otherwise.
    ///
    /// # Errors
    /// With what the plug-in has failed with.
    pub fn check(&mut self) -> Result<(), RunError> {
        let done = self.simulation.check_handled();
        self.is_over |= done.is_err();
        done
    }

    fn handle_until(&mut self, until: Time, guard: &mut Guard<'_>) -> Result<(), RunError> {
        let run = &mut self.simulation;
        if !std::mem::replace(&mut self.has_begun, true) {
            run.begin();
        }
        let until = until.min(run.end());
        while !run.is_done() && run.network.queue.next_time() <= until {
            run.step(guard)?;
        }
        run.check_handled()?;
        if run.is_done() {
            run.handle_arrivals_at_links();
        } else {
            run.network.now = run.network.now.max(until);
        }
        self.is_over = run.is_done() || until == run.end();
        Ok(())
    }

    /// The scalars from the beginning until now.
    pub fn row(&mut self) -> Row {
        let now = self.now();
        self.simulation.row_so_far(now, now)
    }

    /// The paths of an end of a flow as they are now.
    ///
    /// # Errors
    /// When there is no such flow.
    pub fn paths(&mut self, flow: &str, side: Side) -> Result<Vec<PathSample>, ScenarioError> {
        let mut samples = Vec::new();
        self.simulation.endpoint(flow, side)?.sample_paths(&mut samples);
        Ok(samples)
    }

    /// Gives an end of a flow a command, in the place of its application.
    ///
    /// # Errors
    /// When there is no such flow.
    pub fn command(&mut self, flow: &str, side: Side, command: Command) -> Result<(), ScenarioError> {
        self.simulation.command(flow, side, command)
    }
}
