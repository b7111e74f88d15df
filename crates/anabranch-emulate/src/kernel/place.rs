//! Where sockets are: in the network of a node, with an address and a port.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::Socket;

/// The network of a node, in which sockets are made.
#[derive(Clone, Debug)]
pub(crate) struct Home(Arc<OwnedFd>);

impl Home {
    /// The home that this namespace is.
    pub(crate) fn of(network: &OwnedFd) -> Result<Self, String> {
        let own = network.try_clone().map_err(|error| format!("a namespace cannot be opened: {error}"))?;
        Ok(Self(Arc::new(own)))
    }

    /// Moves the calling thread there: its next sockets are in this network.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn enter(&self) -> Result<(), String> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| format!("the network of a node cannot be entered: {error}"))
    }
}

/// Gives a socket this address, with another port if that one is taken.
pub(crate) fn bind_or_any(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    match socket.bind(&address.into()) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            socket.bind(&SocketAddr::new(address.ip(), 0).into())
        }
        done => done,
    }
}

/// The release of the kernel that runs.
pub(crate) fn release() -> String {
    let found = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    found.trim().to_owned()
}
