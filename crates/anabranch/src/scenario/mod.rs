//! The scenario: one tree of structs, from which the JSON Schema and the reference come.
//!
//! A scenario file is TOML. Unknown keys and impossible values are errors of one sentence that names the key,
//! what was found and what is allowed.

pub(crate) mod edit;
pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod include;
mod lines;
mod models;
pub(crate) mod names;
pub(crate) mod shorthand;
pub mod sweep;
pub(crate) mod tree;

use anabranch_transport::dscp::Dscp;
use anabranch_transport::flow::IpVersion;
use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use error::{ScenarioError, from_value};
pub use models::models;
pub use sweep::{AxisValue, Sweep};

use crate::app::AppConfig;
use crate::net::LinkConfig;
use crate::transports::TransportConfig;

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
    /// How long a run takes and when it is given up.
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

/// How long a run takes and when it is given up.
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
    /// Guard: the number of events at hosts after which a run is given up: packets that come to the end of
    /// their way, timers that expire, wake-ups of applications and changes of addresses. It does not depend
    /// on what is traced or captured. Default: 10 000 000 000.
    pub max_events: u64,
    /// Guard: the wall-clock time after which a run is given up. Default: 1 h.
    pub max_wall_time: Duration,
    /// Guard: the memory for packets in flight, traces and what applications note after which a run is given
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
    /// The links of the way back, in order from the far host. Default: the same links in reverse order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Vec<String>>,
    /// The largest IP packet that the path carries, from 576 B to 65535 B; links with a smaller one cut it
    /// into fragments. Default: 1500 B.
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
    /// The differentiated services codepoint of its packets, both ways: a name, such as `"ef"` for a call, or
    /// a number (RFC 4594). Queues that know it are `prio` and `cake`. Default: cs0.
    #[serde(default, skip_serializing_if = "Dscp::is_default")]
    pub dscp: Dscp,
    /// The transport protocol and its settings.
    pub transport: TransportConfig,
    /// The settings of side `b` where they differ; the protocol is the same. Default: as `transport`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport_to: Option<TransportConfig>,
    /// How the addresses of side `a` change while the connection lives, in order of time: as it wants (SCTP,
    /// RFC 5061; MPTCP), or behind its back (QUIC). A path that is added does not exist before. By default
    /// they do not change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressChange>,
    /// The application that runs over it.
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

/// One flow is the default, which is left out so that studies keep their hash.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// A change of the addresses of a flow's side `a`, about which ASCONF tells the other side, or of which not
/// even side `a` hears. This does not change the links, which have `up` for that.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressChange {
    /// When the host makes the change.
    pub at: Duration,
    /// The path on which an address comes; it carries data once a heartbeat has been answered on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
    /// The path that both sides are asked to use as the primary one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_primary: Option<String>,
    /// The path on which the address goes; nothing leaves from it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
    /// The path on which a NAT gives side `a` another port: what is sent to the one before is lost (QUIC, RFC
    /// 9000 section 9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebind_port: Option<String>,
    /// The path on which a NAT gives side `a` another address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebind_address: Option<String>,
}

impl Scenario {
    /// The scenario as TOML, every default filled in.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a scenario is a tree of tables and plain values")
    }
}

/// A limit far above any scenario, or other text, that a person or a script writes.
pub const MAX_FILE_MEGABYTES: u64 = 16;

/// The JSON Schema of scenario files, with the shorter forms that they may have.
pub fn schema() -> Value {
    let mut schema = tables();
    shorthand::allow(&mut schema);
    schema
}

/// The JSON Schema of scenarios in which every part with a `kind` is a table, as this program writes them.
pub fn tables() -> Value {
    /// A scenario and the sweep over it: what a scenario file holds.
    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    struct ScenarioFile {
        /// Files whose `links` and `paths` the scenario takes over, such as those that `anabranch profile`
        /// writes; their names start in the scenario's folder. Default: none.
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
