//! Schedulers that are objects of Python.

use std::fmt;

use anabranch_transport::flow::PathId;
use anabranch_transport::path::scheduler::{Decision, PathView, Pending, Scheduler as Trait};
use anabranch_transport::plugin::{Config, Role};
use anabranch_transport::time::Duration;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySequence, PyString};

use super::{Object, create, hook, told, whole};

told! { PyPending: "Pending" of Pending {
    now: u64 = |it| it.now.as_nanos(),
    bytes: u32 = |it| it.bytes,
    queued: u64 = |it| it.queued,
    receive_window: u32 = |it| it.receive_window,
} }

told! { PyPathView: "PathView" of PathView {
    path: u8 = |it| it.path.0,
    is_usable: bool = |it| it.is_usable,
    is_backup: bool = |it| it.is_backup,
    has_room: bool = |it| it.has_room,
    most: u32 = |it| it.most,
    srtt: Option<u64> = |it| it.srtt.map(Duration::as_nanos),
    rttvar: u64 = |it| it.rttvar.as_nanos(),
    cwnd: u32 = |it| it.cwnd,
    ssthresh: u32 = |it| it.ssthresh,
    outstanding: u32 = |it| it.outstanding,
    in_recovery: bool = |it| it.in_recovery,
} }

/// A scheduler whose decisions an object makes.
pub(super) struct Scheduler(Option<Parts>);

struct Parts {
    object: Object,
    schedule: Py<PyAny>,
    on_blocked: Option<Py<PyAny>>,
}

impl Scheduler {
    pub(super) fn new(config: &Config, seed: u64) -> Self {
        let created = create(config, Role::Scheduler, |given| given.set_item("seed", seed));
        Self(created.and_then(|(object, all)| {
            Python::attach(|py| {
                let all = all.bind(py);
                Some(Parts { object, schedule: hook(all, "schedule")?, on_blocked: hook(all, "on_blocked") })
            })
        }))
    }
}

/// A path with room, by its number.
fn path_of(answer: &Bound<'_, PyAny>, paths: &[PathView]) -> Option<PathId> {
    let path = PathId(whole(answer)?);
    paths.iter().any(|view| view.path == path && view.has_room).then_some(path)
}

/// A path, none, or several that are all different.
fn decision(answer: &Bound<'_, PyAny>, paths: &[PathView]) -> Option<Decision> {
    if answer.is_none() {
        return Some(Decision::Wait);
    }
    if let Some(path) = path_of(answer, paths) {
        return Some(Decision::Send(path));
    }
    let several = answer.cast::<PySequence>().ok().filter(|it| !it.is_instance_of::<PyString>())?;
    let mut chosen = Vec::new();
    for item in several.try_iter().ok()? {
        let path = path_of(&item.ok()?, paths).filter(|path| !chosen.contains(path))?;
        chosen.push(path);
    }
    Some(if chosen.is_empty() { Decision::Wait } else { Decision::Duplicate(chosen.into_iter().collect()) })
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scheduler").field(&self.0.as_ref().map(|parts| &parts.object)).finish()
    }
}

impl Trait for Scheduler {
    fn schedule(&mut self, data: &Pending, paths: &[PathView]) -> Decision {
        let Some(Parts { object, schedule, .. }) = &self.0 else { return Decision::Wait };
        let chosen = object.call("schedule", |py| {
            let views =
                paths.iter().map(|view| Py::new(py, PyPathView(*view))).collect::<PyResult<Vec<_>>>()?;
            let answer = schedule.call1(py, (Bound::new(py, PyPending(*data))?, PyList::new(py, views)?))?;
            let answer = answer.bind(py);
            let chosen = decision(answer, paths);
            if chosen.is_none() {
                let room = paths.iter().filter(|view| view.has_room).map(|view| view.path.0.to_string());
                let room = room.collect::<Vec<_>>().join(", ");
                let allowed =
                    format!("allowed is the number of a path with room ({room}), several of them, or None");
                object.refuse("schedule", answer, &allowed);
            }
            Ok(chosen)
        });
        chosen.flatten().unwrap_or(Decision::Wait)
    }

    fn on_blocked(&mut self) {
        let Some(Parts { object, on_blocked: Some(hook), .. }) = &self.0 else { return };
        object.call("on_blocked", |py| hook.call0(py).map(drop));
    }
}
