"""Methods of PySpark 4.0 that tests use, for PySpark 3.5, and which tests need more than that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from deltamerge.spark.pyspark.older import IS_OLDER, arrow_frame, arrow_rows, struct_of
from deltamerge.spark.session import rows

# What PySpark 3.5 cannot import of the tests, as its reason says.
UNREADABLE = {
    "e2e/test_quiet.py": "it has no logger",
    "unit/spark/pyspark/test_quiet.py": "it has no logger",
    "unit/activation/test_conditions.py": "its Connect client is another one",
    "unit/spark/plans/test_aliases.py": "its Connect client is another one",
    "unit/spark/pyspark/test_adapter.py": "its Connect client is another one",
}
if not IS_OLDER:
    UNREADABLE.clear()
# The tests, by module or name, whose subject PySpark 3.5 lacks or has otherwise.
# What follows from its interface or its settings.
_CALENDARS = "files with old dates and an unknown calendar are read as its settings say, which refuse them unless told"
_NO_CONNECT = "it is supported as classic Spark only"
_NO_SCALAR = "its frames have no scalar()"
NEWER = {
    "test_stream_source": "it has no data sources in Python",
    "test_variants": "it has no VARIANT",
    "test_collations": "it has no collations",
    "test_lexer": "its parser is not where the test looks for it",
    "test_a_large_source_that_fails_says_so_in_this_librarys_terms": "it says no condition of a failed cast in a job",
    "test_files_that_can_t_be_read_fail_as_in_spark": "it says no condition of a file that is gone",
    "test_a_clause_that_raises_tells_its_own_error": "raise_error has no condition",
    "test_floats_chars_and_collations_are_left_to_spark": "it has no collations",
    "test_arrow_makes_the_values_that_spark_makes": "it has no collations",
    "test_arrow_makes_the_values_of_other_types_that_spark_makes": "it has no collations",
    "test_what_is_beyond_the_subset_is_left_to_spark": "it has no collations",
    "test_times_and_floats_beside_literals_and_collations_are_left_to_spark": "it has no collations",
    "test_calls_take_no_job": "it runs a job to tell the time",
    "test_a_source_whose_files_do_not_tell_its_bounds_is_materialized": _CALENDARS,
    "test_values_that_spark_may_read_otherwise_are_left_to_it": _CALENDARS,
    "test_changes_by_conditions_end_as_by_a_join": _CALENDARS,
    "test_every_type_is_written_read_and_merged": _CALENDARS,
    "test_files_of_older_sparks_are_read_right": _CALENDARS,
    "test_a_condition_is_read_as_the_session_reads_its_quotes": "double quotes are texts there unless it is all ANSI",
    "test_intervals_of_the_source_are_added_to_dates": "PySpark has no type for intervals of the calendar",
    "test_a_table_at_a_place": "its writer has no clusterBy",
    "test_a_small_merge_makes_few_calls_of_the_jvm": "its Columns are taken apart by more calls",
    "test_a_query_within_the_column_of_a_condition_is_refused": _NO_SCALAR,
    **{
        f"test_a_query_within_a_column_has_read_the_rows_of_its_frame[{moment}-{form}]": _NO_SCALAR
        for moment in ("before", "meanwhile")
        for form in ("scalar", "case")
    },
    "test_a_function_of_the_session_may_read_tables[abs(n)]": "a builtin function is not known there, and a conflict is raised",
    "test_each_public_method_is_tried": "its frames have other methods",
    "test_a_column_of_this_name": "its frames have no metadataColumn()",
    "test_stars_of_earlier_steps[a condition before]": "it takes no star in a condition",
    "test_stars_of_earlier_steps[a condition of columns before]": "it takes no star in a condition",
    """test_it_works[changes.write.format("delta").clusterBy("id").save(f"{path}_new")]""": "its writer has no clusterBy",
    **dict.fromkeys(
        ("test_kills_of_a_connect_client", "test_ten_processes_with_a_shared_key", "test_a_merge_is_stopped[connect-steps1]"),
        _NO_CONNECT,
    ),
    **{
        f"test_case[types: a decimal that overflows in an expression [{mode}]]": "the condition of the error has another name"
        for mode in ("marked", "rewritten")
    },
    "test_an_old_java_is_named": "it runs on Java 8 and 11",
}


def install() -> None:
    """Give the classes of PySpark 3.5 the methods that tests call."""
    if not IS_OLDER:
        return
    given: Any = SparkSession
    own = given.createDataFrame

    def create(spark: SparkSession, data: Any, schema: Any = None, *rest: Any, **named: Any) -> DataFrame:
        if isinstance(data, pa.Table):
            return arrow_frame(spark, data, schema)
        found: DataFrame = own(spark, data, schema, *rest, **named)
        return found

    given.createDataFrame = create
    frames: Any = DataFrame
    frames.toArrow = arrow_rows
    types: Any = T.DataType
    types.fromDDL = classmethod(lambda cls, text: struct_of(text))
    errors: Any = PySparkException
    errors.getCondition = lambda error: error.getErrorClass()
    # Sessions that tests make up take a table themselves.
    made: Any = rows
    real = made.arrow_frame

    def frame_of(spark: Any, *given: Any) -> DataFrame:
        found: DataFrame = real(spark, *given) if isinstance(spark, SparkSession) else spark.createDataFrame(*given)
        return found

    made.arrow_frame = frame_of


def local_rows(rows: Sequence[Sequence[Any]], types: T.StructType) -> pa.Table:
    """Rows in Arrow, as `createDataFrame` takes them."""
    if not IS_OLDER:
        from pyspark.sql.conversion import LocalDataToArrowConversion

        return LocalDataToArrowConversion.convert(rows, types, False)
    schema = to_arrow_schema(types)
    columns = [
        pa.array([_value(row[number], field.dataType) for row in rows], schema.field(number).type)
        for number, field in enumerate(types.fields)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _value(value: Any, type: T.DataType) -> Any:
    if value is None:
        return None
    if isinstance(type, T.StructType):
        parts = [value.get(name) for name in type.names] if isinstance(value, dict) else value
        return {field.name: _value(part, field.dataType) for field, part in zip(type.fields, parts, strict=True)}
    if isinstance(type, T.ArrayType):
        return [_value(part, type.elementType) for part in value]
    if isinstance(type, T.MapType):
        return [(_value(key, type.keyType), _value(part, type.valueType)) for key, part in value.items()]
    return value
