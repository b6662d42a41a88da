"""Breaks to put into the code on purpose, one at a time, each with the tests that must then fail."""

from __future__ import annotations

from tests.mutants.commit import COMMIT
from tests.mutants.joins import JOINS
from tests.mutants.log import LOG
from tests.mutants.pages import PAGES
from tests.mutants.sql import SQL
from tests.mutants.storage import STORAGE
from tests.mutants.told import TOLD
from tests.mutants.workers import WORKERS

BREAKS = (*COMMIT, *JOINS, *LOG, *PAGES, *SQL, *STORAGE, *TOLD, *WORKERS)
