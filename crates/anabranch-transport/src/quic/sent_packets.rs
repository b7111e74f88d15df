//! The packets of a number space that have been sent and not been acknowledged (RFC 9002 appendix A.1).

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use crate::flow::{Ecn, Payload};
use crate::recovery::rate_sample::RateMark;
use crate::time::Time;

/// What a packet carried, as far as its loss or its arrival means something (RFC 9000 section 13.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// An ACK frame whose largest number this was, about the packets of this path, of those of its own space
    /// in the handshake.
    Ack {
        path: u8,
        largest: u64,
    },
    AckFrequency(u64),
    Crypto {
        position: u64,
        length: u32,
    },
    DataBlocked,
    Datagram(Payload),
    HandshakeDone,
    MaxData,
    MaxStreamData(u64),
    MaxStreams {
        is_bidirectional: bool,
    },
    NewConnectionId {
        path: u8,
        sequence: u64,
    },
    PathAbandon {
        path: u8,
        code: u64,
    },
    PathStatus(u8),
    ResetStream(u64),
    RetireConnectionId {
        path: u8,
        sequence: u64,
    },
    StopSending(u64),
    Stream {
        id: u64,
        position: u64,
        length: u32,
        fin: bool,
    },
    StreamDataBlocked(u64),
    StreamsBlocked {
        is_bidirectional: bool,
    },
}

pub(super) type Contents = SmallVec<[Content; 1]>;

/// A packet that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) at: Time,
    /// Bytes that count towards the congestion window; 0 if it is not in flight (RFC 9002 section 2).
    pub(super) size: u32,
    pub(super) elicits_ack: bool,
    pub(super) ecn: Ecn,
    /// Bytes sent on the path so far, these included.
    pub(super) end: u64,
    pub(super) rate: RateMark,
    pub(super) contents: Contents,
}

impl Sent {
    /// Whether it carries the byte of a stream at this position.
    pub(super) fn carries(&self, stream: u64, place: u64) -> bool {
        self.contents.iter().any(|content| match *content {
            Content::Stream { id, position, length, .. } => {
                id == stream && (position..position + u64::from(length)).contains(&place)
            }
            _ => false,
        })
    }
}

/// Those that are outstanding, and those that were lost not long ago.
#[derive(Debug, Default)]
pub(super) struct SentPackets {
    /// The number of the first of `packets`.
    first: u64,
    /// One for each number; [`None`] once it has been acknowledged or lost, or was skipped.
    packets: VecDeque<Option<Sent>>,
    /// Those before `first` that are still to be acknowledged, by their numbers.
    old: BTreeMap<u64, Sent>,
    /// Packets that were taken for lost, by their numbers.
    lost: BTreeMap<u64, Sent>,
    /// How many of the outstanding ones elicit acknowledgements.
    pub(super) eliciting: u32,
}

/// The most lost packets that are remembered, in case they arrive after all.
const MOST_LOST: usize = 1_024;

/// The most numbers that are kept beside two for each packet that elicits an acknowledgement. A peer that
/// sends and acknowledges nothing gets acknowledgements, which nothing acknowledges.
const MOST_QUIET: usize = 1_024;

impl SentPackets {
    /// Adds a packet, whose number is larger than all before it.
    pub(super) fn push(&mut self, packet: Sent) {
        if self.packets.is_empty() {
            self.first = packet.number;
        }
        while self.first + (self.packets.len() as u64) < packet.number {
            self.packets.push_back(None);
        }
        self.eliciting += u32::from(packet.elicits_ack);
        self.packets.push_back(Some(packet));
        while self.packets.len() > MOST_QUIET + 2 * self.eliciting as usize {
            self.first += 1;
            if let Some(packet) = self.packets.pop_front().flatten().filter(|packet| packet.elicits_ack) {
                self.old.insert(packet.number, packet);
            }
        }
    }

    /// Whether nothing is outstanding.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.old.is_empty()
    }

    /// The newest packet, if it is outstanding.
    pub(super) fn last(&self) -> Option<&Sent> {
        self.packets.back().and_then(Option::as_ref)
    }

    /// The outstanding packets, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.old.values().chain(self.packets.iter().flatten())
    }

    /// Takes out what the numbers from `first` to `last` acknowledge, the largest number first.
    pub(super) fn take_acknowledged(&mut self, first: u64, last: u64, into: &mut Vec<Sent>) {
        let behind = self.first + self.packets.len() as u64;
        let (from, to) = (first.max(self.first), (last + 1).min(behind));
        for number in (from..to).rev() {
            if let Some(packet) = self.packets[(number - self.first) as usize].take() {
                self.eliciting -= u32::from(packet.elicits_ack);
                into.push(packet);
            }
        }
        while let Some((&number, _)) = self.old.range(first..=last).next_back() {
            self.eliciting -= 1;
            into.extend(self.old.remove(&number));
        }
        self.sweep();
    }

    /// Takes out the packets that were lost and are in these runs of numbers: they were not lost.
    pub(super) fn take_spurious(&mut self, ranges: &[(u64, u64)], into: &mut Vec<Sent>) {
        for &(first, last) in ranges {
            while let Some((&number, _)) = self.lost.range(first..=last).next() {
                into.extend(self.lost.remove(&number));
            }
        }
    }

    /// Takes out those up to `largest` for which `is_lost` says so. It is asked from the oldest on.
    pub(super) fn take_lost(
        &mut self,
        largest: u64,
        into: &mut Vec<Sent>,
        mut is_lost: impl FnMut(&Sent) -> bool,
    ) {
        let old = self.old.range(..=largest).filter(|(_, packet)| is_lost(packet));
        for number in old.map(|(&number, _)| number).collect::<Vec<_>>() {
            self.eliciting -= 1;
            into.extend(self.old.remove(&number));
        }
        let count = (largest + 1).saturating_sub(self.first).min(self.packets.len() as u64) as usize;
        for place in self.packets.iter_mut().take(count) {
            if let Some(packet) = place.take_if(|packet| is_lost(packet)) {
                self.eliciting -= u32::from(packet.elicits_ack);
                into.push(packet);
            }
        }
        self.sweep();
    }

    /// Remembers a lost packet.
    pub(super) fn remember(&mut self, packet: Sent) {
        if self.lost.len() == MOST_LOST {
            self.lost.pop_first();
        }
        self.lost.insert(packet.number, packet);
    }

    /// Forgets the lost packets that were sent before this time.
    pub(super) fn forget_lost(&mut self, before: Time) {
        while let Some(oldest) = self.lost.first_entry().filter(|oldest| oldest.get().at < before) {
            oldest.remove();
        }
    }

    /// Takes everything that is outstanding.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Sent> {
        self.eliciting = 0;
        self.lost.clear();
        let old = std::mem::take(&mut self.old).into_values();
        old.chain(std::mem::take(&mut self.packets).into_iter().flatten())
    }

    fn sweep(&mut self) {
        while matches!(self.packets.front(), Some(None)) {
            self.packets.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64, elicits_ack: bool) -> Sent {
        Sent {
            number,
            at: Time::from_nanos(number),
            size: u32::from(elicits_ack),
            elicits_ack,
            ecn: Ecn::NotEct,
            end: number,
            rate: RateMark::default(),
            contents: Contents::new(),
        }
    }

    /// A peer that acknowledges nothing has no end of acknowledgements kept: only what it still has to
    /// acknowledge.
    #[test]
    fn quiet_packets_are_forgotten_behind_those_that_wait() {
        let mut packets = SentPackets::default();
        for number in 0..100_000 {
            packets.push(packet(number, [3, 50_000].contains(&number)));
        }
        assert!(packets.iter().count() <= MOST_QUIET + 2 * 2 + 2);
        assert_eq!(packets.eliciting, 2);
        assert_eq!(packets.iter().filter(|sent| sent.elicits_ack).count(), 2);
        let mut taken = Vec::new();
        packets.take_lost(99_999, &mut taken, |sent| sent.number < 10);
        assert_eq!(taken.iter().map(|sent| sent.number).collect::<Vec<_>>(), [3]);
        taken.clear();
        packets.take_acknowledged(0, 99_999, &mut taken);
        let numbers: Vec<u64> = taken.iter().map(|sent| sent.number).collect();
        assert!(numbers.is_sorted_by(|one, next| one > next) && numbers.last() == Some(&50_000));
        assert!(packets.is_empty() && packets.eliciting == 0);
    }
}
