//! RFC 9260 sections 6.3 and 7: timeouts, fast retransmission and the congestion window.

use super::*;
use crate::endpoint::Command;
use crate::flow::PathId;
use crate::sctp::config::{MissingReportsPer, RttSampling};

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
    assert_eq!(pair.ends[0].stats().timeouts, 5);
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
        let settings = Config { rtt_sampling: Some(sampling), sack_delay: Some(Duration::ZERO), ..rfc9260() };
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
    assert_eq!((stats.fast_retransmits, stats.timeouts), (1, 0));
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
    assert_eq!((stats.fast_retransmits, stats.timeouts), (1, 0));
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

/// A pair with one RTO for every timeout, whose paths have SRTT + 4 RTTVAR of 90 to 125 ms.
fn fixed_rto(profile: Profile, rto: u64, paths: usize) -> Pair {
    let settings = Config { rto_min: Some(ms(rto)), rto_max: Some(ms(rto)), ..config(profile) };
    let mut pair = Pair::open(&settings, paths);
    // Two chunks, which are acknowledged at once, over each path.
    for path in (0..paths as u8).rev() {
        pair.command(Side::A, Command::SetPrimary(PathId(path)));
        pair.send_reliable(2, 1_000);
        pair.run_for(ms(300));
    }
    pair.log.clear();
    let estimates = [0, paths - 1].map(|path| pair.ends[0].routing.paths[path].rtt);
    let sums = estimates.map(|rtt| rtt.srtt().expect("there were samples") + rtt.rttvar() * 4);
    assert!(sums.iter().all(|sum| (ms(90)..=ms(125)).contains(sum)), "{sums:?}");
    pair
}

/// Times of packets with data, and the numbers of their chunks.
fn data_sent(pair: &Pair, start: crate::time::Time) -> Vec<(Duration, Vec<u32>)> {
    let sent = pair.sent(Side::A, "data");
    let first = sent[0].tsns()[0];
    let numbers = |tsns: Vec<u32>| tsns.into_iter().map(|tsn| tsn.wrapping_sub(first)).collect();
    sent.iter().map(|packet| (packet.at - start, numbers(packet.tsns()))).collect()
}

/// FreeBSD 10, `sctp_mark_all_for_resend`: a timeout marks what left longer ago than SRTT + 4 RTTVAR, about
/// 110 ms here. RFC 9260 section 6.3.3 E3 marks all that is outstanding on the path.
#[test]
fn a_timeout_of_freebsd_marks_what_could_have_been_answered() {
    for (profile, again) in [(Profile::FreeBsd10, vec![0]), (Profile::Rfc9260, vec![0, 1])] {
        let mut pair = fixed_rto(profile, 130, 1);
        let start = pair.now;
        pair.set_up(0, false);
        pair.send_reliable(1, 100);
        pair.run_for(ms(60));
        pair.send_reliable(1, 100);
        pair.run_for(ms(75));
        let sent = data_sent(&pair, start);
        assert_eq!(sent, [(ms(0), vec![0]), (ms(60), vec![1]), (ms(130), again)], "{profile:?}");
        pair.set_up(0, true);
        pair.run_for(ms(1_000));
        assert_eq!(pair.received(Side::B).len(), 4, "{profile:?}");
    }
}

/// With RTO.Max below SRTT + 4 RTTVAR the first timeout finds everything too young: it counts as an error,
/// and neither the window shrinks nor anything leaves.
#[test]
fn a_timeout_of_freebsd_that_marks_nothing_leaves_the_window() {
    for (profile, spares) in [(Profile::FreeBsd10, true), (Profile::Rfc9260, false)] {
        let mut pair = fixed_rto(profile, 80, 1);
        let (start, before) = (pair.now, sample(&pair, Side::A, 0));
        pair.set_up(0, false);
        pair.send_reliable(1, 1_000);
        pair.run_for(ms(85));
        let after = sample(&pair, Side::A, 0);
        assert_eq!(pair.ends[0].stats().timeouts, 1, "{profile:?}");
        assert_eq!(pair.ends[0].routing.status[0].error_count, 1, "{profile:?}");
        assert_eq!(
            (after.cwnd == before.cwnd, after.ssthresh == before.ssthresh),
            (spares, spares),
            "{profile:?}"
        );
        pair.run_for(ms(80));
        assert!(sample(&pair, Side::A, 0).cwnd <= 1_500, "{profile:?}");
        let times: Vec<Duration> = data_sent(&pair, start).into_iter().map(|(at, _)| at).collect();
        let expected: &[Duration] = if spares { &[ms(0), ms(160)] } else { &[ms(0), ms(80), ms(160)] };
        assert_eq!(times, expected, "{profile:?}");
    }
}

/// `sctp_timeout_handler`: a timeout that marks nothing leaves its timer off while that of another path runs;
/// when none does, the path of the first chunk in flight gets one. A SACK starts all.
#[test]
fn one_timer_of_freebsd_runs_while_data_is_in_flight() {
    let mut pair = fixed_rto(Profile::FreeBsd10, 80, 2);
    let running = |pair: &Pair| [0, 1].map(|path| !pair.ends[0].routing.paths[path].t3.is_never());
    pair.set_up(0, false);
    pair.set_up(1, false);
    pair.command(Side::A, Command::SetPrimary(PathId(1)));
    pair.send_reliable(1, 1_000);
    pair.run_for(ms(40));
    pair.command(Side::A, Command::SetPrimary(PathId(0)));
    pair.send_reliable(1, 1_000);
    assert_eq!(running(&pair), [true, true]);
    pair.run_for(ms(45));
    assert_eq!(running(&pair), [true, false], "the second path's has expired");
    pair.run_for(ms(40));
    assert_eq!(running(&pair), [false, true], "the first path's as well: one is kept");
    assert_eq!(pair.ends[0].stats().data_chunks_retransmitted, 0);
    pair.set_up(0, true);
    pair.set_up(1, true);
    pair.run_for(ms(2_000));
    assert_eq!(pair.received(Side::B).len(), 6);
    assert_eq!(running(&pair), [false, false]);
}

/// `sctp_t3rxt_timer`: the only data beyond a closed window is a probe, which is sent again whatever its age.
#[test]
fn a_probe_of_freebsd_is_never_too_young() {
    let mut pair = fixed_rto(Profile::FreeBsd10, 80, 1);
    let start = pair.now;
    pair.ends[0].sender.peer_rwnd = 100;
    pair.set_up(0, false);
    pair.send_reliable(1, 100);
    assert_eq!(pair.ends[0].sender.peer_rwnd, 0);
    pair.run_for(ms(85));
    assert_eq!(data_sent(&pair, start), [(ms(0), vec![0]), (ms(80), vec![0])]);
}

/// `sctp_chunk_retransmission`: what a timeout has marked waits for the window of the path that it goes to.
#[test]
fn a_timeout_of_freebsd_asks_the_window_of_the_other_path() {
    for (profile, waits) in [(Profile::FreeBsd10, true), (Profile::Rfc9260, false)] {
        let mut pair = fixed_rto(profile, 130, 2);
        let start = pair.now;
        pair.set_up(0, false);
        pair.set_up(1, false);
        pair.send_reliable(1, 1_000);
        // More than its window, 60 ms later.
        pair.run_for(ms(60));
        pair.command(Side::A, Command::SetPrimary(PathId(1)));
        pair.send_reliable(8, 1_400);
        pair.run_for(ms(75));
        let again = data_sent(&pair, start).iter().filter(|(at, _)| *at == ms(130)).count();
        assert_eq!(again, usize::from(!waits), "{profile:?}");
        pair.set_up(0, true);
        pair.set_up(1, true);
        pair.run_for(ms(3_000));
        assert_eq!(pair.received(Side::B).len(), 13, "{profile:?}");
    }
}
