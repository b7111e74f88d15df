//! Flows with a `count`: several flows instead of one, and the scalars for all of them together.

use std::borrow::Cow;

use anabranch_transport::report::{Row, declare};
use anabranch_transport::time::Duration;
use indexmap::IndexMap;

use crate::scenario::{FlowConfig, Scenario, ScenarioError};

/// A flow that stands for several, and these flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) members: Vec<String>,
}

/// The scenario with every flow written out, and which of them belong together.
///
/// # Errors
/// When there are more than `most` flows or none, or a name occurs twice.
pub(super) fn write_out(
    scenario: &Scenario,
    most: usize,
) -> Result<(Cow<'_, Scenario>, Vec<Group>), ScenarioError> {
    let flows = &scenario.flows;
    let total: u64 = flows.values().map(|flow| u64::from(flow.count)).sum();
    if let Some((name, _)) = flows.iter().find(|(_, flow)| flow.count == 0) {
        return Err(ScenarioError::new(format!("flows.{name}.count = 0 is not from 1 to {most}")));
    }
    if total > most as u64 {
        return Err(ScenarioError::new(format!("flows: {total} are too many; at most {most} are allowed")));
    }
    if flows.values().all(|flow| flow.count == 1) {
        return Ok((Cow::Borrowed(scenario), Vec::new()));
    }
    let mut written = IndexMap::with_capacity(total as usize);
    let mut groups = Vec::new();
    for (name, flow) in flows {
        if flow.count == 1 {
            written.insert(name.clone(), flow.clone());
            continue;
        }
        let members: Vec<String> = (1..=flow.count).map(|number| format!("{name}_{number}")).collect();
        for (number, member) in members.iter().enumerate() {
            if flows.contains_key(member) {
                return Err(ScenarioError::new(format!(
                    "flows.{name}.count = {} makes a flow `{member}`, which is there already; rename one",
                    flow.count
                )));
            }
            let stagger = flow.stagger.unwrap_or_default() * number as u64;
            written.insert(member.clone(), one_of(flow, stagger));
        }
        groups.push(Group { name: name.clone(), members });
    }
    debug_assert_eq!(written.len() as u64, total, "a name ends with its number, so no two are the same");
    Ok((Cow::Owned(Scenario { flows: written, ..scenario.clone() }), groups))
}

/// A mistake in a flow of a group as one in the flow that the scenario file has: `flows.f` for `flows.f_1`.
pub(super) fn in_file(groups: &[Group], error: ScenarioError) -> ScenarioError {
    error.reworded(|sentence| {
        let after = |member: &String| {
            let rest = sentence.strip_prefix("flows.")?.strip_prefix(member.as_str())?;
            rest.starts_with(['.', ':', ' ']).then_some(rest)
        };
        let found = groups.iter().find_map(|group| Some((group, group.members.iter().find_map(after)?)));
        found.map(|(group, rest)| format!("flows.{}{rest}", group.name))
    })
}

fn one_of(flow: &FlowConfig, later: Duration) -> FlowConfig {
    let mut one = FlowConfig { count: 1, stagger: None, ..flow.clone() };
    let start = one.app.start_mut();
    *start = start.delayed(later);
    one
}

declare! {
    /// The scalars of a flow with a `count`, for all its members together.
    SCALARS:
    /// Sum of the members' goodputs.
    GOODPUT_KBIT_PER_S = "goodput_kbit_per_s": KilobitsPerSecond, More;
    /// Jain's index of fairness among these goodputs, from 1/n to 1 (Jain, Chiu and Hawe, DEC-TR-301, 1984).
    JAIN = "jain": One, More;
}

/// Adds the sum of each group's goodputs and how fairly they are shared: Jain's index, (sum x)^2/(n sum x^2),
/// from 1/n to 1 (R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984).
pub(super) fn report(groups: &[Group], row: &mut Row) {
    if groups.is_empty() {
        return;
    }
    let group_of: IndexMap<&str, usize> = groups
        .iter()
        .enumerate()
        .flat_map(|(index, group)| group.members.iter().map(move |member| (member.as_str(), index)))
        .collect();
    // For each group and direction, such as `a_to_b.`, the sum and the sum of squares.
    let mut sums: IndexMap<(usize, String), (f64, f64)> = IndexMap::new();
    for (name, goodput) in row.scalars() {
        let Some((flow, direction)) =
            name.strip_suffix(GOODPUT_KBIT_PER_S.name).and_then(|rest| rest.split_once('.'))
        else {
            continue;
        };
        if let Some(&group) = group_of.get(flow) {
            let (sum, squares) = sums.entry((group, direction.to_owned())).or_default();
            *sum += goodput;
            *squares += goodput * goodput;
        }
    }
    for ((index, direction), (sum, squares)) in sums {
        let Group { name, members } = &groups[index];
        let place = format!("{name}.{direction}");
        let mut report = row.section(place.trim_end_matches('.'));
        report.scalar(GOODPUT_KBIT_PER_S, sum);
        report.scalar(JAIN, sum * sum / (members.len() as f64 * squares));
    }
}
