//! The paths of a connection (RFC 10069): the addresses that its packets go between, which the endpoint knows
//! by numbers, the paths that are to be opened, and what is told of them.

use std::collections::VecDeque;
use std::net::IpAddr;

use anabranch_transport::flow::{PathId, Side};
use anabranch_transport::quic::{Connection, LivePath};
use anabranch_transport::time::Time;

use super::events::{HostEvent, PathChange};
use crate::route::{Route, source_for};

/// Path IDs of a connection with several paths, which are never used again, so that a peer costs no more
/// than the state of these.
pub(super) const MOST_PATHS: usize = 8;
/// Addresses of a client that a server remembers for each path: the present one, the one before it, and one
/// to which an answer to a challenge goes; and one that a packet comes from.
const MOST_HOSTS: usize = 3 * MOST_PATHS + 1;

/// The paths of a connection.
#[derive(Debug)]
pub(super) struct Paths {
    side: Side,
    /// The addresses by number, which of a client's packets is that of their pair of addresses
    /// ([`PathId`]), and of a server's that of the client's address. A server's have no port.
    known: Vec<Route>,
    /// Paths of a client that are to be opened, and whether they are backups.
    wanted: VecDeque<(Route, bool)>,
    /// What has been told of each path ID, and where it was.
    told: Vec<Option<(LivePath, Route)>>,
}

/// Refuses addresses of different versions of IP.
///
/// # Errors
/// One sentence.
pub(super) fn check_versions(Route { local, remote, .. }: Route) -> Result<(), String> {
    if local.is_ipv4() == remote.is_ipv4() {
        return Ok(());
    }
    Err(format!("a path from {local} to {remote} has two versions of IP; both must be of the same one"))
}

/// Where a number stands in the packets that the endpoint takes and gives.
pub(super) struct Numbered {
    pub(super) network: PathId,
    pub(super) client_host: u8,
}

impl Paths {
    pub(super) fn new(side: Side, route: Route) -> Self {
        let first = if side == Side::A { route } else { Route { port: None, ..route } };
        Self { side, known: vec![first], wanted: VecDeque::new(), told: Vec::new() }
    }

    /// The number of the addresses that a packet has come between. To a client, those that it does not know
    /// are the first ones; to a server, new ones take the place of some that are not in use.
    pub(super) fn number(&mut self, route: Route, end: &Connection) -> Numbered {
        if self.side == Side::A {
            let is_meant = |known: &Route| {
                let is_here = known.local == route.local || known.local.is_unspecified();
                is_here && (known.remote, known.port) == (route.remote, route.port)
            };
            let place = self.known.iter().position(is_meant).unwrap_or(0);
            return Numbered { network: PathId(place as u8), client_host: 0 };
        }
        let route = Route { port: None, ..route };
        let place = self.known.iter().position(|known| *known == route).unwrap_or_else(|| {
            let in_use: Vec<u8> = end.hosts_in_use().collect();
            let is_free = |place: &usize| !in_use.contains(&(*place as u8));
            let place = (0..MOST_HOSTS).find(is_free).unwrap_or_default().min(self.known.len());
            if place == self.known.len() {
                self.known.push(route);
            }
            self.known[place] = route;
            place
        });
        Numbered { network: PathId(0), client_host: place as u8 }
    }

    /// The addresses with these numbers, with the peer at this port.
    pub(super) fn route(&self, Numbered { network, client_host }: &Numbered, port: u16) -> Route {
        let place = if self.side == Side::A { network.index() } else { (*client_host).into() };
        let known = self.known.get(place).copied().unwrap_or(self.known[0]);
        Route { port: known.port.or(Some(port)), ..known }
    }

    /// Where a path is.
    pub(super) fn route_of(&self, path: &LivePath) -> Route {
        self.route(&Numbered { network: path.network, client_host: path.host }, path.port)
    }

    /// Wants a path of a client to be opened as soon as that is possible.
    ///
    /// # Errors
    /// When it is there, or too many are wanted: one sentence.
    pub(super) fn want(&mut self, route: Route, is_backup: bool, end: &Connection) -> Result<(), String> {
        let Route { local, remote, .. } = route;
        let mut open = end.live_paths().filter(|path| path.is_open).map(|path| self.route_of(&path));
        if open.any(|open| open == route) || self.wanted.iter().any(|(wanted, _)| *wanted == route) {
            return Err(format!("the connection has a path from {local} to {remote} already"));
        }
        if self.wanted.len() >= MOST_PATHS {
            return Err(format!("{MOST_PATHS} paths are waiting to be opened; there can be no more"));
        }
        self.wanted.push_back((route, is_backup));
        Ok(())
    }

    /// Opens the paths that are wanted, if the connection can have any now. Returns whether there are new
    /// ones.
    pub(super) fn open(&mut self, now: Time, end: &mut Connection, tell: &mut impl FnMut(HostEvent)) -> bool {
        if self.wanted.is_empty() {
            return false;
        }
        let why = match end.has_several_paths() {
            None => return false,
            Some(false) => "the other end does not use several paths",
            Some(true) if end.has_unused_path() => "",
            Some(true) => "the connection has used all of its path IDs",
        };
        if !why.is_empty() {
            let wanted = self.wanted.drain(..);
            wanted.for_each(|(route, _)| tell(HostEvent::PathRefused { route, why: why.to_owned() }));
            return false;
        }
        let before = self.known.len();
        while let Some(&(route, is_backup)) = self.wanted.front() {
            let number = PathId(self.known.len() as u8);
            if end.open_live_path(now, number, is_backup).is_none() {
                break;
            }
            self.known.push(route);
            self.wanted.pop_front();
        }
        self.known.len() > before
    }

    /// Tells what has changed with the paths.
    pub(super) fn tell(&mut self, end: &Connection, tell: &mut impl FnMut(HostEvent)) {
        for path in end.live_paths() {
            let place = path.path as usize;
            if self.told.len() <= place {
                self.told.resize(place + 1, None);
            }
            let route = self.route_of(&path);
            let mut say = |change| tell(HostEvent::Path { path: path.path, route, change });
            match self.told[place] {
                None if !path.is_open => continue,
                None => {
                    if place > 0 {
                        say(PathChange::Opened);
                    }
                    if place > 0 && path.is_validated {
                        say(PathChange::Validated);
                    }
                    if path.is_peers_backup {
                        say(PathChange::Status { is_backup: true });
                    }
                }
                Some((before, _)) if !path.is_open => {
                    if before.is_open {
                        say(PathChange::Abandoned);
                    }
                }
                Some((before, at)) => {
                    if path.is_validated && !before.is_validated {
                        say(PathChange::Validated);
                    }
                    if at != route {
                        say(PathChange::Moved);
                    }
                    if path.is_silent != before.is_silent {
                        say(if path.is_silent { PathChange::Silent } else { PathChange::Answers });
                    }
                    if path.is_peers_backup != before.is_peers_backup {
                        say(PathChange::Status { is_backup: path.is_peers_backup });
                    }
                }
            }
            self.told[place] = Some((path, route));
        }
    }

    /// The addresses of this end, a client, were some and are others now. Returns, of each pair of addresses
    /// that has changed, its number and whether the address is the same, so that the port alone has changed.
    pub(super) fn go_on_from(&mut self, before: &[IpAddr], addresses: &[IpAddr]) -> Vec<(PathId, bool)> {
        let mut moved = Vec::new();
        // Without any, there are sockets for all.
        let is_kept = |local: IpAddr| addresses.is_empty() || addresses.contains(&local);
        for (place, route) in self.known.iter_mut().enumerate() {
            let at = before.iter().position(|address| *address == route.local);
            let kept = Some(route.local).filter(|local| is_kept(*local));
            let next = kept.or_else(|| addresses.get(at?).copied());
            let local = next.unwrap_or_else(|| source_for(addresses, route.remote));
            let is_same_host = std::mem::replace(&mut route.local, local) == local;
            moved.push((PathId(place as u8), is_same_host));
        }
        moved
    }
}
