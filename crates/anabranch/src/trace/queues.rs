//! The queue trace: a row whenever a link's queue changed.

use anabranch_transport::report::declare;
use anabranch_transport::time::Time;

use super::{Column, Declaration, Table};
use crate::net::{Direction, QueueSample};

declare! {
    COLUMNS:
    /// When it changed.
    TIME_S = "time_s": Seconds;
    /// The link.
    LINK = "link": Words;
    /// `forward` or `reverse`.
    DIRECTION = "direction": Words;
    /// Packets that wait, without the one being sent.
    WAITING_PACKETS = "waiting_packets": One;
    /// Bytes of these packets.
    WAITING_BYTES = "waiting_bytes": Bytes;
}

pub(super) const TABLE: Declaration =
    Declaration { name: "queues", row: "a change of a link's queue", columns: COLUMNS };

/// The queues of every link and direction until the end of the run: packets and bytes that wait, without
/// the one being sent.
pub(crate) fn queues_table(
    links: &[String],
    end: Time,
    mut samples: impl FnMut(usize, Direction) -> Vec<QueueSample>,
) -> Table {
    let (mut link, mut direction) = (Vec::new(), Vec::new());
    let (mut time, mut packets, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for (number, name) in links.iter().enumerate() {
        for way in Direction::BOTH {
            for sample in samples(number, way).into_iter().filter(|sample| sample.time <= end) {
                link.push(name.clone().into());
                direction.push(way.name().into());
                time.push(sample.time.as_secs_f64());
                packets.push(sample.packets as i64);
                bytes.push(sample.bytes as i64);
            }
        }
    }
    let columns = vec![
        (TIME_S, Column::Numbers(time)),
        (LINK, Column::Text(link)),
        (DIRECTION, Column::Text(direction)),
        (WAITING_PACKETS, Column::Integers(packets)),
        (WAITING_BYTES, Column::Integers(bytes)),
    ];
    TABLE.with(columns)
}
