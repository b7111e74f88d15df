//! The parts with which a transport recovers losses, each by itself and independent of any connection:
//! round-trip times and the timeout ([`rtt`]), which segments are lost ([`rack`]), how the window shrinks
//! meanwhile ([`prr`]), how fast data is delivered ([`rate_sample`]) and when the next segment may leave
//! ([`pacing`]). TCP uses all of them.
//!
//! A part takes what its owner has seen, and answers with a number or a verdict. It has no timer, no packet
//! and no protocol's configuration; positions, orders and bytes are the owner's.
//!
//! A transport of one's own that sends eight packets, 1 ms apart, over a path of 40 ms there and back. The
//! third is lost:
//!
//! ```
//! use anabranch_transport::recovery::prr::{Progress, Prr, WindowReduction};
//! use anabranch_transport::recovery::rack::Rack;
//! use anabranch_transport::recovery::rtt::{Limits, Rtt, Rule, Sample};
//! use anabranch_transport::time::{Duration, Time};
//!
//! let ms = Duration::from_millis;
//! let limits = Limits { min: ms(200), ..Limits::default() };
//! let (mut rtt, mut rack) = (Rtt::new(Rule::Rfc6298, limits), Rack::default());
//! let sent = |order: u64| Time::from_millis(order);
//!
//! let mut lost = None;
//! for order in [1, 2, 4, 5, 6, 7, 8] {
//!     let now = sent(order) + ms(40);
//!     rtt.record_min(now, ms(40));
//!     rtt.on_sample(&Sample { acknowledged: order, sent: 8, ..Sample::new(now, ms(40)) });
//!     rack.advance(now, sent(order), order, false, rtt.min_rtt());
//!     // Packets may overtake each other by a quarter of the smallest round trip, 10 ms.
//!     let window = rack.window(rtt.min_rtt(), rtt.srtt());
//!     if rack.take_advanced() && rack.is_passed(3) {
//!         lost = rack.time_left(now, sent(3), window);
//!     }
//! }
//! assert_eq!(lost, Some(ms(5)), "5 ms late, and 5 ms left");
//!
//! // It is lost then. Of a window of eight, half is sent while the other seven arrive.
//! let mut reduction = Prr::begin(8, 4);
//! let progress = Progress { delivered: 7, lost: 1, advanced: false, in_flight: 0 };
//! reduction.on_ack(WindowReduction::Prr, &progress);
//! assert_eq!(reduction.cwnd, 4);
//! assert_eq!(rtt.rto(), ms(200));
//! ```

pub mod linux_rtt;
pub mod pacing;
pub mod peak_hopper;
pub mod prr;
pub mod rack;
pub mod rate_sample;
pub mod rtt;
