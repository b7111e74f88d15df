//! Drills: one short exchange per rule of RFC 8684, with what must be on the wire.

mod abort;
mod accurate_ecn;
mod addresses;
mod backup;
mod closing;
mod damage;
mod data;
mod falling_back;
mod joining;
mod kheirkhah;
mod linux_failure;
mod linux_send_queue;
mod opening;
mod subflows;

use crate::endpoint::{Endpoint as _, Input};
use crate::flow::{Ecn, Side};
use crate::mptcp::testing::{Pair, Wire, config, ms};
use crate::mptcp::{Config, Profile};
use crate::wire::tcp::{Flags, Segment};
use crate::wire::{Body, Packet};

fn rfc() -> Config {
    config(Profile::Rfc8684)
}

fn wires(count: usize) -> Vec<Wire> {
    vec![Wire::default(); count]
}

fn mbps(rate: u64, millis: u64) -> Wire {
    Wire { delay: ms(millis), rate: Some(rate * 1_000_000), ..Wire::default() }
}

/// Gives an end a packet that came over this path.
fn deliver(pair: &mut Pair, side: Side, path: u8, size: u32, body: Body) {
    let packet = Packet { path: Pair::path(path), ecn: Ecn::NotEct, size, body };
    pair.input(side, Input::Packet(Box::new(packet)));
}

/// Gives an end a segment without MPTCP options.
fn inject(pair: &mut Pair, side: Side, path: u8, segment: Segment) {
    deliver(pair, side, path, 40, Body::Tcp(segment));
}

/// Resets the subflow on this path at A.
fn reset(pair: &mut Pair, path: u8) {
    let last = pair.log.iter().rev().find(|it| it.from == Side::B && it.path == path).expect("one");
    let mut segment = last.tcp.clone();
    segment.flags = Flags::RST;
    inject(pair, Side::A, path, segment);
}
