//! A bulk transfer, as iperf makes it: one end, or both, writes as fast as the transport accepts data, and
//! the other reads at once, or following a timetable. The data that is read is measured.

mod meter;

use anabranch_transport::capabilities::Messages;
use anabranch_transport::endpoint::{Command, Event, Part, Received, Service};
use anabranch_transport::flow::Side;
use anabranch_transport::report::{Report, declare};
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Bytes;
use arrayvec::ArrayVec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::meter::Interval;
use self::meter::Meter;
use super::writer::{MESSAGE, Writer};
use super::{App, Commands, Direction, Start};
use crate::schedule::{Schedule, Timeline};
use crate::transports;

declare! {
    /// The scalars of one direction of a bulk transfer.
    SCALARS:
    /// Bytes that the transport took.
    SENT_BYTES = "sent_bytes": Bytes;
    /// Bytes that the receiving application got.
    RECEIVED_BYTES = "received_bytes": Bytes;
    /// These bytes by the time from the opening of the connection to the end.
    GOODPUT_KBIT_PER_S = "goodput_kbit_per_s": KilobitsPerSecond, More;
    /// Intervals (`interval`) that were over.
    INTERVALS = "intervals": One;
    /// Coefficient of variation of the bytes in these intervals: standard deviation of the sample over mean.
    COV = "cov": One;
    /// The longest time in which nothing arrived.
    STALLED_S = "stalled_s": Seconds, Less;
    /// The time from the start until the last byte; no value unless all of it arrived.
    COMPLETION_S = "completion_s": Seconds, Less;
}

/// A bulk transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BulkConfig {
    /// How much each sender writes, from 1 B on; by default there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// How long each sender writes once the connection is open; by default there is no limit. Without `bytes`
    /// and `duration`, the transfer is a background load: it goes on until the run ends, and the run does not
    /// wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// Bytes per write; default 128 KiB over TCP and 64 KiB over SCTP (iperf3's).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_size: Option<Bytes>,
    /// Processor time per write: writes begin at least this far apart. Default none: writing takes no time,
    /// and over TCP the writes of one moment are one, so that their size changes nothing; "0 s" hands them
    /// over one by one, as matters without Nagle's algorithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_cost: Option<Duration>,
    /// Which end sends; default `"a_to_b"`.
    pub direction: Direction,
    /// When the connection is opened: a time, or a range to draw it from; default "0 s".
    pub start: Start,
    /// Length of the intervals of the trace `intervals` and of `cov`, the coefficient of variation of
    /// their goodput; default "1 s".
    pub interval: Duration,
    /// Whether the receiving application reads (QUIC, TCP): a timetable of true and false makes a slow
    /// reader, whose receive buffer fills; default true.
    pub reading: Schedule<bool>,
    /// Whether messages are delivered without regard to their order (SCTP); default false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unordered: bool,
}

impl Default for BulkConfig {
    fn default() -> Self {
        Self {
            bytes: None,
            duration: None,
            write_size: None,
            write_cost: None,
            direction: Direction::AToB,
            start: Start::At(Duration::ZERO),
            interval: Duration::from_secs(1),
            reading: Schedule::Constant(true),
            unordered: false,
        }
    }
}

/// Bytes per write to a stream, those of iperf3 (`DEFAULT_TCP_BLKSIZE`).
const STREAM_WRITE: u64 = 128 * 1024;

/// The longest write, so that its length fits in 32 bits.
const MAX_WRITE: u64 = 1 << 30;

/// The shortest interval; a trace with more than 1000 of them a second would be a packet trace.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

impl BulkConfig {
    /// Builds the transfer of the flow `flow` over a transport that offers `service`.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub fn build(&self, streams: Streams, flow: &str, service: Service) -> Result<Bulk, String> {
        let (default, longest) = match service {
            Service::Datagrams => return Err(super::needs_flow_control("bulk")),
            Service::Messages { longest, whole, is_limited } => {
                if self.bytes.is_none() && !is_limited {
                    return Err(
                        "kind = \"bulk\" without bytes fills a send buffer without limit at once; set \
                                bytes, or a send_buffer of the transport"
                            .to_owned(),
                    );
                }
                (MESSAGE.min(longest).min(whole), longest.min(MAX_WRITE))
            }
            Service::Stream | Service::Streams { .. } => (STREAM_WRITE, MAX_WRITE),
        };
        let write_size = self.write_size.unwrap_or(Bytes(default));
        if !(1..=longest).contains(&write_size.0) {
            return Err(format!("write_size = \"{write_size}\" is not from 1 B to {longest} B"));
        }
        if self.bytes == Some(Bytes(0)) {
            return Err("bytes = \"0 B\" is nothing to send; use at least 1 B".to_owned());
        }
        if self.interval < MIN_INTERVAL {
            let interval = self.interval;
            return Err(format!("interval = \"{interval}\" is not a length of time from {MIN_INTERVAL} on"));
        }
        let reading = self.reading.timeline("reading")?;
        let always_reads = reading.is_constant() && reading.value();
        if !always_reads && !service.is_of_bytes() {
            let choice = transports::choice(|can| can.pauses_reading);
            return Err(format!(
                "reading is not always true: only over {choice} can an application stop reading"
            ));
        }
        if self.unordered && service.is_of_bytes() {
            let choice = transports::choice(|can| can.flow_control && can.messages == Messages::Always);
            return Err(format!("unordered = true: only the messages of {choice} can go without order"));
        }
        let start = self.start.draw(&mut streams.stream(&format!("app/{flow}/start")))?;
        let transfer = |side: Side| Transfer {
            writer: Writer::new(side, service, write_size.0, self.write_cost).unordered(self.unordered),
            meter: Meter::new(self.interval),
        };
        let sides = [Side::A, Side::B].into_iter().filter(|&side| self.direction.is_sender(side));
        Ok(Bulk {
            bytes: self.bytes.map_or(u64::MAX, |bytes| bytes.0),
            duration: self.duration,
            ends_run: self.bytes.is_some() || self.duration.is_some(),
            start,
            next_step: start,
            reading,
            next_change: if always_reads { Time::NEVER } else { Time::ZERO },
            phase: Phase::Closed,
            transfers: sides.map(transfer).collect(),
        })
    }
}

/// A bulk transfer in progress.
#[derive(Debug)]
pub struct Bulk {
    bytes: u64,
    duration: Option<Duration>,
    /// Whether the run waits for it.
    ends_run: bool,
    start: Time,
    /// When to open the connection, and then when to stop writing.
    next_step: Time,
    reading: Timeline<bool>,
    /// When the receivers next begin or stop to read.
    next_change: Time,
    phase: Phase,
    transfers: ArrayVec<Transfer, 2>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The connection has not been requested yet.
    Closed,
    /// The sender writes, or is about to.
    Writing,
    /// The transport has taken everything.
    Draining,
    /// Everything has arrived, or the connection is gone.
    Done,
}

/// One direction of the transfer, kept under its sender's side.
#[derive(Debug)]
struct Transfer {
    writer: Writer,
    meter: Meter,
}

impl App for Bulk {
    fn next_wakeup(&self) -> Time {
        let own = self.next_step.min(self.next_change);
        self.transfers.iter().fold(own, |earliest, transfer| earliest.min(transfer.writer.next_wakeup()))
    }

    fn handle_wakeup(&mut self, now: Time, commands: &mut Commands) {
        if self.next_change <= now {
            self.change_reading(now, commands);
        }
        if self.next_step <= now {
            self.next_step = Time::NEVER;
            if self.phase == Phase::Closed {
                self.phase = Phase::Writing;
                commands.push(Side::A, Command::Connect);
                return;
            }
            self.transfers.iter_mut().for_each(|transfer| transfer.writer.stop());
        }
        for transfer in &mut self.transfers {
            transfer.writer.handle_wakeup(now, commands);
        }
        self.look_for_the_end(now, commands);
    }

    fn handle_event(&mut self, now: Time, side: Side, event: &Event, commands: &mut Commands) {
        match *event {
            Event::Received(received) => {
                let Some(transfer) = self.transfer(side.peer()) else { return };
                debug_assert!(
                    received.unordered || received.payload.offset == transfer.meter.received,
                    "bytes come in order: {received:?}"
                );
                transfer.meter.on_bytes(now, received.payload.length);
                if self.phase == Phase::Draining {
                    self.look_for_the_end(now, commands);
                } else {
                    commands.change_nothing();
                }
            }
            // Its bytes count, not the message that they are part of.
            Event::ReceivedPart(Part { stream, ppid, unordered, payload, .. }) => {
                let received = Received { stream, ppid, unordered, ends_stream: false, payload };
                self.handle_event(now, side, &Event::Received(received), commands);
            }
            Event::StreamWritable(_) | Event::Writable => {
                if let Some(transfer) = self.transfer(side) {
                    transfer.writer.on_writable(now, commands);
                }
            }
            Event::Refused(rest) => {
                if let Some(transfer) = self.transfer(side) {
                    transfer.writer.on_refused(rest);
                }
            }
            Event::Connected => self.open(now, side, commands),
            Event::Closed(_) => {
                for transfer in &mut self.transfers {
                    transfer.writer.stop();
                    transfer.meter.end(now);
                }
                self.next_step = Time::NEVER;
                self.next_change = Time::NEVER;
                self.phase = Phase::Done;
            }
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        !self.ends_run || self.phase == Phase::Done
    }

    fn intervals(&self, sender: Side, now: Time) -> Vec<Interval> {
        let transfer = self.transfers.iter().find(|transfer| transfer.writer.side == sender);
        transfer.map_or(Vec::new(), |transfer| transfer.meter.intervals(now))
    }

    fn memory(&self) -> usize {
        self.transfers.iter().map(|transfer| transfer.meter.memory()).sum()
    }

    fn report(&self, now: Time, report: &mut Report<'_>) {
        for transfer in &self.transfers {
            match (self.transfers.len(), transfer.writer.side) {
                (2, Side::A) => self.report_transfer(transfer, now, &mut report.section("a_to_b")),
                (2, Side::B) => self.report_transfer(transfer, now, &mut report.section("b_to_a")),
                _ => self.report_transfer(transfer, now, report),
            }
        }
    }
}

impl Bulk {
    fn transfer(&mut self, sender: Side) -> Option<&mut Transfer> {
        self.transfers.iter_mut().find(|transfer| transfer.writer.side == sender)
    }

    fn change_reading(&mut self, now: Time, commands: &mut Commands) {
        let reads = self.reading.at(now.as_nanos());
        for transfer in &self.transfers {
            let command = if reads { Command::ResumeReading } else { Command::PauseReading };
            commands.push(transfer.writer.side.peer(), command);
        }
        self.next_change = Time::from_nanos(self.reading.until());
    }

    /// Begins to write, now that this side's connection is open.
    fn open(&mut self, now: Time, side: Side, commands: &mut Commands) {
        let bytes = self.bytes;
        if let Some(transfer) = self.transfer(side) {
            transfer.meter.open(now);
            transfer.writer.write(now, bytes, commands);
        }
        if let Some(duration) = self.duration {
            self.next_step = self.next_step.min(now + duration);
        }
    }

    /// Closes the connection once everything is written, and notes what has arrived completely.
    fn look_for_the_end(&mut self, now: Time, commands: &mut Commands) {
        let is_written = |transfer: &Transfer| transfer.meter.is_open() && transfer.writer.is_all_taken();
        if self.phase == Phase::Writing && self.transfers.iter().all(is_written) {
            self.phase = Phase::Draining;
            self.next_step = Time::NEVER;
            for transfer in &self.transfers {
                commands.push(transfer.writer.side, Command::Shutdown);
            }
        }
        if self.phase == Phase::Draining {
            for Transfer { writer, meter } in &mut self.transfers {
                if meter.received == writer.taken() {
                    let last = meter.last_arrival();
                    meter.end(if meter.received == 0 { now } else { last });
                }
            }
            if self.transfers.iter().all(|transfer| transfer.meter.is_over()) {
                self.phase = Phase::Done;
            }
        }
    }

    fn report_transfer(&self, transfer: &Transfer, now: Time, report: &mut Report<'_>) {
        let Transfer { writer, meter } = transfer;
        report.count(SENT_BYTES, writer.taken());
        meter.report(now, report);
        let is_complete = meter.received == self.bytes;
        let completion = meter.last_arrival().saturating_since(self.start).as_secs_f64();
        report.scalar(COMPLETION_S, if is_complete { completion } else { f64::NAN });
    }
}

#[cfg(test)]
mod tests;
