//! Translates a scenario's settings for usrsctp: to options of its program, or to a sentence that says what
//! the library lacks.
//!
//! A setting that is left out is the library's own affair, whatever the profile.

use anabranch_transport::sctp::Config;
use anabranch_transport::sctp::config::Buffer;
use anabranch_transport::time::Duration;
use anabranch_transport::units::Limit;
use serde::Serialize;

use super::unsupported::{first_unknown, shown};
use super::usrsctp::ProgramOptions;

/// The options of an end with these settings; `key` is their name in messages.
///
/// # Errors
/// A sentence about what the library does not have.
pub(super) fn read(key: &str, config: &Config) -> Result<ProgramOptions, String> {
    if let Some((name, value)) = first_unknown(config, "usrsctp") {
        return Err(refused(key, &name, &value, "usrsctp has no such setting here"));
    }
    let send_buffer = match config.send_buffer {
        Some(Buffer::At(size)) => Some(size.0),
        None => None,
        Some(Buffer::Off) => return Err(refused(key, "send_buffer", &"off", "usrsctp's has a size")),
    };
    let millis = |time: Duration| time.as_nanos() / 1_000_000;
    // The library's counter has 16 bits.
    let limit = |limit: Limit| match limit {
        Limit::At(most) => u64::from(most),
        Limit::Off => u16::MAX.into(),
    };
    // Without a limit on bursts there is none to set.
    let burst = |limit: Limit| limit.count().map_or(0, u64::from);
    let values = [
        ("rto_initial", config.rto_initial.map(millis)),
        ("rto_min", config.rto_min.map(millis)),
        ("rto_max", config.rto_max.map(millis)),
        ("valid_cookie_life", config.valid_cookie_life.map(millis)),
        ("association_max_retrans", config.association_max_retrans.map(limit)),
        ("path_max_retrans", config.path_max_retrans.map(u64::from)),
        ("pf_max_retrans", config.pf_max_retrans.map(limit)),
        ("max_init_retransmits", config.max_init_retransmits.map(u64::from)),
        ("max_init_timeout", config.max_init_timeout.map(millis)),
        ("hb_enabled", config.hb_enabled.map(u64::from)),
        ("hb_interval", config.hb_interval.map(millis)),
        ("hb_max_burst", config.hb_max_burst.map(u64::from)),
        ("max_burst", config.max_burst.map(burst)),
        ("sack_delay", config.sack_delay.map(millis)),
        ("sack_frequency", config.sack_frequency.map(u64::from)),
        ("send_buffer", send_buffer),
        ("receive_buffer", config.receive_buffer.map(|size| size.0)),
        ("streams", config.streams.map(u64::from)),
        ("max_inbound_streams", config.max_inbound_streams.map(u64::from)),
        ("nagle", config.nagle.map(u64::from)),
        ("partial_reliability", config.partial_reliability.map(u64::from)),
    ];
    let mut words = Vec::new();
    for (name, value) in values {
        let Some(value) = value else { continue };
        let Ok(value) = u32::try_from(value) else {
            return Err(refused(key, name, &value, "usrsctp has 32 bits for it"));
        };
        words.push(format!("{name}={value}"));
    }
    Ok(ProgramOptions { key: key.to_owned(), words })
}

fn refused(key: &str, name: &str, value: &impl Serialize, there_is: &str) -> String {
    format!("{key}.{name} = {}: {there_is}", shown(value))
}

#[cfg(test)]
mod tests {
    use anabranch_transport::path;

    use super::*;

    #[test]
    fn settings_become_words_in_the_units_of_the_library() {
        let config = Config {
            rto_max: Some(Duration::from_secs(2)),
            path_max_retrans: Some(0),
            pf_max_retrans: Some(Limit::Off),
            max_burst: Some(Limit::Off),
            nagle: Some(true),
            policy: Some(path::Config::default()),
            ..Config::default()
        };
        let expected =
            ["rto_max=2000", "path_max_retrans=0", "pf_max_retrans=65535", "max_burst=0", "nagle=1"];
        assert_eq!(read("flows.x.transport", &config).unwrap().words, expected);
    }

    #[test]
    fn what_the_library_lacks_is_a_sentence() {
        let of = |config: &Config| read("flows.x.transport", config).unwrap_err();
        let policies = path::Config::all().into_iter().filter(|policy| *policy != path::Config::default());
        for policy in policies {
            let said = of(&Config { policy: Some(policy), ..Config::default() });
            assert!(said.starts_with("flows.x.transport.policy = "), "{said}");
            assert!(said.ends_with("usrsctp has no such setting here"), "{said}");
        }
        let said = of(&Config { send_buffer: Some(Buffer::Off), ..Config::default() });
        assert_eq!(said, "flows.x.transport.send_buffer = \"off\": usrsctp's has a size");
    }
}
