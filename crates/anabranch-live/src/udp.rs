//! UDP sockets that send and receive several datagrams in one system call (RFC 6951: SCTP in UDP).

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use anabranch_transport::flow::Ecn;
use mio::net::UdpSocket;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};

use crate::outbox::Transmit;
use crate::route::Route;
use crate::stack::Unreachable;

/// The most bytes of one read: the system may combine many datagrams of one sender.
const BUFFER_BYTES: usize = 65_536;
/// The buffer that the system is asked for, for each socket, in bytes; it may give less.
const KERNEL_BUFFER_BYTES: usize = 4 << 20;

/// How many ICMP messages are read from a socket before others have their turn.
#[cfg(target_os = "linux")]
const MOST_ERRORS: usize = 64;

/// A socket of UDP.
#[derive(Debug)]
pub(crate) struct Udp {
    pub(crate) io: UdpSocket,
    state: UdpSocketState,
    pub(crate) local: IpAddr,
}

/// Memory for reading.
pub(crate) struct Buffers {
    bytes: Vec<u8>,
    meta: Vec<RecvMeta>,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; BATCH_SIZE * BUFFER_BYTES], meta: vec![RecvMeta::default(); BATCH_SIZE] }
    }

    /// The first buffer, as large as the largest packet.
    pub(crate) fn first(&mut self) -> &mut [u8] {
        &mut self.bytes[..BUFFER_BYTES]
    }
}

impl Udp {
    pub(crate) fn bind(address: IpAddr, port: u16) -> io::Result<Self> {
        let domain = if address.is_ipv4() { socket2::Domain::IPV4 } else { socket2::Domain::IPV6 };
        let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&SocketAddr::new(address, port).into())?;
        let io = UdpSocket::from_std({
            socket.set_nonblocking(true)?;
            socket.into()
        });
        report_errors(&io, address)?;
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        // The system may give less than this.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&io), KERNEL_BUFFER_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&io), KERNEL_BUFFER_BYTES);
        Ok(Self { io, state, local: address })
    }

    /// The port to which it is bound.
    pub(crate) fn port(&self) -> io::Result<u16> {
        Ok(self.io.local_addr()?.port())
    }

    /// How many datagrams the system takes in one call.
    pub(crate) fn most_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends datagrams.
    pub(crate) fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let Route { local, remote, port } = transmit.route;
        let Some(port) = port else { return Ok(()) };
        let src_ip = (!local.is_unspecified()).then_some(local);
        let segment_size = (transmit.segment < transmit.bytes.len()).then_some(transmit.segment);
        let datagrams = quinn_udp::Transmit {
            destination: SocketAddr::new(remote, port),
            ecn: codepoint(transmit.ecn),
            contents: transmit.bytes,
            segment_size,
            src_ip,
        };
        let send = || self.state.try_send(UdpSockRef::from(&self.io), &datagrams);
        match send() {
            // What came back for another datagram is told here, and this one has not been sent.
            Err(error) if is_of_icmp(&error) => send(),
            result => result,
        }
    }

    /// Reads what ICMP messages have said of datagrams that were sent; calls `each` with it and with the
    /// beginning of the datagram's payload.
    #[cfg(target_os = "linux")]
    pub(crate) fn errors(&self, buffers: &mut Buffers, mut each: impl FnMut(Unreachable, &[u8])) {
        use std::os::fd::AsRawFd as _;

        use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        for _ in 0..MOST_ERRORS {
            let mut control = [0; 512];
            let buffer = buffers.first();
            let mut slices = [IoSliceMut::new(buffer)];
            let read =
                recvmsg::<SockaddrStorage>(self.io.as_raw_fd(), &mut slices, Some(&mut control), flags);
            let Ok(message) = read else { return };
            let length = message.bytes;
            let to: Option<SocketAddr> = message.address.and_then(|to| {
                let v4 = to.as_sockaddr_in().map(|to| SocketAddr::from((to.ip(), to.port())));
                v4.or_else(|| to.as_sockaddr_in6().map(|to| SocketAddr::from((to.ip(), to.port()))))
            });
            let said = message.cmsgs().ok().and_then(|mut said| {
                said.find_map(|said| match said {
                    ControlMessageOwned::Ipv4RecvErr(error, _)
                    | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                        meaning(error.ee_origin, error.ee_type, error.ee_code)
                    }
                    _ => None,
                })
            });
            let (Some(to), Some((reason, is_refused))) = (to, said) else { continue };
            let route = Route { local: self.local, remote: to.ip(), port: Some(to.port()) };
            each(Unreachable { route, is_refused, reason }, &buffer[..length]);
        }
    }

    /// On other systems nothing is heard of ICMP messages.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "as on Linux")]
    pub(crate) fn errors(&self, _buffers: &mut Buffers, _each: impl FnMut(Unreachable, &[u8])) {}

    /// Reads a batch; calls `each` with every datagram.
    pub(crate) fn receive(
        &self,
        buffers: &mut Buffers,
        mut each: impl FnMut(Route, Ecn, &[u8]),
    ) -> io::Result<()> {
        let Buffers { bytes, meta } = buffers;
        let mut slices: Vec<IoSliceMut<'_>> = bytes.chunks_mut(BUFFER_BYTES).map(IoSliceMut::new).collect();
        let count = self.state.recv(UdpSockRef::from(&self.io), &mut slices, meta)?;
        for (slice, meta) in slices.iter().zip(meta.iter()).take(count) {
            let local = meta.dst_ip.unwrap_or(self.local);
            let route = Route { local, remote: meta.addr.ip(), port: Some(meta.addr.port()) };
            let mark = meta.ecn.map_or(Ecn::NotEct, mark);
            for datagram in slice[..meta.len].chunks(meta.stride.max(1)) {
                each(route, mark, datagram);
            }
        }
        Ok(())
    }
}

const fn codepoint(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}

const fn mark(codepoint: EcnCodepoint) -> Ecn {
    match codepoint {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }
}

/// Has the system keep what ICMP messages say of datagrams that were sent, for [`Udp::errors`].
#[cfg(target_os = "linux")]
fn report_errors(io: &UdpSocket, address: IpAddr) -> io::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt};

    if address.is_ipv4() {
        setsockopt(io, sockopt::Ipv4RecvErr, &true)?;
    } else {
        setsockopt(io, sockopt::Ipv6RecvErr, &true)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
fn report_errors(_io: &UdpSocket, _address: IpAddr) -> io::Result<()> {
    Ok(())
}

/// Whether a call has failed because of what an ICMP message said of an earlier datagram.
pub(crate) fn is_of_icmp(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied};

    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | PermissionDenied)
}

/// What an ICMP message means: what is unreachable, and whether that is the port or the protocol. [`None`] if
/// it is about something else.
#[cfg(target_os = "linux")]
const fn meaning(origin: u8, kind: u8, code: u8) -> Option<(&'static str, bool)> {
    // `linux/errqueue.h`; RFC 792, RFC 1812 section 5.2.7.1, RFC 4443 section 3.
    const ICMP: u8 = 2;
    const ICMPV6: u8 = 3;
    match (origin, kind, code) {
        (ICMP, 3, 0) | (ICMPV6, 1, 0) => Some(("no route to the network", false)),
        (ICMP, 3, 1) | (ICMPV6, 1, 3) => Some(("no route to the host", false)),
        (ICMP, 3, 2) | (ICMPV6, 4, 1) => Some(("nobody has the protocol there", true)),
        (ICMP, 3, 3) | (ICMPV6, 1, 4) => Some(("nobody has the UDP port there", true)),
        (ICMP, 3, 9 | 10 | 13) | (ICMPV6, 1, 1 | 5 | 6) => Some(("a filter forbids it", false)),
        _ => None,
    }
}
