//! Writing chunks and parameters, whose headers have a length.

use crate::flow::PathId;
use crate::wire::bytes::Append as _;

/// The writing of one chunk.
pub(super) struct Writer<'a, S> {
    pub(super) path: PathId,
    pub(super) ports: [u16; 2],
    pub(super) sending: &'a S,
    /// Where in `out` the chunk begins.
    pub(super) start: usize,
    pub(super) out: &'a mut Vec<u8>,
}

impl<S> Writer<'_, S> {
    /// Writes a chunk with its header (RFC 9260 section 3.2). The padding behind it does not count towards
    /// its length.
    pub(super) fn with_header(&mut self, kind: u8, flags: u8, value: impl FnOnce(&mut Self)) {
        self.start = self.out.len();
        self.out.u8(kind);
        self.out.u8(flags);
        self.with_length(self.start, value);
        self.out.pad(self.start);
    }

    /// Writes a parameter, or an error cause, with its header (section 3.2.1). It is padded when something
    /// follows.
    pub(super) fn parameter(&mut self, kind: u16, value: impl FnOnce(&mut Self)) {
        self.out.pad(self.start);
        let start = self.out.len();
        self.out.u16(kind);
        self.with_length(start, value);
    }

    /// Writes parameters behind others, which are padded when something follows.
    pub(super) fn parameters(&mut self, parameters: &[u8]) {
        if !parameters.is_empty() {
            self.out.pad(self.start);
            self.out.extend(parameters);
        }
    }

    /// Writes the length of what began at `start`, and its value.
    fn with_length(&mut self, start: usize, value: impl FnOnce(&mut Self)) {
        let place = self.out.len();
        self.out.u16(0);
        value(self);
        let length = (self.out.len() - start) as u16;
        self.out[place..place + 2].copy_from_slice(&length.to_be_bytes());
    }
}
