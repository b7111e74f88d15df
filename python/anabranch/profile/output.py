"""Writes a profile as a part of a scenario, as a line for tc, as a table and as JSON."""

import math
import os
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from anabranch.errors import AnabranchError

from .estimates import BAD_STATE_S, Estimate, Profile
from .intervals import LEVEL
from .logs.mahimahi import OCTETS
from .loss import Fit
from .measurement import LossCounts, LossSequence
from .timed import TimedFit, TimedLosses, chain, slot_of

NETEM_LIMIT = 1000
"""netem's limit in packets, where none is given (tc-netem(8))."""

NETEM_FASTEST_BIT_PER_S = 1e9
"""A path whose rate is not known gets a limit with which it carries this much in full packets."""

_QUEUE_PACKETS = 50
"""The queue, in packets, where none was seen: a link's own."""

NETEM_PACKET_S = 0.02
"""netem's chain counts packets: it is given a chain in time as seen by a call's packets, which come
this often, in seconds.
"""


def check_names(name: str, ends: tuple[str, str]) -> None:
    """Raises where a scenario would not accept the name of the link or of its ends."""
    for each in (name, *ends):
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", each):
            raise AnabranchError(
                f"`{each}` is not a name; use 1 to 100 letters, digits, `-` and `_`"
            )
    if ends[0] == ends[1]:
        raise AnabranchError(f"both ends are `{ends[0]}`; a link joins two nodes")


_WIDTH = 80
"""Characters on a line of a comment."""


def toml(profile: Profile, name: str, ends: tuple[str, str], out: Path | None = None) -> str:
    """A file that scenarios `include`: the link, a path over it, and how sure each number is.

    Parameters
    ----------
    profile
        What was estimated.
    name
        The name of the link and the path.
    ends
        The link's nodes.
    out
        Where the text will be written; names of files in it are relative to its folder.
    """
    lines = [f"# Path profile of {comment(profile.measurement.title)}."]
    lines += [f"# {comment(note)}." for note in [*profile.measurement.notes, *missing(profile)]]
    if (directions := direction(profile, ends)) is not None:
        lines.append(f"# {directions}.")
    lines += [
        "# Written by `anabranch profile`; in a scenario: include = "
        f'["{out.name if out else f"{name}.toml"}"].',
        "# In brackets 95 % intervals.",
        "",
        f"[links.{name}]",
        f'ends = ["{ends[0]}", "{ends[1]}"]',
    ]
    lines += _rate_lines(profile, out)
    lines += _delay_lines(profile)
    if profile.queue_packets is not None:
        queue = f'queue = {{ kind = "drop_tail", packets = {profile.queue_packets.value:.0f} }}'
        lines.append(queue + _sure(profile.queue_packets, "", 1))
    lines += [*_loss_lines(profile), *_bound_lines(profile, name), *_delay_bound(profile, name)]
    if profile.back is not None:
        lines += _back_lines(profile.back)
    lines += ["", f"[paths.{name}]", f'via = ["{name}"]']
    return "\n".join(part for line in lines for part in folded(line)) + "\n"


def folded(line: str) -> list[str]:
    """A line of the file, a comment folded to the width of a terminal.

    TOML gives a value one line; a comment behind one that has no room for it stands above it.
    `anabranch advise` joins what is folded here (`advise/paths.py`), since it reads some comments.
    """
    value, sign, said = line.partition("  # ")
    if sign and not line.startswith("#") and len(line) > _WIDTH:
        return [*folded(f"# {said}"), value]
    if not line.startswith("# "):
        return [line]
    return textwrap.wrap(
        line,
        _WIDTH,
        subsequent_indent="#   ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _rate_lines(profile: Profile, out: Path | None) -> list[str]:
    trace, rate = profile.measurement.opportunities, profile.rate_bit_per_s
    if trace is not None and rate is not None:
        folder = out.parent if out else Path()
        file = os.path.relpath(trace.file, folder).replace(os.sep, "/")
        text = file.replace("\\", "\\\\").replace('"', '\\"')
        return [f'rate = {{ mahimahi = "{text}" }}' + _sure(rate, "Mbit/s", 1e6)]
    if rate is None:
        return ["# rate: not measured"]
    text = f'rate = "{_texts(rate, 1e6)[0]} Mbit/s"'
    if profile.rate_is_bound:
        return [f"# {text}  # at least, so there is no limit here: {comment(rate.how)}"]
    return [text + _sure(rate, "Mbit/s", 1e6)]


def _delay_lines(profile: Profile) -> list[str]:
    lines = []
    if profile.delay_s is None:
        lines.append('# delay: not measured; say what it is, such as delay = "20 ms"')
    elif profile.delay_is_bound:
        value = _texts(profile.delay_s, 1e-3)[0]
        lines.append(
            f'# delay = "{value} ms"  # at most: {comment(profile.delay_s.how)}; say what it is'
        )
    else:
        value = f'delay = "{_texts(profile.delay_s, 1e-3)[0]} ms"'
        lines.append(value + _sure(profile.delay_s, "ms", 1e-3))
    if profile.jitter_s is not None and profile.jitter_s.value > 0:
        value = f'jitter = "{_texts(profile.jitter_s, 1e-3)[0]} ms"'
        lines.append(value + _sure(profile.jitter_s, "ms", 1e-3))
    return lines


def _loss_lines(profile: Profile) -> list[str]:
    measured, fit = profile.measurement.losses, profile.loss
    if measured is None or fit is None or profile.losses is None or profile.mean_loss is None:
        return ["# loss: not measured"]
    mean = profile.mean_loss
    seen = f"{profile.losses.count} of {profile.losses.sent} lost"
    how = comment(measured.what) + (", an estimate" if measured.is_estimate else "")
    what = f"# loss: {seen} ({how})"
    if profile.losses.count == 0:
        return [f"{what}; with 95 % below {_digits(mean.interval[1] * 100, 2)} %, {_ALLOWED}"]
    over = " over time" if isinstance(fit, TimedFit) and fit.model != "bernoulli" else ""
    lines = [f"{what}{over and ';'}{over}: {_percent(mean)}"]
    sure = ", ".join(
        f"{key} [{_parameter(key, low)}, {_parameter(key, high)}]"
        for key, (low, high) in fit.intervals.items()
    )
    if isinstance(fit, TimedFit) and fit.model != "bernoulli":
        lines.append("# A slot is short beside the states: the chain runs in time, not by packets.")
    elif fit.model != "bernoulli" and measured.spacing_s:
        lines.append("# A slot is the time between the packets that were measured.")
    elif fit.model != "bernoulli":
        lines.append(
            "# By packets: bursts last longer where packets are rarer than those measured."
        )
    lines.append(f"loss = {_model(fit, fit.values, measured)}  # {sure}")
    if profile.back is None:
        lines.append('reverse = { loss = { kind = "none" } }')
    return lines


def _back_lines(back: Profile) -> list[str]:
    """The other direction, as far as it was measured by itself; the rest is as on the way there."""
    entries, sure = [], []
    for key, estimate, unit, scale in (
        ("rate", None if back.rate_is_bound else back.rate_bit_per_s, "Mbit/s", 1e6),
        ("delay", back.delay_s, "ms", 1e-3),
        ("jitter", back.jitter_s, "ms", 1e-3),
    ):
        if estimate is not None and (estimate.value > 0 or key == "jitter"):
            value, low, high = _texts(estimate, scale)
            entries.append(f'{key} = "{value} {unit}"')
            sure.append(f"{key} [{low}, {high}] {unit}")
    lines = []
    if back.rate_is_bound and back.rate_bit_per_s is not None:
        text = _texts(back.rate_bit_per_s, 1e6)[0]
        lines.append(f"# the way back carries at least {text} Mbit/s")
    measured, fit = back.measurement.losses, back.loss
    if measured is None or fit is None or back.losses is None or back.mean_loss is None:
        entries.append('loss = { kind = "none" }')
        sure.append("loss: not measured")
    elif back.losses.count:
        entries.append(f"loss = {_model(fit, fit.values, measured)}")
        sure.append(f"loss {_percent(back.mean_loss)}")
    else:
        entries.append('loss = { kind = "none" }')
        sure.append(f"none of {back.losses.sent} lost")
    lines.append(f"reverse = {{ {', '.join(entries)} }}  # {'; '.join(sure)}")
    return lines


def _bound_lines(profile: Profile, name: str) -> list[str]:
    """Lines with a loss model for each end of the mean loss's interval.

    `advise` tries these as well.
    """
    measured, fit, mean = profile.measurement.losses, profile.loss, profile.mean_loss
    if measured is None or fit is None or mean is None or profile.losses is None:
        return []
    lines = []
    for end, loss in zip(("least", "most"), mean.interval, strict=True):
        model = '{ kind = "none" }'
        if loss >= _ALL:
            model = f'{{ kind = "bernoulli", probability = {_digits(loss)} }}'
        elif loss > 0 and profile.losses.count:
            model = _model(fit, fit.values_with(loss), measured)
        elif loss > 0:
            good = BAD_STATE_S * (1 - loss) / loss
            model = _timed_chain({"mean_bad": BAD_STATE_S, "mean_good": good})
        lines.append(f"# links.{name}.loss at {end} {_digits(loss * 100, 2)} %: {model}")
    return [*lines, f"# To know links.{name}.loss better: {_pings_for(profile, fit)}"]


def _delay_bound(profile: Profile, name: str) -> list[str]:
    """Lines with the most that a delay may be which is only bounded; `advise` tries this, too."""
    if profile.delay_s is None or not profile.delay_is_bound:
        return []
    most = _texts(profile.delay_s, 1e-3)[2]
    return [
        f"# links.{name}.delay at most {most} ms",
        f"# To know links.{name}.delay better: {_PINGS_WHILE_IDLE}",
    ]


def _model(
    fit: Fit | TimedFit, values: dict[str, float], measured: LossSequence | LossCounts
) -> str:
    """The `loss` of a link with this kind of model."""
    if fit.model == "bernoulli":
        return f'{{ kind = "bernoulli", probability = {_digits(values["probability"])} }}'
    if isinstance(fit, TimedFit):
        return _timed_chain(values)
    clock = 'clock = "packet"'
    if measured.spacing_s:
        clock = _slot(measured.spacing_s)
    return f'{{ kind = "gilbert", {clock}, {_pairs(values)} }}'


def _timed_chain(values: dict[str, float]) -> str:
    slot_s = slot_of(values)
    return f'{{ kind = "gilbert", {_slot(slot_s)}, {_pairs(chain(values, slot_s))} }}'


def _slot(seconds: float) -> str:
    """The clock of a chain; a link takes no slot below 1 ns."""
    return f'clock = "slot", slot = "{_digits(max(seconds, 2e-9) * 1e3)} ms"'


def _pairs(values: dict[str, float]) -> str:
    return ", ".join(f"{key} = {_digits(value)}" for key, value in values.items())


def _parameter(name: str, value: float) -> str:
    """A bound of a loss model's parameter: a length in s, or a share."""
    if not name.startswith("mean_"):
        return _digits(value, 3)
    return "∞" if value > _LONGEST_S else f"{_digits(value * 1e3, 2)} ms"


_LONGEST_S = 1e5
"""If the bound of a state's mean length is above this, in seconds, the packets do not bound it."""


def direction(profile: Profile, ends: tuple[str, str]) -> str | None:
    """A sentence on the direction in which losses were measured.

    None where there is nothing to say.
    """
    measured = profile.measurement.losses
    if measured is None or profile.losses is None:
        return None
    way = f"from {ends[0]} to {ends[1]}"
    if measured.round_trip:
        if profile.losses.count == 0:
            return None
        return f"a loss of the round trip is taken to be one of the way there, {way}"
    if profile.back is not None and profile.back.losses is not None:
        return f"losses were measured on each way by itself; `--ends`: the way there is {way}"
    return (
        f"losses were measured {way} only, where {ends[0]} is the one that sent the data; those of "
        "the other direction were not measured, and none are assumed there"
    )


_TELLING_RATIO = 3.0
"""If the ends of an interval differ by more than this factor, it leaves open which settings are
better.
"""

_NARROWEST = 0.1
"""The smallest distance of the ends, as a logarithm, that a recommended measurement aims at."""

_ALL = 0.99
"""From this mean loss on, there are no states to tell apart."""

_HARMLESS = 0.002
"""A mean loss below which a G.711 call without concealment loses less than 0.1 MOS (G.113)."""

_ALLOWED = f"in bad states of up to {BAD_STATE_S * 1e3:.0f} ms"

_PING_EVERY_S = 0.02

_PINGS_WHILE_IDLE = "pings while nothing else uses the path: ping -c 100 HOST"
"""What measures the delay without a queue, and without timers of a receiver."""


def missing(profile: Profile) -> list[str]:
    """Sentences on what the measurement cannot tell, and which measurement could."""
    notes = []
    mean, fit, losses = profile.mean_loss, profile.loss, profile.losses
    if mean is not None and losses is not None and fit is not None:
        low, high = mean.interval
        known = None
        if losses.count and high > _TELLING_RATIO * low:
            known = _percent(mean)
        elif not losses.count and high > _HARMLESS:
            known = f"none was seen, yet {_digits(high * 100, 2)} % may come {_ALLOWED}"
        if known is not None:
            notes.append(
                f"not enough known of the loss: {known}; measure more, such as "
                f"{_pings_for(profile, fit)}"
            )
    return notes


def _pings_for(profile: Profile, fit: Fit | TimedFit) -> str:
    """The pings that narrow the interval's ends to a factor of `_TELLING_RATIO`, for this model.

    If they are that near already, the pings that narrow them to the root of their ratio. The
    logarithm of a mean of n independent visits to the bad state, whose lengths and distances are
    exponential, has a variance of 2 / n; for n single losses it is 1 / n.
    """
    assert profile.mean_loss is not None
    low, high = profile.mean_loss.interval
    ratio = min(_TELLING_RATIO, math.sqrt(high / low)) if low > 0 else _TELLING_RATIO
    width = max(math.log(ratio), _NARROWEST) / 2 / 1.96
    if not profile.mean_loss.value:
        seconds = -math.log(1 - LEVEL) * BAD_STATE_S / min(_HARMLESS, high / 2)
    elif isinstance(fit, TimedFit) and fit.model != "bernoulli":
        seconds = 2 / width**2 * (fit.values["mean_bad"] + fit.values["mean_good"])
    elif fit.model == "bernoulli":
        seconds = _PING_EVERY_S / width**2 / profile.mean_loss.value
    else:
        step = profile.measurement.losses.spacing_s if profile.measurement.losses else None
        visit = 1 / fit.values["p"] + 1 / fit.values["r"]
        seconds = 2 / width**2 * visit * (step or _PING_EVERY_S)
    minutes = max(math.ceil(seconds / 60), 1)
    every = f"-i {_PING_EVERY_S:g} -c {minutes * 60 / _PING_EVERY_S:.0f}"
    return f"pings for {minutes} min: ping -D {every} HOST"


def netem(
    profile: Profile, ends: tuple[str, str] = ("a", "b"), device: str = "DEVICE"
) -> list[str]:
    """Commands that make Linux behave like the path, for the first end and for the other one.

    netem's jitter without a table is uniform around its delay, and its `gemodel` takes p, r, the
    loss in the bad and that in the good state (tc-netem(8), net/sched/sch_netem.c). Its `limit`
    also counts packets that are being delayed: those of the rate for the longest delay, and the
    queue. Without a limit, netem drops beyond 1000 packets.
    """
    here = _netem_part(profile, profile)
    if lost := profile.losses is not None and profile.losses.count > 0 and profile.loss is not None:
        assert profile.loss is not None
        known = profile.delay_s is not None and not profile.delay_is_bound
        here.insert(int(known), netem_loss(profile.loss))
    there = _netem_part(profile.back or profile, profile)
    if (back := profile.back) is not None and back.loss and back.losses and back.losses.count:
        there.insert(1, netem_loss(back.loss))
    lines = []
    for part, (start, end) in ((here, ends), (there, ends[::-1])):
        if not part:
            continue
        # `replace` rather than `add`, which a device refuses that has a qdisc at its root.
        lines += folded(
            f"# on {start}, for what it sends to {end}; undo: tc qdisc del dev {device} root"
        )
        if (
            part is here
            and lost
            and isinstance(profile.loss, TimedFit)
            and profile.loss.model != "bernoulli"
        ):
            lines += folded(
                "# netem's chain counts packets: this one is for a packet every "
                f"{NETEM_PACKET_S * 1e3:.0f} ms, and lasts less with more of them"
            )
        lines.append(f"tc qdisc replace dev {device} root netem {' '.join(part)}")
    return lines


def _netem_part(way: Profile, there: Profile) -> list[str]:
    """Delay, rate and limit of one way; what was not measured of the way back is as there."""
    delay = way.delay_s or there.delay_s
    if (way if way.delay_s is not None else there).delay_is_bound:
        delay = None
    jitter = way.jitter_s if way.delay_s is not None else there.jitter_s
    width = jitter.value if jitter is not None else 0.0
    parts = []
    if delay is not None:
        text = f"delay {_digits((delay.value + width / 2) * 1e3)}ms"
        if width > 0:
            text += f" {_digits(width / 2 * 1e3)}ms"
        parts.append(text)
    longest = (delay.value if delay is not None else 0.0) + width
    chosen = way if way.rate_bit_per_s is not None else there
    rate, octets = chosen.rate_bit_per_s, chosen.packet_octets
    if rate is not None and not chosen.rate_is_bound:
        queue = chosen.queue_packets.value if chosen.queue_packets is not None else _QUEUE_PACKETS
        limit = max(math.ceil(round(queue + longest * rate.value / 8 / octets, 6)), 1)
        parts.append(f"rate {_texts(rate, 1e3)[0]}kbit limit {limit}")
    elif delay is not None:
        flying = math.ceil(longest * NETEM_FASTEST_BIT_PER_S / 8 / OCTETS)
        if flying > NETEM_LIMIT:
            parts.append(f"limit {flying}")
    return parts


def netem_loss(fit: Fit | TimedFit) -> str:
    """Netem's parameters for a loss model."""
    values = fit.values
    if _is_timed_chain(fit):
        values = chain(values, NETEM_PACKET_S)
    percent = {key: f"{_digits(value * 100, 3)}%" for key, value in values.items()}
    if fit.model == "bernoulli":
        return f"loss random {percent['probability']}"
    return "loss gemodel " + " ".join(percent.values())


def _is_timed_chain(fit: Fit | TimedFit | None) -> TypeGuard[TimedFit]:
    return isinstance(fit, TimedFit) and fit.model != "bernoulli"


Row = tuple[str, str, str, str]


def rows(profile: Profile) -> list[Row]:
    """The estimates: name, value, 95 % interval, and how it was found."""
    described = []
    for name, estimate, unit, scale in (
        ("base delay, one way", profile.delay_s, "ms", 1e-3),
        ("jitter, one way", profile.jitter_s, "ms", 1e-3),
        ("rate", profile.rate_bit_per_s, "Mbit/s", 1e6),
        ("queue", profile.queue_packets, "packets", 1),
        ("loss", profile.mean_loss, "%", 1e-2),
    ):
        if estimate is not None:
            described.append(_row(name, estimate, unit, scale))
    if profile.queue_packets is not None and profile.rate_bit_per_s is not None:
        octets = _scaled(profile.queue_packets, profile.packet_octets)
        described.insert(-1, _row("queue in bytes", octets, "kB", 1e3))
        seconds = _scaled(octets, 8 / profile.rate_bit_per_s.value)
        described.insert(-1, _row("queue in time", seconds, "ms", 1e-3))
    if profile.rate_is_bound:
        described = [
            (name, f"≥ {value}" if name == "rate" else value, interval, how)
            for name, value, interval, how in described
        ]
    if profile.delay_is_bound:
        described = [
            (name, f"≤ {value}" if name.startswith("base delay") else value, interval, how)
            for name, value, interval, how in described
        ]
    if profile.measurement.opportunities is not None:
        described.append(_outages(profile))
    if profile.back is not None:
        described += [
            (f"{name.removesuffix(', one way')}, way back", value, interval, how)
            for name, value, interval, how in rows(profile.back)
        ]
    return described


def _row(name: str, estimate: Estimate, unit: str, scale: float) -> Row:
    value, low, high = _texts(estimate, scale)
    return name, f"{value} {unit}", f"{low} to {high}", estimate.how


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    low, high = estimate.interval
    return Estimate(estimate.value * factor, (low * factor, high * factor), estimate.how)


def _outages(profile: Profile) -> Row:
    lengths = [length for _, length in profile.outages]
    if not lengths:
        return "outages", "none", "", "no pause of a quarter of a second"
    longest = f"the longest {_digits(max(lengths))} s"
    return "outages", f"{len(lengths)}", "", f"{_digits(sum(lengths))} s in all, {longest}"


_COLUMNS = ("p", "r", "loss_in_bad", "loss_in_good")
_TIMED_COLUMNS = ("mean_bad", "mean_good", "loss_in_bad", "loss_in_good")
_IMPLIED = {"loss_in_bad": "1", "loss_in_good": "0"}


def model_heads(profile: Profile) -> tuple[str, ...]:
    """The heads of the table of the models of loss."""
    if _is_timed(profile):
        return (
            "model of loss", "mean bad", "mean good", "loss in bad", "loss in good", "mean loss",
            "AIC", "BIC", "after a loss: p",
        )  # fmt: skip
    return (
        "model of loss", "p", "r", "loss in bad", "loss in good", "AIC", "BIC", "bursts: p of G",
        "gaps: p of KS",
    )  # fmt: skip


def _is_timed(profile: Profile) -> bool:
    return any(isinstance(fit, TimedFit) for fit in profile.fits)


def model_rows(profile: Profile) -> list[tuple[str, ...]]:
    """The loss models by maximum likelihood, with the chosen one marked, and by moments."""
    rows: list[tuple[str, ...]] = []
    for fit in profile.fits:
        name = fit.model + (" *" if fit is profile.loss else "")
        criteria = (f"{fit.aic:.1f}", f"{fit.bic:.1f}")
        if isinstance(fit, TimedFit):
            assert isinstance(profile.losses, TimedLosses)
            p_value = profile.losses.after_loss(fit).p_value(len(fit.values))
            rows.append(
                (name, *_timed_parameters(fit), f"{_digits(fit.mean_loss * 100, 3)} %", *criteria,
                 _p_value(p_value))
            )  # fmt: skip
            continue
        tests = (fit.goodness.p_value, fit.goodness.gap_p_value)
        numbers = (*criteria, *(_p_value(value) for value in tests))
        rows.append((name, *_parameters(fit.model, fit.values), *numbers))
        if fit.moments != fit.values:
            rows.append(
                ("  by moments", *_parameters(fit.model, fit.moments), *[""] * len(numbers))
            )
    return rows


def _timed_parameters(fit: TimedFit) -> list[str]:
    if fit.model == "bernoulli":
        return ["–", "–", "–", _digits(fit.values["probability"], 3)]
    return [
        f"{_digits(fit.values[key] * 1e3, 3)} ms" if key.startswith("mean_")
        else _digits(fit.values[key], 3) if key in fit.values
        else _IMPLIED[key]
        for key in _TIMED_COLUMNS
    ]  # fmt: skip


def _parameters(model: str, values: dict[str, float]) -> list[str]:
    if model == "bernoulli":
        return ["–", "–", "–", _digits(values["probability"])]
    return [_digits(values[key]) if key in values else _IMPLIED[key] for key in _COLUMNS]


def _p_value(value: float) -> str:
    return "–" if math.isnan(value) else "< 0.0001" if value < 1e-4 else _digits(value, 2)


def as_json(profile: Profile, name: str) -> dict[str, Any]:
    """Everything as a tree for JSON, in SI units and shares."""

    def number(estimate: Estimate | None) -> dict[str, Any] | None:
        if estimate is None:
            return None
        return {
            "value": estimate.value, "interval": list(estimate.interval), "how": estimate.how,
        }  # fmt: skip

    losses = profile.losses
    statistic, p_value = losses.independence() if losses is not None else (math.nan, math.nan)
    return {
        "name": name,
        "measured": profile.measurement.title,
        "notes": [*profile.measurement.notes, *missing(profile)],
        "loss_is_one_way": losses is not None and not _of_round_trip(profile),
        "delay_s": number(profile.delay_s),
        "delay_is_upper_bound": profile.delay_is_bound,
        "jitter_s": number(profile.jitter_s),
        "rate_bit_per_s": number(profile.rate_bit_per_s),
        "rate_is_lower_bound": profile.rate_is_bound,
        "queue_packets": number(profile.queue_packets),
        "packet_octets": profile.packet_octets,
        "mean_loss": number(profile.mean_loss),
        "packets": None if losses is None else losses.sent,
        "lost": None if losses is None else losses.count,
        "burst_lengths": _counts(losses.bursts) if losses is not None else {},
        "independence": {"ljung_box": statistic, "p_value": p_value},
        "clock": None if losses is None else "time" if _is_timed(profile) else "packets",
        "chosen_model": None if profile.loss is None else profile.loss.model,
        "models": [_fit(fit) for fit in profile.fits],
        "outages_s": [list(outage) for outage in profile.outages],
        "netem": netem(profile),
        "back": None if profile.back is None else as_json(profile.back, name),
    }


def _fit(fit: Fit | TimedFit) -> dict[str, Any]:
    values = {
        "model": fit.model,
        "values": fit.values,
        "intervals": {key: list(interval) for key, interval in fit.intervals.items()},
        "mean_loss": fit.mean_loss,
        "log_likelihood": fit.log_likelihood,
        "aic": fit.aic,
        "bic": fit.bic,
    }
    if isinstance(fit, TimedFit):
        return values
    return values | {
        "moments": fit.moments,
        "burst_g": fit.goodness.statistic,
        "burst_p_value": fit.goodness.p_value,
        "gap_distance": fit.goodness.gap_distance,
        "gap_p_value": fit.goodness.gap_p_value,
    }


def _of_round_trip(profile: Profile) -> bool:
    measured = profile.measurement.losses
    return measured is not None and measured.round_trip


def _counts(lengths: Iterable[int]) -> dict[str, int]:
    values, counts = np.unique(np.asarray(list(lengths), dtype=int), return_counts=True)
    return {str(value): int(count) for value, count in zip(values, counts, strict=True)}


def _sure(estimate: Estimate, unit: str, scale: float) -> str:
    _, low, high = _texts(estimate, scale)
    return f"  # [{low}, {high}]{f' {unit}' if unit else ''}: {comment(estimate.how)}"


def _percent(estimate: Estimate) -> str:
    value, low, high = _texts(estimate, 1e-2)
    return f"{value} % [{low}, {high}]"


def comment(text: str) -> str:
    """A text for a comment, without line breaks."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _digits(value: float, digits: int = 4) -> str:
    """A number with this many digits, never with an exponent; values below a millionth become 0."""
    if not math.isfinite(value):
        return "–"
    if abs(value) < 1e-6:
        return "0"
    return fixed(value, max(digits - 1 - math.floor(math.log10(abs(value))), 0))


def fixed(value: float, places: int) -> str:
    """A number with up to this many decimal places, without zeros at its end."""
    text = f"{value:.{min(places, 9)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _texts(estimate: Estimate, scale: float) -> tuple[str, str, str]:
    """Value and interval, with the digits that the interval's width justifies."""
    low, high = (bound / scale for bound in estimate.interval)
    value = estimate.value / scale
    if not high - low > 1e-9 * abs(high):
        return _digits(value, 6), _digits(low, 6), _digits(high, 6)
    places = max(1 - math.floor(math.log10(high - low)), 0)
    return fixed(value, places), fixed(low, places), fixed(high, places)
