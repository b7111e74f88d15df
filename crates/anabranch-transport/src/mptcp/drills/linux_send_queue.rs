//! Drills of where data of profile `linux_6` waits: in the queues of subflows, whose memory follows their
//! windows. Tests name the kernel's functions (`net/ipv4/tcp_input.c`, `net/mptcp/protocol.c`).

use crate::endpoint::Input;
use crate::flow::Side;
use crate::mptcp::testing::{Pair, Wire, config, ms};
use crate::mptcp::{Config, Profile};
use crate::units::Bytes;

fn wires() -> Vec<Wire> {
    vec![Wire { rate: Some(10_000_000), delay: ms(50), ..Wire::default() }; 2]
}

/// Memory for twice ten segments of 2304 B.
const FIRST: u64 = 2 * 10 * 2_304;

#[test]
fn mptcp_sync_sndbuf_adds_the_subflows_memory() {
    let mut pair = Pair::open(&config(Profile::Linux6), wires());
    pair.write(Side::A, 10_000_000);
    // Up to the end of the fragment in which both queues and 4096 B are full.
    let written = pair.end(Side::A).sender.written;
    let limit = 4_096 + 2 * FIRST;
    assert!((limit..limit + 32_728).contains(&written), "{written} of {limit}");
}

#[test]
fn a_queue_takes_data_though_the_window_is_full() {
    let mut pair = Pair::open(&config(Profile::Linux6), wires());
    pair.write(Side::A, 10_000_000);
    let held = |pair: &Pair, path: usize| pair.end(Side::A).subflows[path].tcp.queued_memory();
    for path in 0..2 {
        let memory = held(&pair, path);
        assert!((FIRST..FIRST + 2_500).contains(&memory), "subflow {path} holds {memory} B");
        assert!(pair.bytes_on(Side::A, path as u8) <= 10 * 1_460, "the window is ten segments");
    }
}

#[test]
fn tcp_sndbuf_expand_follows_the_window() {
    let mut pair = Pair::open(&config(Profile::Linux6), wires());
    pair.write(Side::A, 10_000_000);
    pair.run_for(ms(3_000));
    let of_window = |pair: &Pair, path: usize| {
        let tcp = &pair.end(Side::A).subflows[path].tcp;
        (tcp.send_memory().unwrap(), u64::from(tcp.window_bytes()))
    };
    for path in 0..2 {
        let (memory, window) = of_window(&pair, path);
        assert!(memory > 2 * FIRST && window > 30_000, "{memory} B of memory, {window} B of window");
    }
    // Up to the limit only, and with a fixed size from the beginning.
    let limit = Some(Bytes(60_000));
    for (send_autotuning, first) in [(None, FIRST), (Some(false), 60_000)] {
        let limited = Config { send_buffer: limit, send_autotuning, ..config(Profile::Linux6) };
        let mut pair = Pair::open(&limited, wires());
        assert_eq!(of_window(&pair, 0).0, first);
        pair.write(Side::A, 10_000_000);
        pair.run_for(ms(3_000));
        assert_eq!(of_window(&pair, 0).0, 60_000);
    }
}

#[test]
fn every_byte_arrives_through_queues_of_any_size() {
    for kilobytes in [2, 5, 17, 64, 300] {
        for send_autotuning in [None, Some(false)] {
            let limited = Config {
                send_buffer: Some(Bytes(kilobytes * 1_000)),
                send_autotuning,
                ..config(Profile::Linux6)
            };
            let mut pair = Pair::open(&limited, wires());
            pair.write(Side::A, 1_000_000);
            pair.run_for(ms(120_000));
            assert_eq!(pair.received_bytes(Side::B), 1_000_001, "{kilobytes} kB, {send_autotuning:?}");
        }
    }
}

/// A burst lasts no longer than the push that it belongs to: an endpoint that is woken early is as before.
#[test]
fn mptcp_push_pending_begins_with_a_choice() {
    let mut pair = Pair::open(&config(Profile::Linux6), vec![Wire::default(); 2]);
    let scheduler = |pair: &Pair| format!("{:?}", pair.end(Side::A).scheduler);
    pair.write(Side::A, 10_000);
    assert!(pair.bytes_on(Side::A, 0) > 0);
    let before = scheduler(&pair);
    pair.input(Side::A, Input::Timeout);
    assert_eq!(scheduler(&pair), before);
}
