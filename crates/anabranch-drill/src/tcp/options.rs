//! Socket options.

use anabranch_transport::tcp::config::Nagle;
use anabranch_transport::time::{Duration, Time};

use super::{Role, TcpExecutor};
use crate::executor::{Reply, number};
use crate::script::{Call, Term};
use crate::verdict::{Step, Stop};

/// Errors by number, as `SO_ERROR` has them.
const ERRORS: [(&str, i64); 8] = [
    ("ECONNABORTED", 103),
    ("ECONNREFUSED", 111),
    ("ECONNRESET", 104),
    ("EHOSTUNREACH", 113),
    ("EINPROGRESS", 115),
    ("ENETUNREACH", 101),
    ("EPIPE", 32),
    ("ETIMEDOUT", 110),
];

/// Level and name of an option, and its value if that is one number in brackets.
fn parts(call: &Call) -> Step<(i64, &str, &str, Option<&Term>)> {
    match &call.arguments[..] {
        [descriptor, level, name, value, ..] => {
            let (level, name) = (level.name().unwrap_or(""), name.name().unwrap_or(""));
            let level = match level {
                "IPPROTO_TCP" => "SOL_TCP",
                "IPPROTO_IP" => "SOL_IP",
                other => other,
            };
            Ok((descriptor.number().unwrap_or(-1), level, name, value.only()))
        }
        _ => Err(Stop::needs(format!("{} with other arguments", call.name))),
    }
}

impl TcpExecutor {
    pub(super) fn setsockopt(&mut self, now: Time, call: &Call) -> Step<Reply> {
        let (descriptor, level, name, value) = parts(call)?;
        if let Some(reply) = self.set_fast_open_option(descriptor, level, name, call) {
            return reply;
        }
        let value = value.and_then(|term| number(term, &[("IP_PMTUDISC_DONT", 0), ("IP_PMTUDISC_WANT", 1)]));
        let needs = || Stop::needs(format!("the socket option {name}"));
        let number = value.ok_or_else(needs)?;
        let Some(socket) = self.descriptors.get_mut(&descriptor) else { return Ok(Reply::Error("EBADF")) };
        let connection = match socket.role {
            Role::Connection(index) => Some(&mut self.connections[index]),
            _ => None,
        };
        let is_multipath = socket.settings.is_multipath;
        if is_multipath && level == "SOL_TCP" {
            return Err(Stop::needs(format!("the option {name} of a socket of MPTCP")));
        }
        match (level, name) {
            // Addresses are never in use here, and types of service and sizes of packets are for routers, of
            // which there are none.
            ("SOL_SOCKET", "SO_REUSEADDR") | ("SOL_IP", "IP_FREEBIND" | "IP_MTU_DISCOVER" | "IP_TOS") => {}
            ("SOL_SOCKET", "SO_SNDBUF") => {
                // Linux doubles it for its own overhead.
                let bytes = 2 * number.max(2_304) as u64;
                socket.settings.send_buffer = Some(bytes);
                if let Some(connection) = connection {
                    connection.limits = socket.settings.limits();
                }
            }
            ("SOL_SOCKET", "SO_RCVBUF") if connection.is_none() => {
                socket.settings.set_receive_buffer(2 * number as u64);
            }
            ("SOL_TCP", "TCP_NODELAY") => {
                socket.settings.has_no_delay = number != 0;
                if let Some(connection) = connection {
                    connection.clock(now);
                    connection.end.set_nagle(now, if number != 0 { Nagle::Off } else { Nagle::Minshall });
                    if number != 0 {
                        // Even corked data is sent.
                        connection.end.push_out(now);
                    }
                    connection.drain(now);
                }
            }
            ("SOL_TCP", "TCP_USER_TIMEOUT") => {
                let Some(connection) = connection else { return Err(needs()) };
                let timeout = Duration::from_millis(number as u64);
                connection.end.set_user_timeout((number > 0).then_some(timeout));
            }
            ("SOL_TCP", "TCP_CORK") => {
                let Some(connection) = connection else { return Err(needs()) };
                connection.clock(now);
                connection.end.set_corked(now, number != 0);
                connection.drain(now);
            }
            ("SOL_TCP", "TCP_NOTSENT_LOWAT") => {
                socket.settings.unsent_limit = Some(number as u64).filter(|bytes| *bytes > 0);
                if let Some(connection) = connection {
                    connection.limits.unsent = socket.settings.limits().unsent;
                }
            }
            ("SOL_TCP", "TCP_INQ") if matches!(number, 0 | 1) => socket.tells_unread = number != 0,
            ("SOL_TCP", "TCP_SYNCNT") => {
                socket.settings.set_syn_retries(number as u32);
                if let Some(connection) = connection {
                    connection.end.set_syn_retries(number as u32);
                }
            }
            ("SOL_TCP", "TCP_MAXSEG") if connection.is_none() => socket.settings.set_mss(number as u32),
            _ => return Err(needs()),
        }
        if matches!(socket.role, Role::Listening { .. }) {
            // Future connections inherit the option.
            let settings = socket.settings.clone();
            let (listener, port) = self.listen(&settings)?;
            self.descriptors.get_mut(&descriptor).expect("it is there").role =
                Role::Listening { listener, port };
        }
        Ok(Reply::Returns(0))
    }

    pub(super) fn getsockopt(&mut self, call: &Call) -> Step<Reply> {
        let (descriptor, level, name, wanted) = parts(call)?;
        let Some(socket) = self.descriptors.get(&descriptor) else { return Ok(Reply::Error("EBADF")) };
        let connection = match socket.role {
            Role::Connection(index) => Some(&mut self.connections[index]),
            _ => None,
        };
        let value = match (level, name) {
            ("SOL_SOCKET", "SO_ERROR") => {
                let error = connection.and_then(|connection| connection.error.take());
                error.map_or(Some(0), |name| {
                    ERRORS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
                })
            }
            ("SOL_TCP", "TCP_MAXSEG") => match connection {
                Some(connection) => Some(i64::from(connection.end.info().send_mss)),
                None => Some(socket.settings.max_segment.map_or(536, i64::from)),
            },
            ("SOL_TCP", "TCP_NOTSENT_LOWAT") => Some(socket.settings.unsent_limit.unwrap_or(0) as i64),
            ("SOL_TCP", "TCP_NODELAY") => Some(i64::from(socket.settings.has_no_delay)),
            ("SOL_SOCKET", "SO_SNDBUF") => socket.settings.send_buffer.map(|bytes| bytes as i64),
            _ => None,
        };
        let Some(value) = value else { return Err(Stop::needs(format!("the socket option {name}"))) };
        match wanted {
            None | Some(Term::Any) => {}
            Some(wanted) if number(wanted, &ERRORS) == Some(value) => {}
            Some(wanted) => {
                return Err(Stop::failed(format!("{name} is {value}"), format!("{name} is not {wanted}")));
            }
        }
        Ok(Reply::Returns(0))
    }
}
