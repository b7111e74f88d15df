//! Drill tests: one short exchange per rule, in a notation like packetdrill's. The script says what the peer
//! sends and when, and what the endpoint must send. Each file holds a group of rules, and the names of tests
//! name the section.

mod accurate_ecn;
mod closing;
mod ecn;
mod fast_open;
mod kheirkhah;
mod opening;
mod receive_window;
mod receiving;
mod recovery;
mod sending;
mod slow_start;
mod sockets;
mod tail;
mod timeout;
mod undo;

use super::testing::config;
use super::{Config, Profile};
use crate::cc;

const SIZE: u32 = 1_460;

fn linux() -> Config {
    Config { cc: Some(reno()), ..config(Profile::Linux6) }
}

fn rfc() -> Config {
    Config { cc: Some(reno()), ..config(Profile::Rfc) }
}

fn reno() -> cc::Config {
    cc::Config::Reno(cc::reno::Config::default())
}
