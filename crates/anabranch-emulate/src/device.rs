//! The devices of the nodes, from the emulator's side: what programs send is read here, and what has crossed
//! the network is written.
//!
//! A device is a TUN, or where that may not be opened one end of a pair of veth devices.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::veth::{Came, PacketSocket};

/// A packet may be as long as IP allows.
const LONGEST_PACKET: usize = 65_535;

/// The kind of the nodes' devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// TUN devices.
    Tun,
    /// Pairs of veth devices with packet sockets, which also work where /dev/net/tun may not be opened.
    Veth,
}

impl DeviceKind {
    /// The kind named in the variable `ANABRANCH_EMULATE_DEVICES`; otherwise TUN if it can be opened.
    pub(crate) fn chosen() -> Result<Self, String> {
        const NAME: &str = "ANABRANCH_EMULATE_DEVICES";
        match std::env::var_os(NAME) {
            None => match File::options().read(true).write(true).open("/dev/net/tun") {
                Ok(_) => Ok(Self::Tun),
                // It is not there, or not for this user. Anything else, as too many open files, is no reason
                // to go on with other devices.
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::ENOENT | libc::EACCES | libc::EPERM | libc::ENODEV | libc::ENXIO)
                    ) =>
                {
                    Ok(Self::Veth)
                }
                Err(error) => Err(format!("cannot open /dev/net/tun: {error}")),
            },
            Some(name) if name == Self::Tun.name() => Ok(Self::Tun),
            Some(name) if name == Self::Veth.name() => Ok(Self::Veth),
            Some(name) => Err(format!("{NAME} is `{}`; it can be tun or veth", Path::new(&name).display())),
        }
    }

    /// `tun` or `veth`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tun => "tun",
            Self::Veth => "veth",
        }
    }
}

/// A device of a node, at one end of a path.
pub(crate) struct Device {
    line: Line,
    name: String,
    /// The kernel's counters for the devices of the node's network.
    counts: File,
}

/// The source of a device's packets.
enum Line {
    Tun { device: SyncDevice, buffer: Vec<u8> },
    Veth(PacketSocket),
}

impl Device {
    /// Opens a TUN device in the network of this thread, without offloads: every packet is whole and has its
    /// checksums.
    pub(crate) fn tun(name: &str) -> io::Result<Self> {
        let device = DeviceBuilder::new()
            .name(name)
            .layer(Layer::L3)
            .packet_information(false)
            .offload(false)
            .inherit_enable_state()
            .build_sync()?;
        device.set_nonblocking(true)?;
        Self::new(name, Line::Tun { device, buffer: vec![0; LONGEST_PACKET] })
    }

    /// The device of this name in the network of this thread, whose other end is where `socket` is.
    pub(crate) fn veth(name: &str, socket: PacketSocket) -> io::Result<Self> {
        Self::new(name, Line::Veth(socket))
    }

    fn new(name: &str, line: Line) -> io::Result<Self> {
        // The file stays that of the network in which it was opened.
        let counts = File::open("/proc/thread-self/net/dev")?;
        Ok(Self { line, name: name.to_owned(), counts })
    }

    /// Puts the next packet that the node has sent into `packet`.
    pub(crate) fn receive(&mut self, packet: &mut Vec<u8>) -> Came {
        match &mut self.line {
            Line::Tun { device, buffer } => {
                let Ok(length) = device.recv(buffer) else { return Came::Nothing };
                packet.clear();
                packet.extend_from_slice(&buffer[..length]);
                Came::Packet
            }
            Line::Veth(socket) => socket.receive(packet),
        }
    }

    /// Gives the node a packet.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        match &self.line {
            Line::Tun { device, .. } => device.send(packet).map(|_| ()),
            Line::Veth(socket) => socket.send(packet),
        }
    }

    /// Packets from the node that the device has dropped so far, because it was full of packets not yet read.
    pub(crate) fn overruns(&mut self) -> u64 {
        let in_ring = match &mut self.line {
            Line::Tun { .. } => 0,
            Line::Veth(socket) => socket.overruns(),
        };
        in_ring + self.dropped().unwrap_or(0)
    }

    /// The kernel's count of outgoing packets that this device has dropped.
    fn dropped(&mut self) -> Option<u64> {
        let mut text = String::new();
        self.counts.rewind().ok()?;
        self.counts.read_to_string(&mut text).ok()?;
        unsent(&text, &self.name)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.line {
            Line::Tun { device, .. } => device.as_fd(),
            Line::Veth(socket) => socket.as_fd(),
        }
    }
}

/// The number of packets that a device was to send and has dropped, read from `/proc/net/dev`.
fn unsent(text: &str, device: &str) -> Option<u64> {
    /// The first eight columns are about what was received; then come bytes, packets and errors of what was
    /// sent.
    const COLUMN: usize = 8 + 3;
    let of_device = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        (name.trim() == device).then(|| counts.split_whitespace().nth(COLUMN)?.parse().ok()).flatten()
    };
    text.lines().find_map(of_device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counts_are_found() {
        let text = "Inter-|   Receive        |  Transmit\n \
             face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls \
             carrier compressed\n\
             lo:  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  wifi: 5040 60 0 1 0 0 0 0 84 1 0 97 0 0 0 0\n";
        assert_eq!(unsent(text, "wifi"), Some(97));
        assert_eq!(unsent(text, "lo"), Some(12));
        assert_eq!(unsent(text, "lte"), None);
    }
}
