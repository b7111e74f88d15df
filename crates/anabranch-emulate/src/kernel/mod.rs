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
pub(crate) use sockets::{Flows, Sockets, Watched};
