//! One of the paths of an end: its congestion control and pacer, what was sent on it, and what came.

use super::Config;
use super::arrivals::Arrivals;
use super::history::{History, KEPT, Sent, marked};
use super::pacer::{Pacer, Waiting};
use super::stats::PathStats;
use super::stream::RETRANSMISSIONS;
use crate::cc::media::{Controller, Feedback, Frame, MediaControl as _, PacketReport, ms_between};
use crate::flow::{Ecn, PathId};
use crate::observed::MediaSample;
use crate::time::{Duration, Time};
use crate::wire::rtcp::{CongestionFeedback, MOST_METRICS};
use crate::wire::rtp;
use crate::wire::udp::HEADER_BYTES;

/// A path.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) mtu: u32,
    pub(super) control: Controller,
    pub(super) pacer: Pacer,
    /// What was sent there: media, and what was sent again.
    pub(super) sent: [History; 2],
    /// What of the peer's media came there, and of what it sent again.
    pub(super) arrived: [Arrivals; 2],
    /// When feedback is due; [`Time::NEVER`] while there is nothing to say.
    pub(super) feedback_at: Time,
    last_feedback: Option<Time>,
    /// When a packet was sent last.
    pub(super) last_sent: Option<Time>,
    /// Since when the peer has not said of anything that it arrived, although something was sent;
    /// [`Time::NEVER`] while nothing is outstanding.
    pub(super) silent_since: Time,
    /// Smoothed as RFC 6298 section 2 has it.
    pub(super) srtt: Option<Duration>,
    /// Bytes of the frame that is being handed over.
    frame_bytes: u64,
    clock: Clock,
    pub(super) sample: MediaSample,
    /// The sum of one-way delays in ms, and their number.
    pub(super) delays: (f64, u64),
    pub(super) stats: PathStats,
}

/// What a feedback message said.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) packets: Vec<PacketReport>,
    /// The round trip of the last packet that has arrived, if one has.
    pub(super) rtt: Option<Duration>,
    /// How many of its reports are about packets unknown here.
    pub(super) unknown: u64,
    /// How many of its streams are not of this end, or are reported on in a way that RFC 8888 does not have.
    pub(super) strangers: u64,
}

impl News {
    /// How many packets it reports to have been marked.
    pub(super) fn marked(&self) -> u64 {
        marked(&self.packets) as u64
    }

    /// How many packets it reports to be lost.
    pub(super) fn lost(&self) -> u64 {
        self.packets.iter().filter(|report| report.arrival.is_none()).count() as u64
    }
}

impl Path {
    /// A path on which `peer` is the source of the peer's media; the seed is the control's.
    pub(super) fn new(number: PathId, mtu: u32, config: &Config, peer: u32, seed: u64) -> Self {
        let control = config.cc.build(config.ecn.field(), seed);
        let target = control.limits().target;
        Self {
            mtu,
            control,
            pacer: Pacer::default(),
            frame_bytes: 0,
            sent: [History::default(), History::default()],
            arrived: [peer, peer | RETRANSMISSIONS].map(Arrivals::new),
            feedback_at: Time::NEVER,
            last_feedback: None,
            last_sent: None,
            silent_since: Time::NEVER,
            srtt: None,
            clock: Clock::default(),
            sample: MediaSample::new(number, target),
            delays: (0.0, 0),
            stats: PathStats::default(),
        }
    }

    /// A packet of media is to leave on it.
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.frame_bytes += u64::from(waiting.payload.length);
        self.pacer.push(waiting);
    }

    /// The frame is whole. Its part here, if it has one, is told to the control.
    pub(super) fn end_frame(&mut self, now: Time) {
        let bytes = std::mem::take(&mut self.frame_bytes);
        if bytes > 0 {
            self.control.on_frame(&Frame { now, bytes, waiting: self.pacer.oldest(now) });
        }
    }

    /// Whether the next packet has no place in the control's window; `headers` are those of IP.
    pub(super) fn is_window_full(&self, headers: u32) -> bool {
        let size = |first: &Waiting| {
            let again = if first.original.is_some() { rtp::RETRANSMISSION_BYTES } else { 0 };
            headers + HEADER_BYTES + rtp::HEADER_BYTES + again + first.payload.length
        };
        self.pacer.first().is_some_and(|first| u64::from(size(first)) > self.control.limits().window)
    }

    /// What leaves now while the control probes and nothing waits: the last packet, again.
    pub(super) fn padding(&self, now: Time) -> Option<Waiting> {
        if self.padding_at() > now {
            return None;
        }
        let Sent { number, payload, marker, timestamp, .. } = *self.sent[0].last()?;
        Some(Waiting { since: now, payload, marker, timestamp, number: 0, original: Some(number) })
    }

    /// When padding leaves next; [`Time::NEVER`] if there is none.
    fn padding_at(&self) -> Time {
        let pads = self.control.limits().pads && self.sent[0].last().is_some();
        if pads { self.pacer.free_at() } else { Time::NEVER }
    }

    /// When a packet leaves next, feedback is due or the control is; `headers` are those of IP.
    pub(super) fn next(&self, headers: u32) -> Time {
        let is_full = self.is_window_full(headers);
        let packet = if is_full { Time::NEVER } else { self.pacer.next().min(self.padding_at()) };
        packet.min(self.feedback_at).min(self.control.timeout())
    }

    /// A packet leaves.
    pub(super) fn on_sent(&mut self, is_again: bool, sent: Sent) {
        let pace = self.control.limits().pacing;
        self.pacer.on_sent(sent.at, sent.size, pace);
        self.control.on_sent(sent.at, sent.size);
        self.last_sent = Some(sent.at);
        self.silent_since = self.silent_since.min(sent.at);
        self.stats.packets_sent += 1;
        self.stats.wire_bytes_sent += u64::from(sent.size);
        self.sent[usize::from(is_again)].push(sent);
    }

    /// A packet has come that is to be reported on.
    pub(super) fn expect_feedback(&mut self, now: Time, interval: Duration) {
        if self.feedback_at.is_never() {
            let earliest = self.last_feedback.unwrap_or(now);
            self.feedback_at = (earliest + interval).max(now + Duration::from_nanos(1));
        }
    }

    /// Feedback is sent.
    pub(super) const fn on_feedback_sent(&mut self, now: Time) {
        self.last_feedback = Some(now);
        self.feedback_at = Time::NEVER;
    }

    /// Takes the peer's feedback about this path to the end whose media comes from `ssrc`.
    pub(super) fn on_feedback(&mut self, now: Time, feedback: &CongestionFeedback, ssrc: u32) -> News {
        let mut news = News::default();
        self.stats.feedback_received += 1;
        let metrics = feedback.streams.iter().map(|stream| stream.metrics.len() as u64).sum();
        let Some(made) = self.clock.read(now, feedback.timestamp) else {
            news.unknown = metrics;
            return news;
        };
        for stream in &feedback.streams {
            // RFC 8888 section 3.1: a longer report would be about numbers that cannot be told apart.
            let is_whole = stream.metrics.len() <= MOST_METRICS.into();
            let place = [ssrc, ssrc | RETRANSMISSIONS].iter().position(|own| *own == stream.ssrc);
            match place.filter(|_| is_whole) {
                Some(place) => {
                    news.unknown += self.sent[place].take(stream, made, &mut news.packets) as u64;
                }
                None => news.strangers += 1,
            }
        }
        news.packets.sort_by_key(|report| report.sent);
        let arrivals = news.packets.iter().rev().filter_map(|report| Some((report.sent, report.arrival?.0)));
        if let Some((sent, arrived)) = { arrivals }.next() {
            // The time at the receiver is no part of the round trip.
            let rtt = now.saturating_since(sent).saturating_sub(made.saturating_since(arrived));
            news.rtt = Some(rtt);
            self.srtt = Some(self.srtt.map_or(rtt, |srtt| srtt.scaled(0.875) + rtt.scaled(0.125)));
            self.silent_since = Time::NEVER;
            self.control.on_feedback(&Feedback { now, rtt, packets: &news.packets });
            self.observe(now, rtt, &news.packets);
        }
        let lost = news.packets.iter().filter(|report| report.arrival.is_none());
        self.stats.wire_bytes_lost += lost.map(|report| u64::from(report.size)).sum::<u64>();
        self.stats.packets_lost += news.lost();
        news
    }

    /// Keeps what traces and scalars say of this feedback.
    fn observe(&mut self, now: Time, rtt: Duration, news: &[PacketReport]) {
        let delays = news.iter().filter_map(|report| Some(ms_between(report.sent, report.arrival?.0)));
        let (sum, count) = delays.fold((0.0, 0u64), |(sum, count), delay| (sum + delay, count + 1));
        self.delays.0 += sum;
        self.delays.1 += count;
        let window = Duration::from_millis(500);
        let since = Time::from_nanos(now.as_nanos().saturating_sub(window.as_nanos()));
        let bytes: u64 = self.sent.iter().map(|history| history.bytes_since(since)).sum();
        let limits = self.control.limits();
        self.sample = MediaSample {
            target: limits.target,
            pacing: limits.pacing,
            sending_bits_per_sec: bytes * 8 * 2,
            one_way_delay_ms: sum / count as f64,
            rtt: Some(rtt),
            loss: (news.len() as u64 - count) as f64 / news.len() as f64,
            ..self.sample
        };
    }

    /// A packet of this stream has come, the first one with this number on this path or not. Returns whether
    /// it is to be reported on.
    pub(super) fn on_arrival(&mut self, now: Time, is_again: bool, number: u64, ecn: Ecn) -> bool {
        self.arrived[usize::from(is_again)].on_arrival(now, number, ecn)
    }
}

/// The peer's clock. No feedback is about packets older than [`KEPT`], so that a time that is further from
/// this end's than before means that one of the clocks has stepped.
#[derive(Debug, Default)]
struct Clock {
    /// How far the peer's time was ahead of this end's, in ns, when feedback came last.
    ahead: Option<i64>,
    /// What steps have added to that.
    stepped: i64,
}

impl Clock {
    /// The time that the middle 32 bits of an NTP time mean, as the clock would have it without its steps;
    /// [`None`] where it has just stepped, so that the feedback is about other times than it says.
    fn read(&mut self, now: Time, middle: u32) -> Option<Time> {
        let near = ntp(now) >> 16;
        let distance = i64::from(middle.wrapping_sub(near as u32) as i32);
        let exact = near.saturating_add_signed(distance);
        let made = ((u128::from(exact) * 1_000_000_000) >> 16) as i64;
        let ahead = made.saturating_sub(now.as_nanos() as i64);
        let change = ahead.saturating_sub(self.ahead.replace(ahead).unwrap_or(ahead));
        if change.unsigned_abs() > KEPT.as_nanos() {
            self.stepped = self.stepped.saturating_add(change);
            return None;
        }
        Some(Time::from_nanos(made.saturating_sub(self.stepped).max(0) as u64))
    }
}

/// A time as NTP has it: seconds, and in the lower half their fraction. The run begins at 0.
pub(super) fn ntp(now: Time) -> u64 {
    ((u128::from(now.as_nanos()) << 32) / 1_000_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_is_read_as_if_it_had_not() {
        let middle = |at: Time| (ntp(at) >> 16) as u32;
        let mut clock = Clock::default();
        let at = Time::from_secs;
        let near = |read: Option<Time>, wanted: Time| {
            read.is_some_and(|read| read.as_nanos().abs_diff(wanted.as_nanos()) < 20_000)
        };
        // The clocks differ by an hour, as clocks may.
        assert!(near(clock.read(at(10), middle(at(3_610))), at(3_610)));
        assert!(near(clock.read(at(11), middle(at(3_610))), at(3_610)), "the report took a second");
        assert_eq!(clock.read(at(12), middle(at(20))), None);
        assert!(near(clock.read(at(13), middle(at(21))), at(3_612)), "the delay is that of the last report");
        assert_eq!(clock.read(at(14), middle(at(40_000))), None);
        assert!(clock.read(at(15), middle(at(40_001))).is_some());
    }
}
