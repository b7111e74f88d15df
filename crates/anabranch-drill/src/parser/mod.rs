//! Reads scripts: packetdrill's language as google/packetdrill, the fork of MPTCP's developers and nplab's
//! for SCTP have it. A statement that cannot be read is an error with its line; what can be read but not done
//! is left to the executor.

mod cursor;
mod options;
mod packet;
mod sctp;
mod term;
#[cfg(test)]
mod tests;

use anabranch_transport::time::Duration;

pub use cursor::ScriptError;
use cursor::{Cursor, Parsed, is_word};

use crate::script::{Action, Call, Direction, Script, ScriptOption, Statement, When};

/// Reads a script. `defined` has the names for which `#ifdef` holds, such as `Linux`.
///
/// # Errors
/// The first thing that cannot be read: its line, what was found and what is allowed.
pub fn parse(text: &str, defined: &[&str]) -> Result<Script, ScriptError> {
    let text = choose(text, defined)?;
    let mut cursor = Cursor::new(&text);
    let mut script = Script::default();
    loop {
        cursor.skip_space();
        if !cursor.rest().starts_with("--") {
            break;
        }
        cursor.mark_line();
        script.options.push(option(&mut cursor)?);
    }
    while !cursor.rest().is_empty() {
        cursor.mark_line();
        script.statements.push(statement(&mut cursor)?);
        cursor.skip_space();
    }
    Ok(script)
}

/// Blanks the lines that `#ifdef` leaves out, so that the others keep their numbers.
fn choose(text: &str, defined: &[&str]) -> Parsed<String> {
    // Whether each of the open conditions holds.
    let mut open: Vec<bool> = Vec::new();
    let mut chosen = String::with_capacity(text.len());
    for (line, number) in text.lines().zip(1..) {
        let mut words = line.split_whitespace();
        let name = |words: &mut std::str::SplitWhitespace<'_>| {
            let message = || "a name such as Linux is expected behind #ifdef".into();
            words
                .next()
                .map(|name| defined.contains(&name))
                .ok_or_else(|| ScriptError { line: number, message: message() })
        };
        let stray =
            |word: &str| ScriptError { line: number, message: format!("{word} has no #ifdef before it") };
        let is_condition = match words.next() {
            Some("#ifdef") => {
                open.push(name(&mut words)?);
                true
            }
            Some("#ifndef") => {
                open.push(!name(&mut words)?);
                true
            }
            Some("#else") => {
                let last = open.last_mut().ok_or_else(|| stray("#else"))?;
                *last = !*last;
                true
            }
            Some("#endif") => {
                open.pop().ok_or_else(|| stray("#endif"))?;
                true
            }
            _ => false,
        };
        if !is_condition && open.iter().all(|holds| *holds) {
            chosen.push_str(line);
        }
        chosen.push('\n');
    }
    if open.is_empty() {
        Ok(chosen)
    } else {
        let line = text.lines().count() as u32;
        Err(ScriptError { line, message: "an #ifdef has no #endif".into() })
    }
}

/// `--name=value`.
fn option(cursor: &mut Cursor<'_>) -> Parsed<ScriptOption> {
    let line = cursor.line();
    cursor.need("--")?;
    let name = match cursor.word() {
        Some(name) => name.into(),
        None => return cursor.expected("the name of an option"),
    };
    let mut value = String::new();
    if cursor.rest().starts_with('=') {
        cursor.bump();
        // A definition, such as CC="reno", contains quotes.
        let rest = cursor.rest();
        let length =
            rest.find(|next: char| next.is_whitespace() || matches!(next, '"' | '`')).unwrap_or(rest.len());
        value = rest[..length].into();
        cursor.at += length;
        if let Some(quote @ ('"' | '`')) = cursor.peek() {
            cursor.bump();
            value.push_str(cursor.until(&quote.to_string())?);
        }
    }
    Ok(ScriptOption { line, name, value })
}

fn statement(cursor: &mut Cursor<'_>) -> Parsed<Statement> {
    let (line, start) = (cursor.line(), cursor.at);
    let when = if cursor.rest().starts_with('`') { When::Now } else { when(cursor)? };
    cursor.skip_space();
    let action = if cursor.eat("`") {
        // A command without a closing quote, as some suites have it, ends with its line.
        let end = if cursor.rest().contains('`') { "`" } else { "\n" };
        Action::Command(cursor.until(end)?.into())
    } else if cursor.eat("%{") {
        Action::Code(cursor.until("}%")?.into())
    } else if cursor.eat("<") {
        Action::Packet(packet::packet(cursor, Direction::Inbound)?)
    } else if cursor.eat(">") {
        Action::Packet(packet::packet(cursor, Direction::Outbound)?)
    } else {
        Action::Call(call(cursor)?)
    };
    Ok(Statement { line, text: one_line(cursor.since(start)), when, action })
}

/// `+.1`, `1.5`, `*`, or two times with a tilde between them.
fn when(cursor: &mut Cursor<'_>) -> Parsed<When> {
    if cursor.eat("*") {
        return Ok(When::Any);
    }
    let is_relative = cursor.eat("+");
    let from = time(cursor)?;
    let to = if cursor.eat("~") {
        if is_relative {
            cursor.need("+")?;
        }
        let to = time(cursor)?;
        if to < from {
            return cursor.expected("a time after one that is not later");
        }
        Some(to)
    } else {
        None
    };
    Ok(if is_relative { When::Relative { from, to } } else { When::Absolute { from, to } })
}

/// Seconds, exact to a nanosecond.
fn time(cursor: &mut Cursor<'_>) -> Parsed<Duration> {
    cursor.skip_space();
    let start = *cursor;
    let digits = |cursor: &mut Cursor<'_>| {
        let rest = cursor.rest();
        let length = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        cursor.at += length;
        rest[..length].to_string()
    };
    let whole = digits(cursor);
    let has_fraction = cursor.rest().starts_with('.') && !cursor.rest().starts_with("..");
    let fraction = if has_fraction {
        cursor.bump();
        digits(cursor)
    } else {
        String::new()
    };
    let nanos = format!("{fraction:0<9}").get(..9).and_then(|digits| digits.parse::<u64>().ok());
    let secs = if whole.is_empty() { Some(0) } else { whole.parse::<u64>().ok() };
    let is_number = !(whole.is_empty() && fraction.is_empty());
    let total = secs.and_then(|secs| secs.checked_mul(1_000_000_000)?.checked_add(nanos?));
    match total {
        // A century of virtual time is a mistake.
        Some(total) if is_number && total < 3_000_000_000_000_000_000 => Ok(Duration::from_nanos(total)),
        _ => start.expected("a time in seconds, such as +.1, 0.5 or *"),
    }
}

/// `write(4, ..., 1000) = -1 EAGAIN (Try again)`, after the time at which it returns, if it blocks.
fn call(cursor: &mut Cursor<'_>) -> Parsed<Call> {
    let ends = if cursor.eat("...") { Some(time(cursor)?) } else { None };
    cursor.skip_space();
    let starts_word = cursor.peek().is_some_and(|next| next.is_ascii_alphabetic() || next == '_');
    let Some(name) = cursor.word().filter(|_| starts_word) else {
        return cursor.expected("a system call, a packet, `commands` or %{ code }%");
    };
    cursor.need("(")?;
    let arguments = term::list(cursor, ")", 0)?;
    cursor.need("=")?;
    let result = term::term(cursor, 0)?;
    // An error and a note in brackets may follow.
    let mut ahead = *cursor;
    ahead.skip_space();
    let error = ahead.word().filter(|word| word.starts_with('E')).map(String::from);
    if error.is_some() {
        *cursor = ahead;
    }
    if cursor.eat("(") {
        cursor.until(")")?;
    }
    Ok(Call { ends, name: name.into(), arguments, result, error })
}

/// A text without its comments, and with a single space instead of several or of a new line.
fn one_line(text: &str) -> String {
    let mut cursor = Cursor::new(text);
    let mut line = String::new();
    // Comments of the language do not begin within quotes.
    let is_quoted = text.contains(['`', '"']) || text.contains("%{");
    while let Some(next) = cursor.peek() {
        let rest = cursor.rest();
        let is_comment = !is_quoted && (rest.starts_with("//") || rest.starts_with("/*"));
        if next.is_whitespace() || is_comment {
            if is_quoted {
                cursor.bump();
            } else {
                cursor.skip_space();
            }
            if !line.ends_with(' ') {
                line.push(' ');
            }
        } else {
            line.push(next);
            cursor.bump();
        }
    }
    debug_assert!(line.chars().next().is_none_or(|first| !is_word(first) || !first.is_ascii_alphabetic()));
    line.trim().into()
}
