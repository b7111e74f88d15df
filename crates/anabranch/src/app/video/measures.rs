//! The measurements of video.

use anabranch_transport::report::{Report, declare};
use anabranch_transport::time::Duration;

use super::super::quantiles::quantiles_ms;
use super::{Sender, VideoConfig, percent};

declare! {
    /// The scalars of one direction of video.
    SCALARS:
    /// Frames made.
    MADE = "frames_made": One;
    /// Frames shown, late ones among them.
    SHOWN = "frames_shown": One, More;
    /// Frames shown after `deadline`.
    LATE = "frames_late": One, Less;
    /// Frames never shown: packets of them or of one that they need did not arrive.
    LOST = "frames_lost": One, Less;
    /// Packets for which the transport had no room.
    REFUSED = "refused": One;
    /// Copies of packets that had arrived before.
    DUPLICATES = "duplicates": One;
    /// Key frames made.
    KEY_FRAMES = "key_frames": One;
    /// Times that the viewer asked for a key frame.
    KEY_FRAME_REQUESTS = "key_frame_requests": One, Less;
    /// Bits of the frames that were made by the time in which they were made.
    ENCODED_KBIT_PER_S = "encoded_kbit_per_s": KilobitsPerSecond;
    /// Bits of the frames that were shown by the same time.
    GOODPUT_KBIT_PER_S = "goodput_kbit_per_s": KilobitsPerSecond, More;
    /// Mean time from making a frame to showing it.
    MEAN_FRAME_DELAY_MS = "mean_frame_delay_ms": Millis, Less;
    /// Half of the frames shown took at most this long.
    P50_FRAME_DELAY_MS = "p50_frame_delay_ms": Millis, Less;
    /// 95 % of the frames shown took at most this long.
    P95_FRAME_DELAY_MS = "p95_frame_delay_ms": Millis, Less;
    /// 99 % of the frames shown took at most this long.
    P99_FRAME_DELAY_MS = "p99_frame_delay_ms": Millis, Less;
    /// Freezes, as the statistics of WebRTC count them: times between shown frames of at least three times
    /// the mean and 150 ms more than it.
    FREEZES = "freezes": One, Less;
    /// The share of the time that was spent in freezes.
    FROZEN_PERCENT = "frozen_percent": Percent, Less;
    /// The longest freeze.
    LONGEST_FREEZE_MS = "longest_freeze_ms": Millis, Less;
    /// The harmonic frame rate per second: the time in which frames were shown over the sum of the squared
    /// times between them in s, so that long ones count more.
    HARMONIC_FRAME_RATE = "harmonic_frame_rate": One, More;
}

/// Writes what was measured of the frames of one sender, which were made within `elapsed`.
pub(super) fn report(config: &VideoConfig, sender: &Sender, elapsed: Duration, report: &mut Report<'_>) {
    let viewer = &sender.viewer;
    let frames = &viewer.frames;
    let shown: Vec<_> = frames.iter().filter_map(|frame| Some((frame.shown? - frame.made, frame))).collect();
    let mut delays: Vec<Duration> = shown.iter().map(|(delay, _)| *delay).collect();
    let late = delays.iter().filter(|delay| **delay > config.deadline).count();
    let mean_ms = delays.iter().map(|delay| delay.as_millis_f64()).sum::<f64>() / delays.len() as f64;
    let [p50, p95, p99] = quantiles_ms(&mut delays, [0.5, 0.95, 0.99]);
    let kbit_per_s = |bytes: u64| (bytes * 8) as f64 / elapsed.as_secs_f64() / 1e3;
    report.scalar(MADE, frames.len() as f64);
    report.scalar(SHOWN, shown.len() as f64);
    report.scalar(LATE, late as f64);
    report.scalar(LOST, (frames.len() - shown.len()) as f64);
    report.scalar(REFUSED, sender.refused as f64);
    report.scalar(DUPLICATES, viewer.duplicates as f64);
    report.scalar(KEY_FRAMES, frames.iter().filter(|frame| frame.is_key).count() as f64);
    report.scalar(KEY_FRAME_REQUESTS, viewer.requests as f64);
    report.scalar(ENCODED_KBIT_PER_S, kbit_per_s(frames.iter().map(|frame| u64::from(frame.length)).sum()));
    report
        .scalar(GOODPUT_KBIT_PER_S, kbit_per_s(shown.iter().map(|(_, frame)| u64::from(frame.length)).sum()));
    report.scalar(MEAN_FRAME_DELAY_MS, mean_ms);
    report.scalar(P50_FRAME_DELAY_MS, p50);
    report.scalar(P95_FRAME_DELAY_MS, p95);
    report.scalar(P99_FRAME_DELAY_MS, p99);
    let freezes = &viewer.freezes;
    report.scalar(FREEZES, freezes.count as f64);
    report.scalar(FROZEN_PERCENT, percent(freezes.total, elapsed));
    report.scalar(LONGEST_FREEZE_MS, freezes.longest.as_millis_f64());
    report.scalar(HARMONIC_FRAME_RATE, freezes.shown_s / freezes.squares);
}
