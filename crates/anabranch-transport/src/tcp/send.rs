//! Sending: the stream to send, when a segment may leave, and the segments themselves.

use super::burst::Deferral;
use super::config::Nagle;
use super::connection::{Connection, State};
use super::marks::Marks;
use super::parameters::MIN_MSS;
use super::scoreboard::Sent;
use super::subflow::OptionSpace;
use crate::cc::{CongestionControl as _, IdleEvent, SentEvent};
use crate::endpoint::{Event, Output};
use crate::flow::Payload;
use crate::time::Time;
use crate::wire::tcp::{Flags, MAX_OPTION_BYTES, SackBlock, Segment, TIMESTAMPS_BYTES, Timestamps};
use crate::wire::{Body, Packet};

/// The data to send, and the limits for it. Numbers are those of [`super::sequence`].
#[derive(Debug)]
pub(super) struct Sender {
    /// SND.UNA: the first number that is not acknowledged cumulatively.
    pub(super) unacknowledged: u64,
    /// SND.NXT: the next number to send.
    pub(super) next: u64,
    /// Bytes that the application has written so far.
    pub(super) written: u64,
    /// Whether the application has finished writing, so that FIN follows.
    pub(super) is_finished: bool,
    pub(super) has_sent_fin: bool,
    /// Whether the application waits for room.
    pub(super) has_refused: bool,
    /// SND.WND in bytes, and the largest window that was ever offered.
    pub(super) window: u64,
    pub(super) max_window: u64,
    pub(super) window_scale: u8,
    /// SND.WL1 and SND.WL2: sequence and acknowledgement number of the segment that set the window.
    pub(super) window_by: (u64, u64),
    /// Marks that an application has set in the stream; empty in simulations.
    pub(super) marks: Marks,
    /// The end of the last segment that was not full (Minshall).
    small_end: u64,
    pub(super) last_sent_at: Time,
    /// When anything was last sent, acknowledgements included.
    pub(super) last_packet_at: Time,
    pub(super) usage: WindowUsage,
}

/// Whether the congestion window is used (Linux: `tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowUsage {
    is_limited: bool,
    most_out: u32,
    round_end: u64,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            unacknowledged: 0,
            next: 0,
            written: 0,
            is_finished: false,
            has_sent_fin: false,
            has_refused: false,
            window: 0,
            max_window: 0,
            window_scale: 0,
            window_by: (0, 0),
            marks: Marks::default(),
            small_end: 0,
            last_sent_at: Time::ZERO,
            last_packet_at: Time::ZERO,
            usage: WindowUsage::default(),
        }
    }
}

impl Sender {
    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window;
        self.max_window = self.max_window.max(window);
    }

    /// The number behind the last byte that may be sent.
    pub(super) const fn window_end(&self) -> u64 {
        self.unacknowledged + self.window
    }

    /// Bytes that wait to be sent for the first time.
    pub(super) const fn unsent(&self) -> u64 {
        // The last byte written has the number `written`.
        (self.written + 1).saturating_sub(if self.next == 0 { 1 } else { self.next })
    }

    const fn fin_waits(&self) -> bool {
        self.is_finished && !self.has_sent_fin
    }

    /// Whether anything waits to be sent for the first time.
    pub(super) const fn has_unsent(&self) -> bool {
        self.unsent() > 0 || self.fin_waits()
    }
}

/// What limits a call of [`Connection::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Push {
    /// The windows and Nagle's algorithm decide.
    Normal,
    /// One segment whatever the congestion window says: a tail loss probe (RFC 8985 section 7.3).
    Probe,
    /// Everything there is, however little (F-RTO).
    WithoutNagle,
}

impl Connection {
    /// Room in the send buffer in bytes.
    #[inline]
    pub(super) fn send_room(&self) -> u64 {
        let held = self.sender.written + 1 - self.sender.unacknowledged.clamp(1, self.sender.written + 1);
        self.parameters.send_buffer.saturating_sub(held)
    }

    /// Tells an application that is waiting that a third of the send buffer is free (Linux:
    /// `sk_stream_is_writeable`).
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn report_writable(&mut self) {
        if self.sender.has_refused && self.send_room() >= self.parameters.send_buffer.div_ceil(3) {
            self.sender.has_refused = false;
            self.outputs.push_back(Output::Event(Event::Writable));
        }
    }

    pub(super) fn in_flight_bytes(&self) -> u32 {
        self.board.in_flight().saturating_mul(self.mss)
    }

    /// Bytes in flight, as they are counted when the window is reduced.
    pub(super) fn flight_bytes(&self) -> u32 {
        if self.inflates() { self.flight_size(self.sender.unacknowledged) } else { self.in_flight_bytes() }
    }

    /// The most bytes of a segment. It is at most half the largest window, so that two segments can be on
    /// their way where the receiver's buffer is small (Linux: `tcp_bound_to_half_wnd`).
    #[inline]
    pub(super) fn segment_limit(&self) -> u32 {
        let max_window = self.sender.max_window;
        // Linux: TCP_MSS_DEFAULT.
        let limit = if max_window > 536 { max_window / 2 } else { max_window };
        if limit == 0 { self.mss } else { self.mss.min((limit as u32).max(MIN_MSS - TIMESTAMPS_BYTES)) }
    }

    /// Sends what may be sent. An end that only receives has nothing to look at.
    #[inline]
    pub(super) fn send(&mut self, now: Time) {
        let is_sender = self.sender.has_unsent() || !self.board.is_empty();
        if is_sender && self.state.can_send() {
            self.push(now, Push::Normal);
        }
    }

    /// Sends new segments as far as `push` allows (Linux: `tcp_write_xmit`). Returns whether it sent any.
    pub(super) fn push(&mut self, now: Time, push: Push) -> bool {
        let mut sent = 0;
        let mut deferral = None;
        // Segments of the present burst that are still to be sent.
        let (mut left, mut is_burst, mut continues) = (0, false, false);
        // Whether the first of them starts the timer.
        let mut starts_timer = false;
        let mut cwnd = self.cwnd();
        let mut largest = self.largest_burst(cwnd);
        let sending_changes_limits = !self.cc.is_only_window();
        // What sending does not change.
        let (arrived, window_end, limit) =
            (self.arrived_in_flight(), self.sender.window_end(), self.segment_limit());
        let mut unsent = self.sender.unsent();
        loop {
            if unsent == 0 && !self.sender.fin_waits() {
                break;
            }
            let is_full = self.board.in_flight() + arrived >= cwnd;
            if push != Push::Probe && (is_full || (left == 0 && self.is_paced(now))) {
                break;
            }
            if left == 0 && push != Push::Probe {
                if sending_changes_limits {
                    largest.of(self);
                }
                deferral = self.deferral(now, &mut largest, cwnd);
                if deferral.is_some() {
                    break;
                }
                left = self.burst(&mut largest, cwnd);
                (is_burst, continues) = (left > 1, false);
                self.pacing.begin_packet(now);
            } else if push == Push::Probe {
                self.pacing.begin_packet(now);
            }
            let length = self.sender.marks.limit(self.sender.next, unsent.min(u64::from(limit))) as u32;
            let end = self.sender.next + u64::from(length);
            let fin = self.sender.fin_waits() && u64::from(length) == unsent && end < window_end;
            if end > window_end || (length == 0 && !fin) {
                break;
            }
            let is_small = length < limit;
            if is_small && !fin && push == Push::Normal && self.nagle_waits() && !self.sender.marks.ends(end)
            {
                break;
            }
            if is_small {
                self.sender.small_end = end;
            }
            left = left.saturating_sub(1);
            if sent == 0 {
                starts_timer = self.next_starts_timer();
            }
            self.send_new(now, length, fin, continues, is_burst && left == 0);
            continues = true;
            unsent -= u64::from(length);
            if sending_changes_limits {
                cwnd = self.cwnd();
            }
            debug_assert_eq!(cwnd, self.cwnd(), "sending leaves the window as it is");
            debug_assert_eq!(unsent, self.sender.unsent(), "what is unsent is counted along");
            sent += 1;
            if push == Push::Probe {
                break;
            }
        }
        let is_full = self.board.in_flight() + arrived >= cwnd;
        let is_limited = is_full || deferral == Some(Deferral::CongestionWindow);
        if sent > 0 || is_limited {
            self.record_window_usage(is_limited, cwnd);
        }
        if sent > 0 {
            self.recovery.prr.on_sent(sent);
            let waits_for_probe = push != Push::Probe && self.schedule_loss_probe(now, false);
            if starts_timer && !waits_for_probe {
                self.rearm_rto(now);
            }
        } else if self.board.is_empty() && self.sender.has_unsent() && self.pacing.timer.is_never() {
            self.start_persist_timer(now);
        }
        sent > 0
    }

    /// Whether the congestion window, of `cwnd` segments, has room for one more.
    #[inline]
    pub(super) fn may_add_to_flight(&self, cwnd: u32) -> bool {
        self.board.in_flight() + self.arrived_in_flight() < cwnd
    }

    /// Segments that have arrived, as selective acknowledgements say, and count as on their way all the same.
    #[inline]
    fn arrived_in_flight(&self) -> u32 {
        if self.board.sacked == 0 || !self.recovery.is_calm() {
            0
        } else if !self.parameters.limited_transmit {
            // Without RFC 3042, selective acknowledgements let no new data out.
            self.board.sacked
        } else if self.parameters.procedures.limits_limited_transmit {
            // RFC 3042 section 2: two segments at most.
            self.board.sacked.saturating_sub(2)
        } else {
            0
        }
    }

    /// Whether less than a full segment waits for more data.
    #[inline]
    pub(super) fn nagle_waits(&self) -> bool {
        self.sender.marks.is_corked
            || self.sender.marks.holds
            || match self.parameters.nagle {
                Nagle::Off => false,
                // Linux: tcp_minshall_check.
                Nagle::Minshall => {
                    !self.board.is_empty() && self.sender.small_end > self.sender.unacknowledged
                }
                // RFC 9293 section 3.7.4.
                Nagle::Rfc896 => !self.board.is_empty(),
            }
    }

    /// Whether the next segment of the stream starts the retransmission timer.
    #[inline]
    fn next_starts_timer(&self) -> bool {
        self.board.is_empty() || self.timer.is_loss_probe()
    }

    /// Sends the next segment of the stream, without its timer; it `continues` several that leave together,
    /// or is the last one of them, and `ends_burst`.
    fn send_new(&mut self, now: Time, length: u32, fin: bool, continues: bool, ends_burst: bool) {
        let start = self.sender.next;
        let was_idle = self.board.is_empty();
        self.sender.next += u64::from(length) + u64::from(fin);
        self.sender.marks.on_sent(self.sender.next);
        if fin {
            self.record_fin_sent();
        }
        let outstanding = self.in_flight_bytes() + self.mss;
        let rate = self.rate.mark(now, was_idle, outstanding);
        self.board.push(Sent {
            start,
            length,
            fin,
            sacked: false,
            lost: false,
            retransmitted: false,
            ever_retransmitted: false,
            continues,
            departure: now,
            order: 0,
            rate,
        });
        self.stats.data_segments_sent += 1;
        self.stats.bytes_sent += u64::from(length);
        self.transmit_data(
            now,
            start,
            length,
            Flags::default().with_if(fin, Flags::FIN).with_if(ends_burst, Flags::PSH),
            false,
        );
        let is_app_limited = rate.is_app_limited();
        self.cc.on_sent(&SentEvent { is_app_limited, ..SentEvent::new(now, self.mss, outstanding) });
    }

    /// Sends a segment again, by itself; with `counts`, its retransmission counts as on its way (a probe's
    /// does not).
    pub(super) fn retransmit(&mut self, now: Time, id: u64, counts: bool) {
        self.board.cut_off(id);
        self.retransmit_part(now, id, counts, false);
    }

    /// Sends a segment again, which may be the last of several that leave together.
    pub(super) fn retransmit_part(&mut self, now: Time, id: u64, counts: bool, ends_burst: bool) {
        let outstanding = self.in_flight_bytes() + self.mss;
        let rate = self.rate.mark(now, false, outstanding);
        self.pacing.begin_packet(now);
        self.board.resend(id, now, rate, counts);
        let Sent { start, length, fin, .. } = *self.board.get(id);
        let flags = Flags::default().with_if(fin, Flags::FIN).with_if(ends_burst, Flags::PSH);
        self.stats.data_segments_retransmitted += 1;
        self.recovery.retransmissions += 1;
        if self.parameters.procedures.tells_duplicates_apart && self.parameters.undo {
            self.recovery.reported.record_retransmission(start, start + u64::from(length) + u64::from(fin));
        }
        self.transmit_data(now, start, length, flags, true);
        if counts {
            self.recovery.record_retransmission(self.timestamp(now));
        }
        let is_app_limited = rate.is_app_limited();
        let sent = SentEvent::new(now, self.mss, self.in_flight_bytes());
        self.cc.on_sent(&SentEvent { is_app_limited, ..sent });
    }

    #[expect(clippy::inline_always, reason = "most segments that are sent come this way")]
    #[inline(always)]
    fn transmit_data(&mut self, now: Time, start: u64, length: u32, flags: Flags, again: bool) {
        let is_last = start + u64::from(length) > self.sender.written;
        let end = start + u64::from(length);
        let pushes = is_last && !self.sender.marks.more_follows || self.sender.marks.pushes(end);
        let flags =
            flags.with(Flags::ACK).with_if(pushes && length > 0, Flags::PSH).with(self.ecn.data_flags(again));
        let mut packet = self.packet(now, start, flags);
        if let Body::Tcp(segment) = &mut packet.body {
            if length > 0 {
                segment.payload = Payload { offset: start - 1, length };
            }
            self.add_options(segment);
        }
        if length > 0 {
            self.delayed_ack.record_data_sent(now, self.parameters.ack_delay);
        }
        self.record_ack_sent();
        (self.sender.last_sent_at, self.sender.last_packet_at) = (now, now);
        self.pacing.on_sent(length);
        let mark = self.codepoint(length > 0 && !again);
        self.transmit(packet, mark);
    }

    /// A packet with a segment of this connection with this sequence number and no payload.
    #[expect(clippy::inline_always, reason = "the segment is written where it stays")]
    #[inline(always)]
    fn packet(&mut self, now: Time, number: u64, flags: Flags) -> Box<Packet> {
        let mut packet = self.blank_packet();
        let segment = self.segment(now, number, flags);
        match &mut packet.body {
            Body::Tcp(place) => {
                if place.rare.is_some() {
                    place.forget_rare();
                }
                // Nothing else in it owns memory. Without its destructor the compiler writes the new one
                // directly into its place.
                std::mem::forget(std::mem::replace(place, segment));
            }
            body => *body = Body::Tcp(segment),
        }
        packet
    }

    /// A segment of this connection with this sequence number and no payload.
    #[expect(clippy::inline_always, reason = "the segment is made where it is filled in")]
    #[inline(always)]
    pub(super) fn segment(&mut self, now: Time, number: u64, flags: Flags) -> Segment {
        let flags = flags.with(self.ecn.echo_flags());
        let timestamps = Timestamps { value: self.timestamp(now), echo: self.recent_timestamp };
        Segment {
            source_port: self.ports[0],
            destination_port: self.ports[1],
            sequence: self.own_numbers.wire(number),
            acknowledgement: self.peer_numbers.wire(self.receiver.next),
            flags,
            window: self.select_window(),
            timestamps: self.has_timestamps.then_some(timestamps),
            padding: self.parameters.padding,
            ..Segment::blank()
        }
    }

    /// Adds what a segment says of what has arrived, as far as there is room. With data, there is room only
    /// if the packet is not full.
    #[inline]
    fn add_options(&mut self, segment: &mut Segment) {
        let has_blocks = self.has_sack && self.receiver.has_blocks();
        let mut blocks = if has_blocks { self.block_count(segment) } else { 0 };
        if self.ecn.is_accurate() {
            blocks = self.add_counters(segment, blocks);
            let is_pure = segment.payload.length == 0 && !has_blocks;
            if let Some(flags) = self.ecn.accurate.say_handshake(is_pure) {
                segment.flags = segment.flags.without(Flags::from_ace(7)).with(flags);
            }
        }
        if has_blocks {
            self.add_blocks(segment, blocks);
        }
    }

    /// The bytes that further options of a segment may take.
    fn option_room(&self, segment: &Segment) -> u32 {
        let OptionSpace { data, ack } = self.option_space;
        let space = if segment.payload.length > 0 { data } else { ack };
        let size = self.ip.header_bytes() + segment.wire_size() + space;
        self.mtu.saturating_sub(size).min((MAX_OPTION_BYTES - segment.option_bytes()).saturating_sub(space))
    }

    /// How many SACK blocks there are that a segment has room for.
    #[inline(never)]
    fn block_count(&self, segment: &Segment) -> usize {
        let most = self.option_room(segment).saturating_sub(4) / 8;
        self.receiver.block_count().min(most as usize)
    }

    #[inline(never)]
    fn add_blocks(&mut self, segment: &mut Segment, count: usize) {
        let numbers = self.peer_numbers;
        for (start, end) in self.receiver.take_blocks(count) {
            segment.sack.push(SackBlock { start: numbers.wire(start), end: numbers.wire(end) });
        }
    }

    /// Adds the counters of accurate ECN where they are due to a segment that is to have so many SACK blocks.
    /// Returns how many of these there is room for then.
    #[cold]
    pub(super) fn add_counters(&mut self, segment: &mut Segment, blocks: usize) -> usize {
        let most = segment.option_bytes() + self.option_room(segment);
        self.add_counters_within(most, segment, blocks)
    }

    /// The same if all options may take so many bytes.
    fn add_counters_within(&mut self, most: u32, segment: &mut Segment, blocks: usize) -> usize {
        if !self.ecn.is_accurate() || !self.parameters.ecn_option {
            return blocks;
        }
        let is_early = || segment.flags.has(Flags::SYN) && self.handshake.may_have_counters();
        let repeats = self.parameters.procedures.repeats_ecn_option.then(is_early);
        let fits = |counters, blocks| segment.option_bytes_with(counters, blocks) <= most;
        let (option, blocks) = self.ecn.accurate.option(fits, blocks, repeats);
        if let Some(option) = option {
            segment.rare.get_or_insert_default().accurate_ecn = Some(option);
        }
        blocks
    }

    /// Fits what a subflow's segment says of what has arrived to the bytes that are left by the options of
    /// the connection above, which come first (Linux: `tcp_established_options`).
    #[cold]
    pub(crate) fn fit_options(&mut self, segment: &mut Segment, above: u32) {
        let most = MAX_OPTION_BYTES.saturating_sub(above);
        if segment.option_bytes() <= most {
            return;
        }
        let counters = segment.rare.as_mut().and_then(|rare| rare.accurate_ecn.take());
        while segment.option_bytes() > most && segment.sack.pop().is_some() {}
        if counters.is_some() {
            self.ecn.accurate.take_back();
            let blocks = self.add_counters_within(most, segment, segment.sack.len());
            segment.sack.truncate(blocks);
        }
    }

    /// Sends an acknowledgement.
    pub(super) fn send_ack(&mut self, now: Time) {
        let number = self.sender.next;
        self.send_bare(now, number);
    }

    /// Sends an acknowledgement that the peer must answer, because its sequence number was acknowledged
    /// already (Linux: `tcp_xmit_probe_skb`).
    pub(super) fn send_window_probe(&mut self, now: Time) {
        let number = self.sender.unacknowledged - 1;
        self.send_bare(now, number);
    }

    fn send_bare(&mut self, now: Time, number: u64) {
        let mut packet = self.packet(now, number, Flags::ACK);
        if let Body::Tcp(segment) = &mut packet.body {
            self.add_options(segment);
        }
        self.record_ack_sent();
        self.stats.acks_sent += 1;
        self.sender.last_packet_at = now;
        let mark = self.codepoint(false);
        self.transmit(packet, mark);
    }

    /// Sends this many bytes of the stream although less than a segment fits into the window (RFC 9293
    /// section 3.8.6.2.1; Linux: `tcp_write_wakeup`).
    pub(super) fn send_fragment(&mut self, now: Time, length: u32) {
        let fin = length == 0;
        self.pacing.begin_packet(now);
        let starts_timer = self.next_starts_timer();
        self.send_new(now, length, fin, false, false);
        if starts_timer {
            self.rearm_rto(now);
        }
    }

    /// Reduces the window of a sender that was idle (RFC 5681 section 4.1, RFC 2861; Linux:
    /// `tcp_slow_start_after_idle_check`).
    pub(super) fn restart_after_idle(&mut self, now: Time) {
        let idle = now.saturating_since(self.sender.last_sent_at);
        let rto = self.rtt.rto();
        let has_sent = self.sender.next > 1;
        if self.parameters.idle_restart && self.board.is_empty() && has_sent && idle > rto {
            self.cc.on_idle(&IdleEvent::new(idle, rto));
        }
    }

    /// Notes whether the application leaves the pipe idle (Linux: `tcp_rate_check_app_limited`).
    pub(super) fn check_app_limited(&mut self) {
        let is_short = self.sender.unsent() < u64::from(self.mss);
        if is_short && self.board.in_flight() < self.cwnd() && self.board.waiting == 0 {
            self.rate.limit_by_app(self.in_flight_bytes());
        }
    }

    fn record_window_usage(&mut self, is_limited: bool, cwnd: u32) {
        let is_limited = is_limited || self.board.in_flight() >= cwnd;
        let out = self.board.len();
        let usage = &mut self.sender.usage;
        let is_new_round = self.sender.unacknowledged >= usage.round_end;
        if is_new_round || is_limited || (!usage.is_limited && out > usage.most_out) {
            *usage = WindowUsage { is_limited, most_out: out, round_end: self.sender.next };
        }
    }

    /// Whether the congestion window limits the sender (Linux: `tcp_is_cwnd_limited`).
    pub(super) fn is_window_limited(&self) -> bool {
        let usage = &self.sender.usage;
        usage.is_limited || {
            let control = self.cc.state();
            control.cwnd < control.ssthresh && control.cwnd / self.mss < 2 * usage.most_out
        }
    }

    fn record_fin_sent(&mut self) {
        self.sender.has_sent_fin = true;
        self.state = match self.state {
            State::CloseWait => State::LastAck,
            _ => State::FinWait1,
        };
    }
}
