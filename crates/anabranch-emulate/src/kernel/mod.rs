//! A scenario's flows on the kernel's own stacks: at each end of a flow a socket in the network of its node,
//! which does what the flow's application orders, and tells it what happens.
//!
//! The bytes that are sent follow from their position in the stream, and the receiving end checks them.

mod buffers;
mod counts;
mod datagrams;
mod info;
mod messages;
mod pattern;
mod place;
mod settings;
mod sockets;
mod stream;
mod unsupported;
mod usrsctp;
mod usrsctp_settings;

pub(crate) use place::release;
pub(crate) use sockets::{Flows, SCALARS as SOCKET_SCALARS, Sockets, Watched};

use anabranch_transport::report::Declared;

/// The scalars that ends have on kernels and on usrsctp beside those of simulated ones: transport, part of
/// the end, words, and lists.
pub(crate) const SCALARS: [(&str, &str, &str, &[&[Declared]]); 5] = [
    ("mptcp", ".subflow_<n>", "A subflow on a kernel", &[info::KERNEL]),
    ("sctp", "", "An end on a kernel", &[counts::ASSOCIATION, messages::KERNEL]),
    ("sctp", "", "An end on usrsctp", &[counts::ASSOCIATION, usrsctp::USRSCTP]),
    ("tcp", "", "An end on a kernel", &[info::KERNEL]),
    ("udp", "", "An end on a kernel", &[datagrams::KERNEL]),
];
