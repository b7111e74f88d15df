//! The chunks of a statement in their [form](super::form).
//!
//! TSNs and tags of the endpoint under test are written as the script numbers them: as in packetdrill, they
//! are translated by the values in its INIT or INIT ACK. Those of the peer are taken from the script as they
//! are.

use super::form::{Item, Part};
use super::names::{CAUSES, CHUNKS, PARAMETERS, code};
use crate::script::{Direction, Term};
use crate::verdict::{Step, Stop};

/// The endpoint's tag and first TSN, as the script has them and as they are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    pub(super) script_tag: u32,
    pub(super) tag: u32,
    pub(super) script_tsn: u32,
    pub(super) tsn: u32,
}

impl Numbers {
    /// Converts a script's number to the endpoint's TSN.
    pub(super) const fn tsn(&self, script: u32) -> u32 {
        script.wrapping_sub(self.script_tsn).wrapping_add(self.tsn)
    }

    /// Converts an endpoint's TSN to the script's number.
    pub(super) const fn script_tsn(&self, tsn: u32) -> u32 {
        tsn.wrapping_sub(self.tsn).wrapping_add(self.script_tsn)
    }

    /// A tag in the endpoint's INIT or INIT ACK.
    const fn tag(&self, script: u32) -> u32 {
        if script == self.script_tag { self.tag } else { script }
    }
}

/// The terms in the brackets of a chunk, a parameter or a cause that have not been used yet.
struct Fields<'a> {
    of: &'static str,
    terms: Vec<&'a Term>,
}

impl<'a> Fields<'a> {
    fn new(of: &'static str, term: &'a Term) -> Self {
        Self { of, terms: term.parts().iter().collect() }
    }

    fn needs(&self, key: &str) -> Stop {
        Stop::needs(format!("{} without {key} or with another one", self.of))
    }

    /// The value of a key; `None` if the key is missing.
    fn value(&mut self, key: &str) -> Option<&'a Term> {
        let is_it = |term: &&Term| matches!(term, Term::Setting(name, _) if name.name() == Some(key));
        let place = self.terms.iter().position(is_it)?;
        match self.terms.remove(place) {
            Term::Setting(_, value) => Some(value),
            _ => None,
        }
    }

    /// The number to which a key is set; [`None`] if any number is right.
    fn number(&mut self, key: &'static str) -> Step<Option<u64>> {
        match self.value(key) {
            Some(Term::Any) => Ok(None),
            Some(Term::Number(number)) => Ok(Some(*number as u64)),
            Some(Term::Call(name, terms)) if name == "htonl" => match terms[..] {
                [Term::Number(number)] => Ok(Some(number as u64)),
                _ => Err(self.needs(key)),
            },
            _ => Err(self.needs(key)),
        }
    }

    fn part(&mut self, key: &'static str, width: usize) -> Step<Part> {
        Ok(Part::Number(key, width, self.number(key)?))
    }

    /// Bytes in a list; [`None`] if any bytes are right.
    fn bytes(&mut self, key: &'static str) -> Step<Option<Vec<u8>>> {
        match self.value(key) {
            Some(Term::Any) => Ok(None),
            Some(Term::List(list)) => {
                let byte = |term: &Term| term.number().and_then(|number| u8::try_from(number).ok());
                let bytes: Option<Vec<u8>> = list.iter().map(byte).collect();
                Ok(Some(bytes.ok_or_else(|| self.needs(key))?))
            }
            _ => Err(self.needs(key)),
        }
    }

    /// The parts of a list.
    fn list(&mut self, key: &'static str) -> Step<&'a [Term]> {
        match self.value(key) {
            Some(Term::List(list)) => Ok(list),
            _ => Err(self.needs(key)),
        }
    }

    /// The length of a chunk or a parameter, and its value, which is everything if no length is given.
    fn length_and_value(&mut self, header: u16) -> Step<(Option<u16>, Vec<Part>)> {
        let length = self.number("len")?.map(|length| length as u16);
        let body = match (self.bytes("val")?, length) {
            (Some(bytes), _) => vec![Part::Bytes("val", bytes)],
            (None, Some(length)) => vec![Part::Any(length.saturating_sub(header).into())],
            (None, None) => vec![Part::Rest],
        };
        Ok((length, body))
    }

    /// The remaining terms: parameters or causes, and `...` for any others.
    fn items(&mut self, item: impl Fn(&'a Term) -> Step<Item>) -> Step<Vec<Part>> {
        let each = std::mem::take(&mut self.terms).into_iter();
        each.map(|term| match term {
            Term::Any => Ok(Part::Rest),
            term => Ok(Part::Item(item(term)?)),
        })
        .collect()
    }

    /// Fails if any term is left.
    fn end(&self) -> Step<()> {
        match self.terms.first() {
            Some(left) => Err(Stop::needs(format!("{} with {left}", self.of))),
            None => Ok(()),
        }
    }
}

/// A chunk.
pub(super) fn chunk(term: &Term, direction: Direction, numbers: &Numbers) -> Step<Item> {
    let needs = || Stop::needs(format!("the chunk {}", term.name().unwrap_or("")));
    let Term::Element(name, _) = term else { return Err(needs()) };
    let is_outbound = direction == Direction::Outbound;
    let own = |tsn: Option<u64>| tsn.map(|tsn| u64::from(numbers.tsn(tsn as u32)));
    let of_data = |tsn| if is_outbound { own(tsn) } else { tsn };
    let of_acknowledgement = |tsn| if is_outbound { tsn } else { own(tsn) };
    if name == "CHUNK" {
        return other_chunk(term);
    }
    let &(name, kind) = CHUNKS.iter().find(|(known, _)| known == name).ok_or_else(needs)?;
    let mut fields = Fields::new(name, term);
    let flags = flags(&mut fields)?;
    let mut length = None;
    let body = match name {
        "ABORT" | "ERROR" => fields.items(cause)?,
        "COOKIE_ACK" | "SHUTDOWN_ACK" | "SHUTDOWN_COMPLETE" => Vec::new(),
        "COOKIE_ECHO" => {
            let body;
            (length, body) = fields.length_and_value(4)?;
            body
        }
        "DATA" => {
            length = fields.number("len")?.map(|length| length as u16);
            let mut body = vec![
                Part::Number("tsn", 4, of_data(fields.number("tsn")?)),
                fields.part("sid", 2)?,
                fields.part("ssn", 2)?,
                fields.part("ppid", 4)?,
            ];
            body.push(length.map_or(Part::Rest, |length| Part::Any(length.saturating_sub(16).into())));
            body
        }
        "I_DATA" => {
            length = fields.number("len")?.map(|length| length as u16);
            let mut body = vec![
                Part::Number("tsn", 4, of_data(fields.number("tsn")?)),
                fields.part("sid", 2)?,
                Part::Number("res", 2, fields.value("res").map_or(Some(0), |_| None)),
                fields.part("mid", 4)?,
            ];
            let has_ppid = fields
                .terms
                .iter()
                .any(|term| matches!(term, Term::Setting(name, _) if name.name() == Some("ppid")));
            body.push(fields.part(if has_ppid { "ppid" } else { "fsn" }, 4)?);
            body.push(length.map_or(Part::Rest, |length| Part::Any(length.saturating_sub(20).into())));
            body
        }
        "FORWARD_TSN" | "I_FORWARD_TSN" => {
            let mut body = vec![Part::Number("cum_tsn", 4, of_data(fields.number("cum_tsn")?))];
            let widths: &[usize] = if name == "FORWARD_TSN" { &[2, 2] } else { &[2, 2, 4] };
            for skipped in fields.list("ids")? {
                if skipped.parts().len() != widths.len() {
                    return Err(needs());
                }
                for (term, width) in skipped.parts().iter().zip(widths) {
                    let number = term.number().ok_or_else(needs)?;
                    body.push(Part::Number("ids", *width, Some(number as u64)));
                }
            }
            body
        }
        "HEARTBEAT" | "HEARTBEAT_ACK" => fields.items(parameter)?,
        "INIT" | "INIT_ACK" => {
            let tag = fields.number("tag")?;
            let tag = if is_outbound { tag.map(|tag| numbers.tag(tag as u32).into()) } else { tag };
            let mut body = vec![
                Part::Number("tag", 4, tag),
                fields.part("a_rwnd", 4)?,
                fields.part("os", 2)?,
                fields.part("is", 2)?,
                Part::Number("tsn", 4, of_data(fields.number("tsn")?)),
            ];
            body.extend(fields.items(parameter)?);
            body
        }
        "NR_SACK" | "SACK" => acknowledgement(&mut fields, of_acknowledgement)?,
        "SHUTDOWN" => vec![Part::Number("cum_tsn", 4, of_acknowledgement(fields.number("cum_tsn")?))],
        _ => return Err(needs()),
    };
    fields.end()?;
    let head = vec![Part::Number("type", 1, Some(kind.into())), Part::Number("flgs", 1, flags)];
    Ok(Item { name, head, length, body })
}

/// The fields of SACK and NR-SACK; `live` converts a TSN of the script to the endpoint's.
fn acknowledgement(fields: &mut Fields<'_>, live: impl Fn(Option<u64>) -> Option<u64>) -> Step<Vec<Part>> {
    let name = fields.of;
    let needs = || Stop::needs(format!("the chunk {name}"));
    let mut body =
        vec![Part::Number("cum_tsn", 4, live(fields.number("cum_tsn")?)), fields.part("a_rwnd", 4)?];
    let mut counts = Vec::new();
    let mut entries = Vec::new();
    let blocks: &[&'static str] = if name == "SACK" { &["gaps"] } else { &["gaps", "nr_gaps"] };
    for key in blocks {
        let list = fields.list(key)?;
        counts.push(Part::Number(key, 2, Some(list.len() as u64)));
        for block in list {
            let Term::Range(from, to) = block else { return Err(needs()) };
            entries.extend([*from, *to].map(|end| Part::Number(key, 2, Some(end as u64))));
        }
    }
    let duplicates = fields.list("dups")?;
    counts.push(Part::Number("dups", 2, Some(duplicates.len() as u64)));
    if name == "NR_SACK" {
        counts.push(Part::Number("reserved", 2, Some(0)));
    }
    for tsn in duplicates {
        let tsn = tsn.number().ok_or_else(needs)?;
        entries.push(Part::Number("dups", 4, live(Some(tsn as u64))));
    }
    body.extend(counts);
    body.extend(entries);
    Ok(body)
}

/// A chunk by its number.
fn other_chunk(term: &Term) -> Step<Item> {
    let mut fields = Fields::new("CHUNK", term);
    let kind = match fields.value("type") {
        Some(Term::Any) => None,
        Some(Term::Number(number)) => Some(*number as u64),
        Some(Term::Word(name)) => {
            let kind = CHUNKS.iter().find(|(known, _)| known == name).map(|(_, kind)| u64::from(*kind));
            Some(kind.ok_or_else(|| fields.needs("type"))?)
        }
        _ => return Err(fields.needs("type")),
    };
    let flags = flags(&mut fields)?;
    let (length, body) = fields.length_and_value(4)?;
    fields.end()?;
    let head = vec![Part::Number("type", 1, kind), Part::Number("flgs", 1, flags)];
    Ok(Item { name: "CHUNK", head, length, body })
}

/// The flags of a chunk: a number, or letters.
fn flags(fields: &mut Fields<'_>) -> Step<Option<u64>> {
    match fields.value("flgs") {
        Some(Term::Any) => Ok(None),
        // A FORWARD TSN has no flags.
        None if fields.of == "FORWARD_TSN" => Ok(Some(0)),
        Some(Term::Number(number)) => Ok(Some(*number as u64)),
        Some(Term::Word(letters)) => {
            let bit = |letter| match (fields.of, letter) {
                ("ABORT" | "SHUTDOWN_COMPLETE", 'T') | ("DATA" | "I_DATA", 'E') => Some(1),
                ("DATA" | "I_DATA", 'B') => Some(2),
                ("DATA" | "I_DATA", 'U') => Some(4),
                ("DATA" | "I_DATA", 'I') => Some(8),
                _ => None,
            };
            let bits = letters.chars().try_fold(0, |bits, letter| bit(letter).map(|bit| bits | bit));
            Ok(Some(bits.ok_or_else(|| fields.needs("flgs"))?))
        }
        _ => Err(fields.needs("flgs")),
    }
}

/// A parameter.
fn parameter(term: &Term) -> Step<Item> {
    let needs = || Stop::needs(format!("the parameter {}", term.name().unwrap_or("")));
    let Term::Element(name, _) = term else { return Err(needs()) };
    if name == "PARAMETER" {
        let mut fields = Fields::new("PARAMETER", term);
        let kind = fields.part("type", 2)?;
        let (length, body) = fields.length_and_value(4)?;
        fields.end()?;
        return Ok(Item { name: "PARAMETER", head: vec![kind], length, body });
    }
    let &(name, kind) = PARAMETERS.iter().find(|(known, _)| known == name).ok_or_else(needs)?;
    let mut fields = Fields::new(name, term);
    let mut length = None;
    let body = match name {
        "ECN_CAPABLE" | "FORWARD_TSN_SUPPORTED" => Vec::new(),
        "COOKIE_PRESERVATIVE" => vec![fields.part("incr", 4)?],
        "HEARTBEAT_INFORMATION" | "STATE_COOKIE" => {
            let body;
            (length, body) = fields.length_and_value(4)?;
            body
        }
        "HOSTNAME_ADDRESS" => match fields.value("addr") {
            Some(Term::Text(host)) => vec![Part::Bytes("addr", [host.as_bytes(), &[0]].concat())],
            Some(Term::Any) => vec![Part::Rest],
            _ => return Err(needs()),
        },
        "IPV4_ADDRESS" | "IPV6_ADDRESS" => match fields.value("addr") {
            Some(Term::Address(std::net::IpAddr::V4(address))) if name == "IPV4_ADDRESS" => {
                vec![Part::Bytes("addr", address.octets().into())]
            }
            Some(Term::Address(std::net::IpAddr::V6(address))) if name == "IPV6_ADDRESS" => {
                vec![Part::Bytes("addr", address.octets().into())]
            }
            _ => return Err(needs()),
        },
        "SUPPORTED_ADDRESS_TYPES" => {
            let types = fields.list("types")?.iter().map(|term| code(&ADDRESS_TYPES, term));
            let types: Option<Vec<u64>> = types.collect();
            types.ok_or_else(needs)?.into_iter().map(|kind| Part::Number("types", 2, Some(kind))).collect()
        }
        "SUPPORTED_EXTENSIONS" => {
            let types = fields.list("types")?.iter().map(|term| code(&CHUNKS, term));
            let types: Option<Vec<u64>> = types.collect();
            types.ok_or_else(needs)?.into_iter().map(|kind| Part::Number("types", 1, Some(kind))).collect()
        }
        "UNRECOGNIZED_PARAMETER" => {
            fields.list("params")?.iter().map(|term| Ok(Part::Item(parameter(term)?))).collect::<Step<_>>()?
        }
        _ => return Err(needs()),
    };
    fields.end()?;
    Ok(Item { name, head: vec![Part::Number("type", 2, Some(kind.into()))], length, body })
}

/// Types of addresses in a Supported Address Types parameter.
const ADDRESS_TYPES: [(&str, u16); 3] = [("HOSTNAME", 11), ("IPv4", 5), ("IPv6", 6)];

/// An error cause.
fn cause(term: &Term) -> Step<Item> {
    let needs = || Stop::needs(format!("the error cause {}", term.name().unwrap_or("")));
    let Term::Element(name, _) = term else { return Err(needs()) };
    let &(name, kind) = CAUSES.iter().find(|(known, _)| known == name).ok_or_else(needs)?;
    let mut fields = Fields::new(name, term);
    let body = match name {
        "COOKIE_RECEIVED_WHILE_SHUTDOWN" | "INVALID_MANDATORY_PARAMETER" | "OUT_OF_RESOURCES" => Vec::new(),
        "INVALID_STREAM_IDENTIFIER" => vec![fields.part("sid", 2)?, Part::Any(2)],
        "MISSING_MANDATORY_PARAMETER" => {
            let types = fields.list("types")?.iter().map(|term| code(&PARAMETERS, term));
            let types = types.collect::<Option<Vec<u64>>>().ok_or_else(needs)?;
            let mut body = vec![Part::Number("types", 4, Some(types.len() as u64))];
            body.extend(types.into_iter().map(|kind| Part::Number("types", 2, Some(kind))));
            body
        }
        "NO_USER_DATA" => vec![fields.part("tsn", 4)?],
        "PROTOCOL_VIOLATION" | "USER_INITIATED_ABORT" => match fields.value("info") {
            Some(Term::Any) => vec![Part::Rest],
            Some(Term::Text(text)) => vec![Part::Bytes("info", text.as_bytes().into())],
            None => Vec::new(),
            Some(_) => return Err(needs()),
        },
        "STALE_COOKIE_ERROR" => vec![fields.part("staleness", 4)?],
        "UNRECOGNIZED_CHUNK_TYPE" => {
            let inner = fields.value("chk").ok_or_else(needs)?;
            vec![Part::Item(chunk(inner, Direction::Inbound, &Numbers::default())?)]
        }
        "UNRECOGNIZED_PARAMETERS" => {
            fields.list("params")?.iter().map(|term| Ok(Part::Item(parameter(term)?))).collect::<Step<_>>()?
        }
        "UNRESOLVABLE_ADDRESS" => {
            vec![Part::Item(parameter(fields.value("param").ok_or_else(needs)?)?)]
        }
        _ => return Err(needs()),
    };
    fields.end()?;
    Ok(Item { name, head: vec![Part::Number("code", 2, Some(kind.into()))], length: None, body })
}
