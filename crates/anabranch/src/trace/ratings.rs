//! The rating trace: one row for every second of a call.

use anabranch_transport::flow::Side;
use anabranch_transport::report::declare;

use super::{Column, Declaration, Table};
use crate::app::voip::RatedInterval;

declare! {
    COLUMNS:
    /// The flow.
    FLOW = "flow": Words;
    /// The side that spoke.
    SIDE = "side": Words;
    /// When the first frame of the second was made.
    START_S = "start_s": Seconds;
    /// When its last frame had been made.
    END_S = "end_s": Seconds;
    /// Mean one-way network delay of its played frames.
    DELAY_MS = "delay_ms": Millis;
    /// Share of its frames that were not played.
    LOSS_PERCENT = "loss_percent": Percent;
    /// The E-model's rating R of the second.
    R = "r": One;
    /// The mean opinion score that R stands for.
    MOS = "mos": One;
}

pub(super) const TABLE: Declaration =
    Declaration { name: "ratings", row: "a second of a call", columns: COLUMNS };

/// The ratings of every flow and sending side by the listener; seconds without a frame are left out.
pub(crate) fn ratings_table(flows: &[String], ratings: impl Fn(usize, Side) -> Vec<RatedInterval>) -> Table {
    let (mut flow, mut side) = (Vec::new(), Vec::new());
    let (mut start, mut end, mut delay) = (Vec::new(), Vec::new(), Vec::new());
    let (mut loss, mut r, mut mos) = (Vec::new(), Vec::new(), Vec::new());
    for (number, name) in flows.iter().enumerate() {
        for sender in [Side::A, Side::B] {
            for interval in ratings(number, sender) {
                flow.push(name.clone().into());
                side.push(sender.name().into());
                start.push(interval.start.as_secs_f64());
                end.push(interval.end.as_secs_f64());
                delay.push(interval.delay_ms);
                loss.push(interval.loss_percent);
                r.push(interval.rating.r());
                mos.push(interval.rating.mos());
            }
        }
    }
    let columns = vec![
        (FLOW, Column::Text(flow)),
        (SIDE, Column::Text(side)),
        (START_S, Column::Numbers(start)),
        (END_S, Column::Numbers(end)),
        (DELAY_MS, Column::Numbers(delay)),
        (LOSS_PERCENT, Column::Numbers(loss)),
        (R, Column::Numbers(r)),
        (MOS, Column::Numbers(mos)),
    ];
    TABLE.with(columns)
}
