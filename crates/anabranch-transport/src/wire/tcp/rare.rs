//! Options that few segments have: TCP Fast Open (RFC 7413), the counters of accurate ECN (RFC 9768 section
//! 3.2.3), and unknown ones, which are kept as they came.

use arrayvec::ArrayVec;

use super::MAX_OPTION_BYTES;
use super::emit::option;
use crate::wire::bytes::{Append as _, Reader};

/// The rarer options of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RareOptions {
    /// Fast Open option.
    pub fast_open: Option<FastOpen>,
    /// Accurate ECN option.
    pub accurate_ecn: Option<AccurateEcn>,
    /// Unknown options, in their order.
    pub unknown: Vec<UnknownOption>,
}

/// Fast Open option (RFC 7413 section 4.1.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FastOpen {
    /// A cookie of 4 to 16 bytes, an even number of them. An empty one asks for a cookie.
    pub cookie: Cookie,
    /// Whether it has the form of before the RFC: that of an experiment (RFC 6994).
    pub is_experimental: bool,
}

/// A cookie of Fast Open.
pub type Cookie = ArrayVec<u8, 16>;

/// The experiment's identifier (RFC 7413 appendix B of the drafts; IANA: "TCP Fast Open").
const EXPERIMENT: [u8; 2] = [0xf9, 0x89];

impl FastOpen {
    /// The option with a cookie of these bytes; [`None`] if they cannot be one.
    pub fn new(cookie: &[u8], is_experimental: bool) -> Option<Self> {
        matches!(cookie.len(), 0 | 4 | 6 | 8 | 10 | 12 | 14 | 16)
            .then(|| Self { cookie: cookie.iter().copied().collect(), is_experimental })
    }

    const fn wire_bytes(&self) -> usize {
        2 + if self.is_experimental { EXPERIMENT.len() } else { 0 } + self.cookie.len()
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let kind = if self.is_experimental { option::EXPERIMENT } else { option::FAST_OPEN };
        out.extend([kind, self.wire_bytes() as u8]);
        if self.is_experimental {
            out.extend(EXPERIMENT);
        }
        out.extend(&self.cookie);
    }

    /// The option of this kind with this value, if it is one.
    fn parse(kind: u8, value: &[u8]) -> Option<Self> {
        match kind {
            option::FAST_OPEN => Self::new(value, false),
            option::EXPERIMENT => Self::new(value.strip_prefix(&EXPERIMENT)?, true),
            _ => None,
        }
    }
}

/// Accurate ECN option (RFC 9768 section 3.2.3): how many bytes with which mark have arrived, modulo 2^24.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccurateEcn {
    /// Whether the counter of ECT(1) comes first and that of ECT(0) last (AccECN1), or the other way round
    /// (AccECN0). That of CE is between them.
    pub begins_with_ect1: bool,
    /// The counters, as many as the option has.
    pub counters: ArrayVec<u32, 3>,
}

impl AccurateEcn {
    /// Bytes of the option with so many counters, without padding.
    pub const fn wire_bytes(counters: usize) -> u32 {
        2 + 3 * counters as u32
    }
}

/// An option that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOption {
    /// Its kind.
    pub kind: u8,
    /// What follows kind and length.
    pub value: Box<[u8]>,
}

impl RareOptions {
    /// Bytes of the counters of accurate ECN, without padding.
    pub(super) fn counter_bytes(&self) -> u32 {
        self.accurate_ecn.as_ref().map_or(0, |option| AccurateEcn::wire_bytes(option.counters.len()))
    }

    /// Bytes on the wire, padded to whole words.
    pub fn wire_bytes(&self) -> u32 {
        self.counter_bytes().next_multiple_of(4) + self.last_bytes()
    }

    /// Bytes of the options that come last, padded to whole words.
    pub(super) fn last_bytes(&self) -> u32 {
        let fast_open = self.fast_open.as_ref().map_or(0, FastOpen::wire_bytes);
        let unknown: usize = self.unknown.iter().map(|option| 2 + option.value.len()).sum();
        (fast_open + unknown).next_multiple_of(4) as u32
    }

    /// Appends the counters of accurate ECN, without padding.
    pub(super) fn emit_counters(&self, out: &mut Vec<u8>) {
        if let Some(AccurateEcn { begins_with_ect1, counters }) = &self.accurate_ecn {
            let kind = if *begins_with_ect1 { option::ACCURATE_ECN_1 } else { option::ACCURATE_ECN_0 };
            out.extend([kind, AccurateEcn::wire_bytes(counters.len()) as u8]);
            counters.iter().for_each(|counter| out.extend(&counter.to_be_bytes()[1..]));
        }
    }

    /// Appends the options that come last.
    pub(super) fn emit_last(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.last_bytes() as usize;
        if let Some(fast_open) = &self.fast_open {
            fast_open.emit(out);
        }
        for UnknownOption { kind, value } in &self.unknown {
            out.u8(*kind);
            out.u8(2 + value.len() as u8);
            out.extend(value);
        }
        out.resize(end, option::NOP);
    }

    /// Keeps an option that is not one of the frequent ones.
    pub(super) fn take(&mut self, kind: u8, value: &[u8]) {
        debug_assert!(value.len() < MAX_OPTION_BYTES as usize);
        if let Some(fast_open) = FastOpen::parse(kind, value) {
            self.fast_open = Some(fast_open);
            return;
        }
        match kind {
            // RFC 9768 section 3.2.3: of any other length, the whole fields that fit.
            option::ACCURATE_ECN_0 | option::ACCURATE_ECN_1 => {
                let mut reader = Reader(value);
                let counter = |_| {
                    let bytes = reader.take(3).expect("the length was looked at");
                    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
                };
                let counters = (0..(value.len() / 3).min(3)).map(counter).collect();
                let begins_with_ect1 = kind == option::ACCURATE_ECN_1;
                self.accurate_ecn = Some(AccurateEcn { begins_with_ect1, counters });
            }
            _ => self.unknown.push(UnknownOption { kind, value: value.into() }),
        }
    }
}
