//! Whole Ethernet frames of an interface.

use std::ffi::CString;
use std::io::{Error, Result};
use std::mem::size_of;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A packet socket on an interface: what comes in is read from it, what is written to it goes out.
/// `UdpSocket` is used for its `send` and `recv`, which are those of any socket.
#[allow(unsafe_code)]
pub fn open(interface: &str) -> Result<UdpSocket> {
    let every = (libc::ETH_P_ALL as u16).to_be();
    let name = CString::new(interface)?;
    // SAFETY: the calls get values of the types and lengths that they ask for, and the descriptor is owned by
    // us alone.
    unsafe {
        let index = libc::if_nametoindex(name.as_ptr());
        if index == 0 {
            return Err(Error::last_os_error());
        }
        let file = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if file < 0 {
            return Err(Error::last_os_error());
        }
        let file = OwnedFd::from_raw_fd(file);
        let yes: libc::c_int = 1;
        // Otherwise what we send came back to us.
        let result = libc::setsockopt(
            file.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            (&raw const yes).cast(),
            size_of::<libc::c_int>() as u32,
        );
        if result != 0 {
            return Err(Error::last_os_error());
        }
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every;
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as u32;
        if libc::bind(file.as_raw_fd(), (&raw const address).cast(), length) != 0 {
            return Err(Error::last_os_error());
        }
        Ok(UdpSocket::from(file))
    }
}

/// Whether a frame finds neighbours (ARP, ICMPv6): those pass unimpaired, or the kernel would wait for
/// seconds.
pub fn is_control(frame: &[u8]) -> bool {
    match frame {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, ..] => false,
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, rest @ ..] => rest.get(6) == Some(&58),
        _ => true,
    }
}
