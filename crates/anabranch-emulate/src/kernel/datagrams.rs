//! Flows of UDP on the kernel's sockets.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};

use anabranch::app::RtpPayload;
use anabranch::outside::Counters;
use anabranch::scenario::FlowConfig;
use anabranch_transport::endpoint::{CloseReason, Command, Event, Received};
use anabranch_transport::flow::{Payload, Side};
use anabranch_transport::report::{Declared, declare, declared};
use anabranch_transport::time::Time;
use anabranch_transport::udp;
use anabranch_transport::wire::rtp;
use rustix::event::PollFlags;
use socket2::{Domain, Protocol, Socket, Type};

use super::pattern::Pattern;
use super::place::{Home, bind_or_any};
use crate::system;

declare! {
    /// What only the kernel counts of an end.
    KERNEL:
    /// Datagrams that are none of those sent.
    MALFORMED_DATAGRAMS = "kernel.malformed_datagrams": One;
}

/// What a simulated end counts by this name.
const fn udp(name: &str) -> Declared {
    declared(udp::SCALARS[0].1[0], name)
}

/// How many datagrams are read from a socket before the other sockets have their turn.
const BATCH: usize = 64;

/// Tells an application what happens at one of its ends.
pub(crate) type Tell<'a> = dyn FnMut(Side, Event) + 'a;

/// A flow of datagrams: a socket at each end.
#[derive(Debug)]
pub(crate) struct Datagrams {
    ends: [End; 2],
    /// What its datagrams carry if they have RTP.
    media: RtpPayload,
}

#[derive(Debug)]
struct End {
    socket: Socket,
    port: u16,
    has_rtp: bool,
    /// The number in the stream of what arrived last.
    near: u64,
    sent: u64,
    sent_bytes: u64,
    received: u64,
    received_bytes: u64,
    refused: u64,
    malformed: u64,
}

impl Datagrams {
    /// Sockets at these addresses.
    ///
    /// # Errors
    /// A sentence about what the system does not permit.
    pub(crate) fn open(
        homes: &[Home; 2],
        addresses: [std::net::IpAddr; 2],
        configs: [udp::Config; 2],
        flow: &FlowConfig,
    ) -> Result<Self, String> {
        let media = RtpPayload::of(&flow.app);
        let failed = |error: io::Error| format!("a socket of UDP cannot be opened: {error}");
        let port = |side: Side| {
            let config = configs[side.index()];
            [config.source_port, config.destination_port][side.index()]
        };
        let open = |side: Side| -> Result<Socket, String> {
            homes[side.index()].enter()?;
            let address = SocketAddr::new(addresses[side.index()], port(side));
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP));
            let socket = socket.map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            // A datagram that is larger than the MTU is sent in fragments, as in a simulation.
            let (level, name) = match address {
                SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
                SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
            };
            let never = libc::IP_PMTUDISC_DONT.to_ne_bytes();
            system::set_option(socket.as_fd(), level, name, &never).map_err(failed)?;
            let ecn = configs[side.index()].ecn.field();
            system::set_traffic_class(socket.as_fd(), address.ip(), flow.dscp, ecn).map_err(failed)?;
            bind_or_any(&socket, address).map_err(failed)?;
            Ok(socket)
        };
        let [one, other] = [open(Side::A)?, open(Side::B)?];
        for (own, peer) in [(&one, &other), (&other, &one)] {
            own.connect(&peer.local_addr().map_err(failed)?).map_err(failed)?;
        }
        let end = |socket: Socket, side: Side| End {
            socket,
            port: port(side),
            has_rtp: configs[side.index()].rtp,
            near: 0,
            sent: 0,
            sent_bytes: 0,
            received: 0,
            received_bytes: 0,
            refused: 0,
            malformed: 0,
        };
        Ok(Self { ends: [end(one, Side::A), end(other, Side::B)], media })
    }

    /// Calls `each` with the sockets and the events to wait for.
    pub(crate) fn watch<'a>(&'a self, each: &mut impl FnMut(BorrowedFd<'a>, PollFlags)) {
        for end in &self.ends {
            each(end.socket.as_fd(), PollFlags::IN);
        }
    }

    /// Carries out a command of an application, which it gives now.
    pub(crate) fn execute(
        &mut self,
        now: Time,
        side: Side,
        command: Command,
        pattern: &Pattern,
        tell: &mut Tell<'_>,
    ) {
        match command {
            Command::Connect => tell(side, Event::Connected),
            Command::Abort => tell(side, Event::Closed(CloseReason::Aborted)),
            Command::Shutdown => tell(side, Event::Closed(CloseReason::Shutdown)),
            Command::Send(message) => {
                let end = &mut self.ends[side.index()];
                let rtp = rtp::Header {
                    marker: false,
                    payload_type: 0,
                    sequence: end.sent as u16,
                    timestamp: 0,
                    ssrc: end.port.into(),
                    original_sequence: None,
                };
                let rtp = end.has_rtp.then(|| self.media.stamped(now, rtp));
                if !end.send(message.payload, pattern, rtp) {
                    tell(side, Event::Refused(message.payload));
                }
            }
            other => tell(side, Event::Unsupported(other.name())),
        }
    }

    /// Handles these sockets, in the order in which they are watched, since something is to be done at them.
    pub(crate) fn handle(
        &mut self,
        ready: &[PollFlags],
        pattern: &Pattern,
        buffer: &mut [u8],
        tell: &mut Tell<'_>,
    ) {
        for side in [Side::A, Side::B] {
            if ready[side.index()].is_empty() {
                continue;
            }
            let has_rtp = self.ends[side.peer().index()].has_rtp;
            for _ in 0..BATCH {
                let end = &mut self.ends[side.index()];
                // An ICMP error about a datagram is reported by the read; it is not a datagram.
                let Ok(length) = rustix::io::read(&end.socket, &mut *buffer) else { break };
                if let Some(payload) = end.take(&buffer[..length], has_rtp, pattern) {
                    let received = Received::unordered(payload);
                    tell(side, Event::Received(received));
                }
            }
        }
    }

    /// The counters of an end.
    pub(crate) fn counters(&self, side: Side) -> Counters {
        let end = &self.ends[side.index()];
        [
            (udp("datagrams_sent"), end.sent),
            (udp("bytes_sent"), end.sent_bytes),
            (udp("datagrams_received"), end.received),
            (udp("bytes_delivered"), end.received_bytes),
            (udp("refused"), end.refused),
            (MALFORMED_DATAGRAMS, end.malformed),
        ]
        .map(|(declared, count)| (Cow::Borrowed(""), declared, count))
        .into()
    }
}

impl End {
    /// Sends a datagram; gives whether the kernel has taken it.
    fn send(
        &mut self,
        Payload { offset, length }: Payload,
        pattern: &Pattern,
        rtp: Option<rtp::Header>,
    ) -> bool {
        let mut datagram = Vec::with_capacity(rtp::HEADER_BYTES as usize + length as usize);
        if let Some(rtp) = rtp {
            rtp.emit(&mut datagram);
        }
        pattern.write_message(offset, length as usize, &mut datagram);
        let is_taken = self.socket.send(&datagram).is_ok_and(|taken| taken == datagram.len());
        if is_taken {
            self.sent += 1;
            self.sent_bytes += u64::from(length);
        } else {
            self.refused += 1;
        }
        is_taken
    }

    /// The payload of a datagram, if it belongs to this flow.
    fn take(&mut self, datagram: &[u8], has_rtp: bool, pattern: &Pattern) -> Option<Payload> {
        let header = if has_rtp { rtp::HEADER_BYTES as usize } else { 0 };
        let offset = datagram.get(header..).and_then(|message| pattern.read_message(self.near, message));
        let Some(offset) = offset else {
            self.malformed += 1;
            return None;
        };
        let length = (datagram.len() - header) as u32;
        self.near = offset.saturating_add(u64::from(length));
        self.received += 1;
        self.received_bytes += u64::from(length);
        Some(Payload { offset, length })
    }
}
