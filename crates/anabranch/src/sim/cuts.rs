//! The cuts of a run: at the end of its warm-up and between its phases.

use anabranch_transport::report::Row;
use anabranch_transport::time::{Duration, Time};

use crate::scenario::{RunConfig, ScenarioError};

/// The cuts of a run, and what was reported at each that has been reached.
pub(super) struct Cuts {
    times: Vec<Time>,
    has_warm_up: bool,
    rows: Vec<Row>,
}

impl Cuts {
    pub(super) fn new(config: &RunConfig) -> Self {
        let has_warm_up = !config.warm_up.is_zero();
        let warm_up = has_warm_up.then_some(config.warm_up);
        let times = warm_up.into_iter().chain(config.phases.iter().copied());
        Self { times: times.map(|time| Time::ZERO + time).collect(), has_warm_up, rows: Vec::new() }
    }

    /// The time of the cut that comes next.
    pub(super) fn next(&self) -> Time {
        self.times.get(self.rows.len()).copied().unwrap_or(Time::NEVER)
    }

    /// Keeps what was reported at the next cut. Returns the time of the cut after it.
    pub(super) fn push(&mut self, row: Row) -> Time {
        self.rows.push(row);
        self.next()
    }

    /// The report of a run with these scalars at its end: all of it without the warm-up, then each phase.
    pub(super) fn report(mut self, end: Row) -> Row {
        if self.rows.is_empty() {
            return end;
        }
        let mut start = self.has_warm_up.then(|| self.rows.remove(0));
        let mut row = since(start.as_ref(), &end);
        if !self.rows.is_empty() {
            self.rows.push(end);
            for (index, cut) in self.rows.into_iter().enumerate() {
                row.add_phase(&format!("run.phase_{}", index + 1), since(start.as_ref(), &cut));
                start = Some(cut);
            }
        }
        row
    }
}

/// The scalars between two cuts, or up to the first one.
fn since(start: Option<&Row>, end: &Row) -> Row {
    start.map_or_else(|| end.clone(), |start| end.clone().without(start))
}

/// Checks that the run's times are in order.
///
/// # Errors
/// The sentence that says which does not.
pub(super) fn check(config: &RunConfig) -> Result<(), ScenarioError> {
    let RunConfig { duration, warm_up, phases, .. } = config;
    if warm_up > duration {
        return Err(ScenarioError::new(format!(
            "run.warm_up: \"{warm_up}\" is longer than the run; use at most run.duration, \"{duration}\""
        )));
    }
    let mut before: Duration = *warm_up;
    for (index, &phase) in phases.iter().enumerate() {
        if phase <= before || phase >= *duration {
            return Err(ScenarioError::new(format!(
                "run.phases.{index}: \"{phase}\" is not a time after \"{before}\" and before run.duration, \
                 \"{duration}\""
            )));
        }
        before = phase;
    }
    Ok(())
}

/// The last moment before a cut: events at its time belong to the part after it.
pub(super) fn just_before(cut: Time) -> Time {
    Time::from_nanos(cut.as_nanos() - 1)
}
