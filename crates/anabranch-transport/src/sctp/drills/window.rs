//! Drill tests of RFC 9260 sections 6.1 and 7.2: what congestion windows count, how they begin, and what
//! idleness does to them.

use super::sample;
use crate::cc;
use crate::cc::sctp::InitialWindow;
use crate::endpoint::Command;
use crate::flow::{PathId, Side};
use crate::sctp::testing::{Pair, config, ms};
use crate::sctp::{Config, Profile};
use crate::time::Duration;
use crate::units::Limit;

/// As much user data as fits into a packet of 1500 bytes.
const FULL: u32 = 1_452;

fn wide(profile: Profile, max_burst: Limit) -> Config {
    let control =
        cc::sctp::Config { initial_window: Some(InitialWindow::Segments(20)), ..Default::default() };
    Config { cc: Some(cc::Config::Sctp(control)), max_burst: Some(max_burst), ..config(profile) }
}

/// Packets with data that leave at once.
fn first_flight(pair: &mut Pair) -> usize {
    pair.log.clear();
    pair.send_reliable(60, FULL);
    let flight = pair.sent(Side::A, "data");
    assert!(flight.iter().all(|packet| packet.size == 1_500));
    flight.len()
}

#[test]
fn the_first_flight_by_profile() {
    for (profile, window, packets) in [
        // Three chunks of 1468 bytes do not fill FreeBSD's 3 (1500 - 12), so a fourth may leave.
        (Profile::FreeBsd10, 4_500, 4),
        // User data counts: 3 x 1452 is less than 4380.
        (Profile::Linux, 4_380, 4),
        // Chunks count with their headers: 1468 bytes each.
        (Profile::Ns2, 2_936, 2),
        (Profile::Rfc2960, 3_000, 3),
        (Profile::Rfc4960, 4_380, 3),
        (Profile::Rfc9260, 4_404, 3),
    ] {
        let mut pair = Pair::open(&config(profile), 1);
        assert_eq!(sample(&pair, Side::A, 0).cwnd, window, "{profile:?}");
        assert_eq!(first_flight(&mut pair), packets, "{profile:?}");
    }
}

#[test]
fn a_burst_is_max_burst_packets() {
    for (profile, packets) in [
        (Profile::Rfc9260, 4),
        // Section 6.1 D of RFC 4960 and `sctp_transport_burst_limited` count Max.Burst in MTUs, of which
        // four chunks fill less than four.
        (Profile::Rfc4960, 5),
        (Profile::Linux, 5),
    ] {
        // All is queued before the association is open, so that it leaves on one occasion.
        let mut pair = Pair::new(&wide(profile, Limit::At(4)), 1);
        pair.send_reliable(60, FULL);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(90));
        assert_eq!(pair.sent(Side::A, "data").len(), packets, "{profile:?}");
    }
}

#[test]
fn small_messages_fill_the_window_with_their_headers() {
    // Section 7.2: the length of the DATA chunk, including the padding. 116 bytes for 98 bytes of data.
    let mut pair = Pair::open(&Config { max_burst: Some(Limit::Off), ..config(Profile::Rfc9260) }, 1);
    pair.send_reliable(100, 98);
    let chunks: usize = pair.sent(Side::A, "data").iter().map(|packet| packet.tsns().len()).sum();
    assert_eq!(chunks, 4_404_usize.div_ceil(116));
    assert_eq!(sample(&pair, Side::A, 0).outstanding as usize, chunks * 116);
}

#[test]
fn the_initial_window_waits_for_the_first_data() {
    // Section 7.2.1: the initial window does not depend on when data transmission begins.
    for start in [0, 10, 100] {
        let mut pair = Pair::new(&wide(Profile::Rfc9260, Limit::Off), 1);
        pair.run_for(Duration::from_secs(start));
        pair.connect();
        assert_eq!(first_flight(&mut pair), 20, "at {start} s");
    }
}

#[test]
fn a_path_that_was_never_used_has_its_initial_window() {
    let mut pair = Pair::open(&wide(Profile::Rfc9260, Limit::Off), 2);
    pair.run_for(Duration::from_secs(100));
    pair.command(Side::A, Command::SetPrimary(PathId(1)));
    assert_eq!(first_flight(&mut pair), 20);
    assert!(pair.sent(Side::A, "data").iter().all(|packet| packet.path == 1));
}

#[test]
fn a_path_that_was_used_decays_to_four_segments() {
    let mut pair = Pair::open(&wide(Profile::Rfc9260, Limit::Off), 1);
    first_flight(&mut pair);
    pair.run_for(ms(900));
    let window = sample(&pair, Side::A, 0).cwnd;
    assert!(window > 20 * 1_468);
    pair.run_for(Duration::from_secs(60));
    assert_eq!(first_flight(&mut pair), 4);
    assert_eq!((sample(&pair, Side::A, 0).cwnd, sample(&pair, Side::A, 0).ssthresh), (4 * 1_468, window));
}

#[test]
fn in_ns2_an_idle_window_decays_to_two_segments() {
    // ns-2, `CwndDegradeTimerExpiration`: half once per RTO, the threshold stays.
    let mut pair = Pair::open(&wide(Profile::Ns2, Limit::Off), 1);
    first_flight(&mut pair);
    pair.run_for(ms(900));
    assert!(sample(&pair, Side::A, 0).cwnd > 20 * 1_468);
    pair.run_for(Duration::from_secs(60));
    assert_eq!(first_flight(&mut pair), 2);
    assert_eq!((sample(&pair, Side::A, 0).cwnd, sample(&pair, Side::A, 0).ssthresh), (2 * 1_468, 65_536));
}

#[test]
fn a_heartbeat_of_linux_sets_window_and_threshold_of_an_idle_path() {
    // `sctp_transport_lower_cwnd`, SCTP_LOWER_CWND_INACTIVE: at every heartbeat, on a path never used too.
    let mut pair = Pair::open(&config(Profile::Linux), 2);
    pair.run_for(Duration::from_secs(40));
    for path in [0, 1] {
        assert_eq!(
            (sample(&pair, Side::A, path).cwnd, sample(&pair, Side::A, path).ssthresh),
            (6_000, 6_000)
        );
    }
}
