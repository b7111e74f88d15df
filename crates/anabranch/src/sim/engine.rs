//! The event loop of one run.

use anabranch_transport::endpoint::{Command, Endpoint, Event, Input, Output, Response};
use anabranch_transport::flow::Side;
use anabranch_transport::observed::{Observed as _, PathLimit, PathSample};
use anabranch_transport::report::Row;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::Packet;

use super::alarm::Rung;
use super::cuts::{Cuts, just_before};
use super::event_queue::{Class, Scheduled};
use super::flow::Flow;
use super::flow_groups::Group;
use super::limits::{Guard, Limits, RunError};
use super::network::{AtEnd, Network};
use crate::app::{App, Commands};
use crate::outside::Counters;
use crate::scenario::{RunConfig, ScenarioError};
use crate::trace::{SentPackets, Table, TimeAccounts, Trace};
use crate::transports::AnyEndpoint;

/// A run of a scenario.
pub struct Simulation {
    pub(super) network: Network,
    pub(super) flows: Vec<Flow>,
    /// Flows whose application is not done yet.
    pub(super) unfinished: usize,
    /// Whether an application was not done at the start. Background loads are always done, so a run of
    /// nothing else takes its whole duration.
    pub(super) ends_early: bool,
    /// Whether applications have given commands to ends that are run outside.
    pub(super) has_orders: bool,
    pub(super) config: RunConfig,
    pub(super) limits: Limits,
    pub(super) link_names: Vec<String>,
    pub(super) flow_names: Vec<String>,
    pub(super) groups: Vec<Group>,
    pub(super) commands: Commands,
    pub(super) samples: Vec<PathSample>,
    /// The accounts of the flows' time, if they were asked for.
    pub(super) accounts: Option<Box<TimeAccounts>>,
    pub(super) limits_of_paths: Vec<PathLimit>,
    /// Whether anything is to be recorded after each step of an endpoint.
    pub(super) is_observed: bool,
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

impl Simulation {
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

    /// Runs to the end.
    ///
    /// # Errors
    /// When a guard stops the run.
    pub fn run(mut self, guard: &mut Guard<'_>) -> Result<Outcome, RunError> {
        self.begin();
        let end = self.end();
        let mut cuts = Cuts::new(&self.config);
        let mut next_cut = cuts.next();
        self.expect_no_report_before(next_cut);
        while !self.is_done() {
            let Some(event) = self.network.queue.pop().filter(|event| event.time <= end) else {
                self.network.now = end;
                break;
            };
            let time = event.time;
            while time >= next_cut {
                next_cut = cuts.push(self.row_at_cut(next_cut));
                self.expect_no_report_before(next_cut);
            }
            debug_assert!(time >= self.network.now, "events come in order");
            self.network.now = time;
            self.count_step(guard)?;
            self.handle(event);
        }
        self.check_handled()?;
        self.handle_arrivals_at_links();
        while !next_cut.is_never() {
            next_cut = cuts.push(self.row_at_last_cuts(next_cut));
        }
        if let Some(capture) = self.network.capture.take() {
            capture.finish().map_err(|reason| self.limits.error(self.network.now, reason))?;
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
            self.drain(flow, Side::A);
            self.drain(flow, Side::B);
            self.execute_commands(flow);
            for change in &self.flows[flow].address_changes {
                self.network.queue.push(change.at, Class::Host, flow as u32);
            }
        }
        self.ends_early = self.unfinished > 0;
    }

    /// Does what an event is about, at the present time.
    fn handle(&mut self, event: Scheduled) {
        match event.class() {
            Class::Medium => self.network.on_medium_event(event.component()),
            Class::Link => self.network.on_link_event(event.slot),
            Class::Endpoint => self.on_arrival(event.slot),
            Class::Timer => self.on_timer(event.component()),
            Class::App => self.on_app_wakeup(event.component()),
            Class::Host => self.change_addresses(event.component()),
        }
    }

    /// Lets packets that come to links at the end of the run do so: a link that is computed ahead has counted
    /// them.
    pub(super) fn handle_arrivals_at_links(&mut self) {
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
        self.network.until_check = self.limits.steps_to_check();
        self.start();
    }

    /// Counts a step that is about to be taken, and looks at plug-ins and limits where it is time to.
    #[inline]
    fn count_step(&mut self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        self.limits.count_step();
        self.network.until_check -= 1;
        if self.network.until_check == 0 {
            self.check(guard)?;
            self.network.until_check = self.limits.steps_to_check();
        }
        Ok(())
    }

    /// Checks plug-ins and limits.
    fn check(&mut self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        let Self { network, flows, accounts, limits, .. } = self;
        limits.check(network.now, guard, || {
            let applications: usize = flows.iter().map(|flow| flow.app.memory()).sum();
            let accounts = accounts.as_ref().map_or(0, |accounts| accounts.memory());
            let problem = network.capture.as_ref().and_then(|capture| capture.problem());
            (network.memory() + applications + accounts, problem)
        })
    }

    /// Counts an event at a host, now. Returns false if it must not be handled; the next step ends the run
    /// then.
    #[inline]
    fn count_event(&mut self) -> bool {
        let may_be_handled = self.limits.count_event(self.network.now);
        if !may_be_handled {
            self.network.until_check = 1;
        }
        may_be_handled
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
        self.limits.allow_any_events();
        self.start();
    }

    /// Handles the next event. The caller knows that there is one.
    pub(super) fn handle_next(&mut self) {
        let Some(event) = self.network.queue.pop() else { return };
        self.network.now = event.time;
        self.limits.count_step();
        self.handle(event);
    }

    /// When the run is over at the latest.
    pub(super) fn end(&self) -> Time {
        Time::ZERO + self.config.duration
    }

    /// Gives an end of a flow a command, now.
    pub(super) fn command(&mut self, flow: &str, side: Side, command: Command) -> Result<(), ScenarioError> {
        let index = self.flow(flow)?;
        let now = self.network.now;
        self.flows[index].endpoints[side.index()].handle_input(now, Input::Command(command));
        self.drain(index, side);
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
    pub(super) fn on_outside_event(&mut self, flow: usize, side: Side, event: Event) {
        if let AnyEndpoint::Outside(end) = &mut self.flows[flow].endpoints[side.index()] {
            end.tell(event);
            self.drain(flow, side);
        }
    }

    /// Takes the present state of an end that is run outside.
    pub(super) fn observe(&mut self, flow: usize, side: Side, samples: &[PathSample], counters: Counters) {
        if let AnyEndpoint::Outside(end) = &mut self.flows[flow].endpoints[side.index()] {
            end.observe(samples, counters);
            self.drain(flow, side);
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
        self.limits.max_wall_time()
    }

    /// Ends the run if a plug-in has failed in an event that has been handled, or if there were as many
    /// events as the run may have.
    pub(super) fn check_handled(&self) -> Result<(), RunError> {
        self.limits.check_handled()
    }

    fn on_timer(&mut self, component: u32) {
        let (index, side) =
            ((component / 2) as usize, if component.is_multiple_of(2) { Side::A } else { Side::B });
        let now = self.network.now;
        match self.flows[index].timers[side.index()].ring(now) {
            Rung::Due if self.count_event() => {
                self.flows[index].endpoints[side.index()].handle_input(now, Input::Timeout);
                self.drain(index, side);
            }
            Rung::Later(time) => self.network.queue.push(time, Class::Timer, component),
            Rung::Due | Rung::Stale => {}
        }
    }

    fn on_app_wakeup(&mut self, component: u32) {
        let index = component as usize;
        let now = self.network.now;
        match self.flows[index].app_alarm.ring(now) {
            Rung::Due if self.count_event() => {
                self.flows[index].app.handle_wakeup(now, &mut self.commands);
                self.execute_commands(index);
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
            self.drain(index, Side::A);
        }
    }

    fn on_arrival(&mut self, slot: u32) {
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
                self.drain(index, side);
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
                    self.execute_commands(index);
                }
            }
            Err(packet) => {
                end.handle_input(now, Input::Packet(packet));
                self.drain(index, side);
            }
        }
    }

    /// Drains an endpoint, then carries out the commands to which its events gave rise.
    fn drain(&mut self, flow: usize, side: Side) {
        if self.drain_outputs(flow, side) {
            self.execute_commands(flow);
        }
    }

    /// Carries out the commands of an application that was called until there are none left, sets its alarm,
    /// and sees whether it is done.
    fn execute_commands(&mut self, index: usize) {
        let mut next = 0;
        while let Some(&(side, command)) = self.commands.list.get(next) {
            next += 1;
            let endpoint = &mut self.flows[index].endpoints[side.index()];
            endpoint.handle_input(self.network.now, Input::Command(command));
            self.drain_outputs(index, side);
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
    fn drain_outputs(&mut self, index: usize, side: Side) -> bool {
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
        let Trace { paths, media, events, .. } = &mut **trace;
        if let Some(sample) = self.flows[index].endpoints[side.index()].sample_media() {
            media.record(now, flow, side, sample);
        }
        paths.record(now, flow, side, &self.samples, |before, sample| {
            events.repaired(now, flow, side, before, sample);
        });
    }
}
