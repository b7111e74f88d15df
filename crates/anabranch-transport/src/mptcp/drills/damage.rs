//! Drills of section 3.7 of RFC 8684: what is done about a mapping whose checksum is wrong. Tests that name a
//! function of the kernel are of profile `linux_6`.

use super::{deliver, reset};
use crate::endpoint::{CloseReason, Command};
use crate::flow::Side;
use crate::mptcp::testing::{Logged, Pair, Wire, config, ms};
use crate::mptcp::{Config, Profile, Rejoin};
use crate::time::Duration;
use crate::wire::Body;
use crate::wire::mptcp::{InfiniteMapping, Options, Reset, Segment, Signal};
use crate::wire::tcp::Flags;

fn of(profile: Profile) -> Config {
    Config { checksums: Some(true), rejoin: Some(Rejoin::Never), ..config(profile) }
}

fn checked() -> Config {
    of(Profile::Rfc8684)
}

fn linux() -> Config {
    of(Profile::Linux6)
}

fn one() -> Vec<Wire> {
    vec![Wire::default()]
}

/// Gives an end a segment that is like this one, but with other options.
pub(super) fn give(pair: &mut Pair, side: Side, like: Logged, options: Options) {
    let Logged { tcp, size, path, .. } = like;
    let option_bytes = size - 20 - tcp.wire_size();
    let body = Body::Mptcp(Segment { tcp, options, option_bytes });
    deliver(pair, side, path, size, body);
}

/// Loses a segment of A's data on this path and delivers it to B damaged. Returns its place in the stream.
fn damage(pair: &mut Pair, path: u8) -> u64 {
    pair.drop_if = Box::new(move |it| it.from == Side::A && it.path == path && it.payload.length > 0);
    pair.write(Side::A, 100_000);
    pair.drop_if = Box::new(|_| false);
    let is_data = |it: &&Logged| it.from == Side::A && it.path == path && it.payload.length > 0;
    let sent = pair.log.iter().find(is_data).expect("it carries data").clone();
    assert!(sent.options.has_checksum);
    pair.log.clear();
    let options = Options { is_damaged: true, ..sent.options };
    give(pair, Side::B, sent, options);
    options.data_position.expect("it is mapped")
}

fn closed(pair: &Pair) -> [Option<CloseReason>; 2] {
    [Side::A, Side::B].map(|side| pair.closed(side))
}

/// The first data on the wire is damaged.
fn damage_first(pair: &mut Pair) {
    let mut is_first = true;
    pair.meddle = Box::new(move |_, packet| {
        if let Body::Mptcp(segment) = &mut packet.body
            && segment.tcp.payload.length > 0
        {
            segment.options.is_damaged |= std::mem::take(&mut is_first);
        }
    });
}

/// If there is another subflow, this one is reset with `MP_FAIL` and `MP_TCPRST`.
#[test]
fn a_damaged_mapping_ends_its_subflow() {
    let mut pair = Pair::open(&checked(), vec![Wire::default(); 2]);
    let position = damage(&mut pair, 0);
    let reset = pair.log.iter().find(|it| it.from == Side::B).expect("it answers");
    assert!(reset.path == 0 && reset.tcp.flags.has(Flags::RST), "{reset:?}");
    assert_eq!(reset.options.signal, Some(Signal::Fail { position }));
    assert_eq!(reset.options.reset.map(|reset| reset.reason), Some(6), "a middlebox interferes");
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.received_bytes(Side::B), 100_001);
    assert_eq!(pair.kinds(Side::B, 0).len(), 1, "nothing more goes there");
    assert_eq!(closed(&pair), [None; 2]);
}

fn have_fallen_back(pair: &Pair) -> [bool; 2] {
    [Side::A, Side::B].map(|side| pair.end(side).has_fallen_back())
}

/// What this end says of damaged data: when, in which segment, and from where on.
fn failures(pair: &Pair, side: Side) -> Vec<(&Logged, u64)> {
    let said = pair.log.iter().filter(|it| it.from == side);
    said.filter_map(|it| match it.options.signal {
        Some(Signal::Fail { position }) => Some((it, position)),
        _ => None,
    })
    .collect()
}

/// The infinite mappings of this end, with the positions of the segments that they come with.
fn infinite(pair: &Pair, side: Side) -> Vec<(u64, InfiniteMapping)> {
    let said = pair.log.iter().filter(|it| it.from == side);
    said.filter_map(|it| it.options.infinite.map(|mapping| (it.payload.offset, mapping))).collect()
}

/// Both ends go on as those of a TCP connection, and close well.
fn goes_on_as_tcp(pair: &mut Pair, written: u64) {
    assert_eq!(have_fallen_back(pair), [true; 2]);
    pair.log.clear();
    pair.write(Side::B, 20_000);
    pair.write(Side::A, 30_000);
    pair.run_for(Duration::from_secs(5));
    pair.command(Side::A, Command::Shutdown);
    pair.run_to_the_end(30);
    assert_eq!(pair.received_bytes(Side::B), written + 30_000);
    assert_eq!(pair.received_bytes(Side::A), 20_000);
    assert_eq!(closed(pair), [Some(CloseReason::Shutdown); 2]);
    let has_options = |it: &&Logged| it.options != Options::default() && it.options.infinite.is_none();
    assert_eq!(pair.log.iter().find(has_options), None);
}

/// The receiver says `MP_FAIL` on an acknowledgement, and acknowledges nothing more on the connection level;
/// the sender answers, and its first new segment has an infinite mapping from the last intact segment on.
#[test]
fn damage_on_the_only_subflow_makes_it_one_of_tcp() {
    let mut pair = Pair::open(&checked(), one());
    let position = damage(&mut pair, 0);
    let [(said, from)] = failures(&pair, Side::B)[..] else { panic!("it says so once") };
    assert_eq!((from, said.kind, said.payload.length), (position, "mp_fail", 0));
    assert_eq!(said.options.data_ack, Some(1), "what is damaged is not acknowledged");
    assert!(!said.tcp.flags.has(Flags::RST));
    assert_eq!(pair.received_bytes(Side::B), 1, "nor delivered");
    assert_eq!(have_fallen_back(&pair), [false; 2]);
    let told = pair.now + ms(20);
    pair.run_until(told, |_| false);
    let [(answer, _)] = failures(&pair, Side::A)[..] else { panic!("it answers") };
    assert_eq!((answer.at, answer.payload.length), (told, 0));
    assert_eq!(have_fallen_back(&pair), [true, false]);
    pair.run_until(told + ms(20), |_| false);
    assert_eq!(have_fallen_back(&pair), [true; 2]);
    assert!(pair.received_bytes(Side::B) > 1_000, "what was held belongs to the stream");
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.received_bytes(Side::B), 100_001);
    let [(_, mapping), ..] = infinite(&pair, Side::A)[..] else { panic!("it has a last mapping") };
    assert_eq!(mapping, InfiniteMapping { data: 0, position: 0 }, "the first byte was intact");
    let first = pair.log.iter().find(|it| it.options.infinite.is_some()).expect("one");
    let before = pair.log.iter().filter(|it| it.from == Side::A && it.at < first.at);
    assert!(before.map(|it| it.payload.offset).all(|offset| offset < first.payload.offset));
    assert_eq!(failures(&pair, Side::B).len(), 1);
    goes_on_as_tcp(&mut pair, 100_001);
}

/// The very first data may be damaged, also where it brings the peer's key.
#[test]
fn the_first_data_may_be_damaged() {
    for is_third_lost in [false, true] {
        let mut pair = Pair::new(&checked(), one());
        pair.drop_if = Box::new(move |it| is_third_lost && it.kind == "mp_capable_ack");
        damage_first(&mut pair);
        pair.command(Side::A, Command::Connect);
        pair.write(Side::A, 50_000);
        pair.run_for(Duration::from_secs(5));
        let said: Vec<_> = failures(&pair, Side::B).iter().map(|(_, position)| *position).collect();
        assert!(!said.is_empty() && said.iter().all(|from| *from == 0), "{is_third_lost}: {said:?}");
        assert_eq!(pair.received_bytes(Side::B), 50_000, "{is_third_lost}");
        goes_on_as_tcp(&mut pair, 50_000);
    }
}

/// An end that reads nothing gets what was held when it reads again.
#[test]
fn what_is_held_can_be_read_late() {
    let mut pair = Pair::open(&checked(), one());
    pair.command(Side::B, Command::PauseReading);
    damage(&mut pair, 0);
    pair.run_for(Duration::from_secs(2));
    assert_eq!((have_fallen_back(&pair), pair.received_bytes(Side::B)), ([true; 2], 1));
    pair.command(Side::B, Command::ResumeReading);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.received_bytes(Side::B), 100_001);
}

/// Here `MP_FAIL` is said with every acknowledgement and timeout; a sender that has fallen back shows that by
/// its answer without options.
#[test]
fn a_lost_message_of_damage_or_its_answer_is_made_up_for() {
    for from in [Side::A, Side::B] {
        let mut pair = Pair::open(&checked(), one());
        let mut left = 2;
        let position = {
            pair.drop_if = Box::new(move |it| it.from == Side::A && it.payload.length > 0);
            pair.write(Side::A, 1_000);
            let sent = pair.log.last().expect("it sends").clone();
            pair.drop_if = Box::new(move |it| {
                let fails = it.from == from && matches!(it.options.signal, Some(Signal::Fail { .. }));
                let is_lost = fails && left > 0;
                left -= u32::from(is_lost);
                is_lost
            });
            let options = Options { is_damaged: true, ..sent.options };
            give(&mut pair, Side::B, sent, options);
            options.data_position.expect("it is mapped")
        };
        pair.run_for(Duration::from_secs(20));
        let said: Vec<_> = failures(&pair, Side::B).iter().map(|(_, position)| *position).collect();
        assert!(said.len() >= 2 && said.iter().all(|from| *from == position), "{from:?}: {said:?}");
        assert_eq!(have_fallen_back(&pair), [true; 2], "{from:?}");
        assert_eq!(pair.received_bytes(Side::B), 1_001, "{from:?}");
        goes_on_as_tcp(&mut pair, 1_001);
    }
}

/// A peer that never answers loses its subflow.
#[test]
fn damage_without_an_answer_ends_the_subflow() {
    for (config, reason) in [(checked(), 6), (linux(), 0)] {
        let mut pair = Pair::open(&config, one());
        damage(&mut pair, 0);
        let began = pair.now;
        pair.log.clear();
        pair.drop_if = Box::new(|it| it.from == Side::A);
        pair.run_for(Duration::from_secs(400));
        let end = pair.log.iter().find(|it| it.from == Side::B && it.tcp.flags.has(Flags::RST));
        let end = end.expect("it is reset");
        assert_eq!(end.at - began, pair.end(Side::B).parameters.tcp.rto_max());
        assert_eq!(end.options.reset.map(|reset| reset.reason), Some(reason));
        assert_eq!(failures(&pair, Side::B).is_empty(), reason == 0, "Linux says it once");
    }
}

/// Where there is no other subflow, but data was sent on one, the data of this one is not contiguous.
#[test]
fn damage_on_the_last_of_several_subflows_ends_it() {
    let mut pair = Pair::open(&checked(), vec![Wire::default(); 2]);
    pair.write(Side::A, 100_000);
    pair.run_for(Duration::from_secs(2));
    assert!(pair.bytes_on(Side::A, 1) > 0);
    reset(&mut pair, 1);
    pair.run_for(ms(500));
    let position = damage(&mut pair, 0);
    let reset = pair.log.iter().find(|it| it.from == Side::B).expect("it answers");
    assert!(reset.tcp.flags.has(Flags::RST));
    assert_eq!(reset.options.signal, Some(Signal::Fail { position }));
    assert_eq!(have_fallen_back(&pair), [false; 2]);
}

/// A further subflow that has carried nothing is no obstacle, but to Linux (`allow_infinite_fallback`).
#[test]
fn mptcp_finish_join_disallows_infinite_mappings() {
    for (config, goes_on) in [(checked(), true), (linux(), false)] {
        let mut pair = Pair::open(&config, vec![Wire::default(); 2]);
        let now = pair.now;
        pair.end_mut(Side::A).subflows[1].abort(now, Reset::UNSPECIFIED);
        pair.command(Side::A, Command::ResumeReading);
        pair.run_for(ms(500));
        pair.log.clear();
        let position = damage(&mut pair, 0);
        let said = pair.log.iter().find(|it| it.from == Side::B).expect("it answers");
        assert_eq!(said.tcp.flags.has(Flags::RST), !goes_on);
        assert_eq!(said.options.signal, Some(Signal::Fail { position }));
        pair.run_for(Duration::from_secs(5));
        assert_eq!(have_fallen_back(&pair), [goes_on; 2]);
    }
}

/// Where not even the first mapping was right, the end just goes on as one of TCP.
#[test]
fn subflow_can_fallback_without_a_valid_checksum() {
    let mut pair = Pair::new(&linux(), one());
    damage_first(&mut pair);
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 50_000);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(failures(&pair, Side::A).len() + failures(&pair, Side::B).len(), 0);
    assert_eq!(infinite(&pair, Side::A), []);
    assert_eq!(pair.received_bytes(Side::B), 50_000);
    goes_on_as_tcp(&mut pair, 50_000);
}

/// Damaged data is taken at once; the infinite mapping is that of the segment that it comes with.
#[test]
fn subflow_check_data_avail_takes_damaged_data() {
    let mut pair = Pair::open(&linux(), one());
    let position = damage(&mut pair, 0);
    assert_eq!(failures(&pair, Side::B).iter().map(|(_, from)| *from).collect::<Vec<_>>(), [position]);
    assert!(pair.received_bytes(Side::B) > 1_000);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(failures(&pair, Side::A).len(), 1);
    let [(offset, mapping), ..] = infinite(&pair, Side::A)[..] else { panic!("it has a last mapping") };
    assert_eq!((mapping.data, u64::from(mapping.position)), (offset, offset));
    assert_eq!(pair.received_bytes(Side::B), 100_001);
    goes_on_as_tcp(&mut pair, 100_001);
}

/// The last acknowledgement of this end, as a segment that can be given to the peer.
fn last_ack(pair: &Pair, from: Side, bytes: u32) -> Logged {
    let is_its = |it: &&Logged| it.from == from && it.path == 0;
    let mut ack = pair.log.iter().rev().find(is_its).expect("it acknowledges").clone();
    ack.size = 20 + ack.tcp.wire_size() + bytes;
    ack
}

/// A peer reports damage on an acknowledgement. If there are several subflows, this one ends with `MP_FAIL`:
/// Linux ignores the message (`mptcp_pm_mp_fail_received`).
#[test]
fn a_report_of_damage_is_answered() {
    for (config, paths) in [(checked(), 1), (checked(), 2), (linux(), 1), (linux(), 2)] {
        let (profile, linux) = (config.profile, config.profile == Profile::Linux6);
        let mut pair = Pair::open(&config, vec![Wire::default(); paths]);
        pair.write(Side::A, 10_000);
        pair.run_for(ms(500));
        let ack = last_ack(&pair, Side::B, 24);
        let options = Options { signal: Some(Signal::Fail { position: 1 }), ..ack.options };
        pair.log.clear();
        give(&mut pair, Side::A, ack, options);
        pair.write(Side::A, 10_000);
        pair.run_for(Duration::from_secs(1));
        let first = pair.log.iter().find(|it| it.from == Side::A && it.path == 0).expect("it goes on");
        let answers = matches!(first.options.signal, Some(Signal::Fail { .. }));
        assert_eq!(answers, paths == 1 || !linux, "{profile:?} {paths}");
        assert_eq!(first.tcp.flags.has(Flags::RST), paths == 2 && !linux, "{profile:?} {paths}");
        // A peer that has said nothing of damage falls back with the infinite mapping.
        assert_eq!(have_fallen_back(&pair), [paths == 1; 2], "{profile:?} {paths}");
        assert_eq!(closed(&pair), [None; 2]);
        assert_eq!(pair.received_bytes(Side::B), 20_001, "{profile:?} {paths}");
    }
}

/// An infinite mapping that comes unasked is believed where the stream of the only subflow is the
/// connection's. Another one ends its subflow.
#[test]
fn an_infinite_mapping_may_come_unasked() {
    for profile in [Profile::Rfc8684, Profile::Linux6] {
        for (data, position, fits) in [(1, 1, true), (0, 0, true), (1, 2, false)] {
            let mut pair = Pair::open(&of(profile), one());
            pair.write(Side::A, 10_000);
            pair.run_for(ms(500));
            let ack = last_ack(&pair, Side::A, 20);
            pair.log.clear();
            let infinite = Some(InfiniteMapping { data, position });
            give(&mut pair, Side::B, ack, Options { infinite, ..Options::default() });
            assert_eq!(have_fallen_back(&pair), [false, fits], "{profile:?} {data} {position}");
            let is_reset = pair.log.iter().any(|it| it.from == Side::B && it.tcp.flags.has(Flags::RST));
            assert_eq!(is_reset, !fits, "{profile:?} {data} {position}");
            if fits {
                // Its data has no mappings, so that the peer falls back.
                pair.write(Side::B, 5_000);
                pair.run_for(ms(500));
                assert_eq!(pair.received_bytes(Side::A), 5_000);
                assert_eq!(have_fallen_back(&pair), [true; 2]);
            }
        }
    }
}
