//! Congestion controls of media that are objects of Python.

use std::cell::Cell;
use std::fmt;

use anabranch_transport::cc::media::{Feedback, Limits, MediaControl, PacketReport};
use anabranch_transport::flow::Ecn;
use anabranch_transport::plugin::{Config, Role};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Rate;
use pyo3::prelude::*;

use super::{Object, create, hook, kept, read_rate, told, whole};

/// What a feedback message says, for as long as the object keeps it.
pub(crate) struct Reported {
    now: Time,
    rtt: Duration,
    packets: Vec<PacketReport>,
}

told! { PyMediaFeedback: "MediaFeedback" of Reported {
    now: u64 = |it| it.now.as_nanos(),
    rtt: u64 = |it| it.rtt.as_nanos(),
    packets: Vec<PyPacketReport> = |it| it.packets.iter().map(|&report| PyPacketReport(report)).collect(),
} }

told! { PyPacketReport: "PacketReport" of PacketReport {
    sent: u64 = |it| it.sent.as_nanos(),
    size: u32 = |it| it.size,
    arrival: Option<u64> = |it| it.arrival.map(|(at, _)| at.as_nanos()),
    is_marked: bool = |it| it.arrival.is_some_and(|(_, ecn)| ecn == Ecn::Ce),
} }

/// What a control allows until its object has said anything: nothing worth the name.
const NOTHING: Rate = Rate::from_bits_per_sec(1);

/// A control whose decisions an object makes. What it answers is kept until it is told something.
pub(super) struct Media {
    /// None if it could not be made.
    parts: Option<Parts>,
    limits: Cell<Option<Limits>>,
    /// What it allowed last, which counts until the run ends once the object has failed.
    last: Cell<Limits>,
    /// When the next tick is; never if there is none.
    next_tick: Cell<Option<Time>>,
    /// The time of what it was told last.
    now: Time,
}

struct Parts {
    object: Object,
    limits: Py<PyAny>,
    on_sent: Option<Py<PyAny>>,
    on_feedback: Option<Py<PyAny>>,
    on_tick: Option<Py<PyAny>>,
    next_tick: Option<Py<PyAny>>,
}

impl Media {
    pub(super) fn new(config: &Config, seed: u64) -> Self {
        let created = create(config, Role::MediaControl, |given| given.set_item("seed", seed));
        let parts = created.and_then(|(object, all)| {
            let hooks = Python::attach(|py| {
                let all = all.bind(py);
                ["limits", "on_sent", "on_feedback", "on_tick", "next_tick"].map(|name| hook(all, name))
            });
            let [limits, on_sent, on_feedback, on_tick, next_tick] = hooks;
            Some(Parts { object, limits: limits?, on_sent, on_feedback, on_tick, next_tick })
        });
        Self {
            parts,
            limits: Cell::new(None),
            last: Cell::new(Limits::paced(NOTHING)),
            next_tick: Cell::new(None),
            now: Time::ZERO,
        }
    }

    /// Calls a hook that the class has.
    fn tell(
        &self,
        name: &str,
        hook: Option<&Py<PyAny>>,
        call: impl FnOnce(Python<'_>, &Py<PyAny>) -> PyResult<()>,
    ) {
        let (Some(parts), Some(hook)) = (&self.parts, hook) else { return };
        parts.object.call(name, |py| call(py, hook));
        self.limits.set(None);
        self.next_tick.set(None);
    }

    /// When the object wants a tick; never if it wants none, or fails.
    fn ask_next_tick(&self) -> Time {
        let now = self.now.as_nanos();
        let allowed = || format!("allowed is a time in nanoseconds after {now}, now, or None");
        let read = |answer: &Bound<'_, PyAny>| {
            if answer.is_none() {
                return Some(Time::NEVER);
            }
            whole(answer).filter(|&time| time > now).map(Time::from_nanos)
        };
        let asked = self
            .parts
            .as_ref()
            .and_then(|parts| parts.object.ask("next_tick", parts.next_tick.as_ref()?, allowed, read));
        asked.unwrap_or(Time::NEVER)
    }
}

/// A rate in bit/s, or two.
fn read_limits(answer: &Bound<'_, PyAny>) -> Option<Limits> {
    if let Some(target) = read_rate(answer) {
        return Some(Limits::paced(target));
    }
    let (target, pacing): (Bound<'_, PyAny>, Bound<'_, PyAny>) = answer.extract().ok()?;
    Some(Limits { pacing: read_rate(&pacing)?, ..Limits::paced(read_rate(&target)?) })
}

impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.parts.as_ref().map(|parts| &parts.object);
        f.debug_struct("Media").field("object", &object).finish_non_exhaustive()
    }
}

impl MediaControl for Media {
    fn on_sent(&mut self, now: Time, size: u32) {
        self.now = now;
        let hook = self.parts.as_ref().and_then(|parts| parts.on_sent.as_ref());
        self.tell("on_sent", hook, |py, hook| hook.call1(py, (now.as_nanos(), size)).map(drop));
    }

    fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        let hook = self.parts.as_ref().and_then(|parts| parts.on_feedback.as_ref());
        self.now = feedback.now;
        let reported = Reported { now: feedback.now, rtt: feedback.rtt, packets: feedback.packets.to_vec() };
        self.tell("on_feedback", hook, |py, hook| {
            hook.call1(py, (Bound::new(py, PyMediaFeedback(reported))?,)).map(drop)
        });
    }

    fn timeout(&self) -> Time {
        kept(&self.next_tick, || self.ask_next_tick())
    }

    fn on_timeout(&mut self, now: Time) {
        if self.timeout() > now {
            return;
        }
        self.now = now;
        let hook = self.parts.as_ref().and_then(|parts| parts.on_tick.as_ref());
        self.tell("on_tick", hook, |py, hook| hook.call1(py, (now.as_nanos(),)).map(drop));
        // Also where the class has no such hook.
        self.next_tick.set(None);
    }

    fn limits(&self) -> Limits {
        let allowed = || {
            "allowed is the target in bit/s, a number from 1 to 1e13, or the target and such a pacing rate"
                .to_owned()
        };
        kept(&self.limits, || {
            let asked = self
                .parts
                .as_ref()
                .and_then(|parts| parts.object.ask("limits", &parts.limits, allowed, read_limits));
            let limits = asked.unwrap_or_else(|| self.last.get());
            self.last.set(limits);
            limits
        })
    }
}
