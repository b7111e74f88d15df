//! The mappings with which the peer says where the bytes that it sends on a path belong (RFC 8684 section
//! 3.3.1).
//!
//! A mapping may be longer than the segment that it comes with: Linux cuts what it has mapped when a window
//! has no room for all of it, and says it once. It may also come on a segment that is lost, while another one
//! with a part of the same bytes arrives.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use anabranch_transport::mptcp::Connection;
use anabranch_transport::wire::{Body, Packet, mptcp};

/// The most mappings of a path that are kept: more than there are full segments in any window.
const MOST_MAPPINGS: usize = 1 << 14;
/// The most known addresses of a peer.
const MOST_ADDRESSES: usize = 8;

/// The mappings of all paths of a connection, and the addresses by which its ends know each other.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    /// For each path, by position on the path: the position in the stream, and the length.
    paths: BTreeMap<u8, BTreeMap<u64, (u64, u32)>>,
    /// Announced by the peer: identifiers, addresses and ports.
    pub(super) heard: Vec<(u8, IpAddr, Option<u16>)>,
    /// The announced addresses that have not been taken yet.
    pub(super) fresh: VecDeque<(u8, IpAddr, Option<u16>)>,
}

/// The mappings and addresses in a segment, before they are trusted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    pub(super) mapping: Option<(u64, u64, u32)>,
    pub(super) address: Option<(u8, IpAddr, Option<u16>)>,
}

impl Mappings {
    /// Takes note of a segment's mapping and addresses, and adds the mapping that it lacks. Gives false if
    /// the segment cannot be used: its data has no mapping yet, or it comes before the peer's key is known.
    /// Data in order that nothing maps, on a segment without options, is left to the connection: its peer may
    /// have fallen back to TCP (section 3.7).
    pub(super) fn apply(&mut self, end: &Connection, packet: &mut Packet, said: Said) -> bool {
        if end.has_fallen_back() {
            return true;
        }
        let is_capable = match &packet.body {
            Body::Mptcp(segment) => {
                matches!(segment.options.handshake, Some(mptcp::Handshake::Capable { .. }))
            }
            _ => false,
        };
        let knows_key = end.keys()[1].is_some();
        if let (Body::Mptcp(segment), false) = (&packet.body, knows_key || is_capable) {
            let mptcp::Options { data_ack, data_position, data_fin, .. } = segment.options;
            return data_ack.is_none() && data_position.is_none() && data_fin.is_none();
        }
        if let Some((identifier, address, port)) = said.address {
            self.hear(identifier, address, port);
        }
        let path = packet.path;
        let next = end.subflow(path).map_or(0, |subflow| {
            let mut next = u64::MAX;
            subflow.missing(0, u64::MAX / 2, &mut |start, _| next = next.min(start));
            next
        });
        let known = self.paths.entry(path.0).or_default();
        if let Some((position, place, length)) = said.mapping
            && length > 0
            && position.saturating_sub(next) <= end.receive_buffer()
            && known.len() < MOST_MAPPINGS
        {
            known.entry(position).or_insert((place, length));
        }
        let first = known.range(..=next).next_back().map_or(0, |(position, _)| *position);
        *known = known.split_off(&first);
        let (segment, has_place) = match &packet.body {
            Body::Mptcp(segment) => (&segment.tcp, segment.options.data_position.is_some()),
            Body::Tcp(segment) => (segment, false),
            _ => return false,
        };
        let payload = segment.payload;
        let is_infinite = matches!(&packet.body, Body::Mptcp(segment) if segment.options.infinite.is_some());
        if payload.length == 0 || has_place || is_infinite {
            return true;
        }
        // The bytes were delivered before, so whatever they map to has arrived.
        let end_of_payload = payload.offset + u64::from(payload.length);
        if end_of_payload <= next {
            return true;
        }
        let (place, covered) = match known.range(..=payload.offset).next_back() {
            Some((position, (place, length))) => {
                let inside = payload.offset - position;
                (place + inside, u64::from(*length).saturating_sub(inside).min(payload.length.into()) as u32)
            }
            None => (0, 0),
        };
        if covered == 0 {
            // Without any option of MPTCP, it may be data of TCP. Above a gap, its mapping may be in the gap.
            return payload.offset <= next && matches!(packet.body, Body::Tcp(_));
        }
        let option_bytes = match &packet.body {
            Body::Mptcp(segment) => segment.option_bytes,
            _ => 0,
        };
        let mut options = match &packet.body {
            Body::Mptcp(segment) => segment.options,
            _ => mptcp::Options::default(),
        };
        options.data_position = Some(place);
        let mut tcp = segment.clone();
        if covered < payload.length {
            // The data after the end of the mapping will be sent again.
            tcp.payload.length = covered;
            tcp.flags = tcp.flags.without(anabranch_transport::wire::tcp::Flags::FIN);
        }
        packet.body = Body::Mptcp(mptcp::Segment { tcp, options, option_bytes });
        true
    }

    fn hear(&mut self, identifier: u8, address: IpAddr, port: Option<u16>) {
        let said = (identifier, address, port);
        if self.heard.contains(&said) || self.heard.len() >= MOST_ADDRESSES {
            return;
        }
        self.heard.retain(|(other, ..)| *other != identifier);
        self.heard.push(said);
        self.fresh.push_back(said);
    }
}
