//! Packets: the direction, the fields of the IP header, and the TCP or ICMP part.

use super::cursor::{Cursor, Parsed};
use super::{options, sctp, term};
use crate::script::{Body, Direction, EcnCheck, Icmp, Packet, Tcp, Term};

/// Protocols that packetdrill knows and we do not.
const OTHERS: [&str; 7] = ["GREv0", "encap", "gre", "ipv4", "ipv6", "mpls", "udp"];

/// Reads what follows `<` or `>`.
pub(super) fn packet(cursor: &mut Cursor<'_>, direction: Direction) -> Parsed<Packet> {
    let mut packet = Packet {
        direction,
        addresses: addresses(cursor)?,
        ecn: None,
        ip: Vec::new(),
        body: Body::Other(String::new()),
    };
    ip_header(cursor, &mut packet)?;
    cursor.skip_space();
    let mut ahead = *cursor;
    let word = ahead.word().unwrap_or("");
    packet.body = if word == "sctp" {
        *cursor = ahead;
        Body::Sctp(sctp::packet(cursor)?)
    } else if word == "icmp" {
        *cursor = ahead;
        Body::Icmp(icmp(cursor)?)
    } else if OTHERS.contains(&word) {
        // A packet that we cannot send is read to the end of its line.
        let line = cursor.rest().find('\n').unwrap_or(cursor.rest().len());
        cursor.at += line;
        Body::Other(word.into())
    } else {
        Body::Tcp(tcp(cursor)?)
    };
    Ok(packet)
}

/// `addr[caddr0] > addr[saddr0]` or `10.0.0.1 > 10.0.0.2`; the first address may be missing.
fn addresses(cursor: &mut Cursor<'_>) -> Parsed<[Option<Term>; 2]> {
    let address = |cursor: &mut Cursor<'_>| -> Parsed<Option<Term>> {
        cursor.skip_space();
        if cursor.rest().starts_with("addr[") {
            return term::term(cursor, 0).map(Some);
        }
        Ok(term::address(cursor).map(Term::Address))
    };
    let from = address(cursor)?;
    let to = if cursor.eat(">") { address(cursor)? } else { None };
    cursor.eat(":");
    Ok([from, to])
}

/// `[ect0, ttl 5]` or the same in round brackets.
fn ip_header(cursor: &mut Cursor<'_>, packet: &mut Packet) -> Parsed<()> {
    let end = if cursor.eat("[") {
        "]"
    } else if cursor.eat("(") {
        ")"
    } else {
        return Ok(());
    };
    for part in cursor.until(end)?.split(',').map(str::trim) {
        packet.ecn = match part {
            "ce" => Some(EcnCheck::Ce),
            "ect0" => Some(EcnCheck::Ect0),
            "ect01" => Some(EcnCheck::Either),
            "ect1" => Some(EcnCheck::Ect1),
            "noecn" => Some(EcnCheck::NotEct),
            other => {
                packet.ip.push(other.into());
                packet.ecn
            }
        };
    }
    Ok(())
}

/// `S. 0:0(0) ack 1 win 100 <mss 1000>`.
fn tcp(cursor: &mut Cursor<'_>) -> Parsed<Tcp> {
    let ports = ports(cursor)?;
    cursor.skip_space();
    let flags = cursor.rest().split(|character: char| character.is_whitespace()).next().unwrap_or("");
    // The field of accurate ECN stands among the flags: ".5" or "P5.".
    let is_digit = |character: &char| character.is_ascii_digit();
    let letters: String = flags.chars().filter(|character| !is_digit(character)).collect();
    let digits: String = flags.chars().filter(is_digit).collect();
    let is_known = letters.chars().all(|letter| "SFRPUWECA.-".contains(letter)) && !letters.is_empty();
    let ace = digits.parse().ok();
    if !is_known || (!digits.is_empty() && ace.is_none_or(|number: u8| number > 7)) {
        return cursor.expected("a packet with flags such as \"S.\", \"sctp:\" or \"icmp\"");
    }
    cursor.at += flags.len();
    let (start, end, length) = sequence(cursor)?;
    let mut after = |word: &str| -> Parsed<Option<u32>> {
        if cursor.eat_word(word) { cursor.whole("a number").map(Some) } else { Ok(None) }
    };
    let (ack, window, urgent) = (after("ack")?, after("win")?, after("urg")?);
    Ok(Tcp {
        ports,
        flags: letters,
        ace,
        start,
        end,
        length,
        ack,
        window,
        urgent,
        options: options::options(cursor)?,
    })
}

/// `1000 > 2000`.
fn ports(cursor: &mut Cursor<'_>) -> Parsed<Option<[u16; 2]>> {
    cursor.skip_space();
    if !cursor.peek().is_some_and(|next| next.is_ascii_digit()) {
        return Ok(None);
    }
    let from = cursor.whole("a port")?;
    cursor.need(">")?;
    Ok(Some([from, cursor.whole("a port")?]))
}

/// `1:1001(1000)`.
fn sequence(cursor: &mut Cursor<'_>) -> Parsed<(u32, u32, u32)> {
    let start: u32 = cursor.whole("a sequence number")?;
    cursor.need(":")?;
    let end: u32 = cursor.whole("a sequence number")?;
    cursor.need("(")?;
    let length: u32 = cursor.whole("a length")?;
    cursor.need(")")?;
    if start.wrapping_add(length) != end {
        return cursor.expected(&format!(
            "{start}:{}({length}) instead of {start}:{end}({length})",
            start.wrapping_add(length)
        ));
    }
    Ok((start, end, length))
}

/// `unreachable frag_needed mtu 1200 [1:1001(1000)]`.
fn icmp(cursor: &mut Cursor<'_>) -> Parsed<Icmp> {
    let word = |cursor: &mut Cursor<'_>| {
        cursor.skip_space();
        let is_word = cursor.peek().is_some_and(|next| next.is_ascii_alphabetic());
        if is_word { cursor.word().map(String::from) } else { None }
    };
    let Some(kind) = word(cursor) else {
        return cursor.expected("a type of ICMP");
    };
    let mut code = None;
    let mut mtu = None;
    while let Some(name) = word(cursor) {
        match name.as_str() {
            "id" => _ = cursor.whole::<u32>("an identifier")?,
            "mtu" => mtu = Some(cursor.whole("an MTU in bytes")?),
            _ => code = Some(name),
        }
    }
    let echoed = if cursor.eat("[") {
        let echoed = sequence(cursor)?;
        cursor.need("]")?;
        Some(echoed)
    } else {
        None
    };
    Ok(Icmp { kind, code, mtu, echoed })
}
