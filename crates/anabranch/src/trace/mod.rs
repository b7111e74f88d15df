//! Traces: what happened in a run, as typed columns.
//!
//! Each table declares its columns in its file; `anabranch list tables` and docs/results.md come from that.
//! Times are in seconds since the start of the run unless the column's name ends otherwise; a time that never
//! came is NaN. Tracing never changes a result.

mod events;
mod exchanges;
mod frames;
mod head_of_line;
mod headers;
mod hops;
mod intervals;
mod limits;
mod loss_states;
mod media;
mod packets;
mod paths;
mod queues;
mod radio;
mod ratings;

use std::borrow::Cow;

use anabranch_transport::report::Declared;

pub(crate) use events::EventTrace;
pub(crate) use exchanges::exchanges_table;
pub(crate) use frames::frames_table;
pub(crate) use head_of_line::HeadOfLineTrace;
pub use headers::{Header, SentPackets};
pub(crate) use hops::{Hop, HopEnd, HopTrace};
pub(crate) use intervals::intervals_table;
pub(crate) use limits::LimitTrace;
pub(crate) use loss_states::loss_states_table;
pub(crate) use media::MediaTrace;
pub(crate) use packets::PacketTrace;
pub(crate) use paths::PathTrace;
pub(crate) use queues::queues_table;
pub(crate) use radio::radio_table;
pub(crate) use ratings::ratings_table;

/// The scalars of the time accounts: what held an end or one of its paths back, what else a path has, and
/// what a receiving end has.
pub(crate) const SCALARS: [&[Declared]; 3] = [limits::SHARES, limits::PATH_SCALARS, head_of_line::SCALARS];

/// The tables, by name.
pub const TABLES: [Declaration; 14] = [
    events::TABLE,
    exchanges::TABLE,
    frames::TABLE,
    head_of_line::TABLE,
    hops::TABLE,
    intervals::TABLE,
    limits::TABLE,
    loss_states::TABLE,
    media::TABLE,
    packets::TABLE,
    paths::TABLE,
    queues::TABLE,
    radio::TABLE,
    ratings::TABLE,
];

/// The declaration of a table.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// Its name.
    pub name: &'static str,
    /// What it has a row for.
    pub row: &'static str,
    /// Its columns.
    pub columns: &'static [Declared],
}

impl Declaration {
    /// The table with these columns, which must be those that are declared.
    fn with(self, columns: Vec<(Declared, Column)>) -> Table {
        assert!(
            columns.iter().map(|(column, _)| column).eq(self.columns),
            "the columns of `{}` are those that are declared",
            self.name
        );
        let columns = columns.into_iter().map(|(declared, column)| (declared.name, column)).collect();
        Table { name: self.name, columns }
    }
}

/// One table of a trace; all columns have the same length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The table's name.
    pub name: &'static str,
    /// Column names and columns.
    pub columns: Vec<(&'static str, Column)>,
}

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Truth values.
    Flags(Vec<bool>),
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Numbers; NaN where there is none.
    Numbers(Vec<f64>),
    /// Words.
    Text(Vec<Cow<'static, str>>),
}

impl Column {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Flags(column) => column.len(),
            Self::Integers(column) => column.len(),
            Self::Numbers(column) => column.len(),
            Self::Text(column) => column.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The traces that the engine keeps while a run goes on; links and applications keep their own.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) packets: PacketTrace,
    pub(crate) hops: HopTrace,
    pub(crate) paths: PathTrace,
    pub(crate) media: MediaTrace,
    pub(crate) events: EventTrace,
}

impl Trace {
    /// Bytes of memory in use, roughly.
    pub(crate) fn memory(&self) -> usize {
        self.packets.memory()
            + self.hops.memory()
            + self.paths.memory()
            + self.media.memory()
            + self.events.memory()
    }
}

/// The accounts of the flows' time: at the senders, and at the receivers.
#[derive(Debug)]
pub(crate) struct TimeAccounts {
    pub(crate) limits: LimitTrace,
    pub(crate) head_of_line: HeadOfLineTrace,
}

impl TimeAccounts {
    /// Accounts for flows, each with this many paths.
    pub(crate) fn new(paths: impl ExactSizeIterator<Item = usize>) -> Self {
        Self { head_of_line: HeadOfLineTrace::new(paths.len()), limits: LimitTrace::new(paths) }
    }

    /// Bytes of memory in use, roughly.
    pub(crate) fn memory(&self) -> usize {
        self.limits.memory() + self.head_of_line.memory()
    }
}
