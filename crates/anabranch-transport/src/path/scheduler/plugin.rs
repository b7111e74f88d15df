//! Schedulers that are classes of the program around the library (see [`crate::plugin`]).

use super::Scheduler;
use crate::plugin::{Config, Maker};

/// Makes a scheduler, with this seed for its random numbers.
pub type Make = fn(&Config, seed: u64) -> Box<dyn Scheduler + Send>;

/// What makes schedulers.
pub static MAKER: Maker<Make> = Maker::new();
