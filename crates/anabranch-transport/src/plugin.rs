//! Plug-ins: classes of the program that this library is part of, as models that a scenario names.
//!
//! The library knows no language but its own. A program that has classes registers a [`Host`], which finds
//! them, and for each kind of plug-in what makes an object of one (such as
//! [`cc::plugin::MAKER`](crate::cc::plugin::MAKER)); without a host, a scenario that names a class is
//! refused. What goes wrong in an object is noted here with [`fail`], for the run that is computed by the
//! same thread, which then ends with that sentence.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Duration;

/// The `kind` of a plug-in in scenarios.
pub const KIND: &str = "python";

/// A class of Python, and what its objects are made with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PluginConfig")]
pub struct Config {
    /// `module:Class`; the module is a file beside the scenario (`module.py`), or one that Python can import.
    pub class: String,
    /// The longest wall-clock time that one call of the object may take; after that the run ends with an
    /// error. Default: 10 s.
    #[serde(default = "default_call_time")]
    pub max_call_time: Duration,
    /// Keyword arguments for the class, each a number, a text or `true` or `false`. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Setting>,
}

const fn default_call_time() -> Duration {
    Duration::from_secs(10)
}

/// The value of a keyword argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a setting is a number, a text, true or false")]
pub enum Setting {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

/// What a class is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The congestion control of a path.
    CongestionControl,
    /// The congestion control of a flow of media.
    MediaControl,
    /// The path policy of an end of an association.
    PathPolicy,
    /// The queue discipline of one direction of a link.
    QueueDiscipline,
    /// The scheduler of a connection over several paths.
    Scheduler,
}

/// A program with classes.
pub trait Host: Sync {
    /// Whether there is such a class, for this role.
    ///
    /// # Errors
    /// One sentence that names the class and what is the matter with it.
    fn check(&self, config: &Config, role: Role) -> Result<(), String>;

    /// Names the source of a class, so that results of different sources are not mixed; the same wherever the
    /// source lies.
    fn source(&self, class: &str) -> String;
}

static HOST: OnceLock<&'static dyn Host> = OnceLock::new();

/// Makes the classes of this program known to scenarios, once.
pub fn register(host: &'static dyn Host) {
    let _ = HOST.set(host); // the first one stays
}

/// Names the source of a class: see [`Host::source`].
pub fn source(class: &str) -> String {
    HOST.get().map_or_else(|| class.to_owned(), |host| host.source(class))
}

impl Config {
    /// Whether the class can be used in this role.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self, role: Role) -> Result<(), String> {
        let Some(host) = HOST.get() else {
            return Err(format!(
                "kind = \"{KIND}\" needs a program with Python, such as the command `anabranch`; this one has none"
            ));
        };
        if self.max_call_time.is_zero() {
            return Err("max_call_time = 0 s is too short; it must be more than 0 s".into());
        }
        host.check(self, role)
    }
}

/// What makes the objects of one kind of plug-in.
#[derive(Debug)]
pub struct Maker<F>(OnceLock<F>);

impl<F: Copy> Maker<F> {
    #[expect(clippy::new_without_default, reason = "it is made for a static, which no default can be")]
    /// One that nothing is registered with yet.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Registers it, once, beside the host of the classes.
    pub fn register(&self, make: F) {
        let _ = self.0.set(make); // the first one stays
    }

    /// What makes the object that this thread is about to make, of a class whose settings have been checked.
    ///
    /// # Panics
    /// When there is none: a class is refused where nothing makes objects of it.
    pub fn get(&self) -> F {
        MADE.set(MADE.get().wrapping_add(1));
        *self.0.get().expect("a class is refused where nothing makes objects of it")
    }
}

thread_local! {
    static MADE: Cell<u64> = const { Cell::new(0) };
    static FAILURE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// How many objects this thread has made: when it changes while a run is built, the run has plug-ins.
pub fn made() -> u64 {
    MADE.get()
}

/// An object has failed: the run that this thread computes ends with this sentence. The first one counts, and
/// until the run ends its objects are not called any more.
pub fn fail(sentence: String) {
    FAILURE.with_borrow_mut(|failure| {
        failure.get_or_insert(sentence);
    });
}

/// Whether an object of the run that this thread computes has failed.
pub fn has_failed() -> bool {
    FAILURE.with_borrow(Option::is_some)
}

/// Takes the sentence of the object that has failed, if one has.
pub fn take_failure() -> Option<String> {
    FAILURE.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_needs_a_host() {
        let config: Config = serde_json::from_str(r#"{"class": "mine:Control"}"#).unwrap();
        assert_eq!(config.max_call_time, Duration::from_secs(10));
        let sentence = config.check(Role::CongestionControl).unwrap_err();
        assert_eq!(
            sentence,
            "kind = \"python\" needs a program with Python, such as the command `anabranch`; this one has none"
        );
        assert_eq!(source("mine:Control"), "mine:Control");
    }

    #[test]
    fn settings_keep_their_types() {
        let text = r#"{"class":"a:B","max_call_time":"1 s","settings":{"a":true,"b":2,"c":0.5,"d":"x"}}"#;
        let config: Config = serde_json::from_str(text).unwrap();
        let expected =
            [Setting::Flag(true), Setting::Integer(2), Setting::Number(0.5), Setting::Text("x".into())];
        assert_eq!(config.settings.values().cloned().collect::<Vec<_>>(), expected);
        assert_eq!(serde_json::to_string(&config).unwrap(), text);
    }

    #[test]
    fn the_first_failure_counts() {
        assert!(!has_failed());
        fail("one".into());
        fail("two".into());
        assert!(has_failed());
        assert_eq!(take_failure().as_deref(), Some("one"));
        assert!(!has_failed());
    }
}
