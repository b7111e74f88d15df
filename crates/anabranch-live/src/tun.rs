//! A TUN device: what the kernel of this machine, or of a network namespace, routes to it comes here as
//! packets of IP, and packets that are written to it arrive at the kernel. So the peer of a connection may be
//! the kernel itself.
//!
//! The device is of layer 3, without packet information and without offloads: every packet is whole, has its
//! checksums, and is no longer than the MTU.

use std::io;
use std::net::IpAddr;
use std::str::FromStr;

/// A device, and which addresses are behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunDevice {
    /// The device's name. A device that does not exist yet is created, and removed with the driver.
    pub name: String,
    /// The addresses at this end, which the kernel routes to the device. None of them may be an address of
    /// the kernel's own.
    pub addresses: Vec<IpAddr>,
}

/// `NAME=ADDRESS[,ADDRESS]`.
impl FromStr for TunDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no_device = || format!("tun = {text} is not NAME=ADDRESS[,ADDRESS], such as tun0=192.0.2.1");
        let (name, list) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(no_device)?;
        let addresses = list.split(',').map(|address| address.parse().map_err(|_| no_device()));
        Ok(Self { name: name.into(), addresses: addresses.collect::<Result<_, _>>()? })
    }
}

/// The sentence about a device that cannot be opened.
fn refusal(name: &str, error: &io::Error) -> String {
    let is_forbidden = error.kind() == io::ErrorKind::PermissionDenied || error.raw_os_error() == Some(1);
    if is_forbidden {
        return format!(
            "the TUN device {name} needs root or the capability CAP_NET_ADMIN: run it as root, give the program the \
             capability (setcap cap_net_admin+ep), or have root make the device for you (ip tuntap add dev {name} mode tun \
             user NAME)"
        );
    }
    format!("the TUN device {name} cannot be opened: {error}")
}

#[cfg(target_os = "linux")]
pub(crate) use linux::Tun;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::Tun;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::net::IpAddr;
    use std::os::fd::AsRawFd as _;

    use anabranch_transport::flow::Ecn;
    use anabranch_transport::wire::ip;
    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};
    use tun_rs::{DeviceBuilder, Layer, SyncDevice};

    use super::{TunDevice, refusal};
    use crate::outbox::Transmit;
    use crate::route::Route;
    use crate::udp::Buffers;

    /// How many packets are read in a batch.
    const BATCH: usize = 32;

    /// An open device.
    pub(crate) struct Tun {
        device: SyncDevice,
        addresses: Vec<IpAddr>,
        /// All addresses of this end, since what is sent to one may come through the device of another.
        accepted: Vec<IpAddr>,
        /// The protocol that IP carries.
        protocol: u8,
    }

    impl Tun {
        /// Opens a device for packets of this protocol, the largest of which has `mtu` bytes.
        pub(crate) fn open(
            wanted: &TunDevice,
            accepted: &[IpAddr],
            protocol: u8,
            mtu: u32,
        ) -> Result<Self, String> {
            let TunDevice { name, addresses } = wanted;
            let open = || -> io::Result<SyncDevice> {
                let device = DeviceBuilder::new()
                    .name(name)
                    .layer(Layer::L3)
                    .packet_information(false)
                    .offload(false)
                    .inherit_enable_state()
                    .build_sync()?;
                device.set_nonblocking(true)?;
                // A user who may use a device may not change it, except for root.
                if u32::from(device.mtu()?) != mtu {
                    device.set_mtu(u16::try_from(mtu).unwrap_or(u16::MAX))?;
                }
                if !device.is_running()? {
                    device.enabled(true)?;
                }
                Ok(device)
            };
            let device = open().map_err(|error| refusal(name, &error))?;
            Ok(Self { device, addresses: addresses.clone(), accepted: accepted.to_vec(), protocol })
        }

        pub(crate) fn has(&self, address: IpAddr) -> bool {
            self.addresses.contains(&address)
        }

        /// Whether packets to an address of this version of IP can leave here.
        pub(crate) fn speaks_version_of(&self, remote: IpAddr) -> bool {
            self.addresses.iter().any(|own| own.is_ipv4() == remote.is_ipv4())
        }

        pub(crate) fn register(
            &self,
            registry: &Registry,
            token: Token,
            interest: Interest,
        ) -> io::Result<()> {
            registry.register(&mut SourceFd(&self.device.as_raw_fd()), token, interest)
        }

        /// Sends datagrams, one after the other. Returns how many have been sent.
        pub(crate) fn send(&self, transmit: &Transmit<'_>) -> (usize, io::Result<()>) {
            let Transmit { route, ecn, bytes, segment } = *transmit;
            for (sent, datagram) in bytes.chunks(segment).enumerate() {
                let packet = ip::wrap(self.protocol, [route.local, route.remote], ecn, None, datagram);
                if let Err(error) = self.device.send(&packet) {
                    return (sent, Err(error));
                }
            }
            (bytes.len().div_ceil(segment), Ok(()))
        }

        /// Reads a batch; calls `each` with what follows the IP header of packets that are for us.
        pub(crate) fn receive(
            &self,
            buffers: &mut Buffers,
            mut each: impl FnMut(Route, Ecn, &[u8]),
        ) -> io::Result<()> {
            let buffer = buffers.first();
            for _ in 0..BATCH {
                let length = self.device.recv(buffer)?;
                let Ok(packet) = ip::Split::of(&buffer[..length]) else { continue };
                let [remote, local] = packet.addresses;
                if packet.protocol == self.protocol && self.accepted.contains(&local) {
                    each(Route { local, remote, port: None }, packet.ecn, packet.payload);
                }
            }
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;
    use std::net::IpAddr;

    use anabranch_transport::flow::Ecn;
    use mio::{Interest, Registry, Token};

    use super::TunDevice;
    use crate::outbox::Transmit;
    use crate::route::Route;
    use crate::udp::Buffers;

    /// A TUN device cannot exist on this system.
    pub(crate) enum Tun {}

    impl Tun {
        pub(crate) fn open(
            wanted: &TunDevice,
            _accepted: &[IpAddr],
            _protocol: u8,
            _mtu: u32,
        ) -> Result<Self, String> {
            Err(format!("the TUN device {} cannot be opened: TUN is used on Linux only", wanted.name))
        }

        pub(crate) fn has(&self, _address: IpAddr) -> bool {
            match *self {}
        }

        pub(crate) fn speaks_version_of(&self, _remote: IpAddr) -> bool {
            match *self {}
        }

        pub(crate) fn register(
            &self,
            _registry: &Registry,
            _token: Token,
            _interest: Interest,
        ) -> io::Result<()> {
            match *self {}
        }

        pub(crate) fn send(&self, _transmit: &Transmit<'_>) -> (usize, io::Result<()>) {
            match *self {}
        }

        pub(crate) fn receive(
            &self,
            _buffers: &mut Buffers,
            _each: impl FnMut(Route, Ecn, &[u8]),
        ) -> io::Result<()> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_name_and_addresses() {
        let device: TunDevice = "t0=192.0.2.1,2001:db8::1".parse().expect("it is one");
        assert_eq!(device.name, "t0");
        assert_eq!(
            device.addresses,
            ["192.0.2.1".parse::<IpAddr>(), "2001:db8::1".parse()].map(Result::unwrap)
        );
        for text in ["t0", "=192.0.2.1", "t0=", "t0=192.0.2.1,host"] {
            let sentence = format!("tun = {text} is not NAME=ADDRESS[,ADDRESS], such as tun0=192.0.2.1");
            assert_eq!(text.parse::<TunDevice>(), Err(sentence));
        }
    }

    #[test]
    fn who_may_not_is_told_how_to() {
        let refused = |error| refusal("tun7", &io::Error::from_raw_os_error(error));
        assert!(refused(1).contains("needs root or the capability CAP_NET_ADMIN"), "EPERM");
        assert!(refused(13).contains("ip tuntap add dev tun7 mode tun user NAME"), "EACCES");
        assert_eq!(
            refused(16),
            "the TUN device tun7 cannot be opened: Device or resource busy (os error 16)"
        );
    }
}
