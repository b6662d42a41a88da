"""A Spark Connect server in a process of its own, on the port that it is given; says when it serves, ends with its input."""

from __future__ import annotations

import sys

from tests.faults.processes import READY, small_session


def main(port: str) -> None:
    """Serve until there is nothing more to read."""
    plugin = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin", "spark.connect.grpc.binding.port": port}
    small_session(**plugin, **{"spark.driver.memory": "1g"})
    print(READY, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
