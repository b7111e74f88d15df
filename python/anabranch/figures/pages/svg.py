"""Shortens the SVG that matplotlib writes by what does not show.

A page contains all of its figures, and each mark of an interval is an element with a style of its
own.
"""

import re
import zlib
from itertools import pairwise

_MADE_ID = re.compile(r' id="([\w.-]*?[A-Za-z.0-9]+_\d+(?:-\d+)?)"')
"""Ids that matplotlib numbers; the marks that a figure names have no number after a `_`."""

_MARK = 20.0
"""Coordinates below this mostly belong to a mark that is drawn around its own middle."""

_LINE = re.compile(r'<path d="([^"]*)"((?: clip-path="[^"]*")? style="fill: none;[^"]*")/>\n')


def slim(text: str, name: str) -> str:
    """The same picture, to a tenth of a point, with only the ids that something refers to.

    Parameters
    ----------
    text
        A figure whose ids begin with the name and `-`.
    name
        The figure's name.
    """
    text = text.replace("xlink:href=", "href=")
    used = list(dict.fromkeys(re.findall(r'(?:href="|url\()#([^")]+)', text)))
    text = _MADE_ID.sub(lambda match: match[0] if match[1] in used else "", text)
    for number, long in enumerate(used):
        text = re.sub(rf'(#|id="){re.escape(long)}(?=[")])', rf"\g<1>{name}-{number}", text)
    text = _with_plain_marks(text)
    text = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", text)
    text = re.sub(r'\b[xy]="[^"]*"', lambda match: _NUMBER.sub(_rounded, match[0]), text)
    text = re.sub(r'\bd="([^"]*)"', lambda match: f'd="{_path(match[1])}"', text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    before = None
    while text != before:
        before = text
        text = re.sub(r"<g>\n?((?:<(?:path|use)\b[^>]*/>\n?)*)</g>\n?", r"\1", text)
        text = re.sub(r"<g>\n?(<text\b[^>]*>[^<]*</text>\n?)</g>\n?", r"\1", text)
    # Consecutive lines of the same look become one.
    text = re.sub(rf"(?:{_LINE.pattern}){{2,}}", _joined, text)
    return _with_classes(text)


_USE = re.compile(r'<use href="#([^"]*)" x="([^"]*)" y="([^"]*)" style="([^"]*)"/>')


def _with_plain_marks(text: str) -> str:
    """Draws marks that are a single line, such as ticks and ends of intervals, where they stand."""
    number = r"(-?[\d.]+)"
    line = rf'<path id="([^"]*)" d="M {number} {number} \s*L {number} {number} \s*"'
    lines = {fields[0]: list(map(float, fields[1:])) for fields in re.findall(line, text)}

    def drawn(match: re.Match[str]) -> str:
        if match[1] not in lines:
            return match[0]
        ends = [end + float(match[2 + i % 2]) for i, end in enumerate(lines[match[1]])]
        style = re.sub(r"\bfill: [^;]*(?:; |$)", "", match[4])
        path = "M {:f} {:f} L {:f} {:f}".format(*ends)
        return f'<path d="{path}" style="fill: none; {style}"/>'

    return _USE.sub(drawn, text)


_NUMBER = re.compile(r"-?\d+\.\d+")


def _rounded(match: re.Match[str]) -> str:
    value = float(match[0])
    return f"{round(value, 1 if abs(value) >= _MARK else 2):g}"


def _path(text: str) -> str:
    """A path without the spaces and coordinates that its commands do not need."""
    steps = re.findall(r"([A-Za-z])([^A-Za-z]*)", _NUMBER.sub(_rounded, text))
    steps = [(command, numbers.split()) for command, numbers in steps]
    parts = [steps[0][0] + " ".join(steps[0][1])] if steps else []
    for (_, before), (command, numbers) in pairwise(steps):
        if command == "L" and before[-2:-1] == numbers[:1]:
            parts.append(f"V{numbers[1]}")
        elif command == "L" and before[-1:] == numbers[1:]:
            parts.append(f"H{numbers[0]}")
        else:
            parts.append(command + " ".join(numbers))
    return "".join(parts)


def _joined(match: re.Match[str]) -> str:
    """Consecutive lines, with those that look alike joined into one."""
    lines: list[list[str]] = []
    for path, look in _LINE.findall(match[0]):
        if lines and lines[-1][1] == look:
            lines[-1][0] += path
        else:
            lines.append([path, look])
    return "".join(f'<path d="{path}"{look}/>\n' for path, look in lines)


def _with_classes(text: str) -> str:
    """Replaces styles by classes named by their content, which all figures of a page share."""
    rules: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        style = re.sub(r"\s*([:;])\s*", r"\1", match[1])
        name = f"s{zlib.crc32(style.encode()):x}"
        rules[name] = style
        return f'class="{name}"'

    text = re.sub(r'(?<=\s)style="([^"]*)"', named, text)
    lines = "".join(f".{name}{{{style}}}" for name, style in sorted(rules.items()))
    return re.sub(r"</style>", f"{lines}</style>", text, count=1)
