"""The paper's factors, and how figures and tables name their values."""

PROFILES = ("los30", "los10", "nlos30", "nlos10")
PROFILE_NAMES = {
    "los30": "line of sight, 30 dB",
    "los10": "line of sight, 10 dB",
    "nlos30": "no line of sight, 30 dB",
    "nlos10": "no line of sight, 10 dB",
}
PAPERS_PROFILES = ("nlos30", "nlos10")
"""The profiles that the paper has results of."""

CONTROLS = (
    "reno",
    "vegas",
    "westwood",
    "veno",
    "hybla",
    "cubic",
    "bic",
    "highspeed",
    "scalable",
)
CONTROL_NAMES = {
    "reno": "Reno",
    "vegas": "Vegas",
    "westwood": "Westwood+",
    "veno": "Veno",
    "hybla": "Hybla",
    "cubic": "CUBIC",
    "bic": "BIC",
    "highspeed": "HighSpeed",
    "scalable": "Scalable",
}

SEGMENTS = tuple(64 * 4**power for power in range(6))
"""Write sizes in bytes, 64 B to 64 KiB."""
BUFFERS = tuple(2048 * 4**power for power in range(5))
"""Socket buffers in bytes, 2 KiB to 512 KiB."""

READINGS = ("write", "write_nodelay", "mss")
READING_NAMES = {
    "write": "write size, Nagle on",
    "write_nodelay": "write size, TCP_NODELAY",
    "mss": "maximum segment size",
}

CLAIMED_SEGMENT = 4096
CLAIMED_BUFFER = 512 * 1024
"""Where the paper compares the controls."""


def size(size_bytes: float) -> str:
    """64 B, 4 KB: as the paper writes sizes."""
    return f"{size_bytes:g} B" if size_bytes < 1024 else f"{size_bytes / 1024:g} KB"
