//! How a sender asks its peer to acknowledge, and what the peer does about it
//! (draft-ietf-quic-ack-frequency-14).

use super::connection::Connection;
use super::errors::{Violation, code, violation};
use super::sent_packets::Content;
use super::space::{AckRule, SpaceId};
use crate::time::{Duration, Time};
use crate::wire::quic::{Frame, Parameters};

/// Requests on their way that are remembered: a peer may acknowledge none of them.
const MOST_ASKED: usize = 8;

/// Acknowledgements in both directions.
#[derive(Debug)]
pub(super) struct AckFrequency {
    /// When this end acknowledges data.
    pub(super) rule: AckRule,
    /// The largest sequence number that has come.
    processed: Option<u64>,
    /// The sequence number of the next request.
    next: u64,
    /// Requests that are on their way, with the delay that each asks for.
    asked: Vec<(u64, Duration)>,
    /// The delay that the peer has taken over.
    taken: Option<Duration>,
}

impl AckFrequency {
    pub(super) const fn new(rule: AckRule) -> Self {
        Self { rule, processed: None, next: 0, asked: Vec::new(), taken: None }
    }

    /// The longest delay of the peer's acknowledgements: what it has at present, or what it may have heard of
    /// (section 7).
    pub(super) fn delay_of(&self, peer: &Parameters) -> Duration {
        let present = self.taken.unwrap_or(Duration::from_millis(peer.max_ack_delay));
        self.asked.iter().map(|(_, delay)| *delay).fold(present, Duration::max)
    }

    /// The peer has got a request, and ignores those before it.
    pub(super) fn on_acknowledged(&mut self, sequence: u64) {
        if let Some((_, delay)) = self.asked.iter().find(|(number, _)| *number == sequence) {
            self.taken = Some(*delay);
            self.asked.retain(|(number, _)| *number > sequence);
        }
    }

    /// A request is taken for lost. It may have arrived, so that its delay counts until another one has;
    /// whether that is to be sent.
    pub(super) fn on_lost(&mut self, sequence: u64) -> bool {
        sequence + 1 == self.next
    }
}

impl Connection {
    /// Whether this end asks, and the peer permits it (section 3).
    pub(super) fn asks_for_acknowledgements(&self) -> bool {
        self.handshake.is_complete
            && self.parameters.ack_frequency.is_some()
            && self.peer.min_ack_delay.is_some()
    }

    /// The delay to ask for.
    fn requested_delay(&self) -> Duration {
        let least = Duration::from_nanos(self.peer.min_ack_delay.unwrap_or(0).saturating_mul(1_000));
        let wanted = self.parameters.ack_frequency.and_then(|asked| asked.max_ack_delay);
        wanted.unwrap_or(Duration::from_millis(self.peer.max_ack_delay)).max(least)
    }

    /// The frame that asks (section 4).
    pub(super) fn request_of_acknowledgements(&self) -> (Frame, Content) {
        let asked = self.parameters.ack_frequency.unwrap_or_default();
        let sequence = self.ack_frequency.next;
        let frame = Frame::AckFrequency {
            sequence,
            threshold: asked.threshold.into(),
            delay: self.requested_delay().as_nanos() / 1_000,
            reordering: asked.reordering_threshold.map_or(self.parameters.packet_threshold, u64::from),
        };
        (frame, Content::AckFrequency(sequence))
    }

    /// It has left.
    pub(super) fn note_request(&mut self) {
        let delay = self.requested_delay();
        self.stats.ack_frequency_sent += 1;
        if self.ack_frequency.asked.len() == MOST_ASKED {
            self.ack_frequency.asked.remove(0);
        }
        self.ack_frequency.asked.push((self.ack_frequency.next, delay));
        self.ack_frequency.next += 1;
    }

    /// The peer asks.
    pub(super) fn on_ack_frequency(
        &mut self,
        sequence: u64,
        threshold: u64,
        delay: u64,
        reordering: u64,
    ) -> Result<(), Violation> {
        let least = self.permits_requests()?.as_nanos() / 1_000;
        if delay < least || delay >= 1_000 << 14 {
            const REASON: &str = "a delay of acknowledgements is asked for that is not possible";
            return Err(violation(code::PROTOCOL_VIOLATION, REASON));
        }
        if self.ack_frequency.processed.is_some_and(|processed| sequence <= processed) {
            return Ok(());
        }
        self.ack_frequency.processed = Some(sequence);
        self.ack_frequency.rule = AckRule {
            every: threshold.saturating_add(1).min(u32::MAX.into()) as u32,
            delay: Duration::from_nanos(delay * 1_000),
            reordering: Some(reordering),
        };
        Ok(())
    }

    /// The peer wants an acknowledgement at once (section 5).
    pub(super) fn on_immediate_ack(&mut self, now: Time, id: SpaceId) -> Result<(), Violation> {
        self.permits_requests()?;
        let arrived = &mut self.space_mut(id).arrived;
        // A connection that has just ended, by a frame before this one, acknowledges nothing.
        if arrived.waiting > 0 {
            arrived.due = Some(now);
        }
        Ok(())
    }

    /// The shortest delay that may be asked for. Who has not said so knows no such frame (RFC 9000 section
    /// 12.4).
    fn permits_requests(&self) -> Result<Duration, Violation> {
        const REASON: &str = "a frame came that this end does not permit";
        self.parameters.min_ack_delay.ok_or(violation(code::FRAME_ENCODING_ERROR, REASON))
    }
}
