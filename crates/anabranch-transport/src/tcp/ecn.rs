//! Explicit congestion notification: RFC 3168, DCTCP's echo (RFC 8257), accurate ECN (RFC 9768), and L4S's
//! codepoint (RFC 9331).

use super::accurate_ecn::{AccurateEcn, Acked};
use super::config::EcnMode;
use super::connection::Connection;
use crate::flow::Ecn as EcnField;
use crate::time::Time;
use crate::wire::tcp::{AccurateEcn as CountersOption, Flags, MAX_OPTION_BYTES, Segment};

/// So many segments are acknowledged at once after a mark (Linux: `__tcp_ecn_check_ce`).
const QUICK_FOR_MARK: u32 = 2;

/// Bytes of an option with all counters of accurate ECN, with its padding.
const COUNTER_BYTES: u32 = CountersOption::wire_bytes(3).next_multiple_of(4);

/// The negotiated mode, and what has to be echoed.
#[expect(clippy::struct_excessive_bools, reason = "flags that are independent of each other")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Ecn {
    /// The mode that was negotiated. It is never [`EcnMode::L4s`], which becomes `Accurate`.
    mode: EcnMode,
    /// Whether data is sent as ECT(1): L4S was asked for, and the peer's feedback is accurate (RFC 9331
    /// section 4.2).
    is_l4s: bool,
    /// Whether ECE is set on what we send (RFC 3168 section 6.1.3).
    echoes: bool,
    /// Whether a packet has arrived that is ECN-capable (Linux: `TCP_ECN_SEEN`).
    has_seen: bool,
    /// Whether CWR is to be set on the next new data.
    cwr_waits: bool,
    /// In [`EcnMode::Accurate`]: what is counted and told.
    pub(super) accurate: AccurateEcn,
    /// How often in a row a window of one segment was marked.
    holds: u32,
}

impl Default for Ecn {
    fn default() -> Self {
        Self::agreed(EcnMode::Off)
    }
}

impl Ecn {
    /// Flags of a SYN (RFC 3168 section 6.1.1, RFC 9768 section 3.1.1).
    pub(super) fn syn_flags(mode: EcnMode) -> Flags {
        match mode {
            EcnMode::Off => Flags::NONE,
            EcnMode::Rfc3168 | EcnMode::Dctcp => Flags::ECE.with(Flags::CWR),
            EcnMode::Accurate | EcnMode::L4s => Flags::AE.with(Flags::ECE).with(Flags::CWR),
        }
    }

    const fn agreed(mode: EcnMode) -> Self {
        Self {
            mode,
            is_l4s: false,
            echoes: false,
            has_seen: false,
            cwr_waits: false,
            accurate: AccurateEcn::new(),
            holds: 0,
        }
    }

    /// The agreement if both ends count marks.
    fn accurate(own: EcnMode) -> Self {
        Self { is_l4s: own == EcnMode::L4s, ..Self::agreed(EcnMode::Accurate) }
    }

    pub(super) const fn is_accurate(&self) -> bool {
        matches!(self.mode, EcnMode::Accurate)
    }

    /// Handles a SYN with these flags and this mark at the passive end (RFC 9768 sections 3.1.2 and 3.1.3).
    pub(super) fn accept(&mut self, own: EcnMode, flags: Flags, mark: EcnField) {
        let offers = flags.has(Flags::ECE.with(Flags::CWR));
        *self = match own {
            EcnMode::Accurate | EcnMode::L4s => match flags.ace() {
                0b000 => Self::default(),
                0b011 => Self::agreed(EcnMode::Rfc3168),
                // What is not in use yet counts as an offer of accurate feedback.
                _ => Self::accurate(own),
            },
            EcnMode::Rfc3168 | EcnMode::Dctcp if offers => Self::agreed(own),
            _ => Self::default(),
        };
        self.accurate.syn = mark;
    }

    /// A SYN comes again, with these flags and this mark (RFC 9768 section 3.1.5). Returns whether the peer
    /// asks for both kinds of feedback, which ends the connection.
    pub(super) fn accept_again(&mut self, own: EcnMode, flags: Flags, mark: EcnField) -> bool {
        if !matches!(own, EcnMode::Accurate | EcnMode::L4s) {
            return false;
        }
        if !self.is_accurate() {
            return self.is_on() && !matches!(flags.ace(), 0b000 | 0b011);
        }
        self.accurate.syn = mark;
        if flags.ace() == 0 {
            self.accurate.may_mark = false;
        }
        flags.ace() == 0b011
    }

    /// Flags of the SYN-ACK, which has been sent `times` times before (RFC 9768 section 3.1.2, table 2, and
    /// section 3.2.3.2.2). `keeps` is whether an end that has sent a SYN of its own says them each time
    /// (Linux: `tcp_ecn_clear_syn`), and the option is left out of this segment only.
    pub(super) fn syn_ack_flags(&mut self, times: u32, keeps: bool, is_passive: bool) -> Flags {
        match self.mode {
            EcnMode::Off => Flags::NONE,
            EcnMode::Rfc3168 | EcnMode::Dctcp => Flags::ECE,
            EcnMode::Accurate | EcnMode::L4s => {
                if times >= 1 && !keeps {
                    self.accurate.give_up_option();
                }
                if times >= 2 && (is_passive || !keeps) {
                    self.accurate.may_mark = false;
                    return Flags::NONE;
                }
                AccurateEcn::handshake_flags(self.accurate.syn)
            }
        }
    }

    /// Handles a SYN-ACK with these flags and this mark at the active end (RFC 9768 sections 3.1.2, 3.1.3 and
    /// 3.2.2.2). Returns whether it says that our SYN was marked.
    pub(super) fn complete(&mut self, own: EcnMode, segment: &Segment, mark: EcnField) -> bool {
        let flags = segment.flags;
        let (cwr, ece) = (flags.has(Flags::CWR), flags.has(Flags::ECE));
        *self = match own {
            EcnMode::Accurate | EcnMode::L4s => match flags.ace() {
                0b000 | 0b111 => Self::default(),
                0b001 => Self::agreed(EcnMode::Rfc3168),
                // Also 0b101, which is not in use yet: as if the SYN had come unchanged.
                _ => Self::accurate(own),
            },
            EcnMode::Rfc3168 | EcnMode::Dctcp if ece && !cwr => Self::agreed(own),
            _ => Self::default(),
        };
        if !self.is_accurate() {
            return false;
        }
        self.accurate.see_handshake(segment);
        self.accurate.record_syn_ack(mark);
        self.accurate.take_handshake(flags)
    }

    /// The ACK that ends the handshake; only one without data and SACK blocks says how the SYN-ACK came (RFC
    /// 9768 section 3.2.2.1). Returns whether that was marked.
    pub(super) fn on_handshake_ack(&mut self, segment: &Segment) -> bool {
        self.accurate.see_handshake(segment);
        let is_pure = segment.payload.length == 0 && segment.sack.is_empty();
        self.is_accurate() && is_pure && self.accurate.take_third_segment(segment.flags)
    }

    pub(super) fn is_on(&self) -> bool {
        self.mode != EcnMode::Off
    }

    /// Whether the peer counts marks, so that each acknowledgement says how many there were.
    pub(super) fn counts_marks(&self) -> bool {
        matches!(self.mode, EcnMode::Accurate | EcnMode::Dctcp)
    }

    /// The ECN field of data.
    fn codepoint(&self) -> EcnField {
        let may_mark = self.is_on() && (!self.is_accurate() || self.accurate.may_mark);
        match (may_mark, self.is_l4s) {
            (false, _) => EcnField::NotEct,
            (true, false) => EcnField::Ect0,
            (true, true) => EcnField::Ect1,
        }
    }

    /// How many bytes every segment keeps for counters, if its other options take this many.
    pub(super) fn room_for_counters(&self, others: u32) -> u32 {
        if self.is_accurate() && self.accurate.has_seen_option() {
            COUNTER_BYTES.min(MAX_OPTION_BYTES.saturating_sub(others) / 4 * 4)
        } else {
            0
        }
    }

    /// Flags of every segment but SYN.
    pub(super) fn echo_flags(&self) -> Flags {
        match self.mode {
            EcnMode::Accurate => self.accurate.flags(),
            _ => Flags::NONE.with_if(self.echoes, Flags::ECE),
        }
    }

    /// Notes that an acknowledgement is sent.
    pub(super) fn record_ack_sent(&mut self) {
        self.accurate.record_ack_sent();
    }

    /// Further flags of data: CWR once, on new data (RFC 3168 section 6.1.2).
    pub(super) fn data_flags(&mut self, again: bool) -> Flags {
        let says = self.cwr_waits && !again && self.mode != EcnMode::Accurate;
        self.cwr_waits &= !says;
        Flags::NONE.with_if(says, Flags::CWR)
    }

    /// Notes that the window has been reduced.
    pub(super) fn record_reduction(&mut self) {
        self.cwr_waits = self.is_on();
    }

    /// The reduction of the window has been taken back.
    pub(super) fn record_undo(&mut self) {
        self.cwr_waits = false;
    }

    /// How many of the segments that an acknowledgement acknowledges were marked.
    pub(super) fn marks(&mut self, segment: &Segment, acked: Acked) -> u32 {
        let delivered = acked.segments;
        let marks = match self.mode {
            EcnMode::Accurate | EcnMode::L4s => {
                let option = segment.rare.as_ref().and_then(|rare| rare.accurate_ecn.as_ref());
                let stamp = segment.timestamps.map(|timestamps| timestamps.value);
                self.accurate.read(segment.flags, option, stamp, acked)
            }
            EcnMode::Rfc3168 | EcnMode::Dctcp if segment.flags.has(Flags::ECE) => delivered.max(1),
            EcnMode::Off | EcnMode::Rfc3168 | EcnMode::Dctcp => 0,
        };
        if marks == 0 && delivered > 0 {
            self.holds = 0;
        }
        marks
    }
}

impl Connection {
    /// The ECN field of a segment. What is not new data does not carry ECT (RFC 3168 sections 6.1.4 and
    /// 6.1.5).
    pub(super) fn codepoint(&self, is_new_data: bool) -> EcnField {
        let marks_others = self.parameters.procedures.marks_every_segment && self.ecn.is_accurate();
        if is_new_data || marks_others { self.ecn.codepoint() } else { EcnField::NotEct }
    }

    /// Handles a mark on a window of one segment, which cannot shrink: the next segment waits for the length
    /// of the retransmission timeout (RFC 3168 section 6.1.2), twice as long with each further mark (RFC 9438
    /// section 4.6).
    #[cold]
    pub(super) fn hold_back(&mut self, now: Time) {
        let length = (self.rtt.rto() * (1 << self.ecn.holds.min(20))).min(self.parameters.rto_max);
        self.ecn.holds += 1;
        let end = self.deadline(now, length);
        self.pacing.hold_until(end);
    }

    /// Notes that data has arrived with this ECN field.
    #[inline]
    pub(super) fn record_mark(&mut self, now: Time, mark: EcnField, segment: &Segment) {
        if self.ecn.is_on() {
            self.quicken_for_mark(mark, segment);
            self.record_mark_when_on(now, mark, segment);
        }
    }

    /// Acknowledges at once what has perhaps come from a sender with a small window: data that cannot be
    /// marked was sent again, and a sender that says CWR or meets its first mark has just halved its window.
    #[cold]
    fn quicken_for_mark(&mut self, mark: EcnField, segment: &Segment) {
        if segment.payload.length == 0 || !matches!(self.ecn.mode, EcnMode::Dctcp | EcnMode::Rfc3168) {
            return;
        }
        let (most, window) = (self.parameters.quick_acks, self.receiver_window());
        if !self.parameters.procedures.quickens_for_marks {
            // Linux 2.6.20, TCP_ECN_check_ce. Without quick acknowledgements, as in profile rfc, it has no
            // effect.
            if mark == EcnField::NotEct {
                self.delayed_ack.enter_quick_mode(window, most);
            }
            return;
        }
        // Linux, tcp_ecn_accept_cwr, then __tcp_ecn_check_ce.
        let says_cwr = segment.flags.has(Flags::CWR);
        if says_cwr {
            self.delayed_ack.acknowledge_now();
        }
        let is_first_mark =
            mark == EcnField::Ce && self.ecn.mode == EcnMode::Rfc3168 && (says_cwr || !self.ecn.echoes);
        if is_first_mark || (mark == EcnField::NotEct && self.ecn.has_seen) {
            self.delayed_ack.enter_quick_mode(window, most.min(QUICK_FOR_MARK));
        }
        self.ecn.has_seen |= mark != EcnField::NotEct;
    }

    #[cold]
    fn record_mark_when_on(&mut self, now: Time, mark: EcnField, segment: &Segment) {
        let is_marked = mark == EcnField::Ce;
        self.stats.ce_received += u64::from(is_marked);
        match self.ecn.mode {
            EcnMode::Off => {}
            EcnMode::Rfc3168 => {
                // RFC 3168 section 6.1.3: ECE is set until CWR shows that the sender has reacted.
                if segment.flags.has(Flags::CWR) {
                    self.ecn.echoes = false;
                }
                self.ecn.echoes |= is_marked;
            }
            EcnMode::Dctcp => {
                if is_marked != self.ecn.echoes {
                    // RFC 8257 section 3.2: what is pending is acknowledged with the previous state.
                    if self.receiver.next > self.delayed_ack.acknowledged {
                        self.send_ack(now);
                    }
                    self.ecn.echoes = is_marked;
                    self.delayed_ack.acknowledge_now();
                }
            }
            EcnMode::Accurate | EcnMode::L4s => {
                let waits = self.receiver.next > self.delayed_ack.acknowledged;
                if self.ecn.accurate.on_arrival(mark, segment.payload.length, waits) {
                    self.delayed_ack.acknowledge_now();
                }
            }
        }
    }
}
