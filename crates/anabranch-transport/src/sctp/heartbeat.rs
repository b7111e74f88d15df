//! Heartbeats (RFC 9260 section 8.3; the rules of Linux and ns-2 as settings).

use super::association::Association;
use super::config::{HeartbeatPeriod, HeartbeatRule};
use super::failure::Strike;
use super::routing::Routing;
use super::state::State;
use crate::cc::{CongestionControl as _, IdleEvent};
use crate::flow::PathId;
use crate::path::PathState;
use crate::rng::Draw as _;
use crate::time::{Duration, Time};
use crate::wire::sctp::chunk::{Chunk, HeartbeatInfo};

/// Linux: the shortest heartbeat period, HZ / 5 (`sctp_transport_timeout`).
const LINUX_SHORTEST: Duration = Duration::from_millis(200);

impl Association {
    /// Starts heartbeats once the association is open, first on paths that are to be confirmed (section 5.4).
    pub(super) fn start_heartbeats(&mut self, now: Time) {
        let mut burst = 0;
        for index in 0..self.routing.paths.len() {
            let path = PathId(index as u8);
            if !self.is_present(path) {
                continue;
            }
            self.routing.paths[index].heartbeat.idle_since = now;
            if !self.routing.status[index].confirmed {
                // HB.Max.Burst of them leave at once, the others when their timers expire; in Linux all of
                // them leave then (`sctp_cmd_hb_timers_start`).
                let linux = self.parameters.heartbeat.rule == HeartbeatRule::Linux;
                if !linux && burst < self.parameters.heartbeat.max_burst {
                    burst += 1;
                    self.send_heartbeat(now, path);
                }
            }
            self.start_heartbeat_timer(now, path);
        }
        if self.parameters.heartbeat.enabled && self.parameters.heartbeat.rule == HeartbeatRule::OneTimer {
            self.start_one_timer(now, self.routing.selection.primary);
        }
    }

    pub(super) fn start_heartbeat_timer(&mut self, now: Time, path: PathId) {
        let wanted = self.parameters.heartbeat.enabled
            && self.parameters.heartbeat.rule != HeartbeatRule::OneTimer
            || !self.routing.status[path.index()].confirmed;
        let is_over = self.has_stopped_heartbeats();
        let own = &mut self.routing.paths[path.index()].heartbeat;
        if !wanted || is_over {
            own.timer = Time::NEVER;
            return;
        }
        own.period_start = now;
        let period = self.heartbeat_period(path);
        self.set_heartbeat_timer(now, path, period);
    }

    fn set_heartbeat_timer(&mut self, now: Time, path: PathId, length: Duration) {
        let timer = self.deadline(now, length);
        let own = &mut self.routing.paths[path.index()];
        own.heartbeat.t3_before = own.t3;
        own.heartbeat.timer = timer;
        own.heartbeat.length = length;
    }

    /// Whether the heartbeat timer of a path is served before its T3-rtx, where both expire in one tick of
    /// Linux's wheel. With HB.interval = RTO / 2 both often run for the same time from the same data on, and
    /// an unanswered heartbeat then counts an error one timeout earlier.
    #[cold]
    pub(super) fn heartbeat_precedes_t3(&self, path: PathId) -> bool {
        let own = &self.routing.paths[path.index()];
        let [heartbeat, t3] = [own.heartbeat.length, own.rtt.rto()];
        if self.parameters.heartbeat.rule != HeartbeatRule::Linux {
            return false;
        }
        // A timer that is put off within its bucket keeps its place there (`__mod_timer`).
        if own.heartbeat.t3_before == own.t3 {
            self.parameters.rto.clock.serves_younger_first(t3, heartbeat)
        } else {
            !self.parameters.rto.clock.serves_younger_first(heartbeat, t3)
        }
    }

    /// Section 8.3: heartbeats are discontinued after SHUTDOWN or SHUTDOWN ACK.
    const fn has_stopped_heartbeats(&self) -> bool {
        self.state.is_ended() || self.state.closing().is_some()
    }

    /// The time to the next heartbeat.
    fn heartbeat_period(&mut self, path: PathId) -> Duration {
        let rto = self.routing.paths[path.index()].rtt.rto();
        if self.parameters.heartbeat.rule == HeartbeatRule::Linux {
            let shortest = self.linux_heartbeat_period(path);
            return shortest + self.routing.heartbeat.rng.duration_between(Duration::ZERO, rto);
        }
        let interval = self.heartbeat_interval(path);
        let half = Duration::from_nanos(rto.as_nanos() / 2);
        let rng = &mut self.routing.heartbeat.rng;
        match self.parameters.heartbeat.period {
            HeartbeatPeriod::Rfc => interval + half + rng.duration_between(Duration::ZERO, rto),
            HeartbeatPeriod::Equation4 => {
                let half = Duration::from_nanos(interval.as_nanos() / 2);
                rto + half + rng.duration_between(Duration::ZERO, interval)
            }
        }
    }

    /// HB.interval; probing an unconfirmed or a potentially failed path does not wait for it
    /// (section 5.4; RFC 7829 section 3.2).
    fn heartbeat_interval(&self, path: PathId) -> Duration {
        let status = &self.routing.status[path.index()];
        let probing = !status.confirmed || status.state == PathState::PotentiallyFailed;
        if probing { Duration::ZERO } else { self.parameters.heartbeat.interval }
    }

    /// Linux: the period without its jitter.
    fn linux_heartbeat_period(&self, path: PathId) -> Duration {
        let half = Duration::from_nanos(self.routing.paths[path.index()].rtt.rto().as_nanos() / 2);
        (self.heartbeat_interval(path) + half).max(LINUX_SHORTEST)
    }

    fn start_one_timer(&mut self, now: Time, path: PathId) {
        let period = self.heartbeat_period(path);
        self.routing.heartbeat.started_at = now;
        self.routing.heartbeat.timer = self.deadline(now, period);
    }

    /// Rule "one timer": asks the path that has been idle longest, if it has been idle since before the timer
    /// was started.
    pub(super) fn on_one_heartbeat_timer(&mut self, now: Time) {
        let mut longest = 0;
        for index in 1..self.routing.paths.len() {
            if self.routing.paths[index].heartbeat.idle_since
                < self.routing.paths[longest].heartbeat.idle_since
            {
                longest = index;
            }
        }
        let path = PathId(longest as u8);
        if self.routing.paths[longest].heartbeat.idle_since <= self.routing.heartbeat.started_at {
            let rto = self.routing.paths[longest].rtt.rto();
            self.send_heartbeat(now, path);
            self.shrink_idle_window(path, rto);
        }
        self.start_one_timer(now, path);
    }

    /// The timer of one path has expired.
    pub(super) fn on_heartbeat_timer(&mut self, now: Time, path: PathId) {
        let own = &self.routing.paths[path.index()];
        if self.parameters.heartbeat.rule == HeartbeatRule::Linux {
            let rto = own.rtt.rto();
            let period = self.linux_heartbeat_period(path);
            let elapsed = now.saturating_since(own.last_data);
            if !own.last_data.is_never() && elapsed < period {
                // Data was sent meanwhile: wait for the rest of the period (`sctp_generate_heartbeat_event`).
                self.set_heartbeat_timer(now, path, period - elapsed);
                return;
            }
            // Linux gives the association up before it sends another heartbeat (`sctp_sf_sendbeat_8_3`).
            if self.parameters.association_max_retrans.is_some_and(|max| self.routing.errors_in_a_row >= max)
            {
                self.give_up(now);
                return;
            }
            self.send_heartbeat(now, path);
            self.shrink_idle_window(path, rto);
            // Waiting data leaves with it as far as the window of its path is open, on the path that the
            // strike may have chosen (`sctp_outq_uncork`).
            self.start_heartbeat_timer(now, path);
            self.send(now);
            return;
        }
        let status = &self.routing.status[path.index()];
        // Section 8.3: a path is idle if nothing was sent on it within the period.
        let is_idle = own.heartbeat.idle_since <= own.heartbeat.period_start;
        // RFC 7829 section 3.2: the heartbeat on its way counts as unanswered after one RTO; another one
        // would put that off.
        let is_asked = status.state == PathState::PotentiallyFailed && !own.heartbeat.timeout.is_never();
        if (is_idle || !status.confirmed) && !is_asked {
            let rto = own.rtt.rto();
            self.send_heartbeat(now, path);
            self.shrink_idle_window(path, rto);
        }
        self.start_heartbeat_timer(now, path);
    }

    /// Shrinks the window of a path with the heartbeat that it gets because it is idle, where the profile
    /// does so.
    fn shrink_idle_window(&mut self, path: PathId, rto: Duration) {
        if self.parameters.procedures.idle_window_shrinks_with_heartbeats {
            self.routing.paths[path.index()].cc.on_idle(&IdleEvent::new(rto, rto));
        }
    }

    pub(super) fn send_heartbeat(&mut self, now: Time, path: PathId) {
        if !self.is_present(path) || self.has_stopped_heartbeats() {
            return;
        }
        let own = &mut self.routing.paths[path.index()];
        let info = HeartbeatInfo { sent_at: now, nonce: own.heartbeat.nonce, path, padding: 0, pair: None };
        let linux = self.parameters.heartbeat.rule == HeartbeatRule::Linux;
        let unanswered = own.heartbeat.unanswered;
        own.heartbeat.unanswered = true;
        if !linux {
            own.heartbeat.idle_since = now;
            let rto = own.rtt.rto();
            let timeout = self.deadline(now, rto);
            self.routing.paths[path.index()].heartbeat.timeout = timeout;
        }
        self.stats.heartbeats_sent += 1;
        self.routing.status[path.index()].heartbeats_sent += 1;
        self.transmit_one(path, Chunk::Heartbeat(info));
        if linux && unanswered {
            self.stats.heartbeats_unanswered += 1;
            self.strike(now, path, Strike::Heartbeat);
        }
    }

    /// Section 8.3: no answer within one RTO is an error.
    pub(super) fn on_heartbeat_timeout(&mut self, now: Time, path: PathId) {
        self.routing.paths[path.index()].heartbeat.timeout = Time::NEVER;
        self.routing.paths[path.index()].heartbeat.unanswered = false;
        self.stats.heartbeats_unanswered += 1;
        self.strike(now, path, Strike::Heartbeat);
        let awaits_none = self.routing.paths[path.index()].heartbeat.timeout.is_never();
        if self.is_over() || !awaits_none {
            return;
        }
        let potentially_failed = self.routing.status[path.index()].state == PathState::PotentiallyFailed;
        if self.parameters.heartbeat.after_timeout || potentially_failed {
            self.send_heartbeat(now, path);
        }
    }

    /// RFC 7829 section 3.2: a path that has just become potentially failed is asked at once, and then
    /// every RTO; Linux waits for its timer.
    pub(super) fn ask_potentially_failed(&mut self, now: Time, path: PathId) {
        if !self.parameters.heartbeat.enabled {
            return;
        }
        if self.parameters.heartbeat.rule == HeartbeatRule::Linux {
            self.start_heartbeat_timer(now, path);
        } else if self.routing.paths[path.index()].heartbeat.timeout.is_never() {
            self.send_heartbeat(now, path);
        }
    }

    /// Answers a heartbeat over the path it came from (section 8.3).
    #[inline(never)]
    pub(super) fn on_heartbeat(&mut self, now: Time, path: PathId, mut info: HeartbeatInfo) {
        if let Some(pair) = &mut info.pair {
            pair.arrived_at = now;
        }
        if !self.awaits_init_ack() {
            self.answer(path, Chunk::HeartbeatAck(info));
        }
        if matches!(self.state, State::ShutdownSent(..)) {
            self.extend_t2(now);
        }
    }

    #[inline(never)]
    pub(super) fn on_heartbeat_ack(&mut self, now: Time, info: HeartbeatInfo) {
        let path = info.path;
        let Some(own) = self.routing.paths.get_mut(path.index()) else { return };
        // Section 5.4: the nonce proves that the peer saw the heartbeat, but the peer may still have changed
        // the time.
        if own.heartbeat.nonce != info.nonce || info.sent_at > now {
            return;
        }
        let longest = self.parameters.heartbeat.interval + own.rtt.rto();
        if !self.parameters.procedures.takes_late_heartbeat_acks
            && now.saturating_since(info.sent_at) > longest
        {
            return;
        }
        if let Some(mark) = info.pair {
            self.on_pair_ack(now, &info, mark);
            return;
        }
        own.heartbeat.timeout = Time::NEVER;
        own.heartbeat.unanswered = false;
        self.stats.heartbeats_acked += 1;
        let was_held = self.routing.selection.held;
        let was_confirmed = self.routing.status[path.index()].confirmed;
        self.clear_errors_by_heartbeat(now, path);
        self.take_rtt_sample(now, path, info.sent_at);
        if self.parameters.heartbeat.rule == HeartbeatRule::Linux || !was_confirmed {
            self.start_heartbeat_timer(now, path);
        }
        if self.parameters.send_on_timeout || was_held {
            self.send(now);
        }
    }
}

impl Routing {
    /// Stops all heartbeats: no more are sent, and those in flight no longer count.
    #[cold]
    pub(super) fn stop_heartbeats(&mut self) {
        self.heartbeat.timer = Time::NEVER;
        for path in &mut self.paths {
            path.heartbeat.timer = Time::NEVER;
            path.heartbeat.timeout = Time::NEVER;
        }
    }
}
