//! A telephone call: frames at a constant rate, a jitter buffer, and what the listener makes of it.
//!
//! The call of R. Rüncos and E. Ribeiro's study (`voip-sctp`) is the default: G.711 with concealment,
//! 160 bytes every 20 ms for 120 s in one direction, starting uniformly in 10-20 s, messages unordered
//! and never retransmitted, a fixed jitter buffer of 100 ms, the simplified E-model.
//!
//! Frame `i` of the call is the piece of the application's stream at offset `i` x payload size, so an
//! arrival tells by itself which frame it is and when that frame was made.

mod config;
mod measures;
mod talk_spurts;

use anabranch_transport::endpoint::{Command, Event, Message};
use anabranch_transport::flow::{Payload, Side};
use anabranch_transport::quality::{CallParameters, LossPattern, Playout, Rating, Slot, Talk};
use anabranch_transport::report::Report;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};

pub use self::config::{BurstRatio, DelayBasis, TalkSpurtsConfig, VoipConfig};
pub(crate) use self::measures::SCALARS;
pub use self::measures::{Measures, RatedInterval};

use arrayvec::ArrayVec;

use self::talk_spurts::TalkSpurts;
use super::quantiles::quantiles_ms;
use super::{App, Commands, Direction, Frame};

/// The longest call, in frames per direction: about 3 days of 20 ms frames.
const MAX_FRAMES: u64 = 1 << 24;

/// The shortest mean length of talk spurts and pauses; those shorter than a frame would not be heard.
const MIN_TALK_SPURT: Duration = Duration::from_millis(1);

/// The interval of the trace `ratings`: long enough for a loss in percent, short enough to see a handover.
const RATED_INTERVAL: Duration = Duration::from_secs(1);

/// The longest packetisation that a receiver has to accept (RFC 3551 section 4.2).
const MAX_PACKETISATION: Duration = Duration::from_millis(200);

impl VoipConfig {
    /// Builds the call of the flow `flow`.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub fn build(&self, streams: Streams, flow: &str) -> Result<Voip, String> {
        let data = self.codec.data();
        let (name, frame) = (data.name, data.frame);
        if self.packetisation > MAX_PACKETISATION {
            return Err(format!(
                "packetisation = \"{}\" is not a multiple of {name}'s frame, {frame}, up to {MAX_PACKETISATION}",
                self.packetisation
            ));
        }
        let payload_bytes = data.payload_bytes(self.packetisation).ok_or_else(|| {
            format!("packetisation = \"{}\" is not a multiple of {name}'s frame, {frame}", self.packetisation)
        })?;
        let frames = self.duration.as_nanos() / self.packetisation.as_nanos();
        if !(1..=MAX_FRAMES).contains(&frames) {
            return Err(format!(
                "duration = \"{}\" is {frames} frames of {}, allowed are 1 to {MAX_FRAMES}",
                self.duration, self.packetisation
            ));
        }
        let (ie, bpl) = self.impairment()?;
        self.jitter_buffer.check()?;
        if let Some(spurts) = self.talk_spurts {
            for (key, mean) in [("talk", spurts.talk), ("pause", spurts.pause)] {
                if mean < MIN_TALK_SPURT {
                    return Err(format!(
                        "talk_spurts.{key} = \"{mean}\" is not a length of time from {MIN_TALK_SPURT} on"
                    ));
                }
            }
        }
        let start = self.start.draw(&mut streams.stream(&format!("app/{flow}/start")))?;
        let connect = Time::ZERO + self.connect;
        if connect > start {
            return Err(format!("connect = \"{}\" is after the call's start at {start}", self.connect));
        }
        // The association opens in a separate wake-up.
        let start = start.max(connect + Duration::from_nanos(1));
        let sender = |side: Side| {
            let rng = streams.stream(&format!("app/{flow}/{}/talk_spurts", side.name()));
            let spurts = self.talk_spurts.map(|means| TalkSpurts::new(means, self.packetisation, rng));
            Sender::new(side, frames as usize, spurts)
        };
        let sides = [Side::A, Side::B].into_iter().filter(|&side| self.direction.is_sender(side));
        Ok(Voip {
            config: self.clone(),
            ie,
            bpl,
            message: Message {
                stream: self.stream.into(),
                unordered: self.unordered,
                reliability: self.reliability.into(),
                ..Message::new(Payload { offset: 0, length: payload_bytes })
            },
            start,
            frames_left: frames,
            next_wakeup: connect,
            phase: Phase::Connecting,
            senders: sides.map(sender).collect(),
        })
    }
}

/// A call in progress.
#[derive(Debug)]
pub struct Voip {
    config: VoipConfig,
    ie: f64,
    bpl: f64,
    /// The next frame, as a message.
    message: Message,
    start: Time,
    frames_left: u64,
    next_wakeup: Time,
    phase: Phase,
    senders: ArrayVec<Sender, 2>,
}

/// The purpose of the next wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Talking,
    Waiting,
    Done,
}

/// One direction of the call, kept under its sender's side.
#[derive(Debug)]
struct Sender {
    side: Side,
    is_up: bool,
    /// The slots so far, one for each frame period; their memory is allocated once.
    slots: Vec<Slot>,
    spurts: Option<TalkSpurts>,
    made: u64,
    unsent: u64,
    refused: u64,
    abandoned: u64,
    duplicates: u64,
}

impl Sender {
    fn new(side: Side, frames: usize, spurts: Option<TalkSpurts>) -> Self {
        Self {
            side,
            is_up: false,
            slots: Vec::with_capacity(frames),
            spurts,
            made: 0,
            unsent: 0,
            refused: 0,
            abandoned: 0,
            duplicates: 0,
        }
    }
}

/// What a listener heard of some frames.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    pattern: LossPattern,
    played: u64,
    late: u64,
    network_ns: u64,
    playout_ns: u64,
}

impl Heard {
    fn take(&mut self, slot: Slot, fate: Playout) {
        self.pattern.push(!matches!(fate, Playout::Played { .. }));
        match fate {
            Playout::Played { playout_delay } => {
                self.played += 1;
                self.network_ns += slot.delay().unwrap_or_default().as_nanos();
                self.playout_ns += playout_delay.as_nanos();
            }
            Playout::Late => self.late += 1,
            Playout::Lost => {}
        }
    }

    /// The mean delays in the network and up to the playout; NaN if no frame was played.
    fn mean_delays_ms(&self) -> (f64, f64) {
        let mean = |sum: u64| if self.played == 0 { f64::NAN } else { sum as f64 / self.played as f64 / 1e6 };
        (mean(self.network_ns), mean(self.playout_ns))
    }
}

impl App for Voip {
    fn frames(&self, sender: Side) -> Vec<Frame> {
        let mut frames = Vec::new();
        if let Some(sender) = self.senders.iter().find(|other| other.side == sender) {
            let talk = self.talk(sender);
            self.config.jitter_buffer.play(talk, |index, fate| {
                let made = self.start + self.config.packetisation * index as u64;
                let arrived = talk.slots[index].delay().map(|delay| made + delay);
                let played = match fate {
                    Playout::Played { playout_delay } => Some(made + playout_delay),
                    Playout::Late | Playout::Lost => None,
                };
                let (index, froze) = (index as u64, Duration::ZERO);
                frames.push(Frame {
                    index,
                    made,
                    arrived,
                    fate,
                    bytes: self.message.payload.length,
                    played,
                    froze,
                });
            });
        }
        frames
    }

    fn ratings(&self, sender: Side) -> Vec<RatedInterval> {
        let Some(sender) = self.senders.iter().find(|other| other.side == sender) else { return Vec::new() };
        let talk = self.talk(sender);
        let frames = (RATED_INTERVAL.as_nanos() / self.config.packetisation.as_nanos()) as usize;
        let mut heard = vec![Heard::default(); talk.slots.len().div_ceil(frames)];
        self.config
            .jitter_buffer
            .play(talk, |index, fate| heard[index / frames].take(talk.slots[index], fate));
        let length = self.config.packetisation * frames as u64;
        let rated = heard.iter().zip(0..).filter(|(heard, _)| heard.pattern.frames > 0);
        rated
            .map(|(heard, number)| {
                let start = self.start + length * number;
                RatedInterval {
                    start,
                    end: start + length,
                    delay_ms: heard.mean_delays_ms().0,
                    loss_percent: heard.pattern.loss_percent(),
                    rating: self.rate(heard),
                }
            })
            .collect()
    }

    fn next_wakeup(&self) -> Time {
        self.next_wakeup
    }

    fn handle_wakeup(&mut self, _now: Time, commands: &mut Commands) {
        match self.phase {
            Phase::Talking => self.make_frame(commands),
            Phase::Connecting => {
                commands.push(Side::A, Command::Connect);
                self.phase = Phase::Talking;
                self.next_wakeup = self.start;
            }
            Phase::Waiting => {
                self.phase = Phase::Done;
                self.next_wakeup = Time::NEVER;
            }
            Phase::Done => {}
        }
    }

    fn handle_event(&mut self, now: Time, side: Side, event: &Event, commands: &mut Commands) {
        match *event {
            Event::Received(received) => {
                self.arrival(now, side.peer(), received.payload);
                commands.change_nothing();
            }
            // A frame has arrived with its last part, which lies within it.
            Event::ReceivedPart(part) if part.is_last => {
                let length = self.message.payload.length;
                let offset = part.payload.offset - part.payload.offset % u64::from(length);
                self.arrival(now, side.peer(), Payload { offset, length });
            }
            Event::Abandoned(_) => self.with_sender(side, |sender| sender.abandoned += 1),
            Event::Refused(_) => self.with_sender(side, |sender| sender.refused += 1),
            // The end that opened the association is told last, so both can send now.
            Event::Connected if side == Side::A => {
                self.senders.iter_mut().for_each(|sender| sender.is_up = true);
            }
            Event::Closed(_) => self.with_sender(side, |sender| sender.is_up = false),
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    fn earliest_end(&self) -> Time {
        let frames = self.config.duration.as_nanos() / self.config.packetisation.as_nanos();
        self.start + self.config.packetisation * (frames - 1)
    }

    fn report(&self, _now: Time, report: &mut Report<'_>) {
        for sender in &self.senders {
            let measures = self.measure(sender);
            match (self.config.direction, sender.side) {
                (Direction::Both, Side::A) => measures.report(&mut report.section("a_to_b")),
                (Direction::Both, Side::B) => measures.report(&mut report.section("b_to_a")),
                (Direction::AToB | Direction::BToA, _) => measures.report(report),
            }
        }
    }
}

impl Voip {
    /// Whether there are still frames to make.
    pub fn is_talking(&self) -> bool {
        self.phase == Phase::Talking
    }

    /// When the first frame is made.
    pub fn start(&self) -> Time {
        self.start
    }

    /// The measurements of this side's speech at its listener; `None` if this side sends none.
    pub fn measures(&self, sender: Side) -> Option<Measures> {
        self.senders.iter().find(|other| other.side == sender).map(|sender| self.measure(sender))
    }

    fn measure(&self, sender: &Sender) -> Measures {
        let talk = self.talk(sender);
        let mut heard = Heard::default();
        self.config.jitter_buffer.play(talk, |index, fate| heard.take(talk.slots[index], fate));
        let Heard { pattern, played, late, .. } = heard;
        let (network_ms, playout_ms) = heard.mean_delays_ms();
        let mut delays: Vec<Duration> = talk.slots.iter().filter_map(|slot| slot.delay()).collect();
        let [p95, p99] = quantiles_ms(&mut delays, [0.95, 0.99]);
        let gap = self.config.packetisation * pattern.longest;
        Measures {
            sent: sender.made,
            received: played + late,
            played,
            late,
            lost: sender.made - played - late,
            unsent: sender.unsent,
            refused: sender.refused,
            abandoned: sender.abandoned,
            duplicates: sender.duplicates,
            mean_delay_ms: network_ms,
            p95_delay_ms: p95,
            p99_delay_ms: p99,
            mouth_to_ear_ms: self.mouth_to_ear_ms(playout_ms),
            loss_percent: pattern.loss_percent(),
            burst_ratio: pattern.burst_ratio(),
            longest_gap_ms: gap.as_millis_f64(),
            rating: self.rate(&heard),
        }
    }

    fn mouth_to_ear_ms(&self, playout_ms: f64) -> f64 {
        (self.config.packetisation + self.config.codec.data().look_ahead).as_millis_f64() + playout_ms
    }

    fn rate(&self, heard: &Heard) -> Rating {
        let (network_ms, playout_ms) = heard.mean_delays_ms();
        let delay_ms = match self.config.delay {
            DelayBasis::MouthToEar => self.mouth_to_ear_ms(playout_ms),
            DelayBasis::Network => network_ms,
        };
        let burst_ratio = match self.config.burst_ratio {
            BurstRatio::Measured => heard.pattern.burst_ratio(),
            BurstRatio::Random => 1.0,
        };
        self.config.emodel.rate(CallParameters {
            // Without an arrived frame there is no delay to rate.
            delay_ms: if delay_ms.is_nan() { 0.0 } else { delay_ms },
            loss_percent: heard.pattern.loss_percent(),
            burst_ratio,
            ie: self.ie,
            bpl: self.bpl,
        })
    }

    fn talk<'a>(&self, sender: &'a Sender) -> Talk<'a> {
        Talk { slots: &sender.slots, period: self.config.packetisation }
    }

    /// Makes the next frame of every direction.
    fn make_frame(&mut self, commands: &mut Commands) {
        for sender in &mut self.senders {
            if sender.spurts.as_mut().is_some_and(|spurts| !spurts.next_is_talk()) {
                sender.slots.push(Slot::SILENT);
                continue;
            }
            sender.slots.push(Slot::LOST);
            sender.made += 1;
            if sender.is_up {
                commands.push(sender.side, Command::Send(self.message));
            } else {
                sender.unsent += 1;
            }
        }
        self.message.payload.offset += u64::from(self.message.payload.length);
        self.frames_left -= 1;
        if self.frames_left > 0 {
            self.next_wakeup += self.config.packetisation;
        } else {
            self.phase = Phase::Waiting;
            let buffer = &self.config.jitter_buffer;
            let playouts = self.senders.iter().map(|sender| buffer.longest_playout(self.talk(sender)));
            self.next_wakeup += playouts.fold(self.config.grace, Duration::max);
        }
    }

    /// A frame of `side` has arrived at the other end.
    fn arrival(&mut self, now: Time, side: Side, payload: Payload) {
        let index = payload.offset / u64::from(payload.length);
        let made = self.start + self.config.packetisation * index;
        self.with_sender(side, |sender| {
            let slot = &mut sender.slots[index as usize];
            // UDP delivers a packet twice if the network has duplicated it; the first copy counts.
            if slot.delay().is_some() {
                sender.duplicates += 1;
            } else {
                *slot = Slot::arrived(now - made);
            }
        });
    }

    fn with_sender(&mut self, side: Side, change: impl FnOnce(&mut Sender)) {
        if let Some(sender) = self.senders.iter_mut().find(|sender| sender.side == side) {
            change(sender);
        }
    }
}
