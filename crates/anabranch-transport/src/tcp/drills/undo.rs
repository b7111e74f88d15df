//! RFC 3522 and RFC 4015 (timestamps), RFC 3708 (DSACK).

use super::*;
use crate::tcp::testing::Drill;
use crate::wire::tcp::Flags;

#[test]
fn rfc3522_3_2_an_echo_from_before_the_retransmission_undoes_it() {
    let size = SIZE - 12;
    for (undo, expected) in [(true, 10), (false, 6)] {
        let mut drill = Drill::open(&Config { undo: Some(undo), ..linux() }, true);
        drill.write(10 * size);
        let original = drill.sent().last().and_then(|logged| logged.segment.timestamps).expect("timestamps");
        drill.at(200).ack(0, &[(size, 4 * size)]);
        assert_eq!(drill.segments(size)[0], 0);
        // The original arrives after all.
        drill.at(210).ack_echoing(10 * size, &[], original.value, Flags::ACK);
        assert_eq!(drill.end.stats().undos, u64::from(undo));
        // If the reduction were not undone, the window would be half, plus the growth that the
        // acknowledgement brings.
        assert!(drill.end.cwnd() == expected || (undo && drill.end.cwnd() > expected));
    }
}

#[test]
fn rfc3708_3_dsacks_for_every_retransmission_undo_it() {
    for settings in [linux(), rfc()] {
        let mut drill = Drill::open(&settings, false);
        drill.write(100 * SIZE).segments(SIZE);
        drill.at(200).ack(0, &[(SIZE, 4 * SIZE)]);
        assert_eq!(drill.segments(SIZE)[0], 0);
        drill.at(210).ack(4 * SIZE, &[]).segments(SIZE);
        // The retransmission is reported as a duplicate.
        drill.at(300).ack(10 * SIZE, &[(0, SIZE)]);
        assert_eq!(drill.end.stats().undos, 1);
        assert!(drill.end.cwnd() >= 10);
    }
}

/// Profile rfc and Linux, which counts reports, without timestamps, probes and F-RTO.
fn both() -> [(Config, u64); 2] {
    [(rfc(), 0), (linux(), 1)].map(|(settings, undos)| {
        let rto_min = Some(crate::time::Duration::from_secs(1));
        (Config { tail_loss_probe: Some(false), f_rto: Some(false), rto_min, ..settings }, undos)
    })
}

#[test]
fn rfc3708_3_a1_the_first_news_of_a_whole_window_undoes_nothing() {
    for (settings, undos) in both() {
        let mut drill = Drill::open(&settings, false);
        drill.write(10 * SIZE).segments(SIZE);
        drill.at(1_350);
        assert_eq!(drill.segments(SIZE), [0]);
        drill.at(1_400).ack(10 * SIZE, &[(0, SIZE)]);
        assert_eq!(drill.end.stats().undos, undos);
    }
}

#[test]
fn rfc3708_3_a4_a_duplicate_of_the_network_ends_it_for_good() {
    for (settings, undos) in both() {
        let mut drill = Drill::open(&settings, false);
        drill.write(100 * SIZE).segments(SIZE);
        drill.at(200).ack(0, &[(SIZE, 4 * SIZE)]);
        assert_eq!(drill.segments(SIZE)[0], 0);
        drill.at(300).ack(10 * SIZE, &[]);
        // Segment 5 was not sent again.
        drill.at(310).ack(10 * SIZE, &[(5 * SIZE, 6 * SIZE)]).segments(SIZE);
        // Segment 10 is sent again for nothing.
        drill.at(400).ack(10 * SIZE, &[(11 * SIZE, 14 * SIZE)]);
        assert_eq!(drill.segments(SIZE)[0], 10);
        drill.at(410).ack(14 * SIZE, &[]);
        drill.at(500).ack(14 * SIZE, &[(10 * SIZE, 11 * SIZE)]);
        assert_eq!(drill.end.stats().undos > 0, undos > 0);
    }
}

#[test]
fn rfc3708_3_b_each_retransmission_has_to_be_reported() {
    for (settings, undos) in both() {
        let mut drill = Drill::open(&settings, false);
        drill.write(100 * SIZE).segments(SIZE);
        drill.at(200).ack(0, &[(2 * SIZE, 8 * SIZE)]);
        drill.at(205).ack(0, &[(2 * SIZE, 10 * SIZE)]);
        let again = drill.segments(SIZE);
        assert!(again.contains(&0) && again.contains(&1), "{again:?}");
        drill.at(210).ack(10 * SIZE, &[]).segments(SIZE);
        // One of them is reported twice.
        drill.at(300).ack(10 * SIZE, &[(0, SIZE)]).ack(10 * SIZE, &[(0, SIZE)]);
        assert_eq!(drill.end.stats().undos, undos);
        drill.at(310).ack(10 * SIZE, &[(SIZE, 2 * SIZE)]);
        assert_eq!(drill.end.stats().undos, 1);
    }
}

#[test]
fn rfc8985_6_2_a_duplicate_widens_the_reordering_window() {
    for (duplicates, in_time) in [(false, 27), (true, 52)] {
        let mut drill = Drill::open_with(&linux(), false, 10);
        drill.write(20 * SIZE).segments(SIZE);
        // Reordering is seen. Then segment 2 is so late that it is sent again.
        drill.at(200).ack(0, &[(SIZE, 2 * SIZE)]).ack(2 * SIZE, &[]);
        drill.ack(2 * SIZE, &[(3 * SIZE, 4 * SIZE)]).at(240);
        assert!(drill.segments(SIZE).contains(&2));
        drill.at(245).ack(10 * SIZE, &[]);
        let duplicate = [(2 * SIZE, 3 * SIZE)];
        drill.at(345).ack(20 * SIZE, if duplicates { &duplicate } else { &[] });
        drill.at(400).write(3 * SIZE).segments(SIZE);
        // One quarter of the smallest round-trip time and 2 ms, or two quarters.
        drill.at(500).ack(20 * SIZE, &[(21 * SIZE, 22 * SIZE)]).at(500 + in_time - 1);
        assert_eq!(drill.segments(SIZE), [0; 0], "{duplicates}");
        drill.at(500 + in_time);
        assert_eq!(drill.segments(SIZE), [20], "{duplicates}");
    }
}
