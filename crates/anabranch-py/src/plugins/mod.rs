//! Plug-ins: classes of Python as models of a run (docs/plugins.md).
//!
//! `anabranch.plugins` finds the classes, checks them and makes objects of them; here, these stand behind the
//! traits of the engine. An object that fails, in whatever way, is not called again, and the run ends.

mod calls;
pub(crate) mod control;
pub(crate) mod media;
pub(crate) mod policy;
pub(crate) mod queue;
pub(crate) mod scheduler;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch::net::qdisc;
use anabranch_transport::plugin::{self, Config, Host, Role, Setting};
use anabranch_transport::units::Rate;
use anabranch_transport::{cc, path};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use calls::keep_interrupt;
pub(crate) use calls::{Object, plugin_calls, plugin_interrupt, take_interrupt};

/// A class of what a hook is told, with attributes that are read when they are asked for.
macro_rules! told {
    ($name:ident: $python:literal of $inner:ty { $($field:ident: $type:ty = |$it:ident| $value:expr,)* }) => {
        #[pyo3::pyclass(frozen, name = $python, module = "anabranch._engine")]
        pub(crate) struct $name($inner);

        #[pyo3::pymethods]
        impl $name {
            $(#[getter]
            fn $field(&self) -> $type {
                let $it = &self.0;
                $value
            })*

            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                let mut values = Vec::new();
                $(values.push(format!("{}={}", stringify!($field), slf.getattr(stringify!($field))?.repr()?));)*
                Ok(format!("{}({})", $python, values.join(", ")))
            }
        }
    };
}
use told;

/// The classes of this process.
struct Classes;

static CLASSES: Classes = Classes;

/// Makes classes known to scenarios.
pub(crate) fn register() {
    plugin::register(&CLASSES);
    cc::plugin::MAKER.register(|config, setup| Box::new(control::Control::new(config, setup)));
    cc::media::plugin::MAKER.register(|config, seed| Box::new(media::Media::new(config, seed)));
    qdisc::plugin::MAKER.register(|config, seed| Box::new(queue::Queue::new(config, seed)));
    path::plugin::MAKER
        .register(|config, profile, seed| Box::new(policy::Policy::new(config, profile, seed)));
    path::scheduler::plugin::MAKER.register(|config, seed| Box::new(scheduler::Scheduler::new(config, seed)));
}

impl Host for Classes {
    fn check(&self, config: &Config, role: Role) -> Result<(), String> {
        let object = Object::new(config);
        Python::attach(|py| {
            // The module's own code runs when it is imported.
            let answer = object.within_limit(py, |py| {
                let answer = loading(py)?.call_method1(intern!(py, "check"), (&config.class, word(role)))?;
                answer.extract::<Option<String>>()
            });
            let Some(answer) = answer else {
                let (class, limit) = (short_name(&config.class), config.max_call_time);
                return Some(format!(
                    "class = \"{class}\" cannot be used: reading it did not end within {limit}"
                ));
            };
            answer.unwrap_or_else(|error| {
                keep_interrupt(py, &error);
                Some(error.to_string())
            })
        })
        .map_or(Ok(()), Err)
    }

    fn source(&self, class: &str) -> String {
        let named = |py: Python<'_>| loading(py)?.call_method1(intern!(py, "source"), (class,))?.extract();
        // One that cannot be read cannot be run, either.
        Python::attach(named).unwrap_or_else(|_: PyErr| class.to_owned())
    }
}

/// The module that finds classes.
fn loading(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "anabranch.plugins.loading"))
}

/// A role in `anabranch.plugins.loading`.
const fn word(role: Role) -> &'static str {
    match role {
        Role::CongestionControl => "congestion control",
        Role::MediaControl => "congestion control of media",
        Role::PathPolicy => "path policy",
        Role::QueueDiscipline => "queue discipline",
        Role::Scheduler => "scheduler",
    }
}

/// An object of a class, and its hooks by name: those that its class does not have itself are missing.
fn create(
    config: &Config,
    role: Role,
    setup: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
) -> Option<(Object, Py<PyDict>)> {
    let object = Object::new(config);
    let hooks = object.call("__init__", |py| {
        let (given, settings) = (PyDict::new(py), PyDict::new(py));
        setup(&given)?;
        for (name, value) in &config.settings {
            match value {
                Setting::Flag(flag) => settings.set_item(name, flag)?,
                Setting::Integer(number) => settings.set_item(name, number)?,
                Setting::Number(number) => settings.set_item(name, number)?,
                Setting::Text(text) => settings.set_item(name, text)?,
            }
        }
        let arguments = (&config.class, word(role), given, settings);
        let hooks = loading(py)?.call_method1(intern!(py, "create"), arguments)?;
        Ok(hooks.cast_into::<PyDict>()?.unbind())
    })?;
    Some((object, hooks))
}

/// The hook of this name, if the class has it.
fn hook(hooks: &Bound<'_, PyDict>, name: &str) -> Option<Py<PyAny>> {
    hooks.get_item(PyString::new(hooks.py(), name)).ok().flatten().map(Bound::unbind)
}

/// A whole number; a flag is none.
fn whole<'py, T: FromPyObjectOwned<'py>>(value: &Bound<'py, PyAny>) -> Option<T> {
    if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() }
}

/// A rate in bit/s, a number from 1 to 1e13.
fn read_rate(value: &Bound<'_, PyAny>) -> Option<Rate> {
    let rate: f64 = value.extract().ok()?;
    (1.0..=1e13).contains(&rate).then(|| Rate::from_bits_per_sec(rate as u64))
}

/// The answer that is kept, or else a new one, which is kept then.
fn kept<T: Copy>(answer: &Cell<Option<T>>, ask: impl FnOnce() -> T) -> T {
    answer.get().unwrap_or_else(|| {
        let new = ask();
        answer.set(Some(new));
        new
    })
}

/// The most different words that objects may have for phases, reasons and units.
const MAX_WORDS: usize = 1000;

/// A word of an object for the rest of the process; none if it is too long or there are too many.
fn word_of(word: &str) -> Option<&'static str> {
    static WORDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.get(word) {
        return Some(known);
    }
    if words.len() >= MAX_WORDS || word.len() > 100 {
        return None;
    }
    let kept: &'static str = Box::leak(word.to_owned().into_boxed_str());
    words.insert(kept);
    Some(kept)
}

/// The class as messages name it: without the folder of its file.
fn short_name(class: &str) -> Arc<str> {
    class.rsplit(['/', '\\']).next().unwrap_or(class).into()
}
