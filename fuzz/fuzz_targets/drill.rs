//! Scripts in packetdrill's language, read and run.
#![no_main]

use anabranch_drill::{Options, drill};
use anabranch_fuzz::memory;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((first, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    // Reading a script takes no more memory than it justifies: a word becomes a term with its parts.
    let read = |_: &str| None;
    let parsed = memory::within(1_024 * text.len() + (64 << 10), || {
        anabranch_drill::parser::parse(text, &["Linux"]).is_ok()
    });
    if parsed {
        let profile = [None, Some("linux_6"), Some("rfc9260"), Some("rfc8684")][usize::from(first & 3)];
        let _ = drill(text, &Options { profile, read: &read, is_cancelled: &|| false });
    }
});
