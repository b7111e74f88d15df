"""Environments of Gymnasium: congestion control, the rate of media, path choice (docs/learning.md).

They need the extra `anabranch[gym]`. A step is a fixed interval of simulated time; an episode is
a run of a scenario, and equal seeds and actions give equal episodes.
"""

try:
    import gymnasium as _gymnasium
except ImportError as error:
    raise ImportError(
        "anabranch.gym needs Gymnasium: pip install 'anabranch[gym]'", name="gymnasium"
    ) from error

from anabranch.gym.congestion import CongestionControlEnv
from anabranch.gym.media import MediaRateEnv
from anabranch.gym.paths import PathChoiceEnv

del _gymnasium

__all__ = ["CongestionControlEnv", "MediaRateEnv", "PathChoiceEnv"]
