//! The packet trace: one row for every packet sent, with its fate.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anabranch_transport::flow::{Ecn, Side};
use anabranch_transport::report::declare;
use anabranch_transport::time::Time;
use anabranch_transport::wire::quic::{self, Frame, Level};
use anabranch_transport::wire::sctp::chunk::{Chunk, GapBlock, Sack};
use anabranch_transport::wire::tcp::{Flags, Segment};
use anabranch_transport::wire::{Body, Packet};

use super::{Column, Declaration, SentPackets, Table};

declare! {
    COLUMNS:
    /// When its host sent it.
    SENT_S = "sent_s": Seconds;
    /// Its flow.
    FLOW = "flow": Words;
    /// The side that sent it: `a` opens the connection, `b` accepts it.
    SIDE = "side": Words;
    /// The number of its path among the flow's, from 0.
    PATH = "path": One;
    /// Its size with all headers.
    SIZE_BYTES = "size_bytes": Bytes;
    /// Bytes of the application's data that it carries.
    PAYLOAD_BYTES = "payload_bytes": Bytes;
    /// What it carries, such as `data`, `sack` or `syn`.
    KIND = "kind": Words;
    /// The first TSN, or the first byte of a stream or of what is sent over UDP, in it, or the number of
    /// QUIC's last packet in it; -1 where there is none.
    TSN = "tsn": One;
    /// The next TSN or byte of the stream that its sender expects; -1 where it says nothing of that.
    ACK = "ack": One;
    /// The receive window that it offers; -1 where it offers none.
    WINDOW_BYTES = "window_bytes": Bytes;
    /// What it acknowledges selectively: runs, each from its first number to the one behind its last; of QUIC
    /// what packets with short headers do, by packet numbers. Where these are another path's, the path
    /// stands before the run, as in `1:7-9`.
    SACK = "sack": Words;
    /// The ECN field of the IP header as its host sent it: `not_ect`, `ect0`, `ect1` or `ce` (RFC 3168, RFC
    /// 9331).
    ECN_SENT = "ecn_sent": Words;
    /// The ECN field as the other host got it, `ce` after a mark; empty where none did.
    ECN_DELIVERED = "ecn_delivered": Words;
    /// `delivered`, `in_flight` at the end, or the cause of its loss.
    FATE = "fate": Words;
    /// When the other host got it.
    DELIVERED_S = "delivered_s": Seconds;
    /// The link that lost it.
    DROPPED_AT = "dropped_at": Words;
    /// Whether the network made it, of a packet that was sent.
    IS_COPY = "is_copy": Words;
}

pub(super) const TABLE: Declaration =
    Declaration { name: "packets", row: "a packet sent, or a copy of one", columns: COLUMNS };

#[derive(Clone, Debug)]
struct Row {
    sent: Time,
    flow: u32,
    side: Side,
    path: u8,
    size: u32,
    kind: &'static str,
    tsn: Option<u32>,
    /// Bytes of the application.
    payload: u32,
    answer: Answer,
    ecn: Ecn,
    /// For a copy: the row of the packet that the endpoint sent, and when a link made the copy.
    origin: u32,
    made: Time,
    fate: Whereabouts,
}

impl Row {
    fn is_in_table(&self, flows: usize, end: Time) -> bool {
        self.made <= end && (self.flow as usize) < flows
    }

    fn order(&self) -> (u32, Time) {
        (self.origin, self.made)
    }
}

/// What a packet acknowledges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Answer {
    /// The number that is expected next: the acknowledgement number of TCP, that behind SCTP's Cumulative TSN
    /// Ack.
    next: Option<u32>,
    /// The receiver's window in bytes.
    window: Option<u32>,
    /// Runs of numbers beyond `next` that have arrived, each from its first number to the one behind it.
    runs: Box<[(u32, u32)]>,
    /// The same of other paths whose packets have numbers of their own (RFC 10069).
    elsewhere: Box<[(u8, u32, u32)]>,
}

#[derive(Clone, Copy, Debug)]
enum Whereabouts {
    Delivered(Time, Ecn),
    Dropped { cause: &'static str, link: u32, at: Time },
    InFlight,
}

/// Rows of packets; a row's number stays with its packet.
#[derive(Debug, Default)]
pub(crate) struct PacketTrace {
    rows: Vec<Row>,
    /// The window scale that each end of a connection of TCP has offered in its SYN, by flow, side and path.
    scales: BTreeMap<(u32, Side, u8), Option<u8>>,
    /// The path that packets of each further path ID of QUIC go on, by flow and ID.
    of_ids: BTreeMap<(u32, u32), u8>,
    /// The packet of each row as its host sent it, where they are kept.
    kept: Option<Vec<Packet>>,
}

impl PacketTrace {
    /// Keeps the packets themselves, too.
    pub(crate) fn keep_packets(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// Records that a packet is sent, and returns its row.
    #[cold]
    pub(crate) fn sent(&mut self, now: Time, flow: u32, side: Side, packet: &Packet) -> u32 {
        let (kind, tsn) = packet.body.describe();
        let Packet { path, size, ecn, .. } = *packet;
        let (path, origin, fate) = (path.0, self.rows.len() as u32, Whereabouts::InFlight);
        let (payload, answer) = match &packet.body {
            Body::Foreign(_) | Body::Fragment(_) | Body::Rtcp(_) => (0, Answer::default()),
            Body::Mptcp(segment) => self.of_segment((flow, side, path), &segment.tcp),
            Body::Tcp(segment) => self.of_segment((flow, side, path), segment),
            Body::Quic(datagram) => (datagram.data_bytes(), self.of_quic(flow, path, datagram.packets())),
            Body::Sctp(packet) => of_chunks(packet.chunks()),
            Body::Udp(datagram) => (datagram.length, Answer::default()),
        };
        self.rows.push(Row {
            sent: now,
            flow,
            side,
            path,
            size,
            kind,
            tsn,
            payload,
            answer,
            ecn,
            origin,
            made: now,
            fate,
        });
        if let Some(kept) = &mut self.kept {
            kept.push(packet.clone());
        }
        origin
    }

    /// The payload of a segment and what it acknowledges. The window field is in units of the scale that its
    /// sender has offered, if both ends have offered one, and in bytes in a SYN (RFC 7323 section 2.3).
    fn of_segment(&mut self, end: (u32, Side, u8), segment: &Segment) -> (u32, Answer) {
        let (flow, side, path) = end;
        let scale = if segment.flags.has(Flags::SYN) {
            self.scales.insert(end, segment.window_scale);
            0
        } else {
            let offered = |side| self.scales.get(&(flow, side, path)).copied().flatten();
            offered(side.peer()).and(offered(side)).unwrap_or(0)
        };
        let has_ack = segment.flags.has(Flags::ACK);
        let answer = Answer {
            next: has_ack.then_some(segment.acknowledgement),
            window: has_ack.then_some(u32::from(segment.window) << scale.min(14)),
            runs: segment.sack.iter().map(|block| (block.start, block.end)).collect(),
            ..Answer::default()
        };
        (segment.payload.length, answer)
    }

    /// What packets of QUIC with short headers acknowledge: no number is expected next.
    fn of_quic(&mut self, flow: u32, path: u8, packets: &[quic::Packet]) -> Answer {
        let packets = || packets.iter().filter(|packet| packet.level == Level::OneRtt);
        for packet in packets() {
            self.of_ids.entry((flow, packet.path_id)).or_insert(path);
        }
        let (mut runs, mut elsewhere) = (Vec::new(), Vec::new());
        for frame in packets().flat_map(|packet| &packet.frames) {
            let Frame::Ack(ack) = frame else { continue };
            // Without a path ID all of a connection's packets have numbers in common.
            let of = ack.path.and_then(|id| self.of_ids.get(&(flow, id)).copied()).unwrap_or(path);
            for &(first, last) in ack.ranges.iter().rev() {
                let (start, end) = (first as u32, last as u32 + 1);
                if of == path {
                    runs.push((start, end));
                } else {
                    elsewhere.push((of, start, end));
                }
            }
        }
        Answer { runs: runs.into(), elsewhere: elsewhere.into(), ..Answer::default() }
    }

    /// Adds a row for a duplicate made on the way. `made` may be after the run's end.
    pub(crate) fn duplicated(&mut self, row: u32, made: Time) -> u32 {
        self.rows.push(Row { made, fate: Whereabouts::InFlight, ..self.rows[row as usize].clone() });
        if let Some(kept) = &mut self.kept {
            kept.push(kept[row as usize].clone());
        }
        self.rows.len() as u32 - 1
    }

    #[cold]
    pub(crate) fn delivered(&mut self, now: Time, row: u32, ecn: Ecn) {
        self.rows[row as usize].fate = Whereabouts::Delivered(now, ecn);
    }

    /// Records that the link drops it at `at`, which may lie after the end of the run.
    #[cold]
    pub(crate) fn dropped(&mut self, row: u32, cause: &'static str, link: u32, at: Time) {
        self.rows[row as usize].fate = Whereabouts::Dropped { cause, link, at };
    }

    pub(crate) fn memory(&self) -> usize {
        let kept = self.kept.as_ref().map_or(0, Vec::capacity);
        self.rows.capacity() * size_of::<Row>() + kept * size_of::<Packet>()
    }

    /// The table of everything up to the end of the run, with packets in the order in which they were sent,
    /// each followed by its copies. Packets of others, which no flow has sent, are left out. The second value
    /// is the place of each row in the table, the third one has the packets that were kept.
    pub(crate) fn into_table(
        mut self,
        flows: &[String],
        links: &[String],
        end: Time,
    ) -> (Table, Vec<Option<u32>>, SentPackets) {
        let order = self.order(flows.len(), end);
        let mut places = vec![None; self.rows.len()];
        for (place, &row) in order.iter().enumerate() {
            places[row as usize] = Some(place as u32);
        }
        let is_copy = order.iter().map(|&row| self.rows[row as usize].origin != row).collect();
        let sent = self.kept.take().map(|packets| SentPackets { packets, order });
        self.rows.retain(|row| row.is_in_table(flows.len(), end));
        for row in &mut self.rows {
            if matches!(row.fate, Whereabouts::Dropped { at, .. } if at > end) {
                row.fate = Whereabouts::InFlight;
            }
        }
        self.rows.sort_by_key(Row::order);
        let rows = &self.rows;
        let text = |value: fn(&Row) -> &'static str| {
            Column::Text(rows.iter().map(|row| value(row).into()).collect())
        };
        let integers = |value: fn(&Row) -> i64| Column::Integers(rows.iter().map(value).collect());
        let numbers = |value: fn(&Row) -> f64| Column::Numbers(rows.iter().map(value).collect());
        let link = |row: &Row| match row.fate {
            Whereabouts::Dropped { link, .. } => links[link as usize].clone().into(),
            Whereabouts::Delivered(..) | Whereabouts::InFlight => "".into(),
        };
        let columns = vec![
            (SENT_S, numbers(|row| row.sent.as_secs_f64())),
            (FLOW, Column::Text(rows.iter().map(|row| flows[row.flow as usize].clone().into()).collect())),
            (SIDE, text(|row| row.side.name())),
            (PATH, integers(|row| row.path.into())),
            (SIZE_BYTES, integers(|row| row.size.into())),
            (PAYLOAD_BYTES, integers(|row| row.payload.into())),
            (KIND, text(|row| row.kind)),
            (TSN, integers(|row| row.tsn.map_or(-1, i64::from))),
            (ACK, integers(|row| row.answer.next.map_or(-1, i64::from))),
            (WINDOW_BYTES, integers(|row| row.answer.window.map_or(-1, i64::from))),
            (SACK, Column::Text(rows.iter().map(|row| in_words(&row.answer).into()).collect())),
            (ECN_SENT, text(|row| ecn_in_words(row.ecn))),
            (
                ECN_DELIVERED,
                text(|row| match row.fate {
                    Whereabouts::Delivered(_, ecn) => ecn_in_words(ecn),
                    Whereabouts::Dropped { .. } | Whereabouts::InFlight => "",
                }),
            ),
            (
                FATE,
                text(|row| match row.fate {
                    Whereabouts::Delivered(..) => "delivered",
                    Whereabouts::Dropped { cause, .. } => cause,
                    Whereabouts::InFlight => "in_flight",
                }),
            ),
            (
                DELIVERED_S,
                numbers(|row| match row.fate {
                    Whereabouts::Delivered(at, _) => at.as_secs_f64(),
                    Whereabouts::Dropped { .. } | Whereabouts::InFlight => f64::NAN,
                }),
            ),
            (DROPPED_AT, Column::Text(rows.iter().map(link).collect())),
            (IS_COPY, Column::Flags(is_copy)),
        ];
        (TABLE.with(columns), places, sent.unwrap_or_default())
    }

    /// The rows that are in the table, in its order.
    fn order(&self, flows: usize, end: Time) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        order.retain(|&row| self.rows[row as usize].is_in_table(flows, end));
        order.sort_by_key(|&row| self.rows[row as usize].order());
        order
    }
}

/// The payload of SCTP's chunks, and what they acknowledge.
fn of_chunks<'a>(chunks: impl Iterator<Item = &'a Chunk>) -> (u32, Answer) {
    let (mut payload, mut answer) = (0, Answer::default());
    for chunk in chunks {
        match chunk {
            Chunk::Data(data) => payload += data.payload.length,
            Chunk::IData(data) => payload += data.payload.length,
            Chunk::NrSack(_, nr_sack) => answer = of_sack(&nr_sack.sack, &nr_sack.final_blocks),
            Chunk::Sack(_, sack) => answer = of_sack(sack, &[]),
            Chunk::Shutdown { cumulative_tsn } => answer.next = Some(cumulative_tsn.wrapping_add(1)),
            _ => {}
        }
    }
    (payload, answer)
}

fn of_sack(sack: &Sack, final_blocks: &[GapBlock]) -> Answer {
    let at = |offset: u16| sack.cumulative_tsn.wrapping_add(offset.into());
    let blocks = sack.gap_blocks.iter().chain(final_blocks);
    Answer {
        next: Some(sack.cumulative_tsn.wrapping_add(1)),
        window: Some(sack.a_rwnd),
        runs: blocks.map(|block| (at(block.start), at(block.end).wrapping_add(1))).collect(),
        ..Answer::default()
    }
}

/// Runs as text: `7-9 12-13 1:3-5`.
fn in_words(answer: &Answer) -> String {
    let mut text = String::new();
    for (start, end) in &answer.runs {
        let _ = write!(text, " {start}-{end}");
    }
    for (path, start, end) in &answer.elsewhere {
        let _ = write!(text, " {path}:{start}-{end}");
    }
    text.split_off(usize::from(!text.is_empty()))
}

const fn ecn_in_words(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::Ce => "ce",
        Ecn::Ect0 => "ect0",
        Ecn::Ect1 => "ect1",
        Ecn::NotEct => "not_ect",
    }
}
