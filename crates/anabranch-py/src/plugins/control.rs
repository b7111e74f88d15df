//! Congestion controls that are objects of Python.

use std::cell::Cell;
use std::fmt;

use anabranch_transport::cc::{
    AckEvent, ArrivalEvent, CongestionControl, CongestionEvent, CongestionKind, ControlState, Cumulative,
    DuplicateEvent, IdleEvent, LEAST_BURST, LostEvent, ProbeEvent, RateSample, RecoveryEndEvent, RttEvent,
    Rules, SendLimits, SentEvent, Setup, UndoEvent,
};
use anabranch_transport::plugin::{Config, Role};
use anabranch_transport::time::Duration;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Object, create, hook, kept, read_rate, told, whole, word_of};

told! { PyAckEvent: "AckEvent" of AckEvent {
    now: u64 = |it| it.now.as_nanos(),
    newly_acked: u32 = |it| it.newly_acked,
    segments_acked: u32 = |it| it.segments_acked,
    outstanding_before: u32 = |it| it.outstanding_before,
    outstanding: u32 = |it| it.outstanding,
    cumulative_advanced: bool = |it| it.cumulative_advanced,
    cumulative: Option<PyCumulative> = |it| it.cumulative.map(PyCumulative),
    in_recovery: bool = |it| it.in_recovery,
    is_open: bool = |it| it.is_open,
    is_window_limited: bool = |it| it.is_window_limited,
    marked: u32 = |it| it.marked,
    newly_lost: u32 = |it| it.newly_lost,
    rtt: Option<u64> = |it| it.rtt.map(Duration::as_nanos),
    min_rtt: Option<u64> = |it| it.min_rtt.map(Duration::as_nanos),
    acknowledged_to: u64 = |it| it.acknowledged_to,
    sent_to: u64 = |it| it.sent_to,
    total_acked: u64 = |it| it.total_acked,
    rate: Option<PyRateSample> = |it| it.rate.map(PyRateSample),
    next_departure: u64 = |it| it.next_departure.as_nanos(),
} }

told! { PyCumulative: "Cumulative" of Cumulative {
    segments: u32 = |it| it.segments,
    was_open: bool = |it| it.was_open,
    was_in_recovery: bool = |it| it.was_in_recovery,
} }

told! { PyRateSample: "RateSample" of RateSample {
    delivered: u32 = |it| it.delivered,
    interval: u64 = |it| it.interval.as_nanos(),
    total_delivered: u64 = |it| it.total_delivered,
    prior_delivered: u64 = |it| it.prior_delivered,
    outstanding_at_send: u32 = |it| it.outstanding_at_send,
    lost: u32 = |it| it.lost,
    is_app_limited: bool = |it| it.is_app_limited,
} }

told! { PyArrivalEvent: "ArrivalEvent" of ArrivalEvent {
    now: u64 = |it| it.now.as_nanos(),
    acknowledged_to: u64 = |it| it.acknowledged_to,
    total_acked: u64 = |it| it.total_acked,
    rtt: Option<u64> = |it| it.rtt.map(Duration::as_nanos),
    is_special: bool = |it| it.is_special,
} }

told! { PyLostEvent: "LostEvent" of LostEvent {
    now: u64 = |it| it.now.as_nanos(),
    bytes: u32 = |it| it.bytes,
    outstanding_at_send: u32 = |it| it.outstanding_at_send,
    lost: u32 = |it| it.lost,
    is_app_limited: bool = |it| it.is_app_limited,
} }

told! { PyCongestionEvent: "CongestionEvent" of CongestionEvent {
    now: u64 = |it| it.now.as_nanos(),
    kind: &'static str = |it| match it.kind {
        CongestionKind::Ecn => "ecn",
        CongestionKind::FastRetransmit => "fast_retransmit",
        CongestionKind::Restart => "restart",
        // The engine has no others.
        _ => "timeout",
    },
    outstanding: u32 = |it| it.outstanding,
    remaining: u32 = |it| it.remaining,
} }

told! { PyDuplicateEvent: "DuplicateEvent" of DuplicateEvent {
    now: u64 = |it| it.now.as_nanos(),
} }

told! { PyIdleEvent: "IdleEvent" of IdleEvent {
    idle: u64 = |it| it.idle.as_nanos(),
    rto: u64 = |it| it.rto.as_nanos(),
} }

told! { PyProbeEvent: "ProbeEvent" of ProbeEvent {
    now: u64 = |it| it.now.as_nanos(),
    window: u32 = |it| it.window,
} }

told! { PyRecoveryEndEvent: "RecoveryEndEvent" of RecoveryEndEvent {
    now: u64 = |it| it.now.as_nanos(),
    outstanding: u32 = |it| it.outstanding,
    reached: Option<u32> = |it| it.reached,
} }

told! { PyRttEvent: "RttEvent" of RttEvent {
    now: u64 = |it| it.now.as_nanos(),
    rtt: u64 = |it| it.rtt.as_nanos(),
} }

told! { PySentEvent: "SentEvent" of SentEvent {
    now: u64 = |it| it.now.as_nanos(),
    bytes: u32 = |it| it.bytes,
    outstanding: u32 = |it| it.outstanding,
    is_app_limited: bool = |it| it.is_app_limited,
} }

told! { PyUndoEvent: "UndoEvent" of UndoEvent {
    now: u64 = |it| it.now.as_nanos(),
    cwnd: Option<u32> = |it| it.response.map(|response| response.cwnd),
    ssthresh: Option<u32> = |it| it.response.map(|response| response.ssthresh),
} }

/// The largest window in bytes, as that of TCP's window field (RFC 7323 section 2.3).
const MAX_WINDOW: u32 = 1 << 30;

/// A hook of an object, if its class has it.
type Hook = Option<Py<PyAny>>;

/// The hooks of a control, by the names that they have in Python.
macro_rules! hooks {
    ($($name:ident,)*) => {
        #[derive(Default)]
        struct Hooks {
            $($name: Hook,)*
        }

        impl Hooks {
            fn new(all: &Bound<'_, PyDict>) -> Self {
                Self { $($name: hook(all, stringify!($name)),)* }
            }
        }
    };
}
hooks! {
    on_ack,
    on_arrival,
    on_congestion,
    on_duplicate,
    on_idle,
    on_lost,
    on_probe,
    on_recovery_end,
    on_rtt_sample,
    on_sent,
    on_undo,
    limits,
    state,
    least_burst,
    owns_recovery,
}

/// A control whose decisions an object makes. What it answers is kept until it is told something.
pub(super) struct Control {
    object: Option<Object>,
    hooks: Hooks,
    mss: u32,
    limits: Cell<Option<SendLimits>>,
    state: Cell<Option<ControlState>>,
    least_burst: Cell<Option<u32>>,
    owns_recovery: Cell<Option<bool>>,
    /// What it allowed last, which counts until the run ends once the object has failed.
    last: Cell<SendLimits>,
}

impl Control {
    pub(super) fn new(config: &Config, setup: &Setup) -> Self {
        let rules = match setup.rules {
            Rules::Linux2620 => "linux_2_6_20",
            Rules::Linux6 => "linux_6",
            Rules::Inflated | Rules::Rfc => "rfc",
        };
        let created = create(config, Role::CongestionControl, |given| {
            given.set_item("mss", setup.mss)?;
            given.set_item("initial_cwnd", setup.initial_cwnd)?;
            given.set_item("rules", rules)?;
            given.set_item("seed", setup.seed)
        });
        let (object, hooks) = created.map_or_else(Default::default, |(object, all)| {
            (Some(object), Python::attach(|py| Hooks::new(all.bind(py))))
        });
        Self {
            object,
            hooks,
            mss: setup.mss,
            limits: Cell::new(None),
            state: Cell::new(None),
            least_burst: Cell::new(None),
            owns_recovery: Cell::new(None),
            last: Cell::new(SendLimits::window(setup.initial_cwnd.max(setup.mss))),
        }
    }

    /// Tells the object what has happened.
    fn tell<E>(&self, name: &str, hook: &Hook, event: E)
    where
        E: pyo3::PyClass + Into<PyClassInitializer<E>>,
    {
        let (Some(object), Some(hook)) = (&self.object, hook) else { return };
        object.call(name, |py| hook.call1(py, (Bound::new(py, event)?,)).map(drop));
        self.limits.set(None);
        self.state.set(None);
        self.least_burst.set(None);
        self.owns_recovery.set(None);
    }

    /// Asks the object; none if its class has no such hook, or if it fails. `read` gives none for an answer
    /// that is not `allowed`.
    fn ask<T>(
        &self,
        name: &str,
        hook: &Hook,
        allowed: impl FnOnce() -> String,
        read: impl FnOnce(&Bound<'_, PyAny>) -> Option<T>,
    ) -> Option<T> {
        let (Some(object), Some(hook)) = (&self.object, hook) else { return None };
        object.ask(name, hook, allowed, read)
    }

    /// A window in bytes, or a window and a pacing rate in bit/s or none.
    fn read_limits(&self, answer: &Bound<'_, PyAny>) -> Option<SendLimits> {
        if let Some(window) = whole(answer) {
            return self.is_window(window).then(|| SendLimits::window(window));
        }
        let (window, rate): (Bound<'_, PyAny>, Bound<'_, PyAny>) = answer.extract().ok()?;
        let cwnd = whole(&window).filter(|&window| self.is_window(window))?;
        if rate.is_none() {
            return Some(SendLimits::window(cwnd));
        }
        Some(SendLimits { cwnd, pacing_rate: Some(read_rate(&rate)?) })
    }

    fn is_window(&self, bytes: u32) -> bool {
        (self.mss..=MAX_WINDOW).contains(&bytes)
    }

    /// Window and threshold in bytes, the threshold none where there is none, and the phase.
    fn read_state(answer: &Bound<'_, PyAny>) -> Option<ControlState> {
        let (cwnd, threshold, phase): (Bound<'_, PyAny>, Bound<'_, PyAny>, String) = answer.extract().ok()?;
        let ssthresh = if threshold.is_none() { u32::MAX } else { whole(&threshold)? };
        Some(ControlState { cwnd: whole(&cwnd)?, ssthresh, phase: word_of(&phase)? })
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("object", &self.object).finish_non_exhaustive()
    }
}

impl CongestionControl for Control {
    fn on_ack(&mut self, event: &AckEvent) {
        self.tell("on_ack", &self.hooks.on_ack, PyAckEvent(*event));
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.tell("on_congestion", &self.hooks.on_congestion, PyCongestionEvent(*event));
    }

    fn limits(&self) -> SendLimits {
        let allowed = || {
            let mss = self.mss;
            format!(
                "allowed is a window in bytes, a whole number from {mss} (a segment) to {MAX_WINDOW}, or such a window and \
                 a pacing rate in bit/s, a number from 1 to 1e13 or None"
            )
        };
        kept(&self.limits, || {
            let limits = self.ask("limits", &self.hooks.limits, allowed, |answer| self.read_limits(answer));
            let limits = limits.unwrap_or_else(|| self.last.get());
            self.last.set(limits);
            limits
        })
    }

    fn state(&self) -> ControlState {
        let allowed = || {
            "allowed are the window and the threshold in bytes, whole numbers from 0 to 4294967295, the threshold also \
             None, and a word for the phase of at most 100 bytes (not more than 1000 different ones)"
                .to_owned()
        };
        kept(&self.state, || {
            self.ask("state", &self.hooks.state, allowed, Self::read_state).unwrap_or_else(|| {
                let cwnd = self.limits().cwnd;
                ControlState { cwnd, ssthresh: cwnd, phase: "" }
            })
        })
    }

    fn on_duplicate(&mut self, event: &DuplicateEvent) {
        self.tell("on_duplicate", &self.hooks.on_duplicate, PyDuplicateEvent(*event));
    }

    fn on_idle(&mut self, event: &IdleEvent) {
        self.tell("on_idle", &self.hooks.on_idle, PyIdleEvent(*event));
    }

    fn on_recovery_end(&mut self, event: &RecoveryEndEvent) {
        self.tell("on_recovery_end", &self.hooks.on_recovery_end, PyRecoveryEndEvent(*event));
    }

    fn on_undo(&mut self, event: &UndoEvent) {
        self.tell("on_undo", &self.hooks.on_undo, PyUndoEvent(*event));
    }

    fn on_arrival(&mut self, event: &ArrivalEvent) {
        self.tell("on_arrival", &self.hooks.on_arrival, PyArrivalEvent(*event));
    }

    fn on_lost(&mut self, event: &LostEvent) {
        self.tell("on_lost", &self.hooks.on_lost, PyLostEvent(*event));
    }

    fn least_burst(&self) -> u32 {
        let allowed = || "allowed is a whole number of segments from 1 to 1000".to_owned();
        let read = |answer: &Bound<'_, PyAny>| whole(answer).filter(|segments| (1..=1000).contains(segments));
        kept(&self.least_burst, || {
            self.ask("least_burst", &self.hooks.least_burst, allowed, read).unwrap_or(LEAST_BURST)
        })
    }

    fn owns_recovery(&self) -> bool {
        let allowed = || "allowed is True or False".to_owned();
        let read = |answer: &Bound<'_, PyAny>| answer.extract().ok();
        kept(&self.owns_recovery, || {
            self.ask("owns_recovery", &self.hooks.owns_recovery, allowed, read).unwrap_or(false)
        })
    }

    fn on_probe(&mut self, event: &ProbeEvent) {
        self.tell("on_probe", &self.hooks.on_probe, PyProbeEvent(*event));
    }

    fn on_rtt_sample(&mut self, event: &RttEvent) {
        self.tell("on_rtt_sample", &self.hooks.on_rtt_sample, PyRttEvent(*event));
    }

    fn on_sent(&mut self, event: &SentEvent) {
        self.tell("on_sent", &self.hooks.on_sent, PySentEvent(*event));
    }
}
