//! One TCP connection's segments: what was sent and is to be compared, and which numbers of script and
//! endpoint mean the same byte. A connection of MPTCP has one for each subflow.

use std::collections::{BTreeMap, VecDeque};

use anabranch_transport::flow::Ecn;
use anabranch_transport::time::Time;
use anabranch_transport::wire::mptcp::{Handshake, Join, Options};
use anabranch_transport::wire::tcp::Segment;

use super::render::Shown;
use crate::script::{Tcp, TcpOption, Term};
use crate::verdict::{Step, Stop};

/// The peer's nonce in `MP_JOIN`, which scripts do not name.
const PEERS_NONCE: u32 = 42;

/// A segment that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) at: Time,
    pub(super) segment: Segment,
    pub(super) ecn: Ecn,
    /// Options of MPTCP, and the bytes that they take with their padding.
    pub(super) mptcp: Option<(Options, u32)>,
}

/// How segments are compared.
pub(super) struct Check {
    /// Whether segments are not joined until they are as long as the statement says.
    pub(super) is_strict: bool,
    pub(super) tick_micros: u64,
    pub(super) tolerance_micros: u64,
}

/// One TCP connection, as a script sees it.
#[derive(Debug)]
pub(super) struct Flow {
    /// Our address and the peer's as the script names them, once it has.
    pub(super) addresses: [Option<String>; 2],
    /// Our port and the peer's.
    pub(super) ports: [u16; 2],
    pub(super) sent: VecDeque<Sent>,
    /// The number of our SYN, and the number that the script gives it.
    pub(super) own_first: Option<u32>,
    pub(super) script_first: u32,
    /// The number of the peer's SYN.
    pub(super) peer_first: Option<u32>,
    /// The nonces of an `MP_JOIN`: ours and the peer's.
    pub(super) nonces: [u32; 2],
    /// Our timestamps by the values that the script gives them, and the first such pair.
    stamps: BTreeMap<u32, u32>,
    first_stamp: Option<(u32, u32)>,
}

impl Flow {
    pub(super) const fn new(addresses: [Option<String>; 2], ports: [u16; 2]) -> Self {
        Self {
            addresses,
            ports,
            sent: VecDeque::new(),
            own_first: None,
            script_first: 0,
            peer_first: None,
            nonces: [0, PEERS_NONCE],
            stamps: BTreeMap::new(),
            first_stamp: None,
        }
    }

    /// Whether it can be between these addresses; a statement names none, one or both.
    pub(super) fn is_between(&self, named: &[Option<String>; 2]) -> bool {
        self.addresses.iter().zip(named).all(|(own, named)| match (own, named) {
            (Some(own), Some(named)) => own == named,
            _ => true,
        })
    }

    /// Notes the addresses that a statement names.
    pub(super) fn name(&mut self, named: &[Option<String>; 2]) {
        for (own, named) in self.addresses.iter_mut().zip(named) {
            *own = own.take().or_else(|| named.clone());
        }
    }

    /// Keeps a segment that was sent.
    pub(super) fn keep(&mut self, sent: Sent) {
        if let Some((Options { handshake: Some(Handshake::Join(join)), .. }, _)) = sent.mptcp
            && let Join::Syn { nonce, .. } | Join::Answer { nonce, .. } = join
        {
            self.nonces[0] = nonce;
        }
        self.sent.push_back(sent);
    }

    /// The offset from our sequence numbers to the script's in a segment. Those of a SYN are what the script
    /// says; all others count from that.
    pub(super) fn own_offset(&self, is_syn: bool) -> u32 {
        let script = if is_syn { self.script_first } else { 0 };
        self.own_first.map_or(0, |first| script.wrapping_sub(first))
    }

    /// The offset from the peer's sequence numbers to the script's in a segment.
    pub(super) fn peer_offset(&self, is_syn: bool) -> u32 {
        if is_syn { 0 } else { self.peer_first.unwrap_or(0).wrapping_neg() }
    }

    /// Our timestamp to which the script gives this value.
    pub(super) fn live_stamp(&self, echo: u32, scales: bool) -> Step<u32> {
        match (self.stamps.get(&echo), self.first_stamp) {
            (Some(stamp), _) => Ok(*stamp),
            (None, Some((script, live))) if scales => Ok(echo.wrapping_sub(script).wrapping_add(live)),
            _ => {
                Err(Stop::failed("no such timestamp", format!("no segment was expected with TS val {echo}")))
            }
        }
    }

    /// Finds how timestamps differ, after giving them the script's numbers.
    pub(super) fn difference_of_stamps(
        &mut self,
        wanted: &Tcp,
        shown: &mut Shown,
        check: &Check,
    ) -> Option<String> {
        let stamp = |options: &[TcpOption]| {
            options.iter().find_map(|option| match option {
                TcpOption::Timestamps { value, .. } => Some(*value),
                _ => None,
            })
        };
        let wanted = wanted.options.as_deref().and_then(stamp);
        let (Some(wanted), Some(live)) = (wanted, stamp(&shown.options)) else { return None };
        self.stamps.insert(wanted, live);
        let (first_script, first_live) = *self.first_stamp.get_or_insert((wanted, live));
        let mapped = first_script.wrapping_add(live.wrapping_sub(first_live));
        for option in &mut shown.options {
            if let TcpOption::Timestamps { value, .. } = option {
                *value = mapped;
            }
        }
        let off = u64::from((mapped.wrapping_sub(wanted) as i32).unsigned_abs()) * check.tick_micros;
        (off > check.tolerance_micros).then(|| format!("TS val is {mapped}, not {wanted}"))
    }
}

/// The names of a packet's addresses in a statement, our own first.
pub(super) fn names([from, to]: &[Option<Term>; 2], is_inbound: bool) -> [Option<String>; 2] {
    let (own, peer) = if is_inbound { (to, from) } else { (from, to) };
    [own, peer].map(|term| term.as_ref().map(Term::to_string))
}
