//! The exchange trace: one row for every request, page or probe.

use anabranch_transport::time::{Duration, Time};

use super::{Column, Table};
use crate::app::exchanges::Exchange;

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
        ("flow", Column::Text(flow)),
        ("index", Column::Integers(index)),
        ("asked_s", Column::Numbers(asked)),
        ("connected_s", Column::Numbers(connected)),
        ("finished_s", Column::Numbers(finished)),
        ("time_ms", Column::Numbers(time)),
        ("bytes", Column::Integers(bytes)),
    ];
    Table { name: "exchanges", columns }
}
