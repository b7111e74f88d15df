//! Which flow of a connection a statement is about, and how new flows begin: subflows that join, and
//! addresses that are announced (RFC 8684 sections 3.2 and 3.4).

use anabranch_transport::flow::PathId;
use anabranch_transport::time::{Duration, Time};

use super::connection::Connection;
use super::flow::Flow;
use crate::verdict::{Step, Stop};

/// The most paths of a connection.
const MOST_PATHS: usize = 8;
/// Linux announces addresses from a worker (`mptcp_worker`), which gets the processor once packetdrill waits
/// and not between statements that follow each other at once.
pub(super) const WORKER_DELAY: Duration = Duration::from_micros(100);

impl Connection {
    /// The flow between the addresses with these names; of several, the one on which the last packet came in,
    /// or else the newest.
    pub(super) fn place_of(&mut self, named: &[Option<String>; 2]) -> Step<usize> {
        let places = std::iter::once(self.current).chain((0..self.flows.len()).rev());
        let mut found = places.filter(|place| self.flows[*place].is_between(named));
        let place = found.next().ok_or_else(|| {
            let names: Vec<&str> = named.iter().flatten().map(String::as_str).collect();
            Stop::failed("nothing", format!("there is no flow at {}", names.join(" and ")))
        })?;
        self.flows[place].name(named);
        if place == 0 {
            self.told.name_first(&self.flows[0].addresses);
        }
        Ok(place)
    }

    /// Turns to a flow whose SYN has not been answered, which a SYN-ACK is about wherever the last packet
    /// came in.
    pub(super) fn turn_to_unanswered(&mut self) {
        if let Some(place) = self.flows.iter().position(|flow| flow.peer_first.is_none()) {
            self.current = place;
        }
    }

    /// The flow for a subflow that the peer opens between these addresses: a new one, or one whose last
    /// subflow is over.
    pub(super) fn place_for_join(&mut self, [own, peer]: [Option<String>; 2]) -> Step<usize> {
        let Some(end) = self.end.multipath() else {
            return Err(Stop::needs("a connection of MPTCP for MP_JOIN"));
        };
        let known = &self.flows[self.current].addresses;
        let addresses = [own.or_else(|| known[0].clone()), peer.or_else(|| known[1].clone())];
        let ports = self.flows[0].ports;
        let free = (0..self.flows.len())
            .find(|place| self.flows[*place].addresses == addresses && end.is_free(PathId(*place as u8)));
        let place = match free {
            Some(place) => {
                end.renew_path(PathId(place as u8));
                self.flows[place] = Flow::new(addresses.clone(), ports);
                place
            }
            None if self.flows.len() >= MOST_PATHS => {
                return Err(Stop::needs(format!("more than {MOST_PATHS} subflows")));
            }
            None => {
                let path = end.append_passive_path(self.mtu).map_err(Stop::needs)?;
                self.flows.push(Flow::new(addresses.clone(), ports));
                path.index()
            }
        };
        if let Some(identifier) = addresses[0].as_deref().and_then(|name| self.told.own_identifier(name)) {
            end.identify_address(PathId(place as u8), identifier);
        }
        Ok(place)
    }

    /// Tells the peer about the other addresses, as Linux does soon after the application has the connection
    /// (`mptcp_stream_accept`).
    pub(super) fn announce(&mut self, now: Time) {
        let signalled = self.endpoints.signalled;
        if let Some(end) = self.end.multipath().filter(|end| !end.has_fallen_back() && !end.is_over()) {
            (1..=signalled).for_each(|identifier| end.announce_address(now, identifier));
            self.drain(now);
        }
    }

    /// Opens subflows to addresses that the peer has announced, as far as that is allowed.
    pub(super) fn join_announced(&mut self, now: Time) {
        for (name, identifier) in self.told.take_announced() {
            let is_known = self.flows.iter().any(|flow| flow.addresses[1].as_ref() == Some(&name));
            let is_allowed = identifier > 0 && self.endpoints.accepted > 0 && self.flows.len() < MOST_PATHS;
            let Some(end) = self.end.multipath().filter(|end| end.is_opener()) else { continue };
            if is_known || !is_allowed {
                continue;
            }
            self.endpoints.accepted -= 1;
            if end.join_address(now, self.mtu, 0, None).is_ok() {
                let first = &self.flows[0];
                self.flows.push(Flow::new([first.addresses[0].clone(), Some(name)], first.ports));
            }
            self.drain(now);
        }
    }
}
