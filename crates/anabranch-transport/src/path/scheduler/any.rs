//! The schedulers by name, and one of them at work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Decision, PathView, Pending, Scheduler, backup_only, blest, ecf, linux, min_rtt, plugin, priority,
    proportional, redundant, round_robin, weighted,
};
use crate::plugin::{self as class, Role};

/// Which scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SchedulerConfig")]
pub enum Config {
    /// The first usable path carries everything, and the others only when it fails.
    BackupOnly,
    /// As `min_rtt`, but waits for the fastest path where a slower one would block the receive window (BLEST,
    /// Ferlin et al., 2016).
    Blest,
    /// As `min_rtt`, but waits for the fastest path where that completes the data earlier (ECF, Lim et al.,
    /// 2017).
    Ecf,
    /// Among the paths with room, the one that would first have sent its data at its pace, for a burst of
    /// 64 KB (Linux's default for Multipath TCP).
    Linux,
    /// The path with the smallest smoothed round-trip time of those with room (the default of the first Linux
    /// implementation of Multipath TCP).
    #[default]
    MinRtt,
    /// The first path of those with room: another one carries only what the paths before it have no window
    /// for (the priority-based steering mode of 3GPP TS 23.501).
    Priority,
    /// Paths with room in proportion to the rates that their congestion controls allow, in bytes of data.
    Proportional,
    /// A class of Python (docs/plugins.md).
    Python(class::Config),
    /// Every path with room carries the same data.
    Redundant,
    /// The paths with room take turns.
    RoundRobin,
    /// Paths with room in proportion to these weights, in bytes of data, each at least 1; paths that are not
    /// listed have weight 1.
    Weighted(Vec<u16>),
}

impl Config {
    /// Checks that a flow with this many paths can have this scheduler.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self, paths: usize) -> Result<(), String> {
        let weights = match self {
            Self::Weighted(weights) => weights,
            Self::Python(config) => {
                return config.check(Role::Scheduler).map_err(|error| format!("python.{error}"));
            }
            _ => return Ok(()),
        };
        if weights.len() > paths {
            return Err(format!(
                "weighted = {} values are too many; the flow has {paths} paths",
                weights.len()
            ));
        }
        if weights.contains(&0) {
            return Err("weighted = 0 is too small; each must be at least 1".into());
        }
        Ok(())
    }

    /// The scheduler, with this seed for random choices.
    pub fn build(&self, seed: u64) -> AnyScheduler {
        match self {
            Self::BackupOnly => AnyScheduler::BackupOnly(backup_only::BackupOnly),
            Self::Blest => AnyScheduler::Blest(blest::Blest::default()),
            Self::Ecf => AnyScheduler::Ecf(ecf::Ecf::default()),
            Self::Linux => AnyScheduler::Linux(linux::Linux::default()),
            Self::MinRtt => AnyScheduler::MinRtt(min_rtt::MinRtt),
            Self::Priority => AnyScheduler::Priority(priority::Priority),
            Self::Proportional => AnyScheduler::Proportional(proportional::Proportional::default()),
            Self::Python(config) => AnyScheduler::Custom(plugin::MAKER.get()(config, seed)),
            Self::Redundant => AnyScheduler::Redundant(redundant::Redundant),
            Self::RoundRobin => AnyScheduler::RoundRobin(round_robin::RoundRobin::default()),
            Self::Weighted(weights) => AnyScheduler::Weighted(weighted::Weighted::new(weights)),
        }
    }
}

/// A scheduler, dispatched statically where it is a built-in one.
#[derive(Debug)]
pub enum AnyScheduler {
    /// Uses one path as long as it works.
    BackupOnly(backup_only::BackupOnly),
    /// BLEST.
    Blest(blest::Blest),
    /// A user's own.
    Custom(Box<dyn Scheduler + Send>),
    /// ECF.
    Ecf(ecf::Ecf),
    /// The path that would be the first to have sent what it has, as in Linux.
    Linux(linux::Linux),
    /// The smallest round-trip time.
    MinRtt(min_rtt::MinRtt),
    /// The first path with room.
    Priority(priority::Priority),
    /// Uses the paths in proportion to their rates.
    Proportional(proportional::Proportional),
    /// All paths.
    Redundant(redundant::Redundant),
    /// Uses the paths in turn.
    RoundRobin(round_robin::RoundRobin),
    /// Uses the paths in proportion to weights.
    Weighted(weighted::Weighted),
}

impl AnyScheduler {
    /// Everything has been sent that may be: what is sent next does not follow it.
    pub fn end_push(&mut self) {
        if let Self::Linux(scheduler) = self {
            scheduler.end_push();
        }
    }
}

impl Scheduler for AnyScheduler {
    fn schedule(&mut self, data: &Pending, paths: &[PathView]) -> Decision {
        match self {
            Self::BackupOnly(scheduler) => scheduler.schedule(data, paths),
            Self::Blest(scheduler) => scheduler.schedule(data, paths),
            Self::Custom(scheduler) => scheduler.schedule(data, paths),
            Self::Ecf(scheduler) => scheduler.schedule(data, paths),
            Self::Linux(scheduler) => scheduler.schedule(data, paths),
            Self::MinRtt(scheduler) => scheduler.schedule(data, paths),
            Self::Priority(scheduler) => scheduler.schedule(data, paths),
            Self::Proportional(scheduler) => scheduler.schedule(data, paths),
            Self::Redundant(scheduler) => scheduler.schedule(data, paths),
            Self::RoundRobin(scheduler) => scheduler.schedule(data, paths),
            Self::Weighted(scheduler) => scheduler.schedule(data, paths),
        }
    }

    fn on_blocked(&mut self) {
        match self {
            Self::Blest(scheduler) => scheduler.on_blocked(),
            Self::Custom(scheduler) => scheduler.on_blocked(),
            // For the others, this changes nothing.
            Self::BackupOnly(_)
            | Self::Ecf(_)
            | Self::Linux(_)
            | Self::MinRtt(_)
            | Self::Priority(_)
            | Self::Proportional(_)
            | Self::Redundant(_)
            | Self::RoundRobin(_)
            | Self::Weighted(_) => {}
        }
    }
}
