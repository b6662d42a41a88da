"""What the session and the table ask of a merge, checked. Raises InvalidArgumentError for a value that can't be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace

from deltamerge.budgets import Budgets, current_budgets
from deltamerge.disk import SYNC
from deltamerge.errors import InvalidArgumentError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.merge.plan.logical import REWRITE_SHARE, Strategy
from deltamerge.merge.resolve.evolve import AUTO_MERGE
from deltamerge.merge.statement.clauses import MergeSpec, TxnId
from deltamerge.spark.session.delta_settings import DELTA
from deltamerge.spark.session.file_sizes import SIZE_SETTINGS
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.running import PROGRESS
from deltamerge.spark.session.settings import (
    CASE_SENSITIVE,
    CHAR_AS_STRING,
    DOUBLE_QUOTED_NAMES,
    MASTER,
    NAME_PATTERNS,
    OWN_SETTINGS,
    READ_SIDE_PADDING,
    RESERVED_WORDS,
    TIME_ZONE,
    flag,
    runs_locally,
    setting,
)
from deltamerge.spark.source.inspect import READ_SETTINGS

STRATEGY = "spark.deltamerge.strategy"
SHARE = "spark.deltamerge.rewriteShare"
SHARE_PROPERTY = "deltamerge.rewriteShare"
RETRIES = "spark.deltamerge.conflictRetries"
SPLICE = "spark.deltamerge.splice"
JOIN_VECTORS = "spark.deltamerge.joinVectors"
_KNOWN = (STRATEGY, SHARE, RETRIES, SPLICE, JOIN_VECTORS, PROGRESS, SYNC)
_APPLICATION, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
_SESSION = (
    CASE_SENSITIVE,
    DOUBLE_QUOTED_NAMES,
    NAME_PATTERNS,
    TIME_ZONE,
    READ_SIDE_PADDING,
    CHAR_AS_STRING,
    RESERVED_WORDS,
    MASTER,
)
# All that a merge asks of the session, which is read together.
SETTINGS = (
    STRATEGY,
    SHARE,
    RETRIES,
    SPLICE,
    JOIN_VECTORS,
    PROGRESS,
    _APPLICATION,
    _VERSION,
    _RESET,
    AUTO_MERGE,
    *SIZE_SETTINGS,
    *_SESSION,
    *READ_SETTINGS,
)
_ALIASES = {
    "arrow": Strategy.BROADCAST,
    "route": Strategy.RANGE_EXCHANGE,
    "meet": Strategy.HASH_EXCHANGE,
    "join": Strategy.SPARK_JOIN,
}


def check_names(names: Iterable[str]) -> None:
    """Raises InvalidArgumentError for a setting of this library that does not exist: misspelt, or of another version."""
    unknown = sorted(name for name in names if name.startswith(OWN_SETTINGS) and name not in _KNOWN)
    if not unknown:
        return
    name = unknown[0]
    spelled = {known.removeprefix(OWN_SETTINGS).lower(): known for known in _KNOWN}
    close = difflib.get_close_matches(name.removeprefix(OWN_SETTINGS).lower(), spelled, n=1)
    meant = f"Did you mean {spelled[close[0]]}? " if close else f"There are {', '.join(_KNOWN)}. "
    raise InvalidArgumentError(
        "DELTAMERGE_UNKNOWN_SETTING",
        f"There is no setting {name}.",
        parameters={"setting": name},
        hint=f'{meant}Remove the wrong one: spark.conf.unset("{name}").',
    )


def strategy_of(spark: Session) -> Strategy:
    """The strategy that the session asks for."""
    value = setting(spark, STRATEGY, Strategy.AUTO.value)
    try:
        return _ALIASES.get(value) or Strategy(value)
    except ValueError as error:
        known = ", ".join(strategy.value for strategy in Strategy)
        message = f"The setting {STRATEGY} is {value!r}."
        raise InvalidArgumentError("DELTAMERGE_INVALID_STRATEGY", message, hint=f"One of {known}.") from error


def rewrite_share_of(spark: Session, snapshot: Snapshot, statement: str = "MERGE") -> float:
    """The session's share of a file's rows that may be gone, the table's own, or the default, in this order.

    It is 0 where the session wants no vectors from such statements, as delta-spark reads that.
    """
    if not flag(spark, f"{DELTA}{statement.lower()}.deletionVectors.persistent", default=True):
        return 0.0
    where = f"setting {SHARE}"
    value = setting(spark, SHARE, "")
    if not value:
        where, value = f"table property {SHARE_PROPERTY}", snapshot.properties.values.get(SHARE_PROPERTY, str(REWRITE_SHARE))
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if 0 <= found <= 1:
        return found
    message = f"The {where} is {value!r}."
    raise InvalidArgumentError("DELTAMERGE_INVALID_SHARE", message, hint="A number from 0 (always rewrite) to 1 (never).")


def budgets_of(spark: Session) -> Budgets:
    """The limits of a session's merges: the current ones, with what its settings forbid, and for the machines that it has."""
    budgets = current_budgets()
    splices = _is_true(spark, SPLICE, "DELTAMERGE_INVALID_SPLICE")
    joins = _is_true(spark, JOIN_VECTORS, "DELTAMERGE_INVALID_JOIN_VECTORS")
    written = budgets.driver_write_bytes * (budgets.local_write_times if runs_locally(spark) else 1)
    splices, joins = budgets.splices and splices, budgets.joins_vectors and joins
    return replace(budgets, splices=splices, joins_vectors=joins, driver_write_bytes=written)


def _is_true(spark: Session, name: str, condition: str) -> bool:
    value = setting(spark, name, "true").lower()
    if value not in ("true", "false"):
        raise InvalidArgumentError(condition, f"The setting {name} is {value!r}.", hint="true or false.")
    return value == "true"


def retries_of(spark: Session, spec: MergeSpec) -> int:
    """How often the merge is run again after a conflict."""
    if spec.retries is not None:
        return spec.retries
    value = setting(spark, RETRIES, "0")
    if value.isdecimal():
        return int(value)
    message = f"The setting {RETRIES} is {value!r}."
    raise InvalidArgumentError("DELTAMERGE_INVALID_RETRIES", message, hint="How often to run again: 0, 1, 2 ..")


def with_transaction(spark: Session, spec: MergeSpec) -> MergeSpec:
    """The specification with the transaction id that the session names, unless it has one."""
    return spec if spec.txn_id is not None else replace(spec, txn_id=session_transaction(spark))


def session_transaction(spark: Session) -> TxnId | None:
    """The transaction id that the session names, as delta-spark reads it, for whatever is committed next."""
    application, version = setting(spark, _APPLICATION, ""), setting(spark, _VERSION, "")
    if not (application or version):
        return None
    try:
        if application and version:
            return TxnId(application, int(version))
    except ValueError as error:
        raise _incomplete_transaction(application, version) from error
    raise _incomplete_transaction(application, version)


def _incomplete_transaction(application: str, version: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
        f"Invalid options for idempotent writes: {_APPLICATION} is {application!r} and {_VERSION} is {version!r}.",
        hint="Set both, the version as a whole number, or neither.",
    )


def forget_transaction(spark: Session) -> None:
    """Forget the version that the session names, when the session asks for that."""
    if setting(spark, _RESET, "false").lower() == "true":
        spark.conf.unset(_VERSION)
