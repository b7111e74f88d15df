"""Advice for people: sentences and tables."""

import math
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from anabranch.support.wording import number

from . import Advice, Cost, Effect
from .numbers import LEAST, NOTHING, change, known, signed, size
from .settings import DEFAULT


def report(advice: Advice) -> Iterator[RenderableType]:
    """What is printed before the text to paste: what was asked, and the answer."""
    goal = advice.goal
    names = ", ".join(advice.paths.names)
    yield (
        f"{goal.what[0].upper()}{goal.what[1:]} over {advice.transport}; paths: {names}. "
        f"{advice.tried} candidates, {advice.runs:,} runs; {advice.replications} of each below."
    )
    yield conclusion(advice)
    for sentence in advice.unknown:
        yield Text(f"{sentence[0].upper()}{sentence[1:]}.")
    if advice.at_bounds and not advice.unknown:
        yield Text(
            f"So it is at both ends of what is known of the {_bounds(advice)}: nothing "
            f"that was tried there is better by {number(advice.relevant, 2)} {goal.unit}."
        )


def _bounds(advice: Advice) -> str:
    """Such as `losses (wifi 1 % to 2 %)`."""
    said: dict[tuple[str, str], list[str]] = {}
    for one in advice.at_bounds:
        ends = said.setdefault((one.bound.key, one.bound.link), [])
        # A delay that is only bounded was tried as if there were none.
        ends += ["0 ms", one.bound.said] if one.bound.key == "delay" else [one.bound.said]
    parts = []
    for key, plural in (("loss", "losses"), ("delay", "delays")):
        links = [f"{link} {' to '.join(ends)}" for (of, link), ends in said.items() if of == key]
        parts += [f"{plural} ({', '.join(links)})"] if links else []
    return " and of the ".join(parts)


def evidence(advice: Advice) -> Iterator[RenderableType]:
    """What the answer rests on: the candidates, and each setting by itself."""
    yield _ranking(advice)
    alike = any(row.half_width < NOTHING for row in advice.ranked)
    yield (
        f"= may be the best of these (95 %). Effects are against the {advice.reference.name}, on "
        f"common random numbers. Less than {number(advice.relevant, 2)} {advice.goal.unit} is "
        f"taken for no difference.{' –: the same in every run.' if alike else ''}"
    )
    if advice.goal.explained:
        yield advice.goal.explained
    if advice.costs:
        yield _costs(advice)
        yield _what_costs_are(advice)
    yield _settings(advice)


def conclusion(advice: Advice) -> str:
    """The advice in a sentence or two."""
    unit = advice.goal.unit
    if not advice.keep_defaults:
        gain, half_width = advice.gain
        against = (
            f"With the {advice.reference.name} some runs fail"
            if math.isnan(gain)
            else f"That is {change(gain, half_width, unit)} against the {advice.reference.name}"
        )
        return (
            f"Recommended: {advice.recommended.name}. {against}; all else may stay as it is."
            f"{_sent(advice)}"
        )
    if all(effect.verdict == "none" for effect in advice.effects):
        most = _most(advice, advice.effects)
        return f"Nothing matters here: none of the settings {most}. Keep the defaults."
    in_linux = [effect for effect in advice.effects if effect.setting in advice.searched]
    if all(effect.verdict == "none" for effect in in_linux):
        return f"Keep the defaults: nothing that Linux has {_most(advice, in_linux)}."
    least = f"{number(advice.relevant, 2)} {unit} or more"
    sentence = f"Keep the defaults: nothing that was tried is shown to be better by {least}"
    if any(effect.verdict == "undecided" for effect in advice.effects):
        return f"{sentence}, nor is it ruled out for all of it."
    return f"{sentence}, and some of it is worse."


def _most(advice: Advice, effects: Sequence[Effect]) -> str:
    """That nothing makes a difference that matters, and which setting makes the largest one."""
    changes = [
        (f"{effect.setting.name} {effect.setting.label(value, advice.profile)}", *change)
        for effect in effects
        for value, change in effect.changes.items()
    ]
    name, mean, half_width = max(changes, key=lambda change: abs(change[1]), default=("", 0.0, 0.0))
    unit = advice.goal.unit
    if abs(mean) + half_width < NOTHING:
        return "makes any difference"
    return (
        f"makes a difference of {number(advice.relevant, 2)} {unit}; the most is"
        f" {change(mean, half_width, unit)} ({name})"
    )


def sentence(effect: Effect, unit: str) -> str:
    """What other values of one setting do to the recommendation."""
    if effect.verdict == "matters":
        said = "; ".join(
            f"{value}: some runs fail"
            if math.isnan(mean)
            else f"{value}: {change(mean, half_width)}"
            for value, (mean, half_width) in effect.changes.items()
        )
    else:
        most = max(abs(mean) + half_width for mean, half_width in effect.changes.values())
        said = {
            "none": "makes no difference that matters",
            "undecided": "no difference that matters is shown",
        }[effect.verdict] + _at_most(most, unit)
    if effect.unmasked is None:
        return said
    other, value, mean, half_width = effect.unmasked
    if math.isnan(mean):
        return said
    instead = f"{value} instead of {effect.recommended}"
    return f"{said} (were {other} off, {instead}: {change(mean, half_width)})"


def _at_most(most: float, unit: str) -> str:
    if not most:
        return ": none at all"
    return f": less than {LEAST:g} {unit}" if most < LEAST else f": at most ± {size(most)} {unit}"


def _ranking(advice: Advice) -> Table:
    table = _table()
    table.add_column("")
    table.add_column("settings", overflow="fold")
    for head in (advice.goal.unit, "± 95 %", "effect", "± 95 %"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in advice.ranked:
        recommended = row.candidate == advice.recommended
        effect = (signed(row.effect, row.effect_half_width), size(row.effect_half_width))
        if row.candidate == advice.reference:
            effect = ("reference", "")
        table.add_row(
            "=" if row.among_best else "",
            f"{row.candidate.name} <- recommended" if recommended else row.candidate.name,
            known(row.mean, row.half_width),
            size(row.half_width),
            *effect,
        )
    return table


def _sent(advice: Advice) -> str:
    """What the recommendation sends, beside the reference; nothing where that is not known."""
    if not advice.costs:
        return ""
    # The first measure is what is sent over all paths.
    sent = {cost.candidate: cost.measured[0] for cost in advice.costs}
    own, other = (
        " ± ".join((known(*sent[one]), size(sent[one][1]))) + " MB"
        for one in (advice.recommended, advice.reference)
    )
    return f" It sends {own}, the {advice.reference.name} {other}."


def _costs(advice: Advice) -> Table:
    """What the ways to use the paths send, and what is seen of it."""
    table = _table()
    several = len(advice.paths.names) > 1
    table.add_column("paths" if several else "", overflow="fold")
    for one in advice.beside:
        table.add_column(one.head, justify="right", no_wrap=True)
    for cost in advice.costs:
        table.add_row(_way(advice, cost), *(_with_interval(*one) for one in cost.measured))
    return table


def _way(advice: Advice, cost: Cost) -> str:
    """How a row of the costs is called."""
    way, recommended = cost.candidate["paths"], advice.recommended
    if len(advice.paths.names) == 1 or cost.candidate != recommended.having("paths", way):
        is_reference = cost.candidate == advice.reference
        return advice.reference.name if is_reference else "recommended"
    name = advice.paths.names[0] if way == DEFAULT else way
    return f"-> {name}" if cost.candidate == recommended else name


def _what_costs_are(advice: Advice) -> str:
    several = len(advice.paths.names) > 1
    whose = (
        "-> is the recommendation, from which the others differ in the paths. " if several else ""
    )
    return f"{whose}MB are what the sender sends, with all headers; ± are 95 % intervals."


def _with_interval(mean: float, half_width: float) -> str:
    """A mean, and half the width of its interval below; nothing there where all runs are alike."""
    text = known(mean, half_width)
    return f"{text}\n± {size(half_width)}" if half_width >= NOTHING else text


def _settings(advice: Advice) -> Table:
    table = _table()
    table.add_column("setting", no_wrap=True)
    table.add_column("recommended", no_wrap=True)
    table.add_column(f"what another value does to that, {advice.goal.unit}")
    for effect in advice.effects:
        said = sentence(effect, advice.goal.unit)
        table.add_row(
            effect.setting.name,
            effect.setting.label(effect.recommended, advice.profile),
            said if effect.setting in advice.searched else f"{said} (no counterpart in Linux)",
        )
    return table


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False)
