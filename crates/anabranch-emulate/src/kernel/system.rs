//! What the safe interfaces to the system lack: socket options as bytes, and what has not been acknowledged.
#![expect(unsafe_code, reason = "options of sockets that neither socket2 nor rustix has")]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// `SOL_TCP`, whose number is that of the protocol.
pub(crate) const TCP: c_int = libc::IPPROTO_TCP;
/// `SOL_MPTCP` of linux/socket.h.
pub(crate) const MPTCP: c_int = 284;

/// `SOL_SCTP`, whose number is that of the protocol.
pub(crate) const SCTP: c_int = libc::IPPROTO_SCTP;

/// `MPTCP_TCPINFO` and `MPTCP_SUBFLOW_ADDRS` of linux/mptcp.h.
pub(crate) const MPTCP_TCPINFO: c_int = 2;
pub(crate) const MPTCP_SUBFLOW_ADDRS: c_int = 3;

/// Reads an option into `value`, whose beginning is what the kernel is given; the length that it has written.
pub(crate) fn option(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `value`, which has as many, and then the length.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    if done == 0 { Ok(length as usize) } else { Err(io::Error::last_os_error()) }
}

/// Sets an option.
pub(crate) fn set_option(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes from `value` as it has.
    let done = unsafe {
        let length = value.len() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bytes that have been written and not been acknowledged (`SIOCOUTQ`), a FIN among them.
pub(crate) fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut count: c_int = 0;
    // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ, writes one int to where the pointer leads.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if done == 0 { Ok(count.max(0) as u32) } else { Err(io::Error::last_os_error()) }
}
