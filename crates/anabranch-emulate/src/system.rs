//! What the safe interfaces to the system lack: socket options as bytes, how much has not been acknowledged,
//! and the priority of a thread.
#![expect(unsafe_code, reason = "calls and options of sockets that neither socket2 nor rustix has")]

use std::ffi::c_int;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use anabranch_transport::dscp::Dscp;
use anabranch_transport::flow::Ecn;
use anabranch_transport::wire::ip;

/// `SOL_TCP`, whose number is that of the protocol.
pub(crate) const TCP: c_int = libc::IPPROTO_TCP;
/// `SOL_MPTCP` of linux/socket.h.
pub(crate) const MPTCP: c_int = 284;

/// `SOL_SCTP`, whose number is that of the protocol.
pub(crate) const SCTP: c_int = libc::IPPROTO_SCTP;

/// `MPTCP_TCPINFO` and `MPTCP_SUBFLOW_ADDRS` of linux/mptcp.h.
pub(crate) const MPTCP_TCPINFO: c_int = 2;
pub(crate) const MPTCP_SUBFLOW_ADDRS: c_int = 3;

/// Reads an option into `value`, the beginning of which is what the kernel is given. Returns the length that
/// it has written.
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

/// Sets both fields of the octet that IPv4 calls the type of service and IPv6 the traffic class (RFC 2474
/// section 3, RFC 3168 section 5), for the packets that a socket with such an address sends.
pub(crate) fn set_traffic_class(
    socket: BorrowedFd<'_>,
    address: IpAddr,
    dscp: Dscp,
    ecn: Ecn,
) -> io::Result<()> {
    let (level, name) = match address {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    let value = c_int::from(dscp.number() << 2 | ip::ecn_bits(ecn));
    set_option(socket, level, name, &value.to_ne_bytes())
}

/// Bytes that have been written and not acknowledged (`SIOCOUTQ`), a FIN included.
pub(crate) fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut count: c_int = 0;
    // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ, writes one int to where the pointer leads.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if done == 0 { Ok(count.max(0) as u32) } else { Err(io::Error::last_os_error()) }
}

/// Makes a packet socket receive everything that comes to the device with this number, and send there.
pub(crate) fn bind_to_device(socket: BorrowedFd<'_>, device: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: device as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the kernel reads as many bytes from `address` as it has.
    let done = unsafe {
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel complete the checksums of every packet, and split packets above the MTU, before a device
/// of this thread's network gets them (`ETHTOOL_STXCSUM`): a device without checksum offload gets no large
/// segments.
pub(crate) fn turn_off_offloads(device: &str) -> io::Result<()> {
    /// struct `ethtool_value` of linux/ethtool.h.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    const ETHTOOL_STXCSUM: u32 = 0x17;
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    let mut value = Value { command: ETHTOOL_STXCSUM, data: 0 };
    let mut name = [0; libc::IFNAMSIZ];
    // The last byte remains zero.
    for (to, from) in name[..libc::IFNAMSIZ - 1].iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    let data = libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut value).cast() };
    let mut request = libc::ifreq { ifr_name: name, ifr_ifru: data };
    // SAFETY: SIOCETHTOOL reads a name and a pointer to `value`, which outlives the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether the calling thread has real-time priority, which is given to it from outside.
pub(crate) fn is_real_time() -> bool {
    // SAFETY: the call takes a number, of which 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    [libc::SCHED_FIFO, libc::SCHED_RR].contains(&(policy & !libc::SCHED_RESET_ON_FORK))
}
