"""What a session has of delta-spark's settings, checked before a statement runs: nothing of it is left aside in silence."""

from __future__ import annotations

import logging

from deltamerge.errors import InvalidArgumentError
from deltamerge.spark.session.delta_settings import DELTA, REFUSED, WARNED, Effect, effect_of
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import settings_of_delta

log = logging.getLogger("deltamerge.settings")

# What the log has said: once in a process is enough.
_TOLD: set[tuple[str, str]] = set()


def check_delta(spark: Session, statement: str) -> None:
    """Have the log tell of settings without effect. Raises InvalidArgumentError for one that would change what a statement makes.

    `statement` is one of MERGE, DELETE, UPDATE, WRITE, CREATE, ALTER, CLONE, CONVERT, RESTORE, OPTIMIZE, VACUUM and CHANGES.
    """
    unknown = []
    for key, value in sorted(settings_of_delta(spark).items()):
        name = key.removeprefix(DELTA)
        effect = effect_of(name)
        if effect is Effect.REFUSED:
            fixed = REFUSED[name]
            if statement in fixed.statements and not _is(value, fixed.value):
                raise _refused(key, value, fixed.value, statement)
        elif effect is Effect.WARNED and not _is(value, WARNED[name]) and _is_new(key, value):
            log.warning(
                "The setting %s = %s has no effect: deltamerge does what delta-spark does for %s.", key, value, _said(name)
            )
        elif effect is Effect.UNKNOWN and _is_new(key, value):
            unknown.append(key)
    if unknown:
        log.warning("These settings have no effect, neither delta-spark 4.4 nor deltamerge has them: %s.", ", ".join(unknown))


def _is(value: str, known: str) -> bool:
    return value.strip().lower() == known.lower()


def _is_new(key: str, value: str) -> bool:
    said = (key, value)
    if said in _TOLD:
        return False
    _TOLD.add(said)
    return True


def _said(name: str) -> str:
    return WARNED[name] or "a session without it"


def _refused(key: str, value: str, known: str, statement: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "DELTAMERGE_UNSUPPORTED_SETTING",
        f"The setting {key} is {value!r}: {statement} would have another result in delta-spark, and is not supported with it.",
        parameters={"setting": key, "value": value, "statement": statement},
        hint=f'Here it is always {known}. Remove the setting: spark.conf.unset("{key}").',
    )
