//! The settings of DualPI2, with the constants that follow from them.

use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Base, DualPi2, FIRST_CREDIT, Lane, WEIGHTS};
use crate::net::packets::Waiting;
use crate::net::qdisc::interface::{Place, check_range};

/// DualPI2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "DualPi2Config")]
pub struct DualPi2Config {
    /// Most packets that wait in both queues, at least 1; a packet that finds as many is dropped. Default:
    /// 10000.
    pub packets: u32,
    /// The waiting time that the classic queue is held to, from 1 ms to 1 s. Default: 15 ms.
    pub target: Duration,
    /// The longest round-trip time that is expected, from 3 ms to 10 s; `update`, `alpha` and `beta` follow
    /// from it with the variant `rfc`, and with no other it may be given. Default: 100 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_max: Option<Duration>,
    /// Time between updates of the base probability, from 1 ms to 1 s. Default: the smaller of `target` and
    /// `rtt_max` / 3; in Linux 16 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Duration>,
    /// Change of the base probability per update and second above the target, from 0 to 100. Default: 0.1
    /// `update` / `rtt_max`^2; in Linux 41/256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Change of the base probability per update and second of growth, from 0 to 100. Default: 0.3 /
    /// `rtt_max`; in Linux 819/256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// k: how many times the base probability is that with which L4S packets are marked; from 1 to 10.
    /// Default: 2.
    pub coupling: f64,
    /// L4S packets that have waited this long are marked, if others wait behind them. With the variant
    /// `linux` it is for longer than this, and whatever waits behind. Default: 1 ms.
    pub step: Duration,
    /// In place of `step`: L4S packets are marked that leave more than this many behind. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_packets: Option<u32>,
    /// The classic queue's share of the link while both have packets; more than 0 % and less than 100 %.
    /// Default: 10 %.
    pub classic_share: Probability,
    /// A packet is dropped that would take the memory in both queues above this; each counts with twice its
    /// size. Default: no limit; that of Linux, two MTUs for each of `packets`, is never reached before
    /// `packets` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Bytes>,
    /// Packets that say ECT(0) count as L4S as well. Default: false.
    pub any_ect: bool,
    /// Decide by the coupled probabilities at arrival, not at departure; only with the variant `linux`. The
    /// step is always for departures. Default: false.
    pub drop_early: bool,
    /// When marks cannot say more, drop L4S packets as well, and ECN-capable classic ones; without it, the
    /// queue grows until it is full. Default: true.
    pub drop_overload: bool,
    /// Whose DualPI2 it is. Default: `rfc`.
    pub variant: DualPi2Variant,
}

/// Where Linux's DualPI2 differs from that of RFC 9332.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "DualPi2Variant")]
pub enum DualPi2Variant {
    /// That of RFC 9332 appendix A: constants follow from `rtt_max`, marks and drops are spread evenly.
    #[default]
    Rfc,
    /// That of Linux 6.18: constants of its own, marks and drops are drawn, and none while less than 3000 B
    /// wait.
    Linux,
}

impl Default for DualPi2Config {
    fn default() -> Self {
        Self {
            packets: 10_000,
            target: Duration::from_millis(15),
            rtt_max: None,
            update: None,
            alpha: None,
            beta: None,
            coupling: 2.0,
            step: Duration::from_millis(1),
            step_packets: None,
            classic_share: Probability::new(0.1).unwrap_or(Probability::ZERO),
            memory_limit: None,
            any_ect: false,
            drop_early: false,
            drop_overload: true,
            variant: DualPi2Variant::Rfc,
        }
    }
}

/// RFC 9332 appendix A.1, `RTT_max`.
const RTT_MAX: Duration = Duration::from_millis(100);

impl DualPi2Config {
    fn check(&self, place: Place<'_>) -> Result<(), String> {
        let key = place.key;
        let within = |name: &str, value: Duration, least: Duration, most: Duration| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(format!("{key}.{name} is {value}, allowed is {least} to {most}"))
        };
        let (milli, second) = (Duration::from_millis(1), Duration::from_secs(1));
        check_range(place, "packets", self.packets.into(), 1, u32::MAX.into())?;
        within("target", self.target, milli, second)?;
        if let Some(longest) = self.rtt_max {
            within("rtt_max", longest, Duration::from_millis(3), Duration::from_secs(10))?;
            if self.variant == DualPi2Variant::Linux {
                return Err(format!(
                    "{key}.rtt_max is {longest}, allowed with variant = \"linux\" is none: it has alpha and beta"
                ));
            }
        }
        if let Some(update) = self.update {
            within("update", update, milli, second)?;
        }
        for (name, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            if let Some(value) = value
                && !(0.0..=100.0).contains(&value)
            {
                return Err(format!("{key}.{name} is {value}, allowed is 0 to 100"));
            }
        }
        if !(1.0..=10.0).contains(&self.coupling) {
            return Err(format!("{key}.coupling is {}, allowed is 1 to 10", self.coupling));
        }
        if let Some(packets) = self.step_packets
            && self.step != Self::default().step
        {
            return Err(format!(
                "{key}.step_packets is {packets}, allowed beside step is none: one of them is the threshold"
            ));
        }
        if self.memory_limit == Some(Bytes(0)) {
            return Err(format!("{key}.memory_limit is 0 B, allowed is at least 1 B"));
        }
        if self.drop_early && self.variant == DualPi2Variant::Rfc {
            return Err(format!("{key}.drop_early is true, allowed with variant = \"rfc\" is only false"));
        }
        Ok(())
    }

    pub(crate) fn build(&self, place: Place<'_>) -> Result<DualPi2, String> {
        self.check(place)?;
        let classic_weight = libm::round(self.classic_share.get() * f64::from(WEIGHTS)) as i64;
        if !(1..i64::from(WEIGHTS)).contains(&classic_weight) {
            return Err(format!(
                "{}.classic_share is {}, allowed is 0.01 % to less than 100 %",
                place.key, self.classic_share
            ));
        }
        let credit = FIRST_CREDIT * (2 * classic_weight - i64::from(WEIGHTS));
        let is_linux = self.variant == DualPi2Variant::Linux;
        Ok(DualPi2 {
            config: Box::new(self.clone()),
            classic_weight,
            classic: Lane::default(),
            l4s: Lane::default(),
            held_back: Waiting::default(),
            base: self.base(),
            rng: is_linux.then(|| place.streams.stream(place.component)),
            credit,
            first_credit: credit,
            step_marks: 0,
        })
    }

    pub(super) fn base(&self) -> Base {
        let longest = self.rtt_max.unwrap_or(RTT_MAX);
        let is_linux = self.variant == DualPi2Variant::Linux;
        let update = self.update.unwrap_or_else(|| match self.variant {
            DualPi2Variant::Rfc => self.target.min(Duration::from_nanos(longest.as_nanos() / 3)),
            DualPi2Variant::Linux => Duration::from_millis(16),
        });
        let (interval, longest) = (update.as_secs_f64(), longest.as_secs_f64());
        // Linux, `dualpi2_reset_default`.
        let (alpha, beta) = if is_linux {
            (41.0 / 256.0, 819.0 / 256.0)
        } else {
            (0.1 * interval / (longest * longest), 0.3 / longest)
        };
        Base {
            target: self.target.as_secs_f64(),
            update: update.as_nanos(),
            alpha: self.alpha.unwrap_or(alpha),
            beta: self.beta.unwrap_or(beta),
            // Without drops, L4S packets are marked with at most certainty, so that windows stay fair (Linux,
            // `calculate_probability`).
            most: if self.drop_overload { 1.0 } else { 1.0 / self.coupling },
            probability: 0.0,
            last_delay: 0.0,
            next_update: update.as_nanos(),
            sum: 0.0,
            updates: 0,
        }
    }
}
