//! The contents of `[sweep]`.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which settings vary, and how often each cell is repeated. Every combination of the axes' values is a cell,
/// unless `cells`, `zip`, `where` or `design` say otherwise.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Sweep")]
pub struct Config {
    /// How often each cell is run, each time with other random numbers, which are the same in every cell.
    /// Default: 1.
    pub replications: u64,
    /// Which scalars of every run are kept: names in which `*` stands for anything, such as `call.*`.
    /// Default: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// Which tables of the traces of every run are kept, such as `frames`. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<String>,
    /// Instead of a fixed number of replications: each cell is run until a mean is known well enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Groups of axes that advance together: their first values, their second values, and so on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zip: Vec<Vec<String>>,
    /// Conditions on the axes' values, such as `"rto_min <= rto_max"`: cells for which one is false do not
    /// exist. Quantities are in base units: s, bit/s, B, shares.
    #[serde(rename = "where", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// Instead of every combination, a number of points spread over the axes' ranges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design: Option<Design>,
    /// The axes, by name; the last one varies fastest.
    pub axes: IndexMap<String, Axis>,
    /// Instead of every combination: a list of cells, each axis's name to its value. The axes have `set`
    /// alone, or `cases`; a cell in which an axis is not named leaves its settings as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<IndexMap<String, Value>>,
    /// Named sub-studies, each with axes of its own, whose results lie in the same place.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub studies: IndexMap<String, StudyConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            replications: 1,
            metrics: Vec::new(),
            traces: Vec::new(),
            until: None,
            zip: Vec::new(),
            conditions: Vec::new(),
            design: None,
            axes: IndexMap::new(),
            cells: Vec::new(),
            studies: IndexMap::new(),
        }
    }
}

/// A sub-study: cells of its own beside those of the sweep. Its keys have the same meaning as there.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SubStudy")]
pub struct StudyConfig {
    /// How often each cell is run. Default: as the sweep's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replications: Option<u64>,
    /// Instead of a fixed number of replications: each cell is run until a mean is known well enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Groups of axes that advance together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zip: Vec<Vec<String>>,
    /// Conditions on the axes' values: cells for which one is false do not exist.
    #[serde(rename = "where", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// Instead of every combination, a number of points spread over the axes' ranges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design: Option<Design>,
    /// The axes, by name; the last one varies fastest. Default: none, which is one cell.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub axes: IndexMap<String, Axis>,
    /// Instead of every combination: a list of cells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<IndexMap<String, Value>>,
}

/// One axis of a sweep: one setting that takes several values, or several settings that change
/// together. It has `set` with one of `values`, `range` and `log_range`, or `cases`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The dotted path of the setting, or several of them that take the same value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<OneOrMore>,
    /// The values of the setting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// Values at equal distances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
    /// Values at equal ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_range: Option<LogRange>,
    /// Named groups of settings, dotted path to value.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub cases: IndexMap<String, IndexMap<String, Value>>,
}

/// One dotted path, or several.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "`set` is a dotted path such as \"links.a.rate\", or a list of them")]
pub enum OneOrMore {
    /// A path.
    One(String),
    /// Several paths.
    More(Vec<String>),
}

impl OneOrMore {
    /// The paths.
    pub(super) fn paths(&self) -> &[String] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::More(paths) => paths,
        }
    }
}

/// Values at equal distances, in the unit of `from`. Whole numbers stay whole: `from = 0.0` asks for
/// fractions.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The first value: a number or a quantity such as `"10 ms"`.
    pub from: Level,
    /// The last value.
    pub to: Level,
    /// The distance; the last value that it reaches may be below `to`. Either this or `count`; neither in a
    /// design.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Level>,
    /// How many values, `from` and `to` among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// Values at equal ratios, in the unit of `from`, which is above 0. Whole numbers stay whole.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogRange {
    /// The first value: a number or a quantity such as `"10 ms"`.
    pub from: Level,
    /// The last value.
    pub to: Level,
    /// How many values, `from` and `to` among them; none in a design.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// A number or a quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number or a quantity such as \"20 ms\"")]
pub enum Level {
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// A quantity: a number and its unit.
    Quantity(String),
}

/// Points spread over the ranges of all axes: each of an axis's `values` or `cases` gets an equal share of
/// them. Those that `where` excludes are left out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// How the points are spread.
    pub kind: DesignKind,
    /// How many points, from 1 to 1 048 576; for `sobol` and `saltelli` a power of two. `saltelli` makes as
    /// many cells of each as there are axes, and two more; at most 1 048 576 in all.
    pub points: u64,
    /// The seed from which the points are drawn; it is independent of the scenario's seed. Default: 1.
    #[serde(default = "default_seed")]
    pub seed: u64,
}

fn default_seed() -> u64 {
    1
}

/// How points are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DesignKind {
    /// Latin hypercube (McKay, Beckman and Conover 1979): each axis is cut into as many equal parts as there
    /// are points, and each part has one point.
    LatinHypercube,
    /// Sobol' sequence (Sobol' 1967) with Owen's scrambling.
    Sobol,
    /// For total-order Sobol indices, the design of Saltelli et al. (Computer Physics Communications 181,
    /// 2010): two points A and B of such a sequence, and for each axis A with the value that B has there.
    /// Takes two axes or more, and no `where`.
    Saltelli,
}

/// Sequential stopping: a cell gets replications until the interval of a mean is narrow enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// The scalar whose mean is wanted, such as `call.mos`.
    pub metric: String,
    /// Half the width of the interval of its mean that is narrow enough, in the scalar's unit; above 0.
    pub half_width: f64,
    /// The confidence level of the interval, above 0 and below 1. Default: 0.95.
    #[serde(default = "default_level")]
    pub level: f64,
    /// The number of replications that every cell gets at least, from 2 on. Default: 10.
    #[serde(default = "default_least")]
    pub least: u64,
    /// The number of replications after which a cell is given up, narrow enough or not. Default: 1000.
    #[serde(default = "default_most")]
    pub most: u64,
}

fn default_level() -> f64 {
    0.95
}

fn default_least() -> u64 {
    10
}

fn default_most() -> u64 {
    1000
}
