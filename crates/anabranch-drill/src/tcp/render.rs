//! Segments in the words of a script.

use anabranch_transport::flow::Ecn;
use anabranch_transport::wire::tcp::{AccurateEcn, FastOpen, Flags, Segment};

use crate::script::{EcnCheck, TcpOption};

/// A sent segment with the numbers of a script, for comparison and for people.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) flags: Flags,
    pub(super) start: u32,
    pub(super) length: u32,
    pub(super) ack: Option<u32>,
    pub(super) window: u16,
    pub(super) options: Vec<TcpOption>,
    pub(super) ecn: Ecn,
}

impl Shown {
    /// A segment of ours; `own` and `peer` are the offsets from either stream's numbers to the script's.
    pub(super) fn new(segment: &Segment, ecn: Ecn, own: u32, peer: u32) -> Self {
        let has_ack = segment.flags.has(Flags::ACK);
        Self {
            flags: segment.flags,
            start: segment.sequence.wrapping_add(own),
            length: segment.payload.length,
            ack: has_ack.then(|| segment.acknowledgement.wrapping_add(peer)),
            window: segment.window,
            options: options(segment, peer),
            ecn,
        }
    }
}

/// The options of a segment, laid out as Linux does (`tcp_options_write`).
fn options(segment: &Segment, peer: u32) -> Vec<TcpOption> {
    let mut options = Vec::new();
    if let Some(mss) = segment.mss {
        options.push(TcpOption::Mss(u32::from(mss)));
    }
    if let Some(timestamps) = segment.timestamps {
        if segment.sack_permitted {
            options.push(TcpOption::SackPermitted);
        } else {
            options.extend([TcpOption::Nop, TcpOption::Nop]);
        }
        options.push(TcpOption::Timestamps { value: timestamps.value, echo: timestamps.echo });
    }
    let mut others = Vec::new();
    if let Some(option) = segment.rare.as_ref().and_then(|rare| rare.accurate_ecn.as_ref()) {
        let names = if option.begins_with_ect1 { ["e1b", "ceb", "e0b"] } else { ["e0b", "ceb", "e1b"] };
        let counters = names.into_iter().zip(&option.counters);
        let counters = counters.map(|(name, count)| (name.into(), *count)).collect();
        others.push((
            AccurateEcn::wire_bytes(option.counters.len()) as usize,
            TcpOption::AccurateEcn(counters),
        ));
    }
    if segment.sack_permitted && segment.timestamps.is_none() {
        others.push((2, TcpOption::SackPermitted));
    }
    if let Some(scale) = segment.window_scale {
        others.push((3, TcpOption::WindowScale(scale)));
    }
    if !segment.sack.is_empty() {
        let blocks = segment.sack.iter();
        let blocks =
            blocks.map(|block| (block.start.wrapping_add(peer), block.end.wrapping_add(peer))).collect();
        others.push((2 + 8 * segment.sack.len(), TcpOption::Sack(blocks)));
    }
    options.extend(padded(others));
    if let Some(fast_open) = segment.rare.as_ref().and_then(|rare| rare.fast_open.as_ref()) {
        options.extend(fast_open_option(fast_open));
    }
    options
}

/// Options with their sizes in bytes, each padded so that it ends with a whole word; the counters of accurate
/// ECN, which come first, are padded only if nothing follows them.
fn padded(others: Vec<(usize, TcpOption)>) -> Vec<TcpOption> {
    let mut options = Vec::new();
    let mut used = 0;
    for (bytes, option) in others {
        if !matches!(option, TcpOption::AccurateEcn(_)) {
            let end = (used + bytes).next_multiple_of(4);
            options.extend((used + bytes..end).map(|_| TcpOption::Nop));
            used = end - bytes;
        }
        used += bytes;
        options.push(option);
    }
    options.extend((used..used.next_multiple_of(4)).map(|_| TcpOption::Nop));
    options
}

/// The option of Fast Open, with its padding to whole words.
fn fast_open_option(option: &FastOpen) -> Vec<TcpOption> {
    let cookie = hexadecimal(&option.cookie);
    let rest = (option.cookie.len() + if option.is_experimental { 4 } else { 2 }) % 4;
    let option = if option.is_experimental {
        TcpOption::FastOpenExperimental(cookie)
    } else {
        TcpOption::FastOpen(cookie)
    };
    std::iter::once(option).chain(std::iter::repeat_n(TcpOption::Nop, (4 - rest) % 4)).collect()
}

/// Bytes as a script has them.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// The letters of flags, in the order in which scripts have them.
pub(super) fn letters(flags: Flags) -> String {
    let known = [
        (Flags::SYN, 'S'),
        (Flags::FIN, 'F'),
        (Flags::RST, 'R'),
        (Flags::PSH, 'P'),
        (Flags::ECE, 'E'),
        (Flags::CWR, 'W'),
        (Flags::AE, 'A'),
        (Flags::ACK, '.'),
    ];
    let letters: String =
        known.iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, letter)| *letter).collect();
    if letters.is_empty() { "-".into() } else { letters }
}

/// An option in the words of a script.
pub(super) fn option(option: &TcpOption) -> String {
    match option {
        TcpOption::AccurateEcn(counters) => {
            let texts: Vec<String> =
                counters.iter().map(|(name, count)| format!(" {name} {count}")).collect();
            format!("ECN{}", texts.concat())
        }
        TcpOption::End => "eol".into(),
        TcpOption::FastOpen(cookie) => format!("FO {cookie}").trim_end().into(),
        TcpOption::FastOpenExperimental(cookie) => format!("FOEXP {cookie}").trim_end().into(),
        TcpOption::Md5(digest) => format!("md5 {digest}"),
        TcpOption::Mptcp(name, terms) => {
            let texts: Vec<String> = terms.iter().map(|term| format!(" {term}")).collect();
            format!("{name}{}", texts.concat())
        }
        TcpOption::Mss(size) => format!("mss {size}"),
        TcpOption::Nop => "nop".into(),
        TcpOption::Sack(blocks) => {
            let texts: Vec<String> = blocks.iter().map(|(start, end)| format!(" {start}:{end}")).collect();
            format!("sack{}", texts.concat())
        }
        TcpOption::SackPermitted => "sackOK".into(),
        TcpOption::Timestamps { value, echo } => format!("TS val {value} ecr {echo}"),
        TcpOption::WindowScale(scale) => format!("wscale {scale}"),
    }
}

/// The ECN field of an IP header in the words of a script.
pub(super) const fn ecn_word(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::Ce => "ce",
        Ecn::Ect0 => "ect0",
        Ecn::Ect1 => "ect1",
        Ecn::NotEct => "noecn",
    }
}

/// Whether the ECN field of an IP header is as a script wants it.
pub(super) const fn is_ecn(wanted: EcnCheck, ecn: Ecn) -> bool {
    match wanted {
        EcnCheck::Ce => matches!(ecn, Ecn::Ce),
        EcnCheck::Ect0 => matches!(ecn, Ecn::Ect0),
        EcnCheck::Ect1 => matches!(ecn, Ecn::Ect1),
        EcnCheck::Either => matches!(ecn, Ecn::Ect0 | Ecn::Ect1),
        EcnCheck::NotEct => matches!(ecn, Ecn::NotEct),
    }
}

impl std::fmt::Display for Shown {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "> ")?;
        if self.ecn != Ecn::NotEct {
            write!(formatter, "[{}] ", ecn_word(self.ecn))?;
        }
        let end = self.start.wrapping_add(self.length);
        write!(formatter, "{} {}:{end}({})", letters(self.flags), self.start, self.length)?;
        if let Some(ack) = self.ack {
            write!(formatter, " ack {ack}")?;
        }
        write!(formatter, " win {}", self.window)?;
        if !self.options.is_empty() {
            let texts: Vec<String> = self.options.iter().map(option).collect();
            write!(formatter, " <{}>", texts.join(","))?;
        }
        Ok(())
    }
}
