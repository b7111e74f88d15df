//! Drills of sections 3.5 and 3.6 of RFC 8684: connections that the peer gives up, and what a reset says.

use super::damage::give;
use crate::endpoint::CloseReason;
use crate::flow::Side;
use crate::mptcp::testing::{Logged, Pair, Wire, config, ms};
use crate::mptcp::{Config, Profile, Rejoin};
use crate::time::Duration;
use crate::wire::mptcp::{Options, Reset, Signal};
use crate::wire::tcp::Flags;

/// A pair with two subflows on which both ends have sent.
fn pair() -> Pair {
    let config = Config { rejoin: Some(Rejoin::Never), ..config(Profile::Rfc8684) };
    let mut pair = Pair::open(&config, vec![Wire::default(); 2]);
    pair.write(Side::A, 10_000);
    pair.write(Side::B, 10_000);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.received_bytes(Side::A), 10_000);
    pair
}

/// Gives A an `MP_FASTCLOSE` on path 0 with these flags, as many bytes before what A expects there as
/// `behind` says.
fn fast_close(pair: &mut Pair, flags: Flags, behind: i32) {
    let of_path_0 = |it: &&Logged| it.from == Side::B && it.path == 0 && it.payload.length == 0;
    let mut segment = pair.log.iter().rev().find(of_path_0).expect("it acknowledges").clone();
    segment.tcp.flags = flags;
    segment.tcp.sequence = segment.tcp.sequence.wrapping_add_signed(behind);
    segment.size = 20 + segment.tcp.wire_size() + 12;
    pair.log.clear();
    let options = Options { signal: Some(Signal::FastClose), ..Options::default() };
    give(pair, Side::A, segment, options);
    pair.run_for(ms(500));
}

fn resets(pair: &Pair, path: u8) -> Vec<Option<Reset>> {
    let of = pair.log.iter().filter(|it| it.from == Side::A && it.path == path);
    of.filter(|it| it.tcp.flags.has(Flags::RST)).map(|it| it.options.reset).collect()
}

/// `MP_FASTCLOSE` may come on an acknowledgement or on a reset; every subflow that is still there is reset.
#[test]
fn a_fast_close_resets_every_subflow() {
    let mut asked = pair();
    fast_close(&mut asked, Flags::ACK, 0);
    assert_eq!(asked.closed(Side::A), Some(CloseReason::Aborted));
    assert_eq!([0, 1].map(|path| resets(&asked, path)), [[Some(Reset::UNSPECIFIED)]; 2]);
    let mut told = pair();
    let late = told.log.iter().rev().find(|it| it.from == Side::B && it.path == 0).expect("it sends").clone();
    fast_close(&mut told, Flags::RST.with(Flags::ACK), 0);
    assert_eq!(told.closed(Side::A), Some(CloseReason::Aborted));
    assert_eq!(resets(&told, 0), [], "it is over there");
    assert_eq!(resets(&told, 1), [Some(Reset::UNSPECIFIED)]);
    // Nothing is left of that subflow, so that TCP alone answers what still comes.
    give(&mut told, Side::A, late, Options::default());
    told.run_for(ms(500));
    assert_eq!(resets(&told, 0), [None]);
}

/// RFC 9293 section 3.10.7.4 and RFC 5961 section 3: a segment that lies before what was acknowledged ends
/// nothing, and neither does a reset that is not exactly what is expected next.
#[test]
fn a_fast_close_with_other_numbers_is_not_believed() {
    for (flags, behind) in [(Flags::ACK, -100), (Flags::RST.with(Flags::ACK), 100)] {
        let mut pair = pair();
        fast_close(&mut pair, flags, behind);
        assert_eq!(pair.closed(Side::A), None, "{flags:?}");
        assert_eq!([0, 1].map(|path| resets(&pair, path).len()), [0; 2]);
        // An acknowledgement tells the peer what is expected.
        assert_eq!(pair.kinds(Side::A, 0), ["ack"]);
        pair.write(Side::A, 100_000);
        pair.run_for(Duration::from_secs(2));
        assert_eq!(pair.received_bytes(Side::B), 110_001);
    }
}
