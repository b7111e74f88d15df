"""Starts a command again as root of a user namespace, for users other than root."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

from anabranch.emulate import running
from anabranch.errors import LiveError


def become_root(what: str) -> None:
    """Continues as root of a user namespace, where that is permitted; root itself just goes on.

    `what` names in an error message what needs root, such as an emulation.
    """
    if os.geteuid() == 0 or not sys.platform.startswith("linux"):
        return
    refused = f"{what} needs root, or a system where users may make namespaces"
    if shutil.which("unshare") is None:
        raise LiveError(f"{refused}, and `unshare` of util-linux")
    spaces = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
    tried = subprocess.run([*spaces, "true"], check=False, capture_output=True, text=True)
    if tried.returncode != 0:
        raise LiveError(f"{refused}; here `{' '.join(spaces)}` says: {tried.stderr.strip()}")
    become(spaces)


def become(prefix: Sequence[str]) -> NoReturn:
    """Replaces this process by the same command, preceded by these words."""
    os.environ[running.USER] = str(running.user())
    try:
        os.execvp(prefix[0], [*prefix, sys.executable, "-m", "anabranch", *sys.argv[1:]])
    except OSError as error:
        raise LiveError(f"`{prefix[0]}` cannot be started: {error.strerror}") from None
