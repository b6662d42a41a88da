"""Columns of tables that are to be made: `DeltaColumnBuilder` and `IdentityGenerator`, as delta-spark has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField

from deltamerge.errors import AnalysisError
from deltamerge.exceptions import catchable
from deltamerge.protocol.table.identity import identity_metadata
from deltamerge.spark.session.schema import check_identity, column_types
from deltamerge.tables.arguments import refuse_type


@dataclass
class IdentityGenerator:
    """The numbers of an identity column: the first one, and how far it is from each to the next."""

    start: int = 1
    step: int = 1


class DeltaColumnBuilder:
    """A column for `DeltaTableBuilder.addColumns`, made by `DeltaTable.columnBuilder`."""

    def __init__(self, spark: SparkSession, colName: str) -> None:
        self._spark = spark
        self._name = colName
        self._type: DataType | None = None
        self._nullable = True
        self._metadata: dict[str, Any] = {}

    @catchable
    def dataType(self, dataType: str | DataType) -> DeltaColumnBuilder:
        """The column's type, as SQL text or as Spark's. Raises a ParseException for a text that is none."""
        if not isinstance(dataType, str | DataType):
            refuse_type("Column data type must be str or DataType.", dataType)
        self._type = column_types({self._name: dataType}).fields[0].dataType if isinstance(dataType, str) else dataType
        return self

    def nullable(self, nullable: bool) -> DeltaColumnBuilder:
        """Whether the column may be null."""
        if not isinstance(nullable, bool):
            refuse_type("Column nullable must be bool.", nullable)
        self._nullable = nullable
        return self

    def generatedAlwaysAs(self, expr: str) -> DeltaColumnBuilder:
        """The column is computed from others by an SQL expression."""
        if not isinstance(expr, str):
            refuse_type("Generated always as expression must be str or IdentityGenerator.", expr)
        self._metadata["delta.generationExpression"] = expr
        return self

    def generatedAlwaysAsIdentity(self, start: int = 1, step: int = 1) -> DeltaColumnBuilder:
        """The column's rows are numbered, and take no other values."""
        return self._numbered(start, step, False)

    def generatedByDefaultAsIdentity(self, start: int = 1, step: int = 1) -> DeltaColumnBuilder:
        """The column's rows are numbered where no value is given."""
        return self._numbered(start, step, True)

    def comment(self, comment: str) -> DeltaColumnBuilder:
        """What the column holds."""
        if not isinstance(comment, str):
            refuse_type("Column comment must be str.", comment)
        self._metadata["comment"] = comment
        return self

    @catchable
    def build(self) -> StructField:
        """The column. Raises an AnalysisException for one without a type, UnsupportedOperationException for an identity column
        that is no BIGINT.
        """
        if self._type is None:
            raise AnalysisError(
                "DELTA_COLUMN_MISSING_DATA_TYPE",
                f"The data type of the column {self._name} was not provided.",
                parameters={"colName": self._name},
                hint='columnBuilder(..).dataType("INT")',
            )
        if "delta.identity.start" in self._metadata:
            check_identity(self._type)
        return StructField(self._name, self._type, self._nullable, dict(self._metadata))

    def _numbered(self, start: int, step: int, explicit: bool) -> DeltaColumnBuilder:
        if step == 0:
            raise ValueError("Column identity generation requires step to be non-zero.")
        self._metadata.update(identity_metadata(start, step, explicit))
        return self
