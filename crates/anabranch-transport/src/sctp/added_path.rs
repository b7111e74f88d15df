//! A path is added while an association lives.

use super::association::Association;
use super::path::Path;
use super::state::State;
use crate::flow::PathId;
use crate::path::PathStatus;
use crate::rng::Draw as _;
use crate::time::Time;

impl Association {
    /// Adds a path after the last one, to an address that the peer has listed in its INIT or INIT ACK. It is
    /// part of the association at once.
    ///
    /// # Errors
    /// As [`Endpoint::add_path`](crate::endpoint::Endpoint::add_path).
    pub fn add_listed_path(&mut self, now: Time, mtu: u32) -> Result<PathId, String> {
        self.append_path(now, mtu, true)
    }

    /// Adds a path after the last one: see [`Endpoint::add_path`](crate::endpoint::Endpoint::add_path).
    ///
    /// # Errors
    /// One sentence, when the MTU is smaller than chunks are cut for, or the settings do not allow one more
    /// path.
    #[cold]
    pub(super) fn append_path(&mut self, now: Time, mtu: u32, is_present: bool) -> Result<PathId, String> {
        let mut mtus: Vec<u32> = self.routing.paths.iter().map(|path| path.mtu).collect();
        let smallest = mtus.iter().copied().min().unwrap_or_default();
        if !matches!(self.state, State::Closed(_)) && mtu < smallest {
            return Err(format!(
                "mtu = {mtu} is out of range; chunks are cut for {smallest} bytes, and it must be no less"
            ));
        }
        mtus.push(mtu);
        self.parameters.check_paths(&mtus)?;
        let id = PathId(self.routing.paths.len() as u8);
        let nonce = self.local.source.bits() as u32;
        let mut path = Path::new(&self.parameters, mtu, self.local.ip, nonce);
        self.parts.add_path(&self.parameters, self.local.ip, id, &mut path, is_present);
        self.routing.paths.push(path);
        self.routing.next_of_paths = None;
        self.sender.outstanding.add_path();
        if mtu < smallest {
            self.fit_chunks();
            self.sender.outstanding.memory.overhead = self.sender.memory_of_queue();
        }
        self.routing.status.push(PathStatus::default());
        if !is_present {
            self.forget_status(id);
            return Ok(id);
        }
        if !matches!(self.state, State::Closed(_)) {
            // RFC 9260 section 5.4: it carries data once a heartbeat has been answered.
            self.routing.status[id.index()].confirmed = !self.parameters.path_verification;
            if self.state.is_established() {
                self.routing.paths[id.index()].heartbeat.idle_since = now;
                if self.parameters.path_verification {
                    self.send_heartbeat(now, id);
                }
                self.start_heartbeat_timer(now, id);
            }
        }
        Ok(id)
    }
}
