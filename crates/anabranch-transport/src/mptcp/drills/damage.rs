//! Drills of section 3.7 of RFC 8684: what is done about a mapping whose checksum is wrong.

use super::deliver;
use crate::endpoint::CloseReason;
use crate::ground::Side;
use crate::mptcp::testing::{Logged, Pair, Wire, config, ms};
use crate::mptcp::{Config, Profile, Rejoin};
use crate::time::Duration;
use crate::wire::Body;
use crate::wire::mptcp::{Options, Segment, Signal};
use crate::wire::tcp::Flags;

fn checked() -> Config {
    Config { checksums: Some(true), rejoin: Some(Rejoin::Never), ..config(Profile::Rfc8684) }
}

/// Gives an end a segment that is like this one, but with other options.
pub(super) fn give(pair: &mut Pair, side: Side, like: Logged, options: Options) {
    let Logged { tcp, size, path, .. } = like;
    let option_bytes = size - 20 - tcp.wire_size();
    let body = Body::Mptcp(Segment { tcp, options, option_bytes });
    deliver(pair, side, path, size, body);
}

/// Loses a segment of A's data on this path and delivers it to B damaged. Returns its place in the stream.
fn damage(pair: &mut Pair, path: u8) -> u64 {
    pair.drop_if = Box::new(move |it| it.from == Side::A && it.path == path && it.payload.length > 0);
    pair.write(Side::A, 100_000);
    pair.drop_if = Box::new(|_| false);
    let is_data = |it: &&Logged| it.from == Side::A && it.path == path && it.payload.length > 0;
    let sent = pair.log.iter().find(is_data).expect("it carries data").clone();
    assert!(sent.options.has_checksum);
    pair.log.clear();
    let options = Options { is_damaged: true, ..sent.options };
    give(pair, Side::B, sent, options);
    options.data_position.expect("it is mapped")
}

fn closed(pair: &Pair) -> [Option<CloseReason>; 2] {
    [Side::A, Side::B].map(|side| pair.closed(side))
}

/// If there is another subflow, this one is reset with `MP_FAIL` and `MP_TCPRST`.
#[test]
fn a_damaged_mapping_ends_its_subflow() {
    let mut pair = Pair::open(&checked(), vec![Wire::default(); 2]);
    let position = damage(&mut pair, 0);
    let reset = pair.log.iter().find(|it| it.from == Side::B).expect("it answers");
    assert!(reset.path == 0 && reset.tcp.flags.has(Flags::RST), "{reset:?}");
    assert_eq!(reset.options.signal, Some(Signal::Fail { position }));
    assert_eq!(reset.options.reset.map(|reset| reset.reason), Some(6), "a middlebox interferes");
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.received_bytes(Side::B), 100_001);
    assert_eq!(pair.kinds(Side::B, 0).len(), 1, "nothing more goes there");
    assert_eq!(closed(&pair), [None; 2]);
}

/// Without another subflow, the connection cannot continue.
#[test]
fn a_damaged_mapping_of_the_only_subflow_ends_the_connection() {
    let mut pair = Pair::open(&checked(), vec![Wire::default()]);
    damage(&mut pair, 0);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.kinds(Side::B, 0), ["mp_fastclose"]);
    assert_eq!(closed(&pair), [Some(CloseReason::Aborted); 2]);
    assert_eq!(pair.received_bytes(Side::B), 1);
}

/// A peer may report the damage on an acknowledgement. If there are several subflows, this one ends; if there
/// is only one, the peer wishes to go on with an infinite mapping, which is not implemented here.
#[test]
fn a_subflow_whose_data_arrives_damaged_is_given_up() {
    for (paths, ends) in [(1, Some(CloseReason::Aborted)), (2, None)] {
        let mut pair = Pair::open(&checked(), vec![Wire::default(); paths]);
        pair.write(Side::A, 10_000);
        pair.run_for(ms(500));
        let of_path_0 = |it: &&Logged| it.from == Side::B && it.path == 0;
        let mut ack = pair.log.iter().rev().find(of_path_0).expect("it acknowledges").clone();
        ack.size = 20 + ack.tcp.wire_size() + 20;
        let options = Options { signal: Some(Signal::Fail { position: 1 }), ..ack.options };
        pair.log.clear();
        give(&mut pair, Side::A, ack, options);
        pair.write(Side::A, 10_000);
        pair.run_for(Duration::from_secs(1));
        assert_eq!(closed(&pair), [ends; 2]);
        let first = pair.log.iter().find(|it| it.from == Side::A && it.path == 0).expect("it answers");
        assert!(ends.is_some() || first.tcp.flags.has(Flags::RST), "{first:?}");
        assert_eq!(pair.received_bytes(Side::B), if ends.is_some() { 10_001 } else { 20_001 });
    }
}
