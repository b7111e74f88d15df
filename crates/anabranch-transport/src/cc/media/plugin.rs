//! Congestion controls of media that are classes of the program around the library (see [`crate::plugin`]).

use super::MediaControl;
use crate::plugin::{Config, Maker};

/// Makes a control for one path, with this seed for its random numbers.
pub type Make = fn(&Config, seed: u64) -> Box<dyn MediaControl + Send>;

/// What makes controls.
pub static MAKER: Maker<Make> = Maker::new();
