//! System calls (RFC 6458).

use anabranch_live::Handle;
use anabranch_live::sctp::{Outbound, Refusal};
use anabranch_transport::endpoint::{Command, Reliability};
use anabranch_transport::sctp::Config;
use anabranch_transport::time::{Duration, Time};

use super::{FIRST_PORT, Known, REMOTE, Role, SERVER_PORT, SctpExecutor, Socket};
use crate::executor::{Reply, number};
use crate::script::{Call, Term, setting};
use crate::sockets;
use crate::verdict::{Step, Stop};

/// Flags of messages, with FreeBSD's numbers.
const MESSAGE_FLAGS: [(&str, i64); 1] = [("SCTP_UNORDERED", UNORDERED)];
const UNORDERED: i64 = 0x400;
/// Flags of received messages.
const RECEIVED_FLAGS: [(&str, i64); 1] = [("MSG_EOR", END_OF_RECORD)];
const END_OF_RECORD: i64 = 8;

/// The options of a message to send.
#[derive(Default)]
struct Manner {
    stream: u16,
    ppid: u32,
    unordered: bool,
    reliability: Reliability,
}

impl SctpExecutor {
    pub(super) fn system_call(&mut self, now: Time, call: &Call) -> Step<Reply> {
        let needs = || Stop::needs(format!("{} with other arguments", call.name));
        let argument = |index: usize| call.arguments.get(index).ok_or_else(needs);
        let whole = |index: usize| argument(index)?.number().ok_or_else(needs);
        let descriptor = if call.name == "socket" { -1 } else { whole(0)? };
        if call.name != "socket" && !self.sockets.contains_key(&descriptor) {
            return Ok(Reply::Error("EBADF"));
        }
        match call.name.as_str() {
            "accept" => Ok(self.accept(call, descriptor)),
            // The addresses are those that packetdrill uses.
            "bind" => Ok(Reply::Returns(0)),
            "close" => Ok(self.close(now, descriptor)),
            "connect" | "sctp_connectx" => self.connect(now, descriptor),
            "fcntl" => {
                let socket = self.sockets.get_mut(&descriptor).expect("it is there");
                sockets::fcntl(&mut socket.is_nonblocking, call)
            }
            "getsockopt" => self.getsockopt(call),
            "listen" => {
                let socket = self.sockets.get_mut(&descriptor).expect("it is there");
                socket.role = Role::Listening;
                let config = socket.config.clone();
                self.listen(&config)?;
                self.under_test.ports = [SERVER_PORT, FIRST_PORT];
                self.under_test.learns = true;
                Ok(Reply::Returns(0))
            }
            "read" => Ok(self
                .receive(now, descriptor, whole(2)?)
                .map_or_else(|reply| reply, |(_, read, _)| Reply::Returns(read))),
            "sctp_recvmsg" => self.receive_message(now, descriptor, call),
            "sctp_sendmsg" => {
                let manner = Manner {
                    stream: stream(argument(7)?).ok_or_else(needs)?,
                    ppid: ppid(argument(5)?).ok_or_else(needs)?,
                    unordered: number(argument(6)?, &MESSAGE_FLAGS).ok_or_else(needs)? & UNORDERED != 0,
                    reliability: match whole(8)? {
                        0 => Reliability::Reliable,
                        life => Reliability::Timed(Duration::from_millis(life as u64)),
                    },
                };
                Ok(self.send(now, descriptor, whole(2)?, &manner))
            }
            "sctp_sendv" => {
                let [_, buffers, _, _, _, info, _, kind, _] = &call.arguments[..] else {
                    return Err(needs());
                };
                if kind.word() != Some("SCTP_SENDV_SPA") {
                    return Err(needs());
                }
                let length =
                    buffers.parts().iter().map(|buffer| buffer.parts().get(1).and_then(Term::number));
                let length = length.sum::<Option<i64>>().ok_or_else(needs)?;
                Ok(self.send(now, descriptor, length, &manner(info)?))
            }
            "setsockopt" => self.setsockopt(now, call),
            "shutdown" => self.shut_down(now, descriptor, argument(1)?),
            "socket" => self.socket(call),
            "write" => Ok(self.send(now, descriptor, whole(2)?, &Manner::default())),
            other => Err(Stop::needs(format!("the system call {other}"))),
        }
    }

    fn socket(&mut self, call: &Call) -> Step<Reply> {
        if call.arguments.get(1).and_then(Term::word) != Some("SOCK_STREAM") {
            return Err(Stop::needs("a socket of another kind than SOCK_STREAM"));
        }
        // Scripts may number descriptors as they like.
        let Some(descriptor) = call.result.number().filter(|number| *number >= 0) else {
            return Err(Stop::needs("a socket that cannot be opened"));
        };
        let socket = Socket { role: Role::New, is_nonblocking: false, config: self.config.clone() };
        self.sockets.insert(descriptor, socket);
        Ok(Reply::Returns(descriptor))
    }

    pub(super) fn listen(&mut self, config: &Config) -> Step<()> {
        self.host.stop_listening(SERVER_PORT);
        self.host.listen(SERVER_PORT, config).map_err(Stop::needs)
    }

    fn connect(&mut self, now: Time, descriptor: i64) -> Step<Reply> {
        let socket = &self.sockets[&descriptor];
        let is_nonblocking = socket.is_nonblocking;
        if let Role::Association(id) = socket.role {
            let known = self.associations.entry(id).or_default();
            let (is_closed, is_connected) = (known.closed.is_some(), known.is_connected);
            return Ok(sockets::connect_again(&mut known.error, is_closed, is_connected, is_nonblocking));
        }
        let config = socket.config.clone();
        let opened = self.host.connect(now, &config, FIRST_PORT, &[(REMOTE, None)], SERVER_PORT);
        let id = opened.map_err(Stop::needs)?;
        self.associations.entry(id).or_default();
        self.sockets.get_mut(&descriptor).expect("it is there").role = Role::Association(id);
        self.under_test.ports = [FIRST_PORT, SERVER_PORT];
        self.under_test.learns = true;
        Ok(if is_nonblocking { Reply::Error("EINPROGRESS") } else { Reply::Blocks })
    }

    fn accept(&mut self, call: &Call, descriptor: i64) -> Reply {
        let Socket { is_nonblocking, ref config, .. } = self.sockets[&descriptor];
        let Some((&id, known)) = self.associations.iter_mut().find(|(_, known)| known.waits) else {
            return if is_nonblocking { Reply::Error("EAGAIN") } else { Reply::Blocks };
        };
        let Some(accepted) = call.result.number().filter(|number| *number >= 0) else {
            return Reply::Returns(0);
        };
        known.waits = false;
        self.under_test.learns = false;
        let socket = Socket { role: Role::Association(id), is_nonblocking: false, config: config.clone() };
        self.sockets.insert(accepted, socket);
        Reply::Returns(accepted)
    }

    fn close(&mut self, now: Time, descriptor: i64) -> Reply {
        let socket = self.sockets.remove(&descriptor).expect("it is there");
        match socket.role {
            Role::Association(id) => {
                let known = self.associations.entry(id).or_default();
                // Received data will not be read any more; and an association that is being opened is given
                // up (FreeBSD's `sctp_inpcb_free`).
                let aborts = !known.messages.is_empty() || !known.is_connected;
                let command = if aborts { Command::Abort } else { Command::Shutdown };
                self.host.command(now, id, command);
            }
            Role::Listening => {
                self.host.stop_listening(SERVER_PORT);
                let waiting: Vec<Handle> =
                    self.associations.iter().filter(|(_, known)| known.waits).map(|(id, _)| *id).collect();
                for id in waiting {
                    self.host.command(now, id, Command::Abort);
                }
            }
            Role::New => {}
        }
        Reply::Returns(0)
    }

    fn shut_down(&mut self, now: Time, descriptor: i64, how: &Term) -> Step<Reply> {
        let Some((id, known)) = self.known(descriptor) else { return Ok(Reply::Error("ENOTCONN")) };
        if known.closed.is_some() {
            return Ok(Reply::Error("ENOTCONN"));
        }
        match how.word() {
            Some("SHUT_WR" | "SHUT_RDWR") => {
                known.has_shut_down = true;
                self.host.command(now, id, Command::Shutdown);
            }
            Some("SHUT_RD") => {}
            _ => return Err(Stop::needs(format!("shutdown of {how}"))),
        }
        Ok(Reply::Returns(0))
    }

    /// The association of a descriptor.
    fn known(&mut self, descriptor: i64) -> Option<(Handle, &mut Known)> {
        match self.sockets[&descriptor].role {
            Role::Association(id) => Some((id, self.associations.entry(id).or_default())),
            _ => None,
        }
    }

    fn send(&mut self, now: Time, descriptor: i64, length: i64, manner: &Manner) -> Reply {
        let is_nonblocking = self.sockets[&descriptor].is_nonblocking;
        let Some((id, known)) = self.known(descriptor) else { return Reply::Error("ENOTCONN") };
        if let Some(error) = known.error.take() {
            return Reply::Error(error);
        }
        if known.has_shut_down || known.closed.is_some() {
            return Reply::Error("EPIPE");
        }
        let Manner { stream, ppid, unordered, reliability } = *manner;
        let bytes = vec![0; length.max(0) as usize];
        let message = Outbound { stream, ppid, unordered, reliability, bytes };
        match self.host.send(now, id, message) {
            Ok(_) => Reply::Returns(length),
            Err(Refusal::Closed) => Reply::Error("EPIPE"),
            Err(Refusal::Full(_)) if is_nonblocking => Reply::Error("EAGAIN"),
            Err(Refusal::Full(_)) => Reply::Blocks,
            Err(Refusal::Impossible) => Reply::Error("EINVAL"),
        }
    }

    /// Reads from the first message that has arrived: returns what describes the message, how many bytes were
    /// read, and whether that was all of it; or else what the call returns.
    fn receive(&mut self, now: Time, descriptor: i64, most: i64) -> Result<([u32; 4], i64, bool), Reply> {
        let is_nonblocking = self.sockets[&descriptor].is_nonblocking;
        let Some((id, known)) = self.known(descriptor) else { return Err(Reply::Error("ENOTCONN")) };
        let Some(message) = known.messages.front() else {
            return Err(match (known.error.take(), known.closed) {
                (Some(error), _) => Reply::Error(error),
                (None, Some(_)) => Reply::Returns(0),
                (None, None) if is_nonblocking => Reply::Error("EAGAIN"),
                (None, None) => Reply::Blocks,
            });
        };
        let about = [message.stream.into(), message.ppid, message.unordered.into(), message.tsn];
        let length = message.bytes.len();
        let read = (length - known.read).min(most.max(0) as usize);
        known.read += read;
        let is_end = known.read == length;
        if is_end {
            known.messages.pop_front();
            known.read = 0;
        }
        self.host.has_read(now, id, is_end.into(), read as u64);
        Ok((about, read as i64, is_end))
    }

    fn receive_message(&mut self, now: Time, descriptor: i64, call: &Call) -> Step<Reply> {
        let [_, _, most, _, _, info, flags] = &call.arguments[..] else {
            return Err(Stop::needs("sctp_recvmsg with other arguments"));
        };
        let most = most.number().ok_or_else(|| Stop::needs("sctp_recvmsg with another length"))?;
        let ([stream, ppid, unordered, tsn], read, is_end) = match self.receive(now, descriptor, most) {
            Ok(received) => received,
            Err(reply) => return Ok(reply),
        };
        let found_flags = if is_end { END_OF_RECORD } else { 0 };
        if *flags != Term::Any && number(flags, &RECEIVED_FLAGS) != Some(found_flags) {
            return Err(Stop::failed(format!("flags {found_flags}"), "the message has other flags"));
        }
        let ssn = self.under_test.ssns.get(&tsn).copied().unwrap_or(0);
        for term in info.parts() {
            let Term::Setting(key, wanted) = term else { return Err(Stop::needs("another sinfo")) };
            let (key, wanted) = (key.name().unwrap_or(""), &**wanted);
            if *wanted == Term::Any {
                continue;
            }
            let found = match key {
                "sinfo_stream" => stream.into(),
                "sinfo_ssn" => ssn.into(),
                "sinfo_flags" => i64::from(unordered) * UNORDERED,
                "sinfo_ppid" => ppid.into(),
                // These options are about messages to be sent.
                "sinfo_context" | "sinfo_timetolive" => 0,
                "sinfo_tsn" => tsn.into(),
                other => return Err(Stop::needs(format!("{other} of sctp_recvmsg"))),
            };
            let wanted = match key {
                "sinfo_ppid" => self::ppid(wanted).map(i64::from),
                _ => number(wanted, &MESSAGE_FLAGS),
            };
            if wanted != Some(found) {
                return Err(Stop::failed(format!("{key}={found}"), format!("{term} is wanted")));
            }
        }
        Ok(Reply::Returns(read))
    }
}

/// A payload protocol identifier. One that is not in network order is swapped, as on most machines.
fn ppid(term: &Term) -> Option<u32> {
    match term {
        Term::Call(name, terms) if name == "htonl" => Some(terms.first()?.number()? as u32),
        term => Some((term.number()? as u32).swap_bytes()),
    }
}

fn stream(term: &Term) -> Option<u16> {
    term.number().and_then(|number| number.try_into().ok())
}

/// The options of a message that `sctp_sendv` is called with (`struct sctp_sendv_spa`).
fn manner(info: &Term) -> Step<Manner> {
    let needs = || Stop::needs(format!("sctp_sendv with {info}"));
    let flags = info.setting("sendv_flags").map(Term::flags).ok_or_else(needs)?;
    let mut manner = Manner::default();
    for flag in flags {
        match flag {
            "SCTP_SEND_SNDINFO_VALID" => {
                let info = info.setting("sendv_sndinfo").ok_or_else(needs)?.parts();
                let field = |key: &str| setting(info, key).ok_or_else(needs);
                manner.stream = stream(field("snd_sid")?).ok_or_else(needs)?;
                manner.ppid = ppid(field("snd_ppid")?).ok_or_else(needs)?;
                let flags = number(field("snd_flags")?, &MESSAGE_FLAGS).ok_or_else(needs)?;
                manner.unordered = flags & UNORDERED != 0;
            }
            "SCTP_SEND_PRINFO_VALID" => {
                let info = info.setting("sendv_prinfo").ok_or_else(needs)?.parts();
                let policy = setting(info, "pr_policy").and_then(Term::word);
                let value = setting(info, "pr_value").and_then(Term::number).ok_or_else(needs)?;
                let value = u32::try_from(value).map_err(|_| needs())?;
                manner.reliability = match policy {
                    Some("SCTP_PR_SCTP_BUF") => Reliability::Priority(value),
                    Some("SCTP_PR_SCTP_NONE") => Reliability::Reliable,
                    Some("SCTP_PR_SCTP_RTX") => Reliability::LimitedRetransmissions(value),
                    Some("SCTP_PR_SCTP_TTL") => Reliability::Timed(Duration::from_millis(value.into())),
                    _ => return Err(needs()),
                };
            }
            _ => return Err(needs()),
        }
    }
    Ok(manner)
}
