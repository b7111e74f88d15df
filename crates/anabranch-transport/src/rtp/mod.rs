//! RTP (RFC 3550) over UDP with congestion control: a pacer, feedback about every packet (RFC 8888), and
//! retransmissions on request (RFC 4585, RFC 4588).
//!
//! Both ends can send media, and both report on what arrives. There is no connection: [`Command::Connect`] is
//! answered at once. A message is one packet of media; one with [`more`](crate::endpoint::Message::more) is
//! followed by others of the same frame, and the last one of a frame has the marker. An application hears
//! what its encoder is to make ([`Event::TargetRate`]), and asks for a key frame with
//! [`Command::RequestKeyFrame`].
//!
//! RTCP travels on the port of the media (RFC 5761), feedback in packets of reduced size (RFC 5506). Known
//! deviation: reports are sent at `report_interval`, drawn from half to one and a half of it (RFC 3550
//! section 6.2 makes the interval longer where the session's rate is low).
//!
//! # Several paths
//! With a `policy` media is sent on one path at a time, with a `scheduler` on several; copies of a packet are
//! equal but for the path (RFC 7198), and the receiver takes the first one. Each path has a congestion
//! control, a pacer and feedback of its own: a report is about what came on the path that it is sent on, so
//! that the delays of two paths never meet in one estimator. This needs nothing that is not in packets of RTP
//! on one path, where Multipath RTP (draft-ietf-avtcore-mprtp-03) has an extension with numbers by path and
//! reports that name it.

mod arrivals;
mod config;
mod endpoint;
mod history;
#[cfg(test)]
mod hostile;
mod input;
mod pacer;
mod path;
mod paths;
#[cfg(test)]
mod properties;
mod receiver;
mod repairs;
mod stats;
mod stream;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_paths;

pub use config::Config;
pub use endpoint::RtpEndpoint;
pub use stats::{PathStats, SCALARS, Stats};

use crate::capabilities::{Capabilities, Messages, Numbering};

#[cfg(doc)]
use crate::endpoint::{Command, Event};

/// What it can do.
pub const CAPABILITIES: Capabilities = Capabilities {
    title: "RTP",
    flow_control: false,
    messages: Messages::Always,
    several_paths: false,
    changing_addresses: false,
    rebinding: false,
    pauses_reading: false,
    choice_of_control: false,
    numbering: Numbering::Nothing,
    numbers_by_path: false,
};
