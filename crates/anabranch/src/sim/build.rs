//! Building a run from a scenario, and what may be put into it before it begins.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use anabranch_transport::capabilities::Capabilities;
use anabranch_transport::cc::Controller;
use anabranch_transport::cc::media::Controller as MediaController;
use anabranch_transport::endpoint::{Command, Endpoint as _, Multipath as _, Site, Transport as _};
use anabranch_transport::flow::{PathId, Side};
use anabranch_transport::observed::Observed as _;
use anabranch_transport::path::Selector;
use anabranch_transport::plugin;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::Time;

use super::address_changes;
use super::alarm::Alarm;
use super::engine::Simulation;
use super::flow::Flow;
use super::limits::Limits;
use super::network::Network;
use super::topology::{Routes, check_path};
use super::{cuts, flow_groups};
use crate::app::Commands;
use crate::capture::{Capture, Sink};
use crate::net::{DuplexLink, Media};
use crate::scenario::{FlowConfig, Scenario, ScenarioError};
use crate::trace::TimeAccounts;
use crate::transports::{self, AnyEndpoint};

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

/// An event's key has 24 bits for the number of a route, and a flow has at most 2 x 255 routes.
const MAX_FLOWS: usize = 1 << 15;

/// The scenario with links over satellites in low orbit as ones that follow timetables, and what is wrong
/// with those that cannot be, by name.
pub(super) fn with_periods(
    scenario: &Scenario,
    streams: Streams,
) -> (Cow<'_, Scenario>, BTreeMap<String, String>) {
    let (mut scenario, mut wrong) = (Cow::Borrowed(scenario), BTreeMap::new());
    for place in 0..scenario.links.len() {
        let (name, link) = scenario.links.get_index(place).expect("it is one of them");
        match link.of_periods(name, streams, scenario.run.duration) {
            Ok(None) => {}
            Ok(Some(link)) => scenario.to_mut().links[place] = link,
            Err(what) => drop(wrong.insert(name.clone(), what)),
        }
    }
    (scenario, wrong)
}

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

    /// A run that also writes its packets, as a capture: see [`capture`](crate::capture). With a node, the
    /// capture has what that one sends and receives.
    ///
    /// # Errors
    /// When the scenario contradicts itself, or no link ends at the node.
    pub fn build_captured(
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
        let (scenario, wrong_periods) = with_periods(scenario, streams);
        let scenario = &*scenario;
        let build = if trace { DuplexLink::build_traced } else { DuplexLink::build };
        let links =
            ScenarioError::all(scenario.links.iter().map(|(name, config)| match wrong_periods.get(name) {
                Some(what) => Err(ScenarioError::new(what.clone())),
                None => build(config, name, streams).map_err(ScenarioError::new),
            }));
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
            config: scenario.run.clone(),
            limits: Limits::new(&scenario.run, has_plugins),
            link_names: scenario.links.keys().cloned().collect(),
            flow_names: scenario.flows.keys().cloned().collect(),
            groups,
            commands: Commands::default(),
            samples: Vec::new(),
            accounts: is_observed.then(|| {
                Box::new(TimeAccounts::new(scenario.flows.values().map(|config| config.paths.len())))
            }),
            limits_of_paths: Vec::new(),
            is_observed,
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

    /// Gives one path of one end of an RTP flow a congestion control of media of the user's own, before the
    /// run.
    ///
    /// # Errors
    /// When there is no such flow, or its transport has no congestion control of media or no such path.
    pub fn set_media_control(
        &mut self,
        flow: &str,
        side: Side,
        path: PathId,
        control: MediaController,
    ) -> Result<(), ScenarioError> {
        let endpoint = self.endpoint(flow, side)?;
        if endpoint.set_media_control(path, control) {
            Ok(())
        } else {
            let protocol = endpoint.protocol();
            Err(ScenarioError::new(format!(
                "flows.{flow}: \"{protocol}\" has no congestion control of media on path {}",
                path.0
            )))
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

    /// Keeps the packets of a traced run as their hosts send them, before the run; they count as memory of
    /// the traces.
    pub fn keep_packets(&mut self) {
        if let Some(trace) = &mut self.network.trace {
            trace.packets.keep_packets();
        }
    }
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
    let commands = || address_changes.iter().flat_map(|change| &change.commands);
    let is_rebinding = |command: &Command| matches!(command, Command::Rebind { .. });
    if let Some(number) = address_changes.iter().position(|change| change.commands.iter().any(is_rebinding)) {
        let can = |can: &Capabilities| can.rebinding;
        let protocol = from.protocol();
        if !transports::capabilities(protocol).is_some_and(|own| can(&own)) {
            return Err(in_flow(format!(
                "addresses.{number} rebinds side a, which a connection of {protocol} does not outlive; use {}",
                transports::choice(can)
            )));
        }
    }
    if commands().any(|command| !is_rebinding(command)) {
        for endpoint in [&mut from, &mut to] {
            let protocol = endpoint.protocol();
            endpoint.enable_reconfiguration(&absent).map_err(|error| {
                let can = |can: &Capabilities| can.changing_addresses;
                let is_possible = transports::capabilities(protocol).is_some_and(|own| can(&own));
                let hint =
                    if is_possible { String::new() } else { format!("; use {}", transports::choice(can)) };
                in_flow(error + &hint)
            })?;
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
