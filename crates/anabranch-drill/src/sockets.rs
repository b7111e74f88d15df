//! What sockets of all protocols share.

use crate::executor::{Reply, number};
use crate::script::{Call, Term};
use crate::verdict::{Step, Stop};

/// Flags of files.
const FILE_FLAGS: [(&str, i64); 4] =
    [("O_NONBLOCK", NONBLOCK), ("O_RDONLY", 0), ("O_RDWR", READ_WRITE), ("O_WRONLY", 1)];
const NONBLOCK: i64 = 0o4000;
const READ_WRITE: i64 = 2;

/// `fcntl` on a socket, as far as it concerns waiting.
pub(crate) fn fcntl(is_nonblocking: &mut bool, call: &Call) -> Step<Reply> {
    match (call.arguments.get(1).and_then(Term::word), call.arguments.get(2)) {
        (Some("F_GETFL"), None) => {
            Ok(Reply::Returns(READ_WRITE | if *is_nonblocking { NONBLOCK } else { 0 }))
        }
        (Some("F_SETFL"), Some(flags)) => {
            let flags =
                number(flags, &FILE_FLAGS).ok_or_else(|| Stop::needs(format!("the flags {flags}")))?;
            *is_nonblocking = flags & NONBLOCK != 0;
            Ok(Reply::Returns(0))
        }
        _ => Err(Stop::needs("another use of fcntl")),
    }
}

/// The result of `connect` on a socket that is already connecting: its error, which is reported only once.
pub(crate) fn connect_again(
    error: &mut Option<&'static str>,
    is_closed: bool,
    is_connected: bool,
    is_nonblocking: bool,
) -> Reply {
    match error.take() {
        Some(error) => Reply::Error(error),
        None if is_closed => Reply::Error("ECONNABORTED"),
        None if is_connected && is_nonblocking => Reply::Error("EISCONN"),
        None if is_connected => Reply::Returns(0),
        None if is_nonblocking => Reply::Error("EALREADY"),
        None => Reply::Blocks,
    }
}
