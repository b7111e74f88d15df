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

mod blocking;
mod config;
mod copies;
mod sending;
#[cfg(test)]
mod tests;
mod views;

use super::outstanding::{Buffered, Outstanding};
use super::parameters::Parameters;
use super::path::{Acked, Path};
use super::sender::limit_burst;
use super::tsn;
use crate::cc::coupled::{Group, PathSetup};
use crate::cc::{self, AckEvent, CongestionControl as _, ControlState, Controller};
use crate::flow::{IpVersion, PathId, PathSet};
use crate::path::scheduler::{AnyScheduler, PathView, Scheduler as _};
use crate::report::{Report, declare};
use crate::time::Time;
use blocking::{BlockedTimes, Ground};
use copies::{Copies, Share};
use views::{Room, Views};

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
    /// DATA chunks retransmitted on another path because everything waited for them.
    DATA_CHUNKS_RESCHEDULED = "data_chunks_rescheduled": One;
}

declare! {
    PATH_SCALARS:
    /// Bytes of DATA chunks sent on the path for the first time.
    NEW_BYTES_SENT = "new_bytes_sent": Bytes;
    /// Bytes of copies, on this path, of chunks that were first sent on another one.
    COPIED_BYTES_SENT = "copied_bytes_sent": Bytes;
}

/// The state of load sharing.
#[derive(Debug)]
pub(super) struct LoadSharing {
    config: Config,
    group: Group,
    scheduler: AnyScheduler,
    copies: Copies,
    views: Views,
    /// The lowest TSN that a gap block of the SACK being processed acknowledges.
    lowest_gap_acked: Option<u32>,
    /// The SACK being processed reports everything before this TSN missing a second time (DAC).
    twice_missing_below: Option<u32>,
    /// Whether the scheduler leaves paths idle although they have room.
    is_waiting: bool,
    rescheduled: u64,
    blocked: BlockedTimes,
}

impl LoadSharing {
    /// Load sharing over these paths, whose congestion controls become members of one group.
    pub(super) fn new(config: &Config, parameters: &Parameters, ip: IpVersion, paths: &mut [Path]) -> Self {
        let mut sharing = Self {
            config: config.clone(),
            group: Group::new(config.coupling.build()),
            scheduler: config.scheduler.build(paths[0].heartbeat.nonce.into()),
            copies: Copies::default(),
            views: Views::default(),
            lowest_gap_acked: None,
            twice_missing_below: None,
            is_waiting: false,
            rescheduled: 0,
            blocked: BlockedTimes::default(),
        };
        for (index, path) in paths.iter_mut().enumerate() {
            sharing.add_path(parameters, ip, PathId(index as u8), path);
        }
        sharing
    }

    /// Shares the load with one more path, which comes after the last one.
    pub(super) fn add_path(&mut self, parameters: &Parameters, ip: IpVersion, id: PathId, path: &mut Path) {
        self.copies.shares.push(Share::default());
        self.views.add_path(id);
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

    /// Records that a path has got a control of its own.
    pub(super) const fn record_foreign_control(&mut self) {
        self.views.record_foreign_control();
    }

    /// Whether the receiver delays SACKs although there are gaps (DAC).
    pub(super) const fn delays_sacks(&self) -> bool {
        self.config.delayed_ack
    }

    /// The flags of a SACK for so many packets with data: their number, in 2 bits (FreeBSD `sctp_send_sack`).
    pub(super) fn packets_to_report(&self, packets: u32) -> u8 {
        if self.config.delayed_ack { packets.min(3) as u8 } else { 0 }
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

    /// Bytes of copies that are on their way on this path.
    pub(super) fn copied(&self, path: PathId) -> u32 {
        self.copies.shares[path.index()].copied
    }

    /// Whether the scheduler leaves this path idle although it has room.
    fn spares(&self, path: PathId) -> bool {
        let view = &self.views.as_slice()[path.index()];
        self.is_waiting && view.is_usable && view.has_room
    }

    /// Tells the scheduler that the peer's window has no room.
    fn on_blocked(&mut self) {
        self.scheduler.on_blocked();
    }

    /// Records the paths on which something has changed.
    fn record_changes(&mut self, outstanding: &mut Outstanding) {
        let mut changed = self.group.take_changed();
        changed.insert_all(std::mem::take(&mut outstanding.changed));
        self.views.record(changed);
    }

    /// The paths whose control may have changed since this was last asked.
    pub(super) fn take_changed_controls(&mut self, outstanding: &mut Outstanding) -> PathSet {
        self.record_changes(outstanding);
        self.views.take_changed_controls()
    }

    /// The congestion window of a path, and how much of it Max.Burst leaves.
    fn room(&self, ground: Ground<'_>, path: PathId) -> Room {
        // Max.Burst applies to what is added to the data in flight, copies included.
        let own = &ground.routing.paths[path.index()];
        let cwnd = own.cc.limits().cwnd;
        let in_flight = ground.sender.outstanding.on(path);
        let burst = limit_burst(ground.parameters.max_burst, in_flight, own.segment, cwnd);
        Room { cwnd, window: burst.saturating_add(self.copied(path)).min(cwnd) }
    }

    /// Computes the rooms anew where something has changed.
    fn refresh_rooms(&mut self, ground: Ground<'_>) {
        while let Some(path) = self.views.pop_stale_room() {
            let in_use = ground.sender.outstanding.on(path) + self.copied(path);
            self.views.set_room(path, self.room(ground, path), in_use);
        }
    }

    /// Brings the views of the paths up to date on which something has changed. Their rooms stay as they are.
    fn refresh_changed(&mut self, ground: Ground<'_>, limits: Buffered, length: u32) {
        let fits = ground.fits(&self.config, limits, length);
        while let Some(id) = self.views.pop_stale() {
            let outstanding = ground.sender.outstanding.on(id) + self.copied(id);
            let has_room = outstanding < self.views.room(id).window
                && fits(&ground.sender.outstanding.buffered[id.index()]);
            let path = &ground.routing.paths[id.index()];
            let ControlState { cwnd, ssthresh, .. } = path.cc.state();
            let view = self.views.view_mut(id);
            *view = PathView {
                is_usable: view.is_usable,
                in_recovery: view.in_recovery,
                has_timed_out: view.has_timed_out,
                has_room,
                srtt: path.rtt.srtt(),
                rttvar: path.rtt.rttvar(),
                cwnd,
                ssthresh,
                outstanding,
                ..PathView::new(id)
            };
        }
    }

    /// Looks at all paths, whose views are up to date otherwise, for what may have changed of a path on which
    /// nothing has: whether it may be used, and has room for a chunk of this length.
    fn refresh_all(&mut self, ground: Ground<'_>, limits: Buffered, length: u32) {
        let fits = ground.fits(&self.config, limits, length);
        let buffered = &ground.sender.outstanding.buffered;
        for ((view, room), buffered) in self.views.iter_mut().zip(buffered) {
            view.has_room = view.outstanding < room.window && fits(buffered);
        }
        let routing = ground.routing;
        for (((view, _), status), path) in self.views.iter_mut().zip(&routing.status).zip(&routing.paths) {
            view.is_usable = status.is_usable();
            view.in_recovery = path.fast_recovery_exit.is_some();
            view.has_timed_out = path.rtt.back_offs() > 0;
        }
        self.views.view_mut(routing.selection.current).is_usable |= !routing.has_usable();
    }

    /// Writes what concerns the association.
    pub(super) fn report(&self, now: Time, report: &mut Report<'_>) {
        self.blocked.report(now, report);
        report.count(DATA_CHUNKS_RESCHEDULED, self.rescheduled);
    }

    /// Writes what concerns one path.
    pub(super) fn report_path(&self, path: usize, report: &mut Report<'_>) {
        report.count(NEW_BYTES_SENT, self.copies.shares[path].sent_bytes);
        report.count(COPIED_BYTES_SENT, self.copies.shares[path].copied_bytes);
    }
}

#[cfg(test)]
impl LoadSharing {
    /// Checks that the byte counters match a recount.
    pub(super) fn check_accounts(&self) {
        for (index, &Share { copied, .. }) in self.copies.shares.iter().enumerate() {
            let own = self.copies.under_way.iter().filter(|copy| copy.path.index() == index);
            assert_eq!(copied, own.map(|copy| copy.window_bytes).sum::<u32>(), "copies on path {index}");
        }
    }
}
