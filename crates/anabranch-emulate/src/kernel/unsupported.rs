//! Settings that what runs a flow does not have, as sentences show them. Who knows a setting is declared
//! where the setting is, as `x-known-by` in its schema: a kernel, usrsctp, scripts of `drill`, or the advice
//! for people.

use anabranch_transport::path;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The value as a scenario writes it.
pub(super) fn shown(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Whether the description of a setting says that `who` knows it.
fn knows(setting: &Value, who: &str) -> bool {
    setting["x-known-by"].as_array().is_some_and(|known| known.iter().any(|other| other == who))
}

/// The first setting that `who` does not know; the standard's failover alone is always known.
pub(super) fn first_unknown<C: Serialize + JsonSchema>(config: &C, who: &str) -> Option<(String, Value)> {
    let given = serde_json::to_value(config).ok()?;
    let failover = serde_json::to_value(path::Config::default()).ok()?;
    let schema = schemars::schema_for!(C);
    let settings = schema.get("properties")?;
    let is_known =
        |key: &str, value: &Value| knows(&settings[key], who) || (key == "policy" && *value == failover);
    let unknown = given.as_object()?.iter().find(|(key, value)| !is_known(key, value))?;
    Some((unknown.0.clone(), unknown.1.clone()))
}

#[cfg(test)]
mod tests {
    use anabranch_transport::time::Duration;
    use anabranch_transport::{mptcp, quic, sctp, tcp, udp};

    use super::*;

    /// The settings of which `is_asked` is true, in the order of the schema.
    fn settings<C: JsonSchema>(is_asked: impl Fn(&Value) -> bool) -> Vec<String> {
        let schema = schemars::schema_for!(C);
        let properties = schema.get("properties").and_then(Value::as_object).expect("it has settings");
        properties.iter().filter(|(_, setting)| is_asked(setting)).map(|(key, _)| key.clone()).collect()
    }

    /// A new setting is in this list, or known to somebody: then the one who knows it must have it.
    #[test]
    fn settings_that_only_the_simulation_knows() {
        let alone = |setting: &Value| setting.get("x-known-by").is_none();
        let sctp = [
            "rto_alpha",
            "rto_beta",
            "rto_rule",
            "rto_backoff",
            "rtt_sampling",
            "clock_granularity",
            "hb_rule",
            "hb_period",
            "hb_after_timeout",
            "hb_after_failure",
            "path_verification",
            "sack_forward_tsn",
            "sack_path",
            "missing_reports",
            "missing_reports_per",
            "stream_scheduler",
            "interleaving",
            "bundling",
            "bundle_max",
            "send_on_timeout",
            "credit_abandoned",
            "deliver_overtaken",
        ];
        assert_eq!(settings::<sctp::Config>(alone), sctp);
        assert_eq!(settings::<tcp::Config>(alone), ["clock_granularity"]);
        assert_eq!(settings::<mptcp::Config>(alone), [""; 0]);
        assert_eq!(settings::<udp::Config>(alone), [""; 0]);
        let of_stacks =
            |setting: &Value| ["kernel", "usrsctp", "drill"].iter().any(|who| knows(setting, who));
        assert_eq!(settings::<quic::Config>(of_stacks), [""; 0], "no kernel has QUIC");
    }

    #[test]
    fn what_a_kernel_does_not_have_is_found() {
        let config =
            tcp::Config { clock_granularity: Some(Duration::from_millis(1)), ..tcp::Config::default() };
        let (key, _) = first_unknown(&config, "kernel").expect("no kernel has it");
        assert_eq!(key, "clock_granularity");
        let policy = sctp::Config { policy: Some(path::Config::default()), ..sctp::Config::default() };
        assert_eq!(first_unknown(&policy, "usrsctp"), None);
        assert_eq!(first_unknown(&sctp::Config::default(), "kernel"), None);
    }
}
