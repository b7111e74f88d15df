//! A transport of one's own, made after the recipe of CONTRIBUTING.md: streams over UDP datagrams with a
//! header of RTP's form. Each packet has a number and is acknowledged by itself; what is lost goes again in a
//! packet with another number, as in QUIC.
//!
//! The header's payload type says what a packet is, its sequence number is the packet's number, and its
//! timestamp names the stream and says whether it ends there. The bytes of each stream count from 0.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_transport::cc::{
    self, AckEvent, ArrivalEvent, CongestionControl as _, CongestionEvent, CongestionKind, Controller,
    RecoveryEndEvent, Rules, SentEvent, Setup,
};
use anabranch_transport::endpoint::{
    CloseReason, Command, Endpoint, Event, Input, Keeper, Message, Multipath, Output, Received, Service,
    Site, StreamId, Transport,
};
use anabranch_transport::flow::{Ecn, PathId, Payload, Side};
use anabranch_transport::observed::{Marks, Observed, PathSample, Repairs};
use anabranch_transport::path::PathState;
use anabranch_transport::recovery::rate_sample::{OpenSample, RateMark, RateSampler};
use anabranch_transport::recovery::rtt::{Limits, Rtt, Rule, Sample};
use anabranch_transport::report::{Declared, Report, Unit};
use anabranch_transport::rng::Draw as _;
use anabranch_transport::secret::SecretNumbers;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::rtp::Header;
use anabranch_transport::wire::udp::Datagram;
use anabranch_transport::wire::{Body, Packet};

/// Bytes of headers: IPv4, UDP, RTP.
const HEADERS: u32 = 20 + 8 + 12;
/// A packet is lost when one that was sent this much later is acknowledged.
const THRESHOLD: u64 = 3;

const DATA: u8 = 0;
const ACK: u8 = 1;

pub(crate) const PACKETS_LOST: Declared = Declared::new("packets_lost", Unit::One, "Packets taken for lost.");

/// The settings.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub cc: cc::Config,
    /// Bytes that may wait or be on their way.
    pub send_buffer: u64,
}

/// Data of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    stream: StreamId,
    payload: Payload,
    ends: bool,
}

#[derive(Debug)]
struct Sent {
    piece: Piece,
    at: Time,
    mark: RateMark,
}

/// What has arrived of a stream: the next byte, and pieces that wait for it, by their positions.
#[derive(Debug, Default)]
struct Inbound {
    next: u64,
    has_ended: bool,
    early: BTreeMap<u64, (u32, bool)>,
}

/// An end.
#[derive(Debug)]
pub(crate) struct End {
    ports: [u16; 2],
    mss: u32,
    is_open: bool,
    is_closing: bool,
    send_buffer: u64,
    queue: VecDeque<Piece>,
    /// Bytes of the queue and on their way.
    buffered: u64,
    refused: BTreeSet<StreamId>,
    next: u64,
    largest_acked: Option<u64>,
    flight: BTreeMap<u64, Sent>,
    total_acked: u64,
    recovery_until: Option<u64>,
    control: Controller,
    rate: RateSampler,
    rtt: Rtt,
    timer: Time,
    inbound: BTreeMap<StreamId, Inbound>,
    outputs: VecDeque<Output>,
    repairs: Repairs,
    lost: u64,
}

impl Transport for Config {
    type Endpoint = End;

    fn build(&self, site: &Site<'_>) -> Result<End, String> {
        let &[mtu] = site.mtus else { return Err(format!("paths: {} are not 1", site.mtus.len())) };
        let mss = mtu.checked_sub(HEADERS).filter(|mss| *mss > 0).ok_or("mtu: too small for the headers")?;
        let setup = Setup {
            mss,
            initial_cwnd: 10 * mss,
            rules: Rules::Rfc,
            seed: 1,
            is_paced: false,
            headers: HEADERS,
        };
        let limits = Limits { min: Duration::from_millis(200), ..Limits::default() };
        Ok(End {
            ports: if site.side == Side::A { [5_000, 5_001] } else { [5_001, 5_000] },
            mss,
            is_open: false,
            is_closing: false,
            send_buffer: self.send_buffer,
            queue: VecDeque::new(),
            buffered: 0,
            refused: BTreeSet::new(),
            next: 0,
            largest_acked: None,
            flight: BTreeMap::new(),
            total_acked: 0,
            recovery_until: None,
            control: self.cc.build(&setup),
            rate: RateSampler::default(),
            rtt: Rtt::new(Rule::Rfc6298, limits),
            timer: Time::NEVER,
            inbound: BTreeMap::new(),
            outputs: VecDeque::new(),
            repairs: Repairs::default(),
            lost: 0,
        })
    }
}

impl End {
    fn emit(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn outstanding(&self) -> u32 {
        self.flight.values().map(|sent| sent.piece.payload.length).sum()
    }

    fn transmit(&mut self, kind: u8, number: u64, piece: Piece) {
        let Piece { stream, payload, ends } = piece;
        let timestamp = (stream.0 as u32) << 1 | u32::from(ends);
        self.outputs.push_back(Output::Transmit(Box::new(Packet {
            path: PathId(0),
            ecn: Ecn::NotEct,
            size: HEADERS + if kind == DATA { payload.length } else { 0 },
            body: Body::Udp(Datagram {
                source_port: self.ports[0],
                destination_port: self.ports[1],
                offset: payload.offset,
                length: payload.length,
                rtp: Some(Header {
                    marker: false,
                    payload_type: kind,
                    sequence: number as u16,
                    timestamp,
                    ssrc: 0,
                    original_sequence: None,
                }),
            }),
        })));
    }

    fn write(&mut self, message: Message) {
        let Message { stream, payload: Payload { offset, length }, ends_stream, .. } = message;
        let taken = u64::from(length).min(self.send_buffer - self.buffered) as u32;
        let mut done = 0;
        while done < taken || (length == 0 && ends_stream && done == 0) {
            let part = (taken - done).min(self.mss);
            let payload = Payload { offset: offset + u64::from(done), length: part };
            done += part;
            self.queue.push_back(Piece { stream, payload, ends: ends_stream && done == length });
            if length == 0 {
                break;
            }
        }
        self.buffered += u64::from(taken);
        if taken < length {
            self.refused.insert(stream);
            let rest = Payload { offset: offset + u64::from(taken), length: length - taken };
            self.emit(Event::Refused(rest));
        }
    }

    fn send(&mut self, now: Time) {
        while let Some(&piece) = self.queue.front() {
            let (length, outstanding) = (piece.payload.length, self.outstanding());
            if outstanding > 0 && outstanding + length > self.control.limits().cwnd {
                break;
            }
            self.queue.pop_front();
            let number = self.next;
            self.next += 1;
            self.transmit(DATA, number, piece);
            let mark = self.rate.mark(now, outstanding == 0, outstanding + length);
            self.flight.insert(number, Sent { piece, at: now, mark });
            self.control.on_sent(&SentEvent::new(now, length, outstanding + length));
            if self.timer.is_never() {
                self.timer = now + self.rtt.rto();
            }
        }
        if self.is_closing && self.queue.is_empty() && self.flight.is_empty() {
            self.is_closing = false;
            self.is_open = false;
            self.emit(Event::Closed(CloseReason::Shutdown));
        }
    }

    /// Sends again what these packets carried.
    fn lose(&mut self, numbers: &[u64]) {
        for number in numbers.iter().rev() {
            if let Some(sent) = self.flight.remove(number) {
                self.queue.push_front(sent.piece);
                self.lost += 1;
            }
        }
    }

    fn on_ack(&mut self, now: Time, number: u64) {
        let before = self.outstanding();
        let Some(Sent { piece, at, mut mark }) = self.flight.remove(&number) else { return };
        let length = piece.payload.length;
        self.buffered -= u64::from(length);
        self.total_acked += u64::from(length);
        let largest = self.largest_acked.max(Some(number)).unwrap_or(number);
        self.largest_acked = Some(largest);
        let rtt = now.saturating_since(at);
        let mut sample = OpenSample::default();
        self.rate.delivered += u64::from(length);
        self.rate.on_delivered(&mut sample, &mut mark, at, number);
        self.rtt.record_min(now, rtt);
        self.rtt.on_sample(&Sample { acknowledged: largest + 1, sent: self.next, ..Sample::new(now, rtt) });
        let mut arrival = ArrivalEvent::new(now, largest + 1);
        (arrival.total_acked, arrival.rtt) = (self.total_acked, Some(rtt));
        self.control.on_arrival(&arrival);
        if self.recovery_until.is_some_and(|end| number >= end) {
            self.recovery_until = None;
            self.control.on_recovery_end(&RecoveryEndEvent::new(now, self.outstanding()));
        }
        let lost: Vec<u64> =
            self.flight.range(..(largest + 1).saturating_sub(THRESHOLD)).map(|it| *it.0).collect();
        self.lose(&lost);
        if !lost.is_empty() && self.recovery_until.is_none() {
            self.recovery_until = Some(self.next);
            self.repairs.fast_recoveries += 1;
            let outstanding = self.outstanding();
            self.control.on_congestion(&CongestionEvent::new(
                now,
                CongestionKind::FastRetransmit,
                outstanding,
            ));
        }
        let mut event = AckEvent::new(now, length, before);
        event.outstanding = self.outstanding();
        event.in_recovery = self.recovery_until.is_some();
        event.is_open = self.recovery_until.is_none();
        event.has_unsent = !self.queue.is_empty();
        event.is_window_limited = event.has_unsent;
        event.rate = self.rate.close(now, &sample, true, self.rtt.min_rtt());
        (event.rtt, event.min_rtt, event.srtt) = (Some(rtt), self.rtt.min_rtt(), self.rtt.srtt());
        (event.acknowledged_to, event.sent_to) = (largest + 1, self.next);
        event.total_acked = self.total_acked;
        self.control.on_ack(&event);
        self.timer = if self.flight.is_empty() { Time::NEVER } else { now + self.rtt.rto() };
        if self.buffered <= self.send_buffer / 2 {
            for stream in std::mem::take(&mut self.refused) {
                self.emit(Event::StreamWritable(stream));
            }
        }
    }

    fn on_timeout(&mut self, now: Time) {
        if now < self.timer {
            return;
        }
        let outstanding = self.outstanding();
        let all: Vec<u64> = self.flight.keys().copied().collect();
        self.lose(&all);
        self.repairs.timeouts += 1;
        self.recovery_until = Some(self.next);
        self.control.on_congestion(&CongestionEvent::new(now, CongestionKind::Timeout, outstanding));
        self.rtt.back_off();
        self.timer = Time::NEVER;
    }

    fn on_data(&mut self, number: u64, piece: Piece) {
        let Piece { stream, payload, ends } = piece;
        self.transmit(ACK, number, piece);
        let inbound = self.inbound.entry(stream).or_default();
        if payload.offset >= inbound.next && !inbound.has_ended {
            inbound.early.insert(payload.offset, (payload.length, ends));
        }
        while let Some((length, ends_stream)) = inbound.early.remove(&inbound.next) {
            let payload = Payload { offset: inbound.next, length };
            inbound.next += u64::from(length);
            inbound.has_ended = ends_stream;
            let received = Received { stream, ends_stream, ..Received::new(payload) };
            self.outputs.push_back(Output::Event(Event::Received(received)));
            if ends_stream {
                break;
            }
        }
    }

    fn on_packet(&mut self, now: Time, packet: &Packet) {
        let Body::Udp(Datagram { offset, length, rtp: Some(rtp), .. }) = packet.body else { return };
        if !std::mem::replace(&mut self.is_open, true) {
            self.emit(Event::Connected);
        }
        if rtp.payload_type == DATA {
            let stream = StreamId(u64::from(rtp.timestamp >> 1));
            let piece = Piece { stream, payload: Payload { offset, length }, ends: rtp.timestamp & 1 == 1 };
            self.on_data(u64::from(rtp.sequence), piece);
        } else {
            // The number of 16 bits that is nearest to what has been sent.
            let behind = (self.next as u16).wrapping_sub(rtp.sequence);
            if let Some(number) = self.next.checked_sub(u64::from(behind)) {
                self.on_ack(now, number);
            }
        }
    }
}

impl Endpoint for End {
    fn protocol(&self) -> &'static str {
        "toy"
    }

    fn service(&self) -> Service {
        Service::Streams { longest_datagram: 0 }
    }

    fn owns(&self, packet: &Packet) -> bool {
        matches!(packet.body, Body::Udp(it) if [it.destination_port, it.source_port] == self.ports)
    }

    fn handle_input(&mut self, now: Time, input: Input) {
        match input {
            Input::Command(Command::Connect) => {
                self.is_open = true;
                self.emit(Event::Connected);
            }
            Input::Command(Command::Send(message)) if self.is_open => self.write(message),
            Input::Command(Command::Send(message)) => self.emit(Event::Refused(message.payload)),
            Input::Command(Command::Shutdown) => self.is_closing = self.is_open,
            Input::Command(Command::Abort) => {
                self.queue.clear();
                self.flight.clear();
                self.timer = Time::NEVER;
                self.is_open = false;
                self.emit(Event::Closed(CloseReason::Aborted));
            }
            Input::Command(command) => self.emit(Event::Unsupported(command.name())),
            Input::Packet(packet) => self.on_packet(now, &packet),
            Input::Timeout => self.on_timeout(now),
        }
        self.send(now);
    }

    fn poll_output(&mut self, _now: Time) -> Output {
        self.outputs.pop_front().unwrap_or(Output::Timeout(self.timer))
    }
}

impl Multipath for End {}

impl Keeper for End {
    fn payloads_to_send(&self, each: &mut dyn FnMut(Payload)) {
        let flight = self.flight.values().map(|sent| sent.piece);
        flight.chain(self.queue.iter().copied()).for_each(|piece| each(piece.payload));
    }

    fn payloads_that_wait(&self, each: &mut dyn FnMut(Payload)) {
        for inbound in self.inbound.values() {
            inbound.early.iter().for_each(|(&offset, &(length, _))| each(Payload { offset, length }));
        }
    }

    /// Packet numbers begin at a number that nobody can guess.
    fn draw_from(&mut self, mut numbers: SecretNumbers) {
        self.next = numbers.bits() >> 32;
    }
}

impl Observed for End {
    fn sample_paths(&self, samples: &mut Vec<PathSample>) {
        let control = self.control.state();
        samples.push(PathSample {
            path: PathId(0),
            cwnd: control.cwnd,
            ssthresh: control.ssthresh,
            outstanding: self.outstanding(),
            srtt: self.rtt.srtt(),
            rto: self.rtt.rto(),
            delivery_rate: None,
            error_count: 0,
            state: PathState::Active,
            is_primary: true,
            repairs: self.repairs,
            marks: Marks::default(),
        });
    }

    fn report(&self, report: &mut Report<'_>) {
        report.count(PACKETS_LOST, self.lost);
    }
}
