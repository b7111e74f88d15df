//! Options of MPTCP: read from a script's words, and told in them.
//!
//! Numbers of the connection are relative in scripts, and count from 1; the endpoint's positions count from
//! 0. Keys are variables: a packet that comes in may give one a value (`key[ckey=2]`), one that is sent gives
//! the endpoint's key its name (`key[skey]`). Addresses are names, which get their identifiers where they are
//! announced.

mod read;
mod shown;

use std::collections::BTreeMap;

use anabranch_transport::wire::Body;
use anabranch_transport::wire::mptcp::keys::token_of;
use anabranch_transport::wire::mptcp::{Options, Segment, Signal};
use anabranch_transport::wire::tcp;
pub(super) use read::options;
pub(super) use shown::{resolved, shown};

use crate::script::{Tcp, TcpOption, Term, setting};
use crate::verdict::Stop;

/// The names that a script has used.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The keys, by the names of variables.
    variables: BTreeMap<String, u64>,
    /// Our addresses and the peer's, by their identifiers.
    addresses: [BTreeMap<u8, String>; 2],
    /// Addresses that the peer has announced and that no statement has named yet.
    announced: Vec<(String, u8)>,
}

impl Told {
    /// The addresses of the first subflow have the identifier 0.
    pub(super) fn name_first(&mut self, addresses: &[Option<String>; 2]) {
        for (names, address) in self.addresses.iter_mut().zip(addresses) {
            if let Some(address) = address {
                names.entry(0).or_insert_with(|| address.clone());
            }
        }
    }

    /// The identifier of an address of ours.
    pub(super) fn own_identifier(&self, name: &str) -> Option<u8> {
        self.addresses[0].iter().find(|(_, known)| *known == name).map(|(identifier, _)| *identifier)
    }

    pub(super) fn take_announced(&mut self) -> Vec<(String, u8)> {
        std::mem::take(&mut self.announced)
    }

    /// Gives an address that a sent packet announces the name that the statement uses for it.
    pub(super) fn learn<'a>(&mut self, wanted: &Tcp, sent: impl Iterator<Item = &'a (Options, u32)>) {
        let name = wanted.options.iter().flatten().find_map(|option| match option {
            TcpOption::Mptcp(name, terms) if name == "add_address" => address(terms),
            _ => None,
        });
        for (options, _) in sent {
            if let (Some(name), Some(Signal::AddAddress { address, is_echo: false, .. })) =
                (&name, options.signal)
            {
                self.addresses[0].entry(address).or_insert_with(|| name.clone());
            }
        }
    }
}

/// The inputs of the HMACs in `MP_JOIN`, ours first: the connection's keys and the subflow's nonces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proof {
    pub(super) keys: [u64; 2],
    pub(super) nonces: [u32; 2],
}

impl Proof {
    /// The same inputs from the peer's side.
    const fn of_peer(self) -> Self {
        let Self { keys: [own, peer], nonces: [own_nonce, peer_nonce] } = self;
        Self { keys: [peer, own], nonces: [peer_nonce, own_nonce] }
    }
}

/// The address in an option, `addr[saddr1]`, as the script has it.
fn address(terms: &[Term]) -> Option<String> {
    let element = terms.iter().find(|term| matches!(term, Term::Element(word, _) if word == "addr"));
    element.map(Term::to_string)
}

/// Whether a segment asks to open a subflow.
pub(super) fn asks_to_join(tcp: &Tcp) -> bool {
    let is_join = |option: &TcpOption| matches!(option, TcpOption::Mptcp(name, _) if name == "mp_join_syn");
    tcp.flags.contains('S') && !tcp.flags.contains('.') && tcp.options.iter().flatten().any(is_join)
}

/// A segment, with MPTCP options or without.
pub(super) fn body(tcp: tcp::Segment, options: Option<Options>) -> Body {
    match options {
        // The receiver does not care how many bytes the options take.
        Some(options) => Body::Mptcp(Segment { tcp, options, option_bytes: 0 }),
        None => Body::Tcp(tcp),
    }
}

fn needs(name: &str, terms: &[Term]) -> Stop {
    let words: Vec<String> = terms.iter().map(|term| format!(" {term}")).collect();
    Stop::needs(format!("MPTCP: {name}{}", words.concat()))
}

fn number(terms: &[Term], key: &str) -> Option<u64> {
    setting(terms, key).and_then(Term::number).and_then(|number| u64::try_from(number).ok())
}

/// `sha256_32(skey)`, or a number.
fn token(variables: &BTreeMap<String, u64>, term: &Term) -> Option<u32> {
    match term {
        Term::Call(name, parts) if name == "sha256_32" => match &parts[..] {
            [Term::Word(key)] => variables.get(key).copied().map(token_of),
            _ => None,
        },
        other => other.number().and_then(|number| u32::try_from(number).ok()),
    }
}

fn has(terms: &[Term], word: &str) -> bool {
    terms.iter().any(|term| term.word() == Some(word))
}

fn set(key: &str, value: u64) -> Term {
    Term::Setting(Box::new(Term::Word(key.into())), Box::new(Term::Number(value as i64)))
}

fn set_word(key: &str, value: &str) -> Term {
    Term::Setting(Box::new(word(key)), Box::new(word(value)))
}

fn word(text: &str) -> Term {
    Term::Word(text.into())
}
