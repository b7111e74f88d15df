//! Names the engine by its sources, so that all rows of a study come from the same engine.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The folders of the sources that compute results, relative to this file: Cargo runs it in its own folder.
pub const CRATES: [&str; 2] = ["../anabranch-transport/src", "src"];

fn main() {
    let mut sources = Sources::empty();
    for folder in CRATES {
        sources.read_crate(Path::new(folder));
    }
    for file in &sources.files {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    println!("cargo:rustc-env=ENGINE_SOURCES={:08x}", sources.hash >> 32);
}

/// Source files and a hash of the tokens in them. Layout, comments and tests are not among these.
pub struct Sources {
    /// The files that were read: a module of tests is not there.
    pub files: Vec<PathBuf>,
    /// 64-bit FNV-1a.
    pub hash: u64,
}

impl Sources {
    /// The hash of no input.
    pub fn empty() -> Self {
        Self { files: Vec::new(), hash: 0xCBF2_9CE4_8422_2325 }
    }

    /// Reads the crate whose `lib.rs` is in this folder.
    pub fn read_crate(&mut self, folder: &Path) {
        self.read_file(folder.join("lib.rs"), folder);
    }

    /// Reads a file and those of the modules that it declares, which are in `folder`.
    fn read_file(&mut self, file: PathBuf, folder: &Path) {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.files.push(file);
        for name in self.read_text(&text) {
            let below = folder.join(name);
            let flat = below.with_extension("rs");
            self.read_file(if flat.exists() { flat } else { below.join("mod.rs") }, &below);
        }
    }

    /// Reads the text of a module, and returns the modules that it declares.
    pub fn read_text(&mut self, text: &str) -> Vec<String> {
        let mut declared = Vec::new();
        self.read_tokens(text.parse().expect("the sources are Rust"), &mut declared);
        declared
    }

    fn read_tokens(&mut self, tokens: TokenStream, declared: &mut Vec<String>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        while let [first, after @ ..] = rest {
            rest = after;
            match first {
                TokenTree::Punct(sign) if sign.as_char() == '#' => {
                    let attribute = after.iter().find_map(|token| match token {
                        TokenTree::Group(group) => Some(group.stream().to_string().replace(' ', "")),
                        _ => None,
                    });
                    match attribute.as_deref() {
                        Some("cfg(test)" | "cfg(doc)") => rest = after_item(after),
                        // A comment that documentation is made of.
                        Some(doc) if doc.starts_with("doc=") => rest = after_attribute(after),
                        _ => self.take("#"),
                    }
                }
                TokenTree::Ident(word) => {
                    self.take(&word.to_string());
                    if let (true, [TokenTree::Ident(name), TokenTree::Punct(end), ..]) =
                        (word == "mod", after)
                        && end.as_char() == ';'
                    {
                        declared.push(name.to_string());
                    }
                }
                TokenTree::Literal(literal) => self.take(&literal.to_string()),
                TokenTree::Punct(sign) => self.take(&sign.as_char().to_string()),
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::None => ("", ""),
                    };
                    self.take(open);
                    self.read_tokens(group.stream(), declared);
                    self.take(close);
                }
            }
        }
    }

    fn take(&mut self, token: &str) {
        // No token ends with a newline, so it separates tokens.
        for byte in token.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

/// What follows the item that begins with this attribute, whose `#` has been read.
fn after_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Punct(sign) => sign.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    let end = tokens.iter().position(is_end).expect("an item ends");
    match &tokens[end + 1..] {
        // `use a::{b, c};`
        [TokenTree::Punct(sign), rest @ ..] if sign.as_char() == ';' => rest,
        rest => rest,
    }
}

/// What follows this attribute, whose `#` has been read.
fn after_attribute(tokens: &[TokenTree]) -> &[TokenTree] {
    let end = tokens.iter().position(|token| matches!(token, TokenTree::Group(_)));
    &tokens[end.expect("an attribute is in brackets") + 1..]
}
