"""How the tests' sessions run Java: many small queries, two sessions on two cores, where compiling takes longer than it saves."""

from __future__ import annotations

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Queries are interpreted.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Rows go to Python and back without a network; PySpark 4.0 does not know it.
SOCKETS = {"spark.python.unix.domain.socket.enabled": "true"}
# Columns are made without asking Java where in the test that was.
PLACELESS = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
