//! The radio trace: one row for each burst.

use anabranch_transport::time::Time;

use super::{Column, Table};
use crate::net::{Direction, RadioSample};

/// The bursts of every radio link and direction until the end of the run.
pub(crate) fn radio_table(
    links: &[String],
    end: Time,
    mut samples: impl FnMut(usize, Direction) -> Vec<RadioSample>,
) -> Table {
    let (mut link, mut direction) = (Vec::new(), Vec::new());
    let mut rows = Vec::new();
    for (number, name) in links.iter().enumerate() {
        for way in Direction::BOTH {
            for sample in samples(number, way).into_iter().filter(|sample| sample.time <= end) {
                link.push(name.clone().into());
                direction.push(way.name().into());
                rows.push(sample);
            }
        }
    }
    let numbers = |value: fn(&RadioSample) -> f64| Column::Numbers(rows.iter().map(value).collect());
    let integers =
        |value: fn(&RadioSample) -> u64| Column::Integers(rows.iter().map(|row| value(row) as i64).collect());
    let columns = vec![
        ("time_s", numbers(|row| row.time.as_secs_f64())),
        ("link", Column::Text(link)),
        ("direction", Column::Text(direction)),
        ("snr_db", numbers(|row| row.snr.mean_db)),
        ("effective_snr_db", numbers(|row| row.snr.effective_db)),
        ("modulation", Column::Text(rows.iter().map(|row| row.profile.name().into()).collect())),
        ("packet_bytes", integers(|row| row.packet_bytes)),
        ("blocks", integers(|row| row.blocks)),
        ("block_errors", integers(|row| row.block_errors)),
    ];
    Table { name: "radio", columns }
}
