//! Reading parameters and error causes, which have one form (RFC 9260 sections 3.2.1 and 3.3.10): a type, a
//! length that counts both, a value, and padding to four bytes.

use crate::wire::bytes::Reader;

/// The type of the next one, and its value without padding.
pub(super) fn next_value<'a>(reader: &mut Reader<'a>) -> Option<(u16, Reader<'a>)> {
    let (kind, length) = (reader.u16()?, usize::from(reader.u16()?));
    let value = reader.take(length.checked_sub(4)?)?;
    reader.take((length.next_multiple_of(4) - length).min(reader.0.len()));
    Some((kind, Reader(value)))
}

/// The type of the next one, and all of it without padding.
pub(super) fn next_whole<'a>(reader: &mut Reader<'a>) -> Option<(u16, &'a [u8])> {
    let all = reader.0;
    let kind = reader.u16()?;
    let length = usize::from(reader.u16()?);
    let whole = all.get(..length).filter(|_| length >= 4)?;
    reader.0 = all.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, whole))
}

/// The parameters in these bytes, each with its header and its padding.
pub(super) fn parameters(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
        let (parameter, rest) = bytes.split_at_checked(length.next_multiple_of(4).max(4))?;
        bytes = rest;
        Some(parameter)
    })
}

/// The length of a chunk or parameter with its padding to 4 bytes (RFC 9260 section 3.2).
pub(super) const fn padded(bytes: u32) -> u32 {
    (bytes + 3) & !3
}
