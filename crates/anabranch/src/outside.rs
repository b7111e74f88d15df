//! An end of a connection that is run outside the simulation, for example by the system's kernel.
//!
//! The application's commands wait here until they are [taken](Outside::take_command), and outside events are
//! [reported](Outside::tell) here and reach the application like any endpoint's events. So everything that
//! measures and traces an application works with such an end as well.

use std::borrow::Cow;
use std::collections::VecDeque;

use anabranch_transport::endpoint::{Command, Endpoint, Event, Input, Multipath, Output, Service};
use anabranch_transport::observed::{Observed, PathSample};
use anabranch_transport::report::{Declared, Report};
use anabranch_transport::time::Time;
use anabranch_transport::wire::Packet;

/// The counters of such an end: of which part of it (`subflow_0`, or nothing for the end itself), what is
/// counted, and the count. Parts and counters never change.
pub type Counters = Vec<(Cow<'static, str>, Declared, u64)>;

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
    /// The end that takes the place of this one, which must not have been used yet.
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

    /// The next command that the application has given.
    pub fn take_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Reports an event to the application.
    pub fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Sets the state of its paths, and its counters up to now.
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

    /// Never: the packets of such an end are handled outside.
    fn owns(&self, _packet: &Packet) -> bool {
        false
    }

    #[inline(never)]
    fn handle_input(&mut self, _now: Time, input: Input) {
        if let Input::Command(command) = input {
            self.commands.push_back(command);
        }
    }

    fn poll_output(&mut self, _now: Time) -> Output {
        self.events.pop_front().map_or(Output::Timeout(Time::NEVER), Output::Event)
    }
}

impl Multipath for Outside {}

impl Observed for Outside {
    fn sample_paths(&self, samples: &mut Vec<PathSample>) {
        samples.extend_from_slice(&self.samples);
    }

    fn report(&self, report: &mut Report<'_>) {
        for (part, counter, count) in &self.counters {
            if part.is_empty() {
                report.count(*counter, *count);
            } else {
                report.section(part).count(*counter, *count);
            }
        }
    }
}
