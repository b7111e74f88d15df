//! The buffers of a socket.

use std::os::fd::AsFd as _;

use socket2::Socket;

use super::place::release;
use crate::system;

/// Gives a socket buffers of these sizes, in bytes, if any are given; `key` names the transport in messages.
///
/// # Errors
/// A sentence about what this kernel does instead.
pub(crate) fn set_buffers(
    socket: &Socket,
    key: &str,
    send: Option<u64>,
    receive: Option<u64>,
) -> Result<(), String> {
    for (name, size, forced, plain) in [
        ("send_buffer", send, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ("receive_buffer", receive, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
    ] {
        if let Some(size) = size {
            set_buffer(socket, size, forced, plain)
                .map_err(|what| format!("{key}.{name} = \"{size} B\": this kernel ({}) {what}", release()))?;
        }
    }
    Ok(())
}

/// Gives a socket a buffer of this size. The error says what the kernel does instead.
fn set_buffer(socket: &Socket, size: u64, forced: i32, plain: i32) -> Result<(), String> {
    let wanted = i32::try_from(size).unwrap_or(i32::MAX).min(i32::MAX / 2);
    let set = |name: i32| system::set_option(socket.as_fd(), libc::SOL_SOCKET, name, &wanted.to_ne_bytes());
    // Only root outside all user namespaces may exceed the system's limits.
    set(forced).or_else(|_| set(plain)).map_err(|error| format!("does not take it: {error}"))?;
    let mut got = [0; 4];
    let _ = system::option(socket.as_fd(), libc::SOL_SOCKET, plain, &mut got);
    // The kernel doubles the size for its own overhead (socket(7)).
    let got = i32::from_ne_bytes(got) / 2;
    if got < wanted { Err(format!("gives at most {got} B without root")) } else { Ok(()) }
}
