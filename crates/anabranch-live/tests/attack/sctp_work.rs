//! What a packet of SCTP costs grows with its bytes, whatever it lists: addresses, parameters, chunks,
//! causes, blocks, streams. A list that is compared with itself costs eight times as much for each byte in a
//! packet eight times as long.

use crate::bytes::{chunk, pair, sctp, words};
use crate::sctp::{PORT, Talker, kind, world, world_with};
use crate::sctp_peer::Peer;
use crate::world::{SERVER, World, alone, stranger};

const SHORT: usize = 8_000;
const LONG: usize = 64_000;

/// Each packet is measured this often, and the least time counts: another program takes none away.
const ROUNDS: usize = 15;

/// What makes the bytes of a list or of an item, and its name.
type Named<N> = (&'static str, fn(N) -> Vec<u8>);

/// A list of about `size` bytes, whose items are numbered.
fn list(size: usize, item: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0.. {
        let next = item(number);
        if bytes.len() + next.len() > size {
            break;
        }
        bytes.extend(next);
    }
    bytes
}

/// A parameter of INIT, a request of ASCONF, a cause of ERROR: they have the same form.
fn parameter(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = words([pair(kind, 4 + value.len() as u16)]);
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// INIT with this in its list of parameters.
fn init_with(parameters: &[u8]) -> Vec<u8> {
    let fixed = words([77, 100_000, pair(10, 10), 1_000]);
    sctp([7, PORT], 0, &[chunk(kind::INIT, 0, &[fixed, parameters.to_vec()].concat())])
}

/// The nanoseconds that packets of `size` bytes of this form take, at least.
fn least(measure: &impl Fn(usize) -> u64, size: usize) -> f64 {
    (0..ROUNDS).map(|_| measure(size)).min().expect("there are rounds") as f64
}

/// Checks that a byte of a long packet costs about what one of a short packet does.
fn assert_proportional(name: &str, measure: impl Fn(usize) -> u64) {
    let (short, long) = (least(&measure, SHORT), least(&measure, LONG));
    // What does not depend on the length counts for the short one alone; caches take their share of the long
    // one. A quadratic cost would be eightfold.
    let ratio = (long / LONG as f64) / (short / SHORT as f64);
    assert!(ratio < 4.0, "{name}: {short} ns for {SHORT} B, {long} ns for {LONG} B");
}

#[test]
fn a_stranger_costs_what_its_bytes_do() {
    let _alone = alone();
    let inits: [Named<u32>; 11] = [
        ("IPv4 addresses", |number| parameter(5, &words([0x0b00_0001 + number]))),
        ("the same IPv4 address", |_| parameter(5, &words([0x0b00_0001]))),
        ("IPv4 addresses of no host", |number| parameter(5, &words([0xe000_0001 + number]))),
        ("IPv6 addresses", |number| parameter(6, &words([0x2001_0db8, 0, 0, 1 + number]))),
        ("unknown parameters to report", |number| parameter(0xc000 | number as u16 & 0xfff, &[])),
        ("unknown parameters to skip", |number| parameter(0x8100 | number as u16 & 0xff, &[])),
        ("cookie preservatives", |_| parameter(9, &words([1]))),
        ("lists of chunk types", |_| parameter(0x8008, &[192; 16])),
        ("lists of algorithms", |_| parameter(0x8004, &[0, 9, 0, 9, 0, 9, 0, 3])),
        ("random numbers", |number| parameter(0x8002, &words([number]))),
        ("parameters that were not recognized", |_| parameter(8, &parameter(0xc123, &[]))),
    ];
    for (name, item) in inits {
        assert_proportional(name, |size| {
            let mut world = world();
            world.inject(SERVER, stranger(1), &init_with(&list(size, item)))
        });
    }
    let lone: [Named<usize>; 3] = [
        ("one list of chunk types", |size| parameter(0x8008, &vec![0; size])),
        ("one list of algorithms", |size| parameter(0x8004, &vec![9; size])),
        ("one unknown parameter", |size| parameter(0xc000, &vec![0; size])),
    ];
    for (name, parameters) in lone {
        assert_proportional(name, |size| {
            let mut world = world();
            world.inject(SERVER, stranger(1), &init_with(&parameters(size - 100)))
        });
    }
    for (name, chunks) in bundles() {
        assert_proportional(&format!("out of the blue: {name}"), |size| {
            let mut world = world();
            world.inject(SERVER, stranger(1), &sctp([7, PORT], 99, &[chunks(size)]))
        });
    }
}

/// Chunks of about `size` bytes in a packet, by name.
fn bundles() -> Vec<Named<usize>> {
    fn data(tsn: u32, flags: u8, stream: u32) -> Vec<u8> {
        chunk(kind::DATA, flags, &[words([1_000 + tsn, stream << 16, 0]), vec![1; 4]].concat())
    }
    fn i_data(tsn: u32, flags: u8, fsn: u32) -> Vec<u8> {
        let ppid_or_fsn = if flags & 2 == 2 { 0 } else { fsn };
        chunk(kind::I_DATA, flags, &[words([1_000 + tsn, 0, 0, ppid_or_fsn]), vec![1; 4]].concat())
    }
    vec![
        ("DATA in order", |size| list(size, |n| data(n, 3, 0))),
        ("DATA backwards", |size| list(size, |n| data(size as u32 / 20 - n, 3, 0))),
        ("DATA without order", |size| list(size, |n| data(n, 7, 0))),
        ("DATA with gaps", |size| list(size, |n| data(2 * n + 1, 7, 0))),
        ("DATA on streams that are not there", |size| list(size, |n| data(n, 7, 60_000))),
        ("the same DATA", |size| list(size, |_| data(0, 3, 0))),
        ("fragments", |size| list(size, |n| data(n, if n == 0 { 2 } else { 0 }, 0))),
        ("fragments backwards", |size| list(size, |n| data(size as u32 / 20 - n, 0, 0))),
        ("fragments without a beginning", |size| list(size, |n| data(2 * n + 1, 0, 0))),
        ("I-DATA", |size| list(size, |n| i_data(n, if n == 0 { 2 } else { 0 }, n))),
        ("I-DATA backwards", |size| {
            let last = size as u32 / 24;
            list(size, |n| i_data(last - n, if n == last { 2 } else { 0 }, last - n))
        }),
        ("gap blocks", |size| {
            let blocks = list(size - 100, |n| words([pair(2 * n as u16 + 2, 2 * n as u16 + 2)]));
            let counts = pair((blocks.len() / 4) as u16, 0);
            chunk(kind::SACK, 0, &[words([999, 100_000, counts]), blocks].concat())
        }),
        ("gap blocks backwards", |size| {
            let count = (size / 4 - 30) as u16;
            let blocks = list(size - 120, |n| words([pair(2 * (count - n as u16), 2 * (count - n as u16))]));
            let counts = pair((blocks.len() / 4) as u16, 0);
            chunk(kind::SACK, 0, &[words([999, 100_000, counts]), blocks].concat())
        }),
        ("duplicates", |size| {
            let duplicates = list(size - 100, |n| words([n]));
            let counts = pair(0, (duplicates.len() / 4) as u16);
            chunk(kind::SACK, 0, &[words([999, 100_000, counts]), duplicates].concat())
        }),
        ("SACKs", |size| list(size, |_| chunk(kind::SACK, 0, &words([999, 100_000, 0])))),
        ("streams of a FORWARD TSN", |size| {
            let streams = list(size - 100, |n| words([pair(n as u16 % 10, n as u16)]));
            chunk(kind::FORWARD_TSN, 0, &[words([1_000]), streams].concat())
        }),
        ("FORWARD TSNs", |size| list(size, |n| chunk(kind::FORWARD_TSN, 0, &words([1_000 + n])))),
        ("streams of an I-FORWARD-TSN", |size| {
            let streams = list(size - 100, |n| words([pair(n as u16 % 10, 0), n]));
            chunk(kind::I_FORWARD_TSN, 0, &[words([1_000]), streams].concat())
        }),
        ("streams to reset", |size| {
            let streams = list(size - 100, |n| words([pair(n as u16 % 10, (n as u16 + 1) % 10)]));
            chunk(kind::RECONFIG, 0, &parameter(13, &[words([1_000, 0, 999]), streams].concat()))
        }),
        ("streams that the peer is to reset", |size| {
            let streams = list(size - 100, |n| words([pair(n as u16 % 10, (n as u16 + 1) % 10)]));
            chunk(kind::RECONFIG, 0, &parameter(14, &[words([1_000]), streams].concat()))
        }),
        ("requests to reset", |size| {
            list(size, |n| chunk(kind::RECONFIG, 0, &parameter(13, &words([1_000 + n, 0, 999]))))
        }),
        ("heartbeats", |size| list(size, |n| chunk(kind::HEARTBEAT, 0, &words([pair(1, 8), n])))),
        ("one heartbeat", |size| chunk(kind::HEARTBEAT, 0, &parameter(1, &vec![1; size - 100]))),
        ("answers to heartbeats", |size| {
            list(size, |n| chunk(kind::HEARTBEAT_ACK, 0, &words([pair(1, 8), n])))
        }),
        ("causes", |size| chunk(kind::ERROR, 0, &list(size - 100, |n| parameter(3, &words([n]))))),
        ("errors", |size| list(size, |n| chunk(kind::ERROR, 0, &parameter(6, &words([n]))))),
        ("unknown chunks to report", |size| list(size, |n| chunk(0xc5 + n as u8 % 0x30, 0, &[]))),
        ("unknown chunks to skip", |size| list(size, |_| chunk(0x9a, 0, &[]))),
        ("cookies", |size| list(size, |n| chunk(kind::COOKIE_ECHO, 0, &words([n; 20])))),
        ("one cookie", |size| chunk(kind::COOKIE_ECHO, 0, &vec![1; size - 100])),
        ("COOKIE ACKs", |size| list(size, |_| chunk(kind::COOKIE_ACK, 0, &[]))),
        ("requests about addresses", |size| {
            let address = parameter(5, &words([0x0b00_0001]));
            let requests = list(size - 100, |n| {
                parameter(0xc001, &[words([n]), parameter(5, &words([0x0b00_0002 + n]))].concat())
            });
            chunk(kind::ASCONF, 0, &[words([1_000]), address, requests].concat())
        }),
        ("answers about addresses", |size| {
            let answers = list(size - 100, |n| parameter(0xc005, &words([n])));
            chunk(kind::ASCONF_ACK, 0, &[words([1_000]), answers].concat())
        }),
    ]
}

#[test]
fn a_peer_costs_what_its_bytes_do() {
    let _alone = alone();
    let opened = |more: &str| -> (World<Talker>, Peer) {
        let mut world = if more.is_empty() { world() } else { world_with(more) };
        let peer = Peer::open(stranger(1), &mut world);
        (world, peer)
    };
    for (name, chunks) in bundles() {
        assert_proportional(&format!("of a peer: {name}"), |size| {
            let (mut world, peer) = opened("");
            world.inject(SERVER, peer.address, &peer.packet(&[chunks(size)]))
        });
    }
}

/// A message of more fragments of one byte than their memory allows at once goes to the application in parts.
#[test]
fn pieces_of_one_byte_do_not_hold_up_a_message() {
    const COUNT: u32 = 20_000;
    let _alone = alone();
    let mut world = world();
    let peer = Peer::open(stranger(1), &mut world);
    let id = *world.ends[SERVER].accepted.last().expect("it is open");
    for number in 0..COUNT {
        let flags = if number == 0 { 2 } else { 0 };
        let value = [words([1_000 + number, 0, 0]), vec![1]].concat();
        world.inject(SERVER, peer.address, &peer.packet(&[chunk(kind::DATA, flags, &value)]));
    }
    let end = world.ends[SERVER].host.endpoint(id).expect("it lives");
    assert_eq!(end.stats().data_chunks_received, u64::from(COUNT), "none was dropped");
}
