//! One end of an RTP flow.

use std::collections::VecDeque;

use super::Config;
use super::history::Sent;
use super::pacer::Waiting;
use super::path::ntp;
use super::paths::Paths;
use super::receiver::{Inbound, Missing};
use super::repairs::{Budget, Recent};
use super::stats::{MEAN_DELAY_MS, MEAN_PACING_DELAY_MS, MEAN_TARGET_KBIT_PER_S, SRTT_MS, Stats};
use super::stream::{FIRST, RETRANSMISSIONS};
use crate::cc::media::{self, MediaControl as _};
use crate::endpoint::{
    CloseReason, Command, Endpoint, Event, Input, Message, Multipath, Output, Service, Site, Transport,
};
use crate::flow::{Ecn, PathId, Side};
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

/// Bytes of RTCP around the metrics of one stream: its header, both sources, the range and the time.
const FEEDBACK_OVERHEAD: u32 = 20;

/// One end of an RTP flow.
#[derive(Debug)]
pub struct RtpEndpoint {
    pub(super) config: Config,
    /// The port of this end, and that of its peer.
    ports: [u16; 2],
    ip_bytes: u32,
    pub(super) paths: Paths,
    pub(super) budget: Budget,
    pub(super) recent: Recent,
    /// The numbers of the next packets: of media, and of what is sent again.
    next: [u64; 2],
    /// The streams of the peer: its media, and what it sends again.
    pub(super) inbound: [Inbound; 2],
    pub(super) missing: Missing,
    /// The path on which media has come last.
    pub(super) heard: Option<PathId>,
    /// When a sender or receiver report is due.
    report_at: Time,
    /// Whether media has been sent since the last one.
    has_sent: bool,
    rng: Rng,
    /// The name of this end (RFC 7022 section 4.2: 96 bits).
    cname: Vec<u8>,
    /// The target of all controls that was seen last, and the rate that the application has heard.
    told: Option<(Rate, Rate)>,
    pub(super) sample: MediaSample,
    /// The time with a target in s, and the target's integral over it in bit.
    targets: (Option<Time>, f64, f64),
    pacing_delays: (f64, u64),
    pub(super) stats: Stats,
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
        let source = u32::from(ports[1]);
        let seed = if config.has_several() { rng.bits() } else { 0 };
        let mut seeds = site.streams.stream(&site.name("rtp/control"));
        let paths = Paths::new(config, site.mtus, source, seed, &mut seeds);
        let sample = paths.all[usize::from(config.path)].sample;
        let expected = if config.scheduler.is_some() { site.mtus.len() } else { 0 };
        Self {
            ports,
            ip_bytes: site.ip.header_bytes(),
            paths,
            budget: Budget::new(config.retransmission_share),
            recent: Recent::default(),
            next: [FIRST; 2],
            inbound: [source, source | RETRANSMISSIONS].map(Inbound::new),
            missing: Missing::new(config.nack_interval, config.nack_limit, expected),
            heard: None,
            report_at: Time::NEVER,
            has_sent: false,
            rng,
            cname: cname.into_bytes(),
            told: None,
            sample,
            targets: (None, 0.0, 0.0),
            pacing_delays: (0.0, 0),
            stats: Stats::default(),
            outputs: VecDeque::with_capacity(4),
            config: config.clone(),
        }
    }

    pub(super) fn ssrc(&self) -> u32 {
        self.ports[0].into()
    }

    /// The time in ticks of the media's clock.
    pub(super) fn ticks(&self, now: Time) -> u32 {
        (u128::from(now.as_nanos()) * u128::from(self.config.clock_hz) / 1_000_000_000) as u32
    }

    pub(super) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    pub(super) fn events(&mut self, events: impl IntoIterator<Item = Event>) {
        self.outputs.extend(events.into_iter().map(Output::Event));
    }

    /// Tells the application what its encoder is to make, if that is news: the target less what is sent
    /// again.
    pub(super) fn tell_target(&mut self, now: Time) {
        let (last, seconds, bits) = &mut self.targets;
        if let (Some(before), Some((_, told))) = (last.replace(now), self.told) {
            let since = now.saturating_since(before).as_secs_f64();
            *seconds += since;
            *bits += since * told.bits_per_sec() as f64;
        }
        let target = self.paths.target();
        let rate = self.recent.of_encoder(now, target);
        if self.told.replace((target, rate)).is_none_or(|(_, before)| before != rate) {
            self.event(Event::TargetRate(rate));
        }
    }

    /// The same where nothing was expected to change.
    fn tell_news(&mut self, now: Time) {
        if self.told.is_none_or(|(target, _)| target != self.paths.target()) {
            self.tell_target(now);
        }
    }

    fn send(&mut self, now: Time, message: &Message) {
        if self.told.is_none() {
            self.tell_target(now);
        }
        let Message { payload, more, .. } = *message;
        let longest = MAX_IP_PACKET_BYTES - self.ip_bytes - HEADER_BYTES - rtp::HEADER_BYTES;
        let waiting = self.paths.waiting() + u64::from(payload.length);
        if payload.length > longest || waiting > self.config.send_buffer.0 {
            self.stats.refused += 1;
            self.event(Event::Refused(payload));
            return;
        }
        let (timestamp, number) = (self.ticks(now), self.next[0]);
        self.next[0] += 1;
        let waiting = Waiting { since: now, payload, marker: !more, timestamp, number, original: None };
        for path in self.paths.carriers(now, payload.length) {
            self.paths[path].push(waiting);
        }
        if !more {
            self.paths.all.iter_mut().for_each(|path| path.end_frame(now));
            self.tell_news(now);
        }
    }

    /// The packet that pacer and window let leave now on a path.
    fn next_packet(&mut self, now: Time, path: PathId) -> Option<Waiting> {
        let path = &mut self.paths[path];
        if path.is_window_full(self.ip_bytes) {
            return None;
        }
        path.pacer.pop(now).or_else(|| {
            let padding = path.padding(now)?;
            self.stats.padding_sent += 1;
            Some(padding)
        })
    }

    /// Sends what the pacers and the windows let leave now.
    fn pace(&mut self, now: Time) {
        for path in self.paths.ids() {
            while let Some(waiting) = self.next_packet(now, path) {
                let is_first = waiting.original.is_none() && !self.paths.has_sent(waiting.number);
                self.transmit_media(now, path, &waiting);
                if waiting.original.is_some() {
                    self.stats.retransmissions_sent += 1;
                } else if is_first {
                    self.recent.on_sent(now, waiting.payload.length, false);
                    self.stats.packets_sent += 1;
                    self.stats.bytes_sent += u64::from(waiting.payload.length);
                    self.pacing_delays.0 += now.saturating_since(waiting.since).as_millis_f64();
                    self.pacing_delays.1 += 1;
                } else {
                    self.paths[path].stats.copies_sent += 1;
                }
                self.has_sent = true;
                self.start_reports(now);
                if is_first {
                    for idle in self.paths.to_probe(now, path) {
                        self.transmit_media(now, idle, &waiting);
                        self.paths[idle].stats.copies_sent += 1;
                    }
                }
            }
        }
    }

    /// Sends a packet of media on a path, or sends it again.
    fn transmit_media(&mut self, now: Time, path: PathId, waiting: &Waiting) {
        let Waiting { payload, marker, timestamp, original, .. } = *waiting;
        let (mut number, mut payload_type, mut ssrc) =
            (waiting.number, self.config.payload_type, self.ssrc());
        if original.is_some() {
            (payload_type, ssrc) = (payload_type + 1, ssrc | RETRANSMISSIONS);
            number = self.next[1];
            self.next[1] += 1;
        }
        let header = rtp::Header {
            marker,
            payload_type,
            sequence: number as u16,
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
        let sent = Sent::new(number, now, size, waiting);
        self.paths[path].on_sent(original.is_some(), sent);
        let packet = Packet { path, ecn: self.config.ecn.field(), size, body: Body::Udp(datagram) };
        self.outputs.push_back(Output::Transmit(Box::new(packet)));
    }

    fn transmit_rtcp(&mut self, path: PathId, packets: Vec<rtcp::Packet>) {
        let [source_port, destination_port] = self.ports;
        let datagram = rtcp::Datagram { source_port, destination_port, packets };
        let size = self.ip_bytes + datagram.bytes();
        self.stats.rtcp_bytes_sent += u64::from(size);
        let body = Body::Rtcp(Box::new(datagram));
        let packet = Packet { path, ecn: Ecn::NotEct, size, body };
        self.outputs.push_back(Output::Transmit(Box::new(packet)));
    }

    /// The path for what is about no path: the one on which the peer's media comes.
    fn path_to_peer(&self) -> PathId {
        self.heard.unwrap_or(self.paths.current())
    }

    pub(super) fn start_reports(&mut self, now: Time) {
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
        self.transmit_rtcp(self.path_to_peer(), vec![report, name]);
        self.report_at = now + self.report_interval();
    }

    pub(super) const fn is_own(&self, source: u16, destination: u16) -> bool {
        destination == self.ports[0] && source == self.ports[1]
    }

    /// Does what is due: retransmission requests, feedback, reports, and packets whose turn it is.
    fn work(&mut self, now: Time) {
        let due = self.missing.due(now);
        if !due.is_empty() {
            self.stats.nacks_sent += due.len() as u64;
            let sequences = due.into_iter().map(|number| number as u16);
            let nack = Nack::of(self.ssrc(), self.inbound[0].ssrc(), sequences);
            self.transmit_rtcp(self.path_to_peer(), vec![rtcp::Packet::Nack(nack)]);
        }
        for path in self.paths.ids() {
            if self.paths[path].feedback_at <= now {
                self.send_feedback(now, path);
            }
        }
        if self.report_at <= now {
            self.report(now);
        }
        for path in self.paths.all.iter_mut().filter(|path| path.control.timeout() <= now) {
            path.control.on_timeout(now);
        }
        let (left, events) = self.paths.work(now);
        if !left.is_empty() || !events.is_empty() {
            self.events(events);
            for path in left {
                self.paths.move_waiting(now, path);
            }
            self.tell_target(now);
        } else if self.told.is_some() {
            self.tell_news(now);
        }
        self.pace(now);
    }

    /// Reports on what has come on a path, on the same path.
    fn send_feedback(&mut self, now: Time, id: PathId) {
        let sender = self.ssrc();
        let path = &mut self.paths[id];
        let room = path.mtu.saturating_sub(self.ip_bytes + HEADER_BYTES + FEEDBACK_OVERHEAD);
        // Each metric has two bytes; with both streams in one packet, each has half of the room.
        let most = (room / 2 / 2).saturating_sub(4) as usize;
        let [media, again] = &mut path.arrived;
        let parts: [Vec<_>; 2] = [media, again]
            .map(|stream| if stream.has_news() { stream.report(now, most) } else { Vec::new() });
        path.on_feedback_sent(now);
        let count = parts.iter().map(Vec::len).max().unwrap_or(0);
        let mut parts = parts.map(Vec::into_iter);
        for _ in 0..count {
            let streams = parts.iter_mut().filter_map(Iterator::next).collect();
            let feedback = CongestionFeedback { sender, streams, timestamp: (ntp(now) >> 16) as u32 };
            self.stats.feedback_sent += 1;
            self.transmit_rtcp(id, vec![rtcp::Packet::CongestionFeedback(feedback)]);
        }
    }

    /// The application wants another path.
    fn set_primary(&mut self, now: Time, path: PathId) {
        if !self.paths.may_request(path) {
            return self.event(Event::Unsupported(Command::SetPrimary(path).name()));
        }
        let before = self.paths.current();
        let event = self.paths.request(now, path);
        self.events(event);
        if self.paths.current() != before {
            self.paths.move_waiting(now, before);
            self.tell_target(now);
        }
    }

    /// What is kept: packets sent, numbers seen, and packets missing.
    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize, usize) {
        let sent = self.paths.all.iter().flat_map(|path| &path.sent).map(super::history::History::len).sum();
        (sent, self.inbound.iter().map(Inbound::len).sum(), self.missing.len())
    }
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
                let event = self.paths.open(now);
                self.events(event);
                self.tell_target(now);
            }
            Input::Command(Command::RequestKeyFrame) => {
                let (sender, media) = (self.ssrc(), self.inbound[0].ssrc());
                self.transmit_rtcp(self.path_to_peer(), vec![rtcp::Packet::PictureLoss { sender, media }]);
            }
            Input::Command(Command::Abort) => self.event(Event::Closed(CloseReason::Aborted)),
            Input::Command(Command::Shutdown) => self.event(Event::Closed(CloseReason::Shutdown)),
            Input::Command(Command::SetPrimary(path)) => self.set_primary(now, path),
            Input::Command(command) => self.event(Event::Unsupported(command.name())),
            Input::Timeout => {}
        }
        self.work(now);
    }

    fn poll_output(&mut self, _now: Time) -> Output {
        self.outputs.pop_front().unwrap_or_else(|| {
            Output::Timeout(self.paths.next(self.ip_bytes).min(self.missing.next()).min(self.report_at))
        })
    }
}

impl Multipath for RtpEndpoint {
    fn set_media_control(&mut self, path: PathId, control: media::Controller) -> bool {
        let path = self.paths.all.get_mut(path.index());
        path.map(|path| path.control = control).is_some()
    }
}

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
        let delays = self.paths.all.iter().map(|path| path.delays);
        let (sum, count) = delays.fold((0.0, 0), |all, path| (all.0 + path.0, all.1 + path.1));
        report.mean(MEAN_DELAY_MS, sum, count);
        report.mean(MEAN_PACING_DELAY_MS, self.pacing_delays.0, self.pacing_delays.1);
        if !self.paths.are_several() {
            return;
        }
        for (index, path) in self.paths.all.iter().enumerate() {
            let mut section = report.section(&format!("path{index}"));
            path.stats.count(&mut section);
            section.mean(MEAN_DELAY_MS, path.delays.0, path.delays.1);
            section.scalar(SRTT_MS, path.srtt.map_or(f64::NAN, Duration::as_millis_f64));
        }
    }
}

const _: () = assert!(FIRST.is_multiple_of(1 << 16), "numbers are those on the wire in their lowest 16 bits");
