//! SCTP and strangers: attackers who do not know the tags of an association, or have none.

use anabranch_live::Handle;
use anabranch_live::sctp::{Host, HostEvent, Outbound, Settings};
use anabranch_transport::endpoint::{CloseReason, Reliability};
use anabranch_transport::rng::{Draw as _, Streams};
use anabranch_transport::sctp::Config;
use anabranch_transport::secret::Secret;
use anabranch_transport::time::{Duration, Time};

use crate::bytes::{chunk, chunk_of_length, pair, sctp, words};
use crate::sctp_peer::Peer;
use crate::world::{CLIENT, End, FEW, HEADERS, Numbers, SERVER, World, address, alone, attacks, stranger};

pub(crate) const PORT: u16 = 5_001;
pub(crate) const UDP: u16 = 9_899;
/// Associations that peers may have.
pub(crate) const MOST_ACCEPTED: usize = 50;
/// The receive buffer of each end, in bytes.
pub(crate) const BUFFER: usize = 64_000;

/// Types of chunks (RFC 9260 section 3.2).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const INIT: u8 = 1;
    pub(crate) const INIT_ACK: u8 = 2;
    pub(crate) const SACK: u8 = 3;
    pub(crate) const HEARTBEAT: u8 = 4;
    pub(crate) const HEARTBEAT_ACK: u8 = 5;
    pub(crate) const ABORT: u8 = 6;
    pub(crate) const SHUTDOWN: u8 = 7;
    pub(crate) const SHUTDOWN_ACK: u8 = 8;
    pub(crate) const ERROR: u8 = 9;
    pub(crate) const COOKIE_ECHO: u8 = 10;
    pub(crate) const COOKIE_ACK: u8 = 11;
    pub(crate) const SHUTDOWN_COMPLETE: u8 = 14;
    pub(crate) const AUTH: u8 = 15;
    pub(crate) const I_DATA: u8 = 64;
    pub(crate) const ASCONF_ACK: u8 = 128;
    pub(crate) const RECONFIG: u8 = 130;
    pub(crate) const FORWARD_TSN: u8 = 192;
    pub(crate) const ASCONF: u8 = 193;
    pub(crate) const I_FORWARD_TSN: u8 = 194;
}

/// A host and the state of its association with the other one.
pub(crate) struct Talker {
    pub(crate) host: Host,
    id: Option<Handle>,
    pub(crate) received: u64,
    pub(crate) closed: Option<CloseReason>,
    /// Associations that others have opened and that exist, the latest last.
    pub(crate) accepted: Vec<Handle>,
    pub(crate) endings: usize,
    /// Whether its application reads what others send.
    pub(crate) reads: bool,
}

impl Talker {
    fn new(index: usize) -> Self {
        let settings = Settings {
            addresses: vec![address(index)],
            mtu: 1_500,
            is_in_udp: true,
            most_accepted: MOST_ACCEPTED,
            offers_extensions: true,
            shared_key: Vec::new(),
        };
        let streams = Streams { seed: index as u64, replication: 0 };
        Self {
            host: Host::new(settings, Secret([index as u8; 32]), streams),
            id: None,
            received: 0,
            closed: None,
            accepted: Vec::new(),
            endings: 0,
            reads: true,
        }
    }
}

impl End for Talker {
    type Host = Host;

    fn host(&mut self) -> &mut Host {
        &mut self.host
    }

    fn feed(&mut self, now: Time) {
        let Some(id) = self.id.filter(|_| self.closed.is_none()) else { return };
        loop {
            let bytes = vec![7; 1_000];
            let reliability = Reliability::Reliable;
            let message = Outbound { stream: 0, ppid: 0, unordered: false, reliability, bytes };
            if self.host.send(now, id, message).is_err() {
                return;
            }
        }
    }

    fn on_event(&mut self, now: Time, (id, event): (Handle, HostEvent)) {
        match event {
            HostEvent::Accepted { .. } if self.id.is_none() => self.id = Some(id),
            HostEvent::Accepted { .. } => self.accepted.push(id),
            HostEvent::Received(message) => {
                let bytes = message.bytes.len() as u64;
                if self.id == Some(id) {
                    self.received += bytes;
                }
                if self.reads || self.id == Some(id) {
                    self.host.has_read(now, id, 1, bytes);
                }
            }
            HostEvent::Closed { reason, .. } if self.id == Some(id) => self.closed = Some(reason),
            HostEvent::Closed { .. } => {
                self.endings += 1;
                self.accepted.retain(|other| *other != id);
            }
            _ => {}
        }
    }

    fn received(&self) -> u64 {
        self.received
    }
}

pub(crate) fn config(more: &str) -> Config {
    let text = format!(
        r#"{{"receive_buffer": "64 kB", "send_buffer": "64 kB", "streams": 10, "valid_cookie_life": "2 s"{more}}}"#
    );
    serde_json::from_str(&text).expect("settings")
}

/// A client that sends to a server.
pub(crate) fn world() -> World<Talker> {
    world_with("")
}

pub(crate) fn world_with(more: &str) -> World<Talker> {
    let mut world = World::new([Talker::new(CLIENT), Talker::new(SERVER)], Some(UDP));
    world.ends[SERVER].host.listen(PORT, &config(more)).expect("the port is free");
    let peer = [(address(SERVER), Some(UDP))];
    let id = world.ends[CLIENT].host.connect(Time::ZERO, &config(more), 0, &peer, PORT);
    world.ends[CLIENT].id = Some(id.expect("the settings are possible"));
    world.run_for(Duration::from_millis(100));
    assert!(world.ends[SERVER].received > 0, "the transfer has begun");
    world
}

/// Checks that the transfer goes on, and that there is no other association.
#[track_caller]
fn assert_alone(world: &World<Talker>) {
    assert_eq!([CLIENT, SERVER].map(|index| world.ends[index].closed), [None; 2]);
    assert_eq!([CLIENT, SERVER].map(|index| world.ends[index].host.associations()), [1, 1]);
}

/// INIT from a port, whose sender has this tag.
pub(crate) fn init(ports: [u16; 2], tag: u32) -> Vec<u8> {
    // a_rwnd, streams both ways, initial TSN.
    sctp(ports, 0, &[chunk(kind::INIT, 0, &words([tag, 100_000, pair(10, 10), 1_000]))])
}

/// The tag that packets to a host carry in the transfer, and their ports.
fn overheard(world: &World<Talker>, to: usize) -> ([u16; 2], u32) {
    let heard = &world.heard[to];
    let ports = [u16::from_be_bytes([heard[0], heard[1]]), u16::from_be_bytes([heard[2], heard[3]])];
    (ports, u32::from_be_bytes([heard[4], heard[5], heard[6], heard[7]]))
}

/// A chunk of each type but INIT, if possible one that would have an effect.
fn any_chunk(number: usize) -> Vec<u8> {
    let data = [words([1_000, 0, 0]), vec![1; 8]].concat();
    match number % 20 {
        0 => chunk(kind::DATA, 3, &data),
        1 => chunk(kind::SACK, 0, &words([1_000, 100_000, 0])),
        2 => chunk(kind::HEARTBEAT, 0, &words([pair(1, 12), 1, 2])),
        3 => chunk(kind::HEARTBEAT_ACK, 0, &words([pair(1, 12), 1, 2])),
        4 => chunk(kind::ABORT, 0, &[]),
        5 => chunk(kind::ABORT, 1, &[]),
        6 => chunk(kind::SHUTDOWN, 0, &words([1_000])),
        7 => chunk(kind::SHUTDOWN_ACK, 0, &[]),
        8 => chunk(kind::SHUTDOWN_COMPLETE, 0, &[]),
        9 => chunk(kind::SHUTDOWN_COMPLETE, 1, &[]),
        10 => chunk(kind::ERROR, 0, &words([pair(3, 8), 1])),
        11 => chunk(kind::COOKIE_ACK, 0, &[]),
        12 => chunk(kind::I_DATA, 3, &[words([1_000, 0, 0, 0]), vec![1; 8]].concat()),
        13 => chunk(kind::FORWARD_TSN, 0, &words([5_000])),
        14 => chunk(kind::I_FORWARD_TSN, 0, &words([5_000])),
        15 => chunk(kind::RECONFIG, 0, &words([pair(13, 16), 1, 1, 1])),
        16 => chunk(
            kind::INIT_ACK,
            0,
            &[words([9, 100_000, pair(10, 10), 1_000]), words([pair(7, 12), 1, 2])].concat(),
        ),
        17 => chunk(0xfe, 0, &[1; 40]),
        18 => chunk(0x3f, 0, &[1; 40]),
        _ => chunk(kind::COOKIE_ECHO, 0, &[number as u8; 76]),
    }
}

attacks! {
    /// INIT from many addresses: each is answered by an INIT ACK, and nothing is remembered.
    init_flood,
    /// INIT between the addresses and ports of an association that exists (RFC 9260 section 5.2.2).
    init_into_an_association,
    /// INIT that breaks the protocol: it is answered by an ABORT that says why, and nothing is remembered
    /// (RFC 9260 section 3.3.2).
    init_that_is_illegal,
    /// INIT to a port without a listener: an ABORT, no longer than the question.
    init_to_nobody,
    /// Chunks that belong to no association.
    out_of_the_blue,
    /// Bytes that are not packets: noise, and lengths that are wrong.
    malformed,
    /// Packets with the addresses and ports of an association and a wrong tag.
    wrong_tag,
    /// Cookies that this host did not make, or that were changed.
    cookie_forged,
    /// Addresses that must not be answered.
    not_of_one_host,
}

fn init_flood(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let tag = (world.rng.bits() as u32).max(1);
        (SERVER, stranger(number), init([1 + (number % 60_000) as u16, PORT], tag))
    });
    assert_alone(&world);
    assert_eq!(numbers.answers, count, "each has an INIT ACK");
    // RFC 9260 section 5.1: the cookie holds what would be remembered.
    assert!(numbers.amplification < 3.0, "{numbers:?}");
    numbers.check()
}

fn init_into_an_association(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let (ports, _) = overheard(world, SERVER);
        (SERVER, address(CLIENT), init(ports, number as u32 + 1))
    });
    assert_alone(&world);
    assert!(numbers.answers >= count, "{numbers:?}");
    numbers.check()
}

fn init_that_is_illegal(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |_, number| {
        let (tag, streams) = (number as u32 + 1, pair(10, 10));
        let whole = words([tag, 100_000, streams, 1_000]);
        let value = match number % 6 {
            0 => words([tag, 100_000, 10, 1_000]),
            1 => words([tag, 100_000, 10 << 16, 1_000]),
            2 => words([0, 100_000, streams, 1_000]),
            // The name of a host, a parameter that is cut off, and one that should have no value.
            3 => [whole, words([pair(11, 204)]), vec![b'a'; 200]].concat(),
            4 => [whole, words([pair(5, 60)])].concat(),
            _ => [whole, words([pair(0xc000, 8), 0])].concat(),
        };
        (SERVER, stranger(number), sctp([1, PORT], 0, &[chunk(kind::INIT, 0, &value)]))
    });
    assert_alone(&world);
    assert!(numbers.answers <= count && numbers.amplification < 1.0, "{numbers:?}");
    numbers.check()
}

fn init_to_nobody(count: usize) -> Numbers {
    let mut world = world();
    let numbers =
        world.attack(count, |_, number| (SERVER, stranger(number), init([1, PORT + 1], number as u32 + 1)));
    assert_alone(&world);
    assert_eq!(numbers.answers, count);
    assert!(numbers.amplification < 1.0, "{numbers:?}");
    numbers.check()
}

fn out_of_the_blue(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let tag = world.rng.bits() as u32;
        (SERVER, stranger(number), sctp([2, PORT + (number / 20 % 2) as u16], tag, &[any_chunk(number)]))
    });
    assert_alone(&world);
    assert!(numbers.answers <= count && numbers.amplification <= 1.0, "{numbers:?}");
    numbers.check()
}

fn malformed(count: usize) -> Numbers {
    let mut world = world();
    let (ports, tag) = overheard(&world, SERVER);
    let before = world.ends[SERVER].host.malformed();
    let wrong = tag ^ 1;
    let numbers = world.attack(count, |world, number| {
        let noise: Vec<u8> = (0..world.rng.below(200)).map(|_| world.rng.bits() as u8).collect();
        let kind = (number / 8) as u8;
        let bytes = match number % 8 {
            0 => noise,
            1 => sctp(ports, tag, &[]),
            2 => sctp(ports, wrong, &[chunk_of_length(kind, 0, 0, &noise)]),
            3 => sctp(ports, wrong, &[chunk_of_length(kind, 0, 3, &noise)]),
            4 => sctp(ports, wrong, &[chunk_of_length(kind, 0, u16::MAX, &noise)]),
            5 => sctp([0, PORT], tag, &[any_chunk(number / 8)]),
            6 => sctp(ports, tag, &[init(ports, 1)[12..].to_vec(), any_chunk(number / 8)]),
            _ => {
                let mut bytes = sctp(ports, tag, &[any_chunk(number / 8)]);
                let bit = world.rng.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            }
        };
        (SERVER, address(CLIENT), bytes)
    });
    assert_alone(&world);
    assert_eq!(numbers.answers, 0, "none is worth an answer");
    // The tag of a known chunk that is cut off is verified.
    let counted = world.ends[SERVER].host.malformed() - before;
    assert!(counted >= count as u64 * 5 / 8, "{counted} were malformed");
    numbers.check()
}

fn wrong_tag(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let to = number / 20 % 2;
        let (ports, right) = overheard(world, to);
        let (_, others) = overheard(world, 1 - to);
        let tag = match number / 40 % 3 {
            0 => world.rng.bits() as u32,
            1 => right ^ 1 << (number % 32),
            // The tag of the other direction is also wrong, unless the T bit is set.
            _ => others,
        };
        let mut chunk = any_chunk(number);
        if tag == others {
            chunk[1] &= !1;
        }
        (to, address(1 - to), sctp(ports, tag, &[chunk]))
    });
    assert_alone(&world);
    // The transfer's own packets may leave at the same time.
    assert!(numbers.answers <= 10 + count / 1_000, "nothing is answered: {numbers:?}");
    numbers.check()
}

fn cookie_forged(count: usize) -> Numbers {
    let mut world = world();
    let mut peer = Peer::new(stranger(1));
    let cookie = peer.ask(&mut world);
    let numbers = world.attack(count, |world, number| {
        let mut forged = cookie.clone();
        match number % 3 {
            0 => {
                let bit = world.rng.below(forged.len() as u64 * 8) as usize;
                forged[bit / 8] ^= 1 << (bit % 8);
            }
            1 => forged.truncate(world.rng.below(forged.len() as u64) as usize),
            _ => forged.extend([0; 8]),
        }
        let echo = chunk(kind::COOKIE_ECHO, 0, &forged);
        (SERVER, stranger(1), sctp([peer.port, PORT], peer.other_tag, &[echo]))
    });
    assert_alone(&world);
    assert_eq!(numbers.answers, 0, "it is silently discarded");
    numbers.check()
}

fn not_of_one_host(count: usize) -> Numbers {
    let mut world = world();
    let from = [[0; 4], [255; 4], [224, 0, 0, 1], [239, 1, 2, 3]].map(std::net::IpAddr::from);
    let numbers = world.attack(count, |_, number| {
        let packet = match number % 2 {
            0 => init([1, PORT + (number / 8 % 2) as u16], 1),
            _ => sctp([1, PORT], 9, &[any_chunk(number / 8)]),
        };
        (SERVER, from[number / 2 % 4], packet)
    });
    assert_alone(&world);
    assert_eq!(numbers.answers, 0, "RFC 9260 section 8.4, rule 1");
    numbers.check()
}

/// Whatever an INIT contains, the answer has less than three times its bytes.
#[test]
fn the_answer_to_init_is_no_lever() {
    let _alone = alone();
    let mut world = world();
    let addresses = (0..50_u8).flat_map(|last| [words([pair(5, 8)]), vec![10, 9, 9, last]].concat());
    // Supported Extensions, Random, Chunk List and Requested HMAC Algorithm (RFC 4895, RFC 5061).
    let signs = [words([pair(0x8008, 7)]), vec![kind::ASCONF, kind::ASCONF_ACK, kind::AUTH, 0]].concat();
    let algorithm = words([pair(0x8002, 8), 1, pair(0x8004, 6), 1 << 16]);
    let list = [words([pair(0x8003, 6)]), vec![kind::ASCONF, kind::ASCONF_ACK, 0, 0]].concat();
    let asked = [
        vec![],
        // Unknown parameters, which are reported (RFC 9260 section 3.2.1).
        words([pair(0xffff, 4)]),
        words([pair(0xffff, 4)]).repeat(100),
        addresses.collect(),
        words([pair(0xc000, 4)]),
        [signs, algorithm, list].concat(),
    ];
    for (number, more) in asked.into_iter().enumerate() {
        let value = [words([9, 100_000, pair(10, 10), 1_000]), more].concat();
        let packet = sctp([1, PORT], 0, &[chunk(kind::INIT, 0, &value)]);
        world.answer();
        world.inject(SERVER, stranger(number), &packet);
        let answer = world.answer().expect("it is answered");
        assert_eq!(answer[12], kind::INIT_ACK);
        let [asked, answered] = [packet.len() + HEADERS, answer.len() + HEADERS];
        assert!(answered < 3 * asked, "{answered} bytes in answer to {asked}");
    }
}

/// RFC 9260 section 8.5.1 B: before the peer's tag is known, there is no tag that a T bit could reflect.
#[test]
fn nobody_ends_what_is_being_opened() {
    let _alone = alone();
    let mut world = World::new([Talker::new(CLIENT), Talker::new(SERVER)], Some(UDP));
    let peer = [(address(SERVER), Some(UDP))];
    let id = world.ends[CLIENT].host.connect(Time::ZERO, &config(""), 40_000, &peer, PORT);
    world.ends[CLIENT].id = Some(id.expect("the settings are possible"));
    world.run_for(Duration::from_millis(1));
    // Its INIT is lost.
    world.lose();
    for number in 0..FEW {
        let tag = if number < 100 { 0 } else { world.rng.bits() as u32 };
        world.inject(CLIENT, address(SERVER), &sctp([PORT, 40_000], tag, &[any_chunk(number)]));
        world.run_for(Duration::from_micros(100));
    }
    assert_eq!(world.ends[CLIENT].closed, None);
    world.ends[SERVER].host.listen(PORT, &config("")).expect("the port is free");
    world.run_for(Duration::from_secs(5));
    assert!(world.ends[SERVER].received > 0, "it is opened in the end");
}

/// An INIT ACK and a cookie that the client has not asked for (RFC 9260 section 5.2.3), with the right tag:
/// an address that it lists is not used.
#[test]
fn an_answer_that_nobody_asked_for_changes_nothing() {
    let _alone = alone();
    let mut world = world();
    let (ports, tag) = overheard(&world, CLIENT);
    let fields = words([9, 100_000, pair(10, 10), 1_000]);
    let parameters = [words([pair(5, 8)]), vec![10, 9, 9, 9], words([pair(7, 12), 1, 2])].concat();
    let ack = chunk(kind::INIT_ACK, 0, &[fields, parameters].concat());
    for _ in 0..100 {
        world.inject(CLIENT, address(SERVER), &sctp(ports, tag, std::slice::from_ref(&ack)));
    }
    assert_alone(&world);
    let id = world.ends[CLIENT].id.expect("it is open");
    assert_eq!(world.ends[CLIENT].host.addresses(id).expect("it lives").0.len(), 1, "no address is added");
    let before = world.ends[SERVER].received;
    world.run_for(Duration::from_secs(1));
    assert!(world.ends[SERVER].received > before);
}

#[test]
fn a_transfer_takes_no_more_memory_the_longer_it_lasts() {
    world().assert_steady();
}
