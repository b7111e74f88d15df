//! Feedback about single packets: NACK (RFC 4585 section 6.2.1) and congestion control feedback (RFC 8888
//! section 3.1).

use crate::flow::Ecn;
use crate::wire::bytes::{Append as _, Reader};
use crate::wire::ip::{ecn_bits, ecn_of_bits};

/// How many packets of a stream a report can be about (RFC 8888 section 3.1).
pub const MOST_METRICS: u16 = 16_384;

/// Packets that are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    /// Who misses them.
    pub sender: u32,
    /// The stream.
    pub media: u32,
    /// Each of them.
    pub lost: Vec<Lost>,
}

/// A missing packet, and which of the sixteen that follow it are missing, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The sequence number (PID).
    pub sequence: u16,
    /// The lowest bit stands for the next one (BLP).
    pub following: u16,
}

impl Nack {
    /// A message about these sequence numbers, which are in order.
    pub fn of(sender: u32, media: u32, sequences: impl IntoIterator<Item = u16>) -> Self {
        let mut lost: Vec<Lost> = Vec::new();
        for sequence in sequences {
            match lost.last_mut().map(|last| (sequence.wrapping_sub(last.sequence), last)) {
                Some((distance @ 1..=16, last)) => last.following |= 1 << (distance - 1),
                _ => lost.push(Lost { sequence, following: 0 }),
            }
        }
        Self { sender, media, lost }
    }

    /// The sequence numbers.
    pub fn sequences(&self) -> impl Iterator<Item = u16> {
        self.lost.iter().flat_map(|lost| {
            let following = (0..16).filter(|bit| lost.following >> bit & 1 != 0);
            std::iter::once(lost.sequence)
                .chain(following.map(|bit| lost.sequence.wrapping_add(bit as u16 + 1)))
        })
    }

    pub(super) fn bytes(&self) -> u32 {
        8 + 4 * self.lost.len() as u32
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.u32(self.sender);
        out.u32(self.media);
        for lost in &self.lost {
            out.u16(lost.sequence);
            out.u16(lost.following);
        }
    }

    pub(super) fn parse(mut reader: Reader<'_>) -> Option<Self> {
        let (sender, media) = (reader.u32()?, reader.u32()?);
        let mut lost = Vec::with_capacity(reader.0.len() / 4);
        while !reader.is_empty() {
            lost.push(Lost { sequence: reader.u16()?, following: reader.u16()? });
        }
        Some(Self { sender, media, lost })
    }
}

/// When packets arrived, if they did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CongestionFeedback {
    /// Who says so.
    pub sender: u32,
    /// Each stream.
    pub streams: Vec<StreamReport>,
    /// When the report was made: the middle 32 bits of an NTP time, in 1/65536 s.
    pub timestamp: u32,
}

/// What came of consecutive packets of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamReport {
    /// The stream.
    pub ssrc: u32,
    /// The number of the first packet.
    pub begin: u16,
    /// Each packet from there on, at most [`MOST_METRICS`].
    pub metrics: Vec<Metric>,
}

/// What came of a packet, as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric(u16);

/// How a packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The ECN field that it had.
    pub ecn: Ecn,
    /// How long before the report's time it arrived, in 1/1024 s; [`None`] if that is 8 s or more, or is not
    /// known.
    pub offset: Option<u16>,
}

impl Metric {
    /// The packet has not arrived.
    pub const MISSING: Self = Self(0);

    const ARRIVED: u16 = 0x8000;
    const OFFSET: u16 = 0x1fff;
    /// It arrived longer before the report than an offset can say.
    const LONG_AGO: u16 = 0x1ffe;

    /// The packet has arrived with this ECN field, `offset` / 1024 s before the report's time.
    pub fn arrived(ecn: Ecn, offset: u64) -> Self {
        let offset = if offset < Self::LONG_AGO.into() { offset as u16 } else { Self::LONG_AGO };
        Self(Self::ARRIVED | u16::from(ecn_bits(ecn)) << 13 | offset)
    }

    /// How the packet arrived, if it did.
    pub fn arrival(self) -> Option<Arrival> {
        let offset = Some(self.0 & Self::OFFSET).filter(|&offset| offset < Self::LONG_AGO);
        (self.0 & Self::ARRIVED != 0).then(|| Arrival { ecn: ecn_of_bits((self.0 >> 13) as u8), offset })
    }
}

impl CongestionFeedback {
    pub(super) fn bytes(&self) -> u32 {
        let reports = self.streams.iter().map(|stream| 8 + stream.metrics.len().next_multiple_of(2) * 2);
        8 + reports.sum::<usize>() as u32
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.u32(self.sender);
        for stream in &self.streams {
            out.u32(stream.ssrc);
            out.u16(stream.begin);
            out.u16(stream.metrics.len() as u16);
            stream.metrics.iter().for_each(|metric| out.u16(metric.0));
            // RFC 8888 section 3.1: 16 bits of zero padding after an odd number of reports.
            if stream.metrics.len() % 2 == 1 {
                out.u16(0);
            }
        }
        out.u32(self.timestamp);
    }

    pub(super) fn parse(mut reader: Reader<'_>) -> Option<Self> {
        let sender = reader.u32()?;
        let mut streams = Vec::new();
        while reader.0.len() > 4 {
            let (ssrc, begin, count) = (reader.u32()?, reader.u16()?, reader.u16()?);
            // RFC 8888 section 3.1: a longer report would be about numbers that cannot be told apart.
            if count > MOST_METRICS {
                return None;
            }
            let mut reports = Reader(reader.take(usize::from(count).next_multiple_of(2) * 2)?);
            let metrics = (0..count).map(|_| reports.u16().map(Metric)).collect::<Option<_>>()?;
            streams.push(StreamReport { ssrc, begin, metrics });
        }
        Some(Self { sender, streams, timestamp: reader.u32()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_packets_are_named_by_a_number_and_a_bit_mask() {
        let sequences = [65_534, 65_535, 14, 15, 100];
        let nack = Nack::of(1, 2, sequences);
        let lost = |sequence, following| Lost { sequence, following };
        assert_eq!(nack.lost, [lost(65_534, 1 | 1 << 15), lost(15, 0), lost(100, 0)]);
        assert!(nack.sequences().eq(sequences));
    }

    #[test]
    fn a_metric_says_what_came_of_a_packet() {
        assert_eq!(Metric::MISSING.arrival(), None);
        for (offset, said) in [(0, Some(0)), (0x1ffd, Some(0x1ffd)), (0x1ffe, None), (1 << 40, None)] {
            let arrival = Metric::arrived(Ecn::Ce, offset).arrival();
            assert_eq!(arrival, Some(Arrival { ecn: Ecn::Ce, offset: said }));
        }
        assert_eq!(Metric::arrived(Ecn::Ect1, 5).0, 0b1010_0000_0000_0101);
    }
}
