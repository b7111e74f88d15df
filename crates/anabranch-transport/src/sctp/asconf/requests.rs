//! Requests for changes of addresses, and their answers (RFC 5061 section 5).

use super::{Address, MAX_REQUESTS, Reconfiguration};
use crate::endpoint::Event;
use crate::flow::PathId;
use crate::path::{PathEvent, PathState, PathStatus};
use crate::sctp::association::Association;
use crate::sctp::failure::Strike;
use crate::time::Time;
use crate::wire::sctp::authentication::Hmac;
use crate::wire::sctp::chunk::{
    AddressChange, AddressError, AddressRequest, AddressResponse, Asconf, AsconfAck, Chunk, ErrorCause,
};
use crate::wire::{Body, Packet};

impl Association {
    /// Lets addresses come and go: the paths in `absent` are not part of the association at first.
    ///
    /// # Errors
    /// When the primary path is among them: one sentence.
    pub(in crate::sctp) fn let_addresses_change(&mut self, absent: &[PathId]) -> Result<(), String> {
        let primary = self.routing.selection.primary;
        if absent.contains(&primary) {
            let PathId(number) = primary;
            return Err(format!(
                "addresses: path {number} of the list is added later, but is primary at first; use another \
                 transport.primary_path"
            ));
        }
        let mut addresses = vec![Address::Present; self.routing.paths.len()];
        for path in absent {
            addresses[path.index()] = Address::Absent;
            self.forget_status(*path);
        }
        self.parts.is_any = true;
        self.parts.addresses = Some(Box::new(Reconfiguration {
            addresses,
            wanted: Vec::new(),
            outstanding: None,
            t4: Time::NEVER,
            // Section 5.1 A2: serial numbers begin with the initial TSN.
            next_serial: self.local.numbers.initial_tsn,
            next_correlation: 1,
            peer_serial: 0,
            last_ack: None,
            is_understood: true,
            hmac: Hmac::Sha1,
            chosen: self.routing.selection,
        }));
        Ok(())
    }

    /// Whether this path is part of the association.
    #[inline]
    pub(in crate::sctp) fn is_present(&self, path: PathId) -> bool {
        self.parts.addresses.as_ref().is_none_or(|addresses| addresses.is(path, Address::Present))
    }

    /// Whether the addresses of this path allow data on it.
    #[inline]
    pub(in crate::sctp) fn allows_data(&self, path: PathId) -> bool {
        self.parts.addresses.is_none() || self.is_present(path) && self.routing.status[path.index()].confirmed
    }

    /// The next path that is part of the association; `path` itself if there is no other.
    pub(in crate::sctp) fn next_present(&self, path: PathId) -> PathId {
        let count = self.routing.paths.len();
        (1..count)
            .map(|step| PathId(((path.index() + step) % count) as u8))
            .find(|&next| self.is_present(next))
            .unwrap_or(path)
    }

    /// The number of paths that are part of the association.
    pub(in crate::sctp) fn addresses(&self) -> u8 {
        self.routing.ids().filter(|&path| self.is_present(path)).count() as u8
    }

    /// Whether the association is open and both ends let addresses change.
    pub fn can_change_addresses(&self) -> bool {
        self.exchanges_asconf()
    }

    /// Whether this path is not part of the association and nothing waits there, so that another address may
    /// take its place.
    pub fn is_vacant(&self, path: PathId) -> bool {
        let is_absent = |addresses: &Reconfiguration| addresses.is(path, Address::Absent);
        self.parts.addresses.as_deref().is_some_and(is_absent) && self.sender.outstanding.on(path) == 0
    }

    /// Whether this path is part of the association.
    pub fn has_path(&self, path: PathId) -> bool {
        path.index() < self.routing.paths.len() && self.is_present(path)
    }

    /// Whether this packet may leave by the addresses of its path.
    #[cold]
    pub(in crate::sctp) fn may_leave(&self, packet: &Packet) -> bool {
        let (path, Body::Sctp(sctp)) = (packet.path, &packet.body) else { return true };
        let Some(addresses) = &self.parts.addresses else { return true };
        // Section 5.3 F1: ASCONF from an address that is being added, ASCONF-ACK to one that is not
        // verified; F6 where the path of an ASCONF is chosen.
        if matches!(sctp.first, Chunk::Auth(_)) {
            return true;
        }
        let is_probe = matches!(sctp.first, Chunk::Heartbeat(_) | Chunk::HeartbeatAck(_));
        let leaves =
            addresses.is(path, Address::Present) && (self.routing.status[path.index()].confirmed || is_probe);
        debug_assert!(leaves || !sctp.chunks().any(|chunk| matches!(chunk, Chunk::Data(_))));
        leaves
    }

    /// Applies the policy's choice: data is sent on paths that exist and are verified, or waits for one.
    #[cold]
    pub(in crate::sctp) fn keep_to_present_addresses(&mut self) {
        let chosen = self.routing.selection;
        let Some(addresses) = &mut self.parts.addresses else { return };
        addresses.chosen = chosen;
        let mut paths = addresses.paths();
        if self.allows_data(chosen.current) {
            return;
        }
        let rank = |path: &PathId| {
            let PathStatus { state, error_count, .. } = self.routing.status[path.index()];
            (state != PathState::Active, state == PathState::Inactive, *path != chosen.primary, error_count)
        };
        if let Some(path) = paths.clone().filter(|&path| self.allows_data(path)).min_by_key(rank) {
            self.routing.selection.current = path;
            return;
        }
        self.routing.selection.held = true;
        if !self.is_present(chosen.current)
            && let Some(path) = paths.find(|&path| self.is_present(path))
        {
            self.routing.selection.current = path;
        }
    }

    /// This end has one more address.
    #[cold]
    pub(in crate::sctp) fn add_address(&mut self, now: Time, path: PathId) {
        let Some(addresses) = &mut self.parts.addresses else { return };
        let Some(address) = addresses.addresses.get_mut(path.index()) else { return };
        match address {
            Address::Absent => {
                *address = Address::Adding;
                addresses.wanted.push((AddressChange::Add, path));
            }
            Address::Deleting => {
                let deletion = (AddressChange::Delete, path);
                match addresses.wanted.iter().position(|wanted| *wanted == deletion) {
                    // The deletion has not been asked for yet: the address stays, or its addition is still on
                    // its way.
                    Some(index) => {
                        addresses.wanted.remove(index);
                        if addresses.is_asked((AddressChange::Add, path)) {
                            addresses.addresses[path.index()] = Address::Adding;
                            return;
                        }
                        addresses.addresses[path.index()] = Address::Present;
                        self.routing.status[path.index()].state = PathState::Active;
                        self.send_heartbeat(now, path);
                        self.start_heartbeat_timer(now, path);
                    }
                    None => addresses.wanted.push((AddressChange::Add, path)),
                }
            }
            Address::Adding | Address::Present => return,
        }
        self.restart_additions();
        self.send_asconf(now);
    }

    /// Deletes this end's address.
    #[cold]
    pub(in crate::sctp) fn delete_address(&mut self, now: Time, path: PathId) {
        let Some(addresses) = &mut self.parts.addresses else { return };
        let Some(address) = addresses.addresses.get_mut(path.index()) else { return };
        match address {
            Address::Present => *address = Address::Deleting,
            Address::Adding => {
                let addition = (AddressChange::Add, path);
                if let Some(index) = addresses.wanted.iter().position(|wanted| *wanted == addition) {
                    // The addition has not been asked for yet.
                    addresses.wanted.remove(index);
                    *address = Address::Absent;
                    return;
                }
                *address = Address::Deleting;
            }
            Address::Deleting => {
                // The address had been added again, which has not been asked for yet: that is cancelled.
                let addition = (AddressChange::Add, path);
                addresses.wanted.retain(|wanted| *wanted != addition);
                return;
            }
            Address::Absent => return,
        }
        addresses.wanted.push((AddressChange::Delete, path));
        self.leave_path(now, path);
        self.send_asconf(now);
        self.send(now);
    }

    /// Asks the peer to send to this address from now on (section 5.4).
    #[cold]
    pub(in crate::sctp) fn set_peer_primary(&mut self, now: Time, path: PathId) {
        let Some(addresses) = &mut self.parts.addresses else { return };
        if matches!(addresses.addresses.get(path.index()), Some(Address::Adding | Address::Present)) {
            addresses.wanted.push((AddressChange::SetPrimary, path));
            self.send_asconf(now);
        }
    }

    /// Section 5.1 A1 to A4: asks for all that is wanted in one ASCONF, unless one is on its way.
    #[cold]
    pub(in crate::sctp) fn send_asconf(&mut self, now: Time) {
        if !self.exchanges_asconf() {
            return;
        }
        let Some(path) = self.asconf_path(None) else { return };
        let ip = self.local.ip;
        let Some(addresses) = &mut self.parts.addresses else { return };
        if addresses.outstanding.is_some() {
            return;
        }
        // Additions come first, so that no deletion is that of the last address (section 5.3 F5) and an
        // address exists before it becomes primary (section 5.4). `path` is an address that is present or
        // being added.
        addresses.wanted.sort_by_key(|(change, _)| match change {
            AddressChange::Add => 0,
            AddressChange::SetPrimary => 1,
            AddressChange::Delete | AddressChange::DeleteOthers => 2,
        });
        let count = addresses.wanted.len().min(MAX_REQUESTS);
        if count == 0 {
            return;
        }
        let next_correlation = &mut addresses.next_correlation;
        let requests = addresses.wanted.drain(..count).map(|(change, path)| {
            let correlation = *next_correlation;
            *next_correlation = correlation.wrapping_add(1);
            AddressRequest { correlation, change, path }
        });
        let (serial, requests) = (addresses.next_serial, requests.collect());
        let asconf = Asconf { serial, ip, requests, refused: Vec::new() };
        addresses.next_serial = addresses.next_serial.wrapping_add(1);
        addresses.outstanding = Some((asconf, path));
        self.transmit_asconf(now, path);
    }

    /// Whether the state allows ASCONF and ASCONF-ACK (section 5.1.1 C4) and the peer understands them.
    fn exchanges_asconf(&self) -> bool {
        self.state.takes_requests()
            && self.parts.addresses.as_ref().is_some_and(|addresses| addresses.is_understood)
    }

    /// The path of an ASCONF: that of data, another path that exists, or an address that is being added if
    /// there is no other (section 5.3 F1); never one that is being deleted (F6).
    fn asconf_path(&self, avoid: Option<PathId>) -> Option<PathId> {
        let addresses = self.parts.addresses.as_ref()?;
        addresses
            .paths()
            .filter(|&path| addresses.is(path, Address::Present) || addresses.is(path, Address::Adding))
            .min_by_key(|&path| {
                let PathStatus { confirmed, state, error_count, .. } = self.routing.status[path.index()];
                let is_added = addresses.is(path, Address::Present);
                let is_current = path == self.routing.selection.current;
                (
                    avoid == Some(path),
                    !is_added,
                    !confirmed,
                    state != PathState::Active,
                    !is_current,
                    error_count,
                )
            })
    }

    fn transmit_asconf(&mut self, now: Time, path: PathId) {
        let Some(addresses) = &mut self.parts.addresses else { return };
        let Some((asconf, last_path)) = &mut addresses.outstanding else { return };
        *last_path = path;
        let chunk = Chunk::Asconf(Box::new(asconf.clone()));
        self.stats.asconfs_sent += 1;
        self.transmit_authenticated(path, chunk);
        let t4 = self.deadline(now, self.routing.paths[path.index()].rtt.rto());
        if let Some(addresses) = &mut self.parts.addresses {
            addresses.t4 = t4;
        }
    }

    /// Sends an AUTH chunk and this one behind it (RFC 4895 section 6.2).
    fn transmit_authenticated(&mut self, path: PathId, chunk: Chunk) {
        let auth = Chunk::Auth(self.parts.addresses.as_ref().map_or(Hmac::Sha1, |addresses| addresses.hmac));
        let size = self.local.headers_bytes + auth.wire_size() + chunk.wire_size();
        let mut packet = None;
        self.add_chunk(&mut packet, auth);
        self.add_chunk(&mut packet, chunk);
        if let Some(packet) = packet {
            self.transmit(path, packet, size);
        }
    }

    /// T4-rto expired (section 5.1 B1 to B5).
    #[cold]
    pub(in crate::sctp) fn on_t4(&mut self, now: Time) {
        let Some(addresses) = &mut self.parts.addresses else { return };
        addresses.t4 = Time::NEVER;
        let Some((_, path)) = addresses.outstanding else { return };
        // B1 to B3.
        self.strike(now, path, Strike::Timeout);
        if !self.is_over() {
            // B4: the same chunk, on another path if possible.
            let next = self.asconf_path(Some(path)).unwrap_or(path);
            self.transmit_asconf(now, next);
        }
    }

    /// An ASCONF has arrived (section 5.2).
    #[cold]
    pub(in crate::sctp) fn on_asconf(&mut self, now: Time, from: PathId, asconf: &Asconf) {
        if !self.exchanges_asconf() {
            return;
        }
        let ip = self.local.ip;
        let Some(addresses) = &mut self.parts.addresses else { return };
        if asconf.serial == addresses.peer_serial {
            // E3: the answer was lost, so it is sent again.
            if let Some(ack) = addresses.last_ack.clone() {
                self.transmit_authenticated(from, Chunk::AsconfAck(Box::new(ack)));
            }
            return;
        }
        if asconf.serial != addresses.peer_serial.wrapping_add(1) {
            // E4: the request is stale or forged.
            return;
        }
        addresses.peer_serial = asconf.serial;
        let responses: Vec<AddressResponse> = asconf
            .requests
            .iter()
            .map(|request| AddressResponse {
                correlation: request.correlation,
                error: self.carry_out(now, from, *request),
            })
            .collect();
        // Section 5.1 A8: where no request failed, the answer need not mention them.
        let refused = asconf.refused.clone();
        let has_failed = !refused.is_empty() || responses.iter().any(|response| response.error.is_some());
        let responses = if has_failed { responses } else { Vec::new() };
        let ack = AsconfAck { serial: asconf.serial, ip, responses, refused };
        if let Some(addresses) = &mut self.parts.addresses {
            addresses.last_ack = Some(ack.clone());
        }
        self.transmit_authenticated(from, Chunk::AsconfAck(Box::new(ack)));
        // Section 5.3 F1: the path is verified before anything else is sent there.
        for request in asconf.requests.iter().filter(|request| request.change == AddressChange::Add) {
            self.verify_path(now, request.path);
        }
        self.send(now);
    }

    fn carry_out(&mut self, now: Time, from: PathId, request: AddressRequest) -> Option<AddressError> {
        let path = request.path;
        let addresses = self.parts.addresses.as_ref()?;
        let address = *addresses.addresses.get(path.index())?;
        match request.change {
            AddressChange::Add if address == Address::Absent => self.address_comes(path),
            AddressChange::Delete if address != Address::Absent => {
                // Section 5.3 F7 and F8.
                if address == Address::Present && addresses.count(Address::Present) == 1 {
                    return Some(AddressError::LastAddress);
                }
                if path == from {
                    return Some(AddressError::SourceAddress);
                }
                self.address_goes(now, path);
            }
            // Section 5.1 D8: the wildcard address.
            AddressChange::DeleteOthers => {
                if address != Address::Present {
                    return Some(AddressError::LastAddress);
                }
                for other in addresses.paths().filter(|other| *other != path).collect::<Vec<_>>() {
                    if !self.parts.addresses.as_ref().is_some_and(|own| own.is(other, Address::Absent)) {
                        self.address_goes(now, other);
                    }
                }
            }
            // Section 5.4: a request for an address that is not there changes nothing.
            AddressChange::SetPrimary if address == Address::Present => {
                self.on_path_event(now, PathEvent::PrimaryRequested(path));
            }
            _ => {}
        }
        None
    }

    /// An ASCONF-ACK has arrived (section 5.1 A5 to A8).
    #[cold]
    pub(in crate::sctp) fn on_asconf_ack(&mut self, now: Time, ack: &AsconfAck) {
        let Some(addresses) = &mut self.parts.addresses else { return };
        let Some((asconf, path)) = addresses.outstanding.take_if(|(asconf, _)| asconf.serial == ack.serial)
        else {
            // Section 5.3 F0: an answer to a request that was never made ends the association; an old answer
            // is ignored.
            let ahead = ack.serial.wrapping_sub(addresses.next_serial) < 1 << 31;
            if addresses.outstanding.is_none() && ahead {
                self.abort(now, ErrorCause::IllegalAsconfAck);
            }
            return;
        };
        addresses.t4 = Time::NEVER;
        self.routing.clear_errors(path);
        for AddressRequest { correlation, change, path } in asconf.requests {
            let response = ack.responses.iter().find(|response| response.correlation == correlation);
            let is_refused = ack.refused.iter().any(|refused| refused.correlation == correlation);
            let succeeded = !is_refused && response.is_none_or(|response| response.error.is_none());
            if !succeeded {
                self.outbox.emit(Event::AddressRefused(path));
            }
            match (change, succeeded) {
                (AddressChange::Add, true) => {
                    let is_wanted =
                        self.parts.addresses.as_ref().is_some_and(|a| a.is(path, Address::Adding));
                    // An address that has gone in the meantime is deleted next.
                    if is_wanted {
                        self.address_comes(path);
                        self.verify_path(now, path);
                    }
                }
                (AddressChange::Add, false) => self.set_address(path, Address::Absent),
                (AddressChange::Delete, true) => self.address_goes(now, path),
                // The peer continues to send there.
                (AddressChange::Delete, false)
                | (AddressChange::DeleteOthers | AddressChange::SetPrimary, _) => {}
            }
        }
        self.restart_additions();
        self.send_asconf(now);
        self.send(now);
    }

    /// An address that came back while its deletion was pending is added once the peer has answered, whether
    /// it has deleted the address or refused to.
    fn restart_additions(&mut self) {
        let Some(addresses) = &mut self.parts.addresses else { return };
        for index in 0..addresses.addresses.len() {
            let path = PathId(index as u8);
            if addresses.wanted.contains(&(AddressChange::Add, path))
                && !addresses.is_asked((AddressChange::Delete, path))
            {
                addresses.addresses[index] = Address::Adding;
            }
        }
    }

    pub(in crate::sctp) fn set_address(&mut self, path: PathId, address: Address) {
        if let Some(addresses) = &mut self.parts.addresses {
            addresses.addresses[path.index()] = address;
        }
    }
}
