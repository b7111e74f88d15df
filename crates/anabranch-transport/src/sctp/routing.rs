//! The paths of an association, what is known of each, and which of them carries data.

use super::association::Association;
use super::heartbeat::HeartbeatScheduler;
use super::parameters::Parameters;
use super::path::Path;
use crate::endpoint::Event;
use crate::ground::{IpVersion, PathId};
use crate::path::{PathEvent, PathSelector as _, PathStatus, Selection, Selector};
use crate::rng::Draw as _;
use crate::secret::NumberSource;
use crate::time::Time;
use crate::wire::sctp::chunk::SACK_HEADER_BYTES;

/// The paths, and the policy that chooses among them.
#[derive(Debug)]
pub(super) struct Routing {
    pub(super) paths: Vec<Path>,
    /// The policies' view of the paths.
    pub(super) status: Vec<PathStatus>,
    pub(super) selector: Selector,
    pub(super) selection: Selection,
    pub(super) heartbeat: HeartbeatScheduler,
    /// Errors since the peer last answered, on all paths (RFC 9260 section 8.1).
    pub(super) errors_in_a_row: u32,
    /// When the first timer of a path expires, if that is known and no timer may have changed since.
    pub(super) next_of_paths: Option<Time>,
    /// The most Gap Ack Blocks and duplicates in a packet with only a SACK.
    pub(super) sack_entries: usize,
}

impl Routing {
    /// A path per MTU; each draws its nonce from `numbers`.
    pub(super) fn new(
        parameters: &Parameters,
        mtus: &[u32],
        ip: IpVersion,
        numbers: &mut NumberSource,
        heartbeat: HeartbeatScheduler,
    ) -> Self {
        let path = |&mtu: &u32| Path::new(parameters, mtu, ip, numbers.bits() as u32);
        let paths: Vec<Path> = mtus.iter().map(path).collect();
        // Above all nonces, which are the seeds of the paths' controls.
        let policy_seed = u64::from(paths[0].heartbeat.nonce) | 1 << 32;
        Self {
            status: vec![PathStatus::default(); paths.len()],
            selector: parameters.policy.build(parameters.failover, policy_seed),
            selection: Selection::new(PathId(parameters.primary_path)),
            paths,
            heartbeat,
            errors_in_a_row: 0,
            next_of_paths: None,
            sack_entries: 0,
        }
    }

    /// The numbers of the paths.
    pub(super) fn ids(&self) -> impl Iterator<Item = PathId> + Clone + use<> {
        (0..self.paths.len()).map(|index| PathId(index as u8))
    }

    /// The smallest MTU of a path, for which chunks are cut.
    pub(super) fn smallest_mtu(&self) -> u32 {
        self.paths.iter().map(|path| path.mtu).min().unwrap_or_default()
    }

    /// Whether a path may take new data without reservation.
    pub(super) fn has_usable(&self) -> bool {
        self.status.iter().any(PathStatus::is_usable)
    }

    /// Whether new data may go on this path: it is usable, or the policy's choice while none is.
    pub(super) fn carries_new(&self, path: PathId) -> bool {
        self.status[path.index()].is_usable() || (path == self.selection.current && !self.has_usable())
    }

    /// Clears the errors of a path that has answered, and of the association.
    pub(super) fn clear_errors(&mut self, path: PathId) {
        self.errors_in_a_row = 0;
        self.status[path.index()].error_count = 0;
    }

    /// When the first timer of a path expires.
    #[inline]
    pub(super) fn first_timeout(&self) -> Time {
        let timeout = |path: &Path| path.t3.min(path.heartbeat.timer).min(path.heartbeat.timeout);
        self.paths.iter().fold(Time::NEVER, |first, path| first.min(timeout(path)))
    }
}

impl Association {
    /// Tells the policy what happened, and reports its decision.
    pub(super) fn on_path_event(&mut self, now: Time, event: PathEvent) {
        if self.parts.probing.is_some() {
            self.on_measured_event(now, event);
        } else {
            self.select(now, event);
        }
    }

    #[inline]
    pub(super) fn select(&mut self, now: Time, event: PathEvent) {
        let from = self.routing.selection.primary;
        if self.parts.addresses.is_some() {
            self.select_among_addresses(now, event);
        } else {
            self.routing.selector.select(now, event, &self.routing.status, &mut self.routing.selection);
        }
        let Selection { primary: to, reason, .. } = self.routing.selection;
        if to != from {
            self.stats.record_primary_change(now, from, to);
            self.outbox.emit(Event::PrimaryChanged { from, to, reason });
        }
    }

    /// The policy does not know about changing addresses: it continues from its own choice.
    #[cold]
    fn select_among_addresses(&mut self, now: Time, event: PathEvent) {
        if let Some(addresses) = &self.parts.addresses {
            self.routing.selection = addresses.chosen;
        }
        self.routing.selector.select(now, event, &self.routing.status, &mut self.routing.selection);
        self.keep_to_present_addresses();
    }

    /// Finds the longest chunks that fit into a packet on every path.
    pub(super) fn fit_chunks(&mut self) {
        let room = self.routing.smallest_mtu() - self.local.headers_bytes;
        self.sender.fragment_limit = (room - self.sender.data_header) & !3;
        self.routing.sack_entries = ((room - SACK_HEADER_BYTES) / 4) as usize;
    }
}
