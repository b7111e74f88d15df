//! Options of TCP: `<mss 1000,sackOK,nop,nop,nop,wscale 7>`, with those of MPTCP.

use super::cursor::{Cursor, Parsed, is_word};
use super::term;
use crate::script::{TcpOption, Term};

/// Options of MPTCP.
const MPTCP: [&str; 14] = [
    "add_addr",
    "add_address",
    "dss",
    "mp_capable",
    "mp_fail",
    "mp_fastclose",
    "mp_join_ack",
    "mp_join_syn",
    "mp_join_syn_ack",
    "mp_prio",
    "mp_reset",
    "mpcapable",
    "remove_addr",
    "remove_address",
];

/// The options of a segment: an empty list if there are none, [`None`] if they are `<...>`.
pub(super) fn options(cursor: &mut Cursor<'_>) -> Parsed<Option<Vec<TcpOption>>> {
    let mut ahead = *cursor;
    if !ahead.eat("<") || starts_packet(ahead) {
        return Ok(Some(Vec::new()));
    }
    *cursor = ahead;
    if cursor.eat("...") {
        cursor.need(">")?;
        return Ok(None);
    }
    let mut options = Vec::new();
    loop {
        options.push(option(cursor)?);
        if cursor.eat(">") {
            return Ok(Some(options));
        }
        cursor.need(",")?;
    }
}

/// Whether a `<` begins a packet. Such a `<` has a time before it, so it cannot stand here, except after a
/// line that is broken off.
fn starts_packet(cursor: Cursor<'_>) -> bool {
    cursor.rest().trim_start_matches([' ', '\t']).starts_with(['\n', '\r'])
}

fn option(cursor: &mut Cursor<'_>) -> Parsed<TcpOption> {
    cursor.skip_space();
    let start = *cursor;
    let name = cursor.word().unwrap_or("");
    Ok(match name {
        "ECN" => TcpOption::AccurateEcn(counters(cursor)?),
        "FO" => TcpOption::FastOpen(blob(cursor)),
        "FOEXP" => TcpOption::FastOpenExperimental(blob(cursor)),
        "TS" => {
            cursor.need("val")?;
            let value = cursor.whole("a timestamp")?;
            cursor.need("ecr")?;
            TcpOption::Timestamps { value, echo: cursor.whole("a timestamp")? }
        }
        "eol" => TcpOption::End,
        "md5" => TcpOption::Md5(blob(cursor)),
        "mss" => TcpOption::Mss(cursor.whole("a segment size")?),
        "nop" => TcpOption::Nop,
        "sack" => {
            let mut blocks = Vec::new();
            loop {
                cursor.skip_space();
                if !cursor.peek().is_some_and(|next| next.is_ascii_digit()) {
                    break;
                }
                let from = cursor.whole("a sequence number")?;
                cursor.need(":")?;
                blocks.push((from, cursor.whole("a sequence number")?));
            }
            TcpOption::Sack(blocks)
        }
        "sackOK" => TcpOption::SackPermitted,
        "wscale" => TcpOption::WindowScale(cursor.whole("a shift count")?),
        name if MPTCP.contains(&name) => {
            let mut terms: Vec<Term> = Vec::new();
            loop {
                cursor.skip_space();
                if matches!(cursor.peek(), Some(',' | '>') | None) {
                    break TcpOption::Mptcp(name.into(), terms);
                }
                terms.push(term::term(cursor, 0)?);
            }
        }
        _ => return start.expected("an option of TCP"),
    })
}

/// Hexadecimal digits or the name of a variable.
fn blob(cursor: &mut Cursor<'_>) -> String {
    let mut ahead = *cursor;
    ahead.skip_space();
    if !ahead.peek().is_some_and(is_word) {
        return String::new();
    }
    *cursor = ahead;
    cursor.word().unwrap_or("").into()
}

fn counters(cursor: &mut Cursor<'_>) -> Parsed<Vec<(String, u32)>> {
    let mut counters = Vec::new();
    loop {
        cursor.skip_space();
        if !cursor.peek().is_some_and(is_word) {
            return Ok(counters);
        }
        let name = cursor.word().unwrap_or("").into();
        counters.push((name, cursor.whole("a counter")?));
    }
}
