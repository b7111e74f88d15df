//! Queue disciplines that are objects of Python.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch::net::qdisc::plugin::{Dropped, PluginQueue, QueuedPacket, Sent};
use anabranch_transport::flow::Ecn;
use anabranch_transport::plugin::{Config, Role};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::{Object, create, hook, whole};

/// A packet that waits in a queue.
#[pyclass(name = "Packet", module = "anabranch._engine")]
pub(crate) struct PyPacket {
    packet: QueuedPacket,
    arrived: u64,
    /// The queue that it is in.
    queue: u64,
    is_waiting: bool,
    is_marked: bool,
}

#[pymethods]
impl PyPacket {
    #[getter]
    fn arrived(&self) -> u64 {
        self.arrived
    }

    #[getter]
    fn size(&self) -> u32 {
        self.packet.size
    }

    #[getter]
    fn ecn(&self) -> &'static str {
        match self.packet.ecn {
            Ecn::NotEct => "not_ect",
            Ecn::Ect0 => "ect0",
            Ecn::Ect1 => "ect1",
            Ecn::Ce => "ce",
        }
    }

    #[getter]
    fn flow(&self) -> u32 {
        self.packet.flow
    }

    #[getter]
    fn hosts(&self) -> (u8, u8) {
        let [from, to] = self.packet.hosts;
        (from, to)
    }

    #[getter]
    fn dscp(&self) -> u8 {
        self.packet.dscp.number()
    }

    /// Marks it; false if its transport does not understand marks.
    fn mark(&mut self) -> bool {
        let is_capable = self.packet.ecn != Ecn::NotEct;
        self.is_marked |= is_capable;
        is_capable
    }

    fn __repr__(&self) -> String {
        let Self { packet: QueuedPacket { id, size, flow, .. }, arrived, .. } = self;
        format!("Packet(number={id}, size={size}, flow={flow}, arrived={arrived})")
    }
}

/// What a queue drops.
#[pyclass(name = "Drops", module = "anabranch._engine")]
pub(crate) struct PyDrops {
    queue: u64,
    dropped: Vec<Dropped>,
}

#[pymethods]
impl PyDrops {
    /// Drops a packet for which there is no room.
    #[pyo3(signature = (packet, /))]
    fn overflow(&mut self, packet: &mut PyPacket) -> PyResult<()> {
        self.drop_one(packet, true)
    }

    /// Drops a packet before the queue is full.
    #[pyo3(signature = (packet, /))]
    fn early(&mut self, packet: &mut PyPacket) -> PyResult<()> {
        self.drop_one(packet, false)
    }
}

impl PyDrops {
    fn drop_one(&mut self, packet: &mut PyPacket, is_overflow: bool) -> PyResult<()> {
        if packet.queue != self.queue || !packet.is_waiting {
            return Err(PyValueError::new_err("the packet does not wait in this queue"));
        }
        packet.is_waiting = false;
        self.dropped.push(Dropped { id: packet.packet.id, is_overflow });
        Ok(())
    }
}

/// A number that no queue has had.
fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// A discipline whose decisions an object makes.
pub(super) struct Queue {
    /// None if it could not be made.
    parts: Option<Parts>,
    /// Packets that wait.
    waiting: u64,
    not_before: u64,
}

struct Parts {
    object: Object,
    /// This queue's number.
    number: u64,
    drops: Py<PyDrops>,
    enqueue: Py<PyAny>,
    dequeue: Py<PyAny>,
    not_before: Option<Py<PyAny>>,
    clear: Py<PyAny>,
}

impl Queue {
    pub(super) fn new(config: &Config, seed: u64) -> Self {
        let created = create(config, Role::QueueDiscipline, |given| given.set_item("seed", seed));
        let parts = created.and_then(|(object, all)| {
            let number = next_number();
            Python::attach(|py| {
                let all = all.bind(py);
                let drops = Py::new(py, PyDrops { queue: number, dropped: Vec::new() }).ok()?;
                let [enqueue, dequeue, clear] = ["enqueue", "dequeue", "clear"].map(|name| hook(all, name));
                let not_before = hook(all, "not_before");
                Some(Parts {
                    object,
                    number,
                    drops,
                    enqueue: enqueue?,
                    dequeue: dequeue?,
                    not_before,
                    clear: clear?,
                })
            })
        });
        Self { parts, waiting: 0, not_before: u64::MAX }
    }

    /// Notes what the object has dropped, also before it failed.
    fn collect(&mut self, dropped: &mut Vec<Dropped>) {
        let Some(parts) = &self.parts else { return };
        let news = Python::attach(|py| std::mem::take(&mut parts.drops.borrow_mut(py).dropped));
        self.waiting -= news.len() as u64;
        dropped.extend(news);
    }
}

impl Parts {
    /// The packet to send, or how long to wait: `waiting` says how many packets there are, those that the
    /// object drops now included.
    fn dequeue(&self, now: u64, waiting: u64) -> Option<Result<Sent, u64>> {
        let Self { object, number, drops, dequeue, not_before, .. } = self;
        object.call("dequeue", |py| {
            let answer = dequeue.call1(py, (now, drops))?.into_bound(py);
            if let Ok(packet) = answer.cast::<PyPacket>() {
                let mut packet = packet.borrow_mut();
                if packet.queue == *number && packet.is_waiting {
                    packet.is_waiting = false;
                    return Ok(Some(Ok(Sent { id: packet.packet.id, is_marked: packet.is_marked })));
                }
            }
            if !answer.is_none() {
                object.refuse("dequeue", &answer, "allowed is a packet that waits in the queue, or None");
                return Ok(None);
            }
            let left = waiting - drops.borrow(py).dropped.len() as u64;
            if left == 0 {
                return Ok(Some(Err(u64::MAX)));
            }
            let time = match not_before {
                Some(hook) => hook.call0(py)?.into_bound(py),
                None => py.None().into_bound(py),
            };
            let at = whole::<u64>(&time).filter(|&at| at > now);
            if at.is_none() {
                let allowed = format!(
                    "while packets wait ({left} here) and dequeue returns None, allowed is a time in nanoseconds after \
                     {now}, now"
                );
                object.refuse("not_before", &time, &allowed);
            }
            Ok(at.map(Err))
        })?
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.parts.as_ref().map(|parts| &parts.object);
        f.debug_struct("Queue")
            .field("object", &object)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl PluginQueue for Queue {
    fn enqueue(&mut self, now: u64, packet: &QueuedPacket, dropped: &mut Vec<Dropped>) {
        self.waiting += 1;
        let Some(parts) = &self.parts else { return };
        let packet = PyPacket {
            packet: *packet,
            arrived: now,
            queue: parts.number,
            is_waiting: true,
            is_marked: false,
        };
        parts.object.call("enqueue", |py| {
            parts.enqueue.call1(py, (now, Bound::new(py, packet)?, &parts.drops)).map(drop)
        });
        self.collect(dropped);
    }

    fn dequeue(&mut self, now: u64, dropped: &mut Vec<Dropped>) -> Option<Sent> {
        self.not_before = u64::MAX;
        let answer = self.parts.as_ref()?.dequeue(now, self.waiting);
        self.collect(dropped);
        match answer? {
            Ok(sent) => {
                self.waiting -= 1;
                Some(sent)
            }
            Err(time) => {
                self.not_before = time;
                None
            }
        }
    }

    fn not_before(&self) -> u64 {
        self.not_before
    }

    fn clear(&mut self, now: u64) {
        self.waiting = 0;
        let Some(parts) = &mut self.parts else { return };
        parts.object.call("clear", |py| parts.clear.call1(py, (now, &parts.drops)).map(drop));
        // The packets that it had are those of no queue from now on.
        parts.number = next_number();
        Python::attach(|py| {
            *parts.drops.borrow_mut(py) = PyDrops { queue: parts.number, dropped: Vec::new() };
        });
    }
}
