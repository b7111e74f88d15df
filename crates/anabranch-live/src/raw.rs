//! Sockets of IP, for SCTP without UDP (protocol 132). The system allows them for root, or with
//! `CAP_NET_RAW`.

use std::io;
use std::net::{IpAddr, SocketAddr};

use mio::net::UdpSocket;

use crate::outbox::Transmit;
use crate::route::Route;
use crate::udp::Buffers;

/// The protocol number.
const SCTP: i32 = 132;

/// A socket of IP; reads and writes are those of a socket for datagrams.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) io: UdpSocket,
    pub(crate) local: IpAddr,
}

impl Raw {
    #[cfg(unix)]
    pub(crate) fn bind(address: IpAddr) -> io::Result<Self> {
        use std::os::fd::OwnedFd;

        let domain = if address.is_ipv4() { socket2::Domain::IPV4 } else { socket2::Domain::IPV6 };
        let socket = socket2::Socket::new(domain, socket2::Type::RAW, Some(socket2::Protocol::from(SCTP)))?;
        socket.bind(&SocketAddr::new(address, 0).into())?;
        socket.set_nonblocking(true)?;
        let io = UdpSocket::from_std(std::net::UdpSocket::from(OwnedFd::from(socket)));
        Ok(Self { io, local: address })
    }

    #[cfg(not(unix))]
    pub(crate) fn bind(_address: IpAddr) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no raw sockets of SCTP; use UDP"))
    }

    /// Sends datagrams, one after the other. Returns how many have been sent.
    pub(crate) fn send(&self, transmit: &Transmit<'_>) -> (usize, io::Result<()>) {
        for (sent, datagram) in transmit.bytes.chunks(transmit.segment).enumerate() {
            if let Err(error) = self.io.send_to(datagram, SocketAddr::new(transmit.route.remote, 0)) {
                return (sent, Err(error));
            }
        }
        (transmit.bytes.len().div_ceil(transmit.segment), Ok(()))
    }

    /// Reads a datagram.
    pub(crate) fn receive(&self, buffers: &mut Buffers, each: impl FnOnce(Route, &[u8])) -> io::Result<()> {
        let buffer = buffers.first();
        let (length, from) = self.io.recv_from(buffer)?;
        let mut datagram = &buffer[..length];
        let mut local = self.local;
        if from.is_ipv4() {
            // A raw socket of IPv4 also returns the IP header.
            let header = usize::from(datagram.first().map_or(0, |first| first & 15)) * 4;
            let Some(destination) = datagram.get(16..20).filter(|_| header >= 20 && header <= length) else {
                return Ok(());
            };
            local = IpAddr::from(<[u8; 4]>::try_from(destination).expect("four octets"));
            datagram = &datagram[header..];
        }
        each(Route { local, remote: from.ip(), port: None }, datagram);
        Ok(())
    }
}
