//! How far ahead of the run a direction of a link is asked, and from when on somebody asks for its counters.
//! All times are in nanoseconds.

/// How far ahead of the run a link may be asked without being told: longer than packets usually take to one
/// of the first links of their way.
pub(crate) const AHEAD_LIMIT: u64 = 100_000_000;

/// What counters that look ahead know of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// The last time for which the link was asked further ahead than [`AHEAD_LIMIT`], and the present time of
    /// the run then.
    ahead: (u64, u64),
    /// The counters are not asked for before this time.
    from: u64,
}

impl Asked {
    /// Tells that the link is going to be asked for `at`, further ahead than [`AHEAD_LIMIT`], while the run
    /// is at `now`.
    #[inline]
    pub(crate) fn runs_ahead(&mut self, at: u64, now: u64) {
        self.ahead = (at, now);
    }

    /// Tells that nobody asks for the counters before this time.
    pub(crate) fn expect_no_report_before(&mut self, time: u64) {
        self.from = time;
    }

    /// From when on somebody may ask for the counters.
    #[inline]
    pub(crate) const fn from(&self) -> u64 {
        self.from
    }

    /// A time that the run has reached when the link is asked for `at`.
    pub(crate) fn present(&self, at: u64) -> u64 {
        if at == self.ahead.0 { self.ahead.1 } else { at.saturating_sub(AHEAD_LIMIT) }
    }
}
