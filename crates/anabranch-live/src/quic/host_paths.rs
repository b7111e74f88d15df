//! What an application does with the paths of a connection (RFC 10069).

use std::net::IpAddr;

use anabranch_transport::endpoint::{Endpoint as _, Input};
use anabranch_transport::quic::{Connection, LivePath};
use anabranch_transport::time::Time;

use super::host::Host;
use super::paths::check_versions;
use crate::route::Route;
use crate::table::Handle;

impl Host {
    /// Opens another path of a connection that this end has opened, as soon as both ends can.
    /// [`HostEvent::Path`](super::HostEvent::Path) or
    /// [`HostEvent::PathRefused`](super::HostEvent::PathRefused) says what comes of it.
    ///
    /// # Errors
    /// When there can be no such path: one sentence.
    pub fn add_path(
        &mut self,
        now: Time,
        number: Handle,
        route: Route,
        is_backup: bool,
    ) -> Result<(), String> {
        check_versions(route)?;
        if self.table.is_accepted(number) {
            return Err("the end that has opened the connection opens its paths".into());
        }
        let live = self.living(number).map_err(|_| "the connection is over")?;
        if !live.end.wants_several_paths() {
            return Err("the connection uses one path; further ones need multipath = true".into());
        }
        live.paths.want(route, is_backup, &live.end)?;
        self.use_address(route.local);
        self.drain(now, number);
        Ok(())
    }

    /// An address of this end is used, for which there is a socket.
    pub(super) fn use_address(&mut self, local: IpAddr) {
        let addresses = &mut self.settings.addresses;
        // Without any, there are sockets for all.
        if !addresses.is_empty() && !local.is_unspecified() && !addresses.contains(&local) {
            addresses.push(local);
        }
    }

    /// Gives a path up, with a code (RFC 10069 section 3.4); whether it did: the last one stays.
    pub fn abandon_path(&mut self, now: Time, number: Handle, path: u32, code: u64) -> bool {
        self.with_end(now, number, |end| end.abandon_path(now, path, code))
    }

    /// Tells the peer whether a path is a backup from now on (section 3.3); whether it did.
    pub fn set_path_status(&mut self, now: Time, number: Handle, path: u32, is_backup: bool) -> bool {
        self.with_end(now, number, |end| end.set_path_status(path, is_backup))
    }

    /// Does something to a connection, and sends what follows from it.
    fn with_end(&mut self, now: Time, number: Handle, act: impl FnOnce(&mut Connection) -> bool) -> bool {
        let Ok(live) = self.living(number) else { return false };
        let is_done = act(&mut live.end);
        live.end.handle_input(now, Input::Timeout);
        self.drain(now, number);
        is_done
    }

    /// The paths of a connection that have been used, and where they are.
    pub fn paths(&self, number: Handle) -> Vec<(LivePath, Route)> {
        let live = self.table.get(number);
        live.map_or_else(Vec::new, |live| {
            live.end.live_paths().map(|path| (path, live.paths.route_of(&path))).collect()
        })
    }
}
