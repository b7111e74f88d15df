//! Namespaces: a network for each node, and one of processes for all programs.
//!
//! A namespace belongs to a thread: one that leaves that of the process ([`unshare`]) has devices opened and
//! programs started in the new one. Nothing here has a name in the file system: a namespace ends with the
//! last descriptor, device or process in it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::device::{Device, DeviceKind};
use crate::plan::{Interface, Node};
use crate::system;
use crate::veth::PacketSocket;

/// The namespaces of a node.
#[derive(Debug)]
pub(crate) struct Space {
    /// Its network.
    pub(crate) network: OwnedFd,
    /// The mounts that its programs see: the whole file system, with an `/etc/hosts` of their own.
    pub(crate) mounts: OwnedFd,
}

/// A namespace of processes. Everything that runs in it ends with its first process, which ends when this is
/// dropped or the process that holds it is gone.
#[derive(Debug)]
pub(crate) struct Processes {
    /// The namespace.
    pub(crate) space: OwnedFd,
    /// The first process, which reads from a pipe until that is closed.
    first: Child,
}

/// What users have to do if something is not permitted.
const HOW_TO: &str = "run it as root, or where users may make namespaces";

/// Runs a job in a thread of its own, whose namespaces it shares with no other.
pub(crate) fn apart<T: Send>(job: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    thread::scope(|scope| {
        scope.spawn(job).join().unwrap_or_else(|_| Err("a thread of the emulation has panicked".into()))
    })
}

/// Moves the process from its namespaces into new ones.
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    #[expect(
        deprecated,
        reason = "it is not safe to leave the table of descriptors (CLONE_FILES), which nobody does here"
    )]
    rustix::thread::unshare(flags).map_err(io::Error::from)
}

/// A sentence about something that failed.
fn failed(what: &str) -> impl Fn(io::Error) -> String {
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{what} is not permitted here: {HOW_TO}"),
        _ => format!("{what} failed: {error}"),
    }
}

/// Where the other ends of the nodes' devices are.
#[derive(Debug)]
pub(crate) enum Outside {
    /// The descriptors of TUN devices.
    Tun,
    /// A network of the emulator, in which the other ends of veth devices are.
    Veth {
        network: OwnedFd,
        /// How many there are going to be.
        devices: usize,
    },
}

impl Outside {
    /// Makes what so many devices of this kind need.
    pub(crate) fn make(kind: DeviceKind, devices: usize) -> Result<Self, String> {
        match kind {
            DeviceKind::Tun => Ok(Self::Tun),
            DeviceKind::Veth => apart(|| {
                unshare(UnshareFlags::NEWNET).map_err(failed("making a network namespace"))?;
                own_namespace("net").map(|network| Self::Veth { network, devices })
            }),
        }
    }

    /// The kind of these devices.
    pub(crate) const fn kind(&self) -> DeviceKind {
        match self {
            Self::Tun => DeviceKind::Tun,
            Self::Veth { .. } => DeviceKind::Veth,
        }
    }

    /// Makes the devices of a node, in the network of this thread.
    fn devices(&self, node: &Node, stop: &Stop) -> Result<Vec<Device>, String> {
        match self {
            Self::Tun => {
                let open = |name: &str| {
                    stop.check()?;
                    Device::tun(name).map_err(failed("opening a TUN device (/dev/net/tun)"))
                };
                node.interfaces.iter().map(|interface| open(&interface.device)).collect()
            }
            Self::Veth { network, devices } => veth_devices(node, network, *devices, stop),
        }
    }
}

/// Makes pairs of veth devices between the network of this thread and another one, and opens their ends
/// there.
fn veth_devices(node: &Node, network: &OwnedFd, devices: usize, stop: &Stop) -> Result<Vec<Device>, String> {
    let place = format!("/proc/{}/fd/{}", std::process::id(), network.as_raw_fd());
    configure_in_steps("-4", &node.veth_batch(&place), stop)?;
    // If the other end of a device is up, the device has its queue as soon as it comes up, so that no packet
    // is lost.
    let sockets = apart(|| {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| failed("entering a namespace")(error.into()))?;
        configure_in_steps("-4", &node.outer_batch(), stop)?;
        let open = |end: &Interface| {
            stop.check()?;
            PacketSocket::open(&end.outer(), end.mtu, devices).map_err(failed("opening a packet socket"))
        };
        node.interfaces.iter().map(open).collect::<Result<Vec<_>, String>>()
    })?;
    let open = |(end, socket): (&Interface, PacketSocket)| {
        stop.check()?;
        let device = system::turn_off_offloads(&end.device).and_then(|()| Device::veth(&end.device, socket));
        device.map_err(failed("setting up a veth device"))
    };
    node.interfaces.iter().zip(sockets).map(open).collect()
}

/// A namespace that this thread is in.
fn own_namespace(kind: &str) -> Result<OwnedFd, String> {
    File::open(format!("/proc/thread-self/ns/{kind}"))
        .map(OwnedFd::from)
        .map_err(failed("opening a namespace"))
}

/// Makes the namespaces of a node, and in them its devices, one for each interface; `prepare` sets up the
/// node's network before it is used.
pub(crate) fn make(
    node: &Node,
    outside: &Outside,
    stop: &Stop,
    prepare: impl FnOnce() -> Result<(), String> + Send,
) -> Result<(Space, Vec<Device>), String> {
    apart(|| {
        unshare(UnshareFlags::NEWNET | UnshareFlags::NEWNS).map_err(failed("making a network namespace"))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).map_err(|error| failed("making mounts private")(error.into()))?;
        let devices = outside.devices(node, stop)?;
        // With this filter, packets that arrive by another path than answers take would be dropped. Where it
        // cannot be changed, the system's setting remains.
        for name in ["all", "default"] {
            let _ = fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0");
        }
        for (version, batch) in ["-4", "-6"].into_iter().zip(node.batches()) {
            configure_in_steps(version, &batch, stop)?;
        }
        wait_for_addresses(node, stop)?;
        prepare()?;
        name_hosts(&node.hosts()).map_err(failed("writing an /etc/hosts for a node"))?;
        Ok((Space { network: own_namespace("net")?, mounts: own_namespace("mnt")? }, devices))
    })
}

/// What ends the making of an emulation before it is complete.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Ends it, as soon as what is being done is done: a fraction of a second.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.0.load(Ordering::Relaxed) { Err("it was stopped while it was made".into()) } else { Ok(()) }
    }
}

/// As [`configure`], so many lines at a time that each takes a fraction of a second.
fn configure_in_steps(version: &str, batch: &str, stop: &Stop) -> Result<(), String> {
    const LINES: usize = 500;
    let lines: Vec<&str> = batch.split_inclusive('\n').collect();
    for step in lines.chunks(LINES) {
        stop.check()?;
        configure(version, &step.concat())?;
    }
    Ok(())
}

/// Lets `ip` of iproute2 do this in the network of this thread.
pub(crate) fn configure(version: &str, batch: &str) -> Result<(), String> {
    let run = || -> io::Result<std::process::Output> {
        let mut ip = Command::new("ip")
            .args([version, "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = ip.stdin.take() {
            input.write_all(batch.as_bytes())?;
        }
        ip.wait_with_output()
    };
    let output = run().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no program `ip`, which sets addresses: install iproute2".to_owned()
        }
        _ => format!("`ip` failed: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
    Err(format!("`ip` could not set addresses and routes: {said}"))
}

/// Waits until the kernel takes what comes for this node's addresses of IPv6: their routes are made by a
/// worker of the kernel, somewhat later than `ip` has set them, and until then it would drop such packets.
fn wait_for_addresses(node: &Node, stop: &Stop) -> Result<(), String> {
    const TRIES: u32 = 30_000;
    let own = node.interfaces.iter().flat_map(|interface| &interface.own);
    let mut missing: Vec<_> = own
        .filter_map(|address| if let IpAddr::V6(address) = address { Some(*address) } else { None })
        .collect();
    for _ in 0..TRIES {
        stop.check()?;
        let routes =
            fs::read_to_string("/proc/thread-self/net/ipv6_route").map_err(failed("reading routes"))?;
        let here: BTreeSet<Ipv6Addr> = routes.lines().filter_map(leads_here).collect();
        missing.retain(|address| !here.contains(address));
        if missing.is_empty() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err(format!("the kernel does not take up the address {} of a node", missing[0]))
}

/// The address, if a line of `/proc/net/ipv6_route` shows that packets for one are delivered locally.
fn leads_here(route: &str) -> Option<Ipv6Addr> {
    /// `RTF_LOCAL` of `linux/ipv6_route.h`.
    const LOCAL: u32 = 0x8000_0000;
    let words: Vec<&str> = route.split_whitespace().collect();
    // In hexadecimal: destination and its bits, source and its bits, next hop, metric, two counters, flags,
    // device.
    let [destination, "80", _, _, _, _, _, _, flags, _] = words[..] else { return None };
    let is_local = u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & LOCAL != 0);
    is_local.then(|| u128::from_str_radix(destination, 16).ok().map(Ipv6Addr::from_bits)).flatten()
}

/// Puts these lines into the `/etc/hosts` that programs in the mounts of this thread see. The file is in
/// memory, in a file system that nothing outside these mounts has, so that no `kill -9` leaves it.
fn name_hosts(lines: &str) -> io::Result<()> {
    const HOSTS: &str = "/etc/hosts";
    if !Path::new(HOSTS).exists() {
        return Ok(());
    }
    // The first line that has a name counts: a node may be called as this machine is.
    let text = format!("{lines}{}", fs::read_to_string(HOSTS)?);
    let folder = std::env::temp_dir();
    mount("tmpfs", &folder, "tmpfs", MountFlags::empty(), None)?;
    let file = folder.join("hosts");
    let bound = fs::write(&file, text).and_then(|()| mount_bind(&file, HOSTS).map_err(io::Error::from));
    // The file remains where it is bound, and the folder is again what it was.
    unmount(&folder, UnmountFlags::DETACH)?;
    bound
}

impl Processes {
    /// Makes a namespace of processes.
    pub(crate) fn make() -> Result<Self, String> {
        apart(|| {
            unshare(UnshareFlags::NEWPID).map_err(failed("making a namespace of processes"))?;
            let first = Command::new("cat")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()
                .map_err(failed("starting `cat`"))?;
            let space = File::open(format!("/proc/{}/ns/pid", first.id()))
                .map_err(failed("opening a namespace of processes"))?;
            Ok(Self { space: space.into(), first })
        })
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // With it, the kernel ends everything in the namespace.
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}

/// Moves the calling thread into a network, mounts and, where there is one, a namespace of processes, each
/// given by a file that stands for it (`/proc/PID/fd/N`). Programs that the thread starts from then on are in
/// them, with `/` as their current folder. The thread cannot start others after that.
///
/// # Errors
/// One sentence.
pub fn enter(network: &Path, mounts: &Path, processes: Option<&Path>) -> Result<(), String> {
    let open = |path: &Path| {
        File::open(path)
            .map_err(|error| format!("the emulation is gone, or not yours ({}: {error})", path.display()))
    };
    let files = [Some(network), Some(mounts), processes];
    let files = files.into_iter().flatten().map(open).collect::<Result<Vec<_>, _>>()?;
    // A thread can enter mounts only if it shares its current folder with no other.
    unshare(UnshareFlags::FS).map_err(failed("leaving the current folder"))?;
    for file in files {
        move_into_link_name_space(file.as_fd(), None)
            .map_err(|error| failed("entering a namespace")(error.into()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_route_of_an_own_address_is_known() {
        let address = Ipv6Addr::new(0xfd61, 0x6e61, 0, 0, 0, 0, 0, 1);
        let zero = "0".repeat(32);
        let line = |bits: &str, flags: &str| {
            format!("fd616e61{:024x} {bits} {zero} 00 {zero} 00000000 00000002 00000000 {flags}     link", 1)
        };
        assert_eq!(leads_here(&line("80", "80200001")), Some(address));
        // The network of the path, and the address of another node in it.
        assert_eq!(leads_here(&line("7e", "00000001")), None);
        assert_eq!(leads_here(&line("80", "00000001")), None);
        assert_eq!(leads_here(""), None);
    }
}
