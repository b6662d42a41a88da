"""What runs, how far it is, and how it is stopped.

`reporting` says who is told of the statements within, `Progress` is what they are told.
"""

from deltamerge.progress.reporters import Reported, reporting
from deltamerge.progress.value import Progress

__all__ = ["Progress", "Reported", "reporting"]
