//! The trace of hops: one row for every packet and link that it came to.

use std::collections::BTreeMap;

use anabranch_transport::report::declare;
use anabranch_transport::time::Time;

use super::{Column, Declaration, Table};
use crate::net::{Direction, DropCause};

declare! {
    COLUMNS:
    /// Its row in `packets`, from 0.
    PACKET = "packet": One;
    /// The link.
    LINK = "link": Words;
    /// `forward`, from the first of the link's ends to the second, or `reverse`.
    DIRECTION = "direction": Words;
    /// When it came to the link.
    ENTERED_S = "entered_s": Seconds;
    /// When the link began to send it.
    BEGUN_S = "begun_s": Seconds;
    /// When its last bit was sent.
    LEFT_S = "left_s": Seconds;
    /// When it reached the other end, or was lost.
    ENDED_S = "ended_s": Seconds;
    /// `arrived`, `on_link` at the end, or the cause of its loss.
    FATE = "fate": Words;
}

pub(super) const TABLE: Declaration =
    Declaration { name: "hops", row: "a packet and each link that it came to", columns: COLUMNS };

/// A packet at a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    /// Its row in the packet trace.
    pub(crate) packet: u32,
    /// The number of the hop among those of all routes, which grows along a route.
    pub(crate) number: u32,
    pub(crate) link: u32,
    pub(crate) direction: Direction,
    pub(crate) entered: Time,
    /// When the server began with it; [`None`] if it never did, or if a radio serves the link.
    pub(crate) begun: Option<Time>,
    /// When its last bit has left the server; [`None`] if the server never took it.
    pub(crate) left: Option<Time>,
    pub(crate) end: HopEnd,
}

/// The fate of a packet at a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HopEnd {
    Arrived(Time),
    Dropped(DropCause, Time),
    OnLink,
}

/// Rows of hops, in the order in which they were computed.
#[derive(Debug, Default)]
pub(crate) struct HopTrace {
    rows: Vec<Hop>,
    /// The rows of packets about which more will be known, by their slots.
    open: BTreeMap<u32, usize>,
    /// The row that was last written to.
    latest: usize,
}

impl HopTrace {
    /// Adds a row and returns its number.
    pub(crate) fn record(&mut self, hop: Hop) -> usize {
        self.latest = self.rows.len();
        self.rows.push(hop);
        self.latest
    }

    /// Remembers a row for the packet in this slot, so that it can be completed later.
    pub(crate) fn keep_open(&mut self, slot: u32, row: usize) {
        self.open.insert(slot, row);
    }

    /// Closes the open row of the packet in this slot. `begun` is given where the row does not say it yet.
    pub(crate) fn close(&mut self, slot: u32, begun: Option<Time>, left: Option<Time>, end: HopEnd) {
        let Some(number) = self.open.remove(&slot) else { return };
        self.latest = number;
        let row = &mut self.rows[number];
        (row.begun, row.left, row.end) = (row.begun.or(begun), left, end);
    }

    /// Records that the link has made a copy of the packet about which it was last told.
    pub(crate) fn copied(&mut self, packet: u32, arrival: Time) {
        let copy = Hop { packet, end: HopEnd::Arrived(arrival), ..self.rows[self.latest] };
        self.rows.push(copy);
    }

    pub(crate) fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<Hop>()
    }

    /// The table of everything up to the end of the run, in the order in which packets entered links; of
    /// those that entered at the same time, in the packet table's order, and along each packet's route.
    /// `places` gives the row of each packet in the packet table, if it is there.
    pub(crate) fn into_table(mut self, places: &[Option<u32>], links: &[String], end: Time) -> Table {
        self.rows.retain(|row| row.entered <= end && places[row.packet as usize].is_some());
        self.rows.sort_by_key(|row| (row.entered, places[row.packet as usize], row.number));
        let rows = &self.rows;
        let numbers = |value: fn(&Hop) -> Option<Time>| {
            let seconds = |time: Time| if time <= end { time.as_secs_f64() } else { f64::NAN };
            Column::Numbers(rows.iter().map(|row| value(row).map_or(f64::NAN, seconds)).collect())
        };
        let fate = |row: &Hop| match row.end {
            HopEnd::Arrived(at) if at <= end => "arrived",
            HopEnd::Dropped(cause, at) if at <= end => cause.name(),
            HopEnd::Arrived(_) | HopEnd::Dropped(..) | HopEnd::OnLink => "on_link",
        };
        let packet = |row: &Hop| places[row.packet as usize].map_or(-1, i64::from);
        let columns = vec![
            (PACKET, Column::Integers(rows.iter().map(packet).collect())),
            (LINK, Column::Text(rows.iter().map(|row| links[row.link as usize].clone().into()).collect())),
            (DIRECTION, Column::Text(rows.iter().map(|row| row.direction.name().into()).collect())),
            (ENTERED_S, numbers(|row| Some(row.entered))),
            (BEGUN_S, numbers(|row| row.begun)),
            (LEFT_S, numbers(|row| row.left)),
            (
                ENDED_S,
                numbers(|row| match row.end {
                    HopEnd::Arrived(at) | HopEnd::Dropped(_, at) => Some(at),
                    HopEnd::OnLink => None,
                }),
            ),
            (FATE, Column::Text(rows.iter().map(|row| fate(row).into()).collect())),
        ];
        TABLE.with(columns)
    }
}
