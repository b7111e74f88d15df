//! TCP and strangers who know the addresses and ports of a connection, and peers that do not follow the
//! protocol.

use std::net::IpAddr;

use anabranch_live::Handle;
use anabranch_live::stream::{Host, HostEvent, Settings, StreamEnd};
use anabranch_transport::endpoint::CloseReason;
use anabranch_transport::rng::{Draw as _, Streams};
use anabranch_transport::secret::Secret;
use anabranch_transport::tcp;
use anabranch_transport::time::{Duration, Time};

use crate::bytes::{ACK, FIN, RST, SYN, Segment};
use crate::world::{CLIENT, End, Numbers, SERVER, World, address, attacks, stranger};

pub(crate) const PORT: u16 = 5_001;
/// Connections that peers may have.
pub(crate) const MOST_ACCEPTED: usize = 50;
/// IP's header and TCP's, in bytes, without those of UDP that the world counts.
const SEGMENT: usize = 20;

/// A host and the state of its connection with the other one.
pub(crate) struct Talker<E: StreamEnd> {
    pub(crate) host: Host<E>,
    pub(crate) id: Option<Handle>,
    pub(crate) received: u64,
    /// Number of the attacker's bytes that were delivered.
    pub(crate) believed: u64,
    pub(crate) closed: Option<CloseReason>,
    /// Connections that others have opened and that exist, the latest last.
    pub(crate) accepted: Vec<Handle>,
}

impl<E: StreamEnd> Talker<E> {
    pub(crate) fn new(index: usize) -> Self {
        let settings = Settings { addresses: vec![address(index)], mtu: 1_500, most_accepted: MOST_ACCEPTED };
        let streams = Streams { seed: index as u64, replication: 0 };
        Self {
            host: Host::new(settings, Secret([index as u8; 32]), streams),
            id: None,
            received: 0,
            believed: 0,
            closed: None,
            accepted: Vec::new(),
        }
    }
}

impl<E: StreamEnd> End for Talker<E> {
    type Host = Host<E>;

    fn host(&mut self) -> &mut Host<E> {
        &mut self.host
    }

    fn feed(&mut self, now: Time) {
        let Some(id) = self.id.filter(|_| self.closed.is_none()) else { return };
        while let Ok(1_000) = self.host.send(now, id, &[7; 1_000]) {}
    }

    fn on_event(&mut self, _now: Time, (id, event): (Handle, HostEvent)) {
        match event {
            HostEvent::Accepted if self.id.is_none() => self.id = Some(id),
            HostEvent::Accepted => self.accepted.push(id),
            HostEvent::Received(bytes) if self.id == Some(id) => {
                assert!(bytes.iter().all(|byte| *byte == 7), "somebody else's bytes are in the stream");
                self.received += bytes.len() as u64;
            }
            HostEvent::Received(bytes) => self.believed += bytes.len() as u64,
            HostEvent::Closed(reason) if self.id == Some(id) => self.closed = Some(reason),
            HostEvent::Closed(_) => self.accepted.retain(|other| *other != id),
            _ => {}
        }
    }

    fn received(&self) -> u64 {
        self.received
    }
}

fn config(more: &str) -> tcp::Config {
    let buffer = if more.contains("receive_buffer") { "" } else { r#", "receive_buffer": "64 kB""# };
    serde_json::from_str(&format!(r#"{{"send_buffer": "64 kB"{buffer}{more}}}"#)).expect("settings")
}

/// A client that sends to a server.
fn world() -> World<Talker<tcp::Connection>> {
    world_with("")
}

fn world_with(more: &str) -> World<Talker<tcp::Connection>> {
    open(&config(more))
}

pub(crate) fn open<E: StreamEnd>(config: &E::Config) -> World<Talker<E>> {
    let mut world = World::new([Talker::new(CLIENT), Talker::new(SERVER)], None);
    world.ends[SERVER].host.listen(PORT, config).expect("the port is free");
    let id = world.ends[CLIENT].host.connect(Time::ZERO, config, 0, &[address(SERVER)], PORT);
    world.ends[CLIENT].id = Some(id.expect("the settings are possible"));
    world.run_for(Duration::from_millis(100));
    assert!(world.ends[SERVER].received > 0, "the transfer has begun");
    world
}

/// The last segment of the transfer that came to a host.
pub(crate) fn overheard<E: StreamEnd>(world: &World<Talker<E>>, to: usize) -> Segment {
    Segment::read(&world.heard[to])
}

/// A packet of the attacker's to a host, in the name of the other one.
pub(crate) fn to_host(to: usize, segment: &Segment) -> (usize, IpAddr, Vec<u8>) {
    (to, address(1 - to), segment.emit([address(1 - to), address(to)]))
}

/// A packet of the attacker's to the server, from an address.
pub(crate) fn to_server(from: IpAddr, segment: &Segment) -> (usize, IpAddr, Vec<u8>) {
    (SERVER, from, segment.emit([from, address(SERVER)]))
}

#[track_caller]
pub(crate) fn assert_lives<E: StreamEnd>(world: &World<Talker<E>>) {
    assert_eq!([CLIENT, SERVER].map(|index| world.ends[index].closed), [None; 2]);
}

/// A peer under the attacker's control, at an address of its own.
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Its next segment to the server, with ACK.
    pub(crate) next: Segment,
}

impl Peer {
    /// Exchanges SYN, with these options, and answers with those that `third` makes of the server's.
    pub(crate) fn open<E: StreamEnd>(
        address: IpAddr,
        world: &mut World<Talker<E>>,
        options: Vec<u8>,
        third: impl FnOnce(&Segment) -> Vec<u8>,
    ) -> Self {
        world.answer();
        let syn = Segment { ports: [7, PORT], sequence: 999, flags: SYN, options, ..Segment::default() };
        world.inject(SERVER, address, &syn.emit([address, crate::world::address(SERVER)]));
        let answer = Segment::read(&world.answer().expect("it is answered"));
        assert_eq!(answer.flags & (SYN | ACK), SYN | ACK);
        let next = Segment {
            sequence: 1_000,
            acknowledgement: answer.sequence.wrapping_add(1),
            flags: ACK,
            options: Vec::new(),
            ..syn
        };
        let options = third(&answer);
        let last = Segment { options, ..next.clone() };
        world.inject(SERVER, address, &last.emit([address, crate::world::address(SERVER)]));
        Self { address, next }
    }

    fn segment(&self, offset: u32, length: usize) -> (usize, IpAddr, Vec<u8>) {
        let sequence = self.next.sequence.wrapping_add(offset);
        to_server(self.address, &Segment { sequence, payload: vec![1; length], ..self.next.clone() })
    }
}

attacks! {
    /// SYN from many addresses.
    syn_flood,
    /// Segments that belong to no connection.
    segments_of_nobody,
    /// Noise, headers with a wrong length, and options with a wrong length.
    malformed,
    /// RST with any number except the right one.
    blind_reset,
    /// SYN into a connection.
    blind_syn,
    /// Data with any numbers.
    blind_data,
    /// Acknowledgements of what was not sent, and of what was acknowledged long ago.
    acks_of_nothing,
    /// Every second byte of a window.
    every_second_byte,
    /// Single bytes from the end of the window backwards.
    bytes_backwards,
    /// Segments that overlap, with other bytes than before.
    overlapping,
    /// One byte at the end of the window.
    one_byte_far_ahead,
}

fn syn_flood(count: usize) -> Numbers {
    let mut world = world();
    let mut opened = 0;
    let numbers = world.attack(count, |world, number| {
        if number % 100 == 99 {
            // A peer that answers is served nevertheless.
            let before = world.ends[SERVER].accepted.len();
            let peer = Peer::open(stranger(1 << 20 | number), world, Vec::new(), |_| Vec::new());
            opened += world.ends[SERVER].accepted.len() - before;
            return to_server(peer.address, &Segment { flags: RST | ACK, ..peer.next });
        }
        let sequence = world.rng.bits() as u32;
        let syn = Segment {
            ports: [1 + (number % 60_000) as u16, PORT],
            sequence,
            flags: SYN,
            options: vec![2, 4, 5, 0xb4, 3, 3, 7, 4, 2],
            ..Segment::default()
        };
        to_server(stranger(number), &syn)
    });
    assert_lives(&world);
    assert_eq!(opened, count / 100);
    let open = world.ends[SERVER].host.connections();
    assert!((MOST_ACCEPTED - 1..=MOST_ACCEPTED).contains(&open), "{open} connections");
    // The transfer is silent now.
    world.ends[CLIENT].id = None;
    world.run_for(Duration::from_secs(300));
    assert_eq!(world.ends[SERVER].host.connections(), 1, "all but the transfer are forgotten");
    numbers.check_within((512 << 10) + MOST_ACCEPTED * (16 << 10))
}

fn segments_of_nobody(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let (sequence, acknowledgement) = (world.rng.bits() as u32, world.rng.bits() as u32);
        let flags = (number % 64) as u8 & !SYN;
        let ports = [1, PORT + (number / 64 % 2) as u16];
        let payload = vec![0; number % 10];
        let segment = Segment { ports, sequence, acknowledgement, flags, options: Vec::new(), payload };
        to_server(stranger(number), &segment)
    });
    assert_lives(&world);
    assert_eq!(world.ends[SERVER].host.connections(), 1);
    assert!(numbers.answers <= count && numbers.amplification <= 1.0, "{numbers:?}");
    numbers.check()
}

fn malformed(count: usize) -> Numbers {
    let mut world = world();
    let before = world.ends[SERVER].host.malformed();
    let numbers = world.attack(count, |world, number| {
        let heard = overheard(world, SERVER);
        let (to, from, mut bytes) = to_host(SERVER, &heard);
        match number % 4 {
            0 => bytes = (0..world.rng.below(SEGMENT as u64)).map(|_| world.rng.bits() as u8).collect(),
            1 => bytes[12] = (number / 4 % 5) as u8 * 16,
            2 => bytes.truncate(19),
            _ => {
                let bit = world.rng.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        (to, from, bytes)
    });
    assert_lives(&world);
    let malformed = world.ends[SERVER].host.malformed() - before;
    // With a changed bit of a port, it is a segment of no connection.
    assert!(malformed >= count as u64 * 9 / 10, "{malformed} of {count}");
    numbers.check()
}

fn blind_reset(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let to = number % 2;
        let heard = overheard(world, to);
        let next = heard.sequence.wrapping_add(heard.payload.len() as u32);
        // Half of them lie in the client's window, or just behind what was sent to the server.
        let near = 1 + world.rng.below(1_000) as u32;
        let sequence = match number / 2 % 2 {
            0 => next.wrapping_add(near),
            _ => next.wrapping_add((1 << 20) + world.rng.below((1 << 32) - (1 << 21)) as u32),
        };
        let flags = if number % 3 == 0 { RST | ACK } else { RST };
        to_host(to, &Segment { sequence, flags, options: Vec::new(), payload: Vec::new(), ..heard })
    });
    assert_lives(&world);
    assert_few_challenges(&numbers);
    numbers.check()
}

/// RFC 5961 section 7: each end answers once in 500 ms.
#[track_caller]
fn assert_few_challenges(numbers: &Numbers) {
    let half_seconds = 2 + numbers.packets / 10 / 500;
    assert!(numbers.answers <= 2 * half_seconds, "{numbers:?}");
}

fn blind_syn(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let to = number % 2;
        let heard = overheard(world, to);
        let sequence = if number % 4 < 2 { world.rng.bits() as u32 } else { heard.sequence };
        let flags = if number % 3 == 0 { SYN | ACK } else { SYN };
        to_host(to, &Segment { sequence, flags, options: Vec::new(), payload: Vec::new(), ..heard })
    });
    assert_lives(&world);
    assert_few_challenges(&numbers);
    numbers.check()
}

fn blind_data(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let heard = overheard(world, SERVER);
        // The right sequence number with any acknowledgement, and the other way round.
        let next = heard.sequence.wrapping_add(heard.payload.len() as u32);
        let far = (1 << 24) + world.rng.below((1 << 32) - (1 << 25)) as u32;
        let (sequence, acknowledgement) = match number % 2 {
            0 => (next, heard.acknowledgement.wrapping_add(far)),
            _ => (next.wrapping_add(far), heard.acknowledgement),
        };
        let flags = if number % 5 == 0 { ACK | FIN } else { ACK };
        to_host(SERVER, &Segment { sequence, acknowledgement, flags, payload: vec![1; 100], ..heard })
    });
    assert_lives(&world);
    numbers.check()
}

fn acks_of_nothing(count: usize) -> Numbers {
    let mut world = world_with(r#", "profile": "rfc""#);
    let numbers = world.attack(count, |world, number| {
        let heard = overheard(world, CLIENT);
        let far = (1 << 20) + world.rng.below(1 << 30) as u32;
        let acknowledgement = match number % 2 {
            0 => heard.acknowledgement.wrapping_add(far),
            _ => heard.acknowledgement.wrapping_sub(far),
        };
        to_host(CLIENT, &Segment { acknowledgement, payload: Vec::new(), flags: ACK, ..heard })
    });
    assert_lives(&world);
    assert_few_challenges(&numbers);
    numbers.check()
}

/// Runs of 16 bytes in the endpoint and pieces in the host, some 100 bytes each.
const MOST_IN_RUNS: usize = (512 << 10) + (1 << 14) * 256;

fn every_second_byte(count: usize) -> Numbers {
    let mut world = world_with(r#", "receive_autotuning": false, "receive_buffer": "1 MB""#);
    let peer = Peer::open(stranger(1), &mut world, vec![2, 4, 5, 0xb4, 3, 3, 7], |_| Vec::new());
    let numbers = world.attack(count, |_, number| peer.segment(1 + 2 * (number as u32 % 500_000), 1));
    numbers.check_within(MOST_IN_RUNS)
}

fn bytes_backwards(count: usize) -> Numbers {
    let mut world = world_with(r#", "receive_autotuning": false"#);
    let peer = Peer::open(stranger(1), &mut world, Vec::new(), |_| Vec::new());
    let numbers = world.attack(count, |_, number| peer.segment(60_000 - number as u32 % 59_999, 1));
    numbers.check()
}

fn overlapping(count: usize) -> Numbers {
    let mut world = world_with(r#", "receive_autotuning": false"#);
    let peer = Peer::open(stranger(1), &mut world, Vec::new(), |_| Vec::new());
    let numbers = world.attack(count, |world, _| {
        let (offset, length) = (1 + world.rng.below(70_000) as u32, 1 + world.rng.below(1_400) as usize);
        peer.segment(offset, length)
    });
    numbers.check()
}

fn one_byte_far_ahead(count: usize) -> Numbers {
    let mut world = world_with(r#", "receive_autotuning": false, "receive_buffer": "1 MB""#);
    // As many peers as there may be, each with one byte of a window that would hold much more.
    let peers: Vec<Peer> = (0..MOST_ACCEPTED - 1)
        .map(|number| Peer::open(stranger(number), &mut world, vec![2, 4, 5, 0xb4, 3, 3, 7], |_| Vec::new()))
        .collect();
    assert_eq!(world.ends[SERVER].accepted.len(), peers.len());
    let numbers = world.attack(count, |_, number| peers[number % peers.len()].segment(900_000, 1));
    numbers.check()
}

#[test]
fn a_transfer_takes_no_more_memory_the_longer_it_lasts() {
    world().assert_steady();
}
