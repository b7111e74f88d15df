//! CUBIC: the window is a cubic function of the time since the last loss, flat at the window where the
//! loss was.
//!
//! [`rfc`] is RFC 9438; [`linux`] is Linux 6's `tcp_cubic.c` and the first version that Linux 2.6.20 had.
//! They have the settings in common.

mod linux;
mod rfc;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slow_start::SlowStart;
use super::window::{Algorithm, State, Window, Windowed};
use super::{AckEvent, CongestionEvent, Rules, Setup, check_count, check_range};
use crate::time::{Duration, Time};

/// Settings of CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CubicConfig")]
pub struct Config {
    /// C in segments per cubed second: how fast the window grows away from its last maximum; default 0.4
    /// (RFC 9438 section 4.1).
    pub c: f64,
    /// The share of the window that is left after a loss; default 0.7 (RFC 9438 section 4.6), in Linux
    /// 2.6.20 819/1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// Whether a loss below the last maximum makes room for other flows (RFC 9438 section 4.7); default true.
    pub fast_convergence: bool,
    /// Whether the window is at least what Reno's would be (RFC 9438 section 4.3); default true.
    pub tcp_friendliness: bool,
    /// How many connections it stands for, as QUIC's first implementations had 2 (Chromium:
    /// `kDefaultNumConnections`): of N, one loses its share at a loss, and each grows as Reno does where Reno
    /// is ahead; from 1 to 100, default 1. Profiles of Linux have none.
    pub connections: u32,
    /// The slow start; default "hystart" as in Linux 6, with the RFC's rules "hystart++", in Linux
    /// 2.6.20 "standard".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<SlowStart>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            c: 0.4,
            beta: None,
            fast_convergence: true,
            tcp_friendliness: true,
            connections: 1,
            slow_start: None,
        }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        check_range("c", self.c, 0.01, 100.0)?;
        check_count("connections", self.connections, 1, 100)?;
        self.beta.map_or(Ok(()), |beta| check_range("beta", beta, 0.1, 0.95))
    }

    pub(super) fn build(&self, setup: &Setup) -> Windowed<Cubic> {
        let slow_start = self.slow_start.unwrap_or(match setup.rules {
            Rules::Linux2620 => SlowStart::Standard,
            Rules::Linux6 => SlowStart::Hystart,
            Rules::Inflated | Rules::Rfc => SlowStart::HystartPlusPlus,
        });
        Windowed::new(setup, slow_start, |window| match setup.rules {
            Rules::Linux2620 => {
                // Linux 2.6.20: initial_ssthresh.
                window.ssthresh = 100;
                Cubic::Linux(linux::Linux::new(self, setup.rules))
            }
            Rules::Linux6 => Cubic::Linux(linux::Linux::new(self, setup.rules)),
            Rules::Inflated | Rules::Rfc => Cubic::Rfc(rfc::Rfc::new(self)),
        })
    }
}

/// CUBIC in one of its forms.
#[derive(Debug)]
pub enum Cubic {
    /// Linux 6 or Linux 2.6.20.
    Linux(linux::Linux),
    /// RFC 9438.
    Rfc(rfc::Rfc),
}

macro_rules! dispatch {
    ($self:expr, $inner:ident => $call:expr) => {
        match $self {
            Cubic::Linux($inner) => $call,
            Cubic::Rfc($inner) => $call,
        }
    };
}

impl Algorithm for Cubic {
    fn on_acked(&mut self, window: &mut Window, event: &AckEvent) {
        dispatch!(self, form => form.on_acked(window, event));
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        dispatch!(self, form => form.grow(window, event));
    }

    fn reduced(&mut self, window: &Window, event: &CongestionEvent) -> u32 {
        dispatch!(self, form => form.reduced(window, event))
    }

    fn on_state(&mut self, window: &mut Window, state: State, now: Time) {
        dispatch!(self, form => form.on_state(window, state, now));
    }

    fn on_undo(&mut self, window: &mut Window) {
        dispatch!(self, form => form.on_undo(window));
    }

    fn on_start(&mut self, window: &Window, now: Time, idle: Duration) {
        dispatch!(self, form => form.on_start(window, now, idle));
    }
}
