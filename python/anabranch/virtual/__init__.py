"""Programs on a real Linux kernel in virtual time: a user-mode Linux that `make kernel` builds.

>>> from anabranch.virtual import run_in_kernel
>>> done = run_in_kernel(["sh", "-c", "sleep 1000; echo good morning"])
>>> done.stdout.split(), done.returncode
([b'good', b'morning'], 0)
>>> 1000 <= done.virtual_seconds < 1010
True
>>> done.cpu_seconds < 60
True

It needs Linux on x86-64, but no root.
"""

from .machine import Finished, kernel_file, run_in_kernel

__all__ = ["Finished", "kernel_file", "run_in_kernel"]
