//! Runs in pieces, which `anabranch.gym` drives: what an agent sees of them and what it decides.

#![allow(clippy::disallowed_types, reason = "wall-clock guards live outside the simulator")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anabranch::sim::{self, Guard, Simulation, Stepped};
use anabranch_transport::cc::media::{self, MediaControl};
use anabranch_transport::cc::{
    AckEvent, CongestionControl, CongestionEvent, CongestionKind, ControlState, Controller, LostEvent,
    RttEvent, SendLimits,
};
use anabranch_transport::endpoint::Command;
use anabranch_transport::flow::{PathId, Side};
use anabranch_transport::observed::PathSample;
use anabranch_transport::path::PathState;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Rate;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::RunError;
use crate::plugins::take_interrupt;
use crate::scenario::{PyScenario, scenario_error, watch};

/// What a flow has done in an interval, and the limit that holds for it: a window in bytes, or a rate in
/// bit/s.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    limit: u64,
    acked: u64,
    lost: u64,
    rtt: Mean,
    /// One-way delays.
    delay: Mean,
    fast_retransmits: u64,
    timeouts: u64,
}

/// The mean of some times.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum_ns: u64,
    count: u64,
}

impl Mean {
    const fn add(&mut self, value: Duration) {
        self.sum_ns += value.as_nanos();
        self.count += 1;
    }

    fn millis(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64 / 1e6)
    }
}

type Shared = Arc<Mutex<Measured>>;

fn lock(shared: &Shared) -> MutexGuard<'_, Measured> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A flow that is driven, with this limit at first.
fn driven(limit: u64) -> Shared {
    Arc::new(Mutex::new(Measured { limit, ..Measured::default() }))
}

/// A control whose limit is set from outside, and nothing else: losses and timeouts are counted.
#[derive(Debug)]
struct Driven(Shared);

impl CongestionControl for Driven {
    fn on_ack(&mut self, event: &AckEvent) {
        lock(&self.0).acked += u64::from(event.newly_acked);
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        let mut measured = lock(&self.0);
        match event.kind {
            CongestionKind::FastRetransmit => measured.fast_retransmits += 1,
            CongestionKind::Timeout => measured.timeouts += 1,
            _ => {}
        }
    }

    fn on_lost(&mut self, event: &LostEvent) {
        lock(&self.0).lost += u64::from(event.bytes);
    }

    fn on_rtt_sample(&mut self, event: &RttEvent) {
        lock(&self.0).rtt.add(event.rtt);
    }

    fn limits(&self) -> SendLimits {
        SendLimits::window(lock(&self.0).limit as u32)
    }

    fn state(&self) -> ControlState {
        let cwnd = lock(&self.0).limit as u32;
        ControlState { cwnd, ssthresh: cwnd, phase: "driven" }
    }
}

/// The target of media that is set from outside.
impl MediaControl for Driven {
    fn on_feedback(&mut self, feedback: &media::Feedback<'_>) {
        let mut measured = lock(&self.0);
        measured.rtt.add(feedback.rtt);
        for packet in feedback.packets {
            let Some((arrived, _)) = packet.arrival else {
                measured.lost += u64::from(packet.size);
                continue;
            };
            measured.acked += u64::from(packet.size);
            measured.delay.add(arrived.saturating_since(packet.sent));
        }
    }

    fn limits(&self) -> media::Limits {
        media::Limits::paced(Rate::from_bits_per_sec(lock(&self.0).limit))
    }
}

/// What a driven flow has done since it was last asked.
#[pyclass(frozen, get_all, module = "anabranch._engine")]
pub(crate) struct Interval {
    seconds: f64,
    acked: u64,
    lost: u64,
    rtt: Option<f64>,
    delay: Option<f64>,
    fast_retransmits: u64,
    timeouts: u64,
}

/// A run in pieces.
#[pyclass(frozen, module = "anabranch._engine")]
pub(crate) struct SteppedRun(Mutex<Inner>);

struct Inner {
    run: Stepped,
    /// The flow whose window or rate is set from outside, and what it has done since `asked`.
    driven: Option<Shared>,
    asked: Time,
    /// How long the run has been computed so far; what an agent does between two pieces is not in it.
    used: std::time::Duration,
}

impl Inner {
    /// Ends the run if a plug-in has failed in what has just been asked of the run.
    fn check(&mut self) -> PyResult<()> {
        self.run.check().map_err(|error| stopped(&error))
    }
}

/// Why the run has been stopped; Ctrl-C in a plug-in is Python's own exception.
fn stopped(error: &sim::RunError) -> PyErr {
    take_interrupt().unwrap_or_else(|| RunError::new_err(error.to_string()))
}

impl SteppedRun {
    /// It never waits: who calls from a hook of the run, or while another thread does, would wait for ever.
    fn lock(&self) -> PyResult<MutexGuard<'_, Inner>> {
        self.0
            .try_lock()
            .map_err(|_| RunError::new_err("the run is being continued already, and cannot be used"))
    }
}

#[pymethods]
impl SteppedRun {
    #[new]
    #[pyo3(signature = (scenario, cell = 0, seed = None, replication = 0))]
    fn new(
        py: Python<'_>,
        scenario: &PyScenario,
        cell: i128,
        seed: Option<u64>,
        replication: u64,
    ) -> PyResult<Self> {
        let cell = scenario.checked_cell(cell)?;
        let simulation = py.detach(|| {
            let mut one = scenario.0.cell(cell).map_err(scenario_error)?;
            one.seed = seed.unwrap_or(one.seed);
            Simulation::build(&one, replication, false).map_err(scenario_error)
        })?;
        let (run, used) = (Stepped::new(simulation), std::time::Duration::ZERO);
        Ok(Self(Mutex::new(Inner { run, driven: None, asked: Time::ZERO, used })))
    }

    /// Lets the window of a flow's sender be set from outside, before the run.
    fn drive(&self, py: Python<'_>, flow: &str, window: u32) -> PyResult<()> {
        py.detach(|| {
            let mut inner = self.lock()?;
            let shared = driven(window.into());
            let control = Controller::Custom(Box::new(Driven(Arc::clone(&shared))));
            let simulation = inner.run.simulation();
            simulation.set_congestion_control(flow, Side::A, PathId(0), control).map_err(scenario_error)?;
            inner.driven = Some(shared);
            Ok(())
        })
    }

    /// Lets the rate of the media of a flow's sender over one path be set from outside, before the run.
    fn drive_media(&self, py: Python<'_>, flow: &str, rate: u64) -> PyResult<()> {
        py.detach(|| {
            let mut inner = self.lock()?;
            let shared = driven(rate);
            let control = media::Controller::Custom(Box::new(Driven(Arc::clone(&shared))));
            let simulation = inner.run.simulation();
            simulation.set_media_control(flow, Side::A, PathId(0), control).map_err(scenario_error)?;
            inner.driven = Some(shared);
            Ok(())
        })
    }

    /// Sets the window in bytes, or the rate of media in bit/s, of the flow that is driven.
    fn set_limit(&self, limit: u64) -> PyResult<()> {
        if let Some(shared) = &self.lock()?.driven {
            lock(shared).limit = limit;
        }
        Ok(())
    }

    /// What the flow that is driven has done since this was last called.
    fn interval(&self) -> PyResult<Interval> {
        let mut inner = self.lock()?;
        let now = inner.run.now();
        let seconds = now.saturating_since(std::mem::replace(&mut inner.asked, now)).as_secs_f64();
        let measured = inner.driven.as_ref().map_or_else(Measured::default, |shared| {
            let mut own = lock(shared);
            let limit = own.limit;
            std::mem::replace(&mut *own, Measured { limit, ..Measured::default() })
        });
        let Measured { acked, lost, fast_retransmits, timeouts, .. } = measured;
        let (rtt, delay) = (measured.rtt.millis(), measured.delay.millis());
        Ok(Interval { seconds, acked, lost, rtt, delay, fast_retransmits, timeouts })
    }

    /// Makes a path the primary one at a flow's sender.
    fn set_primary(&self, py: Python<'_>, flow: &str, path: u8) -> PyResult<()> {
        py.detach(|| {
            let mut inner = self.lock()?;
            let command = Command::SetPrimary(PathId(path));
            inner.run.command(flow, Side::A, command).map_err(scenario_error)?;
            inner.check()
        })
    }

    /// The paths of a flow's sender now: state, whether new data is sent there, smoothed round-trip time in
    /// milliseconds, bytes outstanding, timeouts so far.
    #[expect(clippy::type_complexity, reason = "a tuple of Python, which the stub describes")]
    fn paths(
        &self,
        py: Python<'_>,
        flow: &str,
    ) -> PyResult<Vec<(&'static str, bool, Option<f64>, u32, u64)>> {
        let samples = py.detach(|| {
            let mut inner = self.lock()?;
            let samples = inner.run.paths(flow, Side::A).map_err(scenario_error)?;
            inner.check().map(|()| samples)
        })?;
        let shown = |sample: &PathSample| {
            let srtt = sample.srtt.map(Duration::as_millis_f64);
            let state = PathState::name(sample.state);
            (state, sample.is_primary, srtt, sample.outstanding, sample.repairs.timeouts)
        };
        Ok(samples.iter().map(shown).collect())
    }

    /// Goes on to a time in nanoseconds. Returns whether the run is over.
    fn advance(&self, py: Python<'_>, until: u64) -> PyResult<bool> {
        py.detach(|| {
            let mut inner = self.lock()?;
            let started = Instant::now();
            let used = inner.used;
            let mut watch = watch(inner.run.simulation(), used);
            let mut signal = None;
            let mut guard = || {
                signal = Python::attach(|py| py.check_signals().err());
                if signal.is_some() { Some("a signal".to_owned()) } else { watch() }
            };
            let guard: &mut Guard<'_> = &mut guard;
            let done = inner.run.advance(Time::from_nanos(until), guard);
            inner.used = used + started.elapsed();
            done.map(|()| inner.run.is_over()).map_err(|error| signal.unwrap_or_else(|| stopped(&error)))
        })
    }

    /// The simulated time in nanoseconds.
    #[getter]
    fn now(&self) -> PyResult<u64> {
        Ok(self.lock()?.run.now().as_nanos())
    }

    /// The scalars from the beginning until now.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let row = py.detach(|| {
            let mut inner = self.lock()?;
            let row = inner.run.row();
            inner.check().map(|()| row)
        })?;
        let summary = PyDict::new(py);
        for (name, value) in row.scalars() {
            summary.set_item(name, value)?;
        }
        Ok(summary)
    }
}
