//! Jitter buffers: which frames of a talk are played, which come too late.
//!
//! The fixed buffer is that of the `voip-sctp` study: the first frame to arrive sets the base, and a
//! frame whose one-way delay exceeds base + depth counts as lost. The adaptive ones are algorithms 1
//! and 4 of R. Ramjee, J. Kurose, D. Towsley and H. Schulzrinne, "Adaptive playout mechanisms for
//! packetized audio applications in wide-area networks", IEEE INFOCOM 1994: exponential averages of
//! delay and its variation give the playout delay of a whole talk spurt when its first frame arrives.
//!
//! Known deviation: a talk without pauses has no talk spurts to adapt at; there `adjust_every` cuts it
//! into pieces of equal length, as a player that stretches or compresses speech would.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::planning;
use crate::time::{Duration, Time};

/// The fate of one frame period of a talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u64);

impl Slot {
    /// A frame was sent here and has not arrived.
    pub const LOST: Self = Self(u64::MAX);
    /// A pause: nothing to send.
    pub const SILENT: Self = Self(u64::MAX - 1);

    /// A frame arrived this long after it was made.
    pub const fn arrived(delay: Duration) -> Self {
        debug_assert!(delay.as_nanos() < Self::SILENT.0, "a delay is not a sentinel");
        Self(delay.as_nanos())
    }

    /// The one-way delay, if a frame arrived.
    #[inline]
    pub const fn delay(self) -> Option<Duration> {
        if self.0 < Self::SILENT.0 { Some(Duration::from_nanos(self.0)) } else { None }
    }

    /// Whether there was a frame at all.
    #[inline]
    pub const fn is_frame(self) -> bool {
        self.0 != Self::SILENT.0
    }
}

/// One direction of a call: a slot per frame period.
#[derive(Clone, Copy, Debug)]
pub struct Talk<'a> {
    /// The frame periods in order.
    pub slots: &'a [Slot],
    /// Length of a frame period.
    pub period: Duration,
}

impl Talk<'_> {
    /// When frame `index` was made, in time since the start of the talk.
    fn made(&self, index: usize) -> Time {
        Time::ZERO + self.period * index as u64
    }

    /// One-way delay of the frame that arrived first; of several in one packet, the one made first.
    pub fn first_delay(&self) -> Option<Duration> {
        let mut first: Option<(Time, Duration)> = None;
        for (index, slot) in self.slots.iter().enumerate() {
            let made = self.made(index);
            if first.is_some_and(|(arrival, _)| made >= arrival) {
                break; // no later frame can have arrived before
            }
            if let Some(delay) = slot.delay()
                && first.is_none_or(|(arrival, _)| made + delay < arrival)
            {
                first = Some((made + delay, delay));
            }
        }
        first.map(|(_, delay)| delay)
    }
}

/// What the listener's end did with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Playout {
    /// It arrived after its time to be played.
    Late,
    /// It did not arrive.
    Lost,
    /// It was played.
    Played {
        /// Time from its making to its playing.
        playout_delay: Duration,
    },
}

/// How the listener's end smooths out jitter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum JitterBuffer {
    /// By exponential averages (Ramjee et al. 1994, algorithm 1): playout delay = mean + `factor` x
    /// variation, set at the first frame of a talk spurt.
    Adaptive {
        /// Weight of the past in both averages, from 0 to below 1; default 0.998002 (their section 3).
        #[serde(default = "default_alpha")]
        alpha: f64,
        /// Variations added to the mean, from 0 to 100; default 4 (their equation 1).
        #[serde(default = "default_factor")]
        factor: f64,
        /// How often the playout delay is set in a talk without pauses, at most 1 h; default "1 s".
        #[serde(default = "default_adjust_every")]
        adjust_every: Duration,
    },
    /// The depth is constant, relative to the frame that arrived first.
    Fixed {
        /// How much longer a delay may be than that of the first frame, at most 1 h; default "100 ms".
        #[serde(default = "default_depth")]
        depth: Duration,
    },
    /// As `adaptive`, with detection of delay spikes (Ramjee et al. 1994, algorithm 4).
    Spike {
        /// Variations added to the mean, from 0 to 100; default 4.
        #[serde(default = "default_factor")]
        factor: f64,
        /// How often the playout delay is set in a talk without pauses, at most 1 h; default "1 s".
        #[serde(default = "default_adjust_every")]
        adjust_every: Duration,
    },
}

const fn default_alpha() -> f64 {
    0.998_002
}

const fn default_factor() -> f64 {
    4.0
}

const fn default_adjust_every() -> Duration {
    Duration::from_secs(1)
}

const fn default_depth() -> Duration {
    Duration::from_millis(100)
}

/// The longest depth or interval, which is enough to play everything that arrives at all.
const LONGEST: Duration = Duration::from_secs(3600);

impl Default for JitterBuffer {
    fn default() -> Self {
        Self::Fixed { depth: default_depth() }
    }
}

impl JitterBuffer {
    /// Tells `heard` the index and the fate of every frame, in the order of their making.
    pub fn play(&self, talk: Talk<'_>, mut heard: impl FnMut(usize, Playout)) {
        match *self {
            Self::Fixed { depth } => {
                let deadline = talk.first_delay().unwrap_or_default() + depth;
                for (index, &slot) in talk.slots.iter().enumerate().filter(|(_, slot)| slot.is_frame()) {
                    heard(index, fate(slot, deadline));
                }
            }
            Self::Adaptive { alpha, factor, adjust_every } => {
                adaptive(talk, adjust_every, factor, Average::new(alpha), &mut heard);
            }
            Self::Spike { factor, adjust_every } => {
                adaptive(talk, adjust_every, factor, SpikeDetector::default(), &mut heard);
            }
        }
    }

    /// After this time from its making, a frame of this talk is certainly too late.
    ///
    /// For the adaptive buffers this is an estimate, since they decide anew for every frame.
    pub fn longest_playout(&self, talk: Talk<'_>) -> Duration {
        let base = talk.first_delay().unwrap_or_default();
        match *self {
            Self::Fixed { depth } => base + depth,
            Self::Adaptive { .. } | Self::Spike { .. } => base * 4,
        }
    }

    /// Checks the values of the buffer.
    ///
    /// # Errors
    /// One sentence, when a factor or an interval is out of range.
    pub fn check(&self) -> Result<(), String> {
        if let Self::Adaptive { alpha, .. } = *self
            && !(0.0..1.0).contains(&alpha)
        {
            return Err(format!("jitter_buffer.alpha = {} is not from 0 to below 1", planning::shown(alpha)));
        }
        if let Self::Fixed { depth } = *self
            && depth > LONGEST
        {
            return Err(format!("jitter_buffer.depth = \"{depth}\" is not from 0 s to {LONGEST}"));
        }
        if let Self::Adaptive { factor, adjust_every, .. } | Self::Spike { factor, adjust_every } = *self {
            planning::check("jitter_buffer.factor", factor, &(0.0..=100.0))?;
            if adjust_every == Duration::ZERO || adjust_every > LONGEST {
                return Err(format!(
                    "jitter_buffer.adjust_every = \"{adjust_every}\" is not above 0 s and up to {LONGEST}"
                ));
            }
        }
        Ok(())
    }
}

fn fate(slot: Slot, playout_delay: Duration) -> Playout {
    match slot.delay() {
        None => Playout::Lost,
        Some(delay) if delay > playout_delay => Playout::Late,
        Some(_) => Playout::Played { playout_delay },
    }
}

/// An estimate of delay and its variation, both in milliseconds.
trait Estimator {
    /// A frame with this one-way delay arrived.
    fn update(&mut self, delay_ms: f64);
    /// Mean and variation.
    fn estimate(&self) -> (f64, f64);
}

fn adaptive(
    talk: Talk<'_>,
    adjust_every: Duration,
    factor: f64,
    mut estimator: impl Estimator,
    heard: &mut impl FnMut(usize, Playout),
) {
    // The estimates may use only what has arrived, so frames are handled in order of arrival.
    let mut arrivals: Vec<(Time, usize, Duration)> = Vec::with_capacity(talk.slots.len());
    for (index, slot) in talk.slots.iter().enumerate() {
        if let Some(delay) = slot.delay() {
            arrivals.push((talk.made(index) + delay, index, delay));
        }
    }
    arrivals.sort_unstable();

    let spurts = spurts(talk, adjust_every);
    let mut playout_delays: Vec<Option<Duration>> = vec![None; spurts.last().map_or(0, |&last| last + 1)];
    for (_, index, delay) in arrivals {
        estimator.update(delay.as_millis_f64());
        playout_delays[spurts[index]].get_or_insert_with(|| {
            let (mean, variation) = estimator.estimate();
            Duration::from_secs_f64((mean + factor * variation) / 1e3)
        });
    }
    for (index, &slot) in talk.slots.iter().enumerate().filter(|(_, slot)| slot.is_frame()) {
        heard(index, fate(slot, playout_delays[spurts[index]].unwrap_or_default()));
    }
}

/// The number of the talk spurt that each slot belongs to.
fn spurts(talk: Talk<'_>, adjust_every: Duration) -> Vec<usize> {
    let has_pauses = talk.slots.iter().any(|slot| !slot.is_frame());
    if !has_pauses {
        let frames = (adjust_every.as_nanos() / talk.period.as_nanos()).max(1) as usize;
        return (0..talk.slots.len()).map(|index| index / frames).collect();
    }
    let mut spurt = 0;
    let mut was_frame = true;
    let next = |slot: &Slot| {
        spurt += usize::from(slot.is_frame() && !was_frame);
        was_frame = slot.is_frame();
        spurt
    };
    talk.slots.iter().map(next).collect()
}

/// Algorithm 1: d = alpha d + (1 - alpha) n; v = alpha v + (1 - alpha) |d - n|.
///
/// The first delay starts the mean, as in RFC 6298 section 2.2; the paper leaves the start open.
struct Average {
    alpha: f64,
    mean: Option<f64>,
    variation: f64,
}

impl Average {
    const fn new(alpha: f64) -> Self {
        Self { alpha, mean: None, variation: 0.0 }
    }
}

impl Estimator for Average {
    fn update(&mut self, delay_ms: f64) {
        let Some(old) = self.mean else {
            self.mean = Some(delay_ms);
            // The variation starts at half the first delay, as RFC 6298 starts RTTVAR. Without this, the
            // first spurt would have no margin.
            self.variation = delay_ms / 2.0;
            return;
        };
        let mean = self.alpha * old + (1.0 - self.alpha) * delay_ms;
        self.variation = self.alpha * self.variation + (1.0 - self.alpha) * (mean - delay_ms).abs();
        self.mean = Some(mean);
    }

    fn estimate(&self) -> (f64, f64) {
        (self.mean.unwrap_or_default(), self.variation)
    }
}

/// Algorithm 4. Its constants are in samples of 125 us: 800 is 100 ms, 63 is 7.875 ms.
#[derive(Default)]
struct SpikeDetector {
    seen: u32,
    is_spike: bool,
    /// The delays one and two frames ago.
    previous: [f64; 2],
    slope: f64,
    mean: f64,
    variation: f64,
}

impl Estimator for SpikeDetector {
    fn update(&mut self, delay_ms: f64) {
        self.seen += 1;
        if self.seen == 1 {
            (self.mean, self.variation, self.previous) = (delay_ms, delay_ms / 2.0, [delay_ms; 2]);
            return;
        }
        let [last, before] = self.previous;
        self.previous = [delay_ms, last];
        if self.is_spike {
            self.slope = self.slope / 2.0 + ((2.0 * delay_ms - last - before) / 8.0).abs();
            if self.slope <= 7.875 {
                self.is_spike = false;
                return;
            }
        } else if (delay_ms - last).abs() > 2.0 * self.variation + 100.0 {
            self.slope = 0.0;
            self.is_spike = true;
        }
        self.mean =
            if self.is_spike { self.mean + delay_ms - last } else { 0.125 * delay_ms + 0.875 * self.mean };
        self.variation = 0.125 * (delay_ms - self.mean).abs() + 0.875 * self.variation;
    }

    fn estimate(&self) -> (f64, f64) {
        (self.mean, self.variation)
    }
}

#[cfg(test)]
mod tests {
    use proptest::strategy::Strategy as _;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(20);

    fn slot(delay_ms: Option<u64>) -> Slot {
        delay_ms.map_or(Slot::LOST, |ms| Slot::arrived(Duration::from_millis(ms)))
    }

    fn fates(buffer: JitterBuffer, slots: &[Slot]) -> Vec<(usize, Playout)> {
        let mut fates = Vec::new();
        buffer.play(Talk { slots, period: PERIOD }, |index, fate| fates.push((index, fate)));
        fates
    }

    fn played(ms: u64) -> Playout {
        Playout::Played { playout_delay: Duration::from_millis(ms) }
    }

    const ADAPTIVE: JitterBuffer =
        JitterBuffer::Adaptive { alpha: 0.998_002, factor: 4.0, adjust_every: Duration::from_secs(1) };
    const SPIKE: JitterBuffer = JitterBuffer::Spike { factor: 4.0, adjust_every: Duration::from_secs(1) };

    #[test]
    fn a_fixed_buffer_counts_from_the_first_arrival() {
        // Frame 1 arrives at 20 + 50 = 70 ms, before frame 0 at 80 ms: the base is 50 ms.
        let slots = [Some(80), Some(50), None, Some(150), Some(151)].map(slot);
        let expected =
            [(0, played(150)), (1, played(150)), (2, Playout::Lost), (3, played(150)), (4, Playout::Late)];
        assert_eq!(fates(JitterBuffer::default(), &slots), expected);
    }

    #[test]
    fn of_frames_in_one_packet_the_first_made_is_the_base() {
        let slots = [Some(90), Some(70), Some(191)].map(slot);
        assert_eq!(fates(JitterBuffer::default(), &slots)[2], (2, Playout::Late));
        assert_eq!(fates(JitterBuffer::default(), &slots)[1], (1, played(190)));
    }

    #[test]
    fn nothing_arrived() {
        assert_eq!(fates(JitterBuffer::default(), &[Slot::LOST, Slot::SILENT]), [(0, Playout::Lost)]);
        assert_eq!(fates(ADAPTIVE, &[Slot::LOST, Slot::SILENT]), [(0, Playout::Lost)]);
        assert_eq!(fates(SPIKE, &[]), []);
    }

    #[test]
    fn an_adaptive_buffer_converges_to_a_constant_delay() {
        let slots = vec![slot(Some(60)); 20_000];
        // The variation starts at half the delay and decays by 0.998002 per frame: 4 x 30 ms x
        // 0.998002^19950 is below a nanosecond.
        let (_, last) = fates(ADAPTIVE, &slots)[19_999];
        let Playout::Played { playout_delay } = last else { panic!("{last:?}") };
        assert!(playout_delay.saturating_sub(Duration::from_millis(60)) < Duration::from_micros(1));
        let (_, first) = fates(ADAPTIVE, &slots)[0];
        assert_eq!(first, played(60 + 4 * 30));
    }

    #[test]
    fn an_adaptive_buffer_changes_only_between_talk_spurts() {
        let mut slots: Vec<Slot> = (0..100).map(|i| slot(Some(40 + i % 7 * 10))).collect();
        slots[50] = Slot::SILENT;
        let mut delays: Vec<Duration> =
            fates(ADAPTIVE, &slots)
                .into_iter()
                .filter_map(|(_, fate)| {
                    if let Playout::Played { playout_delay } = fate { Some(playout_delay) } else { None }
                })
                .collect();
        delays.dedup();
        assert_eq!(delays.len(), 2);
    }

    #[test]
    fn a_spike_is_followed_up_and_down() {
        // One second at 50 ms, then a spike to 400 ms that falls by 20 ms per frame, then 50 ms again.
        let ramp = (0..18).map(|i| 400 - 20 * i);
        let delays = std::iter::repeat_n(50, 200).chain(ramp).chain(std::iter::repeat_n(50, 200));
        let mut detector = SpikeDetector::default();
        let mut highest: f64 = 0.0;
        for delay in delays {
            detector.update(f64::from(delay));
            highest = highest.max(detector.mean);
        }
        assert!((highest - 400.0).abs() < 1.0, "{highest}");
        assert!((detector.mean - 50.0).abs() < 1.0, "{}", detector.mean);
        assert!(!detector.is_spike);
    }

    #[test]
    fn impossible_values_are_named() {
        let check = |buffer: JitterBuffer| buffer.check().unwrap_err();
        let alpha = JitterBuffer::Adaptive { alpha: 1.0, factor: 4.0, adjust_every: Duration::from_secs(1) };
        assert_eq!(check(alpha), "jitter_buffer.alpha = 1 is not from 0 to below 1");
        let never = JitterBuffer::Spike { factor: 4.0, adjust_every: Duration::ZERO };
        assert_eq!(check(never), "jitter_buffer.adjust_every = \"0 s\" is not above 0 s and up to 3600 s");
    }

    proptest::proptest! {
        /// played + late + lost = sent, every frame once and in order, whatever the buffer.
        #[test]
        fn frames_are_conserved(
            slots in proptest::collection::vec(
                proptest::prop_oneof![
                    proptest::strategy::Just(Slot::LOST),
                    proptest::strategy::Just(Slot::SILENT),
                    (0u64..500).prop_map(|ms| slot(Some(ms))),
                ],
                0..300,
            ),
            depth in 0u64..300,
        ) {
            let fixed = JitterBuffer::Fixed { depth: Duration::from_millis(depth) };
            for buffer in [fixed, ADAPTIVE, SPIKE] {
                let fates = fates(buffer, &slots);
                let frames: Vec<usize> = (0..slots.len()).filter(|&i| slots[i].is_frame()).collect();
                proptest::prop_assert_eq!(fates.iter().map(|&(i, _)| i).collect::<Vec<_>>(), frames);
                for (index, fate) in fates {
                    match fate {
                        Playout::Lost => proptest::prop_assert!(slots[index].delay().is_none()),
                        Playout::Late => proptest::prop_assert!(slots[index].delay().is_some()),
                        Playout::Played { playout_delay } => {
                            proptest::prop_assert!(slots[index].delay().unwrap() <= playout_delay);
                        }
                    }
                }
            }
        }

        /// A deeper fixed buffer never plays fewer frames.
        #[test]
        fn depth_helps(delays in proptest::collection::vec(0u64..500, 1..200), depth in 0u64..300) {
            let slots: Vec<Slot> = delays.iter().map(|&ms| slot(Some(ms))).collect();
            let count = |depth| {
                let buffer = JitterBuffer::Fixed { depth: Duration::from_millis(depth) };
                fates(buffer, &slots).iter().filter(|(_, fate)| *fate != Playout::Late).count()
            };
            proptest::prop_assert!(count(depth + 10) >= count(depth));
            proptest::prop_assert!(count(depth) >= 1);
        }
    }
}
