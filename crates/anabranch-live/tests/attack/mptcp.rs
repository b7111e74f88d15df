//! Multipath TCP: attackers who do not know the keys of a connection, and peers that lie about where bytes
//! belong.

use std::net::IpAddr;

use anabranch_transport::mptcp::{Config, Connection};
use anabranch_transport::rng::Draw as _;
use anabranch_transport::wire::mptcp::keys::{first_data_sequence, token_of};

use crate::bytes::{ACK, FIN, RST, SYN, Segment};
use crate::tcp::{MOST_ACCEPTED, PORT, Peer, Talker, assert_lives, open, overheard, to_host, to_server};
use crate::world::{CLIENT, Numbers, SERVER, World, attacks, stranger};

/// The kind of its option.
const MPTCP: u8 = 30;
/// The key of each of the attacker's peers.
const KEY: u64 = 0x1234_5678_9abc_def0;

fn world() -> World<Talker<Connection>> {
    open(
        &serde_json::from_str::<Config>(r#"{"receive_buffer": "64 kB", "send_buffer": "64 kB"}"#)
            .expect("settings"),
    )
}

fn option(value: &[u8]) -> Vec<u8> {
    [&[MPTCP, 2 + value.len() as u8], value].concat()
}

/// `MP_CAPABLE` of version 1 with these flags and keys.
fn capable(flags: u8, keys: &[u64]) -> Vec<u8> {
    let keys: Vec<u8> = keys.iter().flat_map(|key| key.to_be_bytes()).collect();
    option(&[&[1, flags], &keys[..]].concat())
}

/// A peer with a connection of MPTCP, and the server's key.
fn open_peer(address: IpAddr, world: &mut World<Talker<Connection>>) -> (Peer, u64) {
    let mut key = 0;
    let peer = Peer::open(address, world, capable(1, &[]), |answer| {
        let value = answer.option(MPTCP).expect("it goes along");
        key = u64::from_be_bytes(value[2..10].try_into().expect("a key"));
        capable(1, &[KEY, key])
    });
    (peer, key)
}

/// A DSS option with a mapping of so many bytes from a position of the subflow on, to a number of 8 bytes,
/// and perhaps a checksum.
fn mapping(number: u64, position: u32, length: u16, checksum: Option<u16>) -> Vec<u8> {
    let mut value = vec![2 << 4, 4 | 8];
    value.extend(number.to_be_bytes());
    value.extend(position.to_be_bytes());
    value.extend(length.to_be_bytes());
    value.extend(checksum.into_iter().flat_map(u16::to_be_bytes));
    option(&value)
}

/// An option of each subtype, most of which would do harm.
fn any_option(number: usize, bits: u64) -> Vec<u8> {
    let code = bits.to_be_bytes();
    match number % 10 {
        0 => capable(1, &[bits, bits]),
        1 => mapping(bits, 1, 100, (bits & 1 == 0).then_some(bits as u16)),
        2 => option(&[&[2 << 4, 1 | 2], &code[..]].concat()),
        // DATA_FIN.
        3 => option(&[&[2 << 4, 4 | 8 | 16], &code[..], &[0, 0, 0, 0, 0, 1]].concat()),
        4 => option(&[&[3 << 4, 1, 10, 9, 9, 9], &code[..]].concat()),
        5 => option(&[4 << 4, 0, 1, 2, 3]),
        6 => option(&[5 << 4 | 1]),
        7 => option(&[&[6 << 4, 0], &code[..]].concat()),
        8 => option(&[&[7 << 4, 0], &code[..]].concat()),
        _ => option(&[8 << 4, 1]),
    }
}

attacks! {
    /// `MP_JOIN` with a token of no connection.
    unknown_token,
    /// `MP_JOIN` with the right token and a wrong code.
    wrong_code,
    /// `ADD_ADDR` with a wrong code, from an attacker that sees the numbers.
    wrong_address_code,
    /// Options of all kinds on segments whose numbers are not those of the subflow.
    blind_options,
    /// Mappings to places at which nothing can be.
    mappings_that_lie,
    /// Mappings whose checksum is wrong.
    wrong_checksum,
    /// SYN of MPTCP from many addresses.
    syn_flood,
}

fn unknown_token(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let mut value = vec![1 << 4, 1];
        value.extend(world.rng.bits().to_be_bytes());
        let options = option(&value);
        let ports = [1 + (number % 60_000) as u16, PORT];
        to_server(stranger(number), &Segment { ports, flags: SYN, options, ..Segment::default() })
    });
    assert_lives(&world);
    assert_eq!(world.ends[SERVER].host.connections(), 1);
    assert_eq!(numbers.answers, count, "a reset each");
    assert!(numbers.amplification <= 1.0, "{numbers:?}");
    numbers.check()
}

fn wrong_code(count: usize) -> Numbers {
    let mut world = world();
    let (_, key) = open_peer(stranger(1), &mut world);
    let id = *world.ends[SERVER].accepted.last().expect("it is open");
    let token = token_of(key).to_be_bytes();
    let mut answered = Segment::default();
    let numbers = world.attack(count, |world, number| {
        let from = stranger(2 + number / 2);
        let ports = [9, PORT];
        if number % 2 == 0 {
            let options = option(&[&[1 << 4, 2], &token[..], &[1, 2, 3, 4]].concat());
            let syn = Segment { ports, sequence: 99, flags: SYN, options, ..Segment::default() };
            world.answer();
            let (to, from, bytes) = to_server(from, &syn);
            world.inject(to, from, &bytes);
            answered = world.answer().map(|bytes| Segment::read(&bytes)).unwrap_or_default();
            // The option is sent once more, so that the attack has a packet.
            return (to, from, bytes);
        }
        let code: Vec<u8> = (0..20).map(|_| world.rng.bits() as u8).collect();
        let options = option(&[&[1 << 4, 0], &code[..]].concat());
        let acknowledgement = answered.sequence.wrapping_add(1);
        to_server(
            from,
            &Segment { ports, sequence: 100, acknowledgement, flags: ACK, options, ..Segment::default() },
        )
    });
    assert_lives(&world);
    let end = world.ends[SERVER].host.endpoint(id).expect("it lives");
    assert_eq!(end.stats().subflows, 1, "nobody has joined");
    numbers.check()
}

fn wrong_address_code(count: usize) -> Numbers {
    let mut world = world();
    let id = world.ends[CLIENT].id.expect("it is open");
    let numbers = world.attack(count, |world, number| {
        let heard = overheard(world, CLIENT);
        let code = world.rng.bits().to_be_bytes();
        let options =
            option(&[&[3 << 4, 1 + (number % 200) as u8, 10, 9, 9, number as u8], &code[..]].concat());
        to_host(CLIENT, &Segment { options, payload: Vec::new(), flags: ACK, ..heard })
    });
    assert_lives(&world);
    let routes = world.ends[CLIENT].host.addresses(id).expect("it lives").len();
    assert_eq!(routes, 1, "no subflow is opened to such an address");
    numbers.check()
}

fn blind_options(count: usize) -> Numbers {
    let mut world = world();
    let keys = [CLIENT, SERVER].map(|index| {
        let Talker { host, id, .. } = &world.ends[index];
        host.endpoint(id.expect("it is open")).expect("it lives").keys()
    });
    let numbers = world.attack(count, |world, number| {
        let to = number / 10 % 2;
        let heard = overheard(world, to);
        let far = (1 << 24) + world.rng.below((1 << 32) - (1 << 25)) as u32;
        let options = any_option(number, world.rng.bits());
        // A reset is judged by its number alone.
        let which = if number % 10 == 9 { 0 } else { number / 20 % 3 };
        let (sequence, acknowledgement) = match which {
            0 => (heard.sequence.wrapping_add(far), heard.acknowledgement),
            1 => (heard.sequence, heard.acknowledgement.wrapping_add(far)),
            _ => (heard.sequence.wrapping_add(far), heard.acknowledgement.wrapping_add(far)),
        };
        let payload = if number % 10 < 2 { vec![1; 100] } else { Vec::new() };
        let flags = match number % 10 {
            3 => ACK | FIN,
            9 => ACK | RST,
            _ => ACK,
        };
        to_host(to, &Segment { sequence, acknowledgement, flags, options, payload, ..heard })
    });
    assert_lives(&world);
    for index in [CLIENT, SERVER] {
        let Talker { host, id, .. } = &world.ends[index];
        let end = host.endpoint(id.expect("it is open")).expect("it lives");
        assert_eq!(end.keys(), keys[index], "the keys are those of the handshake");
        assert!(!end.has_fallen_back());
    }
    numbers.check()
}

fn mappings_that_lie(count: usize) -> Numbers {
    let mut world = world();
    let (peer, _) = open_peer(stranger(1), &mut world);
    let first = first_data_sequence(KEY);
    let numbers = world.attack(count, |world, number| {
        let far = [0, 1, 1 << 16, 1 << 31, 1 << 32, 1 << 62, u64::MAX >> 1, u64::MAX - 50, u64::MAX];
        let place = far[number % far.len()].wrapping_add(world.rng.below(100));
        let offset = 1 + world.rng.below(60_000) as u32;
        let length = [0, 1, 100, u16::MAX][number / 9 % 4];
        let position = [offset + 1, 0, 1, u32::MAX][number / 36 % 4];
        let options = mapping(first.wrapping_add(place), position, length, None);
        let sequence = peer.next.sequence.wrapping_add(offset);
        let payload = vec![1; number % 3 * 50];
        to_server(peer.address, &Segment { sequence, options, payload, ..peer.next.clone() })
    });
    assert_lives(&world);
    // Mappings wait as well, together with their data.
    numbers.check_within(4 << 20)
}

fn wrong_checksum(count: usize) -> Numbers {
    let mut world = world();
    let peer = Peer::open(stranger(1), &mut world, capable(0x81, &[]), |answer| {
        let value = answer.option(MPTCP).expect("it goes along");
        let key = u64::from_be_bytes(value[2..10].try_into().expect("a key"));
        capable(0x81, &[KEY, key])
    });
    let numbers = world.attack(count, |world, _| {
        let checksum = 1 + world.rng.below(0xfff0) as u16;
        let options = mapping(first_data_sequence(KEY), 1, 100, Some(checksum));
        // Every checksum is valid, but for other bytes.
        let payload: Vec<u8> = (0..100).map(|_| world.rng.bits() as u8).collect();
        to_server(peer.address, &Segment { options, payload, ..peer.next.clone() })
    });
    assert_lives(&world);
    assert_eq!(world.ends[SERVER].believed, 0, "the data is held until the peer answers MP_FAIL");
    assert!(world.ends[SERVER].host.connections() <= 2);
    assert!(numbers.answers >= count && numbers.answers <= 2 * count, "{numbers:?}");
    numbers.check()
}

fn syn_flood(count: usize) -> Numbers {
    let mut world = world();
    let numbers = world.attack(count, |world, number| {
        let sequence = world.rng.bits() as u32;
        let ports = [1 + (number % 60_000) as u16, PORT];
        let options = capable(1, &[]);
        to_server(stranger(number), &Segment { ports, sequence, flags: SYN, options, ..Segment::default() })
    });
    assert_lives(&world);
    assert_eq!(world.ends[SERVER].host.connections(), MOST_ACCEPTED);
    numbers.check_within((512 << 10) + MOST_ACCEPTED * (48 << 10))
}

/// RFC 8684 section 3.1: an `MP_CAPABLE` with flag B, or without a code that this end has, is as if it had
/// not been there; and of version 0 there is nothing to talk about.
#[test]
fn an_option_of_another_version_is_none() {
    for (flags, goes_along) in [(1, true), (0x81, true), (0x41, false), (0, false), (2, false), (0xc1, false)]
    {
        let mut world = world();
        let peer = Peer::open(stranger(1), &mut world, capable(flags, &[]), |answer| {
            assert_eq!(answer.option(MPTCP).is_some(), goes_along, "flags {flags:#x}");
            Vec::new()
        });
        assert_eq!(world.ends[SERVER].accepted.len(), 1, "without it, it is a connection of TCP");
        drop(peer);
    }
}

#[test]
fn a_transfer_takes_no_more_memory_the_longer_it_lasts() {
    world().assert_steady();
}
