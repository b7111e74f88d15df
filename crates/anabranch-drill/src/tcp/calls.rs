//! System calls.

use anabranch_transport::endpoint::{CloseReason, Command};
use anabranch_transport::tcp::fast_open::Client;
use anabranch_transport::time::Time;

use super::connection::Connection;
use super::events::{ERROR, HANG_UP, READ_HANG_UP, READABLE, URGENT, WRITABLE, names};
use super::paths::WORKER_DELAY;
use super::writing::Manner;
use super::{Descriptor, Role, TcpExecutor, UnderTest};
use crate::executor::{Reply, number};
use crate::script::{Call, Term};
use crate::sockets;
use crate::verdict::{Step, Stop};

/// Flags of messages that are known here.
const MESSAGE_FLAGS: [(&str, i64); 6] = [
    ("MSG_DONTWAIT", DONTWAIT),
    ("MSG_EOR", EOR),
    ("MSG_FASTOPEN", FASTOPEN),
    ("MSG_MORE", MORE),
    ("MSG_NOSIGNAL", 0x4000),
    ("MSG_PEEK", 2),
];
pub(super) const DONTWAIT: i64 = 0x40;
pub(super) const FASTOPEN: i64 = 0x2000_0000;
const EOR: i64 = 0x80;
const MORE: i64 = 0x8000;
/// Events of `poll`.
const EVENTS: [(&str, i64); 6] = [
    ("POLLERR", ERROR),
    ("POLLHUP", HANG_UP),
    ("POLLIN", READABLE),
    ("POLLOUT", WRITABLE),
    ("POLLPRI", URGENT),
    ("POLLRDHUP", READ_HANG_UP),
];

impl TcpExecutor {
    pub(super) fn system_call(&mut self, now: Time, call: &Call) -> Step<Reply> {
        let argument = |index: usize| {
            call.arguments
                .get(index)
                .ok_or_else(|| Stop::needs(format!("{} with other arguments", call.name)))
        };
        let whole = |index: usize| {
            let found = argument(index)?.number();
            found.ok_or_else(|| Stop::needs(format!("{} with other arguments", call.name)))
        };
        match call.name.as_str() {
            "accept" => Ok(self.accept(now, call, whole(0)?)),
            "bind" => Ok(self.known(whole(0)?)),
            "close" => Ok(self.close(now, whole(0)?)),
            "connect" => self.connect_socket(now, whole(0)?),
            "epoll_create" | "epoll_create1" => self.epoll_create(call),
            "epoll_ctl" => self.epoll_ctl(call),
            "epoll_wait" => self.epoll_wait(call),
            "fcntl" => self.fcntl(whole(0)?, call),
            "getsockopt" => self.getsockopt(call),
            "ioctl" => self.ioctl(whole(0)?, call),
            "listen" => self.listen_at(whole(0)?, argument(1)?.number().unwrap_or(0)),
            "poll" => self.poll(now, call),
            "read" => self.receive(now, whole(0)?, argument(1)?, whole(2)?, 0),
            "recv" | "recvfrom" => {
                let flags = message_flags(argument(3)?)?;
                self.receive(now, whole(0)?, argument(1)?, whole(2)?, flags)
            }
            "send" | "sendto" => {
                let flags = message_flags(argument(3)?)?;
                let has_family = call.arguments.get(4).and_then(Term::word) != Some("AF_UNSPEC");
                if flags & FASTOPEN != 0 && !has_family {
                    return Ok(Reply::Error("EOPNOTSUPP"));
                }
                self.send(now, whole(0)?, argument(1)?, whole(2)?, flags)
            }
            "setsockopt" => self.setsockopt(now, call),
            "shutdown" => self.shut_down(now, whole(0)?, argument(1)?),
            "socket" => self.socket(call),
            "write" => self.send(now, whole(0)?, argument(1)?, whole(2)?, 0),
            "sendmsg" => {
                let flags = message_flags(argument(2)?)?;
                let length = vector_length(argument(1)?)?;
                self.send(now, whole(0)?, &Term::Any, length, flags)
            }
            "recvmsg" => {
                let flags = message_flags(argument(2)?)?;
                let length = vector_length(argument(1)?)?;
                let reply = self.receive(now, whole(0)?, &Term::Any, length, flags)?;
                if let Reply::Returns(_) = reply {
                    self.check_control(whole(0)?, argument(1)?)?;
                }
                Ok(reply)
            }
            other => Err(Stop::needs(format!("the system call {other}"))),
        }
    }

    fn known(&self, descriptor: i64) -> Reply {
        if self.descriptors.contains_key(&descriptor) { Reply::Returns(0) } else { Reply::Error("EBADF") }
    }

    /// The connection of a descriptor.
    fn of(&mut self, descriptor: i64) -> Option<(&mut Connection, bool)> {
        let socket = self.descriptors.get(&descriptor)?;
        match socket.role {
            Role::Connection(index) => Some((&mut self.connections[index], socket.is_nonblocking)),
            _ => None,
        }
    }

    fn socket(&mut self, call: &Call) -> Step<Reply> {
        let is_stream = call.arguments.get(1).is_some_and(|kind| kind.flags().contains(&"SOCK_STREAM"));
        if !is_stream {
            return Err(Stop::needs("a socket of another kind than SOCK_STREAM"));
        }
        // Scripts may number descriptors as they like.
        let Some(descriptor) = call.result.number().filter(|number| *number >= 0) else {
            return Err(Stop::needs("a socket that cannot be opened"));
        };
        let is_multipath = call.arguments.get(2).and_then(Term::word) == Some("IPPROTO_MPTCP");
        let mut settings = self.settings.clone();
        settings.is_multipath = is_multipath;
        let socket = Descriptor { settings, ..Descriptor::default() };
        self.descriptors.insert(descriptor, socket);
        Ok(Reply::Returns(descriptor))
    }

    fn listen_at(&mut self, descriptor: i64, backlog: i64) -> Step<Reply> {
        let bits = self.settings.fast_open.bits;
        let Some(socket) = self.descriptors.get_mut(&descriptor) else { return Ok(Reply::Error("EBADF")) };
        socket.settings.fast_open.listen(bits, backlog);
        let socket = &self.descriptors[&descriptor];
        let (listener, port) = self.listen(&socket.settings)?;
        self.descriptors.get_mut(&descriptor).expect("it is there").role = Role::Listening { listener, port };
        self.under_test = UnderTest::Listening(descriptor);
        Ok(Reply::Returns(0))
    }

    fn connect_socket(&mut self, now: Time, descriptor: i64) -> Step<Reply> {
        let Some(socket) = self.descriptors.get(&descriptor) else { return Ok(Reply::Error("EBADF")) };
        if matches!(socket.role, Role::Deferred) {
            return Ok(Reply::Error("EISCONN"));
        }
        if let Role::Connection(index) = socket.role {
            let is_nonblocking = socket.is_nonblocking;
            let connection = &mut self.connections[index];
            let (is_closed, is_connected) = (connection.closed.is_some(), connection.is_connected);
            let error = &mut connection.error;
            return Ok(sockets::connect_again(error, is_closed, is_connected, is_nonblocking));
        }
        let (settings, is_nonblocking) = (socket.settings.clone(), socket.is_nonblocking);
        let client = settings.fast_open.connects.then(|| self.client(&settings));
        if client.as_ref().is_some_and(Client::may_carry) {
            self.descriptors.get_mut(&descriptor).expect("it is there").role = Role::Deferred;
            return Ok(Reply::Returns(0));
        }
        let index = self.connect(now, &settings, client)?;
        self.descriptors.get_mut(&descriptor).expect("it is there").role = Role::Connection(index);
        self.under_test = UnderTest::Connection(index);
        Ok(if is_nonblocking { Reply::Error("EINPROGRESS") } else { Reply::Blocks })
    }

    fn accept(&mut self, now: Time, call: &Call, descriptor: i64) -> Reply {
        let Some(listening) = self.descriptors.get(&descriptor) else { return Reply::Error("EBADF") };
        let (is_nonblocking, settings) = (listening.is_nonblocking, listening.settings.clone());
        let ready =
            |connection: &Connection| connection.waits_at == Some(descriptor) && connection.is_connected;
        let Some(index) = self.connections.iter().position(ready) else {
            return if is_nonblocking { Reply::Error("EAGAIN") } else { Reply::Blocks };
        };
        let Some(accepted) = call.result.number().filter(|number| *number >= 0) else {
            return Reply::Returns(0);
        };
        self.connections[index].waits_at = None;
        self.connections[index].announce_at = now + WORKER_DELAY;
        let socket =
            Descriptor { role: Role::Connection(index), has_learnt: true, settings, ..Descriptor::default() };
        self.descriptors.insert(accepted, socket);
        Reply::Returns(accepted)
    }

    fn close(&mut self, now: Time, descriptor: i64) -> Reply {
        let Some(socket) = self.descriptors.remove(&descriptor) else { return Reply::Error("EBADF") };
        self.forget_watches(descriptor);
        if let Role::Connection(index) = socket.role {
            let connection = &mut self.connections[index];
            connection.is_orphan = true;
            // Unread data is a reason to reset (RFC 2525 section 2.17, RFC 9293 section 3.6); in SYN-SENT
            // there is nothing to close (section 3.10.4).
            let aborts = connection.available() > 0 || connection.end.info().state == "SYN-SENT";
            let command = if aborts { Command::Abort } else { Command::Shutdown };
            connection.end.close_reading(now);
            connection.command(now, command);
        } else if let Role::Listening { .. } = socket.role {
            // Linux, inet_csk_listen_stop: connections that nobody has accepted are reset.
            for connection in self.connections.iter_mut().filter(|one| one.waits_at == Some(descriptor)) {
                connection.waits_at = None;
                connection.forget(now);
            }
        }
        Reply::Returns(0)
    }

    fn shut_down(&mut self, now: Time, descriptor: i64, how: &Term) -> Step<Reply> {
        let Some((connection, _)) = self.of(descriptor) else { return Ok(Reply::Error("ENOTCONN")) };
        if connection.closed.is_some() {
            return Ok(Reply::Error("ENOTCONN"));
        }
        let (reads, writes) = match how.word() {
            Some("SHUT_RD") => (true, false),
            Some("SHUT_WR") => (false, true),
            Some("SHUT_RDWR") => (true, true),
            _ => return Err(Stop::needs(format!("shutdown of {how}"))),
        };
        connection.has_shut_reading |= reads;
        if writes && !connection.has_shut_down {
            connection.has_shut_down = true;
            connection.command(now, Command::Shutdown);
        }
        Ok(Reply::Returns(0))
    }

    fn fcntl(&mut self, descriptor: i64, call: &Call) -> Step<Reply> {
        let Some(socket) = self.descriptors.get_mut(&descriptor) else { return Ok(Reply::Error("EBADF")) };
        sockets::fcntl(&mut socket.is_nonblocking, call)
    }

    fn ioctl(&mut self, descriptor: i64, call: &Call) -> Step<Reply> {
        let Some((connection, _)) = self.of(descriptor) else { return Ok(Reply::Error("EBADF")) };
        let info = connection.end.info();
        let name = call.arguments.get(1).and_then(Term::word).unwrap_or("");
        let value = match name {
            // Linux also counts the FIN once everything before it has been read.
            "SIOCINQ" | "FIONREAD" => connection.available(),
            "SIOCOUTQ" => info.unacknowledged,
            "SIOCOUTQNSD" => info.unsent,
            other => return Err(Stop::needs(format!("the request {other} of ioctl"))),
        };
        let wanted = call.arguments.get(2).and_then(Term::only).and_then(Term::number);
        if wanted.is_some_and(|wanted| wanted != value as i64) {
            return Err(Stop::failed(format!("{name} is {value}"), format!("{name} is something else")));
        }
        Ok(Reply::Returns(0))
    }

    fn receive(&mut self, now: Time, descriptor: i64, buffer: &Term, most: i64, flags: i64) -> Step<Reply> {
        let waits = flags & DONTWAIT == 0;
        let socket = self.descriptors.get(&descriptor);
        if let Some(Descriptor { role: Role::Deferred, is_nonblocking, .. }) = socket {
            return Ok(if *is_nonblocking || !waits { Reply::Error("EAGAIN") } else { Reply::Blocks });
        }
        let Some((connection, is_nonblocking)) = self.of(descriptor) else {
            return Ok(Reply::Error(if self.descriptors.contains_key(&descriptor) {
                "ENOTCONN"
            } else {
                "EBADF"
            }));
        };
        if flags & 2 != 0 {
            return Err(Stop::needs("MSG_PEEK"));
        }
        if most == 0 {
            return Ok(Reply::Returns(0));
        }
        if connection.available() > 0 {
            if buffer.word() == Some("NULL") {
                return Ok(Reply::Error("EFAULT"));
            }
            return Ok(Reply::Returns(connection.read(now, most.max(0) as u64) as i64));
        }
        if connection.end.info().peer_has_finished || connection.has_shut_reading {
            return Ok(Reply::Returns(0));
        }
        if let Some(error) = connection.error.take() {
            return Ok(Reply::Error(error));
        }
        if connection.has_reached_end() {
            return Ok(Reply::Returns(0));
        }
        Ok(if is_nonblocking || !waits { Reply::Error("EAGAIN") } else { Reply::Blocks })
    }

    /// Compares the control messages that come with what was read.
    fn check_control(&mut self, descriptor: i64, message: &Term) -> Step<()> {
        let tells = self.descriptors.get(&descriptor).is_some_and(|socket| socket.tells_unread);
        // Linux, tcp_inq_hint: the FIN counts as long as it has not been read.
        let left = self.of(descriptor).filter(|_| tells).map(|(connection, _)| {
            connection.available() + u64::from(connection.end.info().peer_has_finished)
        });
        let wanted = message.setting("msg_control").map_or(&[][..], Term::parts);
        let is_inq = |control: &Term| {
            control.setting("cmsg_level").and_then(Term::word) == Some("SOL_TCP")
                && control.setting("cmsg_type").and_then(Term::word) == Some("TCP_CM_INQ")
        };
        if !wanted.iter().all(is_inq) {
            return Err(Stop::needs("control messages"));
        }
        let data = |control: &Term| control.setting("cmsg_data").and_then(Term::number);
        let wanted: Vec<_> = wanted.iter().map(data).collect();
        let seen: Vec<_> = left.iter().map(|left| Some(*left as i64)).collect();
        if wanted == seen {
            return Ok(());
        }
        let seen = left.map_or("no control message".into(), |left| format!("TCP_CM_INQ is {left}"));
        Err(Stop::failed(seen, "other control messages come"))
    }

    fn send(&mut self, now: Time, descriptor: i64, buffer: &Term, length: i64, flags: i64) -> Step<Reply> {
        if let Some(reply) = self.send_fast(now, descriptor, buffer, length, flags)? {
            return Ok(reply);
        }
        Ok(self.send_on(now, descriptor, buffer, length, flags))
    }

    fn send_on(&mut self, now: Time, descriptor: i64, buffer: &Term, length: i64, flags: i64) -> Reply {
        let Some((connection, is_nonblocking)) = self.of(descriptor) else {
            return Reply::Error(if self.descriptors.contains_key(&descriptor) { "EPIPE" } else { "EBADF" });
        };
        if let Some(error) = connection.error.take() {
            return Reply::Error(error);
        }
        if connection.has_shut_down || connection.closed.is_some() {
            return Reply::Error("EPIPE");
        }
        let waits = !is_nonblocking && flags & DONTWAIT == 0;
        if !connection.is_connected {
            return if waits { Reply::Blocks } else { Reply::Error("EAGAIN") };
        }
        if buffer.word() == Some("NULL") && length > 0 {
            return Reply::Error("EFAULT");
        }
        let done = match connection.waiting_write {
            Some(done) if !connection.is_writable() => {
                connection.waiting_write = Some(done);
                return Reply::Blocks;
            }
            waiting => waiting.unwrap_or(0),
        };
        connection.clock(now);
        if flags & EOR != 0 && connection.end.is_multipath() {
            return Reply::Error("EOPNOTSUPP");
        }
        let manner = Manner { more: flags & MORE != 0, is_record: flags & EOR != 0 };
        let done = done + connection.write_some(now, (length as u64).saturating_sub(done), manner);
        connection.lacks_space |= done < length as u64;
        if waits && done < length as u64 {
            connection.waiting_write = Some(done);
            return Reply::Blocks;
        }
        connection.waiting_write = None;
        if done == 0 && length > 0 { Reply::Error("EAGAIN") } else { Reply::Returns(done as i64) }
    }

    /// Polls one or several descriptors: compares the events, and returns how many descriptors have any.
    fn poll(&mut self, _now: Time, call: &Call) -> Step<Reply> {
        let [Term::List(entries), _, timeout] = &call.arguments[..] else {
            return Err(Stop::needs("poll with other arguments"));
        };
        let events = |entry: &Term, key: &str| {
            entry
                .setting(key)
                .and_then(|term| number(term, &EVENTS))
                .ok_or_else(|| Stop::needs("other events of poll"))
        };
        let mut ready = 0;
        let mut seen = Vec::new();
        let mut differs = false;
        for entry in entries {
            let descriptor = entry.setting("fd").and_then(Term::number).unwrap_or(-1);
            let now = self.events(descriptor) & (events(entry, "events")? | ERROR | HANG_UP);
            ready += i64::from(now != 0);
            differs |= now != events(entry, "revents")?;
            seen.push(format!("{{fd={descriptor}, revents={}}}", names(now, &EVENTS)));
        }
        if ready == 0 && timeout.number() != Some(0) && call.result != Term::Number(0) {
            return Ok(Reply::Blocks);
        }
        if differs {
            return Err(Stop::failed(seen.join(", "), "other events are ready"));
        }
        Ok(Reply::Returns(ready))
    }

    /// The events that are ready at a descriptor.
    pub(super) fn events(&mut self, descriptor: i64) -> i64 {
        let accepts = self.connections.iter().any(|one| one.waits_at == Some(descriptor) && one.is_connected);
        if self.descriptors.get(&descriptor).is_some_and(|socket| matches!(socket.role, Role::Deferred)) {
            // A write makes the SYN leave.
            return WRITABLE;
        }
        let Some((connection, _)) = self.of(descriptor) else { return if accepts { READABLE } else { 0 } };
        let info = connection.end.info();
        let mut events = 0;
        let is_over = connection.closed.is_some_and(|reason| reason != CloseReason::Shutdown);
        if connection.available() > 0 || info.peer_has_finished || connection.has_shut_reading || is_over {
            events |= READABLE;
        }
        if info.peer_has_finished || connection.has_shut_reading {
            events |= READ_HANG_UP;
        }
        if connection.closed.is_some() || (connection.has_shut_down && info.peer_has_finished) {
            events |= HANG_UP;
        }
        if connection.error.is_some() {
            events |= ERROR;
        }
        // If nothing more can be written, the application learns that at once.
        let is_writable = connection.is_connected && connection.is_writable();
        if is_writable || connection.has_shut_down || connection.closed.is_some() {
            events |= WRITABLE;
        } else {
            connection.lacks_space |= connection.is_connected;
        }
        events
    }
}

/// The flags of a message; an unknown flag stops the script.
fn message_flags(term: &Term) -> Step<i64> {
    number(term, &MESSAGE_FLAGS).ok_or_else(|| {
        let what = match term.flags() {
            flags if flags.iter().any(|flag| flag.contains("ZEROCOPY")) => "zero copy".into(),
            _ => format!("the flags {term}"),
        };
        Stop::needs(what)
    })
}

/// Bytes of the buffers of a `struct msghdr`.
fn vector_length(message: &Term) -> Step<i64> {
    let vector = message.setting("msg_iov").ok_or_else(|| Stop::needs("a message without buffers"))?;
    let mut length = 0;
    for buffer in vector.parts() {
        length += buffer.parts().get(1).and_then(Term::number).unwrap_or(0);
    }
    Ok(length)
}
