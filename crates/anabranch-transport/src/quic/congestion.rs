//! Congestion control of a path (RFC 9002 section 7): what is in flight, periods of recovery, and the pace.

use super::bucket::{Bucket, Burst};
use super::sent_packets::Sent;
use crate::cc::{
    AckEvent, ArrivalEvent, CongestionControl as _, CongestionEvent, CongestionKind, Controller, LostEvent,
    RecoveryEndEvent, RttEvent, SentEvent,
};
use crate::recovery::pacing::Pacing;
use crate::recovery::rate_sample::{OpenSample, RateMark, RateSampler};
use crate::recovery::rtt::Rtt;
use crate::time::{Duration, Time};

/// What the pace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// The control's own, if it has one.
    Own,
    /// The control's own, or one that follows from the window.
    Usual,
    /// One that follows from the window, whatever the control says.
    Window,
}

/// Congestion control of a path.
#[derive(Debug)]
pub(super) struct Congestion {
    pub(super) control: Controller,
    /// The longest datagram; the control counts in it.
    datagram: u32,
    /// Bytes that are neither acknowledged nor lost.
    pub(super) in_flight: u32,
    /// Bytes that had been sent when the present period of recovery began, while there is one (section
    /// 7.3.2). The RFC compares times; what is sent at the time of its beginning is sent in it.
    recovery: Option<u64>,
    /// Whether that began with a mark.
    is_of_mark: bool,
    pub(super) rate: RateSampler,
    pub(super) pacing: Pacing,
    /// Holds datagrams back in the place of `pacing`, where they leave in bursts.
    bucket: Option<Bucket>,
    pace: Pace,
    /// Whether window or pace held something back when something was last sent (section 7.8).
    pub(super) is_limited: bool,
    /// Bytes sent so far, and those up to the newest packet that has been acknowledged.
    pub(super) sent: u64,
    acknowledged: u64,
    /// Acknowledged bytes that are not a whole datagram yet.
    rest: u32,
    /// Packets that may still leave together.
    burst: u32,
}

/// What an acknowledgement has brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) before: u32,
    pub(super) rtt: Option<Duration>,
    pub(super) lost: u32,
    /// Packets that the peer reports to be marked.
    pub(super) marked: u32,
    pub(super) has_unsent: bool,
}

impl Congestion {
    pub(super) fn new(control: Controller, datagram: u32, pace: Pace, burst: Option<Burst>) -> Self {
        Self {
            control,
            datagram,
            in_flight: 0,
            recovery: None,
            is_of_mark: false,
            rate: RateSampler::default(),
            pacing: Pacing::default(),
            bucket: burst.map(Bucket::new),
            pace,
            is_limited: false,
            sent: 0,
            acknowledged: 0,
            rest: 0,
            burst: 0,
        }
    }

    /// Datagrams leave in these bursts.
    pub(super) const fn leave_in_bursts(&mut self, burst: Burst) {
        self.bucket = Some(Bucket::new(burst));
    }

    /// Another path, with nothing in flight: its control begins from the beginning.
    pub(super) fn begin_anew(&mut self, control: Controller) {
        let (in_flight, sent) = (self.in_flight, self.sent);
        let burst = self.bucket.map(|bucket| bucket.burst);
        *self = Self::new(control, self.datagram, self.pace, burst);
        (self.in_flight, self.sent) = (in_flight, sent);
        self.acknowledged = sent;
    }

    /// The window, at least two datagrams (section 7.2: kMinimumWindow).
    pub(super) fn window(&self) -> u32 {
        self.control.limits().cwnd.max(2 * self.datagram)
    }

    /// Whether the window has room for a datagram.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight + self.datagram <= self.window()
    }

    /// Until when the pace holds the next datagram back; [`None`] if it may leave.
    pub(super) fn held_until(&self, now: Time) -> Option<Time> {
        match &self.bucket {
            Some(bucket) if self.pacing.rate() > 0 => {
                bucket.held_until(now, self.pacing.rate(), self.datagram)
            }
            Some(_) => None,
            None => (self.burst == 0 && self.pacing.holds(now)).then(|| self.pacing.next()),
        }
    }

    /// Whether the path recovers from a loss or a mark of this time or later.
    pub(super) const fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// A packet of `size` bytes leaves, which counts towards the window.
    pub(super) fn on_sent(&mut self, now: Time, size: u32) -> RateMark {
        let is_idle = self.in_flight == 0;
        if is_idle && self.paces_by_window() {
            // RFC 9002 section 7.7: a burst of at most the first window.
            self.pacing.allow_burst();
        }
        self.in_flight += size;
        self.sent += u64::from(size);
        if let Some(bucket) = &mut self.bucket {
            bucket.on_sent(now, size, self.pacing.rate(), self.datagram);
        } else {
            if self.burst == 0 {
                self.burst = self.control.least_burst();
                self.pacing.begin_packet(now);
            }
            self.burst -= 1;
            self.pacing.on_sent(size);
        }
        self.control.on_sent(&SentEvent::new(now, size, self.in_flight));
        self.rate.mark(now, is_idle, self.in_flight)
    }

    /// Whether the pace follows from the window.
    fn paces_by_window(&self) -> bool {
        self.pace == Pace::Window || self.control.limits().pacing_rate.is_none()
    }

    /// What leaves next is a burst of its own.
    pub(super) fn end_burst(&mut self) {
        self.burst = 0;
    }

    /// Nothing is left to send, although the window has room (section 7.8).
    pub(super) fn on_app_limited(&mut self) {
        self.is_limited = false;
        self.rate.limit_by_app(self.in_flight);
    }

    pub(super) fn on_rtt(&mut self, now: Time, rtt: Duration) {
        self.control.on_rtt_sample(&RttEvent::new(now, rtt));
    }

    /// A packet is taken for lost.
    pub(super) fn on_lost(&mut self, now: Time, packet: &Sent) {
        self.in_flight -= packet.size;
        let lost = self.rate.on_lost(&packet.rate, packet.size);
        let mut event = LostEvent::new(now, packet.size);
        (event.lost, event.outstanding_at_send) = (lost, packet.rate.in_flight());
        event.is_app_limited = packet.rate.is_app_limited();
        self.control.on_lost(&event);
    }

    /// A packet that ends there in what was sent is lost or marked; whether the window was reduced for it
    /// (section 7.3.2: once in a period of recovery, but for controls that answer a loss after a mark).
    pub(super) fn on_congestion(&mut self, now: Time, end: u64, kind: CongestionKind, rtt: &Rtt) -> bool {
        let is_mark = kind == CongestionKind::Ecn;
        if self.recovery.is_some_and(|began| end <= began) {
            if is_mark || !self.is_of_mark || !self.control.answers_loss_after_mark() {
                return false;
            }
        } else if self.recovery.is_some() {
            // The period before this one ends here.
            self.control.on_recovery_end(&RecoveryEndEvent::new(now, self.in_flight));
        }
        (self.recovery, self.is_of_mark) = (Some(self.sent), is_mark);
        self.control.on_congestion(&CongestionEvent::new(now, kind, self.in_flight));
        self.update_pace(rtt);
        true
    }

    /// Congestion is persistent: the least window (section 7.6.2).
    pub(super) fn on_persistent_congestion(&mut self, now: Time) {
        self.recovery = None;
        let mut event = CongestionEvent::new(now, CongestionKind::Timeout, self.in_flight);
        // Two datagrams: one more than what the timeout leaves.
        event.remaining = self.datagram;
        self.control.on_congestion(&event);
    }

    /// Packets have been acknowledged.
    pub(super) fn on_acknowledged(
        &mut self,
        now: Time,
        packets: &mut [Sent],
        rtt: &Rtt,
        progress: &Progress,
    ) {
        let mut sample = OpenSample::default();
        let (mut bytes, mut grows, mut newest) = (0, 0, 0);
        for packet in packets.iter_mut() {
            if packet.size == 0 {
                continue;
            }
            self.in_flight -= packet.size;
            bytes += packet.size;
            self.rate.delivered += u64::from(packet.size);
            self.rate.delivered_segments += 1;
            let (at, end) = (packet.at, packet.end);
            self.rate.on_delivered(&mut sample, &mut packet.rate, at, end);
            self.acknowledged = self.acknowledged.max(end);
            newest = newest.max(end);
            if self.recovery.is_none_or(|began| end > began) {
                grows += packet.size;
            }
        }
        // Section 7.3.2: recovery ends when a packet is acknowledged that was sent during it.
        if self.recovery.is_some_and(|began| newest > began) {
            self.recovery = None;
            self.control.on_recovery_end(&RecoveryEndEvent::new(now, self.in_flight));
        }
        let mut arrival = ArrivalEvent::new(now, self.acknowledged);
        arrival.rtt = progress.rtt;
        arrival.is_special = progress.lost > 0 || progress.marked > 0;
        self.control.on_arrival(&arrival);
        self.rest += grows;
        let segments = self.rest / self.datagram;
        self.rest %= self.datagram;
        let mut event = AckEvent::new(now, bytes, progress.before);
        event.segments_acked = segments;
        event.outstanding = self.in_flight;
        event.cumulative_advanced = segments > 0;
        event.in_recovery = self.recovery.is_some();
        event.is_open = self.recovery.is_none();
        event.is_window_limited = self.is_limited;
        event.marked = progress.marked.saturating_mul(self.datagram).min(bytes);
        event.has_unsent = progress.has_unsent;
        event.newly_lost = progress.lost;
        (event.rtt, event.min_rtt, event.srtt) = (progress.rtt, rtt.min_rtt(), rtt.srtt());
        (event.acknowledged_to, event.sent_to) = (self.acknowledged, self.sent);
        event.rate = self.rate.close(now, &sample, bytes > 0, rtt.min_rtt());
        event.next_departure = self.pacing.next();
        self.control.on_ack(&event);
        self.update_pace(rtt);
    }

    /// The pace: the control's own, or 1.25 times the window per round trip (section 7.7). None is slower
    /// than the least window per round trip (section 7.2): samples of a handshake with losses would have BBR
    /// stop.
    fn update_pace(&mut self, rtt: &Rtt) {
        let limits = self.control.limits();
        let Some(srtt) = rtt.srtt().filter(|srtt| !srtt.is_zero()) else { return };
        let per_round = |bytes: u32| (u128::from(bytes) * 1_000_000_000 / u128::from(srtt.as_nanos())) as u64;
        let rate = match (limits.pacing_rate, self.pace) {
            (Some(rate), Pace::Own | Pace::Usual) => {
                (rate.bits_per_sec() / 8).max(per_round(2 * self.datagram))
            }
            (_, Pace::Window) | (None, Pace::Usual) => per_round(limits.cwnd.saturating_add(limits.cwnd / 4)),
            (None, Pace::Own) => return,
        };
        self.pacing.set_rate(rate.max(1));
    }

    /// Packets are forgotten, with their space.
    pub(super) fn on_forgotten(&mut self, size: u32) {
        self.in_flight -= size;
    }
}
