"""Programs on a real Linux kernel in virtual time: a user-mode Linux that `make kernel` builds.

>>> from anabranch.virtual import run_in_kernel
>>> run_in_kernel(["sleep", "1000"]).virtual_seconds
1000.31

It needs Linux on x86-64, but no root.
"""

from .machine import Finished, kernel_file, run_in_kernel

__all__ = ["Finished", "kernel_file", "run_in_kernel"]
