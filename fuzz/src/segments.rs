//! What a stranger can learn about a TCP or MPTCP connection, and what it can send.

use anabranch_transport::flow::{Payload, Side};
use anabranch_transport::wire::bytes::Sending as _;
use anabranch_transport::wire::mptcp::{self, Handshake};
use anabranch_transport::wire::tcp::{Flags, Segment};
use anabranch_transport::wire::{Body, Packet, ip};

use crate::script::Script;
use crate::seal;
use crate::stage::{Dialect, PATHS};
use crate::world::World;

/// What an end has revealed about itself on a path.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    port: u16,
    first: u32,
    /// The number behind what it sent last, and the one that it expects.
    next: u32,
    expected: u32,
    /// Its clock.
    clock: u32,
}

/// What was seen on the network.
#[derive(Debug, Default)]
pub struct Overheard {
    /// By path and end.
    shown: [[Shown; 2]; PATHS],
    keys: [u64; 2],
    /// The position behind the last data of each end, and the one that it expects.
    data: [[u64; 2]; 2],
    /// The path that was used last.
    path: usize,
}

impl Dialect for Overheard {
    fn hear(&mut self, from: Side, packet: &Packet) {
        let segment = packet.body.tcp().expect("it is TCP");
        self.path = packet.path.index();
        let shown = &mut self.shown[self.path][from.index()];
        shown.port = segment.source_port;
        if segment.flags.has(Flags::SYN) {
            shown.first = segment.sequence;
        }
        shown.next = segment.sequence.wrapping_add(segment.sequence_length());
        shown.expected = segment.acknowledgement;
        shown.clock = segment.timestamps.map_or(shown.clock, |timestamps| timestamps.value);
        let Body::Mptcp(mptcp) = &packet.body else { return };
        if let Some(Handshake::Capable { sender_key: Some(key), .. }) = mptcp.options.handshake {
            self.keys[from.index()] = key;
        }
        let [sent, expected] = &mut self.data[from.index()];
        if let Some(position) = mptcp.options.data_position {
            *sent = position + u64::from(segment.payload.length);
        }
        *expected = mptcp.options.data_ack.unwrap_or(*expected);
    }

    /// A segment of a header, options and as much payload as it says.
    fn forge(&mut self, script: &mut Script<'_>, to: Side, world: &World) -> Option<Body> {
        let how = script.byte();
        let path = if how & 1 == 0 { self.path } else { 1 - self.path };
        let flags = u16::from(script.byte()) | u16::from(how >> 7) << 8;
        let (sequence, acknowledgement) = (script.word() as i16, script.word() as i16);
        let window = script.word();
        let own = self.shown[path][to.index()];
        let peer = self.shown[path][to.peer().index()];
        let options = script.bytes(usize::from(script_length(how)));
        let length = usize::from(script.word() % 1_400);
        // The numbers that a stranger knows: what was last sent, or what is expected.
        let start = if how & 2 == 0 { own.expected } else { peer.next };
        let sequence = start.wrapping_add_signed(sequence.into());
        let acknowledged = if how & 4 == 0 { own.next } else { peer.expected };
        let acknowledgement = acknowledged.wrapping_add_signed(acknowledgement.into());
        let mut bytes = Vec::with_capacity(60 + length);
        bytes.extend(peer.port.max(1).to_be_bytes());
        bytes.extend(own.port.max(1).to_be_bytes());
        bytes.extend(sequence.to_be_bytes());
        bytes.extend(acknowledgement.to_be_bytes());
        let words = 5 + options.len().div_ceil(4) as u16;
        bytes.extend((words << 12 | flags).to_be_bytes());
        bytes.extend(window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(options);
        bytes.resize(usize::from(words) * 4 + length, 0);
        let position = sequence.wrapping_sub(peer.first).wrapping_sub(1);
        let mut world = World {
            keys: [self.keys[to.peer().index()], self.keys[to.index()]],
            next: u64::from(position),
            near: [self.data[to.index()][1], self.data[to.peer().index()][1]],
            ..world.clone()
        };
        let addresses = world.addresses(anabranch_transport::flow::PathId(path as u8));
        seal::internet(&mut bytes, 16, addresses, ip::TCP);
        let (mut tcp, options) = Segment::parse(&bytes, addresses, &mut world).ok()?;
        if let Some(timestamps) = &mut tcp.timestamps {
            timestamps.value = peer.clock.wrapping_add_signed((timestamps.value as i16).into());
            timestamps.echo = own.clock.wrapping_add_signed((timestamps.echo as i16).into());
        }
        for block in &mut tcp.sack {
            let base = peer.expected;
            block.start = base.wrapping_add_signed((block.start as i16).into());
            block.end = base.wrapping_add_signed((block.end as i16).into());
        }
        let Some(mut options) = options else { return Some(Body::Tcp(tcp)) };
        if how & 8 == 0 {
            let [expected, acknowledged] = world.near;
            let near = |number: &mut Option<u64>, base: u64| {
                if let Some(number) = number {
                    *number = base.wrapping_add_signed((*number as i16).into());
                }
            };
            near(&mut options.data_ack, acknowledged);
            near(&mut options.data_position, expected);
            near(&mut options.data_fin, expected);
        }
        let option_bytes = (u32::from(words) * 4 - 20).saturating_sub(tcp.option_bytes());
        Some(Body::Mptcp(mptcp::Segment { tcp, options, option_bytes }))
    }

    fn advance(&self, body: &mut Body, by: u8) {
        let (tcp, options) = match body {
            Body::Mptcp(segment) => (&mut segment.tcp, Some(&mut segment.options)),
            Body::Tcp(segment) => (segment, None),
            _ => return,
        };
        let by = u32::from(by);
        tcp.sequence = tcp.sequence.wrapping_add(by);
        tcp.payload = Payload { offset: tcp.payload.offset.wrapping_add(by.into()), ..tcp.payload };
        if let Some(position) = options.and_then(|options| options.data_position.as_mut()) {
            *position = position.wrapping_add(by.into());
        }
    }
}

/// How many bytes of options there are: whole words, 40 at most.
const fn script_length(how: u8) -> u8 {
    match how >> 4 & 7 {
        0 => 0,
        7 => 40,
        words => 4 + words * 5,
    }
}
