"""`DeltaTable` and its builders: names, arguments and behaviour of `delta.tables`, without a JAR.

Source of the behaviour: delta-spark's `delta.tables`.
"""

from deltamerge.merge.preview import MergePreview
from deltamerge.merge.report import MergeReport
from deltamerge.tables.column_builder import DeltaColumnBuilder, IdentityGenerator
from deltamerge.tables.merge_builder import DeltaMergeBuilder
from deltamerge.tables.optimize_builder import DeltaOptimizeBuilder
from deltamerge.tables.table import DeltaTable
from deltamerge.tables.table_builder import DeltaTableBuilder

__all__ = [
    "DeltaColumnBuilder",
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
    "MergePreview",
    "MergeReport",
]
