//! Schedulers that are classes of the program around the library (see [`crate::plugin`]).

use std::sync::OnceLock;

use super::Scheduler;
use crate::plugin::{Config, note_made};

/// Makes a scheduler of a class whose settings have been checked, with this seed for its random numbers.
pub type Maker = fn(&Config, seed: u64) -> Box<dyn Scheduler + Send>;

static MAKER: OnceLock<Maker> = OnceLock::new();

/// Registers what makes schedulers, once, beside the host of their classes.
pub fn register(maker: Maker) {
    let _ = MAKER.set(maker); // the first one stays
}

/// A scheduler.
pub(super) fn build(config: &Config, seed: u64) -> Box<dyn Scheduler + Send> {
    note_made();
    let maker = MAKER.get().expect("a class is refused where nothing makes objects of it");
    maker(config, seed)
}
