//! What is declared is what runs report: every scalar of every scenario of the library has its declaration,
//! and every declaration a scenario, here or in the library, that reports it.

use std::collections::{BTreeMap, BTreeSet};

use crate::sim_golden::library;
use anabranch::results::{self, Group};
use anabranch::scenario::Scenario;
use anabranch::sim::Simulation;
use anabranch::study::Study;

/// What no scenario of the library has.
const REST: &str = r#"
run = { duration = "2 s", phases = ["1 s"], time_accounts = true }
links.near = { ends = ["a", "b"], rate = "2 Mbit/s", delay = "10 ms", queue = "codel", cross_traffic = [{ kind = "poisson", rate = "1 Mbit/s" }] }
links.far = { ends = ["a", "b"], rate = "2 Mbit/s", delay = "20 ms", queue = "dualpi2" }
links.marked = { ends = ["b", "c"], rate = "2 Mbit/s", delay = "10 ms", queue = { kind = "cake", diffserv = "diffserv4" }, reverse = { queue = "prio" } }
paths.near.via = ["near"]
paths.far.via = ["far"]

[flows.load]
from = "a"
to = "b"
paths = ["near", "far"]
transport = { kind = "udp", duplicate_on = 1 }
app = { kind = "datagrams", delay_quantiles = true, gaps_after = "0 s" }

[flows.file]
from = "a"
to = "b"
paths = ["near"]
transport = { kind = "tcp", measure = true }
app = { kind = "bulk", direction = "both" }

[flows.several]
from = "a"
to = "b"
paths = ["near", "far"]
transport = { kind = "mptcp", tcp = { measure = true } }
app = "bulk"
"#;

fn rest() -> Study {
    Study::parse(REST, &[], ".".as_ref()).unwrap()
}

/// The kinds of applications that a scenario's flows have, by the flows' names; those of members are the
/// same.
fn applications(scenario: &Scenario) -> BTreeMap<String, String> {
    let kind = |app| serde_json::to_value(app).unwrap()["kind"].as_str().unwrap().to_owned();
    scenario.flows.iter().map(|(name, flow)| (name.clone(), kind(&flow.app))).collect()
}

/// Whether a group may have the scalars of this name: one of applications has those of flows of its kind.
fn is_of(group: &Group, name: &str, applications: &BTreeMap<String, String>) -> bool {
    if !group.places.iter().any(|place| place == "<flow>") || group.of == "count" {
        return true;
    }
    let flow = name.split('.').next().unwrap();
    let member = flow.rsplit_once('_').map_or(flow, |(group, _)| group);
    let kind = applications.get(flow).or_else(|| applications.get(member));
    kind.is_some_and(|kind| kind == group.of)
}

#[test]
fn what_is_reported_is_declared_and_what_is_declared_is_reported() {
    let groups = results::groups();
    let mut reported = BTreeSet::new();
    let library = library().into_iter().map(|file| Study::load(&file, &[]).unwrap());
    for study in library.chain([rest()]) {
        let last = study.sweep.cell_count().saturating_sub(1);
        let cells = [0, last / 2, last].map(|cell| study.cell(cell));
        for scenario in cells.into_iter().flatten().chain([study.scenario.clone()]) {
            let applications = applications(&scenario);
            for name in Simulation::build(&scenario, 0, false).unwrap().scalars() {
                // A phase has the scalars of the run.
                let short = name.strip_prefix("run.phase_1.").or_else(|| name.strip_prefix("run.phase_2."));
                let short = short.unwrap_or(&name);
                let found = groups.iter().enumerate().filter_map(|(index, group)| {
                    let scalar = group.find(&name).filter(|_| is_of(group, short, &applications))?;
                    Some((index, scalar.name))
                });
                let found: Vec<_> = found.collect();
                assert!(!found.is_empty(), "{}: `{name}` is not declared", scenario.name);
                reported.extend(found);
            }
        }
    }
    for (index, group) in groups.iter().enumerate() {
        for scalar in &group.scalars {
            let is_reported = reported.contains(&(index, scalar.name));
            assert!(is_reported, "{} ({}): no run reports `{}`", group.of, group.about, scalar.name);
        }
    }
}

#[test]
fn the_names_are_known_before_the_run() {
    let study = rest();
    let names = Simulation::build(&study.scenario, 0, false).unwrap().scalars();
    let row = Simulation::build(&study.scenario, 0, false).unwrap().run(&mut || None).unwrap().row;
    assert_eq!(names, row.scalars().map(|(name, _)| name.to_owned()).collect::<Vec<_>>());
    assert!(names.iter().any(|name| name == "run.phase_2.file.a_to_b.goodput_kbit_per_s"));
}
