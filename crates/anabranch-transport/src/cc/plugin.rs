//! Congestion controls that are classes of the program around the library (see [`crate::plugin`]).

use std::sync::OnceLock;

use super::{CongestionControl, Setup};
use crate::plugin::{Config, note_made};

/// Makes a control of a class whose settings have been checked.
pub type Maker = fn(&Config, &Setup) -> Box<dyn CongestionControl + Send>;

static MAKER: OnceLock<Maker> = OnceLock::new();

/// Registers what makes controls, once, beside the host of their classes.
pub fn register(maker: Maker) {
    let _ = MAKER.set(maker); // the first one stays
}

/// A control for one path.
pub(super) fn build(config: &Config, setup: &Setup) -> Box<dyn CongestionControl + Send> {
    note_made();
    let maker = MAKER.get().expect("a class is refused where nothing makes objects of it");
    maker(config, setup)
}
