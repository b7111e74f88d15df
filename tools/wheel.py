"""A wheel from a source distribution, compiled with a profile of the engine's runs.

`wheel.py SDIST FOLDER [OPTION]...`: the options are those of `maturin build`. An instrumented
engine runs the four papers in their smallest form and each scenario of the package, TCP and MPTCP
among them; the compiler then knows what is hot. No run of `bench_check.py` is among them, so that
what those gain is what a user's runs gain. Results are the same to the bit, with and without.

It needs rustup's component `llvm-tools`, as another LLVM cannot read the profile; without it, the
wheel is built plainly, and `anabranch --version` says so. `maturin build --pgo` would do the same
if zig could link what is instrumented (ziglang 0.16: `-u __llvm_profile_runtime` is taken for a
file).
"""

import os
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

TRAINING = """
from pathlib import Path
import anabranch
for scenario in sorted((Path(anabranch.__file__).parent / "scenarios").glob("*.toml")):
    print(anabranch.run(scenario))
"""


def main() -> None:
    """Raises CalledProcessError where a step fails."""
    if len(sys.argv) < 3:
        sys.exit("usage: python tools/wheel.py SDIST FOLDER [OPTION]...")
    target, options = Path(sys.argv[2]).resolve(), sys.argv[3:]
    with TemporaryDirectory() as temporary:
        # Where a temporary folder is behind a link, paths would not be the same.
        folder = Path(temporary).resolve()
        with tarfile.open(sys.argv[1]) as files:
            files.extractall(folder, filter="data")
        (source,) = folder.iterdir()
        profiling = _profiling()
        if profiling is None:
            print(
                "the wheel is compiled without a profile; with rustup's component `llvm-tools`"
                " it would be up to a third faster"
            )
            build(source, target, options)
            return
        profile = folder / "runs.profdata"
        train(source, folder, profiling, profile)
        guided = {**flags(f"-Cprofile-use={profile}"), "ANABRANCH_PROFILE_GUIDED": "1"}
        build(source, target, [*host(), *options], guided)


def train(source: Path, folder: Path, profiling: Path, profile: Path) -> None:
    """Writes the profile of the runs that the engine is compiled for."""
    raw = folder / "raw"
    build(source, folder / "instrumented", host(), flags(f"-Cprofile-generate={raw}"))
    (wheel,) = (folder / "instrumented").glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    python = str(programs / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    listed = "from anabranch import papers; print(*papers.names())"
    papers = subprocess.run([python, "-c", listed], check=True, capture_output=True, text=True)
    for paper in papers.stdout.split():
        command = [python, "-m", "anabranch", "reproduce", paper, "--smoke"]
        subprocess.run(command, check=True, cwd=folder)
    subprocess.run([python, "-c", TRAINING], check=True, cwd=folder)
    merged = [str(profiling), "merge", "--output", str(profile), *map(str, raw.glob("*.profraw"))]
    subprocess.run(merged, check=True)


def build(
    source: Path, target: Path, options: Sequence[str], variables: Mapping[str, str] | None = None
) -> None:
    """Builds a wheel in a folder of sources."""
    command = ["maturin", "build", "--release", "--strip", "--out", str(target), *options]
    subprocess.run(command, check=True, cwd=source, env={**os.environ, **(variables or {})})


def host() -> tuple[str, str]:
    """The option for the compiler's own platform.

    Functions have other names in the profile where only one of two builds has it, as with zig.
    """
    told = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    (name,) = re.findall(r"(?m)^host: (.*)$", told)
    return "--target", name


def flags(flag: str) -> dict[str, str]:
    """The variable that gives the compiler a flag, beside those that it has."""
    before = os.environ.get("RUSTFLAGS", "").split()
    return {"CARGO_ENCODED_RUSTFLAGS": "\x1f".join([*before, flag])}


def _profiling() -> Path | None:
    """The `llvm-profdata` of the compiler, if it is there."""
    asked = ["rustc", "--print", "target-libdir"]
    folder = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    programs = Path(folder).parent / "bin"
    return next(programs.glob("llvm-profdata*"), None)


if __name__ == "__main__":
    main()
