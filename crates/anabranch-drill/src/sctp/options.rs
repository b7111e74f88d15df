//! Socket options (RFC 6458 section 8).

use anabranch_transport::sctp::Config;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Limit;

use super::{Role, SctpExecutor};
use crate::executor::{Reply, number};
use crate::script::{Call, Term};
use crate::verdict::{Step, Stop};

/// Errors by number, as `SO_ERROR` has them.
const ERRORS: [(&str, i64); 7] = [
    ("ECONNABORTED", 53),
    ("ECONNREFUSED", 61),
    ("ECONNRESET", 54),
    ("EHOSTUNREACH", 65),
    ("EINPROGRESS", 36),
    ("EPIPE", 32),
    ("ETIMEDOUT", 60),
];

/// Flags of `SCTP_PEER_ADDR_PARAMS`.
const ADDRESS_FLAGS: [(&str, i64); 4] =
    [("SPP_HB_DISABLE", 2), ("SPP_HB_ENABLE", 1), ("SPP_PMTUD_DISABLE", 16), ("SPP_PMTUD_ENABLE", 8)];

/// Descriptor, name and value of an option.
fn parts(call: &Call) -> Step<(i64, &str, &Term)> {
    match &call.arguments[..] {
        [descriptor, _, name, value, ..] => {
            Ok((descriptor.number().unwrap_or(-1), name.name().unwrap_or(""), value))
        }
        _ => Err(Stop::needs(format!("{} with other arguments", call.name))),
    }
}

impl SctpExecutor {
    pub(super) fn setsockopt(&mut self, now: Time, call: &Call) -> Step<Reply> {
        let (descriptor, name, value) = parts(call)?;
        let Some(socket) = self.sockets.get_mut(&descriptor) else { return Ok(Reply::Error("EBADF")) };
        set(&mut socket.config, name, value)?;
        let (role, config) = (socket.role, socket.config.clone());
        match role {
            Role::Association(id) => self.host.set_options(now, id, &config).map_err(Stop::needs)?,
            // Future associations inherit the option.
            Role::Listening => self.listen(&config)?,
            Role::New => {}
        }
        Ok(Reply::Returns(0))
    }

    pub(super) fn getsockopt(&mut self, call: &Call) -> Step<Reply> {
        let (descriptor, name, wanted) = parts(call)?;
        let Some(socket) = self.sockets.get(&descriptor) else { return Ok(Reply::Error("EBADF")) };
        let id = match socket.role {
            Role::Association(id) => Some(id),
            _ => None,
        };
        let has_no_delay = socket.config.nagle == Some(false);
        if name == "SCTP_STATUS" {
            let Some(id) = id else { return Ok(Reply::Error("EINVAL")) };
            return self.check_status(id, wanted);
        }
        let value = match name {
            "SO_ERROR" => {
                let error = id.and_then(|id| self.associations.get_mut(&id)?.error.take());
                error.map_or(Some(0), |name| number(&Term::Word(name.into()), &ERRORS))
            }
            "SCTP_NODELAY" => Some(i64::from(has_no_delay)),
            _ => None,
        };
        let Some(value) = value else { return Err(Stop::needs(format!("the socket option {name}"))) };
        match wanted.only() {
            None | Some(Term::Any) => {}
            Some(wanted) if number(wanted, &ERRORS) == Some(value) => {}
            Some(wanted) => {
                let error = ERRORS.iter().find(|(_, number)| *number == value).map(|(name, _)| *name);
                let value = error.map_or_else(|| value.to_string(), String::from);
                return Err(Stop::failed(format!("{name} is {value}"), format!("{name} is not {wanted}")));
            }
        }
        Ok(Reply::Returns(0))
    }

    /// `SCTP_STATUS`, of which the numbers of streams are known (RFC 6458 section 8.2.1).
    fn check_status(&self, id: anabranch_live::Handle, wanted: &Term) -> Step<Reply> {
        let Some(end) = self.host.endpoint(id) else { return Ok(Reply::Error("EINVAL")) };
        for term in wanted.parts() {
            let Term::Setting(key, value) = term else {
                if *term == Term::Any {
                    continue;
                }
                return Err(Stop::needs("another SCTP_STATUS"));
            };
            let key = key.name().unwrap_or("");
            let found = match key {
                _ if **value == Term::Any => continue,
                "sstat_instrms" => i64::from(end.inbound_streams()),
                "sstat_outstrms" => i64::from(end.outbound_streams()),
                "sstat_state" if value.word() == Some("SCTP_ESTABLISHED") => {
                    if self.associations[&id].is_connected && !end.is_closing() {
                        continue;
                    }
                    return Err(Stop::failed("it is not established", "the state is another one"));
                }
                other => return Err(Stop::needs(format!("{other} of SCTP_STATUS"))),
            };
            if value.number() != Some(found) {
                return Err(Stop::failed(format!("{key}={found}"), format!("{key} is not {value}")));
            }
        }
        Ok(Reply::Returns(0))
    }
}

/// Sets an option of a socket.
fn set(config: &mut Config, name: &str, value: &Term) -> Step<()> {
    let field = |key: &str| {
        let found = value.setting(key).and_then(Term::number).filter(|number| *number >= 0);
        found.map(|number| number as u64).ok_or_else(|| Stop::needs(format!("{name} with another {key}")))
    };
    // Zero leaves a time as it is.
    let time = |key: &str| field(key).map(|millis| (millis > 0).then(|| Duration::from_millis(millis)));
    match name {
        "SCTP_ASSOCINFO" => {
            match field("sasoc_asocmaxrxt")? {
                0 => {}
                most => config.association_max_retrans = Some(Limit::At(most as u32)),
            }
            if let Some(life) = time("sasoc_cookie_life")? {
                config.valid_cookie_life = Some(life);
            }
        }
        // Subscriptions to events other than data have no effect here.
        "SCTP_EVENTS" => {
            let is_on = |term: &&Term| {
                let Term::Setting(key, value) = term else { return true };
                key.name() != Some("sctp_data_io_event") && value.number() != Some(0)
            };
            if let Some(event) = value.parts().iter().find(is_on) {
                return Err(Stop::needs(format!("notifications ({event})")));
            }
        }
        "SCTP_INITMSG" => {
            match field("sinit_num_ostreams")? {
                0 => {}
                streams => config.streams = Some(streams as u16),
            }
            match field("sinit_max_instreams")? {
                0 => {}
                streams => config.max_inbound_streams = Some(streams as u16),
            }
            match field("sinit_max_attempts")? {
                0 => {}
                most => config.max_init_retransmits = Some(most as u32),
            }
            if let Some(most) = time("sinit_max_init_timeo")? {
                config.max_init_timeout = Some(most);
            }
        }
        "SCTP_NODELAY" => {
            let is_set = value.only().and_then(Term::number);
            config.nagle = Some(is_set.ok_or_else(|| Stop::needs("another SCTP_NODELAY"))? == 0);
        }
        "SCTP_PEER_ADDR_PARAMS" => {
            if let Some(interval) = time("spp_hbinterval")? {
                config.hb_interval = Some(interval);
            }
            match field("spp_pathmaxrxt")? {
                0 => {}
                most => config.path_max_retrans = Some(most as u32),
            }
            if field("spp_pathmtu")? != 0 {
                return Err(Stop::needs("SCTP_PEER_ADDR_PARAMS with a path MTU"));
            }
            let flags = value.setting("spp_flags").and_then(|flags| number(flags, &ADDRESS_FLAGS));
            let flags = flags.ok_or_else(|| Stop::needs("SCTP_PEER_ADDR_PARAMS with other flags"))?;
            match flags & 3 {
                0 => {}
                1 => config.hb_enabled = Some(true),
                2 => config.hb_enabled = Some(false),
                _ => return Err(Stop::needs("SCTP_PEER_ADDR_PARAMS with contradictory flags")),
            }
        }
        "SCTP_RTOINFO" => {
            if let Some(initial) = time("srto_initial")? {
                config.rto_initial = Some(initial);
            }
            if let Some(max) = time("srto_max")? {
                config.rto_max = Some(max);
            }
            if let Some(min) = time("srto_min")? {
                config.rto_min = Some(min);
            }
        }
        _ => return Err(Stop::needs(format!("the socket option {name}"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anabranch_transport::sctp;

    use super::*;
    use crate::declared::{given, settings_of_scripts};
    use crate::parser::parse;
    use crate::script::Action;
    use crate::sctp::settings;

    /// Sets an option as a script writes it.
    fn option(config: &mut Config, name: &str, value: &str) {
        let script = parse(&format!("0 setsockopt(3, IPPROTO_SCTP, {name}, {value}, 16) = 0"), &[]);
        let script = script.expect("it can be read");
        let Action::Call(call) = &script.statements[0].action else { panic!("it is a call") };
        set(config, name, parts(call).expect("it has a value").2).expect(name);
    }

    #[test]
    fn what_a_script_can_set_is_declared_at_the_setting() {
        let mut config = settings::profile(None).expect("it is a profile");
        for (name, value) in [
            ("maxburst", "4"),
            ("pr_enable", "1"),
            ("rto_initial", "1000"),
            ("rto_min", "1000"),
            ("nr_sack_on_off", "1"),
            ("initial_cwnd", "3"),
        ] {
            settings::set(&mut config, &format!("net.inet.sctp.{name}"), value).expect(name);
        }
        for (name, value) in [
            ("SCTP_ASSOCINFO", "{sasoc_asocmaxrxt=5, sasoc_cookie_life=60000}"),
            (
                "SCTP_INITMSG",
                "{sinit_num_ostreams=2, sinit_max_instreams=3, sinit_max_attempts=4, \
                 sinit_max_init_timeo=5000}",
            ),
            ("SCTP_NODELAY", "[1]"),
            (
                "SCTP_PEER_ADDR_PARAMS",
                "{spp_hbinterval=1000, spp_pathmaxrxt=2, spp_pathmtu=0, spp_flags=SPP_HB_ENABLE}",
            ),
            ("SCTP_RTOINFO", "{srto_initial=100, srto_max=200, srto_min=50}"),
        ] {
            option(&mut config, name, value);
        }
        assert_eq!(given(&config), settings_of_scripts::<sctp::Config>());
    }
}
