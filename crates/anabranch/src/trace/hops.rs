//! The trace of hops: one row for every packet and link that it came to.

use std::collections::BTreeMap;

use anabranch_transport::time::Time;

use super::{Column, Table};
use crate::net::{Direction, DropCause};

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
            ("packet", Column::Integers(rows.iter().map(packet).collect())),
            ("link", Column::Text(rows.iter().map(|row| links[row.link as usize].clone().into()).collect())),
            ("direction", Column::Text(rows.iter().map(|row| row.direction.name().into()).collect())),
            ("entered_s", numbers(|row| Some(row.entered))),
            ("begun_s", numbers(|row| row.begun)),
            ("left_s", numbers(|row| row.left)),
            (
                "ended_s",
                numbers(|row| match row.end {
                    HopEnd::Arrived(at) | HopEnd::Dropped(_, at) => Some(at),
                    HopEnd::OnLink => None,
                }),
            ),
            ("fate", Column::Text(rows.iter().map(|row| fate(row).into()).collect())),
        ];
        Table { name: "hops", columns }
    }
}
