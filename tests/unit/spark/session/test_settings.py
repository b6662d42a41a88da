"""Reading session settings."""

from __future__ import annotations

from pyspark.sql import SparkSession

from deltamerge.spark.session.settings import setting


def test_the_default_need_not_be_of_the_type_that_spark_knows(spark: SparkSession) -> None:
    assert setting(spark, "spark.sql.files.maxRecordsPerFile", "") == ""


def test_a_setting_that_nobody_set_is_its_default(spark: SparkSession) -> None:
    assert setting(spark, "spark.deltamerge.unheard", "fallback") == "fallback"
