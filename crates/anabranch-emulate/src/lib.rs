//! Emulation: a scenario's links in real time, with real programs at their ends.
//!
//! Each node at the end of a path is a network namespace of its own ([`Plan`] has its addresses), and each
//! path has a device at either end ([`DeviceKind`]). What a program sends comes out of the device of its
//! node, enters the [`Emulation`](anabranch::sim::Emulation) with the time of the clock, and is written to
//! the device of the other node when it is due there. The delay of that write is measured for every packet.
//!
//! In a [`Testbed`] the flows of the scenario run on the kernel's stacks: their ends are sockets in the
//! networks of their nodes, which the same thread serves.
//!
//! Nothing outlives the process: namespaces have no names and live as long as the file descriptors that hold
//! them, devices with their descriptors, and programs in a namespace of processes whose first one ends when a
//! pipe closes.
//!
//! It works on Linux only; elsewhere [`Emulator::start`] returns an error.

#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod carrier;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod duty_cycle;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod emulator;
#[cfg(target_os = "linux")]
mod flows;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod lateness;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
pub mod results;
#[cfg(target_os = "linux")]
mod space;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
mod testbed;
#[cfg(target_os = "linux")]
mod veth;

#[cfg(target_os = "linux")]
pub use device::DeviceKind;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Emulator, Stop};
#[cfg(target_os = "linux")]
pub use emulator::Emulator;
#[cfg(target_os = "linux")]
pub use plan::{Interface, Node, Plan};
#[cfg(target_os = "linux")]
pub use space::{Stop, enter};
#[cfg(target_os = "linux")]
pub use testbed::{Prepared, Testbed};
