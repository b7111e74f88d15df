//! Data that was changed on its way between the ends, so that the checksum of its mapping is wrong (RFC 8684
//! section 3.7), and infinite mappings, with which a connection of one subflow goes on nevertheless.
//!
//! Where there are several subflows, the one with the damaged data is reset with `MP_FAIL`. Where the first
//! subflow is the only one and its stream is the connection's, the receiver says `MP_FAIL` on each
//! acknowledgement, the sender answers with `MP_FAIL`, and both go on as ends of a TCP connection. From the
//! damaged data on, the receiver acknowledges only on the subflow: what it holds belongs to the stream once
//! the sender has answered.
//!
//! Profile `linux_6` does as Linux 6.12 (`subflow_check_data_avail`, `mptcp_pm_mp_fail_received`): it takes
//! damaged data at once, says `MP_FAIL` once, and nothing where not even the first mapping was right; it
//! ignores `MP_FAIL` where another subflow has ever joined or data was sent again on the connection level.
//! Linux falls back with the data that it sends after `MP_FAIL`; here both ends do so with the exchange of
//! `MP_FAIL`, so that neither waits for data acknowledgements that do not come.

use super::connection::{Connection, State, is_failure};
use crate::tcp::subflow::Phase;
use crate::time::Time;
use crate::wire::mptcp::{InfiniteMapping, Options, Reset, Signal};
use crate::wire::tcp::{Flags, MAX_OPTION_BYTES, Segment};
use crate::wire::{self, Body, Packet};

/// Damaged data on a subflow whose peer has not answered `MP_FAIL` yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Damage {
    /// Where the damaged data begins on the connection level.
    pub(super) position: u64,
    /// Whether what follows is held until the peer answers.
    holds: bool,
    /// When the subflow is reset because the peer does not answer (Linux: `fail_tout`, `TCP_RTO_MAX` later).
    until: Time,
}

/// The infinite mapping that goes with the first new segment after falling back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parting {
    mapping: InfiniteMapping,
    /// The place in the subflow's stream of the first byte that had not been sent.
    from: u64,
}

impl Damage {
    /// Whether data that ends here, or the stream's end here, is to be trusted.
    pub(super) const fn allows(&self, end: u64) -> bool {
        !self.holds || end <= self.position
    }

    /// What each acknowledgement says again, so that the peer hears of the damage before it sends the data
    /// again on the connection level; Linux says it once.
    pub(super) fn said_again(self) -> Option<Signal> {
        self.holds.then_some(Signal::Fail { position: self.position })
    }
}

impl Connection {
    /// Handles a segment whose mapping has a wrong checksum. Returns whether its subflow takes the segment.
    #[cold]
    pub(super) fn on_damaged(&mut self, now: Time, path: usize, options: &Options) -> bool {
        if !matches!(self.state, State::Established | State::Opening) {
            return false;
        }
        let mapped = options.data_position.or(options.data_fin);
        let mut position = mapped.unwrap_or(self.receiver.next);
        let linux = self.counts_intervals();
        if self.subflows[path].damage.is_none() && !self.may_go_on_alone(path) {
            let subflow = &mut self.subflows[path];
            subflow.signal = Some(Signal::Fail { position });
            subflow.abort(now, Reset::MIDDLEBOX);
            return false;
        }
        if linux && !self.subflows[path].has_delivered() {
            // Linux: valid_csum_seen.
            self.fall_back(path);
            self.hand_over(now, path);
            return true;
        }
        let until = now + self.parameters.tcp.rto_max();
        let subflow = &mut self.subflows[path];
        let damage = subflow.damage.get_or_insert(Damage { position, holds: !linux, until });
        damage.position = damage.position.min(position);
        position = damage.position;
        subflow.confirm_at = if linux { damage.until } else { now + subflow.tcp.rto() };
        if !linux {
            // Nothing from there on is to be trusted.
            subflow.forget_mappings_from(position);
        }
        subflow.signal = Some(Signal::Fail { position });
        true
    }

    /// Whether a subflow waits for the peer's answer to `MP_FAIL`. Meanwhile there are no other subflows, and
    /// nothing is sent again on the connection level.
    pub(super) fn awaits_answer(&self) -> bool {
        self.subflows.iter().any(|subflow| subflow.damage.is_some())
    }

    /// The peer has not answered `MP_FAIL` for some time: it is said again, or the subflow is reset. In Linux
    /// it is said once (`mptcp_mp_fail_no_response`).
    #[cold]
    pub(super) fn on_no_answer(&mut self, now: Time, path: usize, damage: Damage) {
        let subflow = &mut self.subflows[path];
        let signal = Signal::Fail { position: damage.position };
        if now < damage.until {
            subflow.confirm_at = (now + subflow.tcp.rto()).min(damage.until);
            subflow.signal = Some(signal);
            return self.acknowledge_on(now, path);
        }
        if damage.holds {
            subflow.signal = Some(signal);
            subflow.abort(now, Reset::MIDDLEBOX);
        } else {
            subflow.abort(now, Reset::UNSPECIFIED);
        }
    }

    /// Handles a segment with an infinite mapping, or what answers our `MP_FAIL`: the same from the peer, or
    /// a segment without options. Returns false if the subflow is reset and the segment is not to be taken.
    #[cold]
    pub(super) fn on_parting(&mut self, now: Time, path: usize, options: &Options) -> bool {
        let awaits_answer = self.subflows[path].damage.is_some();
        let fits = options.infinite.is_none_or(|mapping| mapping.position == mapping.data as u32);
        if fits && (awaits_answer || self.may_go_on_alone(path)) {
            self.go_on_alone(now, path, !self.counts_intervals());
            return true;
        }
        self.subflows[path].abort(now, Reset::MIDDLEBOX);
        false
    }

    /// Whether a segment ends the connection level: see [`Self::on_parting`].
    pub(super) fn is_parting(&self, path: usize, options: &Options, segment: &Segment) -> bool {
        if self.state != State::Established || segment.flags.has(Flags::RST) {
            return false;
        }
        let answers = || is_failure(options, segment.flags) || *options == Options::default();
        options.infinite.is_some() || (self.subflows[path].damage.is_some() && answers())
    }

    /// Handles the peer's report that data on a subflow arrived damaged, on a segment that is no reset: the
    /// peer wishes to go on with this subflow alone. Only who knows the keys knows the number of what was
    /// sent.
    #[cold]
    pub(super) fn on_fail(&mut self, now: Time, path: usize, position: u64) {
        let was_sent = position <= self.sender.next + u64::from(self.sender.has_sent_fin);
        let is_open = self.subflows[path].phase != Phase::Closed && self.state == State::Established;
        if !was_sent || !is_open {
            return;
        }
        let linux = self.counts_intervals();
        if self.may_go_on_alone(path) {
            let position = self.receiver.next;
            self.go_on_alone(now, path, true);
            // RFC 8684 section 3.7: the receiver of an MP_FAIL responds with an MP_FAIL.
            self.subflows[path].signal = Some(Signal::Fail { position });
        } else if !linux {
            // RFC 8684 section 3.7: if the data is not contiguous, the subflow is closed by a reset with
            // MP_FAIL.
            let position = self.receiver.next;
            self.subflows[path].signal = Some(Signal::Fail { position });
            self.subflows[path].abort(now, Reset::MIDDLEBOX);
        }
    }

    /// Whether the connection can go on as that of this subflow alone: the data of both directions is
    /// contiguous on it.
    pub(super) fn may_go_on_alone(&self, path: usize) -> bool {
        // Linux: allow_infinite_fallback.
        self.is_contiguous(path) && (self.has_been_single || !self.counts_intervals())
    }

    /// Falls back to TCP, where the connection has a subflow that works. If the peer is to be told, the next
    /// new segment has an infinite mapping. RFC 8684 section 3.7: it refers to the start of the last segment
    /// that is known to have arrived intact; in Linux, to the new data (`mptcp_update_infinite_map`).
    #[cold]
    pub(super) fn go_on_alone(&mut self, now: Time, path: usize, tells: bool) {
        let from = self.subflows[path].tcp.unsent_position();
        let data = if self.counts_intervals() { from } else { self.sender.intact };
        self.fall_back(path);
        self.hand_over(now, path);
        let mapping = InfiniteMapping { data, position: data as u32 };
        self.subflows[path].parting = tells.then_some(Parting { mapping, from });
    }

    /// Adds the last options of MPTCP to what the subflow sends that goes on alone.
    pub(super) fn add_parting_options(&mut self, path: usize, packet: &mut Packet) {
        let subflow = &mut self.subflows[path];
        let Body::Tcp(segment) = &mut packet.body else { return };
        let payload = segment.payload;
        let has_checksum = self.has_checksums;
        let (options, bytes) = if payload.length == 0 {
            let signal = subflow.signal.take();
            let bytes = signal.map_or(0, |signal| signal.wire_bytes(self.ip));
            (Options { signal, ..Options::default() }, bytes)
        } else {
            let is_first = |it: &Parting| {
                (payload.offset..payload.offset + u64::from(payload.length)).contains(&it.from)
            };
            let infinite = subflow.parting.filter(is_first).map(|it| it.mapping);
            let has_short_number = infinite.is_some() && self.parameters.has_short_numbers;
            // There is no data acknowledgement.
            let bytes = if infinite.is_some() { self.parameters.space.data.saturating_sub(4) } else { 0 };
            (Options { infinite, has_short_number, has_checksum, ..Options::default() }, bytes)
        };
        if bytes == 0 || segment.flags.has(Flags::SYN) || segment.flags.has(Flags::RST) {
            return;
        }
        let mut tcp = std::mem::replace(segment, Segment::blank());
        if tcp.option_bytes() + bytes > MAX_OPTION_BYTES {
            self.subflows[path].tcp.fit_options(&mut tcp, bytes);
        }
        packet.size = self.ip.header_bytes() + tcp.wire_size() + bytes;
        packet.body = Body::Mptcp(wire::mptcp::Segment { tcp, options, option_bytes: bytes });
    }
}
