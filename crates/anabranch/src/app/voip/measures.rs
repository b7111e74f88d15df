//! The measurements of a call.

use anabranch_transport::quality::Rating;
use anabranch_transport::report::Report;
use anabranch_transport::time::Time;

/// The measurements of one direction of a call. sent = played + late + lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    /// Frames made.
    pub sent: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Frames played.
    pub played: u64,
    /// Frames that arrived too late to be played.
    pub late: u64,
    /// Frames that did not arrive, including those that never left (`unsent` and `refused`).
    pub lost: u64,
    /// Frames that were not handed to the transport because the association was not open.
    pub unsent: u64,
    /// Frames for which the transport had no room.
    pub refused: u64,
    /// Messages that the transport gave up; some may have arrived all the same.
    pub abandoned: u64,
    /// Copies of frames that had arrived before.
    pub duplicates: u64,
    /// Mean one-way network delay of the played frames in ms; NaN without any.
    pub mean_delay_ms: f64,
    /// 95 % of the frames that arrived took at most this long, in ms; NaN without any.
    pub p95_delay_ms: f64,
    /// 99 % of the frames that arrived took at most this long, in ms; NaN without any.
    pub p99_delay_ms: f64,
    /// Mean delay from mouth to ear of the played frames in ms; NaN without any.
    pub mouth_to_ear_ms: f64,
    /// Share of frames not played, in percent.
    pub loss_percent: f64,
    /// Burst ratio of the frames not played.
    pub burst_ratio: f64,
    /// Longest run of frames not played, in ms.
    pub longest_gap_ms: f64,
    /// The E-model's rating.
    pub rating: Rating,
}

/// A second of one direction of a call, rated as if it were a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatedInterval {
    /// When the first frame of the second was made.
    pub start: Time,
    /// When the last frame of the second had been made.
    pub end: Time,
    /// Mean one-way network delay of the played frames in ms; NaN without any.
    pub delay_ms: f64,
    /// Share of frames not played, in percent.
    pub loss_percent: f64,
    /// The E-model's rating of the second.
    pub rating: Rating,
}

impl Measures {
    /// Writes the measures as scalars.
    pub fn report(&self, report: &mut Report<'_>) {
        // A call without a frame must not look like a perfect one.
        let rated = |value: f64| if self.sent == 0 { f64::NAN } else { value };
        report.scalar("sent", self.sent as f64);
        report.scalar("received", self.received as f64);
        report.scalar("played", self.played as f64);
        report.scalar("late", self.late as f64);
        report.scalar("lost", self.lost as f64);
        report.scalar("unsent", self.unsent as f64);
        report.scalar("refused", self.refused as f64);
        report.scalar("abandoned", self.abandoned as f64);
        report.scalar("duplicates", self.duplicates as f64);
        report.scalar("mean_delay_ms", self.mean_delay_ms);
        report.scalar("p95_delay_ms", self.p95_delay_ms);
        report.scalar("p99_delay_ms", self.p99_delay_ms);
        report.scalar("mouth_to_ear_ms", self.mouth_to_ear_ms);
        report.scalar("loss_percent", rated(self.loss_percent));
        report.scalar("burst_ratio", rated(self.burst_ratio));
        report.scalar("longest_gap_ms", self.longest_gap_ms);
        report.scalar("id", rated(self.rating.id()));
        report.scalar("ie_eff", rated(self.rating.ie_eff()));
        report.scalar("r", rated(self.rating.r()));
        report.scalar("mos", rated(self.rating.mos()));
    }
}
