//! Datagrams with the ECN field of IP (RFC 3168 section 5), which a socket of UDP does not show by itself.

use std::io::{Error, Result};
use std::mem::{size_of, size_of_val, zeroed};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Congestion experienced; the two codepoints that are ECN-capable are below it.
pub const CE: u8 = 3;

/// Has the system show the field of what comes, where the socket is of IPv4.
#[allow(unsafe_code)]
pub fn show(socket: &UdpSocket) {
    let yes: libc::c_int = 1;
    // SAFETY: the call gets a value of the length that it is told.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_RECVTOS,
            (&raw const yes).cast(),
            size_of::<libc::c_int>() as u32,
        );
    }
}

/// Reads a datagram; its length and its field.
#[allow(unsafe_code)]
pub fn receive(socket: &UdpSocket, packet: &mut [u8]) -> Result<(usize, u8)> {
    let mut control = [0_u64; 16];
    let mut part = libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() };
    // SAFETY: the message points to memory of these lengths, which outlives the call, and the headers in it
    // are walked as the system has written them.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let length = libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0);
        if length < 0 {
            return Err(Error::last_os_error());
        }
        let mut mark = 0;
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if ((*header).cmsg_level, (*header).cmsg_type) == (libc::IPPROTO_IP, libc::IP_TOS) {
                mark = *libc::CMSG_DATA(header) & CE;
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
        Ok((length as usize, mark))
    }
}
