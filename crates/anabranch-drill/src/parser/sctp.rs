//! SCTP: `sctp(tag=3): DATA[flgs=BE, len=1016, tsn=1, sid=0, ssn=0, ppid=0]; SACK[...]`.

use super::cursor::{Cursor, Parsed};
use super::term;
use crate::script::{Sctp, Term};

/// Reads what follows the word `sctp`.
pub(super) fn packet(cursor: &mut Cursor<'_>) -> Parsed<Sctp> {
    let header = if cursor.eat("(") { term::list(cursor, ")", 0)? } else { Vec::new() };
    cursor.need(":")?;
    let mut chunks = Vec::new();
    loop {
        match term::term(cursor, 0)? {
            chunk @ (Term::Element(..) | Term::List(_)) => chunks.push(chunk),
            other => {
                return cursor.expected(&format!("a chunk such as DATA[...] instead of \"{other}\""));
            }
        }
        // A semicolon may also follow the last chunk.
        if !cursor.eat(";") || !another_follows(*cursor) {
            return Ok(Sctp { header, chunks });
        }
    }
}

fn another_follows(mut cursor: Cursor<'_>) -> bool {
    cursor.skip_space();
    cursor.peek() == Some('[')
        || (cursor.peek().is_some_and(|next| next.is_ascii_alphabetic())
            && cursor.word().is_some()
            && cursor.rest().starts_with('['))
}
