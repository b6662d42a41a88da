"""Makes the archive of Spark's classes that the tests' sessions start with: most of a short session's time is for its classes."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

import deltamerge
from tests.java import ARCHIVE, PLAIN_JAVA, SILENT


def main() -> None:
    """Load the classes that most tests need, in a Java that writes them down at its end.

    The archive is there when it is whole: Java takes what it finds.
    """
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    ARCHIVE.unlink(missing_ok=True)
    made = ARCHIVE.with_suffix(".new")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": f"{PLAIN_JAVA} -XX:ArchiveClassesAtExit={made} {SILENT}",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        use(spark, Path(folder))
    java = SparkContext._gateway.proc
    spark.stop()
    java.stdin.close()
    java.wait()
    made.rename(ARCHIVE)


def use(spark: SparkSession, folder: Path) -> None:
    """Files, Arrow, and a merge by Spark's join."""
    spark.range(10).write.parquet(str(folder / "rows"))
    spark.read.parquet(str(folder / "rows")).createOrReplaceTempView("s")
    deltamerge.write(spark.range(5), str(folder / "t"))
    spark.conf.set("spark.deltamerge.strategy", "join")
    deltamerge.sql(spark, f"MERGE INTO delta.`{folder}/t` t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *").collect()
    assert deltamerge.read(spark, str(folder / "t")).count() == 10


if __name__ == "__main__":
    main()
