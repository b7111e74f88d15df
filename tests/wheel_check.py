"""`python tests/wheel_check.py WHEEL`: a wheel as its users meet it, on a machine with no compiler.

In a new virtual environment that finds no program but its own: pip installs the wheel, every module
can be imported without the extras, and a first figure follows. Needs pip's package index; the
standard library is enough.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

MOST_SECONDS = 60.0
"""From the installed wheel to the first figure; how long an installation takes is its network's."""

EXTRAS = ("SALib", "dask", "dask_jobqueue", "distributed", "gymnasium", "optuna")
"""Packages that the wheel does without; the names by which they are imported."""

IMPORTS = f"""\
import importlib, pkgutil, anabranch
for module in pkgutil.walk_packages(anabranch.__path__, "anabranch."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in {EXTRAS}:
                raise
"""


def main() -> int:
    """Checks the wheel and prints what each step took, in seconds."""
    if len(sys.argv) != 2:
        sys.exit("usage: python tests/wheel_check.py WHEEL")
    wheel = Path(sys.argv[1]).resolve()
    # On some systems it is a link; matplotlib and pip compare the paths that they resolved
    # themselves.
    folder = Path(tempfile.mkdtemp(prefix="anabranch-wheel-")).resolve()
    try:
        check(wheel, folder)
    finally:
        shutil.rmtree(folder)
    return 0


def check(wheel: Path, folder: Path) -> None:
    """Raises CalledProcessError or AssertionError where the wheel is not as its users need it."""
    windows = sys.platform == "win32"
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / ("Scripts" if windows else "bin")
    kept = ("PIP_", "SSL_CERT_", "REQUESTS_CA_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SYSTEM")
    environment = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    environment |= {"PATH": str(programs), "HOME": str(folder), "USERPROFILE": str(folder)}
    environment["PIP_NO_CACHE_DIR"] = "1"
    for compiler in ("cc", "gcc", "clang", "cl", "cargo", "rustc"):
        assert shutil.which(compiler, path=environment["PATH"]) is None, compiler

    def step(title: str, program: str, *arguments: object) -> tuple[str, float]:
        started = time.monotonic()
        done = subprocess.run(
            [shutil.which(program, path=str(programs)) or program, *map(str, arguments)],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            check=True,
        )
        seconds = time.monotonic() - started
        print(f"{seconds:6.1f} s  {title}", flush=True)
        return done.stdout, seconds

    _, install = step(
        "installed", "python", "-m", "pip", "install", "-q", "--only-binary", ":all:", wheel
    )
    step("what it needs is there", "python", "-m", "pip", "check")
    version, _ = step("first `anabranch --version`", "anabranch", "--version")
    assert version.split()[0] == wheel.name.split("-")[1], version
    step("`anabranch --help`", "anabranch", "--help")
    _, new = step("a scenario", "anabranch", "new", "my-call")
    _, figure = step("first figure", "anabranch", "run", "my-call.toml", "--plot", "out")
    page = (folder / "out" / "my-call.html").read_text("utf-8")
    assert "<svg" in page, page[:200]
    _, again = step("the same again", "anabranch", "run", "my-call.toml", "--plot", "out")
    step("every module", "python", "-c", IMPORTS)
    step("the lab's page", "anabranch", "lab", "--out", "site")
    assert (folder / "site" / "engine.wasm").read_bytes()[:4] == b"\0asm"
    total = install + new + figure
    print(f"{total:6.1f} s  from the wheel to the first figure; {again:.1f} s for one more")
    assert new + figure < MOST_SECONDS, f"the first figure took {new + figure:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
