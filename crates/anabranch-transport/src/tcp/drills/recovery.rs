//! RFC 3042, RFC 6675, RFC 6582, RFC 9937, RFC 8985 section 6.

use super::*;
use crate::cc::CongestionControl as _;
use crate::tcp::config::{InitialWindow, LossDetection, WindowReduction};
use crate::tcp::testing::Drill;
use crate::wire::tcp::Flags;

fn sent_ten(settings: &Config) -> Drill {
    let mut drill = Drill::open(settings, false);
    drill.write(100 * SIZE).segments(SIZE);
    drill.at(200);
    drill
}

fn detection(loss_detection: LossDetection) -> Config {
    Config { loss_detection: Some(loss_detection), ..linux() }
}

#[test]
fn rfc3042_2_duplicates_let_new_data_out() {
    for (settings, expected) in [
        (linux(), vec![10, 11]),
        (Config { limited_transmit: Some(false), ..linux() }, vec![]),
        (Config { sack: Some(false), ..linux() }, vec![10, 11]),
    ] {
        let mut drill = sent_ten(&settings);
        drill.ack(0, &[(SIZE, 2 * SIZE)]).at(202).ack(0, &[(SIZE, 3 * SIZE)]);
        assert_eq!(drill.segments(SIZE), expected);
    }
}

#[test]
fn rfc6675_5_three_segments_above_a_hole_make_it_a_loss() {
    for settings in [linux(), detection(LossDetection::Dupacks)] {
        let mut drill = sent_ten(&settings);
        drill.ack(0, &[(SIZE, 2 * SIZE)]).ack(0, &[(SIZE, 3 * SIZE)]).segments(SIZE);
        drill.ack(0, &[(SIZE, 4 * SIZE)]);
        assert_eq!(drill.segments(SIZE), [0]);
        assert_eq!(drill.end.stats().fast_retransmits, 1);
    }
}

#[test]
fn rfc9937_6_2_every_second_delivery_lets_one_out() {
    let mut drill = sent_ten(&linux());
    drill.ack(0, &[(SIZE, 4 * SIZE)]);
    // Three arrive at once: the share of the window is ceil(3 x 5/10) = 2, which is the lost segment and one
    // more.
    assert_eq!(drill.segments(SIZE), [0, 10]);
    let mut out = Vec::new();
    for end in 5..=10 {
        drill.ack(0, &[(SIZE, end * SIZE)]);
        out.push(drill.segments(SIZE).len());
    }
    // ceil(n x 5/10) less what left before, until no more than the threshold is outstanding, which is then
    // kept up.
    assert_eq!(out, [0, 1, 0, 0, 1, 1]);
    drill.at(300).ack(10 * SIZE, &[]);
    assert_eq!(drill.end.cwnd(), 5, "half the window at the end");
}

#[test]
fn rate_halving_leaves_the_window_where_it_came_to() {
    let halving = Some(WindowReduction::RateHalving);
    let settings = Config { window_reduction: halving, byte_counting: Some(false), ..linux() };
    let mut drill = sent_ten(&settings);
    // Six of ten are lost and nothing is on its way, so one may leave (Linux 2.6.20: tcp_cwnd_down).
    drill.ack(0, &[(6 * SIZE, 10 * SIZE)]);
    let window = drill.end.cwnd();
    assert!(window < 5, "{window}");
    drill.at(300).ack(10 * SIZE, &[]);
    assert!(drill.end.recovery.is_calm());
    assert_eq!(drill.end.cwnd(), window + 1, "slow start from there, not the threshold");
    assert_eq!(drill.end.cc.state().ssthresh, 5 * drill.end.mss);
}

#[test]
fn rfc6675_4_each_hole_is_judged_on_its_own() {
    let mut drill = sent_ten(&detection(LossDetection::Dupacks));
    // Segment 0 has four segments above it that have arrived, segment 2 has three, and segment 6 none.
    drill.ack(0, &[(3 * SIZE, 6 * SIZE), (SIZE, 2 * SIZE)]);
    assert_eq!((drill.end.board.lost, drill.end.board.sacked), (2, 4));
    drill.ack(0, &[(7 * SIZE, 9 * SIZE), (3 * SIZE, 6 * SIZE), (SIZE, 2 * SIZE)]);
    assert_eq!(drill.end.board.lost, 2);
    drill.ack(0, &[(7 * SIZE, 10 * SIZE), (3 * SIZE, 6 * SIZE), (SIZE, 2 * SIZE)]);
    assert_eq!(drill.end.board.lost, 3);
}

#[test]
fn forward_acknowledgement_looks_at_the_highest() {
    let mut drill = sent_ten(&detection(LossDetection::Fack));
    drill.ack(0, &[(4 * SIZE, 5 * SIZE)]);
    assert_eq!(drill.end.board.lost, 2, "segments 0 and 1 lie three or more below segment 4");
}

#[test]
fn rfc6582_3_2_a_partial_acknowledgement_shows_the_next_loss() {
    let mut drill = sent_ten(&Config { sack: Some(false), ..linux() });
    drill.ack(0, &[]).ack(0, &[]).segments(SIZE);
    drill.ack(0, &[]);
    assert_eq!(drill.segments(SIZE), [0]);
    for _ in 0..5 {
        drill.ack(0, &[]);
    }
    drill.segments(SIZE);
    drill.at(300).ack(5 * SIZE, &[]);
    assert!(drill.segments(SIZE).contains(&5), "segment 5 was lost too");
    assert_eq!(drill.end.stats().fast_retransmits, 1);
    // RFC 6582 section 3.2 step 6: the recovery point is reached.
    drill.at(400).ack(16 * SIZE, &[]);
    assert_eq!(drill.end.stats().timeouts, 0);
}

#[test]
fn rfc8985_6_2_a_hole_is_lost_when_the_reordering_window_has_passed() {
    let mut drill = Drill::open(&linux(), false);
    drill.write(3 * SIZE).segments(SIZE);
    drill.at(200).ack(0, &[(SIZE, 2 * SIZE)]);
    assert_eq!(drill.segments(SIZE), [0; 0]);
    // The reordering window is a quarter of 100 ms, to which Linux adds 2 ms.
    drill.at(226);
    assert_eq!(drill.segments(SIZE), [0; 0]);
    drill.at(227);
    assert_eq!(drill.segments(SIZE), [0]);
    let mut drill = Drill::open(&rfc(), false);
    drill.write(3 * SIZE).segments(SIZE);
    drill.at(200).ack(0, &[(SIZE, 2 * SIZE)]).at(225);
    assert_eq!(drill.segments(SIZE), [0]);
}

#[test]
fn rfc8985_3_4_a_lost_retransmission_is_found_without_a_timeout() {
    let mut drill = Drill::open_with(&linux(), false, 10);
    drill.write(100 * SIZE).segments(SIZE);
    drill.at(200).ack(0, &[(SIZE, 10 * SIZE)]);
    let again = drill.segments(SIZE);
    assert_eq!(again[0], 0);
    // What was sent after the retransmission arrives, but the retransmission does not.
    drill.at(310).ack(0, &[(SIZE, 13 * SIZE)]);
    assert_eq!(drill.segments(SIZE)[0], 0);
    assert_eq!(drill.end.stats().timeouts, 0);
}

#[test]
fn rfc8985_6_2_reordering_keeps_three_duplicates_from_being_a_loss() {
    let mut drill = sent_ten(&linux());
    // Segment 0 arrives late, behind 1 and 2.
    drill.ack(0, &[(SIZE, 3 * SIZE)]).ack(3 * SIZE, &[]);
    assert!(drill.end.recovery.has_reordering);
    drill.segments(SIZE);
    drill.ack(3 * SIZE, &[(4 * SIZE, 7 * SIZE)]);
    assert!(!drill.segments(SIZE).contains(&3), "it may be late as well");
    drill.at(230);
    assert!(drill.segments(SIZE).contains(&3));
}

#[test]
fn rfc2018_8_sacks_that_are_taken_back() {
    let mut drill = sent_ten(&linux());
    drill.ack(0, &[(SIZE, 10 * SIZE)]).segments(SIZE);
    // The receiver acknowledges segment 0 and has forgotten the others.
    drill.at(300).ack(SIZE, &[]).segments(SIZE);
    drill.at(5_000);
    assert!(drill.segments(SIZE).contains(&1), "after a timeout everything is sent again");
}

#[test]
fn rfc8985_6_2_an_echo_of_the_original_says_nothing_of_the_retransmission() {
    const FULL: u32 = 1_448;
    let lost = |settings: &Config| {
        let mut drill = Drill::open_with(settings, true, 10);
        drill.write(10 * FULL);
        let echo = drill.sent().last().unwrap().segment.timestamps.unwrap().value;
        drill.at(200).ack(0, &[(FULL, 4 * FULL)]);
        assert_eq!(drill.end.stats().segments_lost, 1);
        // The original of segment 0 arrives late, more than a round-trip time after its retransmission.
        drill.at(310).ack_echoing(4 * FULL, &[], echo, Flags::ACK);
        drill.end.stats().segments_lost
    };
    assert_eq!(lost(&rfc()), 1, "section 6.2 step 2 condition 1");
    // Linux looks only at the round-trip time, so all six sent before the retransmission are late.
    assert_eq!(lost(&linux()), 7, "tcp_rack_advance");
}

/// Linux, `tcp_ack`: `bictcp_acked` is called by `tcp_clean_rtx_queue`, before `tcp_fastretrans_alert` judges
/// the acknowledgement. So the state that it finds counts, and the first duplicate counts as one of no
/// segments; in 2.6.20 only what acknowledges something does, with all its segments.
#[test]
fn linux_bic_counts_acknowledgements_by_the_state_that_they_find() {
    for (profile, of_duplicate, of_last) in [(Profile::Linux6, 30, 32), (Profile::Linux2620, 32, 33)] {
        let bic = cc::Config::Bic(cc::bic::Config::default());
        let initial_window = Some(InitialWindow::Segments(10));
        let mut drill = Drill::open(&Config { cc: Some(bic), initial_window, ..config(profile) }, false);
        let ratio = |drill: &Drill| drill.end.ack_ratio().expect("it is BIC");
        drill.write(10 * SIZE).segments(SIZE);
        assert_eq!(ratio(&drill), 32);
        // Open: 32 + 2 - 32 / 16.
        drill.at(200).ack(2 * SIZE, &[]);
        assert_eq!(ratio(&drill), 32, "{profile:?}");
        // The state is still Open, and nothing is acknowledged cumulatively: 32 - 32 / 16.
        drill.ack(2 * SIZE, &[(3 * SIZE, 4 * SIZE)]);
        assert_eq!(ratio(&drill), of_duplicate, "{profile:?}");
        // Segments are known to be missing before the acknowledgement comes, though not after it.
        drill.ack(6 * SIZE, &[]);
        assert_eq!(ratio(&drill), of_duplicate, "{profile:?}");
        // 30 + 3 - 1; 32 + 3 - 2.
        drill.ack(9 * SIZE, &[]);
        assert_eq!(ratio(&drill), of_last, "{profile:?}");
    }
}
