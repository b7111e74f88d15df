//! The packet trace: one row for every packet sent, with its fate.

use anabranch_transport::ground::Side;
use anabranch_transport::report::declare;
use anabranch_transport::time::Time;
use anabranch_transport::wire::Packet;

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
    /// What it carries, such as `data`, `sack` or `syn`.
    KIND = "kind": Words;
    /// The first TSN, or the first byte of a stream, in it; -1 where there is none.
    TSN = "tsn": One;
    /// `delivered`, `in_flight` at the end, or the cause of its loss.
    FATE = "fate": Words;
    /// When the other host got it.
    DELIVERED_S = "delivered_s": Seconds;
    /// The link that lost it.
    DROPPED_AT = "dropped_at": Words;
}

pub(super) const TABLE: Declaration =
    Declaration { name: "packets", row: "a packet sent, or a copy of one", columns: COLUMNS };

#[derive(Clone, Copy, Debug)]
struct Row {
    sent: Time,
    flow: u32,
    side: Side,
    path: u8,
    size: u32,
    kind: &'static str,
    tsn: Option<u32>,
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

#[derive(Clone, Copy, Debug)]
enum Whereabouts {
    Delivered(Time),
    Dropped { cause: &'static str, link: u32, at: Time },
    InFlight,
}

/// Rows of packets; a row's number stays with its packet.
#[derive(Debug, Default)]
pub(crate) struct PacketTrace {
    rows: Vec<Row>,
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
        let Packet { path, size, .. } = *packet;
        let (path, origin, fate) = (path.0, self.rows.len() as u32, Whereabouts::InFlight);
        self.rows.push(Row { sent: now, flow, side, path, size, kind, tsn, origin, made: now, fate });
        if let Some(kept) = &mut self.kept {
            kept.push(packet.clone());
        }
        origin
    }

    /// Adds a row for a duplicate made on the way. `made` may be after the run's end.
    pub(crate) fn duplicated(&mut self, row: u32, made: Time) -> u32 {
        self.rows.push(Row { made, fate: Whereabouts::InFlight, ..self.rows[row as usize] });
        if let Some(kept) = &mut self.kept {
            kept.push(kept[row as usize].clone());
        }
        self.rows.len() as u32 - 1
    }

    #[cold]
    pub(crate) fn delivered(&mut self, now: Time, row: u32) {
        self.rows[row as usize].fate = Whereabouts::Delivered(now);
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
            Whereabouts::Delivered(_) | Whereabouts::InFlight => "".into(),
        };
        let columns = vec![
            (SENT_S, numbers(|row| row.sent.as_secs_f64())),
            (FLOW, Column::Text(rows.iter().map(|row| flows[row.flow as usize].clone().into()).collect())),
            (SIDE, text(|row| row.side.name())),
            (PATH, integers(|row| row.path.into())),
            (SIZE_BYTES, integers(|row| row.size.into())),
            (KIND, text(|row| row.kind)),
            (TSN, integers(|row| row.tsn.map_or(-1, i64::from))),
            (
                FATE,
                text(|row| match row.fate {
                    Whereabouts::Delivered(_) => "delivered",
                    Whereabouts::Dropped { cause, .. } => cause,
                    Whereabouts::InFlight => "in_flight",
                }),
            ),
            (
                DELIVERED_S,
                numbers(|row| match row.fate {
                    Whereabouts::Delivered(at) => at.as_secs_f64(),
                    Whereabouts::Dropped { .. } | Whereabouts::InFlight => f64::NAN,
                }),
            ),
            (DROPPED_AT, Column::Text(rows.iter().map(link).collect())),
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
