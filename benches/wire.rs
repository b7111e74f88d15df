//! What a packet costs that becomes bytes, and bytes that become a packet, checksums included; beside
//! etherparse for TCP, which copies a payload and reads options as this codec does.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use anabranch_transport::flow::{IpVersion, PathId, Payload};
use anabranch_transport::wire::bytes::{Piece, Receiving, Secret, Sending};
use anabranch_transport::wire::mptcp::context::{MptcpReceiving, MptcpSending};
use anabranch_transport::wire::mptcp::{self, Options};
use anabranch_transport::wire::sctp::SctpPacket;
use anabranch_transport::wire::sctp::chunk::{Chunk, Data, GapBlock, Sack};
use anabranch_transport::wire::sctp::context::{SctpReceiving, SctpSending};
use anabranch_transport::wire::tcp::{Flags, SackBlock, SackBlocks, Segment, Timestamps};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use etherparse::{TcpHeader, TcpOptionElement, TcpSlice};

/// User data of a packet of 1500 B with one chunk.
const USER_DATA: u32 = 1_452;
/// Payload of a segment of 1500 B with timestamps; a DSS option takes 20 B of it.
const FULL_SEGMENT: u32 = 1_448;

/// Both ends, with the bytes of one payload.
struct Ends {
    sent: Vec<u8>,
    received: Vec<u8>,
    secret: Secret,
}

impl Ends {
    fn new() -> Self {
        Self { sent: vec![7; 1_500], received: Vec::with_capacity(1_500), secret: Secret([7; 32]) }
    }

    /// Copies the bytes once, as an application's buffer does.
    fn take(&mut self, bytes: &[u8]) -> u64 {
        self.received.clear();
        self.received.extend_from_slice(bytes);
        0
    }
}

impl Sending for Ends {
    fn addresses(&self, _path: PathId) -> [IpAddr; 2] {
        [Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()]
    }

    fn ip(&self) -> IpVersion {
        IpVersion::Ipv4
    }

    fn payload(&self, payload: Payload, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sent[..payload.length as usize]);
    }
}

impl SctpSending for Ends {
    fn own_addresses(&self) -> Vec<IpAddr> {
        vec![Ipv4Addr::new(10, 0, 0, 1).into()]
    }

    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn association_key(&self) -> &[u8] {
        b"key"
    }
}

impl MptcpSending for Ends {
    fn connection_keys(&self) -> [u64; 2] {
        [1, 2]
    }
}

impl Receiving for Ends {
    fn keep(&mut self, _piece: Piece, bytes: &[u8]) -> u64 {
        self.take(bytes)
    }

    fn keep_stream(&mut self, _sequence: u32, bytes: &[u8]) -> u64 {
        self.take(bytes)
    }
}

impl SctpReceiving for Ends {
    fn path_to(&self, _address: IpAddr) -> Option<PathId> {
        Some(PathId(0))
    }

    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn association_key(&self) -> Option<&[u8]> {
        Some(b"key")
    }
}

impl MptcpReceiving for Ends {
    fn connection_keys(&self) -> [u64; 2] {
        [2, 1]
    }

    fn data_near(&self) -> [u64; 2] {
        [0; 2]
    }
}

fn sctp(first: Chunk) -> SctpPacket {
    SctpPacket { source_port: 5_000, destination_port: 5_001, verification_tag: 9, first, rest: Vec::new() }
}

fn data() -> SctpPacket {
    sctp(Chunk::Data(Data {
        tsn: 1,
        stream: 2,
        ssn: 3,
        ppid: 4,
        unordered: false,
        beginning: true,
        ending: true,
        immediate: false,
        payload: Payload { offset: 0, length: USER_DATA },
    }))
}

fn sack() -> SctpPacket {
    let gap_blocks = (0..3).map(|gap| GapBlock { start: 2 + 10 * gap, end: 8 + 10 * gap }).collect();
    sctp(Chunk::Sack(0, Sack { cumulative_tsn: 1, a_rwnd: 65_536, gap_blocks, duplicates: [7].into() }))
}

/// An acknowledgement with timestamps and three blocks, or data with timestamps.
fn segment(length: u32) -> Segment {
    let mut sack = SackBlocks::new();
    if length == 0 {
        sack.extend((1..=3).map(|block| SackBlock { start: 10_000 * block, end: 10_000 * block + 1_448 }));
    }
    Segment {
        source_port: 5_000,
        destination_port: 5_001,
        sequence: 1,
        acknowledgement: 2,
        flags: Flags::ACK,
        window: 512,
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: Some(Timestamps { value: 3, echo: 4 }),
        sack,
        rare: None,
        padding: 0,
        payload: Payload { offset: 0, length },
    }
}

fn dss() -> mptcp::Segment {
    let options = Options { data_ack: Some(5), data_position: Some(6), ..Options::default() };
    mptcp::Segment { tcp: segment(FULL_SEGMENT - 28), options, option_bytes: 28 }
}

fn sctp_codec(criterion: &mut Criterion) {
    let mut ends = Ends::new();
    let mut group = criterion.benchmark_group("sctp");
    for (name, packet) in [("data", data()), ("sack", sack())] {
        let mut bytes = Vec::with_capacity(1_500);
        packet.emit(PathId(0), &ends, &mut bytes);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(format!("emit {name}"), |bencher| {
            bencher.iter(|| {
                bytes.clear();
                black_box(&packet).emit(PathId(0), &ends, &mut bytes);
                bytes.len()
            });
        });
        group.bench_function(format!("parse {name}"), |bencher| {
            bencher.iter(|| SctpPacket::parse(black_box(&bytes), &mut ends).expect("it is right"));
        });
    }
}

fn tcp_codec(criterion: &mut Criterion) {
    let mut ends = Ends::new();
    let addresses = ends.addresses(PathId(0));
    let mut group = criterion.benchmark_group("tcp");
    for (name, segment) in [("ack", segment(0)), ("data", segment(FULL_SEGMENT))] {
        let mut bytes = Vec::with_capacity(1_500);
        segment.emit(PathId(0), &ends, &mut bytes);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(format!("emit {name}"), |bencher| {
            bencher.iter(|| {
                bytes.clear();
                black_box(&segment).emit(PathId(0), &ends, &mut bytes);
                bytes.len()
            });
        });
        group.bench_function(format!("parse {name}"), |bencher| {
            bencher.iter(|| Segment::parse(black_box(&bytes), addresses, &mut ends).expect("it is right"));
        });
    }
    let segment = dss();
    let mut bytes = Vec::with_capacity(1_500);
    segment.emit(PathId(0), &ends, &mut bytes);
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("emit mptcp dss", |bencher| {
        bencher.iter(|| {
            bytes.clear();
            black_box(&segment).emit(PathId(0), &ends, &mut bytes);
            bytes.len()
        });
    });
    group.bench_function("parse mptcp dss", |bencher| {
        bencher.iter(|| Segment::parse(black_box(&bytes), addresses, &mut ends).expect("it is right"));
    });
}

/// Emits the same segments with etherparse: header, options and checksum, and the payload copied.
fn etherparse_tcp(criterion: &mut Criterion) {
    let ends = Ends::new();
    let [source, destination] = [[10, 0, 0, 1], [10, 0, 0, 2]];
    let mut group = criterion.benchmark_group("etherparse tcp");
    for (name, segment) in [("ack", segment(0)), ("data", segment(FULL_SEGMENT))] {
        let payload = &ends.sent[..segment.payload.length as usize];
        let mut bytes = Vec::with_capacity(1_500);
        let emit = |bytes: &mut Vec<u8>| {
            let mut header = TcpHeader::new(5_000, 5_001, 1, 512);
            header.ack = true;
            header.acknowledgment_number = 2;
            let stamps = TcpOptionElement::Timestamp(3, 4);
            let nop = TcpOptionElement::Noop;
            if segment.sack.is_empty() {
                header.set_options(&[nop.clone(), nop, stamps]).expect("they have room");
            } else {
                let block = |index: usize| (segment.sack[index].start, segment.sack[index].end);
                let sack = TcpOptionElement::SelectiveAcknowledgement(
                    block(0),
                    [Some(block(1)), Some(block(2)), None],
                );
                let nops = [nop.clone(), nop.clone(), stamps, nop.clone(), nop, sack];
                header.set_options(&nops).expect("they have room");
            }
            header.checksum =
                header.calc_checksum_ipv4_raw(source, destination, payload).expect("it is short");
            header.write(bytes).expect("memory takes everything");
            bytes.extend_from_slice(payload);
        };
        emit(&mut bytes);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(format!("emit {name}"), |bencher| {
            bencher.iter(|| {
                bytes.clear();
                emit(black_box(&mut bytes));
                bytes.len()
            });
        });
        let mut received: Vec<u8> = Vec::with_capacity(1_500);
        group.bench_function(format!("parse {name}"), |bencher| {
            bencher.iter(|| {
                let slice = TcpSlice::from_slice(black_box(&bytes)).expect("it is right");
                let right = slice.calc_checksum_ipv4(source, destination).expect("it is short");
                assert_eq!(right, slice.checksum());
                let options = slice.options_iterator().flatten().count();
                received.clear();
                received.extend_from_slice(slice.payload());
                (slice.to_header(), options, received.len())
            });
        });
    }
}

criterion_group!(benches, sctp_codec, tcp_codec, etherparse_tcp);
criterion_main!(benches);
