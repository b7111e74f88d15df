//! IPv4 fragmentation: a packet larger than a link's MTU goes on as fragments, each a packet of its own, and
//! the destination host puts them together (RFC 791 section 3.2).
//!
//! Reassembly has no timer: a datagram that misses a piece comes to nothing, and takes no memory that
//! matters. A datagram counts as dropped once no copy of one of its bytes can arrive any more.

use std::ops::Range;

use anabranch_transport::flow::{Ecn, IpVersion};
use anabranch_transport::time::Time;
use anabranch_transport::wire::{Body, Fragment, Packet};

use crate::net::DropCause;

/// Datagrams that travel as fragments.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    slots: Vec<Option<Datagram>>,
    free: Vec<u32>,
    fragments: usize,
    in_flight: usize,
}

#[derive(Debug)]
struct Datagram {
    /// The packet; `None` once it is delivered.
    packet: Option<Box<Packet>>,
    trace_row: u32,
    /// The whole payload, then the pieces into which it is cut, and those into which these are cut.
    pieces: Vec<Piece>,
    /// Bytes of the payload that have not arrived.
    missing: u32,
    /// Fragments in flight.
    open: usize,
    loss: Option<Loss>,
}

/// Bytes of a datagram's payload that travel in one fragment and the copies of it, until these are cut. As
/// all copies take the same route, all are cut alike.
#[derive(Debug)]
struct Piece {
    start: u32,
    end: u32,
    /// The piece from which it is cut; [`None`] for the whole.
    whole: Option<u32>,
    /// The pieces into which it is cut, once a copy of it has been.
    parts: Range<u32>,
    /// Copies in flight.
    in_flight: u32,
    has_arrived: bool,
    /// The loss of the last of the copies that were lost without being fragmented.
    loss: Option<Loss>,
}

/// The place and time of a packet's loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loss {
    pub(super) at: Time,
    pub(super) link: u32,
    pub(super) cause: DropCause,
}

/// What to record about a datagram that is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lost {
    pub(super) trace_row: u32,
    pub(super) loss: Loss,
    /// The time of loss that an earlier call gave, if one did: a fragment that is computed later can be lost
    /// at an earlier time.
    pub(super) corrects: Option<Time>,
}

/// The header that every fragment has, in bytes.
pub(super) const HEADER_BYTES: u32 = IpVersion::Ipv4.header_bytes();

impl Datagrams {
    /// Cuts a packet, which may be a fragment itself, for an MTU below its size. Every fragment but the last
    /// one has as many bytes of payload as fit in multiples of 8.
    pub(super) fn cut(&mut self, packet: Box<Packet>, trace_row: u32, mtu: u32) -> Vec<Packet> {
        let Packet { path, ecn, size, .. } = *packet;
        let fragment = if let Body::Fragment(fragment) = packet.body { Some(fragment) } else { None };
        let Fragment { datagram: number, piece } = fragment.unwrap_or_else(|| {
            self.in_flight += 1;
            let payload = size - HEADER_BYTES;
            let pieces = vec![Piece::new(0, payload, None)];
            let datagram =
                Datagram { packet: Some(packet), trace_row, pieces, missing: payload, open: 0, loss: None };
            Fragment { datagram: self.insert(datagram), piece: 0 }
        });
        let datagram = self.get_mut(number);
        if fragment.is_some() {
            datagram.land(piece);
        }
        let parts = datagram.cut(piece, (mtu - HEADER_BYTES) / 8 * 8);
        let send = |part: u32| {
            let Piece { start, end, .. } = datagram.pieces[part as usize];
            let body = Body::Fragment(Fragment { datagram: number, piece: part });
            Packet { path, ecn, size: HEADER_BYTES + end - start, body }
        };
        let fragments: Vec<Packet> = parts.clone().map(send).collect();
        for part in parts {
            self.open(Fragment { datagram: number, piece: part });
        }
        if fragment.is_some() {
            self.close(number);
        }
        fragments
    }

    /// Notes that a link makes a copy of a fragment.
    pub(super) fn duplicate(&mut self, fragment: Fragment) -> Body {
        self.open(fragment);
        Body::Fragment(fragment)
    }

    /// A fragment arrives. Returns the datagram, with the row of its trace, if it is the last one to. It is
    /// marked if a fragment is (RFC 3168 section 5.3).
    pub(super) fn arrive(&mut self, fragment: Fragment, ecn: Ecn) -> Option<(Box<Packet>, u32)> {
        let datagram = self.get_mut(fragment.datagram);
        let piece = datagram.land(fragment.piece);
        if !std::mem::replace(&mut piece.has_arrived, true) {
            let bytes = piece.end - piece.start;
            datagram.missing -= bytes;
        }
        if let Some(packet) = &mut datagram.packet
            && ecn == Ecn::Ce
        {
            packet.ecn = Ecn::Ce;
        }
        let whole = if datagram.missing == 0 { datagram.packet.take() } else { None };
        let trace_row = datagram.trace_row;
        self.in_flight -= usize::from(whole.is_some());
        self.close(fragment.datagram);
        whole.map(|packet| (packet, trace_row))
    }

    /// Handles the loss of a fragment. Returns what to record about its datagram.
    pub(super) fn lose(&mut self, fragment: Fragment, loss: Loss) -> Option<Lost> {
        let datagram = self.get_mut(fragment.datagram);
        let piece = datagram.land(fragment.piece);
        piece.loss = later(piece.loss, Some(loss));
        // Only the gap in this piece can have changed; the fates of all other bytes are known.
        let (trace_row, before, gap) = (datagram.trace_row, datagram.loss, datagram.gap(fragment.piece));
        let loss = before.into_iter().chain(gap).min_by_key(Loss::order);
        datagram.loss = loss;
        self.in_flight -= usize::from(before.is_none() && loss.is_some());
        self.close(fragment.datagram);
        let corrects = before.map(|before| before.at);
        loss.filter(|_| before != loss).map(|loss| Lost { trace_row, loss, corrects })
    }

    /// Fragments in flight.
    pub(super) fn fragments(&self) -> usize {
        self.fragments
    }

    /// Datagrams neither delivered nor lost.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Bytes of memory in use, without what packets use elsewhere.
    pub(super) fn memory(&self) -> usize {
        let packets = self.in_flight * size_of::<Packet>() + self.fragments * size_of::<Piece>();
        self.slots.capacity() * size_of::<Option<Datagram>>() + packets
    }

    fn insert(&mut self, datagram: Datagram) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(datagram);
        slot
    }

    fn get_mut(&mut self, slot: u32) -> &mut Datagram {
        self.slots[slot as usize].as_mut().expect("a fragment's datagram is there")
    }

    /// Notes that a fragment sets out.
    fn open(&mut self, Fragment { datagram, piece }: Fragment) {
        self.fragments += 1;
        let datagram = self.get_mut(datagram);
        datagram.open += 1;
        datagram.pieces[piece as usize].in_flight += 1;
    }

    /// Notes that a fragment is no longer in flight.
    fn close(&mut self, slot: u32) {
        self.fragments -= 1;
        let datagram = self.get_mut(slot);
        datagram.open -= 1;
        if datagram.open == 0 {
            self.slots[slot as usize] = None;
            self.free.push(slot);
        }
    }
}

impl Datagram {
    /// Notes that a copy of a piece is no longer in flight.
    fn land(&mut self, piece: u32) -> &mut Piece {
        let piece = &mut self.pieces[piece as usize];
        piece.in_flight -= 1;
        piece
    }

    /// The pieces into which a piece is cut, of `step` bytes each except the last.
    fn cut(&mut self, piece: u32, step: u32) -> Range<u32> {
        let Piece { start, end, ref parts, .. } = self.pieces[piece as usize];
        if !parts.is_empty() {
            return parts.clone();
        }
        let first = self.pieces.len() as u32;
        let part = |from: u32| Piece::new(from, end.min(from + step), Some(piece));
        self.pieces.extend((start..end).step_by(step as usize).map(part));
        let parts = first..self.pieces.len() as u32;
        self.pieces[piece as usize].parts = parts.clone();
        parts
    }

    /// When the first of a piece's bytes was finally lost, which is when its last copy was.
    fn gap(&self, piece: u32) -> Option<Loss> {
        let mut loss = None;
        let mut whole = Some(piece);
        while let Some(number) = whole {
            let piece = &self.pieces[number as usize];
            if piece.may_arrive() {
                return None;
            }
            loss = later(loss, piece.loss);
            whole = piece.whole;
        }
        self.gap_within(piece, loss)
    }

    /// The same as `gap`, for a piece of which no copy can arrive whole; `loss` is the loss of the last of
    /// these.
    fn gap_within(&self, piece: u32, loss: Option<Loss>) -> Option<Loss> {
        let Range { start, end } = self.pieces[piece as usize].parts;
        if start == end {
            return loss;
        }
        let parts = (start..end).filter(|&part| !self.pieces[part as usize].may_arrive());
        let gap = |part| self.gap_within(part, later(loss, self.pieces[part as usize].loss));
        parts.filter_map(gap).min_by_key(Loss::order)
    }
}

impl Piece {
    fn new(start: u32, end: u32, whole: Option<u32>) -> Self {
        Self { start, end, whole, parts: 0..0, in_flight: 0, has_arrived: false, loss: None }
    }

    /// Whether a copy of it has arrived whole, or still can.
    fn may_arrive(&self) -> bool {
        self.has_arrived || self.in_flight > 0
    }
}

impl Loss {
    /// The key by which losses are ordered.
    fn order(&self) -> (Time, u32) {
        (self.at, self.link)
    }
}

/// The later of two losses.
fn later(one: Option<Loss>, other: Option<Loss>) -> Option<Loss> {
    one.into_iter().chain(other).max_by_key(Loss::order)
}

#[cfg(test)]
mod tests {
    use anabranch_transport::flow::PathId;
    use anabranch_transport::wire::udp::Datagram;
    use proptest::prelude::*;

    use super::*;

    const PAYLOAD: u32 = 400;

    /// A datagram byte by byte: of each, how many copies are in flight, whether one has arrived, and the last
    /// loss.
    struct Literal(Vec<(u32, bool, Option<Loss>)>);

    impl Literal {
        fn first_gap(&self) -> Option<Loss> {
            let gaps = self.0.iter().filter(|&&(in_flight, has_arrived, _)| in_flight == 0 && !has_arrived);
            gaps.filter_map(|&(_, _, loss)| loss).min_by_key(Loss::order)
        }

        fn has_arrived(&self) -> bool {
            self.0.iter().all(|&(_, has_arrived, _)| has_arrived)
        }
    }

    fn bytes_of(datagrams: &mut Datagrams, Fragment { datagram, piece }: Fragment) -> Range<usize> {
        let Piece { start, end, .. } = datagrams.get_mut(datagram).pieces[piece as usize];
        start as usize..end as usize
    }

    fn fragment_of(packet: &Packet) -> Fragment {
        let Body::Fragment(fragment) = packet.body else { panic!("{packet:?}") };
        fragment
    }

    fn datagram() -> Box<Packet> {
        let body = Body::Udp(Datagram {
            source_port: 1,
            destination_port: 2,
            offset: 0,
            length: PAYLOAD - 8,
            rtp: None,
        });
        Box::new(Packet { path: PathId(0), ecn: Ecn::NotEct, size: HEADER_BYTES + PAYLOAD, body })
    }

    proptest! {
        /// Fragments that are cut, copied, lost and delivered in any order, on a route whose links have MTUs
        /// that become smaller: what is noted is what a look at each byte gives.
        #[test]
        fn counting_pieces_is_counting_bytes(
            mtus in prop::collection::vec(28u32..200, 1..4),
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, 0..50u64), 1..400),
        ) {
            let mut mtus = mtus;
            mtus.sort_unstable_by(|a, b| b.cmp(a));
            let mut datagrams = Datagrams::default();
            let mut literal = Literal(vec![(1, false, None); PAYLOAD as usize]);
            let mut flying: Vec<(Packet, usize)> =
                datagrams.cut(datagram(), 7, mtus[0]).into_iter().map(|packet| (packet, 1)).collect();
            let (mut is_delivered, mut noted) = (false, None);
            for (index, what, at) in steps {
                if flying.is_empty() {
                    break;
                }
                let (packet, next) = flying.swap_remove(index.index(flying.len()));
                let fragment = fragment_of(&packet);
                let bytes = bytes_of(&mut datagrams, fragment);
                match what {
                    0 => {
                        datagrams.duplicate(fragment);
                        literal.0[bytes].iter_mut().for_each(|byte| byte.0 += 1);
                        flying.extend([(packet.clone(), next), (packet, next)]);
                    }
                    1 => {
                        let loss = Loss { at: Time::from_nanos(at), link: next as u32, cause: DropCause::Lost };
                        let lost = datagrams.lose(fragment, loss);
                        for byte in &mut literal.0[bytes] {
                            *byte = (byte.0 - 1, byte.1, later(byte.2, Some(loss)));
                        }
                        let expected = literal.first_gap();
                        let corrects = noted.map(|loss: Loss| loss.at);
                        prop_assert_eq!(
                            lost,
                            expected.filter(|_| noted != expected).map(|loss| Lost { trace_row: 7, loss, corrects })
                        );
                        noted = expected;
                    }
                    _ if next < mtus.len() => {
                        if packet.size <= mtus[next] {
                            flying.push((packet, next + 1));
                        } else {
                            let parts = datagrams.cut(Box::new(packet), 7, mtus[next]);
                            flying.extend(parts.into_iter().map(|packet| (packet, next + 1)));
                        }
                    }
                    _ => {
                        let arrived = datagrams.arrive(fragment, Ecn::NotEct);
                        literal.0[bytes].iter_mut().for_each(|byte| *byte = (byte.0 - 1, true, byte.2));
                        prop_assert_eq!(arrived.is_some(), !is_delivered && literal.has_arrived());
                        is_delivered |= arrived.is_some();
                    }
                }
                prop_assert_eq!(datagrams.fragments(), flying.len());
                prop_assert_eq!(datagrams.in_flight(), usize::from(!is_delivered && noted.is_none()));
            }
        }
    }
}
