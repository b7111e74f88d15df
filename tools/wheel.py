"""A wheel from a source distribution, compiled with a profile of the engine's runs.

`wheel.py SDIST FOLDER [OPTION]...`: the options are those of `maturin build`. An instrumented
engine runs the four papers in their smallest form and each scenario of the package, TCP and MPTCP
among them; the compiler then knows what is hot. No run of `bench_check.py` is among them, so that
what those gain is what a user's runs gain. Results are the same to the bit, with and without.

It needs rustup's component `llvm-tools`, as another LLVM cannot read the profile; without it, the
wheel is built plainly, and `anabranch --version` says so. `maturin build --pgo` would do the same
if zig could link what is instrumented (ziglang 0.16: `-u __llvm_profile_runtime` is taken for a
file). So that one is linked without zig.

A profile counts by the names of functions, and those have a part that cargo derives from how all
that a crate depends on is built. A compiler that finds none of them in the profile says nothing and
guesses, so that it is asked to complain, and the build fails where it does.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

UNKNOWN = "no profile data available for function"
"""How the compiler complains of a function that the profile does not have."""

AS_WITH_ZIG = {
    "__CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS": "nightly",
    "CARGO_UNSTABLE_TARGET_APPLIES_TO_HOST": "true",
    "CARGO_TARGET_APPLIES_TO_HOST": "false",
}
"""What maturin tells cargo with zig, to link build scripts without it: it changes the names."""

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
                " it would be faster"
            )
            build(source, target, options)
            return
        profile = folder / "runs.profdata"
        train(source, folder, profiling, profile, AS_WITH_ZIG if "--zig" in options else {})
        use = flags(f"-Cprofile-use={profile}", "-Cllvm-args=-pgo-warn-missing-function")
        guided = {**use, "ANABRANCH_PROFILE_GUIDED": "1"}
        unknown = build(source, folder / "guided", [*host(), *options], guided)
        if unknown > 0:
            sys.exit(f"the profile does not fit: it lacks {unknown} functions")
        (wheel,) = (folder / "guided").glob("*.whl")
        target.mkdir(exist_ok=True)
        shutil.move(wheel, target / wheel.name)


def train(
    source: Path, folder: Path, profiling: Path, profile: Path, settings: Mapping[str, str]
) -> None:
    """Writes the profile of the runs that the engine is compiled for, built with these settings."""
    raw = folder / "raw"
    build(
        source, folder / "instrumented", host(), {**settings, **flags(f"-Cprofile-generate={raw}")}
    )
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
) -> int:
    """Builds a wheel in a folder of sources. Returns how many functions a profile lacks."""
    command = ["maturin", "build", "--release", "--strip", "--out", str(target), *options]
    environment = {**os.environ, **(variables or {})}
    unknown = 0
    with subprocess.Popen(
        command, cwd=source, env=environment, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if UNKNOWN in line:
                unknown += 1
            else:
                sys.stderr.write(line)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return unknown


def host() -> tuple[str, str]:
    """The option for the compiler's own platform.

    Functions have other names in the profile where only one of two builds has it, as with zig.
    """
    told = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    (name,) = re.findall(r"(?m)^host: (.*)$", told)
    return "--target", name


def flags(*added: str) -> dict[str, str]:
    """The variable that gives the compiler flags, beside those that it has."""
    before = os.environ.get("RUSTFLAGS", "").split()
    return {"CARGO_ENCODED_RUSTFLAGS": "\x1f".join([*before, *added])}


def _profiling() -> Path | None:
    """The `llvm-profdata` of the compiler, if it is there."""
    asked = ["rustc", "--print", "target-libdir"]
    folder = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    programs = Path(folder).parent / "bin"
    return next(programs.glob("llvm-profdata*"), None)


if __name__ == "__main__":
    main()
