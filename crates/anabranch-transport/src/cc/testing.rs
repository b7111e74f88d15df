//! Test tools for congestion controls: series of events, and a sender over one bottleneck.
//!
//! The sender numbers its packets as QUIC does: a lost packet is not sent again, and its data goes with the
//! next one. A packet counts as lost once one that was sent three later has arrived. So results depend only
//! on the control and the path.

use std::collections::VecDeque;

use super::{
    AckEvent, ArrivalEvent, Config, CongestionControl as _, CongestionEvent, CongestionKind, Controller,
    LostEvent, RateSample, RecoveryEndEvent, Rules, SentEvent, Setup,
};
use crate::time::{Duration, Time};

/// Bytes per segment.
pub(super) const MSS: u32 = 1_000;

/// A control of this kind with an initial window of `initial` segments.
pub(super) fn build(config: impl Into<Config>, rules: Rules, initial: u32) -> Controller {
    let config = config.into();
    config.check().unwrap();
    config.build(&Setup {
        mss: MSS,
        initial_cwnd: initial * MSS,
        rules,
        seed: 1,
        is_paced: false,
        headers: 0,
    })
}

/// The window in segments.
pub(super) fn cwnd(control: &Controller) -> u32 {
    control.limits().cwnd / MSS
}

/// The threshold in segments.
pub(super) fn ssthresh(control: &Controller) -> u32 {
    control.state().ssthresh / MSS
}

/// A fast retransmit and the recovery after it, both now.
pub(super) fn lose(control: &mut Controller, now: Time) {
    let outstanding = control.limits().cwnd;
    control.on_congestion(&CongestionEvent::new(now, CongestionKind::FastRetransmit, outstanding));
    control.on_recovery_end(&RecoveryEndEvent::new(now, outstanding));
}

/// Acknowledgements, each for one segment, for one window after the other and without a path.
pub(super) struct Rounds {
    pub(super) now: Time,
    pub(super) rtt: Duration,
    acked: u64,
}

impl Rounds {
    /// Rounds of `rtt`, the first one at 1 s.
    pub(super) fn new(rtt: Duration) -> Self {
        Self { now: Time::from_secs(1), rtt, acked: 0 }
    }

    /// One round: as many acknowledgements as the window has segments, spread over the round.
    pub(super) fn round(&mut self, control: &mut Controller) {
        self.round_with(control, self.rtt);
    }

    /// One round with delayed acknowledgements, each of two segments, which count as `counted`.
    pub(super) fn delayed(&mut self, control: &mut Controller, counted: u32) {
        let mut left = cwnd(control);
        let gap = Duration::from_nanos(self.rtt.as_nanos() / u64::from(left.div_ceil(2)));
        let end = self.now + self.rtt;
        while left > 0 {
            self.now += gap;
            let segments = left.min(2);
            self.ack_as(control, segments, counted.min(segments), self.rtt);
            left -= segments;
        }
        self.now = end;
    }

    /// One round in which the measured round-trip times are `measured`.
    pub(super) fn round_with(&mut self, control: &mut Controller, measured: Duration) {
        let window = cwnd(control);
        let gap = Duration::from_nanos(self.rtt.as_nanos() / u64::from(window));
        let end = self.now + self.rtt;
        for _ in 0..window {
            self.now += gap;
            self.ack(control, 1, measured);
        }
        self.now = end;
    }

    /// For this long, the control gets acknowledgements of single segments, one per round, of a sender that
    /// the application limits.
    pub(super) fn unused(&mut self, control: &mut Controller, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += self.rtt;
            self.acked += u64::from(MSS);
            control.on_ack(&AckEvent {
                rtt: Some(self.rtt),
                min_rtt: Some(self.rtt),
                acknowledged_to: self.acked,
                total_acked: self.acked,
                sent_to: self.acked + u64::from(MSS),
                is_window_limited: false,
                ..AckEvent::new(self.now, MSS, MSS)
            });
        }
    }

    /// For this long nothing is sent; then the first segment is.
    pub(super) fn idle(&mut self, control: &mut Controller, time: Duration) {
        control.on_sent(&SentEvent::new(self.now, MSS, 2 * MSS));
        self.now += time;
        control.on_sent(&SentEvent::new(self.now, MSS, MSS));
    }

    /// Gives the control one acknowledgement of `segments` segments.
    pub(super) fn ack(&mut self, control: &mut Controller, segments: u32, measured: Duration) {
        self.ack_as(control, segments, segments, measured);
    }

    pub(super) fn ack_as(
        &mut self,
        control: &mut Controller,
        segments: u32,
        counted: u32,
        measured: Duration,
    ) {
        self.acked += u64::from(segments * MSS);
        let window = control.limits().cwnd;
        let rtt = Some(measured);
        control.on_arrival(&ArrivalEvent { rtt, ..ArrivalEvent::new(self.now, self.acked) });
        control.on_ack(&AckEvent {
            segments_acked: counted,
            rtt,
            min_rtt: Some(self.rtt),
            srtt: Some(self.rtt),
            acknowledged_to: self.acked,
            total_acked: self.acked,
            sent_to: self.acked + u64::from(window),
            ..AckEvent::new(self.now, segments * MSS, window)
        });
    }
}

/// One bottleneck: a queue, a rate and a delay.
pub(super) struct Path {
    /// Packets per second.
    pub(super) rate: f64,
    /// Round-trip time without queueing.
    pub(super) rtt: Duration,
    /// Packets that fit, the one being sent included.
    pub(super) buffer: usize,
    /// Packets are marked if they find this many in the queue.
    pub(super) mark_above: usize,
    /// Whether the packet with this number is lost after the queue.
    pub(super) loses: fn(u64) -> bool,
}

impl Path {
    /// A path that loses only what does not fit into its buffer.
    pub(super) fn new(rate: f64, rtt: Duration, buffer: usize) -> Self {
        Self { rate, rtt, buffer, mark_above: usize::MAX, loses: |_| false }
    }

    /// How many packets fill the path without queueing.
    pub(super) fn bdp(&self) -> f64 {
        self.rate * self.rtt.as_secs_f64()
    }
}

/// The record of a packet on its way.
struct Packet {
    number: u64,
    sent: Time,
    /// When its acknowledgement arrives; `None` if the packet is lost.
    answer: Option<Time>,
    marked: bool,
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    outstanding: u32,
    lost: u32,
}

/// State at one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) at: Time,
    pub(super) cwnd: f64,
    pub(super) outstanding: f64,
    pub(super) rtt: Duration,
    pub(super) phase: &'static str,
}

/// A bulk sender over a path.
pub(super) struct Sender {
    pub(super) control: Controller,
    path: Path,
    now: Time,
    flight: VecDeque<Packet>,
    next: u64,
    delivered: u64,
    lost: u32,
    delivered_at: Time,
    first_sent: Time,
    queue: VecDeque<Time>,
    min_rtt: Option<Duration>,
    recovery_until: Option<u64>,
    next_send: Time,
    pub(super) drops: u64,
    pub(super) samples: Vec<Sample>,
}

impl Sender {
    pub(super) fn new(control: Controller, path: Path) -> Self {
        Self {
            control,
            path,
            now: Time::from_secs(1),
            flight: VecDeque::new(),
            next: 0,
            delivered: 0,
            lost: 0,
            delivered_at: Time::from_secs(1),
            first_sent: Time::from_secs(1),
            queue: VecDeque::new(),
            min_rtt: None,
            recovery_until: None,
            next_send: Time::ZERO,
            drops: 0,
            samples: Vec::new(),
        }
    }

    /// Runs for this length of time.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let answer = self.flight.iter().find_map(|packet| packet.answer);
            let may_send = self.outstanding() + MSS <= self.control.limits().cwnd;
            match answer {
                Some(answer) if !may_send || answer <= self.next_send.max(self.now) => {
                    self.now = answer;
                    self.acknowledge();
                }
                _ if may_send => {
                    self.now = self.now.max(self.next_send);
                    self.send();
                }
                _ => {
                    // Everything is lost, so there is a timeout.
                    self.now += Duration::from_millis(400);
                    let event = CongestionEvent::new(self.now, CongestionKind::Timeout, self.outstanding());
                    self.control.on_congestion(&event);
                    self.flight.clear();
                    self.recovery_until = None;
                }
            }
        }
    }

    fn outstanding(&self) -> u32 {
        self.flight.len() as u32 * MSS
    }

    fn send(&mut self) {
        if self.flight.is_empty() {
            self.first_sent = self.now;
            self.delivered_at = self.now;
        }
        while self.queue.front().is_some_and(|&departure| departure <= self.now) {
            self.queue.pop_front();
        }
        let fits = self.queue.len() < self.path.buffer;
        let marked = self.queue.len() >= self.path.mark_above;
        let mut answer = None;
        if fits {
            let start = self.queue.back().copied().unwrap_or(self.now);
            let departure = start + Duration::from_secs_f64(1.0 / self.path.rate);
            self.queue.push_back(departure);
            answer = Some(departure + self.path.rtt).filter(|_| !(self.path.loses)(self.next));
        } else {
            self.drops += 1;
        }
        let outstanding = self.outstanding() + MSS;
        self.flight.push_back(Packet {
            number: self.next,
            sent: self.now,
            answer,
            marked,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            outstanding,
            lost: self.lost,
        });
        self.next += 1;
        self.control.on_sent(&SentEvent::new(self.now, MSS, outstanding));
        if let Some(rate) = self.control.limits().pacing_rate {
            let gap = f64::from(MSS) * 8.0 / rate.bits_per_sec() as f64;
            self.next_send = self.now + Duration::from_secs_f64(gap);
        }
    }

    fn acknowledge(&mut self) {
        let before = self.outstanding();
        let index = self.flight.iter().position(|packet| packet.answer.is_some()).unwrap();
        let packet = self.flight.remove(index).unwrap();
        let lost = self.flight.iter().take_while(|other| other.number + 3 <= packet.number).count();
        let lost: Vec<Packet> = self.flight.drain(..lost).collect();
        self.delivered += u64::from(MSS);
        self.delivered_at = self.now;
        self.first_sent = packet.sent;
        let acknowledged = self.flight.front().map_or(self.next, |first| first.number);
        let rtt = self.now.saturating_since(packet.sent);
        let arrival = ArrivalEvent::new(self.now, acknowledged * u64::from(MSS));
        self.control.on_arrival(&ArrivalEvent { rtt: Some(rtt), ..arrival });
        for packet in &lost {
            self.lost += MSS;
            let outstanding_at_send = packet.outstanding;
            let lost = self.lost - packet.lost;
            self.control.on_lost(&LostEvent { outstanding_at_send, lost, ..LostEvent::new(self.now, MSS) });
        }
        let newly_lost = lost.len() as u32 * MSS;
        if self.recovery_until.is_some_and(|end| acknowledged >= end) {
            self.recovery_until = None;
            self.control.on_recovery_end(&RecoveryEndEvent::new(self.now, self.outstanding()));
        }
        if (newly_lost > 0 || (packet.marked && self.recovery_until.is_none()))
            && self.recovery_until.is_none()
        {
            self.recovery_until = Some(self.next);
            let kind = if newly_lost > 0 { CongestionKind::FastRetransmit } else { CongestionKind::Ecn };
            self.control.on_congestion(&CongestionEvent::new(self.now, kind, self.outstanding()));
        }
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        let interval = (packet.sent.saturating_since(packet.first_sent))
            .max(self.now.saturating_since(packet.delivered_at));
        let rate = RateSample {
            prior_delivered: packet.delivered,
            outstanding_at_send: packet.outstanding,
            lost: self.lost - packet.lost,
            ..RateSample::new((self.delivered - packet.delivered) as u32, interval, self.delivered)
        };
        self.control.on_ack(&AckEvent {
            outstanding: self.outstanding(),
            in_recovery: self.recovery_until.is_some(),
            is_window_limited: before + MSS >= self.control.limits().cwnd,
            has_unsent: true,
            marked: if packet.marked { MSS } else { 0 },
            newly_lost,
            next_departure: self.next_send,
            rtt: Some(rtt),
            min_rtt: self.min_rtt,
            srtt: Some(rtt),
            acknowledged_to: acknowledged * u64::from(MSS),
            total_acked: acknowledged * u64::from(MSS),
            sent_to: self.next * u64::from(MSS),
            rate: Some(rate),
            ..AckEvent::new(self.now, MSS, before)
        });
        self.samples.push(Sample {
            at: self.now,
            cwnd: f64::from(self.control.limits().cwnd) / f64::from(MSS),
            outstanding: f64::from(before) / f64::from(MSS),
            rtt,
            phase: self.control.state().phase,
        });
    }

    /// The samples taken later than this after the beginning.
    pub(super) fn after(&self, time: Duration) -> impl Iterator<Item = &Sample> {
        let from = Time::from_secs(1) + time;
        self.samples.iter().filter(move |sample| sample.at >= from)
    }

    /// Packets delivered per second later than this after the beginning.
    pub(super) fn goodput_after(&self, time: Duration) -> f64 {
        let count = self.after(time).count() as f64;
        count / self.now.saturating_since(Time::from_secs(1) + time).as_secs_f64()
    }

    /// The mean of a number over the samples taken later than this after the beginning.
    pub(super) fn mean_after(&self, time: Duration, number: impl Fn(&Sample) -> f64) -> f64 {
        let sum: f64 = self.after(time).map(number).sum();
        sum / self.after(time).count() as f64
    }
}
