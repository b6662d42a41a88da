"""A merge whose workers run the interpreter that PYSPARK_PYTHON names; run by test_interpreter, says how it ended."""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from deltamerge.tables import DeltaTable
from tests.faults.processes import small_session


def main(path: str) -> None:
    """Upsert into the table at `path`, by a strategy that needs workers."""
    spark = small_session(**{"spark.deltamerge.strategy": "join"})
    source = spark.createDataFrame(pa.table({"id": [1, 9], "name": ["one", "new"]})).alias("s")
    merge = DeltaTable.forPath(spark, path).alias("t").merge(source, "t.id = s.id")
    try:
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    except Exception as error:
        found = {"classes": [kind.__name__ for kind in type(error).__mro__], "text": str(error)}
    else:
        found = {"classes": [], "text": ""}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
