//! One direction of a station: packets that wait, packets that have been begun, and their fates.
//!
//! Packets are cut into pieces where a burst ends, and small ones share a unit (IEEE 802.16-2004 section
//! 6.3.3: fragmentation and packing). A unit is lost if a block that bears part of it is; a packet is lost if
//! one of its pieces is, or with retransmissions if one of its pieces is given up.

use std::collections::VecDeque;

use super::burst::{Burst, Pdu, Piece};
use super::config::ArqConfig;
use super::frame::{CRC_BYTES, LONGEST_PDU, MAC_HEADER_BYTES};
use crate::net::packets::{DropCause, Fate, Held};
use crate::net::qdisc::PacketQueue;

/// How packets are put into units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framing {
    /// Bytes before each piece: 2 of a packing subheader or 1 of a fragmentation subheader, and 1 more for
    /// the longer sequence numbers of retransmission (section 6.3.2.2).
    subheader: u32,
    packs: bool,
    arq: Option<ArqConfig>,
}

impl Framing {
    pub(super) fn new(packs: bool, arq: Option<ArqConfig>) -> Self {
        Self { subheader: if packs { 2 } else { 1 } + u32::from(arq.is_some()), packs, arq }
    }
}

const UNIT_BYTES: u32 = MAC_HEADER_BYTES + CRC_BYTES;

/// The blocks of a burst in the frame: how long each is, which fail, and when each has arrived.
pub(super) struct Blocks<'a, T> {
    pub(super) bytes: u32,
    pub(super) failed: &'a [u64],
    pub(super) arrival: T,
}

/// One direction of a station.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    framing: Framing,
    waiting: PacketQueue,
    /// Packets that have been begun and not finished, in order.
    begun: VecDeque<Begun>,
    /// The number of the first of these packets.
    first: u64,
    /// Pieces that are to be sent again, each from a certain frame on, in order.
    again: VecDeque<(u64, Piece)>,
    retransmissions: u64,
    /// When the last packet left.
    last_release: u64,
}

/// A packet that has been begun.
#[derive(Clone, Copy, Debug)]
struct Begun {
    packet: Held,
    unsent: u32,
    /// Bytes whose fate is open, including those that have not been sent.
    open: u32,
    is_lost: bool,
    /// When the last piece arrived or was given up.
    last: u64,
}

impl Lane {
    pub(super) fn new(framing: Framing, waiting: PacketQueue) -> Self {
        Self {
            framing,
            waiting,
            begun: VecDeque::new(),
            first: 0,
            again: VecDeque::new(),
            retransmissions: 0,
            last_release: 0,
        }
    }

    /// Takes a packet if there is room; returns whether it did.
    pub(super) fn accept(&mut self, packet: Held) -> bool {
        let is_idle = self.begun.is_empty();
        self.waiting.accept(packet.arrived, packet, is_idle)
    }

    /// Number of packets in it.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.begun.len()
    }

    pub(super) fn queue_mut(&mut self) -> &mut PacketQueue {
        &mut self.waiting
    }

    pub(super) fn memory(&self) -> usize {
        self.waiting.memory() + self.begun.capacity() * size_of::<Begun>()
    }

    /// Number of pieces that were sent again.
    pub(super) fn retransmissions(&self) -> u64 {
        self.retransmissions
    }

    /// The bytes of a burst that would take everything that may be sent in this frame, with at most this many
    /// bytes of packets; and these bytes.
    pub(super) fn demand(&self, frame: u64, most: u64) -> (u64, u64) {
        let Framing { subheader, packs, .. } = self.framing;
        let again = self.again.iter().take_while(|(from, _)| *from <= frame).map(|(_, piece)| piece.bytes);
        let begun = self.begun.back().map(|begun| begun.unsent);
        let (mut total, mut unit, mut left) = (0, 0, most);
        for size in again.chain(begun).chain(self.waiting.sizes()) {
            let mut size = u64::from(size).min(left) as u32;
            left -= u64::from(size);
            if packs && unit > 0 && unit + subheader + size <= LONGEST_PDU && size > 0 {
                unit += subheader + size;
                total += u64::from(subheader + size);
                continue;
            }
            while size > 0 {
                let piece = size.min(LONGEST_PDU - UNIT_BYTES - subheader);
                unit = UNIT_BYTES + subheader + piece;
                total += u64::from(unit);
                size -= piece;
            }
            if left == 0 {
                break;
            }
        }
        (total, most - left)
    }

    /// Fills a burst of at most `capacity` bytes with at most `most` bytes of packets.
    pub(super) fn load(&mut self, now: u64, frame: u64, capacity: u32, most: u64, burst: &mut Burst) {
        burst.clear();
        let Framing { subheader, packs, .. } = self.framing;
        let mut left = most;
        loop {
            let start = burst.bytes();
            let limit = capacity.min(start + LONGEST_PDU);
            let first_piece = burst.pieces.len();
            let mut end = start + UNIT_BYTES;
            while left > 0 && end + subheader < limit {
                let Some(next) = self.next_piece(now, frame) else { break };
                let free = limit - end - subheader;
                let wanted = u64::from(next.bytes).min(left) as u32;
                if burst.pieces.len() > first_piece && (!packs || wanted > free) {
                    break;
                }
                let piece = Piece { bytes: wanted.min(free), ..next };
                self.take(piece);
                burst.pieces.push(piece);
                left -= u64::from(piece.bytes);
                end += subheader + piece.bytes;
            }
            if burst.pieces.len() == first_piece {
                return;
            }
            burst.pdus.push(Pdu { pieces_end: burst.pieces.len(), end });
        }
    }

    /// The complete next piece to send: one that is sent again, the rest of a packet, or a waiting packet.
    fn next_piece(&mut self, now: u64, frame: u64) -> Option<Piece> {
        if let Some(&(from, piece)) = self.again.front()
            && from <= frame
        {
            return Some(piece);
        }
        if self.begun.back().is_none_or(|begun| begun.unsent == 0) {
            let packet = self.waiting.next(now)?;
            let (unsent, open) = (packet.size, packet.size);
            self.begun.push_back(Begun { packet, unsent, open, is_lost: false, last: 0 });
        }
        let begun = self.begun.back()?;
        let packet = self.first + self.begun.len() as u64 - 1;
        Some(Piece { packet, bytes: begun.unsent, tries: 0 })
    }

    /// Takes all of the next piece, or its first bytes.
    fn take(&mut self, piece: Piece) {
        if piece.tries == 0 {
            self.begun.back_mut().expect("it is next").unsent -= piece.bytes;
            return;
        }
        self.retransmissions += 1;
        let (_, next) = self.again.front_mut().expect("it is next");
        next.bytes -= piece.bytes;
        if next.bytes == 0 {
            self.again.pop_front();
        }
    }

    /// Decides the fates of a burst's pieces; gives the packets that leave with their times, in order.
    pub(super) fn resolve<T: Fn(u64) -> u64>(
        &mut self,
        frame: u64,
        burst: &Burst,
        blocks: &Blocks<'_, T>,
        mut release: impl FnMut(Held, u64, Fate),
    ) {
        let (mut start, mut first_piece) = (0, 0);
        let mut failed = blocks.failed.iter().copied().peekable();
        for pdu in &burst.pdus {
            let first_block = u64::from(start / blocks.bytes);
            let last_block = u64::from((pdu.end - 1) / blocks.bytes);
            while failed.next_if(|&block| block < first_block).is_some() {}
            let is_lost = failed.peek().is_some_and(|&block| block <= last_block);
            let arrival = (blocks.arrival)(last_block);
            for piece in &burst.pieces[first_piece..pdu.pieces_end] {
                self.resolve_piece(frame, *piece, is_lost, arrival);
            }
            (start, first_piece) = (pdu.end, pdu.pieces_end);
        }
        while let Some(begun) = self.begun.front()
            && begun.open == 0
        {
            // Packets that waited for an earlier one leave with it.
            self.last_release = self.last_release.max(begun.last);
            let fate = if begun.is_lost { Fate::Dropped(DropCause::Lost) } else { Fate::Delivered };
            release(begun.packet, self.last_release, fate);
            self.begun.pop_front();
            self.first += 1;
        }
    }

    fn resolve_piece(&mut self, frame: u64, piece: Piece, is_lost: bool, arrival: u64) {
        if is_lost
            && let Some(arq) = self.framing.arq
            && piece.tries < arq.retries
        {
            let piece = Piece { tries: piece.tries + 1, ..piece };
            self.again.push_back((frame + u64::from(arq.frames), piece));
            return;
        }
        let begun = &mut self.begun[(piece.packet - self.first) as usize];
        begun.open -= piece.bytes;
        begun.is_lost |= is_lost;
        begun.last = arrival;
    }
}

#[cfg(test)]
mod tests {
    use crate::net::packets::Treatment;
    use anabranch_transport::flow::Ecn;

    use super::*;
    use crate::net::qdisc::QueueConfig;

    fn lane(packs: bool, arq: Option<ArqConfig>) -> Lane {
        let queue = PacketQueue::new(QueueConfig::default().drop_tail("queue", "here").unwrap(), false);
        Lane::new(Framing::new(packs, arq), queue)
    }

    fn packet(slot: u32, size: u32) -> Held {
        Held {
            slot,
            arrived: 0,
            size,
            ecn: Ecn::NotEct,
            flow: 0,
            hosts: [0; 2],
            treatment: Treatment::default(),
            found_units: 0,
        }
    }

    /// Sends a burst of at most this many bytes with 100 bytes in a block, of which these fail. Returns the
    /// bytes of its units, and the slot, time and fate of each packet that leaves.
    fn send(lane: &mut Lane, frame: u64, capacity: u32, failed: &[u64]) -> (Vec<u32>, Vec<(u32, u64, Fate)>) {
        let mut burst = Burst::default();
        lane.load(frame, frame, capacity, u64::MAX, &mut burst);
        let mut left = Vec::new();
        let blocks = Blocks { bytes: 100, failed, arrival: |block| frame * 1_000 + block };
        lane.resolve(frame, &burst, &blocks, |packet, at, fate| left.push((packet.slot, at, fate)));
        let mut start = 0;
        let mut size = |pdu: &Pdu| pdu.end - std::mem::replace(&mut start, pdu.end);
        (burst.pdus.iter().map(&mut size).collect(), left)
    }

    #[test]
    fn packets_are_cut_where_the_burst_ends() {
        let mut lane = lane(false, None);
        assert!(lane.accept(packet(1, 1_500)) && lane.accept(packet(2, 500)));
        assert_eq!(lane.demand(0, u64::MAX), (1_511 + 511, 2_000));
        assert_eq!(lane.demand(0, 1_600), (1_511 + 111, 1_600));
        assert_eq!(send(&mut lane, 0, 1_000, &[]), (vec![1_000], vec![]));
        assert_eq!(lane.demand(1, u64::MAX), (511 + 11 + 511, 1_011));
        // 511 bytes are left of the first packet; the second follows in blocks 5 to 10.
        let expected = vec![(1, 1_005, Fate::Delivered), (2, 1_010, Fate::Delivered)];
        assert_eq!(send(&mut lane, 1, 9_000, &[]), (vec![511 + 11, 511], expected));
        assert_eq!(lane.len(), 0);
    }

    #[test]
    fn small_packets_share_a_unit() {
        let mut lane = lane(true, None);
        for slot in 0..50 {
            assert!(lane.accept(packet(slot, 40)));
        }
        // 10 + 48 x 42 = 2026 bytes are the largest unit below 2048.
        assert_eq!(lane.demand(0, u64::MAX), (2_026 + 10 + 2 * 42, 2_000));
        let (units, left) = send(&mut lane, 0, 9_000, &[20]);
        assert_eq!(units, [2_026, 94]);
        // Block 20 bears the end of the first unit and the start of the second.
        assert!(left.iter().all(|(_, _, fate)| *fate == Fate::Dropped(DropCause::Lost)) && left.len() == 50);
    }

    #[test]
    fn a_packet_is_lost_with_one_of_its_blocks() {
        let mut lane = lane(false, None);
        for slot in 0..3 {
            assert!(lane.accept(packet(slot, 489)));
        }
        // Units of 500 bytes: blocks 0 to 4, 5 to 9, 10 to 14.
        let (_, left) = send(&mut lane, 0, 9_000, &[9]);
        assert_eq!(
            left,
            [(0, 4, Fate::Delivered), (1, 9, Fate::Dropped(DropCause::Lost)), (2, 14, Fate::Delivered)]
        );
    }

    #[test]
    fn lost_pieces_are_sent_again_and_packets_stay_in_order() {
        let mut lane = lane(false, Some(ArqConfig { frames: 2, retries: 1 }));
        for slot in 0..3 {
            assert!(lane.accept(packet(slot, 488)));
        }
        assert_eq!(send(&mut lane, 0, 9_000, &[5]).1, [(0, 4, Fate::Delivered)]);
        assert_eq!((lane.len(), lane.demand(1, u64::MAX)), (2, (0, 0)));
        assert_eq!(send(&mut lane, 1, 9_000, &[]), (vec![], vec![]));
        // The last packet has waited for this one.
        let expected = vec![(1, 2_004, Fate::Delivered), (2, 2_004, Fate::Delivered)];
        assert_eq!(send(&mut lane, 2, 9_000, &[]), (vec![500], expected));
        assert!(lane.accept(packet(3, 488)));
        assert_eq!(send(&mut lane, 3, 9_000, &[0]).1, []);
        assert_eq!(send(&mut lane, 5, 9_000, &[4]).1, [(3, 5_004, Fate::Dropped(DropCause::Lost))]);
        assert_eq!((lane.len(), lane.retransmissions()), (0, 2));
    }
}
