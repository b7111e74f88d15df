//! The paths of an association, what is known of each, and which of them carries data.

use super::parameters::Parameters;
use super::path::{HeartbeatScheduler, Path};
use crate::flow::{IpVersion, PathId};
use crate::path::{PathStatus, Selection, Selector};
use crate::rng::Draw as _;
use crate::secret::NumberSource;
use crate::time::Time;

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
