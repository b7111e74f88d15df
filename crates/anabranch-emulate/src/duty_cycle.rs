//! How much of the time the thread that carries packets runs: less than Linux lets a real-time thread run.
//!
//! Linux stops the threads of real-time priority on a processor for the rest of each second in which they
//! have run for 0.95 s (`kernel.sched_rt_runtime_us` of `kernel.sched_rt_period_us`). A thread that never
//! sleeps is stopped for 50 ms of each second, and all packets due then are late. There are two limits, so
//! that this does not happen:
//!
//! - The thread polls the clock before something is due only while it has run for less than half of the time.
//!   The other half is left to the programs on its processor, and to their threads of real-time priority,
//!   whose time counts against the same 0.95 s.
//! - Where carrying alone needs more than nine tenths of the time, a thread of real-time priority rests for
//!   [`REST`] now and then.

use anabranch_transport::time::{Duration, Time};

/// The share of the time up to which the thread may spin.
const SPINNING: f64 = 0.5;
/// The share of the time that a thread of real-time priority may run. With [`MOST`] that is at most 0.92 s in
/// any second.
const RUNNING: f64 = 0.9;
/// The most run time, in ns, that a share saves for later or owes. After an idle time the thread can run for
/// 20 ms before it may no longer spin, and for 100 ms before it has to rest.
const MOST: f64 = 10e6;
/// The length of a rest, which pays for 1.8 ms of work. Packets due meanwhile are late by as much.
pub(crate) const REST: Duration = Duration::from_micros(200);
/// The system is asked for the thread's run time at most once in this time, since that takes 0.2 us.
const STEP: Duration = Duration::from_micros(100);

/// How long a thread has run, compared with both limits. Its caller reads the clocks.
#[derive(Debug)]
pub(crate) struct DutyCycle {
    /// The time, and the thread's run time, of the last count.
    at: Time,
    ran: Duration,
    spinning: Allowance,
    running: Allowance,
}

impl DutyCycle {
    /// Starts at time zero, when the thread has already run for `ran`.
    pub(crate) fn new(ran: Duration) -> Self {
        Self { at: Time::ZERO, ran, spinning: Allowance::of(SPINNING), running: Allowance::of(RUNNING) }
    }

    /// Counts the time until `now`. `ran` gives the thread's run time since it was started.
    pub(crate) fn update(&mut self, now: Time, ran: impl FnOnce() -> Duration) {
        let passed = now.saturating_since(self.at);
        if passed < STEP {
            return;
        }
        let ran = ran();
        let used = ran.saturating_sub(self.ran);
        for allowance in [&mut self.spinning, &mut self.running] {
            allowance.count(passed, used);
        }
        (self.at, self.ran) = (now, ran);
    }

    /// Whether the thread may poll the clock instead of sleeping.
    pub(crate) fn may_spin(&self) -> bool {
        !self.spinning.is_spent()
    }

    /// Whether the thread has to rest for [`REST`] before it goes on, if it has real-time priority.
    pub(crate) fn must_rest(&self) -> bool {
        self.running.is_spent()
    }
}

/// A share of the time as a token bucket: time fills it, running empties it.
#[derive(Debug)]
struct Allowance {
    share: f64,
    /// Run time that is left, in ns.
    left: f64,
}

impl Allowance {
    fn of(share: f64) -> Self {
        Self { share, left: MOST }
    }

    fn count(&mut self, passed: Duration, used: Duration) {
        let gained = self.share * passed.as_nanos() as f64 - used.as_nanos() as f64;
        self.left = (self.left + gained).clamp(-MOST, MOST);
    }

    fn is_spent(&self) -> bool {
        self.left < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread of real-time priority with a slot of 1 ms for each piece of work.
    struct Thread {
        duty: DutyCycle,
        now: Time,
        ran: Duration,
    }

    impl Thread {
        fn start() -> Self {
            let ran = Duration::from_secs(3);
            Self { duty: DutyCycle::new(ran), now: Time::ZERO, ran }
        }

        fn pass(&mut self, time: Duration, is_running: bool) {
            self.now += time;
            if is_running {
                self.ran += time;
            }
            self.duty.update(self.now, || self.ran);
        }

        /// Works for a part of each slot and spins for the rest of it where that is allowed. Gives the run
        /// time and the spinning in `time`, both as shares of it.
        fn work(&mut self, part: f64, time: Duration) -> (f64, f64) {
            let slot = Duration::from_millis(1);
            let (end, before, mut spun) = (self.now + time, self.ran, Duration::ZERO);
            while self.now < end {
                self.pass(slot.scaled(part), true);
                let is_spinning = self.duty.may_spin();
                let idle = slot - slot.scaled(part);
                self.pass(idle, is_spinning);
                if is_spinning {
                    spun += idle;
                }
                if self.duty.must_rest() {
                    self.pass(REST, false);
                }
            }
            let share = |part: Duration| part.as_secs_f64() / time.as_secs_f64();
            (share(self.ran - before), share(spun))
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn spinning_and_little_work_take_half_of_the_time() {
        let mut thread = Thread::start();
        for _ in 0..5 {
            let (ran, spun) = thread.work(0.2, SECOND);
            assert!((0.48..0.53).contains(&ran), "{ran}");
            assert!((0.28..0.33).contains(&spun), "{spun}");
        }
    }

    #[test]
    fn who_works_for_more_than_half_of_the_time_does_not_spin_or_rest() {
        let mut thread = Thread::start();
        thread.work(0.7, SECOND);
        for _ in 0..5 {
            let (ran, spun) = thread.work(0.7, SECOND);
            assert!((ran - 0.7).abs() < 0.001, "{ran}");
            assert_eq!(spun, 0.0);
        }
    }

    #[test]
    fn endless_work_is_interrupted_before_the_system_does_it() {
        let mut thread = Thread::start();
        for second in 0..5 {
            let (ran, spun) = thread.work(1.0, SECOND);
            assert!((0.89..0.92).contains(&ran), "second {second}: {ran}");
            assert_eq!(spun, 0.0);
        }
    }

    #[test]
    fn an_hour_of_work_is_forgotten_after_a_moment_without() {
        let mut thread = Thread::start();
        thread.work(0.85, Duration::from_secs(3600));
        assert!(!thread.duty.may_spin());
        thread.pass(Duration::from_millis(21), false);
        assert!(thread.duty.may_spin());
    }

    #[test]
    fn the_system_is_asked_for_the_run_time_once_in_a_while() {
        let mut duty = DutyCycle::new(Duration::ZERO);
        let mut asked = 0;
        for micros in 1..=1000 {
            duty.update(Time::from_nanos(1000 * micros), || {
                asked += 1;
                Duration::ZERO
            });
        }
        assert_eq!(asked, 10);
    }
}
