//! RFC 9260 sections 6.2 and 6.7: when and where SACKs are sent, and what they say.

use super::*;
use crate::endpoint::Command;
use crate::flow::PathId;
use crate::sctp::config::Buffer;
use crate::units::Bytes;

#[test]
fn every_second_packet_or_after_the_delay() {
    // Section 6.2.
    let mut pair = Pair::open(&rfc9260(), 1);
    let start = pair.now;
    for _ in 0..3 {
        pair.send_reliable(1, 100);
        pair.run_for(ms(10));
    }
    pair.run_for(ms(1_000));
    let at: Vec<Duration> = pair.sent(Side::B, "sack").iter().map(|packet| packet.at - start).collect();
    // The second packet arrives after 10 + 20 ms; the third one's SACK waits for 200 ms.
    assert_eq!(at, [ms(30), ms(240)]);
}

#[test]
fn at_once_where_the_delay_is_off() {
    let mut pair = Pair::open(&config(Profile::Ns2), 1);
    for _ in 0..5 {
        pair.send_reliable(1, 160);
        pair.run_for(ms(20));
    }
    pair.run_for(ms(100));
    assert_eq!(pair.sent(Side::B, "sack").len(), 5);
    assert!(pair.sent(Side::B, "sack").iter().all(|packet| packet.size == 48));
}

#[test]
fn linux_acknowledges_the_first_packet_at_once() {
    let mut pair = Pair::open(&config(Profile::Linux), 1);
    let start = pair.now;
    pair.send_reliable(1, 100);
    pair.run_for(ms(100));
    assert_eq!(pair.sent(Side::B, "sack")[0].at - start, ms(20));
}

#[test]
fn gaps_are_reported_at_once() {
    // Section 6.7.
    let mut pair = Pair::open(&rfc9260(), 1);
    pair.drop_if = drop_data(&[1, 3]);
    let start = pair.now;
    for _ in 0..6 {
        pair.send_reliable(1, 100);
        pair.run_for(ms(5));
    }
    pair.run_for(ms(15));
    let sacks = pair.sent(Side::B, "sack");
    let last = sack(sacks.last().expect("there are SACKs"));
    let blocks: Vec<(u16, u16)> = last.gap_blocks.iter().map(|b| (b.start, b.end)).collect();
    assert_eq!(blocks, [(2, 2), (4, 5)]);
    let at: Vec<Duration> = sacks.iter().map(|packet| packet.at - start).collect();
    assert_eq!(at, [ms(30), ms(40), ms(45)]);
}

#[test]
fn no_more_gaps_are_reported_than_fit_into_the_path_mtu() {
    // Section 6.2; 12 bytes of common header, 16 of the chunk, 4 of each block. In Linux 16.
    for (profile, most) in [(Profile::Rfc9260, (1500 - 20 - 12 - 16) / 4), (Profile::Linux, 16)] {
        let size = Bytes(16 << 20);
        let config =
            Config { send_buffer: Some(Buffer::At(size)), receive_buffer: Some(size), ..config(profile) };
        let mut pair = Pair::open(&config, 1);
        let every_second: Vec<u32> = (3000..5000).step_by(2).collect();
        pair.drop_if = drop_data(&every_second);
        pair.wires[0][0].duplication = 0.5;
        pair.send_reliable(6000, 1452);
        pair.run_for(Duration::from_secs(60));
        let sacks = pair.sent(Side::B, "sack");
        assert_eq!(sacks.iter().map(|packet| sack(packet).gap_blocks.len()).max(), Some(most), "{profile:?}");
        assert_eq!(pair.ends[1].stats().data_chunks_received, 6000);
    }
}

#[test]
fn duplicates_are_reported_at_once() {
    let mut pair = Pair::open(&rfc9260(), 1);
    pair.wires[0][0].duplication = 1.0;
    pair.send_reliable(1, 100);
    pair.run_for(ms(30));
    let sacks = pair.sent(Side::B, "sack");
    assert_eq!(sacks.len(), 1);
    assert_eq!(sack(sacks[0]).duplicates.len(), 1);
    assert_eq!(pair.received(Side::B).len(), 1);
    pair.run_for(ms(100));
    assert_eq!(pair.ends[0].stats().duplicates_reported, 1);
}

#[test]
fn sacks_go_where_the_data_came_from() {
    // Section 6.4.
    let mut pair = Pair::open(&rfc9260(), 2);
    pair.command(Side::A, Command::SetPrimary(PathId(1)));
    pair.send_reliable(4, 100);
    pair.run_for(ms(500));
    assert!(pair.sent(Side::A, "data").iter().all(|packet| packet.path == 1));
    assert!(pair.sent(Side::B, "sack").iter().all(|packet| packet.path == 1));
}
