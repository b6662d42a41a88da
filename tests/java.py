"""How the tests' sessions run Java: many small queries, two sessions on two cores, where compiling takes longer than it saves."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PLAIN_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Spark's classes, parsed and verified, by tests/archive.py. Without it, or with other JARs than its own, Java reads the JARs.
ARCHIVE = Path(sys.prefix) / "classes.jsa"
SILENT = "-Xlog:cds=off,cds+dynamic=off,class+path=off"
# Options are split at blanks.
_SHARED = ARCHIVE.exists() and len(str(ARCHIVE).split()) == 1
QUICK_JAVA = f"{PLAIN_JAVA} -XX:SharedArchiveFile={ARCHIVE} {SILENT}" if _SHARED else PLAIN_JAVA
# Queries are interpreted.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Rows go to Python and back without a network; PySpark 4.0 does not know it.
SOCKETS = {"spark.python.unix.domain.socket.enabled": "true"}
# Columns are made without asking Java where in the test that was.
PLACELESS = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
# What sessions of a run have whose queries are a few rows each; a run of everything leaves queries as users have them.
SMALL = {} if "DELTAMERGE_TEST_ALL" in os.environ else INTERPRETED | PLACELESS | SOCKETS
