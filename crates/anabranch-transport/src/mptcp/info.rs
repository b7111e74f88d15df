//! What a connection says of itself, in the form of [`tcp::Info`]: the values of its best subflow, and in
//! their place those that concern the whole connection.

use super::connection::{Connection, State};
use crate::tcp;

impl Connection {
    /// What the connection says of itself now. Numbers of bytes are the connection's, states and windows
    /// those of the subflow for what concerns the connection; after a fall-back everything is TCP's.
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
