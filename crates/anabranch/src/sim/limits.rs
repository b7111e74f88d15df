//! How much a run may do: its limits, and the guard of whoever started it.

use anabranch_transport::plugin;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Bytes;

use crate::scenario::RunConfig;

/// Watches over a run from outside. It is called every 8,192 steps of the event loop, which is every few
/// milliseconds; a fragment of a packet counts as a step. If it returns a message, the run ends with that.
pub type Guard<'a> = dyn FnMut() -> Option<String> + 'a;

/// A run that was given up. Displays as one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run was stopped at {at} after {events} events: {reason}")]
pub struct RunError {
    at: Time,
    events: u64,
    reason: String,
}

/// A step takes from 0.1 to 3 us, so a run that is cancelled ends within 0.1 s.
const STEPS_BETWEEN_CHECKS: u64 = 1 << 13;

/// What a run may do, and what it has done.
pub(super) struct Limits {
    max_events: u64,
    max_memory: Bytes,
    max_wall_time: Duration,
    /// What has happened at hosts: packets that came there, timers that expired, wake-ups of applications and
    /// changes of addresses. How many steps the network takes depends on what is observed; this does not.
    events: u64,
    /// The steps of the event loop so far.
    steps: u64,
    /// When `run.max_events` was reached, if it was.
    exhausted_at: Option<Time>,
    /// The time of the last event, where the run has plug-ins: it is looked at after each event whether one
    /// of them has failed.
    last_event: Option<Time>,
}

impl Limits {
    pub(super) fn new(config: &RunConfig, has_plugins: bool) -> Self {
        Self {
            max_events: config.max_events,
            max_memory: config.max_memory,
            max_wall_time: config.max_wall_time,
            events: 0,
            steps: 0,
            exhausted_at: None,
            last_event: has_plugins.then_some(Time::ZERO),
        }
    }

    /// The run may have any number of events: it is driven from outside.
    pub(super) fn allow_any_events(&mut self) {
        self.max_events = u64::MAX;
    }

    pub(super) fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    pub(super) fn max_wall_time(&self) -> Duration {
        self.max_wall_time
    }

    /// Counts a step that is about to be taken.
    #[inline]
    pub(super) fn count_step(&mut self) {
        self.steps += 1;
    }

    /// Counts an event at a host. Returns false if it is one more than the run may have: then it must not be
    /// handled, and the run is to be checked before its next step.
    #[inline]
    pub(super) fn count_event(&mut self, now: Time) -> bool {
        self.events += 1;
        if self.events < self.max_events {
            return true;
        }
        self.exhausted_at.get_or_insert(now);
        false
    }

    /// After how many steps the run is checked next.
    pub(super) fn steps_to_check(&self) -> u64 {
        if self.last_event.is_some() || self.exhausted_at.is_some() { 1 } else { STEPS_BETWEEN_CHECKS }
    }

    /// Checks a run before a step is taken at `now`, which is counted already. `watch` gives the memory in
    /// use and what is wrong besides, if anything is.
    pub(super) fn check(
        &mut self,
        now: Time,
        guard: &mut Guard<'_>,
        watch: impl FnOnce() -> (usize, Option<String>),
    ) -> Result<(), RunError> {
        self.check_handled()?;
        if self.last_event.is_some() {
            self.last_event = Some(now);
            if !self.steps.is_multiple_of(STEPS_BETWEEN_CHECKS) {
                return Ok(());
            }
        }
        let (memory, problem) = watch();
        if memory as u64 > self.max_memory.0 {
            return Err(self.error(now, format!("run.max_memory = {} is reached", self.max_memory)));
        }
        problem.or_else(guard).map_or(Ok(()), |reason| Err(self.error(now, reason)))
    }

    /// Ends the run if a plug-in has failed in an event that has been handled, or if there were as many
    /// events as the run may have.
    pub(super) fn check_handled(&self) -> Result<(), RunError> {
        let failure = self.last_event.and_then(|at| plugin::take_failure().map(|reason| (at, reason)));
        if let Some((at, reason)) = failure {
            return Err(self.error(at, reason));
        }
        if let Some(at) = self.exhausted_at {
            return Err(self.error(at, format!("run.max_events = {} is reached", self.max_events)));
        }
        Ok(())
    }

    /// The run is given up at this time.
    pub(super) fn error(&self, at: Time, reason: String) -> RunError {
        RunError { at, events: self.events, reason }
    }
}
