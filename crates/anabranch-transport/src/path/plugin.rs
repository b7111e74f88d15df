//! Path policies that are classes of the program around the library (see [`crate::plugin`]).

use super::PathSelector;
use super::failover::Settings;
use crate::plugin::{Config, Maker};

/// Makes a policy, with the profile's values for settings of failover, and this seed for its random numbers.
pub type Make = fn(&Config, profile: Settings, seed: u64) -> Box<dyn PathSelector + Send>;

/// What makes policies.
pub static MAKER: Maker<Make> = Maker::new();
