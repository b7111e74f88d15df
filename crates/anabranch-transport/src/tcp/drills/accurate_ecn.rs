//! RFC 9768, in the order of its sections.

use super::*;
use crate::endpoint::{CloseReason, Event};
use crate::flow::{Ecn, Side};
use crate::tcp::config::{EcnMode, InitialWindow, Nagle};
use crate::tcp::procedures;
use crate::tcp::testing::{Drill, Pair, drop_at, ms};
use crate::wire::tcp::{AccurateEcn, Flags, Segment};

fn accurate() -> Config {
    Config {
        ecn: Some(EcnMode::Accurate),
        nagle: Some(Nagle::Off),
        receive_autotuning: Some(false),
        procedures: Some(procedures::Config {
            marks_every_segment: Some(false),
            repeats_ecn_option: Some(false),
            ..procedures::Config::default()
        }),
        ..linux()
    }
}

const ALL: u8 = 0b111;

/// A client whose SYN is answered with these three flags, in a packet with this mark.
fn opened(config: &Config, ace: u8, mark: Ecn) -> Drill {
    let mut drill = Drill::opening(config, false);
    assert_eq!(drill.sent[0].segment.flags.ace(), ALL);
    let syn_ack = syn_ack(&drill, ace);
    drill.at(100).deliver(syn_ack, mark);
    drill
}

fn syn_ack(drill: &Drill, ace: u8) -> Segment {
    let mut segment = drill.peers_segment(0);
    segment.sequence = segment.sequence.wrapping_sub(1);
    segment.acknowledgement = drill.own.wrapping_add(1);
    segment.flags = Flags::SYN.with(Flags::ACK).with(Flags::from_ace(ace));
    segment.mss = Some(1_460);
    segment.window = 65_535;
    segment.window_scale = Some(7);
    segment.sack_permitted = true;
    segment
}

/// A server that has answered a SYN with these three flags in a packet with this mark.
fn asked(config: &Config, ace: u8, mark: Ecn) -> Drill {
    let mut drill = Drill::unasked(config);
    let syn = syn(&drill, ace);
    drill.deliver(syn, mark);
    drill.own = drill.sent[0].segment.sequence;
    drill
}

fn syn(drill: &Drill, ace: u8) -> Segment {
    let mut segment = drill.peers_segment(0);
    segment.sequence = segment.sequence.wrapping_sub(1);
    segment.acknowledgement = 0;
    segment.flags = Flags::SYN.with(Flags::from_ace(ace));
    segment.mss = Some(1_460);
    segment.window = 65_535;
    segment.window_scale = Some(7);
    segment.sack_permitted = true;
    segment
}

/// A client with accurate feedback whose handshake is over.
fn client() -> Drill {
    opened(&accurate(), 0b010, Ecn::NotEct)
}

/// A server with accurate feedback that hears this in the three flags of the handshake's last segment.
fn server(ace: u8) -> Drill {
    let mut drill = asked(&accurate(), ALL, Ecn::NotEct);
    let mut last = drill.peers_segment(0);
    last.acknowledgement = drill.own.wrapping_add(1);
    last.flags = Flags::ACK.with(Flags::from_ace(ace));
    drill.at(40).deliver(last, Ecn::NotEct);
    drill
}

/// Lets the peer acknowledge up to a position, with this number in the ACE field and these counters.
fn acknowledge(drill: &mut Drill, position: u32, ace: u8, option: Option<AccurateEcn>) {
    let mut segment = drill.peers_segment(0);
    segment.acknowledgement = drill.own.wrapping_add(1 + position);
    segment.flags = Flags::ACK.with(Flags::from_ace(ace));
    if option.is_some() {
        segment.rare.get_or_insert_default().accurate_ecn = option;
    }
    drill.deliver(segment, Ecn::NotEct);
}

#[expect(clippy::unnecessary_wraps, reason = "as segments have it")]
fn option(begins_with_ect1: bool, counters: &[u32]) -> Option<AccurateEcn> {
    Some(AccurateEcn { begins_with_ect1, counters: counters.iter().copied().collect() })
}

fn last(drill: &Drill) -> &Segment {
    &drill.sent.last().unwrap().segment
}

fn last_option(drill: &Drill) -> Option<AccurateEcn> {
    last(drill).rare.as_ref().and_then(|rare| rare.accurate_ecn.clone())
}

/// The mark with which the next data leaves.
fn mark_of_data(drill: &mut Drill) -> Ecn {
    drill.write(1_000);
    let sent = drill.sent.last().unwrap();
    assert_eq!(sent.segment.payload.length, 1_000);
    sent.ecn
}

/// Table 2: what a server's flags make of a client that has asked for accurate feedback.
#[test]
fn rfc9768_3_1_2_the_servers_answer_says_which_feedback_there_is() {
    for (ace, is_accurate, mark) in [
        (0b000, false, Ecn::NotEct),
        (0b001, false, Ecn::Ect0),
        (0b010, true, Ecn::Ect0),
        // Section 3.2.2.3: the SYN left as Not-ECT, and the path has changed that.
        (0b011, true, Ecn::NotEct),
        (0b100, true, Ecn::NotEct),
        (0b110, true, Ecn::NotEct),
        // Section 3.1.3: reserved, as if the SYN had come unchanged.
        (0b101, true, Ecn::Ect0),
        // A server that reflects the flags.
        (0b111, false, Ecn::NotEct),
    ] {
        let mut drill = opened(&accurate(), ace, Ecn::NotEct);
        assert_eq!(drill.end.ecn.is_accurate(), is_accurate, "{ace:03b}");
        assert_eq!(mark_of_data(&mut drill), mark, "{ace:03b}");
    }
}

/// Tables 2 and 3: a SYN-ACK says how the SYN came, whatever the reserved combinations, and its
/// acknowledgement says how it came itself.
#[test]
fn rfc9768_3_1_2_the_handshake_says_how_its_packets_came() {
    let encodings = [(Ecn::NotEct, 0b010), (Ecn::Ect1, 0b011), (Ecn::Ect0, 0b100), (Ecn::Ce, 0b110)];
    for (mark, encoding) in encodings {
        for ace in [0b001, 0b010, 0b100, 0b101, 0b110, ALL] {
            assert_eq!(asked(&accurate(), ace, mark).sent[0].segment.flags.ace(), encoding, "{ace:03b}");
        }
        let mut drill = opened(&accurate(), 0b010, mark);
        assert_eq!(last(&drill).flags.ace(), encoding);
        // Section 3.2.2.2: a marked SYN-ACK counts once.
        let count = 5 + u8::from(mark == Ecn::Ce);
        drill.data_marked(0, SIZE, Ecn::NotEct, Flags::ACK);
        assert_eq!(last(&drill).flags.ace(), count);
        // Section 3.2.2.1: the acknowledgement of a SYN-ACK that comes again has it, too.
        let again = syn_ack(&drill, 0b010);
        drill.at(5_000).deliver(again, mark);
        assert_eq!(last(&drill).flags.ace(), encoding);
        assert_eq!(drill.end.ecn.accurate.flags().ace(), count);
    }
    for (ace, expected) in [(0b000, 0b000), (0b011, 0b001)] {
        assert_eq!(asked(&accurate(), ace, Ecn::Ect0).sent[0].segment.flags.ace(), expected);
    }
}

/// If data leaves first, the acknowledgement of the SYN-ACK has counted already.
#[test]
fn rfc9768_3_2_2_1_only_the_first_segment_has_the_encoding() {
    let mut drill = Drill::opening(&accurate(), false);
    drill.write(1_000);
    let syn_ack = syn_ack(&drill, 0b010);
    drill.at(100).deliver(syn_ack, Ecn::Ect0);
    let flags: Vec<u8> = drill.sent().iter().map(|logged| logged.segment.flags.ace()).collect();
    assert_eq!(flags, [0b100, 5], "a pure acknowledgement, then data");
}

/// Section 3.1.4.1: a SYN asks twice, then no more.
#[test]
fn rfc9768_3_1_4_1_a_syn_that_is_lost_twice_no_longer_asks() {
    let mut drill = Drill::opening(&Config { ecn: Some(EcnMode::Accurate), ..rfc() }, false);
    drill.at(20_000);
    let asked: Vec<u8> = drill.sent.iter().map(|logged| logged.segment.flags.ace()).collect();
    assert_eq!(asked[..4], [ALL, ALL, 0, 0]);
}

/// Section 3.2.3.2.2: a SYN-ACK that is lost leaves the option away, and the second time the flags. Then the
/// server's data no longer says ECT (section 3.1.5), but its feedback goes on.
#[test]
fn rfc9768_3_2_3_2_2_a_lost_syn_ack_falls_back() {
    let mut drill = asked(&accurate(), ALL, Ecn::NotEct);
    drill.at(4_000);
    let sent: Vec<(u8, bool)> =
        drill.sent.iter().map(|logged| (logged.segment.flags.ace(), logged.segment.rare.is_some())).collect();
    assert_eq!(sent, [(0b010, true), (0b010, false), (0, false)]);
    acknowledge(&mut drill, 0, 0b010, None);
    assert_eq!(mark_of_data(&mut drill), Ecn::NotEct);
    drill.data_marked(0, SIZE, Ecn::Ce, Flags::ACK);
    assert_eq!(last(&drill).flags.ace(), 6);
}

/// Section 3.1.5: a SYN that comes again without asking leaves the mode as it is, but data says no ECT; its
/// answer says how it came itself.
#[test]
fn rfc9768_3_1_5_the_first_syn_decides() {
    let mut drill = asked(&accurate(), ALL, Ecn::NotEct);
    let again = syn(&drill, 0);
    drill.at(900).deliver(again, Ecn::Ect0);
    assert_eq!(last(&drill).flags.ace(), 0b100);
    acknowledge(&mut drill, 0, 0b010, None);
    assert!(drill.end.ecn.is_accurate());
    assert_eq!(mark_of_data(&mut drill), Ecn::NotEct);
}

/// Section 3.1.5: nobody asks for both kinds of feedback.
#[test]
fn rfc9768_3_1_5_a_peer_that_asks_for_both_is_reset() {
    for (first, second) in [(ALL, 0b011), (0b011, ALL)] {
        let mut drill = asked(&accurate(), first, Ecn::NotEct);
        let again = syn(&drill, second);
        drill.at(900).deliver(again, Ecn::NotEct);
        assert!(last(&drill).flags.has(Flags::RST), "{first:03b}");
        assert!(!drill.events.contains(&Event::Connected));
        assert!(!drill.events.contains(&Event::Closed(CloseReason::Shutdown)));
    }
}

/// Table 4: what the last segment of the handshake tells the server.
#[test]
fn rfc9768_3_2_2_1_the_server_reads_the_handshakes_encoding() {
    for (ace, mark, reductions) in [
        // Note 1: no ECT, and no answer to feedback.
        (0b000, Ecn::NotEct, 0),
        (0b001, Ecn::Ect0, 0),
        (0b010, Ecn::Ect0, 0),
        // The SYN-ACK left as Not-ECT.
        (0b011, Ecn::NotEct, 0),
        (0b100, Ecn::NotEct, 0),
        (0b101, Ecn::Ect0, 0),
        (0b110, Ecn::NotEct, 1),
        (0b111, Ecn::Ect0, 0),
    ] {
        let mut drill = server(ace);
        assert_eq!(drill.end.stats().ecn_reductions, reductions, "{ace:03b}");
        assert_eq!(mark_of_data(&mut drill), mark, "{ace:03b}");
        // The counter of the peer begins with 5, or 6 after a marked SYN-ACK: one more mark.
        let count = if ace == 0b110 { 7 } else { 6 };
        acknowledge(&mut drill, 1_000, count, None);
        let answered = u64::from(ace != 0);
        assert_eq!(drill.end.stats().ce_reported, answered, "{ace:03b}");
    }
}

/// Section 3.2.2.4: the first feedback after the handshake has a zero that marks do not explain.
#[test]
fn rfc9768_3_2_2_4_a_zeroed_field_is_not_believed() {
    for (segments, mark) in [(1, Ecn::NotEct), (3, Ecn::Ect0)] {
        let mut drill = client();
        drill.write(segments * SIZE);
        acknowledge(&mut drill, segments * SIZE, 0, None);
        assert_eq!(drill.end.stats().ecn_reductions, u64::from(segments == 3));
        assert_eq!(mark_of_data(&mut drill), mark, "{segments} marks from 5 on make 8");
    }
}

/// Section 3.2.2.5.1: a mark after none is acknowledged at once, and then every second one.
#[test]
fn rfc9768_3_2_2_5_1_marks_have_acknowledgements_sent() {
    let mut drill = client();
    // Quick acknowledgements are over.
    for index in 0..20 {
        drill.data_marked(index * SIZE, SIZE, Ecn::Ect0, Flags::ACK);
    }
    drill.acks();
    let marks = [Ecn::Ce, Ecn::Ce, Ecn::Ce, Ecn::Ect0, Ecn::Ce];
    let at_once: Vec<bool> = marks
        .into_iter()
        .zip(20..)
        .map(|(mark, index)| {
            drill.data_marked(index * SIZE, SIZE, mark, Flags::ACK);
            !drill.acks().is_empty()
        })
        .collect();
    assert_eq!(at_once, [true, false, true, false, true]);
    // Section 3.2: packets without data count, and the third of them is told.
    let before = drill.end.ecn.accurate.flags().ace();
    for expected in [false, false, true] {
        let segment = drill.peers_segment(25 * SIZE);
        drill.deliver(segment, Ecn::Ce);
        assert_eq!(!drill.acks().is_empty(), expected);
    }
    assert_eq!(drill.end.ecn.accurate.flags().ace(), (before + 3) % 8);
    // So does one without a mark: what is marked behind it is a change.
    let segment = drill.peers_segment(25 * SIZE);
    drill.deliver(segment, Ecn::NotEct);
    drill.data_marked(25 * SIZE, SIZE, Ecn::Ce, Flags::ACK);
    assert!(!drill.acks().is_empty());
    // While data waits for its acknowledgement, the second mark is told.
    drill.data_marked(26 * SIZE, SIZE, Ecn::Ect0, Flags::ACK);
    assert!(drill.acks().is_empty());
    for expected in [false, true] {
        let segment = drill.peers_segment(27 * SIZE);
        drill.deliver(segment, Ecn::Ce);
        assert_eq!(!drill.acks().is_empty(), expected);
    }
}

/// Appendix A.2.1: an acknowledgement of so many segments that the field may have gone round once more counts
/// as if it had. With few segments for each acknowledgement before, that is.
#[test]
fn rfc9768_a_2_1_a_field_that_may_have_gone_round_has() {
    for (segments, expected) in [(9, 2), (10, 10), (17, 10), (18, 18)] {
        let mut drill = Drill::opening(
            &Config { initial_window: Some(InitialWindow::Segments(20)), ..accurate() },
            false,
        );
        let syn_ack = syn_ack(&drill, 0b010);
        drill.at(100).deliver(syn_ack, Ecn::NotEct);
        drill.write(20 * SIZE);
        acknowledge(&mut drill, SIZE, 5, None);
        acknowledge(&mut drill, (1 + segments) * SIZE, 5 + 2, None);
        assert_eq!(drill.end.stats().ce_reported, expected, "{segments} segments");
    }
    // Acknowledgements that begin with many segments are thinned out.
    let mut drill = client();
    drill.write(10 * SIZE);
    acknowledge(&mut drill, 10 * SIZE, 5 + 2, None);
    assert_eq!(drill.end.stats().ce_reported, 2);
}

/// Appendix A.2.2, with its three examples: the option says whether the field can have gone round.
#[test]
fn rfc9768_a_2_2_the_option_decides_whether_the_field_has_gone_round() {
    for (least, segments, bytes, expected) in
        [(0, 8, 1_460, 8), (2, 10, 1_460, 2), (7, 15, 10_200, 7), (2, 10, 14_600, 10), (0, 8, 0, 0)]
    {
        let mut drill = Drill::opening(
            &Config { initial_window: Some(InitialWindow::Segments(20)), ..accurate() },
            false,
        );
        let syn_ack = syn_ack(&drill, 0b010);
        drill.at(100).deliver(syn_ack, Ecn::NotEct);
        drill.write(20 * SIZE);
        let counters = option(false, &[1 + segments * SIZE - bytes, bytes]);
        acknowledge(&mut drill, segments * SIZE, ((5 + least) % 8) as u8, counters);
        assert_eq!(drill.end.stats().ce_reported, expected, "{least} {segments} {bytes}");
    }
}

/// Section 3.2.3.2.1: the SYN-ACK, and its acknowledgement and the first data, carry the option.
#[test]
fn rfc9768_3_2_3_2_1_the_first_segments_have_the_option() {
    let drill = asked(&accurate(), ALL, Ecn::NotEct);
    assert_eq!(last_option(&drill), option(true, &[1, 0, 1]));
    let mut drill = client();
    assert!(drill.sent[0].segment.rare.is_none(), "not the SYN");
    assert_eq!(last_option(&drill), option(true, &[1, 0, 1]));
    drill.write(1_000);
    assert_eq!(last_option(&drill), option(true, &[1, 0, 1]));
    drill.write(1_000);
    assert_eq!(last_option(&drill), None);
    let drill = opened(&Config { ecn_option: Some(false), ..accurate() }, 0b010, Ecn::NotEct);
    assert_eq!(last_option(&drill), None);
}

/// Section 3.2.3.3: an acknowledgement has the counters if one has changed since the last.
#[test]
fn rfc9768_3_2_3_3_acknowledgements_have_what_has_changed() {
    let mut drill = client();
    drill.write(1_000);
    let mut position = 0;
    let mut arrive = |drill: &mut Drill, mark| {
        drill.data_marked(position, 1_000, mark, Flags::ACK);
        position += 1_000;
        last_option(drill)
    };
    assert_eq!(arrive(&mut drill, Ecn::NotEct), None);
    assert_eq!(arrive(&mut drill, Ecn::Ect1), option(true, &[1_001, 0, 1]));
    assert_eq!(arrive(&mut drill, Ecn::NotEct), None);
    assert_eq!(arrive(&mut drill, Ecn::Ce), option(true, &[1_001, 1_000, 1]));
    assert_eq!(arrive(&mut drill, Ecn::Ect1), option(true, &[2_001, 1_000, 1]));
    assert_eq!(arrive(&mut drill, Ecn::Ect0), option(true, &[2_001, 1_000, 1_001]));
}

/// Section 3.2.3.3: two SACK blocks come first, and a counter that has changed is not left out of an option.
#[test]
fn rfc9768_3_2_3_3_sack_comes_first() {
    let config = Config { timestamps: Some(true), ..accurate() };
    let mut drill = Drill::opening(&config, true);
    let mut syn_ack = syn_ack(&drill, 0b010);
    syn_ack.timestamps = drill.peers_segment(0).timestamps;
    drill.at(100).deliver(syn_ack, Ecn::NotEct);
    drill.write(100);
    // With timestamps and two blocks, 8 bytes are left, in which two of three counters have room.
    for (position, mark) in [(2_000, Ecn::Ect1), (4_000, Ecn::Ect1), (6_000, Ecn::Ce), (8_000, Ecn::Ce)] {
        drill.data_marked(position, 1_000, mark, Flags::ACK);
    }
    assert_eq!(last_option(&drill), option(true, &[2_001, 2_000]));
    assert_eq!(last(&drill).sack.len(), 2);
    assert!(last(&drill).option_bytes() <= 40);
    drill.data_marked(10_000, 1_000, Ecn::Ect0, Flags::ACK);
    assert_eq!(last_option(&drill), None, "the one that has changed has no room");
    assert_eq!(last(&drill).sack.len(), 3);
    drill.data_marked(0, 2_000, Ecn::NotEct, Flags::ACK);
    drill.data_marked(3_000, 1_000, Ecn::NotEct, Flags::ACK);
    drill.data_marked(5_000, 1_000, Ecn::NotEct, Flags::ACK);
    drill.data_marked(7_000, 1_000, Ecn::NotEct, Flags::ACK);
    assert_eq!(last_option(&drill), option(true, &[2_001, 2_000, 1_001]), "one block is left");
}

/// Section 3.2.3.3, where a connection above takes bytes of the options: two SACK blocks come first, then as
/// many counters as fit, then further blocks. A counter that was left out is due again.
#[test]
fn rfc9768_3_2_3_3_the_options_of_a_connection_above_leave_less() {
    let of_above =
        [(0, 2, Some(2)), (4, 2, None), (8, 2, None), (12, 1, None), (20, 0, Some(2)), (28, 0, None)];
    for (above, blocks, counters) in of_above {
        let config = Config { timestamps: Some(true), ..accurate() };
        let mut drill = Drill::opening(&config, true);
        let mut syn_ack = syn_ack(&drill, 0b010);
        syn_ack.timestamps = drill.peers_segment(0).timestamps;
        drill.at(100).deliver(syn_ack, Ecn::NotEct);
        drill.write(100);
        for (position, mark) in [(2_000, Ecn::Ect1), (4_000, Ecn::Ect1), (6_000, Ecn::Ce), (8_000, Ecn::Ce)] {
            drill.data_marked(position, 1_000, mark, Flags::ACK);
        }
        let mut segment = last(&drill).clone();
        drill.end.fit_options(&mut segment, above);
        let found = segment.rare.as_ref().and_then(|rare| rare.accurate_ecn.as_ref());
        assert!(segment.option_bytes() + above <= 40, "{above}");
        assert_eq!((segment.sack.len(), found.map(|it| it.counters.len())), (blocks, counters), "{above}");
        drill.data_marked(10_000, 1_000, Ecn::NotEct, Flags::ACK);
        let again = last_option(&drill);
        let is_whole = counters == Some(2);
        assert_eq!(again, option(true, &[2_001, 2_000]).filter(|_| !is_whole), "{above}");
    }
}

/// Linux, `tcp_ecn_send` and `tcp_established_options`: once the peer's option has come every segment is
/// marked and has the option, and data is smaller by it; before that, only the SYN-ACK has one.
#[test]
fn linux_marks_and_counts_in_every_segment() {
    let config = Config { procedures: None, ..accurate() };
    for (has_option, full) in [(false, SIZE), (true, SIZE - 12)] {
        let mut drill = Drill::opening(&config, false);
        let mut syn_ack = syn_ack(&drill, 0b010);
        if has_option {
            syn_ack.rare.get_or_insert_default().accurate_ecn = option(false, &[1, 0, 1]);
        }
        drill.at(100).deliver(syn_ack, Ecn::NotEct);
        drill.write(5 * SIZE);
        assert!(drill.sent[1..].iter().all(|sent| sent.segment.rare.is_some() == has_option), "{has_option}");
        assert!(drill.sent[1..].iter().all(|sent| sent.ecn == Ecn::Ect0), "{has_option}");
        assert_eq!(drill.sent[2].segment.payload.length, full);
        drill.at(2_000);
        let again = drill.sent.last().unwrap();
        assert!(again.segment.sequence == drill.sent[2].segment.sequence && again.ecn == Ecn::Ect0);
    }
    assert_eq!(last_option(&asked(&config, ALL, Ecn::NotEct)), option(true, &[1, 0, 1]));
}

/// Section 3.2.3.2.4: counters of bytes that begin with zero have been zeroed; the field is still read.
#[test]
fn rfc9768_3_2_3_2_4_a_zeroed_option_is_ignored() {
    let mut drill = client();
    drill.write(4 * SIZE);
    acknowledge(&mut drill, SIZE, 6, option(false, &[0, 0, 0]));
    assert_eq!(drill.end.stats().ce_reported, 1);
    // Were it read, there would be marked bytes without a marked packet.
    acknowledge(&mut drill, 2 * SIZE, 6, option(false, &[1, SIZE, 1]));
    assert_eq!(mark_of_data(&mut drill), Ecn::Ect0);
}

/// Section 3.2.3.2.5: marked bytes without a marked packet show that the feedback is mangled.
#[test]
fn rfc9768_3_2_3_2_5_marked_bytes_without_marked_packets_end_ect() {
    let mut drill = client();
    drill.write(4 * SIZE);
    acknowledge(&mut drill, SIZE, 5, option(false, &[1 + SIZE]));
    assert_eq!(drill.end.stats().ce_reported, 0);
    acknowledge(&mut drill, 2 * SIZE, 5, option(false, &[1 + SIZE, SIZE]));
    assert_eq!(mark_of_data(&mut drill), Ecn::NotEct);
}

/// Section 3.2.3.3: an acknowledgement without room for the option tells marks in its field alone, and the
/// next one tells their bytes, which is no mangling.
#[test]
fn rfc9768_3_2_3_3_bytes_may_be_told_after_their_packets() {
    let mut drill = client();
    drill.write(4 * SIZE);
    acknowledge(&mut drill, SIZE, 6, None);
    acknowledge(&mut drill, 2 * SIZE, 6, option(false, &[1 + SIZE, SIZE]));
    assert_eq!((drill.end.stats().ce_reported, mark_of_data(&mut drill)), (1, Ecn::Ect0));
    // From then on, bytes and packets go together again.
    acknowledge(&mut drill, 3 * SIZE, 6, option(false, &[1 + SIZE, 2 * SIZE]));
    assert_eq!(mark_of_data(&mut drill), Ecn::NotEct);
}

/// Appendix A.1: an acknowledgement that another one has overtaken says nothing.
#[test]
fn rfc9768_a_1_an_acknowledgement_that_was_overtaken_is_not_read() {
    let mut drill = client();
    drill.write(6 * SIZE);
    acknowledge(&mut drill, 4 * SIZE, 6, None);
    assert_eq!(drill.end.stats().ce_reported, 1);
    acknowledge(&mut drill, 2 * SIZE, 5, None);
    acknowledge(&mut drill, 4 * SIZE, 5, None);
    acknowledge(&mut drill, 6 * SIZE, 7, None);
    assert_eq!(drill.end.stats().ce_reported, 2);
}

/// Both ends count alike over a network that loses, and options and field agree.
#[test]
fn rfc9768_3_2_both_ends_count_alike() {
    for ecn_option in [false, true] {
        let config = Config { ecn_option: Some(ecn_option), ..accurate() };
        let mut pair = Pair::open(&config);
        pair.wires[0].marks = 0.3;
        pair.drop_if = drop_at(&[14_480, 28_960]);
        pair.write(Side::A, 200 * 1_448);
        pair.run_for(ms(20_000));
        let (sent, heard) = (pair.ends[1].stats().ce_received, pair.ends[0].stats().ce_reported);
        assert!(sent > 40, "{sent}");
        assert_eq!(heard, sent);
        let has_option = pair.acks(Side::B).iter().any(|logged| logged.segment.rare.is_some());
        assert_eq!(has_option, ecn_option);
    }
}
