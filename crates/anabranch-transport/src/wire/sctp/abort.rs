//! ABORT (RFC 9260 section 3.3.7).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Type = 6   |   Reserved  |T|             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                   zero or more Error Causes                   /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::codes::{TAG_REFLECTED, chunk};
use super::error_cause::ErrorCause;
use super::writer::Writer;
use crate::wire::bytes::Reader;
use crate::wire::sctp::context::SctpSending;

/// An ABORT chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// The T bit: the packet's verification tag is the sender's own.
    pub tag_reflected: bool,
    /// Why the association was aborted, if the chunk says so.
    pub cause: Option<ErrorCause>,
}

impl Abort {
    pub(super) fn wire_size(&self) -> u32 {
        4 + self.cause.as_ref().map_or(0, ErrorCause::wire_size)
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        writer.with_header(chunk::ABORT, if self.tag_reflected { TAG_REFLECTED } else { 0 }, |writer| {
            if let Some(cause) = &self.cause {
                cause.emit(writer);
            }
        });
    }

    pub(super) fn parse(flags: u8, mut reader: Reader<'_>) -> Self {
        let cause = ErrorCause::parse_first(&mut reader);
        Self { tag_reflected: flags & TAG_REFLECTED != 0, cause }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::Chunk;
    use super::super::testing::assert_is;
    use super::*;

    #[test]
    fn bytes_are_as_in_the_picture() {
        let cause = Some(ErrorCause::UserInitiatedAbort);
        let abort = Abort { tag_reflected: true, cause };
        assert_is(&[6, 1, 0, 8, 0, 12, 0, 4], &Chunk::Abort(abort));
        assert_is(&[6, 0, 0, 4], &Chunk::Abort(Abort { tag_reflected: false, cause: None }));
    }
}
