//! Blocks that fail, in LTE and in NR: HARQ sends them again up to a number of transmissions, after which RLC
//! retransmits them or their packets are lost.
//!
//! Sources: HARQ is 3GPP TS 36.321 section 5.4.2 and TS 38.321 sections 5.3.2 and 5.4.2; RLC's modes are TS
//! 36.322 and TS 38.322 section 5.2.

use anabranch_transport::report::{Report, declare};
use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::units::Probability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::served_link::check_range;
use crate::schedule::{Schedule, Timeline};

declare! {
    /// The scalars of blocks that are sent again.
    SCALARS:
    /// Transport blocks whose first transmission failed; HARQ sends them again.
    FAILED_BLOCKS = "failed_blocks": One;
    /// Times that RLC's acknowledged mode retransmitted what HARQ had given up (its ARQ, TS 36.322 and TS
    /// 38.322).
    ARQ_RETRANSMISSIONS = "arq_retransmissions": One;
}

/// Above this error rate, retransmissions would not end in reasonable time.
const MOST_ERROR: f64 = 0.99;

/// A mode of radio link control (TS 36.322, TS 38.322).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RlcMode {
    /// Acknowledged mode: blocks are retransmitted until they arrive.
    #[default]
    Am,
    /// Unacknowledged mode: packets of which a part is in a block that fails for good are lost.
    Um,
}

/// The error rate of blocks as a function of time.
///
/// # Errors
/// One sentence with key, value and what is allowed.
pub(super) fn error_rate(error: &Schedule<Probability>, key: &str) -> Result<Timeline<Probability>, String> {
    for value in error.values() {
        check_range(key, "error", value.get(), 0.0, MOST_ERROR)?;
    }
    error.timeline(&format!("{key}.error"))
}

/// What sends a block again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    Harq,
    /// After HARQ has given it up.
    Rlc,
}

/// What becomes of blocks whose first transmission failed.
#[derive(Clone, Debug)]
pub(super) struct Retransmissions {
    /// The most transmissions of HARQ.
    transmissions: u32,
    rlc: RlcMode,
    pub(super) draws: Rng,
    failed: u64,
    of_rlc: u64,
}

impl Retransmissions {
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(super) fn build(transmissions: u32, rlc: RlcMode, key: &str, draws: Rng) -> Result<Self, String> {
        check_range(key, "transmissions", transmissions.into(), 1.0, 28.0)?;
        Ok(Self { transmissions, rlc, draws, failed: 0, of_rlc: 0 })
    }

    /// Sends a block again whose first transmission failed; `again` is called before each transmission. Gives
    /// whether the block is lost.
    pub(super) fn send_again(&mut self, error: f64, mut again: impl FnMut(Again)) -> bool {
        self.failed += 1;
        let mut transmissions = 1;
        loop {
            if transmissions == self.transmissions {
                if self.rlc == RlcMode::Um {
                    return true;
                }
                self.of_rlc += 1;
                again(Again::Rlc);
                transmissions = 1;
            } else {
                again(Again::Harq);
                transmissions += 1;
            }
            if !self.draws.bernoulli(error) {
                return false;
            }
        }
    }

    pub(super) fn report(&self, report: &mut Report<'_>) {
        report.count(FAILED_BLOCKS, self.failed);
        report.count(ARQ_RETRANSMISSIONS, self.of_rlc);
    }
}
