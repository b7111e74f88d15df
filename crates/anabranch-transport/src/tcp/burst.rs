//! Segments that leave together: Linux sends packets of several segments and has them cut behind TCP. What
//! shows of it is which segments carry PSH, which ones the pace and the congestion window let out at once,
//! and that a single one waits for another.
//!
//! Known deviations: the pace lets out segment by segment what is sent again; the packets do not end where
//! the kernel's buffers do, unless the application says where (`Connection::end_buffer`).

use super::connection::Connection;
use super::recovery::CongestionState;
use crate::cc::CongestionControl as _;
use crate::time::{Duration, Time};

/// Bytes of data in the largest packet (Linux: `GSO_LEGACY_MAX_SIZE` less the largest header).
const MOST: u64 = 65_535 - 320;
/// A packet holds what leaves in 1/1024 s at the pace (Linux: `sk_pacing_shift`).
const PACING_SHIFT: u32 = 10;
/// The burst may be longer on short paths: by an amount that halves with each 512 us of the round-trip time
/// (Linux: `net.ipv4.tcp_tso_rtt_log`).
const RTT_SHIFT: u32 = 9;
/// After this long without sending, nothing waits.
const LONG_AGO: Duration = Duration::from_millis(1);
/// Segments wait for an acknowledgement that is due within this time, and for no later one (Linux 6.12 as
/// corrected in its stable releases; before, only half the round-trip time counted).
const FAR_AWAY: Duration = Duration::from_millis(1);

/// Why the next segments wait for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deferral {
    CongestionWindow,
    Other,
}

/// The most segments that leave together, computed at most once, when something depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LargestBurst {
    /// The window that the pace follows from, in segments, when sending begins.
    window: u32,
    known: Option<u32>,
}

impl LargestBurst {
    /// The number of segments. What it is computed from is as it was when sending began.
    pub(super) fn of(&mut self, connection: &Connection) -> u32 {
        let Self { window, known } = self;
        *known.get_or_insert_with(|| connection.compute_largest_burst(*window))
    }
}

impl Connection {
    /// The most segments that leave together from now on, with a congestion window of `cwnd` segments.
    #[inline]
    pub(super) fn largest_burst(&self, cwnd: u32) -> LargestBurst {
        LargestBurst { window: cwnd.max(self.board.len()), known: None }
    }

    /// The most segments that leave together, in one packet that is cut only behind TCP (Linux:
    /// `tcp_tso_autosize`): a millisecond's worth at the pace, and more where the round-trip time is short.
    #[inline(never)]
    fn compute_largest_burst(&self, window: u32) -> u32 {
        if !self.parameters.procedures.sends_bursts {
            return 1;
        }
        if let Some(most) = self.cc.most_burst() {
            return most.max(self.least_burst());
        }
        let of_pace = self.pace(window).unwrap_or(u64::MAX) >> PACING_SHIFT;
        let rtt = self.rtt.min_rtt().map_or(u64::MAX, |rtt| rtt.as_nanos() / 1_000) >> RTT_SHIFT;
        let of_rtt = if rtt < 32 { MOST >> rtt } else { 0 };
        let segments = of_pace.saturating_add(of_rtt).min(MOST) / u64::from(self.mss);
        (segments as u32).max(self.least_burst())
    }

    /// Whatever the pace, this many segments may leave together.
    fn least_burst(&self) -> u32 {
        self.cc.least_burst().max(self.parameters.least_burst)
    }

    /// How many of the next segments leave together: at most half the window (Linux: `tcp_cwnd_test`), and no
    /// more than there are and fit into the peer's window.
    #[inline]
    pub(super) fn burst(&self, largest: &mut LargestBurst, cwnd: u32) -> u32 {
        if !self.parameters.procedures.sends_bursts {
            return 1;
        }
        let quota = (cwnd / 2).min(cwnd.saturating_sub(self.board.in_flight()));
        if quota <= 1 {
            return 1;
        }
        let limit = u64::from(self.segment_limit());
        let room = self.sender.window_end().saturating_sub(self.sender.next);
        let unsent = self.sender.marks.limit_together(self.sender.next, self.sender.unsent());
        let whole = u64::from(quota) * limit;
        let segments = if whole <= room.min(unsent) {
            quota
        } else {
            unsent.div_ceil(limit).min(room / limit).min(u64::from(quota)) as u32
        };
        if segments <= self.least_burst() { segments.max(1) } else { segments.min(largest.of(self)) }
    }

    /// Whether the next segments wait until more may leave with them (Linux: `tcp_tso_should_defer`). They
    /// wait only while an acknowledgement is on its way.
    #[inline]
    pub(super) fn deferral(&self, now: Time, largest: &mut LargestBurst, cwnd: u32) -> Option<Deferral> {
        let last = self.sender.last_packet_at.max(self.paced_until());
        if now > last + LONG_AGO { None } else { self.deferral_of_recent(now, largest, cwnd) }
    }

    /// The same, where something has been sent a short time ago.
    fn deferral_of_recent(&self, now: Time, largest: &mut LargestBurst, cwnd: u32) -> Option<Deferral> {
        let mss = u64::from(self.mss);
        let waiting = self.sender.unsent().min(MOST / mss * mss);
        let is_repairing = matches!(self.recovery.state, CongestionState::Recovery | CongestionState::Loss);
        if !self.parameters.procedures.sends_bursts || waiting <= mss || is_repairing {
            return None;
        }
        let peer_room = self.sender.window_end().saturating_sub(self.sender.next);
        let congestion_room = u64::from(cwnd.saturating_sub(self.board.in_flight())) * mss;
        let room = peer_room.min(congestion_room);
        let chunk = self.sender.window.min(u64::from(cwnd) * mss) / u64::from(self.parameters.window_divisor);
        if room >= chunk {
            return None;
        }
        let largest = largest.of(self);
        if largest == 1 || room >= u64::from(largest) * mss {
            return None;
        }
        // The next acknowledgement is far away, or none is to come.
        let srtt = self.rtt.srtt()?;
        let wait = (self.board.front()?.departure + srtt).saturating_since(now);
        if wait > FAR_AWAY || wait * 2 > srtt {
            return None;
        }
        if congestion_room < peer_room && congestion_room <= waiting {
            return Some(Deferral::CongestionWindow);
        }
        let is_last = self.sender.is_finished && waiting == self.sender.unsent();
        (peer_room <= congestion_room && peer_room <= waiting || !is_last).then_some(Deferral::Other)
    }
}
