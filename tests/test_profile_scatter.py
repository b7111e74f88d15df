"""Jitter of a link that a transfer fills, from how what it delivers scatters."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import captures
from anabranch.advise.paths import read as read_paths
from anabranch.errors import AnabranchError
from anabranch.profile import Profile, estimate, measure, output, scatter
from anabranch.profile.measurement import Deliveries
from profile_paths import random_path

LOSS = (
    'loss = { kind = "gilbert", clock = "slot", slot = "5 ms", mean_loss = 0.0164, '
    'loss_in_bad = 0.8, mean_bad = "16 ms" }\nreverse = { loss = { kind = "none" } }\n'
)


def profiled(folder: Path, link: str, side: str, transport: str = "tcp") -> Profile:
    """A transfer of 12 s over this link, captured at one of its ends."""
    seen = captures.simulate(link, f'{{ kind = "{transport}" }}', '{ kind = "bulk" }', 7, 12)
    frames = captures.transfer(seen, side, transport)
    return estimate(measure([captures.write(folder / "t.pcap", frames)]))


def full_link(rate: float, delay: float, jitter: float, packets: int) -> str:
    """In Mbit/s, ms, ms."""
    return (
        f'rate = "{rate} Mbit/s"\ndelay = "{delay} ms"\njitter = "{jitter} ms"\n'
        f'queue = {{ kind = "drop_tail", packets = {packets} }}\n'
    )


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("loss", ["", LOSS])
@pytest.mark.parametrize("link", [(20, 8, 3, 120), (10, 40, 5, 80), (20, 8, 8, 120)])
def test_a_queue_does_not_hide_the_jitter(
    tmp_path: Path, side: str, loss: str, link: tuple[float, float, float, int]
) -> None:
    """Nor does the jitter make the queue one that never empties, or longer than it is."""
    _, delay, jitter, packets = link
    found = profiled(tmp_path, full_link(*link) + loss, side)
    assert found.jitter_s is not None
    assert found.jitter_s.value == pytest.approx(jitter / 1e3, rel=0.15)
    low, high = found.jitter_s.interval
    assert low <= found.jitter_s.value <= high
    assert found.delay_s is not None
    assert not found.delay_is_bound
    assert delay / 1e3 < found.delay_s.value < (delay + jitter / 2) / 1e3
    assert found.queue_packets is not None
    if not loss:
        assert found.queue_packets.value == pytest.approx(packets, rel=0.06)
    text = output.toml(found, "x", ("a", "b"))
    assert '\njitter = "' in text
    assert "hide" not in text


def test_the_interval_of_the_jitter_has_the_truth_as_often_as_it_says(tmp_path: Path) -> None:
    """Random paths with bursts of losses; 69 of 72 were covered over 40 of them."""
    widths, covered = [], 0
    for number in range(12):
        drawn = np.random.default_rng(7000 + number)
        path = random_path(drawn, "x", slot_ms=1)
        unit_ms = 12 / float(path.words.split()[0])
        jitter_ms = float(np.exp(drawn.uniform(np.log(1.5 * unit_ms), np.log(8 * unit_ms))))
        link = f'{path.link}\njitter = "{jitter_ms} ms"\n'
        for side in ("a", "b"):
            found = profiled(tmp_path, link, side)
            if found.queue_packets is None or found.jitter_s is None:
                continue
            low, high = found.jitter_s.interval
            covered += low <= jitter_ms / 1e3 <= high
            widths.append((high - low) / found.jitter_s.value)
    assert len(widths) >= 18
    assert covered >= 0.9 * len(widths)
    assert np.median(widths) < 0.3


@pytest.mark.parametrize(("side", "transport"), [("a", "tcp"), ("b", "tcp"), ("a", "sctp")])
def test_a_link_without_jitter_has_none(tmp_path: Path, side: str, transport: str) -> None:
    found = profiled(tmp_path, full_link(2, 30, 0, 20), side, transport)
    assert found.queue_packets is not None
    assert found.jitter_s is not None
    assert found.jitter_s.value == 0
    # A packet's transmission.
    assert found.jitter_s.interval[0] == 0
    assert found.jitter_s.interval[1] == pytest.approx(6e-3, rel=0.01)
    assert "\njitter" not in output.toml(found, "x", ("a", "b"))


def test_a_rate_that_changes_hides_the_jitter(tmp_path: Path) -> None:
    rates = np.random.default_rng(1).choice([5, 8, 10, 12, 15], 200)
    table = ", ".join(f'["{nth * 0.05:.2f} s", "{rate} Mbit/s"]' for nth, rate in enumerate(rates))
    link = (
        f'rate = {{ timetable = [{table}], repeat = "10 s" }}\ndelay = "20 ms"\n'
        'queue = { kind = "drop_tail", packets = 80 }\n'
    )
    found = profiled(tmp_path, link, "b")
    assert found.queue_packets is not None
    assert found.jitter_s is None
    assert any("hide what jitter" in note for note in found.measurement.notes)


@pytest.mark.parametrize(
    ("wait", "side"),
    [("0.3 ms", "a"), ("0.3 ms", "b"), ("1 ms", "a"), ("1 ms", "b"), ("5 ms", "a")],
)
def test_among_others_packets_a_flow_does_not_see_the_links_rate(
    tmp_path: Path, wait: str, side: str
) -> None:
    """It is a lower bound, or an interval up to how fast packets follow each other."""
    others = f'kind = "poisson", direction = "forward", packet = "1500 B", mean_wait = "{wait}"'
    link = full_link(10, 20, 0, 80) + f"cross_traffic = [{{ {others} }}]"
    found = profiled(tmp_path, link, side)
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value < 7e6
    assert found.rate_is_bound == (wait != "0.3 ms")
    assert found.rate_is_bound or found.rate_bit_per_s.interval[1] >= 10e6
    text = " ".join(output.toml(found, "x", ("a", "b")).replace("#", "").split())
    assert "others' packets or a rate that changes are between" in text
    # The queue was one, whosever it was: what it dropped is no loss of the link.
    assert found.losses is not None
    assert found.losses.count == 0
    assert (found.queue_packets is None) == found.rate_is_bound
    assert found.delay_s is not None
    assert found.delay_s.value == pytest.approx(20e-3, rel=0.05)


@pytest.mark.parametrize("side", ["a", "b"])
def test_jitter_is_no_queue(tmp_path: Path, side: str) -> None:
    """Losses hold the transfer far below the rate; its delays vary, by jitter alone."""
    lossy = full_link(11, 48, 7, 200) + 'loss = { kind = "bernoulli", probability = 0.013 }\n'
    found = profiled(tmp_path, lossy, side)
    assert found.rate_is_bound
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value < 8e6
    assert "the traffic never filled the link" in found.rate_bit_per_s.how
    assert found.queue_packets is None
    assert found.jitter_s is not None
    assert found.jitter_s.value == pytest.approx(7e-3, rel=0.3)


def deliveries(times_s: np.ndarray, octets: np.ndarray, *, is_seen: bool = True) -> Deliveries:
    return Deliveries(times_s, octets, 1500.0, "packets", is_seen=is_seen)


def test_a_random_walk_is_no_jitter() -> None:
    """As the queue of others' packets makes one; jitter is the same in long and short windows."""
    rng = np.random.default_rng(1)
    due_s = np.arange(20_000) * 1e-3
    octets = np.full(20_000, 1500.0)
    late_s = 5e-3 * rng.random(20_000)
    jittered = deliveries(np.maximum.accumulate(due_s + late_s), octets)
    found = scatter.Lines(jittered, 12e6).scatter(1)
    assert found is not None
    assert found.jitter_s == pytest.approx(5e-3, rel=0.05)
    walk_s = np.cumsum(rng.exponential(1e-3, 20_000))
    assert scatter.Lines(deliveries(walk_s, octets), 12e6).scatter(1) is None


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.floats(0, 1e6), min_size=1, max_size=40),
    lengths=st.lists(st.floats(1, 1e9), min_size=1, max_size=40),
    count=st.integers(1, 2000),
    rate=st.floats(1, 1e13),
    is_seen=st.booleans(),
    legs=st.sampled_from([1, 2]),
)
def test_any_deliveries_have_a_finite_jitter_or_none(
    steps: list[float], lengths: list[float], count: int, rate: float, *, is_seen: bool, legs: int
) -> None:
    times_s = np.cumsum(np.resize(steps, count))
    seen = deliveries(times_s, np.resize(lengths, count), is_seen=is_seen)
    found = scatter.Lines(seen, rate).scatter(legs)
    if found is not None:
        assert all(map(math.isfinite, (found.jitter_s, found.delay_s, *found.interval)))
        assert 0 <= found.interval[0] <= found.jitter_s <= found.interval[1]
        assert found.delay_s >= 0


def test_the_most_that_a_delay_may_be_goes_to_the_advice(tmp_path: Path) -> None:
    """A capture from the middle of a transfer that never lets its queue run empty."""
    seen = captures.simulate(full_link(5, 5, 0, 40), '{ kind = "tcp" }', '{ kind = "bulk" }', 7, 12)
    frames = [frame for frame in captures.transfer(seen, "a") if frame[0] > 4]
    found = estimate(measure([captures.write(tmp_path / "t.pcap", frames)]))
    assert found.delay_is_bound
    assert found.delay_s is not None
    path = tmp_path / "x.toml"
    path.write_text(output.toml(found, "x", ("a", "b")))
    paths = read_paths([path])
    (bound,) = [bound for bound in paths.bounds if bound.key == "delay"]
    assert (bound.link, bound.end) == ("x", "most")
    assert bound.remedy.endswith("ping -c 100 HOST")
    most_ms = found.delay_s.value * 1e3
    there = paths.at(bound).links["x"]
    assert float(there["delay"].removesuffix(" ms")) == pytest.approx(most_ms, rel=0.02)
    assert there["loss"] == paths.links["x"]["loss"]
    # Who says what it is knows it.
    known = read_paths([path], {"links.x.delay": "5 ms"})
    assert {bound.key for bound in known.bounds} <= {"loss"}
    path.write_text(path.read_text().replace('\nrate = "', '\ndelay = "5 ms"\nrate = "'))
    assert {bound.key for bound in read_paths([path]).bounds} <= {"loss"}
    path.write_text(path.read_text().replace("delay at most ", "delay at most x"))
    assert {bound.key for bound in read_paths([path]).bounds} <= {"loss"}
    path.write_text("[links.x]\ndelay = 5\n# links.x.delay at most 7 ms\n")
    with pytest.raises((AnabranchError, ValueError), match="delay"):
        read_paths([path])
