//! The radio trace: one row for each burst.

use anabranch_transport::report::declare;
use anabranch_transport::time::Time;

use super::{Column, Declaration, Table};
use crate::net::{Direction, RadioSample};

declare! {
    COLUMNS:
    /// When it was sent.
    TIME_S = "time_s": Seconds;
    /// The link.
    LINK = "link": Words;
    /// `forward` or `reverse`.
    DIRECTION = "direction": Words;
    /// The mean signal-to-noise ratio over the subcarriers.
    SNR_DB = "snr_db": Decibels;
    /// The signal-to-noise ratio of a flat channel with as many errors.
    EFFECTIVE_SNR_DB = "effective_snr_db": Decibels;
    /// Modulation and coding.
    MODULATION = "modulation": Words;
    /// Bytes of packets in it.
    PACKET_BYTES = "packet_bytes": Bytes;
    /// Its blocks.
    BLOCKS = "blocks": One;
    /// Those that failed.
    BLOCK_ERRORS = "block_errors": One;
}

pub(super) const TABLE: Declaration =
    Declaration { name: "radio", row: "a burst of a radio link", columns: COLUMNS };

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
        (TIME_S, numbers(|row| row.time.as_secs_f64())),
        (LINK, Column::Text(link)),
        (DIRECTION, Column::Text(direction)),
        (SNR_DB, numbers(|row| row.snr.mean_db)),
        (EFFECTIVE_SNR_DB, numbers(|row| row.snr.effective_db)),
        (MODULATION, Column::Text(rows.iter().map(|row| row.profile.name().into()).collect())),
        (PACKET_BYTES, integers(|row| row.packet_bytes)),
        (BLOCKS, integers(|row| row.blocks)),
        (BLOCK_ERRORS, integers(|row| row.block_errors)),
    ];
    TABLE.with(columns)
}
