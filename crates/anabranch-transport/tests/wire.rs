//! Packets as bytes and back: what is emitted is parsed as it was, and nothing that arrives does harm.
//!
//! `PROPTEST_CASES` says how many packets of each kind; `make validate` takes 100,000.

mod world;

use std::net::IpAddr;

use anabranch_transport::ground::{Ecn, IpVersion, PathId, Payload};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::bytes::{Secret, Sending as _};
use anabranch_transport::wire::mptcp::{self, Handshake, Join, Options, Reset, Signal};
use anabranch_transport::wire::sctp::SctpPacket;
use anabranch_transport::wire::sctp::authentication::{Hmac, association_key, key_vector};
use anabranch_transport::wire::sctp::chunk::{
    Abort, AddressChange, AddressError, AddressRequest, AddressResponse, Asconf, AsconfAck, Chunk, Cookie,
    Data, ErrorCause, ForwardTsn, GapBlock, HeartbeatInfo, IData, IForwardTsn, Init, InitAck, NrSack, Opaque,
    OtherCause, PairMark, Sack, SkippedMessage, SkippedStream, StateCookie,
};
use anabranch_transport::wire::sctp::reconfig::{Reconfig, Reconfiguration};
use anabranch_transport::wire::tcp::{
    AccurateEcn, FastOpen, Flags, RareOptions, SackBlock, SackBlocks, Segment, Timestamps, UnknownOption,
};
use anabranch_transport::wire::udp::{Datagram, Rtp};
use anabranch_transport::wire::{Body, Packet, ip};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use world::World;

fn ips() -> impl Strategy<Value = IpVersion> {
    prop_oneof![Just(IpVersion::Ipv4), Just(IpVersion::Ipv6)]
}

fn ports() -> impl Strategy<Value = (u16, u16)> {
    (1..=u16::MAX, 1..=u16::MAX)
}

/// A payload that is not empty, and where its offset can be told from its first byte.
fn payloads() -> impl Strategy<Value = Payload> {
    (0..256u64, 1..1_400u32).prop_map(|(offset, length)| Payload { offset, length })
}

fn flags() -> impl Strategy<Value = [bool; 4]> {
    any::<[bool; 4]>()
}

fn data() -> impl Strategy<Value = Chunk> {
    let numbers = any::<(u32, u16, u16, u32)>();
    (numbers, flags(), payloads()).prop_map(|((tsn, stream, ssn, ppid), flags, payload)| {
        let [unordered, beginning, ending, immediate] = flags;
        Chunk::Data(Data { tsn, stream, ssn, ppid, unordered, beginning, ending, immediate, payload })
    })
}

fn i_data() -> impl Strategy<Value = Chunk> {
    let numbers = any::<(u32, u16, u32, u32)>();
    (numbers, flags(), payloads()).prop_map(|((tsn, stream, mid, last), flags, payload)| {
        let [unordered, beginning, ending, immediate] = flags;
        // One field has two meanings: in the first fragment it is the protocol, in others their number.
        let (ppid, fsn) = if beginning { (last, 0) } else { (0, last) };
        Chunk::IData(IData { tsn, stream, mid, fsn, ppid, unordered, beginning, ending, immediate, payload })
    })
}

fn sacks() -> impl Strategy<Value = Chunk> {
    let blocks = vec(any::<(u16, u16)>(), 0..20);
    (any::<(u8, u32, u32)>(), blocks, vec(any::<u32>(), 0..20)).prop_map(
        |((packets, cumulative_tsn, a_rwnd), blocks, duplicates)| {
            let gap_blocks = blocks.into_iter().map(|(start, end)| GapBlock { start, end }).collect();
            let duplicates = duplicates.into();
            Chunk::Sack(packets, Sack { cumulative_tsn, a_rwnd, gap_blocks, duplicates })
        },
    )
}

fn nr_sacks() -> impl Strategy<Value = Chunk> {
    (sacks(), vec(any::<(u16, u16)>(), 0..20)).prop_map(|(chunk, blocks)| {
        let Chunk::Sack(packets, sack) = chunk else { unreachable!("it is a SACK") };
        let final_blocks = blocks.into_iter().map(|(start, end)| GapBlock { start, end }).collect();
        Chunk::NrSack(packets, Box::new(NrSack { sack, final_blocks }))
    })
}

fn forwards() -> impl Strategy<Value = Chunk> {
    let plain = (any::<u32>(), vec(any::<(u16, u16)>(), 0..20)).prop_map(|(new_cumulative_tsn, streams)| {
        let streams = streams.into_iter().map(|(stream, ssn)| SkippedStream { stream, ssn }).collect();
        Chunk::ForwardTsn(ForwardTsn { new_cumulative_tsn, streams })
    });
    let interleaved =
        (any::<u32>(), vec(any::<(u16, bool, u32)>(), 0..20)).prop_map(|(new_cumulative_tsn, messages)| {
            let skipped = |(stream, unordered, mid)| SkippedMessage { stream, unordered, mid };
            let messages = messages.into_iter().map(skipped).collect();
            Chunk::IForwardTsn(IForwardTsn { new_cumulative_tsn, messages })
        });
    prop_oneof![plain, interleaved]
}

fn heartbeats() -> impl Strategy<Value = Chunk> {
    let pair = option::of(any::<(u32, bool, u64)>());
    (any::<(u64, u32, u8)>(), 0..300u16, pair, any::<bool>()).prop_map(
        |((sent_at, nonce, path), words, pair, is_answer)| {
            let pair = pair.map(|(number, is_second, arrived_at)| PairMark {
                number,
                is_second,
                arrived_at: Time::from_nanos(arrived_at),
            });
            let padding = if is_answer { 0 } else { 4 * words };
            let sent_at = Time::from_nanos(sent_at);
            let info = HeartbeatInfo { sent_at, nonce, path: PathId(path), padding, pair };
            if is_answer { Chunk::HeartbeatAck(info) } else { Chunk::Heartbeat(info) }
        },
    )
}

fn inits(ip: IpVersion) -> impl Strategy<Value = Init> {
    let numbers = (1..=u32::MAX, any::<u32>(), 1..=u16::MAX, 1..=u16::MAX, any::<u32>());
    let wishes = option::of(0..1_000_000u64);
    (numbers, 1..=8u8, any::<[bool; 8]>(), wishes).prop_map(
        move |(
            (initiate_tag, a_rwnd, outbound_streams, max_inbound_streams, initial_tsn),
            addresses,
            can,
            wish,
        )| Init {
            initiate_tag,
            a_rwnd,
            outbound_streams,
            max_inbound_streams,
            initial_tsn,
            addresses,
            // A single address is not listed, so that its version is not known from it.
            ip: if addresses > 1 { ip } else { IpVersion::Ipv4 },
            forward_tsn_supported: can[0],
            asconf_supported: can[1],
            hmac: if can[1] && can[5] { Hmac::Sha256 } else { Hmac::Sha1 },
            interleaving_supported: can[2],
            reconfig_supported: can[6],
            nr_sack_supported: can[7],
            names_forward_tsn: can[0] && can[3],
            names_address_types: can[4],
            cookie_preservative: wish.map(Duration::from_millis),
        },
    )
}

fn cookies(ip: IpVersion) -> impl Strategy<Value = StateCookie> {
    (any::<(u64, u64, u32, u32, bool, Option<u64>)>(), inits(ip)).prop_map(
        move |((created_at, life, local_tag, local_initial_tsn, keeps_addresses, tie_tag), peer)| {
            StateCookie {
                created_at: Time::from_nanos(created_at),
                life: Duration::from_nanos(life),
                local_tag,
                local_initial_tsn,
                peer: Init {
                    cookie_preservative: None,
                    names_forward_tsn: false,
                    names_address_types: false,
                    // The addresses in it, even if there is only one.
                    ip,
                    ..peer
                },
                tie_tag,
                key_bytes: 0,
                keeps_addresses,
            }
        },
    )
}

fn causes() -> impl Strategy<Value = ErrorCause> {
    prop_oneof![
        Just(ErrorCause::IllegalAsconfAck),
        Just(ErrorCause::UserInitiatedAbort),
        (0..u32::MAX).prop_map(|us| ErrorCause::StaleCookie {
            staleness: Duration::from_nanos(u64::from(us) * 1_000)
        }),
        // Of RFC 9260, 4895 and 5061, with what they say; those above say nothing.
        (
            prop_oneof![1..=2u16, 4..=11u16, 13..=14u16, 0xa0..=0xa2u16, 0xa4..=0xa4u16, Just(0x105u16)],
            vec(any::<u8>(), 0..40)
        )
            .prop_map(|(code, value)| ErrorCause::Other(Box::new(OtherCause { code, value: value.into() }))),
        vec(any::<u8>(), 1..40).prop_map(|reason| {
            ErrorCause::Other(Box::new(OtherCause { code: 12, value: reason.into() }))
        }),
    ]
}

fn asconfs(ip: IpVersion) -> impl Strategy<Value = Chunk> {
    let changes =
        prop_oneof![Just(AddressChange::Add), Just(AddressChange::Delete), Just(AddressChange::SetPrimary),];
    let requests = vec((any::<u32>(), changes, 0..200u8), 0..6);
    let ask = (any::<u32>(), requests).prop_map(move |(serial, requests)| {
        let request =
            |(correlation, change, path)| AddressRequest { correlation, change, path: PathId(path) };
        let requests = requests.into_iter().map(request).collect();
        Chunk::Asconf(Box::new(Asconf { serial, ip, requests, refused: Vec::new() }))
    });
    let errors = option::of(prop_oneof![Just(AddressError::LastAddress), Just(AddressError::SourceAddress)]);
    let answer = (any::<u32>(), vec((any::<u32>(), errors), 0..6)).prop_map(move |(serial, responses)| {
        let response = |(correlation, error)| AddressResponse { correlation, error };
        let responses: Vec<_> = responses.into_iter().map(response).collect();
        // The addresses' version is known from an error that repeats one.
        let ip = if responses.iter().any(|it| it.error.is_some()) { ip } else { IpVersion::Ipv4 };
        Chunk::AsconfAck(Box::new(AsconfAck { serial, ip, responses, refused: Vec::new() }))
    });
    prop_oneof![ask, answer]
}

fn reconfigurations() -> impl Strategy<Value = Reconfiguration> {
    let streams = vec(any::<u16>(), 0..20);
    prop_oneof![
        any::<(u32, u16)>().prop_map(|(request, streams)| Reconfiguration::AddIncoming { request, streams }),
        any::<(u32, u16)>().prop_map(|(request, streams)| Reconfiguration::AddOutgoing { request, streams }),
        (any::<u32>(), streams.clone()).prop_map(|(request, streams)| {
            Reconfiguration::ResetIncoming { request, streams: streams.into() }
        }),
        (any::<(u32, u32, u32)>(), streams).prop_map(|((request, response, last_tsn), streams)| {
            Reconfiguration::ResetOutgoing { request, response, last_tsn, streams: streams.into() }
        }),
        any::<u32>().prop_map(|request| Reconfiguration::ResetTsn { request }),
        (any::<(u32, u32)>(), option::of(any::<[u32; 2]>()))
            .prop_map(|((response, result), tsns)| { Reconfiguration::Response { response, result, tsns } }),
    ]
}

fn reconfigs() -> impl Strategy<Value = Chunk> {
    (reconfigurations(), option::of(reconfigurations()))
        .prop_map(|(first, second)| Chunk::Reconfig(Box::new(Reconfig { first, second })))
}

fn opaques() -> impl Strategy<Value = Chunk> {
    let bytes = vec(any::<u8>(), 0..60);
    // Behind those of the last kind a packet is read on.
    (0xe0..=0xffu8, any::<u8>(), bytes)
        .prop_map(|(kind, flags, value)| Chunk::Opaque(Box::new(Opaque { kind, flags, value: value.into() })))
}

/// Chunks that may be together in a packet.
fn bundled(ip: IpVersion) -> impl Strategy<Value = Chunk> {
    prop_oneof![
        4 => data(),
        2 => i_data(),
        4 => sacks(),
        2 => nr_sacks(),
        2 => forwards(),
        2 => heartbeats(),
        1 => asconfs(ip),
        1 => reconfigs(),
        1 => opaques(),
        1 => cookies(ip).prop_map(|cookie| Chunk::CookieEcho(Box::new(Cookie::Own(cookie)))),
        1 => causes().prop_map(Chunk::Error),
        1 => (any::<bool>(), option::of(causes()))
            .prop_map(|(tag_reflected, cause)| Chunk::Abort(Abort { tag_reflected, cause })),
        1 => Just(Chunk::CookieAck),
        1 => prop_oneof![Just(Chunk::Auth(Hmac::Sha1)), Just(Chunk::Auth(Hmac::Sha256))],
        1 => Just(Chunk::ShutdownAck),
        1 => any::<u32>().prop_map(|cumulative_tsn| Chunk::Shutdown { cumulative_tsn }),
    ]
}

/// Parameters of unknown types that are to be reported, after which reading goes on.
fn parameters() -> impl Strategy<Value = Box<[u8]>> {
    vec(vec(any::<u8>(), 0..20), 0..3).prop_map(|values| {
        let mut bytes = Vec::new();
        for value in values {
            bytes.extend([0xc1, 7, 0, 4 + value.len() as u8]);
            bytes.extend(&value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes.into()
    })
}

/// Chunks that come alone.
fn alone(ip: IpVersion) -> impl Strategy<Value = Chunk> {
    let cookie = prop_oneof![
        // One with addresses in it is given back as bytes.
        cookies(ip).prop_map(|cookie| Cookie::Own(StateCookie { keeps_addresses: false, ..cookie })),
        vec(any::<u8>(), 0..300).prop_map(|bytes| Cookie::Foreign(bytes.into())),
    ];
    prop_oneof![
        (inits(ip), parameters()).prop_map(|(init, unrecognized)| Chunk::Init(Box::new(init), unrecognized)),
        (inits(ip), cookie, parameters(), parameters()).prop_map(|(init, cookie, reported, unrecognized)| {
            // INIT ACK names no types of addresses.
            let init = Init { names_address_types: false, ..init };
            Chunk::InitAck(Box::new(InitAck { init, cookie, reported, unrecognized }))
        }),
        any::<bool>().prop_map(|tag_reflected| Chunk::ShutdownComplete { tag_reflected }),
    ]
}

fn sctp_packets(ip: IpVersion) -> impl Strategy<Value = Body> {
    let chunks = prop_oneof![
        4 => vec(bundled(ip), 1..8),
        1 => alone(ip).prop_map(|chunk| vec![chunk]),
    ];
    (ports(), any::<u32>(), chunks).prop_map(
        |((source_port, destination_port), verification_tag, mut chunks)| {
            // One AUTH in a packet, and one before what must be signed.
            let is_signed =
                |chunk: &Chunk| matches!(chunk, Chunk::Auth(_) | Chunk::Asconf(_) | Chunk::AsconfAck(_));
            let signed = chunks.iter().position(is_signed);
            chunks.retain(|chunk| !matches!(chunk, Chunk::Auth(_)));
            if let Some(place) = signed {
                chunks.insert(place.min(chunks.len()), Chunk::Auth(Hmac::Sha256));
            }
            let first = chunks.remove(0);
            Body::Sctp(SctpPacket { source_port, destination_port, verification_tag, first, rest: chunks })
        },
    )
}

/// Options that may be in a segment where they have room.
fn rare_options() -> impl Strategy<Value = RareOptions> {
    let cookie = prop_oneof![Just(0usize), Just(4), Just(6), Just(8), Just(10), Just(12), Just(14), Just(16)];
    let fast_open = (cookie.prop_flat_map(|length| vec(any::<u8>(), length)), any::<bool>());
    let counters = (any::<bool>(), vec(0..1u32 << 24, 0..=3));
    // Signatures (RFC 2385, RFC 5925), the user timeout (RFC 5482), and what nobody has defined.
    let kinds = prop_oneof![Just(19u8), Just(28), Just(29), 35..=69u8, 253..=255u8];
    let unknown = vec((kinds, vec(any::<u8>(), 0..10)), 0..3);
    (option::of(fast_open), option::of(counters), unknown).prop_map(|(fast_open, counters, unknown)| {
        RareOptions {
            fast_open: fast_open.map(|(cookie, is_experimental)| {
                FastOpen::new(&cookie, is_experimental).expect("it has the length of a cookie")
            }),
            accurate_ecn: counters.map(|(begins_with_ect1, counters)| AccurateEcn {
                begins_with_ect1,
                counters: counters.into_iter().collect(),
            }),
            unknown: unknown
                .into_iter()
                .map(|(kind, value)| UnknownOption { kind, value: value.into() })
                .collect(),
        }
    })
}

/// Segments whose options have room.
fn segments() -> impl Strategy<Value = Segment> {
    let numbers = (ports(), any::<u32>(), any::<u32>(), any::<u16>());
    let options =
        (option::of(any::<u16>()), option::of(0..=14u8), any::<bool>(), option::of(any::<(u32, u32)>()));
    let payload = prop_oneof![Just(Payload::default()), payloads()];
    let more = (vec(any::<(u32, u32)>(), 0..=3), option::of(rare_options()));
    (numbers, 0..0x200u16, options, more, 0..=10u8, payload).prop_map(
        |(
            ((source_port, destination_port), sequence, acknowledgement, window),
            bits,
            options,
            (blocks, rare),
            words,
            payload,
        )| {
            let flags = Flags::from_bits(bits);
            let (mss, window_scale, sack_permitted, timestamps) = options;
            let mut segment = Segment {
                source_port,
                destination_port,
                sequence,
                // Without the flag it means nothing, and is not on the wire.
                acknowledgement: if flags.has(Flags::ACK) { acknowledgement } else { 0 },
                flags,
                window,
                mss,
                window_scale,
                sack_permitted,
                timestamps: timestamps.map(|(value, echo)| Timestamps { value, echo }),
                sack: SackBlocks::new(),
                rare: None,
                padding: 0,
                payload,
            };
            for (start, end) in blocks {
                if segment.option_bytes() + 12 <= 40 {
                    segment.sack.push(SackBlock { start, end });
                }
            }
            segment.rare = rare
                .filter(|rare| rare.wire_bytes() > 0 && segment.option_bytes() + rare.wire_bytes() <= 40)
                .map(Box::new);
            segment.padding = (4 * words).min((40 - segment.option_bytes()) as u8);
            segment
        },
    )
}

/// Options of MPTCP that a segment may have, and what they take.
fn mptcp_options(ip: IpVersion) -> impl Strategy<Value = (Options, u32, u16)> {
    let syn = Flags::SYN.bits();
    let ack = Flags::ACK.bits();
    let handshake = prop_oneof![
        Just((Handshake::Capable { sender_key: None, receiver_key: None }, 4, syn)),
        any::<u64>().prop_map(move |key| {
            (Handshake::Capable { sender_key: Some(key), receiver_key: None }, 12, syn | ack)
        }),
        any::<[u64; 2]>().prop_map(move |[a, b]| {
            (Handshake::Capable { sender_key: Some(a), receiver_key: Some(b) }, 20, ack)
        }),
        any::<(u32, u32, u8, bool)>().prop_map(move |(token, nonce, address, is_backup)| {
            (Handshake::Join(Join::Syn { token, nonce, address, is_backup }), 12, syn)
        }),
        any::<(u64, u32, u8, bool)>().prop_map(move |(code, nonce, address, is_backup)| {
            (Handshake::Join(Join::Answer { code, nonce, address, is_backup }), 16, syn | ack)
        }),
        any::<[u8; 20]>().prop_map(move |code| (Handshake::Join(Join::Third { code }), 24, ack)),
    ]
    .prop_flat_map(|(handshake, bytes, flags)| {
        // Flag A of MP_CAPABLE; MP_JOIN has nothing like it.
        let has_checksum =
            any::<bool>().prop_map(move |wanted| wanted && matches!(handshake, Handshake::Capable { .. }));
        has_checksum.prop_map(move |has_checksum| {
            (Options { handshake: Some(handshake), has_checksum, ..Options::default() }, bytes, flags)
        })
    });
    let first_data = any::<([u64; 2], bool)>().prop_map(move |([a, b], has_checksum)| {
        let handshake = Handshake::Capable { sender_key: Some(a), receiver_key: Some(b) };
        let options = Options {
            handshake: Some(handshake),
            data_position: Some(0),
            has_checksum,
            ..Options::default()
        };
        (options, 24, ack)
    });
    let near = 1_000_000..1_000_000_000_000u64;
    let mapped = option::of(any::<(bool, bool)>());
    let dss = (near, 0..1_000_000u64, mapped, prop_oneof![Just(8u32), Just(12)]).prop_map(
        move |(data, acknowledged, mapped, ack_bytes)| {
            let has_checksum = mapped.is_some_and(|(_, has_checksum)| has_checksum);
            let mapped = mapped.map(|(fin, _)| fin);
            let options = Options {
                data_ack: Some(acknowledged),
                // Without payload it is of a DATA_FIN on its own.
                data_position: mapped.map(|_| data),
                data_fin: mapped.filter(|fin| *fin).map(|_| data),
                // Of the least room a checksum leaves no less than 4 bytes more.
                has_short_number: mapped.is_some() && !has_checksum && ack_bytes == 8,
                has_checksum,
                ..Options::default()
            };
            let checksum = if has_checksum { 4 } else { 0 };
            let bytes = if mapped.is_some() { 12 + checksum + ack_bytes } else { ack_bytes };
            (options, bytes, ack)
        },
    );
    let address_bytes = if ip == IpVersion::Ipv4 { 4 } else { 16 };
    let signal = prop_oneof![
        (any::<(u8, bool)>(), option::of(any::<u16>())).prop_map(move |((address, is_echo), port)| {
            let code = if is_echo { 0 } else { 8 };
            let bytes = 4 + address_bytes + code + if port.is_some() { 4 } else { 0 };
            (Signal::AddAddress { address, is_echo, port }, bytes)
        }),
        (0..1_000_000u64).prop_map(|position| (Signal::Fail { position }, 12)),
        Just((Signal::FastClose, 12)),
        any::<bool>().prop_map(|is_backup| (Signal::Priority { is_backup }, 4)),
        vec(any::<u8>(), 1..=mptcp::Identifiers::MOST).prop_map(|addresses| {
            let bytes = (3 + addresses.len() as u32).next_multiple_of(4);
            (Signal::RemoveAddress { addresses: addresses.into_iter().collect() }, bytes)
        }),
    ];
    let with_signal = (option::of(0..1_000_000u64), signal).prop_map(move |(data_ack, (signal, bytes))| {
        let acknowledgement = if data_ack.is_some() && bytes <= 32 { 8 } else { 0 };
        let data_ack = data_ack.filter(|_| acknowledgement > 0);
        (Options { data_ack, signal: Some(signal), ..Options::default() }, bytes + acknowledgement, ack)
    });
    let reset = (any::<(u8, bool)>(), any::<bool>()).prop_map(move |((reason, is_transient), closes)| {
        let signal = closes.then_some(Signal::FastClose);
        let reset = Some(Reset { reason, is_transient });
        let bytes = 4 + if closes { 12 } else { 0 };
        (Options { signal, reset, ..Options::default() }, bytes, ack | Flags::RST.bits())
    });
    prop_oneof![3 => handshake, 1 => first_data, 3 => dss, 3 => with_signal, 1 => reset]
}

fn mptcp_segments(ip: IpVersion) -> impl Strategy<Value = Body> {
    (segments(), mptcp_options(ip), payloads()).prop_map(
        |(tcp, (mut options, option_bytes, bits), payload)| {
            let has_data = options.data_position.is_some();
            let bare = Segment {
                flags: Flags::from_bits(bits),
                acknowledgement: if bits & Flags::ACK.bits() == 0 { 0 } else { tcp.acknowledgement },
                sack: SackBlocks::new(),
                padding: 0,
                mss: None,
                window_scale: None,
                sack_permitted: false,
                rare: None,
                payload: if has_data { payload } else { Payload::default() },
                ..tcp
            };
            let room = 40 - option_bytes;
            let timestamps = bare.timestamps.filter(|_| room >= 12);
            if options.handshake.is_some() && has_data {
                // The first data of the connection is the first of its subflow.
                options.data_position = Some(bare.payload.offset);
            }
            if let Some(fin) = &mut options.data_fin {
                *fin += u64::from(bare.payload.length);
            }
            Body::Mptcp(mptcp::Segment { tcp: Segment { timestamps, ..bare }, options, option_bytes })
        },
    )
}

fn datagrams() -> impl Strategy<Value = Body> {
    (ports(), payloads(), option::of(any::<(u16, u32)>())).prop_map(
        |((source_port, destination_port), Payload { offset, length }, rtp)| {
            let rtp = rtp.map(|(sequence, timestamp)| Rtp { sequence, timestamp });
            Body::Udp(Datagram { source_port, destination_port, offset, length, rtp })
        },
    )
}

fn packets() -> impl Strategy<Value = (IpVersion, Packet, Option<u16>)> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    ips().prop_flat_map(move |ip| {
        let body = prop_oneof![
            3 => sctp_packets(ip),
            2 => segments().prop_map(Body::Tcp),
            2 => mptcp_segments(ip),
            1 => datagrams(),
        ];
        let identification = option::of(any::<u16>());
        (body, 0..4u8, ecn.clone(), identification).prop_map(move |(body, path, ecn, identification)| {
            let size = ip.header_bytes()
                + match &body {
                    Body::Foreign(_) | Body::Fragment(_) => unreachable!("not made here"),
                    Body::Mptcp(segment) => segment.tcp.wire_size() + segment.option_bytes,
                    Body::Sctp(packet) => packet.wire_size(),
                    Body::Tcp(segment) => segment.wire_size(),
                    Body::Udp(datagram) => 8 + if datagram.rtp.is_some() { 12 } else { 0 } + datagram.length,
                };
            (ip, Packet { path: PathId(path), ecn, size, body }, identification)
        })
    })
}

/// A receiver that knows what the receiver of this packet knows.
fn receiver(ip: IpVersion, packet: &Packet) -> World {
    let mut world = World::new(ip);
    world.next = packet.body.tcp().map_or(0, |tcp| tcp.payload.offset);
    if let Body::Mptcp(segment) = &packet.body {
        let position = segment.options.data_position.or(segment.options.data_fin);
        // Near the right position, but not there.
        world.near = [position.unwrap_or(0).saturating_sub(100_000), 500_000];
    }
    world.rtp = matches!(packet.body, Body::Udp(Datagram { rtp: Some(_), .. }));
    world
}

/// The first data of a connection comes with the keys, and its place is that in the subflow.
fn expected(mut packet: Packet) -> Packet {
    if let Body::Mptcp(segment) = &mut packet.body
        && segment.tcp.payload.length == 0
        && segment.options.data_fin.is_some()
    {
        segment.options.data_position = None;
    }
    packet
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What is emitted has the size that the simulator counts, and is parsed as it was.
    #[test]
    fn parse_of_emit_is_the_packet((ip, packet, identification) in packets()) {
        let bytes = packet.emit(identification, &World::new(ip));
        prop_assert_eq!(bytes.len(), packet.size as usize);
        let mut world = receiver(ip, &packet);
        let parsed = Packet::parse(&bytes, packet.path, &mut world).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(parsed.addresses, world.addresses(packet.path));
        prop_assert_eq!(parsed.packet, expected(packet));
    }

    /// A bit that flips on the way is noticed wherever it is, except in the fields that no checksum covers.
    #[test]
    fn a_flipped_bit_is_seen((ip, packet, _) in packets(), place in any::<prop::sample::Index>(), bit in 0..8u8) {
        let mut bytes = packet.emit(None, &World::new(ip));
        // IPv6's header has no checksum; its addresses are in that of TCP and UDP.
        let covered = if ip == IpVersion::Ipv4 { 0 } else { 40 };
        let place = covered + place.index(bytes.len() - covered);
        bytes[place] ^= 1 << bit;
        let mut world = receiver(ip, &packet);
        prop_assert!(Packet::parse(&bytes, packet.path, &mut world).is_err());
    }

    /// Packets with right checksums and contents that no end would send: they are parsed or refused without a
    /// panic, and nothing that is made of them is larger than they are.
    #[test]
    fn nonsense_does_no_harm(
        (ip, packet, _) in packets(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in option::of(any::<prop::sample::Index>()),
    ) {
        let world = World::new(ip);
        let mut bytes = packet.emit(None, &world);
        let header = ip.header_bytes() as usize;
        for (place, value) in changes {
            let place = header + place.index(bytes.len() - header);
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(header + cut.index(bytes.len() - header));
        }
        let body = &mut bytes[header..];
        let addresses = world.addresses(packet.path);
        let mut world = receiver(ip, &packet);
        match &packet.body {
            Body::Sctp(_) => {
                if body.len() >= 12 {
                    body[8..12].fill(0);
                    let checksum = crc32c::crc32c(body);
                    body[8..12].copy_from_slice(&checksum.to_le_bytes());
                }
                if let Ok(parsed) = SctpPacket::parse(body, &mut world) {
                    prop_assert!(parsed.packet.wire_size() as usize <= 4 * body.len());
                    // What is understood can be sent again.
                    let mut again = Vec::new();
                    parsed.packet.emit(PathId(0), &world, &mut again);
                }
            }
            Body::Tcp(_) | Body::Mptcp(_) => {
                if body.len() >= 20 {
                    body[16..18].fill(0);
                    let checksum = ones_complement(addresses, ip::TCP, body);
                    body[16..18].copy_from_slice(&checksum.to_be_bytes());
                }
                if let Ok((segment, _)) = Segment::parse(body, addresses, &mut world) {
                    prop_assert!(segment.option_bytes() <= 60);
                }
            }
            _ => {
                let _ = Datagram::parse(body, addresses, &mut world);
            }
        }
    }

    /// Bytes that were never a packet.
    #[test]
    fn noise_does_no_harm(bytes in vec(any::<u8>(), 0..200)) {
        let mut world = World::new(IpVersion::Ipv4);
        let _ = Packet::parse(&bytes, PathId(0), &mut world);
        let _ = SctpPacket::parse(&bytes, &mut world);
    }
}

/// The checksum of TCP (RFC 9293 section 3.1), written for this test.
fn ones_complement([source, destination]: [IpAddr; 2], protocol: u8, body: &[u8]) -> u16 {
    let mut bytes = Vec::new();
    for address in [source, destination] {
        match address {
            IpAddr::V4(address) => bytes.extend(address.octets()),
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
    }
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let sum: u64 = bytes.chunks(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// RFC 9260 appendix A has no example; this is of RFC 3720 appendix B.4: 32 bytes of zeros.
#[test]
fn the_checksum_is_crc32c() {
    assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
}

/// A packet as the Linux kernel sends it, written down by hand from RFC 9260: SHUTDOWN of an association with
/// tag 5.
#[test]
fn a_packet_byte_by_byte() {
    let packet = SctpPacket {
        source_port: 0x1234,
        destination_port: 0x5678,
        verification_tag: 5,
        first: Chunk::Shutdown { cumulative_tsn: 0x0102_0304 },
        rest: Vec::new(),
    };
    let mut bytes = Vec::new();
    packet.emit(PathId(0), &World::new(IpVersion::Ipv4), &mut bytes);
    let checksum = bytes[8..12].to_vec();
    bytes[8..12].fill(0);
    assert_eq!(checksum, crc32c::crc32c(&bytes).to_le_bytes());
    assert_eq!(bytes, [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 5, 0, 0, 0, 0, 7, 0, 0, 8, 1, 2, 3, 4]);
}

/// The bytes of an INIT that names every extension, but addresses that change only where asked to.
fn opening(world: &World, asconf_supported: bool) -> Vec<u8> {
    let init = Init {
        initiate_tag: 1,
        a_rwnd: 1,
        outbound_streams: 1,
        max_inbound_streams: 1,
        initial_tsn: 1,
        addresses: 1,
        ip: IpVersion::Ipv4,
        forward_tsn_supported: true,
        asconf_supported,
        hmac: Hmac::Sha256,
        interleaving_supported: true,
        reconfig_supported: true,
        nr_sack_supported: true,
        names_forward_tsn: true,
        names_address_types: false,
        cookie_preservative: None,
    };
    let packet = SctpPacket {
        source_port: 1,
        destination_port: 2,
        verification_tag: 0,
        first: Chunk::Init(Box::new(init), Box::default()),
        rest: Vec::new(),
    };
    let mut bytes = Vec::new();
    packet.emit(PathId(0), world, &mut bytes);
    bytes
}

/// RFC 9260 section 3.2: a chunk's length has the padding of its parameters, but not that of the last one.
#[test]
fn the_padding_of_the_last_parameter_is_the_chunks() {
    let bytes = opening(&World::new(IpVersion::Ipv4), false);
    // The chunk's header, what every INIT has, FORWARD-TSN, and five types of chunks behind a header.
    let length = 4 + 16 + 4 + (4 + 5);
    assert_eq!(bytes[12..16], [1, 0, 0, length]);
    assert_eq!(bytes.len(), 12 + usize::from(length) + 3);
}

/// RFC 9260 section 3.3.2.1: addresses and the Cookie Preservative have a fixed length. An INIT in which one
/// has another breaks the protocol, and nothing of it is believed.
#[test]
fn a_parameter_of_fixed_length_has_no_other() {
    let (v4, v6, preservative) = (5, 6, 9);
    for (kind, length, is_right) in [
        (v4, 7, false),
        (v4, 8, true),
        (v4, 9, false),
        (v4, 12, false),
        (v4, 20, false),
        (v6, 8, false),
        (v6, 19, false),
        (v6, 20, true),
        (v6, 24, false),
        (preservative, 7, false),
        (preservative, 8, true),
        (preservative, 9, false),
    ] {
        let mut world = World::new(IpVersion::Ipv4);
        let mut bytes = opening(&world, false);
        // Before it another address, which is not believed either where this one is wrong.
        bytes.truncate(12 + 4 + 16);
        bytes.extend([0, v4, 0, 8, 192, 0, 2, 1]);
        bytes.extend([0, kind, 0, length]);
        bytes.resize(bytes.len() + usize::from(length) - 4, 7);
        let chunk_length = bytes.len() - 12;
        bytes[14..16].copy_from_slice(&(chunk_length as u16).to_be_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes[8..12].fill(0);
        let checksum = crc32c::crc32c(&bytes);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        let parsed = SctpPacket::parse(&bytes, &mut world).expect("a packet");
        let is_address = is_right && kind != preservative;
        assert_eq!(
            parsed.addresses.len(),
            usize::from(is_right) + usize::from(is_address),
            "{kind} {length}"
        );
        match parsed.packet.first {
            Chunk::Init(init, _) => {
                assert!(is_right, "{kind} {length}");
                assert_eq!(init.cookie_preservative.is_some(), kind == preservative);
            }
            Chunk::Illegal(illegal) => {
                assert!(!is_right, "{kind} {length}");
                let told = format!("{:?}", illegal.cause);
                assert!(told.contains("13"), "a protocol violation (section 3.3.10.13): {told}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// RFC 4895 section 6.1: both ends make the same key of their vectors, whichever they call their own.
#[test]
fn both_ends_have_the_same_key() {
    let vectors = [9u8, 4].map(|secret| {
        let world = World { secret: Secret([secret; 32]), ..World::new(IpVersion::Ipv4) };
        key_vector(&opening(&world, true)).expect("it authenticates")
    });
    assert_eq!(vectors[0].len(), 36 + 6 + 8);
    assert_ne!(vectors[0], vectors[1]);
    assert_eq!(association_key(&vectors[0], &vectors[1]), association_key(&vectors[1], &vectors[0]));
}

/// RFC 9260 section 5.1.5: a cookie that another host made, or that was changed, opens nothing.
#[test]
fn a_forged_cookie_is_refused() {
    let cookie = StateCookie {
        created_at: Time::ZERO,
        life: Duration::from_secs(60),
        local_tag: 1,
        local_initial_tsn: 2,
        peer: Init {
            initiate_tag: 3,
            a_rwnd: 4,
            outbound_streams: 5,
            max_inbound_streams: 6,
            initial_tsn: 7,
            addresses: 1,
            ip: IpVersion::Ipv4,
            forward_tsn_supported: false,
            asconf_supported: false,
            hmac: Hmac::Sha1,
            interleaving_supported: false,
            reconfig_supported: false,
            nr_sack_supported: false,
            names_forward_tsn: false,
            names_address_types: false,
            cookie_preservative: None,
        },
        tie_tag: None,
        key_bytes: 0,
        keeps_addresses: false,
    };
    let packet = SctpPacket {
        source_port: 1,
        destination_port: 2,
        verification_tag: 1,
        first: Chunk::CookieEcho(Box::new(Cookie::Own(cookie))),
        rest: Vec::new(),
    };
    let mut bytes = Vec::new();
    packet.emit(PathId(0), &World::new(IpVersion::Ipv4), &mut bytes);
    assert!(SctpPacket::parse(&bytes, &mut World::new(IpVersion::Ipv4)).is_ok());
    let mut stranger = World { secret: Secret([8; 32]), ..World::new(IpVersion::Ipv4) };
    let error = SctpPacket::parse(&bytes, &mut stranger).expect_err("it is another's");
    assert_eq!(error.to_string(), "SCTP: a cookie is not ours");
    bytes[12 + 4 + 16] ^= 1;
    bytes[8..12].fill(0);
    let checksum = crc32c::crc32c(&bytes);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    assert!(SctpPacket::parse(&bytes, &mut World::new(IpVersion::Ipv4)).is_err());
}

/// Options of a segment of MPTCP without payload or with one of four bytes, as bytes.
fn options_of(options: Options, option_bytes: u32, length: u32) -> Vec<u8> {
    let tcp = Segment {
        source_port: 1,
        destination_port: 2,
        sequence: 3,
        acknowledgement: 4,
        flags: Flags::ACK,
        window: 5,
        payload: Payload { offset: 0x20, length },
        ..Segment::blank()
    };
    let mut bytes = Vec::new();
    let segment = mptcp::Segment { tcp, options, option_bytes };
    segment.emit(PathId(0), &World::new(IpVersion::Ipv4), &mut bytes);
    bytes[20..].to_vec()
}

/// RFC 8684 section 3.3.1: the checksum of a mapping is over its whole numbers and the payload.
#[test]
fn a_mapping_has_its_checksum() {
    let options = Options { data_position: Some(7), has_checksum: true, ..Options::default() };
    let bytes = options_of(options, 20, 4);
    let first = mptcp::keys::first_data_sequence(World::new(IpVersion::Ipv4).keys[0]);
    let mut covered = first.wrapping_add(7).to_be_bytes().to_vec();
    assert_eq!(bytes[..4], [30, 20, 0x20, 0x04 | 0x08]);
    assert_eq!(bytes[4..12], covered);
    covered.extend([0, 0, 0, 0x21, 0, 4]);
    assert_eq!(bytes[12..18], covered[8..]);
    covered.extend([0, 0, 0x20, 0x21, 0x22, 0x23]);
    let words = covered.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    assert_eq!(bytes[18..20], checksum.to_be_bytes());
    assert_eq!(bytes[20..], [0x20, 0x21, 0x22, 0x23]);
}

/// Section 3.7: data is damaged though TCP's checksum is right.
#[test]
fn a_damaged_mapping_is_known() {
    let options = Options { data_position: Some(7), has_checksum: true, ..Options::default() };
    let world = World::new(IpVersion::Ipv4);
    let parse = |change: u8| {
        let mut bytes = vec![0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0xa0, 0x10, 0, 5, 0, 0, 0, 0];
        bytes.extend(options_of(options, 20, 4));
        *bytes.last_mut().expect("it has a payload") ^= change;
        let checksum = ones_complement(world.addresses(PathId(0)), ip::TCP, &bytes);
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        let mut world = World { next: 0x20, ..world.clone() };
        Segment::parse(&bytes, world.addresses(PathId(0)), &mut world)
    };
    let (_, found) = parse(0).expect("it is a segment");
    assert_eq!(found, Some(options));
    let (_, found) = parse(1).expect("it is a segment");
    assert_eq!(found, Some(Options { is_damaged: true, ..options }));
}

/// RFC 8684 section 3.3: a number of 4 bytes keeps them where there is room for more, and nothing is said of
/// the number of a mapping that is not kept.
#[test]
fn a_short_number_stays_short() {
    let parse = |options: Vec<u8>, words: u8| {
        let mut bytes = vec![0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, words << 4, 0x10, 0, 5, 0, 0, 0, 0];
        bytes.extend(options);
        let mut world = World { next: 0x20, ..World::new(IpVersion::Ipv4) };
        let addresses = world.addresses(PathId(0));
        let checksum = ones_complement(addresses, ip::TCP, &bytes);
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        Segment::parse(&bytes, addresses, &mut world).expect("it is a segment").1
    };
    let mapped = Options { data_position: Some(7), has_short_number: true, ..Options::default() };
    let both = Options { data_ack: Some(9), ..mapped };
    let bytes = options_of(both, 24, 4);
    assert_eq!(bytes[..4], [30, 22, 0x20, 0x01 | 0x02 | 0x04]);
    assert_eq!(parse(bytes, 11), Some(both));
    assert_eq!(parse(options_of(mapped, 16, 0), 9), None);
}

/// RFC 8684 sections 3.4.2, 3.6 and 3.7, byte by byte.
#[test]
fn signals_of_mptcp_byte_by_byte() {
    let signal = |signal| Options { signal: Some(signal), ..Options::default() };
    let addresses = [9, 8].into_iter().collect();
    assert_eq!(options_of(signal(Signal::RemoveAddress { addresses }), 8, 0), [30, 5, 0x40, 9, 8, 1, 1, 1]);
    let reset = Some(Reset { reason: 4, is_transient: true });
    let closing = Options { reset, ..signal(Signal::FastClose) };
    assert_eq!(
        options_of(closing, 16, 0),
        [30, 12, 0x70, 0, 0xf0, 0xe0, 0xd0, 0xc0, 0xb0, 0xa0, 0x90, 0x80, 30, 4, 0x81, 4]
    );
    let failed = options_of(signal(Signal::Fail { position: 5 }), 12, 0);
    let first = mptcp::keys::first_data_sequence(World::new(IpVersion::Ipv4).keys[1]);
    assert_eq!(
        (&failed[..4], &failed[4..]),
        (&[30, 12, 0x60, 0][..], &first.wrapping_add(5).to_be_bytes()[..])
    );
    let announced = Signal::AddAddress { address: 3, is_echo: true, port: Some(0x1234) };
    assert_eq!(options_of(signal(announced), 12, 0), [30, 10, 0x31, 3, 10, 2, 0, 3, 0x12, 0x34, 1, 1]);
}

/// RFC 5061 section 4.2.7: a peer may say in one of two ways that it knows partial reliability.
#[test]
fn partial_reliability_is_offered_in_either_way() {
    for (parameter, is_offered) in [
        (&[0xc0, 0x00, 0x00, 0x04][..], true),
        (&[0x80, 0x08, 0x00, 0x06, 130, 192, 0, 0][..], true),
        (&[0x80, 0x08, 0x00, 0x06, 130, 64, 0, 0][..], false),
    ] {
        let mut bytes = vec![0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20 + parameter.len() as u8];
        bytes.extend([0, 0, 0, 1, 0, 0, 255, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
        bytes.extend(parameter);
        let checksum = crc32c::crc32c(&bytes);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        let parsed = SctpPacket::parse(&bytes, &mut World::new(IpVersion::Ipv4)).expect("a packet");
        let Chunk::Init(init, _) = &parsed.packet.first else { panic!("an INIT") };
        assert_eq!(init.forward_tsn_supported, is_offered);
    }
}
