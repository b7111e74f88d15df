//! TCP: an endpoint as a state machine without clock, socket or thread.
//!
//! Source: RFC 9293 with RFC 5681 (congestion control), RFC 6298 (timer), RFC 7323 (timestamps, window
//! scaling), RFC 2018, RFC 2883 and RFC 6675 (SACK), RFC 6582 (`NewReno`), RFC 3042 (limited transmit), RFC
//! 6937 and RFC 9937 (proportional rate reduction), RFC 8985 (RACK-TLP), RFC 5682 (F-RTO), RFC 3522 and RFC
//! 3708 (undo), RFC 3168, RFC 8257 and RFC 9768 (ECN), RFC 6928 (initial window), RFC 7413 (Fast Open). Where
//! a profile follows Linux, the place names the kernel's function in `net/ipv4/tcp_*.c`. The two ends of a
//! flow are two [`Connection`]s; they are alike, except that one of them opens.
//!
//! Profile `kheirkhah_v1` follows the subflows of the ns-3 model of MPTCP by Kheirkhah, Wakeman and Parisis
//! ("Multipath-TCP in ns-3", WNS3 2014); its places name the functions of its `mp-tcp-socket-base.cc`.
//!
//! Known deviations: buffers count bytes of data, not the kernel's memory for them, and the send buffer does
//! not tune itself; no auto-corking, no urgent data, no path MTU discovery; an end that hears the peer's FIN
//! closes too once everything it was given has been delivered, unless it has half-close; a SYN from the
//! peer's next port takes the place of a connection that the peer knows no more; segments are never cut, so
//! less than a whole one fits into the window only when the persist timer says so; a window that the
//! application does not use is not reduced (RFC 2861's second rule; in Linux it has no effect while
//! acknowledgements come, since `tcp_cong_avoid` sets `snd_cwnd_stamp` with each), nor is RFC 7661 there; in
//! recovery nothing is sent again that is not taken for lost (RFC 6675's rules 3 and 4 of `NextSeg`); a
//! closed socket sends its last data and FIN again as often as an open one (Linux: `tcp_orphan_retries`).

mod accurate_ecn;
mod acknowledgement;
mod alert;
mod burst;
mod close;
pub mod config;
mod connection;
mod delayed_ack;
#[cfg(test)]
mod drills;
mod duplicates;
mod ecn;
pub mod fast_open;
mod handshake;
mod info;
mod kheirkhah;
mod limit;
pub(crate) mod listener;
mod marks;
mod measures;
mod newreno;
mod pacing;
pub mod parameters;
mod prediction;
#[cfg(test)]
mod prediction_switch;
pub mod procedures;
#[cfg(test)]
mod properties;
mod rack;
mod receive;
mod receive_buffer;
mod recovery;
mod scoreboard;
mod send;
pub(crate) mod send_queue;
mod sequence;
mod socket;
mod stats;
pub(crate) mod subflow;
#[cfg(test)]
mod testing;
mod timers;
mod undo;
mod window;

pub use config::{Config, Profile};
pub use connection::Connection;
pub use info::Info;
pub use listener::{Listener, refuse};
pub use parameters::Parameters;
pub(crate) use receive::MOST_RUNS;
pub use receive_buffer::memory_for_window;
pub use stats::Stats;

use crate::capabilities::{Capabilities, Messages, Numbering};
use crate::report::Parts;

/// The scalars of an endpoint; the means are there where the settings ask for them.
pub const SCALARS: Parts = &[("", &[Stats::SCALARS, measures::STATE, measures::MEANS])];

/// What it can do.
pub const CAPABILITIES: Capabilities = Capabilities {
    title: "TCP",
    flow_control: true,
    messages: Messages::Never,
    several_paths: false,
    changing_addresses: false,
    rebinding: false,
    pauses_reading: true,
    choice_of_control: true,
    numbering: Numbering::Bytes,
    numbers_by_path: false,
};
