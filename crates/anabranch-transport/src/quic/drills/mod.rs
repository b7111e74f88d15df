//! Drills: what an end does, step by step, by section of RFC 9000 and RFC 9002.

mod ack_frequency;
mod closing;
mod early_data;
mod handshake;
mod key_update;
mod loss;
mod migration;
mod multipath;
mod path_attacks;
mod path_choice;
mod rebinding;
mod service;
mod strangers;
mod streams;
mod transfer;
