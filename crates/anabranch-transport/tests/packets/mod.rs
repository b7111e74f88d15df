//! Random packets of every kind that an engine can send.

use anabranch_transport::flow::{Ecn, IpVersion, PathId, Payload};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::mptcp::{Handshake, InfiniteMapping, Join, Options, Reset, Signal};
use anabranch_transport::wire::sctp::SctpPacket;
use anabranch_transport::wire::sctp::authentication::Hmac;
use anabranch_transport::wire::sctp::chunk::{
    Abort, AddressChange, AddressError, AddressRequest, AddressResponse, Asconf, AsconfAck, Chunk, Cookie,
    Data, ErrorCause, ForwardTsn, GapBlock, HeartbeatInfo, IData, IForwardTsn, Init, InitAck, NrSack, Opaque,
    OtherCause, PairMark, Sack, SkippedMessage, SkippedStream, StateCookie,
};
use anabranch_transport::wire::sctp::reconfig::{Reconfig, Reconfiguration};
use anabranch_transport::wire::tcp::{
    AccurateEcn, FastOpen, Flags, RareOptions, SackBlock, SackBlocks, Segment, Timestamps, UnknownOption,
};
use anabranch_transport::wire::udp::Datagram;
use anabranch_transport::wire::{Body, Packet, mptcp, rtcp, rtp};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

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
    let place = (1_000_000..1_000_000_000_000u64, any::<u32>());
    let infinite = (place, any::<(bool, bool)>()).prop_map(
        move |((data, position), (has_short_number, has_checksum))| {
            let infinite = Some(InfiniteMapping { data, position });
            let options = Options { infinite, has_short_number, has_checksum, ..Options::default() };
            (options, if has_short_number { 16 } else { 20 }, ack)
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
    prop_oneof![3 => handshake, 1 => first_data, 3 => dss, 1 => infinite, 3 => with_signal, 1 => reset]
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
                payload: if has_data || options.infinite.is_some() { payload } else { Payload::default() },
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
    // RFC 5761 section 4: with the marker, payload types from 64 to 95 would look like RTCP.
    let kinds = prop_oneof![0..64u8, 96..128u8];
    let rtp = (kinds, any::<(bool, u16, u32, u32)>(), option::of(any::<u16>()));
    (ports(), payloads(), option::of(rtp)).prop_map(
        |((source_port, destination_port), Payload { offset, length }, rtp)| {
            let rtp = rtp.map(|(payload_type, (marker, sequence, timestamp, ssrc), original_sequence)| {
                rtp::Header { marker, payload_type, sequence, timestamp, ssrc, original_sequence }
            });
            Body::Udp(Datagram { source_port, destination_port, offset, length, rtp })
        },
    )
}

fn report_block() -> impl Strategy<Value = rtcp::ReportBlock> {
    (any::<[u32; 5]>(), any::<u8>(), -(1 << 23)..1 << 23).prop_map(
        |([source, highest_sequence, jitter, last_sender_report, delay_since], fraction_lost, lost)| {
            rtcp::ReportBlock {
                source,
                fraction_lost,
                cumulative_lost: lost,
                highest_sequence,
                jitter,
                last_sender_report,
                delay_since,
            }
        },
    )
}

fn rtcp_packet() -> impl Strategy<Value = rtcp::Packet> {
    let metric = option::of((prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ce)], 0..9_000u64));
    let metric = metric.prop_map(|arrival| {
        arrival.map_or(rtcp::Metric::MISSING, |(ecn, offset)| rtcp::Metric::arrived(ecn, offset))
    });
    let stream = (any::<(u32, u16)>(), vec(metric, 0..20))
        .prop_map(|((ssrc, begin), metrics)| rtcp::StreamReport { ssrc, begin, metrics });
    let blocks = || vec(report_block(), 0..4);
    prop_oneof![
        (any::<(u32, u32)>(), vec(stream, 0..3)).prop_map(|((sender, timestamp), streams)| {
            rtcp::Packet::CongestionFeedback(rtcp::CongestionFeedback { sender, streams, timestamp })
        }),
        (any::<(u32, u32)>(), vec(any::<(u16, u16)>(), 0..5)).prop_map(|((sender, media), lost)| {
            let lost = lost.into_iter().map(|(sequence, following)| rtcp::Lost { sequence, following });
            rtcp::Packet::Nack(rtcp::Nack { sender, media, lost: lost.collect() })
        }),
        any::<(u32, u32)>().prop_map(|(sender, media)| rtcp::Packet::PictureLoss { sender, media }),
        (any::<u32>(), blocks()).prop_map(|(sender, blocks)| rtcp::Packet::ReceiverReport { sender, blocks }),
        (any::<(u32, u64)>(), any::<[u32; 3]>(), blocks()).prop_map(
            |((sender, ntp), [rtp_timestamp, packets, octets], blocks)| {
                let info = rtcp::SenderInfo { ntp, rtp_timestamp, packets, octets };
                rtcp::Packet::SenderReport { sender, info, blocks }
            }
        ),
        (any::<u32>(), vec(any::<u8>(), 0..40))
            .prop_map(|(source, cname)| rtcp::Packet::SourceDescription { source, cname }),
    ]
}

fn rtcp_datagrams() -> impl Strategy<Value = Body> {
    (ports(), vec(rtcp_packet(), 1..4)).prop_map(|((source_port, destination_port), packets)| {
        Body::Rtcp(Box::new(rtcp::Datagram { source_port, destination_port, packets }))
    })
}

pub(crate) fn packets() -> impl Strategy<Value = (IpVersion, Packet, Option<u16>)> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    ips().prop_flat_map(move |ip| {
        let body = prop_oneof![
            3 => sctp_packets(ip),
            2 => segments().prop_map(Body::Tcp),
            2 => mptcp_segments(ip),
            1 => datagrams(),
            1 => rtcp_datagrams(),
        ];
        let identification = option::of(any::<u16>());
        (body, 0..4u8, ecn.clone(), identification).prop_map(move |(body, path, ecn, identification)| {
            let size = ip.header_bytes()
                + match &body {
                    Body::Foreign(_) | Body::Fragment(_) => unreachable!("not made here"),
                    Body::Mptcp(segment) => segment.tcp.wire_size() + segment.option_bytes,
                    Body::Sctp(packet) => packet.wire_size(),
                    Body::Tcp(segment) => segment.wire_size(),
                    Body::Quic(datagram) => datagram.wire_size(),
                    Body::Rtcp(datagram) => datagram.bytes(),
                    Body::Udp(datagram) => datagram.header_bytes() + datagram.length,
                };
            (ip, Packet { path: PathId(path), ecn, size, body }, identification)
        })
    })
}
