//! A scenario's links and paths for packets of real programs, called packets of others below: the caller
//! hands them in, with the time, and gets them back when they have reached the other end.
//!
//! Each path of the scenario is a pair of portals, one at each of its ends; flows of the scenario run beside
//! that as load; in a [testbed](Emulation::build_testbed) the caller also runs their ends, and what is
//! here of a flow is its application. There is no clock here: the caller says what time it is, and is told
//! when something happens next. Where a link has a rate, a medium serves it packet by packet
//! ([`QueuedServer`]), so that its rate can change while packets wait; in a testbed it cannot, and links are
//! those of a simulation.
//!
//! [`QueuedServer`]: crate::net

use std::collections::BTreeMap;

use anabranch_transport::dscp::Dscp;
use anabranch_transport::endpoint::{Command, Event};
use anabranch_transport::flow::{Ecn, PathId, Side};
use anabranch_transport::observed::PathSample;
use anabranch_transport::report::Row;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Bytes;
use anabranch_transport::wire::{Body, Foreign, Packet};
use serde_json::json;

use super::build::{Others, with_periods};
use super::cuts::Cuts;
use super::engine::{Outcome, Simulation};
use super::flow_groups;
use super::network::Exit;
use super::topology::path_ends;
use crate::net::{Direction, DropCause, DuplexLink, LinkConfig, Media};
use crate::outside::Counters;
use crate::scenario::{FlowConfig, Scenario, ScenarioError, edit, from_value};

/// A network that carries packets of real programs.
pub struct Emulation {
    simulation: Simulation,
    /// The scenario with all changes by [`Emulation::set`].
    scenario: Scenario,
    paths: Vec<EmulatedPath>,
    streams: Streams,
    /// For each packet that links have copied, how many more copies will reach their end.
    copies: BTreeMap<u32, u32>,
    /// The first portal's number among the flows.
    first_portal: u32,
    /// When media without packets are next brought up to date, so that they never have much to catch up with.
    next_tick: Time,
    /// The reports at the end of the warm-up and between phases, in a testbed.
    cuts: Cuts,
    next_cut: Time,
}

/// The form in which a scenario is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Packets of real programs, for as long as the caller likes.
    Emulation,
    /// Flows whose ends others run, for the time that a run of the scenario takes.
    Testbed { trace: bool },
}

/// A path of the scenario, from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatedPath {
    /// Its name in the scenario.
    pub name: String,
    /// The nodes at its sides `a` and `b`.
    pub ends: [String; 2],
    /// The largest IP packet in bytes that it carries whole.
    pub mtu: u32,
}

/// A packet that enters the network.
#[derive(Clone, Copy, Debug)]
pub struct Inbound {
    /// The number of its path.
    pub path: usize,
    /// The side that it is sent from.
    pub side: Side,
    /// The bytes of the IP packet.
    pub size: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// A hash of its addresses, protocol and ports, by which queue disciplines tell flows apart.
    pub flow: u32,
    /// Its codepoint of differentiated services.
    pub dscp: Dscp,
    /// The caller's number for it. It is in use until a [`Delivery`] with this number says that it is the
    /// last one.
    pub handle: u32,
}

/// What has become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The caller's number for it.
    pub handle: u32,
    /// What has become of it.
    pub status: DeliveryStatus,
    /// Whether this is the last that will be heard of the packet: no copy that a link has made of it is on
    /// its way.
    pub is_last: bool,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// The packet has come to the other end.
    Arrived {
        /// When it came there.
        due: Time,
        /// The number of its path.
        path: usize,
        /// The side that it arrives at.
        side: Side,
        /// Its ECN field there.
        ecn: Ecn,
    },
    /// A link dropped it.
    Dropped,
}

/// A direction of a link, as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkState {
    /// The link's name.
    pub link: String,
    /// The direction.
    pub direction: Direction,
    /// The rate in bit/s, 0 while the link is down; [`None`] for a radio or a link without a rate.
    pub rate: Option<u64>,
    /// Packets that wait in it or are being sent.
    pub held: u64,
    /// Packets and bytes that have come to its other end.
    pub delivered: [u64; 2],
    /// Packets that it has dropped, by cause, in the order of [`DropCause::ALL`].
    pub dropped: [u64; DropCause::ALL.len()],
}

/// How often media without packets are brought up to date.
const TICK: Duration = Duration::from_millis(100);

/// Longer than any run lasts: 31 years.
const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);

/// With an MTU, even if no packet is larger, a link's queue is simulated packet by packet.
const LARGEST_PACKET: Bytes = Bytes(65_535);

/// The keys of a link that can be changed while it runs.
const LIVE_KEYS: [&str; 3] = ["rate", "delay", "loss"];

impl Emulation {
    /// Builds the network of a scenario, with the random streams of this replication. The scenario's limits
    /// of a run (`run`) do not count: it runs as long as the caller likes.
    ///
    /// # Errors
    /// When the scenario contradicts itself.
    pub fn build(scenario: &Scenario, replication: u64) -> Result<Self, ScenarioError> {
        Self::build_of(scenario, replication, Kind::Emulation)
    }

    /// Builds an emulation of a scenario whose flows' ends the caller runs: the applications give their
    /// commands ([`Emulation::take_commands`]) and get events ([`Emulation::tell`]). The limits of a run
    /// apply, and with `trace` there are its traces, except for packets.
    ///
    /// # Errors
    /// When the scenario contradicts itself.
    pub fn build_testbed(scenario: &Scenario, replication: u64, trace: bool) -> Result<Self, ScenarioError> {
        Self::build_of(scenario, replication, Kind::Testbed { trace })
    }

    fn build_of(scenario: &Scenario, replication: u64, kind: Kind) -> Result<Self, ScenarioError> {
        let mut scenario = scenario.clone();
        if kind == Kind::Emulation {
            scenario.run.duration = FOR_EVER;
            scenario.run.warm_up = Duration::ZERO;
            scenario.run.phases.clear();
            let streams = Streams { seed: scenario.seed, replication };
            // Mistakes are found again below.
            scenario = with_periods(&scenario, streams).0.into_owned();
            for link in scenario.links.values_mut() {
                if link.rate.is_some() && link.radio.is_none() {
                    link.mtu.get_or_insert(LARGEST_PACKET);
                }
            }
        }
        let (trace, others) = match kind {
            Kind::Emulation => (false, Others::SendPackets),
            Kind::Testbed { trace } => (trace, Others::RunEnds),
        };
        let mut simulation = Simulation::build_for_others(&scenario, replication, trace, others)?;
        if scenario.paths.is_empty() {
            return Err(ScenarioError::new("paths: there is none; an emulation needs at least one"));
        }
        let paths = scenario.paths.iter().map(|(name, path)| {
            let ends = path_ends(&scenario, name, path)?.map(str::to_owned);
            let cut = path.fragmenting_link(&scenario.links).map_or(path.mtu, |_| {
                let links = path.via.iter().chain(path.back.iter().flatten());
                let mtus = links.filter_map(|link| scenario.links[link].largest_packet());
                mtus.min_by_key(|mtu| mtu.0).unwrap_or(path.mtu)
            });
            Ok(EmulatedPath { name: name.clone(), ends, mtu: cut.0.min(path.mtu.0) as u32 })
        });
        let paths = paths.collect::<Result<Vec<_>, ScenarioError>>()?;
        if kind == Kind::Emulation {
            simulation.network.links.iter_mut().for_each(DuplexLink::expect_changes);
        }
        simulation.begin_outside();
        let first_portal = simulation.first_portal();
        let streams = Streams { seed: scenario.seed, replication };
        let (copies, next_tick) = (BTreeMap::new(), Time::ZERO + TICK);
        let cuts = Cuts::new(&scenario.run);
        let next_cut = cuts.next();
        Ok(Self { simulation, scenario, paths, streams, copies, first_portal, next_tick, cuts, next_cut })
    }

    /// The flows in the order of their numbers, each with its name in the scenario file; one that stands for
    /// several is there as often.
    ///
    /// # Errors
    /// Not of a scenario that this was built from.
    pub fn flows(&self) -> Result<Vec<(String, FlowConfig)>, ScenarioError> {
        let (written, _) = flow_groups::write_out(&self.scenario, usize::MAX)?;
        let names = self.scenario.flows.iter();
        let names = names.flat_map(|(name, flow)| std::iter::repeat_n(name, flow.count as usize));
        Ok(names.zip(written.flows.values()).map(|(name, flow)| (name.clone(), flow.clone())).collect())
    }

    /// Hands over the commands that the applications of a testbed have given since the last call, in order at
    /// each end: the number of the flow, the side, and the command.
    pub fn take_commands(&mut self, each: &mut impl FnMut(usize, Side, Command)) {
        if std::mem::take(&mut self.simulation.has_orders) {
            self.simulation.take_commands(each);
        }
    }

    /// Tells the application at an end of a testbed's flow about an event, at the time of the last
    /// [`Emulation::advance`].
    pub fn tell(&mut self, flow: usize, side: Side, event: Event) {
        self.simulation.on_outside_event(flow, side, event);
    }

    /// Takes the state of the paths of an end of a testbed's flow, at the time of the last
    /// [`Emulation::advance`], and its counters, which must have the same names each time.
    pub fn observe(&mut self, flow: usize, side: Side, samples: &[PathSample], counters: Counters) {
        self.simulation.observe(flow, side, samples, counters);
    }

    /// Whether a run of the scenario is over: its applications are done, or its time is up.
    pub fn is_over(&self) -> bool {
        let end = Time::ZERO + self.scenario.run.duration;
        self.simulation.is_done() || self.simulation.network.now >= end
    }

    /// The results of a run of the scenario.
    pub fn finish(mut self) -> Outcome {
        while !self.next_cut.is_never() {
            self.next_cut = self.cuts.push(self.simulation.row_at_last_cuts(self.next_cut));
        }
        self.simulation.finish(self.cuts)
    }

    /// The paths, as they are numbered.
    pub fn paths(&self) -> &[EmulatedPath] {
        &self.paths
    }

    /// The scenario as it is now.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The time up to which everything has happened. While an application's orders wait to be taken, it is
    /// when they were due.
    pub fn now(&self) -> Time {
        self.simulation.network.now
    }

    /// When something next happens without a packet that is handed in; [`Time::NEVER`] if nothing does.
    pub fn next_event(&self) -> Time {
        self.simulation.network.queue.next_time().min(Time::ZERO + self.scenario.run.duration)
    }

    /// Does everything that is to happen by `now`, which never decreases. In a testbed it may stop before
    /// that, when an application has ordered something: then it returns true, and is to be called again once
    /// the orders have been [taken](Emulation::take_commands).
    pub fn advance(&mut self, now: Time, each: &mut impl FnMut(Delivery)) -> bool {
        // Nothing happens after the end of a run.
        let now = now.min(Time::ZERO + self.scenario.run.duration);
        loop {
            let next = self.simulation.network.queue.next_time();
            while self.next_cut <= now && self.next_cut <= next {
                self.next_cut = self.cuts.push(self.simulation.row_at_cut(self.next_cut));
            }
            if next > now {
                break;
            }
            self.simulation.handle_next();
            self.hand_out(each);
            if self.simulation.has_orders {
                return true;
            }
        }
        self.hand_out(each);
        self.simulation.network.now = now;
        if now >= self.next_tick {
            self.simulation.network.media.finish(now);
            self.next_tick = now + TICK;
        }
        false
    }

    /// Sends a packet into the network, at the time of the last [`Emulation::advance`]. Returns whether it
    /// has been taken, which a packet larger than its path's MTU is not.
    pub fn send(&mut self, packet: Inbound) -> bool {
        let Inbound { path, side, size, ecn, flow, dscp, handle } = packet;
        if size > self.paths[path].mtu {
            return false;
        }
        let body = Body::Foreign(Foreign { handle, flow, dscp });
        let packet = Box::new(Packet { path: PathId(0), ecn, size, body });
        self.simulation.network.transmit(self.first_portal + path as u32, side, packet);
        true
    }

    /// Reports the fates of packets.
    fn hand_out(&mut self, each: &mut impl FnMut(Delivery)) {
        let mut exits = std::mem::take(&mut self.simulation.network.exits);
        for exit in exits.drain(..) {
            let (handle, status) = match exit {
                Exit::Copied { handle } => {
                    *self.copies.entry(handle).or_default() += 1;
                    continue;
                }
                Exit::Delivered { at: due, portal: path, side, handle, ecn } => {
                    (handle, DeliveryStatus::Arrived { due, path, side, ecn })
                }
                Exit::Dropped { handle } => (handle, DeliveryStatus::Dropped),
            };
            each(Delivery { handle, status, is_last: self.was_last(handle) });
        }
        self.simulation.network.exits = exits;
    }

    fn was_last(&mut self, handle: u32) -> bool {
        let Some(copies) = self.copies.get_mut(&handle) else { return true };
        *copies -= 1;
        if *copies == 0 {
            self.copies.remove(&handle);
        }
        false
    }

    /// Changes a link from the time of the last [`Emulation::advance`] on: keys with their values, `rate`,
    /// `delay` or `loss`, or `reverse.rate` and so on, as a scenario has them. What waits in the queue stays
    /// there. A loss may be a probability, which is that of a `bernoulli` loss; a new process of loss begins
    /// anew. Cross traffic stays as it is.
    ///
    /// # Errors
    /// As those of a scenario; then nothing has changed.
    pub fn set(&mut self, link: &str, values: &[(&str, &str)]) -> Result<(), ScenarioError> {
        let error = |what: String| Err(ScenarioError::new(what));
        let Some((index, _, config)) = self.scenario.links.get_full(link) else {
            let names: Vec<String> = self.scenario.links.keys().map(|name| format!("`{name}`")).collect();
            return error(format!("links: there is no link `{link}`; there is {}", names.join(", ")));
        };
        let mut tree = json!({ "links": { link: config } });
        for &(key, value) in values {
            let first = key.strip_prefix("reverse.").unwrap_or(key).split('.').next().unwrap_or(key);
            if !LIVE_KEYS.contains(&first) {
                return error(format!(
                    "links.{link}.{key}: this cannot change while the link runs; `rate`, `delay` and `loss` can, \
                     and the same of `reverse`"
                ));
            }
            edit::set(&mut tree, &format!("links.{link}.{key}"), edit::value_of(value))?;
        }
        let changed: LinkConfig = from_value(&tree["links"][link], &format!("links.{link}"))?;
        let name = link.to_owned();
        let mut links = self.scenario.links.clone();
        let before = std::mem::replace(&mut links[index], changed.clone());
        let mut fresh = DuplexLink::build(&changed, &name, self.streams).map_err(ScenarioError::new)?;
        let mut media = Media::build(&links, self.streams, false).map_err(ScenarioError::new)?;
        let mut fresh_media: Vec<_> = std::mem::take(&mut media.list).into_iter().map(Some).collect();
        let both = |config: &LinkConfig| [config.clone(), config.reversed()];
        let (was, is) = (both(&before), both(&changed));
        let new_rate = Direction::BOTH.map(|way| was[way.index()].rate != is[way.index()].rate);
        for way in Direction::BOTH.into_iter().filter(|way| new_rate[way.index()]) {
            let has_queue = self.simulation.network.links[index].has_medium(way) && before.radio.is_none();
            if !has_queue || !fresh.has_medium(way) {
                return error(format!(
                    "links.{link}.rate: the link has no rate of its own in the {} direction from the start, so it \
                     cannot get or lose one; give it one in the scenario",
                    way.name()
                ));
            }
        }
        let network = &mut self.simulation.network;
        for way in Direction::BOTH {
            if was[way.index()].delay != is[way.index()].delay {
                network.links[index].take_delay(&mut fresh, way);
            }
            if new_rate[way.index()]
                && let Some((medium, _)) = network.media.port(index as u32, way)
                && let Some(fresh) = fresh_media[medium as usize].take()
            {
                network.take_rate(medium, fresh);
            }
        }
        if was[0].loss != is[0].loss || was[1].loss != is[1].loss {
            network.links[index].take_loss(&mut fresh);
        }
        self.scenario.links = links;
        Ok(())
    }

    /// Each direction of each link as it is now.
    pub fn states(&mut self) -> Vec<LinkState> {
        let row = self.row();
        let value = |name: &str, link: &str, way: Direction| {
            row.value(&format!("link.{link}.{}.{name}", way.name())).unwrap_or(0.0) as u64
        };
        let network = &self.simulation.network;
        let links = self.scenario.links.keys().enumerate();
        let directions = links.flat_map(|link| Direction::BOTH.map(|way| (link, way)));
        let state = |((index, link), direction): ((usize, &String), Direction)| LinkState {
            link: link.clone(),
            direction,
            rate: network.media.present_rate(index as u32, direction),
            held: network.media.holds(index as u32, direction),
            delivered: ["delivered_packets", "delivered_bytes"].map(|name| value(name, link, direction)),
            dropped: DropCause::ALL.map(|cause| value(&format!("{}_packets", cause.name()), link, direction)),
        };
        directions.map(state).collect()
    }

    /// The scalars up to now, as a run of the scenario has them at its end.
    pub fn row(&mut self) -> Row {
        let now = self.simulation.network.now;
        self.simulation.row_so_far(now, now)
    }
}
