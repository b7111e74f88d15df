//! Transport protocols as state machines without clock, socket or thread: SCTP, Multipath TCP, TCP, QUIC,
//! RTP and UDP, their congestion controls, and the policies and schedulers that share paths out.
//!
//! Every [`endpoint::Endpoint`] is driven alike: the time and an input go in, and outputs come out until the
//! endpoint says when it next wants to be called. Who drives it decides what time and network are: a
//! simulator, or a program with sockets. Equal inputs give equal outputs, on every machine. A server of many
//! connections has a [`listener::Listener`] that makes them.
//!
//! Packets are structs with every field that is on the wire ([`wire`]); a payload says which bytes of the
//! application's stream it stands for, and the bytes stay with the application.
//!
//! Two ends of an SCTP association, and a network that takes 10 ms one way:
//!
//! ```
//! use std::collections::VecDeque;
//!
//! use anabranch_transport::endpoint::{Command, Endpoint, Event, Input, Message, Output};
//! use anabranch_transport::flow::{IpVersion, Payload, Side};
//! use anabranch_transport::rng::Streams;
//! use anabranch_transport::sctp::{Association, Config};
//! use anabranch_transport::time::{Duration, Time};
//!
//! let parameters = Config::default().resolve()?;
//! let streams = Streams { seed: 1, replication: 0 };
//! let mtus = [1500];
//! let end = |side: Side| Association::new(&parameters, side, &mtus, IpVersion::Ipv4, streams, side.name());
//! let mut ends = [Side::A, Side::B].map(end);
//! let mut timeouts = [Time::NEVER; 2];
//! let mut network = VecDeque::new();
//! let mut received = Vec::new();
//!
//! let mut next = (Time::ZERO, Side::A, Input::Command(Command::Connect));
//! while received.is_empty() {
//!     let (now, side, input) = next;
//!     let end = &mut ends[side.index()];
//!     end.handle_input(now, input);
//!     loop {
//!         match end.poll_output(now) {
//!             Output::Transmit(packet) => {
//!                 network.push_back((now + Duration::from_millis(10), side.peer(), packet));
//!             }
//!             Output::Event(Event::Connected) if side == Side::A => {
//!                 let payload = Payload { offset: 0, length: 500 };
//!                 let command = Command::Send(Message::new(payload));
//!                 end.handle_input(now, Input::Command(command));
//!             }
//!             Output::Event(Event::Received(message)) => received.push((now, message.payload)),
//!             Output::Event(_) => {}
//!             Output::Timeout(at) => {
//!                 timeouts[side.index()] = at;
//!                 break;
//!             }
//!         }
//!     }
//!     // The first timeout, unless a packet arrives before it.
//!     let first = if timeouts[0] <= timeouts[1] { Side::A } else { Side::B };
//!     let timeout = timeouts[first.index()];
//!     next = if network.front().is_some_and(|(at, ..)| *at <= timeout) {
//!         let (at, to, packet) = network.pop_front().expect("there is one");
//!         (at, to, Input::Packet(packet))
//!     } else {
//!         (timeout, first, Input::Timeout)
//!     };
//! }
//! // Two round trips of the handshake, and one way.
//! assert_eq!(received, [(Time::from_millis(50), Payload { offset: 0, length: 500 })]);
//! # Ok::<(), String>(())
//! ```
//!
//! The settings of each protocol, congestion control and policy are structs that serde reads and schemars
//! describes; names, defaults and messages of their keys are part of what is tested here. These traits are
//! always there: behind a feature, each of some 300 attributes would be written in the conditional form, and
//! nothing else would be saved, as no hot path knows them.

pub mod capabilities;
pub mod cc;
pub mod dscp;
pub mod endpoint;
pub mod flow;
pub mod listener;
pub mod mptcp;
pub mod observed;
mod packet_pool;
pub mod path;
pub mod plugin;
mod procedures;
pub mod quality;
pub mod quic;
pub mod recovery;
pub mod report;
pub mod rng;
pub mod rtp;
pub mod sctp;
pub mod secret;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod time;
pub mod timer;
pub mod udp;
pub mod units;
pub mod wire;
