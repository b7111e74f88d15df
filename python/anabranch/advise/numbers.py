"""Numbers of the advice as people read them: rounded to what is known, without exponents."""

import math

from anabranch.support.wording import number

NOTHING = 1e-6
"""In MOS, Mbit/s or ms: a smaller difference is rounding."""

_PLACES = 3
"""Decimal places at most; beyond these, differences in MOS, Mbit/s or ms do not matter."""
LEAST = 10.0**-_PLACES


def change(mean: float, half_width: float, unit: str = "") -> str:
    """A difference and half the width of its interval, with the digits that are justified."""
    of_unit = f" {unit}" if unit else ""
    if abs(mean) < NOTHING and half_width < NOTHING:
        return "no difference in any run"
    if abs(mean) + half_width < LEAST:
        return f"less than {LEAST:g}{of_unit}"
    if half_width < NOTHING:
        return f"{signed(mean)}{of_unit} in every run"
    return f"{signed(mean, half_width)} ± {size(half_width)}{of_unit}"


def signed(value: float, half_width: float = 0.0) -> str:
    """A difference with its sign and the digits that are known, without an exponent."""
    if math.isnan(value):
        return number(value)
    text = known(value, half_width)
    return f"+{text}" if value > 0 and any(c in "123456789" for c in text) else text


def known(value: float, half_width: float) -> str:
    """A value with no digit beyond the second of its half-width, or with four if that is 0."""
    if math.isnan(value):
        return number(value)
    scale = half_width if half_width >= NOTHING else abs(value) / 100
    places = 0 if scale <= 0 else min(max(1 - math.floor(math.log10(scale)), 0), _PLACES)
    text = f"{value:,.{places}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def size(value: float) -> str:
    """A half-width with two significant digits, without an exponent.

    A dash where all runs are alike.
    """
    if math.isnan(value) or value < NOTHING:
        return number(math.nan)
    # At least the last place that is shown, so that no interval seems to have no width.
    value = max(value, LEAST)
    return f"{value:,.{min(max(1 - math.floor(math.log10(value)), 0), _PLACES)}f}"
