//! Resource pooling for concurrent multipath transfer: CMT/RPv1 (T. Dreibholz, M. Becke, J. Pulinthanath
//! and E. P. Rathgeb, "Applying TCP-friendly congestion control to concurrent multipath transfer", AINA
//! 2010) and CMT/RPv2 (the same authors with H. Adhari, "On the fairness of transport protocols in a
//! multi-path environment", 2012; both in T. Dreibholz, "Evaluation and optimisation of multi-path
//! transport using SCTP", habilitation, 2012).
//!
//! A path grows by its share of the group: of the slow-start thresholds (v1), or of the rates window over
//! round-trip time (v2). A loss takes half of the whole group's window (v1) or rate (v2) from the path on
//! which it happened.
//!
//! Known deviation: paths are never blocked for less than one segment; the window stays at one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::frame::{Coupling, Windows};
use crate::flow::PathId;

/// Settings of resource pooling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ResourcePoolingConfig")]
pub struct Config {
    /// The version; default "v2".
    pub version: Version,
}

/// Versions of resource pooling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// Shares of slow-start thresholds and windows, for paths that are alike.
    V1,
    /// Shares of rates, for paths of different round-trip times too.
    #[default]
    V2,
}

/// Resource pooling.
#[derive(Debug)]
pub struct ResourcePooling {
    version: Version,
}

impl ResourcePooling {
    pub(super) const fn new(config: Config) -> Self {
        Self { version: config.version }
    }

    /// The share of a standard connection's increase that the path gets.
    fn share(&self, windows: &Windows, path: PathId) -> f64 {
        let window = windows.at(path);
        match self.version {
            Version::V1 => {
                let total: f64 = windows.iter().map(|(_, other)| f64::from(other.ssthresh)).sum();
                f64::from(window.ssthresh) / total
            }
            Version::V2 => window.rate().map_or(1.0, |rate| rate / windows.total_rate()),
        }
    }
}

impl Coupling for ResourcePooling {
    fn slow_start(&self, windows: &Windows, path: PathId, acked: u32) -> f64 {
        f64::from(acked) * self.share(windows, path)
    }

    fn avoidance(&self, windows: &Windows, path: PathId, acked: u32) -> f64 {
        windows.at(path).standard_growth(acked) * self.share(windows, path)
    }

    fn reduced(&self, windows: &Windows, path: PathId, _least: u32) -> f64 {
        let window = windows.at(path);
        let cwnd = f64::from(window.cwnd);
        match self.version {
            Version::V1 => {
                let total: f64 = windows.iter().map(|(_, other)| f64::from(other.cwnd)).sum();
                cwnd - total / 2.0
            }
            Version::V2 => {
                let given = window.rate().map_or(0.5, |rate| windows.total_rate() / 2.0 / rate);
                cwnd - given.max(0.5) * cwnd
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::testing::{MSS, avoiding, lose, round};
    use super::super::{Config as Coupled, CoupledCongestionControl as _};
    use super::*;

    const FIRST: PathId = PathId(0);
    const SECOND: PathId = PathId(1);

    fn config(version: Version) -> Coupled {
        Coupled::ResourcePooling(Config { version })
    }

    #[test]
    fn equal_paths_grow_as_one_connection_together() {
        for version in [Version::V1, Version::V2] {
            let mut control = avoiding(&config(version), &[(20, 100), (20, 100)]);
            let grown = round(&mut control, FIRST);
            assert!((grown - 0.5).abs() < 0.02, "{version:?}: {grown}");
        }
    }

    #[test]
    fn a_loss_takes_half_of_what_all_have() {
        // 60 of 80 segments: 60 - 40 are left in v1. In v2 the first path has 600 of 700 segments per
        // second, of which 350 go: 7/12 of its window.
        for (version, left) in [(Version::V1, 20_000), (Version::V2, 25_000)] {
            let rtts = [(60, 100), (20, 200)];
            let mut control = avoiding(&config(version), &rtts);
            lose(&mut control, FIRST);
            assert_eq!(control.limits(FIRST).cwnd, left, "{version:?}");
            let mut control = avoiding(&config(version), &rtts);
            lose(&mut control, SECOND);
            assert_eq!(control.limits(SECOND).cwnd, MSS, "{version:?}: more than it has");
        }
    }
}
