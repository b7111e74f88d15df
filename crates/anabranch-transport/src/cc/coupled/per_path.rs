//! Independent controls, one for each path: what several independent connections would do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CoupledCongestionControl, PathSetup};
use crate::cc::{
    AckEvent, ArrivalEvent, CongestionControl as _, CongestionEvent, ControlState, Controller,
    DuplicateEvent, IdleEvent, LostEvent, RecoveryEndEvent, RttEvent, SendLimits, SentEvent, UndoEvent,
};
use crate::flow::PathId;

/// Settings of controls of single paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "PerPathConfig")]
pub struct Config {}

/// A control for each path.
#[derive(Debug, Default)]
pub struct PerPath(Vec<Option<Controller>>);

impl PerPath {
    fn at(&self, path: PathId) -> &Controller {
        self.0[path.index()].as_ref().expect("the path has joined")
    }

    fn at_mut(&mut self, path: PathId) -> &mut Controller {
        self.0[path.index()].as_mut().expect("the path has joined")
    }
}

impl CoupledCongestionControl for PerPath {
    fn add_path(&mut self, path: PathId, setup: &PathSetup) {
        if self.0.len() <= path.index() {
            self.0.resize_with(path.index() + 1, || None);
        }
        self.0[path.index()] = Some(setup.own.build(&setup.setup));
    }

    fn remove_path(&mut self, path: PathId) {
        if let Some(control) = self.0.get_mut(path.index()) {
            *control = None;
        }
    }

    fn on_ack(&mut self, path: PathId, event: &AckEvent) {
        self.at_mut(path).on_ack(event);
    }

    fn on_congestion(&mut self, path: PathId, event: &CongestionEvent) {
        self.at_mut(path).on_congestion(event);
    }

    fn limits(&self, path: PathId) -> SendLimits {
        self.at(path).limits()
    }

    fn state(&self, path: PathId) -> ControlState {
        self.at(path).state()
    }

    fn on_duplicate(&mut self, path: PathId, event: &DuplicateEvent) {
        self.at_mut(path).on_duplicate(event);
    }

    fn on_idle(&mut self, path: PathId, event: &IdleEvent) {
        self.at_mut(path).on_idle(event);
    }

    fn on_recovery_end(&mut self, path: PathId, event: &RecoveryEndEvent) {
        self.at_mut(path).on_recovery_end(event);
    }

    fn on_undo(&mut self, path: PathId, event: &UndoEvent) {
        self.at_mut(path).on_undo(event);
    }

    fn on_arrival(&mut self, path: PathId, event: &ArrivalEvent) {
        self.at_mut(path).on_arrival(event);
    }

    fn on_lost(&mut self, path: PathId, event: &LostEvent) {
        self.at_mut(path).on_lost(event);
    }

    fn is_only_window(&self, path: PathId) -> bool {
        self.at(path).is_only_window()
    }

    fn least_burst(&self, path: PathId) -> u32 {
        self.at(path).least_burst()
    }

    fn owns_recovery(&self, path: PathId) -> bool {
        self.at(path).owns_recovery()
    }

    fn on_rtt_sample(&mut self, path: PathId, event: &RttEvent) {
        self.at_mut(path).on_rtt_sample(event);
    }

    fn on_sent(&mut self, path: PathId, event: &SentEvent) {
        self.at_mut(path).on_sent(event);
    }
}
