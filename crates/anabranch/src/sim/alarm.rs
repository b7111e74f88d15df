//! Wake-ups in the event queue that are moved lazily.

use anabranch_transport::time::Time;

/// A wake-up in the event queue that is moved lazily: a timer that is put off leaves its event where it is,
/// and the event arms the timer again when it comes up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    /// When the owner wants to be woken.
    wanted: Time,
    /// The time of the earliest event in the queue for it.
    armed: Time,
}

impl Alarm {
    pub(super) const OFF: Self = Self { wanted: Time::NEVER, armed: Time::NEVER };

    /// Sets the time at which the owner wants to be woken, which replaces the former one. Returns the time
    /// for which an event must be scheduled, if one must.
    pub(super) fn set(&mut self, wanted: Time) -> Option<Time> {
        self.wanted = wanted;
        if wanted < self.armed {
            self.armed = wanted;
            Some(wanted)
        } else {
            None
        }
    }

    /// Takes an event of this alarm that has come up.
    pub(super) fn ring(&mut self, now: Time) -> Rung {
        if now != self.armed {
            return Rung::Stale;
        }
        self.armed = Time::NEVER;
        if self.wanted <= now {
            self.wanted = Time::NEVER;
            return Rung::Due;
        }
        self.armed = self.wanted;
        if self.wanted.is_never() { Rung::Stale } else { Rung::Later(self.wanted) }
    }
}

/// The meaning of an alarm's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rung {
    /// Wake the owner.
    Due,
    /// Schedule an event for this time instead.
    Later(Time),
    /// An earlier event has replaced this one, so it means nothing.
    Stale,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_is_put_off_needs_no_new_event() {
        let at = Time::from_secs;
        let mut alarm = Alarm::OFF;
        assert_eq!(alarm.set(at(5)), Some(at(5)));
        assert_eq!(alarm.set(at(7)), None);
        assert_eq!(alarm.ring(at(5)), Rung::Later(at(7)));
        assert_eq!(alarm.set(at(6)), Some(at(6)));
        assert_eq!(alarm.ring(at(6)), Rung::Due);
        assert_eq!(alarm.ring(at(7)), Rung::Stale);
        assert_eq!(alarm.set(at(8)), Some(at(8)));
        assert_eq!(alarm.set(Time::NEVER), None);
        assert_eq!(alarm.ring(at(8)), Rung::Stale);
        assert_eq!(alarm.set(at(9)), Some(at(9)));
    }
}
