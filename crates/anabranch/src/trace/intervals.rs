//! The interval trace: one row for every interval of a bulk transfer.

use anabranch_transport::flow::Side;
use anabranch_transport::report::declare;

use super::{Column, Declaration, Table};
use crate::app::bulk::Interval;

declare! {
    COLUMNS:
    /// The flow.
    FLOW = "flow": Words;
    /// The side that sent.
    SIDE = "side": Words;
    /// When it began.
    START_S = "start_s": Seconds;
    /// When it ended.
    END_S = "end_s": Seconds;
    /// Bytes that arrived in it.
    BYTES = "bytes": Bytes;
    /// These bytes by its length.
    GOODPUT_KBIT_PER_S = "goodput_kbit_per_s": KilobitsPerSecond;
}

pub(super) const TABLE: Declaration =
    Declaration { name: "intervals", row: "an interval of a bulk transfer", columns: COLUMNS };

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
        (FLOW, Column::Text(flow)),
        (SIDE, Column::Text(side)),
        (START_S, Column::Numbers(start)),
        (END_S, Column::Numbers(end)),
        (BYTES, Column::Integers(bytes)),
        (GOODPUT_KBIT_PER_S, Column::Numbers(goodput)),
    ];
    TABLE.with(columns)
}
