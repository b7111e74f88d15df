//! Datagrams of QUIC whose content is not protected, and transport parameters.
#![no_main]

use anabranch_fuzz::memory;
use anabranch_transport::ground::Payload;
use anabranch_transport::wire::quic::{Fields, Frame, Header, Parameters, Part};
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

/// Reads frames, and reads them again from what is written of them.
fn frames(bytes: &[u8]) {
    let mut store = Store::default();
    let parsed = memory::parsing(bytes.len(), || Frame::parse_all(bytes, &mut store));
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

fuzz_target!(|input: &[u8]| {
    let Some((&first, bytes)) = input.split_first() else { return };
    if first & 1 == 1 {
        if let Ok(parameters) = Parameters::parse(bytes, first & 2 != 0) {
            let mut written = Vec::new();
            parameters.emit(&mut written);
            assert_eq!(Parameters::parse(&written, first & 2 != 0), Ok(parameters));
        }
        return;
    }
    let mut rest = bytes;
    while let Ok((header, behind)) = Header::read(rest, usize::from(first >> 3).min(20)) {
        assert!(behind.len() < rest.len());
        match header {
            Header::Long(header) => frames(header.protected),
            Header::Short(header) => frames(header.protected),
            Header::Retry { .. } | Header::VersionNegotiation { .. } => {}
        }
        rest = behind;
    }
});
