//! Strict priority by the codepoints of packets (RFC 2474): bands, of which the first that has a packet sends
//! it (Linux's `prio`, `sch_prio.c`).
//!
//! Each band has a discipline of its own. A band that is never empty starves those behind it, so what asks
//! for expedited forwarding has to be limited (RFC 3246 section 2.2): a `token_bucket` as the band's queue
//! does that, and leaves the others what it holds back. Linux's `prio` chooses by the old bits of the type of
//! service instead, in which EF is best effort.

use anabranch_transport::dscp::Dscp;
use anabranch_transport::report::Report;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interface::{Drops, Place, QueueDisc};
use super::lanes::{BANDS, Lane};
use super::{Discipline, QueueConfig};
use crate::net::packets::{Held, Waiting};

/// Strict priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PrioConfig {
    /// The bands, at most eight, the most urgent one first. Default: one for `ef`, `va`, `cs5`, `cs6` and
    /// `cs7`, one for all others, and behind it one for `le` and `cs1`.
    pub bands: Vec<BandConfig>,
}

/// A band.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BandConfig {
    /// The codepoints of its packets. The one band that names none has all packets that no other has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dscp: Vec<Dscp>,
    /// Its queue discipline, by its `kind`. Default: `drop_tail` with 50 packets.
    pub queue: QueueConfig,
}

impl Default for PrioConfig {
    fn default() -> Self {
        let bands = [&[46, 44, 40, 48, 56][..], &[], &[1, 8]];
        let band = |dscp: &[u8]| BandConfig {
            dscp: dscp.iter().map(|number| Dscp::new(*number)).collect(),
            queue: QueueConfig::default(),
        };
        Self { bands: bands.into_iter().map(band).collect() }
    }
}

impl PrioConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<Prio, String> {
        let Place { key, component, .. } = place;
        if self.bands.is_empty() || self.bands.len() > BANDS.len() {
            let (count, most) = (self.bands.len(), BANDS.len());
            return Err(format!("{key}.bands has {count} of them, allowed are 1 to {most}"));
        }
        let mut band_of = [None; 64];
        for (index, band) in self.bands.iter().enumerate() {
            for dscp in &band.dscp {
                if let Some(other) = band_of[usize::from(dscp.number())].replace(index) {
                    return Err(format!(
                        "{key}.bands.{index}.dscp has {dscp}, which {key}.bands.{other}.dscp has already, allowed is \
                         each once"
                    ));
                }
            }
        }
        let mut others = self.bands.iter().enumerate().filter(|(_, band)| band.dscp.is_empty());
        let (Some((rest, _)), None) = (others.next(), others.next()) else {
            return Err(format!(
                "{key}.bands: all packets that no `dscp` names have one band, allowed is exactly one band without \
                 `dscp`"
            ));
        };
        let band = |(index, band): (usize, &BandConfig)| {
            let (key, component) =
                (format!("{key}.bands.{index}.queue"), format!("{component}/{}", BANDS[index]));
            let queue = band.queue.build(Place { key: &key, component: &component, ..place })?;
            Ok(Band { queue, lane: Lane::default() })
        };
        let bands = self.bands.iter().enumerate().map(band).collect::<Result<_, String>>()?;
        Ok(Prio { bands, band_of: band_of.map(|band| band.unwrap_or(rest) as u8), last: 0 })
    }

    /// See [`QueueConfig::shaper`].
    pub(super) fn shaper(&self) -> Option<String> {
        let mut bands = self.bands.iter().enumerate();
        bands.find_map(|(index, band)| Some(format!("bands.{index}.queue.{}", band.queue.shaper()?)))
    }
}

/// Bands of which the first that can sends.
#[derive(Debug)]
pub(crate) struct Prio {
    bands: Vec<Band>,
    /// The number of the band for each codepoint.
    band_of: [u8; 64],
    /// The band that sent last.
    last: usize,
}

#[derive(Debug)]
struct Band {
    queue: Discipline,
    lane: Lane,
}

impl QueueDisc for Prio {
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
        let Band { queue, lane } =
            &mut self.bands[usize::from(self.band_of[usize::from(packet.dscp().number())])];
        lane.enters();
        queue.enqueue(now, packet, drops);
    }

    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        let mut bands = self.bands.iter_mut().enumerate();
        let (index, packet) =
            bands.find_map(|(index, band)| Some((index, band.queue.dequeue(now, drops)?)))?;
        self.last = index;
        self.bands[index].lane.leaves(now, &packet);
        Some(packet)
    }

    fn not_before(&self) -> u64 {
        self.bands.iter().map(|band| band.queue.not_before()).min().unwrap_or(u64::MAX)
    }

    /// What a shaper above holds back is of the band that sent last.
    fn hold_back(&mut self, now: u64, held_back: Waiting) {
        self.bands[self.last].queue.hold_back(now, held_back);
    }

    fn flush(&mut self, now: u64, drops: &mut Drops) -> Vec<Held> {
        self.bands.iter_mut().flat_map(|band| band.queue.flush(now, drops)).collect()
    }

    fn waiting(&self) -> Waiting {
        self.bands.iter().fold(Waiting::default(), |all, band| all.and(band.queue.waiting()))
    }

    fn memory(&self) -> usize {
        let of_band = |band: &Band| band.queue.memory() + band.lane.memory() + size_of::<Band>();
        self.bands.iter().map(of_band).sum()
    }

    fn report(&self, report: &mut Report<'_>) {
        for (band, name) in self.bands.iter().zip(BANDS) {
            band.lane.report(name, report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, place};
    use super::*;
    use crate::net::packets::Treatment;

    fn with(dscp: u8, slot: u32) -> Held {
        Held { treatment: Treatment::new(Dscp::new(dscp)), ..packet(slot, 0, slot) }
    }

    fn slots(queue: &mut Prio, now: u64) -> Vec<u32> {
        let mut drops = Drops::default();
        std::iter::from_fn(|| queue.dequeue(now, &mut drops)).map(|packet| packet.slot).collect()
    }

    #[test]
    fn the_urgent_leave_first_and_the_lower_effort_last() {
        let mut queue = PrioConfig::default().build(place()).unwrap();
        let mut drops = Drops::default();
        for (slot, dscp) in [1, 0, 46, 34, 8, 48, 0].into_iter().enumerate() {
            queue.enqueue(0, with(dscp, slot as u32), &mut drops);
        }
        assert_eq!(queue.waiting().packets, 7);
        assert_eq!(slots(&mut queue, 1), [2, 5, 1, 3, 6, 0, 4]);
        assert_eq!(queue.waiting(), Waiting::default());
    }

    /// A band whose bucket is empty leaves the link to the others, and has its turn when tokens have come.
    #[test]
    fn a_limited_band_starves_nobody() {
        let config: PrioConfig = serde_json::from_value(serde_json::json!({ "bands": [
            { "dscp": ["ef"], "queue": { "kind": "token_bucket", "rate": "1.2 Mbit/s", "burst": "1500 B" } },
            {},
        ] }))
        .unwrap();
        assert_eq!(config.shaper().as_deref(), Some("bands.0.queue.kind is \"token_bucket\""));
        let mut queue = config.build(place()).unwrap();
        let mut drops = Drops::default();
        for (slot, dscp) in [0, 46, 46, 0].into_iter().enumerate() {
            queue.enqueue(0, with(dscp, slot as u32), &mut drops);
        }
        assert_eq!(slots(&mut queue, 0), [1, 0, 3]);
        // 1500 B at 1.2 Mbit/s.
        assert_eq!(queue.not_before(), 10_000_000);
        assert_eq!(slots(&mut queue, 10_000_000), [2]);
        assert_eq!(queue.not_before(), u64::MAX);
    }

    #[test]
    fn bands_that_contradict_each_other_are_refused() {
        for (bands, expected) in [
            ("[]", "queue.bands has 0 of them, allowed are 1 to 8"),
            (r#"[{"dscp": ["ef"]}]"#, "queue.bands: all packets that no `dscp` names have one band"),
            ("[{}, {}]", "allowed is exactly one band without `dscp`"),
            (
                r#"[{"dscp": ["ef", "cs1"]}, {"dscp": [8]}, {}]"#,
                "queue.bands.1.dscp has cs1, which queue.bands.0.dscp has already",
            ),
            (r#"[{"queue": {"kind": "fq_codel", "flows": 0}}]"#, "queue.bands.0.queue.flows is 0"),
        ] {
            let config: PrioConfig = serde_json::from_str(&format!("{{\"bands\": {bands}}}")).unwrap();
            let error = config.build(place()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
