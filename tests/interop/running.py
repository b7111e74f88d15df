"""A running program that prints lines of JSON, and these lines."""

import json
import subprocess
import threading
import time
from typing import IO, Any

PATIENCE_S = 120
"""Far longer than anything takes on a busy machine, and less than a test may take."""


class Running:
    """A program that says lines of JSON."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        self.said: list[dict[str, Any]] = []
        self._errors: list[str] = []
        self._news = threading.Condition()
        self._threads = [
            threading.Thread(target=self._listen, args=(stream, keep), daemon=True)
            for stream, keep in ((self.process.stdout, True), (self.process.stderr, False))
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self, stream: IO[str], keep: bool) -> None:  # noqa: FBT001
        for line in stream:
            with self._news:
                if keep and line.startswith("{"):
                    self.said.append(json.loads(line))
                else:
                    self._errors.append(line)
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait_for(
        self, event: str, timeout: float = PATIENCE_S, messages: int = 0
    ) -> dict[str, Any]:
        """Waits for this line; for `received`, for one of this many messages."""
        end = time.monotonic() + timeout
        with self._news:
            while True:
                found = [said for said in self.events(event) if said.get("messages", 0) >= messages]
                if found:
                    return found[0]
                left = end - time.monotonic()
                if left <= 0 or not self._threads[0].is_alive():
                    raise RuntimeError(
                        f"{self.command} never said {event}: {self.said} {self._errors}"
                    )
                self._news.wait(min(left, 0.5))

    def ended(self, timeout: float = PATIENCE_S) -> dict[str, Any]:
        """Waits for its end; gives its last line."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for thread in self._threads:
            thread.join(PATIENCE_S)
        if not self.said:
            raise RuntimeError(f"{self.command} says nothing: {''.join(self._errors)}")
        return self.said[-1]

    def errors(self) -> list[str]:
        """Its output that was not JSON."""
        return self._errors

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines with this name."""
        return [said for said in self.said if said.get("event") == name]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
