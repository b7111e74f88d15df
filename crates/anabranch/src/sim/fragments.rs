//! IPv4 fragmentation: a packet larger than a link's MTU goes on as fragments, each a packet of its own, and the
//! destination host puts them together (RFC 791 section 3.2).
//!
//! No timer: nothing is made of a datagram that misses a piece, and reassembly takes no memory that matters. A
//! datagram counts as dropped once no copy of one of its bytes can arrive any more.

use crate::net::DropCause;
use crate::packet::{Body, Ecn, Fragment, IpVersion, Packet};
use crate::time::Time;

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
    /// None once it is delivered.
    packet: Option<Box<Packet>>,
    trace_row: u32,
    pieces: Vec<Piece>,
    /// Fragments in flight.
    open: usize,
    loss: Option<Loss>,
}

/// Bytes of a datagram's payload, in one fragment.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u32,
    end: u32,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Arrived,
    /// It goes on in smaller pieces.
    Cut,
    InFlight,
    Lost(Loss),
}

/// Where and when a packet is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loss {
    pub(super) at: Time,
    pub(super) link: u32,
    pub(super) cause: DropCause,
}

/// What is to be noted about a datagram that is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lost {
    pub(super) trace_row: u32,
    pub(super) loss: Loss,
    /// When it was thought to be lost: a fragment computed later can be lost before one computed earlier.
    pub(super) corrects: Option<Time>,
}

const HEADER_BYTES: u32 = IpVersion::Ipv4.header_bytes();

impl Datagrams {
    /// Cuts a packet, which may be a fragment itself, for an MTU below its size. Every fragment but the last one has
    /// as many bytes of payload as fit in multiples of 8.
    pub(super) fn cut(&mut self, packet: Box<Packet>, trace_row: u32, mtu: u32) -> Vec<Packet> {
        let Packet { path, ecn, size, .. } = *packet;
        let is_fragment = matches!(packet.body, Body::Fragment(_));
        let (number, from, to) = if let Body::Fragment(Fragment { datagram, piece }) = packet.body {
            let whole = &mut self.get_mut(datagram).pieces[piece as usize];
            whole.fate = Fate::Cut;
            (datagram, whole.start, whole.end)
        } else {
            self.in_flight += 1;
            let datagram =
                Datagram { packet: Some(packet), trace_row, pieces: Vec::new(), open: 0, loss: None };
            (self.insert(datagram), 0, size - HEADER_BYTES)
        };
        let step = (mtu - HEADER_BYTES) / 8 * 8;
        let cut = |start: u32| {
            let end = to.min(start + step);
            let body = self.open(number, start, end);
            Packet { path, ecn, size: HEADER_BYTES + end - start, body }
        };
        let fragments = (from..to).step_by(step as usize).map(cut).collect();
        if is_fragment {
            self.close(number);
        }
        fragments
    }

    /// A link makes a copy of a fragment.
    pub(super) fn duplicate(&mut self, Fragment { datagram, piece }: Fragment) -> Body {
        let Piece { start, end, .. } = self.get_mut(datagram).pieces[piece as usize];
        self.open(datagram, start, end)
    }

    /// A fragment arrives. Returns the datagram, with the row of its trace, if it is the last one to. It is marked if a
    /// fragment is (RFC 3168 section 5.3).
    pub(super) fn arrive(&mut self, fragment: Fragment, ecn: Ecn) -> Option<(Box<Packet>, u32)> {
        let datagram = self.get_mut(fragment.datagram);
        datagram.pieces[fragment.piece as usize].fate = Fate::Arrived;
        if let Some(packet) = &mut datagram.packet
            && ecn == Ecn::Ce
        {
            packet.ecn = Ecn::Ce;
        }
        let whole = if datagram.has_arrived() { datagram.packet.take() } else { None };
        let trace_row = datagram.trace_row;
        self.in_flight -= usize::from(whole.is_some());
        self.close(fragment.datagram);
        whole.map(|packet| (packet, trace_row))
    }

    /// A fragment is lost. Returns what is to be noted about its datagram.
    pub(super) fn lose(&mut self, fragment: Fragment, loss: Loss) -> Option<Lost> {
        let datagram = self.get_mut(fragment.datagram);
        datagram.pieces[fragment.piece as usize].fate = Fate::Lost(loss);
        let (trace_row, before, loss) = (datagram.trace_row, datagram.loss, datagram.first_gap());
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

    /// Bytes of memory in use, without what packets hold elsewhere.
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

    /// A fragment sets out.
    fn open(&mut self, slot: u32, start: u32, end: u32) -> Body {
        self.fragments += 1;
        let datagram = self.get_mut(slot);
        datagram.open += 1;
        datagram.pieces.push(Piece { start, end, fate: Fate::InFlight });
        Body::Fragment(Fragment { datagram: slot, piece: datagram.pieces.len() as u32 - 1 })
    }

    /// A fragment is in flight no more.
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
    /// Whether every byte has arrived.
    fn has_arrived(&self) -> bool {
        self.starts().all(|start| self.at(start).any(|fate| fate == Fate::Arrived))
    }

    /// When the first byte was lost for good.
    fn first_gap(&self) -> Option<Loss> {
        let by_time = |loss: &Loss| (loss.at, loss.link);
        let gap = |start| {
            let losses =
                self.at(start).map(|fate| if let Fate::Lost(loss) = fate { Some(loss) } else { None });
            losses.collect::<Option<Vec<Loss>>>()?.into_iter().max_by_key(by_time)
        };
        self.starts().filter_map(gap).min_by_key(by_time)
    }

    /// Where pieces start; between two of these all bytes fare alike.
    fn starts(&self) -> impl Iterator<Item = u32> {
        self.pieces.iter().filter(|piece| piece.fate != Fate::Cut).map(|piece| piece.start)
    }

    /// What becomes of the pieces with this byte.
    fn at(&self, byte: u32) -> impl Iterator<Item = Fate> {
        let with_byte = move |piece: &&Piece| piece.start <= byte && byte < piece.end;
        self.pieces.iter().filter(with_byte).map(|piece| piece.fate).filter(|&fate| fate != Fate::Cut)
    }
}
