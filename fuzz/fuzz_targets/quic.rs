//! Datagrams of QUIC, frames, and transport parameters.
#![no_main]

use anabranch_fuzz::memory;
use anabranch_transport::flow::Payload;
use anabranch_transport::wire::quic::{
    ConnectionId, Content, Envelope, Fields, Frame, Keys, LEAST_SAMPLED, Level, MOST_PACKETS, Parameters,
    Part, Protection, SAMPLE_BYTES, TAG_BYTES,
};
use libfuzzer_sys::fuzz_target;

/// Keeps all data one behind the other.
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

/// Takes every tag for right, so that what is under the protection is read.
struct Trusting;

impl Protection for Trusting {
    fn seal(&mut self, _: Envelope<'_>, _: &mut [u8]) -> [u8; TAG_BYTES] {
        [0; TAG_BYTES]
    }

    fn open(&mut self, _: Envelope<'_>, _: &mut [u8]) -> Option<u32> {
        Some(0)
    }

    fn mask(&self, _: &[u8; SAMPLE_BYTES]) -> [u8; 5] {
        [0; 5]
    }

    fn retry_tag(_: ConnectionId, retry: &[u8]) -> [u8; TAG_BYTES] {
        [retry.len() as u8 & 1; TAG_BYTES]
    }
}

/// What may be allocated in all for each byte. The shortest frame has one byte and becomes one in a vector
/// that has doubled up to three times.
const PER_BYTE: usize = 4 * size_of::<Frame>() + memory::PER_BYTE;

/// Reads frames, and reads them again from what is written of them.
fn frames(bytes: &[u8]) {
    let mut store = Store::default();
    let most = PER_BYTE * bytes.len() + memory::AT_LEAST;
    let parsed = memory::within(most, || Frame::parse_all(bytes, &mut store));
    let Ok(frames) = parsed else { return };
    let mut written = Vec::new();
    for frame in &frames {
        let before = written.len();
        frame.emit(&mut store, &mut written);
        assert_eq!(written.len() - before, frame.size());
    }
    let again = Frame::parse_all(&written, &mut store).expect("what is written is read");
    let mut twice = Vec::new();
    again.iter().for_each(|frame| frame.emit(&mut store, &mut twice));
    assert_eq!(written, twice);
}

fn keys() -> Keys<Trusting> {
    let mut keys = Keys::default();
    keys.original = Some(ConnectionId::default());
    for level in [Level::Initial, Level::ZeroRtt, Level::Handshake, Level::OneRtt] {
        keys.set(level, [Trusting, Trusting]);
    }
    keys
}

/// Reads a datagram, and reads it again from what is written of it.
fn datagram(bytes: &[u8], id_bytes: usize) {
    let (mut store, mut input, mut reader) = (Store::default(), bytes.to_vec(), keys());
    let most = PER_BYTE * bytes.len() + memory::AT_LEAST;
    let parsed = memory::within(most, || Content::parse(&mut input, id_bytes, &mut reader, &mut store));
    let Ok(parsed) = parsed else { return };
    // A length of one byte is written in two.
    assert!(parsed.content.size() <= bytes.len() + MOST_PACKETS);
    if let Content::Packets(packets) = &parsed.content {
        let is_short = |number_bytes: u8, content: usize| usize::from(number_bytes) + content < LEAST_SAMPLED;
        // Nobody would send it as it would be without what is longer than it need be.
        if packets.is_empty() || packets.iter().any(|packet| is_short(packet.number_bytes, packet.content()))
        {
            return;
        }
    }
    let mut written = Vec::new();
    parsed.content.emit(&mut keys(), &mut store, &mut written);
    assert_eq!(written.len(), parsed.content.size());
    let again = Content::parse(&mut written.clone(), id_bytes, &mut keys(), &mut store);
    let again = again.expect("what is written is read");
    let mut twice = Vec::new();
    again.content.emit(&mut keys(), &mut store, &mut twice);
    assert_eq!(written, twice);
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, bytes)) = input.split_first() else { return };
    match first & 3 {
        0 => datagram(bytes, usize::from(first >> 3).min(20)),
        1 => frames(bytes),
        side => {
            if let Ok(parameters) = Parameters::parse(bytes, side == 2) {
                let mut written = Vec::new();
                parameters.emit(&mut written);
                assert_eq!(Parameters::parse(&written, side == 2), Ok(parameters));
            }
        }
    }
});
