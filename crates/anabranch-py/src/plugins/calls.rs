//! Calls of objects: their errors, and how long they take.
//!
//! Every thread that calls objects has a slot with the number of the call in progress. The watchdog of
//! `anabranch.plugins` reads the slots from a thread of its own; where it finds the same call for too long,
//! it has Python raise an exception in that thread.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anabranch_transport::plugin::{self, Config};
use anabranch_transport::time::Duration;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use super::short_name;

/// A thread that calls objects.
struct Slot {
    /// Python's number for the thread.
    thread: u64,
    /// The call in progress; 0 for none.
    call: AtomicU64,
    /// The most that it may take, in nanoseconds.
    limit: AtomicU64,
    /// Whether an exception has been raised in it from outside. Only changed with Python's lock held.
    interrupted: AtomicBool,
}

static SLOTS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());
static LAST_CALL: AtomicU64 = AtomicU64::new(0);
/// Objects that there are.
static OBJECTS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SLOT: RefCell<Option<Arc<Slot>>> = const { RefCell::new(None) };
    static INTERRUPT: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Keeps an exception if it is the `KeyboardInterrupt` of a signal, for whoever reports that the run or the
/// scenario has failed; whether it is.
pub(super) fn keep_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    let is_interrupt = error.is_instance_of::<PyKeyboardInterrupt>(py);
    if is_interrupt {
        INTERRUPT.set(Some(error.clone_ref(py)));
    }
    is_interrupt
}

/// Takes the `KeyboardInterrupt` that a signal has raised within an object that this thread called.
pub(crate) fn take_interrupt() -> Option<PyErr> {
    INTERRUPT.take()
}

/// The slot of this thread.
fn slot(py: Python<'_>) -> PyResult<Arc<Slot>> {
    if let Some(slot) = SLOT.with_borrow(Clone::clone) {
        return Ok(slot);
    }
    let thread = py.import("threading")?.call_method0("get_ident")?.extract()?;
    let (call, limit) = (AtomicU64::new(0), AtomicU64::new(0));
    let slot = Arc::new(Slot { thread, call, limit, interrupted: AtomicBool::new(false) });
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    slots.retain(|slot| slot.strong_count() > 0);
    slots.push(Arc::downgrade(&slot));
    SLOT.set(Some(Arc::clone(&slot)));
    Ok(slot)
}

/// The calls in progress: thread, number, and seconds that it may take. None once there are no objects.
#[pyfunction]
pub(crate) fn plugin_calls() -> Option<Vec<(u64, u64, f64)>> {
    if OBJECTS.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let calls = slots.iter().filter_map(Weak::upgrade).filter_map(|slot| {
        let call = slot.call.load(Ordering::Relaxed);
        let limit = Duration::from_nanos(slot.limit.load(Ordering::Relaxed));
        (call != 0).then_some((slot.thread, call, limit.as_secs_f64()))
    });
    Some(calls.collect())
}

/// Interrupts a call unless it is over: `raise_` raises an exception in its thread, and does not give up
/// Python's lock meanwhile.
#[pyfunction]
#[pyo3(signature = (call, raise_, /))]
pub(crate) fn plugin_interrupt(call: u64, raise_: &Bound<'_, PyAny>) -> PyResult<()> {
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = slots.iter().filter_map(Weak::upgrade).find(|slot| slot.call.load(Ordering::Relaxed) == call);
    drop(slots);
    if let Some(slot) = found {
        slot.interrupted.store(true, Ordering::Relaxed);
        raise_.call0()?;
    }
    Ok(())
}

/// An object of a class of Python, or a class whose module is being read.
pub(crate) struct Object {
    class: Arc<str>,
    limit: Duration,
}

impl Object {
    /// Counts as an object for the watchdog, which `anabranch.plugins.loading` starts before it runs code of
    /// the class.
    pub(super) fn new(config: &Config) -> Self {
        OBJECTS.fetch_add(1, Ordering::Relaxed);
        Self { class: short_name(&config.class), limit: config.max_call_time }
    }

    /// Calls the hook of this name, which `body` does, and reads its answer. None if the object fails now or
    /// has failed before.
    pub(super) fn call<T>(&self, hook: &str, body: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if plugin::has_failed() {
            return None;
        }
        Python::attach(|py| {
            if let Some(result) = self.within_limit(py, body) {
                return result.map_err(|error| self.note(py, hook, error)).ok();
            }
            plugin::fail(format!("the hook {hook} of {} did not return within {}", self.class, self.limit));
            None
        })
    }

    /// Asks the hook of this name. `read` gives none for an answer that is not `allowed`; none also if the
    /// object fails now or has failed before.
    pub(super) fn ask<T>(
        &self,
        name: &str,
        hook: &Py<PyAny>,
        allowed: impl FnOnce() -> String,
        read: impl FnOnce(&Bound<'_, PyAny>) -> Option<T>,
    ) -> Option<T> {
        self.call(name, |py| {
            let answer = hook.bind(py).call0()?;
            let value = read(&answer);
            if value.is_none() {
                self.refuse(name, &answer, &allowed());
            }
            Ok(value)
        })?
    }

    /// Runs code of the class as a call that the watchdog knows of. None if it had to be interrupted.
    pub(super) fn within_limit<T>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(Python<'_>) -> PyResult<T>,
    ) -> Option<PyResult<T>> {
        let slot = match slot(py) {
            Ok(slot) => slot,
            Err(error) => return Some(Err(error)),
        };
        let outer = slot.call.load(Ordering::Relaxed);
        let outer_limit = slot.limit.load(Ordering::Relaxed);
        slot.limit.store(self.limit.as_nanos(), Ordering::Relaxed);
        slot.call.store(LAST_CALL.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let result = body(py);
        slot.limit.store(outer_limit, Ordering::Relaxed);
        slot.call.store(outer, Ordering::Relaxed);
        if slot.interrupted.swap(false, Ordering::Relaxed) {
            // The exception may still be on its way.
            let _ = py
                .import("anabranch.plugins.watchdog")
                .and_then(|watchdog| watchdog.call_method1("take_back", (slot.thread,)));
            return None;
        }
        Some(result)
    }

    /// The object has answered what it may not answer.
    pub(super) fn refuse(&self, hook: &str, answer: &Bound<'_, PyAny>, allowed: &str) {
        let shown = answer.repr().map_or_else(|_| "something".to_owned(), |text| short(&text.to_string()));
        plugin::fail(format!("the hook {hook} of {} returned {shown}; {allowed}", self.class));
    }

    fn note(&self, py: Python<'_>, hook: &str, error: PyErr) {
        if keep_interrupt(py, &error) {
            return plugin::fail("interrupted".into());
        }
        let kind = error.get_type(py).name().map_or_else(|_| "an error".to_owned(), |name| name.to_string());
        let words = error.value(py).str().map_or_else(|_| String::new(), |text| short(&text.to_string()));
        let words = if words.is_empty() { words } else { format!(": {words}") };
        let sentence = format!("the hook {hook} of {} raised {kind}{words}", self.class);
        // With its traceback.
        let error = error.into_value(py);
        let _ = super::loading(py).and_then(|module| module.call_method1("log", (&sentence, error)));
        plugin::fail(sentence);
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        OBJECTS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.class)
    }
}

/// The first line of a text, at most 200 characters of it.
fn short(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
