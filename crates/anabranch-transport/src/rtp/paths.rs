//! The paths of an end, and which of them carry what: one at a time, by a path policy, or several at the same
//! time, by a scheduler.
//!
//! A path is left when the peer has not said for `path_timeout` and a round trip that anything arrived, and
//! what waits for it goes elsewhere. A path that carries nothing gets a copy of a packet of media every
//! `probe_interval`: by the feedback on it the path's delay, losses and rate stay known, and it is back when
//! one arrives.

use std::ops::{Index, IndexMut};

use smallvec::{SmallVec, smallvec};

use super::Config;
use super::history::Sent;
use super::path::Path;
use crate::cc::media::MediaControl as _;
use crate::endpoint::Event;
use crate::flow::PathId;
use crate::path::scheduler::{self, AnyScheduler, Decision, PathView, Pending, Scheduler as _};
use crate::path::{
    PathEvent, PathSelector as _, PathState, PathStatus, Retransmission, Selection, Selector, failover,
};
use crate::rng::{Draw as _, Rng};
use crate::time::{Duration, Time};
use crate::units::Rate;

/// For how long packets may wait for the pacer of a path that counts as one with room.
const ROOM: Duration = Duration::from_millis(100);

/// The paths, and who chooses among them.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) all: Vec<Path>,
    status: Vec<PathStatus>,
    /// With several paths: the policy.
    selector: Option<Selector>,
    pub(super) selection: Selection,
    scheduler: Option<AnyScheduler>,
    views: Vec<PathView>,
    config: Config,
}

/// The numbers of the paths.
pub(super) type Ids = SmallVec<[PathId; 4]>;

impl Paths {
    /// The paths of an end whose peer's media comes from `peer`; `seed` is for what draws numbers here, and
    /// `seeds` has those of the paths' controls.
    pub(super) fn new(config: &Config, mtus: &[u32], peer: u32, seed: u64, seeds: &mut Rng) -> Self {
        let path = |(number, mtu): (u8, &u32)| Path::new(PathId(number), *mtu, config, peer, seeds.bits());
        let policy = || config.policy.clone().unwrap_or_default();
        Self {
            all: (0..).zip(mtus).map(path).collect(),
            status: mtus.iter().map(|&mtu| PathStatus { mtu, ..PathStatus::default() }).collect(),
            selector: config.has_several().then(|| policy().build(failover::Settings::default(), seed)),
            selection: Selection::new(PathId(config.path)),
            scheduler: config.scheduler.as_ref().map(|scheduler| scheduler.build(seed)),
            views: Vec::new(),
            config: config.clone(),
        }
    }

    /// Whether more than one path is used.
    pub(super) const fn are_several(&self) -> bool {
        self.selector.is_some()
    }

    /// Every path's number.
    pub(super) fn ids(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.all.len()).map(|index| PathId(index as u8))
    }

    /// The path that is used, or preferred.
    pub(super) const fn current(&self) -> PathId {
        self.selection.current
    }

    /// Whether some paths may be used without reservation.
    fn any_usable(&self) -> bool {
        self.status.iter().any(PathStatus::is_usable)
    }

    /// Tells the policy what happened. Returns what the application is to hear.
    fn select(&mut self, now: Time, event: PathEvent) -> Option<Event> {
        let from = self.selection.primary;
        self.selector.as_mut()?.select(now, event, &self.status, &mut self.selection);
        let Selection { primary: to, reason, .. } = self.selection;
        (to != from).then_some(Event::PrimaryChanged { from, to, reason })
    }

    /// The flow begins.
    pub(super) fn open(&mut self, now: Time) -> Option<Event> {
        self.select(now, PathEvent::Opened)
    }

    /// Whether the application may ask for this path.
    pub(super) fn may_request(&self, path: PathId) -> bool {
        path.index() < self.all.len() && self.scheduler.is_none()
    }

    /// The application asks for this path. Returns what it is to hear.
    pub(super) fn request(&mut self, now: Time, path: PathId) -> Option<Event> {
        if self.are_several() {
            return self.select(now, PathEvent::PrimaryRequested(path));
        }
        self.selection = Selection::new(path);
        None
    }

    /// The paths that carry the next packet of media, of so many bytes.
    pub(super) fn carriers(&mut self, now: Time, bytes: u32) -> Ids {
        let Some(mut scheduler) = self.scheduler.take() else { return smallvec![self.current()] };
        let mut views = std::mem::take(&mut self.views);
        views.clear();
        views.extend(self.ids().map(|path| self.view(now, path)));
        let queued = self.all.iter().map(|path| path.pacer.media_bytes()).sum::<u64>() + u64::from(bytes);
        let decision = scheduler.schedule(&Pending::new(now, bytes, queued, u32::MAX), &views);
        let chosen = match decision {
            Decision::Duplicate(paths) if !paths.is_empty() => paths,
            Decision::Send(path) => smallvec![path],
            // No path has room: the packet goes where it leaves first.
            Decision::Duplicate(_) | Decision::Wait => {
                let usable = |path: &PathId| self.carries(*path);
                let wait = |path: &PathId| self.wait(now, *path);
                smallvec![self.ids().filter(usable).min_by_key(wait).unwrap_or(self.current())]
            }
        };
        (self.views, self.scheduler) = (views, Some(scheduler));
        chosen
    }

    /// How long a packet that comes now waits for the pacer.
    fn wait(&self, now: Time, path: PathId) -> Duration {
        let path = &self.all[path.index()];
        path.pacer.wait(now, path.control.limits().pacing)
    }

    /// What the scheduler may know of a path.
    fn view(&self, now: Time, id: PathId) -> PathView {
        let path = &self.all[id.index()];
        let mut view = PathView::new(id);
        view.is_usable = self.status[id.index()].is_usable() || !self.any_usable();
        view.is_backup = self.config.backup.contains(&id.0);
        view.has_room = self.wait(now, id) <= ROOM;
        view.srtt = path.srtt;
        view.queued = Some(path.pacer.media_bytes());
        view.pace = Some(path.control.limits().pacing.bits_per_sec() / 8);
        view
    }

    /// Whether a path may carry media: it is usable, and no backup while another one is.
    fn carries(&self, path: PathId) -> bool {
        let is_usable = |path: PathId| self.status[path.index()].is_usable() || !self.any_usable();
        let is_backup = |path: PathId| self.config.backup.contains(&path.0);
        let others = || self.ids().any(|other| is_usable(other) && !is_backup(other));
        is_usable(path) && !(is_backup(path) && others())
    }

    /// What the encoder is to make: what the path in use lets it, with copies on all of them the best of
    /// them, and otherwise all that carry media together.
    pub(super) fn target(&self) -> Rate {
        let limits = |path: PathId| self.all[path.index()].control.limits();
        let targets = self.ids().filter(|path| self.carries(*path)).map(|path| limits(path).target);
        match self.config.scheduler {
            None => limits(self.current()).target,
            Some(scheduler::Config::BackupOnly) => {
                { targets }.next().unwrap_or_else(|| limits(self.current()).target)
            }
            Some(scheduler::Config::Redundant) => {
                targets.max().unwrap_or_else(|| limits(self.current()).target)
            }
            Some(_) => Rate::from_bits_per_sec(targets.map(Rate::bits_per_sec).sum()),
        }
    }

    /// The path on which a packet is sent again that was sent on `last`.
    pub(super) fn retransmission_path(&mut self, last: PathId) -> PathId {
        let loss = Retransmission::new(last, false);
        match &mut self.selector {
            None => self.selection.current,
            Some(selector) => selector.retransmission_path(&loss, &self.status, &self.selection),
        }
    }

    /// The paths that are to be probed with a copy of what was just sent on `carrier`.
    pub(super) fn to_probe(&self, now: Time, carrier: PathId) -> Ids {
        if !self.are_several() {
            return Ids::new();
        }
        let interval = self.config.probe_interval;
        let is_idle = |path: &Path| {
            path.pacer.is_empty() && path.last_sent.is_none_or(|last| now.saturating_since(last) >= interval)
        };
        self.ids().filter(|path| *path != carrier && is_idle(&self.all[path.index()])).collect()
    }

    /// The peer has said what came on this path: its round trip, if something did. Returns what the
    /// application is to hear.
    pub(super) fn on_feedback(&mut self, now: Time, id: PathId, rtt: Option<Duration>) -> Vec<Event> {
        let (path, status) = (&self.all[id.index()], &mut self.status[id.index()]);
        (status.sent_bytes, status.lost_bytes) = (path.stats.wire_bytes_sent, path.stats.wire_bytes_lost);
        let Some(rtt) = rtt.filter(|_| self.selector.is_some()) else { return Vec::new() };
        (status.srtt, status.last_heard, status.error_count) = (path.srtt, now, 0);
        let mut events = self.change_state(now, id, PathState::Active);
        events.extend(self.select(now, PathEvent::SrttUpdated { path: id, rtt }));
        events
    }

    fn change_state(&mut self, now: Time, path: PathId, state: PathState) -> Vec<Event> {
        let from = std::mem::replace(&mut self.status[path.index()].state, state);
        if from == state {
            return Vec::new();
        }
        let mut events = vec![Event::PathChanged { path, state }];
        events.extend(self.select(now, PathEvent::StateChanged { path, from }));
        events
    }

    /// When this path is taken for silent.
    fn silent_at(&self, id: PathId) -> Time {
        let path = &self.all[id.index()];
        if !self.are_several() || self.status[id.index()].state != PathState::Active {
            return Time::NEVER;
        }
        path.silent_since + (self.config.path_timeout + path.srtt.unwrap_or(Duration::ZERO))
    }

    /// Leaves the paths that have been silent for too long, and lets the policy do what is due. Returns the
    /// paths left and what the application is to hear.
    pub(super) fn work(&mut self, now: Time) -> (Ids, Vec<Event>) {
        let left: Ids = self.ids().filter(|path| self.silent_at(*path) <= now).collect();
        let mut events = Vec::new();
        for path in &left {
            self.all[path.index()].stats.failures += 1;
            self.status[path.index()].error_count += 1;
            events.extend(self.change_state(now, *path, PathState::Inactive));
        }
        if self.selector.as_ref().is_some_and(|selector| selector.next_tick() <= now) {
            events.extend(self.select(now, PathEvent::Tick));
        }
        (left, events)
    }

    /// When something is due; `headers` are bytes of an IP header.
    pub(super) fn next(&self, headers: u32) -> Time {
        let of_path =
            |(index, path): (usize, &Path)| path.next(headers).min(self.silent_at(PathId(index as u8)));
        let tick = self.selector.as_ref().map_or(Time::NEVER, Selector::next_tick);
        self.all.iter().enumerate().map(of_path).fold(tick, Time::min)
    }

    /// Bytes of media that wait, each copy counted.
    pub(super) fn waiting(&self) -> u64 {
        self.all.iter().map(|path| path.pacer.media_bytes()).sum()
    }

    /// Whether a packet of media has been sent on any path.
    pub(super) fn has_sent(&self, number: u64) -> bool {
        self.are_several() && self.all.iter().any(|path| path.sent[0].get(number).is_some())
    }

    /// The packet of media that these 16 bits mean, and the path on which it was sent last.
    pub(super) fn find(&self, sequence: u16) -> Option<(PathId, Sent)> {
        let sent = |id: PathId| {
            let history = &self.all[id.index()].sent[0];
            Some((id, *history.get(history.number(sequence))?))
        };
        self.ids().filter_map(sent).max_by_key(|(_, sent)| (sent.number, sent.again, sent.at))
    }

    /// Whether this packet of media already waits to be sent again.
    pub(super) fn has_retransmission(&self, original: u64) -> bool {
        self.all.iter().any(|path| path.pacer.has_retransmission(original))
    }

    /// A packet of media is sent again now.
    pub(super) fn on_sent_again(&mut self, now: Time, number: u64) {
        for path in &mut self.all {
            if let Some(sent) = path.sent[0].get_mut(number) {
                sent.again = Some(now);
            }
        }
    }

    /// What waits for this path goes elsewhere, unless another path has it.
    pub(super) fn move_waiting(&mut self, now: Time, from: PathId) {
        for waiting in self.all[from.index()].pacer.drain() {
            if waiting.original.is_some() {
                let path = self.retransmission_path(from);
                self.all[path.index()].pacer.push(waiting);
            } else if !self.has_sent(waiting.number)
                && !self.all.iter().any(|path| path.pacer.has_media(waiting.number))
            {
                for path in self.carriers(now, waiting.payload.length) {
                    self.all[path.index()].pacer.push(waiting);
                }
            }
        }
    }
}

impl Index<PathId> for Paths {
    type Output = Path;

    fn index(&self, path: PathId) -> &Path {
        &self.all[path.index()]
    }
}

impl IndexMut<PathId> for Paths {
    fn index_mut(&mut self, path: PathId) -> &mut Path {
        &mut self.all[path.index()]
    }
}
