//! The trace of media: a row whenever feedback reaches a sender.

use anabranch_transport::flow::Side;
use anabranch_transport::observed::MediaSample;
use anabranch_transport::report::declare;
use anabranch_transport::time::{Duration, Time};

use super::{Column, Declaration, Table};

declare! {
    COLUMNS:
    /// When the feedback came.
    TIME_S = "time_s": Seconds;
    /// The flow.
    FLOW = "flow": Words;
    /// The side that sends the media.
    SIDE = "side": Words;
    /// The number of the path among the flow's that the feedback is about, from 0.
    PATH = "path": One;
    /// The target of the control from then on, of which the encoder gets what is not sent again.
    TARGET_BIT_PER_S = "target_bit_per_s": BitsPerSecond;
    /// How fast packets may leave from then on.
    PACING_BIT_PER_S = "pacing_bit_per_s": BitsPerSecond;
    /// What was sent in the last half second, with all headers and retransmissions.
    SENDING_BIT_PER_S = "sending_bit_per_s": BitsPerSecond;
    /// The mean one-way delay of the packets that the feedback reports to have arrived.
    ONE_WAY_DELAY_MS = "one_way_delay_ms": Millis;
    /// The round trip of the last of them.
    RTT_MS = "rtt_ms": Millis;
    /// The share of the packets that the feedback is about that are lost.
    LOSS_PERCENT = "loss_percent": Percent;
}

pub(super) const TABLE: Declaration =
    Declaration { name: "media", row: "a feedback message that reached a sender of media", columns: COLUMNS };

/// Rows of feedback.
#[derive(Debug, Default)]
pub(crate) struct MediaTrace {
    rows: Vec<(Time, u32, Side, MediaSample)>,
    /// How many messages each end has had, by flow and side.
    reports: Vec<[u64; 2]>,
}

impl MediaTrace {
    /// Records the state of an end if feedback has come since it was last seen.
    pub(crate) fn record(&mut self, now: Time, flow: u32, side: Side, sample: MediaSample) {
        let index = flow as usize;
        if self.reports.len() <= index {
            self.reports.resize(index + 1, [0; 2]);
        }
        if std::mem::replace(&mut self.reports[index][side.index()], sample.reports) != sample.reports {
            self.rows.push((now, flow, side, sample));
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<(Time, u32, Side, MediaSample)>()
    }

    pub(crate) fn into_table(self, flows: &[String]) -> Table {
        let rows = &self.rows;
        let samples = |value: fn(&MediaSample) -> f64| {
            Column::Numbers(rows.iter().map(|(.., sample)| value(sample)).collect())
        };
        let columns = vec![
            (TIME_S, Column::Numbers(rows.iter().map(|row| row.0.as_secs_f64()).collect())),
            (FLOW, Column::Text(rows.iter().map(|row| flows[row.1 as usize].clone().into()).collect())),
            (SIDE, Column::Text(rows.iter().map(|row| row.2.name().into()).collect())),
            (PATH, Column::Integers(rows.iter().map(|row| row.3.path.0.into()).collect())),
            (TARGET_BIT_PER_S, samples(|sample| sample.target.bits_per_sec() as f64)),
            (PACING_BIT_PER_S, samples(|sample| sample.pacing.bits_per_sec() as f64)),
            (SENDING_BIT_PER_S, samples(|sample| sample.sending_bits_per_sec as f64)),
            (ONE_WAY_DELAY_MS, samples(|sample| sample.one_way_delay_ms)),
            (RTT_MS, samples(|sample| sample.rtt.map_or(f64::NAN, Duration::as_millis_f64))),
            (LOSS_PERCENT, samples(|sample| sample.loss * 100.0)),
        ];
        TABLE.with(columns)
    }
}
