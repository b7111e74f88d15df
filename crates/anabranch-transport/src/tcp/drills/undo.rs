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
    let mut drill = Drill::open(&linux(), false);
    drill.write(100 * SIZE).segments(SIZE);
    drill.at(200).ack(0, &[(SIZE, 4 * SIZE)]);
    assert_eq!(drill.segments(SIZE)[0], 0);
    drill.at(210).ack(4 * SIZE, &[]).segments(SIZE);
    // The retransmission is reported as a duplicate.
    drill.at(300).ack(10 * SIZE, &[(0, SIZE)]);
    assert_eq!(drill.end.stats().undos, 1);
    assert!(drill.end.cwnd() >= 10);
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
