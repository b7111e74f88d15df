"""The application, and what its commands share: types of arguments, and texts for people."""

import json
import logging
import math
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Group, Parameter, Token

from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.support.files import write_atomically
from anabranch.support.progress import Form, form
from anabranch.support.stdin import STANDARD

if TYPE_CHECKING:
    from anabranch.studies.result import Result

_OPTIONS = Group("Options", sort_key=9)

app = App(
    name="anabranch",
    group_commands=_OPTIONS,
    group_parameters=_OPTIONS,
    help="A laboratory for transport over several paths at once.",
    help_format="plaintext",
    help_epilogue="""\
Start with:
  anabranch new my-call
  anabranch run my-call.toml --plot out
`anabranch COMMAND --help` has examples for every command.""",
    version=(
        f"{_engine.__version__} (engine {_engine.ENGINE_VERSION}, "
        f"{'' if _engine.PROFILE_GUIDED else 'not '}profile-guided)"
    ),
    suppress_keyboard_interrupt=False,
)

app.register_install_completion_command(
    help="Install completion of commands and options for this shell (bash, zsh, fish)."
)

MODEL = Group("Model and run", sort_key=1)
STUDY = Group("Study", sort_key=2)
UNDERSTAND = Group("Understand", sort_key=3)
REAL = Group("Real networks", sort_key=4)
CHECK = Group("Check", sort_key=5)
"""What people do: `--help` lists the commands so, and the documentation in the same order."""

Flag = Parameter(negative="", show_default=False)


def _whole(_: object, tokens: Sequence[Token]) -> int:
    text = tokens[0].value
    # A fraction is a mistake; it is not rounded.
    if not re.fullmatch(r"-?[0-9]+", text):
        raise ValueError(f"`{text}` is not a whole number")
    # The engine's integers have 64 bits.
    if len(text) > 20 or abs(int(text)) >= 2**64:
        raise ValueError(f"`{text[:30]}` is not a whole number up to {2**64 - 1}")
    return int(text)


def _natural(kind: object, tokens: Sequence[Token]) -> int:
    number = _whole(kind, tokens)
    if number < 0:
        raise ValueError(f"`{number}` is not a whole number from 0 on")
    return number


Whole = Annotated[int, Parameter(converter=_whole)]
Natural = Annotated[int, Parameter(converter=_natural)]


def _file(_: object, tokens: Sequence[Token]) -> Path:
    text = tokens[0].value
    if text.startswith("-") and text != str(STANDARD):
        raise ValueError(f"unknown option: `{text}`; as the name of a file it is `./{text}`")
    return Path(text)


File = Annotated[Path, Parameter(allow_leading_hyphen=True, converter=_file)]
"""A file, or `-`."""
Texts = Annotated[
    tuple[str, ...], Parameter(negative="", show_default=False, consume_multiple=False)
]
Sets = Annotated[
    tuple[str, ...],
    Parameter(name="--set", negative="", show_default=False, consume_multiple=False),
]


FORMATS = ("png", "svg", "pdf", "pgf")
"""What figures are written as; PGF is for LaTeX documents."""


def _formats(_: object, tokens: Sequence[Token]) -> tuple[str, ...]:
    words = [word.strip().lower() for token in tokens for word in token.value.split(",")]
    for word in words:
        if word not in FORMATS:
            raise ValueError(f"`{word}` is not a format of figures; there are {', '.join(FORMATS)}")
    return tuple(dict.fromkeys(words))


Formats = Annotated[
    tuple[str, ...],
    Parameter(negative="", show_default=False, consume_multiple=True, converter=_formats),
]
"""`pdf,svg`, or several words."""


# `main` handles Ctrl-C: it prints a sentence and sets the exit code.
app.meta.suppress_keyboard_interrupt = False


@app.meta.default
def _with_log_level(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    log_level: Literal["debug", "info", "warning", "error"] = "warning",
    progress: Form = "text",
) -> object:
    """Set up what all commands share.

    Parameters
    ----------
    log_level
        The least severe messages about the work that are printed on standard error.
    progress
        How standard error says how far long work is: in words, or one JSON object a line.
    """
    logging.basicConfig(
        level=log_level.upper(), format="anabranch: %(levelname)s: %(message)s", force=True
    )
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    with form(progress):
        return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")


def pairs(sets: Sequence[str], option: str = "--set PATH=VALUE") -> dict[str, str]:
    """The values of `--set PATH=VALUE`, or of another option of this form, by path."""
    parsed = {}
    for text in sets:
        name, equals, value = text.partition("=")
        if not equals or not name:
            flag, form = option.split()
            raise AnabranchError(f"`{flag} {text}` is not {form}")
        parsed[name.strip()] = value.strip()
    return parsed


def refuse(form: str, **options: object) -> None:
    """Raises if one of these options is given, which do not go with this form of a command."""
    for name, value in options.items():
        if value not in (None, False, ()):
            raise AnabranchError(f"--{name.rstrip('_')} does not go with {form}")


def run_record(result: "Result", kind: str) -> dict[str, object]:
    """What `--json` writes about a run, so that `compare` can tell what it is a run of.

    `kind` says what made it: runs of a `simulation` share random numbers if they have the same
    seed.
    """
    scenario, cell = result.scenario, result.cell
    of_study = {"study": scenario.cell_study(cell)} if scenario.studies else {}
    return {
        "kind": kind,
        "scenario": scenario.name,
        "scenario_hash": scenario.hash,
        "version": _engine.__version__,
        "seed": result.seed,
        "cell": cell,
        "key": {**of_study, **scenario.cell_key(cell)},
        "replication": result.replication,
        "settings": tomllib.loads(scenario.cell_toml(cell)) | {"seed": result.seed},
        "summary": result.summary,
    }


def write_json(path: Path, content: object) -> None:
    """Writes a file for `--json`: `json_text` and a line break."""
    write_atomically(path, (json_text(content) + "\n").encode())


def json_text(content: object) -> str:
    """JSON text; it has null for NaN, which JSON cannot express."""

    def clean(value: object) -> object:
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        if isinstance(value, list):
            return [clean(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(clean(content), indent=2, ensure_ascii=False, allow_nan=False)
