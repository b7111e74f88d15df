//! Drill tests of RFC 7829 (potentially failed paths), and of what load sharing makes of RFC 9260 section
//! 7.2.4.

use crate::cc::CongestionControl as _;
use crate::endpoint::Command;
use crate::flow::{PathId, Side};
use crate::path::PathState;
use crate::sctp::config::Profile;
use crate::sctp::testing::{Pair, config, holds, ms};
use crate::sctp::{Config, load_sharing};
use crate::units::Limit;

fn suspicious(profile: Profile) -> Config {
    Config { pf_max_retrans: Some(Limit::At(0)), ..config(profile) }
}

#[test]
fn section_3_2_what_went_on_several_paths_ends_no_suspicion() {
    let mut pair = Pair::open(&suspicious(Profile::Rfc9260), 2);
    let mut left = 2;
    pair.drop_if = Box::new(move |_, from, packet| {
        let is_lost = left > 0 && holds(packet, "data");
        left -= i32::from(is_lost);
        is_lost || from == Side::A && holds(packet, "heartbeat")
    });
    // The chunk is lost on the first path, sent again on the second and lost there, then sent again on the
    // first.
    pair.send_reliable(1, 500);
    pair.run_for(ms(2_500));
    assert_eq!(pair.received(Side::B).len(), 1);
    assert!(pair.ends[0].sender.outstanding.chunks.is_empty(), "it is acknowledged");
    let states = [0, 1].map(|path: usize| pair.ends[0].routing.status[path].state);
    assert_eq!(states, [PathState::PotentiallyFailed; 2]);
    assert_eq!(pair.ends[0].routing.status[0].error_count, 1);
    // Only data that was sent on one path alone shows that this path works.
    assert_eq!(pair.ends[0].routing.selection.current, PathId(0));
    pair.send_reliable(1, 500);
    pair.run_for(ms(300));
    assert_eq!(
        (pair.ends[0].routing.status[0].state, pair.ends[0].routing.status[0].error_count),
        (PathState::Active, 0)
    );
}

#[test]
fn section_3_2_a_path_that_was_never_confirmed_is_not_suspected() {
    let profiles = [Profile::FreeBsd10, Profile::Linux, Profile::Rfc2960, Profile::Rfc4960, Profile::Rfc9260];
    for (profile, hb_interval) in profiles.into_iter().flat_map(|profile| [(profile, 200), (profile, 30_000)])
    {
        let inactive = |pf_max_retrans| {
            let config = Config {
                pf_max_retrans: Some(pf_max_retrans),
                path_max_retrans: Some(4),
                path_verification: Some(true),
                hb_interval: Some(ms(hb_interval)),
                ..config(profile)
            };
            let mut pair = Pair::new(&config, 2);
            pair.set_up(1, false);
            pair.connect();
            pair.run_for(ms(200_000));
            for side in [Side::A, Side::B] {
                let suspected = pair.path_change(side, 1, PathState::PotentiallyFailed);
                assert_eq!(suspected, None, "{profile:?}, {pf_max_retrans:?}");
            }
            pair.path_change(Side::A, 1, PathState::Inactive).expect("nothing is heard there")
        };
        let off = inactive(Limit::Off);
        for most in 0..4 {
            assert_eq!(inactive(Limit::At(most)), off, "{profile:?}, {most}");
        }
    }
}

#[test]
fn no_sack_goes_to_a_path_that_is_not_confirmed() {
    // `sctp_outq_select_transport`: of heartbeats B hears none, and its own are not answered.
    let mut pair = Pair::new(&config(Profile::Linux), 2);
    pair.drop_if =
        Box::new(|_, from, packet| packet.path == PathId(1) && from == Side::B && holds(packet, "heartbeat"));
    pair.connect();
    pair.run_for(ms(10_000));
    pair.command(Side::A, Command::SetPrimary(PathId(1)));
    pair.log.clear();
    pair.send_reliable(4, 500);
    pair.run_for(ms(100));
    assert!(pair.sent(Side::A, "data").iter().all(|packet| packet.path == 1));
    let sacks = pair.sent(Side::B, "sack");
    assert!(!sacks.is_empty() && sacks.iter().all(|packet| packet.path == 0));
}

#[test]
fn section_3_2_the_end_of_suspicion_leaves_the_window_as_it_is() {
    // FreeBSD: `sctp_cwnd_update_exit_pf_common`.
    for (profile, keeps) in [(Profile::Rfc9260, true), (Profile::FreeBsd10, false)] {
        let config = Config { hb_interval: Some(ms(1_000)), ..suspicious(profile) };
        let mut pair = Pair::open(&config, 2);
        let window = |pair: &Pair| pair.ends[0].routing.paths[1].cc.limits().cwnd;
        let before = window(&pair);
        let mut left = 1;
        pair.drop_if = Box::new(move |_, from, packet| {
            let is_lost =
                left > 0 && from == Side::A && packet.path == PathId(1) && holds(packet, "heartbeat");
            left -= i32::from(is_lost);
            is_lost
        });
        pair.run_for(ms(20_000));
        assert!(pair.path_change(Side::A, 1, PathState::PotentiallyFailed).is_some());
        assert_eq!(pair.ends[0].routing.status[1].state, PathState::Active);
        assert_eq!(window(&pair) == before, keeps, "{profile:?}: {before} B, then {} B", window(&pair));
    }
}

#[test]
fn rfc_9260_section_7_2_4_rule_4_is_about_the_first_outstanding_chunk_of_the_path() {
    let sharing = Some(load_sharing::Config::default());
    let mut pair = Pair::open(&Config { load_sharing: sharing, ..config(Profile::Rfc9260) }, 2);
    pair.run_for(ms(5_000));
    pair.send_reliable(6, 1_400);
    pair.run_for(ms(10));
    let (now, end) = (pair.now, &mut pair.ends[0]);
    let last = end.sender.outstanding.chunks[0].path;
    let mut others =
        (0..end.sender.outstanding.chunks.len()).filter(|&i| end.sender.outstanding.chunks[i].path != last);
    let (first, second) = (others.next().expect("two paths are used"), others.next().expect("twice"));
    let path = end.sender.outstanding.chunks[first].path;
    let before = end.routing.paths[path.index()].t3;
    end.mark_lost(now, second, false);
    end.retransmit_packet(now, path, second, 0);
    assert_eq!(end.routing.paths[path.index()].t3, before, "the timer is that of an earlier one");
    end.mark_lost(now, first, false);
    end.retransmit_packet(now, path, first, 0);
    assert!(
        end.routing.paths[path.index()].t3 > before,
        "the first one of this path, not of the association"
    );
}
