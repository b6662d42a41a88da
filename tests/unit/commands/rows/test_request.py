"""What can be asked of a write."""

from __future__ import annotations

import pytest

from deltamerge.commands.rows.request import WriteRequest, checked, request_of, transaction_of
from deltamerge.errors import DeltaMergeError
from deltamerge.merge.statement.clauses import TxnId
from deltamerge.worker.write.file_options import FileOptions


@pytest.mark.parametrize(
    ("request_", "condition"),
    [
        (WriteRequest("upsert"), "DELTAMERGE_INVALID_MODE"),
        (WriteRequest(partition_overwrite="some"), "DELTA_ILLEGAL_OPTION"),
        (WriteRequest(partition_by=("a",), cluster_by=("b",)), "SPECIFY_CLUSTER_BY_WITH_PARTITIONED_BY_IS_NOT_ALLOWED"),
        (
            WriteRequest("overwrite", replace_where="a = 1", partition_overwrite="dynamic"),
            "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(request_: WriteRequest, condition: str) -> None:
    with pytest.raises(DeltaMergeError) as caught:
        checked(request_)
    assert caught.value.condition == condition


@pytest.mark.parametrize(
    ("application", "version", "expected"),
    [
        (None, None, None),
        ("job", 3, TxnId("job", 3)),
        ("job", "3", TxnId("job", 3)),
        ("job", None, "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"),
        (None, 3, "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"),
        ("job", -1, "DELTA_ILLEGAL_OPTION"),
        ("job", True, "DELTA_ILLEGAL_OPTION"),
        ("job", 1 << 63, "DELTA_ILLEGAL_OPTION"),
    ],
)
def test_a_transaction_has_an_application_and_a_version(application: str | None, version: int, expected: object) -> None:
    if not isinstance(expected, str):
        assert transaction_of(application, version) == expected
        return
    with pytest.raises(DeltaMergeError) as caught:
        transaction_of(application, version)
    assert caught.value.condition == expected


def test_a_writers_options_make_the_same_request() -> None:
    options = {
        "MERGESCHEMA": "True",
        "replaceWhere": "a = 1",
        "userMetadata": "x",
        "txnAppId": "job",
        "txnVersion": "3",
        "delta.appendOnly": "true",
        "dataChange": "False",
        "maxRecordsPerFile": "10",
        "compression": "ZSTD",
        "header": "true",
    }
    assert request_of("Overwrite", options, by_position=True) == WriteRequest(
        "overwrite",
        properties={"delta.appendOnly": "true"},
        merge_schema=True,
        replace_where="a = 1",
        user_metadata="x",
        txn_id=TxnId("job", 3),
        by_position=True,
        files=FileOptions("zstd", 10),
        data_change=False,
    )
    assert request_of("append", {"overwriteSchema": "false", "partitionOverwriteMode": "DYNAMIC"}) == WriteRequest(
        "append", partition_overwrite="dynamic"
    )
    assert request_of("append", {"parquet.writer.version": "v1", "useNullIntolerantEqualityWithDPO": "true"}) == WriteRequest(
        "append", null_partitions_stay=True
    )


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"mergeSchema": "yes"}, "DELTA_ILLEGAL_OPTION"),
        ({"dataChange": "no"}, "DELTA_ILLEGAL_OPTION"),
        ({"maxRecordsPerFile": "ten"}, "DELTA_ILLEGAL_OPTION"),
        ({"compression": "zip"}, "CODEC_NOT_AVAILABLE.WITH_AVAILABLE_CODECS_SUGGESTION"),
        ({"parquet.writer.version": "PARQUET_2_0"}, "DELTA_ILLEGAL_OPTION"),
        ({"useNullIntolerantEqualityWithDPO": "yes"}, "DELTA_ILLEGAL_OPTION"),
        ({"maxRecordPerFile": "10"}, "DELTAMERGE_UNKNOWN_OPTION"),
        ({"replaceOn": "t.a = s.a"}, "DELTAMERGE_UNKNOWN_OPTION"),
        ({"txnAppId": "job"}, "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"),
    ],
)
def test_options_that_are_not_known_are_refused(options: dict[str, str], condition: str) -> None:
    with pytest.raises(DeltaMergeError) as caught:
        request_of("append", options)
    assert caught.value.condition == condition


def test_what_replace_where_goes_with() -> None:
    assert checked(WriteRequest("overwrite", replace_where="a = 1")).replace_where == "a = 1"
    for mode in ("append", "error", "ignore"):
        with pytest.raises(DeltaMergeError) as caught:
            checked(WriteRequest(mode, replace_where="a = 1"))
        assert caught.value.condition == "DELTAMERGE_REPLACE_WHERE_WITHOUT_OVERWRITE"
