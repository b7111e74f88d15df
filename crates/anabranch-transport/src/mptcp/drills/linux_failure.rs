//! Drills of what a connection of profile `linux_6` does when a path fails, one for each rule of Linux 6.12;
//! tests name the kernel's functions (`net/mptcp/protocol.c`, `pm.c`, `pm_kernel.c`).

use super::reset;
use crate::cc::{self, coupled};
use crate::endpoint::Event;
use crate::flow::Side;
use crate::mptcp::testing::{Pair, Wire, config, ms};
use crate::mptcp::{Config, Profile, Rejoin};
use crate::path::PathState;
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// Settings with which neither buffers nor queues limit anything.
fn linux() -> Config {
    let (cc, buffer) = (Some(cc::Config::Bbr(cc::bbr::Config::default())), Some(Bytes(16 << 20)));
    Config { cc, send_buffer: buffer, receive_buffer: buffer, ..config(Profile::Linux6) }
}

fn wires() -> Vec<Wire> {
    vec![Wire { rate: Some(10_000_000), ..Wire::default() }; 2]
}

/// A transfer whose path 0 is dead from this time on.
fn blackout(config: &Config) -> (Pair, Time) {
    let mut pair = Pair::open(config, wires());
    pair.write(Side::A, 40_000_000);
    pair.run_for(Duration::from_secs(3));
    pair.wires[0].is_dead = true;
    pair.log.clear();
    let died = pair.now;
    (pair, died)
}

/// When path 0 of this end came to this state.
fn turned(pair: &Pair, state: PathState) -> Option<Time> {
    let wanted = Event::PathChanged { path: Pair::path(0), state };
    let events = &pair.events[Side::A.index()];
    events.iter().rev().find(|(_, event)| *event == wanted).map(|&(at, _)| at)
}

/// The longest time from then on during which B got nothing.
fn stall(pair: &Pair, since: Time) -> Duration {
    let got = pair.events[Side::B.index()].iter().filter(|(_, event)| matches!(event, Event::Received(_)));
    let after = got.map(|&(at, _)| at).filter(|at| *at > since);
    let times: Vec<Time> = std::iter::once(since).chain(after).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("something came")
}

/// The failure of a subflow is found in less time than four of its own timeouts, which double and would take
/// more than 3 s.
#[test]
fn mptcp_pm_subflow_chk_stale_counts_intervals_of_the_connection() {
    let (mut pair, died) = blackout(&linux());
    pair.run_for(Duration::from_secs(3));
    let failed = turned(&pair, PathState::PotentiallyFailed).expect("path 1 works") - died;
    assert!((ms(500)..ms(1_400)).contains(&failed), "failed after {failed}");
    let stall = stall(&pair, died);
    assert!(stall < failed + ms(500), "{stall}");
}

#[test]
fn mptcp_pm_nl_subflow_chk_stale_takes_more_intervals_where_more_are_set() {
    let failed = |stale_after| {
        let (mut pair, died) = blackout(&Config { stale_after: Some(stale_after), ..linux() });
        pair.run_for(Duration::from_secs(8));
        turned(&pair, PathState::PotentiallyFailed).expect("path 1 works") - died
    };
    let (one, eight) = (failed(1), failed(8));
    let more = eight - one;
    // Every second interval, the one in which the subflow that works has been counted as silent, is 200 ms;
    // the others are that subflow's own timer.
    assert!((ms(600)..=ms(1_400)).contains(&more), "seven intervals are {more}");
}

/// Everything unacknowledged is sent again, including what path 1 has delivered above the gap.
#[test]
fn mptcp_retransmit_pending_data_sends_the_whole_queue_again() {
    let (mut pair, _) = blackout(&linux());
    pair.run_for(Duration::from_secs(4));
    assert!(pair.end(Side::B).stats().duplicate_bytes_received > 100_000);
    assert!(pair.received_bytes(Side::B) > 0);
}

/// Where the other subflow is silent too, there is no alternative: neither has failed, and both go on.
#[test]
fn mptcp_pm_nl_subflow_chk_stale_looks_for_another_subflow() {
    let (mut pair, _) = blackout(&linux());
    pair.wires[1].is_dead = true;
    pair.run_for(Duration::from_secs(20));
    assert_eq!(turned(&pair, PathState::PotentiallyFailed), None);
    assert!(!pair.end(Side::A).subflows[1].has_failed);
    pair.wires.iter_mut().for_each(|wire| wire.is_dead = false);
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.received_bytes(Side::B), 40_000_001);
}

/// After two intervals in which the only regular subflow is silent, the backup gets a fragment with each
/// further interval. It gets everything when the subflow has failed.
#[test]
fn mptcp_subflow_get_retrans_has_a_backup_help_out() {
    let (mut pair, died) = blackout(&Config { backup: vec![1], ..linux() });
    pair.run_for(Duration::from_secs(4));
    let failed = turned(&pair, PathState::PotentiallyFailed).expect("the backup works");
    let on_backup = pair.log.iter().filter(|it| it.path == 1 && it.payload.length > 0 && it.from == Side::A);
    let sent: Vec<_> = on_backup.map(|logged| (logged.at, logged.payload.length)).collect();
    let helped = sent[0].0 - died;
    assert!((ms(200)..ms(900)).contains(&helped), "the backup helps after {helped}");
    assert!(sent[0].0 < failed);
    let before: u32 = sent.iter().filter(|(at, _)| *at < failed).map(|(_, length)| length).sum();
    assert!((1..=3 * 32_768).contains(&before), "{before} B before it takes over");
    let stall = stall(&pair, died);
    assert!(stall < ms(900), "{stall}");
    assert!(pair.bytes_on(Side::A, 1) > 2_000_000);
}

/// A subflow with nothing outstanding gets the first fragment in the first interval, whether or not the other
/// one has failed.
#[test]
fn mptcp_subflow_get_retrans_takes_an_idle_subflow() {
    let mut pair = Pair::open(&linux(), wires());
    let held = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = held.clone();
    // Everything on path 0 is lost, retransmissions included.
    pair.drop_if = Box::new(move |logged| {
        let is_data = logged.from == Side::A && logged.path == 0 && logged.payload.length > 0;
        count.set(count.get() + u32::from(is_data));
        is_data
    });
    let began = pair.now;
    pair.write(Side::A, 60_000);
    pair.run_until(began + Duration::from_secs(10), |pair| pair.received_bytes(Side::B) == 60_001);
    assert!(held.get() > 0, "path 0 had its share");
    let took = pair.now - began;
    assert!(took < ms(700), "{took}");
    assert_eq!(turned(&pair, PathState::PotentiallyFailed), None);
}

/// A subflow that receives anything again is no longer failed.
#[test]
fn mptcp_subflow_active_asks_whether_anything_was_heard() {
    let (mut pair, _) = blackout(&linux());
    pair.run_for(Duration::from_secs(4));
    assert!(pair.end(Side::A).subflows[0].has_failed);
    pair.wires[0].is_dead = false;
    let returned = pair.now;
    pair.run_for(Duration::from_secs(6));
    let active = turned(&pair, PathState::Active).expect("it works again");
    let acks = pair.log.iter().filter(|it| it.path == 0 && it.from == Side::B && it.at > returned);
    let first = acks.map(|logged| logged.at).min().expect("it hears");
    assert!(active < first + ms(21), "{active}");
    assert!(pair.bytes_on(Side::A, 0) > 1_000_000, "{} B", pair.bytes_on(Side::A, 0));
}

/// When a subflow is over, everything is sent again, even what the other one has sent and not lost.
#[test]
fn mptcp_close_ssk_sends_the_whole_queue_again() {
    let mut pair = Pair::open(&Config { rejoin: Some(Rejoin::Never), ..linux() }, wires());
    pair.write(Side::A, 3_000_000);
    pair.run_for(ms(300));
    let on_other = |pair: &Pair| -> Vec<_> {
        let data = pair.log.iter().filter(|it| it.from == Side::A && it.path == 1 && it.payload.length > 0);
        data.map(|logged| logged.options.data_position).collect()
    };
    let before = on_other(&pair);
    reset(&mut pair, 0);
    // What waits in the queue of path 1 leaves first.
    pair.run_for(ms(600));
    let again = on_other(&pair)[before.len()..].iter().filter(|place| before.contains(place)).count();
    assert!(again > 0, "of {} pieces", before.len());
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.received_bytes(Side::B), 3_000_001);
}

/// What the timer has begun to send again on one subflow goes where the scheduler says when another one
/// fails.
#[test]
fn mptcp_retransmit_pending_data_is_for_every_subflow() {
    let mut pair = Pair::open(&linux(), vec![Wire { rate: Some(10_000_000), ..Wire::default() }; 3]);
    pair.write(Side::A, 100_000);
    let end = pair.end_mut(Side::A);
    assert!(end.sender.send_first_again_on(2, 32_728));
    assert!(!end.sender.has_failed_data());
    end.fail(0);
    assert!(end.sender.has_failed_data());
}

/// A piece that does not fit into the peer's window is cut at its end.
#[test]
fn mptcp_check_allowed_size_cuts_at_the_end_of_the_window() {
    let sent = |profile| {
        let small = Config {
            receive_buffer: Some(Bytes(8_192)),
            opportunistic_retransmission: Some(false),
            ..config(profile)
        };
        let mut pair = Pair::open(&small, vec![Wire::default(); 2]);
        pair.write(Side::A, 100_000);
        pair.run_for(ms(10));
        pair.bytes_on(Side::A, 0) + pair.bytes_on(Side::A, 1)
    };
    assert_eq!(sent(Profile::Linux6), 8_192, "the whole window");
    assert_eq!(sent(Profile::Rfc8684), 5 * 1_428, "another profile waits for room for a segment");
}

/// A bulk transfer over one path whose queue is long, so that two round-trip times are more than what is left
/// to the timeout of the first outstanding segment after something has been sent.
fn over_a_long_queue() -> Pair {
    let config = Config { cc: Some(cc::Config::Reno(cc::reno::Config::default())), ..linux() };
    let mut pair = Pair::open(&config, vec![wires()[0]]);
    pair.write(Side::A, 40_000_000);
    pair.run_for(Duration::from_secs(2));
    pair
}

/// As long as data waits, each acknowledgement renews the interval, before what it lets out is sent.
#[test]
fn ack_update_msk_renews_the_interval_where_data_waits() {
    let mut pair = over_a_long_queue();
    let mut renewed = 0;
    for _ in 0..200 {
        let (began, written) = (pair.now, pair.end(Side::A).sender.written);
        let end = began + ms(100);
        pair.run_until(end, |pair| pair.end(Side::A).subflows[0].tcp.heard_at() > began);
        let sender = &pair.end(Side::A).sender;
        let tcp = &pair.end(Side::A).subflows[0].tcp;
        if sender.written > written || !sender.has_pending() {
            continue;
        }
        // Linux, tcp_schedule_loss_probe: two round-trip times and TCP_TIMEOUT_MIN_US, or the timeout, in
        // whole ticks, which the timer wheel does not round.
        let probe = (tcp.srtt().expect("measured") * 2 + ms(2)).min(tcp.rto());
        assert_eq!(sender.interval.as_nanos(), probe.as_nanos().next_multiple_of(1_000_000));
        let left = tcp.time_to_timer(pair.now).expect("data is outstanding");
        assert!(left + ms(20) < sender.interval, "{left} after sending");
        renewed += 1;
    }
    assert!(renewed > 100, "{renewed} acknowledgements");
}

/// Where data waits when the timer expires, the scheduler is asked as well, and finds a silent subflow.
#[test]
fn mptcp_check_and_set_pending_renews_the_interval() {
    let mut pair = over_a_long_queue();
    pair.wires[0].is_dead = true;
    let end = pair.now + Duration::from_secs(20);
    pair.run_until(end, |pair| pair.end(Side::A).subflows[0].silent_intervals > 0);
    assert!(pair.end(Side::A).sender.has_pending());
    assert_eq!(pair.end(Side::A).sender.interval, ms(200));
}

/// The connection's timer is one of the kernel's, which its wheel rounds up: here to 8 ticks.
#[test]
fn sk_reset_timer_rounds_the_interval_up() {
    let mut pair = Pair::open(&linux(), wires());
    pair.write(Side::A, 40_000_000);
    pair.run_for(Duration::from_secs(3));
    let end = pair.end(Side::A);
    assert!((ms(63)..ms(503)).contains(&end.sender.interval), "{}", end.sender.interval);
    let fires = end.sender.timer.as_nanos() + end.clock.uptime.as_nanos();
    assert_eq!(fires % 8_000_000, 0);
}

/// BBR multiplies its segments by `mss_cache`, in which the options of a subflow are not left out; what
/// leaves counts without them. So a subflow of Linux is paced faster than what it measures, and fills a queue
/// that a plain connection keeps empty.
#[test]
fn tcp_update_skb_after_send_counts_data_without_options() {
    let srtt = |profile| {
        let coupling = Some(coupled::Config::PerPath(coupled::per_path::Config {}));
        let config = Config { cc: linux().cc, coupling, ..config(profile) };
        let mut pair = Pair::open(&config, vec![wires()[0]]);
        pair.write(Side::A, 40_000_000);
        pair.run_for(Duration::from_secs(8));
        pair.end(Side::A).subflows[0].tcp.srtt().expect("measured")
    };
    // The virtual kernel, Linux 6.12: 86 ms, up to the window of two bandwidth-delay products; over TCP 48
    // ms.
    let (linux, other) = (srtt(Profile::Linux6), srtt(Profile::Rfc8684));
    assert!((ms(75)..ms(95)).contains(&linux), "{linux}");
    assert!((ms(41)..ms(55)).contains(&other), "{other}");
}

/// What fills the peer's window is not repeated on the subflow that carries it.
#[test]
fn mptcp_rcv_buf_optimization_looks_for_another_subflow() {
    for paths in [1, 2] {
        let small = Config {
            receive_buffer: Some(Bytes(2_920)),
            opportunistic_retransmission: Some(true),
            ..config(Profile::Linux6)
        };
        let mut pair = Pair::open(&small, vec![Wire::default(); paths]);
        let began = pair.now;
        pair.write(Side::A, 20_000);
        pair.run_until(began + Duration::from_secs(60), |pair| pair.received_bytes(Side::B) == 20_001);
        assert_eq!(pair.received_bytes(Side::B), 20_001);
        let again = pair.end(Side::A).stats().bytes_reinjected;
        assert!(again <= 20_000 * (paths as u64 - 1), "{again} B over {paths} subflows");
    }
}
