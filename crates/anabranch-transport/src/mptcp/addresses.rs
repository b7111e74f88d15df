//! Subflows on paths: joining, addresses that come and go, and backups (RFC 8684 sections 3.2, 3.3.8 and
//! 3.4).

use super::connection::{Connection, State};
use super::subflow::Subflow;
use crate::endpoint::{CloseReason, Command, Endpoint as _, Event, Input, Keeper as _, Output};
use crate::flow::{PathId, Side};
use crate::tcp::subflow::Phase;
use crate::time::Time;
use crate::wire::mptcp::Signal;

/// An announcement is sent at most this many times (Linux: `ADD_ADDR_RETRANS_MAX`).
const MOST_ANNOUNCEMENTS: u32 = 3;

/// An address of this end that the peer is told about until it confirms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announcement {
    address: u8,
    /// When it is announced again, and how often that has happened.
    pub(super) at: Time,
    count: u32,
}

impl Connection {
    /// Lets the addresses of side A come and go; these paths do not exist at first.
    ///
    /// # Errors
    /// One sentence, when no path exists at first.
    pub(super) fn let_addresses_change(&mut self, absent: &[PathId]) -> Result<(), String> {
        if absent.len() == self.subflows.len() {
            return Err("addresses: no path is there at first; leave one without `add`".into());
        }
        if self.side == Side::B {
            // The addresses of this end do not change.
            return Ok(());
        }
        self.addresses_change = true;
        for path in absent {
            self.subflows[path.index()].is_present = false;
        }
        Ok(())
    }

    /// Adds a path after the last one: see [`Endpoint::add_path`](crate::endpoint::Endpoint::add_path).
    ///
    /// # Errors
    /// One sentence, when the settings do not allow one more path.
    pub(super) fn append_path(&mut self, now: Time, mtu: u32) -> Result<PathId, String> {
        let path = self.append_passive_path(mtu)?;
        if self.is_opener {
            self.join(now, path.index());
        }
        Ok(path)
    }

    /// Adds a path after the last one on which the peer opens the subflow.
    ///
    /// # Errors
    /// One sentence, when the settings do not allow one more path.
    #[cold]
    pub fn append_passive_path(&mut self, mtu: u32) -> Result<PathId, String> {
        let path = self.subflows.len();
        self.site.mtus.push(mtu);
        if let Err(error) = self.parameters.check_paths(&self.site.mtus, self.ip) {
            self.site.mtus.pop();
            return Err(error);
        }
        let subflow = self.fresh_subflow(path);
        self.subflows.push(subflow);
        Ok(PathId(path as u8))
    }

    /// Opens a subflow to an address that the peer has announced, from the address of this end with
    /// identifier `own_address`, on a path after the last one.
    ///
    /// # Errors
    /// One sentence, when the settings do not allow one more path.
    pub fn join_address(
        &mut self,
        now: Time,
        mtu: u32,
        own_address: u8,
        port: Option<u16>,
    ) -> Result<PathId, String> {
        let path = self.append_passive_path(mtu)?;
        let subflow = &mut self.subflows[path.index()];
        subflow.own_address = own_address;
        if let Some(port) = port {
            subflow.tcp.set_peer_port(port);
        }
        self.join(now, path.index());
        self.follow_up(now);
        Ok(path)
    }

    fn fresh_subflow(&mut self, path: usize) -> Subflow {
        let mut subflow = self.site.subflow(&self.parameters, path);
        let (space, queue) = (self.parameters.space, self.parameters.send_queue);
        subflow.tcp.become_subflow(self.group.clone(), space, queue);
        if let Some(numbers) = &mut self.secret_numbers {
            subflow.tcp.draw_from(numbers.split_off());
        }
        subflow.is_present = !self.addresses_change;
        subflow
    }

    /// Whether this path has no subflow, so that the peer may open one.
    pub fn is_free(&self, path: PathId) -> bool {
        self.subflows.get(path.index()).is_some_and(|subflow| subflow.phase == Phase::Closed)
    }

    /// Makes a path without a subflow as if there had never been one, whatever ports the last one had.
    pub fn renew_path(&mut self, path: PathId) {
        if self.is_free(path) {
            let before = &self.subflows[path.index()];
            let (own_address, peer_address) = (before.own_address, before.peer_address);
            let mut fresh = self.fresh_subflow(path.index());
            (fresh.own_address, fresh.peer_address) = (own_address, peer_address);
            self.subflows[path.index()] = fresh;
        }
    }

    /// Sets the identifier of the address that this end has on a path, where it is not the number of the
    /// path.
    pub fn identify_address(&mut self, path: PathId, own_address: u8) {
        if path.index() < self.subflows.len() {
            let subflow = &mut self.subflows[path.index()];
            subflow.own_address = own_address;
        }
    }

    /// Tells the peer about an address of this end that has no path yet, until the peer confirms (RFC 8684
    /// section 3.4.1). [`Sending::announced`](crate::wire::bytes::Sending::announced) says which address it
    /// is. Call this when the connection is open.
    pub fn announce_address(&mut self, now: Time, address: u8) {
        self.announcements.push(Announcement { address, at: now, count: 0 });
        self.repeat_announcements(now);
    }

    /// Repeats the announcements that are due.
    pub(super) fn repeat_announcements(&mut self, now: Time) {
        let is_over = !matches!(self.state, State::Established);
        self.announcements.retain(|it| !is_over && (it.at > now || it.count <= MOST_ANNOUNCEMENTS));
        for index in 0..self.announcements.len() {
            if self.announcements[index].at > now {
                continue;
            }
            let Some(carrier) = self.best_subflow() else {
                // It waits for a subflow.
                self.announcements[index].at = Time::NEVER;
                continue;
            };
            let announcement = &mut self.announcements[index];
            announcement.at = now + self.subflows[carrier].tcp.rto();
            announcement.count += 1;
            let address = announcement.address;
            self.send_signal(now, carrier, Signal::AddAddress { address, is_echo: false, port: None });
        }
    }

    /// Announces what had to wait for a subflow; gives whether anything did.
    pub(super) fn announce_waiting(&mut self, now: Time) -> bool {
        let mut has_waited = false;
        for announcement in self.announcements.iter_mut().filter(|it| it.at.is_never()) {
            (announcement.at, has_waited) = (now, true);
        }
        if has_waited {
            self.repeat_announcements(now);
        }
        has_waited
    }

    /// Opens a subflow on each path that has none, now that the peer accepts them.
    pub(super) fn open_further(&mut self, now: Time) {
        for path in 0..self.subflows.len() {
            if self.is_opener && self.subflows[path].rejoin_at.is_never() {
                self.join(now, path);
            }
        }
    }

    /// Opens a subflow on this path (RFC 8684 section 3.2), if it has none and the peer would accept one.
    fn join(&mut self, now: Time, path: usize) {
        let may_join = self.state == State::Established && self.is_fully_established && !self.awaits_answer();
        let is_free = |subflow: &Subflow| subflow.is_present && subflow.phase == Phase::Closed;
        if may_join && is_free(&self.subflows[path]) {
            let nonce = self.draw() as u32;
            let subflow = &mut self.subflows[path];
            subflow.begin(true, true);
            subflow.nonces = [nonce, 0];
            subflow.tcp.handle_input(now, Input::Command(Command::Connect));
        }
    }

    /// Plans what follows the end of a subflow: another one takes its place later, if that is wanted, and a
    /// connection without any subflow is given up after some time.
    pub(super) fn plan_rejoin(&mut self, now: Time, path: usize) {
        let subflow = &mut self.subflows[path];
        if let Some(delay) = self.parameters.rejoin.filter(|_| self.is_opener && subflow.is_present) {
            subflow.rejoin_at = now + delay;
        }
        self.record_loneliness(now);
    }

    fn record_loneliness(&mut self, now: Time) {
        let is_alone =
            self.subflows.iter().all(|subflow| matches!(subflow.phase, Phase::Closed | Phase::Opening));
        if is_alone && self.is_through() {
            self.give_up(CloseReason::Shutdown);
        } else if is_alone && self.close_at.is_never() {
            self.close_at = now + self.parameters.close_timeout;
        }
    }

    pub(super) fn on_path_timers(&mut self, now: Time, path: usize) {
        let subflow = &mut self.subflows[path];
        if let Some(damage) = subflow.damage.filter(|_| subflow.confirm_at <= now) {
            subflow.confirm_at = Time::NEVER;
            self.on_no_answer(now, path, damage);
        } else if subflow.confirm_at <= now {
            // RFC 8684 section 3.2: the third segment is sent again until it is answered.
            subflow.confirm_at = now + subflow.tcp.rto();
            if subflow.phase == Phase::Open {
                self.acknowledge_on(now, path);
            } else {
                subflow.confirm_at = Time::NEVER;
            }
        }
        if self.subflows[path].rejoin_at <= now {
            self.subflows[path].rejoin_at = Time::NEVER;
            self.join(now, path);
        }
        if self.subflows[path].announce_at <= now {
            self.announce(now, path);
        }
    }

    /// Adds this end's address on this path: announces it to the peer, and opens a subflow.
    #[cold]
    pub(super) fn add_address(&mut self, now: Time, path: usize) {
        self.subflows[path].is_present = true;
        self.subflows[path].rejoin_at = Time::NEVER;
        self.subflows[path].announcements = 0;
        self.announce(now, path);
        self.join(now, path);
    }

    /// Announces an address until the peer has confirmed it (RFC 8684 section 3.4.1).
    fn announce(&mut self, now: Time, path: usize) {
        self.subflows[path].announce_at = Time::NEVER;
        if self.state != State::Established || self.subflows[path].announcements > MOST_ANNOUNCEMENTS {
            return;
        }
        self.subflows[path].announcements += 1;
        let address = self.subflows[path].own_address;
        let signal = Signal::AddAddress { address, is_echo: false, port: None };
        if let Some(carrier) = self.best_subflow() {
            self.subflows[path].announce_at = now + self.subflows[carrier].tcp.rto();
            self.send_signal(now, carrier, signal);
        }
    }

    /// Deletes this end's address on this path: nothing is sent from it any more.
    #[cold]
    pub(super) fn delete_address(&mut self, now: Time, path: usize) {
        let subflow = &mut self.subflows[path];
        subflow.is_present = false;
        subflow.announce_at = Time::NEVER;
        self.end_subflow(now, path);
        self.removed.push(path as u8);
        self.report_removed(now);
        self.outputs.push_back(Output::Event(Event::AddressDeleted(PathId(path as u8))));
    }

    /// Tells the peer which addresses have gone, once there is a subflow for it.
    pub(super) fn report_removed(&mut self, now: Time) {
        while !self.removed.is_empty()
            && let Some(carrier) = self.best_subflow()
        {
            let Some(path) = self.removed.pop() else { return };
            // An address that has come back since then is in use.
            let subflow = &self.subflows[usize::from(path)];
            if !subflow.is_present {
                let addresses = std::iter::once(subflow.own_address).collect();
                self.send_signal(now, carrier, Signal::RemoveAddress { addresses });
            }
        }
    }

    /// Ends a subflow without sending anything on it.
    fn end_subflow(&mut self, now: Time, path: usize) {
        self.subflows[path].tcp.vanish();
        if self.state == State::Established {
            self.drain(now, path);
        }
        self.subflows[path].rejoin_at = Time::NEVER;
        self.subflows[path].is_dirty = true;
    }

    /// Makes a path the primary one: others carry new data only while it cannot.
    pub(super) fn set_primary(&mut self, path: usize) {
        for (other, subflow) in self.subflows.iter_mut().enumerate() {
            subflow.is_backup = other != path;
        }
    }

    /// Asks the peer to use this path as its primary one, too (RFC 8684 section 3.3.8).
    pub(super) fn ask_for_primary(&mut self, now: Time, path: usize) {
        for other in 0..self.subflows.len() {
            self.subflows[other].asks_backup = other != path;
            self.report_priority(now, other);
        }
    }

    /// Tells the peer whether a subflow is to be a backup, unless that is what it was last told.
    pub(super) fn report_priority(&mut self, now: Time, path: usize) {
        let subflow = &mut self.subflows[path];
        let is_backup = subflow.asks_backup;
        if subflow.is_established() && std::mem::replace(&mut subflow.told_backup, is_backup) != is_backup {
            self.send_signal(now, path, Signal::Priority { is_backup });
        }
    }

    /// Sends a signal on an acknowledgement of its own.
    fn send_signal(&mut self, now: Time, carrier: usize, signal: Signal) {
        self.subflows[carrier].signal = Some(signal);
        self.subflows[carrier].tcp.acknowledge_now(now);
        self.drain(now, carrier);
    }

    /// Handles the peer's removal of the address with this identifier: subflows to it end.
    fn on_address_removed(&mut self, now: Time, address: u8) {
        for path in 0..self.subflows.len() {
            if self.subflows[path].peer_address == address {
                self.outputs.push_back(Output::Event(Event::AddressDeleted(PathId(path as u8))));
                self.end_subflow(now, path);
            }
        }
    }

    pub(super) fn on_signal(&mut self, now: Time, path: usize, signal: Signal) {
        match signal {
            Signal::AddAddress { address, is_echo, port } => {
                let is_path = usize::from(address) < self.subflows.len();
                if is_path {
                    self.outputs.push_back(Output::Event(Event::AddressAdded(PathId(address))));
                }
                if !is_echo {
                    self.send_signal(now, path, Signal::AddAddress { address, is_echo: true, port });
                    return;
                }
                self.announcements.retain(|announcement| announcement.address != address);
                if is_path {
                    self.subflows[usize::from(address)].announce_at = Time::NEVER;
                }
            }
            Signal::RemoveAddress { addresses } => {
                for address in addresses.iter() {
                    self.on_address_removed(now, address);
                }
            }
            Signal::Fail { position } => self.on_fail(now, path, position),
            Signal::FastClose => self.on_fast_close(now),
            Signal::Priority { is_backup } => self.subflows[path].is_asked_backup = is_backup,
        }
    }
}
