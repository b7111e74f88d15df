//! CAKE (Hoiland-Jorgensen, Taht and Morton, "Piece of CAKE", LANMAN 2018; Linux's `sch_cake.c`).
//!
//! A shaper that needs no burst; 1024 queues that a set-associative hash assigns to flows, so that flows
//! share one only when its eight neighbours are taken; turns by deficit round robin, with a quantum that the
//! flows of a busy host share; COBALT for each queue; and when the bytes that wait are too many, the fattest
//! queue loses its oldest packet. Target and interval follow from `rtt` and grow where the bandwidth makes a
//! packet last long (`cake_set_rate`). Marks are always made. Packets are sorted into tins by their
//! codepoints; a tin goes first as long as it uses no more than its share of the bandwidth.
//!
//! Deviations: no overhead compensation, no ACK filter, no `ingress` mode and so no failsafe of the shaper;
//! limits are in bytes on the wire, not of memory; sizes have no link-layer header (1500 B for Linux's
//! 1514 B); fractions of a deficit are kept, not dithered. A host is a node of the scenario.

mod diffserv;
#[cfg(test)]
mod tests;
mod tin;

use anabranch_transport::report::Report;
use anabranch_transport::rng::Rng;
use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::check_interval;
use super::interface::{Drops, Place, QueueDisc};
use crate::net::capacity::UNITS_PER_BYTE;
use crate::net::packets::{Held, Waiting};
pub use diffserv::CakeDiffserv;
use diffserv::Share;
use tin::{Classes, Tin};

/// CAKE.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CakeConfig {
    /// The rate of the shaper, at least 512 bit/s, which should be below that of the link. Default: no
    /// shaper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// The expected round-trip time, up to 1000 s, which is CoDel's interval and 20 times its target.
    /// Default: 100 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
    /// What gets a queue and a share of its own. Default: `triple_isolate`.
    pub isolation: CakeIsolation,
    /// Which codepoints (`flows.<flow>.dscp`) have priority. Default: `diffserv3`.
    #[serde(skip_serializing_if = "is_default")]
    pub diffserv: CakeDiffserv,
    /// Most bytes that wait, from 1500 B to 1 GB. Default: 15.36 MB, or with a bandwidth what that sends in 4
    /// x `rtt`, from 4 MiB to 15.36 MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
}

/// What gets a queue and a share of its own in CAKE, in the words of tc-cake(8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CakeIsolation {
    /// A queue per receiving host.
    Dsthost,
    /// A queue per flow, and the flows of a receiving host together have its share.
    DualDsthost,
    /// A queue per flow, and the flows of a sending host together have its share.
    DualSrchost,
    /// One queue.
    Flowblind,
    /// A queue per flow.
    Flows,
    /// A queue per pair of hosts.
    Hosts,
    /// A queue per sending host.
    Srchost,
    /// A queue per flow, and the flows of a host together have its share, whether it sends or receives.
    #[default]
    TripleIsolate,
}

/// A packet of Ethernet's MTU.
const MTU: u64 = 1500;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_default(diffserv: &CakeDiffserv) -> bool {
    *diffserv == CakeDiffserv::default()
}

impl CakeConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<Cake, String> {
        let key = place.key;
        let rtt = self.rtt.unwrap_or(Duration::from_millis(100));
        check_interval(place, "rtt", rtt)?;
        let rate = self.bandwidth.map(Rate::bits_per_sec);
        if let (Some(bandwidth), true) = (self.bandwidth, rate.is_some_and(|rate| rate < 512)) {
            return Err(format!("{key}.bandwidth is {bandwidth}, allowed is at least 512 bit/s"));
        }
        // `cake_reconfigure`; the maximum is Linux's limit of 10240 packets.
        let bytes = self.bytes.map_or_else(
            || {
                let sent = rate.map(|rate| {
                    u128::from(rate) * 4 * u128::from(rtt.as_nanos()) / u128::from(UNITS_PER_BYTE)
                });
                sent.map_or(MOST_BY_DEFAULT, |sent| sent.clamp(4 << 20, MOST_BY_DEFAULT.into()) as u64)
            },
            |bytes| bytes.0,
        );
        if !(MTU..=MAX_BYTES).contains(&bytes) {
            return Err(format!("{key}.bytes is {bytes} B, allowed is {MTU} B to {MAX_BYTES} B"));
        }
        let shares = self.diffserv.shares(rate);
        let hash_key = place.streams.key(place.component);
        Ok(Cake {
            classes: Classes { isolation: self.isolation, hash_key },
            diffserv: self.diffserv,
            limit: bytes,
            shaper: rate.map(|rate| Shaper { rate, next: 0, left: 0 }),
            rng: place.streams.stream(place.component),
            tins: shares.into_iter().map(|share| Tin::new(share, rtt.as_nanos())).collect(),
            current: 0,
            is_held_back: false,
        })
    }
}

const MAX_BYTES: u64 = 1_000_000_000;
const MOST_BY_DEFAULT: u64 = 10_240 * MTU;

/// Tins of queues that take turns behind a shaper.
#[derive(Clone, Debug)]
pub(crate) struct Cake {
    classes: Classes,
    diffserv: CakeDiffserv,
    /// Most bytes that wait.
    limit: u64,
    shaper: Option<Shaper>,
    rng: Rng,
    tins: Vec<Tin>,
    /// The tin that has its turn, without a shaper.
    current: usize,
    /// Whether a shaper above holds a packet; limits count none of it, as Linux's do not.
    is_held_back: bool,
}

/// The shaper: a packet leaves only once the one before it would have been sent at the rate.
#[derive(Clone, Copy, Debug)]
struct Shaper {
    /// The rate in bit/s.
    rate: u64,
    /// When the next packet may leave, in nanoseconds, and the unused work of a nanosecond.
    next: u64,
    left: u64,
}

impl Shaper {
    /// A packet has left (`cake_advance_shaper`).
    fn advance(&mut self, size: u32) {
        let units = u64::from(size) * UNITS_PER_BYTE + self.left;
        self.next += units / self.rate;
        self.left = units % self.rate;
    }
}

impl Cake {
    /// The tin to serve: with a shaper the highest one that has not used its share, or else the one that may
    /// go on first; without one they take turns by their quanta (`cake_dequeue`).
    fn choose(&mut self, now: u64) -> Option<usize> {
        if self.shaper.is_some() {
            let active = self.tins.iter().enumerate().filter(|(_, tin)| tin.is_active());
            let best =
                active.reduce(|best, other| if other.1.next <= now.max(best.1.next) { other } else { best });
            return best.map(|(index, _)| index);
        }
        if !self.tins.iter().any(Tin::is_active) {
            return None;
        }
        loop {
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.is_active() {
                return Some(self.current);
            }
            tin.end_turn();
            self.current = (self.current + 1) % self.tins.len();
        }
    }

    /// Drops the oldest packet of the fattest queue.
    fn drop_from_fattest(&mut self, now: u64, drops: &mut Drops) {
        let tins = self.tins.iter().enumerate().rev();
        let fattest = tins.filter_map(|(tin, it)| it.fattest().map(|(flow, bytes)| (tin, flow, bytes)));
        if let Some((tin, flow, _)) = fattest.max_by_key(|(_, _, bytes)| *bytes) {
            self.tins[tin].drop_from(flow, now, drops);
        }
    }
}

impl QueueDisc for Cake {
    /// `cake_enqueue`.
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
        if self.waiting().packets == 0
            && !self.is_held_back
            && let Some(shaper) = &mut self.shaper
            && shaper.next < now
        {
            (shaper.next, shaper.left) = (now, 0);
        }
        let tin = &mut self.tins[self.diffserv.tin(packet.dscp())];
        if tin.waiting.packets == 0 {
            tin.next = tin.next.max(now);
        }
        tin.push(self.classes, packet);
        while self.waiting().bytes > self.limit {
            self.drop_from_fattest(now, drops);
        }
    }

    /// `cake_dequeue`.
    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        if self.shaper.is_some_and(|shaper| shaper.next > now) {
            return None;
        }
        let mut is_first = true;
        while self.waiting().packets > 0 {
            let chosen = self.choose(now)?;
            let tin = &mut self.tins[chosen];
            if let Some(packet) = tin.next_packet(self.classes, now, &mut is_first, &mut self.rng, drops) {
                tin.advance(now, packet.size);
                if let Some(shaper) = &mut self.shaper {
                    shaper.advance(packet.size);
                }
                return Some(packet);
            }
        }
        None
    }

    fn not_before(&self) -> u64 {
        match self.shaper {
            Some(shaper) if self.waiting().packets > 0 => shaper.next,
            _ => u64::MAX,
        }
    }

    fn flush(&mut self, _: u64, _: &mut Drops) -> Vec<Held> {
        self.tins.iter_mut().flat_map(Tin::take_all).collect()
    }

    fn hold_back(&mut self, _: u64, held_back: Waiting) {
        self.is_held_back = held_back.packets > 0;
    }

    fn waiting(&self) -> Waiting {
        self.tins.iter().fold(Waiting::default(), |all, tin| all.and(tin.waiting))
    }

    fn memory(&self) -> usize {
        self.tins.iter().map(Tin::memory).sum()
    }

    fn report(&self, report: &mut Report<'_>) {
        if self.tins.len() > 1 {
            for tin in &self.tins {
                tin.lane.report(tin.name, report);
            }
        }
    }
}
