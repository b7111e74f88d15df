//! The scenario: one tree of structs, from which the JSON Schema, the reference and the checks come.
//!
//! A scenario file is TOML. Unknown keys and impossible values are errors of one sentence that name
//! the key, what was found and what is allowed.

mod edit;
mod error;
mod files;
mod include;
mod models;
pub mod sweep;
mod tree;

use std::path::Path;

use anabranch_transport::ground::IpVersion;
use anabranch_transport::rng;
use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use anabranch_transport::{mptcp, sctp, tcp, udp};
use indexmap::IndexMap;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use error::ScenarioError;
pub use models::models;
pub use sweep::{AxisValue, Sweep};

use crate::app::AppConfig;
use crate::net::LinkConfig;
use crate::text_file;

/// A network, what runs over it, and for how long.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A short name for figures and folders. Default: the file's name.
    #[serde(default)]
    pub name: String,
    /// What the scenario shows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The study's seed; every random stream is derived from it. Default: 1.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// How long a run takes and where it is stopped.
    #[serde(default)]
    pub run: RunConfig,
    /// The links, by name. Nodes are the names that links' ends mention.
    pub links: IndexMap<String, LinkConfig>,
    /// The paths, by name: which links lead from one host to the other.
    pub paths: IndexMap<String, PathConfig>,
    /// The flows, by name: who talks to whom, over which paths, how and what.
    pub flows: IndexMap<String, FlowConfig>,
}

fn default_seed() -> u64 {
    1
}

/// How long a run takes and where it is stopped.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// Simulated time after which the run ends at the latest; it ends earlier when every application
    /// is done. Default: 1 h.
    pub duration: Duration,
    /// Counters and means of links and endpoints start here. Default: 0 s.
    pub warm_up: Duration,
    /// Times that cut the run into phases, increasing, after the warm-up and before the end: with one or
    /// more, counters and means are also reported for each phase on its own, as `run.phase_1.` and so on
    /// before their names. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Duration>,
    /// Whether each path's time is accounted for: which share of it the path's sender was held back by what,
    /// and how long data waited at the receiver for earlier data (`anabranch explain`). Default: false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub time_accounts: bool,
    /// Guard: events after which a run is given up. Default: 10 000 000 000.
    pub max_events: u64,
    /// Guard: wall-clock time after which a run is given up. Default: 1 h.
    pub max_wall_time: Duration,
    /// Guard: memory for packets in flight, traces and what applications note after which a run is given
    /// up. Default: 4 GB.
    pub max_memory: Bytes,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(3600),
            warm_up: Duration::ZERO,
            phases: Vec::new(),
            time_accounts: false,
            max_events: 10_000_000_000,
            max_wall_time: Duration::from_secs(3600),
            max_memory: Bytes(4_000_000_000),
        }
    }
}

/// A static route between two hosts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// The links from one host to the other, in order.
    pub via: Vec<String>,
    /// The links of the way back, in order from the far host. Default: the same links backwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Vec<String>>,
    /// The largest IP packet that the path carries, from 576 B to 65535 B; links with a smaller one cut it into
    /// fragments. Default: 1500 B.
    #[serde(default = "default_mtu")]
    pub mtu: Bytes,
}

impl PathConfig {
    /// The first link that cuts packets of this path's size, and its MTU.
    pub(crate) fn fragmenting_link(&self, links: &IndexMap<String, LinkConfig>) -> Option<(&str, Bytes)> {
        let mut names = self.via.iter().chain(self.back.iter().flatten());
        names.find_map(|name| {
            let mtu = links.get(name)?.largest_packet().filter(|mtu| mtu.0 < self.mtu.0)?;
            Some((name.as_str(), mtu))
        })
    }
}

fn default_mtu() -> Bytes {
    Bytes(1500)
}

/// One connection and its application.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowConfig {
    /// The node where the flow's side `a` is: the one that opens the connection.
    pub from: String,
    /// The node where side `b` is.
    pub to: String,
    /// The paths the flow may use, in the transport's order: the first one is the primary path.
    pub paths: Vec<String>,
    /// The version of IP. Default: ipv4.
    #[serde(default)]
    pub ip: IpVersion,
    /// The transport protocol and its settings.
    pub transport: TransportConfig,
    /// The settings of side `b` where they differ; the protocol is the same. Default: as `transport`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport_to: Option<TransportConfig>,
    /// How the addresses of side `a` change while the association lives (SCTP, RFC 5061), in order of time. A
    /// path that is added is not there before. Default: not at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressChange>,
    /// What runs over it.
    pub app: AppConfig,
    /// How many such flows there are, from 1 on: with 4, `load` stands for `load_1` to `load_4`, each with
    /// random numbers of its own. Default: 1.
    #[serde(default = "default_count", skip_serializing_if = "is_one")]
    pub count: u32,
    /// How much later than the one before it each of them starts. Default: 0 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stagger: Option<Duration>,
}

fn default_count() -> u32 {
    1
}

/// One flow is the ordinary case: studies keep their hash.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// A change of the addresses of a flow's side `a`, of which the other side is told by ASCONF. The links are
/// another matter: they are `up` or not.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressChange {
    /// When the host makes it.
    pub at: Duration,
    /// The path on which an address comes; it carries data once a heartbeat was answered on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
    /// The path that both sides are to use as the primary one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_primary: Option<String>,
    /// The path on which the address goes: nothing leaves from it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
}

/// The transport protocol and its settings.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TransportConfig {
    /// Multipath TCP (RFC 8684), with the coupling and the scheduler of one's choice.
    Mptcp(Box<mptcp::Config>),
    /// SCTP (RFC 9260), multi-homed, with partial reliability.
    Sctp(Box<sctp::Config>),
    /// TCP (RFC 9293), with the congestion control of one's choice.
    Tcp(Box<tcp::Config>),
    /// UDP (RFC 768), with or without RTP.
    Udp(udp::Config),
}

/// A scenario file: a base scenario and the sweep over it, if there is one.
#[derive(Clone, Debug)]
pub struct Study {
    /// The base scenario as a tree, `sweep` taken out: cells are edits of it.
    base: Value,
    /// The base scenario.
    pub scenario: Scenario,
    /// The sweep over it; without one there is one cell and one replication.
    pub sweep: Sweep,
}

impl Study {
    /// Reads a scenario file and applies `path = value` settings to it.
    ///
    /// # Errors
    /// When the file cannot be read or is not a scenario.
    pub fn load(file: &Path, sets: &[(String, String)]) -> Result<Self, ScenarioError> {
        let text = text_file::read(file, MAX_FILE_MEGABYTES).map_err(ScenarioError::new)?;
        let folder = file.parent().unwrap_or(Path::new("."));
        let in_file = |error| ScenarioError::new(format!("{}: {error}", file.display()));
        let mut study = Self::parse(&text, sets, folder).map_err(in_file)?;
        if study.scenario.name.is_empty()
            && let Some(stem) = file.file_stem()
        {
            study.scenario.name = stem.to_string_lossy().into_owned();
        }
        Ok(study)
    }

    /// The same for TOML text.
    ///
    /// # Errors
    /// When the text is not a scenario.
    pub fn parse(text: &str, sets: &[(String, String)], folder: &Path) -> Result<Self, ScenarioError> {
        let mut base = tree::parse(text)?;
        include::resolve(&mut base, sets, folder)?;
        for (path, value) in sets.iter().filter(|(path, _)| path != include::KEY) {
            edit::set(&mut base, path, edit::value_of(value))?;
        }
        files::resolve(&mut base, folder);
        let sweep = match base.as_object_mut().and_then(|table| table.remove("sweep")) {
            Some(tree) => {
                let mut config: sweep::Config = error::from_value(&tree, "sweep")?;
                config.resolve_files(folder);
                Sweep::new(config)?
            }
            None => Sweep::default(),
        };
        let scenario: Scenario = error::from_value(&base, "")?;
        check_name(&scenario.name)?;
        let study = Self { base, scenario, sweep };
        study.check()?;
        Ok(study)
    }

    /// One cell of the sweep as a scenario of its own.
    ///
    /// # Errors
    /// When the cell's settings do not go together.
    pub fn cell(&self, cell: u64) -> Result<Scenario, ScenarioError> {
        if !self.sweep.has_axes() {
            return Ok(self.scenario.clone());
        }
        let mut tree = self.base.clone();
        self.sweep.apply(cell, &mut tree)?;
        let mut scenario: Scenario = error::from_value(&tree, "")?;
        scenario.name.clone_from(&self.scenario.name);
        Ok(scenario)
    }

    /// The scenario and its sweep as TOML, every default filled in.
    pub fn to_toml(&self) -> String {
        let scenario = self.scenario.to_toml();
        if json!(self.sweep.config()) == json!(sweep::Config::default()) {
            return scenario;
        }
        let sweep = toml::to_string_pretty(&json!({ "sweep": self.sweep.config() }));
        format!("{scenario}\n{}", sweep.expect("a sweep is a tree of tables and plain values"))
    }

    /// 64 bits that identify everything that can change a result: the base scenario with its seed, the
    /// axes and the contents of the files it names; not names, descriptions and replications.
    pub fn hash(&self) -> u64 {
        let (axes, more) = self.sweep.identity();
        hash(&self.scenario, &axes, more.as_ref())
    }

    /// The hash of each cell as a scenario of its own, so that equal cells of different sweeps have the
    /// same one. Computed on all cores.
    ///
    /// # Errors
    /// The first cell whose settings do not go together.
    pub fn cell_hashes(&self) -> Result<Vec<u64>, ScenarioError> {
        let no_axes = json!({});
        let hash = |cell: u64| {
            let in_cell = |error| ScenarioError::new(format!("cell {cell}: {error}"));
            Ok(hash(&self.cell(cell).map_err(in_cell)?, &no_axes, None))
        };
        let hashes: Vec<Result<u64, ScenarioError>> =
            (0..self.sweep.cell_count()).into_par_iter().map(hash).collect();
        hashes.into_iter().collect()
    }

    /// The study in which a design has these points: for each of them a share of the way, from 0 to 1, for
    /// each axis of the part of this name.
    ///
    /// # Errors
    /// When there is no such design, when the points are not of it, or when one of them cannot be built.
    pub fn with_points(&self, part: &str, points: &[Vec<f64>]) -> Result<Self, ScenarioError> {
        let study = Self { sweep: self.sweep.with_points(part, points)?, ..self.clone() };
        study.check_sweep()?;
        Ok(study)
    }

    fn check(&self) -> Result<(), ScenarioError> {
        self.scenario.check()?;
        self.check_sweep()
    }

    /// Every value of every axis must give a scenario that can be built, in the first cell that has it.
    fn check_sweep(&self) -> Result<(), ScenarioError> {
        for part in self.sweep.parts() {
            part.representatives()
                .into_par_iter()
                .find_map_first(|(axis, position, cell)| {
                    let mut tree = self.base.clone();
                    let scenario = part.apply(cell, &mut tree).and_then(|()| error::from_value(&tree, ""));
                    let checked = scenario.and_then(|scenario: Scenario| scenario.check());
                    let error = checked.err()?;
                    let sentence =
                        format!("{}, value `{}`: {error}", part.axis_key(axis), part.label(axis, position));
                    Some(Err(ScenarioError::new(sentence)))
                })
                .unwrap_or(Ok(()))?;
        }
        Ok(())
    }
}

impl Scenario {
    /// Whether a simulation can be built from it.
    ///
    /// # Errors
    /// The sentence that says why not.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let sections: [(&str, Vec<&String>); 3] = [
            ("links", self.links.keys().collect()),
            ("paths", self.paths.keys().collect()),
            ("flows", self.flows.keys().collect()),
        ];
        for (section, names) in sections {
            if let Some(name) = names.iter().find(|name| !edit::is_name(name)) {
                return Err(ScenarioError::new(format!(
                    "{section}: `{name}` is not a name; use letters, digits, `-` and `_`"
                )));
            }
        }
        crate::sim::Simulation::build(self, 0, false).map(drop)
    }

    /// The scenario as TOML, every default filled in.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a scenario is a tree of tables and plain values")
    }
}

/// Of a scenario, the axes over it and what else the sweep says about cells.
fn hash(scenario: &Scenario, axes: &Value, more: Option<&Value>) -> u64 {
    let mut scenario = json!(scenario);
    scenario["name"] = Value::String(String::new());
    if let Some(table) = scenario.as_object_mut() {
        table.shift_remove("description");
    }
    // What files hold matters, not where they lie.
    files::replace_by_contents(&mut scenario);
    let mut tree = json!({ "scenario": scenario, "axes": axes, "files": [] });
    if let Some(more) = more {
        tree["sweep"] = more.clone();
    }
    rng::fnv1a(tree.to_string().as_bytes())
}

/// A scenario's name names files, too.
fn check_name(name: &str) -> Result<(), ScenarioError> {
    let is_fine = |c: char| !c.is_control() && !matches!(c, '/' | '\\' | ':');
    if name.chars().count() <= MAX_NAME && name.chars().all(is_fine) && !name.starts_with('.') {
        return Ok(());
    }
    Err(ScenarioError::new(format!(
        "name: it names files, too; use at most {MAX_NAME} characters, no `/`, `\\`, `:` or control characters, \
         and no `.` first"
    )))
}

const MAX_NAME: usize = 100;
/// Far above any scenario that a person or a script writes.
const MAX_FILE_MEGABYTES: u64 = 16;

/// The JSON Schema of scenario files.
pub fn schema() -> Value {
    /// A scenario and the sweep over it: what a scenario file holds.
    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    struct ScenarioFile {
        /// Files whose `links` and `paths` the scenario takes over, such as those that `anabranch profile` writes;
        /// their names start in the scenario's folder. Default: none.
        #[schemars(default)]
        include: Vec<String>,
        #[schemars(flatten)]
        scenario: Scenario,
        /// The sweep: which settings vary, and how often each cell is repeated.
        #[schemars(default)]
        sweep: Option<sweep::Config>,
    }
    schemars::schema_for!(ScenarioFile).to_value()
}
