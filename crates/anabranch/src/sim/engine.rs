//! The event loop of one run.

use std::collections::BTreeSet;

use anabranch_transport::cc::Controller;
use anabranch_transport::endpoint::{
    Command, Endpoint, Event, Input, Output, PathLimit, PathSample, Response, Site, Transport,
};
use anabranch_transport::ground::{PathId, Side};
use anabranch_transport::path::Selector;
use anabranch_transport::plugin;
use anabranch_transport::report::{Row, declare};
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::Packet;

use super::address_changes;
use super::alarm::{Alarm, Rung};
use super::cuts::{self, Cuts};
use super::event_queue::{Class, Scheduled};
use super::flow::Flow;
use super::flow_groups::{self, Group};
use super::network::{AtEnd, Network};
use super::topology::{Routes, check_path};
use crate::app::{App, Commands};
use crate::capture::{Capture, Sink};
use crate::net::{DuplexLink, Media};
use crate::outside::Counters;
use crate::scenario::{FlowConfig, RunConfig, Scenario, ScenarioError};
use crate::trace::{self, SentPackets, Table, TimeAccounts, Trace};
use crate::transports::AnyEndpoint;

declare! {
    /// The scalars of a whole run.
    SCALARS:
    /// Simulated time.
    SIMULATED_S = "simulated_s": Seconds;
    /// Events at hosts: packets that arrived, timers that expired, and ticks of applications.
    EVENTS = "events": One;
    /// Packets that hosts sent.
    PACKETS_SENT = "packets_sent": One;
    /// Packets that hosts received.
    PACKETS_DELIVERED = "packets_delivered": One;
    /// Packets that were lost or dropped on the way.
    PACKETS_DROPPED = "packets_dropped": One;
}

/// A run of a scenario.
pub struct Simulation {
    pub(super) network: Network,
    flows: Vec<Flow>,
    /// Flows whose application is not done yet.
    unfinished: usize,
    /// Whether an application was not done at the start. Background loads are always done, so a run of
    /// nothing else takes its whole duration.
    ends_early: bool,
    /// Whether applications have given commands to ends that are run outside.
    pub(super) has_orders: bool,
    limits: RunConfig,
    link_names: Vec<String>,
    flow_names: Vec<String>,
    groups: Vec<Group>,
    commands: Commands,
    /// What has happened at hosts: packets that came there, timers that expired, wake-ups of applications and
    /// changes of addresses. How many steps the network takes depends on what is observed; this does not.
    events: u64,
    /// The steps of the event loop so far.
    steps: u64,
    /// When `run.max_events` was reached, if it was.
    exhausted_at: Option<Time>,
    samples: Vec<PathSample>,
    /// The accounts of the flows' time, if they were asked for.
    accounts: Option<Box<TimeAccounts>>,
    limits_of_paths: Vec<PathLimit>,
    /// Whether anything is to be recorded after each step of an endpoint.
    is_observed: bool,
    /// The time of the last event, where the run has plug-ins: it is looked at after each event whether one
    /// of them has failed.
    last_event: Option<Time>,
}

/// How a run is to be built.
struct Form {
    trace: bool,
    /// Whether links that a route feeds in order are computed at once.
    fuse: bool,
    /// The destination of a capture.
    sink: Option<Sink>,
    /// The only node whose packets are in it.
    captured_at: Option<String>,
    others: Others,
}

/// Who else takes part in a run: real programs in an emulation, the kernel in a testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// No one else.
    Absent,
    /// The run carries their packets on its paths, beside those of its flows.
    SendPackets,
    /// They also run the ends of its flows.
    RunEnds,
}

/// Nothing is traced or captured, and every hop has an event.
impl Default for Form {
    fn default() -> Self {
        Self { trace: false, fuse: false, sink: None, captured_at: None, others: Others::Absent }
    }
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One scalar per metric.
    pub row: Row,
    /// The traces, when they were asked for.
    pub tables: Vec<Table>,
    /// The packets themselves, when they were asked for: see [`Simulation::keep_packets`].
    pub packets: SentPackets,
    /// The steps that the event loop took, which is how much work the run was. It takes more of them where
    /// more is observed, unlike the scalar `run.events`, which counts what happens at hosts.
    pub steps: u64,
}

/// Watches over a run from outside. It is called every 8,192 steps of the event loop, which is every few
/// milliseconds; a fragment of a packet counts as a step. If it returns a message, the run ends with that.
pub type Guard<'a> = dyn FnMut() -> Option<String> + 'a;

/// A run that was given up. Displays as one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run was stopped at {at} after {events} events: {reason}")]
pub struct RunError {
    at: Time,
    events: u64,
    reason: String,
}

/// A step takes from 0.1 to 3 us, so a run that is cancelled ends within 0.1 s.
const STEPS_BETWEEN_CHECKS: u64 = 1 << 13;

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

    /// Builds a run with or without computing links that a route feeds in order at once, which does not
    /// change its results.
    ///
    /// # Errors
    /// When the scenario contradicts itself.
    pub fn build_fused(
        scenario: &Scenario,
        replication: u64,
        trace: bool,
        fuse: bool,
    ) -> Result<Self, ScenarioError> {
        Self::build_formed(scenario, replication, Form { trace, fuse, ..Form::default() })
    }

    /// A run that also writes its packets, as a capture: see [`capture`](crate::capture).
    ///
    /// # Errors
    /// When the scenario contradicts itself.
    pub fn build_captured(
        scenario: &Scenario,
        replication: u64,
        trace: bool,
        sink: Sink,
    ) -> Result<Self, ScenarioError> {
        Self::build_captured_at(scenario, replication, trace, sink, None)
    }

    /// The same; with a node, the capture has what that one sends and receives.
    ///
    /// # Errors
    /// When the scenario contradicts itself, or no link ends at the node.
    pub fn build_captured_at(
        scenario: &Scenario,
        replication: u64,
        trace: bool,
        sink: Sink,
        node: Option<String>,
    ) -> Result<Self, ScenarioError> {
        let ends = scenario.links.values().flat_map(|link| &link.ends);
        if let Some(node) = &node
            && !ends.clone().any(|end| end == node)
        {
            let there: BTreeSet<&str> = ends.map(String::as_str).collect();
            let there = there.into_iter().collect::<Vec<_>>().join(", ");
            return Err(ScenarioError::new(format!(
                "pcap_at: no link ends at {node:?}; links end at {there}"
            )));
        }
        let form = Form { trace, sink: Some(sink), captured_at: node, ..Form::default() };
        Self::build_formed(scenario, replication, form)
    }

    /// A run in which others take part. It may have no flows.
    pub(super) fn build_for_others(
        scenario: &Scenario,
        replication: u64,
        trace: bool,
        others: Others,
    ) -> Result<Self, ScenarioError> {
        Self::build_formed(scenario, replication, Form { trace, others, ..Form::default() })
    }

    fn build_formed(scenario: &Scenario, replication: u64, form: Form) -> Result<Self, ScenarioError> {
        let Form { trace, fuse, sink, captured_at, others } = form;
        cuts::check(&scenario.run)?;
        // What failed in a run that was given up is not of this one.
        drop(plugin::take_failure());
        let plugins_before = plugin::made();
        let (scenario, groups) = flow_groups::write_out(scenario, MAX_FLOWS)?;
        let scenario = &*scenario;
        let streams = Streams { seed: scenario.seed, replication };
        let build = if trace { DuplexLink::build_traced } else { DuplexLink::build };
        let links = ScenarioError::all(
            scenario
                .links
                .iter()
                .map(|(name, config)| build(config, name, streams).map_err(ScenarioError::new)),
        );
        let media = match links {
            Ok(_) => Media::build(&scenario.links, streams, trace).map_err(ScenarioError::new),
            Err(_) => Ok(Media::default()),
        };
        let in_file = |error| flow_groups::in_file(&groups, error);
        let routes = Routes::resolve(scenario).map_err(in_file);
        let paths =
            ScenarioError::all(scenario.paths.iter().map(|(name, path)| check_path(scenario, name, path)));
        let flows = match (&routes, &paths) {
            (Ok(_), Ok(_)) => ScenarioError::all(
                scenario
                    .flows
                    .iter()
                    .map(|(name, config)| build_flow(scenario, name, config, streams).map_err(in_file)),
            ),
            _ => Ok(Vec::new()),
        };
        let (links, mut media, mut routes, flows) = match (links, media, routes, paths, flows) {
            (Ok(links), Ok(media), Ok(routes), Ok(_), Ok(flows)) => (links, media, routes, flows),
            (links, media, routes, paths, flows) => {
                let found = [links.err(), media.err(), routes.err(), paths.err(), flows.err()];
                return Err(ScenarioError::joined(found.into_iter().flatten()));
            }
        };
        if others != Others::Absent {
            routes.add_portals(scenario)?;
        } else if scenario.flows.is_empty() {
            return Err(ScenarioError::new("flows: there is none; a scenario needs at least one"));
        }
        routes.set_turns(&links, fuse);
        let flows = if others == Others::RunEnds {
            flows.into_iter().map(Flow::with_outside_ends).collect()
        } else {
            flows
        };
        let is_observed = trace || scenario.run.time_accounts;
        let capture = sink.map(|sink| Box::new(Capture::new(scenario, sink, captured_at.as_deref())));
        let has_plugins = plugin::made() != plugins_before;
        if fuse && !trace && !has_plugins {
            media.put_off_departures(|link, direction| links[link as usize].latest_release(direction));
        }
        if let Some(sentence) = plugin::take_failure() {
            return Err(ScenarioError::new(sentence));
        }
        if has_plugins && others != Others::Absent {
            return Err(ScenarioError::new(format!(
                "kind = \"{}\" is for simulations: an emulation and a testbed run in real time",
                plugin::KIND
            )));
        }
        Ok(Self {
            network: Network::new(
                links,
                media,
                routes,
                Time::ZERO + scenario.run.duration,
                trace.then(Box::default),
                capture,
            ),
            unfinished: flows.len(),
            ends_early: false,
            has_orders: false,
            flows,
            limits: scenario.run.clone(),
            link_names: scenario.links.keys().cloned().collect(),
            flow_names: scenario.flows.keys().cloned().collect(),
            groups,
            commands: Commands::default(),
            events: 0,
            steps: 0,
            exhausted_at: None,
            samples: Vec::new(),
            accounts: is_observed.then(|| {
                Box::new(TimeAccounts::new(scenario.flows.values().map(|config| config.paths.len())))
            }),
            limits_of_paths: Vec::new(),
            is_observed,
            last_event: has_plugins.then_some(Time::ZERO),
        })
    }

    /// Gives one path of one end of an SCTP or MPTCP flow, or one end of a TCP flow, a congestion control of
    /// the user's own, before the run.
    ///
    /// # Errors
    /// When there is no such flow, it has no such path, or its transport has no congestion control.
    pub fn set_congestion_control(
        &mut self,
        flow: &str,
        side: Side,
        path: PathId,
        control: Controller,
    ) -> Result<(), ScenarioError> {
        let mut samples = std::mem::take(&mut self.samples);
        let endpoint = self.endpoint(flow, side)?;
        samples.clear();
        endpoint.sample_paths(&mut samples);
        if let Some(last) = samples.last().map(|sample| sample.path.0)
            && !samples.iter().any(|sample| sample.path == path)
        {
            return Err(ScenarioError::new(format!(
                "flows.{flow}.paths: there is no path {}; paths are counted from 0 to {last}",
                path.0
            )));
        }
        if endpoint.set_congestion_control(path, control) {
            Ok(())
        } else {
            let protocol = endpoint.protocol();
            Err(ScenarioError::new(format!("flows.{flow}: \"{protocol}\" has no congestion control")))
        }
    }

    /// Gives one end of an SCTP flow a path policy of the user's own, before the run.
    ///
    /// # Errors
    /// When there is no such flow, or its transport has no path policy.
    pub fn set_path_selector(
        &mut self,
        flow: &str,
        side: Side,
        selector: Selector,
    ) -> Result<(), ScenarioError> {
        let endpoint = self.endpoint(flow, side)?;
        if endpoint.set_path_selector(selector) {
            Ok(())
        } else {
            let protocol = endpoint.protocol();
            Err(ScenarioError::new(format!("flows.{flow}: \"{protocol}\" has no path policy")))
        }
    }

    /// The number of the flow of this name; an error if there is none or the name stands for several flows.
    fn flow(&self, flow: &str) -> Result<usize, ScenarioError> {
        if let Some(group) = self.groups.iter().find(|group| group.name == flow) {
            let (first, last) = (&group.members[0], &group.members[group.members.len() - 1]);
            let sentence = format!("flows.{flow}: it stands for {first} to {last}; name one of these");
            return Err(ScenarioError::new(sentence));
        }
        self.flow_names
            .iter()
            .position(|name| name == flow)
            .ok_or_else(|| ScenarioError::new(format!("flows.{flow}: there is no such flow")))
    }

    /// An end of the flow of this name.
    pub(super) fn endpoint(&mut self, flow: &str, side: Side) -> Result<&mut AnyEndpoint, ScenarioError> {
        let index = self.flow(flow)?;
        Ok(&mut self.flows[index].endpoints[side.index()])
    }

    /// Keeps the packets of a traced run as their hosts send them, before the run; they count as memory of
    /// the traces.
    pub fn keep_packets(&mut self) {
        if let Some(trace) = &mut self.network.trace {
            trace.packets.keep_packets();
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// When a guard stops the run.
    pub fn run(mut self, guard: &mut Guard<'_>) -> Result<Outcome, RunError> {
        self.begin();
        let end = self.end();
        let mut cuts = Cuts::new(&self.limits);
        let mut next_cut = cuts.next();
        self.expect_no_report_before(next_cut);
        while !self.is_done() {
            let Some(event) = self.network.queue.pop().filter(|event| event.time <= end) else {
                self.network.now = end;
                break;
            };
            let time = event.time;
            while time >= next_cut {
                let before = just_before(next_cut);
                next_cut = cuts.push(self.row_so_far(next_cut, before));
                self.expect_no_report_before(next_cut);
            }
            debug_assert!(time >= self.network.now, "events come in order");
            self.network.now = time;
            self.count_step(guard)?;
            self.handle(event);
        }
        self.check_handled()?;
        self.let_packets_come_to_links();
        while !next_cut.is_never() {
            let now = self.network.now.min(next_cut);
            next_cut = cuts.push(self.row_so_far(now, now));
        }
        if let Some(capture) = self.network.capture.take() {
            let (at, events) = (self.network.now, self.events);
            capture.finish().map_err(|reason| RunError { at, events, reason })?;
        }
        Ok(self.finish(cuts))
    }

    /// Tells the links that their counters are not asked for before this cut, or before the earliest end of
    /// the run.
    fn expect_no_report_before(&mut self, cut: Time) {
        let unfinished = self.flows.iter().filter(|flow| !flow.is_done);
        let earliest_end = unfinished.map(|flow| flow.app.earliest_end()).max().unwrap_or(Time::NEVER);
        let time = earliest_end.min(self.end()).min(just_before(cut));
        self.network.expect_no_report_before(time);
    }

    /// Does what happens before the first event.
    fn start(&mut self) {
        for flow in 0..self.flows.len() {
            self.see_to(flow, Side::A);
            self.see_to(flow, Side::B);
            self.obey(flow);
            for change in &self.flows[flow].address_changes {
                self.network.queue.push(change.at, Class::Host, flow as u32);
            }
        }
        self.ends_early = self.unfinished > 0;
    }

    /// Does what an event is about, at the present time.
    fn handle(&mut self, event: Scheduled) {
        match event.class() {
            Class::Medium => self.network.act(event.component()),
            Class::Link => self.network.go_on(event.slot),
            Class::Endpoint => self.deliver(event.slot),
            Class::Timer => self.ring_timer(event.component()),
            Class::App => self.ring_app(event.component()),
            Class::Host => self.change_addresses(event.component()),
        }
    }

    /// Lets packets that come to links at the end of the run do so: a link that is computed ahead has counted
    /// them.
    pub(super) fn let_packets_come_to_links(&mut self) {
        while self.network.queue.next_time() == self.network.now {
            // Those of hosts come after them, and after the end.
            match self.network.queue.pop() {
                Some(event) if matches!(event.class(), Class::Medium | Class::Link) => self.handle(event),
                _ => break,
            }
        }
    }

    /// Begins a run whose plug-ins and limits are looked at.
    pub(super) fn begin(&mut self) {
        self.network.until_check = self.steps_to_check();
        self.start();
    }

    /// Counts a step that is about to be taken, and looks at plug-ins and limits where it is time to.
    #[inline]
    fn count_step(&mut self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        self.steps += 1;
        self.network.until_check -= 1;
        if self.network.until_check == 0 {
            self.check(guard)?;
            self.network.until_check = self.steps_to_check();
        }
        Ok(())
    }

    /// Counts an event at a host, now. Returns false if it is one more than the run may have: then it must
    /// not be handled, and the next step ends the run.
    #[inline]
    fn count_event(&mut self) -> bool {
        self.events += 1;
        if self.events >= self.limits.max_events {
            self.exhaust();
            return false;
        }
        true
    }

    #[cold]
    fn exhaust(&mut self) {
        self.exhausted_at.get_or_insert(self.network.now);
        self.network.until_check = 1;
    }

    /// Handles the next event, after [`Simulation::begin`]. The caller knows that there is one.
    pub(super) fn step(&mut self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        let Some(event) = self.network.queue.pop() else { return Ok(()) };
        self.network.now = event.time;
        self.count_step(guard)?;
        self.handle(event);
        Ok(())
    }

    /// Begins a run that is driven from outside, by [`Simulation::handle_next`].
    pub(super) fn begin_outside(&mut self) {
        self.network.until_check = u64::MAX;
        self.limits.max_events = u64::MAX;
        self.start();
    }

    /// Handles the next event. The caller knows that there is one.
    pub(super) fn handle_next(&mut self) {
        let Some(event) = self.network.queue.pop() else { return };
        self.network.now = event.time;
        self.steps += 1;
        self.handle(event);
    }

    /// When the run is over at the latest.
    pub(super) fn end(&self) -> Time {
        Time::ZERO + self.limits.duration
    }

    /// Gives an end of a flow a command, now.
    pub(super) fn command(&mut self, flow: &str, side: Side, command: Command) -> Result<(), ScenarioError> {
        let index = self.flow(flow)?;
        let now = self.network.now;
        self.flows[index].endpoints[side.index()].handle_input(now, Input::Command(command));
        self.see_to(index, side);
        Ok(())
    }

    /// Hands over the commands that the applications have given to ends that are run outside.
    pub(super) fn take_commands(&mut self, each: &mut impl FnMut(usize, Side, Command)) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            for side in [Side::A, Side::B] {
                let AnyEndpoint::Outside(end) = &mut flow.endpoints[side.index()] else { continue };
                while let Some(command) = end.take_command() {
                    each(index, side, command);
                }
            }
        }
    }

    /// Tells the application at an end that is run outside about an event, now.
    pub(super) fn tell(&mut self, flow: usize, side: Side, event: Event) {
        if let AnyEndpoint::Outside(end) = &mut self.flows[flow].endpoints[side.index()] {
            end.tell(event);
            self.see_to(flow, side);
        }
    }

    /// Takes the present state of an end that is run outside.
    pub(super) fn observe(&mut self, flow: usize, side: Side, samples: &[PathSample], counters: Counters) {
        if let AnyEndpoint::Outside(end) = &mut self.flows[flow].endpoints[side.index()] {
            end.observe(samples, counters);
            self.see_to(flow, side);
        }
    }

    /// Whether every application is done. This is never so if all were done at the start, as background loads
    /// are.
    pub(super) fn is_done(&self) -> bool {
        self.unfinished == 0 && self.ends_early
    }

    /// The number of the first portal: portals are numbered behind the flows.
    pub(super) fn first_portal(&self) -> u32 {
        self.flows.len() as u32
    }

    /// The wall-clock time that the run may take at most. The engine knows no such time: the guard that is
    /// given to [`Simulation::run`] has to end the run.
    pub fn max_wall_time(&self) -> Duration {
        self.limits.max_wall_time
    }

    /// After how many steps the run is checked next.
    fn steps_to_check(&self) -> u64 {
        if self.last_event.is_some() || self.exhausted_at.is_some() { 1 } else { STEPS_BETWEEN_CHECKS }
    }

    /// Checks plug-ins and limits before a step is taken, which is counted already.
    #[cold]
    fn check(&mut self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        self.check_handled()?;
        if self.last_event.is_some() {
            self.last_event = Some(self.network.now);
            if !self.steps.is_multiple_of(STEPS_BETWEEN_CHECKS) {
                return Ok(());
            }
        }
        self.check_limits(guard)
    }

    /// Ends the run if a plug-in has failed in an event that has been handled, or if there were as many
    /// events as the run may have.
    pub(super) fn check_handled(&self) -> Result<(), RunError> {
        let events = self.events;
        let failure = self.last_event.and_then(|at| plugin::take_failure().map(|reason| (at, reason)));
        if let Some((at, reason)) = failure {
            return Err(RunError { at, events, reason });
        }
        if let Some(at) = self.exhausted_at {
            let reason = format!("run.max_events = {} is reached", self.limits.max_events);
            return Err(RunError { at, events, reason });
        }
        Ok(())
    }

    fn check_limits(&self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        let stop = |reason: String| Err(RunError { at: self.network.now, events: self.events, reason });
        let applications: usize = self.flows.iter().map(|flow| flow.app.memory()).sum();
        let accounts = self.accounts.as_ref().map_or(0, |accounts| accounts.memory());
        if (self.network.memory() + applications + accounts) as u64 > self.limits.max_memory.0 {
            return stop(format!("run.max_memory = {} is reached", self.limits.max_memory));
        }
        if let Some(problem) = self.network.capture.as_ref().and_then(|capture| capture.problem()) {
            return stop(problem);
        }
        guard().map_or(Ok(()), stop)
    }

    fn ring_timer(&mut self, component: u32) {
        let (index, side) =
            ((component / 2) as usize, if component.is_multiple_of(2) { Side::A } else { Side::B });
        let now = self.network.now;
        match self.flows[index].timers[side.index()].ring(now) {
            Rung::Due if self.count_event() => {
                self.flows[index].endpoints[side.index()].handle_input(now, Input::Timeout);
                self.see_to(index, side);
            }
            Rung::Later(time) => self.network.queue.push(time, Class::Timer, component),
            Rung::Due | Rung::Stale => {}
        }
    }

    fn ring_app(&mut self, component: u32) {
        let index = component as usize;
        let now = self.network.now;
        match self.flows[index].app_alarm.ring(now) {
            Rung::Due if self.count_event() => {
                self.flows[index].app.handle_wakeup(now, &mut self.commands);
                self.obey(index);
            }
            Rung::Later(time) => self.network.queue.push(time, Class::App, component),
            Rung::Due | Rung::Stale => {}
        }
    }

    #[cold]
    fn change_addresses(&mut self, component: u32) {
        let (index, now) = (component as usize, self.network.now);
        let Some(change) = self.flows[index].address_changes.pop_front() else { return };
        if !self.count_event() {
            return;
        }
        for command in change.commands {
            self.flows[index].endpoints[Side::A.index()].handle_input(now, Input::Command(command));
            self.see_to(index, Side::A);
        }
    }

    fn deliver(&mut self, slot: u32) {
        let count = self.flows.len();
        match self.network.take_delivered(slot) {
            AtEnd::Arrives(packet, index, side) if self.count_event() => {
                let Some(flow) = self.flows.get_mut(index) else {
                    return self.network.leave_by_portal(index - count, side, &packet);
                };
                let end = &mut flow.endpoints[side.index()];
                if end.may_respond(&packet) && !self.is_observed {
                    return self.await_response(packet, index, side);
                }
                end.handle_input(self.network.now, Input::Packet(packet));
                self.see_to(index, side);
            }
            AtEnd::Arrives(..) | AtEnd::Waits => {}
        }
    }

    /// Delivers a packet to which the endpoint may have a short answer.
    #[inline(never)]
    fn await_response(&mut self, packet: Box<Packet>, index: usize, side: Side) {
        let (flow, now) = (&mut self.flows[index], self.network.now);
        let end = &mut flow.endpoints[side.index()];
        match end.respond(now, packet) {
            Ok(Response { event, packet }) => {
                let mut may_have_changed = false;
                if let Some(event) = event {
                    flow.app.handle_event(now, side, &event, &mut self.commands);
                    may_have_changed = !self.commands.take_changed_nothing();
                }
                self.network.transmit(index as u32, side, packet);
                if may_have_changed {
                    self.obey(index);
                }
            }
            Err(packet) => {
                end.handle_input(now, Input::Packet(packet));
                self.see_to(index, side);
            }
        }
    }

    /// Drains an endpoint, then carries out the commands to which its events gave rise.
    fn see_to(&mut self, flow: usize, side: Side) {
        if self.drain(flow, side) {
            self.obey(flow);
        }
    }

    /// Carries out the commands of an application that was called until there are none left, sets its alarm,
    /// and sees whether it is done.
    fn obey(&mut self, index: usize) {
        let mut next = 0;
        while let Some(&(side, command)) = self.commands.list.get(next) {
            next += 1;
            let endpoint = &mut self.flows[index].endpoints[side.index()];
            endpoint.handle_input(self.network.now, Input::Command(command));
            self.drain(index, side);
        }
        self.commands.list.clear();
        let flow = &mut self.flows[index];
        self.has_orders |= next > 0 && matches!(flow.endpoints[0], AnyEndpoint::Outside(_));
        if let Some(time) = flow.app_alarm.set(flow.app.next_wakeup()) {
            self.network.queue.push(time, Class::App, index as u32);
        }
        let was_done = std::mem::replace(&mut flow.is_done, flow.app.is_done());
        self.unfinished = self.unfinished + usize::from(was_done) - usize::from(flow.is_done);
    }

    /// Does everything that an endpoint wants done. Returns whether that may have changed what the
    /// application wants.
    fn drain(&mut self, index: usize, side: Side) -> bool {
        let Self { network, flows, commands, .. } = self;
        let Flow { endpoints, timers, app, .. } = &mut flows[index];
        let endpoint = &mut endpoints[side.index()];
        let flow = index as u32;
        let mut may_have_changed = false;
        let timeout = loop {
            match endpoint.poll_output(network.now) {
                Output::Transmit(packet) => network.transmit(flow, side, packet),
                Output::Event(event) => {
                    app.handle_event(network.now, side, &event, commands);
                    may_have_changed |= !commands.take_changed_nothing();
                    if let Some(trace) = &mut network.trace {
                        trace.events.record(network.now, flow, side, &event);
                    }
                }
                Output::Timeout(time) => break time,
            }
        };
        if let Some(time) = timers[side.index()].set(timeout) {
            network.queue.push(time, Class::Timer, flow * 2 + side.index() as u32);
        }
        if self.is_observed {
            self.account(index, side);
            self.trace_paths(index, side);
        }
        may_have_changed
    }

    #[cold]
    fn account(&mut self, index: usize, side: Side) {
        let Some(TimeAccounts { limits, head_of_line }) = self.accounts.as_deref_mut() else { return };
        let (now, endpoints) = (self.network.now, &self.flows[index].endpoints);
        self.limits_of_paths.clear();
        endpoints[side.index()].sample_limits(now, &mut self.limits_of_paths);
        limits.record(now, index, side, &self.limits_of_paths);
        let sender = &endpoints[side.peer().index()];
        let gap = endpoints[side.index()].head_of_line();
        head_of_line.record(now, index, side, gap, |missing| sender.transmission(missing));
    }

    #[cold]
    fn trace_paths(&mut self, index: usize, side: Side) {
        let Some(trace) = &mut self.network.trace else { return };
        self.samples.clear();
        self.flows[index].endpoints[side.index()].sample_paths(&mut self.samples);
        let (now, flow) = (self.network.now, index as u32);
        let Trace { paths, events, .. } = &mut **trace;
        paths.record(now, flow, side, &self.samples, |before, sample| {
            events.repaired(now, flow, side, before, sample);
        });
    }

    pub(super) fn finish(mut self, cuts: Cuts) -> Outcome {
        self.network.catch_up(self.network.now);
        self.network.check_conservation();
        let now = self.network.now;
        let end = self.row(now, now);
        let mut row = cuts.report(end);
        flow_groups::report(&self.groups, &mut row);
        let (mut tables, mut sent) = (Vec::new(), SentPackets::default());
        if let Some(trace) = self.network.trace.take() {
            let Trace { packets, hops, paths, events } = *trace;
            let (packets, places, kept) = packets.into_table(&self.flow_names, &self.link_names, now);
            sent = kept;
            tables.push(packets);
            tables.push(hops.into_table(&places, &self.link_names, now));
            tables.push(paths.into_table(&self.flow_names));
            tables.push(events.into_table(&self.flow_names));
            tables
                .push(trace::frames_table(&self.flow_names, |flow, side| self.flows[flow].app.frames(side)));
            tables.push(trace::ratings_table(&self.flow_names, |flow, side| {
                self.flows[flow].app.ratings(side)
            }));
            tables.push(trace::intervals_table(&self.flow_names, |flow, side| {
                self.flows[flow].app.intervals(side, now)
            }));
            tables.push(trace::exchanges_table(&self.flow_names, |flow| self.flows[flow].app.exchanges()));
            tables.push(trace::queues_table(&self.link_names, now, |link, direction| {
                let mut samples = self.network.links[link].take_queue_samples(direction);
                samples.extend(self.network.media.take_queue_samples(link as u32, direction));
                samples
            }));
            tables.push(trace::loss_states_table(&self.link_names, |link, direction| {
                self.network.links[link].take_loss_states(direction, now)
            }));
            if self.network.media.has_radio() {
                tables.push(trace::radio_table(&self.link_names, now, |link, direction| {
                    self.network.media.take_radio_samples(link as u32, direction)
                }));
            }
        }
        if let Some(TimeAccounts { limits, head_of_line }) = self.accounts.map(|accounts| *accounts) {
            tables.push(limits.into_table(&self.flow_names, now));
            tables.push(head_of_line.into_table(&self.flow_names, now));
        }
        Outcome { row, tables, packets: sent, steps: self.steps }
    }

    /// The names of the scalars that the run will report, without running it.
    pub fn scalars(mut self) -> Vec<String> {
        // Components write the same scalars at any time, as a warm-up needs.
        let row = self.row_so_far(Time::ZERO, Time::ZERO);
        let mut cuts = Cuts::new(&self.limits);
        while !cuts.next().is_never() {
            cuts.push(row.clone());
        }
        let mut row = cuts.report(row);
        flow_groups::report(&self.groups, &mut row);
        row.scalars().map(|(name, _)| name.to_owned()).collect()
    }

    /// The scalars up to now; the run continues.
    pub(super) fn row_so_far(&mut self, now: Time, until: Time) -> Row {
        self.network.catch_up(until);
        let links = self.network.links.clone();
        let row = self.row(now, until);
        self.network.links = links;
        row
    }

    /// The scalars at `now`. Links and media are brought up to `until`, and a link can do nothing more after
    /// that.
    fn row(&mut self, now: Time, until: Time) -> Row {
        let mut row = Row::default();
        let accounts = self.accounts.as_ref().filter(|_| self.limits.time_accounts);
        for (index, (name, flow)) in self.flow_names.iter().zip(&self.flows).enumerate() {
            let mut report = row.section(name.as_str());
            flow.app.report(now, &mut report);
            for side in [Side::A, Side::B] {
                let endpoint = &flow.endpoints[side.index()];
                let mut report = report.section(&format!("{}.{}", endpoint.protocol(), side.name()));
                endpoint.report(&mut report);
                if let Some(TimeAccounts { limits, head_of_line }) = accounts.map(|accounts| &**accounts) {
                    limits.report(now, index, side, &mut report);
                    head_of_line.report(now, index, side, &mut report);
                }
            }
        }
        self.network.media.finish(until);
        for (index, (name, link)) in self.link_names.iter().zip(&mut self.network.links).enumerate() {
            link.finish(until);
            let mut report = row.section(format!("link.{name}"));
            link.report(&mut report);
            self.network.media.report(index, &mut report);
        }
        let mut report = row.section("run");
        report.scalar(SIMULATED_S, now.as_secs_f64());
        report.count(EVENTS, self.events);
        let tally = &self.network.tally;
        report.count(PACKETS_SENT, tally.sent);
        report.count(PACKETS_DELIVERED, tally.delivered);
        report.count(PACKETS_DROPPED, tally.dropped(until));
        row
    }
}

/// The last moment before a cut: events at its time belong to the part after it.
fn just_before(cut: Time) -> Time {
    Time::from_nanos(cut.as_nanos() - 1)
}

fn build_flow(
    scenario: &Scenario,
    name: &str,
    config: &FlowConfig,
    streams: Streams,
) -> Result<Flow, ScenarioError> {
    let mut from = build_endpoint(scenario, name, config, Side::A, streams)?;
    let mut to = build_endpoint(scenario, name, config, Side::B, streams)?;
    if !from.understands(to.protocol()) {
        let (from, to) = (from.protocol(), to.protocol());
        let sentence = format!(
            "flows.{name}.transport_to: kind = \"{to}\" does not go with \"{from}\" at the other side"
        );
        return Err(ScenarioError::new(sentence));
    }
    let in_flow = |error: String| ScenarioError::new(format!("flows.{name}.{error}"));
    let (address_changes, absent) = address_changes::read(config).map_err(in_flow)?;
    if !address_changes.is_empty() {
        for endpoint in [&mut from, &mut to] {
            endpoint.enable_reconfiguration(&absent).map_err(in_flow)?;
        }
    }
    let app = config
        .app
        .build(streams, name, from.service().both(to.service()))
        .map_err(|error| ScenarioError::new(format!("flows.{name}.app.{error}")))?;
    Ok(Flow {
        endpoints: [from, to],
        timers: [Alarm::OFF; 2],
        app,
        app_alarm: Alarm::OFF,
        address_changes,
        is_done: false,
    })
}

fn build_endpoint(
    scenario: &Scenario,
    name: &str,
    config: &FlowConfig,
    side: Side,
    streams: Streams,
) -> Result<AnyEndpoint, ScenarioError> {
    let (key, transport) = match (&config.transport_to, side) {
        (Some(transport), Side::B) => ("transport_to", transport),
        _ => ("transport", &config.transport),
    };
    let mtus: Vec<u32> = config.paths.iter().map(|path| scenario.paths[path].mtu.0 as u32).collect();
    let connection = format!("flow/{name}");
    let site = Site { side, mtus: &mtus, ip: config.ip, streams, connection: &connection };
    transport.build(&site).map_err(|error| ScenarioError::new(format!("flows.{name}.{key}.{error}")))
}
