//! The options that an application may set on a socket while its connection lives, as in Linux: for drivers
//! and conformance tests.

use super::config::Nagle;
use super::connection::Connection;
use super::send::Push;
use crate::endpoint::Output;
use crate::time::{Duration, Time};

impl Connection {
    /// Makes the next write, of this length, end a record: no segment holds bytes of two records (`MSG_EOR`).
    pub fn end_record(&mut self, length: u64) {
        let end = self.sender.written + length + 1;
        self.sender.marks.add(self.sender.unacknowledged, end, true);
    }

    /// Makes the segment with the last byte of the next write, of this length, a pushed one even if more
    /// follows.
    pub fn mark_push(&mut self, length: u64) {
        let end = self.sender.written + length + 1;
        self.sender.marks.add(self.sender.unacknowledged, end, false);
    }

    /// Makes the last byte of the next write, of this length, the last one of a buffer: what is behind it
    /// does not leave in one packet with it, which is cut only behind TCP.
    pub fn end_buffer(&mut self, length: u64) {
        let end = self.sender.written + length + 1;
        self.sender.marks.end_buffer(self.sender.unacknowledged, end);
    }

    /// Puts the next write into the buffer of the last one.
    pub fn extend_buffer(&mut self) {
        self.sender.marks.extend_buffer(self.sender.written + 1);
    }

    /// Whether what is written from now on is followed by more, so that less than a full segment waits for it
    /// (`MSG_MORE`).
    pub fn set_more(&mut self, follows: bool) {
        (self.sender.marks.more_follows, self.sender.marks.holds) = (follows, follows);
    }

    /// Ends a write: from now on Nagle's algorithm decides about less than a full segment, whether more
    /// follows or not.
    pub fn end_write(&mut self) {
        self.sender.marks.holds = false;
    }

    /// Stops reading for good, as an application that closes its socket does: new data, which would be lost,
    /// resets the connection (RFC 9293 section 3.6.1), and nobody waits for the peer's FIN.
    pub fn close_reading(&mut self, now: Time) {
        self.receiver.is_closed = true;
        self.limit_fin_wait_2(now);
    }

    /// Sets how long data may be outstanding before the connection is given up (`TCP_USER_TIMEOUT`, RFC 9293
    /// section 3.8.3); `None` means after as many timeouts as the settings say.
    pub fn set_user_timeout(&mut self, timeout: Option<Duration>) {
        self.timer.user_timeout = timeout;
    }

    /// Sets whether less than a full segment waits from now on (`TCP_CORK`). Data that need not wait any more
    /// leaves.
    pub fn set_corked(&mut self, now: Time, is_corked: bool) {
        self.sender.marks.is_corked = is_corked;
        self.send(now);
    }

    /// Sends everything that the windows allow, however little (Linux: `tcp_push_pending_frames` after
    /// `TCP_NODELAY`).
    pub fn push_out(&mut self, now: Time) {
        if self.state.can_send() {
            self.push(now, Push::WithoutNagle);
        }
    }

    /// Sets the bytes that the application may write ahead of what is acknowledged (`SO_SNDBUF`).
    pub fn set_send_buffer(&mut self, bytes: u64) {
        self.parameters.send_buffer = bytes.max(u64::from(self.mss));
    }

    /// Sets when less than a full segment waits from now on (`TCP_NODELAY`). Data that need not wait any more
    /// leaves.
    pub fn set_nagle(&mut self, now: Time, nagle: Nagle) {
        self.parameters.nagle = nagle;
        self.send(now);
    }

    /// Sets the number of retransmissions of SYN before the connection is given up (`TCP_SYNCNT`).
    pub fn set_syn_retries(&mut self, retries: u32) {
        self.parameters.syn_retries = retries;
    }

    /// Sets how segments leave together (Linux: `net.ipv4.tcp_min_tso_segs`, `net.ipv4.tcp_tso_win_divisor`):
    /// at least `least` of them, and none waits for others once one of `window_divisor` parts of the window
    /// is free.
    pub fn set_bursts(&mut self, least: u32, window_divisor: u32) {
        (self.parameters.least_burst, self.parameters.window_divisor) = (least, window_divisor);
    }

    /// Whether there is any output to [poll](crate::endpoint::Endpoint::poll_output).
    pub fn has_output(&self) -> bool {
        self.outputs.iter().any(|output| !matches!(output, Output::Timeout(_)))
    }
}
