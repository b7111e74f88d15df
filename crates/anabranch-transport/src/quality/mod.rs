//! How a listener would rate a call: codec, jitter buffer, loss pattern, E-model, MOS.
//!
//! This module is below the policies, as one of them chooses the path on which a call would be rated highest
//! ([`crate::path::echo`]). It is arithmetic on delays and losses that depends only on [`crate::time`].

pub mod burst;
pub mod codecs;
pub mod emodel;
pub mod jitter_buffer;
pub mod planning;
pub mod rating;
pub mod simplified;
pub mod wideband;

pub use burst::LossPattern;
pub use codecs::{Band, Codec, CodecData};
pub use emodel::{mos_from_r, r_from_mos};
pub use jitter_buffer::{JitterBuffer, Playout, Slot, Talk};
pub use rating::{CallParameters, EModel, Rating};

/// One named term of a rating: symbol of the recommendation, value, meaning with unit.
pub type Term = (&'static str, f64, &'static str);
