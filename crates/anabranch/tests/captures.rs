//! Captures: our own parsers and, where it is installed, tshark understand every packet; captures show what
//! the packet trace says; and writing one changes no result.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use anabranch::scenario::Scenario;
use anabranch::sim::{Outcome, Simulation};
use anabranch::trace::Column;
use anabranch_transport::flow::PathId;
use anabranch_transport::wire::bytes::{Piece, Receiving, Secret};
use anabranch_transport::wire::mptcp::context::MptcpReceiving;
use anabranch_transport::wire::sctp::context::SctpReceiving;
use anabranch_transport::wire::{Packet, ip};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use proptest::prelude::*;

use crate::random_scenario;

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A packet of a capture.
struct Seen {
    at: u64,
    interface: u32,
    is_outbound: bool,
    comment: Option<String>,
    bytes: Vec<u8>,
}

fn scenario(text: &str) -> Scenario {
    random_scenario::study(text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}")).scenario
}

fn captured(scenario: &Scenario, trace: bool) -> (Outcome, Vec<u8>) {
    captured_at(scenario, trace, None).unwrap()
}

/// The same at one node.
fn captured_at(scenario: &Scenario, trace: bool, node: Option<&str>) -> Result<(Outcome, Vec<u8>), String> {
    let memory = Memory::default();
    let sink = Box::new(memory.clone());
    let simulation = Simulation::build_captured(scenario, 0, trace, sink, node.map(str::to_owned))
        .map_err(|error| error.to_string())?;
    let outcome = simulation.run(&mut || None).map_err(|error| error.to_string())?;
    let bytes = std::mem::take(&mut *memory.0.lock().unwrap());
    Ok((outcome, bytes))
}

fn packets(file: &[u8]) -> (Vec<String>, Vec<Seen>) {
    let mut reader = PcapNgReader::new(file).unwrap();
    let (mut interfaces, mut packets) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => interfaces.push(format!("{:?}", interface.options)),
            Block::EnhancedPacket(packet) => {
                let (mut is_outbound, mut comment) = (false, None);
                for option in &packet.options {
                    match option {
                        EnhancedPacketOption::Flags(flags) => is_outbound = *flags == 2,
                        EnhancedPacketOption::Comment(text) => comment = Some(text.to_string()),
                        other => panic!("{other:?}"),
                    }
                }
                packets.push(Seen {
                    at: packet.timestamp.as_nanos() as u64,
                    interface: packet.interface_id,
                    is_outbound,
                    comment,
                    bytes: packet.data.to_vec(),
                });
            }
            Block::NameResolution(_) => {}
            // The secrets of QUIC.
            Block::Unknown(block) if block.type_ == 10 => {}
            other => panic!("{other:?}"),
        }
    }
    (interfaces, packets)
}

/// A receiver that knows no secret of the ends.
struct Stranger(Secret);

impl Receiving for Stranger {
    fn keep(&mut self, _piece: Piece, _bytes: &[u8]) -> u64 {
        0
    }

    fn keep_stream(&mut self, _sequence: u32, _bytes: &[u8]) -> u64 {
        0
    }
}

impl SctpReceiving for Stranger {
    fn path_to(&self, _address: IpAddr) -> Option<PathId> {
        Some(PathId(0))
    }

    fn secret(&self) -> &Secret {
        &self.0
    }

    fn association_key(&self) -> Option<&[u8]> {
        None
    }
}

impl MptcpReceiving for Stranger {}

/// What the parsers say about a packet: nothing, or what only its ends can know.
fn check(seen: &Seen) -> Result<(), String> {
    match Packet::parse(&seen.bytes, PathId(0), &mut Stranger(Secret([0; 32]))) {
        Ok(parsed) if parsed.packet.size as usize == seen.bytes.len() => Ok(()),
        Ok(_) => Err("another size".into()),
        Err(error) => match error.problem {
            "a cookie is not ours" | "an AUTH chunk without an association" | "it is a fragment" => Ok(()),
            _ => Err(error.to_string()),
        },
    }
}

fn text<'a>(outcome: &'a Outcome, column: &str) -> Vec<&'a str> {
    let table = outcome.tables.iter().find(|table| table.name == "packets").expect("it was traced");
    let column = table.columns.iter().find(|(name, _)| *name == column).expect("the column is there");
    let Column::Text(values) = &column.1 else { panic!("{column:?}") };
    values.iter().map(AsRef::as_ref).collect()
}

/// Counts of each word.
fn counts<'a>(words: impl Iterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    words.for_each(|word| *counts.entry(word.to_owned()).or_insert(0) += 1);
    counts
}

fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { 24 };
    ProptestConfig { cases, ..asked }
}

proptest! {
    #![proptest_config(config())]

    /// The row is that of a run without a capture, packets come in the order of their times, and each is a
    /// packet.
    #[test]
    fn capturing_changes_nothing_and_gives_packets(text in random_scenario::text()) {
        let scenario = scenario(&text);
        let plain = Simulation::build(&scenario, 0, false).unwrap().run(&mut || None).unwrap();
        let (outcome, file) = captured(&scenario, false);
        for (name, value) in plain.row.scalars() {
            prop_assert_eq!(Some(value.to_bits()), outcome.row.value(name).map(f64::to_bits), "{} {}", name, text);
        }
        let (interfaces, packets) = packets(&file);
        prop_assert_eq!(interfaces.len(), 2 * scenario.links.len());
        prop_assert!(packets.is_sorted_by_key(|seen| seen.at));
        for seen in &packets {
            prop_assert!(check(seen).is_ok(), "{:?} {:02x?} {}", check(seen), seen.bytes, text);
            prop_assert!(seen.comment.is_none() || seen.is_outbound);
        }
        // A second run gives the same bits.
        prop_assert!(captured(&scenario, true).1 == file);
    }
}

const TWO_HOPS: &str = r#"
    run.duration = "20 s"
    [links.first]
    ends = ["a", "m"]
    rate = "1 Mbit/s"
    delay = "10 ms"
    queue = { kind = "codel", packets = 20 }
    loss = { kind = "bernoulli", probability = "1 %" }
    [links.second]
    ends = ["m", "b"]
    rate = "0.9 Mbit/s"
    delay = "10 ms"
    queue = { kind = "drop_tail", packets = 5 }
    duplicate = "1 %"
    [paths.only]
    via = ["first", "second"]
    [flows.load]
    from = "a"
    to = "b"
    paths = ["only"]
    transport.kind = "tcp"
    app = { kind = "bulk", bytes = "1 MB" }
"#;

/// What enters the first link is what was sent, what leaves the last one is what was delivered, and every
/// drop has its comment.
#[test]
fn a_capture_shows_what_the_packet_trace_says() {
    let (outcome, file) = captured(&scenario(TWO_HOPS), true);
    let (_, packets) = packets(&file);
    // Links are numbered as they are written, and their ends: 0 to 3.
    let seen = |interface: u32, is_outbound: bool| {
        packets.iter().filter(move |seen| (seen.interface, seen.is_outbound) == (interface, is_outbound))
    };
    let fates = counts(text(&outcome, "fate").into_iter());
    let sides = counts(text(&outcome, "side").into_iter());
    let sent = seen(0, true).count() + seen(3, true).count();
    let arrived = seen(0, false).count() + seen(3, false).count();
    assert_eq!(arrived, fates["delivered"]);
    let duplicates = ["link.second.forward.duplicated_packets", "link.second.reverse.duplicated_packets"];
    let duplicates: f64 = duplicates.iter().map(|name| outcome.row.value(name).unwrap()).sum();
    assert!(duplicates > 0.0);
    assert_eq!(sent + duplicates as usize, sides.values().sum::<usize>());
    let comments = counts(packets.iter().filter_map(|seen| seen.comment.as_deref()));
    let expected = BTreeMap::from([
        ("dropped here: by the queue discipline, before the queue was full".to_owned(), fates["aqm"]),
        ("dropped here: lost on the link".to_owned(), fates["lost"]),
        ("dropped here: the queue is full".to_owned(), fates["queue_full"]),
    ]);
    assert_eq!(comments, expected);
    // What the first link lets through comes to the second one.
    assert_eq!(seen(1, false).count(), seen(2, true).count());
}

/// A run that ends early ends with all links at the same moment, though packets that cross links without a
/// delay are sent on at the very end.
#[test]
fn a_capture_changes_no_counter_behind_links_without_delay() {
    for (transport, app) in [
        ("tcp", "{ kind = \"bulk\", bytes = \"300 B\" }"),
        ("mptcp", "{ kind = \"responsiveness\", count = 1 }"),
        ("sctp", "{ kind = \"requests\", count = 10 }"),
    ] {
        let links = ["a\", \"b", "b\", \"c", "c\", \"d"].map(|ends| format!("{{ ends = [\"{ends}\"] }}"));
        let text = format!(
            "run.duration = \"3 s\"\nlinks = {{ l0 = {}, l1 = {}, l2 = {} }}\n\
            paths.p.via = [\"l0\", \"l1\", \"l2\"]\n\
            [flows.f]\nfrom = \"a\"\nto = \"d\"\npaths = [\"p\"]\n\
            transport.kind = \"{transport}\"\napp = {app}",
            links[0], links[1], links[2]
        );
        let scenario = scenario(&text);
        let plain = Simulation::build(&scenario, 0, false).unwrap().run(&mut || None).unwrap();
        let (with_capture, _) = captured(&scenario, false);
        let values = |outcome: &Outcome| -> Vec<(String, u64)> {
            let scalars = outcome.row.scalars();
            scalars.map(|(name, value)| (name.to_owned(), value.to_bits())).collect()
        };
        assert_eq!(values(&plain), values(&with_capture), "{text}");
    }
}

/// A link with a small MTU: the fragments are seen, whole packets no more; put together they are the packet.
#[test]
fn fragments_are_those_of_their_packet() {
    let text = TWO_HOPS
        .replace("[links.second]", "[links.second]\nmtu = \"576 B\"")
        .replace("duplicate = \"1 %\"", "")
        .replace("loss = { kind = \"bernoulli\", probability = \"1 %\" }", "");
    let (_, file) = captured(&scenario(&text), false);
    let (_, packets) = packets(&file);
    let whole = packets.iter().find(|seen| seen.interface == 1 && seen.bytes.len() == 1_500).unwrap();
    let number = &whole.bytes[4..6];
    let mut pieces: Vec<&Seen> = packets
        .iter()
        .filter(|seen| seen.interface == 2 && seen.is_outbound && &seen.bytes[4..6] == number)
        .filter(|seen| seen.at == whole.at)
        .collect();
    pieces.sort_by_key(|seen| u16::from_be_bytes([seen.bytes[6], seen.bytes[7]]) & 0x1fff);
    assert_eq!(pieces.iter().map(|seen| seen.bytes.len()).collect::<Vec<_>>(), [572, 572, 396]);
    assert!(packets.iter().all(|seen| seen.interface < 2 || seen.bytes.len() <= 576));
    let payload: Vec<u8> = pieces.iter().flat_map(|seen| &seen.bytes[20..]).copied().collect();
    assert_eq!(payload, whole.bytes[20..]);
    let flags: Vec<u8> = pieces.iter().map(|seen| seen.bytes[6] >> 5).collect();
    assert_eq!(flags, [1, 1, 0], "more fragments, but for the last one");
}

/// All packets of a flow have its codepoint, and those of others have none.
#[test]
fn packets_have_the_codepoint_of_their_flow() {
    for kind in ["tcp", "mptcp", "sctp", "quic"] {
        for version in ["ipv4", "ipv6"] {
            let flow = |name: &str, more: &str| {
                format!(
                    "[flows.{name}]\nfrom = \"a\"\nto = \"b\"\npaths = [\"only\"]\nip = \"{version}\"\n\
                     transport.kind = \"{kind}\"\napp = {{ kind = \"bulk\", bytes = \"20 kB\" }}\n{more}\n"
                )
            };
            let text = format!(
                "run.duration = \"2 s\"\npaths.only.via = [\"only\"]\n[links.only]\nends = [\"a\", \"b\"]\n\
                 rate = \"5 Mbit/s\"\n{}{}",
                flow("marked", "dscp = \"ef\""),
                flow("plain", "")
            );
            let (outcome, file) = captured(&scenario(&text), true);
            let sent: Vec<Seen> = packets(&file).1.into_iter().filter(|seen| seen.is_outbound).collect();
            let with = |number| sent.iter().filter(|seen| ip::dscp(&seen.bytes).number() == number).count();
            let traced = counts(self::text(&outcome, "flow").into_iter());
            assert_eq!([with(46), with(0)], [traced["marked"], traced["plain"]], "{kind}, {version}");
            assert!(traced["marked"] > 20);
        }
    }
}

/// Payload types, clocks and steps of RTP are those of the codec, in pauses, too.
#[test]
fn rtp_is_that_of_the_codec() {
    for (codec, payload_type, step) in [
        ("g711+plc", 0, 160),
        ("g729", 18, 160),
        ("g722", 9, 160),
        ("amr-wb-12.65", 96, 320),
        ("opus-24", 96, 960),
        ("opus-nb-11", 96, 960),
    ] {
        let text = format!(
            "seed = 1\n[run]\nduration = \"20 s\"\n[links.wan]\nends = [\"a\", \"b\"]\ndelay = \"10 ms\"\n\
             [paths.only]\nvia = [\"wan\"]\n[flows.call]\nfrom = \"a\"\nto = \"b\"\npaths = [\"only\"]\n\
             transport = {{ kind = \"udp\", rtp = true }}\n\
             [flows.call.app]\nkind = \"voip\"\ncodec = \"{codec}\"\nie = 10.0\nbpl = 10.0\n\
             packetisation = \"20 ms\"\nstart = \"1 s\"\n\
             duration = \"10 s\"\ntalk_spurts = {{}}\n"
        );
        let (_, file) = captured(&scenario(&text), false);
        let (_, packets) = packets(&file);
        let sent: Vec<&Seen> = packets.iter().filter(|seen| seen.is_outbound).collect();
        assert!(sent.len() > 100, "{codec}: {}", sent.len());
        let mut pauses = 0;
        for pair in sent.windows(2) {
            let [before, after] = [pair[0], pair[1]].map(|seen| {
                let header = &seen.bytes[28..40];
                assert_eq!(header[..2], [0x80, payload_type], "{codec}");
                let stamp = u32::from_be_bytes(header[4..8].try_into().unwrap());
                (u16::from_be_bytes([header[2], header[3]]), stamp, seen.at)
            });
            assert_eq!(after.0, before.0 + 1, "{codec}");
            assert_eq!(u64::from(after.1), after.2 * 50 * step / 1_000_000_000, "{codec}");
            if after.2 - before.2 == 20_000_000 {
                assert_eq!(u64::from(after.1 - before.1), step, "{codec}");
            } else {
                pauses += 1;
            }
        }
        assert!(pauses > 0, "{codec} never pauses");
    }
}

/// A capture at one node has what that node sends and receives, and no other interface.
#[test]
fn a_capture_at_one_node_shows_no_packet_twice() {
    let whole = scenario(TWO_HOPS);
    let (interfaces, all) = packets(&captured(&whole, false).1);
    let at = |node: &str| captured_at(&whole, false, Some(node)).map(|(_, file)| packets(&file));
    let (own, seen) = at("a").unwrap();
    assert_eq!((own.len(), &own[0]), (1, &interfaces[0]));
    let wanted: Vec<_> =
        all.iter().filter(|one| one.interface == 0).map(|one| (one.at, &one.bytes)).collect();
    assert_eq!(seen.iter().map(|one| (one.at, &one.bytes)).collect::<Vec<_>>(), wanted);
    assert!(seen.iter().all(|one| one.interface == 0));
    let (middle, _) = at("m").unwrap();
    assert_eq!(middle.len(), 2);
    let error = at("nowhere").err().unwrap();
    assert_eq!(error, "pcap_at: no link ends at \"nowhere\"; links end at a, b, m");
}

/// A file that cannot be written ends the run with a sentence.
#[test]
fn a_full_disk_is_said() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            if self.0 > 100_000 { Err(io::Error::other("no space is left")) } else { Ok(bytes.len()) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let simulation =
        Simulation::build_captured(&scenario(TWO_HOPS), 0, false, Box::new(Full(0)), None).unwrap();
    let error = simulation.run(&mut || None).unwrap_err().to_string();
    assert!(error.ends_with("the capture cannot be written: no space is left"), "{error}");
}

/// A capture as a file, for a program; it goes with this. Tests run at the same time, each with its own.
struct File(PathBuf);

impl File {
    fn new(capture: &[u8]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("anabranch-{process}-{number}.pcapng"));
        std::fs::write(&path, capture).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The problems that tshark finds in a capture: malformed packets, and wrong checksums.
fn tshark(file: &[u8]) -> Option<Vec<String>> {
    let file = File::new(file);
    let mut command = Command::new("tshark");
    for check in [
        "sctp.checksum:crc-32c",
        "tcp.check_checksum:TRUE",
        "udp.check_checksum:TRUE",
        "ip.check_checksum:TRUE",
    ] {
        command.args(["-o", check]);
    }
    // The first bytes of every stream, 0, 1, 2, 3, are a request of STUN to tshark if their number is right.
    for protocol in ["classicstun", "stun"] {
        command.args(["--disable-protocol", protocol]);
    }
    // tshark 4.0 tries to decrypt 0-RTT packets with AES-128-GCM alone.
    let wrong = "(_ws.malformed || _ws.expert.severity >= 0x600000 || sctp.checksum.status == 0 \
                 || quic.decryption_failed) && !(quic.long.packet_type == 1)";
    let command = command.arg("-r").arg(&file.0).args(["-Y", wrong, "-V"]);
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    // What a scenario causes: reordering, losses, duplicates, and connections that are reset. And the padding
    // of MPTCP's options, which is Linux's: two and two, which tshark adds up. Of a Retry that it sees at
    // both ends, tshark checks the first sight only.
    let expected = [
        "Cannot verify Retry Packet due to unknown ODCID",
        "4 NOP in a row",
        "sequence number",
        "retransmi",
        "Duplicate",
        "segment",
        "Connection reset",
        "TSN",
        "keep-alive",
        "window",
        "D-SACK",
    ];
    let alarms = ["[Expert Info (Error", "[Expert Info (Warning", "Malformed"];
    let said = said.lines().filter(|line| alarms.iter().any(|alarm| line.contains(alarm)));
    let said = said.filter(|line| !expected.iter().any(|known| line.contains(known)));
    let mut said: Vec<String> = said.map(str::to_owned).collect();
    let has_no_cipher = |line: &String| NO_CIPHER.iter().any(|words| line.contains(words));
    if said.iter().any(has_no_cipher) && is_ahead_of_hello(&file) {
        said.retain(|line| !has_no_cipher(line));
    }
    if said.iter().any(|line| line.contains(WRONG_TAG)) && are_further_retries(&file) {
        // tshark takes the client's packets that follow for those of another connection.
        said.retain(|line| !line.contains(WRONG_TAG) && !line.contains("Decryption failed"));
    }
    Some(said)
}

/// Two fields of each packet that a filter of tshark shows, a line each.
fn fields(file: &File, shown: &str, names: [&str; 2]) -> String {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&file.0).args(["-Y", shown, "-T", "fields"]);
    let output = command.args(names.iter().flat_map(|name| ["-e", name])).output();
    String::from_utf8(output.expect("it is installed").stdout).unwrap()
}

/// What tshark says of a packet of QUIC whose cipher it does not know, the second where it knows that of
/// early data.
const NO_CIPHER: [&str; 2] = ["Unable to retrieve cipher information", "Failed to create decryption context"];

/// Whether tshark says so only of packets that have come although the server's hello, which names the cipher,
/// was lost before them.
fn is_ahead_of_hello(file: &File) -> bool {
    let words = NO_CIPHER.map(|words| format!("_ws.expert.message contains \"{words}\"")).join(" || ");
    let shown = format!("tls.handshake.type == 2 || {words}");
    let said = fields(file, &shown, ["quic.connection.number", "tls.handshake.type"]);
    let mut known = BTreeSet::new();
    said.lines().all(|line| {
        let (connection, messages) = line.split_once('\t').expect("there are two fields");
        let has_hello = messages.split(',').any(|kind| kind == "2");
        if has_hello {
            known.insert(connection);
        }
        has_hello || !known.contains(connection)
    })
}

/// What tshark says of a Retry packet whose tag is not that of the connection ID to which the client sends.
const WRONG_TAG: &str = "Retry Integrity Tag verification failure";

/// Whether tshark says so only of Retry packets behind the one that the client has followed: they answer what
/// it sent before that.
fn are_further_retries(file: &File) -> bool {
    let said = fields(file, "quic.long.packet_type == 3", ["quic.connection.number", "_ws.expert.message"]);
    let mut followed = BTreeSet::new();
    said.lines().all(|line| {
        let (connection, alarms) = line.split_once('\t').expect("there are two fields");
        !followed.insert(connection) || !alarms.contains(WRONG_TAG)
    })
}

/// Fragments of two flows in opposite directions, of which tshark would mix those between the same addresses.
const OPPOSITE_FLOWS: &str = r#"
    run.duration = "2500 ms"
    [links.only]
    ends = ["a", "b"]
    rate = { timetable = [["0 s", "1 Mbit/s"], ["700 ms", "30 kbit/s"], ["1200 ms", "2 Mbit/s"]] }
    loss = { kind = "bernoulli", probability = "10 %" }
    mtu = "600 B"
    [paths.only]
    via = ["only"]
    [flows.datagrams]
    from = "a"
    to = "b"
    paths = ["only"]
    transport.kind = "udp"
    app = { kind = "datagrams", size = "1000 B", rate = "500 kbit/s", duration = "1 s" }
    [flows.load]
    from = "b"
    to = "a"
    paths = ["only"]
    transport.kind = "mptcp"
    app = { kind = "bulk", bytes = "40 kB", write_size = "3 kB", direction = "both", start = "50 ms" }
"#;

/// tshark is an independent implementation. `TSHARK_CASES` asks for more scenarios.
#[test]
fn tshark_reads_captures_of_random_scenarios() {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("left out: tshark is not installed");
        return;
    }
    // It detects an error: a changed byte after the headers of the last packet.
    let (_, mut file) = captured(&scenario(TWO_HOPS), false);
    assert_eq!(tshark(&file).expect("it is installed"), [""; 0]);
    let place = file.len() - 60;
    file[place] ^= 1;
    assert_ne!(tshark(&file).expect("it is installed"), [""; 0]);
    let (_, file) = captured(&scenario(OPPOSITE_FLOWS), false);
    assert_eq!(tshark(&file).expect("it is installed"), [""; 0]);
    // Without the feature, QUIC's packets are not protected, and tshark would remove protection.
    read_random_captures(|text| cfg!(feature = "quic") || !text.contains("'quic'"));
}

/// As many in which a flow has QUIC.
#[cfg(feature = "quic")]
#[test]
fn tshark_decrypts_quic_of_random_scenarios() {
    if Command::new("tshark").arg("--version").output().is_ok() {
        read_random_captures(|text| text.contains("'quic'"));
    }
}

/// Whether a path goes over one of its links several times, so that a node sees its packets as often.
fn crosses_a_link_again(text: &str) -> bool {
    text.lines().filter_map(|line| line.strip_prefix("via = [")).any(|links| {
        let mut names = BTreeSet::new();
        !links.split(['[', ']', ',', ' ']).filter(|name| !name.is_empty()).all(|name| names.insert(name))
    })
}

/// Has tshark read captures of random scenarios of which this is true.
fn read_random_captures(is_wanted: impl Fn(&str) -> bool) {
    let cases = std::env::var("TSHARK_CASES").map_or(6, |cases| cases.parse().expect("a number"));
    let config = ProptestConfig {
        cases,
        max_global_rejects: 100 * cases + 1_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(text in random_scenario::text())| {
        prop_assume!(is_wanted(&text));
        // tshark 4.0 takes a short packet number for one that is 256 higher where a later packet has been
        // seen before: packets of QUIC are looked at once, where none overtakes another.
        let has_quic = text.contains("'quic'");
        // A delay that becomes shorter and a queue that gives the newest first let packets overtake others.
        let is_seen_again = ["duplicate", "reorder", "lifo_codel", "delay = { timetable"].iter().any(|it| text.contains(it))
            || crosses_a_link_again(&text);
        prop_assume!(!(has_quic && is_seen_again));
        let node = has_quic.then_some("n0");
        let (_, file) = captured_at(&scenario(&text), false, node).unwrap();
        prop_assert_eq!(tshark(&file).expect("it is installed"), [""; 0], "{}", text);
    });
}

/// A connection with Retry, and further ones, over a link that loses; messages in DATAGRAM
/// frames; and a certificate of several datagrams.
#[cfg(feature = "quic")]
const QUIC_FLOWS: &str = r#"
    run.duration = "4 s"
    [links.only]
    ends = ["a", "b"]
    rate = "5 Mbit/s"
    delay = "7 ms"
    loss = { kind = "bernoulli", probability = "3 %" }
    [paths.only]
    via = ["only"]
    [flows.asked]
    from = "a"
    to = "b"
    paths = ["only"]
    transport = { kind = "quic", retry = true, handshake = { certificate = "9 kB" } }
    app = { kind = "requests", request_size = "3 kB", response_size = "20 kB", think_time = "200 ms", connection = "per_request" }
    [flows.messages]
    from = "b"
    to = "a"
    ip = "ipv6"
    paths = ["only"]
    transport = { kind = "quic", datagrams = true }
    app = { kind = "voip", start = "100 ms", duration = "3 s", grace = "300 ms" }
"#;

/// tshark decrypts all of QUIC with the secrets that the file has, and finds the frames that were sent.
#[cfg(feature = "quic")]
#[test]
fn tshark_decrypts_quic() {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("left out: tshark is not installed");
        return;
    }
    // At the client, since it checks a Retry only where it sees that once.
    let (_, file) = captured_at(&scenario(QUIC_FLOWS), false, Some("a")).unwrap();
    assert_eq!(tshark(&file).expect("it is installed"), [""; 0]);
    let file = File::new(&file);
    let count = |filter: &str| {
        let output = Command::new("tshark").arg("-r").arg(&file.0).args(["-Y", filter]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert_eq!(count("_ws.expert.message contains \"Cannot verify Retry\""), 0);
    let all = count("udp");
    // Whatever is no Retry packet has frames that are read.
    assert_eq!(count("quic.frame_type || quic.long.packet_type == 3"), all);
    for (filter, least) in [
        ("quic.long.packet_type == 3", 2),
        ("quic.frame_type == 6 && quic.long.packet_type == 0 && quic.token_length > 0", 2),
        ("quic.frame_type == 48 || quic.frame_type == 49", 100),
        ("quic.stream.stream_id == 4", 20),
        ("tls.handshake.type == 1", 2),
        ("tls.handshake.type == 20", 2),
    ] {
        assert!(count(filter) >= least, "{filter}: {}", count(filter));
    }
}
