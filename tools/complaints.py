"""What a command of ours says on standard error when it was given something wrong."""

import re


def is_complaint(lines: list[str]) -> bool:
    """Whether it is a sentence, or says how many mistakes a file has and has a line for each."""
    if not lines or not lines[0].startswith("anabranch: error: "):
        return False
    first, *rest = lines
    counted = re.search(r"\b(\d+) mistakes$", first)
    return len(rest) == (int(counted[1]) if counted else 0) and all(
        re.match(r"  \S", line) for line in rest
    )
