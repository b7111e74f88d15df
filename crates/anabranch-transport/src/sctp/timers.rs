//! The timers of an association: which of them have expired, and when the next one does.

use super::association::{Association, State};
use super::path::Path;
use crate::ground::PathId;
use crate::time::{Duration, Time};

impl Association {
    #[inline(never)]
    pub(super) fn on_timers(&mut self, now: Time) {
        self.next_of_paths = None;
        if self.handshake.timer <= now {
            self.on_t1(now);
        }
        for index in 0..self.paths.len() {
            let (path, own) = (PathId(index as u8), &self.paths[index]);
            if own.t3 > now {
                continue;
            }
            if own.heartbeat.timer <= now && self.heartbeat_precedes_t3(path) {
                self.on_heartbeat_timer(now, path);
            }
            if self.paths[index].t3 <= now {
                self.on_t3(now, path);
            }
        }
        for index in 0..self.paths.len() {
            if self.paths[index].heartbeat.timeout <= now {
                self.on_heartbeat_timeout(now, PathId(index as u8));
            }
            if self.paths[index].heartbeat.timer <= now {
                self.on_heartbeat_timer(now, PathId(index as u8));
            }
        }
        if self.heartbeat.timer <= now {
            self.on_one_heartbeat_timer(now);
        }
        if self.delayed_sack.timer <= now {
            self.send_sack();
        }
        if self.has_rare_parts {
            self.on_rare_timers(now);
        }
        if self.shutdown.t2 <= now {
            self.on_t2(now);
        }
        if self.shutdown.t5 <= now {
            self.on_t5(now);
        }
        if self.has_rare_parts && self.probing.as_ref().is_some_and(|probing| probing.tick <= now) {
            self.on_policy_tick(now);
        }
        self.finish_input(now);
    }

    #[cold]
    fn on_rare_timers(&mut self, now: Time) {
        if self.reconfiguration.as_ref().is_some_and(|addresses| addresses.t4 <= now) {
            self.on_t4(now);
        }
        if self.stream_reconfiguration.as_ref().is_some_and(|reset| reset.timer() <= now) {
            self.on_reconfiguration_timer(now);
        }
    }

    #[inline]
    pub(super) fn next_timeout(&mut self) -> Time {
        let mut next = self.heartbeat.timer.min(self.delayed_sack.timer);
        if self.state != State::Established {
            // The timers of opening and closing.
            next = next.min(self.handshake.timer).min(self.shutdown.t2).min(self.shutdown.t5);
        }
        if self.has_rare_parts {
            next = next.min(self.next_rare_timeout());
        }
        if let Some(first) = self.next_of_paths {
            return next.min(first);
        }
        let first = self.first_timeout_of_paths();
        self.next_of_paths = Some(first);
        next.min(first)
    }

    #[inline]
    pub(super) fn first_timeout_of_paths(&self) -> Time {
        let timeout = |path: &Path| path.t3.min(path.heartbeat.timer).min(path.heartbeat.timeout);
        self.paths.iter().fold(Time::NEVER, |first, path| first.min(timeout(path)))
    }

    #[cold]
    fn next_rare_timeout(&self) -> Time {
        let t4 = self.reconfiguration.as_ref().map_or(Time::NEVER, |addresses| addresses.t4);
        let reset = self.stream_reconfiguration.as_ref().map_or(Time::NEVER, |reset| reset.timer());
        t4.min(reset).min(self.probing.as_ref().map_or(Time::NEVER, |probing| probing.tick))
    }

    /// The time at which a timer of this length expires.
    pub(super) fn deadline(&self, now: Time, length: Duration) -> Time {
        self.parameters.rto.clock.deadline(now, length)
    }
}
