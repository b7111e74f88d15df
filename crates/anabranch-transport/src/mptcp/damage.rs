//! Data that was changed on its way between the ends, so that the checksum of its mapping is wrong (RFC 8684
//! section 3.7).

use super::connection::{Connection, State};
use crate::endpoint::{CloseReason, Command, Endpoint as _, Input};
use crate::tcp::subflow::Phase;
use crate::time::Time;
use crate::wire::mptcp::{Reset, Signal};

impl Connection {
    /// Handles damaged data that maps to this position. Its subflow is not to be trusted any more: a reset
    /// with `MP_FAIL` ends it, and the peer sends the data again on another one. If it is the only subflow,
    /// the connection ends, because this end does not implement infinite mappings, with which it could go on.
    #[cold]
    pub(super) fn on_damaged(&mut self, now: Time, path: usize, position: Option<u64>) {
        if self.state != State::Established || !self.has_another(path) {
            return self.fast_close(now, CloseReason::Aborted);
        }
        let position = position.unwrap_or(self.receiver.next);
        let subflow = &mut self.subflows[path];
        subflow.signal = Some(Signal::Fail { position });
        subflow.abort(now, Reset::MIDDLEBOX);
    }

    /// Handles the peer's report that data on a subflow arrived damaged. The peer has reset the subflow, or
    /// wishes to continue with it alone by an infinite mapping.
    #[cold]
    pub(super) fn on_fail(&mut self, now: Time, path: usize) {
        if self.subflows[path].phase == Phase::Closed || self.state != State::Established {
            return;
        }
        if !self.has_another(path) {
            return self.fast_close(now, CloseReason::Aborted);
        }
        self.subflows[path].tcp.handle_input(now, Input::Command(Command::Abort));
        self.subflows[path].is_dirty = true;
    }

    fn has_another(&self, path: usize) -> bool {
        self.subflows.iter().enumerate().any(|(other, subflow)| other != path && subflow.is_established())
    }
}
