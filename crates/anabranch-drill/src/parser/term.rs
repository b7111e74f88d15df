//! The terms in brackets: arguments, structs, sets of flags, chunks and their parameters.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::cursor::{Cursor, Parsed};
use crate::script::Term;

/// How deep brackets may be nested.
const MOST_NESTED: u32 = 32;

/// Terms separated by commas up to this bracket, which is read too.
pub(super) fn list(cursor: &mut Cursor<'_>, end: &str, depth: u32) -> Parsed<Vec<Term>> {
    let mut terms = Vec::new();
    if cursor.eat(end) {
        return Ok(terms);
    }
    loop {
        terms.push(term(cursor, depth)?);
        if cursor.eat(end) {
            return Ok(terms);
        }
        if !cursor.eat(",") {
            cursor.skip_space();
            return cursor.expected(&format!("\",\" or \"{end}\""));
        }
    }
}

/// One term, or several that are joined with `|`.
pub(super) fn term(cursor: &mut Cursor<'_>, depth: u32) -> Parsed<Term> {
    let first = single(cursor, depth)?;
    if !cursor.eat("|") {
        return Ok(first);
    }
    let mut parts = vec![first];
    loop {
        parts.push(single(cursor, depth)?);
        if !cursor.eat("|") {
            return Ok(Term::Union(parts));
        }
    }
}

fn single(cursor: &mut Cursor<'_>, depth: u32) -> Parsed<Term> {
    cursor.skip_space();
    if depth > MOST_NESTED {
        return cursor.expected("something nested less deeply");
    }
    if cursor.eat("...") {
        return Ok(Term::Any);
    }
    match cursor.peek() {
        Some('[') => {
            cursor.bump();
            return Ok(Term::List(list(cursor, "]", depth + 1)?));
        }
        Some('{') => {
            cursor.bump();
            return Ok(Term::Group(list(cursor, "}", depth + 1)?));
        }
        Some('(') => {
            cursor.bump();
            let inner = term(cursor, depth + 1)?;
            cursor.need(")")?;
            return Ok(inner);
        }
        Some('"') => {
            cursor.bump();
            return Ok(Term::Text(cursor.until("\"")?.into()));
        }
        _ => {}
    }
    if let Some(address) = address(cursor) {
        return Ok(Term::Address(address));
    }
    if cursor.peek().is_some_and(|next| next.is_ascii_digit() || matches!(next, '-' | '.')) {
        return number(cursor);
    }
    let Some(word) = cursor.word() else {
        return cursor.expected("a value");
    };
    let name = if cursor.rest().starts_with('(') {
        cursor.bump();
        Term::Call(word.into(), list(cursor, ")", depth + 1)?)
    } else if cursor.rest().starts_with('[') {
        cursor.bump();
        Term::Element(word.into(), list(cursor, "]", depth + 1)?)
    } else {
        Term::Word(word.into())
    };
    if cursor.eat("=") {
        return Ok(Term::Setting(Box::new(name), Box::new(term(cursor, depth + 1)?)));
    }
    Ok(name)
}

/// An address, if one stands here.
pub(super) fn address(cursor: &mut Cursor<'_>) -> Option<IpAddr> {
    let rest = cursor.rest();
    let length = rest
        .find(|character: char| !(character.is_ascii_hexdigit() || matches!(character, '.' | ':')))
        .unwrap_or(rest.len());
    let text = &rest[..length];
    let found = if text.contains("::") || text.matches(':').count() == 7 {
        text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
    } else {
        text.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
    }?;
    cursor.at += length;
    Some(found)
}

/// A number, or two with a colon between them.
fn number(cursor: &mut Cursor<'_>) -> Parsed<Term> {
    let start = *cursor;
    let negative = cursor.rest().starts_with('-');
    if negative {
        cursor.bump();
    }
    let word = cursor.word().unwrap_or("");
    if cursor.rest().starts_with('.') && !cursor.rest().starts_with("...") {
        cursor.bump();
        cursor.word();
        return match cursor.since(start.at).parse() {
            Ok(number) => Ok(Term::Fraction(number)),
            Err(_) => start.expected("a number"),
        };
    }
    let parsed = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        // A mask of 64 bits counts as a number too.
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|bits| bits as i64),
        None => word.parse::<i64>().ok(),
    };
    let Some(number) = parsed.map(|number| if negative { -number } else { number }) else {
        return start.expected("a number");
    };
    if cursor.rest().starts_with(':') {
        cursor.bump();
        let to: u32 = cursor.whole("a number")?;
        return Ok(Term::Range(number, i64::from(to)));
    }
    Ok(Term::Number(number))
}
