//! The timers of an association: which of them have expired, and when the next one does.

use super::association::Association;
use crate::flow::PathId;
use crate::time::{Duration, Time};

impl Association {
    #[inline(never)]
    pub(super) fn on_timers(&mut self, now: Time) {
        self.routing.next_of_paths = None;
        if self.state.opening_mut().is_some_and(|opening| opening.t1 <= now) {
            self.on_t1(now);
        }
        for index in 0..self.routing.paths.len() {
            let (path, own) = (PathId(index as u8), &self.routing.paths[index]);
            if own.t3 > now {
                continue;
            }
            if own.heartbeat.timer <= now && self.heartbeat_precedes_t3(path) {
                self.on_heartbeat_timer(now, path);
            }
            if self.routing.paths[index].t3 <= now {
                self.on_t3(now, path);
            }
        }
        for index in 0..self.routing.paths.len() {
            if self.routing.paths[index].heartbeat.timeout <= now {
                self.on_heartbeat_timeout(now, PathId(index as u8));
            }
            if self.routing.paths[index].heartbeat.timer <= now {
                self.on_heartbeat_timer(now, PathId(index as u8));
            }
        }
        if self.routing.heartbeat.timer <= now {
            self.on_one_heartbeat_timer(now);
        }
        if self.state.receiver().is_some_and(|receiver| receiver.delayed_sack.timer <= now) {
            self.send_sack();
        }
        if self.parts.is_any {
            self.on_part_timers(now);
        }
        if self.state.closing().is_some_and(|closing| closing.t2 <= now) {
            self.on_t2(now);
        }
        if self.state.closing().is_some_and(|closing| closing.t5 <= now) {
            self.on_t5(now);
        }
        self.finish_input(now);
    }

    #[inline]
    pub(super) fn next_timeout(&mut self) -> Time {
        let mut next = self.routing.heartbeat.timer.min(self.state.next_timeout());
        if self.parts.is_any {
            next = next.min(self.parts.next_timeout());
        }
        if let Some(first) = self.routing.next_of_paths {
            return next.min(first);
        }
        let first = self.routing.first_timeout();
        self.routing.next_of_paths = Some(first);
        next.min(first)
    }

    /// The time at which a timer of this length expires.
    pub(super) fn deadline(&self, now: Time, length: Duration) -> Time {
        self.parameters.rto.clock.deadline(now, length)
    }
}
