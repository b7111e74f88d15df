"""`anabranch emodel`."""

from typing import Annotated, Literal

from cyclopts import Parameter

from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.support import terminal
from anabranch.support.quantities import milliseconds, share

from .app import UNDERSTAND, Sets, app, json_text, pairs


@app.command(
    group=UNDERSTAND,
    sort_key=4,
    help_epilogue="""\
Examples:
  anabranch emodel --codec g711+plc --delay 63ms --loss 2%
  anabranch emodel --codec g729a+vad --delay 150ms --loss 1% --form simplified
  anabranch emodel --ie 10 --bpl 19 --delay 0.2s --set A=10 --json""",
)
def emodel(
    *,
    codec: str | None = None,
    ie: float | None = None,
    bpl: float | None = None,
    delay: str = "0 ms",
    loss: str = "0 %",
    burst_ratio: float = 1.0,
    form: Literal["g107", "simplified", "g107_1"] = "g107",
    set_: Sets = (),
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
) -> None:
    """Compute the E-model (ITU-T G.107) and print every term.

    Parameters
    ----------
    codec
        A codec of the table (`anabranch list codecs`); alternatively, give --ie and --bpl.
    ie
        Equipment impairment factor Ie.
    bpl
        Packet-loss robustness factor Bpl.
    delay
        One-way delay from mouth to ear.
    loss
        Share of packets lost or late.
    burst_ratio
        Burst ratio BurstR: 1 for random losses, more for bursts.
    form
        The complete G.107, its simplified form, or wideband G.107.1.
    set_
        Any parameter of G.107 by the name it has there, NAME=VALUE; may be given several times.
    as_json
        Print JSON instead of a table.
    """
    terms: dict[str, float | str] = {
        "form": form,
        "delay_ms": milliseconds(delay),
        "loss": share(loss),
        "burst_ratio": burst_ratio,
    }
    chosen = {"codec": codec, "ie": ie, "bpl": bpl}
    terms |= {name: value for name, value in chosen.items() if value is not None}
    for name, value in pairs(set_).items():
        try:
            terms[name] = float(value)
        except ValueError:
            raise AnabranchError(f"`{value}` for {name} is not a number") from None
    result = _engine.emodel(terms)
    if as_json:
        print(json_text({name: value for name, value, _ in result}))
    else:
        terminal.console().print(terminal.emodel(result))
