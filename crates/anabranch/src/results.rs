//! All that a run reports: which scalars there are, and where in the row they stand.
//!
//! Each component declares its scalars beside the code that writes them; here are only their places in the
//! row. Parts of a place in angle brackets stand for names of the scenario and for numbers. A scalar of a
//! phase of the run has `run.phase_<n>.` before its name.

use anabranch_transport::report::{Better, Declared};
use serde_json::{Value, json};

use crate::{app, net, sim, trace, transports};

/// Scalars with the same places in the row.
#[derive(Clone, Debug)]
pub struct Group {
    /// The component: a kind of transport or application, `link`, `run` or `emulation`.
    pub of: &'static str,
    /// The component in words.
    pub about: &'static str,
    /// Where its scalars stand in the row: `<flow>.sctp.<side>`.
    pub places: Vec<String>,
    /// Its scalars.
    pub scalars: Vec<Declared>,
}

impl Group {
    /// The scalars of these lists, at these places.
    pub fn new(of: &'static str, about: &'static str, places: &[&str], lists: &[&[Declared]]) -> Self {
        let places = places.iter().map(|&place| place.to_owned()).collect();
        Self { of, about, places, scalars: lists.concat() }
    }

    /// The scalar that has this full name, if it is one of these.
    pub fn find(&self, name: &str) -> Option<&Declared> {
        let name = without_phase(name);
        self.scalars.iter().find(|scalar| {
            let place = name.strip_suffix(scalar.name).and_then(|place| place.strip_suffix('.'));
            place.is_some_and(|place| self.places.iter().any(|own| is_at(place, own)))
        })
    }
}

/// The name in the whole run of a scalar of a phase.
fn without_phase(name: &str) -> &str {
    name.strip_prefix("run.phase_").and_then(|rest| rest.split_once('.')).map_or(name, |(_, name)| name)
}

/// Whether a place of the row is one of a form such as `<flow>.sctp.<side>.path<n>`.
fn is_at(place: &str, form: &str) -> bool {
    let fits = |part: &str, form: &str| match form.strip_suffix("<n>") {
        Some(word) => part.strip_prefix(word).is_some_and(|number| number.parse::<u32>().is_ok()),
        None => form.starts_with('<') || part == form,
    };
    place.split('.').count() == form.split('.').count()
        && place.split('.').zip(form.split('.')).all(|(part, form)| fits(part, form))
}

/// Where an end of a flow stands in the row, by its transport.
fn end_of(transport: &str, part: &str) -> String {
    format!("<flow>.{transport}.<side>{part}")
}

/// All scalars that a simulated run can have.
pub fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    for (kind, about, lists) in app::SCALARS {
        let ways: &[_] = if app::HAVE_DIRECTIONS.contains(&kind) {
            &["<flow>", "<flow>.a_to_b", "<flow>.b_to_a"]
        } else {
            &["<flow>"]
        };
        groups.push(Group::new(kind, about, ways, lists));
    }
    let ways = ["<flow>", "<flow>.a_to_b", "<flow>.b_to_a"];
    groups.push(Group::new(
        "count",
        "A flow with a `count`, for all its members",
        &ways,
        &[sim::GROUP_SCALARS],
    ));
    for (kind, parts) in transports::SCALARS {
        for &(part, lists) in parts {
            let about = match part {
                "" => "An end of a flow",
                ".path<n>" => "A path, as an end of a flow sees it",
                _ => "A subflow, as an end of a flow sees it",
            };
            groups.push(Group::new(kind, about, &[&end_of(kind, part)], lists));
        }
    }
    let [of_end, of_path, received] = trace::SCALARS;
    let places = transports::SCALARS.map(|(kind, _)| [end_of(kind, ""), end_of(kind, ".path<n>")]);
    let at = |index: usize| places.iter().map(|both| both[index].as_str()).collect::<Vec<_>>();
    let all: Vec<_> = places.iter().flatten().map(String::as_str).collect();
    let about = "The share of the time in which each of these held an end, or one of its paths, back";
    groups.push(Group::new("limits", about, &all, &[of_end]));
    groups.push(Group::new("limits", "A path, with `run.time_accounts`", &at(1), &[of_path]));
    groups.push(Group::new("limits", "A receiving end, with `run.time_accounts`", &at(0), &[received]));
    for (about, lists) in net::SCALARS {
        groups.push(Group::new("link", about, &["link.<link>.forward", "link.<link>.reverse"], lists));
    }
    let (about, lists) = net::LANES;
    let places = ["forward", "reverse"]
        .map(|way| net::qdisc::lanes::names().map(move |lane| format!("link.<link>.{way}.{lane}")));
    let places: Vec<_> = places.into_iter().flatten().collect();
    let places: Vec<_> = places.iter().map(String::as_str).collect();
    groups.push(Group::new("link", about, &places, lists));
    groups.push(Group::new("run", "The whole run", &["run"], &[sim::RUN_SCALARS]));
    groups
}

/// Old names of scalars, with those that they have now; both are the last part of the name in the row. An old
/// name is never given to another scalar, so that folders of older runs can be read.
pub const RENAMED: [(&str, &str); 9] = [
    ("blocked_by_receive_buffer_s", "blocked_by_receive_window_s"),
    ("fast_recoveries", "fast_retransmits"),
    ("payload_bytes_received", "bytes_delivered"),
    ("payload_bytes_sent", "bytes_sent"),
    ("rlc_retransmissions", "arq_retransmissions"),
    ("segments_received", "packets_received"),
    ("segments_sent", "packets_sent"),
    ("subflows_failed", "path_failures"),
    ("t3_expiries", "timeouts"),
];

/// The groups, the tables of traces and the old names, as programs read them.
pub fn as_json(groups: &[Group]) -> Value {
    let declared = |it: &Declared| {
        let better = match it.better {
            Better::Less => Some("less"),
            Better::More => Some("more"),
            Better::Neither => None,
        };
        json!({
            "name": it.name, "unit": it.unit.symbol(), "better": better, "meaning": it.meaning(),
            "words": it.words(),
        })
    };
    let all = |list: &[Declared]| list.iter().map(declared).collect::<Vec<_>>();
    let groups = groups.iter().map(|Group { of, about, places, scalars }| {
        json!({ "of": of, "about": about, "places": places, "scalars": all(scalars) })
    });
    let tables =
        trace::TABLES.iter().map(|it| json!({ "name": it.name, "row": it.row, "columns": all(it.columns) }));
    json!({
        "groups": groups.collect::<Vec<_>>(),
        "tables": tables.collect::<Vec<_>>(),
        "renamed": RENAMED.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use anabranch_transport::report::Unit;

    use super::*;

    #[test]
    fn one_name_has_one_unit_and_says_it() {
        let mut seen: BTreeMap<&str, &Declared> = BTreeMap::new();
        let groups = groups();
        let scalars = groups.iter().flat_map(|group| &group.scalars);
        for it in scalars.chain(trace::TABLES.iter().flat_map(|table| table.columns)) {
            let end = |unit: &Unit| {
                let ending = unit.ending();
                let rest = it.name.strip_suffix(ending).filter(|_| !ending.is_empty());
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
            };
            // The longest ending says the unit: `byte_s` is no time.
            let named = Unit::ALL.into_iter().filter(end).max_by_key(|unit| unit.ending().len());
            assert!(named.is_none_or(|unit| unit == it.unit), "{it:?} does not end with its unit");
            assert!(!it.meaning().is_empty(), "{it:?}");
            if let Some(other) = seen.insert(it.name, it) {
                assert_eq!(other.unit, it.unit, "{}", it.name);
            }
        }
    }

    #[test]
    fn scalars_of_one_name_agree_which_is_better() {
        let mut seen: BTreeMap<&str, Better> = BTreeMap::new();
        for it in groups().iter().flat_map(|group| &group.scalars) {
            let other = *seen.entry(it.name).or_insert(it.better);
            assert_eq!(other, it.better, "{}", it.name);
        }
    }

    #[test]
    fn no_place_has_a_name_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for group in groups() {
            for place in &group.places {
                for scalar in &group.scalars {
                    let is_new = seen.insert((group.of, group.about, place.clone(), scalar.name));
                    assert!(is_new, "{place}.{}", scalar.name);
                }
            }
        }
    }

    #[test]
    fn old_names_are_free_and_new_ones_are_declared() {
        let names: Vec<_> =
            groups().iter().flat_map(|group| group.scalars.clone()).map(|it| it.name).collect();
        for (old, new) in RENAMED {
            assert!(!names.contains(&old), "{old}");
            assert!(names.contains(&new), "{new}");
        }
    }

    #[test]
    fn places_are_found() {
        assert!(is_at("call.sctp.a.path10", "<flow>.sctp.<side>.path<n>"));
        assert!(!is_at("call.sctp.a.path", "<flow>.sctp.<side>.path<n>"));
        assert!(!is_at("call.sctp.a", "<flow>.sctp.<side>.path<n>"));
        assert_eq!(without_phase("run.phase_2.call.sent"), "call.sent");
        assert_eq!(without_phase("run.events"), "run.events");
    }
}
