//! UDP sockets that send and receive several datagrams in one system call (RFC 6951: SCTP in UDP).

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use mio::net::UdpSocket;
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSockRef, UdpSocketState};

use crate::outbox::Transmit;
use crate::route::Route;

/// The most bytes of one read: the system may combine many datagrams of one sender.
const BUFFER_BYTES: usize = 65_536;
/// The buffer that the system is asked for, for each socket, in bytes; it may give less.
const KERNEL_BUFFER_BYTES: usize = 4 << 20;

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
        self.state.try_send(
            UdpSockRef::from(&self.io),
            &quinn_udp::Transmit {
                destination: SocketAddr::new(remote, port),
                ecn: None,
                contents: transmit.bytes,
                segment_size,
                src_ip,
            },
        )
    }

    /// Reads a batch; calls `each` with every datagram.
    pub(crate) fn receive(
        &self,
        buffers: &mut Buffers,
        mut each: impl FnMut(Route, &[u8]),
    ) -> io::Result<()> {
        let Buffers { bytes, meta } = buffers;
        let mut slices: Vec<IoSliceMut<'_>> = bytes.chunks_mut(BUFFER_BYTES).map(IoSliceMut::new).collect();
        let count = self.state.recv(UdpSockRef::from(&self.io), &mut slices, meta)?;
        for (slice, meta) in slices.iter().zip(meta.iter()).take(count) {
            let local = meta.dst_ip.unwrap_or(self.local);
            let route = Route { local, remote: meta.addr.ip(), port: Some(meta.addr.port()) };
            for datagram in slice[..meta.len].chunks(meta.stride.max(1)) {
                each(route, datagram);
            }
        }
        Ok(())
    }
}
