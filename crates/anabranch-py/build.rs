//! Names the engine by its sources, so that rows of one study all come from the same engine.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../anabranch/src");
    println!("cargo:rerun-if-changed={}", sources.display());
    let mut files = Vec::new();
    collect(&sources, &mut files);
    files.sort();
    // FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file is text");
        // Git may give lines other ends on other systems.
        for byte in text.bytes().filter(|byte| *byte != b'\r') {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    println!("cargo:rustc-env=ENGINE_SOURCES={:08x}", hash >> 32);
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the engine's sources are beside this crate") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
