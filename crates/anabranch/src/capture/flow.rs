//! The state on which the bytes of a flow's packets depend: addresses, the contents of payloads, and the keys
//! that its ends agree on.

use std::net::IpAddr;

use anabranch_transport::dscp::Dscp;
use anabranch_transport::flow::{IpVersion, PathId, Payload, Side};
use anabranch_transport::rng::{Draw as _, Streams};
use anabranch_transport::time::Time;
use anabranch_transport::wire::bytes::{Secret, Sending};
use anabranch_transport::wire::ip;
use anabranch_transport::wire::mptcp::Handshake;
use anabranch_transport::wire::mptcp::context::MptcpSending;
use anabranch_transport::wire::sctp::authentication::{association_key, key_vector};
use anabranch_transport::wire::sctp::context::SctpSending;
#[cfg(feature = "quic")]
use anabranch_transport::wire::udp;
use anabranch_transport::wire::udp::Datagram;
use anabranch_transport::wire::{Body, Packet};

use super::addresses::OfFlow;
#[cfg(feature = "quic")]
use super::addresses::behind_nat;
#[cfg(feature = "quic")]
use super::quic::{Connections, sizes};
use crate::app::RtpPayload;
use crate::scenario::FlowConfig;
use crate::transports::TransportConfig;

/// A flow of the capture.
#[derive(Debug)]
pub(super) struct Flow {
    addresses: OfFlow,
    ip: IpVersion,
    /// The ends by side.
    ends: [End; 2],
    /// The key of an SCTP association (RFC 4895), empty until both ends have sent their parameters.
    association_key: Vec<u8>,
    /// For each path, whether a link may fragment its packets.
    is_cut: Vec<bool>,
    /// What its datagrams carry if they have RTP, unless the transport knows that itself.
    media: Option<RtpPayload>,
    /// Counts the packets that may be fragmented.
    identification: u16,
    dscp: Dscp,
    /// The secrets of QUIC, and what has been said with them.
    #[cfg(feature = "quic")]
    quic: Option<Connections>,
}

#[derive(Debug)]
struct End {
    secret: Secret,
    /// Its key vector of SCTP (RFC 4895 section 6.1).
    key_vector: Option<Vec<u8>>,
    /// Its key of MPTCP, 0 until it has sent one.
    connection_key: u64,
}

impl Flow {
    pub(super) fn new(
        name: &str,
        seed: u64,
        addresses: OfFlow,
        is_cut: Vec<bool>,
        config: &FlowConfig,
    ) -> Self {
        let ip = if addresses[0][0].is_ipv6() { IpVersion::Ipv6 } else { IpVersion::Ipv4 };
        let end = |side: Side| {
            let name = format!("capture/{name}/{}", side.name());
            let mut rng = Streams { seed, replication: 0 }.stream(&name);
            let mut secret = [0; 32];
            secret.chunks_mut(8).for_each(|part| part.copy_from_slice(&rng.bits().to_be_bytes()));
            End { secret: Secret(secret), key_vector: None, connection_key: 0 }
        };
        let ends = [end(Side::A), end(Side::B)];
        Self {
            addresses,
            ip,
            ends,
            association_key: Vec::new(),
            is_cut,
            media: match &config.transport {
                TransportConfig::Rtp(_) => None,
                _ => Some(RtpPayload::of(&config.app)),
            },
            identification: 0,
            dscp: config.dscp,
            #[cfg(feature = "quic")]
            quic: match &config.transport {
                TransportConfig::Quic(settings) => {
                    let stream = Streams { seed, replication: 0 }.stream(&format!("capture/{name}/quic"));
                    Some(Connections::new(&mut { stream }, sizes(settings)))
                }
                _ => None,
            },
        }
    }

    /// Lines of an SSLKEYLOGFILE, if there are any.
    #[cfg(feature = "quic")]
    pub(super) fn key_log(&self) -> String {
        self.quic.as_ref().map(Connections::key_log).unwrap_or_default()
    }

    /// The bytes of a packet that one side sends now.
    pub(super) fn emit(&mut self, now: Time, side: Side, packet: &Packet) -> Vec<u8> {
        let mut bytes = self.emit_unmarked(now, side, packet);
        if !self.dscp.is_default() {
            ip::set_dscp(&mut bytes, self.dscp);
        }
        bytes
    }

    /// The same without the treatment that the flow asks for.
    fn emit_unmarked(&mut self, now: Time, side: Side, packet: &Packet) -> Vec<u8> {
        if let Body::Mptcp(segment) = &packet.body
            && let Some(Handshake::Capable { sender_key: Some(key), .. }) = segment.options.handshake
        {
            self.ends[side.index()].connection_key = key;
        }
        let identification = self.is_cut[packet.path.index()].then(|| {
            self.identification = self.identification.wrapping_add(1);
            self.identification
        });
        #[cfg(feature = "quic")]
        if let Body::Quic(datagram) = &packet.body
            && let Some(connections) = &mut self.quic
        {
            let [client, server] = self.addresses[packet.path.index()];
            let addresses = [behind_nat(client, datagram.client_host), server];
            let addresses = if side == Side::A { addresses } else { [addresses[1], addresses[0]] };
            let (ports, mut body) = ([datagram.source_port, datagram.destination_port], Vec::new());
            udp::wrap(ports, addresses, &mut body, |out| {
                connections.emit(side, &datagram.content, places, out);
            });
            return ip::wrap(ip::UDP, addresses, packet.ecn, identification, &body);
        }
        let of_side = OfSide { flow: self, side };
        let bytes = match (&packet.body, self.media) {
            (&Body::Udp(datagram @ Datagram { rtp: Some(rtp), .. }), Some(media)) => {
                let body = Body::Udp(Datagram { rtp: Some(media.stamped(now, rtp)), ..datagram });
                Packet { body, ..packet.clone() }.emit(identification, &of_side)
            }
            _ => packet.emit(identification, &of_side),
        };
        if let Body::Sctp(_) = packet.body
            && let Some(vector) = key_vector(&bytes[self.ip.header_bytes() as usize..])
        {
            self.ends[side.index()].key_vector = Some(vector);
            if let [Some(a), Some(b)] = self.ends.each_ref().map(|end| end.key_vector.as_deref()) {
                self.association_key = association_key(a, b);
            }
        }
        bytes
    }
}

/// Simulated applications have no bytes, so each byte is its place in the stream, modulo a prime number.
fn places(payload: Payload, out: &mut Vec<u8>) {
    out.extend((payload.offset..payload.offset + u64::from(payload.length)).map(|place| (place % 251) as u8));
}

/// A flow as one of its sides sees it.
struct OfSide<'a> {
    flow: &'a Flow,
    side: Side,
}

impl Sending for OfSide<'_> {
    fn addresses(&self, path: PathId) -> [IpAddr; 2] {
        let [a, b] = self.flow.addresses[path.index()];
        if self.side == Side::A { [a, b] } else { [b, a] }
    }

    fn ip(&self) -> IpVersion {
        self.flow.ip
    }

    fn payload(&self, payload: Payload, out: &mut Vec<u8>) {
        places(payload, out);
    }
}

impl SctpSending for OfSide<'_> {
    fn own_addresses(&self) -> Vec<IpAddr> {
        self.flow.addresses.iter().map(|pair| pair[self.side.index()]).collect()
    }

    fn secret(&self) -> &Secret {
        &self.flow.ends[self.side.index()].secret
    }

    fn association_key(&self) -> &[u8] {
        &self.flow.association_key
    }
}

impl MptcpSending for OfSide<'_> {
    fn connection_keys(&self) -> [u64; 2] {
        let [own, peers] =
            [self.side, self.side.peer()].map(|side| self.flow.ends[side.index()].connection_key);
        [own, peers]
    }
}
