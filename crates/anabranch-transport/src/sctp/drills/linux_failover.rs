//! Drill tests of what Linux does about losses and failed paths, one or more per function of the kernel
//! (6.12, `net/sctp`).

use crate::endpoint::Event;
use crate::flow::{PathId, Side};
use crate::path::PathState;
use crate::sctp::Config;
use crate::sctp::config::Profile;
use crate::sctp::procedures;
use crate::sctp::state::State;
use crate::sctp::testing::{Pair, config, ms};
use crate::time::Time;
use crate::units::Limit;
use crate::wire::sctp::chunk::HeartbeatInfo;

fn linux() -> Config {
    Config { path_verification: Some(false), ..config(Profile::Linux) }
}

#[test]
fn a_rule_of_linux_can_be_set_alone() {
    let rule = |value| procedures::Config { charges_kernel_memory: value, ..procedures::Config::default() };
    for (profile, value, taken) in [
        (Profile::Rfc9260, None, 425),
        (Profile::Rfc9260, Some(true), 139),
        (Profile::Linux, Some(false), 425),
    ] {
        let base = Config { path_verification: Some(false), ..config(profile) };
        let mut pair = Pair::open(&Config { procedures: Some(rule(value)), ..base }, 1);
        pair.set_up(0, false);
        let sent = pair.send_reliable(taken + 1, 500);
        let refused = |at: usize| pair.heard(Side::A, &Event::Refused(sent[at]));
        assert!(!refused(taken - 1) && refused(taken), "{profile:?}, {value:?}");
    }
}

/// A message of 500 bytes every 20 ms.
fn talk(pair: &mut Pair, messages: usize) {
    for _ in 0..messages {
        pair.send_reliable(1, 500);
        pair.run_for(ms(20));
    }
}

#[test]
fn sctp_select_active_and_retran_path_of_equally_suspect_paths_takes_the_one_heard_of_last() {
    let mut pair = Pair::open(&linux(), 2);
    talk(&mut pair, 100);
    pair.set_up(0, false);
    pair.set_up(1, false);
    let heard = [0, 1].map(|path: usize| pair.ends[0].routing.status[path].last_heard);
    assert!(heard[0] > heard[1], "data went on the first path");
    let suspect = |pair: &Pair| pair.path_change(Side::A, 1, PathState::PotentiallyFailed);
    assert!((0..500).any(|_| {
        talk(&mut pair, 1);
        suspect(&pair).is_some()
    }));
    let errors = [0, 1].map(|path: usize| pair.ends[0].routing.status[path].error_count);
    assert_eq!(errors, [1, 1]);
    assert_eq!(pair.ends[0].routing.selection.current, PathId(0));
    let at = suspect(&pair).expect("seen above");
    let again: Vec<u8> = pair.sent(Side::A, "data").iter().filter(|p| p.at == at).map(|p| p.path).collect();
    assert!(!again.is_empty() && again.iter().all(|&path| path == 0), "{again:?}");
}

#[test]
fn sctp_packet_can_append_data_asks_the_window_for_every_chunk() {
    let mut pair = Pair::open(&Config { path_max_retrans: Some(9), ..linux() }, 1);
    talk(&mut pair, 100);
    pair.set_up(0, false);
    // Past the first timeout: the window is one MTU, three of these.
    talk(&mut pair, 75);
    assert_eq!(pair.ends[0].routing.status[0].error_count, 1);
    assert_eq!(pair.ends[0].sender.outstanding.on(PathId(0)), 1_500);
}

#[test]
fn sctp_outq_flush_rtx_puts_heartbeats_off_even_where_the_window_is_full() {
    let config = Config { hb_interval: Some(ms(100)), path_max_retrans: Some(9), ..linux() };
    let mut pair = Pair::open(&config, 1);
    talk(&mut pair, 100);
    pair.set_up(0, false);
    // Up to the second timeout, and half-way to the third. Data waits to be sent again from the first on.
    talk(&mut pair, 250);
    assert_eq!(pair.ends[0].routing.status[0].error_count, 2, "heartbeats are no strikes");
    assert!(pair.sent(Side::A, "heartbeat").iter().all(|packet| packet.at + ms(3_800) < pair.now));
    // Now the application is silent.
    pair.run_for(ms(3_000));
    assert!(pair.sent(Side::A, "heartbeat").iter().any(|packet| packet.at + ms(3_000) > pair.now));
}

#[test]
fn expire_timers_serves_the_heartbeat_before_t3_rtx_where_both_were_set_by_the_same_data() {
    // After the first timeout RTO is 2 s, and so is HB.interval + RTO / 2: T3-rtx and the heartbeat timer,
    // which waits for the rest of its period, expire in one tick. The heartbeat leaves, so that the next one
    // can be an error before T3-rtx, now 4 s, expires.
    let config = Config {
        hb_interval: Some(ms(1_000)),
        path_max_retrans: Some(2),
        pf_max_retrans: Some(Limit::Off),
        ..linux()
    };
    let mut pair = Pair::open(&config, 2);
    talk(&mut pair, 100);
    let black = pair.now;
    pair.set_up(0, false);
    talk(&mut pair, 160);
    assert_eq!(pair.ends[0].routing.status[0].error_count, 2);
    let sent = |kind: &str| -> Vec<f64> {
        let on_first =
            pair.sent(Side::A, kind).into_iter().filter(|p| p.path == 0 && p.at > black + ms(2_000));
        on_first.map(|packet| packet.at.saturating_since(black).as_secs_f64()).collect()
    };
    let [beats, data] = ["heartbeat", "data"].map(sent);
    assert!(beats.len() == 1 && (3.0..3.2).contains(&beats[0]) && data[0] == beats[0], "{beats:?} {data:?}");
}

#[test]
fn a_suspicious_timeout_on_the_second_path_costs_the_first_one_two_more() {
    // RTO.Min is below the SACK delay, so T3-rtx expires on the second path before its SACK, and data goes
    // back to the first, whose errors that SACK clears (`sctp_check_transmitted`): of five timeouts three
    // count. Linux delivers nothing for 3.16 s.
    let config = Config {
        hb_interval: Some(ms(100)),
        path_max_retrans: Some(2),
        pf_max_retrans: Some(Limit::Off),
        rto_min: Some(ms(100)),
        ..linux()
    };
    let mut pair = Pair::open(&config, 2);
    pair.run_for(ms(2_000));
    talk(&mut pair, 200);
    let black = pair.now;
    pair.set_up(0, false);
    talk(&mut pair, 250);
    let failed = pair.path_change(Side::A, 0, PathState::Inactive).expect("it is black");
    let after = failed.saturating_since(black).as_secs_f64();
    assert!((3.1..3.4).contains(&after), "{after}");
}

#[test]
fn sctp_transport_reset_t3_rtx_leaves_a_running_timer_alone() {
    for (profile, restarts) in [(Profile::Rfc9260, true), (Profile::Linux, false)] {
        let mut pair = Pair::open(&Config { max_burst: Some(Limit::At(4)), ..config(profile) }, 1);
        pair.send_reliable(2, 1_400);
        pair.run_for(ms(10));
        let (now, end) = (pair.now, &mut pair.ends[0]);
        let before = end.routing.paths[0].t3;
        end.mark_lost(now, 0, false);
        end.retransmit_packet(now, PathId(0), 0, 0);
        assert_eq!(end.routing.paths[0].t3 != before, restarts, "{profile:?}");
    }
}

#[test]
fn sctp_set_owner_w_charges_the_send_buffer_with_the_memory_of_each_chunk() {
    // Counted in Linux 6.12 with its default of 212,992 bytes: nothing is acknowledged, and this many
    // messages are taken.
    for (length, taken) in [(500, 139), (1_452, 84)] {
        let mut pair = Pair::open(&linux(), 1);
        talk(&mut pair, 50);
        pair.run_for(ms(1_000));
        pair.set_up(0, false);
        let sent = pair.send_reliable(taken + 1, length);
        let refused = |at: usize| pair.heard(Side::A, &Event::Refused(sent[at]));
        assert!(!refused(taken - 1) && refused(taken), "{length}");
    }
}

#[test]
fn sctp_sf_backbeat_8_3_takes_no_late_answer() {
    // Later than HB.interval, 30 s, and the RTO.
    for (profile, late, errors) in
        [(Profile::Rfc9260, 40, 0), (Profile::Linux, 40, 1), (Profile::Linux, 20, 0)]
    {
        let mut pair = Pair::open(&config(profile), 1);
        pair.run_for(ms(100_000));
        let (now, end) = (pair.now, &mut pair.ends[0]);
        end.routing.status[0].error_count = 1;
        end.on_heartbeat_ack(now, answer(end.routing.paths[0].heartbeat.nonce, Time::from_secs(100 - late)));
        assert_eq!(end.routing.status[0].error_count, errors, "{profile:?}, {late} s");
    }
}

#[test]
fn sctp_cmd_transport_on_leaves_the_errors_of_an_association_that_ends() {
    for (profile, errors) in [(Profile::Rfc9260, 0), (Profile::Linux, 3)] {
        let mut pair = Pair::open(&config(profile), 1);
        let (now, end) = (pair.now, &mut pair.ends[0]);
        end.state.step(State::ShutdownPending);
        end.routing.errors_in_a_row = 3;
        end.on_heartbeat_ack(now, answer(end.routing.paths[0].heartbeat.nonce, now));
        assert_eq!(end.routing.errors_in_a_row, errors, "{profile:?}");
    }
}

fn answer(nonce: u32, sent_at: Time) -> HeartbeatInfo {
    HeartbeatInfo { sent_at, nonce, path: PathId(0), padding: 0, pair: None }
}
