//! A telephone call over a live association, measured by the code that measures a simulated call.

use std::collections::BTreeMap;

use anabranch::app::voip::{Measures, Voip, VoipConfig};
use anabranch::app::{App as _, Commands, Direction, Start};
use anabranch::scenario;
use anabranch_transport::endpoint::{Command, Event, Received};
use anabranch_transport::flow::{Payload, Side};
use anabranch_transport::report::Row;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::ScenarioError;

/// How many frames may arrive before this end has begun.
const MOST_EARLY: u64 = 1_000;

/// A call in both directions, as its end A sees it, which is this one. The first frame of either end is made
/// at time 0; frames of the peer are reported with their delay when they arrive.
#[pyclass(module = "anabranch._engine")]
pub(crate) struct LiveCall {
    call: Voip,
    payload_bytes: u32,
    period: Duration,
    /// The number of frames that each end should have made by now, by the clock of this end.
    made: u64,
    /// Delays in seconds of frames that arrived before this end had begun, because the peer began earlier.
    early: BTreeMap<u64, f64>,
}

#[pymethods]
impl LiveCall {
    /// Makes a call with the settings of a scenario's `app` of kind `voip`, without `connect`, `start` and
    /// `direction`.
    #[new]
    fn new(json: &str, seed: u64) -> PyResult<Self> {
        let error = |sentence: String| ScenarioError::new_err(sentence);
        let tree = serde_json::from_str(json).map_err(|problem| error(problem.to_string()))?;
        let config: VoipConfig =
            scenario::from_value(&tree, "").map_err(|problem| error(problem.to_string()))?;
        let config = VoipConfig {
            connect: Duration::ZERO,
            start: Start::At(Duration::ZERO),
            direction: Direction::Both,
            ..config
        };
        let mut call = config.build(Streams { seed, replication: 0 }, "call").map_err(error)?;
        let payload_bytes =
            config.codec.data().payload_bytes(config.packetisation).expect("it has been checked");
        let mut commands = Commands::default();
        // The call's first command opens the association, which is open already: it is dropped.
        call.handle_wakeup(Time::ZERO, &mut commands);
        call.handle_event(Time::ZERO, Side::A, &Event::Connected, &mut commands);
        Ok(Self { call, payload_bytes, period: config.packetisation, made: 0, early: BTreeMap::new() })
    }

    /// Bytes of a frame.
    #[getter]
    fn frame_bytes(&self) -> u32 {
        self.payload_bytes
    }

    /// Seconds from a frame to the next.
    #[getter]
    fn period_s(&self) -> f64 {
        self.period.as_secs_f64()
    }

    /// Makes the next frame of each end. Returns whether this end has one to send, which it does not in a
    /// pause; `None` at the end of the call.
    fn make_frame(&mut self) -> Option<bool> {
        let mut commands = Commands::default();
        if self.call.is_talking() {
            self.call.handle_wakeup(Time::ZERO + self.period * self.made, &mut commands);
            self.made += 1;
            while let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() < self.made) {
                let (index, delay_s) = entry.remove_entry();
                self.hear(index, delay_s);
            }
            Some(
                commands
                    .list
                    .iter()
                    .any(|(side, command)| *side == Side::A && matches!(command, Command::Send(_))),
            )
        } else {
            None
        }
    }

    /// Reports that a frame of the peer has arrived, this long after it was made.
    fn arrived(&mut self, index: u64, delay_s: f64) {
        // Numbers from the peer are ignored unless they are possible.
        match index {
            _ if index < self.made => self.hear(index, delay_s),
            _ if index < self.made + MOST_EARLY => _ = self.early.insert(index, delay_s),
            _ => {}
        }
    }

    /// Reports that a frame of this end was not taken because the send buffer was full (`refused`), or that
    /// it has been given up (`abandoned`).
    fn failed(&mut self, was_refused: bool) {
        let payload = Payload { offset: 0, length: self.payload_bytes };
        let event = if was_refused { Event::Refused(payload) } else { Event::Abandoned(payload) };
        self.call.handle_event(Time::ZERO, Side::A, &event, &mut Commands::default());
    }

    /// The scalars for what was heard of the peer so far, by the names that a simulated call's have.
    fn heard<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        if let Some(measures) = self.call.measures(Side::B) {
            let mut row = Row::default();
            Measures::report(&measures, &mut row.section(""));
            for (name, value) in row.scalars() {
                dict.set_item(name.trim_start_matches('.'), value)?;
            }
        }
        Ok(dict)
    }

    /// The MOS of each second of the peer's speech so far, the first one first.
    fn ratings(&self) -> Vec<f64> {
        self.call.ratings(Side::B).iter().map(|interval| interval.rating.mos()).collect()
    }
}

impl LiveCall {
    fn hear(&mut self, index: u64, delay_s: f64) {
        let offset = index * u64::from(self.payload_bytes);
        let payload = Payload { offset, length: self.payload_bytes };
        let received = Received::unordered(payload);
        let delay = Duration::from_secs_f64(delay_s.clamp(0.0, 3_600.0));
        let now = self.call.start() + self.period * index + delay;
        self.call.handle_event(now, Side::A, &Event::Received(received), &mut Commands::default());
    }
}
