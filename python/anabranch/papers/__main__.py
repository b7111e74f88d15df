"""`python -m anabranch.papers new NAME [FOLDER]`: begins a paper."""

import sys
from pathlib import Path

from anabranch.errors import AnabranchError

from .new import OWN, create

USAGE = "python -m anabranch.papers new NAME [FOLDER]"


def main(arguments: list[str]) -> int:
    """Writes the folder of a new paper and says what comes next."""
    if arguments in (["-h"], ["--help"]):
        print(f"Usage: {USAGE}\n\nA folder with a scenario, published numbers and claims.")
        return 0
    if len(arguments) not in {2, 3} or arguments[0] != "new":
        print(f"error: usage: {USAGE}", file=sys.stderr)
        return 2
    folder = Path(*arguments[2:])
    try:
        made = create(arguments[1], folder)
    except AnabranchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    # A path, so that it is not taken for a name.
    path = made if made.is_absolute() else f"./{made}"
    name = arguments[1] if made.parent.resolve() == OWN else path
    print(f"Wrote {made}. Try: anabranch reproduce {name} --smoke")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
