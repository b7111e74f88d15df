//! What a reader says of captures that are written here byte by byte.

mod common;
mod formats;
mod hostile;
mod layers;
mod transports;
