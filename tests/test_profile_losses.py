"""The losses that a profile estimates: models, their intervals, and what is left out."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import captures
from anabranch.advise.paths import read as read_paths
from anabranch.profile import Measurement, Profile, estimate, measure, output
from anabranch.profile.estimates import _behind_the_queue
from anabranch.profile.loss import Losses, best, share_of_bad
from anabranch.profile.measurement import Delays, LossSequence
from anabranch.profile.timed import TimedFit, TimedLosses, chain
from support.profiles import LOSSES, WIFI, engine_loss, holds, lost, profile_of


@pytest.mark.parametrize(("model", "values", "count"), LOSSES)
def test_losses_of_a_link_are_recovered(model: str, values: dict[str, float], count: int) -> None:
    losses = Losses(lost(engine_loss(model, values), 5, count))
    fits = {fit.model: fit for fit in losses.fits()}
    assert best(list(fits.values())).model == model
    fit = fits[model]
    for key, truth in values.items():
        low, high = fit.intervals[key]
        # One seed: somewhat more than 95 %, so that a change of random numbers is no failure.
        slack = 0.3 * (high - low)
        assert low - slack <= truth <= high + slack, key
        assert fit.moments[key] == pytest.approx(truth, rel=0.5, abs=0.01), key
    assert fit.goodness.gap_p_value > 0.001
    assert not fit.goodness.p_value < 0.001
    # A model without bursts cannot tell what bursts are like.
    if model != "bernoulli":
        assert losses.independence()[1] < 1e-6
        assert fits["bernoulli"].goodness.gap_p_value < 0.01


@pytest.mark.parametrize(
    ("model", "values", "count"),
    [LOSSES[0], LOSSES[1], ("gilbert", {"p": 0.03, "r": 0.2, "loss_in_bad": 0.6}, 2500)],
)
def test_intervals_of_losses_cover(model: str, values: dict[str, float], count: int) -> None:
    trials = 40
    covered = dict.fromkeys(values, 0)
    # One simulation, cut into sequences that are as good as independent.
    flags = lost(engine_loss(model, values), 11, trials * count)
    for part in np.split(flags, trials):
        fit = Losses(part).fit(model)
        for key, truth in values.items():
            low, high = fit.intervals[key]
            covered[key] += low <= truth <= high
    # 95 % of 40 are 38; 34 or fewer would come once in 140.
    assert all(count >= 34 for count in covered.values()), covered


def test_the_likelihood_is_that_of_the_forward_algorithm() -> None:
    flags = lost(engine_loss(*LOSSES[4][:2]), 2, 2000)
    fit = Losses(flags).fit("gilbert_elliott")
    p, r, good, bad = fit.states
    state = np.array([r, p]) / (p + r)
    change = np.array([[1 - p, p], [r, 1 - r]])
    total = 0.0
    for flag in flags:
        state = state * (np.array([good, bad]) if flag else np.array([1 - good, 1 - bad]))
        total += np.log(state.sum())
        state = state / state.sum() @ change
    assert fit.log_likelihood == pytest.approx(total, abs=1e-6)


def test_lengths_of_bursts_follow_the_chain() -> None:
    fit = Losses(lost(engine_loss(*LOSSES[1][:2]), 2, 4000)).fit("simple_gilbert")
    lengths = np.arange(1.0, 6.0)
    np.testing.assert_allclose(fit.survival(lengths), (1 - fit.values["r"]) ** (lengths - 1))
    np.testing.assert_allclose(
        fit.survival(lengths, lost=False), (1 - fit.values["p"]) ** (lengths - 1)
    )


def reactive(rng: np.random.Generator, bad_s: float, good_s: float, seconds: float) -> TimedLosses:
    """A packet every 2 ms, and none for 200 ms after a loss; all are lost in the bad state."""
    lengths = rng.exponential([good_s, bad_s], (round(4 * seconds / good_s) + 50, 2)).ravel()
    if rng.random() < bad_s / (bad_s + good_s):
        lengths = lengths[1:]
        first_bad = True
    else:
        first_bad = False
    ends = np.cumsum(lengths)
    now, times, flags = 0.0, [], []
    while now < seconds:
        in_bad = (int(np.searchsorted(ends, now)) % 2 == 0) == first_bad
        times.append(now)
        flags.append(in_bad)
        now += 0.2 if in_bad else 0.002
    return TimedLosses(np.array(flags), np.array(times))


def test_intervals_cover_the_mean_whatever_the_sender_does_after_a_loss() -> None:
    """A sender that stops after a loss sees fewer; the likelihood in time has no such bias."""
    bad_s, good_s, trials = 0.1, 1.0, 30
    truth = bad_s / (bad_s + good_s)
    covered, shares, means = 0, [], []
    for trial in range(trials):
        losses = reactive(np.random.default_rng(trial), bad_s, good_s, 30.0)
        fit = losses._fit_timed("simple_gilbert", None)
        low, high = losses.mean_interval(fit)
        covered += low <= truth <= high
        shares.append(losses.count / len(losses.lost))
        means.append(fit.mean_loss)
    # 95 % of 30 are 28.5; 24 or fewer would come once in 300.
    assert covered >= 25, covered
    assert np.mean(shares) < truth / 10
    assert np.mean(means) == pytest.approx(truth, rel=0.15)


def test_the_likelihood_in_time_is_that_of_the_forward_algorithm() -> None:
    """Packet by packet, also where the fit takes blocks of them together."""
    losses = reactive(np.random.default_rng(3), 0.05, 2.0, 20.0)
    fit = losses._fit_timed("simple_gilbert", None)
    chance = losses._ahead(fit)
    total = np.log(np.where(losses.lost, chance, 1 - chance)).sum()
    assert losses._factors.count < len(losses.lost) / 5
    assert fit.log_likelihood == pytest.approx(total, rel=1e-3)
    after = losses.after_loss(fit)
    assert after.expected.sum() == pytest.approx(after.lost.sum(), rel=0.3)


@pytest.mark.parametrize("pause_s", [10.0, 3666.0, 20_000.0])
@pytest.mark.parametrize("count", [20, 44, 60])
@pytest.mark.parametrize("other", [1, 10, -1])
def test_two_losses_before_and_after_a_long_pause(pause_s: float, count: int, other: int) -> None:
    """Their likelihood is flat: where a search begins decides which minimum it finds."""
    times_s = np.concatenate([[0.0], pause_s + 1.2e-3 * np.arange(count - 1)])
    lost = np.zeros(count, dtype=bool)
    lost[[0, other]] = True
    losses = TimedLosses(lost, times_s)
    fits = losses.timed_fits()
    assert len(fits) == 2
    for fit in fits:
        low, high = losses.mean_interval(fit)
        assert 0 <= low <= fit.mean_loss <= high <= 1


def test_a_chain_in_slots_is_the_chain_in_time() -> None:
    fit = reactive(np.random.default_rng(1), 0.1, 1.0, 30.0)._fit_timed("simple_gilbert", None)
    short, long = chain(fit.values, 0.001), chain(fit.values, 0.02)
    for one in (short, long):
        assert one["p"] / (one["p"] + one["r"]) == pytest.approx(fit.mean_loss)
    assert (1 - short["p"] - short["r"]) ** 20 == pytest.approx(1 - long["p"] - long["r"])
    assert 0.001 / short["r"] == pytest.approx(fit.values["mean_bad"], rel=0.02)


def unfolded(text: str) -> str:
    """A profile's text with each comment in one line."""
    return text.replace("\n#   ", " ")


def test_a_capture_has_the_losses_of_its_direction_in_time(tmp_path: Path) -> None:
    seen = captures.simulate(WIFI, '{ kind = "tcp" }', '{ kind = "bulk" }', 1, 40)
    found = profile_of(captures.write(tmp_path / "t.pcap", captures.transfer(seen, "a")))
    assert isinstance(found.loss, TimedFit)
    assert holds(found.mean_loss, 0.0164)
    assert found.loss.values["mean_bad"] == pytest.approx(0.016, rel=0.35)
    text = output.toml(found, "wifi", ("phone", "server"))
    link = tomllib.loads(text)["links"]["wifi"]
    assert link["loss"]["clock"] == "slot"
    assert link["reverse"] == {"loss": {"kind": "none"}}
    assert "losses were measured from phone to server only" in unfolded(text)
    assert "not measured" in text
    here, there = [line for line in output.netem(found) if line.startswith("tc")]
    assert "loss gemodel" in here
    assert "loss" not in there


def test_what_may_be_sent_again_after_the_capture_is_left_out(tmp_path: Path) -> None:
    """Packets that were lost just before its end would seem to have arrived."""
    rows: list[dict[str, Any]] = [
        {"tsn": 1000 * i, "size_bytes": 1052, "sent_s": 0.01 * i} for i in range(200)
    ]
    again = rows[50] | {"sent_s": rows[50]["sent_s"] + 0.095}
    lost = {50, *range(195, 200)}
    packets = []
    for i, row in enumerate(sorted([*rows, again], key=lambda row: row["sent_s"])):
        sent = row["sent_s"]
        segment = captures._segment(row, forward=True, first=0, stamps=(i, i))
        packets.append((sent, captures.frame(segment, 6, row["size_bytes"], i)))
        if row["tsn"] // 1000 not in lost or row is again:
            row |= {"ack": row["tsn"] + 1000}
            answer = captures._segment(row, forward=False, first=0, stamps=(i, i))
            packets.append((sent + 0.03, captures.frame(answer, 6, 52, i, forward=False)))
    found = measure([captures.write(tmp_path / "t.pcap", packets)]).losses
    assert isinstance(found, LossSequence)
    assert found.times_s is not None
    assert found.octets is not None
    assert found.lost.sum() == 1
    # As near to the end as the longest wait for a packet that was sent again.
    assert found.times_s.max() == pytest.approx(packets[-1][0] - 0.095, abs=0.011)
    assert len(found.lost) == len(found.times_s) == len(found.octets)


def test_packets_leave_the_queue_behind_those_that_are_left_out() -> None:
    """A queue that is full for a while still delays what comes after it."""
    spaced = 0.01
    arrivals = np.concatenate(
        [np.arange(30) * spaced, np.full(20, 0.3), 0.3 + np.arange(1, 31) * 0.02]
    )
    leaves = np.zeros(len(arrivals))
    free = 0.0
    for i, time in enumerate(arrivals):
        free = max(free, time) + spaced
        leaves[i] = free
    flags = np.zeros(len(arrivals), dtype=bool)
    flags[51] = True  # where the queue is full
    octets = np.full(len(arrivals), 1250.0)
    measured = Measurement(
        "",
        Delays(leaves - arrivals, 1, "", times_s=arrivals, octets=octets),
        LossSequence(flags, "", times_s=arrivals, octets=octets),
    )
    found = _behind_the_queue(measured, 1e6, known=True).losses
    assert isinstance(found, LossSequence)
    assert found.times_s is not None
    assert not found.lost.any()
    # The one that was dropped took no time of the link.
    expected = np.where(
        np.arange(len(leaves)) > 51, np.maximum(leaves - spaced, arrivals + spaced), leaves
    )
    kept = np.isin(np.round(expected, 6), np.round(found.times_s, 6))
    assert len(found.times_s) < len(arrivals)
    assert kept.sum() >= len(found.times_s)
    assert found.times_s[-1] == pytest.approx(expected[-1])
    np.testing.assert_allclose(found.times_s[found.times_s > 0.55], expected[expected > 0.55])


@pytest.mark.parametrize("kind", ["in time", "in slots", "by packets", "single", "none"])
def test_the_ends_of_the_mean_loss_are_models(tmp_path: Path, kind: str) -> None:
    """Which lose as much in the mean as they say, in bad states as long as those measured."""
    rng = np.random.default_rng(2)
    bad = np.repeat(np.arange(200) % 2 == 1, np.where(np.arange(200) % 2 == 1, 6, 200))
    lost = bad & (rng.random(len(bad)) < 0.8)
    if kind == "single":
        lost = rng.random(len(bad)) < 0.01
    if kind == "none":
        lost[:] = False
    times = np.asarray(np.arange(len(lost)) * 0.01, dtype=np.float64)
    sequence = LossSequence(
        lost,
        "losses",
        times_s=None if kind == "by packets" else times,
        spacing_s=0.01 if kind == "in slots" else None,
    )
    found = estimate(Measurement("", losses=sequence))
    assert found.mean_loss is not None
    path = tmp_path / "x.toml"
    path.write_text(output.toml(found, "x", ("a", "b")))
    paths = read_paths([path])
    assert [bound.end for bound in paths.bounds] == ["least", "most"]
    assert all("ping -D -i 0.02 -c " in bound.remedy for bound in paths.bounds)
    for bound, expected in zip(paths.bounds, found.mean_loss.interval, strict=True):
        loss = paths.at(bound).links["x"]["loss"]
        assert float(bound.said.split()[0]) == pytest.approx(100 * expected, rel=0.06)
        if loss["kind"] == "none":
            assert expected == 0
        elif loss["kind"] == "bernoulli":
            assert loss["probability"] == pytest.approx(expected, rel=1e-3)
        else:
            share = loss["p"] / (loss["p"] + loss["r"])
            good, of_bad = loss.get("loss_in_good", 0.0), loss.get("loss_in_bad", 1.0)
            assert good + share * (of_bad - good) == pytest.approx(expected, rel=0.01)
            slot = loss.get("slot")
            if slot is not None:
                ms = float(slot.removesuffix(" ms"))
                length = 100.0 if kind == "none" else 60.0
                assert ms / loss["r"] == pytest.approx(length, rel=0.35)


def test_the_end_of_a_short_measurement_may_be_every_packet(tmp_path: Path) -> None:
    times = np.arange(0.0, 0.05, 0.01)
    sequence = LossSequence(np.zeros(5, dtype=bool), "losses", times_s=times)
    path = tmp_path / "x.toml"
    path.write_text(output.toml(estimate(Measurement("", losses=sequence)), "x", ("a", "b")))
    least, most = read_paths([path]).bounds
    assert least.value == {"kind": "none"}
    assert most.value == {"kind": "bernoulli", "probability": 1}


@pytest.mark.parametrize("mean", [1e-6, 0.01, 0.3, 0.89, 0.98])
def test_any_fit_has_a_model_of_any_mean_loss(mean: float) -> None:
    """Also one whose good state loses more than its bad one, or as much."""
    for good, bad in [(0.0, 0.8), (0.002, 0.7), (0.5, 0.1), (0.2, 0.2), (0.0, 1e-9)]:
        values = {"p": 0.01, "r": 0.2, "loss_in_bad": bad, "loss_in_good": good}
        share, losses = share_of_bad(values, mean / 0.1, mean)
        assert 0 < share < 1
        found = losses["loss_in_good"] * (1 - share) + losses["loss_in_bad"] * share
        assert found == pytest.approx(mean, rel=0.02)


def test_too_few_losses_ask_for_pings() -> None:
    times = np.arange(0.0, 20.0, 0.002)
    flags = np.zeros(len(times), dtype=bool)
    flags[[2000, 2001, 2002, 7000, 7001]] = True
    measured = LossSequence(flags, "losses", times_s=times)
    found = estimate(Measurement("few", losses=measured))
    (said,) = output.missing(found)
    assert said.startswith("not enough known of the loss")
    assert "ping -D -i 0.02 -c " in said
    assert said in unfolded(output.toml(found, "x", ("a", "b")))


@pytest.mark.parametrize("in_time", [True, False])
def test_none_lost_for_long_enough_is_enough(*, in_time: bool) -> None:
    """A short measurement without losses leaves bad states of 100 ms open, of 1 in 20 paths."""

    def without_losses(seconds: float) -> Profile:
        times = np.arange(0.0, seconds, 0.02)
        flags = np.zeros(len(times), dtype=bool)
        sequence = LossSequence(
            flags, "", times_s=times if in_time else None, spacing_s=None if in_time else 0.02
        )
        return estimate(Measurement("", losses=sequence))

    short = without_losses(40.0)
    (said,) = output.missing(short)
    assert said.startswith("not enough known of the loss: none was seen, yet 0.75 % may come")
    assert said.endswith("ping -D -i 0.02 -c 9000 HOST")
    # No visit begins in that time with probability e^-3; as many pings as it asks for suffice.
    assert short.mean_loss is not None
    assert short.mean_loss.interval[1] == pytest.approx(3 * 0.1 / 40, rel=0.01)
    assert output.missing(without_losses(180.0)) == []
    text = unfolded(output.toml(without_losses(180.0), "x", ("a", "b")))
    assert "below 0.17 %, in bad states of up to 100 ms" in text
