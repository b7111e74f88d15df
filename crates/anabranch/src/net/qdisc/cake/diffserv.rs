//! Tins: which codepoints share one, and what each may use of the bandwidth (`cake_config_diffserv3` and its
//! like).

use anabranch_transport::dscp::Dscp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::lanes;

/// How CAKE sorts packets into tins by their codepoints, in the words of tc-cake(8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CakeDiffserv {
    /// One tin for all.
    Besteffort,
    /// Three tins: `bulk` (`le`, `cs1`), `best_effort`, and `voice` (`cs6`, `cs7`, `ef`, `va`, 4), which has
    /// priority for up to a quarter of the bandwidth.
    #[default]
    Diffserv3,
    /// Four tins: `bulk` (`le`, `cs1`), `best_effort`, `video` (`cs2`, `cs3`, `af21` to `af43`, 4) for up to
    /// half of the bandwidth, and `voice` (`cs4` to `cs7`, `ef`, `va`) for up to a quarter.
    Diffserv4,
    /// Eight tins, from `tin_0` (`le`) to `tin_7` (`cs6`, `cs7`), each for up to 7/8 of the one before.
    Diffserv8,
    /// Eight tins by the upper three bits of the codepoint, each for up to 7/8 of the one before.
    Precedence,
}

/// What a tin may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Its name in results.
    pub(super) name: &'static str,
    /// Up to which rate it goes first, in bit/s, if there is a bandwidth.
    pub(super) rate: Option<u64>,
    /// The bytes of its turn, if there is none.
    pub(super) quantum: i64,
}

const BEST_EFFORT: usize = 0;
const BULK: usize = 1;

const DIFFSERV8: [[u8; 8]; 8] = [
    [2, 0, 1, 2, 4, 2, 2, 2],
    [1, 2, 1, 2, 1, 2, 1, 2],
    [5, 2, 4, 2, 4, 2, 4, 2],
    [3, 2, 3, 2, 3, 2, 3, 2],
    [6, 2, 3, 2, 3, 2, 3, 2],
    [6, 2, 2, 2, 6, 2, 6, 2],
    [7, 2, 2, 2, 2, 2, 2, 2],
    [7, 2, 2, 2, 2, 2, 2, 2],
];

impl CakeDiffserv {
    /// The number of a packet's tin; a higher one has priority.
    pub(super) fn tin(self, dscp: Dscp) -> usize {
        let number = dscp.number();
        match (self, number) {
            (Self::Besteffort, _) => BEST_EFFORT,
            (Self::Precedence, _) => usize::from(number >> 3),
            (Self::Diffserv8, _) => usize::from(DIFFSERV8[usize::from(number >> 3)][usize::from(number & 7)]),
            // LE and CS1.
            (_, 1 | 8) => BULK,
            (Self::Diffserv4, 32 | 40 | 44 | 46 | 48 | 56) => 3,
            // The old bit of low delay, with VA, EF, CS6 and CS7, or with CS2, CS3 and assured forwarding.
            (Self::Diffserv3, 4 | 44 | 46 | 48 | 56)
            | (Self::Diffserv4, 4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38) => 2,
            _ => BEST_EFFORT,
        }
    }

    /// The tins at this bandwidth in bit/s, by their numbers.
    pub(super) fn shares(self, rate: Option<u64>) -> Vec<Share> {
        let share =
            |name, shift: u32| Share { name, rate: rate.map(|rate| rate >> shift), quantum: 1024 >> shift };
        match self {
            Self::Besteffort => vec![Share { name: "best_effort", rate, quantum: 65_535 }],
            Self::Diffserv3 => vec![share("best_effort", 0), share("bulk", 4), share("voice", 2)],
            Self::Diffserv4 => {
                vec![share("best_effort", 0), share("bulk", 4), share("video", 1), share("voice", 2)]
            }
            Self::Diffserv8 | Self::Precedence => {
                let less = |value: u64| (value * 7) >> 3;
                let next = |share: &Share| {
                    Some(Share {
                        rate: share.rate.map(less),
                        quantum: less(share.quantum as u64) as i64,
                        ..*share
                    })
                };
                let first = Share { name: "", rate, quantum: 256 };
                let shares = std::iter::successors(Some(first), next);
                shares.zip(lanes::TINS).map(|(share, name)| Share { name, ..share }).collect()
            }
        }
    }
}
