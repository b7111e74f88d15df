//! Settings that what runs a flow does not have, as sentences show them.

use anabranch_transport::{path, sctp};
use serde::Serialize;

/// The value as a scenario writes it.
pub(super) fn shown(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The first setting of SCTP that is not among these; the standard's failover alone is always known.
pub(super) fn first_unknown(config: &sctp::Config, known: &[&str]) -> Option<(String, serde_json::Value)> {
    let mut given = serde_json::to_value(config).unwrap_or_default();
    let given = given.as_object_mut()?;
    if config.policy == Some(path::Config::default()) {
        given.remove("policy");
    }
    let unknown = given.iter().find(|(key, _)| !known.contains(&key.as_str()));
    unknown.map(|(key, value)| (key.clone(), value.clone()))
}
