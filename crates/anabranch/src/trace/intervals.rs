//! The interval trace: one row for every interval of a bulk transfer.

use anabranch_transport::ground::Side;

use super::{Column, Table};
use crate::app::bulk::Interval;

/// The intervals of every flow and sending side, as measured where the data arrived.
pub(crate) fn intervals_table(flows: &[String], intervals: impl Fn(usize, Side) -> Vec<Interval>) -> Table {
    let (mut flow, mut side, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut start, mut end, mut goodput) = (Vec::new(), Vec::new(), Vec::new());
    for (number, name) in flows.iter().enumerate() {
        for sender in [Side::A, Side::B] {
            for interval in intervals(number, sender) {
                let length = interval.end.saturating_since(interval.start);
                flow.push(name.clone().into());
                side.push(sender.name().into());
                start.push(interval.start.as_secs_f64());
                end.push(interval.end.as_secs_f64());
                bytes.push(interval.bytes as i64);
                // Kilobits per second are bits per millisecond.
                goodput.push(interval.bytes as f64 * 8.0 / length.as_millis_f64());
            }
        }
    }
    let columns = vec![
        ("flow", Column::Text(flow)),
        ("side", Column::Text(side)),
        ("start_s", Column::Numbers(start)),
        ("end_s", Column::Numbers(end)),
        ("bytes", Column::Integers(bytes)),
        ("goodput_kbit_per_s", Column::Numbers(goodput)),
    ];
    Table { name: "intervals", columns }
}
