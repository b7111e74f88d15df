//! The parsed form of a script, before it is known what we support: options, and statements with their times.
//!
//! Text in brackets is kept as [`Term`]s: arguments of system calls, chunks of SCTP and options of MPTCP have
//! one form in packetdrill's language, and the executor of each protocol knows what the words mean.

use std::fmt;
use std::net::IpAddr;

use anabranch_transport::time::Duration;

/// A script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The options on top, such as `--tolerance_usecs=10000`.
    pub options: Vec<ScriptOption>,
    /// The statements, in the order of the file.
    pub statements: Vec<Statement>,
}

impl Script {
    /// The value of an option, empty if it has none; [`None`] if the script does not have the option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().rev().find(|option| option.name == name).map(|option| option.value.as_str())
    }
}

/// An option on top of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptOption {
    /// The line, from 1.
    pub line: u32,
    /// Its name without the hyphens.
    pub name: String,
    /// Its value, without quotes; empty if it has none.
    pub value: String,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The line where it begins, from 1.
    pub line: u32,
    /// The statement's text without comments, on one line.
    pub text: String,
    /// When it is to happen.
    pub when: When,
    /// What is to happen.
    pub action: Action,
}

/// When a statement is to happen. A script's first statement happens at 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// `1.5` or `1~1.5`: since the start of the script.
    Absolute {
        /// At this time.
        from: Duration,
        /// Or at any time up to this.
        to: Option<Duration>,
    },
    /// `*`: at any time.
    Any,
    /// Without a time: commands at the beginning and at the end.
    Now,
    /// `+.1` or `+.1~+.2`: since the statement before.
    Relative {
        /// At this time.
        from: Duration,
        /// Or at any time up to this.
        to: Option<Duration>,
    },
}

/// The kinds of statements.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A system call.
    Call(Call),
    /// A block of Python: `%{ assert tcpi_snd_cwnd == 10 }%`.
    Code(String),
    /// Shell commands in back quotes.
    Command(String),
    /// A packet.
    Packet(Packet),
}

/// A system call and the value that it should return.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// For a call that blocks, when it returns; counted like the statement's time.
    pub ends: Option<Duration>,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub arguments: Vec<Term>,
    /// What it returns.
    pub result: Term,
    /// The error, such as `EAGAIN`.
    pub error: Option<String>,
}

/// A packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// Into the endpoint or out of it.
    pub direction: Direction,
    /// `addr[caddr0] > addr[saddr0]`: source and destination, if they are named.
    pub addresses: [Option<Term>; 2],
    /// ECN of the IP header.
    pub ecn: Option<EcnCheck>,
    /// Further fields of the IP header, such as `ttl 5`.
    pub ip: Vec<String>,
    /// What it carries.
    pub body: Body,
}

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `<`: into the endpoint.
    Inbound,
    /// `>`: the endpoint is expected to send it.
    Outbound,
}

/// ECN of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnCheck {
    /// `ce`.
    Ce,
    /// `ect0`.
    Ect0,
    /// `ect1`.
    Ect1,
    /// `ect01`: either one.
    Either,
    /// `noecn`.
    NotEct,
}

/// What a packet carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A message of ICMP.
    Icmp(Icmp),
    /// Another protocol, by its name.
    Other(String),
    /// Chunks of SCTP.
    Sctp(Sctp),
    /// A segment of TCP, with MPTCP or without.
    Tcp(Tcp),
}

/// A segment of TCP; numbers are relative to the two initial ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Tcp {
    /// Source and destination port, if they are named.
    pub ports: Option<[u16; 2]>,
    /// The letters of its flags, such as `S.`.
    pub flags: String,
    /// The number in accurate ECN's ACE field, if the script has it instead of flags.
    pub ace: Option<u8>,
    /// The first number.
    pub start: u32,
    /// The number behind the last byte.
    pub end: u32,
    /// Bytes of payload.
    pub length: u32,
    /// The acknowledgement number.
    pub ack: Option<u32>,
    /// The window field.
    pub window: Option<u32>,
    /// The urgent pointer.
    pub urgent: Option<u32>,
    /// The segment's options; `None` if they are not compared.
    pub options: Option<Vec<TcpOption>>,
}

/// An option of TCP.
#[derive(Clone, Debug, PartialEq)]
pub enum TcpOption {
    /// `ECN e1b 1 ceb 0 e0b 1`: accurate ECN, with the counters in their order.
    AccurateEcn(Vec<(String, u32)>),
    /// `eol`.
    End,
    /// `FO abcd`: a fast open cookie, as hexadecimal digits or the name of a variable; an empty one asks for
    /// a cookie.
    FastOpen(String),
    /// `FOEXP abcd`: the same as an experimental option.
    FastOpenExperimental(String),
    /// `md5 abcd`.
    Md5(String),
    /// An option of MPTCP: its name and what follows it.
    Mptcp(String, Vec<Term>),
    /// `mss 1460`.
    Mss(u32),
    /// `nop`.
    Nop,
    /// `sack 1:2 3:4`.
    Sack(Vec<(u32, u32)>),
    /// `sackOK`.
    SackPermitted,
    /// `TS val 1 ecr 0`.
    Timestamps {
        /// The sender's timestamp.
        value: u32,
        /// The timestamp that it echoes.
        echo: u32,
    },
    /// `wscale 7`.
    WindowScale(u8),
}

/// Chunks of SCTP behind one common header.
#[derive(Clone, Debug, PartialEq)]
pub struct Sctp {
    /// Conditions on the common header: `sctp(tag=3)`, `sctp(bad_crc32c)`.
    pub header: Vec<Term>,
    /// The chunks, as elements such as `DATA[...]` or as lists of bytes.
    pub chunks: Vec<Term>,
}

/// A message of ICMP.
#[derive(Clone, Debug, PartialEq)]
pub struct Icmp {
    /// Its type, such as `unreachable`.
    pub kind: String,
    /// Its code, such as `frag_needed`.
    pub code: Option<String>,
    /// The MTU in it.
    pub mtu: Option<u32>,
    /// The TCP segment that the message is about: its first number, the number behind its last byte, and its
    /// bytes.
    pub echoed: Option<(u32, u32, u32)>,
}

/// A term: something in brackets.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// An address.
    Address(IpAddr),
    /// `...`: anything.
    Any,
    /// `htonl(1)`.
    Call(String, Vec<Term>),
    /// `DATA[flgs=BE, ...]`, `addr[saddr0]`.
    Element(String, Vec<Term>),
    /// A number with a fraction.
    Fraction(f64),
    /// `{a, b}`.
    Group(Vec<Term>),
    /// `[a, b]`.
    List(Vec<Term>),
    /// A number.
    Number(i64),
    /// `2:3`.
    Range(i64, i64),
    /// `key=value`, the key being a word or a call.
    Setting(Box<Term>, Box<Term>),
    /// `"text"`.
    Text(String),
    /// `A|B`.
    Union(Vec<Term>),
    /// A word.
    Word(String),
}

impl Term {
    /// The number that the term is, if it is one.
    pub const fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The word that the term is, if it is one.
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }

    /// The parts of a list, a group, an element, a call or a union.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Call(_, parts)
            | Self::Element(_, parts)
            | Self::Group(parts)
            | Self::List(parts)
            | Self::Union(parts) => parts,
            _ => &[],
        }
    }

    /// The name of an element, a call or a word.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Call(name, _) | Self::Element(name, _) | Self::Word(name) => Some(name),
            _ => None,
        }
    }

    /// The value of this key in one of its parts.
    pub fn setting(&self, key: &str) -> Option<&Self> {
        setting(self.parts(), key)
    }

    /// The only part of a list, such as `[1]`.
    pub fn only(&self) -> Option<&Self> {
        match self.parts() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The words of flags such as `A|B`; one word is one flag.
    pub fn flags(&self) -> Vec<&str> {
        match self {
            Self::Union(parts) => parts.iter().filter_map(Self::word).collect(),
            Self::Word(word) => vec![word],
            _ => Vec::new(),
        }
    }
}

/// The value of this key in one of these terms.
pub fn setting<'a>(terms: &'a [Term], key: &str) -> Option<&'a Term> {
    terms.iter().find_map(|term| match term {
        Term::Setting(name, value) if name.name() == Some(key) => Some(&**value),
        _ => None,
    })
}

/// Terms with this separator between them.
struct Separated<'a>(&'a [Term], &'a str);

impl fmt::Display for Separated<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(self.1)?;
            }
            write!(formatter, "{term}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(formatter, "{address}"),
            Self::Any => formatter.write_str("..."),
            Self::Call(name, parts) => write!(formatter, "{name}({})", Separated(parts, ", ")),
            Self::Element(name, parts) => write!(formatter, "{name}[{}]", Separated(parts, ", ")),
            Self::Fraction(number) => write!(formatter, "{number}"),
            Self::Group(parts) => write!(formatter, "{{{}}}", Separated(parts, ", ")),
            Self::List(parts) => write!(formatter, "[{}]", Separated(parts, ", ")),
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Range(from, to) => write!(formatter, "{from}:{to}"),
            Self::Setting(key, value) => write!(formatter, "{key}={value}"),
            Self::Text(text) => write!(formatter, "\"{text}\""),
            Self::Union(parts) => write!(formatter, "{}", Separated(parts, "|")),
            Self::Word(word) => formatter.write_str(word),
        }
    }
}
