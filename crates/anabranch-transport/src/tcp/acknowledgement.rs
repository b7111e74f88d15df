//! Processing of acknowledgements: data that arrived, the window, round-trip times, delivery rates (RFC 9293
//! section 3.10.7.4, RFC 2018, RFC 6298; Linux's `tcp_ack`).

use super::accurate_ecn::Acked;
use super::connection::Connection;
use super::recovery::{CongestionState, Resend};
use super::scoreboard::{Ranges, Sent};
use crate::cc::{AckEvent, ArrivalEvent, CongestionControl as _, Cumulative, RateSample, RttEvent};
use crate::recovery::prr::Progress;
use crate::recovery::rate_sample::OpenSample;
use crate::recovery::rtt::Sample;
use crate::time::{Duration, Time};
use crate::wire::tcp::{Flags, Segment};

/// What an acknowledgement that is being processed says and brings about.
#[expect(clippy::struct_excessive_bools, reason = "the kernel's flags of an acknowledgement")]
#[derive(Debug, Default)]
pub(super) struct Ack {
    /// SND.UNA before the acknowledgement.
    pub(super) prior: u64,
    /// The timestamp echo, `TSecr`.
    pub(super) echo: Option<u32>,
    /// Whether SND.UNA advanced.
    pub(super) advanced: bool,
    /// Whether an acknowledgement that was sent after it has come before it.
    pub(super) is_old: bool,
    /// Whether the segment carries data or FIN.
    pub(super) has_data: bool,
    pub(super) window_changed: bool,
    /// Segments that are acknowledged cumulatively, and whether there are any.
    segments: u32,
    pub(super) data_acked: bool,
    /// Something is acknowledged that was sent twice.
    retransmitted_acked: bool,
    /// Whether something is acknowledged selectively for the first time.
    pub(super) data_sacked: bool,
    /// Whether something before the recovery point is acknowledged that was sent only once.
    pub(super) original_acked: bool,
    /// Whether it reports a duplicate.
    pub(super) reports_duplicate: bool,
    /// The duplicate is that of a tail loss probe.
    duplicate_of_probe: bool,
    /// Whether it echoes marks.
    pub(super) is_marked: bool,
    /// Whether a retransmission is found to be lost.
    pub(super) lost_retransmission: bool,
    /// Whether the retransmission timer is to be started anew.
    pub(super) restarts_timer: bool,
    /// Whether it has set the window after a spurious timeout, and is not to change it any further.
    pub(super) holds_window: bool,
    /// The smallest number that arrived late without having been sent again, if there is one.
    reordered_from: Option<u64>,
    /// When the first and the last of the acknowledged segments were sent, cumulatively and selectively.
    acked_sent: Option<(Time, Time)>,
    sacked_sent: Option<(Time, Time)>,
    /// The round-trip time of the last of them (Linux: `rtt_us` of `struct rate_sample`).
    rtt: Option<Duration>,
    sample: OpenSample,
}

impl Ack {
    /// Whether it changes nothing but counts as a duplicate (RFC 5681 section 2; Linux: `FLAG_NOT_DUP`).
    pub(super) fn is_duplicate(&self) -> bool {
        !(self.advanced || self.has_data || self.window_changed || self.reports_duplicate)
    }
}

impl Connection {
    /// Whether a segment acknowledges what has not been sent.
    pub(super) fn acknowledges_unsent(&self, segment: &Segment) -> bool {
        let number = self.own_numbers.number(segment.acknowledgement, self.sender.unacknowledged);
        number.is_some_and(|number| number > self.sender.next)
    }

    /// Takes the acknowledgement of a segment. Returns whether it acknowledges what was sent, and is not an
    /// old one.
    pub(super) fn on_acknowledgement(
        &mut self,
        now: Time,
        segment: &Segment,
        start: u64,
        has_data: bool,
    ) -> bool {
        let prior = self.sender.unacknowledged;
        let number = self.own_numbers.number(segment.acknowledgement, prior);
        // RFC 5961 section 5: an acknowledgement of data more than a window back comes from a sender that
        // does not see the connection.
        let is_acceptable =
            |number: u64| number <= self.sender.next && number + self.sender.max_window >= prior;
        let Some(number) = number.filter(|number| is_acceptable(*number)) else { return false };
        let advanced = number > prior;
        if advanced {
            self.timer.timeouts = 0;
            self.stats.bytes_acknowledged += self.stream_bytes(prior, number);
        }
        let is_old = number < prior;
        let mut window_changed = false;
        if !is_old {
            window_changed = self.update_window(now, segment, start, number);
            self.sender.unacknowledged = number;
            self.heard_at = now;
        }
        let has_blocks = !segment.sack.is_empty();
        let is_special =
            has_blocks || window_changed || segment.flags.without(Flags::ACK.with(Flags::PSH)) != Flags::NONE;
        if self.board.is_empty() && !has_blocks {
            if self.ecn.is_accurate() {
                self.read_marks(segment, 0);
            }
            self.report_arrival(now, None, is_special);
            self.on_probe_answered(now);
            self.on_probe_acknowledged(now, number, false, !(advanced || has_data || window_changed));
            return true;
        }
        let prior_in_flight = self.board.in_flight();
        let (was_open, was_in_recovery) =
            (self.recovery.state == CongestionState::Open, !self.recovery.is_calm());
        let (prior_delivered, prior_bytes) = (self.rate.delivered_segments, self.rate.delivered);
        let prior_lost = self.rate.lost;
        let prior_highest = self.board.highest_sacked;
        let mut ack = Ack {
            prior,
            echo: segment.timestamps.filter(|_| self.has_timestamps).map(|timestamps| timestamps.echo),
            advanced,
            is_old,
            has_data,
            window_changed,
            ..Ack::default()
        };
        if self.has_sack && has_blocks {
            self.take_sack(now, segment, &mut ack);
        }
        if self.board.is_empty() {
            if self.ecn.is_accurate() {
                self.read_marks(segment, 0);
            }
            if ack.reports_duplicate {
                self.alert(now, &mut ack);
            }
            self.report_arrival(now, ack.rtt, is_special);
            self.on_probe_answered(now);
            let is_pure_duplicate = ack.is_duplicate();
            self.on_probe_acknowledged(now, number, ack.duplicate_of_probe, is_pure_duplicate);
            return true;
        }
        self.take_cumulative(now, prior_highest, &mut ack);
        self.rack.adapt(ack.sample.prior_delivered(), self.rate.delivered);
        self.report_arrival(now, ack.rtt, is_special);
        let is_pure_duplicate = ack.is_duplicate() && !ack.data_sacked;
        self.on_probe_acknowledged(now, number, ack.duplicate_of_probe, is_pure_duplicate);
        let newly_delivered = (self.rate.delivered_segments - prior_delivered) as u32;
        let marks = self.read_marks(segment, newly_delivered);
        ack.is_marked = marks > 0;
        let mut resend = Resend::Nothing;
        if self.is_dubious(&ack) {
            resend = self.alert(now, &mut ack);
        }
        if ack.restarts_timer {
            self.restart_timer(now);
        }
        let delivered = (self.rate.delivered_segments - prior_delivered) as u32;
        let delivered_bytes = (self.rate.delivered - prior_bytes) as u32;
        let lost_bytes = (self.rate.lost - prior_lost) as u32;
        let rate = self.rate.close(now, &ack.sample, delivered > 0, self.rtt.min_rtt());
        let cumulative = Cumulative { segments: ack.segments, was_open, was_in_recovery };
        let report = Report {
            prior_in_flight,
            cumulative,
            delivered,
            delivered_bytes,
            lost_bytes,
            marks,
            rtt: ack.rtt,
            rate,
            holds_window: ack.holds_window,
        };
        self.report_control(now, &ack, &report);
        self.resend(now, resend);
        if ack.advanced {
            self.report_writable();
            if self.sender.has_sent_fin && number == self.sender.next {
                self.on_fin_acknowledged(now);
            }
        }
        true
    }

    /// How many of the `delivered` segments were marked.
    fn read_marks(&mut self, segment: &Segment, delivered: u32) -> u32 {
        if !self.ecn.is_on() {
            return 0;
        }
        let marks = self.ecn.marks(segment, Acked { segments: delivered, mss: self.mss });
        self.stats.ce_reported += u64::from(marks);
        marks
    }

    /// Bytes of the stream among these numbers: without SYN and FIN.
    fn stream_bytes(&self, from: u64, to: u64) -> u64 {
        let last = self.sender.written + 1;
        to.min(last).saturating_sub(from.max(1).min(last))
    }

    /// Marks what the blocks cover (RFC 2018 section 5, RFC 2883 section 4; Linux:
    /// `tcp_sacktag_write_queue`).
    #[inline(never)]
    fn take_sack(&mut self, now: Time, segment: &Segment, ack: &mut Ack) {
        let acknowledged = self.sender.unacknowledged;
        let mut runs = Ranges::new();
        for (index, block) in segment.sack.iter().enumerate() {
            let Some(start) = self.own_numbers.number(block.start, acknowledged) else { continue };
            let Some(end) = self.own_numbers.number(block.end, start) else { continue };
            if start >= end || end > self.sender.next {
                continue;
            }
            let is_duplicate = index == 0
                && (end <= acknowledged || start < acknowledged || {
                    let other = segment.sack.get(1);
                    other.is_some_and(|other| {
                        let outer_start = self.own_numbers.number(other.start, acknowledged);
                        let outer_end = self.own_numbers.number(other.end, acknowledged);
                        outer_start.is_some_and(|outer| outer <= start)
                            && outer_end.is_some_and(|outer| outer >= end)
                    })
                });
            if is_duplicate {
                self.take_duplicate(start, end, ack);
            } else if end > acknowledged {
                runs.push((start, end));
            }
        }
        let high = self.recovery.high;
        let highest_before = if self.board.sacked == 0 { acknowledged } else { self.board.highest_sacked };
        let (rack, rate, min_rtt) = (&mut self.rack, &mut self.rate, self.rtt.min_rtt());
        self.board.for_each_newly_covered(&runs, |board, id| {
            let sent = *board.get(id);
            if sent.sacked || sent.end() <= acknowledged {
                return;
            }
            let end = sent.end();
            rack.advance(now, sent.departure, sent.order, sent.ever_retransmitted, min_rtt);
            if !sent.ever_retransmitted {
                if sent.start < highest_before {
                    // It was in a hole and arrives without a retransmission.
                    let from = ack.reordered_from.map_or(sent.start, |from| from.min(sent.start));
                    ack.reordered_from = Some(from);
                }
                ack.original_acked |= end <= high;
                let first = ack.sacked_sent.map_or(sent.departure, |(first, _)| first);
                ack.sacked_sent = Some((first, sent.departure));
            }
            board.mark_sacked(id);
            ack.data_sacked = true;
            rate.delivered += u64::from(sent.length);
            rate.delivered_segments += 1;
            rate.on_delivered(&mut ack.sample, &mut board.get_mut(id).rate, sent.departure, end);
        });
        let is_undoable = self.recovery.state != CongestionState::Loss || self.recovery.undo_from.is_some();
        if let Some(from) = ack.reordered_from.filter(|_| is_undoable) {
            self.record_reordering(from);
        }
    }

    /// Takes a report that the peer has received this run twice (RFC 2883; Linux: `tcp_check_dsack`,
    /// `tcp_sacktag_one`).
    fn take_duplicate(&mut self, start: u64, end: u64, ack: &mut Ack) {
        let mut segments = (end - start).div_ceil(u64::from(self.mss)) as u32;
        ack.duplicate_of_probe =
            self.rack.probe.is_some_and(|probe| probe.is_retransmission && probe.end == end);
        self.recovery.duplicates += u64::from(segments);
        if self.parameters.procedures.tells_duplicates_apart {
            let is_first_news = self.board.sacked == 0 && start == ack.prior;
            self.recovery.reported.record_report(start, end, is_first_news);
        }
        if self.recovery.duplicates > self.recovery.retransmissions {
            // There are more duplicates than retransmissions, so the network has made this one.
            return;
        }
        ack.reports_duplicate = true;
        if self.recovery.has_reordering && !ack.duplicate_of_probe {
            // In all other cases a duplicate says nothing about reordering.
            self.rack.record_duplicate();
        }
        if end > ack.prior {
            segments = 0;
            self.board.for_each_in((start, end), |board, id| {
                segments += u32::from(board.get(id).ever_retransmitted);
                board.record_duplicate(id);
            });
        }
        let counts = self.recovery.undo_from.is_some_and(|from| end > from);
        if counts && let Some(left) = &mut self.recovery.undo_retransmissions {
            *left = left.saturating_sub(segments);
        }
    }

    /// Removes what is acknowledged cumulatively from the scoreboard (Linux: `tcp_clean_rtx_queue`).
    fn take_cumulative(&mut self, now: Time, prior_highest: u64, ack: &mut Ack) {
        let acknowledged = self.sender.unacknowledged;
        let origin = self.timestamp_origin(ack.echo);
        let mut acked = 0;
        let mut reordered: Option<u64> = None;
        while let Some(first) = self.board.front() {
            let end = first.end();
            if end > acknowledged {
                if first.start < acknowledged {
                    self.board.trim_front(acknowledged);
                }
                break;
            }
            let Some(sent) = self.board.pop(self.has_sack) else { break };
            let Sent { start, length, ever_retransmitted, sacked, departure: sent_at, mut rate, .. } = sent;
            acked += 1;
            if ever_retransmitted {
                ack.retransmitted_acked = true;
            } else if !sacked {
                let first = ack.acked_sent.map_or(sent_at, |(first, _)| first);
                ack.acked_sent = Some((first, sent_at));
                reordered = Some(reordered.map_or(start, |from| from.min(start)));
                ack.original_acked |= end <= self.recovery.high;
            }
            if !sacked {
                self.rate.delivered += u64::from(length);
                if self.has_sack {
                    self.rate.delivered_segments += 1;
                    let min_rtt = self.rtt.min_rtt();
                    if !(ever_retransmitted && is_of_earlier(origin, sent_at)) {
                        self.rack.advance(now, sent_at, sent.order, ever_retransmitted, min_rtt);
                    }
                }
            }
            self.rate.on_delivered(&mut ack.sample, &mut rate, sent_at, end);
        }
        (ack.segments, ack.data_acked) = (acked, acked > 0);
        let has_sample = self.take_rtt(now, ack);
        if acked > 0 {
            ack.restarts_timer = true;
            if !self.has_sack {
                self.remove_duplicates(acked);
                if ack.retransmitted_acked {
                    // Without SACK, all of it may have been the retransmission.
                    ack.original_acked = false;
                }
            } else if let Some(from) = reordered.filter(|from| *from < prior_highest) {
                // A hole that had not been sent again was filled.
                self.record_reordering_below(from, prior_highest);
            }
        } else if has_sample
            && let (Some((first_sent, _)), Some(first)) = (ack.sacked_sent, self.board.front())
            && now.saturating_since(first_sent) > now.saturating_since(first.departure)
        {
            // Linux does not restart the timer when the measurement is of what was sent after the first
            // segment.
            ack.restarts_timer = true;
        }
    }

    /// The latest time at which the segment whose timestamp is echoed can have been sent, where RACK asks for
    /// it (RFC 8985 section 6.2 step 2, condition 1). Only a cumulative acknowledgement answers the question:
    /// behind a hole the echo stays that of the last segment in order (RFC 7323 section 4.3), so that for
    /// what is acknowledged selectively, as a tail loss probe is, it does not say which transmission has
    /// arrived.
    fn timestamp_origin(&self, echo: Option<u32>) -> Option<Time> {
        let asks = self.parameters.procedures.rack_asks_the_echo && self.uses_rack();
        let echo = echo.filter(|_| asks)?;
        let first = self.timestamp(Time::ZERO);
        Some(Time::from_millis(u64::from(echo.wrapping_sub(first)) + 1))
    }

    fn record_reordering_below(&mut self, from: u64, highest: u64) {
        let kept = std::mem::replace(&mut self.board.highest_sacked, highest);
        let sacked = std::mem::replace(&mut self.board.sacked, 1);
        self.record_reordering(from);
        self.board.highest_sacked = kept;
        self.board.sacked = sacked;
    }

    /// Without SACK: removes the duplicate acknowledgements that a cumulative one accounts for (Linux:
    /// `tcp_remove_reno_sacks`).
    fn remove_duplicates(&mut self, acked: u32) {
        let sacked = self.board.sacked;
        // One segment filled the hole; the duplicates were for the others.
        self.rate.delivered_segments += u64::from(acked.saturating_sub(sacked).max(1));
        self.board.sacked = sacked.saturating_sub(acked - 1).min(self.board.len());
    }

    /// Takes the round-trip time that the acknowledgement measures, if it does (Linux:
    /// `tcp_ack_update_rtt`).
    fn take_rtt(&mut self, now: Time, ack: &mut Ack) -> bool {
        // RFC 6298 section 3, Karn's rule: no measurement where something was sent twice.
        let acked = ack.acked_sent.filter(|_| !ack.retransmitted_acked);
        if let Some((first, last)) = acked {
            let last = ack.sacked_sent.map_or(last, |(_, last)| last);
            ack.rtt = Some(now - last);
            self.take_rtt_sample(now, now - first, now - last);
            return true;
        }
        if let Some((first, last)) = ack.sacked_sent {
            ack.rtt = Some(now - last);
            self.take_rtt_sample(now, now - first, now - last);
            return true;
        }
        // RFC 7323 section 4: timestamps measure where SND.UNA advances.
        if let Some(echo) = ack.echo.filter(|echo| ack.data_acked && *echo != 0) {
            let millis = self.timestamp(now).wrapping_sub(echo);
            if millis < 1 << 20 {
                let rtt = Duration::from_millis(u64::from(millis.max(1)));
                ack.rtt = self.parameters.procedures.timestamps_reach_control.then_some(rtt);
                self.take_rtt_sample(now, rtt, rtt);
                return true;
            }
        }
        false
    }

    /// Takes a measured round-trip time. `rtt` is that of the first segment acknowledged, with the delay of
    /// the acknowledgement; `newest` is that of the last one.
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn take_rtt_sample(&mut self, now: Time, rtt: Duration, newest: Duration) {
        self.rtt.record_min(now, newest);
        let (acknowledged, sent) = (self.sender.unacknowledged, self.sender.next);
        self.rtt.on_sample(&Sample { acknowledged, sent, ..Sample::new(now, rtt) });
        if let Some(measures) = &mut self.measures {
            measures.on_rtt(rtt);
        }
        self.cc.on_rtt_sample(&RttEvent::new(now, newest));
    }

    /// Tells the control that an acknowledgement has arrived (Linux: `tcp_in_ack_event`). It is special if it
    /// has SACK blocks or flags besides ACK and PSH, or changes the window (Linux: `CA_ACK_SLOWPATH`).
    #[inline]
    pub(super) fn report_arrival(&mut self, now: Time, rtt: Option<Duration>, is_special: bool) {
        let mut event = ArrivalEvent::new(now, self.sender.unacknowledged);
        (event.rtt, event.is_special) = (rtt, is_special);
        self.cc.on_arrival(&event);
    }

    /// Tells the control about the acknowledgement, after any reduction in progress (Linux:
    /// `tcp_cong_control`).
    fn report_control(&mut self, now: Time, ack: &Ack, report: &Report) {
        let lost = report.lost_bytes / self.mss;
        let in_recovery = self.recovery.is_reducing();
        if in_recovery {
            self.reduce_window(report.delivered, lost, ack.advanced);
        }
        // Linux, tcp_may_raise_cwnd: with much reordering, what arrives out of order counts too.
        let may_grow =
            ack.data_acked || (ack.data_sacked && self.recovery.reordering > super::recovery::DUP_THRESHOLD);
        self.report_to_control(now, report, may_grow, in_recovery);
    }

    /// Tells the control about the acknowledgement, for which the window `may_grow`.
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn report_to_control(
        &mut self,
        now: Time,
        report: &Report,
        may_grow: bool,
        in_recovery: bool,
    ) {
        let mss = self.mss;
        let mut event =
            AckEvent::new(now, report.delivered_bytes, report.prior_in_flight.saturating_mul(mss));
        event.segments_acked = match (may_grow, self.parameters.byte_counting) {
            (false, _) => 0,
            (true, true) => report.delivered,
            (true, false) => 1,
        };
        event.outstanding = self.in_flight_bytes();
        event.cumulative_advanced = may_grow;
        event.cumulative = Some(report.cumulative);
        event.in_recovery = in_recovery;
        event.is_open = self.recovery.state == CongestionState::Open;
        event.is_window_limited = !report.holds_window && self.is_window_limited();
        event.marked = report.marks.saturating_mul(mss).min(report.delivered_bytes);
        event.counts_marks = self.ecn.counts_marks();
        event.has_unsent = self.has_unsent_above
            || (self.sender.has_unsent() && self.sender.window_end() > self.sender.next);
        event.newly_lost = report.lost_bytes;
        event.rtt = report.rtt;
        event.min_rtt = self.rtt.min_rtt();
        event.srtt = self.rtt.srtt();
        event.acknowledged_to = self.sender.unacknowledged;
        event.sent_to = self.sender.next;
        event.total_acked = self.sender.unacknowledged;
        event.rate = report.rate;
        event.next_departure = self.paced_until();
        self.cc.on_ack(&event);
        self.update_pacing_rate();
    }

    /// Counts an acknowledgement towards the reduction of the window that is going on.
    pub(super) fn reduce_window(&mut self, delivered: u32, lost: u32, advanced: bool) {
        let in_flight = self.board.in_flight();
        let progress = Progress { delivered, lost, advanced, in_flight };
        self.recovery.prr.on_ack(self.parameters.window_reduction, &progress);
    }
}

/// Whether the acknowledgement of a segment that was last sent at `sent_at` answers an earlier transmission:
/// the one that it echoes was sent before `origin`.
fn is_of_earlier(origin: Option<Time>, sent_at: Time) -> bool {
    origin.is_some_and(|origin| origin <= sent_at)
}

/// What the congestion control is told about an acknowledgement.
pub(super) struct Report {
    /// Segments on their way before the acknowledgement.
    pub(super) prior_in_flight: u32,
    pub(super) cumulative: Cumulative,
    /// Segments delivered.
    pub(super) delivered: u32,
    pub(super) delivered_bytes: u32,
    pub(super) lost_bytes: u32,
    /// Segments that were marked.
    pub(super) marks: u32,
    /// The round-trip time of the last segment that it acknowledges.
    pub(super) rtt: Option<Duration>,
    pub(super) rate: Option<RateSample>,
    /// Whether the window is not to grow (RFC 4015 section 3.4).
    pub(super) holds_window: bool,
}
