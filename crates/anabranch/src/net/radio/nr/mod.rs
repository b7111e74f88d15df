//! 5G New Radio: a user's bearer as the scheduler of its base station serves it, slot by slot.
//!
//! Slots and symbols are those of the numerology (3GPP TS 38.211), a pattern says which of them belong to the
//! downlink (TS 38.331, `TDD-UL-DL-ConfigCommon`), and a slot carries one transport block of the size that TS
//! 38.214 section 5.1.3.2 gives. Downlink: what has come by then goes with the next downlink slot. Uplink: a
//! station that has something to send asks in its next scheduling request; the grant comes in the next
//! downlink slot and is for the first uplink slot at least k2 slots later (TS 38.214 section 6.1.2.1). A
//! block says what still waits (TS 38.321 section 5.4.5), for which there are more grants. A configured grant
//! (TS 38.321 section 5.8.2) needs no request. A block that fails is sent again: in the downlink after the
//! feedback, which comes in the first uplink slot at least k1 slots later (TS 38.213 section 9.2.3), in the
//! uplink after another grant. HARQ, RLC and order are as in LTE (`retransmissions`), as are `drx` and
//! `handovers`; other users take a share of the resource blocks.
//!
//! A slot has an event only if a block may be made for it.
//!
//! Not modelled: the radio channel itself (the modulation and coding scheme and the error rate may follow
//! timetables), control channels that fail, headers of RLC and PDCP (the link's `overhead` stands for them),
//! several code words, and grants that are smaller than what other users leave.

mod bearer;
mod config;
mod slots;
mod transport_block;
mod uplink;

pub(crate) use bearer::{NrBearer, SCALARS};
pub use config::{
    ConfiguredGrantConfig, DuplexConfig, FddConfig, GrantsConfig, NrConfig, NrHarqConfig, NrWay,
    SchedulingRequestConfig, TddConfig,
};
