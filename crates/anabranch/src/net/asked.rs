//! How far ahead of the run a link is asked, and from when on somebody asks for its counters. All times are
//! in nanoseconds.

/// How far ahead of the run a link may be asked without being told: longer than packets usually take to one
/// of the first links of their way.
pub(crate) const AHEAD_LIMIT: u64 = 100_000_000;

/// What counters that look ahead know of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// The present time of the run when the link was last asked further ahead than [`AHEAD_LIMIT`], until
    /// [`Asked::present`] takes it.
    ahead_at: Option<u64>,
    /// The counters are not asked for before this time.
    from: u64,
}

impl Asked {
    /// Tells that the link is going to be asked further ahead than [`AHEAD_LIMIT`], while the run is at
    /// `now`.
    #[inline]
    pub(crate) fn runs_ahead(&mut self, now: u64) {
        self.ahead_at = Some(now);
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

    /// A time that the run has reached when the link is asked for `now`.
    pub(crate) fn present(&mut self, now: u64) -> u64 {
        self.ahead_at.take().unwrap_or(now.saturating_sub(AHEAD_LIMIT))
    }
}
