//! Chunks that are not interpreted: those of extensions that this library does not know (RFC 9260 section
//! 3.2), and the heartbeats of other libraries, whose contents only their sender reads (section 8.3).

use super::association::Association;
use crate::flow::PathId;
use crate::wire::sctp::chunk::{Chunk, Opaque};

impl Association {
    #[cold]
    pub(super) fn on_opaque(&mut self, path: PathId, opaque: &Opaque) {
        let answer = opaque.heartbeat_ack().or_else(|| opaque.report());
        if let Some(answer) = answer {
            self.answer(path, Chunk::Opaque(Box::new(answer)));
        }
    }
}
