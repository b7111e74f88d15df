//! The buffers of a socket.

use std::os::fd::AsFd as _;

use socket2::Socket;

use super::place::release;
use crate::system;

/// Gives a socket buffers with this much memory, in bytes, if any is given; `key` names the transport in
/// messages.
///
/// # Errors
/// A sentence about what this kernel does instead.
pub(crate) fn set_buffers(
    socket: &Socket,
    key: &str,
    send: Option<u64>,
    receive: Option<u64>,
) -> Result<(), String> {
    for (name, memory, forced, plain) in [
        ("send_buffer", send, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ("receive_buffer", receive, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
    ] {
        if let Some(memory) = memory {
            set_buffer(socket, memory, forced, plain)
                .map_err(|what| format!("{key}.{name}: this kernel ({}) {what}", release()))?;
        }
    }
    Ok(())
}

/// Gives a socket a buffer with this much memory. The error says what the kernel does instead.
fn set_buffer(socket: &Socket, memory: u64, forced: i32, plain: i32) -> Result<(), String> {
    // The kernel doubles the number, since half of the memory may be overhead (socket(7)).
    let wanted = i32::try_from(memory.div_ceil(2)).unwrap_or(i32::MAX).min(i32::MAX / 2);
    let set = |name: i32| system::set_option(socket.as_fd(), libc::SOL_SOCKET, name, &wanted.to_ne_bytes());
    // Only root outside all user namespaces may exceed the system's limits.
    set(forced).or_else(|_| set(plain)).map_err(|error| format!("does not take it: {error}"))?;
    let mut got = [0; 4];
    let _ = system::option(socket.as_fd(), libc::SOL_SOCKET, plain, &mut got);
    let got = i32::from_ne_bytes(got);
    if got / 2 < wanted {
        Err(format!("gives at most {got} B of memory without root, and {memory} B are needed"))
    } else {
        Ok(())
    }
}
