//! The receiver: which frames are whole, which can be decoded and are shown, and when the picture stands
//! still.
//!
//! Each frame needs the one before it, but for key frames. A frame is shown as soon as it can be decoded.

use std::collections::VecDeque;

use anabranch_transport::flow::Payload;
use anabranch_transport::time::{Duration, Time};

use super::config::VideoConfig;

/// A frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct VideoFrame {
    pub(super) made: Time,
    /// Its place in the stream, in bytes.
    offset: u64,
    pub(super) length: u32,
    pub(super) is_key: bool,
    /// Whether the source has paused before it.
    resumes: bool,
    /// The number of its first packet.
    first_packet: usize,
    /// Bytes that have not arrived.
    missing: u32,
    /// When its last packet arrived.
    pub(super) arrived: Option<Time>,
    /// When it was shown.
    pub(super) shown: Option<Time>,
    /// How long the picture had stood still then, if that was a freeze.
    pub(super) froze: Duration,
}

/// What a viewer has of a stream.
#[derive(Debug)]
pub(super) struct Viewer {
    packet_bytes: u32,
    pub(super) frames: Vec<VideoFrame>,
    /// Whether each packet has arrived.
    packets: Vec<bool>,
    /// The frame that is to be decoded next.
    next: usize,
    /// Whether the frame that is made next is the first one after a pause.
    resumes: bool,
    /// When a key frame is asked for, if that frame is still missing then; [`Time::NEVER`] if it is not.
    ask_at: Time,
    pub(super) duplicates: u64,
    pub(super) requests: u64,
    pub(super) freezes: Freezes,
}

impl Viewer {
    pub(super) fn new(config: &VideoConfig) -> Self {
        Self {
            packet_bytes: config.packet_size.0 as u32,
            frames: Vec::new(),
            packets: Vec::new(),
            next: 0,
            resumes: false,
            ask_at: Time::NEVER,
            duplicates: 0,
            requests: 0,
            freezes: Freezes::default(),
        }
    }

    /// The source goes on after a pause, in which the picture stood still without a freeze.
    pub(super) const fn resume(&mut self) {
        self.resumes = true;
    }

    /// A frame is made. Returns its packets, in order.
    pub(super) fn make(
        &mut self,
        now: Time,
        length: u32,
        is_key: bool,
    ) -> impl Iterator<Item = Payload> + use<> {
        let offset = self.frames.last().map_or(0, |last| last.offset + u64::from(last.length));
        let (first_packet, size) = (self.packets.len(), self.packet_bytes);
        self.frames.push(VideoFrame {
            made: now,
            offset,
            length,
            is_key,
            resumes: std::mem::take(&mut self.resumes),
            first_packet,
            missing: length,
            arrived: None,
            shown: None,
            froze: Duration::ZERO,
        });
        self.packets.resize(first_packet + length.div_ceil(size) as usize, false);
        (0..length)
            .step_by(size as usize)
            .map(move |place| Payload { offset: offset + u64::from(place), length: size.min(length - place) })
    }

    /// A packet arrives.
    pub(super) fn on_arrival(&mut self, now: Time, payload: Payload, config: &VideoConfig) {
        let index = self.frames.partition_point(|frame| frame.offset <= payload.offset) - 1;
        let frame = &mut self.frames[index];
        let packet =
            frame.first_packet + ((payload.offset - frame.offset) / u64::from(self.packet_bytes)) as usize;
        if std::mem::replace(&mut self.packets[packet], true) {
            self.duplicates += 1;
            return;
        }
        frame.missing -= payload.length;
        if frame.missing == 0 {
            frame.arrived = Some(now);
            let is_key = frame.is_key;
            self.decode(now, index, is_key);
        }
        if index > self.next && self.ask_at.is_never() {
            self.ask_at = now + config.key_frame_after;
        }
    }

    /// A frame is whole: shows it and those that waited for it.
    fn decode(&mut self, now: Time, index: usize, is_key: bool) {
        if index < self.next {
            return;
        }
        // A key frame needs none of those before it.
        if is_key {
            self.next = index;
        }
        if index != self.next {
            return;
        }
        while let Some(frame) = self.frames.get_mut(self.next).filter(|frame| frame.missing == 0) {
            frame.shown = Some(now);
            if frame.resumes {
                self.freezes.last = None;
            }
            frame.froze = self.freezes.on_shown(now);
            self.next += 1;
        }
        // A later key frame that is whole takes over from a frame that is missing.
        let later = self.frames[self.next..].iter().position(|frame| frame.is_key && frame.missing == 0);
        if let Some(skipped) = later {
            return self.decode(now, self.next + skipped, true);
        }
        self.ask_at = Time::NEVER;
    }

    /// Bytes of memory that grow with the run.
    pub(super) const fn memory(&self) -> usize {
        self.frames.capacity() * size_of::<VideoFrame>() + self.packets.capacity()
    }

    /// When it has to be asked whether a key frame is wanted.
    pub(super) const fn ask_at(&self) -> Time {
        self.ask_at
    }

    /// Whether to ask for a key frame now.
    pub(super) fn asks(&mut self, now: Time, config: &VideoConfig) -> bool {
        let asks = self.ask_at <= now;
        if asks {
            self.requests += 1;
            self.ask_at = now + config.key_frame_after;
        }
        asks
    }
}

/// How many intervals between shown frames make up the mean, and from how many on there is one.
const INTERVALS: usize = 30;
const FIRST_MEAN: usize = 5;

/// Freezes as the statistics of WebRTC count them (`freezeCount` and `totalFreezesDuration`, W3C
/// webrtc-stats): an interval between two shown frames of at least three times the mean of the last thirty,
/// and at least 150 ms more than it.
#[derive(Clone, Debug, Default)]
pub(super) struct Freezes {
    last: Option<Time>,
    intervals: VecDeque<Duration>,
    pub(super) count: u64,
    pub(super) total: Duration,
    pub(super) longest: Duration,
    /// All intervals in s, and the sum of their squares, of which the harmonic frame rate is made.
    pub(super) shown_s: f64,
    pub(super) squares: f64,
}

impl Freezes {
    /// A frame is shown. Returns how long the picture has stood still, if that is a freeze.
    fn on_shown(&mut self, now: Time) -> Duration {
        let Some(last) = self.last.replace(now) else { return Duration::ZERO };
        let interval = now - last;
        self.shown_s += interval.as_secs_f64();
        self.squares += interval.as_secs_f64() * interval.as_secs_f64();
        if self.intervals.len() == INTERVALS {
            self.intervals.pop_front();
        }
        // The interval that may be a freeze is itself among those of the mean.
        self.intervals.push_back(interval);
        if self.intervals.len() >= FIRST_MEAN {
            let sum: u64 = self.intervals.iter().map(|interval| interval.as_nanos()).sum();
            let mean = Duration::from_millis(sum / self.intervals.len() as u64 / 1_000_000);
            if interval >= (mean * 3).max(mean + Duration::from_millis(150)) {
                self.count += 1;
                self.total += interval;
                self.longest = self.longest.max(interval);
                return interval;
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// Makes frames, one each 10 ms, of which these are key frames, and returns the packets of each.
    fn frames(viewer: &mut Viewer, keys: &[bool], length: u32) -> Vec<Vec<Payload>> {
        let make = |(index, &is_key)| viewer.make(ms(10 * index as u64), length, is_key).collect();
        keys.iter().enumerate().map(make).collect()
    }

    fn shown(viewer: &Viewer) -> Vec<Option<u64>> {
        viewer.frames.iter().map(|frame| frame.shown.map(|at| at.as_nanos() / 1_000_000)).collect()
    }

    #[test]
    fn a_frame_is_shown_when_it_and_those_before_it_are_whole() {
        let config = VideoConfig::default();
        let mut viewer = Viewer::new(&config);
        let packets = frames(&mut viewer, &[true, false, false], 2_500);
        assert_eq!(packets[1].iter().map(|packet| packet.length).collect::<Vec<_>>(), [1_200, 1_200, 100]);
        for (at, packet) in (50..).zip(packets[0].iter().chain(&packets[1][1..]).chain(&packets[2])) {
            viewer.on_arrival(ms(at), *packet, &config);
        }
        assert_eq!(shown(&viewer), [Some(52), None, None]);
        // The second packet of the second frame came first, after which its first one is late.
        assert_eq!(viewer.ask_at(), ms(55 + 500));
        viewer.on_arrival(ms(80), packets[1][0], &config);
        viewer.on_arrival(ms(81), packets[1][0], &config);
        assert_eq!(shown(&viewer), [Some(52), Some(80), Some(80)]);
        assert!(viewer.ask_at().is_never() && viewer.duplicates == 1);
    }

    #[test]
    fn a_key_frame_takes_over_from_what_is_missing() {
        let config = VideoConfig::default();
        let mut viewer = Viewer::new(&config);
        let packets = frames(&mut viewer, &[true, false, false, true, false], 100);
        viewer.on_arrival(ms(1), packets[0][0], &config);
        viewer.on_arrival(ms(2), packets[2][0], &config);
        assert!(!viewer.asks(ms(501), &config) && viewer.asks(ms(502), &config));
        viewer.on_arrival(ms(600), packets[4][0], &config);
        viewer.on_arrival(ms(700), packets[3][0], &config);
        assert_eq!(shown(&viewer), [Some(1), None, None, Some(700), Some(700)]);
        assert_eq!((viewer.requests, viewer.ask_at()), (1, Time::NEVER));
    }

    #[test]
    fn a_pause_of_the_source_is_no_freeze() {
        let config = VideoConfig::default();
        let mut viewer = Viewer::new(&config);
        for frame in 0..40 {
            // A pause of 20 s before the twentieth frame, and one of the network before the thirtieth.
            let at = Time::from_millis(33 * frame + 20_000 * u64::from(frame >= 20));
            if frame == 20 {
                viewer.resume();
            }
            let packets: Vec<_> = viewer.make(at, 100, frame % 20 == 0).collect();
            let late = Duration::from_millis(1_000 * u64::from(frame >= 30));
            viewer.on_arrival(at + late, packets[0], &config);
        }
        let freezes = &viewer.freezes;
        assert_eq!((freezes.count, freezes.total), (1, Duration::from_millis(1_033)));
        assert!((freezes.shown_s - (38.0 * 0.033 + 1.0)).abs() < 1e-9, "{}", freezes.shown_s);
    }

    #[test]
    fn a_freeze_is_an_interval_of_three_means_and_150_ms_more() {
        let mut freezes = Freezes::default();
        let mut now = Time::ZERO;
        let mut show = |freezes: &mut Freezes, interval: u64| {
            now += Duration::from_millis(interval);
            freezes.on_shown(now);
        };
        (0..31).for_each(|_| show(&mut freezes, 33));
        // With itself the mean is (29 x 33 + x) / 30: 188 ms are just above 38 + 150.
        show(&mut freezes, 187);
        assert_eq!(freezes.count, 0);
        (0..31).for_each(|_| show(&mut freezes, 33));
        show(&mut freezes, 188);
        assert_eq!((freezes.count, freezes.total), (1, Duration::from_millis(188)));
    }
}
