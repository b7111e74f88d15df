//! Addresses that come and go while an association lives (RFC 5061), and what their changes are signed with
//! (RFC 4895).
//!
//! A path leads from an address of ours to one of the peer's. Each address of the peer has one, and each
//! address that this end adds gets one more, to the address of the peer that data goes to. When an address of
//! ours goes, its path goes with it; other paths that have left from there leave from another one from then
//! on.

use std::net::IpAddr;

use anabranch_transport::endpoint::{Command, Endpoint as _, Input, Multipath as _};
use anabranch_transport::flow::PathId;
use anabranch_transport::secret::Secret;
use anabranch_transport::time::Time;
use anabranch_transport::wire::sctp::authentication::{Hmac, association_key, own_key_vector};
use anabranch_transport::wire::sctp::chunk::{Chunk, Cookie};
use anabranch_transport::wire::{Body, Packet};

use super::association::Live;
use super::host::{Host, remove_address};
use crate::route::{Route, source_for, version};
use crate::table::Handle;

impl Live {
    /// Notes that a packet of this path has arrived at this address of ours.
    pub(super) fn record_arrival(&mut self, path: PathId, local: IpAddr) {
        if self.heard_at.len() <= path.index() {
            self.heard_at.resize(path.index() + 1, local);
        }
        self.heard_at[path.index()] = local;
    }

    /// Computes the key once both ends have sent their parameters: it follows from the key vector of the
    /// peer, which this packet has brought, and ours.
    pub(super) fn agree_on_key(&mut self, shared: &[u8], secret: &Secret, packet: &Packet, peers: &[u8]) {
        let Body::Sctp(sctp) = &packet.body else { return };
        let tag = match &sctp.first {
            Chunk::CookieEcho(cookie) => match &**cookie {
                Cookie::Own(cookie) => cookie.local_tag,
                Cookie::Foreign(_) => return,
            },
            _ => self.end.verification_tag(),
        };
        self.set_key(shared, secret, tag, peers);
    }

    pub(super) fn set_key(&mut self, shared: &[u8], secret: &Secret, tag: u32, peers: &[u8]) {
        let own = own_key_vector(secret, tag, Hmac::Sha256);
        self.key = [shared, &association_key(&own, peers)].concat();
    }

    /// The paths of the association that leave from this address of ours.
    fn paths_from(&self, address: IpAddr) -> Vec<PathId> {
        let paths = (0..self.routes.len() as u8).map(PathId);
        paths.filter(|path| self.end.has_path(*path) && self.local(*path) == address).collect()
    }

    /// The addresses of ours from which its paths leave.
    fn locals(&self) -> Vec<IpAddr> {
        let paths = (0..self.routes.len() as u8).map(PathId);
        paths.filter(|path| self.end.has_path(*path)).map(|path| self.local(path)).collect()
    }
}

impl Host {
    /// Adds an address of this end to an association (RFC 5061). Packets must be able to leave from it. What
    /// the peer says about it is told by [`HostEvent::AddressAdded`](super::HostEvent::AddressAdded) or
    /// [`HostEvent::AddressRefused`](super::HostEvent::AddressRefused).
    ///
    /// # Errors
    /// When the association or its peer does not let addresses change, or the address is not one that can be
    /// added: one sentence.
    pub fn add_address(&mut self, now: Time, id: Handle, address: IpAddr) -> Result<(), String> {
        let mtu = self.mtu();
        let live = self.changeable(id)?;
        if version(address) != version(live.routes[0].remote) {
            return Err(format!("address = {address} is of another version of IP than the association"));
        }
        if address.is_unspecified() || !live.paths_from(address).is_empty() {
            return Err(format!("address = {address} is part of the association already"));
        }
        let primary = live.end.primary_path();
        let Route { remote, port, .. } = live.routes[primary.index()];
        let Some(path) = live.room(&[]) else {
            return Err(format!("address = {address}: the association has as many addresses as it can have"));
        };
        let route = Route { local: address, remote, port };
        if path.index() == live.routes.len() {
            live.end.add_path(now, mtu)?;
            live.routes.push(route);
        } else {
            live.routes[path.index()] = route;
        }
        live.changing.insert(path);
        live.end.handle_input(now, Input::Command(Command::AddAddress(path)));
        self.drain(now, id, &[]);
        Ok(())
    }

    /// Takes an address of this end from an association (RFC 5061): nothing leaves from there any more.
    /// [`HostEvent::AddressDeleted`](super::HostEvent::AddressDeleted) tells when the peer has agreed.
    ///
    /// # Errors
    /// When the association or its peer does not let addresses change, it has no such address, or no other
    /// one: one sentence.
    pub fn remove_address(&mut self, now: Time, id: Handle, address: IpAddr) -> Result<(), String> {
        let live = self.changeable(id)?;
        let paths = live.paths_from(address);
        let others: Vec<IpAddr> = live.locals().into_iter().filter(|other| *other != address).collect();
        if paths.is_empty() {
            return Err(format!("address = {address} is no part of the association"));
        }
        if others.is_empty() {
            return Err(format!(
                "address = {address} is the only one of the association; add another one first"
            ));
        }
        // The one whose address at the peer has another path to it, if there is one.
        let is_spare = |path: &PathId| {
            let Route { remote, .. } = live.routes[path.index()];
            let all = (0..live.routes.len() as u8).map(PathId).filter(|other| live.end.has_path(*other));
            all.filter(|other| !paths.contains(other))
                .any(|other| live.routes[other.index()].remote == remote)
        };
        let gone = paths.iter().copied().find(is_spare).unwrap_or(paths[0]);
        for path in paths {
            let route = &mut live.routes[path.index()];
            route.local = if path == gone { address } else { source_for(&others, route.remote) };
        }
        live.changing.insert(gone);
        live.end.handle_input(now, Input::Command(Command::DeleteAddress(gone)));
        self.drain(now, id, &[]);
        Ok(())
    }

    /// Asks the peer of an association to send to this address of ours from now on (RFC 5061 section 5.1.2).
    ///
    /// # Errors
    /// When the association or its peer does not let addresses change, or it has no such address: one
    /// sentence.
    pub fn set_peer_primary(&mut self, now: Time, id: Handle, address: IpAddr) -> Result<(), String> {
        let live = self.changeable(id)?;
        let Some(&path) = live.paths_from(address).first() else {
            return Err(format!("address = {address} is no part of the association"));
        };
        live.routes[path.index()].local = address;
        live.changing.insert(path);
        live.end.handle_input(now, Input::Command(Command::SetPeerPrimary(path)));
        self.drain(now, id, &[]);
        Ok(())
    }

    fn changeable(&mut self, id: Handle) -> Result<&mut Live, String> {
        let live = self.table.get_mut(id).ok_or("the association is closed")?;
        if live.end.can_change_addresses() {
            Ok(live)
        } else {
            Err("addresses: the association is not open, or its peer does not let them change (RFC 5061)"
                .into())
        }
    }

    /// Makes paths for addresses that the peer asks to be added. They are not yet part of the association.
    pub(super) fn make_room(&mut self, now: Time, id: Handle, from: Route, new: &[(PathId, IpAddr)]) {
        let mtu = self.mtu();
        let Some(live) = self.table.get_mut(id) else { return };
        for &(path, remote) in new {
            let local = source_for(&self.settings.addresses, remote);
            let route = Route { local, remote, port: from.port };
            if path.index() < live.routes.len() {
                live.changing.remove(&path);
                live.routes[path.index()] = route;
            } else if live.end.add_path(now, mtu).is_ok() {
                live.routes.push(route);
            }
        }
    }

    /// Changes by which addresses a peer is found, after some have come or gone.
    pub(super) fn record_moves(&mut self, id: Handle) {
        let Some(live) = self.table.get(id) else { return };
        let [own, peers] = live.ports;
        for route in &live.routes {
            remove_address(&mut self.by_address, (route.remote, peers, own), id);
        }
        let present = (0..).map(PathId).zip(&live.routes).filter(|(path, _)| live.end.has_path(*path));
        for (_, route) in present {
            let ids = self.by_address.entry((route.remote, peers, own)).or_default();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
}
