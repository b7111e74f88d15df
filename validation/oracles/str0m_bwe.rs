//! The bandwidth estimator of str0m 0.23.1 (algesten/str0m, commit 120401c), which follows libwebrtc's
//! revision 2bc24d4, as an oracle of our `gcc`: a sender over RFC 8867 section 5.1, in virtual time.
//!
//! usage: `str0m_bwe > str0m_even.csv`
//!
//! Frames of one size, 30 a second, in packets of 1000 bytes and headers of 40; the encoder follows the
//! estimate up to 1.5 Mbit/s. Packets leave at 2.5 times the estimate, and those of a probe at its rate,
//! padded with packets of the same size. The receiver reports with the last packet of a frame, to 1/1024 s. A
//! row is 100 ms, as in `scream.cpp`.
//!
//! build, with str0m's sources as `str0m` in this folder:
//!   rustc --edition 2024 -O -A warnings str0m_bwe.rs

use std::collections::VecDeque;
use std::time::{Duration, Instant};

macro_rules! trace { ($($x:tt)*) => {}; }
macro_rules! debug { ($($x:tt)*) => {}; }
macro_rules! warn { ($($x:tt)*) => {}; }
macro_rules! log_stat { ($($x:tt)*) => {}; }
pub(crate) use log_stat;

#[path = "str0m/src/bwe/mod.rs"]
mod bwe;
#[path = "str0m/src/util/average.rs"]
mod average;
#[path = "str0m/crates/proto/src/bandwidth.rs"]
mod bandwidth;
#[path = "str0m/src/util/time_tricks.rs"]
mod time_tricks;

/// What the estimator asks of the rest of str0m.
mod rtp_ {
    use super::{Duration, Instant};
    pub use crate::bandwidth::{Bitrate, DataSize};

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Mid;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct TwccSeq(pub u64);

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct TwccClusterId(u64);

    impl From<u64> for TwccClusterId {
        fn from(id: u64) -> Self {
            Self(id)
        }
    }

    impl TwccClusterId {
        pub fn inc(&mut self) -> Self {
            self.0 += 1;
            Self(self.0 - 1)
        }
    }

    /// A packet that was sent, and what a report says of it.
    #[derive(Clone, Copy, Debug)]
    pub struct TwccSendRecord {
        pub seq: TwccSeq,
        pub cluster: Option<TwccClusterId>,
        pub sent: Instant,
        pub size: usize,
        pub arrived: Option<Instant>,
        pub reported: Option<Instant>,
    }

    impl TwccSendRecord {
        pub fn seq(&self) -> TwccSeq {
            self.seq
        }
        pub fn cluster(&self) -> Option<TwccClusterId> {
            self.cluster
        }
        pub fn local_send_time(&self) -> Instant {
            self.sent
        }
        pub fn size(&self) -> usize {
            self.size
        }
        pub fn remote_recv_time(&self) -> Option<Instant> {
            self.arrived
        }
        pub fn local_recv_time(&self) -> Option<Instant> {
            self.reported
        }
        pub fn rtt(&self) -> Option<Duration> {
            Some(self.reported? - self.sent)
        }
    }
}

mod util {
    use super::Instant;

    pub use crate::average::MovingAverage;
    pub(crate) use crate::time_tricks::{already_happened, not_happening};

    pub trait Soonest {
        fn soonest(self, other: Self) -> Self;
    }

    impl<T> Soonest for (Option<Instant>, T) {
        fn soonest(self, other: Self) -> Self {
            match (self.0, other.0) {
                (Some(first), Some(second)) if second < first => other,
                (None, Some(_)) => other,
                _ => self,
            }
        }
    }
}

pub use bandwidth::{Bitrate, DataSize};

#[derive(Clone, Copy, Debug, Default)]
pub enum Reason {
    #[default]
    NotHappening,
    BweDelayControl,
    BweProbeControl,
    BweProbeEstimator,
}

/// `bwe::api` names it.
pub struct Rtc {
    session: Session,
}

struct Session;

impl Session {
    fn set_bwe_desired_bitrate(&mut self, _rate: Bitrate) {}
    fn reset_bwe(&mut self, _rate: Bitrate) {}
}

const SCHEDULE: [(f64, f64); 4] = [(0.0, 1e6), (40.0, 2.5e6), (60.0, 0.6e6), (80.0, 1e6)];
const MAX_RATE: f64 = 1.5e6;
const MIN_RATE: f64 = 150e3;
const ONE_WAY_S: f64 = 0.05;
const QUEUE_S: f64 = 0.3;
const STEP_S: f64 = 0.000_1;
const HEADERS: usize = 40;
const PAYLOAD: usize = 1_000;

struct Packet {
    record: rtp_::TwccSendRecord,
    arrives_s: Option<f64>,
    is_last: bool,
}

fn main() {
    let begin = Instant::now() + Duration::from_secs(1);
    let at = |s: f64| begin + Duration::from_secs_f64(s);
    let mut estimator = bwe::Bwe::new(Bitrate::bps(MIN_RATE as u64));
    estimator.set_desired_bitrate(Bitrate::bps(MAX_RATE as u64));
    let (mut queue, mut way, mut back) = (VecDeque::new(), VecDeque::<Packet>::new(), VecDeque::new());
    let mut probe: Option<bwe::ProbeClusterState> = None;
    let mut waiting = VecDeque::new();
    let (mut free_s, mut send_s, mut target) = (0.0f64, 0.0f64, MIN_RATE);
    let (mut frames, mut number, mut rows) = (0u64, 0u64, 0u64);
    let (mut bits, mut waited, mut most, mut packets) = (0.0, 0.0, 0.0f64, 0);
    println!("time_s,target_kbit_per_s,delivered_kbit_per_s,queue_mean_ms,queue_max_ms");
    for step in 0.. {
        let now = step as f64 * STEP_S;
        if now >= 100.0 {
            break;
        }
        let capacity = SCHEDULE.iter().rev().find(|phase| phase.0 <= now).map_or(1e6, |phase| phase.1);
        if let Some(estimate) = estimator.last_estimate() {
            target = estimate.as_f64().clamp(MIN_RATE, MAX_RATE);
        }
        if now >= frames as f64 / 30.0 {
            frames += 1;
            let mut left = (target / 30.0 / 8.0) as usize;
            while left > 0 {
                let payload = left.min(PAYLOAD);
                left -= payload;
                queue.push_back((payload + HEADERS, left == 0));
            }
        }
        if estimator.poll_timeout().0.is_some_and(|time| time <= at(now)) {
            waiting.extend(estimator.handle_timeout(at(now), frames > 0));
        }
        if probe.is_none() && !queue.is_empty() {
            if let Some(config) = waiting.pop_front() {
                if estimator.start_probe(config, at(now)) {
                    probe = Some(bwe::ProbeClusterState::new(config));
                }
            }
        }
        while send_s <= now {
            let rate = probe.as_ref().map_or(2.5 * target, |probe| probe.config().target_bitrate().as_f64());
            let (size, is_last, is_media) = match queue.pop_front() {
                Some((size, is_last)) => (size, is_last, true),
                None if probe.is_some() => (PAYLOAD + HEADERS + 2, false, false),
                None => break,
            };
            let begins = free_s.max(now);
            let arrives_s = (begins - now <= QUEUE_S).then(|| {
                free_s = begins + size as f64 * 8.0 / capacity;
                free_s + ONE_WAY_S
            });
            let record = rtp_::TwccSendRecord {
                seq: rtp_::TwccSeq(number),
                cluster: probe.as_ref().map(|probe| probe.config().cluster()),
                sent: at(now),
                size,
                arrived: None,
                reported: None,
            };
            number += 1;
            way.push_back(Packet { record, arrives_s, is_last });
            estimator.on_media_sent(DataSize::bytes(size as i64), !is_media, at(now));
            if let Some(state) = &mut probe {
                state.record_packet(at(now), DataSize::bytes(size as i64));
                if state.is_complete(at(now)) {
                    estimator.end_probe(at(now), state.config().cluster());
                    probe = None;
                }
            }
            send_s = send_s.max(now) + size as f64 * 8.0 / rate;
        }
        // A lost packet is reported with the next one that arrived.
        let arrived = way.iter().rposition(|packet| packet.arrives_s.is_some_and(|time| time <= now));
        if let Some(last) = arrived {
            let is_due = way.range(..=last).any(|packet| packet.is_last && packet.arrives_s.is_some());
            let fresh = way.range(..=last).filter_map(|packet| packet.arrives_s);
            let is_old = fresh.fold(f64::INFINITY, f64::min) + 0.04 <= now;
            if is_due || is_old {
                let mut report = Vec::new();
                for mut packet in way.drain(..=last) {
                    if let Some(time) = packet.arrives_s {
                        packet.record.arrived = Some(at((time * 1_024.0).floor() / 1_024.0));
                        let sent = (packet.record.sent - begin).as_secs_f64();
                        let size = packet.record.size as f64 * 8.0;
                        let rate =
                            SCHEDULE.iter().rev().find(|phase| phase.0 <= sent).map_or(1e6, |phase| phase.1);
                        let wait = (time - sent - ONE_WAY_S - size / rate).max(0.0);
                        bits += size;
                        waited += wait;
                        most = most.max(wait);
                        packets += 1;
                    }
                    report.push(packet.record);
                }
                back.push_back((now + ONE_WAY_S, report));
            }
        }
        while back.front().is_some_and(|(time, _)| *time <= now) {
            let (_, mut report): (f64, Vec<rtp_::TwccSendRecord>) = back.pop_front().expect("there is one");
            report.iter_mut().for_each(|record| record.reported = Some(at(now)));
            estimator.update(report.iter(), at(now));
        }
        if (now + STEP_S) * 10.0 >= (rows + 1) as f64 - 1e-9 {
            rows += 1;
            let mean = if packets == 0 { 0.0 } else { 1e3 * waited / f64::from(packets) };
            println!("{:.1},{:.0},{:.0},{mean:.2},{:.2}", rows as f64 / 10.0, target / 1e3, bits / 100.0, 1e3 * most);
            (bits, waited, most, packets) = (0.0, 0.0, 0.0, 0);
        }
    }
}
