//! The end of a connection (RFC 9000 section 10): idle timeout, immediate close, closing and draining.

use smallvec::{SmallVec, smallvec};

use super::connection::{Connection, State};
use super::errors::{Violation, code};
use super::space::SpaceId;
use crate::endpoint::{CloseReason, Event, Output};
use crate::flow::Ecn;
use crate::time::{Duration, Time};
use crate::wire::quic::{Ack, Content, Frame, LEAST_SAMPLED, Level, Packet};

/// The state of an end that has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closing {
    /// When the state is over (section 10.2: three probe timeouts).
    pub(super) until: Time,
    pub(super) code: u64,
    pub(super) is_of_application: bool,
    /// Datagrams that have come since, and after how many of them the next answer leaves.
    heard: u64,
    answers_at: u64,
}

impl Connection {
    /// Three probe timeouts from now.
    fn three_timeouts(&self, now: Time) -> Time {
        now + self.longest_timeout() * 3
    }

    /// Closes the connection (section 10.2.1).
    pub(super) fn close(&mut self, now: Time, code: u64, is_of_application: bool, reason: CloseReason) {
        let until = self.three_timeouts(now);
        let closing = Closing { until, code, is_of_application, heard: 0, answers_at: 1 };
        // Before its first packet a client has nobody to tell.
        if self.state != State::Closed {
            self.send_close(now, closing);
        }
        self.state = State::Closing(closing);
        self.end(reason);
    }

    /// The peer has broken a rule (section 11).
    pub(super) fn fail(&mut self, now: Time, violation: Violation) {
        self.violation = Some(violation);
        self.close(now, violation.code, false, CloseReason::Aborted);
    }

    /// Section 10.2.1: a closing end answers what comes, ever more rarely.
    pub(super) fn answer_closing(&mut self, now: Time) {
        let State::Closing(mut closing) = self.state else { return };
        closing.heard += 1;
        if closing.heard == closing.answers_at {
            closing.answers_at *= 2;
            self.send_close(now, closing);
        }
        self.state = State::Closing(closing);
    }

    /// Sends the frame that closes, in a packet of each level that the peer may be able to read (section
    /// 10.2.3).
    fn send_close(&mut self, now: Time, closing: Closing) {
        let mut packets: SmallVec<[Packet; 1]> = smallvec![];
        let place = if self.multipath.is_some() { self.first_open().unwrap_or(0) } else { 0 };
        let mut left = self.paths[place].route.allowance();
        for id in self.space_ids() {
            let is_elsewhere = matches!(id, SpaceId::Data(other) if other != place);
            if is_elsewhere || !self.handshake.has_keys(id.level()) {
                continue;
            }
            let space = self.space_mut(id);
            let number = space.next;
            space.next += 1;
            let mut packet = self.blank(id, number);
            let space = self.space(id);
            let path = matches!(id, SpaceId::Data(_)).then_some(place as u32);
            let path = path.filter(|_| self.multipath.is_some());
            if space.arrived.waiting > 0
                && let Some(ack) =
                    space.arrived.frame(now, super::handshake::ACK_DELAY_EXPONENT, space.marks, 100)
            {
                packet.frames.push(Frame::Ack(Box::new(Ack { path, ..ack })));
            }
            let is_one_rtt = id.level() == Level::OneRtt;
            packet.frames.push(Self::close_frame(closing.code, closing.is_of_application, is_one_rtt));
            let short = LEAST_SAMPLED.saturating_sub(packet.content() + usize::from(packet.number_bytes));
            if short > 0 {
                super::send::pad(&mut packet, short);
            }
            packets.push(packet);
        }
        self.pad_initial(&mut packets);
        let is_empty = packets.is_empty();
        let content = Content::Packets(packets);
        let bytes = content.size() as u32;
        left = left.saturating_sub(bytes.into());
        if is_empty || (left == 0 && !self.paths[place].route.is_validated) {
            return;
        }
        self.paths[place].route.on_sent(bytes);
        self.stats.datagrams_sent += 1;
        self.put_out(place, content, bytes, Ecn::NotEct);
    }

    /// The peer closes (section 10.2.2): nothing is sent any more.
    pub(super) fn on_close(&mut self, now: Time, code: u64, is_of_application: bool) {
        self.state = State::Draining { until: self.three_timeouts(now) };
        self.closed_with = Some((code, is_of_application));
        self.drain(now);
        let in_order = is_of_application && code == code::NO_ERROR;
        self.end(if in_order { CloseReason::Shutdown } else { CloseReason::Aborted });
    }

    /// Nothing is sent any more (section 10.2.2).
    pub(super) fn drain(&mut self, now: Time) {
        self.state = State::Draining { until: self.three_timeouts(now) };
    }

    /// Tells the application, and stops the timers.
    pub(super) fn end(&mut self, reason: CloseReason) {
        self.loss_timer = Time::NEVER;
        self.idle_timer = Time::NEVER;
        self.keep_alive_timer = Time::NEVER;
        for path in &mut self.paths {
            path.congestion.pacing.timer = Time::NEVER;
        }
        for id in self.space_ids() {
            self.space_mut(id).arrived.on_acknowledged();
        }
        self.waiting.clear();
        if !std::mem::replace(&mut self.has_closed, true) {
            self.outputs.push_back(Output::Event(Event::Closed(reason)));
        }
    }

    /// Something has come that could be read (section 10.1).
    pub(super) fn heard(&mut self, now: Time) {
        self.has_sent_since_heard = false;
        self.restart_idle(now);
    }

    /// A packet leaves that elicits an acknowledgement; the first one since something came counts (section
    /// 10.1).
    pub(super) fn on_eliciting_sent(&mut self, now: Time) {
        if !std::mem::replace(&mut self.has_sent_since_heard, true) {
            self.restart_idle(now);
        }
        if let Some(every) = self.parameters.keep_alive.filter(|_| self.state == State::Open) {
            self.keep_alive_timer = now + every;
        }
    }

    /// Starts the idle timer anew: the shorter timeout of both ends, at least three probe timeouts.
    pub(super) fn restart_idle(&mut self, now: Time) {
        let peer = match self.peer.max_idle_timeout {
            0 => Duration::MAX,
            millis => Duration::from_nanos(millis.saturating_mul(1_000_000)),
        };
        let timeout = self.parameters.idle_timeout.min(peer).max(self.longest_timeout() * 3);
        self.idle_timer = now + timeout;
    }

    /// Nothing has come for too long: the end is silent (section 10.1).
    pub(super) fn on_idle_timer(&mut self) {
        self.state = State::Closed;
        self.end(CloseReason::Lost);
    }

    /// A PING keeps the connection alive (section 10.1.2). While an acknowledgement is outstanding there is
    /// none: each would start the probe timeout anew (RFC 9002 section 6.2.1), and an end whose `keep_alive`
    /// is shorter would never find out that nothing arrives.
    pub(super) fn on_keep_alive_timer(&mut self, now: Time) {
        self.keep_alive_timer = Time::NEVER;
        let place = if self.multipath.is_some() { self.first_open().unwrap_or(0) } else { 0 };
        if self.space(SpaceId::Data(place)).sent.eliciting > 0 {
            self.keep_alive_timer = self.parameters.keep_alive.map_or(Time::NEVER, |every| now + every);
            return;
        }
        self.wants.ping = true;
        self.space_mut(SpaceId::Data(place)).probes += 1;
    }
}
