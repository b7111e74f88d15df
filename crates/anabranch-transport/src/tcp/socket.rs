//! What an application may set of a socket while its connection lives, as Linux has it: for drivers and conformance tests.

use super::config::Nagle;
use super::connection::Connection;
use crate::endpoint::Output;
use crate::time::Time;

impl Connection {
    /// Bytes that the application may write ahead of what is acknowledged, from now on (`SO_SNDBUF`).
    pub fn set_send_buffer(&mut self, bytes: u64) {
        self.parameters.send_buffer = bytes.max(u64::from(self.mss));
    }

    /// When less than a full segment waits, from now on (`TCP_NODELAY`). What waits and need not any more leaves.
    pub fn set_nagle(&mut self, now: Time, nagle: Nagle) {
        self.parameters.nagle = nagle;
        self.send(now);
    }

    /// Retransmissions of SYN before the connection is given up (`TCP_SYNCNT`).
    pub fn set_syn_retries(&mut self, retries: u32) {
        self.parameters.syn_retries = retries;
    }

    /// How segments leave together (Linux: `net.ipv4.tcp_min_tso_segs`, `net.ipv4.tcp_tso_win_divisor`): so many at
    /// least, and none waits for others when one of so many parts of the window is free.
    pub fn set_bursts(&mut self, least: u32, window_divisor: u32) {
        (self.parameters.least_burst, self.parameters.window_divisor) = (least, window_divisor);
    }

    /// Whether anything is to be [asked for](crate::endpoint::Endpoint::poll_output).
    pub fn has_output(&self) -> bool {
        self.outputs.iter().any(|output| !matches!(output, Output::Timeout(_)))
    }
}
