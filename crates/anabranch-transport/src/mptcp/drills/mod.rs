//! Drills: one short exchange per rule of RFC 8684, with what must be on the wire.

mod abort;
mod addresses;
mod backup;
mod closing;
mod damage;
mod data;
mod falling_back;
mod joining;
mod kheirkhah;
mod linux_failure;
mod opening;
mod subflows;

use crate::endpoint::Endpoint as _;
use crate::ground::Side;
use crate::mptcp::testing::{Pair, Wire, config, ms};
use crate::mptcp::{Config, Profile};
use crate::wire;

fn rfc() -> Config {
    config(Profile::Rfc8684)
}

fn wires(count: usize) -> Vec<Wire> {
    vec![Wire::default(); count]
}

fn mbps(rate: u64, millis: u64) -> Wire {
    Wire { delay: ms(millis), rate: Some(rate * 1_000_000), ..Wire::default() }
}

/// Gives an end a segment without MPTCP options.
fn inject(pair: &mut Pair, side: Side, path: u8, segment: wire::tcp::Segment) {
    let (body, ecn) = (crate::wire::Body::Tcp(segment), crate::ground::Ecn::NotEct);
    let packet = crate::wire::Packet { path: Pair::path(path), ecn, size: 40, body };
    pair.input(side, crate::endpoint::Input::Packet(Box::new(packet)));
}

/// Resets the subflow on this path at A.
fn reset(pair: &mut Pair, path: u8) {
    let last = pair.log.iter().rev().find(|it| it.from == Side::B && it.path == path).expect("one");
    let mut segment = last.tcp.clone();
    segment.flags = wire::tcp::Flags::RST;
    inject(pair, Side::A, path, segment);
}
