//! The path trace: a row whenever the state of an endpoint's path changed.

use anabranch_transport::flow::Side;
use anabranch_transport::observed::PathSample;
use anabranch_transport::report::declare;
use anabranch_transport::time::{Duration, Time};

use super::{Column, Declaration, Table};

declare! {
    COLUMNS:
    /// When it changed.
    TIME_S = "time_s": Seconds;
    /// The flow.
    FLOW = "flow": Words;
    /// The side whose view this is.
    SIDE = "side": Words;
    /// The number of the path among the flow's, from 0.
    PATH = "path": One;
    /// The congestion window.
    CWND_BYTES = "cwnd_bytes": Bytes;
    /// The slow-start threshold.
    SSTHRESH_BYTES = "ssthresh_bytes": Bytes;
    /// Bytes sent that are neither acknowledged nor taken for lost.
    OUTSTANDING_BYTES = "outstanding_bytes": Bytes;
    /// The smoothed round-trip time.
    SRTT_MS = "srtt_ms": Millis;
    /// The retransmission timeout.
    RTO_MS = "rto_ms": Millis;
    /// The delivery rate, where the congestion control samples it.
    DELIVERY_RATE_BIT_PER_S = "delivery_rate_bit_per_s": BitsPerSecond;
    /// Timeouts and unanswered heartbeats since the path last answered.
    ERROR_COUNT = "error_count": One;
    /// `active`, `potentially_failed` or `inactive`.
    STATE = "state": Words;
    /// Whether new data is sent there.
    IS_PRIMARY = "is_primary": Words;
    /// Packets with the mark of congestion that have arrived there so far (TCP, MPTCP, QUIC).
    CE_RECEIVED = "ce_received": One;
    /// Packets that the peer has reported to be marked so far; without accurate feedback (RFC 9768), segments
    /// whose acknowledgement echoes a mark.
    CE_REPORTED = "ce_reported": One;
}

pub(super) const TABLE: Declaration =
    Declaration { name: "paths", row: "a change in the state of an endpoint's path", columns: COLUMNS };

#[derive(Debug)]
struct Row {
    time: Time,
    flow: u32,
    side: Side,
    sample: PathSample,
}

/// Rows of path states.
#[derive(Debug, Default)]
pub(crate) struct PathTrace {
    rows: Vec<Row>,
    /// The last sample of every path, by flow and side.
    last: Vec<[Vec<PathSample>; 2]>,
}

impl PathTrace {
    /// Records those of an endpoint's paths that have changed since they were last seen, and calls `repaired`
    /// for those where the sender has reacted to a loss or a mark, with the state before and the one now.
    pub(crate) fn record(
        &mut self,
        now: Time,
        flow: u32,
        side: Side,
        samples: &[PathSample],
        mut repaired: impl FnMut(&PathSample, &PathSample),
    ) {
        let index = flow as usize;
        if self.last.len() <= index {
            self.last.resize_with(index + 1, Default::default);
        }
        let last = &mut self.last[index][side.index()];
        for (position, sample) in samples.iter().enumerate() {
            let before = last.get(position);
            if before != Some(sample) {
                self.rows.push(Row { time: now, flow, side, sample: *sample });
            }
            if let Some(before) = before.filter(|before| before.repairs != sample.repairs) {
                repaired(before, sample);
            }
        }
        last.clear();
        last.extend_from_slice(samples);
    }

    pub(crate) fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
    }

    pub(crate) fn into_table(self, flows: &[String]) -> Table {
        let rows = &self.rows;
        let text = |value: fn(&Row) -> &'static str| {
            Column::Text(rows.iter().map(|row| value(row).into()).collect())
        };
        let integers = |value: fn(&Row) -> i64| Column::Integers(rows.iter().map(value).collect());
        let numbers = |value: fn(&Row) -> f64| Column::Numbers(rows.iter().map(value).collect());
        let columns = vec![
            (TIME_S, numbers(|row| row.time.as_secs_f64())),
            (FLOW, Column::Text(rows.iter().map(|row| flows[row.flow as usize].clone().into()).collect())),
            (SIDE, text(|row| row.side.name())),
            (PATH, integers(|row| row.sample.path.0.into())),
            (CWND_BYTES, integers(|row| row.sample.cwnd.into())),
            (SSTHRESH_BYTES, integers(|row| row.sample.ssthresh.into())),
            (OUTSTANDING_BYTES, integers(|row| row.sample.outstanding.into())),
            (SRTT_MS, numbers(|row| row.sample.srtt.map_or(f64::NAN, Duration::as_millis_f64))),
            (RTO_MS, numbers(|row| row.sample.rto.as_millis_f64())),
            (
                DELIVERY_RATE_BIT_PER_S,
                numbers(|row| row.sample.delivery_rate.map_or(f64::NAN, |rate| rate.bits_per_sec() as f64)),
            ),
            (ERROR_COUNT, integers(|row| row.sample.error_count.into())),
            (STATE, text(|row| row.sample.state.name())),
            (IS_PRIMARY, Column::Flags(rows.iter().map(|row| row.sample.is_primary).collect())),
            (CE_RECEIVED, integers(|row| row.sample.marks.received as i64)),
            (CE_REPORTED, integers(|row| row.sample.marks.reported as i64)),
        ];
        TABLE.with(columns)
    }
}
