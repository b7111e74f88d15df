//! `epoll`: descriptors that watch others. As in Linux, a watch is ready once its socket has been woken, or
//! had an event when it was added or changed; a wait tells what is so then, and with `EPOLLET` only once.

use super::events::{ALL, ERROR, HANG_UP, READ_HANG_UP, READABLE, URGENT, WRITABLE, names};
use super::{Role, TcpExecutor};
use crate::executor::{Reply, number};
use crate::script::{Call, Term};
use crate::verdict::{Step, Stop};

/// Events of `epoll`, and how they are told.
const EVENTS: [(&str, i64); 7] = [
    ("EPOLLERR", ERROR),
    ("EPOLLET", EDGE),
    ("EPOLLHUP", HANG_UP),
    ("EPOLLIN", READABLE),
    ("EPOLLOUT", WRITABLE),
    ("EPOLLPRI", URGENT),
    ("EPOLLRDHUP", READ_HANG_UP),
];
const EDGE: i64 = 1 << 31;

/// A socket that is watched.
#[derive(Debug)]
pub(super) struct Watch {
    descriptor: i64,
    /// The events that it is watched for, and `EPOLLET`.
    mask: i64,
    is_ready: bool,
}

impl Watch {
    /// The events that are told whatever was asked for are among them.
    const fn told(&self, events: i64) -> i64 {
        events & (self.mask | ERROR | HANG_UP) & !EDGE
    }
}

fn events(term: &Term) -> Step<i64> {
    let found = term.setting("events").and_then(|term| number(term, &EVENTS));
    found.ok_or_else(|| Stop::needs(format!("the events {term} of epoll")))
}

impl TcpExecutor {
    pub(super) fn epoll_create(&mut self, call: &Call) -> Step<Reply> {
        // Scripts may number descriptors as they like.
        let Some(descriptor) = call.result.number().filter(|number| *number >= 0) else {
            return Err(Stop::needs("a descriptor that cannot be opened"));
        };
        self.descriptors.entry(descriptor).or_default().role = Role::Watching(Vec::new());
        Ok(Reply::Returns(descriptor))
    }

    pub(super) fn epoll_ctl(&mut self, call: &Call) -> Step<Reply> {
        let [watcher, operation, descriptor, event] = &call.arguments[..] else {
            return Err(Stop::needs("epoll_ctl with other arguments"));
        };
        let descriptor = descriptor.number().unwrap_or(-1);
        let watcher = watcher.number().unwrap_or(-1);
        // What woke the socket until now is no event for a new watch.
        self.wake_watches();
        if !self.descriptors.contains_key(&descriptor) {
            return Ok(Reply::Error("EBADF"));
        }
        if event.setting("fd").is_some_and(|data| data.number() != Some(descriptor)) {
            return Err(Stop::needs("another number as what epoll is to tell"));
        }
        let ready = self.events(descriptor);
        let Some(watches) = self.watches(watcher) else { return Ok(Reply::Error("EINVAL")) };
        let place = watches.iter().position(|watch| watch.descriptor == descriptor);
        match (operation.word(), place) {
            (Some("EPOLL_CTL_ADD"), None) => {
                watches.push(Watch { descriptor, mask: events(event)?, is_ready: false });
            }
            (Some("EPOLL_CTL_ADD"), Some(_)) => return Ok(Reply::Error("EEXIST")),
            (Some("EPOLL_CTL_MOD"), Some(place)) => watches[place].mask = events(event)?,
            (Some("EPOLL_CTL_DEL"), Some(place)) => {
                watches.remove(place);
            }
            (Some("EPOLL_CTL_DEL" | "EPOLL_CTL_MOD"), None) => return Ok(Reply::Error("ENOENT")),
            _ => return Err(Stop::needs(format!("{operation} of epoll"))),
        }
        if let Some(watch) = watches.iter_mut().find(|watch| watch.descriptor == descriptor) {
            watch.is_ready |= watch.told(ready) != 0;
        }
        Ok(Reply::Returns(0))
    }

    /// Waits for events of one socket: scripts have one structure for what is told.
    pub(super) fn epoll_wait(&mut self, call: &Call) -> Step<Reply> {
        let [watcher, wanted, _, timeout] = &call.arguments[..] else {
            return Err(Stop::needs("epoll_wait with other arguments"));
        };
        let watcher = watcher.number().unwrap_or(-1);
        self.wake_watches();
        let Some(watches) = self.watches(watcher) else { return Ok(Reply::Error("EINVAL")) };
        let ready: Vec<i64> =
            watches.iter().filter(|watch| watch.is_ready).map(|watch| watch.descriptor).collect();
        if ready.len() > 1 {
            return Err(Stop::needs("events of several sockets at once"));
        }
        let mut told = 0;
        if let Some(&descriptor) = ready.first() {
            let now = self.events(descriptor);
            for watch in self.watches(watcher).into_iter().flatten() {
                if watch.descriptor == descriptor {
                    told = watch.told(now);
                    watch.is_ready = told != 0 && watch.mask & EDGE == 0;
                }
            }
        }
        if told == 0 && timeout.number() != Some(0) && call.result != Term::Number(0) {
            return Ok(Reply::Blocks);
        }
        let data = wanted.setting("fd").and_then(Term::number);
        let is_other = told != 0 && data.is_some_and(|data| data != ready[0]);
        if told != events(wanted)? || is_other {
            let seen = match ready.first() {
                Some(descriptor) if told != 0 => {
                    format!("{{events={}, fd={descriptor}}}", names(told, &EVENTS))
                }
                _ => "no event".into(),
            };
            return Err(Stop::failed(seen, "other events are told"));
        }
        Ok(Reply::Returns(i64::from(told != 0)))
    }

    fn watches(&mut self, watcher: i64) -> Option<&mut Vec<Watch>> {
        match &mut self.descriptors.get_mut(&watcher)?.role {
            Role::Watching(watches) => Some(watches),
            _ => None,
        }
    }

    /// Makes the watches ready whose socket has been woken for an event that they wait for.
    fn wake_watches(&mut self) {
        let mut woken = Vec::new();
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let events = std::mem::take(&mut connection.woken);
            if events == 0 {
                continue;
            }
            // Data that comes before the connection is accepted wakes nobody.
            let listener = connection.waits_at.filter(|_| events == ALL);
            let own = self.descriptors.iter().find_map(|(descriptor, socket)| {
                matches!(socket.role, Role::Connection(of) if of == index).then_some(*descriptor)
            });
            woken.extend(listener.or(own).map(|descriptor| (descriptor, events)));
        }
        for socket in self.descriptors.values_mut() {
            let Role::Watching(watches) = &mut socket.role else { continue };
            for watch in watches {
                watch.is_ready |= woken
                    .iter()
                    .any(|(descriptor, events)| *descriptor == watch.descriptor && watch.told(*events) != 0);
            }
        }
    }

    /// A closed descriptor is watched no more.
    pub(super) fn forget_watches(&mut self, descriptor: i64) {
        for socket in self.descriptors.values_mut() {
            if let Role::Watching(watches) = &mut socket.role {
                watches.retain(|watch| watch.descriptor != descriptor);
            }
        }
    }
}
