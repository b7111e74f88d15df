"""Finds, checks and makes objects of the classes that scenarios name; called by the engine.

A module is read once in a process, as Python does it: all runs of a study have the same source, and
the hash of that source is part of the hash of each scenario.
"""

import hashlib
import importlib
import inspect
import logging
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from anabranch.plugins import watchdog
from anabranch.plugins.control import HOOKS as CONTROL_HOOKS
from anabranch.plugins.control import CongestionControl, Setup
from anabranch.plugins.media import HOOKS as MEDIA_HOOKS
from anabranch.plugins.media import MediaControl, MediaSetup
from anabranch.plugins.policy import HOOKS as POLICY_HOOKS
from anabranch.plugins.policy import PathPolicy, PathPolicySetup
from anabranch.plugins.queue import HOOKS as QUEUE_HOOKS
from anabranch.plugins.queue import QueueDiscipline, QueueSetup
from anabranch.plugins.scheduler import HOOKS as SCHEDULER_HOOKS
from anabranch.plugins.scheduler import Scheduler, SchedulerSetup

_log = logging.getLogger("anabranch.plugins")
_lock = threading.RLock()


class _MisuseError(Exception):
    """A class that cannot be used; its text is a sentence for the user."""


@dataclass(frozen=True)
class _Role:
    """What a class is used as."""

    base: type
    setup: Callable[..., object]
    hooks: tuple[str, ...]
    needed: tuple[str, ...]
    """The hooks that a class has to have."""


_ROLES = {
    "congestion control": _Role(CongestionControl, Setup, CONTROL_HOOKS, ("limits",)),
    "congestion control of media": _Role(MediaControl, MediaSetup, MEDIA_HOOKS, ("limits",)),
    "path policy": _Role(PathPolicy, PathPolicySetup, POLICY_HOOKS, ()),
    "queue discipline": _Role(
        QueueDiscipline, QueueSetup, QUEUE_HOOKS, ("enqueue", "dequeue", "clear")
    ),
    "scheduler": _Role(Scheduler, SchedulerSetup, SCHEDULER_HOOKS, ("schedule",)),
}

_modules: dict[str, tuple[ModuleType, str]] = {}
"""The modules that were read, by their names in scenarios, and the hashes of their sources."""


def check(name: str, role: str) -> str | None:
    """What is the matter with a class that a scenario names; None if it can be used."""
    watchdog.start()
    try:
        _class_of(name, role)
    except _MisuseError as error:
        return f'class = "{_short(name)}" {error}'
    except Exception as error:  # of its metaclass, or of a descriptor
        sentence = f'class = "{_short(name)}" cannot be used: {_told(error)}'
        log(sentence, error)
        return sentence
    return None


def source(name: str) -> str:
    """Names the source of a class: its own name, and a hash of its module's file."""
    module, _, own = name.rpartition(":")
    return f"{own}@{_module(module)[1]}"


def create(
    name: str, role: str, given: dict[str, Any], settings: dict[str, Any]
) -> dict[str, object]:
    """Makes an object of a class; the methods that are hooks and not its base class's own."""
    watchdog.start()
    made, known = _class_of(name, role), _ROLES[role]
    generator = random.Random(given.pop("seed"))
    thing = made(known.setup(**given, random=generator), **settings)
    if not isinstance(thing, known.base):
        raise TypeError(f"it made an object of {type(thing).__name__}")
    return {
        hook: getattr(thing, hook)
        for hook in known.hooks
        if getattr(made, hook) is not getattr(known.base, hook)
    }


def log(sentence: str, error: BaseException) -> None:
    """Writes the traceback of a hook's exception to the log, for `--log-level debug`."""
    _log.debug("%s", sentence, exc_info=error)


def reload() -> None:
    """Forgets the modules that classes were found in: each is read again when it is next needed.

    For notebooks, after a change of a class.
    """
    with _lock:
        for module, _ in _modules.values():
            sys.modules.pop(module.__name__, None)
        _modules.clear()
        importlib.invalidate_caches()


def _class_of(name: str, role: str) -> type:
    module_name, colon, own = name.rpartition(":")
    if not (colon and module_name and own.isidentifier()):
        raise _MisuseError("is not of the form module:Class")
    module, _ = _module(module_name)
    found = getattr(module, own, None)
    if not isinstance(found, type):
        raise _MisuseError(f"does not exist: the module has no class {own}")
    base = _ROLES[role].base
    if not issubclass(found, base):
        raise _MisuseError(
            f"is no {role}: it is not derived from anabranch.plugins.{base.__name__}"
        )
    for hook in _ROLES[role].needed:
        if getattr(found, hook) is getattr(base, hook):
            raise _MisuseError(f"has no method {hook}, which a {role} needs")
    for hook in _ROLES[role].hooks:
        method = getattr(found, hook)
        if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
            raise _MisuseError(
                f"has a method {hook} that is async or a generator; a call runs neither"
            )
    return found


def _module(name: str) -> tuple[ModuleType, str]:
    """A module by its name or by its file's name, and the hash of its source."""
    with _lock:
        if name not in _modules:
            try:
                _modules[name] = _read(name)
            except (_MisuseError, KeyboardInterrupt):
                raise
            except BaseException as error:  # SystemExit among them
                sentence = f"cannot be imported: {_told(error)}"
                log(sentence, error)
                raise _MisuseError(sentence) from error
        return _modules[name]


def _read(name: str) -> tuple[ModuleType, str]:
    if not name.endswith(".py"):
        module = importlib.import_module(name)
        return module, _digest(_source_of(module))
    path = Path(name)
    if not path.is_file():
        raise _MisuseError(f"cannot be imported: there is no file {path.name} there")
    content = path.read_bytes()
    # Two files of the same name in different folders are different modules.
    own_name = f"{path.stem}_{_digest(str(path).encode())}"
    module = ModuleType(own_name)
    module.__file__ = str(path)
    sys.modules[own_name] = module  # as dataclasses and pickles need it
    try:
        # What is run is what the hash is of: no compiled file of Python's is between them.
        exec(compile(content, path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[own_name]
        raise
    return module, _digest(content)


def _source_of(module: ModuleType) -> bytes:
    file = getattr(module, "__file__", None)
    if file is not None:
        return Path(file).read_bytes()
    try:
        return inspect.getsource(module).encode()
    except (OSError, TypeError):
        raise _MisuseError(
            "has no source file; put it into one, so that results of different sources are told"
            " apart"
        ) from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _short(name: str) -> str:
    module, _, own = name.rpartition(":")
    return f"{Path(module).name}:{own}" if module.endswith(".py") else name


def _told(error: BaseException) -> str:
    words = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
