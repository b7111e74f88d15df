//! The hash that names an engine covers the sources that compute results, and nothing else.

use std::path::Path;

#[expect(dead_code, unreachable_pub, reason = "it is a program of its own")]
#[path = "../build.rs"]
mod build_script;

use build_script::{CRATES, Sources};

fn hash(text: &str) -> u64 {
    let mut sources = Sources::empty();
    assert!(sources.read_text(text).is_empty());
    sources.hash
}

const CODE: &str = "pub fn half(x: u64) -> u64 { x / 2 }";

#[test]
fn comments_layout_and_tests_do_not_change_it() {
    let same = [
        "// Rounds down.\npub fn half(x: u64) -> u64 {\r\n    x / 2 /* exactly */\n}\n",
        "//! Halves.\n\n/// Half of `x`.\npub fn half(x: u64) -> u64 { x / 2 }",
        "#[cfg(doc)]\nuse std::{fmt, io};\npub fn half(x: u64) -> u64 { x / 2 }\n#[cfg(test)]\nmod tests;",
        "pub fn half(x: u64) -> u64 { x / 2 }\n#[cfg(test)]\n#[test]\nfn of_three() { assert_eq!(half(3), 1) }",
        "#[cfg(test)]\npub(super) mod testing { pub const X: u8 = 1; }\npub fn half(x: u64) -> u64 { x / 2 }",
    ];
    for text in same {
        assert_eq!(hash(text), hash(CODE), "{text}");
    }
}

#[test]
fn code_changes_it() {
    let others = [
        "pub fn half(x: u64) -> u64 { x / 3 }",
        "fn half(x: u64) -> u64 { x / 2 }",
        "#[inline] pub fn half(x: u64) -> u64 { x / 2 }",
        "pub fn half(x: u64) -> u64 { (x / 2) }",
        "pub fn half(x: u64) -> u64 { x / 2 } const TEXT: &str = \"// half\";",
        "pub fn half(x: u64) -> u64 { x / 2 } const TEXT: &str = \"// a half\";",
    ];
    let mut hashes: Vec<u64> = others.into_iter().chain([CODE]).map(hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), others.len() + 1);
}

#[test]
fn it_is_of_both_crates_and_of_no_file_of_tests() {
    let mut sources = Sources::empty();
    for folder in CRATES {
        sources.read_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    }
    let has = |end: &str| sources.files.iter().any(|file| file.ends_with(end));
    assert!(has("src/recovery/rtt.rs") && has("src/net/qdisc/mod.rs") && has("src/app/voip/config.rs"));
    assert!(!has("src/sctp/drills/loss.rs") && !has("src/net/qdisc/testing.rs"));
    let named = format!("+{:08x}", sources.hash >> 32);
    assert!(anabranch::VERSION.ends_with(&named), "{} {named}", anabranch::VERSION);
}
