//! An end of a connection that somebody outside the simulation runs, such as the system's kernel.
//!
//! What the application orders waits here until it is [taken](Outside::take_command) outside, and what
//! happens outside is [told](Outside::tell) here and reaches the application as any endpoint's events do. So
//! whatever measures and traces an application does so with such an end, too.

use std::borrow::Cow;
use std::collections::VecDeque;

use anabranch_transport::endpoint::{Command, Endpoint, Event, Input, Output, PathSample, Service};
use anabranch_transport::ground::Payload;
use anabranch_transport::report::Report;
use anabranch_transport::time::Time;
use anabranch_transport::wire::Packet;

/// What such an end has counted, under the names that the report of a run has; always the same names.
pub type Counters = Vec<(Cow<'static, str>, u64)>;

/// An end that is run outside.
#[derive(Debug)]
pub struct Outside {
    protocol: &'static str,
    service: Service,
    commands: VecDeque<Command>,
    events: VecDeque<Event>,
    samples: Vec<PathSample>,
    counters: Counters,
}

impl Outside {
    /// The end in the place of this one, which has taken part in nothing.
    pub fn in_place_of(endpoint: &impl Endpoint) -> Self {
        Self {
            protocol: endpoint.protocol(),
            service: endpoint.service(),
            commands: VecDeque::new(),
            events: VecDeque::new(),
            samples: Vec::new(),
            counters: Counters::new(),
        }
    }

    /// The next of what the application has ordered.
    pub fn take_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Something has happened that the application is to hear.
    pub fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// The state of its paths, and what it has counted up to now.
    pub fn observe(&mut self, samples: &[PathSample], counters: Counters) {
        self.samples.clear();
        self.samples.extend_from_slice(samples);
        self.counters = counters;
    }
}

impl Endpoint for Outside {
    fn protocol(&self) -> &'static str {
        self.protocol
    }

    fn service(&self) -> Service {
        self.service
    }

    /// Never: the packets of such an end go to whoever runs it.
    fn owns(&self, _packet: &Packet) -> bool {
        false
    }

    fn payloads_to_send(&self, _each: &mut dyn FnMut(Payload)) {}

    fn payloads_that_wait(&self, _each: &mut dyn FnMut(Payload)) {}

    #[inline(never)]
    fn handle_input(&mut self, _now: Time, input: Input) {
        if let Input::Command(command) = input {
            self.commands.push_back(command);
        }
    }

    fn poll_output(&mut self, _now: Time) -> Output {
        self.events.pop_front().map_or(Output::Timeout(Time::NEVER), Output::Event)
    }

    fn sample_paths(&self, samples: &mut Vec<PathSample>) {
        samples.extend_from_slice(&self.samples);
    }

    fn report(&self, report: &mut Report<'_>) {
        for (name, count) in &self.counters {
            report.count(name, *count);
        }
    }
}
