//! Congestion controls that are classes of the program around the library (see [`crate::plugin`]).

use super::{CongestionControl, Setup};
use crate::plugin::{Config, Maker};

/// Makes a control for one path.
pub type Make = fn(&Config, &Setup) -> Box<dyn CongestionControl + Send>;

/// What makes controls.
pub static MAKER: Maker<Make> = Maker::new();
