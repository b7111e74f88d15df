//! The connection's information in the form of [`tcp::Info`]: the values of its best subflow, with those that
//! concern the whole connection in their place.

use super::connection::{Connection, State};
use crate::tcp;

impl Connection {
    /// The connection's information now. Numbers of bytes are the connection's, and states and windows are
    /// those of the subflow as far as they concern the connection; after a fall-back everything is TCP's.
    pub fn info(&self) -> tcp::Info {
        if let State::Fallback(path) = self.state {
            return self.subflows[path].tcp.info();
        }
        let path = self.best_subflow().unwrap_or(0);
        let (sender, receiver) = (&self.sender, &self.receiver);
        tcp::Info {
            unread: receiver.unread(),
            unsent: sender.written.saturating_sub(sender.next),
            unacknowledged: sender.written.saturating_sub(sender.unacknowledged),
            largest_window: sender.max_window(),
            peer_has_finished: receiver.has_ended(),
            ..self.subflows[path].tcp.info()
        }
    }
}
