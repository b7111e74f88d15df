//! Drill tests: one short exchange per rule of RFC 5061.

use super::{ONCE, closed};
use crate::endpoint::{CloseReason, Command, Event, Multipath as _, Reliability};
use crate::flow::{IpVersion, PathId, Side};
use crate::path::failover::REQUESTED;
use crate::path::{PathState, Reason};
use crate::sctp::testing::{Logged, Pair, config, drop_first, ms};
use crate::sctp::{Config, Profile};
use crate::time::{Duration, Time};
use crate::wire::sctp::chunk::{AddressChange, AddressError, AddressRequest, Asconf, AsconfAck, Chunk};
use crate::wire::{Body, Packet};

const FIRST: PathId = PathId(0);
const SECOND: PathId = PathId(1);

fn settings() -> Config {
    Config { rto_initial: Some(ms(300)), rto_min: Some(ms(100)), ..config(Profile::Rfc9260) }
}

/// An open association on the first of two paths; the second one's address at A can be added.
fn mobile(settings: &Config) -> Pair {
    let mut pair = Pair::new(settings, 2);
    for end in &mut pair.ends {
        end.enable_reconfiguration(&[SECOND]).expect("the first path is primary");
    }
    pair.connect();
    pair
}

/// A pair with both addresses.
fn multi_homed(settings: &Config) -> Pair {
    let mut pair = Pair::new(settings, 2);
    for end in &mut pair.ends {
        end.enable_reconfiguration(&[]).expect("no path is absent");
    }
    pair.connect();
    pair.run_for(ms(2_000));
    pair.log.clear();
    pair
}

fn asconf(packet: &Logged) -> &Asconf {
    packet
        .chunks
        .iter()
        .find_map(|c| if let Chunk::Asconf(a) = c { Some(&**a) } else { None })
        .expect("ASCONF")
}

fn asconf_ack(packet: &Logged) -> &AsconfAck {
    let ack = packet.chunks.iter().find_map(|c| if let Chunk::AsconfAck(a) = c { Some(&**a) } else { None });
    ack.expect("ASCONF-ACK")
}

fn asked(packet: &Logged) -> Vec<(AddressChange, u8)> {
    asconf(packet).requests.iter().map(|request| (request.change, request.path.0)).collect()
}

/// Gives B a packet with an ASCONF as A could have sent it, over this path.
fn ask(pair: &mut Pair, over: PathId, later: u32, changes: &[(AddressChange, PathId)]) {
    let serial = pair.ends[0].local.numbers.initial_tsn.wrapping_add(later);
    let requests = changes
        .iter()
        .zip(70..)
        .map(|(&(change, path), correlation)| AddressRequest { correlation, change, path })
        .collect();
    let chunk =
        Chunk::Asconf(Box::new(Asconf { serial, ip: IpVersion::Ipv4, requests, refused: Vec::new() }));
    give(pair, Side::B, over, chunk);
}

fn give(pair: &mut Pair, to: Side, path: PathId, chunk: Chunk) {
    let mut packet: Box<Packet> = crate::sctp::outbox::blank_packet();
    packet.path = path;
    if let Body::Sctp(sctp) = &mut packet.body {
        sctp.verification_tag = pair.ends[to.index()].local.numbers.tag;
        sctp.first = chunk;
        packet.size = IpVersion::Ipv4.header_bytes() + sctp.wire_size();
    }
    pair.input(to, crate::endpoint::Input::Packet(packet));
}

/// A message every 20 ms both ways.
fn talk(pair: &mut Pair, length: Duration) {
    let end = pair.now + length;
    while pair.now < end {
        pair.send(Side::A, 160, ONCE, true);
        pair.send(Side::B, 160, ONCE, true);
        pair.run_for(ms(20));
    }
}

fn data_paths(pair: &Pair, side: Side, from: Time) -> Vec<u8> {
    let mut paths: Vec<u8> =
        pair.sent(side, "data").iter().filter(|packet| packet.at >= from).map(|packet| packet.path).collect();
    paths.dedup();
    paths
}

#[test]
fn support_is_told_when_the_association_opens() {
    // Section 4.2.7; RFC 4895 section 3. INIT: 20 bytes of IP header, 12 of common header, 20 of chunk, 4 of
    // Forward-TSN-Supported. Only one of the two addresses is part of the association, so none is listed.
    let mut pair = Pair::new(&settings(), 2);
    for end in &mut pair.ends {
        end.enable_reconfiguration(&[SECOND]).expect("the first path is primary");
    }
    pair.command(Side::A, Command::Connect);
    assert_eq!(pair.sent(Side::A, "init")[0].size, 20 + 12 + 20 + 4 + 60);
}

#[test]
fn an_address_that_is_not_there_carries_nothing() {
    let mut pair = mobile(&settings());
    talk(&mut pair, ms(40_000));
    assert!(pair.log.iter().all(|packet| packet.path == 0));
}

#[test]
fn the_association_cannot_open_on_an_address_that_is_not_there() {
    let mut pair = Pair::new(&settings(), 2);
    assert!(pair.ends[0].enable_reconfiguration(&[FIRST]).is_err());
    let mut pair = Pair::new(&settings(), 3);
    pair.ends[0].enable_reconfiguration(&[SECOND]).expect("the first path is primary");
    pair.set_up(0, false);
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(3_000));
    let paths: Vec<u8> = pair.sent(Side::A, "init").iter().map(|packet| packet.path).collect();
    assert_eq!(paths, [0, 2], "RFC 9260 section 6.4.1, among those that are there");
}

#[test]
fn an_address_is_added_verified_and_then_used() {
    // Section 5.3 F1 and F2.
    let mut pair = mobile(&settings());
    let start = pair.now;
    pair.command(Side::A, Command::AddAddress(SECOND));
    assert_eq!(asked(pair.sent(Side::A, "asconf")[0]), [(AddressChange::Add, 1)]);
    // Sections 4.1.1 and 4.2.1; an AUTH chunk comes before it (RFC 4895 section 4.1).
    assert_eq!(pair.sent(Side::A, "asconf")[0].size, 20 + 12 + 28 + 8 + 8 + 16);
    assert!(pair.sent(Side::A, "asconf")[0].has("auth"));
    pair.run_for(ms(1_000));
    let ack = pair.sent(Side::B, "asconf_ack")[0];
    assert_eq!((ack.size, ack.path), (20 + 12 + 28 + 8, 0));
    assert!(ack.has("auth") && asconf_ack(ack).responses.is_empty(), "section 5.1 A8");
    assert_eq!(asconf_ack(ack).serial, pair.ends[0].local.numbers.initial_tsn, "section 5.1 A2");
    for side in [Side::A, Side::B] {
        assert!(pair.heard(side, &Event::AddressAdded(SECOND)));
        // A heartbeat comes first.
        let first = pair.log.iter().find(|packet| packet.from == side && packet.path == 1).expect("a packet");
        assert!(first.has("heartbeat"), "{side:?}");
        assert!(pair.ends[side.index()].allows_data(SECOND));
    }
    // B's heartbeat leaves when it learns of the address, A's when the answer is there.
    let beat = |side: Side| {
        let sent = pair.sent(side, "heartbeat");
        sent.iter().find(|packet| packet.path == 1).map(|packet| packet.at - start)
    };
    assert_eq!((beat(Side::B), beat(Side::A)), (Some(ms(20)), Some(ms(40))));
    // Then the address may become the primary one, at both ends (section 5.4).
    pair.command(Side::A, Command::SetPrimary(SECOND));
    pair.command(Side::A, Command::SetPeerPrimary(SECOND));
    let then = pair.now + ms(20);
    talk(&mut pair, ms(500));
    assert_eq!(asked(pair.sent(Side::A, "asconf")[1]), [(AddressChange::SetPrimary, 1)]);
    assert_eq!((data_paths(&pair, Side::A, then), data_paths(&pair, Side::B, then)), (vec![1], vec![1]));
}

#[test]
fn an_added_address_that_does_not_work_carries_no_data() {
    // Section 5.3 F1: the path is verified before its address is used.
    let mut pair = mobile(&settings());
    pair.set_up(1, false);
    pair.command(Side::A, Command::AddAddress(SECOND));
    pair.command(Side::A, Command::SetPrimary(SECOND));
    pair.command(Side::A, Command::SetPeerPrimary(SECOND));
    talk(&mut pair, ms(3_000));
    assert_eq!(data_paths(&pair, Side::A, Time::ZERO), [0]);
    assert_eq!(data_paths(&pair, Side::B, Time::ZERO), [0]);
    assert!(pair.log.iter().filter(|packet| packet.path == 1).all(|packet| packet.has("heartbeat")));
    pair.set_up(1, true);
    pair.run_for(ms(5_000));
    let then = pair.now;
    talk(&mut pair, ms(500));
    assert_eq!(data_paths(&pair, Side::A, then), [1]);
}

#[test]
fn requests_wait_while_an_asconf_is_on_its_way() {
    // Section 5.1.1 C1.
    let mut pair = Pair::new(&settings(), 3);
    for end in &mut pair.ends {
        end.enable_reconfiguration(&[SECOND, PathId(2)]).expect("the first path is primary");
    }
    pair.connect();
    for path in [SECOND, PathId(2)] {
        pair.command(Side::A, Command::AddAddress(path));
    }
    assert_eq!(pair.sent(Side::A, "asconf").len(), 1);
    pair.run_for(ms(40));
    let sent = pair.sent(Side::A, "asconf");
    assert_eq!(asked(sent[1]), [(AddressChange::Add, 2)]);
    assert_eq!(asconf(sent[1]).serial, asconf(sent[0]).serial.wrapping_add(1));
    pair.run_for(ms(1_000));
    assert!(pair.ends.iter().all(|end| end.allows_data(PathId(2))));
}

#[test]
fn a_lost_asconf_is_sent_again_as_it_was() {
    // Section 5.1 B1 to B5.
    let mut pair = mobile(&settings());
    pair.drop_if = drop_first("asconf", 2);
    pair.command(Side::A, Command::AddAddress(SECOND));
    pair.run_for(ms(2_000));
    let sent = pair.sent(Side::A, "asconf");
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|packet| asconf(packet) == asconf(sent[0])));
    // They leave from the old address and from the new one in turn, each with its own RTO; F1 allows only
    // ASCONF from the new one.
    assert_eq!(sent.iter().map(|packet| packet.path).collect::<Vec<_>>(), [0, 1, 0]);
    assert!(sent[1].at > sent[0].at);
    assert!(pair.heard(Side::A, &Event::AddressAdded(SECOND)));
}

#[test]
fn a_lost_answer_is_given_again() {
    // Section 5.2 E3.
    let mut pair = mobile(&settings());
    pair.drop_if = drop_first("asconf_ack", 1);
    pair.command(Side::A, Command::AddAddress(SECOND));
    pair.run_for(ms(2_000));
    let answers = pair.sent(Side::B, "asconf_ack");
    assert_eq!(answers.len(), 2);
    assert_eq!(asconf_ack(answers[0]), asconf_ack(answers[1]));
    let added = pair.events[1].iter().filter(|(_, event)| *event == Event::AddressAdded(SECOND)).count();
    assert_eq!(added, 1, "carried out once");
}

#[test]
fn an_asconf_out_of_turn_is_discarded() {
    // Section 5.2 E4.
    let mut pair = mobile(&settings());
    ask(&mut pair, FIRST, 1, &[(AddressChange::Add, SECOND)]);
    pair.run_for(ms(500));
    assert!(pair.sent(Side::B, "asconf_ack").is_empty());
    assert!(!pair.heard(Side::B, &Event::AddressAdded(SECOND)));
}

#[test]
fn an_answer_to_what_was_never_asked_ends_the_association() {
    // Section 5.3 F0.
    let mut pair = mobile(&settings());
    let serial = pair.ends[0].local.numbers.initial_tsn;
    let ack = |serial| {
        Chunk::AsconfAck(Box::new(AsconfAck {
            serial,
            ip: IpVersion::Ipv4,
            responses: Vec::new(),
            refused: Vec::new(),
        }))
    };
    give(&mut pair, Side::A, FIRST, ack(serial.wrapping_sub(1)));
    assert_eq!(pair.closed_at(Side::A), None, "an old one is nothing");
    give(&mut pair, Side::A, FIRST, ack(serial.wrapping_add(3)));
    assert_eq!(closed(&pair, Side::A), Some(CloseReason::Aborted));
}

#[test]
fn a_deleted_address_sends_nothing_and_hears_until_the_answer() {
    // Section 5.3 F4 and F6.
    let mut pair = multi_homed(&settings());
    talk(&mut pair, ms(1_000));
    let before = pair.received(Side::A).len();
    let start = pair.now;
    pair.command(Side::A, Command::DeleteAddress(FIRST));
    let sent = pair.sent(Side::A, "asconf");
    assert_eq!((asked(sent[0]), sent[0].path), (vec![(AddressChange::Delete, 0)], 1));
    talk(&mut pair, ms(1_000));
    assert!(pair.log.iter().filter(|p| p.from == Side::A && p.at >= start).all(|packet| packet.path == 1));
    // B sends there until the ASCONF reaches it, and A takes what arrives.
    let late = pair.sent(Side::B, "data").iter().filter(|p| p.path == 0 && p.at >= start).count();
    assert!(late > 0);
    assert!(pair.log.iter().filter(|p| p.at > start + ms(20)).all(|packet| packet.path == 1));
    assert_eq!(pair.received(Side::A).len() - before, 50, "not one is missing");
    for side in [Side::A, Side::B] {
        assert!(pair.heard(side, &Event::AddressDeleted(FIRST)));
    }
}

#[test]
fn an_abort_to_an_address_that_is_being_deleted_is_ignored() {
    // Section 5.3.1.
    let mut pair = multi_homed(&settings());
    pair.set_up(1, false);
    pair.command(Side::A, Command::DeleteAddress(FIRST));
    let abort = Chunk::Abort(crate::wire::sctp::chunk::Abort { tag_reflected: false, cause: None });
    give(&mut pair, Side::A, FIRST, abort.clone());
    assert_eq!(pair.closed_at(Side::A), None);
    give(&mut pair, Side::A, SECOND, abort);
    assert!(pair.closed_at(Side::A).is_some(), "to another address it counts");
}

#[test]
fn packets_from_a_deleted_address_are_not_of_the_association() {
    let mut pair = multi_homed(&settings());
    pair.command(Side::A, Command::DeleteAddress(FIRST));
    pair.run_for(ms(500));
    let beats = pair.sent(Side::B, "heartbeat_ack").len();
    let info = crate::wire::sctp::chunk::HeartbeatInfo {
        sent_at: pair.now,
        nonce: 1,
        path: FIRST,
        padding: 0,
        pair: None,
    };
    give(&mut pair, Side::B, FIRST, Chunk::Heartbeat(info));
    assert_eq!(pair.sent(Side::B, "heartbeat_ack").len(), beats);
    give(&mut pair, Side::B, SECOND, Chunk::Heartbeat(info));
    assert_eq!(pair.sent(Side::B, "heartbeat_ack").len(), beats + 1);
}

#[test]
fn data_on_a_deleted_path_is_sent_again_at_once() {
    for side in [Side::A, Side::B] {
        let mut pair = multi_homed(&settings());
        // Nothing passes on the first path; data sent there is lost.
        pair.set_up(0, false);
        let sent = (0..3).map(|_| pair.send(side, 500, Reliability::Reliable, false)).collect::<Vec<_>>();
        pair.run_for(ms(10));
        let start = pair.now;
        pair.command(Side::A, Command::DeleteAddress(FIRST));
        pair.run_for(ms(70));
        assert_eq!(pair.received(side.peer()), sent, "{side:?}: long before any timer");
        let again = pair.sent(side, "data").iter().find(|packet| packet.path == 1).map(|p| p.at - start);
        assert_eq!(again, Some(if side == Side::A { ms(0) } else { ms(20) }));
    }
}

#[test]
fn what_is_sent_once_is_not_given_up_with_its_path() {
    let mut pair = multi_homed(&settings());
    talk(&mut pair, ms(500));
    let sent = pair.send(Side::A, 160, ONCE, true);
    pair.command(Side::A, Command::DeleteAddress(FIRST));
    pair.run_for(ms(500));
    assert!(pair.received(Side::B).contains(&sent));
    assert!(pair.abandoned(Side::A).is_empty());
}

#[test]
fn the_last_address_stays_until_there_is_another() {
    // Section 5.3 F5, and F1: the ASCONF comes from the new address.
    let mut pair = mobile(&settings());
    talk(&mut pair, ms(500));
    pair.set_up(0, false);
    pair.command(Side::A, Command::DeleteAddress(FIRST));
    let gone = pair.now;
    let sent: Vec<_> = (0..5).map(|_| pair.send(Side::A, 160, Reliability::Reliable, false)).collect();
    pair.run_for(ms(400));
    assert!(pair.log.iter().all(|packet| packet.from == Side::B || packet.at < gone), "nothing to send from");
    pair.command(Side::A, Command::AddAddress(SECOND));
    let back = pair.now;
    let packet = pair.sent(Side::A, "asconf")[0].clone();
    assert_eq!(asked(&packet), [(AddressChange::Add, 1), (AddressChange::Delete, 0)]);
    assert_eq!(packet.path, 1);
    pair.run_for(ms(200));
    let received = pair.received(Side::B);
    assert_eq!(received[received.len() - 5..], sent);
    // One round trip for the ASCONF, one for the heartbeat on the new path, and half of one for the data.
    let last = pair.deliveries(Side::B).last().expect("data arrived").0;
    assert_eq!(last - back, ms(100));
    talk(&mut pair, ms(500));
    assert_eq!(data_paths(&pair, Side::B, back + ms(40)), [1]);
}

#[test]
fn a_request_to_delete_the_last_address_is_refused() {
    // Section 5.3 F7.
    let mut pair = mobile(&settings());
    ask(&mut pair, FIRST, 0, &[(AddressChange::Delete, FIRST), (AddressChange::SetPrimary, FIRST)]);
    let answer = asconf_ack(pair.sent(Side::B, "asconf_ack")[0]);
    let errors: Vec<_> =
        answer.responses.iter().map(|response| (response.correlation, response.error)).collect();
    // Section 5.1 A7: the answer names what succeeded after the failed request.
    assert_eq!(errors, [(70, Some(AddressError::LastAddress)), (71, None)]);
    // 8 bytes for each success, and an error cause of 4 bytes with the request of 16 bytes in it.
    assert_eq!(pair.sent(Side::B, "asconf_ack")[0].size, 20 + 12 + 28 + 8 + 8 + 20 + 8);
    assert!(pair.ends[1].allows_data(FIRST));
}

#[test]
fn a_request_to_delete_its_source_is_refused() {
    // Section 5.3 F8.
    let mut pair = multi_homed(&settings());
    ask(&mut pair, SECOND, 0, &[(AddressChange::Delete, SECOND)]);
    let answer = asconf_ack(pair.sent(Side::B, "asconf_ack")[0]);
    assert_eq!(answer.responses[0].error, Some(AddressError::SourceAddress));
    assert!(pair.ends[1].allows_data(SECOND));
}

#[test]
fn a_primary_address_that_is_not_there_is_left_alone() {
    // Section 5.4.
    let mut pair = mobile(&settings());
    ask(&mut pair, FIRST, 0, &[(AddressChange::SetPrimary, SECOND)]);
    assert!(asconf_ack(pair.sent(Side::B, "asconf_ack")[0]).responses.is_empty());
    talk(&mut pair, ms(200));
    assert_eq!(data_paths(&pair, Side::B, Time::ZERO), [0]);
}

#[test]
fn an_address_may_come_back() {
    for profile in [Profile::Linux, Profile::Ns2, Profile::Rfc9260] {
        let mut pair = multi_homed(&Config { hb_interval: Some(ms(500)), ..config(profile) });
        for round in 0..5 {
            let (gone, stays) = if round % 2 == 0 { (FIRST, SECOND) } else { (SECOND, FIRST) };
            pair.command(Side::A, Command::DeleteAddress(gone));
            talk(&mut pair, ms(2_500));
            let then = pair.now;
            talk(&mut pair, ms(500));
            assert_eq!(data_paths(&pair, Side::A, then), [stays.0], "{profile:?} {round}");
            pair.command(Side::A, Command::AddAddress(gone));
            talk(&mut pair, ms(10_000));
            assert!(pair.ends.iter().all(|end| end.allows_data(gone)), "{profile:?} {round}");
        }
        let sent = pair.sent(Side::A, "data").len();
        assert!(pair.received(Side::B).len() >= sent - 2, "{profile:?}");
        assert_eq!(pair.closed_at(Side::A), None);
    }
}

#[test]
fn changes_before_the_association_is_open_are_told_after() {
    let mut pair = Pair::new(&settings(), 2);
    for end in &mut pair.ends {
        end.enable_reconfiguration(&[SECOND]).expect("the first path is primary");
    }
    pair.command(Side::A, Command::AddAddress(SECOND));
    pair.connect();
    pair.run_for(ms(1_000));
    assert!(pair.ends.iter().all(|end| end.allows_data(SECOND)));
}

#[test]
fn a_path_that_died_first_does_not_stop_the_request() {
    // B4: over the other path.
    let mut pair = multi_homed(&Config { path_max_retrans: Some(0), ..settings() });
    pair.set_up(0, false);
    pair.command(Side::A, Command::SetPeerPrimary(SECOND));
    pair.run_for(ms(2_000));
    let paths: Vec<u8> = pair.sent(Side::A, "asconf").iter().map(|packet| packet.path).collect();
    assert_eq!(paths, [0, 1]);
    assert!(pair.path_change(Side::A, 0, PathState::Inactive).is_some(), "B1");
    let reason = Reason::new(&REQUESTED);
    assert!(pair.heard(Side::B, &Event::PrimaryChanged { from: FIRST, to: SECOND, reason }));
}

#[test]
fn an_address_whose_deletion_was_refused_can_be_added_again() {
    // Section 5.3 F7: both ends give up another address at the same time, and each holds on to the one that
    // is left of the other's.
    let mut pair = multi_homed(&settings());
    pair.command(Side::A, Command::DeleteAddress(FIRST));
    pair.command(Side::B, Command::DeleteAddress(SECOND));
    pair.run_for(ms(2_000));
    for side in [Side::A, Side::B] {
        let acks = pair.sent(side, "asconf_ack");
        assert_eq!(asconf_ack(acks[0]).responses[0].error, Some(AddressError::LastAddress), "{side:?}");
        assert!([FIRST, SECOND].iter().any(|&path| !pair.ends[side.index()].allows_data(path)));
    }
    pair.command(Side::A, Command::AddAddress(FIRST));
    pair.command(Side::B, Command::AddAddress(SECOND));
    pair.run_for(ms(5_000));
    assert!(pair.ends.iter().all(|end| end.allows_data(FIRST) && end.allows_data(SECOND)));
    pair.log.clear();
    talk(&mut pair, ms(500));
    // The primary path of each end became the one that it kept.
    assert_eq!(data_paths(&pair, Side::A, Time::ZERO), [1]);
    assert_eq!(data_paths(&pair, Side::B, Time::ZERO), [0]);
}

#[test]
fn the_last_word_on_an_address_counts() {
    // What is to follow while the first request is on its way.
    let words = [Command::AddAddress(SECOND), Command::DeleteAddress(SECOND)];
    for count in 1..=5_usize {
        let mut pair = mobile(&settings());
        for word in words.iter().cycle().take(count) {
            pair.command(Side::A, *word);
        }
        pair.run_for(ms(5_000));
        let is_there = count % 2 == 1;
        assert!(pair.ends.iter().all(|end| end.allows_data(SECOND) == is_there), "{count} changes");

        let mut pair = multi_homed(&settings());
        for word in words.iter().cycle().skip(1).take(count) {
            pair.command(Side::A, *word);
        }
        pair.run_for(ms(5_000));
        let is_there = count % 2 == 0;
        assert!(pair.ends.iter().all(|end| end.allows_data(SECOND) == is_there), "{count} changes of a path");
    }
}
