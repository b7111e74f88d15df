//! Data over a quiet network: RFC 9000 sections 2, 10 and 13, RFC 9002 section 7.

use crate::endpoint::{CloseReason, Command, Event};
use crate::flow::Side;
use crate::quic::Config;
use crate::quic::testing::{Pair, ms};

#[test]
fn both_ends_send_and_close_in_order() {
    let mut pair = Pair::open(&Config::default());
    pair.write(Side::A, 300_000);
    pair.write(Side::B, 200_000);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(ms(5_000));
    assert_eq!([pair.received_bytes(Side::A), pair.received_bytes(Side::B)], [200_000, 300_000]);
    assert_eq!([pair.closed(Side::A), pair.closed(Side::B)], [Some(CloseReason::Shutdown); 2]);
    assert!(pair.heard(Side::B, &Event::PeerFinished));
    assert_eq!(pair.ends[0].stats().packets_lost + pair.ends[1].stats().packets_lost, 0);
    assert_eq!(pair.ends[0].stats().bytes_retransmitted, 0);
    // A further connection of the same ends.
    pair.events = [Vec::new(), Vec::new()];
    pair.to_write = Default::default();
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 10_000);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(ms(5_000));
    assert_eq!(pair.received_bytes(Side::B), 10_000);
    assert_eq!([pair.closed(Side::A), pair.closed(Side::B)], [Some(CloseReason::Shutdown); 2]);
}

/// RFC 9002 section 7.7: after a pause a burst of at most the first window leaves at once, and what is more
/// is paced.
#[test]
fn a_burst_after_a_pause_is_the_first_window() {
    let mut pair = Pair::open(&Config::default());
    pair.write(Side::A, 200_000);
    pair.run_for(ms(3_000));
    for _ in 0..3 {
        pair.log.clear();
        pair.write(Side::A, 20_000);
        let begun = pair.now;
        pair.run_for(ms(1_000));
        let sent = pair.from(Side::A);
        let at_once = sent.iter().filter(|logged| logged.at == begun && !logged.data().is_empty()).count();
        assert_eq!(at_once, 10);
    }
    assert_eq!(pair.received_bytes(Side::B), 260_000);
}
