//! The queue trace: a row whenever a link's queue changed.

use anabranch_transport::time::Time;

use super::{Column, Table};
use crate::net::{Direction, QueueSample};

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
        ("time_s", Column::Numbers(time)),
        ("link", Column::Text(link)),
        ("direction", Column::Text(direction)),
        ("waiting_packets", Column::Integers(packets)),
        ("waiting_bytes", Column::Integers(bytes)),
    ];
    Table { name: "queues", columns }
}
