//! A packet number space (RFC 9000 section 12.3): the numbers of what is sent, what has arrived, and when it
//! is acknowledged (section 13.2).

use super::congestion::Congestion;
use super::ranges::Ranges;
use super::sent_packets::{Content, SentPackets};
use crate::flow::Ecn;
use crate::time::{Duration, Time};
use crate::wire::quic::{Ack, Frame, Level, MAX_ACK_RANGES, varint};

/// Runs of numbers that have arrived that are remembered; what is below the first run counts as arrived.
const MOST_RUNS: usize = MAX_ACK_RANGES;

/// Which space is meant. Data has one for each path ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpaceId {
    Initial,
    Handshake,
    /// That of the path at this place.
    Data(usize),
}

impl SpaceId {
    pub(super) const fn level(self) -> Level {
        match self {
            Self::Initial => Level::Initial,
            Self::Handshake => Level::Handshake,
            Self::Data(_) => Level::OneRtt,
        }
    }

    /// The place of the path whose round trips and window it has; the handshake is on the first one.
    pub(super) const fn path(self) -> usize {
        match self {
            Self::Initial | Self::Handshake => 0,
            Self::Data(path) => path,
        }
    }
}

/// A packet number space.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// The number of the next packet.
    pub(super) next: u64,
    pub(super) sent: SentPackets,
    /// The largest number that the peer has acknowledged.
    pub(super) largest_acknowledged: Option<u64>,
    /// When the last packet left that elicits an acknowledgement.
    pub(super) last_eliciting_at: Time,
    /// When the next packet is lost by time, if one is.
    pub(super) loss_time: Option<Time>,
    /// Packets to send that elicit acknowledgements, whatever the window says (RFC 9002 section 6.2.4).
    pub(super) probes: u32,
    pub(super) arrived: Arrived,
    /// Packets that came with ECT(0), ECT(1) and CE.
    pub(super) marks: [u64; 3],
}

impl Space {
    /// Forgets what is on its way, which is neither acknowledged nor lost, and the probes that wait; returns
    /// what was in it.
    pub(super) fn forget_sent(&mut self, congestion: &mut Congestion) -> Vec<Content> {
        let mut contents = Vec::new();
        for packet in self.sent.take_all() {
            congestion.on_forgotten(packet.size);
            contents.extend(packet.contents);
        }
        self.loss_time = None;
        self.probes = 0;
        contents
    }
}

/// Packets that have arrived, and what is due about them.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    /// All, for telling duplicates.
    all: Ranges,
    /// Those that the next ACK frame reports.
    reported: Ranges,
    largest_at: Time,
    largest_eliciting: Option<u64>,
    /// The largest number that an ACK frame has said.
    acknowledged: Option<u64>,
    /// The lowest number below it that has come since.
    unreported: Option<u64>,
    /// Whether the last packet that came had a congestion mark.
    was_marked: bool,
    /// Packets that elicit an acknowledgement and have none yet.
    pub(super) waiting: u32,
    /// When the acknowledgement is due.
    pub(super) due: Option<Time>,
}

/// When acknowledgements leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRule {
    pub(super) every: u32,
    pub(super) delay: Duration,
    /// How far packets may be out of order, 0 for any distance, where the peer has asked for that
    /// (draft-ietf-quic-ack-frequency-14); [`None`] is as RFC 9000 says.
    pub(super) reordering: Option<u64>,
}

impl Arrived {
    /// Whether the number has arrived before, or is so old that nothing is known about it.
    pub(super) fn is_known(&self, number: u64) -> bool {
        self.all.contains(number)
    }

    pub(super) fn largest(&self) -> Option<u64> {
        self.all.last().map(|run| run.1 - 1)
    }

    /// Notes a packet that is new, and when it is to be acknowledged (RFC 9000 sections 13.2.1 and 13.2.2).
    pub(super) fn insert(&mut self, now: Time, number: u64, elicits: bool, is_marked: bool, rule: AckRule) {
        let largest = self.largest();
        self.all.insert(number, number + 1);
        self.all.forget_gaps(MOST_RUNS);
        self.reported.insert(number, number + 1);
        if self.reported.len() > MAX_ACK_RANGES {
            self.reported.pop_first();
        }
        if largest.is_none_or(|largest| number > largest) {
            self.largest_at = now;
        }
        if self.acknowledged.is_some_and(|acknowledged| number < acknowledged) {
            self.unreported = Some(self.unreported.map_or(number, |lowest| lowest.min(number)));
        }
        let was_marked = std::mem::replace(&mut self.was_marked, is_marked);
        if !elicits {
            return;
        }
        // It is out of order if one behind it has come, or one before it has not.
        let is_late = self.largest_eliciting.is_some_and(|largest| number < largest);
        let has_gap = number > 0 && !self.all.contains(number - 1);
        self.largest_eliciting = self.largest_eliciting.max(Some(number));
        self.waiting += 1;
        let is_special = match rule.reordering {
            None => is_late || has_gap || is_marked,
            // Section 6.3 of the draft: the first one of several that are marked, if they are to be many.
            Some(threshold) => {
                let tells_mark = is_marked && (rule.every <= 2 || !was_marked);
                tells_mark || self.is_beyond(number, threshold)
            }
        };
        let is_due = self.waiting >= rule.every || is_special || rule.delay.is_zero();
        let due = if is_due { now } else { now + rule.delay };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Whether a packet shows the peer something that it takes for lost, or had (section 6.2 of the draft).
    fn is_beyond(&self, number: u64, threshold: u64) -> bool {
        if threshold == 0 {
            return false;
        }
        let is_late = self.acknowledged.is_some_and(|acknowledged| number + threshold <= acknowledged);
        let unreported = self.acknowledged.map_or(0, |known| (known + 1).saturating_sub(threshold));
        let missing = self.all.first_missing(unreported);
        is_late || self.largest_eliciting.is_some_and(|largest| largest >= missing + threshold)
    }

    /// The ACK frame, of at most `room` bytes; [`None`] if it does not fit or nothing has arrived.
    pub(super) fn frame(&self, now: Time, exponent: u64, marks: [u64; 3], room: usize) -> Option<Ack> {
        let waited = now.saturating_since(self.largest_at);
        let delay = (waited.as_nanos() / 1_000) >> exponent;
        let ecn = (marks != [0; 3]).then_some(marks);
        let mut ack = Ack { delay: delay.min(varint::MAX), ecn, ..Ack::default() };
        // Type, delay, number of ranges (below 64), and the counts.
        let fixed =
            1 + varint::size(ack.delay) + 1 + ecn.iter().flatten().map(|n| varint::size(*n)).sum::<usize>();
        let mut size = fixed;
        let mut smallest = None;
        for (start, end) in self.reported.iter().rev() {
            let run = varint::size(end - 1 - start);
            size += match smallest {
                None => varint::size(end - 1) + run,
                Some(smallest) => varint::size(smallest - end - 1) + run,
            };
            if size > room || ack.ranges.try_push((start, end - 1)).is_err() {
                break;
            }
            smallest = Some(start);
        }
        (!ack.ranges.is_empty()).then_some(ack)
    }

    /// An ACK frame may have been lost: another one is due, if it would say something.
    pub(super) fn acknowledge_again(&mut self, now: Time) {
        if !self.reported.is_empty() {
            self.waiting = self.waiting.max(1);
            self.due = Some(now);
        }
    }

    /// An acknowledgement has left.
    pub(super) fn on_acknowledged(&mut self) {
        self.waiting = 0;
        self.due = None;
        self.acknowledged = self.largest();
        self.unreported = None;
    }

    /// The peer has got an ACK frame whose largest number this was: what it said need not be said again
    /// (RFC 9000 section 13.2.4). What has come since, and waits, it did not say.
    pub(super) fn forget_up_to(&mut self, largest: u64) {
        let end = self.unreported.unwrap_or(u64::MAX).min(largest + 1);
        self.reported.remove(0, end);
    }
}

impl Space {
    /// Counts the mark of a packet that has arrived (RFC 9000 section 13.4.1).
    pub(super) fn count_mark(&mut self, ecn: Ecn) {
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.marks[0] += 1,
            Ecn::Ect1 => self.marks[1] += 1,
            Ecn::Ce => self.marks[2] += 1,
        }
    }
}

/// Whether a frame may come at this level (RFC 9000 section 12.4, table 3).
pub(super) const fn may_come(frame: &Frame, level: Level) -> bool {
    match level {
        Level::OneRtt => true,
        Level::Initial | Level::Handshake => match frame {
            // RFC 10069 section 4.
            Frame::Ack(ack) => ack.path.is_none(),
            _ => matches!(
                frame,
                Frame::ConnectionClose { frame: Some(_), .. }
                    | Frame::Crypto { .. }
                    | Frame::Padding { .. }
                    | Frame::Ping
            ),
        },
        Level::ZeroRtt => !matches!(
            frame,
            Frame::Ack(_)
                | Frame::AckFrequency { .. }
                | Frame::Crypto { .. }
                | Frame::HandshakeDone
                | Frame::ImmediateAck
                | Frame::MaxPathId { .. }
                | Frame::NewConnectionId { path: Some(_), .. }
                | Frame::NewToken { .. }
                | Frame::PathAbandon { .. }
                | Frame::PathCidsBlocked { .. }
                | Frame::PathResponse { .. }
                | Frame::PathStatus { .. }
                | Frame::PathsBlocked { .. }
                | Frame::RetireConnectionId { .. }
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: AckRule = AckRule { every: 2, delay: Duration::from_millis(25), reordering: None };

    fn arrive(arrived: &mut Arrived, now: u64, number: u64) -> Option<Time> {
        arrived.insert(Time::from_millis(now), number, true, false, RULE);
        arrived.due
    }

    /// RFC 9000 sections 13.2.1 and 13.2.2.
    #[test]
    fn an_acknowledgement_waits_for_a_second_packet_unless_order_is_broken() {
        let mut arrived = Arrived::default();
        assert_eq!(arrive(&mut arrived, 1, 0), Some(Time::from_millis(26)));
        assert_eq!(arrive(&mut arrived, 2, 1), Some(Time::from_millis(2)));
        arrived.on_acknowledged();
        assert_eq!(arrive(&mut arrived, 3, 3), Some(Time::from_millis(3)), "2 is missing");
        arrived.on_acknowledged();
        assert_eq!(arrive(&mut arrived, 4, 2), Some(Time::from_millis(4)), "3 has come before it");
        arrived.on_acknowledged();
        arrived.insert(Time::from_millis(5), 4, false, false, RULE);
        assert_eq!(arrived.due, None);
        arrived.insert(Time::from_millis(6), 5, true, true, RULE);
        assert_eq!(arrived.due, Some(Time::from_millis(6)), "it is marked");
    }

    /// draft-ietf-quic-ack-frequency-14 section 6.2.1: tables 1 and 2, where nothing but the order of packets
    /// is acknowledged, and thresholds of 1 and 0.
    #[test]
    fn packets_out_of_order_are_acknowledged_as_in_the_tables() {
        for (threshold, packets, acknowledged) in [
            (3, &[0, 1, 3, 4, 5, 8, 9, 10][..], &[5, 9, 10][..]),
            (5, &[0, 1, 3, 5, 6, 7, 8, 9], &[7, 9]),
            (1, &[0, 1, 3, 4, 2, 5, 6], &[3, 2]),
            (0, &[0, 1, 3, 9, 2, 30], &[]),
            // The second condition: what the sender has declared lost already.
            (3, &[0, 2, 3, 4, 1], &[4, 1]),
        ] {
            let delay = Duration::from_secs(10);
            let rule = AckRule { every: 1_000, delay, reordering: Some(threshold) };
            let mut arrived = Arrived::default();
            let mut found = Vec::new();
            for &number in packets {
                arrived.insert(Time::from_millis(1), number, true, false, rule);
                if arrived.due == Some(Time::from_millis(1)) {
                    arrived.on_acknowledged();
                    found.push(number);
                }
            }
            assert_eq!(found, acknowledged, "{threshold}");
        }
    }

    /// Section 6 of the draft: a late packet that waits is acknowledged, although numbers above it were.
    #[test]
    fn what_waits_is_not_forgotten() {
        let rule = AckRule { every: 100, delay: Duration::from_secs(1), reordering: Some(10) };
        let mut arrived = Arrived::default();
        let arrive = |number, arrived: &mut Arrived| arrived.insert(Time::ZERO, number, true, false, rule);
        arrive(0, &mut arrived);
        arrive(2, &mut arrived);
        arrived.on_acknowledged();
        arrive(1, &mut arrived);
        arrive(3, &mut arrived);
        arrived.forget_up_to(2);
        assert_eq!(arrived.frame(Time::ZERO, 3, [0; 3], 100).unwrap().ranges[..], [(1, 3)]);
        arrived.on_acknowledged();
        arrived.forget_up_to(3);
        assert_eq!(arrived.frame(Time::ZERO, 3, [0; 3], 100), None);
    }

    /// Section 6.3 of the draft: the first of several packets that are marked is acknowledged at once, or
    /// each of them where every second packet is acknowledged anyway.
    #[test]
    fn the_first_mark_is_acknowledged_at_once() {
        for (every, expected) in [(100, [1, 4].as_slice()), (2, &[1, 2, 4])] {
            let delay = Duration::from_secs(10);
            let rule = AckRule { every, delay, reordering: Some(1) };
            let mut arrived = Arrived::default();
            let mut found = Vec::new();
            for (number, is_marked) in [false, true, true, false, true].into_iter().enumerate() {
                arrived.insert(Time::from_millis(1), number as u64, true, is_marked, rule);
                if arrived.due == Some(Time::from_millis(1)) {
                    arrived.on_acknowledged();
                    found.push(number);
                }
            }
            assert_eq!(found, expected);
        }
    }

    /// RFC 9000 section 19.3.1 and 13.2.4.
    #[test]
    fn the_frame_has_the_newest_runs_that_fit() {
        let mut arrived = Arrived::default();
        for number in [0, 1, 2, 5, 9, 10] {
            arrive(&mut arrived, number, number);
        }
        let now = Time::from_millis(18);
        let ack = arrived.frame(now, 3, [0; 3], 100).unwrap();
        assert_eq!(ack.ranges[..], [(9, 10), (5, 5), (0, 2)]);
        assert_eq!(ack.delay, 8_000 >> 3);
        let size = Frame::Ack(Box::new(ack)).size();
        let short = arrived.frame(now, 3, [0; 3], size - 1).unwrap();
        assert_eq!(short.ranges[..], [(9, 10), (5, 5)]);
        assert!(arrived.frame(now, 3, [0; 3], size).unwrap().ranges.len() == 3);
        arrived.forget_up_to(5);
        assert_eq!(arrived.frame(now, 3, [1, 0, 2], 100).unwrap().ranges[..], [(9, 10)]);
        assert!(arrived.is_known(5) && !arrived.is_known(4));
    }

    #[test]
    fn memory_has_a_limit() {
        let mut arrived = Arrived::default();
        for number in 0..10_000 {
            arrive(&mut arrived, 1, 2 * number);
        }
        assert!(arrived.all.len() <= MOST_RUNS && arrived.reported.len() <= MAX_ACK_RANGES);
        assert!(arrived.is_known(1), "it is too old");
        assert!(!arrived.is_known(2 * 9_999 - 1));
    }
}
