//! Opening (RFC 9293 sections 3.5 and 3.10.7), and segments that belong to no connection.

use super::config::RtoEstimator;
use super::connection::{Connection, State};
use super::delayed_ack::DelayedAck;
use super::ecn::Ecn;
use super::parameters::{MIN_MSS, Parameters};
use super::recovery::Recovery;
use super::scoreboard::Scoreboard;
use super::send::Sender;
use super::sequence::Numbering;
use super::timers::RetransmissionTimer;
use crate::endpoint::{CloseReason, Event, Output};
use crate::flow::{Ecn as EcnField, Payload};
use crate::recovery::pacing::Pacing;
use crate::recovery::rack::Rack;
use crate::recovery::rate_sample::RateSampler;
use crate::rng::Draw as _;
use crate::time::{Duration, Time};
use crate::wire::tcp::{Flags, Segment, Timestamps};

/// The MSS of a peer that announces none (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;
/// The largest shift count (RFC 7323 section 2.3).
const MAX_WINDOW_SCALE: u8 = 14;
/// The first dynamic port (RFC 6335 section 6).
const FIRST_DYNAMIC_PORT: u16 = 49_152;
/// The period of the clock of initial sequence numbers in nanoseconds (RFC 9293 section 3.4.1: 4
/// microseconds).
const ISN_TICK_NS: u64 = 4_000;
/// How long a SYN waits that is sent again at once (Linux: `TCP_TIMEOUT_MIN`).
const SYN_AT_ONCE: Duration = Duration::from_millis(2);
/// The least RTO for data after a SYN that timed out, as long as nothing has been measured (RFC 6298 section
/// 5.7).
const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// A timeout of a second doubles this often before it is the largest (Linux: `tcp_model_timeout`).
const MOST_DOUBLINGS: u32 = 6;

/// The exchange of SYNs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    /// When SYN or SYN-ACK is sent again.
    pub(super) timer: Time,
    sent_at: Time,
    retransmissions: u32,
    rto: Duration,
    /// Our timestamp in the first SYN.
    first_stamp: u32,
    /// Whether the peer opened the connection: an application that did not ask for it need not be told of a
    /// failure.
    pub(super) is_passive: bool,
    /// The options of the peer's SYN.
    peer: PeerOptions,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            timer: Time::NEVER,
            sent_at: Time::ZERO,
            retransmissions: 0,
            rto: Duration::ZERO,
            first_stamp: 0,
            is_passive: false,
            peer: PeerOptions::default(),
        }
    }
}

impl Handshake {
    /// Whether SYN or SYN-ACK has not been sent again.
    pub(super) const fn is_first(&self) -> bool {
        self.retransmissions == 0
    }

    /// When SYN or SYN-ACK was last sent.
    pub(super) const fn sent_at(&self) -> Time {
        self.sent_at
    }
}

/// Those options of the peer's SYN on which ours depend.
#[derive(Clone, Copy, Debug, Default)]
struct PeerOptions {
    window_scale: Option<u8>,
    sack: bool,
    timestamps: bool,
}

impl Handshake {
    /// Whether the next SYN-ACK has counters of accurate ECN in Linux: the first one, or the first two of an
    /// end that has sent a SYN as well (`tcp_synack_options`, `tcp_syn_options`).
    pub(super) const fn may_have_counters(&self) -> bool {
        self.retransmissions < if self.is_passive { 1 } else { 2 }
    }
}

impl Connection {
    /// Opens actively. Ignored while a connection is open or being opened.
    pub(super) fn connect(&mut self, now: Time) {
        if !self.has_closed {
            return;
        }
        if self.connections > 0 {
            // A new port, so that the peer cannot confuse this connection with the last one (RFC 6056 section
            // 3.3.1).
            self.ports[0] = self.ports[0].checked_add(1).unwrap_or(FIRST_DYNAMIC_PORT);
        }
        self.reset(now);
        self.state = State::SynSent;
        if !self.defer_syn(now) {
            self.send_syn(now);
        }
    }

    /// Resets everything to the beginning of a connection.
    #[cold]
    fn reset(&mut self, now: Time) {
        self.hand_over_unread(now);
        self.connections += 1;
        self.stats.connections += 1;
        self.has_closed = false;
        if let Some(fast_open) = &mut self.fast_open {
            fast_open.begin();
        }
        self.time_wait = Time::NEVER;
        self.own_numbers = Numbering::new(self.initial_number(now));
        let (rto, first_stamp) = (self.parameters.rto_initial, self.timestamp(now));
        self.handshake = Handshake { rto, sent_at: now, first_stamp, ..Handshake::default() };
        self.mss = self.parameters.mss(self.mtu, self.ip);
        (self.has_timestamps, self.has_sack) = (false, false);
        self.recent_timestamp = 0;
        self.answered_at = None;
        self.sender = Sender::default();
        self.board = Scoreboard::default();
        self.recovery = Recovery::default();
        self.rack = Rack::default();
        self.rtt = self.parameters.rtt();
        self.rate = RateSampler::default();
        self.timer = RetransmissionTimer::default();
        self.heard_at = Time::NEVER;
        self.pacing = Pacing::default();
        self.ecn = Ecn::default();
        let is_paused = std::mem::take(&mut self.receiver).is_paused;
        self.receiver.is_paused = is_paused;
        self.receiver.buffer = self.new_receive_buffer();
        self.delayed_ack = DelayedAck::default();
    }

    /// The initial sequence number (RFC 9293 section 3.4.1): a random one, or one by RFC 6528 where strangers
    /// must not guess it.
    fn initial_number(&mut self, now: Time) -> u32 {
        match &mut self.secret_numbers {
            Some(numbers) => (numbers.bits() as u32).wrapping_add((now.as_nanos() / ISN_TICK_NS) as u32),
            None => self.rng.bits() as u32,
        }
    }

    /// Whether a SYN may open another connection between the same ports although this one is in TIME-WAIT: by
    /// its number or its timestamp, it lies behind everything that the last one sent (RFC 9293 section
    /// 3.10.7.4, RFC 6191 section 2).
    pub fn gives_way_to(&self, segment: &Segment) -> bool {
        let flags = segment.flags;
        let opens = flags.has(Flags::SYN) && !flags.has(Flags::ACK) && !flags.has(Flags::RST);
        if self.state != State::TimeWait || !opens {
            return false;
        }
        let is_behind = segment.sequence.wrapping_sub(self.peer_numbers.wire(self.receiver.next)) as i32 > 0;
        let is_later = segment.timestamps.is_some_and(|timestamps| {
            self.has_timestamps && timestamps.value.wrapping_sub(self.recent_timestamp) as i32 > 0
        });
        is_behind || is_later
    }

    /// Whether a SYN opens a connection here: there was none before, or the peer has begun another one and so
    /// has forgotten the last one.
    pub(crate) fn opens_anew(&self, segment: &Segment) -> bool {
        if segment.destination_port != self.ports[0] {
            return false;
        }
        // The SYN comes from a port after the last one, so it is not a late SYN of an earlier connection.
        let is_newer = segment.source_port.wrapping_sub(self.ports[1]) as i16 > 0
            || (self.ports[1] == u16::MAX && segment.source_port == FIRST_DYNAMIC_PORT);
        self.connections == 0 || is_newer
    }

    /// Opens passively: answers a SYN.
    #[cold]
    pub(super) fn accept(&mut self, now: Time, segment: &Segment, mark: EcnField) {
        // The peer has closed or given up the last connection, and so does this end.
        let reason = match self.state {
            State::LastAck | State::TimeWait => CloseReason::Shutdown,
            _ => CloseReason::Aborted,
        };
        self.report_closed(reason);
        self.reset(now);
        self.ports = [segment.destination_port, segment.source_port];
        self.take_syn(segment);
        self.ecn.accept(self.parameters.ecn, segment.flags, mark);
        self.state = State::SynReceived;
        self.handshake.is_passive = true;
        if !self.open_fast(now, segment, mark) {
            self.send_syn(now);
        }
    }

    /// Takes the options of the peer's SYN or SYN-ACK.
    fn take_syn(&mut self, segment: &Segment) {
        self.peer_numbers = Numbering::new(segment.sequence);
        self.receiver.next = 1;
        let peer = PeerOptions {
            window_scale: segment.window_scale.filter(|_| self.parameters.window_scaling),
            sack: segment.sack_permitted && self.parameters.sack,
            timestamps: segment.timestamps.is_some() && self.parameters.timestamps,
        };
        self.handshake.peer = peer;
        if let Some(timestamps) = segment.timestamps {
            self.recent_timestamp = timestamps.value;
        }
        self.has_sack = peer.sack;
        self.has_timestamps = peer.timestamps;
        let peer_mss = u32::from(segment.mss.unwrap_or(DEFAULT_MSS)).max(MIN_MSS);
        let options = self.option_bytes(peer.timestamps);
        // RFC 6691: the announced size does not count options; segments are shorter by their length.
        self.mss = self.parameters.mss(self.mtu, self.ip).min(peer_mss) - options;
        if let Some(scale) = peer.window_scale {
            self.sender.window_scale = scale.min(MAX_WINDOW_SCALE);
            self.receiver.window_scale = self.own_window_scale();
        }
        // The window of a SYN is never scaled (RFC 7323 section 2.2).
        self.sender.set_window(u64::from(segment.window));
    }

    /// The smallest shift count with which the whole buffer can be announced.
    fn own_window_scale(&self) -> u8 {
        let mut scale = 0;
        while scale < MAX_WINDOW_SCALE && self.parameters.receive_buffer >> scale > 65_535 {
            scale += 1;
        }
        scale
    }

    /// Whether both ends scale windows.
    pub(super) const fn has_window_scaling(&self) -> bool {
        self.handshake.peer.window_scale.is_some()
    }

    /// Bytes of options in every segment.
    pub(super) const fn segment_options(&self) -> u32 {
        self.option_bytes(self.has_timestamps)
    }

    /// The window of our SYN.
    pub(super) fn first_window(&self) -> u64 {
        // Linux, tcp_connect_init and tcp_openreq_init_rwin: the options count once the peer's SYN is known.
        let mss = self.parameters.mss(self.mtu, self.ip) - self.segment_options();
        if let Some(window) = self.window_of_open_fast() {
            return window;
        }
        self.receiver
            .buffer
            .as_ref()
            .map_or(self.parameters.receive_buffer, |buffer| buffer.first_window(mss))
    }

    /// Sends SYN, or SYN-ACK when the peer's SYN has arrived, and starts its timer.
    pub(super) fn send_syn(&mut self, now: Time) {
        let Handshake { peer, rto, .. } = self.handshake;
        let answers = self.state != State::SynSent;
        let (rare, payload) = self.parts_of_syn(answers);
        let times = self.handshake.retransmissions;
        let flags = if answers {
            let keeps = self.parameters.procedures.repeats_ecn_option;
            let flags = self.ecn.syn_ack_flags(times, keeps, self.handshake.is_passive);
            Flags::SYN.with(Flags::ACK).with(flags)
        } else {
            // RFC 3168 section 6.1.1.1, RFC 9768 section 3.1.4.1: the network may drop a SYN because it asks
            // for ECN.
            Flags::SYN.with(if times < 2 { Ecn::syn_flags(self.parameters.ecn) } else { Flags::NONE })
        };
        let parameters = &self.parameters;
        let may = |wanted: bool, heard: bool| wanted && (!answers || heard);
        let segment = Segment {
            source_port: self.ports[0],
            destination_port: self.ports[1],
            sequence: self.own_numbers.wire(0),
            acknowledgement: if answers { self.peer_numbers.wire(self.receiver.next) } else { 0 },
            flags,
            window: self.first_window().min(65_535) as u16,
            mss: Some(parameters.mss(self.mtu, self.ip).min(65_535) as u16),
            window_scale: may(parameters.window_scaling, peer.window_scale.is_some())
                .then(|| self.own_window_scale()),
            sack_permitted: may(parameters.sack, peer.sack),
            timestamps: may(parameters.timestamps, peer.timestamps)
                .then(|| Timestamps { value: self.timestamp(now), echo: self.recent_timestamp }),
            rare,
            payload,
            ..Segment::blank()
        };
        let mut segment = segment;
        if answers {
            self.add_counters(&mut segment, 0);
        }
        self.sender.next = self.sender.next.max(1 + u64::from(payload.length));
        // The peer counts the window from the first byte that it sends.
        self.receiver.edge = self.receiver.next.max(1) + u64::from(segment.window);
        self.handshake.sent_at = now;
        self.handshake.timer = self.deadline(now, rto);
        self.transmit_segment(segment);
    }

    /// Handles a SYN or SYN-ACK that is not answered in time (RFC 9293 section 3.8.3, RFC 6298 section 5).
    #[cold]
    pub(super) fn on_handshake_timer(&mut self, now: Time) {
        self.handshake.timer = Time::NEVER;
        if self.send_deferred_syn(now) {
            return;
        }
        if self.has_tried_enough(now) {
            return self.give_up_opening(CloseReason::Lost);
        }
        let retransmissions = self.handshake.retransmissions + 1;
        if self.is_unconfirmed() && retransmissions == 2 {
            // As a connection that opens after a lost SYN-ACK, below.
            self.enter_loss(now);
        }
        let is_linear =
            self.state == State::SynSent && retransmissions <= self.parameters.syn_linear_timeouts;
        if !is_linear {
            self.handshake.rto = self.handshake.rto.doubled().min(self.parameters.rto_max);
        }
        self.repeat_syn(now);
    }

    /// Whether SYN or SYN-ACK is not sent again. Timeouts that do not back off do not count, but then the
    /// time is up in which as many timeouts would have backed off (Linux: `tcp_write_timeout`).
    fn has_tried_enough(&self, now: Time) -> bool {
        let Parameters { syn_retries, syn_linear_timeouts, rto_initial, .. } = self.parameters;
        // Linux, tcp_fastopen_synack_timer: once more where data has been taken.
        let most = syn_retries + u32::from(self.is_unconfirmed());
        if self.state != State::SynSent || syn_linear_timeouts == 0 {
            return self.handshake.retransmissions >= most;
        }
        let passed = self.timestamp(now).wrapping_sub(self.handshake.first_stamp);
        // Linux, tcp_model_timeout.
        let length = rto_initial * ((2_u64 << syn_retries.min(MOST_DOUBLINGS)) - 1)
            + self.parameters.rto_max * u64::from(syn_retries.saturating_sub(MOST_DOUBLINGS));
        self.handshake.retransmissions >= most + syn_linear_timeouts
            || Duration::from_millis(u64::from(passed)) >= length
    }

    /// Sends SYN or SYN-ACK again.
    pub(super) fn repeat_syn(&mut self, now: Time) {
        self.handshake.retransmissions += 1;
        self.stats.syns_retransmitted += 1;
        self.send_syn(now);
    }

    /// Has the SYN sent again soon, as the peer still had an earlier connection, which our reset has ended by
    /// then (Linux: `tcp_rcv_synsent_state_process`).
    fn repeat_syn_at_once(&mut self, now: Time) {
        let has_left = self.sender.next > 0;
        if self.parameters.procedures.repeats_syn_at_once && self.handshake.is_first() && has_left {
            self.handshake.timer = self.deadline(now, SYN_AT_ONCE);
        }
    }

    /// Answers a SYN that comes again: the peer has not received our SYN-ACK.
    pub(super) fn answer_syn_again(&mut self, now: Time, segment: &Segment, mark: EcnField) {
        if self.peer_numbers.wire(0) != segment.sequence || !self.may_answer_again(now, segment) {
            return;
        }
        if self.ecn.accept_again(self.parameters.ecn, segment.flags, mark) {
            // RFC 9768 section 3.1.5.
            self.out_of_the_blue(segment);
            return self.give_up_opening(CloseReason::Aborted);
        }
        self.repeat_syn(now);
    }

    /// The number up to which a segment acknowledges what was sent, our SYN at least; [`None`] if it does
    /// not.
    pub(super) fn acknowledged_number(&self, segment: &Segment) -> Option<u64> {
        let number = self.own_numbers.number(segment.acknowledgement, self.sender.unacknowledged)?;
        (1..=self.sender.next).contains(&number).then_some(number)
    }

    /// Whether the timestamp that a SYN-ACK echoes is that of no SYN of ours (Linux:
    /// `tcp_rcv_synsent_state_process`).
    fn echoes_another(&self, now: Time, segment: &Segment) -> bool {
        segment.timestamps.filter(|stamp| self.parameters.timestamps && stamp.echo != 0).is_some_and(
            |stamp| {
                let age = self.timestamp(now).wrapping_sub(stamp.echo);
                age > self.timestamp(now).wrapping_sub(self.handshake.first_stamp)
            },
        )
    }

    /// A passive opening that fails is not reported: the application has not heard of it yet.
    pub(super) fn give_up_opening(&mut self, reason: CloseReason) {
        self.has_closed |= self.handshake.is_passive;
        self.end(reason);
    }

    /// RFC 9293 section 3.10.7.3: a segment arrives in SYN-SENT.
    #[cold]
    pub(super) fn on_segment_syn_sent(&mut self, now: Time, segment: &Segment, mark: EcnField) {
        let flags = segment.flags;
        let acknowledged = self.acknowledged_number(segment).filter(|_| flags.has(Flags::ACK));
        if flags.has(Flags::ACK) && acknowledged.is_none() {
            self.repeat_syn_at_once(now);
        }
        if flags.has(Flags::ACK) && (acknowledged.is_none() || self.echoes_another(now, segment)) {
            return self.out_of_the_blue(segment);
        }
        if flags.has(Flags::RST) {
            if acknowledged.is_some() {
                self.end(CloseReason::Aborted);
            }
            return;
        }
        if !flags.has(Flags::SYN) {
            return;
        }
        self.take_syn(segment);
        if let Some(number) = acknowledged {
            let was_marked = self.ecn.complete(self.parameters.ecn, segment, mark);
            self.establish(now, number);
            if was_marked {
                self.enter_cwr(now);
            }
            if !self.take_fast_open_answer(now, segment, number, mark) {
                self.send_ack(now);
            }
            self.send(now);
            if self.receiver.unread > 0 && !self.receiver.is_paused {
                self.read(now);
            }
        } else {
            // Both ends open at the same time.
            self.ecn.accept(self.parameters.ecn, flags, mark);
            self.state = State::SynReceived;
            self.send_syn(now);
        }
    }

    /// A segment arrives in SYN-RECEIVED (RFC 9293 section 3.10.7.4; Linux: `tcp_check_req`). Returns whether
    /// it opens the connection and is to be processed further.
    #[cold]
    pub(super) fn on_segment_syn_received(&mut self, now: Time, segment: &Segment, mark: EcnField) -> bool {
        let flags = segment.flags;
        let [has_ack, is_reset, is_syn] = [Flags::ACK, Flags::RST, Flags::SYN].map(|flag| flags.has(flag));
        let repeats_syn = is_syn && !is_reset && segment.sequence == self.peer_numbers.wire(0);
        if repeats_syn && !has_ack {
            self.answer_syn_again(now, segment, mark);
            return false;
        }
        let acknowledged = self.acknowledged_number(segment);
        let (is_request, is_linux) =
            (self.handshake.is_passive, self.parameters.procedures.has_small_sockets);
        if is_request && is_linux && has_ack && acknowledged.is_none() {
            self.out_of_the_blue(segment);
            return false;
        }
        // Both ends may open at the same time, so that the peer's SYN comes again with its acknowledgement.
        let answers_ours = repeats_syn && !is_request;
        if !answers_ours && !self.is_acceptable_request(segment) {
            if !is_reset && self.may_answer_again(now, segment) {
                self.send_ack(now);
            }
            return false;
        }
        if is_reset {
            if self.peer_numbers.wire(self.receiver.next) == segment.sequence {
                self.give_up_opening(CloseReason::Aborted);
            } else {
                // RFC 5961 section 3.2.
                self.challenge(now);
            }
            return false;
        }
        if is_syn && !answers_ours {
            if !is_request {
                // RFC 5961 section 4.
                self.challenge(now);
                return false;
            }
            if is_linux {
                self.out_of_the_blue(segment);
            }
            self.give_up_opening(CloseReason::Aborted);
            return false;
        }
        if !has_ack {
            return false;
        }
        let Some(number) = acknowledged else {
            self.out_of_the_blue(segment);
            return false;
        };
        if is_syn {
            // Both ends have opened at the same time, and the peer's SYN came already (RFC 2883 section 4).
            self.receiver.duplicate = self.parameters.dsack.then_some((0, 1));
        } else {
            let window = self.offered_window(segment);
            self.sender.set_window(window);
        }
        let was_marked = self.ecn.on_handshake_ack(segment);
        self.establish(now, number);
        if was_marked {
            self.enter_cwr(now);
        }
        self.take_fast_open_answer(now, segment, number, EcnField::NotEct);
        true
    }

    /// Whether a part of a segment lies within the window that our SYN-ACK has opened (RFC 9293 section 3.4,
    /// table 6; Linux: `tcp_in_window`), and it is not older than the peer's SYN (RFC 7323 section 5.3).
    fn is_acceptable_request(&self, segment: &Segment) -> bool {
        let (next, edge) = (self.receiver.next, self.receiver.edge);
        let Some(start) = self.peer_numbers.number(segment.sequence, next) else { return false };
        let end = start + u64::from(segment.sequence_length());
        let is_within = start == next || (end > next && start < edge) || (start == edge && start == end);
        is_within && (self.age(segment) <= 0 || segment.flags.has(Flags::RST))
    }

    /// Opens the connection: the SYN of both ends are acknowledged.
    #[cold]
    fn establish(&mut self, now: Time, number: u64) {
        self.handshake.timer = Time::NEVER;
        self.state = State::Established;
        self.stats.bytes_acknowledged += number - 1;
        self.set_up(now, number, true);
        if !self.has_deferred_syn() {
            self.outputs.push_back(Output::Event(Event::Connected));
        }
    }

    /// Prepares for data, of which that before `number` has been acknowledged. With `measures`, the handshake
    /// has measured the round-trip time.
    pub(super) fn set_up(&mut self, now: Time, number: u64, measures: bool) {
        let Handshake { sent_at, retransmissions, .. } = self.handshake;
        if self.parameters.procedures.repeats_ecn_option && self.parameters.ecn_option {
            self.mss -= self.ecn.room_for_counters(self.segment_options());
        }
        self.sender.unacknowledged = number;
        self.sender.window_by = (self.receiver.next, number);
        self.board = Scoreboard::default();
        self.board.highest_sacked = number;
        self.recovery = Recovery::new(number);
        // RFC 5681 section 3.1, RFC 6928 section 2: one segment after a lost SYN.
        let cut = if self.parameters.procedures.forgives_one_lost_syn { 2 } else { 1 };
        let initial_cwnd =
            if retransmissions >= cut { self.mss } else { self.parameters.initial_cwnd(self.mss) };
        if !self.has_own_cc {
            let seed = self.rng.bits();
            let setup = self.parameters.control_setup(self.mss, initial_cwnd, seed, self.mtu - self.mss);
            self.build_control(setup);
            self.begin_send_queue();
        }
        if !measures || self.parameters.rto_estimator == RtoEstimator::MeanDeviation {
            // ProcessSynSent of the model: only data is measured.
        } else if retransmissions == 0 {
            // RFC 6298 section 3: no sample from what was sent twice.
            let rtt = now.saturating_since(sent_at);
            self.take_rtt_sample(now, rtt, rtt);
            self.rack.advance(now, sent_at, 0, false, None);
        } else if self.parameters.procedures.raises_rto_after_lost_syn {
            let rto = self.rtt.rto().max(RTO_AFTER_LOST_SYN);
            self.rtt.set_rto(rto.min(self.parameters.rto_max));
        }
        self.receiver.edge = self.receiver.edge.max(self.receiver.next);
        self.delayed_ack = DelayedAck::new(self.receiver.next, self.mss);
        let (next, scale, window) = (self.receiver.next, self.receiver.window_scale, self.last_window());
        let options = self.segment_options();
        if let Some(buffer) = &mut self.receiver.buffer {
            buffer.establish(now, next, window, options, scale);
        }
    }

    /// Answers a segment that belongs to no connection.
    #[cold]
    pub(crate) fn out_of_the_blue(&mut self, segment: &Segment) {
        if let Some(reset) = reset_for(segment) {
            self.transmit_segment(reset);
        }
    }
}

/// The answer to a segment that belongs to no connection, unless it is a reset itself (RFC 9293 section
/// 3.10.7.1).
pub(super) fn reset_for(segment: &Segment) -> Option<Segment> {
    if segment.flags.has(Flags::RST) {
        return None;
    }
    let has_ack = segment.flags.has(Flags::ACK);
    let after = segment.sequence.wrapping_add(segment.sequence_length());
    Some(Segment {
        source_port: segment.destination_port,
        destination_port: segment.source_port,
        sequence: if has_ack { segment.acknowledgement } else { 0 },
        acknowledgement: if has_ack { 0 } else { after },
        flags: if has_ack { Flags::RST } else { Flags::RST.with(Flags::ACK) },
        payload: Payload::default(),
        ..Segment::blank()
    })
}
