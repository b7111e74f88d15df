//! Settings of the system, as FreeBSD and Linux name them, and the settings of a profile to which they
//! correspond here.

use anabranch_transport::cc;
use anabranch_transport::cc::sctp::InitialWindow;
use anabranch_transport::sctp::{Config, Profile, procedures};
use anabranch_transport::time::Duration;
use anabranch_transport::units::Limit;

use crate::verdict::{Step, Stop};

/// The settings of a profile; if none is named, those of FreeBSD, whose branches of the scripts are run.
pub(super) fn profile(name: Option<&str>) -> Step<Config> {
    let profile = match name.unwrap_or("freebsd") {
        "freebsd" => return Ok(freebsd()),
        "freebsd_10" => Profile::FreeBsd10,
        "linux" => Profile::Linux,
        "ns2" => Profile::Ns2,
        "rfc2960" => Profile::Rfc2960,
        "rfc4960" => Profile::Rfc4960,
        "rfc9260" => Profile::Rfc9260,
        other => return Err(Stop::needs(format!("a profile of SCTP instead of {other}"))),
    };
    // Sockets use Nagle's algorithm until it is turned off (RFC 6458 section 8.1.5).
    Ok(Config { profile, nagle: Some(true), ..Config::default() })
}

/// FreeBSD 14: the profile of FreeBSD 10 with later changes, and with choices that RFC 9260 and RFC 3758
/// leave open and that no study has needed.
fn freebsd() -> Config {
    Config {
        profile: Profile::FreeBsd10,
        // net.inet.sctp.rto_initial, which is 3 s in FreeBSD 10.
        rto_initial: Some(Duration::from_secs(1)),
        cc: Some(congestion_control(3)),
        procedures: Some(procedures::Config {
            aborts_unreachable_peers: Some(true),
            aborts_on_unsent_tsn: Some(true),
            only_delivered_is_final: Some(true),
            bundles_forward_tsn: Some(true),
            first_sack_at_once: Some(true),
            gives_up_reported_data: Some(true),
            holds_back_writes: Some(true),
            names_address_types: Some(true),
            names_streams_by_chunk: Some(true),
            retransmits_before_forward_tsn: Some(true),
            ..Default::default()
        }),
        nagle: Some(true),
        ..Config::default()
    }
}

fn congestion_control(initial_window: u32) -> cc::Config {
    cc::Config::Sctp(cc::sctp::Config {
        initial_window: Some(InitialWindow::Segments(initial_window)),
        growth_needs_cumulative: Some(true),
        ..Default::default()
    })
}

/// Changes a setting of the system (`sysctl`).
pub(super) fn set(config: &mut Config, name: &str, value: &str) -> Step<()> {
    let needs = || Stop::needs(format!("the setting {name}={value}"));
    let key =
        name.strip_prefix("net.inet.sctp.").or_else(|| name.strip_prefix("net.sctp.")).ok_or_else(needs)?;
    let number: u64 = value.parse().map_err(|_| needs())?;
    match (key, number) {
        ("initial_cwnd", 1..) => {
            config.cc = Some(congestion_control(number as u32));
        }
        ("maxburst", 1..) => config.max_burst = Some(Limit::At(number as u32)),
        ("pr_enable" | "prsctp_enable", _) => config.partial_reliability = Some(number != 0),
        ("rto_initial", _) => config.rto_initial = Some(Duration::from_millis(number)),
        ("rto_min", _) => config.rto_min = Some(Duration::from_millis(number)),
        ("nr_sack_on_off" | "nrsack_enable" | "nrsack_on_off", _) => config.nr_sack = Some(number != 0),
        // Acknowledged data is never dropped here, but FreeBSD says of it that it might be.
        ("do_sctp_drain", _) => {
            let procedures = config.procedures.get_or_insert_default();
            procedures.only_delivered_is_final = Some(number != 0);
        }
        // Features that we lack, or that an association lacks which does not ask for them.
        ("asconf_enable" | "auth_enable" | "ecn_enable" | "pktdrop_enable" | "reconfig_enable", 0)
        | ("auth_disable", 1) => {}
        _ => return Err(needs()),
    }
    Ok(())
}
