//! Segments in, built from their statements, and segments out, compared with theirs.
//!
//! What is compared is what packetdrill compares: every flag, sequence and acknowledgement numbers, lengths,
//! options with their order and padding, the window and the ECN field where a statement has them; of
//! timestamps the sender's clock, and that only where `--tcp_ts_tick_usecs` asks for it.

use anabranch_transport::endpoint::CloseReason;
use anabranch_transport::flow::{Ecn, PathId, Payload};
use anabranch_transport::time::Time;
use anabranch_transport::wire::mptcp::Options;
use anabranch_transport::wire::tcp::{AccurateEcn, Flags, SackBlock, Segment, Timestamps};
use anabranch_transport::wire::{self, Body as WireBody};

use super::connection::Connection;
use super::fast_open;
use super::flow::{self, Check, Sent};
use super::mptcp::{self, Proof, Told};
use super::render::{self, Shown};
use crate::script::{Body, EcnCheck, Packet, Tcp, TcpOption};
use crate::verdict::{Step, Stop};

/// The flags that letters stand for.
fn flags(tcp: &Tcp) -> Step<Flags> {
    let mut flags = tcp.ace.map_or(Flags::NONE, Flags::from_ace);
    for letter in tcp.flags.chars() {
        flags = flags.with(match letter {
            '.' => Flags::ACK,
            'A' => Flags::AE,
            'C' | 'W' => Flags::CWR,
            'E' => Flags::ECE,
            'F' => Flags::FIN,
            'P' => Flags::PSH,
            'R' => Flags::RST,
            'S' => Flags::SYN,
            '-' => Flags::NONE,
            _ => return Err(Stop::needs("urgent data")),
        });
    }
    Ok(flags)
}

const fn ecn(check: Option<EcnCheck>) -> Ecn {
    match check {
        None | Some(EcnCheck::NotEct) => Ecn::NotEct,
        Some(EcnCheck::Ce) => Ecn::Ce,
        Some(EcnCheck::Ect0 | EcnCheck::Either) => Ecn::Ect0,
        Some(EcnCheck::Ect1) => Ecn::Ect1,
    }
}

/// The segment of a statement, with the script's numbers.
fn segment(packet: &Packet, tcp: &Tcp, [own, peer]: [u16; 2]) -> Step<Segment> {
    if let Some(what) = packet.ip.first() {
        return Err(Stop::needs(format!("\"{what}\" in the IP header")));
    }
    let mut segment = Segment {
        source_port: peer,
        destination_port: own,
        sequence: tcp.start,
        acknowledgement: tcp.ack.unwrap_or(0),
        flags: flags(tcp)?,
        window: tcp.window.unwrap_or(0) as u16,
        payload: Payload { offset: 0, length: tcp.length },
        ..Segment::blank()
    };
    for option in tcp.options.iter().flatten() {
        match option {
            // Options of MPTCP are not part of the TCP segment.
            TcpOption::End | TcpOption::Mptcp(..) | TcpOption::Nop => {}
            TcpOption::Mss(size) => segment.mss = Some(*size as u16),
            TcpOption::Sack(blocks) => {
                for &(start, end) in blocks.iter().take(segment.sack.capacity()) {
                    segment.sack.push(SackBlock { start, end });
                }
            }
            TcpOption::SackPermitted => segment.sack_permitted = true,
            TcpOption::Timestamps { value, echo } => {
                segment.timestamps = Some(Timestamps { value: *value, echo: *echo });
            }
            TcpOption::WindowScale(scale) => segment.window_scale = Some(*scale),
            TcpOption::AccurateEcn(counters) => {
                segment.rare.get_or_insert_default().accurate_ecn = Some(accurate_ecn(counters)?);
            }
            TcpOption::FastOpen(cookie) => fast_open::add_option(&mut segment, cookie, false)?,
            TcpOption::FastOpenExperimental(cookie) => fast_open::add_option(&mut segment, cookie, true)?,
            TcpOption::Md5(_) => return Err(Stop::needs("MD5 signatures")),
        }
    }
    Ok(segment)
}

/// The option with these counters, which begin with that of ECT(0) or of ECT(1).
fn accurate_ecn(counters: &[(String, u32)]) -> Step<AccurateEcn> {
    let orders = [(false, ["e0b", "ceb", "e1b"]), (true, ["e1b", "ceb", "e0b"])];
    let named = |names: &[&str]| {
        counters.len() <= names.len() && counters.iter().zip(names).all(|((found, _), name)| found == name)
    };
    let Some((begins_with_ect1, _)) = orders.into_iter().find(|(_, names)| named(names)) else {
        return Err(Stop::needs("an option of accurate ECN that RFC 9768 does not have"));
    };
    Ok(AccurateEcn {
        begins_with_ect1,
        counters: counters.iter().map(|(_, count)| count & 0xff_ffff).collect(),
    })
}

/// Gives a packet to a listening socket.
pub(super) fn first(
    packet: &Packet,
    tcp: &Tcp,
    ports: [u16; 2],
    options: Option<Options>,
) -> Step<wire::Packet> {
    let segment = segment(packet, tcp, ports)?;
    let size = 20 + segment.wire_size();
    let body = mptcp::body(segment, options);
    Ok(wire::Packet { path: PathId::default(), ecn: ecn(packet.ecn), size, body })
}

/// Compares a listening socket's answer to a packet that opens nothing.
pub(super) fn expect_reply(
    replies: &mut Vec<(Time, Box<wire::Packet>)>,
    packet: &Packet,
    wanted: &Tcp,
) -> Step<Option<(Time, String)>> {
    if replies.is_empty() {
        return Ok(None);
    }
    let (at, reply) = replies.remove(0);
    let Some(segment) = reply.body.tcp() else { return Ok(None) };
    let mut shown = Shown::new(segment, reply.ecn, 0, 0);
    if let WireBody::Mptcp(multipath) = &reply.body {
        let (told, bytes) = (&Told::default(), multipath.option_bytes);
        let options = mptcp::shown(told, Proof::default(), &multipath.options, bytes, segment.payload);
        shown.options.extend(options);
    }
    match difference(packet, wanted, &shown)? {
        None => Ok(Some((at, shown.to_string()))),
        Some(reason) => Err(Stop::failed(shown.to_string(), reason)),
    }
}

impl Connection {
    /// Gives the endpoint a packet.
    pub(super) fn inject(&mut self, now: Time, packet: &Packet, scales_echoes: bool) -> Step<()> {
        let tcp = match &packet.body {
            Body::Tcp(tcp) => tcp,
            Body::Icmp(icmp) => return self.inject_icmp(now, icmp),
            Body::Other(name) => return Err(Stop::needs(format!("packets of {name}"))),
            Body::Sctp(_) => return Err(Stop::needs("SCTP")),
        };
        let named = flow::names(&packet.addresses, true);
        let joins = mptcp::asks_to_join(tcp);
        if tcp.flags.contains('S') && tcp.flags.contains('.') {
            self.turn_to_unanswered();
        }
        let place = if joins { self.place_for_join(named)? } else { self.place_of(&named)? };
        self.current = place;
        let flow = &mut self.flows[place];
        let ports = tcp.ports.map_or(flow.ports, |[from, to]| [to, from]);
        let mut segment = segment(packet, tcp, ports)?;
        if segment.flags.has(Flags::SYN) && flow.peer_first.is_none() {
            flow.peer_first = Some(tcp.start);
        }
        let is_syn = segment.flags.has(Flags::SYN);
        let (own, peer) = (flow.own_offset(is_syn), flow.peer_offset(is_syn));
        if segment.flags.has(Flags::ACK) {
            segment.acknowledgement = segment.acknowledgement.wrapping_sub(own);
        }
        for block in &mut segment.sack {
            block.start = block.start.wrapping_sub(own);
            block.end = block.end.wrapping_sub(own);
        }
        segment.sequence = segment.sequence.wrapping_sub(peer);
        segment.payload.offset = if is_syn { 0 } else { u64::from(tcp.start.wrapping_sub(1)) };
        if segment.flags.has(Flags::ACK)
            && let Some(timestamps) = &mut segment.timestamps
        {
            timestamps.echo = flow.live_stamp(timestamps.echo, scales_echoes)?;
        }
        let proof = Proof { keys: self.end.keys(), nonces: flow.nonces };
        // A connection that was aborted answers as TCP does, whatever the options say.
        let options = match self.closed {
            Some(CloseReason::Aborted) => None,
            _ => mptcp::options(&mut self.told, proof, tcp, Some(segment.payload))?,
        };
        self.deliver(now, place, segment, ecn(packet.ecn), options);
        self.join_announced(now);
        Ok(())
    }

    /// Takes the segments of a statement from those that were sent.
    pub(super) fn expect(
        &mut self,
        packet: &Packet,
        wanted: &Tcp,
        check: &Check,
    ) -> Step<Option<(Time, String)>> {
        let place = self.place_of(&flow::names(&packet.addresses, false))?;
        let flow = &mut self.flows[place];
        let Some(first) = flow.sent.front() else { return Ok(None) };
        if first.segment.flags.has(Flags::SYN) && flow.own_first != Some(first.segment.sequence) {
            flow.own_first = Some(first.segment.sequence);
            flow.script_first = wanted.start;
        }
        let mut length = 0;
        let mut count = 0;
        for sent in &flow.sent {
            length += sent.segment.payload.length;
            count += 1;
            if length >= wanted.length || check.is_strict || sent.segment.payload.length == 0 {
                break;
            }
        }
        if length < wanted.length && !check.is_strict && flow.sent[count - 1].segment.payload.length > 0 {
            // More segments may follow.
            return Ok(None);
        }
        let sent: Vec<Sent> = flow.sent.drain(..count).collect();
        let proof = Proof { keys: self.end.keys(), nonces: flow.nonces };
        self.told.learn(wanted, sent.iter().filter_map(|sent| sent.mptcp.as_ref()));
        let told = &mut self.told;
        let show = |sent: &Sent| {
            let is_syn = sent.segment.flags.has(Flags::SYN);
            let (own, peer) = (flow.own_offset(is_syn), flow.peer_offset(is_syn));
            let mut shown = Shown::new(&sent.segment, sent.ecn, own, peer);
            if let Some((options, bytes)) = &sent.mptcp {
                shown.options.extend(mptcp::shown(told, proof, options, *bytes, sent.segment.payload));
            }
            shown
        };
        let mut shown = show(&sent[0]);
        for next in &sent[1..] {
            let next = show(next);
            let reason = follows(&shown, &next);
            if !reason.is_empty() {
                return Err(Stop::failed(format!("{shown}, then {next}"), reason));
            }
            // Flags and options are those of the last segment, numbers those of the first.
            shown = Shown {
                start: shown.start,
                length: shown.length + next.length,
                flags: next.flags.without(Flags::CWR).with_if(shown.flags.has(Flags::CWR), Flags::CWR),
                ..next
            };
        }
        let at = sent[count - 1].at;
        let resolved = mptcp::resolved(told, wanted, &shown.options)?;
        let wanted = resolved.as_ref().unwrap_or(wanted);
        if let Some(reason) = flow.difference_of_stamps(wanted, &mut shown, check) {
            return Err(Stop::failed(shown.to_string(), reason));
        }
        match difference(packet, wanted, &shown)? {
            None => Ok(Some((at, shown.to_string()))),
            Some(reason) => Err(Stop::failed(shown.to_string(), reason)),
        }
    }
}

/// Why a segment cannot be the continuation of the one before; empty if it can.
fn follows(before: &Shown, next: &Shown) -> String {
    if next.start != before.start.wrapping_add(before.length) {
        return format!("the next segment begins at {}", next.start);
    }
    if next.ack != before.ack
        || next.window != before.window
        || next.flags.has(Flags::SYN)
        || next.flags.has(Flags::RST)
    {
        return "the next segment differs in its header".into();
    }
    String::new()
}

/// The difference from the wanted segment; `None` if there is none.
fn difference(packet: &Packet, wanted: &Tcp, shown: &Shown) -> Step<Option<String>> {
    let compared = flags(wanted)?;
    let mut reasons = Vec::new();
    if compared != shown.flags {
        reasons.push(format!(
            "flags are {}, not {}",
            render::letters(shown.flags),
            render::letters(compared)
        ));
    }
    if wanted.start != shown.start {
        reasons.push(format!("the sequence number is {}, not {}", shown.start, wanted.start));
    }
    if wanted.length != shown.length {
        reasons.push(format!("the length is {}, not {}", shown.length, wanted.length));
    }
    if compared.has(Flags::ACK) && wanted.ack != shown.ack {
        let text = |ack: Option<u32>| ack.map_or("none".into(), |ack| ack.to_string());
        reasons.push(format!("ack is {}, not {}", text(shown.ack), text(wanted.ack)));
    }
    if let Some(window) = wanted.window.filter(|window| *window != u32::from(shown.window)) {
        reasons.push(format!("the window is {}, not {window}", shown.window));
    }
    if let Some(check) = packet.ecn.filter(|check| !render::is_ecn(*check, shown.ecn)) {
        let _ = check;
        reasons.push(format!("the IP header says {}", render::ecn_word(shown.ecn)));
    }
    if let Some(options) = &wanted.options {
        reasons.extend(difference_of_options(options, &shown.options));
    }
    Ok((!reasons.is_empty()).then(|| reasons.join("; ")))
}

fn difference_of_options(wanted: &[TcpOption], shown: &[TcpOption]) -> Option<String> {
    let is_same = |pair: (&TcpOption, &TcpOption)| match pair {
        (TcpOption::Timestamps { .. }, TcpOption::Timestamps { .. }) => true,
        (wanted, shown) => wanted == shown,
    };
    if wanted.len() == shown.len() && wanted.iter().zip(shown).all(is_same) {
        return None;
    }
    let text = |options: &[TcpOption]| options.iter().map(render::option).collect::<Vec<_>>().join(",");
    Some(format!("options are <{}>, not <{}>", text(shown), text(wanted)))
}
