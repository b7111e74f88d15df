//! The rating trace: one row for every second of a call.

use anabranch_transport::ground::Side;

use super::{Column, Table};
use crate::app::voip::RatedInterval;

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
        ("flow", Column::Text(flow)),
        ("side", Column::Text(side)),
        ("start_s", Column::Numbers(start)),
        ("end_s", Column::Numbers(end)),
        ("delay_ms", Column::Numbers(delay)),
        ("loss_percent", Column::Numbers(loss)),
        ("r", Column::Numbers(r)),
        ("mos", Column::Numbers(mos)),
    ];
    Table { name: "ratings", columns }
}
