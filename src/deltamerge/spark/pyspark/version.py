"""Refuses a PySpark that this library does not know, before anything else imports it.

It is all that `import deltamerge` runs, so that it imports errors only to raise them. `pyspark`, `pyspark-client`,
`pyspark-connect` and the PySpark that a cluster has on its path are all imported as `pyspark`, so that what is installed is asked
for its version instead of pip.
"""

from __future__ import annotations

import re

OLDEST, NEWEST = (3, 5), (4, 3)
_NEEDS = f"deltamerge needs PySpark {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
_PIN = f"pyspark>={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"


def check_pyspark() -> None:
    """Raises PySparkVersionError, which is an ImportError, if there is no PySpark, or one of another version."""
    try:
        from pyspark import __version__ as found
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        from deltamerge.errors import PySparkVersionError

        raise PySparkVersionError(
            "DELTAMERGE_NO_PYSPARK",
            f"{_NEEDS}, found none.",
            hint=f"pip install '{_PIN}', or pyspark-client for a Spark Connect client without Java. "
            "On a cluster, use the Python that its Spark uses.",
        ) from error
    if not is_supported(found):
        from deltamerge.errors import PySparkVersionError

        raise PySparkVersionError(
            "DELTAMERGE_UNSUPPORTED_PYSPARK",
            f"{_NEEDS}, found {found}.",
            parameters={"version": found},
            hint="Use an environment or a cluster with such a version: PySpark must fit the Spark that it talks to.",
        )


def is_supported(version: str) -> bool:
    """Whether a version such as `4.0.1` or `4.1.0.dev2` is of a known release. What is no version is not."""
    found = re.match(r"(\d+)\.(\d+)(?!\d)", version)
    return found is not None and OLDEST <= (int(found[1]), int(found[2])) <= NEWEST


check_pyspark()
