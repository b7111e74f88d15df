//! Video: frames whose sizes follow a rate, and what a viewer sees of them.
//!
//! The source is the statistical model of RFC 8593 section 5. The viewer decodes frames in order, asks for a
//! key frame when one stays missing, and counts what no model of pixels is needed for: delays, frames that
//! came late or not at all, freezes. Over a transport that cannot ask for a key frame, the viewer sends a
//! message of the size that RFC 4585's has.

mod config;
mod encoder;
mod measures;
mod viewer;

use anabranch_transport::endpoint::{Command, Event, Message, Reliability, Service};
use anabranch_transport::flow::{Payload, Side};
use anabranch_transport::quality::Playout;
use anabranch_transport::report::Report;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};
use arrayvec::ArrayVec;

pub use self::config::VideoConfig;
pub(crate) use self::measures::SCALARS;

use self::encoder::Encoder;
use self::viewer::{VideoFrame, Viewer};
use super::{App, Commands, Direction, Frame};
use crate::schedule::Timeline;

/// Where messages stand that ask for a key frame: behind all that an encoder can make.
const REQUESTS: u64 = 1 << 62;
/// The length of such a message (PLI with its header, RFC 4585 section 6.3.1).
const REQUEST_BYTES: u32 = 12;

impl VideoConfig {
    /// Builds the video of the flow `flow` over a transport that offers `service`.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub fn build(&self, streams: Streams, flow: &str, service: Service) -> Result<Video, String> {
        self.check(service)?;
        let sending = self.sending.timeline("sending")?;
        let start = self.start.draw(&mut streams.stream(&format!("app/{flow}/start")))?;
        // The connection opens at 0, in a separate wake-up.
        let start = start.max(Time::from_nanos(1));
        let sender = |side: Side| Sender {
            side,
            is_up: false,
            encoder: Encoder::new(self, streams.stream(&format!("app/{flow}/{}/video", side.name()))),
            viewer: Viewer::new(self),
            sending: sending.clone(),
            is_paused: false,
            next_frame: start,
            refused: 0,
        };
        let sides = [Side::A, Side::B].into_iter().filter(|&side| self.direction.is_sender(side));
        let end = start + self.duration;
        let last = end + self.grace;
        Ok(Video {
            senders: sides.map(sender).collect(),
            config: self.clone(),
            start,
            end,
            last,
            is_connected: false,
            is_done: false,
            requests: 0,
        })
    }
}

/// Video that is being sent.
#[derive(Debug)]
pub struct Video {
    config: VideoConfig,
    senders: ArrayVec<Sender, 2>,
    start: Time,
    /// When the last frame has been made, and when it is no longer waited for.
    end: Time,
    last: Time,
    is_connected: bool,
    is_done: bool,
    /// Messages sent that ask for a key frame.
    requests: u64,
}

/// One direction, kept under its sender's side.
#[derive(Debug)]
struct Sender {
    side: Side,
    is_up: bool,
    encoder: Encoder,
    viewer: Viewer,
    sending: Timeline<bool>,
    is_paused: bool,
    next_frame: Time,
    /// Packets that the transport has refused.
    refused: u64,
}

impl Sender {
    /// Makes a frame, unless the connection is not open yet or the source pauses.
    fn make_frame(&mut self, now: Time, config: &VideoConfig, commands: &mut Commands) {
        if !self.is_up {
            self.next_frame = now + config.frame_interval;
            return;
        }
        if !self.sending.at(now.as_nanos()) {
            self.is_paused = true;
            self.next_frame = Time::from_nanos(self.sending.until());
            return;
        }
        if std::mem::take(&mut self.is_paused) {
            self.encoder.request_key_frame();
            self.viewer.resume();
        }
        let (length, is_key) = self.encoder.make(config, now);
        let mut packets = self.viewer.make(now, length, is_key).peekable();
        while let Some(payload) = packets.next() {
            let message = Message {
                unordered: true,
                more: packets.peek().is_some(),
                reliability: config.reliability.into(),
                ..Message::new(payload)
            };
            commands.push(self.side, Command::Send(message));
        }
        self.next_frame = now + self.encoder.interval(config);
    }
}

impl App for Video {
    fn next_wakeup(&self) -> Time {
        if !self.is_connected {
            return Time::ZERO;
        }
        if self.is_done {
            return Time::NEVER;
        }
        let wakeups = self.senders.iter().map(|sender| {
            let frame = if sender.next_frame < self.end { sender.next_frame } else { Time::NEVER };
            frame.min(sender.viewer.ask_at())
        });
        wakeups.fold(self.last, Time::min)
    }

    fn handle_wakeup(&mut self, now: Time, commands: &mut Commands) {
        if !self.is_connected {
            self.is_connected = true;
            commands.push(Side::A, Command::Connect);
            return;
        }
        if now >= self.last {
            self.is_done = true;
            return;
        }
        for sender in &mut self.senders {
            if sender.next_frame <= now && sender.next_frame < self.end {
                sender.make_frame(now, &self.config, commands);
            }
            if sender.viewer.asks(now, &self.config) {
                commands.push(sender.side.peer(), Command::RequestKeyFrame);
            }
        }
    }

    fn handle_event(&mut self, now: Time, side: Side, event: &Event, commands: &mut Commands) {
        match *event {
            Event::Received(received) if received.payload.offset >= REQUESTS => {
                self.request_key_frame(side);
            }
            Event::Unsupported(name) if name == Command::RequestKeyFrame.name() => {
                let payload = Payload { offset: REQUESTS + self.requests, length: REQUEST_BYTES };
                self.requests += u64::from(REQUEST_BYTES);
                let message =
                    Message { unordered: true, reliability: Reliability::Reliable, ..Message::new(payload) };
                commands.push(side, Command::Send(message));
            }
            Event::Received(received) => {
                if let Some(sender) = self.sender(side.peer()) {
                    let Self { config, senders, .. } = self;
                    senders[sender].viewer.on_arrival(now, received.payload, config);
                }
            }
            Event::TargetRate(rate) => {
                if let Some(sender) = self.sender(side) {
                    let Self { config, senders, .. } = self;
                    senders[sender].encoder.set_target(config, rate);
                }
            }
            Event::KeyFrameRequested => self.request_key_frame(side),
            // A request is repeated when its time has come, whether it was sent or not.
            Event::Refused(payload) if payload.offset < REQUESTS => {
                if let Some(sender) = self.sender(side) {
                    self.senders[sender].refused += 1;
                }
            }
            // The end that opened the connection is told last, so both can send now.
            Event::Connected if side == Side::A => {
                self.senders.iter_mut().for_each(|sender| sender.is_up = true);
            }
            Event::Closed(_) => {
                if let Some(sender) = self.sender(side) {
                    self.senders[sender].is_up = false;
                }
            }
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn earliest_end(&self) -> Time {
        self.last
    }

    fn report(&self, now: Time, report: &mut Report<'_>) {
        for sender in &self.senders {
            let elapsed = now.min(self.end).saturating_since(self.start);
            match (self.config.direction, sender.side) {
                (Direction::Both, Side::A) => {
                    measures::report(&self.config, sender, elapsed, &mut report.section("a_to_b"));
                }
                (Direction::Both, Side::B) => {
                    measures::report(&self.config, sender, elapsed, &mut report.section("b_to_a"));
                }
                (Direction::AToB | Direction::BToA, _) => {
                    measures::report(&self.config, sender, elapsed, report);
                }
            }
        }
    }

    fn frames(&self, sender: Side) -> Vec<Frame> {
        let Some(sender) = self.sender(sender) else { return Vec::new() };
        let frames = self.senders[sender].viewer.frames.iter().zip(0..);
        frames
            .map(|(frame, index)| {
                let delay = frame.shown.map(|at| at - frame.made);
                let fate = match delay {
                    None => Playout::Lost,
                    Some(delay) if delay > self.config.deadline => Playout::Late,
                    Some(playout_delay) => Playout::Played { playout_delay },
                };
                let &VideoFrame { made, arrived, shown: played, length: bytes, froze, .. } = frame;
                Frame { index, made, arrived, fate, bytes, played, froze }
            })
            .collect()
    }

    fn memory(&self) -> usize {
        self.senders.iter().map(|sender| sender.viewer.memory()).sum()
    }
}

impl Video {
    /// The viewer of what this side sends asks for a key frame.
    fn request_key_frame(&mut self, side: Side) {
        if let Some(sender) = self.sender(side) {
            self.senders[sender].encoder.request_key_frame();
        }
    }

    fn sender(&self, side: Side) -> Option<usize> {
        self.senders.iter().position(|sender| sender.side == side)
    }
}

/// The share of a time in percent.
fn percent(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64() * 100.0
}
