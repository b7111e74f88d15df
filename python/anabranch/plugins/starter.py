"""A congestion control of one's own: change it, then compare it with `anabranch bench-cc`."""

from anabranch.plugins import AckEvent, CongestionControl, CongestionEvent, Setup, State


class Mine(CongestionControl):
    """Doubles per round trip at first, then grows until packets wait; a loss halves the window."""

    def __init__(self, setup: Setup, patience_ms: int = 10) -> None:
        """`patience_ms` is a setting: `cc.settings.patience_ms` in scenarios, or an axis."""
        super().__init__(setup)
        self.patience = patience_ms * 1_000_000  # times are in ns
        self.window = setup.initial_cwnd  # amounts are in bytes
        self.ssthresh = 1 << 30

    def on_ack(self, event: AckEvent) -> None:
        """Data was acknowledged."""
        if not event.is_window_limited or event.in_recovery:
            return
        waited = (event.rtt or 0) - (event.min_rtt or 0) > self.patience
        if self.window < self.ssthresh and not waited:
            self.window += event.newly_acked
        elif not waited:
            # A segment more per round trip.
            self.window += max(1, self.setup.mss * event.newly_acked // self.window)
        else:
            self.ssthresh = min(self.ssthresh, self.window)

    def on_congestion(self, event: CongestionEvent) -> None:
        """Data was lost, or marked: `event.kind` says how it was found out."""
        self.ssthresh = max(self.window // 2, 2 * self.setup.mss)
        self.window = self.setup.mss if event.kind == "timeout" else self.ssthresh

    def limits(self) -> int:
        """The window in bytes."""
        return min(self.window, 1 << 30)

    def state(self) -> State:
        """What traces and figures show."""
        return State(self.window, self.ssthresh, "mine")
