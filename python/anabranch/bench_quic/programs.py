"""Programs with QUIC: what starts their servers and clients, and which are asked for."""

import re
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.bench_quic.scenarios import profiles
from anabranch.errors import AnabranchError, suggestion
from anabranch.support.files import read_text

PLACES = ("address", "port", "cert", "key", "bytes", "file", "folder")
"""What commands may have in braces."""

LIVE = "live"


@dataclass(frozen=True)
class Program:
    """A client and a server over sockets."""

    name: str
    server: tuple[str, ...]
    client: tuple[str, ...]
    downloads: bool = False
    """Whether the server sends what the client asks for, and not the client."""


def chosen(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[Program, ...]]:
    """The profiles and the programs that these words name; all profiles if there are none.

    A word is a profile, which is simulated; `live` or `live:PROFILE`, our endpoint over sockets; a
    TOML file of programs, or one program of it, `FILE.toml:NAME`.
    """
    known = profiles()
    simulated: list[str] = []
    programs: list[Program] = []
    for word in words or known:
        if word in known:
            simulated.append(word)
        elif word == LIVE or word.startswith(f"{LIVE}:"):
            programs.append(_live(word.partition(":")[2]))
        elif ".toml" in word:
            programs += _of_file(word)
        else:
            raise AnabranchError(
                f"there is no stack `{word}`; there are {', '.join(known)} (simulated), `{LIVE}`,"
                f" `{LIVE}:PROFILE`, and files of programs such as `programs.toml`"
                f"{suggestion(word, [*known, LIVE])}"
            )
    programs = list(dict.fromkeys(programs))
    names = [program.name for program in programs]
    for name in names:
        if names.count(name) > 1:
            raise AnabranchError(f"two programs are called `{name}`; give one of them another name")
    return tuple(dict.fromkeys(simulated)), tuple(programs)


def filled(command: Sequence[str], values: Mapping[str, object]) -> list[str]:
    """A command with values in the place of names in braces."""
    return [_PLACE.sub(lambda found: str(values[found[1]]), word) for word in command]


_PLACE = re.compile(rf"\{{({'|'.join(PLACES)})\}}")


def _live(profile: str) -> Program:
    if profile and profile not in profiles():
        raise AnabranchError(
            f"`{LIVE}:{profile}`: there is no profile `{profile}`; there are"
            f" {', '.join(profiles())}"
        )
    own = [sys.executable, "-m", "anabranch", "quic"]
    as_one = ["--profile", profile] if profile else []
    server = "receive {port} - --address 0.0.0.0 --cert {cert} --key {key}"
    client = "send {address} {port} {file} --trust {cert} --name localhost"
    return Program(
        f"{LIVE} {profile}".strip(),
        (*own, *server.split(), *as_one),
        (*own, *client.split(), *as_one),
    )


def _of_file(word: str) -> list[Program]:
    path, _, name = word.rpartition(":") if not word.endswith(".toml") else (word, "", "")
    try:
        tables = tomllib.loads(read_text(Path(path)))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AnabranchError(f"{path} is not TOML: {error}") from None
    if not tables:
        raise AnabranchError(f"{path} has no program: a table for each, with `server` and `client`")
    if name and name not in tables:
        raise AnabranchError(f"{path} has no program `{name}`; it has {', '.join(tables)}")
    return [_program(path, each, table) for each, table in tables.items() if name in ("", each)]


def _program(path: str, name: str, table: object) -> Program:
    if not isinstance(table, dict):
        raise AnabranchError(f"{path}: `{name}` must be a table with `server` and `client`")
    for key in table:
        if key not in ("server", "client", "downloads"):
            raise AnabranchError(
                f"{path}: {name}.{key}: unknown key; `server`, `client` and `downloads` are allowed"
            )
    downloads = table.get("downloads", False)
    if not isinstance(downloads, bool):
        raise AnabranchError(f"{path}: {name}.downloads is `{downloads}`; allowed: true, false")
    return Program(
        name,
        _command(path, name, "server", table),
        _command(path, name, "client", table),
        downloads,
    )


def _command(path: str, name: str, key: str, table: Mapping[str, object]) -> tuple[str, ...]:
    text = table.get(key)
    where = f"{path}: {name}.{key}"
    if not isinstance(text, str) or not text.strip():
        raise AnabranchError(f"{where} must be a command line in quotes")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise AnabranchError(f"{where}: {error}") from None
    for place in re.findall(r"\{(\w+)\}", text):
        if place not in PLACES:
            allowed = ", ".join(f"{{{each}}}" for each in PLACES)
            raise AnabranchError(f"{where}: unknown `{{{place}}}`; allowed: {allowed}")
    return tuple(words)
