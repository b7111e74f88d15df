//! Stands between the two ends of a QUIC connection that tell it their secrets, and puts what each sends into
//! packets of its own.
//!
//! Lines of the standard input are `LABEL RANDOM SECRET`, as in an SSLKEYLOGFILE, for ChaCha20-Poly1305, or
//! `client DATAGRAM` and `server DATAGRAM`. Each datagram is answered by a line with the one to hand on, and
//! by the names of its packets' frames; bytes are hexadecimal digits. What cannot be opened or read ends the
//! program with a sentence.

use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};

use anabranch_transport::flow::Payload;
use anabranch_transport::wire::quic::{Content, Fields, Frame, Header, Keys, Level, Packet, Part, Real};

/// Connection IDs of both ends have as many bytes.
const ID_BYTES: usize = 8;

/// Keeps the data of a datagram, one behind the other.
#[derive(Default)]
struct Store(Vec<u8>);

impl Fields for Store {
    fn append(&mut self, _: Part, data: Payload, out: &mut Vec<u8>) {
        out.extend(&self.0[data.offset as usize..][..data.length as usize]);
    }

    fn keep(&mut self, _: Part, _: u64, bytes: &[u8]) -> u64 {
        let offset = self.0.len() as u64;
        self.0.extend(bytes);
        offset
    }
}

/// Opens a datagram of one end and seals its frames again: the bytes, which are as many, and what they are.
fn reseal(keys: &mut Keys<Real>, bytes: &mut [u8]) -> Result<(Vec<u8>, String), String> {
    let mut store = Store::default();
    let length = bytes.len();
    let parsed = Content::parse(bytes, ID_BYTES, keys, &mut store).map_err(|error| error.to_string())?;
    if let Some(problem) = parsed.violation {
        return Err(problem.to_string());
    }
    if parsed.without_key + parsed.forged > 0 {
        return Err(format!("{} packets without a key, {} forged", parsed.without_key, parsed.forged));
    }
    let mut packets = match parsed.content {
        Content::Packets(packets) => packets,
        whole => {
            let mut bytes = Vec::new();
            whole.emit(keys, &mut store, &mut bytes);
            return Ok((bytes, "Whole:".to_owned()));
        }
    };
    let mut names: Vec<String> = packets
        .iter()
        .map(|packet| {
            let frames: Vec<&str> = packet.frames.iter().map(Frame::name).collect();
            format!("{:?}:{}", packet.level, frames.join(","))
        })
        .collect();
    if packets.iter().any(|packet| packet.key_phase) {
        names.push("Phase:1".to_owned());
    }
    // Numbers may have been longer than they need be.
    let size: usize = packets.iter().map(Packet::wire_size).sum();
    let missing = length.checked_sub(size).ok_or("it is longer than it was")? as u32;
    if missing > 0 {
        packets[0].frames.insert(0, Frame::Padding { length: missing });
    }
    let mut sealed = Vec::new();
    keys.seal(&packets, &mut store, &mut sealed);
    Ok((sealed, names.join(" ")))
}

/// What a line asks for, and the answer to it.
fn answer(keys: &mut [Keys<Real>; 2], line: &str) -> Result<Option<String>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [end @ ("client" | "server"), datagram] => {
            let mut bytes = unhex(datagram).ok_or("a datagram is hexadecimal digits")?;
            if keys[0].opening[Level::Initial as usize].is_none() {
                begin(keys, &bytes)?;
            }
            let (sealed, names) = reseal(&mut keys[usize::from(end == "server")], &mut bytes)?;
            Ok(Some(format!("{} {names}", hex(&sealed))))
        }
        [label, _random, secret] => {
            let secret = unhex(secret).and_then(|secret| secret.try_into().ok());
            let secret: [u8; 32] = secret.ok_or("a secret has 32 bytes")?;
            let level = match label {
                "CLIENT_HANDSHAKE_TRAFFIC_SECRET" | "SERVER_HANDSHAKE_TRAFFIC_SECRET" => Level::Handshake,
                "CLIENT_TRAFFIC_SECRET_0" | "SERVER_TRAFFIC_SECRET_0" => Level::OneRtt,
                _ => return Ok(None),
            };
            let keys = &mut keys[usize::from(label.starts_with("SERVER"))];
            keys.set(level, [Real::of_secret(secret), Real::of_secret(secret)]);
            Ok(None)
        }
        _ => Err(format!("`{line}` is neither a secret nor a datagram")),
    }
}

/// The client's first packet makes the keys of Initial packets.
fn begin(keys: &mut [Keys<Real>; 2], datagram: &[u8]) -> Result<(), String> {
    let (header, _) = Header::read(datagram, ID_BYTES).map_err(|error| error.to_string())?;
    let Header::Long(header) = header else { return Err("the first packet is no Initial".to_owned()) };
    for (keys, is_client) in keys.iter_mut().zip([true, false]) {
        // What an end seals is opened here, and sealed again.
        let [first, second] = [(); 2].map(|()| {
            let [sealing, _] = Real::initial(header.ids[0], is_client);
            sealing
        });
        keys.set(Level::Initial, [first, second]);
        keys.original = Some(header.ids[0]);
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn main() -> Result<(), String> {
    let mut keys = [Keys::default(), Keys::default()];
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        if let Some(answer) = answer(&mut keys, &line)? {
            writeln!(out, "{answer}").and_then(|()| out.flush()).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
