//! The exchange trace: one row for every request, page or probe.

use anabranch_transport::report::declare;
use anabranch_transport::time::{Duration, Time};

use super::{Column, Declaration, Table};
use crate::app::exchanges::Exchange;

declare! {
    COLUMNS:
    /// The flow.
    FLOW = "flow": Words;
    /// Its number among the flow's, from 0.
    INDEX = "index": One;
    /// When it began.
    ASKED_S = "asked_s": Seconds;
    /// When a connection for it was open.
    CONNECTED_S = "connected_s": Seconds;
    /// When all of it had arrived.
    FINISHED_S = "finished_s": Seconds;
    /// How long it took.
    TIME_MS = "time_ms": Millis;
    /// Bytes of the response that arrived.
    BYTES = "bytes": Bytes;
}

pub(super) const TABLE: Declaration =
    Declaration { name: "exchanges", row: "a request, page or probe", columns: COLUMNS };

/// The exchanges of every flow, in the order in which they began.
pub(crate) fn exchanges_table<'a>(flows: &[String], exchanges: impl Fn(usize) -> &'a [Exchange]) -> Table {
    let (mut flow, mut index, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut asked, mut connected, mut finished) = (Vec::new(), Vec::new(), Vec::new());
    let mut time = Vec::new();
    let seconds = |at: Time| if at.is_never() { f64::NAN } else { at.as_secs_f64() };
    for (number, name) in flows.iter().enumerate() {
        for (place, exchange) in exchanges(number).iter().enumerate() {
            flow.push(name.clone().into());
            index.push(place as i64);
            asked.push(exchange.asked.as_secs_f64());
            connected.push(seconds(exchange.connected));
            finished.push(seconds(exchange.finished));
            time.push(exchange.time().map_or(f64::NAN, Duration::as_millis_f64));
            bytes.push(exchange.bytes as i64);
        }
    }
    let columns = vec![
        (FLOW, Column::Text(flow)),
        (INDEX, Column::Integers(index)),
        (ASKED_S, Column::Numbers(asked)),
        (CONNECTED_S, Column::Numbers(connected)),
        (FINISHED_S, Column::Numbers(finished)),
        (TIME_MS, Column::Numbers(time)),
        (BYTES, Column::Integers(bytes)),
    ];
    TABLE.with(columns)
}
