//! SCTP and peers that have an association of their own and do not follow the protocol.

use std::net::IpAddr;

use anabranch_live::sctp::Outbound;
use anabranch_transport::endpoint::Reliability;
use anabranch_transport::rng::Draw as _;
use anabranch_transport::time::Duration;

use crate::bytes::{chunk, chunk_of_length, pair, sctp, words};
use crate::sctp::{BUFFER, MOST_ACCEPTED, PORT, Talker, UDP, config, init, kind, world, world_with};
use crate::world::{CLIENT, FEW, HEADERS, Numbers, SERVER, World, alone, attacks, held, stranger};

/// The initial TSN of every such peer.
const TSN: u32 = 1_000;

/// A peer under the attacker's control, at an address of its own.
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    tag: u32,
    /// The tag that packets to the server carry.
    pub(crate) other_tag: u32,
    /// The first TSN of the server.
    other_tsn: u32,
}

impl Peer {
    pub(crate) fn new(address: IpAddr) -> Self {
        Self { address, port: 7, tag: 77, other_tag: 0, other_tsn: 0 }
    }

    /// Sends INIT, and returns the cookie of the answer.
    pub(crate) fn ask(&mut self, world: &mut World<Talker>) -> Vec<u8> {
        self.ask_with(world, &init([self.port, PORT], self.tag))
    }

    fn ask_with(&mut self, world: &mut World<Talker>, init: &[u8]) -> Vec<u8> {
        world.answer();
        world.inject(SERVER, self.address, init);
        let ack = world.answer().expect("it is answered");
        assert_eq!(ack[12], kind::INIT_ACK);
        let word = |at: usize| u32::from_be_bytes(ack[at..at + 4].try_into().expect("four bytes"));
        (self.other_tag, self.other_tsn) = (word(16), word(28));
        let mut at = 32;
        loop {
            let length = usize::from(u16::from_be_bytes([ack[at + 2], ack[at + 3]]));
            if ack[at..at + 2] == [0, 7] {
                return ack[at + 4..at + length].to_vec();
            }
            at += length.next_multiple_of(4);
        }
    }

    pub(crate) fn packet(&self, chunks: &[Vec<u8>]) -> Vec<u8> {
        sctp([self.port, PORT], self.other_tag, chunks)
    }

    fn echo(&self, cookie: &[u8]) -> Vec<u8> {
        self.packet(&[chunk(kind::COOKIE_ECHO, 0, cookie)])
    }

    /// Opens an association.
    pub(crate) fn open(address: IpAddr, world: &mut World<Talker>) -> Self {
        let mut peer = Self::new(address);
        let cookie = peer.ask(world);
        peer.finish(world, &cookie);
        peer
    }

    fn finish(&self, world: &mut World<Talker>, cookie: &[u8]) {
        world.strays.clear();
        world.inject(SERVER, self.address, &self.echo(cookie));
        // Addresses that were listed also get heartbeats.
        assert!(world.strays.iter().any(|(_, bytes)| bytes[12] == kind::COOKIE_ACK), "it is answered");
        world.strays.clear();
    }

    fn inject(&self, world: &mut World<Talker>, chunks: &[Vec<u8>]) {
        world.inject(SERVER, self.address, &self.packet(chunks));
    }
}

fn data(tsn: u32, flags: u8, ssn: u16, length: usize) -> Vec<u8> {
    chunk(kind::DATA, flags, &[words([TSN.wrapping_add(tsn), u32::from(ssn), 0]), vec![1; length]].concat())
}

/// DATA's flags.
const END: u8 = 1;
const BEGIN: u8 = 2;
const WHOLE: u8 = BEGIN | END;
const UNORDERED: u8 = 4;

attacks! {
    /// The same cookie again and again: it opens one association.
    cookie_replayed,
    /// A cookie that is too old.
    cookie_expired,
    /// A cookie that comes from another address, or between other ports.
    cookie_from_elsewhere,
    /// SACKs that acknowledge what was not sent, gaps in any order, and SACKs that contradict the last one.
    sack_lies,
    /// DATA whose TSNs lie far ahead, every second one.
    tsn_far_ahead,
    /// Fragments of one byte of a message that never ends.
    fragments_without_end,
    /// Fragments of one byte behind a gap, from the last one backwards.
    fragments_backwards,
    /// Fragments of one byte that are far from each other.
    fragments_far_apart,
    /// Messages of one byte, none of which may be delivered because of their order.
    messages_out_of_order,
    /// Messages of one byte to an application that does not read.
    nobody_reads,
    /// The same with interleaving, and numbers at the ends of their ranges.
    interleaved,
    /// FORWARD TSN half of all numbers ahead.
    forward_tsn,
    /// ERROR of all kinds.
    errors,
    /// Chunks that are cut off or have no data: its own association is aborted (RFC 9260 sections 3.3.10.13
    /// and 6.2).
    illegal_chunks,
    /// Chunks that are to be answered, as many as a packet holds.
    many_answers,
    /// HEARTBEAT ACK with made-up information.
    heartbeat_ack,
    /// ASCONF without a signature, or with a made-up code.
    asconf,
    /// As many associations as possible.
    associations,
}

fn cookie_replayed(count: usize) -> Numbers {
    let mut world = world();
    let mut peer = Peer::new(stranger(1));
    let cookie = peer.ask(&mut world);
    peer.finish(&mut world, &cookie);
    let numbers = world.attack(count, |_, _| (SERVER, peer.address, peer.echo(&cookie)));
    assert_eq!(world.ends[SERVER].host.associations(), 2, "the transfer and this one");
    assert_eq!(world.ends[SERVER].accepted.len(), 1);
    assert!(numbers.answers >= count && numbers.amplification < 1.0, "{numbers:?}");
    numbers.check()
}

fn cookie_expired(count: usize) -> Numbers {
    let mut world = world();
    let mut peer = Peer::new(stranger(1));
    // It asks for a lifetime longer by 49 days (RFC 9260 section 5.2.6).
    let asks = [words([peer.tag, 100_000, pair(10, 10), TSN]), words([pair(9, 8), u32::MAX])].concat();
    let init = sctp([peer.port, PORT], 0, &[chunk(kind::INIT, 0, &asks)]);
    let cookie = peer.ask_with(&mut world, &init);
    world.run_for(Duration::from_millis(4_100));
    let numbers = world.attack(count, |_, _| (SERVER, peer.address, peer.echo(&cookie)));
    assert_eq!(world.ends[SERVER].host.associations(), 1);
    assert!(numbers.amplification < 1.0, "{numbers:?}");
    numbers.check()
}

fn cookie_from_elsewhere(count: usize) -> Numbers {
    let mut world = world();
    let mut peer = Peer::new(stranger(1));
    let cookie = peer.ask(&mut world);
    let numbers = world.attack(count, |_, number| {
        if number % 2 == 0 {
            (SERVER, stranger(2 + number), peer.echo(&cookie))
        } else {
            let echo = chunk(kind::COOKIE_ECHO, 0, &cookie);
            (SERVER, peer.address, sctp([peer.port + 1, PORT], peer.other_tag, &[echo]))
        }
    });
    assert_eq!(world.ends[SERVER].host.associations(), 1);
    assert_eq!(numbers.answers, 0, "no association with who did not ask for it");
    numbers.check()
}

/// An association may not begin at an address that the INIT only lists, since data would go to whoever has
/// that address (RFC 9260 section 5.4).
#[test]
fn an_association_begins_at_the_address_that_asked() {
    let _alone = alone();
    let mut world = world();
    let victim = [10, 9, 9, 9];
    let mut peer = Peer::new(stranger(1));
    let listed =
        [words([peer.tag, 100_000, pair(10, 10), TSN]), words([pair(5, 8)]), victim.to_vec()].concat();
    let cookie = peer.ask_with(&mut world, &sctp([peer.port, PORT], 0, &[chunk(kind::INIT, 0, &listed)]));
    world.inject(SERVER, IpAddr::from(victim), &peer.echo(&cookie));
    let id = *world.ends[SERVER].accepted.last().expect("the cookie is right");
    let (routes, _) = world.ends[SERVER].host.addresses(id).expect("it lives");
    assert_eq!(routes[0].remote, peer.address);
    // The server sends data to the address of the INIT; the other address gets only heartbeats.
    for _ in 0..10 {
        let reliability = Reliability::Reliable;
        let message = Outbound { stream: 0, ppid: 0, unordered: false, reliability, bytes: vec![1; 1_000] };
        world.ends[SERVER].host.send(world.now, id, message).expect("there is room");
    }
    world.run_for(Duration::from_millis(500));
    let to_victim = world.strays.iter().filter(|(route, _)| route.remote == IpAddr::from(victim));
    let bytes: usize = to_victim.map(|(_, bytes)| bytes.len()).sum();
    assert!(bytes < 200, "{bytes} bytes went to an address that has not asked for them");
}

fn sack(cumulative: u32, blocks: &[(u16, u16)]) -> Vec<u8> {
    let counts = (blocks.len() as u32) << 16;
    let blocks: Vec<u8> =
        blocks.iter().flat_map(|(start, end)| words([u32::from(*start) << 16 | u32::from(*end)])).collect();
    chunk(kind::SACK, 0, &[words([cumulative, 100_000, counts]), blocks].concat())
}

fn sack_lies(count: usize) -> Numbers {
    let mut world = world();
    let peer = Peer::open(stranger(1), &mut world);
    let id = *world.ends[SERVER].accepted.last().expect("it is open");
    for _ in 0..3_000 {
        let reliability = Reliability::Reliable;
        let message = Outbound { stream: 0, ppid: 0, unordered: false, reliability, bytes: vec![1; 4] };
        if world.ends[SERVER].host.send(world.now, id, message).is_err() {
            break;
        }
    }
    let before = peer.other_tsn.wrapping_sub(1);
    let numbers = world.attack(count, |world, number| {
        let far = world.rng.bits() as u32;
        let sack = match number % 8 {
            0 => sack(before.wrapping_add(far % (1 << 30) + 10_000), &[]),
            1 => sack(before, &[(2, 300), (2, 300), (100, 400)]),
            2 => sack(before, &[]),
            3 => sack(before, &[(300, 2), (0, 0), (u16::MAX, u16::MAX), (1, u16::MAX)]),
            4 => sack(before, &[(200, 210), (100, 110), (50, 60), (2, 2)]),
            5 => sack(before, &(0..300).map(|run| (2 + 2 * run, 2 + 2 * run)).collect::<Vec<_>>()),
            6 => sack(before, &(0..300).map(|run| (3 + 2 * run, 3 + 2 * run)).collect::<Vec<_>>()),
            _ => sack(before.wrapping_sub(far % (1 << 30) + 1), &[(1, 5)]),
        };
        (SERVER, peer.address, peer.packet(&[sack]))
    });
    let mut samples = Vec::new();
    world.ends[SERVER].host.sample_paths(id, &mut samples);
    if let Some(path) = samples.first() {
        assert!(path.cwnd < 64_000, "a window of {} bytes", path.cwnd);
    }
    // The blocks of every SACK are kept until the next one, and the server sends again.
    numbers.check_within(1 << 20)
}

fn tsn_far_ahead(count: usize) -> Numbers {
    let mut world = world();
    let peer = Peer::open(stranger(1), &mut world);
    let numbers = world.attack(count, |_, number| {
        let tsn = if number % 4 == 3 { (1 << 31) - 1 - number as u32 } else { 1 + 2 * number as u32 };
        (SERVER, peer.address, peer.packet(&[data(tsn, WHOLE | UNORDERED, 0, 1)]))
    });
    // A SACK is sent for each, since there is a gap.
    assert!(numbers.answers <= 2 * count, "{numbers:?}");
    // Runs of 16 bytes, no farther ahead than a gap block can say, and the copy that a growing vector makes.
    numbers.check_within((512 << 10) + 2 * 16 * (1 << 15))
}

/// What waiting pieces may cost: many times the receive buffer, however many there are.
const MOST_WAITING: usize = (512 << 10) + (256 << 10) + 16 * BUFFER;

fn fragments_without_end(count: usize) -> Numbers {
    let mut world = world();
    let peer = Peer::open(stranger(1), &mut world);
    let numbers = world.attack(count, |_, number| {
        let flags = if number == 0 { BEGIN } else { 0 };
        (SERVER, peer.address, peer.packet(&[data(number as u32, flags, 0, 1)]))
    });
    numbers.check_within(MOST_WAITING)
}

fn fragments_backwards(count: usize) -> Numbers {
    let mut world = world();
    let peer = Peer::open(stranger(1), &mut world);
    let numbers = world.attack(count, |_, number| {
        let tsn = 60_000_u32.wrapping_sub(number as u32 % 59_999);
        (SERVER, peer.address, peer.packet(&[data(tsn, 0, 0, 1)]))
    });
    numbers.check_within(MOST_WAITING)
}

fn fragments_far_apart(count: usize) -> Numbers {
    let mut world = world();
    let peer = Peer::open(stranger(1), &mut world);
    let numbers = world.attack(count, |_, number| {
        let tsn = 1 + (17 * number as u32) % 65_000;
        (SERVER, peer.address, peer.packet(&[data(tsn, 0, 0, 1)]))
    });
    numbers.check_within(MOST_WAITING)
}

fn messages_out_of_order(count: usize) -> Numbers {
    let mut world = world();
    let peer = Peer::open(stranger(1), &mut world);
    let numbers = world.attack(count, |_, number| {
        // The message with sequence number 0 never comes.
        let ssn = 1 + (number % 30_000) as u16;
        (SERVER, peer.address, peer.packet(&[data(number as u32, WHOLE, ssn, 1)]))
    });
    numbers.check_within(MOST_WAITING)
}

fn nobody_reads(count: usize) -> Numbers {
    let mut world = world();
    world.ends[SERVER].reads = false;
    let peer = Peer::open(stranger(1), &mut world);
    let id = *world.ends[SERVER].accepted.last().expect("it is open");
    let numbers = world.attack(count, |_, number| {
        (SERVER, peer.address, peer.packet(&[data(number as u32, WHOLE | UNORDERED, 0, 1)]))
    });
    let end = world.ends[SERVER].host.endpoint(id).expect("it lives");
    let delivered = end.stats().messages_delivered;
    assert!(delivered <= 1 + BUFFER as u64 / 256, "{delivered} messages wait for the application");
    numbers.check()
}

fn interleaved(count: usize) -> Numbers {
    let mut world = world_with(r#", "interleaving": true, "partial_reliability": true"#);
    let mut peer = Peer::new(stranger(1));
    // Supported Extensions: I-DATA and I-FORWARD-TSN; Forward-TSN-Supported.
    let asks = [
        words([peer.tag, 100_000, pair(10, 10), TSN]),
        words([pair(0x8008, 6)]),
        vec![kind::I_DATA, kind::I_FORWARD_TSN, 0, 0],
        words([pair(0xc000, 4)]),
    ]
    .concat();
    let cookie = peer.ask_with(&mut world, &sctp([peer.port, PORT], 0, &[chunk(kind::INIT, 0, &asks)]));
    peer.finish(&mut world, &cookie);
    let numbers = world.attack(count, |world, number| {
        let ends = [0, 1, 2, u32::MAX, u32::MAX - 1, 1 << 31];
        let mut pick = || ends[world.rng.below(6) as usize];
        let (mid, fsn) = (pick(), pick());
        let flags = world.rng.below(8) as u8;
        let stream = world.rng.below(11) as u32;
        let tsn = TSN.wrapping_add(number as u32);
        let chunk = if number % 10 == 9 {
            chunk(kind::I_FORWARD_TSN, 0, &words([tsn, stream << 16 | u32::from(flags & 1), mid]))
        } else {
            chunk(kind::I_DATA, flags, &[words([tsn, stream << 16, mid, fsn]), vec![1]].concat())
        };
        (SERVER, peer.address, peer.packet(&[chunk]))
    });
    numbers.check_within(MOST_WAITING)
}

fn forward_tsn(count: usize) -> Numbers {
    let mut world = world_with(r#", "partial_reliability": true"#);
    let peer = Peer::open(stranger(1), &mut world);
    let mut cumulative = TSN;
    let numbers = world.attack(count, |world, number| {
        let step = if number % 2 == 0 { (1 << 31) - 2 } else { world.rng.bits() as u32 >> 1 };
        cumulative = cumulative.wrapping_add(step);
        let ssn = [0, 1, u16::MAX, 1 << 15][number % 4];
        let skipped = words([u32::from(number as u16 % 12) << 16 | u32::from(ssn)]);
        let chunk = chunk(kind::FORWARD_TSN, 0, &[words([cumulative]), skipped].concat());
        (SERVER, peer.address, peer.packet(&[chunk]))
    });
    numbers.check()
}

fn errors(count: usize) -> Numbers {
    let mut world = world();
    let peer = Peer::open(stranger(1), &mut world);
    let numbers = world.attack(count, |world, number| {
        let code = number as u16 % 14;
        let cause = words([pair(code, 8), world.rng.bits() as u32]);
        (SERVER, peer.address, peer.packet(&[chunk(kind::ERROR, 0, &cause.repeat(1 + number % 100))]))
    });
    assert!(numbers.answers <= 10 + count / 100, "no error is answered: {numbers:?}");
    assert_eq!(world.ends[SERVER].endings, 0);
    numbers.check()
}

fn illegal_chunks(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let peer = Peer::open(stranger(number), world);
        let chunk = match number % 4 {
            0 => chunk_of_length(kind::DATA, WHOLE, 0, &[]),
            1 => chunk_of_length(kind::SACK, 0, u16::MAX, &[0; 60]),
            2 => data(0, WHOLE, 0, 0),
            _ => chunk_of_length(kind::HEARTBEAT, 0, 3, &[0; 4]),
        };
        (SERVER, peer.address, peer.packet(&[chunk]))
    });
    assert_eq!((world.ends[SERVER].host.associations(), world.ends[SERVER].endings), (1, count));
    assert!(numbers.answers == count && numbers.amplification < 1.5, "{numbers:?}");
    numbers.check()
}

fn many_answers(count: usize) -> Numbers {
    let mut world = world();
    let mut peer = Peer::new(stranger(1));
    let cookie = peer.ask(&mut world);
    peer.finish(&mut world, &cookie);
    let numbers = world.attack(count, |_, number| {
        let chunk = match number % 6 {
            0 => chunk(kind::HEARTBEAT, 0, &[]),
            1 => chunk(0xff, 0, &[]),
            2 => chunk(kind::COOKIE_ECHO, 0, &cookie),
            // A stream that does not exist, and what was not agreed on.
            3 => {
                chunk(kind::DATA, WHOLE, &[words([TSN + number as u32, 9_999 << 16, 0]), vec![1; 4]].concat())
            }
            4 => chunk(kind::FORWARD_TSN, 0, &words([TSN])),
            // Its answer does not fit into a packet.
            _ => chunk(kind::HEARTBEAT, 0, &[0; 2_000]),
        };
        let room = (1_440 / chunk.len()).max(1);
        (SERVER, peer.address, peer.packet(&vec![chunk; room]))
    });
    assert!(numbers.amplification <= 1.5, "{numbers:?}");
    numbers.check()
}

/// SHUTDOWN ACK is answered while an association is being opened (RFC 9260 section 8.5.1 E), but not each of
/// many.
#[test]
fn many_shutdown_acks() {
    let _alone = alone();
    let mut world = world();
    let (now, peer) = (world.now, [(stranger(1), Some(UDP))]);
    world.ends[CLIENT].host.connect(now, &config(""), 41_000, &peer, PORT).expect("it can be opened");
    world.run_for(Duration::from_millis(1));
    let init = world.answer().expect("it asks");
    let tag = u32::from_be_bytes(init[16..20].try_into().expect("four bytes"));
    let packet = sctp([PORT, 41_000], tag, &vec![chunk(kind::SHUTDOWN_ACK, 0, &[]); 300]);
    world.inject(CLIENT, stranger(1), &packet);
    let bytes: usize = world.strays.iter().map(|(_, bytes)| bytes.len() + HEADERS).sum();
    let most = (packet.len() + HEADERS) * 3 / 2;
    assert!((1..=most).contains(&bytes), "{bytes} bytes in answer to {}", packet.len());
}

fn heartbeat_ack(count: usize) -> Numbers {
    let mut world = world();
    let mut peer = Peer::new(stranger(1));
    // It lists an unrelated address, which is not confirmed before a nonce came back from there.
    let listed =
        [words([peer.tag, 100_000, pair(10, 10), TSN]), words([pair(5, 8)]), vec![10, 9, 9, 9]].concat();
    let cookie = peer.ask_with(&mut world, &sctp([peer.port, PORT], 0, &[chunk(kind::INIT, 0, &listed)]));
    peer.finish(&mut world, &cookie);
    let id = *world.ends[SERVER].accepted.last().expect("it is open");
    let numbers = world.attack(count, |world, _| {
        // The information of our heartbeats: when it was sent, a nonce, the path and a mark.
        let (sent_at, nonce) = (world.rng.bits(), world.rng.bits() as u32);
        let path = world.rng.below(4) as u8;
        let info = [sent_at.to_be_bytes().to_vec(), words([nonce]), vec![path, 0, 0xab, 0x4a]].concat();
        let parameter = [words([pair(1, 20)]), info].concat();
        (SERVER, peer.address, peer.packet(&[chunk(kind::HEARTBEAT_ACK, 0, &parameter)]))
    });
    let end = world.ends[SERVER].host.endpoint(id);
    assert!(end.is_none_or(|end| end.stats().heartbeats_acked == 0), "no nonce was guessed");
    numbers.check()
}

/// The time in our own heartbeat comes back changed, and lies in the future.
#[test]
fn a_heartbeat_from_the_future() {
    let _alone = alone();
    let mut world = world();
    let listed_address = IpAddr::from([10, 9, 9, 9]);
    let mut peer = Peer::new(stranger(1));
    let listed =
        [words([peer.tag, 100_000, pair(10, 10), TSN]), words([pair(5, 8)]), vec![10, 9, 9, 9]].concat();
    let cookie = peer.ask_with(&mut world, &sctp([peer.port, PORT], 0, &[chunk(kind::INIT, 0, &listed)]));
    world.inject(SERVER, peer.address, &peer.echo(&cookie));
    let id = *world.ends[SERVER].accepted.last().expect("it is open");
    let is_heartbeat = |bytes: &[u8]| bytes[12] == kind::HEARTBEAT;
    let (_, heartbeat) = world.strays.iter().find(|(_, bytes)| is_heartbeat(bytes)).expect("it is asked");
    let right = heartbeat[16..].to_vec();
    let mut wrong = right.clone();
    wrong[4..12].fill(0xff);
    for (value, acknowledged) in [(wrong, 0), (right, 1)] {
        let ack = peer.packet(&[chunk(kind::HEARTBEAT_ACK, 0, &value)]);
        world.inject(SERVER, listed_address, &ack);
        let end = world.ends[SERVER].host.endpoint(id).expect("it lives");
        assert_eq!(end.stats().heartbeats_acked, acknowledged);
    }
}

fn asconf(count: usize) -> Numbers {
    let mut world = world();
    let peer = Peer::open(stranger(1), &mut world);
    let id = *world.ends[SERVER].accepted.last().expect("it is open");
    let numbers = world.attack(count, |world, number| {
        let address = [words([pair(5, 8)]), vec![10, 9, 9, 9]].concat();
        let add = [words([pair(0xc001, 16), 1]), address.clone()].concat();
        let asconf = chunk(kind::ASCONF, 0, &[words([TSN + number as u32 / 4]), address, add].concat());
        let code: Vec<u8> = (0..20).map(|_| world.rng.bits() as u8).collect();
        let auth = chunk(kind::AUTH, 0, &[vec![0, 0, 0, 1], code].concat());
        let ack = chunk(kind::ASCONF_ACK, 0, &words([number as u32]));
        let chunks = match number % 4 {
            0 => vec![asconf],
            1 => vec![auth, asconf],
            2 => vec![asconf, auth],
            _ => vec![ack],
        };
        (SERVER, peer.address, peer.packet(&chunks))
    });
    let routes = world.ends[SERVER].host.addresses(id).map(|(routes, _)| routes.len());
    assert!(routes.is_none_or(|routes| routes == 1), "an address was added");
    assert!(numbers.answers <= 10 + count / 100, "{numbers:?}");
    numbers.check()
}

fn associations(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        // Half of them are sent back with their cookie.
        let mut peer = Peer { port: 1 + (number % 60_000) as u16, ..Peer::new(stranger(number)) };
        if number % 2 == 0 || world.ends[SERVER].host.associations() >= MOST_ACCEPTED {
            return (SERVER, peer.address, init([peer.port, PORT], peer.tag));
        }
        let cookie = peer.ask(world);
        (SERVER, peer.address, peer.echo(&cookie))
    });
    assert!(world.ends[SERVER].host.associations() <= MOST_ACCEPTED);
    // Each has a state of its own.
    numbers.check_within((512 << 10) + MOST_ACCEPTED * (32 << 10))
}

/// When peers that no longer answer are gone, so is the state kept for them.
#[test]
fn nothing_is_left_of_peers_that_are_gone() {
    let _alone = alone();
    let mut world = world();
    world.run_for(Duration::from_secs(1));
    world.answer();
    let before = held();
    for number in 0..FEW {
        let peer = Peer::open(stranger(number), &mut world);
        for tsn in 0..20 {
            peer.inject(&mut world, &[data(2 * tsn, BEGIN, 0, 100)]);
        }
        peer.inject(&mut world, &[chunk(kind::ABORT, 0, &[])]);
    }
    world.answer();
    assert_eq!((world.ends[SERVER].host.associations(), world.ends[SERVER].endings), (1, FEW));
    let grown = held().saturating_sub(before);
    assert!(grown < 128 << 10, "{grown} bytes are left");
}
