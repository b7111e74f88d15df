//! Load sharing: concurrent multipath transfer (CMT), new data on all usable paths at the same time.
//!
//! Source: J. Iyengar, P. Amer and R. Stewart, "Concurrent multipath transfer using SCTP multihoming over
//! independent end-to-end paths", IEEE/ACM Transactions on Networking 14(5), 2006 (split fast retransmit,
//! which is the key `missing_reports_per`, cwnd update and delayed acknowledgement); T. Dreibholz et al., "On
//! the use of concurrent multipath transfer over asymmetric paths", GLOBECOM 2010, and H. Adhari et al.,
//! "Evaluation of concurrent multipath transfer over dissimilar paths", AINA workshops 2011 (buffer
//! splitting, chunk rescheduling), as their authors have them in the INET Framework
//! (`SctpAssociationSendAll.cc`); FreeBSD (`sctp_med_chunk_output`); draft-tuexen-tsvwg-sctp-multipath. Paths
//! that are potentially failed carry no new data (CMT-PF, Natarajan et al. 2009). NR-SACK:
//! draft-natarajan-tsvwg-sctp-nrsack.
//!
//! SACKs overtake each other, as they come over several paths. One with the known cumulative TSN that brings
//! nothing new and lacks something known is taken for an old one and dropped, as RFC 9260 section 6.2.1 D i
//! has it for the cumulative TSN; D iii would have its receiver drop data. FreeBSD lets such a SACK revoke
//! what lies below its highest block, and makes up for it in the windows (`sctp_check_for_revoked`).
//!
//! Known deviations: the receiver never drops what it has acknowledged, so that with NR-SACK all of its gap
//! blocks are final (as FreeBSD with `net.inet.sctp.do_sctp_drain` off), and they travel in a SACK, which is
//! 4 bytes shorter, unless NR-SACK chunks are agreed on ([`Config::nr_sack`](super::Config::nr_sack)). Copies
//! of a chunk on further paths are acknowledged with it, since a SACK does not say which copy arrived, and
//! only the first path's copy is measured and timed.

mod config;

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::association::Association;
use super::outstanding::{Buffered, SentState};
use super::parameters::Parameters;
use super::path::{Acked, Path};
use super::tsn;
use crate::cc::coupled::{Group, PathSetup};
use crate::cc::{
    self, AckEvent, CongestionControl as _, CongestionEvent, CongestionKind, ControlState, Controller,
    SentEvent,
};
use crate::endpoint::LimitedBy;
use crate::ground::{IpVersion, PathId, PathSet};
use crate::path::PathStatus;
use crate::path::scheduler::{AnyScheduler, Decision, PathView, Pending, Scheduler as _};
use crate::report::{Report, declare};
use crate::time::{Duration, Time};

pub use config::{Config, CwndUpdate, Sides, SplitBy};

/// How much of a path's share of a buffer must be blocked before chunks are rescheduled (INET Framework's
/// default of `cmtChunkReschedulingThreshold`).
const RESCHEDULING_THRESHOLD: f64 = 0.5;

declare! {
    SCALARS:
    /// Time in which the peer's receive window kept data from leaving although a congestion window had room.
    BLOCKED_BY_RECEIVE_WINDOW_S = "blocked_by_receive_window_s": Seconds, Less;
    /// Time in which the send buffer kept data from leaving although a congestion window had room.
    BLOCKED_BY_SEND_BUFFER_S = "blocked_by_send_buffer_s": Seconds, Less;
    /// DATA chunks sent again on another path because everything waited for them.
    DATA_CHUNKS_RESCHEDULED = "data_chunks_rescheduled": One;
}

declare! {
    PATH_SCALARS:
    /// Bytes of DATA chunks sent on the path for the first time.
    NEW_BYTES_SENT = "new_bytes_sent": Bytes;
    /// Bytes of copies, on this path, of chunks that were first sent on another one.
    COPIED_BYTES_SENT = "copied_bytes_sent": Bytes;
}

/// What keeps data from leaving although a congestion window has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocking {
    ReceiveBuffer,
    SendBuffer,
}

/// A copy of a chunk on another path than the one that the chunk was first sent on.
#[derive(Clone, Copy, Debug)]
struct Copied {
    tsn: u32,
    path: PathId,
    /// The same as in [`Sent`](super::outstanding::Sent).
    window_bytes: u32,
}

/// The load-sharing state of one path.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Bytes of copies that are on their way on this path.
    copied: u32,
    /// New data and copies sent, in bytes.
    sent_bytes: u64,
    copied_bytes: u64,
}

/// How many bytes a path may have outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    /// The congestion window.
    cwnd: u32,
    /// The congestion window, limited by Max.Burst.
    window: u32,
}

/// The state of load sharing.
#[derive(Debug)]
pub(super) struct LoadSharing {
    config: Config,
    group: Group,
    scheduler: AnyScheduler,
    /// Copies of chunks on further paths, by TSN.
    copies: VecDeque<Copied>,
    /// The lowest TSN that a gap block of the SACK being processed acknowledges.
    lowest_gap_acked: Option<u32>,
    /// The SACK being processed reports everything before this TSN missing a second time (DAC).
    twice_missing_below: Option<u32>,
    /// The shares by path.
    shares: Vec<Share>,
    /// Whether the scheduler leaves paths idle although they have room.
    is_waiting: bool,
    /// The paths as the scheduler sees them. Those of `changed` are to be computed anew: what was sent,
    /// acknowledged or measured there since then is not in them.
    views: Vec<PathView>,
    changed: PathSet,
    /// The windows of the paths, and which of the congestion windows have room. Those of `rooms_changed` are
    /// to be computed anew.
    rooms: Vec<Room>,
    rooms_changed: PathSet,
    roomy: PathSet,
    /// The paths whose control may have changed since a policy that measures was last told of it.
    controls_changed: PathSet,
    /// Whether a path has a control that is no member of the group, so that nobody tells of its changes.
    has_foreign_control: bool,
    rescheduled: u64,
    blocked: Option<(Blocking, Time)>,
    blocked_by_receive_buffer: Duration,
    blocked_by_send_buffer: Duration,
}

impl LoadSharing {
    /// Load sharing over these paths, whose congestion controls become members of one group.
    pub(super) fn new(config: &Config, parameters: &Parameters, ip: IpVersion, paths: &mut [Path]) -> Self {
        let mut sharing = Self {
            config: config.clone(),
            group: Group::new(config.coupling.build()),
            scheduler: config.scheduler.build(paths[0].heartbeat.nonce.into()),
            copies: VecDeque::new(),
            lowest_gap_acked: None,
            twice_missing_below: None,
            shares: Vec::new(),
            is_waiting: false,
            views: Vec::new(),
            changed: PathSet::default(),
            rooms: Vec::new(),
            rooms_changed: PathSet::default(),
            roomy: PathSet::default(),
            controls_changed: PathSet::default(),
            has_foreign_control: false,
            rescheduled: 0,
            blocked: None,
            blocked_by_receive_buffer: Duration::ZERO,
            blocked_by_send_buffer: Duration::ZERO,
        };
        for (index, path) in paths.iter_mut().enumerate() {
            sharing.add_path(parameters, ip, PathId(index as u8), path);
        }
        sharing
    }

    /// Shares the load with one more path, which comes after the last one.
    pub(super) fn add_path(&mut self, parameters: &Parameters, ip: IpVersion, id: PathId, path: &mut Path) {
        self.shares.push(Share::default());
        self.views.push(PathView { has_room: false, ..PathView::new(id) });
        self.rooms.push(Room::default());
        self.join(parameters, ip, id, path);
    }

    /// Makes the congestion control of a new path a member of the group.
    pub(super) fn join(&self, parameters: &Parameters, ip: IpVersion, id: PathId, path: &mut Path) {
        let (initial_ssthresh, ssthresh_floor) = match &parameters.cc {
            cc::Config::Sctp(config) => (config.initial_ssthresh, config.ssthresh_floor),
            _ => (None, None),
        };
        let setup = PathSetup {
            own: parameters.cc.clone(),
            setup: Path::control_setup(parameters, path.mtu, ip, path.heartbeat.nonce),
            // RFC 4960 section 7.2.1: the peer's window, which is like ours.
            initial_ssthresh: initial_ssthresh.unwrap_or(parameters.receive_buffer),
            ssthresh_floor: ssthresh_floor.unwrap_or(4),
            holds_ssthresh: false,
        };
        path.cc = Controller::Coupled(self.group.join(id, &setup));
    }

    /// Notes that a path has got a control of its own.
    pub(super) fn note_foreign_control(&mut self) {
        self.has_foreign_control = true;
    }

    /// Adds to an event of congestion control whether the window limits the sender, and whether it may grow.
    pub(super) fn adapt(&self, event: &mut AckEvent, acked: &Acked, cwnd: u32) {
        event.is_window_limited = event.outstanding_before >= cwnd;
        if self.config.cwnd_update != CwndUpdate::Cumulative {
            event.cumulative_advanced = acked.earliest || acked.pseudo_cumulative;
        }
    }

    /// The missing reports for this chunk in addition to that of the SACK (Iyengar et al. 2006, section 3.3).
    pub(super) fn more_reports(&self, tsn: u32) -> u8 {
        u8::from(self.twice_missing_below.is_some_and(|lowest| tsn::before(tsn, lowest)))
    }

    fn note_blocked(&mut self, now: Time, blocking: Option<Blocking>) {
        if self.blocked.map(|(by, _)| by) == blocking {
            return;
        }
        let (receive_buffer, send_buffer) = self.blocked_times(now);
        self.blocked_by_receive_buffer = receive_buffer;
        self.blocked_by_send_buffer = send_buffer;
        self.blocked = blocking.map(|by| (by, now));
    }

    /// Time blocked by the receive buffer and by the send buffer up to now.
    fn blocked_times(&self, now: Time) -> (Duration, Duration) {
        let (mut receive_buffer, mut send_buffer) =
            (self.blocked_by_receive_buffer, self.blocked_by_send_buffer);
        match self.blocked {
            Some((Blocking::ReceiveBuffer, since)) => receive_buffer += now.saturating_since(since),
            Some((Blocking::SendBuffer, since)) => send_buffer += now.saturating_since(since),
            None => {}
        }
        (receive_buffer, send_buffer)
    }

    /// Writes what concerns the association.
    pub(super) fn report(&self, now: Time, report: &mut Report<'_>) {
        let (receive_buffer, send_buffer) = self.blocked_times(now);
        report.scalar(BLOCKED_BY_RECEIVE_WINDOW_S, receive_buffer.as_secs_f64());
        report.scalar(BLOCKED_BY_SEND_BUFFER_S, send_buffer.as_secs_f64());
        report.count(DATA_CHUNKS_RESCHEDULED, self.rescheduled);
    }

    /// Writes what concerns one path.
    pub(super) fn report_path(&self, path: usize, report: &mut Report<'_>) {
        report.count(NEW_BYTES_SENT, self.shares[path].sent_bytes);
        report.count(COPIED_BYTES_SENT, self.shares[path].copied_bytes);
    }
}

impl Association {
    /// Whether the receiver delays SACKs although there are gaps (DAC).
    pub(super) fn delays_sacks_with_gaps(&self) -> bool {
        self.load_sharing.as_ref().is_some_and(|sharing| sharing.config.delayed_ack)
    }

    /// The flags of a SACK: the packets with data since the last one, in 2 bits (FreeBSD `sctp_send_sack`).
    pub(super) fn packets_to_report(&self) -> u8 {
        match &self.load_sharing {
            Some(sharing) if sharing.config.delayed_ack => self.delayed_sack.packets.min(3) as u8,
            _ => 0,
        }
    }

    /// CUC, DAC: notes that a gap block acknowledges the chunk at this position, which is still in flight.
    pub(super) fn note_gap_acked(&mut self, index: usize, is_earliest: bool) {
        let Some(sharing) = &mut self.load_sharing else { return };
        sharing.lowest_gap_acked.get_or_insert(self.outstanding.tsn(index));
        let chunk = self.outstanding.chunks[index];
        let advances = is_earliest
            || (sharing.config.cwnd_update == CwndUpdate::PseudoCumulativeV2
                && !self.outstanding.has_in_flight_of(chunk.path, chunk.is_again(), index));
        self.paths[chunk.path.index()].acked.pseudo_cumulative |= advances;
    }

    /// DAC: a SACK that is for several packets and acknowledges data of only one path reports what lies
    /// before that data missing once more (FreeBSD `sctp_strike_gap_ack_chunks`).
    pub(super) fn note_shared_sack(&mut self, packets: u8, advanced: bool) {
        let mut paths = self.paths.iter().filter(|path| path.acked.bytes > 0);
        let is_unmixed = packets >= 2 && !advanced && paths.next().is_some() && paths.next().is_none();
        if let Some(sharing) = &mut self.load_sharing {
            let lowest = sharing.lowest_gap_acked.take();
            sharing.twice_missing_below = lowest.filter(|_| is_unmixed);
        }
    }

    /// Sends new data on all paths that the scheduler names.
    pub(super) fn send_shared(&mut self, now: Time) {
        let Some(mut sharing) = self.load_sharing.take() else { return };
        for path in (0..self.paths.len()).map(|index| PathId(index as u8)) {
            if self.outstanding.on(path) == 0 {
                self.note_idle(now, path);
            }
        }
        sharing.is_waiting = false;
        // What the views are of: the length of the next chunk, and whether nothing was outstanding.
        let mut seen = None;
        let mut limits = Buffered::default();
        // The windows of the paths are asked below.
        while self.may_send_new(now, self.selection.current, u32::MAX) {
            let length = self.next_fragment();
            let is_of = Some((length, self.outstanding.bytes() == 0));
            if seen.is_none() {
                // For this occasion, Max.Burst counts from what is outstanding now.
                limits = self.limits(&sharing.config, self.outstanding.bytes());
                self.look_at_windows(&mut sharing);
            }
            self.look_at_changed(&mut sharing, limits, length);
            if seen != is_of {
                self.look_at_all(&mut sharing, limits, length);
            }
            seen = is_of;
            let data = Pending::new(now, length, self.queue.bytes, self.peer_rwnd);
            match sharing.scheduler.schedule(&data, &sharing.views) {
                Decision::Duplicate(paths) if !paths.is_empty() => {
                    self.send_on(now, &paths, &mut sharing);
                }
                Decision::Send(path) => self.send_on(now, &[path], &mut sharing),
                Decision::Duplicate(_) | Decision::Wait => {
                    sharing.is_waiting = true;
                    break;
                }
            }
        }
        self.load_sharing = Some(sharing);
        self.note_blocking(now);
    }

    /// Collects the paths on which something has changed.
    fn note_changes(&mut self, sharing: &mut LoadSharing) {
        let mut changed = sharing.group.take_changed();
        changed.insert_all(std::mem::take(&mut self.outstanding.changed));
        if sharing.has_foreign_control {
            (0..self.paths.len()).for_each(|index| changed.insert(PathId(index as u8)));
        }
        sharing.changed.insert_all(changed);
        sharing.rooms_changed.insert_all(changed);
        sharing.controls_changed.insert_all(changed);
    }

    /// The paths whose control may have changed since this was last asked, if the load is shared.
    pub(super) fn take_changed_controls(&mut self) -> Option<PathSet> {
        let mut sharing = self.load_sharing.take()?;
        self.note_changes(&mut sharing);
        let changed = std::mem::take(&mut sharing.controls_changed);
        self.load_sharing = Some(sharing);
        Some(changed)
    }

    /// Computes the windows anew where something has changed.
    fn look_at_windows(&mut self, sharing: &mut LoadSharing) {
        self.note_changes(sharing);
        while let Some(path) = sharing.rooms_changed.pop() {
            let room = self.room(sharing, path);
            sharing.rooms[path.index()] = room;
            if self.outstanding.on(path) + sharing.shares[path.index()].copied < room.cwnd {
                sharing.roomy.insert(path);
            } else {
                sharing.roomy.remove(path);
            }
        }
    }

    /// Looks at all paths, whose views are up to date otherwise, for what may have changed of a path on which
    /// nothing has: whether it may be used, and has room for a chunk of this length.
    fn look_at_all(&self, sharing: &mut LoadSharing, limits: Buffered, length: u32) {
        let LoadSharing { config, views, rooms, .. } = sharing;
        let split = self.split(config, limits, length);
        for ((view, room), buffered) in views.iter_mut().zip(rooms).zip(&self.outstanding.buffered) {
            view.has_room = view.outstanding < room.window && split(buffered).is_none();
        }
        for ((view, status), path) in views.iter_mut().zip(&self.status).zip(&self.paths) {
            view.is_usable = status.is_usable();
            view.in_recovery = path.fast_recovery_exit.is_some();
        }
        let current = self.selection.current.index();
        views[current].is_usable |= !self.status.iter().any(PathStatus::is_usable);
    }

    /// Brings the views of the paths up to date on which something has changed. Their windows stay as they
    /// are.
    fn look_at_changed(&mut self, sharing: &mut LoadSharing, limits: Buffered, length: u32) {
        self.note_changes(sharing);
        let split = self.split(&sharing.config, limits, length);
        while let Some(id) = sharing.changed.pop() {
            let index = id.index();
            let outstanding = self.outstanding.on(id) + sharing.shares[index].copied;
            let has_room = outstanding < sharing.rooms[index].window
                && split(&self.outstanding.buffered[index]).is_none();
            let path = &self.paths[index];
            let ControlState { cwnd, ssthresh, .. } = path.cc.state();
            let PathView { is_usable, in_recovery, .. } = sharing.views[index];
            sharing.views[index] = PathView {
                is_usable,
                in_recovery,
                has_room,
                srtt: path.rto.srtt,
                rttvar: path.rto.rttvar,
                cwnd,
                ssthresh,
                outstanding,
                ..PathView::new(id)
            };
        }
    }

    /// Fills one packet, sends it on the first of these paths, and sends copies of it on the others.
    fn send_on(&mut self, now: Time, paths: &[PathId], sharing: &mut LoadSharing) {
        let Some((&path, further)) = paths.split_first() else { return };
        let (first, before) = (self.outstanding.next_tsn(), self.outstanding.bytes());
        self.send_packet(now, path);
        sharing.shares[path.index()].sent_bytes += self.outstanding.bytes() - before;
        for &path in further {
            self.send_copies(now, path, first, sharing);
        }
    }

    /// Sends copies of the chunks from TSN `first` on over a further path.
    fn send_copies(&mut self, now: Time, path: PathId, first: u32, sharing: &mut LoadSharing) {
        let mtu = self.paths[path.index()].mtu;
        let (mut packet, mut size) = (None, self.headers_bytes);
        let (mut bytes, mut in_window) = (0, 0);
        for index in self.outstanding.index(first)..self.outstanding.chunks.len() {
            let tsn = self.outstanding.tsn(index);
            let chunk = self.outstanding.chunks[index];
            let length = chunk.length;
            let wire = self.data_header + ((length + 3) & !3);
            // Another path may have carried more in one packet.
            if size + wire > mtu
                && let Some(full) = packet.take()
            {
                self.transmit(path, full, size);
                size = self.headers_bytes;
            }
            self.add_data(&mut packet, &chunk, tsn);
            self.outstanding.chunks[index].on_several_paths = true;
            size += wire;
            bytes += length;
            in_window += chunk.window_bytes;
            sharing.copies.push_back(Copied { tsn, path, window_bytes: chunk.window_bytes });
        }
        if let Some(packet) = packet {
            self.transmit(path, packet, size);
        }
        let share = &mut sharing.shares[path.index()];
        share.copied += in_window;
        share.copied_bytes += u64::from(bytes);
        self.outstanding.changed.insert(path);
        let own = &mut self.paths[path.index()];
        own.cc.on_sent(&SentEvent::new(now, bytes, self.outstanding.on(path) + share.copied));
    }

    /// Makes room again for copies whose chunks have been acknowledged, lost or given up.
    pub(super) fn release_copies(&mut self, now: Time) {
        let Some(mut sharing) = self.load_sharing.take() else { return };
        if !sharing.copies.is_empty() {
            let mut acked: SmallVec<[u32; 4]> = SmallVec::from_elem(0, self.paths.len());
            let mut lost: SmallVec<[bool; 4]> = SmallVec::from_elem(false, self.paths.len());
            let before: SmallVec<[u32; 4]> = sharing.shares.iter().map(|share| share.copied).collect();
            let LoadSharing { copies, shares, .. } = &mut *sharing;
            let mut changed = PathSet::default();
            copies.retain(|copy| {
                let index = copy.path.index();
                let state = if tsn::before(copy.tsn, self.outstanding.first_tsn) {
                    SentState::Acked
                } else {
                    self.outstanding.chunks[self.outstanding.index(copy.tsn)].state
                };
                match state {
                    SentState::InFlight => return true,
                    SentState::Acked | SentState::Final => acked[index] += copy.window_bytes,
                    SentState::Abandoned => {}
                    SentState::Lost => lost[index] = true,
                }
                shares[index].copied -= copy.window_bytes;
                changed.insert(copy.path);
                false
            });
            self.outstanding.changed.insert_all(changed);
            let exit = self.outstanding.next_tsn().wrapping_sub(1);
            for (index, path) in self.paths.iter_mut().enumerate() {
                let in_flight = self.outstanding.on(PathId(index as u8));
                let outstanding = in_flight + shares[index].copied;
                if acked[index] > 0 {
                    let outstanding_before = in_flight + before[index];
                    path.cc.on_ack(&AckEvent {
                        outstanding,
                        in_recovery: path.fast_recovery_exit.is_some(),
                        is_window_limited: outstanding_before >= path.cc.limits().cwnd,
                        ..AckEvent::new(now, acked[index], outstanding_before)
                    });
                }
                if lost[index] && path.fast_recovery_exit.is_none() {
                    path.cc.on_congestion(&CongestionEvent::new(
                        now,
                        CongestionKind::FastRetransmit,
                        outstanding,
                    ));
                    path.fast_recovery_exit = Some(exit);
                    path.repairs.fast_recoveries += 1;
                    self.outstanding.unsettled.insert(PathId(index as u8));
                }
            }
        }
        self.load_sharing = Some(sharing);
    }

    /// Chunk rescheduling (INET's `chunkReschedulingControl`): where a path has room, but too much of its
    /// share of a buffer holds chunks that arrived and wait for an earlier one, that one is sent again there.
    /// To the path on which it was sent before, that is a loss.
    pub(super) fn reschedule(&mut self, now: Time) {
        let Some(sharing) = &self.load_sharing else { return };
        let sides = sharing.config.chunk_rescheduling;
        let Some(blocking) = self.outstanding.chunks.front() else { return };
        // A chunk is moved once.
        let can_move = blocking.state == SentState::InFlight && blocking.transmissions == 1;
        if sides == Sides::Off || !can_move || self.outstanding.lost() > 0 || self.selection.held {
            return;
        }
        let from = blocking.path;
        let buffered = &self.outstanding.buffered;
        let in_receive_buffer = buffered.iter().map(|own| own.receiver).sum();
        let limits = self.limits(&sharing.config, in_receive_buffer);
        // The least number of bytes that is too much.
        let threshold = |has: bool, limit: u64| {
            if has { (RESCHEDULING_THRESHOLD * limit as f64).ceil() as u64 } else { u64::MAX }
        };
        let of_sender = threshold(sides.has_sender(), limits.sender);
        let of_receiver = threshold(sides.has_receiver(), limits.receiver);
        let is_blocked = |own: &Buffered| {
            own.sender.saturating_sub(own.in_flight) >= of_sender
                || own.receiver.saturating_sub(own.in_flight) >= of_receiver
        };
        let target = (0..self.paths.len()).find(|&index| {
            let id = PathId(index as u8);
            is_blocked(&buffered[index])
                && index != from.index()
                && self.status[index].is_usable()
                && self.paths[index].fast_recovery_exit.is_none()
                && self.outstanding.on(id) + sharing.shares[index].copied < self.room(sharing, id).window
        });
        let Some(target) = target else { return };
        self.mark_lost(now, 0, false);
        if self.outstanding.chunks[0].state == SentState::Lost {
            self.outstanding.chunks[0].immediate = true;
            self.retransmit_packet(now, PathId(target as u8), 0, 0);
        }
        let exit = self.outstanding.next_tsn().wrapping_sub(1);
        let waits_for_forward = self.advanced_peer_ack_point != self.outstanding.cumulative_tsn();
        let own = &mut self.paths[from.index()];
        if self.outstanding.on(from) == 0 && !waits_for_forward {
            own.t3 = Time::NEVER;
        }
        if own.fast_recovery_exit.is_none() {
            let event = CongestionEvent::new(now, CongestionKind::FastRetransmit, self.outstanding.on(from));
            own.cc.on_congestion(&event);
            own.fast_recovery_exit = Some(exit);
        }
        if let Some(sharing) = &mut self.load_sharing {
            sharing.rescheduled += 1;
        }
    }

    /// Notes which buffer keeps data from leaving, if one does.
    #[cold]
    pub(super) fn note_blocking(&mut self, now: Time) {
        let Some(mut sharing) = self.load_sharing.take() else { return };
        self.look_at_windows(&mut sharing);
        let waiting = (!self.queue.is_empty()).then(|| self.next_fragment());
        let mut roomy = sharing.roomy;
        let mut roomy = std::iter::from_fn(|| roomy.pop())
            .map(PathId::index)
            .filter(|&index| self.carries_new(index))
            .peekable();
        let blocking = match waiting {
            _ if roomy.peek().is_none() => None,
            Some(length) if length > self.peer_rwnd && self.outstanding.bytes() > 0 => {
                Some(Blocking::ReceiveBuffer)
            }
            Some(length) => {
                let limits = self.limits(&sharing.config, self.outstanding.bytes());
                let split = self.split(&sharing.config, limits, length);
                roomy.find_map(|index| split(&self.outstanding.buffered[index]))
            }
            None => self.awaited_room.is_some().then_some(Blocking::SendBuffer),
        };
        sharing.note_blocked(now, blocking);
        if blocking == Some(Blocking::ReceiveBuffer) {
            sharing.scheduler.on_blocked();
        }
        self.load_sharing = Some(sharing);
    }

    /// What holds new data back on a path whose windows have room: the path's share of a buffer, or the
    /// scheduler.
    pub(super) fn limit_of_sharing(&self, path: PathId) -> Option<LimitedBy> {
        let sharing = self.load_sharing.as_ref()?;
        let limits = self.limits(&sharing.config, self.outstanding.bytes());
        match self.split(&sharing.config, limits, self.next_fragment())(
            &self.outstanding.buffered[path.index()],
        ) {
            Some(Blocking::ReceiveBuffer) => Some(LimitedBy::ReceiveWindow),
            Some(Blocking::SendBuffer) => Some(LimitedBy::SendBuffer),
            None => {
                let view = &sharing.views[path.index()];
                let is_spared = sharing.is_waiting && view.is_usable && view.has_room;
                is_spared.then_some(LimitedBy::Scheduler)
            }
        }
    }

    /// Bytes of copies that are on their way on this path.
    pub(super) fn copied(&self, path: PathId) -> u32 {
        self.load_sharing.as_ref().map_or(0, |sharing| sharing.shares[path.index()].copied)
    }

    /// Length of the next chunk of new data in bytes.
    pub(super) fn next_fragment(&self) -> u32 {
        self.queue.messages.front().map_or(0, |front| front.remaining().min(self.fragment_limit))
    }

    /// Whether new data may go on this path: it is usable, or the policy's choice while none is.
    pub(super) fn carries_new(&self, index: usize) -> bool {
        self.status[index].is_usable()
            || (index == self.selection.current.index() && !self.status.iter().any(PathStatus::is_usable))
    }

    /// The congestion window of a path, and how much of it Max.Burst leaves.
    fn room(&self, sharing: &LoadSharing, path: PathId) -> Room {
        // Max.Burst applies to what is added to the data in flight, copies included.
        let own = &self.paths[path.index()];
        let cwnd = own.cc.limits().cwnd;
        let burst = self.limit_burst(path, own, cwnd);
        let with_copies = burst.saturating_add(sharing.shares[path.index()].copied);
        Room { cwnd, window: with_copies.min(cwnd) }
    }

    /// The usable paths' equal shares of the buffers; whole buffers where they are not split. The receive
    /// buffer is `taken` and what the peer offers besides. When it is split `taken` is what is outstanding
    /// (FreeBSD's `max_rwnd_per_dest` in `sctp_med_chunk_output`, INET's `sendOnPath`), when chunks are
    /// rescheduled all that takes it up (INET's `chunkReschedulingControl`).
    fn limits(&self, config: &Config, taken: u64) -> Buffered {
        let usable = self.status.iter().filter(|status| status.is_usable()).count().max(1) as u64;
        let part = |whole: u64, is_split: bool| if is_split { whole / usable } else { whole };
        Buffered {
            sender: part(self.parameters.send_buffer, config.buffer_splitting.has_sender()),
            receiver: part(u64::from(self.peer_rwnd) + taken, config.buffer_splitting.has_receiver()),
            in_flight: u64::MAX,
        }
    }

    /// Says of what a path has in the buffers which of the two has no room for `length` bytes more in the
    /// path's share. One packet may always be on its way, as a probe (RFC 9260 section 6.1 A).
    fn split(
        &self,
        config: &Config,
        limits: Buffered,
        length: u32,
    ) -> impl Fn(&Buffered) -> Option<Blocking> + use<> {
        let (sides, split_by) = (config.buffer_splitting, config.split_by);
        let is_anything_outstanding = self.outstanding.bytes() > 0;
        move |own| {
            let exceeds = |buffered: u64, limit: u64| {
                let taken = match split_by {
                    SplitBy::Buffered => buffered,
                    SplitBy::Outstanding => own.in_flight,
                };
                is_anything_outstanding && taken > 0 && taken + u64::from(length) > limit
            };
            if sides.has_receiver() && exceeds(own.receiver, limits.receiver) {
                Some(Blocking::ReceiveBuffer)
            } else if sides.has_sender() && exceeds(own.sender, limits.sender) {
                Some(Blocking::SendBuffer)
            } else {
                None
            }
        }
    }
}

#[cfg(test)]
impl Association {
    /// Checks that what is known of paths without a change is what a new look shows.
    pub(super) fn check_views(&self, sharing: &LoadSharing) {
        for (index, view) in sharing.views.iter().enumerate() {
            let id = PathId(index as u8);
            let is_noted =
                [sharing.group.changed(), self.outstanding.changed].iter().any(|set| set.contains(id));
            if !is_noted && !sharing.rooms_changed.contains(id) {
                let room = self.room(sharing, id);
                assert_eq!(sharing.rooms[index], room, "path {index}");
                let in_use = self.outstanding.on(id) + sharing.shares[index].copied;
                assert_eq!(sharing.roomy.contains(id), in_use < room.cwnd, "path {index}");
            }
            if is_noted || sharing.changed.contains(id) {
                continue;
            }
            let path = &self.paths[index];
            let ControlState { cwnd, ssthresh, .. } = path.cc.state();
            assert_eq!((view.cwnd, view.ssthresh), (cwnd, ssthresh), "path {index}");
            assert_eq!((view.srtt, view.rttvar), (path.rto.srtt, path.rto.rttvar), "path {index}");
            assert_eq!(view.outstanding, self.outstanding.on(id) + sharing.shares[index].copied);
        }
    }
}

#[cfg(test)]
impl LoadSharing {
    /// Checks that the byte counters match a recount.
    pub(super) fn check_accounts(&self) {
        for (index, &Share { copied, .. }) in self.shares.iter().enumerate() {
            let own = self.copies.iter().filter(|copy| copy.path.index() == index);
            assert_eq!(copied, own.map(|copy| copy.window_bytes).sum::<u32>(), "copies on path {index}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::super::testing::{Pair, holds, ms};
    use super::*;
    use crate::endpoint::{Command, Input};
    use crate::ground::Side;
    use crate::path::PathState;
    use crate::wire::sctp::chunk::Chunk;
    use crate::wire::{Body, Packet};

    fn sharing(config: Config) -> super::super::Config {
        super::super::Config { load_sharing: Some(config), ..super::super::Config::default() }
    }

    #[test]
    fn new_data_leaves_on_all_paths_at_once() {
        let mut pair = Pair::open(&sharing(Config::default()), 3);
        pair.run_for(ms(2_000));
        pair.log.clear();
        pair.send_reliable(12, 1_400);
        for path in 0..3 {
            let sent = pair.sent(Side::A, "data").iter().filter(|packet| packet.path == path).count();
            assert_eq!(sent, 4, "the initial window of path {path}");
        }
    }

    #[test]
    fn a_path_that_may_have_failed_carries_no_new_data() {
        let settings = super::super::Config {
            pf_max_retrans: Some(crate::units::Limit::At(0)),
            ..sharing(Config::default())
        };
        let mut pair = Pair::open(&settings, 2);
        pair.run_for(ms(2_000));
        pair.set_up(1, false);
        pair.send_reliable(8, 1_400);
        pair.run_for(ms(1_500));
        assert!(pair.path_change(Side::A, 1, PathState::PotentiallyFailed).is_some());
        pair.log.clear();
        pair.send_reliable(8, 1_400);
        pair.run_for(ms(1_000));
        assert!(pair.sent(Side::A, "data").iter().all(|packet| packet.path == 0));
        assert_eq!(pair.received(Side::B).len(), 16, "what was lost there was sent again");
    }

    /// What the flags of the SACKs say that arrive before the first chunk, which is lost, is sent again.
    fn sacks_before_fast_retransmit(delayed_ack: bool) -> Vec<u8> {
        let mut pair = Pair::open(&sharing(Config { delayed_ack, ..Config::default() }), 1);
        let mut first = None;
        pair.drop_if = Box::new(move |_, _, packet| {
            first.is_none() && holds(packet, "data") && first.replace(()).is_none()
        });
        pair.send_reliable(12, 1_400);
        pair.run_for(ms(190));
        let lost = pair.sent(Side::A, "data")[0].tsns()[0];
        let data = pair.sent(Side::A, "data");
        let again = data.iter().rfind(|packet| packet.tsns()[0] == lost).expect("it was sent").at;
        let sacks = pair.sent(Side::B, "sack");
        sacks
            .iter()
            .filter(|packet| packet.at < again)
            .map(|packet| if let Chunk::Sack(packets, _) = packet.chunks[0] { packets } else { 0 })
            .collect()
    }

    #[test]
    fn a_delayed_sack_reports_a_chunk_missing_once_per_packet() {
        // Iyengar et al. 2006, section 3.3.
        assert_eq!(sacks_before_fast_retransmit(true), [2, 2]);
        assert_eq!(sacks_before_fast_retransmit(false), [0, 0, 0]);
    }

    /// Six chunks leave on two paths and the first is lost; the SACKs for the others, in their order.
    fn with_sacks_of_five_chunks() -> (Pair, Vec<Packet>) {
        let mut pair = Pair::open(&sharing(Config { delayed_ack: false, ..Config::default() }), 2);
        let kept = Rc::new(RefCell::new(Vec::new()));
        let (mut is_first, sacks) = (true, Rc::clone(&kept));
        pair.drop_if = Box::new(move |_, from, packet| {
            if from == Side::B {
                sacks.borrow_mut().push(packet.clone());
            }
            from == Side::B || std::mem::take(&mut is_first)
        });
        pair.send_reliable(6, 1_400);
        pair.run_for(ms(100));
        (pair, kept.take())
    }

    fn sender(pair: &Pair) -> (u64, Vec<u32>) {
        let sender = &pair.ends[0];
        let windows = sender.paths.iter().map(|path| path.cc.limits().cwnd).collect();
        (sender.outstanding.bytes(), windows)
    }

    #[test]
    fn a_sack_that_a_later_one_has_overtaken_revokes_nothing() {
        let (mut pair, sacks) = with_sacks_of_five_chunks();
        assert_eq!(sacks.len(), 5);
        pair.input(Side::A, Input::Packet(Box::new(sacks[4].clone())));
        let known = sender(&pair);
        assert_eq!(known.0, 1_400, "the first chunk is outstanding");
        for old in [3, 0, 2, 1] {
            pair.input(Side::A, Input::Packet(Box::new(sacks[old].clone())));
            assert_eq!(sender(&pair), known, "after SACK {old}");
        }
    }

    #[test]
    fn a_sack_with_news_that_lacks_what_was_known_revokes_it() {
        let (mut pair, sacks) = with_sacks_of_five_chunks();
        pair.input(Side::A, Input::Packet(Box::new(sacks[1].clone())));
        assert_eq!(sender(&pair).0, 4 * 1_400);
        let mut newer = sacks[4].clone();
        if let Body::Sctp(packet) = &mut newer.body
            && let Chunk::Sack(_, sack) = &mut packet.first
        {
            sack.gap_blocks[0].start = 4;
        }
        pair.input(Side::A, Input::Packet(Box::new(newer)));
        assert_eq!(sender(&pair).0, 3 * 1_400, "the first chunk, and the two that were dropped");
    }

    #[test]
    fn the_user_still_names_the_primary_path() {
        let mut pair = Pair::open(&sharing(Config::default()), 2);
        pair.command(Side::A, Command::SetPrimary(PathId(1)));
        assert_eq!(pair.ends[0].selection.primary, PathId(1));
    }
}
