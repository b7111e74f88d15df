//! The measurements of a call.

use anabranch_transport::quality::Rating;
use anabranch_transport::report::{Report, declare};
use anabranch_transport::time::Time;

declare! {
    /// The scalars of one direction of a call.
    SCALARS:
    /// Frames made.
    SENT = "sent": One;
    /// Frames that arrived.
    RECEIVED = "received": One;
    /// Frames played.
    PLAYED = "played": One;
    /// Frames that arrived too late to be played.
    LATE = "late": One;
    /// Frames that did not arrive, including those that never left (`unsent` and `refused`).
    LOST = "lost": One;
    /// Frames that were not handed to the transport because the connection was not open.
    UNSENT = "unsent": One;
    /// Frames for which the transport had no room.
    REFUSED = "refused": One;
    /// Messages that the transport gave up; some may have arrived all the same.
    ABANDONED = "abandoned": One;
    /// Copies of frames that had arrived before.
    DUPLICATES = "duplicates": One;
    /// Mean one-way network delay of the played frames.
    MEAN_DELAY_MS = "mean_delay_ms": Millis, Less;
    /// 95 % of the frames that arrived took at most this long.
    P95_DELAY_MS = "p95_delay_ms": Millis, Less;
    /// 99 % of the frames that arrived took at most this long.
    P99_DELAY_MS = "p99_delay_ms": Millis, Less;
    /// Mean delay from mouth to ear of the played frames.
    MOUTH_TO_EAR_MS = "mouth_to_ear_ms": Millis, Less;
    /// Share of the frames that were not played.
    LOSS_PERCENT = "loss_percent": Percent, Less;
    /// Burst ratio of the frames not played (ITU-T G.107): 1 where losses are independent, more in bursts.
    BURST_RATIO = "burst_ratio": One;
    /// Longest run of frames not played.
    LONGEST_GAP_MS = "longest_gap_ms": Millis, Less;
    /// The E-model's impairment by delay, Id (ITU-T G.107).
    ID = "id": One;
    /// The E-model's effective equipment impairment, Ie,eff (ITU-T G.107), by codec and losses.
    IE_EFF = "ie_eff": One, Less;
    /// The E-model's rating R, from 0 to about 93 (ITU-T G.107).
    R = "r": One, More;
    /// The mean opinion score that R stands for, from 1 to 4.5 (ITU-T G.107).
    MOS = "mos": One, More;
}

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
        report.scalar(SENT, self.sent as f64);
        report.scalar(RECEIVED, self.received as f64);
        report.scalar(PLAYED, self.played as f64);
        report.scalar(LATE, self.late as f64);
        report.scalar(LOST, self.lost as f64);
        report.scalar(UNSENT, self.unsent as f64);
        report.scalar(REFUSED, self.refused as f64);
        report.scalar(ABANDONED, self.abandoned as f64);
        report.scalar(DUPLICATES, self.duplicates as f64);
        report.scalar(MEAN_DELAY_MS, self.mean_delay_ms);
        report.scalar(P95_DELAY_MS, self.p95_delay_ms);
        report.scalar(P99_DELAY_MS, self.p99_delay_ms);
        report.scalar(MOUTH_TO_EAR_MS, self.mouth_to_ear_ms);
        report.scalar(LOSS_PERCENT, rated(self.loss_percent));
        report.scalar(BURST_RATIO, rated(self.burst_ratio));
        report.scalar(LONGEST_GAP_MS, self.longest_gap_ms);
        report.scalar(ID, rated(self.rating.id()));
        report.scalar(IE_EFF, rated(self.rating.ie_eff()));
        report.scalar(R, rated(self.rating.r()));
        report.scalar(MOS, rated(self.rating.mos()));
    }
}
