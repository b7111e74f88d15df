//! What the system and a socket are set to about Fast Open (RFC 7413), in the words of Linux.

use anabranch_transport::tcp::fast_open::Key;

/// Bits of `net.ipv4.tcp_fastopen`: `TFO_CLIENT_ENABLE`, `TFO_SERVER_ENABLE`, `TFO_CLIENT_NO_COOKIE`,
/// `TFO_SERVER_COOKIE_NOT_REQD`, `TFO_SERVER_WO_SOCKOPT1`.
pub(super) const CLIENT: u64 = 1;
pub(super) const SERVER: u64 = 2;
pub(super) const CLIENT_WITHOUT_COOKIE: u64 = 4;
pub(super) const SERVER_WITHOUT_COOKIE: u64 = 0x200;
pub(super) const EVERY_LISTENER: u64 = 0x400;

/// Settings of the system and of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastOpen {
    /// The system's `net.ipv4.tcp_fastopen`.
    pub(super) bits: u64,
    /// The key of cookies.
    pub(super) key: Key,
    /// How many connections whose handshake is not over a listener may have (`TCP_FASTOPEN`).
    pub(super) queue: i64,
    /// Whether `connect` waits for what is written (`TCP_FASTOPEN_CONNECT`).
    pub(super) connects: bool,
    /// Whether the socket sends and takes data without a cookie (`TCP_FASTOPEN_NO_COOKIE`).
    pub(super) without_cookie: bool,
    /// Whether the socket wants probes of an idle connection.
    pub(super) keeps_alive: bool,
}

impl Default for FastOpen {
    fn default() -> Self {
        Self {
            bits: CLIENT,
            key: Key([0; 2]),
            queue: 0,
            connects: false,
            without_cookie: false,
            keeps_alive: false,
        }
    }
}

impl FastOpen {
    /// A socket begins to listen (Linux: `__inet_listen_sk`).
    pub(super) fn listen(&mut self, system: u64, backlog: i64) {
        if system & EVERY_LISTENER != 0 && system & SERVER != 0 && self.queue == 0 {
            self.queue = backlog;
        }
    }
}

/// The key in the form of `net.ipv4.tcp_fastopen_key`: four numbers, the least significant ones first.
pub(super) fn key(text: &str) -> Option<Key> {
    let words: Vec<u64> =
        text.split('-').map(|word| u64::from_str_radix(word, 16)).collect::<Result<_, _>>().ok()?;
    match words[..] {
        [a, b, c, d] if words.iter().all(|word| u32::try_from(*word).is_ok()) => {
            Some(Key([a | b << 32, c | d << 32]))
        }
        _ => None,
    }
}
