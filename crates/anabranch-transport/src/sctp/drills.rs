//! Drill tests: one short exchange per rule of RFC 9260, RFC 3758, RFC 7496 and RFC 7829.

use super::config::{Buffer, HeartbeatPeriod, MissingReportsPer, RttSampling};
use super::testing::{Filter, Logged, Pair, config, drop_first, holds, ms};
use super::{Config, Profile};
use crate::endpoint::{CloseReason, Command, Endpoint as _, Event, Message, Reliability};
use crate::ground::{PathId, Payload, Side};
use crate::path::{self, PathState, failover};
use crate::time::{Duration, Time};
use crate::units::{Bytes, Limit};
use crate::wire::sctp::chunk::Chunk;

const ALL: [Profile; 6] =
    [Profile::FreeBsd10, Profile::Linux, Profile::Ns2, Profile::Rfc2960, Profile::Rfc4960, Profile::Rfc9260];
const ONCE: Reliability = Reliability::LimitedRetransmissions(0);

fn rfc9260() -> Config {
    config(Profile::Rfc9260)
}

/// The call of the voip-sctp study.
fn voip(path_max_retrans: u32, rto_max: Duration) -> Config {
    Config {
        path_max_retrans: Some(path_max_retrans),
        rto_min: Some(ms(20)),
        rto_max: Some(rto_max),
        hb_interval: Some(ms(100)),
        ..config(Profile::Ns2)
    }
}

/// Sends a message every 20 ms, and does what is to happen at some times in between.
fn talk(pair: &mut Pair, length: Duration, how: Reliability) -> Vec<Payload> {
    let end = pair.now + length;
    let mut sent = Vec::new();
    while pair.now < end {
        sent.push(pair.send(Side::A, 160, how, how == ONCE));
        pair.run_for(ms(20));
    }
    sent
}

fn sample(pair: &Pair, side: Side, path: usize) -> crate::endpoint::PathSample {
    let mut samples = Vec::new();
    pair.ends[side.index()].sample_paths(&mut samples);
    samples[path]
}

fn times(packets: &[&Logged]) -> Vec<u64> {
    packets.iter().map(|packet| packet.at.as_nanos() / 1_000_000).collect()
}

fn sack(packet: &Logged) -> &crate::wire::sctp::chunk::Sack {
    packet.chunks.iter().find_map(|c| if let Chunk::Sack(_, s) = c { Some(s) } else { None }).expect("a SACK")
}

/// Drops the first transmission of the data chunks with these numbers, counted from 0.
fn drop_data(numbers: &[u32]) -> Filter {
    let mut wanted = numbers.to_vec();
    let mut first = None;
    Box::new(move |_, from, packet| {
        let crate::wire::Body::Sctp(body) = &packet.body else { return false };
        body.chunks().any(|chunk| {
            let Chunk::Data(data) = chunk else { return false };
            if from != Side::A {
                return false;
            }
            let number = data.tsn.wrapping_sub(*first.get_or_insert(data.tsn));
            let at = wanted.iter().position(|&n| n == number);
            at.map(|at| wanted.remove(at)).is_some()
        })
    })
}

mod handshake {
    use super::*;

    #[test]
    fn takes_two_round_trips() {
        let mut pair = Pair::new(&rfc9260(), 1);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(200));
        let at = |side: Side| pair.events[side.index()][0];
        assert_eq!(at(Side::B), (Time::from_millis(60), Event::Connected));
        assert_eq!(at(Side::A), (Time::from_millis(80), Event::Connected));
    }

    #[test]
    fn survives_the_loss_of_any_of_its_packets() {
        for kind in ["init", "init_ack", "cookie_echo", "cookie_ack"] {
            let mut pair = Pair::new(&rfc9260(), 1);
            pair.drop_if = drop_first(kind, 2);
            pair.command(Side::A, Command::Connect);
            pair.run_for(ms(10_000));
            for side in [Side::A, Side::B] {
                let connected = pair.events[side.index()].iter().filter(|(_, e)| *e == Event::Connected);
                assert_eq!(connected.count(), 1, "{kind} lost, {side:?}");
            }
        }
    }

    #[test]
    fn gives_up_after_max_init_retransmits() {
        for kind in ["init", "cookie_echo"] {
            let mut pair = Pair::new(&Config { max_init_retransmits: Some(3), ..rfc9260() }, 1);
            pair.drop_if = drop_first(kind, usize::MAX);
            pair.command(Side::A, Command::Connect);
            pair.run_for(ms(60_000));
            assert_eq!(pair.sent(Side::A, kind).len(), 4);
            let (at, reason) = pair.closed(Side::A).expect("it ends");
            assert_eq!(reason, CloseReason::Lost);
            // 1 + 2 + 4 + 8 s after the first chunk of its kind.
            let first = pair.sent(Side::A, kind)[0].at;
            assert_eq!(at - first, Duration::from_secs(15));
        }
    }

    #[test]
    fn two_ends_may_open_at_once() {
        let mut pair = Pair::new(&rfc9260(), 1);
        pair.command(Side::A, Command::Connect);
        pair.command(Side::B, Command::Connect);
        pair.run_for(ms(5_000));
        let payload = pair.send(Side::B, 100, Reliability::Reliable, false);
        pair.run_for(ms(500));
        assert_eq!(pair.received(Side::A), [payload]);
        let aborts = pair.sent(Side::A, "abort").len() + pair.sent(Side::B, "abort").len();
        assert_eq!(aborts, 0);
    }

    #[test]
    fn a_stale_cookie_is_replaced_by_a_longer_lived_one() {
        let mut pair = Pair::new(&Config { valid_cookie_life: Some(ms(30)), ..rfc9260() }, 1);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(1_000));
        assert_eq!(pair.sent(Side::B, "error").len(), 1);
        assert_eq!(pair.sent(Side::A, "init").len(), 2);
        assert!(pair.heard(Side::A, &Event::Connected) && pair.heard(Side::B, &Event::Connected));
    }

    #[test]
    fn messages_wait_for_the_association() {
        let mut pair = Pair::new(&rfc9260(), 1);
        let payload = pair.send(Side::A, 100, Reliability::Reliable, false);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(1_000));
        assert_eq!(pair.received(Side::B), [payload]);
    }

    #[test]
    fn a_second_path_carries_nothing_before_it_is_confirmed() {
        // Section 5.4.
        let mut pair = Pair::new(&rfc9260(), 2);
        pair.set_up(1, false);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(500));
        pair.set_up(0, false);
        pair.send_reliable(10, 100);
        pair.run_for(ms(30_000));
        assert!(pair.sent(Side::A, "data").iter().all(|packet| packet.path == 0));
        assert!(pair.sent(Side::A, "heartbeat").iter().any(|packet| packet.path == 1));
    }
}

mod data {
    use super::*;

    #[test]
    fn flows_on_every_profile_without_retransmissions() {
        for profile in ALL {
            let mut pair = Pair::open(&Config { send_buffer: Some(Buffer::Off), ..config(profile) }, 2);
            let sent = pair.send_reliable(200, 1_000);
            pair.run_for(ms(10_000));
            assert!(pair.received(Side::B) == sent, "{profile:?}");
            assert_eq!(pair.ends[0].stats().data_chunks_retransmitted, 0, "{profile:?}");
        }
    }

    #[test]
    fn flows_both_ways_at_once() {
        let mut pair = Pair::open(&rfc9260(), 1);
        let mut sent = [Vec::new(), Vec::new()];
        for _ in 0..100 {
            for side in [Side::A, Side::B] {
                sent[side.index()].push(pair.send(side, 300, Reliability::Reliable, false));
            }
            pair.run_for(ms(10));
        }
        pair.run_for(ms(1_000));
        assert!(pair.received(Side::B) == sent[0] && pair.received(Side::A) == sent[1]);
        // Section 6.1: SACKs travel with data.
        assert!(pair.sent(Side::B, "sack").iter().filter(|packet| packet.has("data")).count() > 30);
    }

    #[test]
    fn a_long_message_is_fragmented_and_put_together() {
        // Section 6.9.
        let mut pair = Pair::open(&rfc9260(), 1);
        let payload = pair.send(Side::A, 10_000, Reliability::Reliable, false);
        pair.run_for(ms(1_000));
        assert_eq!(pair.received(Side::B), [payload]);
        let chunks: usize = pair.sent(Side::A, "data").iter().map(|packet| packet.tsns().len()).sum();
        assert_eq!(chunks, 10_000_usize.div_ceil(1_452));
        assert!(pair.sent(Side::A, "data").iter().all(|packet| packet.size <= 1_500));
    }

    #[test]
    fn messages_are_bundled_when_they_wait() {
        // Section 6.10; in the study, up to 8 messages of 160 bytes share a packet.
        for (settings, most) in [
            (config(Profile::Ns2), 8),
            (Config { bundle_max: Some(Limit::At(3)), ..config(Profile::Ns2) }, 3),
            (Config { bundling: Some(false), ..config(Profile::Ns2) }, 1),
        ] {
            let mut pair = Pair::open(&settings, 1);
            pair.send_reliable(100, 160);
            pair.run_for(ms(2_000));
            assert_eq!(pair.received(Side::B).len(), 100);
            let longest = pair.sent(Side::A, "data").iter().map(|packet| packet.tsns().len()).max();
            assert_eq!(longest, Some(most));
        }
    }

    #[test]
    fn nagle_waits_for_a_full_packet() {
        for (nagle, packets) in [(false, 4), (true, 2)] {
            let mut pair = Pair::open(&Config { nagle: Some(nagle), ..rfc9260() }, 1);
            pair.send_reliable(4, 100);
            pair.run_for(ms(1_000));
            assert_eq!(pair.sent(Side::A, "data").len(), packets, "nagle {nagle}");
            assert_eq!(pair.received(Side::B).len(), 4);
        }
    }

    #[test]
    fn unordered_messages_overtake_and_ordered_ones_wait() {
        // Section 6.6.
        for unordered in [false, true] {
            let mut pair = Pair::open(&rfc9260(), 1);
            pair.drop_if = drop_data(&[0]);
            let sent: Vec<Payload> =
                (0..3).map(|_| pair.send(Side::A, 100, Reliability::Reliable, unordered)).collect();
            pair.run_for(ms(100));
            let early = if unordered { sent[1..].to_vec() } else { Vec::new() };
            assert_eq!(pair.received(Side::B), early);
            pair.run_for(ms(3_000));
            assert_eq!(pair.received(Side::B).len(), 3);
        }
    }

    #[test]
    fn streams_do_not_wait_for_each_other() {
        let mut pair = Pair::open(&rfc9260(), 1);
        pair.drop_if = drop_data(&[0]);
        let message = |stream, offset| Message {
            stream,
            ppid: 0,
            unordered: false,
            reliability: Reliability::Reliable,
            payload: Payload { offset, length: 100 },
        };
        for (stream, offset) in [(1, 0), (2, 100), (1, 200)] {
            pair.command(Side::A, Command::Send(message(stream, offset)));
        }
        pair.run_for(ms(3_000));
        let offsets: Vec<u64> = pair.received(Side::B).iter().map(|payload| payload.offset).collect();
        assert_eq!(offsets, [100, 0, 200]);
    }

    #[test]
    fn a_full_send_buffer_refuses_and_says_when_there_is_room() {
        let mut pair = Pair::open(&Config { send_buffer: Some(Buffer::At(Bytes(2_000))), ..rfc9260() }, 1);
        pair.send_reliable(2, 1_000);
        let refused = pair.send(Side::A, 1, Reliability::Reliable, false);
        assert!(pair.heard(Side::A, &Event::Refused(refused)));
        assert!(!pair.heard(Side::A, &Event::Writable));
        pair.run_for(ms(1_000));
        assert!(pair.heard(Side::A, &Event::Writable));
        assert_eq!(pair.received(Side::B).len(), 2);
    }

    fn large_message(length: u32) -> Message {
        let payload = Payload { offset: 90_000, length };
        Message { stream: 0, ppid: 0, unordered: false, reliability: Reliability::Reliable, payload }
    }

    #[test]
    fn a_message_that_is_tried_again_waits_for_all_of_its_room() {
        let mut pair = Pair::open(&Config { send_buffer: Some(Buffer::At(Bytes(4_000))), ..rfc9260() }, 1);
        let message = large_message(3_500);
        for _ in 0..2 {
            pair.send_reliable(2, 1_000);
            pair.run_for(ms(10));
        }
        let room = |pair: &Pair| 4_000 - pair.ends[0].buffered();
        // The first time it is told of any room.
        for least in [1, 3_500] {
            pair.events = [Vec::new(), Vec::new()];
            pair.command(Side::A, Command::Send(message));
            assert!(pair.heard(Side::A, &Event::Refused(message.payload)));
            while !pair.heard(Side::A, &Event::Writable) {
                assert!(room(&pair) < least);
                pair.run_for(ms(1));
            }
            assert!(room(&pair) >= least);
        }
        pair.events = [Vec::new(), Vec::new()];
        pair.command(Side::A, Command::Send(message));
        assert!(!pair.heard(Side::A, &Event::Refused(message.payload)));
    }

    #[test]
    fn messages_that_expire_make_the_room_that_is_waited_for() {
        let settings = Config {
            send_buffer: Some(Buffer::At(Bytes(8_000))),
            sack_frequency: Some(10),
            sack_delay: Some(ms(50)),
            ..rfc9260()
        };
        let mut pair = Pair::open(&settings, 1);
        let message = large_message(7_500);
        for waits_for in [1, 7_500] {
            pair.events = [Vec::new(), Vec::new()];
            // What does not leave at once expires before one SACK has acknowledged all that has left.
            while pair.ends[0].buffered() < 7_000 {
                pair.send(Side::A, 1_000, Reliability::Timed(ms(20)), false);
            }
            assert!(pair.ends[0].queue.bytes > 500);
            pair.command(Side::A, Command::Send(message));
            assert_eq!(pair.ends[0].awaited_room, Some(waits_for));
            pair.run_for(ms(2_000));
            assert!(pair.heard(Side::A, &Event::Writable));
            assert_eq!(pair.ends[0].buffered(), 0);
        }
    }

    #[test]
    fn an_end_that_shuts_down_waits_for_no_room() {
        let mut pair = Pair::open(&Config { send_buffer: Some(Buffer::At(Bytes(4_000))), ..rfc9260() }, 1);
        let message = large_message(3_500);
        for _ in 0..2 {
            pair.send_reliable(2, 1_000);
            pair.run_for(ms(10));
        }
        pair.command(Side::A, Command::Send(message));
        while pair.ends[0].awaited_room.is_some() {
            pair.run_for(ms(1));
        }
        pair.command(Side::A, Command::Send(message));
        assert_eq!(pair.ends[0].awaited_room, Some(3_500));
        pair.command(Side::A, Command::Shutdown);
        assert_eq!(pair.ends[0].awaited_room, Some(1));
    }

    #[test]
    fn a_closed_window_is_probed_and_opens_again() {
        // Section 6.1 A: the gap fills the receiver's buffer until the first message arrives.
        let settings = Config { receive_buffer: Some(Bytes(3_000)), ..rfc9260() };
        let mut pair = Pair::open(&settings, 1);
        pair.drop_if = drop_data(&[0]);
        let sent = pair.send_reliable(30, 1_000);
        pair.run_for(ms(500));
        assert!(pair.sent(Side::B, "sack").iter().any(|packet| sack(packet).a_rwnd <= 1_000));
        pair.run_for(ms(20_000));
        assert!(pair.received(Side::B) == sent);
        let outstanding_most = 3_000 / 1_000;
        assert!(pair.ends[0].stats().data_chunks_retransmitted <= 2 + outstanding_most);
    }
}

mod acknowledgement {
    use super::*;

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
            assert_eq!(
                sacks.iter().map(|packet| sack(packet).gap_blocks.len()).max(),
                Some(most),
                "{profile:?}"
            );
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
}

mod loss {
    use super::*;

    #[test]
    fn t3_doubles_and_alternates() {
        // Section 6.3.3 and 6.4.1.
        let mut pair = Pair::open(&rfc9260(), 2);
        let start = pair.now;
        pair.set_up(0, false);
        pair.send_reliable(1, 100);
        pair.set_up(1, false);
        pair.run_for(ms(10_000));
        let data = pair.sent(Side::A, "data");
        let at: Vec<(Duration, u8)> = data.iter().map(|packet| (packet.at - start, packet.path)).collect();
        // RTO is 1 s on each path (RTO.Min), and doubled where it expired.
        assert_eq!(
            at,
            [(ms(0), 0), (ms(1_000), 1), (ms(2_000), 0), (ms(4_000), 1), (ms(6_000), 0), (ms(10_000), 1)]
        );
        assert_eq!(pair.ends[0].stats().t3_expiries, 5);
    }

    #[test]
    fn karn_takes_no_sample_from_what_was_sent_again() {
        let mut pair = Pair::open(&rfc9260(), 1);
        let before = sample(&pair, Side::A, 0).srtt;
        pair.drop_if = drop_data(&[0]);
        pair.send_reliable(1, 100);
        pair.run_for(ms(3_000));
        assert_eq!(pair.received(Side::B).len(), 1);
        assert_eq!(sample(&pair, Side::A, 0).srtt, before);
        assert_eq!(sample(&pair, Side::A, 0).rto, ms(2_000), "and the back-off stays");
    }

    #[test]
    fn one_sample_per_round_trip() {
        let mut pair = Pair::open(&config(Profile::Ns2), 1);
        pair.send_reliable(1, 160);
        pair.run_for(ms(200));
        let path = sample(&pair, Side::A, 0);
        assert_eq!(path.srtt, Some(ms(40)));
        // RTO.Min 1 s above SRTT + 4 RTTVAR = 40 + 80 ms.
        assert_eq!(path.rto, ms(1_000));
    }

    #[test]
    fn a_sample_per_sack_follows_a_changing_delay_faster() {
        // A round-trip time of 40 ms, then of 240 ms: four SACKs in the next round trip.
        let srtt = |sampling| {
            let settings =
                Config { rtt_sampling: Some(sampling), sack_delay: Some(Duration::ZERO), ..rfc9260() };
            let mut pair = Pair::open(&settings, 1);
            pair.send_reliable(1, 1_000);
            pair.run_for(ms(50));
            for wire in &mut pair.wires[0] {
                wire.delay = ms(120);
            }
            pair.send_reliable(4, 1_000);
            pair.run_for(ms(300));
            sample(&pair, Side::A, 0).srtt.expect("there were samples")
        };
        // 7/8 40 + 1/8 240.
        assert_eq!(srtt(RttSampling::RoundTrip), ms(65));
        // 240 - 200 (7/8)^4.
        let expected = Duration::from_nanos(122_763_671);
        let ours = srtt(RttSampling::Sack);
        assert!(ours.as_nanos().abs_diff(expected.as_nanos()) < 10, "{ours}");
    }

    #[test]
    fn freebsd_starts_with_three_mtus_and_opens_by_two_a_sack() {
        // `sctp_set_initial_cc_param` and `sctp_cwnd_update_after_sack_common`.
        let mut pair = Pair::open(&config(Profile::FreeBsd10), 2);
        let path = sample(&pair, Side::A, 0);
        assert_eq!((path.cwnd, path.ssthresh), (4_500, 233_016));
        pair.send_reliable(40, 1_452);
        pair.run_for(ms(41));
        // Four packets fill it; a SACK for every second one.
        assert_eq!(sample(&pair, Side::A, 0).cwnd, 4_500 + 2 * 2 * 1_468);
        assert!(pair.sent(Side::A, "data").iter().all(|packet| packet.size == 1_500));
    }

    #[test]
    fn freebsd_sends_again_on_the_same_path_until_a_timeout() {
        // `sctp_strike_gap_ack_chunks` and `sctp_t3rxt_timer`.
        let mut pair = Pair::open(&config(Profile::FreeBsd10), 2);
        pair.drop_if = drop_data(&[0]);
        let sent = pair.send_reliable(4, 1_452);
        pair.run_for(ms(900));
        assert_eq!(pair.ends[0].stats().fast_retransmits, 1);
        assert!(pair.sent(Side::A, "data").iter().all(|packet| packet.path == 0));
        assert!(pair.received(Side::B) == sent);
        pair.set_up(0, false);
        pair.send_reliable(1, 1_452);
        // RTO.Initial, as nothing has been measured.
        pair.run_for(ms(3_500));
        let last = pair.sent(Side::A, "data").last().map(|packet| packet.path);
        assert_eq!(last, Some(1));
        assert_eq!(pair.received(Side::B).len(), 5);
    }

    #[test]
    fn three_missing_reports_start_fast_retransmit() {
        // Section 7.2.4.
        let mut pair = Pair::open(&rfc9260(), 1);
        let start = pair.now;
        pair.drop_if = drop_data(&[0]);
        for _ in 0..8 {
            pair.send_reliable(1, 1_000);
            pair.run_for(ms(1));
        }
        pair.run_for(ms(500));
        let first = pair.sent(Side::A, "data")[0].tsns()[0];
        let again: Vec<Duration> = pair
            .sent(Side::A, "data")
            .iter()
            .filter(|packet| packet.tsns().contains(&first))
            .map(|packet| packet.at - start)
            .collect();
        // Reports come 1 + 40, 2 + 40 and 3 + 40 ms after the start.
        assert_eq!(again, [ms(0), ms(43)]);
        let stats = pair.ends[0].stats();
        assert_eq!((stats.fast_retransmits, stats.t3_expiries), (1, 0));
        // Section 7.2.3: max(cwnd / 2, 4 segments).
        assert_eq!(sample(&pair, Side::A, 0).ssthresh, 4 * 1_468);
        assert_eq!(pair.received(Side::B).len(), 8);
    }

    #[test]
    fn several_losses_in_one_window_cut_it_once() {
        let mut pair = Pair::open(&rfc9260(), 1);
        pair.send_reliable(150, 1_400);
        pair.run_for(ms(5_000));
        let before = sample(&pair, Side::A, 0).cwnd;
        assert!(before > 40_000, "slow start has opened the window: {before}");
        pair.drop_if = drop_data(&[2, 4, 6]);
        pair.send_reliable(40, 1_400);
        pair.run_for(ms(900));
        let stats = pair.ends[0].stats();
        assert_eq!((stats.fast_retransmits, stats.t3_expiries), (1, 0));
        assert_eq!(stats.data_chunks_retransmitted, 3);
    }

    /// A slow path with chunks on it, after which the fast one becomes primary and carries the rest.
    fn overtaken(per: MissingReportsPer, lost: &[u32]) -> Pair {
        let settings = Config { missing_reports_per: Some(per), ..rfc9260() };
        let mut pair = Pair::open(&settings, 2);
        for wire in &mut pair.wires[0] {
            wire.delay = ms(200);
        }
        pair.drop_if = drop_data(lost);
        for path in [0, 1] {
            pair.command(Side::A, Command::SetPrimary(PathId(path)));
            pair.send_reliable(4, 1_000);
        }
        pair.run_for(ms(900));
        pair
    }

    #[test]
    fn missing_reports_per_path_are_not_misled_by_a_faster_path() {
        // Iyengar et al. 2006, section 3.1: what the data on the fast path reports missing is still on its
        // way.
        for (per, fast_retransmits, retransmitted) in
            [(MissingReportsPer::Association, 1, 4), (MissingReportsPer::Path, 0, 0)]
        {
            let pair = overtaken(per, &[]);
            let stats = pair.ends[0].stats();
            assert_eq!(stats.fast_retransmits, fast_retransmits, "{per:?}");
            assert_eq!(stats.data_chunks_retransmitted, retransmitted, "{per:?}");
            assert_eq!(pair.received(Side::B).len(), 8, "{per:?}");
        }
    }

    #[test]
    fn a_loss_on_one_path_leaves_the_recovery_of_the_other_alone() {
        // The first chunk of each path is lost, and three follow it there.
        let windows = |pair: &Pair| [0, 1].map(|path| sample(pair, Side::A, path).ssthresh);
        let none = u32::MAX;
        let pair = overtaken(MissingReportsPer::Path, &[0, 4]);
        assert_eq!(pair.ends[0].stats().fast_retransmits, 2);
        assert_eq!(windows(&pair), [4 * 1_468; 2]);
        let pair = overtaken(MissingReportsPer::Path, &[4]);
        assert_eq!(pair.ends[0].stats().fast_retransmits, 1);
        assert_eq!(windows(&pair), [none, 4 * 1_468]);
        assert_eq!(pair.received(Side::B).len(), 8);
    }

    #[test]
    fn slow_start_doubles_every_round_trip() {
        let mut pair = Pair::open(&Config { sack_delay: Some(Duration::ZERO), ..rfc9260() }, 1);
        pair.send_reliable(60, 1_400);
        let mut windows = Vec::new();
        for _ in 0..3 {
            pair.run_for(ms(41));
            windows.push(sample(&pair, Side::A, 0).cwnd / 1_400);
        }
        assert_eq!(windows, [7, 15, 31]);
    }

    #[test]
    fn a_timeout_on_the_primary_leaves_the_other_window_alone() {
        let mut pair = Pair::open(&rfc9260(), 2);
        pair.set_up(0, false);
        pair.send_reliable(3, 1_000);
        pair.run_for(ms(1_500));
        assert_eq!(sample(&pair, Side::A, 0).cwnd, 1_468);
        assert_eq!(sample(&pair, Side::A, 1).cwnd, 4_404);
        assert_eq!(sample(&pair, Side::A, 0).ssthresh, 4 * 1_468);
    }
}

mod paths {
    use super::*;

    #[test]
    fn heartbeats_follow_the_interval_with_jitter() {
        // Section 8.3: HB.interval + RTO x (0.5 to 1.5).
        let mut pair = Pair::open(&rfc9260(), 2);
        pair.run_for(Duration::from_secs(600));
        for path in [0, 1] {
            let beats: Vec<&Logged> =
                pair.sent(Side::A, "heartbeat").into_iter().filter(|packet| packet.path == path).collect();
            for gap in times(&beats).windows(2).map(|pair| pair[1] - pair[0]) {
                assert!((30_500..=31_500).contains(&gap), "{gap} ms");
            }
            assert!(beats.len() >= 18);
            assert!(beats.iter().all(|packet| packet.size == 56));
        }
        assert_eq!(pair.ends[0].stats().heartbeats_unanswered, 0);
    }

    #[test]
    fn equation_4_spreads_the_interval() {
        let settings = Config {
            hb_period: Some(HeartbeatPeriod::Equation4),
            hb_interval: Some(ms(1_000)),
            rto_min: Some(ms(100)),
            ..rfc9260()
        };
        let mut pair = Pair::open(&settings, 1);
        pair.run_for(Duration::from_secs(200));
        let gaps: Vec<u64> = times(&pair.sent(Side::A, "heartbeat"))
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .skip(1)
            .collect();
        assert!(gaps.iter().all(|gap| (600..=1_750).contains(gap)), "{gaps:?}");
        assert!(gaps.iter().any(|gap| *gap < 800) && gaps.iter().any(|gap| *gap > 1_400), "{gaps:?}");
    }

    #[test]
    fn a_path_in_use_needs_no_heartbeat() {
        let mut pair = Pair::open(&Config { hb_interval: Some(ms(500)), ..rfc9260() }, 2);
        talk(&mut pair, ms(20_000), Reliability::Reliable);
        assert!(pair.sent(Side::A, "heartbeat").iter().all(|packet| packet.path == 1));
    }

    #[test]
    fn one_timer_serves_both_paths_in_turn() {
        // The study asks the path that has been idle longest, every RTO + 0.1 s with jitter.
        let mut pair = Pair::open(&voip(5, ms(1_000)), 2);
        pair.run_for(Duration::from_secs(20));
        pair.log.clear();
        pair.run_for(Duration::from_secs(20));
        let beats = pair.sent(Side::B, "heartbeat");
        let mut others = 0;
        for (first, second) in beats.iter().zip(&beats[1..]) {
            others += usize::from(first.path != second.path);
        }
        assert!(beats.len() > 80 && others + 1 == beats.len(), "{others} of {}", beats.len());
        let gaps: Vec<u64> = times(&beats).windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (110..=170).contains(gap)), "{gaps:?}");
    }

    #[test]
    fn more_errors_than_path_max_retrans_make_a_path_inactive() {
        // Section 8.2, with idle paths: heartbeats count.
        for (max, errors) in [(0, 1), (1, 2), (3, 4)] {
            let settings = Config { path_max_retrans: Some(max), hb_interval: Some(ms(1_000)), ..rfc9260() };
            let mut pair = Pair::open(&settings, 2);
            pair.set_up(1, false);
            pair.run_for(Duration::from_secs(200));
            let down = pair.path_change(Side::A, 1, PathState::Inactive).expect("the path fails");
            let asked = pair.sent(Side::A, "heartbeat").iter().filter(|p| p.path == 1 && p.at < down).count();
            assert_eq!(asked, errors, "Path.Max.Retrans {max}");
            assert_eq!(pair.path_change(Side::A, 0, PathState::Inactive), None);
        }
    }

    #[test]
    fn the_time_to_declare_a_path_down_is_the_sum_of_its_timeouts() {
        // Sections 6.3.3 and 8.2, RFC 7829 section 5: with a message every 100 ms, of which every RTO is
        // a multiple, the next timer starts at the timeout before.
        for (min, max) in [(100, 100), (100, 1_000), (100, 60_000), (1_000, 10_000), (1_000, 60_000)] {
            for path_max_retrans in 0..=10 {
                let settings = Config {
                    path_max_retrans: Some(path_max_retrans),
                    pf_max_retrans: Some(Limit::At(1)),
                    association_max_retrans: Some(Limit::Off),
                    sack_delay: Some(Duration::ZERO),
                    rto_min: Some(ms(min)),
                    rto_max: Some(ms(max)),
                    ..rfc9260()
                };
                let mut pair = Pair::open(&settings, 2);
                for wire in pair.wires.iter_mut().flatten() {
                    wire.delay = ms(1);
                }
                let tell = |pair: &mut Pair, count: u64| {
                    for _ in 0..count {
                        pair.send_reliable(1, 100);
                        pair.run_for(ms(100));
                    }
                };
                tell(&mut pair, 40);
                pair.set_up(0, false);
                let start = pair.now;
                let sum = |errors: u32| -> u64 { (0..errors).map(|k| (min << k).min(max)).sum() };
                let down = sum(path_max_retrans + 1);
                tell(&mut pair, down / 100 + 5);
                let after = |state| pair.path_change(Side::A, 0, state).map(|at| at - start);
                assert_eq!(after(PathState::Inactive), Some(ms(down)), "{path_max_retrans} {min} {max}");
                let failed = (path_max_retrans > 1).then(|| ms(sum(2)));
                assert_eq!(after(PathState::PotentiallyFailed), failed, "{path_max_retrans} {min} {max}");
            }
        }
    }

    #[test]
    fn an_unanswered_heartbeat_is_followed_by_another_in_ns2() {
        let mut pair = Pair::open(&voip(5, ms(100)), 2);
        talk(&mut pair, ms(2_000), ONCE);
        pair.log.clear();
        pair.set_up(1, false);
        talk(&mut pair, ms(2_000), ONCE);
        let beats: Vec<&Logged> =
            pair.sent(Side::A, "heartbeat").into_iter().filter(|packet| packet.path == 1).collect();
        let gaps: Vec<u64> = times(&beats).windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[3..].iter().all(|gap| *gap <= 100), "RTO.Max bounds the pause: {gaps:?}");
    }

    #[test]
    fn failover_and_return() {
        // The messages of a stall of 32 s need room to wait in.
        let mut pair = Pair::open(&Config { send_buffer: Some(Buffer::Off), ..rfc9260() }, 2);
        pair.set_up(0, false);
        let mut sent = talk(&mut pair, Duration::from_secs(150), Reliability::Reliable);
        pair.set_up(0, true);
        sent.extend(talk(&mut pair, Duration::from_secs(60), Reliability::Reliable));
        pair.run_for(ms(60_000));
        let down = pair.path_change(Side::A, 0, PathState::Inactive).expect("the path fails");
        let up = pair.path_change(Side::A, 0, PathState::Active).expect("the path returns");
        // Timeouts after 1, 2, 4, 8, 16 and 32 s.
        assert!(down > Time::from_secs(60) && down < Time::from_secs(70), "{down}");
        assert!(up > Time::from_secs(150), "{up}");
        assert!(pair.received(Side::B) == sent, "everything arrives in order");
        assert_eq!(pair.sent(Side::A, "data").last().map(|packet| packet.path), Some(0));
    }

    #[test]
    fn a_potentially_failed_path_is_left_after_one_timeout() {
        // RFC 7829.
        let mut pair = Pair::open(&Config { pf_max_retrans: Some(Limit::At(0)), ..rfc9260() }, 2);
        talk(&mut pair, ms(1_000), Reliability::Reliable);
        let start = pair.now;
        pair.set_up(0, false);
        talk(&mut pair, ms(10_000), Reliability::Reliable);
        let suspect = pair.path_change(Side::A, 0, PathState::PotentiallyFailed).expect("suspect");
        assert!(suspect - start <= ms(1_040), "one RTO of 1 s: {}", suspect - start);
        assert!(pair.sent(Side::A, "data").iter().all(|p| p.at <= suspect || p.path == 1));
        pair.set_up(0, true);
        talk(&mut pair, ms(20_000), Reliability::Reliable);
        assert!(pair.path_change(Side::A, 0, PathState::Active).is_some(), "a heartbeat brings it back");
        assert_eq!(pair.sent(Side::A, "data").last().map(|packet| packet.path), Some(0));
        assert_eq!(pair.path_change(Side::A, 0, PathState::Inactive), None);
    }

    #[test]
    fn linux_needs_more_path_retransmissions_than_one_for_potentially_failed() {
        for (max, expected) in [(1, false), (2, true)] {
            let mut pair = Pair::open(&Config { path_max_retrans: Some(max), ..config(Profile::Linux) }, 2);
            talk(&mut pair, ms(1_000), Reliability::Reliable);
            pair.set_up(0, false);
            talk(&mut pair, ms(10_000), Reliability::Reliable);
            let suspect = pair.path_change(Side::A, 0, PathState::PotentiallyFailed);
            assert_eq!(suspect.is_some(), expected, "Path.Max.Retrans {max}");
        }
    }

    #[test]
    fn the_dormant_state_by_policy() {
        use failover::Dormant;
        for (dormant, silent) in [(Dormant::Hop, false), (Dormant::Stay, false), (Dormant::Silent, true)] {
            let policy = failover::Config { dormant: Some(dormant), ..failover::Config::default() };
            let settings = Config { policy: Some(path::Config::Failover(policy)), ..voip(0, ms(100)) };
            let mut pair = Pair::open(&settings, 2);
            talk(&mut pair, ms(1_000), ONCE);
            pair.set_up(0, false);
            pair.set_up(1, false);
            talk(&mut pair, ms(1_000), ONCE);
            let begun = pair.now;
            talk(&mut pair, ms(2_000), ONCE);
            let during = pair.sent(Side::A, "data").iter().filter(|packet| packet.at > begun).count();
            assert_eq!(during == 0, silent, "{dormant:?}: {during} packets");
            pair.set_up(0, true);
            pair.set_up(1, true);
            let later = talk(&mut pair, ms(2_000), ONCE);
            let received = pair.received(Side::B);
            assert!(received.contains(&later[later.len() / 2]), "{dormant:?} ends");
        }
    }

    #[test]
    fn association_max_retrans_ends_it() {
        // Section 8.1.
        let settings = Config { association_max_retrans: Some(Limit::At(3)), ..rfc9260() };
        let mut pair = Pair::open(&settings, 1);
        let start = pair.now;
        pair.set_up(0, false);
        pair.send_reliable(1, 100);
        pair.run_for(ms(60_000));
        let (at, reason) = pair.closed(Side::A).expect("it ends");
        assert_eq!((at - start, reason), (Duration::from_secs(1 + 2 + 4 + 8), CloseReason::Lost));
    }

    #[test]
    fn delay_centric_moves_to_the_faster_path_and_back() {
        let policy = path::Config::DelayCentric(path::delay_centric::Config::default());
        let mut pair = Pair::open(&Config { policy: Some(policy), ..voip(5, ms(1_000)) }, 2);
        let slow_down = |pair: &mut Pair, path: usize, delay| {
            for wire in &mut pair.wires[path] {
                wire.delay = ms(delay);
            }
        };
        slow_down(&mut pair, 0, 60);
        talk(&mut pair, ms(5_000), ONCE);
        assert!(sample(&pair, Side::A, 1).is_primary);
        slow_down(&mut pair, 1, 90);
        talk(&mut pair, ms(5_000), ONCE);
        assert!(sample(&pair, Side::A, 0).is_primary);
        assert!(pair.ends[0].stats().primary_changes >= 2);
    }
}

mod partial_reliability {
    use super::*;

    #[test]
    fn limited_retransmissions_are_counted() {
        // RFC 7496 section 3.1.1: after n retransmissions the message is given up.
        for limit in 0..3 {
            let mut pair = Pair::open(&rfc9260(), 1);
            let payload = pair.send(Side::A, 100, Reliability::LimitedRetransmissions(limit), false);
            pair.log.clear();
            pair.drop_if = drop_first("data", usize::MAX);
            pair.run_for(ms(1));
            // The first transmission was on its way already.
            pair.set_up(0, true);
            let later = pair.send(Side::A, 100, Reliability::LimitedRetransmissions(limit), false);
            pair.run_for(ms(30_000));
            assert_eq!(pair.sent(Side::A, "data").len() as u32, 1 + limit);
            assert_eq!(pair.abandoned(Side::A), [later]);
            assert_eq!(pair.received(Side::B), [payload]);
        }
    }

    #[test]
    fn a_message_past_its_lifetime_is_given_up() {
        // RFC 3758 section 4.1.
        let mut pair = Pair::open(&rfc9260(), 1);
        pair.drop_if = drop_first("data", 1);
        let sent: Vec<Payload> =
            (0..2).map(|_| pair.send(Side::A, 100, Reliability::Timed(ms(500)), false)).collect();
        pair.run_for(ms(5_000));
        assert_eq!(pair.abandoned(Side::A), sent[..1]);
        assert_eq!(pair.received(Side::B), sent[1..]);
        assert_eq!(pair.ends[0].stats().data_chunks_retransmitted, 0);
    }

    #[test]
    fn what_was_sent_is_not_given_up_where_the_peer_cannot_pass_it() {
        // RFC 3758 section 3.3.1: no FORWARD TSN to a peer that has not offered it, so it would wait for
        // ever.
        let mut pair = Pair::open(&Config { partial_reliability: Some(false), ..rfc9260() }, 1);
        pair.drop_if = drop_first("data", 1);
        let sent: Vec<Payload> =
            (0..2).map(|_| pair.send(Side::A, 100, Reliability::Timed(ms(500)), false)).collect();
        pair.run_for(ms(5_000));
        assert_eq!(pair.abandoned(Side::A), []);
        assert_eq!(pair.received(Side::B), sent);
        assert_eq!(pair.ends[0].stats().forward_tsns_sent, 0);
    }

    #[test]
    fn a_message_may_expire_before_it_is_sent() {
        let mut pair = Pair::open(&rfc9260(), 1);
        pair.set_up(0, false);
        pair.send_reliable(10, 1_400);
        let waiting = pair.send(Side::A, 1_000, Reliability::Timed(ms(200)), false);
        pair.run_for(ms(500));
        pair.set_up(0, true);
        pair.run_for(ms(10_000));
        assert_eq!(pair.abandoned(Side::A), [waiting]);
        assert_eq!(pair.received(Side::B).len(), 10);
        assert_eq!(pair.ends[0].stats().forward_tsns_sent, 0, "it never had a TSN");
    }

    #[test]
    fn lower_priority_makes_room_for_higher() {
        // RFC 7496 section 3.1.2.
        let mut pair = Pair::open(&Config { send_buffer: Some(Buffer::At(Bytes(10_000))), ..rfc9260() }, 1);
        pair.set_up(0, false);
        let low: Vec<Payload> =
            (0..10).map(|_| pair.send(Side::A, 1_000, Reliability::Priority(7), false)).collect();
        let refused = pair.send(Side::A, 1_000, Reliability::Priority(7), false);
        assert!(pair.heard(Side::A, &Event::Refused(refused)), "equals do not make room");
        let high = pair.send(Side::A, 1_500, Reliability::Priority(1), false);
        assert_eq!(pair.abandoned(Side::A), [low[9], low[8]]);
        pair.set_up(0, true);
        pair.run_for(ms(10_000));
        assert_eq!(pair.received(Side::B).last(), Some(&high));
        assert_eq!(pair.received(Side::B).len(), 9);
    }

    #[test]
    fn a_forward_tsn_lets_later_messages_through() {
        // RFC 3758 section 3.6: ordered messages no longer wait for the one given up.
        let mut pair = Pair::open(&rfc9260(), 1);
        pair.drop_if = drop_data(&[0]);
        let start = pair.now;
        let sent: Vec<Payload> = (0..5).map(|_| pair.send(Side::A, 1_000, ONCE, false)).collect();
        pair.run_for(ms(500));
        assert_eq!(pair.abandoned(Side::A), sent[..1]);
        assert_eq!(pair.received(Side::B), sent[1..]);
        let forward = pair.sent(Side::A, "forward_tsn");
        // The third missing report and one way come before any timeout.
        assert!(forward[0].at - start < ms(50));
        assert_eq!(forward[0].size, 20 + 12 + 8 + 4, "one stream entry");
        assert_eq!(pair.ends[1].reassembly.bytes, 0);
    }

    #[test]
    fn a_lost_forward_tsn_is_sent_again() {
        let mut pair = Pair::open(&rfc9260(), 1);
        pair.drop_if = Box::new({
            let mut data = drop_data(&[0]);
            let mut forward = drop_first("forward_tsn", 1);
            move |now, from, packet| data(now, from, packet) || forward(now, from, packet)
        });
        pair.send(Side::A, 1_000, ONCE, false);
        pair.run_for(ms(5_000));
        assert_eq!(pair.sent(Side::A, "forward_tsn").len(), 2);
        let later = pair.send(Side::A, 1_000, ONCE, false);
        pair.run_for(ms(1_000));
        assert_eq!(pair.received(Side::B), [later]);
    }

    #[test]
    fn a_forward_tsn_may_overtake_the_data_it_covers() {
        for delivers in [false, true] {
            let deliver_overtaken = Some(delivers);
            let settings = Config { rto_min: Some(ms(50)), deliver_overtaken, ..config(Profile::Ns2) };
            let mut pair = Pair::open(&settings, 1);
            talk(&mut pair, ms(1_000), ONCE);
            // The data is late, not lost: the sender gives it up and tells the peer over a faster wire.
            pair.wires[0][0].delay = ms(400);
            let late = pair.send(Side::A, 160, ONCE, true);
            pair.wires[0][0].delay = ms(20);
            pair.run_for(ms(200));
            let next = pair.send(Side::A, 160, ONCE, true);
            pair.run_for(ms(100));
            assert_eq!(pair.abandoned(Side::A), [late]);
            assert!(!pair.sent(Side::A, "forward_tsn").is_empty());
            assert_eq!(pair.received(Side::B).last(), Some(&next));
            pair.run_for(ms(1_000));
            let last = if delivers { late } else { next };
            assert_eq!(pair.received(Side::B).last(), Some(&last), "what came late is delivered if so set");
            let then = talk(&mut pair, ms(200), ONCE);
            pair.run_for(ms(100));
            assert_eq!(pair.received(Side::B).last(), then.last(), "and acknowledgement goes on");
            assert_eq!(pair.ends[0].outstanding.bytes(), 0);
        }
    }

    #[test]
    fn a_fragmented_message_is_given_up_as_a_whole() {
        let mut pair = Pair::open(&rfc9260(), 1);
        pair.drop_if = drop_data(&[1]);
        let long = pair.send(Side::A, 20_000, ONCE, false);
        let short = pair.send(Side::A, 100, ONCE, false);
        pair.run_for(ms(10_000));
        assert_eq!(pair.abandoned(Side::A), [long]);
        assert_eq!(pair.received(Side::B), [short]);
        assert_eq!(pair.ends[1].reassembly.bytes, 0, "no fragment is left behind");
    }

    #[test]
    fn at_a_timeout_ns2_waits_for_the_next_message() {
        let mut pair = Pair::open(&voip(5, ms(200)), 1);
        talk(&mut pair, ms(1_000), ONCE);
        pair.run_for(ms(300));
        pair.log.clear();
        pair.drop_if = drop_first("data", 1);
        let lost = pair.send(Side::A, 160, ONCE, true);
        pair.run_for(ms(1_000));
        assert_eq!(pair.abandoned(Side::A), [lost]);
        assert!(pair.sent(Side::A, "forward_tsn").is_empty(), "nothing is sent on expiry");
        let next = pair.send(Side::A, 160, ONCE, true);
        pair.run_for(ms(500));
        assert_eq!(pair.received(Side::B).last(), Some(&next));
        assert_eq!(pair.sent(Side::A, "forward_tsn").len(), 1, "with the SACK that shows the gap");
        assert_eq!(pair.ends[0].outstanding.bytes(), 0);
    }
}

mod closing {
    use super::*;

    #[test]
    fn shutdown_after_everything_is_delivered() {
        // Section 9.2.
        let mut pair = Pair::open(&rfc9260(), 1);
        let sent = pair.send_reliable(100, 1_000);
        let back = pair.send(Side::B, 500, Reliability::Reliable, false);
        pair.command(Side::A, Command::Shutdown);
        pair.run_for(ms(10_000));
        assert!(pair.received(Side::B) == sent);
        assert_eq!(pair.received(Side::A), [back]);
        for side in [Side::A, Side::B] {
            assert_eq!(pair.closed(side).map(|(_, reason)| reason), Some(CloseReason::Shutdown));
        }
    }

    #[test]
    fn shutdown_survives_loss_and_may_start_at_both_ends() {
        for kind in ["shutdown", "shutdown_ack", "shutdown_complete"] {
            for both in [false, true] {
                let mut pair = Pair::open(&rfc9260(), 2);
                pair.drop_if = drop_first(kind, 1);
                pair.command(Side::A, Command::Shutdown);
                if both {
                    pair.command(Side::B, Command::Shutdown);
                }
                pair.run_for(ms(10_000));
                for side in [Side::A, Side::B] {
                    let closed = pair.closed(side).map(|(_, reason)| reason);
                    assert_eq!(closed, Some(CloseReason::Shutdown), "{kind} lost, both {both}, {side:?}");
                }
            }
        }
    }

    #[test]
    fn shutdown_gives_up_when_the_peer_is_gone() {
        let mut pair = Pair::open(&rfc9260(), 1);
        pair.set_up(0, false);
        pair.command(Side::A, Command::Shutdown);
        pair.run_for(Duration::from_secs(1_000));
        assert_eq!(pair.closed(Side::A).map(|(_, reason)| reason), Some(CloseReason::Lost));
    }

    #[test]
    fn abort_ends_both_at_once() {
        // Section 9.1.
        let mut pair = Pair::open(&rfc9260(), 1);
        let start = pair.now;
        pair.command(Side::B, Command::Abort);
        pair.run_for(ms(1_000));
        assert_eq!(pair.closed(Side::B), Some((start, CloseReason::Aborted)));
        assert_eq!(pair.closed(Side::A), Some((start + ms(20), CloseReason::Aborted)));
        let refused = pair.send(Side::A, 100, Reliability::Reliable, false);
        assert!(pair.heard(Side::A, &Event::Refused(refused)));
    }

    #[test]
    fn a_lost_abort_is_repeated_for_data_that_comes_after() {
        // Section 8.4: out of the blue.
        let mut pair = Pair::open(&rfc9260(), 1);
        pair.drop_if = drop_first("abort", 1);
        pair.command(Side::B, Command::Abort);
        pair.send_reliable(1, 100);
        pair.run_for(ms(1_000));
        assert_eq!(pair.closed(Side::A).map(|(_, reason)| reason), Some(CloseReason::Aborted));
    }

    #[test]
    fn a_wrong_verification_tag_is_ignored() {
        // Section 8.5.
        let mut pair = Pair::open(&rfc9260(), 1);
        pair.drop_if = Box::new(|_, _, packet| holds(packet, "data"));
        pair.send_reliable(1, 100);
        let mut stray = Pair::seeded(&rfc9260(), 1, 2);
        stray.connect();
        stray.command(Side::B, Command::Abort);
        let packet = stray.take_packet().expect("the ABORT is on its way");
        pair.input(Side::A, crate::endpoint::Input::Packet(Box::new(packet)));
        assert_eq!(pair.closed(Side::A), None);
    }
}
