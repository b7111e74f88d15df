//! Exchanges: a client asks, a server answers, and what counts is how long that took.
//!
//! The flow's end `from` is the client. An exchange has one or more stages; in each the client writes one
//! or more requests, and the next stage begins when every response has arrived completely. The server
//! answers a request when all of it has arrived, at once, and in order. After an exchange the client
//! pauses, then begins the next; flows beside each other give exchanges at the same time.
//!
//! With a connection of its own for each exchange, the server closes after its last response, as HTTP/1.0
//! does, and opening is part of the exchange's time. The client's next connection waits until the last one
//! is closed at its end, a round trip after the response; real clients need not wait. A connection for all
//! is opened before the first exchange.

pub mod requests;
pub mod responsiveness;
pub mod web;

use std::collections::{BTreeMap, VecDeque};

use anabranch_transport::endpoint::{Command, Event, Service, StreamId};
use anabranch_transport::flow::Side;
use anabranch_transport::report::{Declared, Report, declare};
use anabranch_transport::rng::{Rng, Streams};
use anabranch_transport::time::{Duration, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::requests::Requests;
use self::responsiveness::Probes;
use self::web::Pages;
use super::drawn::Drawn;
use super::quantiles::quantiles_ms;
use super::writer::{MESSAGE, Writer};
use super::{App, Commands, Start, needs_flow_control};

declare! {
    /// The scalars that all kinds of exchanges have.
    SCALARS:
    /// Exchanges begun.
    STARTED = "started": One;
    /// Exchanges that were completed.
    COMPLETED = "completed": One, More;
    /// Exchanges whose connection ended before they were complete.
    FAILED = "failed": One;
    /// Bytes of responses that arrived.
    RECEIVED_BYTES = "received_bytes": Bytes;
    /// These bytes by the time from the start to the end.
    GOODPUT_KBIT_PER_S = "goodput_kbit_per_s": KilobitsPerSecond, More;
}

/// Which connections exchanges use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionUse {
    /// A new connection for each exchange (TCP).
    PerRequest,
    /// One connection for all exchanges.
    #[default]
    Persistent,
}

/// An exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the client began the exchange.
    pub asked: Time,
    /// When the connection that was made for it opened; never without such a connection.
    pub connected: Time,
    /// When the last byte of the last response arrived; never for an exchange that failed or is in progress.
    pub finished: Time,
    /// Bytes of the responses.
    pub bytes: u64,
}

impl Exchange {
    /// How long the exchange took, if it is finished.
    pub fn time(&self) -> Option<Duration> {
        (!self.finished.is_never()).then(|| self.finished - self.asked)
    }
}

/// The plan of what is asked for.
#[derive(Debug)]
enum Plan {
    Pages(Pages),
    Probes(Probes),
    Requests(Requests),
}

impl Plan {
    /// The sizes of a stage's requests and of their responses, in bytes. Returns false when there is no such
    /// stage.
    fn stage(&mut self, stage: usize, ask: impl FnMut(u64, u64)) -> bool {
        match self {
            Self::Pages(pages) => pages.stage(stage, ask),
            Self::Probes(probes) => probes.stage(stage, ask),
            Self::Requests(requests) => requests.stage(stage, ask),
        }
    }

    /// The number of stages.
    const fn stages(&self) -> usize {
        match self {
            Self::Pages(pages) => pages.stages(),
            Self::Probes(probes) => probes.stages(),
            Self::Requests(_) => 1,
        }
    }

    /// The scalars for how long exchanges take: the mean, then quantiles.
    const fn times(&self) -> &'static [Declared] {
        match self {
            Self::Pages(_) => web::TIMES,
            Self::Probes(_) => responsiveness::TIMES,
            Self::Requests(_) => requests::TIMES,
        }
    }
}

/// What the kinds of exchanges share.
struct Setup {
    kind: &'static str,
    connection: ConnectionUse,
    count: Option<u64>,
    start: Start,
    pause: Drawn<Duration>,
}

impl Setup {
    /// Builds the exchanges; `pause_key` is the name of the pause in messages.
    fn build(
        self,
        plan: Plan,
        pause_key: &str,
        streams: Streams,
        flow: &str,
        service: Service,
    ) -> Result<Exchanges, String> {
        let per_request = self.connection == ConnectionUse::PerRequest;
        let write_size = match service {
            Service::Datagrams => return Err(needs_flow_control(self.kind)),
            Service::Messages { .. } if per_request => {
                return Err(
                    "connection = \"per_request\" needs a transport that opens again after it closed; use \
                            \"persistent\""
                        .to_owned(),
                );
            }
            Service::Messages { longest, whole, .. } => MESSAGE.min(longest).min(whole),
            Service::Stream | Service::Streams { .. } => MESSAGE,
        };
        if self.count == Some(0) {
            return Err("count = 0 asks for nothing; use at least 1".to_owned());
        }
        self.pause.check(pause_key)?;
        let start = self.start.draw(&mut streams.stream(&format!("app/{flow}/start")))?;
        Ok(Exchanges {
            plan,
            per_request,
            count: self.count.unwrap_or(u64::MAX),
            start,
            pause: self.pause,
            pause_rng: streams.stream(&format!("app/{flow}/pauses")),
            phase: Phase::Closed,
            next_step: start,
            is_open: false,
            dialogue: Dialogue {
                streams: matches!(service, Service::Streams { .. }).then(BTreeMap::new),
                next_stream: FIRST_STREAM,
                client: Writer::new(Side::A, service, write_size, None),
                server: Writer::new(Side::B, service, write_size, None),
                asked: VecDeque::new(),
                heard_by_client: 0,
                heard_by_server: 0,
                expected: 0,
                is_server_closing: false,
            },
            stage: 0,
            stage_start: Time::NEVER,
            log: Vec::new(),
            failed: 0,
            time_sum_ns: 0,
            completed: 0,
            received: 0,
        })
    }
}

/// Exchanges in progress.
#[derive(Debug)]
pub struct Exchanges {
    plan: Plan,
    per_request: bool,
    /// The number of exchanges; `u64::MAX` if they do not end.
    count: u64,
    start: Time,
    pause: Drawn<Duration>,
    pause_rng: Rng,
    phase: Phase,
    /// When to open the connection, or when the pause is over.
    next_step: Time,
    /// Whether the client's end of the connection is open.
    is_open: bool,
    dialogue: Dialogue,
    stage: usize,
    stage_start: Time,
    log: Vec<Exchange>,
    failed: u64,
    completed: u64,
    time_sum_ns: u64,
    /// Bytes of responses that have arrived.
    received: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not started.
    Closed,
    /// The connection for all exchanges is being opened.
    Opening,
    /// The connection for this exchange is being opened.
    Connecting,
    /// The client waits for responses.
    Asking,
    /// The client pauses between two exchanges.
    Pausing,
    /// The pause is over, but the connection of the last exchange is not closed yet.
    Closing,
    Done,
}

/// The stream of a connection's first request; the one before it lasts as long as the connection.
const FIRST_STREAM: u64 = 4;
/// From one of a client's streams to the next (RFC 9000 section 2.1).
const NEXT_STREAM: u64 = 4;

/// The exchange in progress on one connection.
#[derive(Debug)]
struct Dialogue {
    /// Where each request has a stream: the size of the response of those that are unanswered.
    streams: Option<BTreeMap<StreamId, u64>>,
    next_stream: u64,
    client: Writer,
    server: Writer,
    /// The end of each unanswered request in the client's stream, and the size of its response.
    asked: VecDeque<(u64, u64)>,
    heard_by_client: u64,
    heard_by_server: u64,
    /// The end of the last requested response in the server's stream.
    expected: u64,
    is_server_closing: bool,
}

impl Dialogue {
    fn reset(&mut self) {
        self.client.reset();
        self.server.reset();
        self.asked.clear();
        self.streams = self.streams.take().map(|_| BTreeMap::new());
        self.next_stream = FIRST_STREAM;
        self.heard_by_client = 0;
        self.heard_by_server = 0;
        self.expected = 0;
        self.is_server_closing = false;
    }

    fn writer(&mut self, side: Side) -> &mut Writer {
        match side {
            Side::A => &mut self.client,
            Side::B => &mut self.server,
        }
    }

    /// Answers the request on a stream, which is complete.
    fn answer_stream(&mut self, now: Time, stream: StreamId, commands: &mut Commands) {
        let response = self.streams.as_mut().and_then(|streams| streams.remove(&stream));
        self.server.write_streams(now, response.map(|response| (stream, response)), commands);
    }

    /// Takes bytes of requests that have arrived, and answers those that are complete.
    fn answer(&mut self, now: Time, bytes: u32, commands: &mut Commands) {
        self.heard_by_server += u64::from(bytes);
        let mut responses = 0;
        while let Some(&(_, response)) = self.asked.front().filter(|(end, _)| *end <= self.heard_by_server) {
            self.asked.pop_front();
            responses += response;
        }
        if responses > 0 {
            self.server.write(now, responses, commands);
        }
    }
}

impl App for Exchanges {
    fn next_wakeup(&self) -> Time {
        let Dialogue { client, server, .. } = &self.dialogue;
        self.next_step.min(client.next_wakeup()).min(server.next_wakeup())
    }

    fn handle_wakeup(&mut self, now: Time, commands: &mut Commands) {
        self.dialogue.client.handle_wakeup(now, commands);
        self.dialogue.server.handle_wakeup(now, commands);
        self.close_at_server(commands);
        if self.next_step <= now {
            self.next_step = Time::NEVER;
            match self.phase {
                Phase::Closed if !self.per_request => {
                    commands.push(Side::A, Command::Connect);
                    self.phase = Phase::Opening;
                }
                Phase::Pausing if self.per_request && self.is_open => self.phase = Phase::Closing,
                Phase::Closed | Phase::Pausing => self.begin(now, commands),
                _ => {}
            }
        }
    }

    fn handle_event(&mut self, now: Time, side: Side, event: &Event, commands: &mut Commands) {
        match *event {
            Event::Received(received) if side == Side::B && self.dialogue.streams.is_some() => {
                self.dialogue.heard_by_server += u64::from(received.payload.length);
                if received.ends_stream {
                    self.dialogue.answer_stream(now, received.stream, commands);
                }
            }
            Event::Received(received) if side == Side::B => {
                self.dialogue.answer(now, received.payload.length, commands);
            }
            Event::Received(received) => self.on_response(now, received.payload.length, commands),
            Event::ReceivedPart(part) if side == Side::B => {
                self.dialogue.answer(now, part.payload.length, commands);
            }
            Event::ReceivedPart(part) => self.on_response(now, part.payload.length, commands),
            Event::StreamWritable(_) | Event::Writable => {
                self.dialogue.writer(side).on_writable(now, commands);
                self.close_at_server(commands);
            }
            Event::Refused(rest) => self.dialogue.writer(side).on_refused(rest),
            Event::Connected => self.on_connected(now, side, commands),
            Event::Closed(_) => self.on_closed(now, side, commands),
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.count == u64::MAX || self.phase == Phase::Done
    }

    fn memory(&self) -> usize {
        size_of_val(self.log.as_slice())
    }

    fn exchanges(&self) -> &[Exchange] {
        &self.log
    }

    fn report(&self, now: Time, report: &mut Report<'_>) {
        let mut times: Vec<Duration> = self.log.iter().filter_map(Exchange::time).collect();
        let [p50, p95, p99, max] = quantiles_ms(&mut times, [0.5, 0.95, 0.99, 1.0]);
        report.count(STARTED, self.log.len() as u64);
        report.count(COMPLETED, self.completed);
        report.count(FAILED, self.failed);
        report.count(RECEIVED_BYTES, self.received);
        let is_over = self.phase == Phase::Done;
        let last = self.log.iter().rfind(|exchange| !exchange.finished.is_never());
        let end = last.filter(|_| is_over).map_or(now, |exchange| exchange.finished);
        let elapsed = end.saturating_since(self.start);
        // Kilobits per second are bits per microsecond.
        report.mean(GOODPUT_KBIT_PER_S, self.received as f64 * 8e6, elapsed.as_nanos());
        let (mean, quantiles) = self.plan.times().split_first().expect("the mean is declared");
        report.mean(*mean, self.time_sum_ns as f64 / 1e6, self.completed);
        for (quantile, value) in quantiles.iter().zip([p50, p95, p99, max]) {
            report.scalar(*quantile, value);
        }
        if let Plan::Probes(probes) = &self.plan {
            probes.report(report);
        }
    }
}

impl Exchanges {
    /// Begins the next exchange.
    fn begin(&mut self, now: Time, commands: &mut Commands) {
        let never = Time::NEVER;
        self.log.push(Exchange { asked: now, connected: never, finished: never, bytes: 0 });
        if self.per_request {
            self.dialogue.reset();
            self.phase = Phase::Connecting;
            commands.push(Side::A, Command::Connect);
        } else {
            self.phase = Phase::Asking;
            self.ask(now, 0, commands);
        }
    }

    /// Writes the requests of a stage. Returns false when there is no such stage.
    fn ask(&mut self, now: Time, stage: usize, commands: &mut Commands) -> bool {
        let Self { plan, dialogue, log, .. } = self;
        let exchange = log.last_mut().expect("one is in progress");
        let Dialogue { streams, next_stream, client, asked, expected, .. } = dialogue;
        let mut written = client.taken();
        let before = written;
        let mut requests = Vec::new();
        let has_stage = plan.stage(stage, |request, response| {
            written += request;
            if let Some(streams) = streams {
                let stream = StreamId(*next_stream);
                *next_stream += NEXT_STREAM;
                streams.insert(stream, response);
                requests.push((stream, request));
            } else {
                asked.push_back((written, response));
            }
            *expected += response;
            exchange.bytes += response;
        });
        self.stage = stage;
        self.stage_start = now;
        if requests.is_empty() {
            client.write(now, written - before, commands);
        } else {
            client.write_streams(now, requests, commands);
        }
        has_stage
    }

    fn on_response(&mut self, now: Time, bytes: u32, commands: &mut Commands) {
        self.received += u64::from(bytes);
        self.dialogue.heard_by_client += u64::from(bytes);
        debug_assert!(
            self.dialogue.heard_by_client <= self.dialogue.expected,
            "only what was asked for comes"
        );
        if self.phase != Phase::Asking || self.dialogue.heard_by_client < self.dialogue.expected {
            return;
        }
        if let Plan::Probes(probes) = &mut self.plan {
            probes.on_stage(self.stage, now - self.stage_start);
        }
        if !self.ask(now, self.stage + 1, commands) {
            self.finish(now, commands);
        }
    }

    fn finish(&mut self, now: Time, commands: &mut Commands) {
        let exchange = self.log.last_mut().expect("one is in progress");
        exchange.finished = now;
        self.time_sum_ns += (now - exchange.asked).as_nanos();
        self.completed += 1;
        let is_last = self.is_last();
        if self.per_request || is_last {
            commands.push(Side::A, Command::Shutdown);
        }
        self.pause(now, commands);
    }

    fn is_last(&self) -> bool {
        self.log.len() as u64 == self.count
    }

    /// Ends an exchange and begins the pause after it.
    fn pause(&mut self, now: Time, commands: &mut Commands) {
        if self.is_last() {
            self.phase = Phase::Done;
            return;
        }
        self.phase = Phase::Pausing;
        let pause = self.pause.draw(&mut self.pause_rng);
        if !pause.is_zero() {
            self.next_step = now + pause;
        } else if !self.per_request {
            self.begin(now, commands);
        } else if self.is_open {
            self.phase = Phase::Closing;
        } else {
            // Not at once: a server that refuses is not asked again at the same time.
            self.next_step = now + Duration::from_nanos(1);
        }
    }

    /// Closes the connection at the server after its last response.
    fn close_at_server(&mut self, commands: &mut Commands) {
        let is_last_stage = self.phase == Phase::Asking && self.stage + 1 == self.plan.stages();
        let Dialogue { server, expected, is_server_closing, .. } = &mut self.dialogue;
        let has_answered = server.is_all_taken() && server.taken() == *expected;
        if self.per_request && is_last_stage && has_answered && !*is_server_closing {
            *is_server_closing = true;
            commands.push(Side::B, Command::Shutdown);
        }
    }

    fn on_connected(&mut self, now: Time, side: Side, commands: &mut Commands) {
        if side == Side::B {
            return;
        }
        self.is_open = true;
        match self.phase {
            Phase::Opening => self.begin(now, commands),
            Phase::Connecting => {
                let exchange = self.log.last_mut().expect("one is in progress");
                exchange.connected = now;
                if let Plan::Probes(probes) = &mut self.plan {
                    probes.on_connected(now - exchange.asked);
                }
                self.phase = Phase::Asking;
                self.ask(now, 0, commands);
            }
            _ => {}
        }
    }

    fn on_closed(&mut self, now: Time, side: Side, commands: &mut Commands) {
        if side == Side::B {
            return;
        }
        self.is_open = false;
        if matches!(self.phase, Phase::Connecting | Phase::Asking) {
            self.failed += 1;
            if self.per_request {
                commands.push(Side::B, Command::Abort);
                self.pause(now, commands);
                return;
            }
        }
        if !self.per_request {
            self.dialogue.reset();
            self.next_step = Time::NEVER;
            self.phase = Phase::Done;
        } else if self.phase == Phase::Closing {
            self.begin(now, commands);
        }
    }
}

#[cfg(test)]
mod tests;
