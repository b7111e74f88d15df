//! Chunks that are not understood: those of extensions that this library does not know (RFC 9260 section
//! 3.2), and the heartbeats of other libraries, whose information is their own business (section 8.3).

use super::association::Association;
use crate::ground::PathId;
use crate::wire::sctp::chunk::{Chunk, Opaque};

impl Association {
    #[cold]
    pub(super) fn on_opaque(&mut self, path: PathId, opaque: &Opaque) {
        if let Some(ack) = opaque.heartbeat_ack() {
            self.transmit_one(path, Chunk::Opaque(Box::new(ack)));
        } else if let Some(report) = opaque.report() {
            self.answer(path, Chunk::Opaque(Box::new(report)));
        }
    }
}
