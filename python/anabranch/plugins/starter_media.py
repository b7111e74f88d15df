"""A congestion control of media of one's own: change it, compare it with `anabranch bench-rtc`."""

from anabranch.plugins import MediaControl, MediaFeedback, MediaSetup

LEAST, MOST = 150_000, 1_500_000  # bit/s


class Mine(MediaControl):
    """Grows by 8 % a second until packets wait, then takes nine tenths of what arrives."""

    def __init__(self, setup: MediaSetup, patience_ms: int = 20) -> None:
        """`patience_ms` is a setting: `cc.settings.patience_ms` in scenarios, or an axis."""
        super().__init__(setup)
        self.patience = patience_ms * 1_000_000  # times are in ns
        self.rate = float(LEAST)  # rates are in bit/s
        self.base: int | None = None
        self.last = 0

    def on_feedback(self, feedback: MediaFeedback) -> None:
        """The receiver has reported on packets: `arrival` is None where one is lost."""
        packets = feedback.packets
        arrived = [
            (packet.sent, packet.arrival) for packet in packets if packet.arrival is not None
        ]
        delays = [arrival - sent for sent, arrival in arrived]
        elapsed, self.last = feedback.now - self.last, feedback.now
        if not delays:
            return
        # The clocks of both ends may differ, so only differences of delays say something.
        self.base = min(delays) if self.base is None else min(self.base, *delays)
        waits = sum(delays) / len(delays) - self.base > self.patience
        lost = 1 - len(delays) / len(packets)
        if waits or lost > 0.1:
            received = 8e9 * sum(packet.size for packet in packets if packet.arrival) / elapsed
            self.rate = min(self.rate, 0.9 * received)
        else:
            self.rate *= 1.08 ** (min(elapsed, 10**9) / 1e9)
        self.rate = min(max(self.rate, LEAST), MOST)

    def limits(self) -> float:
        """The target in bit/s; packets leave at one and a half times of it."""
        return self.rate
