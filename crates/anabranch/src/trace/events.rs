//! The trace of events: what endpoints told their applications, except for messages, and how senders reacted
//! to losses and marks on their paths.

use std::borrow::Cow;

use anabranch_transport::endpoint::Event;
use anabranch_transport::flow::Side;
use anabranch_transport::observed::PathSample;
use anabranch_transport::report::declare;
use anabranch_transport::time::{Duration, Time};

use super::{Column, Declaration, Table};

declare! {
    COLUMNS:
    /// When it happened.
    TIME_S = "time_s": Seconds;
    /// The flow.
    FLOW = "flow": Words;
    /// The side.
    SIDE = "side": Words;
    /// What happened, such as `connected`, `timeout` or `fast_recovery`.
    EVENT = "event": Words;
    /// Its particulars.
    DETAIL = "detail": Words;
}

pub(super) const TABLE: Declaration = Declaration {
    name: "events",
    row: "an event that an application was told of, or a sender's reaction to a loss or a mark",
    columns: COLUMNS,
};

/// Something that happened at an endpoint.
#[derive(Clone, Copy, Debug)]
enum What {
    /// The application was told about this event.
    Told(Event),
    /// The sender has reacted on this path to a loss or a mark, which changed its window from `before` to
    /// `after` bytes; the retransmission timer now has this length.
    Repaired { repair: Repair, path: u8, before: u32, after: u32, rto: Duration },
}

#[derive(Clone, Copy, Debug)]
enum Repair {
    EcnReduction,
    FastRecovery,
    Timeout,
}

impl What {
    fn describe(&self) -> (&'static str, String) {
        match self {
            Self::Told(event) => event.describe(),
            Self::Repaired { repair, path, before, after, rto } => match repair {
                Repair::EcnReduction => {
                    ("ecn_reduction", format!("path {path}, window {before} B -> {after} B"))
                }
                Repair::FastRecovery => {
                    ("fast_recovery", format!("path {path}, window {before} B -> {after} B"))
                }
                Repair::Timeout => {
                    let ms = rto.as_millis_f64();
                    (
                        "timeout",
                        format!("path {path}, window {before} B -> {after} B, the next after {ms} ms"),
                    )
                }
            },
        }
    }
}

/// Rows of events.
#[derive(Debug, Default)]
pub(crate) struct EventTrace {
    rows: Vec<(Time, u32, Side, What)>,
}

impl EventTrace {
    /// Records that an application is told something.
    #[cold]
    pub(crate) fn record(&mut self, now: Time, flow: u32, side: Side, event: &Event) {
        if !matches!(
            event,
            Event::PeerFinished
                | Event::Received(_)
                | Event::ReceivedPart(_)
                | Event::StreamWritable(_)
                | Event::Writable
        ) {
            self.rows.push((now, flow, side, What::Told(*event)));
        }
    }

    /// Records that a path's sender has reacted to a loss or a mark: the path's state before, and the one
    /// now.
    #[cold]
    pub(crate) fn repaired(
        &mut self,
        now: Time,
        flow: u32,
        side: Side,
        before: &PathSample,
        sample: &PathSample,
    ) {
        let (was, is) = (before.repairs, sample.repairs);
        for (repair, has_grown) in [
            (Repair::Timeout, is.timeouts > was.timeouts),
            (Repair::FastRecovery, is.fast_recoveries > was.fast_recoveries),
            (Repair::EcnReduction, is.ecn_reductions > was.ecn_reductions),
        ] {
            if has_grown {
                let (path, rto) = (sample.path.0, sample.rto);
                let what = What::Repaired { repair, path, before: before.cwnd, after: sample.cwnd, rto };
                self.rows.push((now, flow, side, what));
            }
        }
    }

    /// Bytes of memory in use, roughly.
    pub(crate) fn memory(&self) -> usize {
        self.rows.len() * 128
    }

    pub(crate) fn into_table(self, flows: &[String]) -> Table {
        let mut columns: [Vec<Cow<'static, str>>; 4] = Default::default();
        for (_, flow, side, what) in &self.rows {
            let (name, detail) = what.describe();
            let row = [flows[*flow as usize].clone().into(), side.name().into(), name.into(), detail.into()];
            for (column, value) in columns.iter_mut().zip(row) {
                column.push(value);
            }
        }
        let [flow, side, event, detail] = columns.map(Column::Text);
        let time = Column::Numbers(self.rows.iter().map(|row| row.0.as_secs_f64()).collect());
        let columns = vec![(TIME_S, time), (FLOW, flow), (SIDE, side), (EVENT, event), (DETAIL, detail)];
        TABLE.with(columns)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::flow::PathId;
    use anabranch_transport::observed::{Marks, Repairs};
    use anabranch_transport::path::PathState;

    use super::*;

    #[test]
    fn what_a_sender_does_about_losses_and_marks_has_a_row_each() {
        let sample = |cwnd, timeouts, fast_recoveries, ecn_reductions| PathSample {
            path: PathId(1),
            cwnd,
            ssthresh: 0,
            outstanding: 0,
            srtt: None,
            rto: Duration::from_millis(400),
            delivery_rate: None,
            error_count: 0,
            state: PathState::Active,
            is_primary: true,
            repairs: Repairs { timeouts, fast_recoveries, ecn_reductions },
            marks: Marks::default(),
        };
        let mut trace = EventTrace::default();
        let states =
            [sample(9000, 0, 0, 0), sample(4500, 0, 1, 0), sample(1500, 1, 1, 0), sample(1000, 2, 1, 1)];
        for pair in states.windows(2) {
            trace.repaired(Time::from_secs(1), 0, Side::A, &pair[0], &pair[1]);
        }
        trace.record(Time::from_secs(2), 0, Side::B, &Event::Writable);
        trace.record(Time::from_secs(2), 0, Side::B, &Event::Connected);
        let table = trace.into_table(&["call".into()]);
        let words = |name| match table.columns.iter().find(|column| column.0 == name) {
            Some((_, Column::Text(words))) => words.clone(),
            _ => panic!("there is no column {name}"),
        };
        assert_eq!(words("event"), ["fast_recovery", "timeout", "timeout", "ecn_reduction", "connected"]);
        let details = [
            "path 1, window 9000 B -> 4500 B",
            "path 1, window 4500 B -> 1500 B, the next after 400 ms",
            "path 1, window 1500 B -> 1000 B, the next after 400 ms",
            "path 1, window 1500 B -> 1000 B",
            "",
        ];
        assert_eq!(words("detail"), details);
    }
}
