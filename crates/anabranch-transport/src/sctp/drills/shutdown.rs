//! Drill tests of RFC 9260 section 9.2: what may end an association that is being closed, and what may not.

use super::closed;
use crate::endpoint::{CloseReason, Command, Reliability};
use crate::flow::{PathId, Side};
use crate::path::PathState;
use crate::sctp::Profile;
use crate::sctp::config::{Buffer, RtoBackoff};
use crate::sctp::testing::{Pair, config, holds, ms};
use crate::time::Duration;
use crate::units::Limit;

const SHUTDOWN: Option<CloseReason> = Some(CloseReason::Shutdown);
const LOST: Option<CloseReason> = Some(CloseReason::Lost);

#[test]
fn no_guard_runs_while_data_is_queued() {
    // T5-shutdown-guard belongs to the sender of SHUTDOWN, and none is sent before all is acknowledged.
    for profile in [Profile::FreeBsd10, Profile::Linux, Profile::Ns2, Profile::Rfc9260] {
        let config = crate::sctp::Config {
            send_buffer: Some(Buffer::Off),
            rto_max: Some(Duration::from_secs(1)),
            ..config(profile)
        };
        let mut pair = Pair::open(&config, 1);
        for wire in &mut pair.wires[0] {
            wire.delay = ms(400);
        }
        let sent = pair.send_reliable(2_000, 1_400);
        pair.command(Side::A, Command::Shutdown);
        pair.run_for(Duration::from_secs(6));
        assert!(pair.sent(Side::A, "shutdown").is_empty(), "{profile:?}: data takes longer than the guard");
        pair.run_for(Duration::from_secs(300));
        assert_eq!(closed(&pair, Side::A), SHUTDOWN, "{profile:?}");
        assert!(pair.received(Side::B) == sent, "{profile:?}");
    }
}

#[test]
fn the_guard_runs_from_the_first_shutdown() {
    // Five times RTO.Max: without Association.Max.Retrans, this ends the association.
    let mut pair = Pair::open(&config(Profile::Ns2), 1);
    let start = pair.now;
    pair.send_reliable(1, 100);
    pair.command(Side::A, Command::Shutdown);
    pair.drop_if = Box::new(|_, _, packet| holds(packet, "shutdown"));
    pair.run_for(Duration::from_secs(400));
    let first = pair.sent(Side::A, "shutdown")[0].at;
    assert_eq!(first, start + ms(40), "with the SACK");
    assert_eq!(pair.closed_at(Side::A), Some((first + Duration::from_secs(300), CloseReason::Lost)));
    assert_eq!(pair.sent(Side::A, "abort").len(), 1);
}

#[test]
fn a_peer_that_still_sends_is_not_given_up() {
    // The reception of any packet clears the retransmission count and restarts T2-shutdown. Here one packet
    // in three seconds comes through, and T2-shutdown expires every second.
    let config = crate::sctp::Config {
        association_max_retrans: Some(Limit::At(5)),
        rto_backoff: Some(RtoBackoff::None),
        ..config(Profile::Rfc9260)
    };
    let mut pair = Pair::open(&config, 1);
    let sent: Vec<_> = (0..8).map(|_| pair.send(Side::B, 1_400, Reliability::Reliable, false)).collect();
    let mut last = pair.now;
    pair.drop_if = Box::new(move |now, from, packet| {
        let is_dropped = from == Side::B && holds(packet, "data") && now < last + Duration::from_secs(3);
        if from == Side::B && holds(packet, "data") && !is_dropped {
            last = now;
        }
        is_dropped
    });
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(Duration::from_secs(60));
    assert!(pair.received(Side::A) == sent);
    assert_eq!((closed(&pair, Side::A), closed(&pair, Side::B)), (SHUTDOWN, SHUTDOWN));
    assert!(
        pair.sent(Side::A, "shutdown").len() > 8 + 6,
        "T2-shutdown expired more often than may be in a row"
    );
}

/// Sections 9.2 and 6.3.2: the cumulative TSN of a SHUTDOWN acknowledges as that of a SACK does. It stops
/// T3-rtx where nothing is left, and starts it anew where something is.
#[test]
fn a_shutdown_stops_or_restarts_t3_rtx() {
    for profile in [Profile::FreeBsd10, Profile::Linux, Profile::Ns2, Profile::Rfc9260] {
        for is_last_lost in [false, true] {
            let mut pair = Pair::open(&config(profile), 1);
            let start = pair.now;
            let mut tsns = 0;
            pair.drop_if = Box::new(move |_, _, packet| {
                tsns += i32::from(holds(packet, "data"));
                holds(packet, "sack") || (is_last_lost && tsns == 3 && holds(packet, "data"))
            });
            pair.send_reliable(2, 1_400);
            pair.send_reliable(1, 1_400);
            pair.run_for(ms(500));
            assert!(!pair.ends[0].routing.paths[0].t3.is_never());
            pair.command(Side::B, Command::Shutdown);
            pair.run_for(ms(30));
            let rto = pair.ends[0].routing.paths[0].rtt.rto();
            if is_last_lost {
                // Linux's wheel adds up to 64 ms.
                let expires = pair.ends[0].routing.paths[0].t3.saturating_since(start);
                let expected = ms(520) + rto;
                assert!(expires >= expected && expires <= expected + ms(64), "{profile:?}: {expires}");
            } else {
                assert!(pair.ends[0].routing.paths[0].t3.is_never(), "{profile:?}");
            }
            pair.run_for(Duration::from_secs(10));
            assert_eq!((closed(&pair, Side::A), closed(&pair, Side::B)), (SHUTDOWN, SHUTDOWN), "{profile:?}");
            assert_eq!(pair.ends[0].stats().timeouts, u64::from(is_last_lost), "{profile:?}");
        }
    }
}

/// FreeBSD 10, `sctp_handle_sack` and `sctp_express_handle_sack`: what moves the cumulative TSN, a SHUTDOWN
/// too, starts the timers of all paths anew, that of a black one included. RFC 9260 section 6.3.2 R3 is about
/// the path whose earliest chunk is acknowledged.
#[test]
fn freebsd_restarts_the_timers_of_all_paths() {
    for (profile, restarts) in [(Profile::FreeBsd10, true), (Profile::Rfc9260, false)] {
        for answer in ["sack", "shutdown"] {
            let mut pair = Pair::open(&config(profile), 2);
            pair.run_for(Duration::from_secs(5));
            pair.command(Side::A, Command::SetPrimary(PathId(1)));
            pair.send_reliable(2, 1_400);
            pair.command(Side::A, Command::SetPrimary(PathId(0)));
            pair.set_up(0, false);
            pair.send_reliable(1, 1_400);
            let began = pair.ends[0].routing.paths[0].t3;
            assert!(!began.is_never() && !pair.ends[0].routing.paths[1].t3.is_never(), "{profile:?}");
            if answer == "shutdown" {
                pair.drop_if = Box::new(|_, _, packet| holds(packet, "sack"));
                pair.run_for(ms(25));
                pair.set_up(0, true);
                pair.command(Side::B, Command::Shutdown);
            }
            pair.run_for(ms(50));
            assert!(pair.ends[0].routing.paths[1].t3.is_never(), "{profile:?}, {answer}: it is acknowledged");
            assert_eq!(pair.ends[0].routing.paths[0].t3 > began, restarts, "{profile:?}, {answer}");
        }
    }
}

#[test]
fn data_restarts_the_time_of_shutdown() {
    // As long as packets with data arrive, each is answered at once and T2-shutdown never expires.
    let mut pair = Pair::open(&config(Profile::Rfc9260), 1);
    let sent: Vec<_> = (0..100).map(|_| pair.send(Side::B, 1_400, Reliability::Reliable, false)).collect();
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(Duration::from_secs(30));
    assert!(pair.received(Side::A) == sent);
    assert_eq!((closed(&pair, Side::A), closed(&pair, Side::B)), (SHUTDOWN, SHUTDOWN));
    let answers = pair.sent(Side::A, "shutdown").len();
    let packets = pair.sent(Side::B, "data").iter().filter(|packet| packet.at > pair.log[0].at).count();
    assert!(answers >= packets, "{answers} for {packets} packets");
    assert_eq!(pair.ends[1].stats().timeouts, 0);
}

#[test]
fn shutdown_goes_to_another_path_after_a_timeout() {
    // The path fails when nothing but SHUTDOWN is left to be sent.
    for profile in [Profile::FreeBsd10, Profile::Linux, Profile::Rfc9260] {
        let mut pair = Pair::open(&config(profile), 2);
        pair.run_for(Duration::from_secs(10));
        pair.set_up(0, false);
        let start = pair.now;
        pair.command(Side::A, Command::Shutdown);
        pair.run_for(Duration::from_secs(20));
        let (at, reason) = pair.closed_at(Side::A).expect("it is closed");
        assert_eq!(reason, CloseReason::Shutdown, "{profile:?}");
        assert!(at - start < Duration::from_secs(10), "{profile:?}: {}", at - start);
    }
}

#[test]
fn heartbeats_are_discontinued_after_shutdown() {
    // Section 8.3.
    for profile in [Profile::FreeBsd10, Profile::Linux, Profile::Ns2, Profile::Rfc9260] {
        let config = crate::sctp::Config {
            hb_interval: Some(ms(100)),
            association_max_retrans: Some(Limit::Off),
            ..config(profile)
        };
        let mut pair = Pair::open(&config, 2);
        pair.run_for(Duration::from_secs(20));
        pair.drop_if = Box::new(|_, from, _| from == Side::B);
        pair.command(Side::A, Command::Shutdown);
        pair.log.clear();
        pair.run_for(Duration::from_secs(30));
        assert!(pair.sent(Side::A, "heartbeat").is_empty(), "{profile:?}");
        for path in [0, 1] {
            assert_eq!(pair.path_change(Side::A, path, PathState::Inactive), None, "{profile:?}");
        }
        assert_eq!(closed(&pair, Side::A), None, "{profile:?}");
    }
}

#[test]
fn a_peer_that_is_gone_ends_shutdown_pending_by_its_errors() {
    // Section 8.1: Association.Max.Retrans, not the guard.
    let mut pair = Pair::open(&config(Profile::Rfc9260), 1);
    pair.set_up(0, false);
    pair.send_reliable(1, 100);
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(Duration::from_secs(1_000));
    assert_eq!(closed(&pair, Side::A), LOST);
    assert!(pair.sent(Side::A, "shutdown").is_empty() && pair.sent(Side::A, "abort").is_empty());
}
