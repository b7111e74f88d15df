//! RFC 3168, RFC 8257, RFC 9768.

use super::*;
use crate::endpoint::Command;
use crate::flow::{Ecn, Side};
use crate::tcp::config::EcnMode;
use crate::tcp::testing::{Drill, Pair, ms};
use crate::time::Duration;
use crate::wire::tcp::Flags;

fn with(ecn: EcnMode) -> Config {
    Config { ecn: Some(ecn), ..linux() }
}

#[test]
fn rfc3168_6_1_1_both_ends_must_want_it() {
    for (a, b, expected) in [
        (EcnMode::Rfc3168, EcnMode::Rfc3168, Ecn::Ect0),
        (EcnMode::Rfc3168, EcnMode::Off, Ecn::NotEct),
        (EcnMode::Off, EcnMode::Rfc3168, Ecn::NotEct),
        (EcnMode::Accurate, EcnMode::Accurate, Ecn::Ect0),
        // RFC 9768 section 3.1.2: the end falls back.
        (EcnMode::Accurate, EcnMode::Rfc3168, Ecn::Ect0),
        (EcnMode::Rfc3168, EcnMode::Accurate, Ecn::Ect0),
        // RFC 9331 sections 4.1 and 4.2: ECT(1), but only with accurate feedback.
        (EcnMode::L4s, EcnMode::L4s, Ecn::Ect1),
        (EcnMode::L4s, EcnMode::Accurate, Ecn::Ect1),
        (EcnMode::Accurate, EcnMode::L4s, Ecn::Ect0),
        (EcnMode::L4s, EcnMode::Rfc3168, Ecn::Ect0),
        (EcnMode::L4s, EcnMode::Off, Ecn::NotEct),
    ] {
        let mut pair = Pair::seeded([&with(a), &with(b)], 1);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(100));
        pair.write(Side::A, 1_000);
        pair.run_for(ms(100));
        assert_eq!(pair.data(Side::A)[0].ecn, expected, "{a:?} {b:?}");
    }
}

#[test]
fn rfc3168_6_1_5_only_new_data_can_be_marked() {
    let mut pair = Pair::open(&with(EcnMode::Rfc3168));
    pair.drop_if = crate::tcp::testing::drop_at(&[0]);
    pair.write(Side::A, 20_000);
    pair.run_for(ms(1_000));
    let data = pair.data(Side::A);
    let again: Vec<Ecn> =
        data.iter().filter(|l| l.segment.payload.offset == 0).map(|logged| logged.ecn).collect();
    assert_eq!(again, [Ecn::Ect0, Ecn::NotEct]);
    assert!(pair.acks(Side::B).iter().all(|logged| logged.ecn == Ecn::NotEct));
}

#[test]
fn rfc3168_6_1_2_one_reduction_per_window_and_cwr() {
    let mut pair = Pair::open(&with(EcnMode::Rfc3168));
    pair.wires[0].marks = 1.0;
    pair.write(Side::A, 10 * 1_448);
    pair.run_for(ms(60));
    pair.wires[0].marks = 0.0;
    pair.write(Side::A, 50 * 1_448);
    pair.run_for(Duration::from_secs(1));
    let echoes = pair.log.iter().filter(|l| l.from == Side::B && l.segment.flags.has(Flags::ECE)).count();
    assert!(echoes >= 10, "until CWR is heard");
    assert_eq!(pair.ends[0].stats().ecn_reductions, 1);
    let cwr = pair.data(Side::A).iter().filter(|l| l.segment.flags.has(Flags::CWR)).count();
    assert_eq!(cwr, 1);
    assert_eq!(pair.ends[0].stats().data_segments_retransmitted, 0);
}

/// When new data left, in ms, while all of it is marked and for 4 s in which none is.
fn sent_while_marked(config: &Config) -> (Vec<u64>, Vec<u64>) {
    let mut pair = Pair::open(config);
    pair.wires[0].marks = 1.0;
    pair.write(Side::A, 2_000 * 1_448);
    pair.run_for(Duration::from_secs(20));
    let marked = pair.data(Side::A).len();
    pair.wires[0].marks = 0.0;
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.ends[0].stats().data_segments_retransmitted, 0);
    let at: Vec<u64> = pair.data(Side::A).iter().map(|logged| logged.at_ms()).collect();
    (at[..marked].to_vec(), at[marked..].to_vec())
}

/// RFC 3168 section 6.1.2, RFC 9438 section 4.6: marks that go on take the window to one segment, and then
/// each one has the sender wait for its retransmission timer, twice as long each time. Without marks it goes
/// on at once.
#[test]
fn rfc3168_6_1_2_a_window_of_one_segment_waits_for_the_timer() {
    let cubic = Config { cc: Some(cc::Config::Cubic(cc::cubic::Config::default())), ..rfc() };
    for config in [rfc(), cubic] {
        for ecn in [EcnMode::Rfc3168, EcnMode::Accurate] {
            let (marked, plain) = sent_while_marked(&Config { ecn: Some(ecn), ..config.clone() });
            let gaps: Vec<u64> = marked.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let waits: Vec<u64> = gaps.iter().copied().filter(|gap| *gap > 200).collect();
            // RTO.Min is 1 s, a round trip takes 40 ms, and the acknowledgement of one segment is delayed by
            // 200 ms.
            assert_eq!(waits, [1_240, 2_240, 4_240, 8_240], "{ecn:?}: {gaps:?}");
            assert_eq!(gaps[gaps.len() - 4..], waits, "nothing leaves in between");
            // The wait in progress is one of 16 s.
            assert!(plain[0] - marked.last().unwrap() > 16_000, "{plain:?}");
            assert!(plain.windows(2).all(|pair| pair[1] - pair[0] < 300), "{plain:?}");
        }
    }
}

/// Linux, `tcp_reno_ssthresh`: its least window is two segments, and nothing waits.
#[test]
fn in_linux_marks_leave_two_segments() {
    let (marked, _) = sent_while_marked(&with(EcnMode::Rfc3168));
    assert!(marked.windows(2).all(|pair| pair[1] - pair[0] < 60), "{marked:?}");
}

/// An end that has agreed on ECN and has no quick acknowledgements left: it acknowledges every second
/// segment.
fn after_quick_acknowledgements(profile: Profile) -> Drill {
    let settings = Config { receive_autotuning: Some(false), ..config(profile) };
    let mut drill = Drill::open(&settings, false);
    drill.end.ecn.accept(EcnMode::Rfc3168, Flags::ECE.with(Flags::CWR), Ecn::NotEct);
    for index in 0..20 {
        drill.data_marked(index * SIZE, SIZE, Ecn::Ect0, Flags::ACK);
    }
    drill.acks();
    drill
}

/// Whether each of these segments is acknowledged at once.
fn acknowledged_at_once(drill: &mut Drill, segments: &[(Ecn, Flags)]) -> Vec<bool> {
    let mut at_once = Vec::new();
    for &(ecn, flags) in segments {
        let next = drill.end.receiver.next as u32 - 1;
        drill.data_marked(next, SIZE, ecn, flags);
        at_once.push(!drill.acks().is_empty());
    }
    at_once
}

/// Linux, `__tcp_ecn_check_ce`: the first mark has two segments acknowledged at once, its own and the next,
/// further marks none until CWR has been heard (`tcp_ecn_accept_cwr`), which is acknowledged at once. Nothing
/// in RFC 3168 asks for it.
#[test]
fn linux_acknowledges_at_once_after_the_first_mark() {
    const ACK: Flags = Flags::ACK;
    const CWR: Flags = Flags::ACK.with(Flags::CWR);
    let marks = [(Ecn::Ce, ACK), (Ecn::Ce, ACK), (Ecn::Ce, ACK), (Ecn::Ce, ACK)];
    let cwr = [(Ecn::Ect0, CWR), (Ecn::Ect0, ACK), (Ecn::Ect0, ACK)];
    for (profile, after_marks, after_cwr) in [
        (Profile::Linux6, [true, true, false, true], [true, false, true]),
        (Profile::Linux2620, [false, true, false, true], [false, true, false]),
        (Profile::Rfc, [false, true, false, true], [false, true, false]),
    ] {
        let mut drill = after_quick_acknowledgements(profile);
        assert_eq!(acknowledged_at_once(&mut drill, &marks), after_marks, "{profile:?}");
        assert_eq!(acknowledged_at_once(&mut drill, &cwr), after_cwr, "{profile:?}");
    }
}

/// Linux, `__tcp_ecn_check_ce`, `TCP_ECN_check_ce` in 2.6.20: data that cannot be marked, after data that
/// could, was sent again.
#[test]
fn linux_acknowledges_at_once_what_cannot_be_marked() {
    let segments: Vec<_> =
        [Ecn::NotEct].into_iter().chain([Ecn::Ect0; 17]).map(|ecn| (ecn, Flags::ACK)).collect();
    for (profile, quick) in [(Profile::Linux6, 2), (Profile::Linux2620, 16), (Profile::Rfc, 0)] {
        let mut drill = after_quick_acknowledgements(profile);
        let at_once = acknowledged_at_once(&mut drill, &segments);
        // Every second one of those that are delayed.
        let expected: Vec<bool> = (0..18).map(|index| index < quick || (index - quick) % 2 == 1).collect();
        assert_eq!(at_once, expected, "{profile:?}");
    }
}

#[test]
fn rfc8257_3_2_the_echo_follows_every_change() {
    let mut pair = Pair::open(&with(EcnMode::Dctcp));
    pair.write(Side::A, 1_448);
    pair.run_for(ms(100));
    pair.wires[0].marks = 1.0;
    pair.write(Side::A, 1_448);
    pair.run_for(ms(100));
    pair.wires[0].marks = 0.0;
    pair.write(Side::A, 1_448);
    pair.run_for(ms(100));
    let echoes: Vec<bool> =
        pair.acks(Side::B).iter().map(|logged| logged.segment.flags.has(Flags::ECE)).collect();
    assert_eq!(echoes, [false, true, false]);
}

#[test]
fn rfc9768_3_2_2_every_mark_is_counted() {
    let mut pair = Pair::open(&with(EcnMode::Accurate));
    pair.wires[0].marks = 1.0;
    // Each segment has the option as well.
    pair.write(Side::A, 7 * 1_436);
    pair.run_for(ms(100));
    let last = pair.acks(Side::B).last().map(|logged| logged.segment.flags.ace());
    assert_eq!(last, Some((5 + 7) & 7));
    assert_eq!(pair.ends[0].stats().ecn_reductions, 1);
}
