//! What a listener would say of a call: codec, jitter buffer, loss pattern, E-model, MOS.

pub mod burst;
pub mod codecs;
pub mod emodel;
pub mod jitter_buffer;
pub mod simplified;

pub use burst::LossPattern;
pub use codecs::{Codec, CodecData};
pub use emodel::{mos_from_r, r_from_mos};
pub use jitter_buffer::{Fate, JitterBuffer, Slot, Talk};

/// One named term of a rating: symbol of the recommendation, value, meaning with unit.
pub type Term = (&'static str, f64, &'static str);
