//! Path policies that are objects of Python.

#![allow(clippy::needless_pass_by_value, reason = "what Python hands over is owned")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_transport::flow::PathId;
use anabranch_transport::path::failover::{self, Failover, Settings};
use anabranch_transport::path::{
    Basis, PathEvent, PathSelector, PathState, PathStatus, Reason, Request, Retransmission, Selection,
};
use anabranch_transport::plugin::{self, Config, Role};
use anabranch_transport::time::{Duration, Time};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::{Object, create, hook, told, whole, word_of};

/// What a hook is told of a path, and its number.
pub(crate) struct Numbered(u8, PathStatus);

told! { PyPathStatus: "PathStatus" of Numbered {
    path: u8 = |it| it.0,
    state: &'static str = |it| it.1.state.name(),
    is_usable: bool = |it| it.1.is_usable(),
    is_confirmed: bool = |it| it.1.confirmed,
    error_count: u32 = |it| it.1.error_count,
    srtt: Option<u64> = |it| it.1.srtt.map(Duration::as_nanos),
    last_heard: u64 = |it| it.1.last_heard.as_nanos(),
    mtu: u32 = |it| it.1.mtu,
    rto: u64 = |it| it.1.rto.as_nanos(),
    cwnd: u32 = |it| it.1.cwnd,
    ssthresh: u32 = |it| it.1.ssthresh,
    sent_bytes: u64 = |it| it.1.sent_bytes,
    lost_bytes: u64 = |it| it.1.lost_bytes,
    heartbeats_sent: u64 = |it| it.1.heartbeats_sent,
    heartbeats_lost: u64 = |it| it.1.heartbeats_lost,
} }

/// An event and when it happened.
#[derive(Clone, Copy)]
pub(crate) struct Happened(Time, PathEvent);

impl Happened {
    fn path(&self) -> Option<PathId> {
        match self.1 {
            PathEvent::ErrorCounted(path)
            | PathEvent::FastRetransmit { path, .. }
            | PathEvent::PairMeasured { path, .. }
            | PathEvent::PrimaryRequested(path)
            | PathEvent::ProbeDone { path, .. }
            | PathEvent::RecoveryEnded(path)
            | PathEvent::SrttUpdated { path, .. }
            | PathEvent::StateChanged { path, .. }
            | PathEvent::TimerExpired(path) => Some(path),
            _ => None,
        }
    }

    const fn kind(&self) -> &'static str {
        match self.1 {
            PathEvent::ErrorCounted(_) => "error_counted",
            PathEvent::FastRetransmit { .. } => "fast_retransmit",
            PathEvent::Opened => "opened",
            PathEvent::PairMeasured { .. } => "pair_measured",
            PathEvent::PrimaryRequested(_) => "primary_requested",
            PathEvent::ProbeDone { .. } => "probe_done",
            PathEvent::RecoveryEnded(_) => "recovery_ended",
            PathEvent::SrttUpdated { .. } => "srtt_updated",
            PathEvent::StateChanged { .. } => "state_changed",
            PathEvent::TimerExpired(_) => "timer_expired",
            // The engine has no others.
            _ => "tick",
        }
    }
}

told! { PyPathEvent: "PathEvent" of Happened {
    now: u64 = |it| it.0.as_nanos(),
    kind: &'static str = |it| it.kind(),
    path: Option<u8> = |it| it.path().map(|path| path.0),
    previous_state: Option<&'static str> = |it| match it.1 {
        PathEvent::StateChanged { from, .. } => Some(PathState::name(from)),
        _ => None,
    },
    rtt: Option<u64> = |it| match it.1 {
        PathEvent::PairMeasured { rtt, .. } | PathEvent::SrttUpdated { rtt, .. } => Some(rtt.as_nanos()),
        _ => None,
    },
    spacing: Option<u64> = |it| match it.1 {
        PathEvent::PairMeasured { spacing, .. } => Some(spacing.as_nanos()),
        _ => None,
    },
    bytes: Option<u32> = |it| match it.1 {
        PathEvent::PairMeasured { size, .. } => Some(size),
        PathEvent::ProbeDone { bytes, .. } => Some(bytes),
        _ => None,
    },
    lost: Option<u32> = |it| match it.1 {
        PathEvent::ProbeDone { lost, .. } => Some(lost),
        _ => None,
    },
    cwnd_before: Option<u32> = |it| match it.1 {
        PathEvent::FastRetransmit { cwnd_before, .. } => Some(cwnd_before),
        _ => None,
    },
} }

told! { PyRetransmission: "Retransmission" of Retransmission {
    last: u8 = |it| it.last.0,
    timeout: bool = |it| it.timeout,
} }

/// The paths in use, which a hook changes.
#[pyclass(name = "Selection", module = "anabranch._engine")]
pub(crate) struct PySelection {
    selection: Selection,
    /// How many paths there are.
    count: usize,
}

/// A policy has changed the primary path and has not said why.
const CHOSEN: &str = "chosen";

impl PySelection {
    fn path(&self, value: &Bound<'_, PyAny>) -> PyResult<PathId> {
        path_among(value, self.count).ok_or_else(|| {
            let shown = value.repr().map_or_else(|_| String::new(), |text| text.to_string());
            PyValueError::new_err(format!("there is no path {shown}; {}", paths_allowed(self.count)))
        })
    }
}

#[pymethods]
impl PySelection {
    #[getter]
    fn primary(&self) -> u8 {
        self.selection.primary.0
    }

    #[setter]
    fn set_primary(&mut self, path: &Bound<'_, PyAny>) -> PyResult<()> {
        self.selection.primary = self.path(path)?;
        self.selection.reason = reason(CHOSEN, None, "")?;
        Ok(())
    }

    #[getter]
    fn current(&self) -> u8 {
        self.selection.current.0
    }

    #[setter]
    fn set_current(&mut self, path: &Bound<'_, PyAny>) -> PyResult<()> {
        self.selection.current = self.path(path)?;
        Ok(())
    }

    #[getter]
    fn held(&self) -> bool {
        self.selection.held
    }

    #[setter]
    fn set_held(&mut self, on: bool) {
        self.selection.held = on;
    }

    /// Selects a path for everything.
    #[pyo3(signature = (path, /, words = "chosen", *, numbers = None, unit = ""))]
    fn switch(
        &mut self,
        path: &Bound<'_, PyAny>,
        words: &str,
        numbers: Option<(f64, f64)>,
        unit: &str,
    ) -> PyResult<()> {
        let path = self.path(path)?;
        self.selection.switch(path, reason(words, numbers, unit)?);
        Ok(())
    }

    fn __repr__(&self) -> String {
        let Selection { primary, current, held, .. } = self.selection;
        let held = if held { "True" } else { "False" };
        format!("Selection(primary={}, current={}, held={held})", primary.0, current.0)
    }
}

/// What reasons are based on: words, and how numbers compare and their unit.
type Bases = BTreeMap<(&'static str, Option<(char, &'static str)>), &'static Basis>;

/// A reason with the numbers of the new and the old primary path.
fn reason(words: &str, numbers: Option<(f64, f64)>, unit: &str) -> PyResult<Reason> {
    static BASES: Mutex<Bases> = Mutex::new(BTreeMap::new());
    let too_many =
        || PyValueError::new_err("words and units have at most 100 bytes, and not more than 1000 differ");
    let words = word_of(words).ok_or_else(too_many)?;
    let unit = word_of(unit).ok_or_else(too_many)?;
    let comparison = numbers.map(|(new, old)| (if new < old { '<' } else { '>' }, unit));
    let mut bases = BASES.lock().unwrap_or_else(PoisonError::into_inner);
    let basis =
        *bases.entry((words, comparison)).or_insert_with(|| Box::leak(Box::new(Basis { words, comparison })));
    Ok(numbers.map_or_else(|| Reason::new(basis), |(new, old)| Reason::compared(basis, new, old)))
}

/// The number of one of so many paths.
fn path_among(value: &Bound<'_, PyAny>, count: usize) -> Option<PathId> {
    whole(value).map(PathId).filter(|path| path.index() < count)
}

fn paths_allowed(count: usize) -> String {
    format!("allowed are the numbers of paths, from 0 to {}", count.saturating_sub(1))
}

/// The standard's failover within a policy.
#[pyclass(frozen, name = "Failover", module = "anabranch._engine")]
pub(crate) struct PyFailover(Arc<Mutex<Failover>>);

#[pymethods]
impl PyFailover {
    /// Handles an event as the standard says.
    #[pyo3(signature = (event, paths, selection, /))]
    fn select(
        &self,
        event: &PyPathEvent,
        paths: Vec<PyRef<'_, PyPathStatus>>,
        selection: &mut PySelection,
    ) -> PyResult<()> {
        let paths = statuses(&paths, selection)?;
        let Happened(now, event) = event.0;
        lock(&self.0).select(now, event, &paths, &mut selection.selection);
        Ok(())
    }

    /// The path on which data is sent again.
    #[pyo3(signature = (loss, paths, selection, /))]
    fn retransmission_path(
        &self,
        loss: &PyRetransmission,
        paths: Vec<PyRef<'_, PyPathStatus>>,
        selection: &PySelection,
    ) -> PyResult<u8> {
        let paths = statuses(&paths, selection)?;
        Ok(lock(&self.0).retransmission_path(&loss.0, &paths, &selection.selection).0)
    }
}

fn lock(failover: &Mutex<Failover>) -> MutexGuard<'_, Failover> {
    failover.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All paths in their order.
fn statuses(paths: &[PyRef<'_, PyPathStatus>], selection: &PySelection) -> PyResult<Vec<PathStatus>> {
    let numbers = paths.iter().map(|path| usize::from(path.0.0));
    if !numbers.eq(0..selection.count) {
        return Err(PyValueError::new_err(
            "failover needs all paths that the hook was given, in their order",
        ));
    }
    Ok(paths.iter().map(|path| path.0.1).collect())
}

/// Two heartbeats back to back.
#[pyclass(frozen, get_all, name = "HeartbeatPair", module = "anabranch._engine")]
pub(crate) struct PyHeartbeatPair {
    path: u8,
    size: u32,
}

#[pymethods]
impl PyHeartbeatPair {
    #[new]
    #[pyo3(signature = (path, size))]
    const fn new(path: u8, size: u32) -> Self {
        Self { path, size }
    }

    fn __repr__(&self) -> String {
        format!("HeartbeatPair(path={}, size={})", self.path, self.size)
    }
}

/// New data on a path to try it.
#[pyclass(frozen, get_all, name = "Probe", module = "anabranch._engine")]
pub(crate) struct PyProbe {
    path: u8,
    bytes: u32,
    is_burst: bool,
}

#[pymethods]
impl PyProbe {
    #[new]
    #[pyo3(signature = (path, bytes, is_burst = false))]
    const fn new(path: u8, bytes: u32, is_burst: bool) -> Self {
        Self { path, bytes, is_burst }
    }

    fn __repr__(&self) -> String {
        let is_burst = if self.is_burst { "True" } else { "False" };
        format!("Probe(path={}, bytes={}, is_burst={is_burst})", self.path, self.bytes)
    }
}

/// The most bytes of a probe.
const MAX_PROBE: u32 = 1 << 30;

/// The most requests after one event.
const MAX_REQUESTS: u32 = 1000;

/// What a request asks for.
fn request(answer: &Bound<'_, PyAny>, count: usize) -> Option<Request> {
    let among = |path: u8| (usize::from(path) < count).then_some(PathId(path));
    if let Ok(pair) = answer.cast::<PyHeartbeatPair>() {
        let pair = pair.get();
        return Some(Request::HeartbeatPair { path: among(pair.path)?, size: pair.size });
    }
    let probe = answer.cast::<PyProbe>().ok()?.get();
    let bytes = Some(probe.bytes).filter(|bytes| (1..=MAX_PROBE).contains(bytes))?;
    Some(Request::Probe { path: among(probe.path)?, bytes, is_burst: probe.is_burst })
}

/// A policy whose decisions an object makes, and failover for what its class leaves to that.
pub(super) struct Policy {
    parts: Option<Parts>,
    failover: Arc<Mutex<Failover>>,
    /// What it was told last.
    now: Time,
    is_tick: bool,
    count: usize,
    /// Its requests since then.
    requests: u32,
}

struct Parts {
    object: Object,
    select: Option<Py<PyAny>>,
    retransmission_path: Option<Py<PyAny>>,
    measures: Option<Py<PyAny>>,
    next_tick: Option<Py<PyAny>>,
    next_request: Option<Py<PyAny>>,
}

impl Policy {
    pub(super) fn new(config: &Config, profile: Settings, seed: u64) -> Self {
        let failover = Arc::new(Mutex::new(Failover::new(&failover::Config::default(), profile)));
        let created = create(config, Role::PathPolicy, |given| {
            given.set_item("failover", Bound::new(given.py(), PyFailover(Arc::clone(&failover)))?)?;
            given.set_item("skip_failed", profile.skip_failed)?;
            given.set_item("seed", seed)
        });
        let parts = created.map(|(object, all)| {
            Python::attach(|py| {
                let of = |name| hook(all.bind(py), name);
                Parts {
                    object,
                    select: of("select"),
                    retransmission_path: of("retransmission_path"),
                    measures: of("measures"),
                    next_tick: of("next_tick"),
                    next_request: of("next_request"),
                }
            })
        });
        Self { parts, failover, now: Time::ZERO, is_tick: false, count: 0, requests: 0 }
    }
}

/// All paths as hooks are told of them.
fn views<'py>(py: Python<'py>, paths: &[PathStatus]) -> PyResult<Bound<'py, PyList>> {
    let views =
        paths.iter().zip(0..).map(|(status, path)| Py::new(py, PyPathStatus(Numbered(path, *status))));
    PyList::new(py, views.collect::<PyResult<Vec<_>>>()?)
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.parts.as_ref().map(|parts| &parts.object);
        f.debug_struct("Policy").field("object", &object).finish_non_exhaustive()
    }
}

impl PathSelector for Policy {
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        (self.now, self.is_tick, self.count) = (now, event == PathEvent::Tick, paths.len());
        self.requests = 0;
        let Some(Parts { object, select: Some(hook), .. }) = &self.parts else {
            return lock(&self.failover).select(now, event, paths, selection);
        };
        let changed = object.call("select", |py| {
            let own = Bound::new(py, PySelection { selection: *selection, count: paths.len() })?;
            let event = Bound::new(py, PyPathEvent(Happened(now, event)))?;
            let answer = hook.call1(py, (event, views(py, paths)?, &own))?;
            if !answer.is_none(py) {
                let allowed = "allowed is None: a policy acts by what it changes in the selection";
                object.refuse("select", answer.bind(py), allowed);
            }
            Ok(own.borrow().selection)
        });
        *selection = changed.unwrap_or(*selection);
    }

    fn retransmission_path(
        &mut self,
        loss: &Retransmission,
        paths: &[PathStatus],
        selection: &Selection,
    ) -> PathId {
        let by_failover = || lock(&self.failover).retransmission_path(loss, paths, selection);
        let Some(Parts { object, retransmission_path: Some(hook), .. }) = &self.parts else {
            return by_failover();
        };
        let name = "retransmission_path";
        let chosen = object.call(name, |py| {
            let own = PySelection { selection: *selection, count: paths.len() };
            let loss = Bound::new(py, PyRetransmission(*loss))?;
            let answer = hook.call1(py, (loss, views(py, paths)?, Bound::new(py, own)?))?.into_bound(py);
            let path = path_among(&answer, paths.len());
            if path.is_none() {
                object.refuse(name, &answer, &paths_allowed(paths.len()));
            }
            Ok(path)
        });
        chosen.flatten().unwrap_or_else(by_failover)
    }

    /// Also where its class has ticks or requests and does not say so.
    fn measures(&self) -> bool {
        let by_failover = lock(&self.failover).measures();
        let Some(Parts { object, measures, next_tick, next_request, .. }) = &self.parts else {
            return by_failover;
        };
        let Some(hook) = measures else {
            return by_failover || next_tick.is_some() || next_request.is_some();
        };
        let allowed = || "allowed is True or False".to_owned();
        object.ask("measures", hook, allowed, |answer| answer.extract().ok()).unwrap_or(by_failover)
    }

    fn next_tick(&self) -> Time {
        let Some(Parts { object, next_tick: Some(hook), .. }) = &self.parts else { return Time::NEVER };
        let allowed = || {
            let after =
                if self.is_tick { format!(" after {}, now", self.now.as_nanos()) } else { String::new() };
            format!("allowed is a time in nanoseconds{after}, or None")
        };
        let read = |answer: &Bound<'_, PyAny>| {
            if answer.is_none() {
                return Some(Time::NEVER);
            }
            // A time that has passed is now, but not again right after a tick.
            let at = whole(answer).map(Time::from_nanos).filter(|&at| !self.is_tick || at > self.now)?;
            Some(at.max(self.now))
        };
        object.ask("next_tick", hook, allowed, read).unwrap_or(Time::NEVER)
    }

    fn next_request(&mut self) -> Option<Request> {
        let Some(Parts { object, next_request: Some(hook), .. }) = &self.parts else { return None };
        let asked = object.call("next_request", |py| {
            let answer = hook.call0(py)?.into_bound(py);
            if answer.is_none() {
                return Ok(None);
            }
            let asked = request(&answer, self.count);
            if asked.is_none() {
                let allowed = format!(
                    "allowed is None, or a HeartbeatPair or a Probe on a path from 0 to {}, of a probe from 1 to \
                     {MAX_PROBE} bytes",
                    self.count.saturating_sub(1)
                );
                object.refuse("next_request", &answer, &allowed);
            } else if self.requests >= MAX_REQUESTS {
                let allowed = format!("allowed is None after {MAX_REQUESTS} requests that follow one event");
                object.refuse("next_request", &answer, &allowed);
            }
            Ok(asked)
        });
        self.requests += 1;
        // After a refusal there is none: the loop that asks would not end.
        asked.flatten().filter(|_| !plugin::has_failed())
    }
}
