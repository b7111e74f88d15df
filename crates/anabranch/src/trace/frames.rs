//! The frame trace: one row for every frame of a call or a video.

use anabranch_transport::flow::Side;
use anabranch_transport::quality::Playout;
use anabranch_transport::report::declare;
use anabranch_transport::time::Time;

use super::{Column, Declaration, Table};
use crate::app::Frame;

declare! {
    COLUMNS:
    /// The flow.
    FLOW = "flow": Words;
    /// The side that sent it.
    SIDE = "side": Words;
    /// Its number among those of the side, from 0.
    INDEX = "index": One;
    /// When it was made.
    CREATED_S = "created_s": Seconds;
    /// When it arrived.
    ARRIVED_S = "arrived_s": Seconds;
    /// How long that took.
    DELAY_MS = "delay_ms": Millis;
    /// `played`, `late` or `lost`.
    STATUS = "status": Words;
    /// Its bytes.
    BYTES = "bytes": Bytes;
    /// When it was played or, of a video, shown.
    PLAYED_S = "played_s": Seconds;
    /// Of a video how long the picture had stood still when it was shown, where that was a freeze; else 0.
    FREEZE_MS = "freeze_ms": Millis;
}

pub(super) const TABLE: Declaration =
    Declaration { name: "frames", row: "a frame of a call or a video", columns: COLUMNS };

/// The frames of every flow and side; `status` is `played`, `late` or `lost`.
pub(crate) fn frames_table(flows: &[String], frames: impl Fn(usize, Side) -> Vec<Frame>) -> Table {
    let (mut flow, mut side, mut status) = (Vec::new(), Vec::new(), Vec::new());
    let (mut index, mut made, mut arrived, mut delay) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut played, mut freeze) = (Vec::new(), Vec::new(), Vec::new());
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
                bytes.push(frame.bytes.into());
                played.push(frame.played.map_or(f64::NAN, Time::as_secs_f64));
                freeze.push(frame.froze.as_millis_f64());
            }
        }
    }
    let columns = vec![
        (FLOW, Column::Text(flow)),
        (SIDE, Column::Text(side)),
        (INDEX, Column::Integers(index)),
        (CREATED_S, Column::Numbers(made)),
        (ARRIVED_S, Column::Numbers(arrived)),
        (DELAY_MS, Column::Numbers(delay)),
        (STATUS, Column::Text(status)),
        (BYTES, Column::Integers(bytes)),
        (PLAYED_S, Column::Numbers(played)),
        (FREEZE_MS, Column::Numbers(freeze)),
    ];
    TABLE.with(columns)
}
