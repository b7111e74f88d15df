//! QUIC under real protection, with secrets and messages of TLS that are made up (RFC 9001): whoever is told
//! the secrets decrypts it.

use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter, Write as _};

use anabranch_transport::flow::{Payload, Side};
use anabranch_transport::quic::Config;
use anabranch_transport::rng::Draw;
use anabranch_transport::wire::quic::{
    ConnectionId, Content, EarlyData, Fields, Frame, Keys, Level, Packet, Parameters, Part, Real,
};

/// Extensions of TLS.
mod extension {
    pub(super) const SUPPORTED_GROUPS: u16 = 10;
    pub(super) const SIGNATURE_ALGORITHMS: u16 = 13;
    pub(super) const PADDING: u16 = 21;
    pub(super) const EARLY_DATA: u16 = 42;
    pub(super) const SUPPORTED_VERSIONS: u16 = 43;
    pub(super) const KEY_SHARE: u16 = 51;
    pub(super) const QUIC_TRANSPORT_PARAMETERS: u16 = 57;
}

/// Messages of TLS (RFC 8446 section 4, RFC 8879 section 4).
mod message {
    pub(super) const CLIENT_HELLO: u8 = 1;
    pub(super) const SERVER_HELLO: u8 = 2;
    pub(super) const ENCRYPTED_EXTENSIONS: u8 = 8;
    pub(super) const CERTIFICATE_VERIFY: u8 = 15;
    pub(super) const FINISHED: u8 = 20;
    pub(super) const COMPRESSED_CERTIFICATE: u8 = 25;
}

const TLS_1_2: [u8; 2] = [3, 3];
const TLS_1_3: [u8; 2] = [3, 4];
/// `TLS_CHACHA20_POLY1305_SHA256`.
const SUITE: [u8; 2] = [0x13, 0x03];
const X25519: [u8; 2] = [0, 29];
const ED25519: [u8; 2] = [8, 7];
/// A way of compressing that is nobody's, so that readers leave the certificates alone (RFC 8879 section
/// 7.3).
const PRIVATE_COMPRESSION: [u8; 2] = [0xff, 0];

/// The secrets that protect packets, in the order of [`LABELS`].
const SECRETS: usize = 5;
/// As lines of an SSLKEYLOGFILE name them.
const LABELS: [&str; SECRETS] = [
    "CLIENT_EARLY_TRAFFIC_SECRET",
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
];

/// Connections that may still send, besides the last one: each is over before the next begins.
const MOST_OPENED: usize = 4;

/// How many bytes of TLS each side, A being the client, sends at the levels Initial and Handshake.
pub(super) type Sizes = [[usize; 2]; 2];

/// Those of an endpoint with these settings, and how much of it certificates are.
pub(super) fn sizes(config: &Config) -> (Sizes, usize) {
    let messages = config.handshake.unwrap_or_default();
    let flight = messages.certificate.0 + messages.server_rest.0;
    let sizes = [[messages.client_hello.0, messages.client_finished.0], [messages.server_hello.0, flight]];
    (sizes.map(|sizes| sizes.map(|size| size as usize)), messages.certificate.0 as usize)
}

/// The connections of a flow, one after the other, with secrets in common.
pub(super) struct Connections {
    sizes: Sizes,
    /// The part of the server's flight that it leaves out where it knows a ticket.
    certificate: usize,
    /// The random numbers of `ClientHello` and `ServerHello`.
    randoms: [[u8; 32]; 2],
    secrets: [[u8; 32]; SECRETS],
    /// The last one is the last here.
    opened: VecDeque<Connection>,
}

/// A connection of the capture.
struct Connection {
    /// What the client calls itself until the handshake is over.
    client: ConnectionId,
    /// Whether it has answered a Retry packet.
    has_retried: bool,
    /// By side.
    keys: [Keys<Real>; 2],
    /// The bytes of TLS by side and level, once something of them has been sent.
    handshake: [[Option<Vec<u8>>; 2]; 2],
}

impl Debug for Connections {
    /// Without keys.
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connections").field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

impl Connections {
    pub(super) fn new(rng: &mut impl Draw, (sizes, certificate): (Sizes, usize)) -> Self {
        let mut bytes = || {
            let mut bytes = [0; 32];
            bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&rng.bits().to_be_bytes()));
            bytes
        };
        let (randoms, secrets) = ([bytes(), bytes()], [(); SECRETS].map(|()| bytes()));
        Self { sizes, certificate, randoms, secrets, opened: VecDeque::new() }
    }

    /// The secrets, as lines of an SSLKEYLOGFILE (draft-ietf-tls-keylogfile).
    pub(super) fn key_log(&self) -> String {
        let mut lines = String::new();
        for (label, secret) in LABELS.iter().zip(&self.secrets) {
            let _ = writeln!(lines, "{label} {} {}", hex(&self.randoms[0]), hex(secret));
        }
        lines
    }

    /// Appends what a datagram carries that one side sends; `data` appends what the application has sent.
    pub(super) fn emit(
        &mut self,
        side: Side,
        content: &Content,
        data: impl Fn(Payload, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let Content::Packets(packets) = content else {
            content.emit(&mut Keys::<Real>::default(), &mut OfPacket { messages: &[], data: &data }, out);
            return;
        };
        for packet in packets {
            let (sizes, certificate, randoms) = (self.sizes, self.certificate, self.randoms);
            let connection = self.connection_of(side, packet);
            let has_crypto = packet.frames.iter().any(|frame| matches!(frame, Frame::Crypto { .. }));
            let place = match packet.level {
                Level::Initial if has_crypto => Some(0),
                Level::Handshake if has_crypto => Some(1),
                _ => None,
            };
            if let Some(place) = place {
                let (mut size, random) = (sizes[side.index()][place], &randoms[side.index()]);
                if packet.parameters.as_ref().is_some_and(|said| said.early_data == EarlyData::Accepted) {
                    size -= certificate;
                }
                connection.say(side, place, size, random, packet.parameters.as_deref());
            }
            let said = place.and_then(|place| connection.handshake[side.index()][place].as_deref());
            let mut fields = OfPacket { messages: said.unwrap_or_default(), data: &data };
            connection.keys[side.index()].seal(std::slice::from_ref(packet), &mut fields, out);
        }
    }

    /// The connection to which a packet belongs. A client's Initial packet begins one if nothing is known of
    /// the client, and changes the keys of Initial packets if it answers a Retry packet (RFC 9001 section
    /// 5.2).
    fn connection_of(&mut self, side: Side, packet: &Packet) -> &mut Connection {
        let client = if side == Side::A { packet.source } else { packet.destination };
        let is_named = packet.level != Level::OneRtt;
        let known = self.opened.iter().rposition(|connection| is_named && connection.client == client);
        let is_first = side == Side::A && packet.level == Level::Initial;
        let place = match known {
            Some(place) => place,
            None if self.opened.is_empty() || is_first => {
                if self.opened.len() == MOST_OPENED {
                    self.opened.pop_front();
                }
                self.opened.push_back(Connection::new(&self.secrets, client, packet.destination));
                self.opened.len() - 1
            }
            // The secrets of packets with short headers are the same for all.
            None => self.opened.len() - 1,
        };
        let connection = &mut self.opened[place];
        let answers_retry = is_first && !packet.token.is_empty() && !connection.has_retried;
        if answers_retry {
            connection.has_retried = true;
            connection.set_initial(packet.destination);
        }
        connection
    }
}

impl Connection {
    fn new(secrets: &[[u8; 32]; SECRETS], client: ConnectionId, first: ConnectionId) -> Self {
        let keys = [[0, 1, 3], [0, 2, 4]].map(|[early, handshake, data]: [usize; 3]| {
            let mut keys = Keys::default();
            for (level, which) in
                [(Level::ZeroRtt, early), (Level::Handshake, handshake), (Level::OneRtt, data)]
            {
                keys.sealing[level as usize] = Some(Real::of_secret(secrets[which]));
            }
            keys
        });
        let mut connection = Self { client, keys, has_retried: false, handshake: Default::default() };
        connection.set_initial(first);
        connection
    }

    /// Makes the keys of Initial packets from where the client sends them.
    fn set_initial(&mut self, destination: ConnectionId) {
        for (keys, is_client) in self.keys.iter_mut().zip([true, false]) {
            keys.set(Level::Initial, Real::initial(destination, is_client));
        }
    }

    /// Makes what a side says at the level Initial, 0, or Handshake, 1: so many bytes.
    fn say(
        &mut self,
        side: Side,
        level: usize,
        size: usize,
        random: &[u8; 32],
        parameters: Option<&Parameters>,
    ) {
        self.handshake[side.index()][level].get_or_insert_with(|| {
            let mut extension = Vec::new();
            let mut is_early = false;
            if let Some(parameters) = parameters {
                parameters.emit(&mut extension);
                is_early = parameters.early_data != EarlyData::None;
            }
            let mut bytes = match (side, level) {
                (Side::A, 0) => client_hello(random, &extension, is_early, size),
                (Side::B, 0) => server_hello(random, size),
                (Side::A, _) => finished(size),
                (Side::B, _) if is_early => resumed_flight(&extension, size),
                (Side::B, _) => server_flight(&extension, size),
            };
            bytes.resize(size, 0);
            bytes
        });
    }
}

/// What a packet carries.
struct OfPacket<'a, D> {
    messages: &'a [u8],
    data: &'a D,
}

impl<D: Fn(Payload, &mut Vec<u8>)> Fields for OfPacket<'_, D> {
    fn append(&mut self, part: Part, data: Payload, out: &mut Vec<u8>) {
        match part {
            Part::Crypto => {
                let end = out.len() + data.length as usize;
                let bytes = self.messages.get(data.offset as usize..).unwrap_or_default();
                out.extend(&bytes[..bytes.len().min(data.length as usize)]);
                out.resize(end, 0);
            }
            Part::Datagram | Part::Stream(_) => (self.data)(data, out),
        }
    }

    fn keep(&mut self, _: Part, _: u64, _: &[u8]) -> u64 {
        0
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Bytes that have their length in front, in as many bytes as `width` says.
fn sized(width: usize, bytes: &[u8]) -> Vec<u8> {
    let mut all = (bytes.len() as u32).to_be_bytes()[4 - width..].to_vec();
    all.extend(bytes);
    all
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &sized(3, body)].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &sized(2, body)].concat()
}

/// A hello of `size` bytes if that is enough: what is missing is padding, or the ID of a session.
fn hello(kind: u8, random: &[u8; 32], middle: &[u8], extensions: &[u8], size: usize) -> Vec<u8> {
    /// An extension's type and length.
    const HEADER: usize = 4;
    let with = |session: usize, padding: Option<usize>| {
        let mut extensions = extensions.to_vec();
        if let Some(padding) = padding {
            extensions.extend(extension(extension::PADDING, &vec![0; padding]));
        }
        let session = sized(1, &random[..session]);
        let body = [&TLS_1_2[..], random, &session, middle, &sized(2, &extensions)].concat();
        message(kind, &body)
    };
    match size.saturating_sub(with(0, None).len()) {
        missing @ 0..HEADER => with(missing, None),
        missing => with(0, Some(missing - HEADER)),
    }
}

/// RFC 8446 section 4.1.2.
fn client_hello(random: &[u8; 32], parameters: &[u8], is_early: bool, size: usize) -> Vec<u8> {
    let share = [&X25519[..], &sized(2, random)].concat();
    let early_data = if is_early { extension(extension::EARLY_DATA, &[]) } else { Vec::new() };
    let extensions = [
        early_data,
        extension(extension::SUPPORTED_GROUPS, &sized(2, &X25519)),
        extension(extension::SIGNATURE_ALGORITHMS, &sized(2, &ED25519)),
        extension(extension::SUPPORTED_VERSIONS, &sized(1, &TLS_1_3)),
        extension(extension::KEY_SHARE, &sized(2, &share)),
        extension(extension::QUIC_TRANSPORT_PARAMETERS, parameters),
    ];
    // One suite, and no compression.
    let middle = [sized(2, &SUITE), sized(1, &[0])].concat();
    hello(message::CLIENT_HELLO, random, &middle, &extensions.concat(), size)
}

/// RFC 8446 section 4.1.3.
fn server_hello(random: &[u8; 32], size: usize) -> Vec<u8> {
    let share = [&X25519[..], &sized(2, random)].concat();
    let extensions =
        [extension(extension::KEY_SHARE, &share), extension(extension::SUPPORTED_VERSIONS, &TLS_1_3)];
    let middle = [&SUITE[..], &[0]].concat();
    hello(message::SERVER_HELLO, random, &middle, &extensions.concat(), size)
}

/// RFC 8446 section 4.4.4.
fn finished(size: usize) -> Vec<u8> {
    message(message::FINISHED, &vec![0xfd; size.saturating_sub(4)])
}

/// What a server says in Handshake packets that knows the client's ticket and takes early data (RFC 8446
/// sections 2.2 and 4.2.10).
fn resumed_flight(parameters: &[u8], size: usize) -> Vec<u8> {
    let extensions =
        [extension(extension::EARLY_DATA, &[]), extension(extension::QUIC_TRANSPORT_PARAMETERS, parameters)];
    let begin = message(message::ENCRYPTED_EXTENSIONS, &sized(2, &extensions.concat()));
    let rest = size.saturating_sub(begin.len());
    [begin, finished(rest)].concat()
}

/// What the server says in Handshake packets; the certificates take what the rest leaves.
fn server_flight(parameters: &[u8], size: usize) -> Vec<u8> {
    /// Of SHA-256: with its header.
    const FINISHED_BYTES: usize = 36;
    /// A compressed certificate's header with the least that may be in it.
    const LEAST_CERTIFICATES: usize = 4 + 2 + 3 + 3 + 1;
    let extensions = extension(extension::QUIC_TRANSPORT_PARAMETERS, parameters);
    let begin = message(message::ENCRYPTED_EXTENSIONS, &sized(2, &extensions));
    let signature = [&ED25519[..], &sized(2, &[0x51; 64])].concat();
    let verify = message(message::CERTIFICATE_VERIFY, &signature);
    let finished = finished(FINISHED_BYTES);
    let rest = size.saturating_sub(begin.len() + verify.len() + finished.len());
    if rest < LEAST_CERTIFICATES {
        return [begin, self::finished(finished.len() + verify.len() + rest)].concat();
    }
    let compressed = vec![0xce; rest - (LEAST_CERTIFICATES - 1)];
    let length = &(compressed.len() as u32).to_be_bytes()[1..];
    let body = [&PRIVATE_COMPRESSION[..], length, &sized(3, &compressed)].concat();
    [begin, message(message::COMPRESSED_CERTIFICATE, &body), verify, finished].concat()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::process::Command;
    use std::time::Duration;

    use anabranch_transport::flow::Ecn;
    use anabranch_transport::rng::Streams;
    use anabranch_transport::wire::quic::{Ack, Stream};
    use anabranch_transport::wire::{ip, udp};
    use pcap_file::pcapng::PcapNgWriter;
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
    use pcap_file::{DataLink, Endianness};

    use super::*;
    use crate::capture::file::secrets;

    const SIZES: Sizes = [[241, 36], [90, 2400]];

    fn connections() -> Connections {
        Connections::new(&mut Streams { seed: 7, replication: 0 }.stream("capture/quic"), (SIZES, 2000))
    }

    fn id(byte: u8) -> ConnectionId {
        ConnectionId::new(&[byte; 8]).unwrap()
    }

    fn parameters() -> Parameters {
        Parameters { initial_max_data: 1 << 20, initial_source: Some(id(1)), ..Parameters::default() }
    }

    fn packet(level: Level, side: Side, number: u64, frames: Vec<Frame>) -> Packet {
        // The client's first packet goes to an ID that it has made up.
        let (client, server, first) = (id(1), id(2), id(3));
        let (destination, source) = match side {
            Side::A if level == Level::Initial && number == 0 => (first, client),
            Side::A => (server, client),
            Side::B => (client, server),
        };
        let source = if level == Level::OneRtt { ConnectionId::default() } else { source };
        let token = Box::default();
        let (frames, parameters) = (frames.into(), Some(Box::new(parameters())));
        Packet {
            level,
            destination,
            source,
            token,
            path_id: 0,
            number,
            number_bytes: 2,
            key_phase: false,
            key_updates: 0,
            frames,
            parameters,
        }
    }

    fn crypto(start: u64, end: u64) -> Frame {
        let data = Payload { offset: start, length: (end - start) as u32 };
        Frame::Crypto { position: start, data }
    }

    fn ack(last: u64) -> Frame {
        let ranges = [(0, last)].into_iter().collect();
        Frame::Ack(Box::new(Ack { ranges, delay: 3, ..Ack::default() }))
    }

    fn stream(id: u64, position: u64, length: u32, fin: bool) -> Frame {
        let data = Payload { offset: position, length };
        Frame::Stream(Stream { id, position, data, fin, has_length: true })
    }

    /// A connection from its first packet to its last.
    fn datagrams() -> Vec<(Side, Vec<Packet>)> {
        let padding = |length| Frame::Padding { length };
        let (initial, handshake, data) = (Level::Initial, Level::Handshake, Level::OneRtt);
        let (a, b) = (Side::A, Side::B);
        vec![
            (a, vec![packet(initial, a, 0, vec![crypto(0, 241), padding(900)])]),
            (
                b,
                vec![
                    packet(initial, b, 0, vec![ack(0), crypto(0, 90)]),
                    packet(handshake, b, 0, vec![crypto(0, 900)]),
                ],
            ),
            (b, vec![packet(handshake, b, 1, vec![crypto(900, 2000)])]),
            (b, vec![packet(handshake, b, 2, vec![crypto(2000, 2400)])]),
            (a, vec![packet(initial, a, 1, vec![ack(0), padding(1100)])]),
            (
                a,
                vec![
                    packet(handshake, a, 0, vec![ack(2), crypto(0, 36)]),
                    packet(data, a, 0, vec![stream(0, 0, 600, false)]),
                ],
            ),
            (b, vec![packet(data, b, 0, vec![ack(0), Frame::HandshakeDone, stream(0, 0, 1000, true)])]),
            (a, vec![packet(data, a, 1, vec![ack(0), stream(0, 600, 1, true), stream(4, 0, 70, true)])]),
            (a, vec![packet(data, a, 2, vec![Frame::ConnectionClose { code: 0, frame: None, reason: 3 }])]),
        ]
    }

    /// The capture of the connection.
    fn capture(connection: &mut Connections, datagrams: Vec<(Side, Vec<Packet>)>) -> Vec<u8> {
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), Endianness::Little).unwrap();
        let interface =
            InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 65_535, options: Vec::new() };
        writer.write_pcapng_block(interface).unwrap();
        writer.write_pcapng_block(secrets(&connection.key_log())).unwrap();
        for (index, (side, packets)) in datagrams.into_iter().enumerate() {
            let (mut ports, mut addresses) = ([49_152, 443], ["2001:db8::1", "2001:db8::2"]);
            if side == Side::B {
                (ports, addresses) = ([443, 49_152], ["2001:db8::2", "2001:db8::1"]);
            }
            let addresses = addresses.map(|address| address.parse().unwrap());
            let mut body = Vec::new();
            let data = |data: Payload, out: &mut Vec<u8>| out.resize(out.len() + data.length as usize, b'x');
            let content = Content::Packets(packets.into());
            udp::wrap(ports, addresses, &mut body, |out| connection.emit(side, &content, data, out));
            assert_eq!(body.len(), content.size() + udp::HEADER_BYTES as usize);
            let bytes = ip::wrap(ip::UDP, addresses, Ecn::NotEct, None, &body);
            let block = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_millis(index as u64),
                original_len: bytes.len() as u32,
                data: Cow::Owned(bytes),
                options: Vec::new(),
            };
            writer.write_pcapng_block(block).unwrap();
        }
        writer.into_inner()
    }

    fn tshark(file: &[u8], name: &str, arguments: &[&str]) -> String {
        let path = std::env::temp_dir().join(format!("anabranch-{name}-{}.pcapng", std::process::id()));
        std::fs::write(&path, file).unwrap();
        let mut command = Command::new("tshark");
        let output = command.arg("-r").arg(&path).args(arguments).output().expect("it is installed");
        let _ = std::fs::remove_file(&path);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// tshark is told the secrets by the file, and finds the frames and messages that were sent.
    #[test]
    fn tshark_decrypts_a_connection() {
        if Command::new("tshark").arg("--version").output().is_err() {
            println!("left out: tshark is not installed");
            return;
        }
        let file = capture(&mut connections(), datagrams());
        let fields = ["-T", "fields", "-E", "separator=;", "-e", "quic.frame_type"];
        let messages = ["-e", "tls.handshake.type"];
        let said = tshark(&file, "quic", &[&fields[..], &messages[..]].concat());
        let padding = |count: usize| ",0".repeat(count);
        let expected = [
            format!("6{};1", padding(1)),
            "2,6,6;2,8".to_owned(),
            "6;".to_owned(),
            "6;25,15,20".to_owned(),
            format!("2{};", padding(1)),
            "2,6,10;20".to_owned(),
            "2,30,11;".to_owned(),
            "2,15,11;".to_owned(),
            "29;".to_owned(),
        ];
        assert_eq!(said.lines().collect::<Vec<_>>(), expected);
        let wrong = "_ws.malformed || _ws.expert.severity >= 0x600000 || quic.decryption_failed";
        let check = ["-o", "udp.check_checksum:TRUE", "-Y", wrong, "-V"];
        assert_eq!(tshark(&file, "quic-wrong", &check), "");
        // Who is not told sees only the beginning.
        let other = Connections { secrets: [[1; 32]; SECRETS], ..connections() };
        let lines = connections().key_log();
        let place = file.windows(lines.len()).position(|part| part == lines.as_bytes()).unwrap();
        let mut untold = file.clone();
        untold[place..][..lines.len()].copy_from_slice(other.key_log().as_bytes());
        let said = tshark(&untold, "quic-untold", &fields);
        assert_eq!(said.lines().skip(2).filter(|line| !line.is_empty()).count(), 1, "{said}");
    }

    /// tshark follows updates of the keys (RFC 9001 section 6), also where packets of the phase before are
    /// seen behind the first ones of the next.
    #[test]
    fn tshark_follows_key_updates() {
        if Command::new("tshark").arg("--version").output().is_err() {
            println!("left out: tshark is not installed");
            return;
        }
        let mut all = datagrams();
        all.truncate(6);
        let phases = [0, 0, 1, 1, 1, 0, 0, 1].map(|phase| phase == 1);
        for side in [Side::A, Side::B] {
            for (number, key_phase) in (10..).zip(phases) {
                let packet = packet(Level::OneRtt, side, number, vec![Frame::Ping; 20]);
                all.push((side, vec![Packet { key_phase, ..packet }]));
            }
        }
        let file = capture(&mut connections(), all);
        let said =
            tshark(&file, "quic-update", &["-T", "fields", "-e", "quic.key_phase", "-e", "quic.frame_type"]);
        let expected = phases.map(|phase| format!("{}\t{}", u8::from(phase), ["1"; 20].join(",")));
        let lines: Vec<&str> = said.lines().skip(6).collect();
        assert_eq!(lines, [&expected[..], &expected[..]].concat());
        assert_eq!(tshark(&file, "quic-update-wrong", &["-Y", "quic.decryption_failed", "-V"]), "");
    }

    /// Messages have the sizes that are asked for, if these are not too small for them.
    #[test]
    fn messages_have_the_sizes_that_are_asked_for() {
        let extension = vec![7; 60];
        for size in [241, 242, 243, 244, 245, 300, 2_000] {
            assert_eq!(client_hello(&[1; 32], &extension, size > 300, size).len(), size);
            assert_eq!(finished(size).len(), size);
            assert_eq!(server_flight(&extension, size).len(), size);
            assert_eq!(resumed_flight(&extension, size).len(), size);
        }
        for size in [90, 91, 92, 93, 94, 1_200] {
            assert_eq!(server_hello(&[1; 32], size).len(), size);
        }
        assert!(client_hello(&[1; 32], &extension, false, 1).len() < 241);
    }

    /// The data of the frames that are opened.
    struct Kept(Vec<u8>);

    impl Fields for Kept {
        fn append(&mut self, _: Part, _: Payload, _: &mut Vec<u8>) {}

        fn keep(&mut self, _: Part, _: u64, bytes: &[u8]) -> u64 {
            self.0.extend(bytes);
            0
        }
    }

    /// An end sends again what it has sent: other packets have the same bytes.
    #[test]
    fn what_is_sent_again_is_the_same() {
        let mut connection = connections();
        let mut server = Keys::default();
        server.set(Level::Initial, Real::initial(id(3), false));
        let mut kept = [0, 1].map(|number| {
            let frames = vec![crypto(100 * number, 241), Frame::Padding { length: 900 }];
            let (mut bytes, mut kept) = (Vec::new(), Kept(Vec::new()));
            // They go to the same ID, as long as the server has not named its own.
            let packet = Packet { destination: id(3), ..packet(Level::Initial, Side::A, number, frames) };
            let content = Content::Packets([packet].into_iter().collect());
            connection.emit(Side::A, &content, |_, _| {}, &mut bytes);
            let parsed = Content::parse(&mut bytes, 8, &mut server, &mut kept).unwrap();
            assert_eq!((parsed.forged, parsed.violation), (0, None));
            kept.0
        });
        assert_eq!(kept[0].split_off(100), kept[1]);
        assert_eq!(kept[0][..6], [message::CLIENT_HELLO, 0, 0, 237, 3, 3]);
    }
}
