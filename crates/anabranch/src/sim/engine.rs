//! The event loop of one run.
//!
//! A packet crosses as many links as possible in one computation; an event exists only where its order
//! among other packets or a random draw of a shared process decides something (see
//! [`Routes::mark_waiting_hops`]), and at the end of its route.

use super::event_queue::{EventQueue, Target};
use super::flow::{Alarm, AnyEndpoint, Flow, Ring};
use super::packets::{InFlight, PacketSlab};
use super::topology::{Hop, Routes, check_path};
use crate::app::{App, Commands};
use crate::cc::Controller;
use crate::endpoint::{Endpoint, Input, Output};
use crate::net::{DuplexLink, Step};
use crate::packet::{Packet, PathId, Side};
use crate::report::Row;
use crate::rng::Streams;
use crate::scenario::{FlowConfig, RunConfig, Scenario, ScenarioError, TransportConfig};
use crate::sctp::Association;
use crate::time::{Duration, Time};
use crate::trace::{self, Table, Trace};
use crate::udp::UdpEndpoint;

/// One run of a scenario.
pub struct Simulation {
    now: Time,
    /// When the run ends at the latest.
    end: Time,
    queue: EventQueue,
    packets: PacketSlab,
    links: Vec<DuplexLink>,
    flows: Vec<Flow>,
    routes: Routes,
    limits: RunConfig,
    link_names: Vec<String>,
    flow_names: Vec<String>,
    commands: Commands,
    events: u64,
    counters: Counters,
    /// Times after `now` at which links drop packets that were carried there ahead, and some earlier ones.
    drops_ahead: Vec<Time>,
    trace: Option<Box<Trace>>,
    samples: Vec<crate::endpoint::PathSample>,
}

/// What became of the packets that endpoints sent: sent + duplicated = delivered + dropped + in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    sent: u64,
    duplicated: u64,
    delivered: u64,
    dropped: u64,
}

/// What a run gives.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One scalar per metric.
    pub row: Row,
    /// The traces, when they were asked for.
    pub tables: Vec<Table>,
}

/// Watches over a run from outside: called every 65,536 events; a message ends the run.
pub type Guard<'a> = dyn FnMut() -> Option<String> + 'a;

/// A run that was given up. Displays as one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run was stopped at {at} after {events} events: {reason}")]
pub struct RunError {
    at: Time,
    events: u64,
    reason: String,
}

const EVENTS_BETWEEN_CHECKS: u64 = 1 << 16;

/// An event's key has 24 bits for the number of a route, and a flow has at most 2 x 255 routes.
const MAX_FLOWS: usize = 1 << 15;

impl Simulation {
    /// Builds the run of a scenario with its own seed.
    ///
    /// # Errors
    /// When the scenario contradicts itself.
    pub fn build(scenario: &Scenario, replication: u64, trace: bool) -> Result<Self, ScenarioError> {
        Self::build_fused(scenario, replication, trace, true)
    }

    /// The same, with or without computing chains of links at once; the results are the same.
    ///
    /// # Errors
    /// When the scenario contradicts itself.
    pub fn build_fused(
        scenario: &Scenario,
        replication: u64,
        trace: bool,
        fuse: bool,
    ) -> Result<Self, ScenarioError> {
        let RunConfig { duration, warm_up, .. } = scenario.run;
        if warm_up > duration {
            return Err(ScenarioError::new(format!(
                "run.warm_up: \"{warm_up}\" is longer than the run; use at most run.duration, \"{duration}\""
            )));
        }
        let streams = Streams { seed: scenario.seed, replication };
        let links = scenario
            .links
            .iter()
            .map(|(name, config)| {
                let build = if trace { DuplexLink::build_traced } else { DuplexLink::build };
                build(config, name, streams).map_err(ScenarioError::new)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut routes = Routes::resolve(scenario)?;
        for (name, path) in &scenario.paths {
            check_path(scenario, name, path)?;
        }
        if scenario.flows.is_empty() {
            return Err(ScenarioError::new("flows: there is none; a scenario needs at least one"));
        }
        if scenario.flows.len() > MAX_FLOWS {
            let count = scenario.flows.len();
            return Err(ScenarioError::new(format!(
                "flows: {count} are too many; at most {MAX_FLOWS} are allowed"
            )));
        }
        routes.mark_waiting_hops(&links, fuse);
        let flows = scenario
            .flows
            .iter()
            .map(|(name, config)| build_flow(scenario, name, config, streams))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            now: Time::ZERO,
            end: Time::ZERO + scenario.run.duration,
            queue: EventQueue::default(),
            packets: PacketSlab::default(),
            links,
            flows,
            routes,
            limits: scenario.run,
            link_names: scenario.links.keys().cloned().collect(),
            flow_names: scenario.flows.keys().cloned().collect(),
            commands: Commands::default(),
            events: 0,
            counters: Counters::default(),
            drops_ahead: Vec::new(),
            trace: trace.then(Box::default),
            samples: Vec::new(),
        })
    }

    /// Gives one path of one end of an SCTP flow a congestion control of the user's own, before the run.
    ///
    /// # Errors
    /// When there is no such flow, it has no such path, or its transport is not SCTP.
    pub fn set_congestion_control(
        &mut self,
        flow: &str,
        side: Side,
        path: PathId,
        control: Controller,
    ) -> Result<(), ScenarioError> {
        let index = self.flow_names.iter().position(|name| name == flow);
        let endpoint = index.map(|index| &mut self.flows[index].endpoints[side.index()]);
        let Some(AnyEndpoint::Sctp(association)) = endpoint else {
            return Err(ScenarioError::new(format!("flows.{flow}: there is no such flow over SCTP")));
        };
        self.samples.clear();
        association.sample_paths(&mut self.samples);
        let count = self.samples.len();
        if path.index() >= count {
            return Err(ScenarioError::new(format!(
                "flows.{flow}.paths: there is no path {}; paths are counted from 0 to {}",
                path.0,
                count - 1
            )));
        }
        association.set_congestion_control(path, control);
        Ok(())
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// When a guard stops the run.
    pub fn run(mut self, guard: &mut Guard<'_>) -> Result<Outcome, RunError> {
        let mut next_check = EVENTS_BETWEEN_CHECKS.min(self.limits.max_events);
        for flow in 0..self.flows.len() {
            self.settle(flow, Side::A);
            self.settle(flow, Side::B);
        }
        let warm_up_end = Time::ZERO + self.limits.warm_up;
        let mut warm_up = None;
        // Background loads are always done: without anything else the run takes its whole duration.
        let ends_early = !self.is_done();
        while !(ends_early && self.is_done()) {
            let next = self.queue.pop().filter(|&(time, _)| time <= self.end);
            let Some((time, target)) = next else {
                self.now = self.end;
                break;
            };
            if time >= warm_up_end && warm_up.is_none() && !self.limits.warm_up.is_zero() {
                warm_up = Some(self.warm_up_row(warm_up_end));
            }
            debug_assert!(time >= self.now, "events come in order");
            self.now = time;
            self.events += 1;
            if self.events >= next_check {
                self.check_limits(guard)?;
                next_check = (self.events + EVENTS_BETWEEN_CHECKS).min(self.limits.max_events);
            }
            match target {
                Target::Link { slot, .. } => self.travel(slot, self.now, true),
                Target::Endpoint { slot, .. } => self.deliver(slot),
                Target::Timer { component } => self.ring_timer(component),
                Target::App { component } => self.ring_app(component),
            }
        }
        if warm_up.is_none() && !self.limits.warm_up.is_zero() {
            warm_up = Some(self.warm_up_row(self.now.min(warm_up_end)));
        }
        Ok(self.finish(warm_up.as_ref()))
    }

    /// The wall-clock time that the run may take at most; its guard keeps it.
    pub fn max_wall_time(&self) -> Duration {
        self.limits.max_wall_time
    }

    fn is_done(&self) -> bool {
        self.flows.iter().all(|flow| flow.app.is_done())
    }

    fn check_limits(&self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        let stop = |reason: String| Err(RunError { at: self.now, events: self.events, reason });
        if self.events >= self.limits.max_events {
            return stop(format!("run.max_events = {} is reached", self.limits.max_events));
        }
        let trace = self.trace.as_ref().map_or(0, |trace| {
            trace.memory() + self.links.iter().map(DuplexLink::trace_memory).sum::<usize>()
        });
        let memory = self.packets.memory() + self.queue.memory() + trace;
        if memory as u64 > self.limits.max_memory.0 {
            return stop(format!("run.max_memory = {} is reached", self.limits.max_memory));
        }
        guard().map_or(Ok(()), stop)
    }

    fn ring_timer(&mut self, component: u32) {
        let (index, side) =
            ((component / 2) as usize, if component.is_multiple_of(2) { Side::A } else { Side::B });
        let flow = &mut self.flows[index];
        match flow.timers[side.index()].ring(self.now) {
            Ring::Due => {
                flow.endpoints[side.index()].handle_input(self.now, Input::Timeout);
                self.settle(index, side);
            }
            Ring::Later(time) => self.queue.push(time, Target::Timer { component }),
            Ring::Stale => {}
        }
    }

    fn ring_app(&mut self, component: u32) {
        let index = component as usize;
        let flow = &mut self.flows[index];
        match flow.app_alarm.ring(self.now) {
            Ring::Due => {
                flow.app.handle_wakeup(self.now, &mut self.commands);
                self.obey(index);
            }
            Ring::Later(time) => self.queue.push(time, Target::App { component }),
            Ring::Stale => {}
        }
    }

    fn deliver(&mut self, slot: u32) {
        let InFlight { packet, flow, sender, trace_row, .. } = self.packets.remove(slot);
        self.counters.delivered += 1;
        if let Some(trace) = &mut self.trace {
            trace.packets.delivered(self.now, trace_row);
        }
        let index = flow as usize;
        let side = sender.peer();
        self.flows[index].endpoints[side.index()].handle_input(self.now, Input::Packet(packet));
        self.settle(index, side);
    }

    /// Drains an endpoint, then obeys the commands that its events gave rise to.
    fn settle(&mut self, flow: usize, side: Side) {
        self.drain(flow, side);
        self.obey(flow);
    }

    /// Carries out the application's commands until there is none left, and sets its alarm.
    fn obey(&mut self, index: usize) {
        let mut next = 0;
        while let Some(&(side, command)) = self.commands.0.get(next) {
            next += 1;
            self.flows[index].endpoints[side.index()].handle_input(self.now, Input::Command(command));
            self.drain(index, side);
        }
        self.commands.0.clear();
        let flow = &mut self.flows[index];
        if let Some(time) = flow.app_alarm.set(flow.app.next_wakeup()) {
            self.queue.push(time, Target::App { component: index as u32 });
        }
    }

    /// Does everything that an endpoint wants done.
    fn drain(&mut self, index: usize, side: Side) {
        loop {
            let flow = &mut self.flows[index];
            match flow.endpoints[side.index()].poll_output(self.now) {
                Output::Transmit(packet) => self.transmit(index, side, packet),
                Output::Event(event) => {
                    flow.app.handle_event(self.now, side, &event, &mut self.commands);
                    if let Some(trace) = &mut self.trace {
                        trace.events.record(self.now, index as u32, side, &event);
                    }
                }
                Output::Timeout(time) => {
                    if let Some(time) = flow.timers[side.index()].set(time) {
                        let component = index as u32 * 2 + side.index() as u32;
                        self.queue.push(time, Target::Timer { component });
                    }
                    break;
                }
            }
        }
        if let Some(trace) = &mut self.trace {
            self.samples.clear();
            self.flows[index].endpoints[side.index()].sample_paths(&mut self.samples);
            trace.paths.record(self.now, index as u32, side, &self.samples);
        }
    }

    fn transmit(&mut self, flow: usize, sender: Side, packet: Packet) {
        self.counters.sent += 1;
        let flow = flow as u32;
        let trace_row =
            self.trace.as_mut().map_or(0, |trace| trace.packets.sent(self.now, flow, sender, &packet));
        let route = self.routes.route(flow, sender, packet.path.index());
        let hop = self.routes.first_hop(route);
        let slot =
            self.packets.insert(InFlight { packet, flow, sender, route, hop, crossing: false, trace_row });
        self.travel(slot, self.now, false);
    }

    /// Takes a packet along its route from the hop it is at, as far as nothing has to be waited for.
    /// `has_arrived`: its arrival at that hop has had its event.
    fn travel(&mut self, slot: u32, mut at: Time, mut has_arrived: bool) {
        let in_flight = self.packets.get_mut(slot);
        let size = in_flight.packet.size;
        let component = in_flight.route;
        loop {
            let Hop { link, direction, waits, is_last } = self.routes.hops[in_flight.hop as usize];
            if waits && !has_arrived {
                self.queue.push(at, Target::Link { component, slot });
                return;
            }
            if at > self.end {
                return;
            }
            has_arrived = false;
            let ecn = in_flight.packet.ecn;
            let duplex = &mut self.links[link as usize];
            if at > self.now + DuplexLink::AHEAD_LIMIT {
                duplex.runs_ahead_by(direction, at - self.now);
            }
            let entered = at;
            let step = if std::mem::take(&mut in_flight.crossing) {
                duplex.resume(at, direction, size, ecn)
            } else {
                duplex.accept(at, direction, size, ecn)
            };
            match step {
                Step::Deliver { at: arrival, ecn, copy } => {
                    at = arrival;
                    in_flight.packet.ecn = ecn;
                    if !is_last {
                        in_flight.hop += 1;
                    }
                    if let Some(copy_at) = copy {
                        // The copy follows at once, before any later packet.
                        let copy = self.duplicate(slot, entered);
                        self.proceed(slot, at, is_last);
                        return self.proceed(copy, copy_at, is_last);
                    }
                    if is_last {
                        return self.queue.push(at, Target::Endpoint { component, slot });
                    }
                }
                Step::Cross { at, ecn } => {
                    in_flight.crossing = true;
                    in_flight.packet.ecn = ecn;
                    return self.queue.push(at, Target::Link { component, slot });
                }
                Step::Drop(cause) => {
                    let dropped = self.packets.remove(slot);
                    if let Some(trace) = &mut self.trace {
                        trace.packets.dropped(dropped.trace_row, cause.name(), link, at);
                    }
                    return self.count_drop(at);
                }
                Step::Held => return,
            }
        }
    }

    /// Takes a packet on from the link it has just left.
    fn proceed(&mut self, slot: u32, at: Time, is_last: bool) {
        if is_last {
            let component = self.packets.get_mut(slot).route;
            self.queue.push(at, Target::Endpoint { component, slot });
        } else {
            self.travel(slot, at, false);
        }
    }

    /// A packet is dropped at this time, which may lie ahead of the run's end.
    fn count_drop(&mut self, at: Time) {
        self.counters.dropped += 1;
        if at > self.now {
            if self.drops_ahead.len() == self.drops_ahead.capacity() {
                let now = self.now;
                self.drops_ahead.retain(|&at| at > now);
                self.drops_ahead.reserve(self.drops_ahead.len().max(16));
            }
            self.drops_ahead.push(at);
        }
    }

    /// A copy of a packet in flight, made by a link that it entered at `at`; returns its slot.
    fn duplicate(&mut self, slot: u32, at: Time) -> u32 {
        self.counters.duplicated += 1;
        let original = self.packets.get_mut(slot);
        let mut copy = InFlight { packet: original.packet.clone(), ..*original };
        if let Some(trace) = &mut self.trace {
            copy.trace_row = trace.packets.duplicated(copy.trace_row, at);
        }
        self.packets.insert(copy)
    }

    fn finish(mut self, warm_up: Option<&Row>) -> Outcome {
        let Counters { sent, duplicated, delivered, dropped } = self.counters;
        let in_flight = self.packets.len() as u64;
        assert_eq!(sent + duplicated, delivered + dropped + in_flight, "packets are conserved");
        let now = self.now;
        let mut row = self.row(now);
        if let Some(warm_up) = warm_up {
            row = row.without(warm_up);
        }
        let mut tables = Vec::new();
        if let Some(trace) = self.trace.take() {
            let Trace { packets, paths, events } = *trace;
            tables.push(packets.into_table(&self.flow_names, &self.link_names, now));
            tables.push(paths.into_table(&self.flow_names));
            tables.push(events.into_table(&self.flow_names));
            tables
                .push(trace::frames_table(&self.flow_names, |flow, side| self.flows[flow].app.frames(side)));
            tables.push(trace::queues_table(&self.link_names, now, |link, direction| {
                self.links[link].take_queue_samples(direction)
            }));
        }
        Outcome { row, tables }
    }

    /// The scalars of the warm-up, after which the run goes on.
    fn warm_up_row(&mut self, now: Time) -> Row {
        let links = self.links.clone();
        let row = self.row(now);
        self.links = links;
        row
    }

    /// The scalars at this time; links are at their end then.
    fn row(&mut self, now: Time) -> Row {
        let mut row = Row::default();
        for (name, flow) in self.flow_names.iter().zip(&self.flows) {
            let mut report = row.section(name.as_str());
            flow.app.report(now, &mut report);
            for side in [Side::A, Side::B] {
                let endpoint = &flow.endpoints[side.index()];
                endpoint.report(&mut report.section(&format!("{}.{}", endpoint.protocol(), side.name())));
            }
        }
        for (name, link) in self.link_names.iter().zip(&mut self.links) {
            link.finish(now);
            link.report(&mut row.section(format!("link.{name}")));
        }
        let mut report = row.section("run");
        report.scalar("simulated_s", now.as_secs_f64());
        report.count("events", self.events);
        report.count("packets_sent", self.counters.sent);
        report.count("packets_delivered", self.counters.delivered);
        let ahead = self.drops_ahead.iter().filter(|&&at| at > now).count() as u64;
        report.count("packets_dropped", self.counters.dropped - ahead);
        row
    }
}

fn build_flow(
    scenario: &Scenario,
    name: &str,
    config: &FlowConfig,
    streams: Streams,
) -> Result<Flow, ScenarioError> {
    let transport_error = |error: String| ScenarioError::new(format!("flows.{name}.transport.{error}"));
    let paths = config.paths.len();
    let endpoints = match &config.transport {
        TransportConfig::Sctp(sctp) => {
            let parameters = sctp.resolve().map_err(transport_error)?;
            let mtus: Vec<u32> = config.paths.iter().map(|path| scenario.paths[path].mtu.0 as u32).collect();
            parameters.check_paths(&mtus).map_err(transport_error)?;
            [Side::A, Side::B].map(|side| {
                let component = format!("flow/{name}/sctp/{}", side.name());
                let association = Association::new(&parameters, side, &mtus, config.ip, streams, &component);
                AnyEndpoint::Sctp(Box::new(association))
            })
        }
        TransportConfig::Udp(udp) => {
            udp.check(paths).map_err(transport_error)?;
            [Side::A, Side::B].map(|side| AnyEndpoint::Udp(UdpEndpoint::new(udp, side, config.ip)))
        }
    };
    let app = config
        .app
        .build(streams, name)
        .map_err(|error| ScenarioError::new(format!("flows.{name}.app.{error}")))?;
    Ok(Flow { endpoints, timers: [Alarm::OFF; 2], app, app_alarm: Alarm::OFF })
}
