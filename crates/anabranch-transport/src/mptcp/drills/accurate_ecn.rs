//! RFC 9768 over subflows: its option has the room that the options of MPTCP leave.

use super::*;
use crate::endpoint::Command;
use crate::mptcp::testing::Logged;
use crate::tcp;
use crate::tcp::config::EcnMode;
use crate::time::Duration;
use crate::wire::tcp::MAX_OPTION_BYTES;

fn accurate(profile: Profile) -> Config {
    let tcp = tcp::Config { ecn: Some(EcnMode::Accurate), ..tcp::Config::default() };
    Config { tcp: Some(tcp), ..config(profile) }
}

/// How many counters the option of a segment has, if there is one.
fn counters(logged: &Logged) -> Option<usize> {
    logged.tcp.rare.as_ref().and_then(|rare| rare.accurate_ecn.as_ref()).map(|option| option.counters.len())
}

fn bytes_of_mptcp(logged: &Logged) -> u32 {
    logged.size - 20 - logged.tcp.wire_size()
}

/// Section 3.2.3.2.1: the SYN-ACK, its acknowledgement and the first data have the option, with as many
/// counters as fit. With timestamps and `MP_CAPABLE` that is 8 bytes, and 4 where data has both keys; with
/// `MP_JOIN` it is 4, and one more in the SYN-ACK, whose window scale is padded.
#[test]
fn rfc9768_3_2_3_2_1_the_handshakes_have_what_fits() {
    let mut pair = Pair::new(&accurate(Profile::Linux6), wires(2));
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 1_000_000);
    pair.run_for(ms(600));
    let of = |kind: &str| {
        let logged = pair.log.iter().find(|logged| logged.kind == kind).expect(kind);
        (bytes_of_mptcp(logged), counters(logged))
    };
    assert_eq!(of("mp_capable_syn"), (4, None), "no SYN has it");
    assert_eq!(of("mp_capable_syn_ack"), (12, Some(2)));
    assert_eq!(of("mp_capable_ack"), (20, Some(2)));
    assert_eq!(of("mp_join_syn"), (12, None));
    assert_eq!(of("mp_join_syn_ack"), (16, Some(1)), "in the padding of the window scale");
    assert_eq!(of("mp_join_ack"), (24, Some(0)));
}

/// Section 3.2.3.3: an acknowledgement with SACK blocks and a data acknowledgement has what is left, two
/// blocks first. What did not fit is said as soon as there is room, so both ends have the same counts in the
/// end.
#[test]
fn rfc9768_3_2_3_3_what_does_not_fit_is_said_later() {
    let mut pair = Pair::open(&accurate(Profile::Linux6), vec![mbps(10, 20); 2]);
    // Each seventh packet with data is marked, and each eleventh lost.
    let (mut to_mark, mut to_lose) = (0, 0);
    pair.meddle = Box::new(move |from, packet| {
        if from == Side::A && packet.ecn != Ecn::NotEct {
            to_mark += 1;
            if to_mark % 7 == 0 {
                packet.ecn = Ecn::Ce;
            }
        }
    });
    pair.drop_if = Box::new(move |logged| {
        to_lose += u32::from(logged.payload.length > 1_000);
        logged.payload.length > 1_000 && to_lose % 11 == 0
    });
    pair.write(Side::A, 400_000);
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.received_bytes(Side::B), 400_001);
    let acks: Vec<_> = pair.log.iter().filter(|it| it.from == Side::B && it.payload.length == 0).collect();
    let with_blocks: Vec<_> = acks.iter().filter(|it| !it.tcp.sack.is_empty()).collect();
    assert!(with_blocks.len() > 20, "{}", with_blocks.len());
    for ack in &with_blocks {
        // With timestamps and a data acknowledgement, 16 bytes are left: one block, and 4 for the option.
        let total = ack.tcp.option_bytes() + bytes_of_mptcp(ack);
        assert!(total <= MAX_OPTION_BYTES && !ack.tcp.sack.is_empty(), "{total}");
    }
    let of_counters = acks.iter().filter(|it| counters(it) == Some(3)).count();
    assert!(of_counters > 10, "{of_counters}");
    let sum = |side: Side, of: fn(&tcp::Stats) -> u64| -> u64 {
        (0..2).map(|path| of(pair.end(side).subflows[path].tcp.stats())).sum()
    };
    let (arrived, told) = (sum(Side::B, |it| it.ce_received), sum(Side::A, |it| it.ce_reported));
    assert!(arrived > 20 && told == arrived, "{told} {arrived}");
}
