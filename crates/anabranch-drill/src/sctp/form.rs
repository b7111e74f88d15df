//! Chunks as fields: one form for what a script says, from which incoming bytes are written and with which
//! outgoing bytes are compared.

/// A part of a chunk, of a parameter or of an error cause.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// This many bytes, of any value. They are written as zeros.
    Any(usize),
    /// The bytes of the field of this name.
    Bytes(&'static str, Vec<u8>),
    /// An item with a length field of its own.
    Item(Item),
    /// A number of this many bytes; `None` matches any value.
    Number(&'static str, usize, Option<u64>),
    /// Everything that is left.
    Rest,
}

/// A chunk, a parameter or an error cause: two bytes, a length that covers all but the padding, a body.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    /// The name of the field, for messages about differences.
    pub(super) name: &'static str,
    /// The type, and the flags if it is a chunk.
    pub(super) head: Vec<Part>,
    /// The length that the script names. If it names none, any length is right, and the actual one is
    /// written.
    pub(super) length: Option<u16>,
    pub(super) body: Vec<Part>,
}

/// How many padding bytes complete a multiple of four.
const fn padding(length: usize) -> usize {
    length.next_multiple_of(4) - length
}

/// The next chunk, parameter or error cause of these bytes: its first two bytes and its value. [`None`] if
/// there is no whole one.
pub(super) fn next<'a>(bytes: &mut &'a [u8]) -> Option<([u8; 2], &'a [u8])> {
    let [a, b, high, low, ..] = **bytes else { return None };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let value = bytes.get(4..length)?;
    *bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    Some(([a, b], value))
}

impl Item {
    /// Appends the bytes with their padding, and returns how many bytes of padding there are.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        write(&self.head, out);
        out.extend([0; 2]);
        // RFC 9260 section 3.2: the padding of the last parameter does not count.
        let inner = write(&self.body, out);
        let unpadded = out.len() - inner;
        let length = self.length.unwrap_or((unpadded - start) as u16);
        out[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
        let end = out.len() + padding(out.len() - start);
        out.resize(end, 0);
        end - unpadded
    }

    /// Compares it with the beginning of these bytes, which is then taken off.
    ///
    /// # Errors
    /// What differs.
    pub(super) fn compare(&self, bytes: &mut &[u8]) -> Result<(), String> {
        let [_, _, high, low, ..] = **bytes else { return Err(format!("there is no {}", self.name)) };
        let length = u16::from_be_bytes([high, low]);
        let Some((whole, rest)) = bytes.split_at_checked(usize::from(length).max(4)) else {
            return Err(format!("{} is cut off", self.name));
        };
        let mut head = &whole[..2];
        compare(self.name, &self.head, &mut head)?;
        if self.length.is_some_and(|wanted| wanted != length) {
            return Err(format!("the length of {} is {length}", self.name));
        }
        let mut body = &whole[4..];
        compare(self.name, &self.body, &mut body)?;
        if !body.is_empty() {
            return Err(format!("{} has more in it", self.name));
        }
        *bytes = &rest[padding(whole.len()).min(rest.len())..];
        Ok(())
    }
}

/// Appends the bytes of these parts, and returns how many of the last ones are padding.
fn write(parts: &[Part], out: &mut Vec<u8>) -> usize {
    let mut padding = 0;
    for part in parts {
        padding = 0;
        match part {
            Part::Any(count) => out.resize(out.len() + count, 0),
            Part::Bytes(_, bytes) => out.extend(bytes),
            Part::Item(item) => padding = item.write(out),
            Part::Number(_, width, number) => {
                out.extend(&number.unwrap_or(0).to_be_bytes()[8 - width..]);
            }
            Part::Rest => {}
        }
    }
    padding
}

fn compare(of: &str, parts: &[Part], bytes: &mut &[u8]) -> Result<(), String> {
    for part in parts {
        let mut take = |name: &str, count: usize| {
            let (taken, rest) = bytes.split_at_checked(count).ok_or_else(|| format!("{of} has no {name}"))?;
            *bytes = rest;
            Ok::<&[u8], String>(taken)
        };
        match part {
            Part::Any(count) => _ = take("more", *count)?,
            Part::Bytes(name, wanted) => {
                if take(name, wanted.len())? != wanted {
                    return Err(format!("{name} of {of} differs"));
                }
            }
            Part::Item(item) => item.compare(bytes)?,
            Part::Number(name, width, wanted) => {
                let found = take(name, *width)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                if wanted.is_some_and(|wanted| wanted != found) {
                    return Err(format!("{name} of {of} differs"));
                }
            }
            Part::Rest => *bytes = &[],
        }
    }
    Ok(())
}
