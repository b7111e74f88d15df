//! One end of an RTP flow.

use std::collections::VecDeque;

use super::Config;
use super::history::{History, marked};
use super::pacer::{Budget, Pacer, Waiting};
use super::receiver::{Arrived, Inbound, Missing};
use super::stats::{MEAN_DELAY_MS, MEAN_PACING_DELAY_MS, MEAN_TARGET_KBIT_PER_S, Stats};
use super::stream::FIRST;
use crate::cc::media::{Controller, Feedback, MediaControl as _, PacketReport};
use crate::endpoint::{
    CloseReason, Command, Endpoint, Event, Input, Message, Multipath, Output, Received, Service, Site,
    Transport,
};
use crate::flow::{Ecn, PathId, Payload, Side};
use crate::observed::{MediaSample, Observed, PathSample};
use crate::report::Report;
use crate::rng::{Draw as _, Rng};
use crate::time::{Duration, Time};
use crate::units::Rate;
use crate::wire::rtcp::{self, CongestionFeedback, Nack, SenderInfo};
use crate::wire::udp::{Datagram, HEADER_BYTES};
use crate::wire::{Body, Packet, rtp};

/// The largest payload of an IP packet, in bytes (RFC 791, RFC 8200): longer messages are refused.
const MAX_IP_PACKET_BYTES: u32 = 65_535;

/// The bit by which the source of retransmissions differs from that of the media (RFC 4588 section 5.3 has
/// one source for each). The source of the media is the port.
const RETRANSMISSIONS: u32 = 1 << 16;

/// Bytes of RTCP around the metrics of one stream: its header, both sources, the range and the time.
const FEEDBACK_OVERHEAD: u32 = 20;

/// One end of an RTP flow.
#[derive(Debug)]
pub struct RtpEndpoint {
    config: Config,
    /// The port of this end, and that of its peer.
    ports: [u16; 2],
    paths: usize,
    path: PathId,
    ip_bytes: u32,
    mtu: u32,
    control: Controller,
    pacer: Pacer,
    budget: Budget,
    media: History,
    retransmissions: History,
    /// The streams of the peer: its media, and what it sends again.
    inbound: [Inbound; 2],
    missing: Missing,
    /// When feedback is due; [`Time::NEVER`] while there is nothing to say.
    feedback_at: Time,
    last_feedback: Option<Time>,
    /// When a sender or receiver report is due.
    report_at: Time,
    /// Whether media has been sent since the last one.
    has_sent: bool,
    rng: Rng,
    /// The name of this end (RFC 7022 section 4.2: 96 bits).
    cname: Vec<u8>,
    /// The rate that the application has heard last.
    told: Option<Rate>,
    sample: MediaSample,
    /// The time with a target in s, and the target's integral over it in bit.
    targets: (Option<Time>, f64, f64),
    delays: (f64, u64),
    pacing_delays: (f64, u64),
    stats: Stats,
    outputs: VecDeque<Output>,
}

impl RtpEndpoint {
    fn new(config: &Config, site: &Site<'_>) -> Self {
        let ports = match site.side {
            Side::A => [config.source_port, config.destination_port],
            Side::B => [config.destination_port, config.source_port],
        };
        let mut rng = site.streams.stream(&site.name("rtp"));
        let cname = format!("{:024x}", u128::from(rng.bits()) << 32 | u128::from(rng.bits() as u32));
        let control = config.cc.build(site.streams.stream(&site.name("rtp/control")).bits());
        let target = control.limits().target;
        let source = u32::from(ports[1]);
        Self {
            ports,
            paths: site.mtus.len(),
            path: PathId(config.path),
            ip_bytes: site.ip.header_bytes(),
            mtu: site.mtus[usize::from(config.path)],
            control,
            pacer: Pacer::default(),
            budget: Budget::new(config.retransmission_share),
            media: History::default(),
            retransmissions: History::default(),
            inbound: [source, source | RETRANSMISSIONS].map(Inbound::new),
            missing: Missing::new(config.nack_interval, config.nack_limit),
            feedback_at: Time::NEVER,
            last_feedback: None,
            report_at: Time::NEVER,
            has_sent: false,
            rng,
            cname: cname.into_bytes(),
            told: None,
            sample: MediaSample::new(target),
            targets: (None, 0.0, 0.0),
            delays: (0.0, 0),
            pacing_delays: (0.0, 0),
            stats: Stats::default(),
            outputs: VecDeque::with_capacity(4),
            config: config.clone(),
        }
    }

    fn ssrc(&self) -> u32 {
        self.ports[0].into()
    }

    /// The time in ticks of the media's clock.
    fn ticks(&self, now: Time) -> u32 {
        (u128::from(now.as_nanos()) * u128::from(self.config.clock_hz) / 1_000_000_000) as u32
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Tells the application what its encoder is to make, if that is news.
    fn tell_target(&mut self, now: Time) {
        let (last, seconds, bits) = &mut self.targets;
        if let (Some(before), Some(told)) = (last.replace(now), self.told) {
            let since = now.saturating_since(before).as_secs_f64();
            *seconds += since;
            *bits += since * told.bits_per_sec() as f64;
        }
        let target = self.control.limits().target;
        if self.told.replace(target) != Some(target) {
            self.event(Event::TargetRate(target));
        }
    }

    /// The same where nothing was expected to change.
    fn tell_news(&mut self, now: Time) {
        if self.told != Some(self.control.limits().target) {
            self.tell_target(now);
        }
    }

    fn send(&mut self, now: Time, message: &Message) {
        if self.told.is_none() {
            self.tell_target(now);
        }
        let Message { payload, more, .. } = *message;
        let longest = MAX_IP_PACKET_BYTES - self.ip_bytes - HEADER_BYTES - rtp::HEADER_BYTES;
        let waiting = self.pacer.media_bytes() + u64::from(payload.length);
        if payload.length > longest || waiting > self.config.send_buffer.0 {
            self.stats.refused += 1;
            self.event(Event::Refused(payload));
            return;
        }
        let timestamp = self.ticks(now);
        self.pacer.push(Waiting { since: now, payload, marker: !more, timestamp, original: None });
    }

    /// Sends what the pacer lets leave now.
    fn pace(&mut self, now: Time) {
        let limits = self.control.limits();
        while let Some(waiting) = self.pacer.pop(now) {
            let Waiting { since, payload, marker, timestamp, original } = waiting;
            let source = self.ssrc();
            let (history, payload_type, ssrc) = match original {
                None => (&mut self.media, self.config.payload_type, source),
                Some(_) => {
                    (&mut self.retransmissions, self.config.payload_type + 1, source | RETRANSMISSIONS)
                }
            };
            let header = rtp::Header {
                marker,
                payload_type,
                sequence: history.next() as u16,
                timestamp,
                ssrc,
                original_sequence: original.map(|number| number as u16),
            };
            let datagram = Datagram {
                source_port: self.ports[0],
                destination_port: self.ports[1],
                offset: payload.offset,
                length: payload.length,
                rtp: Some(header),
            };
            let size = self.ip_bytes + datagram.header_bytes() + payload.length;
            history.push(now, size, payload, marker, timestamp);
            self.pacer.on_sent(now, size, limits.pacing);
            self.control.on_sent(now, size);
            if original.is_some() {
                self.stats.retransmissions_sent += 1;
            } else {
                self.stats.packets_sent += 1;
                self.stats.bytes_sent += u64::from(payload.length);
                self.pacing_delays.0 += now.saturating_since(since).as_millis_f64();
                self.pacing_delays.1 += 1;
            }
            self.has_sent = true;
            self.start_reports(now);
            let (path, ecn) = (self.path, self.config.ecn.field());
            let packet = Packet { path, ecn, size, body: Body::Udp(datagram) };
            self.outputs.push_back(Output::Transmit(Box::new(packet)));
        }
    }

    fn transmit_rtcp(&mut self, packets: Vec<rtcp::Packet>) {
        let [source_port, destination_port] = self.ports;
        let datagram = rtcp::Datagram { source_port, destination_port, packets };
        let size = self.ip_bytes + datagram.bytes();
        self.stats.rtcp_bytes_sent += u64::from(size);
        let body = Body::Rtcp(Box::new(datagram));
        let packet = Packet { path: self.path, ecn: Ecn::NotEct, size, body };
        self.outputs.push_back(Output::Transmit(Box::new(packet)));
    }

    fn start_reports(&mut self, now: Time) {
        if self.report_at.is_never() {
            self.report_at = now + self.report_interval();
        }
    }

    /// RFC 3550 section 6.2: from half to one and a half of the mean, so that ends do not report together.
    fn report_interval(&mut self) -> Duration {
        let half = Duration::from_nanos(self.config.report_interval.as_nanos() / 2);
        half + self.rng.duration_between(Duration::ZERO, half.doubled())
    }

    /// Sends a sender report, or a receiver report where no media was sent since the last one.
    fn report(&mut self, now: Time) {
        let blocks = self.inbound.iter_mut().filter_map(|stream| stream.block(now)).collect();
        let sender = self.ssrc();
        let report = if std::mem::take(&mut self.has_sent) {
            let info = SenderInfo {
                ntp: ntp(now),
                rtp_timestamp: self.ticks(now),
                packets: self.stats.packets_sent as u32,
                octets: self.stats.bytes_sent as u32,
            };
            rtcp::Packet::SenderReport { sender, info, blocks }
        } else {
            rtcp::Packet::ReceiverReport { sender, blocks }
        };
        let name = rtcp::Packet::SourceDescription { source: sender, cname: self.cname.clone() };
        self.transmit_rtcp(vec![report, name]);
        self.report_at = now + self.report_interval();
    }

    fn receive(&mut self, now: Time, packet: &Packet) {
        match &packet.body {
            Body::Udp(datagram) if self.is_own(datagram.source_port, datagram.destination_port) => {
                self.receive_media(now, packet.ecn, datagram);
            }
            Body::Rtcp(datagram) if self.is_own(datagram.source_port, datagram.destination_port) => {
                datagram.packets.iter().for_each(|packet| self.receive_rtcp(now, packet));
            }
            _ => {}
        }
    }

    const fn is_own(&self, source: u16, destination: u16) -> bool {
        destination == self.ports[0] && source == self.ports[1]
    }

    fn receive_media(&mut self, now: Time, ecn: Ecn, datagram: &Datagram) {
        let Some(header) = datagram.rtp else {
            self.stats.strangers += 1;
            return;
        };
        let is_again = header.ssrc == self.inbound[1].ssrc();
        if !is_again && header.ssrc != self.inbound[0].ssrc() {
            self.stats.strangers += 1;
            return;
        }
        let ticks = [self.ticks(now), header.timestamp];
        let arrived = self.inbound[usize::from(is_again)].on_arrival(now, header.sequence, ecn, ticks);
        let Arrived::New { number, missing_from } = arrived else {
            self.stats.duplicates_received += 1;
            return;
        };
        if self.feedback_at.is_never() {
            let earliest = self.last_feedback.map_or(now, |last| last);
            self.feedback_at = (earliest + self.config.feedback_interval).max(now + Duration::from_nanos(1));
        }
        self.start_reports(now);
        if let Some(original) = header.original_sequence {
            if !self.missing.remove(self.inbound[0].number(original)) {
                self.stats.duplicates_received += 1;
                return;
            }
            self.stats.packets_recovered += 1;
        } else {
            self.missing.remove(number);
            if self.config.nack {
                self.missing.add(now, missing_from..number);
            }
        }
        self.stats.packets_received += 1;
        self.stats.bytes_delivered += u64::from(datagram.length);
        let payload = Payload { offset: datagram.offset, length: datagram.length };
        self.event(Event::Received(Received::unordered(payload)));
    }

    fn receive_rtcp(&mut self, now: Time, packet: &rtcp::Packet) {
        let (peer, own) = (self.inbound[0].ssrc(), self.ssrc());
        match packet {
            rtcp::Packet::CongestionFeedback(feedback) if feedback.sender == peer => {
                self.receive_feedback(now, feedback);
            }
            rtcp::Packet::Nack(nack) if nack.sender == peer && nack.media == own => {
                self.send_again(now, nack);
            }
            rtcp::Packet::PictureLoss { sender, media } if *sender == peer && *media == own => {
                self.stats.key_frame_requests_received += 1;
                self.event(Event::KeyFrameRequested);
            }
            rtcp::Packet::SenderReport { sender, info, .. } if *sender == peer => {
                self.inbound[0].on_sender_report(now, info.ntp);
            }
            rtcp::Packet::ReceiverReport { sender, .. } if *sender == peer => {}
            rtcp::Packet::SourceDescription { source, .. } if *source == peer => {}
            _ => self.stats.strangers += 1,
        }
    }

    /// RFC 4588: what is asked for is sent again, once within `nack_interval`, as far as the budget goes.
    fn send_again(&mut self, now: Time, nack: &Nack) {
        let target = self.control.limits().target;
        for sequence in nack.sequences() {
            let number = self.media.number(sequence);
            let is_waiting = self.pacer.has_retransmission(number);
            let Some(sent) = self.media.get_mut(number) else {
                self.stats.retransmissions_denied += 1;
                continue;
            };
            let interval = self.config.nack_interval;
            if is_waiting || sent.again.is_some_and(|before| now.saturating_since(before) < interval) {
                continue;
            }
            if !self.budget.take(now, sent.size, target) {
                self.stats.retransmissions_denied += 1;
                continue;
            }
            sent.again = Some(now);
            let (payload, marker, timestamp) = (sent.payload, sent.marker, sent.timestamp);
            self.pacer.push(Waiting { since: now, payload, marker, timestamp, original: Some(number) });
        }
    }

    fn receive_feedback(&mut self, now: Time, feedback: &CongestionFeedback) {
        self.stats.feedback_received += 1;
        let made = unwrapped(now, feedback.timestamp);
        let mut news = Vec::new();
        for stream in &feedback.streams {
            let history = if stream.ssrc == self.ssrc() {
                &mut self.media
            } else if stream.ssrc == self.ssrc() | RETRANSMISSIONS {
                &mut self.retransmissions
            } else {
                self.stats.strangers += 1;
                continue;
            };
            self.stats.unknown_reports += history.take(stream, made, &mut news) as u64;
        }
        news.sort_by_key(|report| report.sent);
        self.stats.ce_reported += marked(&news) as u64;
        self.stats.packets_lost += news.iter().filter(|report| report.arrival.is_none()).count() as u64;
        let last = news.iter().rev().find_map(|report| Some((report.sent, report.arrival?.0)));
        let Some((sent, arrived)) = last else { return };
        // The time at the receiver is no part of the round trip.
        let rtt = now.saturating_since(sent).saturating_sub(made.saturating_since(arrived));
        self.control.on_feedback(&Feedback { now, rtt, packets: &news });
        self.observe(now, rtt, &news);
        self.tell_target(now);
    }

    /// Keeps what traces and scalars say of this feedback.
    fn observe(&mut self, now: Time, rtt: Duration, news: &[PacketReport]) {
        let delays = news.iter().filter_map(|report| {
            report.arrival.map(|(at, _)| (at.as_nanos() as f64 - report.sent.as_nanos() as f64) / 1e6)
        });
        let (sum, count) = delays.fold((0.0, 0u64), |(sum, count), delay| (sum + delay, count + 1));
        self.delays.0 += sum;
        self.delays.1 += count;
        let window = Duration::from_millis(500);
        let since = Time::from_nanos(now.as_nanos().saturating_sub(window.as_nanos()));
        let bytes = self.media.bytes_since(since) + self.retransmissions.bytes_since(since);
        let limits = self.control.limits();
        self.sample = MediaSample {
            reports: self.stats.feedback_received,
            target: limits.target,
            pacing: limits.pacing,
            sending_bits_per_sec: bytes * 8 * 2,
            one_way_delay_ms: sum / count as f64,
            rtt: Some(rtt),
            loss: (news.len() as u64 - count) as f64 / news.len() as f64,
        };
    }

    /// Does what is due: retransmission requests, feedback, reports, and packets whose turn it is.
    fn work(&mut self, now: Time) {
        let due = self.missing.due(now);
        if !due.is_empty() {
            self.stats.nacks_sent += due.len() as u64;
            let sequences = due.into_iter().map(|number| number as u16);
            let nack = Nack::of(self.ssrc(), self.inbound[0].ssrc(), sequences);
            self.transmit_rtcp(vec![rtcp::Packet::Nack(nack)]);
        }
        if self.feedback_at <= now {
            self.send_feedback(now);
        }
        if self.report_at <= now {
            self.report(now);
        }
        if self.control.timeout() <= now {
            self.control.on_timeout(now);
            self.tell_news(now);
        }
        self.pace(now);
    }

    fn send_feedback(&mut self, now: Time) {
        let room = self.mtu.saturating_sub(self.ip_bytes + HEADER_BYTES + FEEDBACK_OVERHEAD);
        // Each metric has two bytes; with both streams in one packet, each has half of the room.
        let most = (room / 2 / 2).saturating_sub(4) as usize;
        let [media, again] = &mut self.inbound;
        let parts: [Vec<_>; 2] = [media, again]
            .map(|stream| if stream.has_news() { stream.report(now, most) } else { Vec::new() });
        let count = parts.iter().map(Vec::len).max().unwrap_or(0);
        let mut parts = parts.map(Vec::into_iter);
        for _ in 0..count {
            let streams = parts.iter_mut().filter_map(Iterator::next).collect();
            let timestamp = (ntp(now) >> 16) as u32;
            let feedback = CongestionFeedback { sender: self.ssrc(), streams, timestamp };
            self.stats.feedback_sent += 1;
            self.transmit_rtcp(vec![rtcp::Packet::CongestionFeedback(feedback)]);
        }
        self.last_feedback = Some(now);
        self.feedback_at = Time::NEVER;
    }

    fn timeout(&self) -> Time {
        let control = self.control.timeout();
        [self.pacer.next(), self.missing.next(), self.feedback_at, self.report_at, control]
            .into_iter()
            .min()
            .expect("there are five")
    }
}

/// A time as NTP has it: seconds, and in the lower half their fraction. The run begins at 0.
fn ntp(now: Time) -> u64 {
    ((u128::from(now.as_nanos()) << 32) / 1_000_000_000) as u64
}

/// The time nearest to `now` whose NTP form has these middle 32 bits.
fn unwrapped(now: Time, middle: u32) -> Time {
    let near = ntp(now) >> 16;
    let distance = middle.wrapping_sub(near as u32) as i32;
    let exact = u128::from(near.saturating_add_signed(distance.into()));
    Time::from_nanos(((exact * 1_000_000_000) >> 16) as u64)
}

impl Transport for Config {
    type Endpoint = RtpEndpoint;

    fn build(&self, site: &Site<'_>) -> Result<RtpEndpoint, String> {
        self.check(site.mtus.len())?;
        Ok(RtpEndpoint::new(self, site))
    }
}

impl Endpoint for RtpEndpoint {
    fn protocol(&self) -> &'static str {
        "rtp"
    }

    fn service(&self) -> Service {
        Service::Datagrams
    }

    fn owns(&self, packet: &Packet) -> bool {
        match &packet.body {
            Body::Udp(datagram) => self.is_own(datagram.source_port, datagram.destination_port),
            Body::Rtcp(datagram) => self.is_own(datagram.source_port, datagram.destination_port),
            _ => false,
        }
    }

    #[inline(never)]
    fn handle_input(&mut self, now: Time, input: Input) {
        match input {
            Input::Command(Command::Send(message)) => self.send(now, &message),
            Input::Packet(packet) => self.receive(now, &packet),
            Input::Command(Command::Connect) => {
                self.event(Event::Connected);
                self.tell_target(now);
            }
            Input::Command(Command::RequestKeyFrame) => {
                let (sender, media) = (self.ssrc(), self.inbound[0].ssrc());
                self.transmit_rtcp(vec![rtcp::Packet::PictureLoss { sender, media }]);
            }
            Input::Command(Command::Abort) => self.event(Event::Closed(CloseReason::Aborted)),
            Input::Command(Command::Shutdown) => self.event(Event::Closed(CloseReason::Shutdown)),
            Input::Command(Command::SetPrimary(path)) if path.index() < self.paths => self.path = path,
            Input::Command(command) => self.event(Event::Unsupported(command.name())),
            Input::Timeout => {}
        }
        self.work(now);
    }

    fn poll_output(&mut self, _now: Time) -> Output {
        self.outputs.pop_front().unwrap_or_else(|| Output::Timeout(self.timeout()))
    }
}

impl Multipath for RtpEndpoint {}

impl Observed for RtpEndpoint {
    /// It has no window.
    fn sample_paths(&self, _samples: &mut Vec<PathSample>) {}

    fn sample_media(&self) -> Option<MediaSample> {
        Some(self.sample)
    }

    fn report(&self, report: &mut Report<'_>) {
        self.stats.count(report);
        let (_, seconds, bits) = self.targets;
        report.scalar(MEAN_TARGET_KBIT_PER_S, bits / seconds / 1e3);
        report.mean(MEAN_DELAY_MS, self.delays.0, self.delays.1);
        report.mean(MEAN_PACING_DELAY_MS, self.pacing_delays.0, self.pacing_delays.1);
    }
}

const _: () = assert!(FIRST.is_multiple_of(1 << 16), "numbers are those on the wire in their lowest 16 bits");
