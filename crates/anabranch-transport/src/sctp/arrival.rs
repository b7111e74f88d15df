//! A packet arrives: whether it belongs to the association, and which procedure takes each of its chunks.

use super::association::Association;
use super::state::State;
use crate::endpoint::CloseReason;
use crate::flow::PathId;
use crate::time::Time;
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::{Abort, Chunk, Cookie};
use crate::wire::{Body, Packet};

impl Association {
    /// Most inputs come this way, so that it has the stack frame of `handle_input`.
    #[inline]
    pub(super) fn on_packet(&mut self, now: Time, mut packet: Box<Packet>) {
        let path = packet.path;
        let Body::Sctp(sctp) = &mut packet.body else { return };
        if path.index() >= self.routing.paths.len() {
            return;
        }
        self.stats.packets_received += 1;
        self.on_chunks(now, path, packet.size, sctp);
        self.outbox.keep(packet);
        if self.sender.is_past_nagle {
            self.send(now);
        }
        self.finish_input(now);
    }

    #[inline(never)]
    fn on_chunks(&mut self, now: Time, path: PathId, size: u32, sctp: &SctpPacket) {
        if self.parts.admit(path, sctp) && self.is_for_us(sctp) {
            self.record_arrival(now, path, size);
            self.on_chunk(now, path, sctp.verification_tag, &sctp.first);
            for chunk in &sctp.rest {
                self.on_chunk(now, path, sctp.verification_tag, chunk);
            }
            if self.has_packet_to_acknowledge() {
                self.finish_packet(now);
            }
            if self.outbox.answers.is_any() {
                self.send_answers(path);
            }
        } else {
            self.out_of_the_blue(path, sctp);
        }
    }

    /// Records that a packet of this size has arrived for this association.
    #[inline]
    pub(super) fn record_arrival(&mut self, now: Time, path: PathId, size: u32) {
        self.outbox.answers.begin(size);
        self.routing.status[path.index()].last_heard = now;
    }

    /// Whether the verification tag is right (RFC 9260 section 8.5).
    pub(super) fn is_for_us(&self, packet: &SctpPacket) -> bool {
        let tag = packet.verification_tag;
        match &packet.first {
            // Section 8.5.1 A: INIT carries tag 0.
            Chunk::Init(..) => tag == 0 && !self.state.is_ended(),
            Chunk::Illegal(illegal) if illegal.is_init() => tag == 0 && !self.state.is_ended(),
            Chunk::Abort(Abort { tag_reflected, .. }) | Chunk::ShutdownComplete { tag_reflected } => {
                // Section 8.5.1 B and C. In COOKIE-WAIT the peer's tag is not known: it is no tag that a
                // stranger could reflect.
                let knows_peer = !matches!(self.state, State::CookieWait(_));
                let expected = if *tag_reflected { self.state.peer_tag() } else { self.local.numbers.tag };
                let is_expected = tag == expected && (knows_peer || !tag_reflected);
                is_expected && self.state.is_alive()
            }
            Chunk::CookieEcho(cookie) => {
                (tag == self.local.numbers.tag || self.is_new_beginning(tag, cookie))
                    && !self.state.is_ended()
            }
            _ => tag == self.local.numbers.tag && self.state.is_alive(),
        }
    }

    fn on_chunk(&mut self, now: Time, path: PathId, tag: u32, chunk: &Chunk) {
        if !matches!(chunk, Chunk::Data(_)) {
            self.routing.next_of_paths = None;
        }
        match chunk {
            Chunk::Data(data) => self.on_data(path, data),
            Chunk::Sack(packets, sack) => self.on_sack(now, path, *packets, sack),
            Chunk::Heartbeat(info) => self.on_heartbeat(now, path, *info),
            Chunk::HeartbeatAck(info) => self.on_heartbeat_ack(now, *info),
            Chunk::ForwardTsn(forward) => self.on_forward_tsn(now, path, forward),
            Chunk::IData(data) => self.on_i_data(path, data),
            // RFC 8260 section 2.3.1: without interleaving it is a chunk that was not agreed on.
            Chunk::IForwardTsn(forward) if !self.sender.interleaves => {
                self.answer(path, Chunk::Opaque(Box::new(forward.report())));
            }
            Chunk::IForwardTsn(forward) => self.on_i_forward_tsn(now, path, forward),
            Chunk::NrSack(packets, nr_sack) => self.on_nr_sack(now, path, *packets, nr_sack),
            Chunk::Illegal(illegal) => self.on_illegal(now, path, tag, illegal),
            Chunk::Init(init, unrecognized) => self.on_init(now, path, init, unrecognized),
            Chunk::InitAck(ack) => self.on_init_ack(now, path, ack),
            Chunk::CookieEcho(cookie) => self.on_cookie_echo(now, path, tag, cookie),
            Chunk::CookieAck => self.on_cookie_ack(now, path),
            Chunk::Error(cause) => self.on_error(now, path, cause),
            Chunk::Abort(_) => self.end(now, CloseReason::Aborted),
            Chunk::Asconf(asconf) => self.on_asconf(now, path, asconf),
            Chunk::AsconfAck(ack) => self.on_asconf_ack(now, ack),
            // The chunks behind it are genuine: that was checked when the packet was made of bytes.
            Chunk::Auth(_) => {}
            Chunk::Reconfig(reconfig) => self.on_reconfig(now, path, reconfig),
            Chunk::Shutdown { cumulative_tsn } => self.on_shutdown(now, path, *cumulative_tsn),
            Chunk::ShutdownAck => self.on_shutdown_ack(now, path),
            Chunk::ShutdownComplete { .. } => self.on_shutdown_complete(now),
            Chunk::Opaque(opaque) => self.on_opaque(path, opaque),
        }
    }

    /// Takes off a packet what this association does not read: a chunk of a type that it does not know, and
    /// what is behind it (RFC 9260 section 3.2). That is an NR-SACK that was not agreed on, whose type begins
    /// with 00. It is for packets of strangers: those of a simulation keep to what was agreed on, and nobody
    /// looks.
    pub fn cut_unread(&self, packet: &mut SctpPacket) {
        let is_unknown = |chunk: &Chunk| matches!(chunk, Chunk::NrSack(..)) && !self.state.uses_nr_sacks();
        if is_unknown(&packet.first) {
            packet.rest.clear();
        } else if let Some(place) = packet.rest.iter().position(is_unknown) {
            packet.rest.truncate(place);
        }
    }

    /// Whether to believe what this packet says about its sender: it is an expected INIT ACK, or a cookie
    /// that opens this association.
    pub fn begins_with(&self, packet: &Packet) -> bool {
        let Body::Sctp(sctp) = &packet.body else { return false };
        match &sctp.first {
            Chunk::InitAck(_) => self.awaits_init_ack(),
            Chunk::CookieEcho(cookie) => match &**cookie {
                Cookie::Own(cookie) => {
                    let is_open = !(matches!(self.state, State::Closed(_)) || self.state.is_opening());
                    cookie.local_tag == self.local.numbers.tag
                        && (!is_open || cookie.peer.initiate_tag != self.state.peer_tag())
                }
                Cookie::Foreign(_) => false,
            },
            _ => false,
        }
    }

    /// Whether this end may have sent a packet with this verification tag which an ICMP message quotes, and
    /// with this Initiate Tag if it begins with INIT (RFC 9260 section 10, ICMP6).
    pub fn may_have_sent(&self, verification_tag: u32, initiate_tag: Option<u32>) -> bool {
        match initiate_tag {
            Some(initiate_tag) => {
                verification_tag == 0 && self.awaits_init_ack() && initiate_tag == self.local.numbers.tag
            }
            None => verification_tag != 0 && verification_tag == self.state.peer_tag(),
        }
    }

    /// Takes an ICMP message of such a packet, by which the peer's host has no SCTP, as an ABORT (RFC 9260
    /// section 10, ICMP8).
    pub fn end_unreachable(&mut self, now: Time) {
        self.end(now, CloseReason::Aborted);
    }
}
