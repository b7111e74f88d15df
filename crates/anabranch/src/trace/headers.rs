//! The headers of packets in words, for a reader. Values are those on the wire; only SACK's Gap Ack Blocks
//! are told as TSNs, and places in payloads as those in the application's stream.

use std::borrow::Cow;

use anabranch_transport::flow::{Ecn, Payload};
use anabranch_transport::wire::mptcp::{Handshake, Join, Options, Signal};
use anabranch_transport::wire::sctp::chunk::{Chunk, ErrorCause, GapBlock, Init, Sack};
use anabranch_transport::wire::tcp::{Flags, Segment};
use anabranch_transport::wire::udp::{self, Datagram};
use anabranch_transport::wire::{Body, Packet, mptcp, quic, rtcp, sctp, tcp};
use serde::Serialize;

/// The packets of a run as their hosts sent them, each at its row of the table `packets`.
#[derive(Clone, Debug, Default)]
pub struct SentPackets {
    pub(super) packets: Vec<Packet>,
    /// Which of them is at each row.
    pub(super) order: Vec<u32>,
}

impl SentPackets {
    /// The headers of the packet at a row, the outermost first; none where there is no such row.
    pub fn headers(&self, row: usize) -> Option<Vec<Header>> {
        self.order.get(row).map(|&number| headers(&self.packets[number as usize]))
    }
}

/// A header, a chunk of SCTP or a frame of QUIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Header {
    /// What it is.
    pub name: Cow<'static, str>,
    /// Its length in bytes, with the payload that is counted in a chunk or a frame.
    pub bytes: u32,
    /// Its fields, in about the order of the wire, each with its value.
    pub fields: Fields,
}

type Fields = Vec<(&'static str, String)>;

/// The headers of a packet, the outermost first.
fn headers(packet: &Packet) -> Vec<Header> {
    let (mut inner, payload) = match &packet.body {
        // Nobody who reads a packet trace has one: a fragment is made on the way.
        Body::Foreign(_) | Body::Fragment(_) => (Vec::new(), 0),
        Body::Mptcp(mptcp::Segment { tcp, options, option_bytes }) => {
            let option =
                Header { name: "MPTCP options".into(), bytes: *option_bytes, fields: of_mptcp(options) };
            (vec![of_tcp(tcp), option], tcp.payload.length)
        }
        Body::Quic(datagram) => (of_quic(datagram), 0),
        Body::Sctp(packet) => {
            let common = vec![
                ("source port", packet.source_port.to_string()),
                ("destination port", packet.destination_port.to_string()),
                ("verification tag", format!("{:#010x}", packet.verification_tag)),
            ];
            let bytes = sctp::COMMON_HEADER_BYTES;
            let mut all = vec![Header { name: "SCTP common header".into(), bytes, fields: common }];
            all.extend(packet.chunks().map(of_chunk));
            (all, 0)
        }
        Body::Tcp(segment) => (vec![of_tcp(segment)], segment.payload.length),
        Body::Rtcp(datagram) => (of_rtcp(datagram), 0),
        Body::Udp(datagram) => (of_udp(datagram), datagram.length),
    };
    let bytes = packet.size - payload - inner.iter().map(|header| header.bytes).sum::<u32>();
    let ecn = match packet.ecn {
        Ecn::Ce => "congestion experienced",
        Ecn::Ect0 => "ECT(0)",
        Ecn::Ect1 => "ECT(1)",
        Ecn::NotEct => "not ECN-capable",
    };
    let fields = vec![("length of the packet", format!("{} B", packet.size)), ("ECN", ecn.into())];
    inner.insert(0, Header { name: if bytes == 40 { "IPv6" } else { "IPv4" }.into(), bytes, fields });
    inner
}

fn payload_of(Payload { offset, length }: Payload) -> String {
    format!("{length} B from byte {offset} of the stream on")
}

fn of_udp(datagram: &Datagram) -> Vec<Header> {
    let Datagram { source_port, destination_port, offset, length, rtp } = *datagram;
    let fields = vec![
        ("source port", source_port.to_string()),
        ("destination port", destination_port.to_string()),
        ("payload", payload_of(Payload { offset, length })),
    ];
    let mut all = vec![Header { name: "UDP".into(), bytes: udp::HEADER_BYTES, fields }];
    if let Some(rtp) = rtp {
        let mut fields =
            vec![("sequence number", rtp.sequence.to_string()), ("timestamp", rtp.timestamp.to_string())];
        if let Some(original) = rtp.original_sequence {
            fields.push(("original sequence number", original.to_string()));
        }
        all.push(Header { name: "RTP".into(), bytes: rtp.bytes(), fields });
    }
    all
}

/// A UDP header, and each packet of RTCP.
fn of_rtcp(datagram: &rtcp::Datagram) -> Vec<Header> {
    let fields = vec![
        ("source port", datagram.source_port.to_string()),
        ("destination port", datagram.destination_port.to_string()),
    ];
    let udp = Header { name: "UDP".into(), bytes: udp::HEADER_BYTES, fields };
    let packets = datagram.packets.iter().map(|packet| {
        let (name, fields) = match packet {
            rtcp::Packet::CongestionFeedback(feedback) => {
                let streams = feedback.streams.iter().map(|stream| {
                    let arrived = stream.metrics.iter().filter(|metric| metric.arrival().is_some()).count();
                    let (begin, count) = (stream.begin, stream.metrics.len());
                    format!("source {:#010x}: {arrived} of {count} from number {begin} on", stream.ssrc)
                });
                ("RTCP congestion control feedback", vec![("arrived", joined(streams))])
            }
            rtcp::Packet::Nack(nack) => {
                let missing = joined(nack.sequences().map(|sequence| sequence.to_string()));
                ("RTCP NACK", vec![("source", format!("{:#010x}", nack.media)), ("missing", missing)])
            }
            rtcp::Packet::PictureLoss { media, .. } => {
                ("RTCP picture loss indication", vec![("source", format!("{media:#010x}"))])
            }
            rtcp::Packet::ReceiverReport { blocks, .. } => ("RTCP receiver report", of_blocks(blocks)),
            rtcp::Packet::SenderReport { info, blocks, .. } => {
                let mut fields = vec![
                    ("timestamp", info.rtp_timestamp.to_string()),
                    ("packets", info.packets.to_string()),
                    ("bytes of payload", info.octets.to_string()),
                ];
                fields.extend(of_blocks(blocks));
                ("RTCP sender report", fields)
            }
            rtcp::Packet::SourceDescription { cname, .. } => {
                let name = String::from_utf8_lossy(cname).into_owned();
                ("RTCP source description", vec![("name", name)])
            }
        };
        Header { name: name.into(), bytes: packet.bytes(), fields }
    });
    std::iter::once(udp).chain(packets).collect()
}

fn of_blocks(blocks: &[rtcp::ReportBlock]) -> Fields {
    let blocks = blocks.iter().map(|block| {
        let (source, lost, highest) = (block.source, block.cumulative_lost, block.highest_sequence);
        format!("source {source:#010x}: {lost} lost, highest number {highest}")
    });
    vec![("arrived", joined(blocks))]
}

/// A UDP header, and each packet with its frames behind it.
fn of_quic(datagram: &quic::Datagram) -> Vec<Header> {
    let fields = vec![
        ("source port", datagram.source_port.to_string()),
        ("destination port", datagram.destination_port.to_string()),
    ];
    let mut all = vec![Header { name: "UDP".into(), bytes: udp::HEADER_BYTES, fields }];
    let alone = match datagram.content {
        quic::Content::OtherVersion { .. } => Some("QUIC packet of another version"),
        quic::Content::Packets(_) => None,
        quic::Content::Reset { .. } => Some("QUIC stateless reset"),
        quic::Content::Retry { .. } => Some("QUIC Retry packet"),
        quic::Content::VersionNegotiation { .. } => Some("QUIC Version Negotiation packet"),
    };
    all.extend(alone.map(|name| Header {
        name: name.into(),
        bytes: datagram.payload_bytes(),
        fields: Vec::new(),
    }));
    for packet in datagram.packets() {
        let name = match packet.level {
            quic::Level::Initial => "QUIC Initial packet",
            quic::Level::ZeroRtt => "QUIC 0-RTT packet",
            quic::Level::Handshake => "QUIC Handshake packet",
            quic::Level::OneRtt => "QUIC 1-RTT packet",
        };
        let mut fields = vec![
            ("destination connection ID", format!("{:?}", packet.destination)),
            ("packet number", packet.number.to_string()),
        ];
        if packet.key_phase {
            fields.push(("key phase", "1".to_owned()));
        }
        if packet.level != quic::Level::OneRtt {
            fields.push(("source connection ID", format!("{:?}", packet.source)));
        }
        all.push(Header { name: name.into(), bytes: packet.overhead() as u32, fields });
        all.extend(packet.frames.iter().map(|frame| Header {
            name: frame.name().to_uppercase().into(),
            bytes: frame.size() as u32,
            fields: of_frame(frame),
        }));
    }
    all
}

fn of_frame(frame: &quic::Frame) -> Fields {
    let number = |name, value: u64| (name, value.to_string());
    let path = |path: Option<u32>| path.map(|path| number("path ID", path.into()));
    let data = |position: u64, length: u32| ("data", format!("{length} B from byte {position} on"));
    let answer = |data: &[u8; 8]| vec![("data", format!("{:#018x}", u64::from_be_bytes(*data)))];
    match frame {
        quic::Frame::Ack(ack) => {
            let runs = ack.ranges.iter().map(|(first, last)| {
                if first == last { first.to_string() } else { format!("{first} to {last}") }
            });
            let marks = ack.ecn.map(|[ect0, ect1, ce]| format!("ECT(0) {ect0}, ECT(1) {ect1}, CE {ce}"));
            let mut fields: Fields = path(ack.path).into_iter().collect();
            fields.extend([("packets", joined(runs)), number("delay, in units of its exponent", ack.delay)]);
            fields.extend(marks.map(|marks| ("ECN counts", marks)));
            fields
        }
        quic::Frame::AckFrequency { sequence, threshold, delay, reordering } => vec![
            number("sequence number", *sequence),
            number("packets without an acknowledgement", *threshold),
            ("delay", format!("{delay} us")),
            number("reordering threshold", *reordering),
        ],
        quic::Frame::ConnectionClose { code, .. } => vec![("code", format!("{code:#x}"))],
        quic::Frame::Crypto { position, data: bytes } => vec![data(*position, bytes.length)],
        quic::Frame::DataBlocked { limit } | quic::Frame::MaxData { limit } => vec![number("limit", *limit)],
        quic::Frame::Datagram { data, .. } => vec![("data", format!("{} B", data.length))],
        quic::Frame::MaxPathId { limit } | quic::Frame::PathsBlocked { limit } => {
            vec![number("greatest path ID", u64::from(*limit))]
        }
        quic::Frame::MaxStreamData { stream, limit } | quic::Frame::StreamDataBlocked { stream, limit } => {
            vec![number("stream", *stream), number("limit", *limit)]
        }
        quic::Frame::MaxStreams { is_bidirectional, limit }
        | quic::Frame::StreamsBlocked { is_bidirectional, limit } => {
            let directions = if *is_bidirectional { "both" } else { "one" };
            vec![("directions", directions.to_owned()), number("streams in all", *limit)]
        }
        quic::Frame::NewConnectionId { path: of, sequence, retire_prior_to, id, .. } => {
            let mut fields: Fields = path(*of).into_iter().collect();
            fields.extend([number("sequence number", *sequence), number("retire before", *retire_prior_to)]);
            fields.push(("connection ID", format!("{id:?}")));
            fields
        }
        quic::Frame::PathAbandon { path, code } => {
            vec![number("path ID", u64::from(*path)), ("code", format!("{code:#x}"))]
        }
        quic::Frame::PathChallenge { data } | quic::Frame::PathResponse { data } => answer(data),
        quic::Frame::PathCidsBlocked { path, next } => {
            vec![number("path ID", u64::from(*path)), number("next sequence number", *next)]
        }
        quic::Frame::PathStatus { path, sequence, .. } => {
            vec![number("path ID", u64::from(*path)), number("sequence number", *sequence)]
        }
        quic::Frame::ResetStream { stream, code, final_size } => {
            vec![number("stream", *stream), ("code", format!("{code:#x}")), number("final size", *final_size)]
        }
        quic::Frame::RetireConnectionId { path: of, sequence } => {
            path(*of).into_iter().chain([number("sequence number", *sequence)]).collect()
        }
        quic::Frame::StopSending { stream, code } => {
            vec![number("stream", *stream), ("code", format!("{code:#x}"))]
        }
        quic::Frame::Stream(stream) => {
            let mut fields = vec![number("stream", stream.id), data(stream.position, stream.data.length)];
            fields.extend(stream.fin.then(|| ("end", "yes".to_owned())));
            fields
        }
        quic::Frame::HandshakeDone
        | quic::Frame::ImmediateAck
        | quic::Frame::NewToken { .. }
        | quic::Frame::Padding { .. }
        | quic::Frame::Ping => Fields::new(),
    }
}

/// Control bits with their names, in the order of the header.
const FLAGS: [(Flags, &str); 8] = [
    (Flags::AE, "AE"),
    (Flags::CWR, "CWR"),
    (Flags::ECE, "ECE"),
    (Flags::ACK, "ACK"),
    (Flags::PSH, "PSH"),
    (Flags::RST, "RST"),
    (Flags::SYN, "SYN"),
    (Flags::FIN, "FIN"),
];

fn of_tcp(segment: &Segment) -> Header {
    let flags = FLAGS.iter().filter(|(flag, _)| segment.flags.has(*flag)).map(|(_, name)| *name);
    let mut fields = vec![
        ("source port", segment.source_port.to_string()),
        ("destination port", segment.destination_port.to_string()),
        ("sequence number", segment.sequence.to_string()),
    ];
    if segment.flags.has(Flags::ACK) {
        fields.push(("acknowledgement number", segment.acknowledgement.to_string()));
    }
    fields.push(("flags", joined(flags)));
    fields.push(("window field", segment.window.to_string()));
    fields.extend(segment.mss.map(|mss| ("maximum segment size", format!("{mss} B"))));
    fields.extend(segment.window_scale.map(|scale| ("window scale", scale.to_string())));
    if segment.sack_permitted {
        fields.push(("SACK permitted", "yes".into()));
    }
    if let Some(tcp::Timestamps { value, echo }) = segment.timestamps {
        fields.push(("timestamps", format!("value {value}, echo {echo}")));
    }
    if !segment.sack.is_empty() {
        let blocks = segment.sack.iter().map(|block| format!("{} up to {}", block.start, block.end));
        fields.push(("SACK blocks", joined(blocks)));
    }
    if let Some(rare) = segment.rare.as_ref() {
        fields.push(("other options", format!("{} B", rare.wire_bytes())));
    }
    if segment.padding > 0 {
        fields.push(("padding", format!("{} B", segment.padding)));
    }
    if segment.payload.length > 0 {
        fields.push(("payload", payload_of(segment.payload)));
    }
    Header { name: "TCP".into(), bytes: segment.wire_size() - segment.payload.length, fields }
}

fn of_mptcp(options: &Options) -> Fields {
    let mut fields = Fields::new();
    match options.handshake {
        Some(Handshake::Capable { sender_key, receiver_key }) => {
            let keys = [("sender's key", sender_key), ("receiver's key", receiver_key)];
            let keys = keys.iter().filter_map(|(name, key)| key.map(|key| format!("{name} {key:#018x}")));
            let keys = joined(keys);
            fields.push(("MP_CAPABLE", if keys.is_empty() { "without keys".into() } else { keys }));
        }
        Some(Handshake::Join(join)) => fields.push((
            "MP_JOIN",
            match join {
                Join::Syn { token, nonce, address, is_backup } => {
                    format!(
                        "token {token:#010x}, nonce {nonce:#010x}, address {address}{}",
                        backup(is_backup)
                    )
                }
                Join::Answer { nonce, address, is_backup, .. } => {
                    format!("code, nonce {nonce:#010x}, address {address}{}", backup(is_backup))
                }
                Join::Third { .. } => "code".into(),
            },
        )),
        None => {}
    }
    let positions = [
        ("data acknowledgement", options.data_ack),
        ("mapping: place in the connection's stream", options.data_position),
        ("DATA_FIN", options.data_fin),
    ];
    fields.extend(positions.iter().filter_map(|(name, place)| place.map(|place| (*name, place.to_string()))));
    if options.has_checksum {
        fields.push(("checksum", "yes".into()));
    }
    fields.extend(options.signal.map(|signal| match signal {
        Signal::AddAddress { address, is_echo, .. } => {
            ("ADD_ADDR", format!("address {address}{}", if is_echo { ", echo" } else { "" }))
        }
        Signal::Fail { position } => ("MP_FAIL", format!("from byte {position} on")),
        Signal::FastClose => ("MP_FASTCLOSE", "yes".into()),
        Signal::Priority { is_backup } => ("MP_PRIO", if is_backup { "backup" } else { "regular" }.into()),
        Signal::RemoveAddress { addresses } => {
            ("REMOVE_ADDR", joined(addresses.iter().map(|address| format!("address {address}"))))
        }
    }));
    fields.extend(options.reset.map(|reset| ("MP_TCPRST", format!("reason {}", reset.reason))));
    fields
}

const fn backup(is_backup: bool) -> &'static str {
    if is_backup { ", backup" } else { "" }
}

fn of_chunk(chunk: &Chunk) -> Header {
    let (name, fields) = match chunk {
        Chunk::Abort(abort) => {
            ("ABORT", abort.cause.iter().map(|cause| ("cause", cause_of(cause))).collect())
        }
        Chunk::Asconf(asconf) => {
            let requests = asconf.requests.iter().map(|it| format!("{:?} path {}", it.change, it.path.0));
            let fields = vec![("serial number", asconf.serial.to_string()), ("requests", joined(requests))];
            ("ASCONF", fields)
        }
        Chunk::AsconfAck(ack) => {
            let errors = ack.responses.iter().filter_map(|it| it.error).map(|error| format!("{error:?}"));
            let mut fields = vec![("serial number", ack.serial.to_string())];
            fields.extend(Some(("errors", joined(errors))).filter(|(_, errors)| !errors.is_empty()));
            ("ASCONF-ACK", fields)
        }
        Chunk::Auth(hmac) => ("AUTH", vec![("HMAC", format!("{hmac:?}"))]),
        Chunk::CookieAck => ("COOKIE ACK", Fields::new()),
        Chunk::CookieEcho(_) => ("COOKIE ECHO", Fields::new()),
        Chunk::Data(data) => {
            let mut fields = vec![("TSN", data.tsn.to_string()), ("stream", data.stream.to_string())];
            if !data.unordered {
                fields.push(("stream sequence number", data.ssn.to_string()));
            }
            fields.push(("flags", bits([data.unordered, data.beginning, data.ending, data.immediate])));
            fields.push(("payload protocol", data.ppid.to_string()));
            fields.push(("payload", payload_of(data.payload)));
            ("DATA", fields)
        }
        Chunk::Error(cause) => ("ERROR", vec![("cause", cause_of(cause))]),
        Chunk::ForwardTsn(forward) => {
            let streams = forward.streams.iter().map(|it| format!("stream {} to {}", it.stream, it.ssn));
            let mut fields = vec![("new cumulative TSN", forward.new_cumulative_tsn.to_string())];
            fields.extend(Some(("skipped", joined(streams))).filter(|(_, streams)| !streams.is_empty()));
            ("FORWARD TSN", fields)
        }
        Chunk::Heartbeat(info) => ("HEARTBEAT", vec![("sent at", info.sent_at.to_string())]),
        Chunk::HeartbeatAck(info) => ("HEARTBEAT ACK", vec![("heartbeat sent at", info.sent_at.to_string())]),
        Chunk::IData(data) => {
            let mut fields = vec![
                ("TSN", data.tsn.to_string()),
                ("stream", data.stream.to_string()),
                ("message identifier", data.mid.to_string()),
                ("flags", bits([data.unordered, data.beginning, data.ending, data.immediate])),
            ];
            fields.push(if data.beginning {
                ("payload protocol", data.ppid.to_string())
            } else {
                ("fragment sequence number", data.fsn.to_string())
            });
            fields.push(("payload", payload_of(data.payload)));
            ("I-DATA", fields)
        }
        Chunk::IForwardTsn(forward) => {
            let messages = forward.messages.iter().map(|it| format!("stream {} to {}", it.stream, it.mid));
            let mut fields = vec![("new cumulative TSN", forward.new_cumulative_tsn.to_string())];
            fields.extend(Some(("skipped", joined(messages))).filter(|(_, messages)| !messages.is_empty()));
            ("I-FORWARD-TSN", fields)
        }
        Chunk::Illegal(_) => ("a chunk that breaks the protocol", Fields::new()),
        Chunk::Init(init, _) => ("INIT", of_init(init)),
        Chunk::InitAck(ack) => ("INIT ACK", of_init(&ack.init)),
        Chunk::Opaque(opaque) => ("another chunk", vec![("type", opaque.kind.to_string())]),
        Chunk::Reconfig(_) => ("RE-CONFIG", Fields::new()),
        Chunk::NrSack(packets, nr_sack) => {
            ("NR-SACK", acknowledgement(*packets, &nr_sack.sack, &nr_sack.final_blocks))
        }
        Chunk::Sack(packets, sack) => ("SACK", acknowledgement(*packets, sack, &[])),
        Chunk::Shutdown { cumulative_tsn } => {
            ("SHUTDOWN", vec![("cumulative TSN", cumulative_tsn.to_string())])
        }
        Chunk::ShutdownAck => ("SHUTDOWN ACK", Fields::new()),
        Chunk::ShutdownComplete { .. } => ("SHUTDOWN COMPLETE", Fields::new()),
    };
    Header { name: name.into(), bytes: chunk.wire_size(), fields }
}

/// The fields of SACK and NR-SACK.
fn acknowledgement(packets: u8, sack: &Sack, final_blocks: &[GapBlock]) -> Fields {
    let at = |offset: u16| sack.cumulative_tsn.wrapping_add(offset.into());
    let blocks =
        |blocks: &[GapBlock]| joined(blocks.iter().map(|it| format!("{} to {}", at(it.start), at(it.end))));
    let mut fields = vec![
        ("cumulative TSN", sack.cumulative_tsn.to_string()),
        ("receiver window", format!("{} B", sack.a_rwnd)),
    ];
    let lists = [
        ("Gap Ack Blocks", blocks(&sack.gap_blocks)),
        ("Non-Renegable Gap Ack Blocks", blocks(final_blocks)),
        ("duplicate TSNs", joined(sack.duplicates.iter().map(u32::to_string))),
    ];
    fields.extend(lists.into_iter().filter(|(_, list)| !list.is_empty()));
    if packets > 0 {
        fields.push(("packets since the last SACK", packets.to_string()));
    }
    fields
}

fn of_init(init: &Init) -> Fields {
    let extensions = [
        (init.forward_tsn_supported, "partial reliability"),
        (init.asconf_supported, "ASCONF"),
        (init.interleaving_supported, "I-DATA"),
        (init.reconfig_supported, "RE-CONFIG"),
        (init.nr_sack_supported, "NR-SACK"),
    ];
    let extensions = joined(extensions.iter().filter(|(is_there, _)| *is_there).map(|(_, name)| *name));
    let mut fields = vec![
        ("initiate tag", format!("{:#010x}", init.initiate_tag)),
        ("receiver window", format!("{} B", init.a_rwnd)),
        ("outbound streams", init.outbound_streams.to_string()),
        ("inbound streams at most", init.max_inbound_streams.to_string()),
        ("initial TSN", init.initial_tsn.to_string()),
        ("addresses", init.addresses.to_string()),
    ];
    fields.extend(Some(("extensions", extensions)).filter(|(_, extensions)| !extensions.is_empty()));
    fields
}

/// The flags of DATA and I-DATA.
fn bits(flags: [bool; 4]) -> String {
    let names = ["U (unordered)", "B (first fragment)", "E (last fragment)", "I (acknowledge at once)"];
    let set = names.iter().zip(flags).filter(|(_, is_set)| *is_set).map(|(name, _)| *name);
    Some(joined(set)).filter(|set| !set.is_empty()).unwrap_or_else(|| "none".into())
}

fn cause_of(cause: &ErrorCause) -> String {
    match cause {
        ErrorCause::IllegalAsconfAck => "illegal ASCONF-ACK".into(),
        ErrorCause::StaleCookie { staleness } => format!("stale cookie, by {staleness}"),
        ErrorCause::UserInitiatedAbort => "user-initiated abort".into(),
        ErrorCause::Other(other) => format!("code {}", other.code),
        _ => "another one".into(),
    }
}

fn joined<T: AsRef<str>>(words: impl Iterator<Item = T>) -> String {
    let mut all = String::new();
    for word in words {
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(word.as_ref());
    }
    all
}
