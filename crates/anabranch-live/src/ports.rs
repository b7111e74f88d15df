//! The ports of a host whose transport has ports of its own: who waits at which, and which are free.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_transport::flow::IpVersion;
use anabranch_transport::rng::Draw as _;
use anabranch_transport::secret::SecretNumbers;

use crate::route::version;

/// The first of the dynamic ports, which are not assigned (RFC 6335 section 6).
pub(crate) const FIRST_DYNAMIC_PORT: u16 = 49_152;

/// The listeners `L` by port, one for each version of IP.
#[derive(Debug)]
pub(crate) struct Listeners<L>(BTreeMap<u16, [L; 2]>);

impl<L> Default for Listeners<L> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<L> Listeners<L> {
    /// Adds a listener for each version of IP at a port.
    ///
    /// # Errors
    /// When the port is taken, or none can be made: one sentence.
    pub(crate) fn add(
        &mut self,
        port: u16,
        mut make: impl FnMut(IpVersion) -> Result<L, String>,
    ) -> Result<(), String> {
        if self.has(port) {
            return Err(format!("port = {port} is taken; somebody waits there already"));
        }
        self.0.insert(port, [make(IpVersion::Ipv4)?, make(IpVersion::Ipv6)?]);
        Ok(())
    }

    pub(crate) fn remove(&mut self, port: u16) {
        self.0.remove(&port);
    }

    pub(crate) fn has(&self, port: u16) -> bool {
        self.0.contains_key(&port)
    }

    pub(crate) fn get_mut(&mut self, port: u16, ip: IpVersion) -> Option<&mut L> {
        self.0.get_mut(&port).map(|listeners| &mut listeners[ip as usize])
    }
}

/// A dynamic port that nobody has.
pub(crate) fn dynamic_port(numbers: &mut SecretNumbers, is_taken: impl Fn(u16) -> bool) -> u16 {
    loop {
        let port = FIRST_DYNAMIC_PORT + numbers.below(u64::from(u16::MAX - FIRST_DYNAMIC_PORT) + 1) as u16;
        if !is_taken(port) {
            return port;
        }
    }
}

/// The version of IP of a peer that has these addresses, and the first of them.
///
/// # Errors
/// When there is none, or they are not all of one version: one sentence.
pub(crate) fn one_version(peer: impl Iterator<Item = IpAddr>) -> Result<(IpVersion, IpAddr), String> {
    let mut peer = peer.peekable();
    let Some(&first) = peer.peek() else {
        return Err("remote: there is no address; give at least one".into());
    };
    let ip = version(first);
    match peer.find(|address| version(*address) != ip) {
        None => Ok((ip, first)),
        Some(other) => {
            Err(format!("remote = {other} is of another version of IP than {first}; give all of one version"))
        }
    }
}
