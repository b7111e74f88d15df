//! Congestion control over several paths at once: one control that knows all of them.
//!
//! A transport gives every path a [`Member`] of a [`Group`], which is a [`CongestionControl`] like any
//! other: subflows are endpoints of their own, and each talks to its own path's share of the group.

pub mod balia;
mod frame;
pub mod kheirkhah;
pub mod lia;
pub mod olia;
pub mod per_path;
pub mod resource_pooling;
pub mod wvegas;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use frame::{Coupling, Frame, Window, Windows};

use super::{
    AckEvent, ArrivalEvent, CongestionControl, CongestionEvent, ControlState, DuplicateEvent, IdleEvent,
    LostEvent, RecoveryEndEvent, RttEvent, SendLimits, SentEvent, UndoEvent,
};
use crate::flow::{PathId, PathSet};

/// The congestion control of all paths of an association or connection: the hooks of
/// [`CongestionControl`], each with the path that it is about.
pub trait CoupledCongestionControl: fmt::Debug {
    /// Adds a path. If there is one of this number already, it begins anew.
    fn add_path(&mut self, path: PathId, setup: &PathSetup);

    /// Removes a path, with which the others are no longer coupled.
    fn remove_path(&mut self, path: PathId);

    /// Data sent on this path was acknowledged.
    fn on_ack(&mut self, path: PathId, event: &AckEvent);

    /// Data sent on this path was lost, or the path was marked congested.
    fn on_congestion(&mut self, path: PathId, event: &CongestionEvent);

    /// How much may be sent on this path.
    fn limits(&self, path: PathId) -> SendLimits;

    /// Its variables for this path, for traces.
    fn state(&self, path: PathId) -> ControlState;

    /// A duplicate acknowledgement arrived in fast recovery of this path.
    fn on_duplicate(&mut self, _path: PathId, _event: &DuplicateEvent) {}

    /// Nothing was sent on this path for some time.
    fn on_idle(&mut self, _path: PathId, _event: &IdleEvent) {}

    /// Recovery is over on this path.
    fn on_recovery_end(&mut self, _path: PathId, _event: &RecoveryEndEvent) {}

    /// The last [`CongestionEvent`] of this path was a mistake.
    fn on_undo(&mut self, _path: PathId, _event: &UndoEvent) {}

    /// An acknowledgement of this path has arrived; [`Self::on_ack`] may follow.
    fn on_arrival(&mut self, _path: PathId, _event: &ArrivalEvent) {}

    /// A segment sent on this path is taken for lost.
    fn on_lost(&mut self, _path: PathId, _event: &LostEvent) {}

    /// The same as [`CongestionControl::is_only_window`], for this path; it does not change while the path is
    /// a member.
    fn is_only_window(&self, _path: PathId) -> bool {
        false
    }

    /// The fewest segments that are sent together on this path where there are as many.
    fn least_burst(&self, _path: PathId) -> u32 {
        super::LEAST_BURST
    }

    /// Whether the control itself says what may be sent on this path in recovery.
    fn owns_recovery(&self, _path: PathId) -> bool {
        false
    }

    /// A round-trip time was measured on this path.
    fn on_rtt_sample(&mut self, _path: PathId, _event: &RttEvent) {}

    /// Data was sent on this path.
    fn on_sent(&mut self, _path: PathId, _event: &SentEvent) {}
}

/// What a control needs to know about a path that joins.
#[derive(Clone, Debug)]
pub struct PathSetup {
    /// The control that this path has where nothing is coupled.
    pub own: super::Config,
    /// The set-up of a single control; the initial window also holds for coupled windows.
    pub setup: super::Setup,
    /// The slow-start threshold to start with, in bytes.
    pub initial_ssthresh: u32,
    /// The least slow-start threshold after a loss, in segments: 4 in SCTP (RFC 9260 section 7.2.3), 2 in
    /// TCP (RFC 5681 equation 4).
    pub ssthresh_floor: u32,
    /// Whether a timeout that follows another one without progress leaves the threshold as it is: in TCP (RFC
    /// 5681 section 3.1), not in SCTP (RFC 9260 section 7.2.3).
    pub holds_ssthresh: bool,
}

/// How the windows of the paths depend on each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "CouplingConfig")]
pub enum Config {
    /// Balanced linked adaptation (Peng et al., 2016).
    Balia(balia::Config),
    /// All windows together grow as one, in the model of Multipath TCP by Kheirkhah (2013).
    FullyCoupled(kheirkhah::Config),
    /// Linked increases (RFC 6356).
    Lia(lia::Config),
    /// Linked increases without their cap, in the model by Kheirkhah.
    LinkedIncreases(kheirkhah::Config),
    /// Opportunistic linked increases (Khalili et al., 2012).
    Olia(olia::Config),
    /// The windows do not depend on each other: each path has a control of its own.
    PerPath(per_path::Config),
    /// Resource pooling: CMT/RPv1 or CMT/RPv2 (Dreibholz et al., 2010 and 2011).
    ResourcePooling(resource_pooling::Config),
    /// Linked increases with their cap, in the model by Kheirkhah.
    RttCompensator(kheirkhah::Config),
    /// Weighted Vegas (Cao et al., 2012).
    Wvegas(wvegas::Config),
}

impl Default for Config {
    fn default() -> Self {
        Self::PerPath(per_path::Config {})
    }
}

impl Config {
    /// A control without paths.
    pub fn build(&self) -> Controller {
        let cited = |rule| Controller::Kheirkhah(Frame::new(kheirkhah::Kheirkhah::new(rule)));
        match self {
            Self::Balia(_) => Controller::Balia(Frame::new(balia::Balia)),
            Self::FullyCoupled(_) => cited(kheirkhah::Rule::FullyCoupled),
            Self::Lia(_) => Controller::Lia(Frame::new(lia::Lia)),
            Self::LinkedIncreases(_) => cited(kheirkhah::Rule::LinkedIncreases),
            Self::Olia(config) => Controller::Olia(Frame::new(olia::Olia::new(*config))),
            Self::PerPath(_) => Controller::PerPath(per_path::PerPath::default()),
            Self::ResourcePooling(config) => {
                Controller::ResourcePooling(Frame::new(resource_pooling::ResourcePooling::new(*config)))
            }
            Self::RttCompensator(_) => cited(kheirkhah::Rule::RttCompensator),
            Self::Wvegas(_) => Controller::Wvegas(Frame::new(wvegas::Wvegas::default())),
        }
    }
}

#[cfg(test)]
impl Config {
    /// Every kind, in all its versions.
    pub(crate) fn all() -> Vec<Self> {
        let rp = |version| Self::ResourcePooling(resource_pooling::Config { version });
        vec![
            Self::Balia(balia::Config {}),
            Self::FullyCoupled(kheirkhah::Config {}),
            Self::Lia(lia::Config {}),
            Self::LinkedIncreases(kheirkhah::Config {}),
            Self::Olia(olia::Config::default()),
            Self::PerPath(per_path::Config {}),
            rp(resource_pooling::Version::V1),
            rp(resource_pooling::Version::V2),
            Self::RttCompensator(kheirkhah::Config {}),
            Self::Wvegas(wvegas::Config {}),
        ]
    }
}

/// A coupled congestion control, dispatched statically where it is a built-in one.
#[derive(Debug)]
pub enum Controller {
    /// A single path in windows like the others'.
    Alone(Frame<frame::Alone>),
    /// BALIA.
    Balia(Frame<balia::Balia>),
    /// A user's own.
    Custom(Box<dyn CoupledCongestionControl + Send>),
    /// The couplings of Kheirkhah's model.
    Kheirkhah(Frame<kheirkhah::Kheirkhah>),
    /// Linked increases.
    Lia(Frame<lia::Lia>),
    /// Opportunistic linked increases.
    Olia(Frame<olia::Olia>),
    /// Controls that do not know about each other.
    PerPath(per_path::PerPath),
    /// Resource pooling.
    ResourcePooling(Frame<resource_pooling::ResourcePooling>),
    /// Weighted Vegas.
    Wvegas(Frame<wvegas::Wvegas>),
}

macro_rules! dispatch {
    ($self:expr, $inner:ident => $call:expr) => {
        match $self {
            Controller::Alone($inner) => $call,
            Controller::Balia($inner) => $call,
            Controller::Custom($inner) => $call,
            Controller::Kheirkhah($inner) => $call,
            Controller::Lia($inner) => $call,
            Controller::Olia($inner) => $call,
            Controller::PerPath($inner) => $call,
            Controller::ResourcePooling($inner) => $call,
            Controller::Wvegas($inner) => $call,
        }
    };
}

impl CoupledCongestionControl for Controller {
    fn add_path(&mut self, path: PathId, setup: &PathSetup) {
        dispatch!(self, control => control.add_path(path, setup));
    }

    fn remove_path(&mut self, path: PathId) {
        dispatch!(self, control => control.remove_path(path));
    }

    fn on_ack(&mut self, path: PathId, event: &AckEvent) {
        dispatch!(self, control => control.on_ack(path, event));
    }

    fn on_congestion(&mut self, path: PathId, event: &CongestionEvent) {
        dispatch!(self, control => control.on_congestion(path, event));
    }

    fn limits(&self, path: PathId) -> SendLimits {
        dispatch!(self, control => control.limits(path))
    }

    fn state(&self, path: PathId) -> ControlState {
        dispatch!(self, control => control.state(path))
    }

    fn on_duplicate(&mut self, path: PathId, event: &DuplicateEvent) {
        dispatch!(self, control => control.on_duplicate(path, event));
    }

    fn on_idle(&mut self, path: PathId, event: &IdleEvent) {
        dispatch!(self, control => control.on_idle(path, event));
    }

    fn on_recovery_end(&mut self, path: PathId, event: &RecoveryEndEvent) {
        dispatch!(self, control => control.on_recovery_end(path, event));
    }

    fn on_undo(&mut self, path: PathId, event: &UndoEvent) {
        dispatch!(self, control => control.on_undo(path, event));
    }

    fn on_arrival(&mut self, path: PathId, event: &ArrivalEvent) {
        dispatch!(self, control => control.on_arrival(path, event));
    }

    fn on_lost(&mut self, path: PathId, event: &LostEvent) {
        dispatch!(self, control => control.on_lost(path, event));
    }

    fn is_only_window(&self, path: PathId) -> bool {
        dispatch!(self, control => control.is_only_window(path))
    }

    fn least_burst(&self, path: PathId) -> u32 {
        dispatch!(self, control => control.least_burst(path))
    }

    fn owns_recovery(&self, path: PathId) -> bool {
        dispatch!(self, control => control.owns_recovery(path))
    }

    fn on_rtt_sample(&mut self, path: PathId, event: &RttEvent) {
        dispatch!(self, control => control.on_rtt_sample(path, event));
    }

    fn on_sent(&mut self, path: PathId, event: &SentEvent) {
        dispatch!(self, control => control.on_sent(path, event));
    }
}

/// Reno of a single path with windows in bytes, as those of coupled paths are.
pub(super) fn alone(own: &super::Config, setup: &super::Setup) -> Member {
    let group = Group::new(Controller::Alone(Frame::new(frame::Alone)));
    let (initial_ssthresh, ssthresh_floor) = (u32::MAX, 2);
    let own = own.clone();
    let setup = PathSetup { own, setup: *setup, initial_ssthresh, ssthresh_floor, holds_ssthresh: true };
    group.join(PathId(0), &setup)
}

/// The paths that share a control. Clones are the same group.
///
/// A run has one thread, so the lock is never waited for.
#[derive(Clone, Debug)]
pub struct Group(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    control: Controller,
    /// The paths whose window may have changed.
    changed: PathSet,
}

impl Shared {
    /// The control, for something that concerns this path.
    #[inline]
    fn of(&mut self, path: PathId) -> &mut Controller {
        self.changed.insert(path);
        &mut self.control
    }
}

impl Group {
    /// A group without paths.
    pub fn new(control: Controller) -> Self {
        Self(Arc::new(Mutex::new(Shared { control, changed: PathSet::default() })))
    }

    /// Adds a path: the returned member acts as the control of the path's endpoint. Dropping it removes the
    /// path.
    #[must_use]
    pub fn join(&self, path: PathId, setup: &PathSetup) -> Member {
        let mut shared = self.shared();
        let control = shared.of(path);
        control.add_path(path, setup);
        Member { group: self.clone(), path, is_only_window: control.is_only_window(path) }
    }

    /// The paths that any member has told something since this was last asked; only of these can window and
    /// round-trip time have changed.
    pub(crate) fn take_changed(&self) -> PathSet {
        std::mem::take(&mut self.shared().changed)
    }

    #[cfg(test)]
    pub(crate) fn changed(&self) -> PathSet {
        self.shared().changed
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One path of a group.
#[derive(Debug)]
pub struct Member {
    group: Group,
    path: PathId,
    is_only_window: bool,
}

impl Member {
    /// Has the path begin anew, as a member still.
    pub fn begin_anew(&mut self, setup: &PathSetup) {
        self.group.shared().of(self.path).add_path(self.path, setup);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.group.shared().of(self.path).remove_path(self.path);
    }
}

impl CongestionControl for Member {
    #[inline(never)]
    fn on_ack(&mut self, event: &AckEvent) {
        self.group.shared().of(self.path).on_ack(self.path, event);
    }

    #[inline(never)]
    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.group.shared().of(self.path).on_congestion(self.path, event);
    }

    #[inline(never)]
    fn limits(&self) -> SendLimits {
        self.group.shared().control.limits(self.path)
    }

    #[inline(never)]
    fn state(&self) -> ControlState {
        self.group.shared().control.state(self.path)
    }

    fn on_duplicate(&mut self, event: &DuplicateEvent) {
        self.group.shared().of(self.path).on_duplicate(self.path, event);
    }

    #[inline(never)]
    fn on_idle(&mut self, event: &IdleEvent) {
        self.group.shared().of(self.path).on_idle(self.path, event);
    }

    fn on_recovery_end(&mut self, event: &RecoveryEndEvent) {
        self.group.shared().of(self.path).on_recovery_end(self.path, event);
    }

    fn on_undo(&mut self, event: &UndoEvent) {
        self.group.shared().of(self.path).on_undo(self.path, event);
    }

    fn on_arrival(&mut self, event: &ArrivalEvent) {
        self.group.shared().of(self.path).on_arrival(self.path, event);
    }

    fn on_lost(&mut self, event: &LostEvent) {
        self.group.shared().of(self.path).on_lost(self.path, event);
    }

    #[inline]
    fn is_only_window(&self) -> bool {
        self.is_only_window
    }

    fn least_burst(&self) -> u32 {
        self.group.shared().control.least_burst(self.path)
    }

    fn owns_recovery(&self) -> bool {
        self.group.shared().control.owns_recovery(self.path)
    }

    #[inline(never)]
    fn on_rtt_sample(&mut self, event: &RttEvent) {
        self.group.shared().of(self.path).on_rtt_sample(self.path, event);
    }

    #[inline(never)]
    fn on_sent(&mut self, event: &SentEvent) {
        self.group.shared().of(self.path).on_sent(self.path, event);
    }
}

#[cfg(test)]
mod tests {
    use super::frame::testing::{NOW, setup};
    use super::*;
    use crate::cc::{self, CongestionKind};

    #[test]
    fn per_path_is_the_control_itself() {
        let group = Group::new(Config::default().build());
        let setup = setup(10);
        let mut member = group.join(PathId(0), &setup);
        let _other = group.join(PathId(1), &setup);
        let mut own = setup.own.build(&setup.setup);
        for step in 0..200_u32 {
            let outstanding = own.limits().cwnd;
            let ack = AckEvent::new(NOW, 1_000, outstanding);
            member.on_ack(&ack);
            own.on_ack(&ack);
            if step % 60 == 59 {
                let kind = if step == 119 { CongestionKind::Timeout } else { CongestionKind::FastRetransmit };
                let event = CongestionEvent::new(NOW, kind, outstanding);
                member.on_congestion(&event);
                own.on_congestion(&event);
            }
            assert_eq!(member.state(), own.state(), "step {step}");
        }
    }

    #[test]
    fn a_path_that_leaves_is_coupled_no_longer() {
        let config = Config::Lia(lia::Config {});
        let group = Group::new(config.build());
        let mut first = cc::Controller::Coupled(group.join(PathId(0), &setup(10)));
        let second = group.join(PathId(1), &setup(30));
        let grown = |control: &mut cc::Controller| {
            let before = control.limits().cwnd;
            control.on_ack(&AckEvent::new(NOW, 1_000, before));
            control.limits().cwnd - before
        };
        for member in [PathId(0), PathId(1)] {
            frame::testing::measure(&mut group.shared().control, member, 100);
            frame::testing::lose(&mut group.shared().control, member);
        }
        let coupled = grown(&mut first);
        drop(second);
        assert!(grown(&mut first) > coupled, "alone it grows as any single path");
    }
}
