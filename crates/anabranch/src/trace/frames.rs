//! The frame trace: one row for every frame of a call.

use anabranch_transport::ground::Side;
use anabranch_transport::quality::Playout;
use anabranch_transport::time::Time;

use super::{Column, Table};
use crate::app::Frame;

/// The frames of every flow and side; `status` is `played`, `late` or `lost`.
pub(crate) fn frames_table(flows: &[String], frames: impl Fn(usize, Side) -> Vec<Frame>) -> Table {
    let (mut flow, mut side, mut status) = (Vec::new(), Vec::new(), Vec::new());
    let (mut index, mut made, mut arrived, mut delay) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (number, name) in flows.iter().enumerate() {
        for sender in [Side::A, Side::B] {
            for frame in frames(number, sender) {
                flow.push(name.clone().into());
                side.push(sender.name().into());
                index.push(frame.index as i64);
                made.push(frame.made.as_secs_f64());
                arrived.push(frame.arrived.map_or(f64::NAN, Time::as_secs_f64));
                delay.push(frame.arrived.map_or(f64::NAN, |at| (at - frame.made).as_millis_f64()));
                let word = match frame.fate {
                    Playout::Late => "late",
                    Playout::Lost => "lost",
                    Playout::Played { .. } => "played",
                };
                status.push(word.into());
            }
        }
    }
    let columns = vec![
        ("flow", Column::Text(flow)),
        ("side", Column::Text(side)),
        ("index", Column::Integers(index)),
        ("created_s", Column::Numbers(made)),
        ("arrived_s", Column::Numbers(arrived)),
        ("delay_ms", Column::Numbers(delay)),
        ("status", Column::Text(status)),
    ];
    Table { name: "frames", columns }
}
