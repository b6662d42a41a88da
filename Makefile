# Two commands matter: `make demo` and `make test`. Both set up everything they need in .venv/.
SPARK  ?= 4.3
PYTHON ?= python3

PYSPARK_3.5 = 3.5.9
PYSPARK_4.0 = 4.0.5
PYSPARK_4.1 = 4.1.4
PYSPARK_4.2 = 4.2.1
PYSPARK_4.3 = 4.3.0
PYSPARK     = $(PYSPARK_$(SPARK))

VENV   = .venv/spark-$(SPARK)
BIN    = $(VENV)/bin
READY  = $(VENV)/.ready
ORACLE = .venv/oracle
MERGES = $(addprefix tests/oracle/test_,cases.py conflicts.py demands.py differential.py evolution.py feed.py identity.py metadata_column.py names.py \
  random_evolution.py row_tracking.py splice.py types.py)
CLIENT = .venv/client
MINIMAL = .venv/minimal
NEWEST = .venv/newest
DOCS   = .venv/docs
DBT    = .venv/dbt
PIP    = -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: hashes demo test test-classic test-connect test-cases test-apart test-install test-units test-store test-all slow lint client cluster dbt azure oracle oracle-merges oracle-tables histories soak fuzz mutants bench bench-report bench-log docs sbom audit minimal newest clean java

demo: java $(READY)
	$(BIN)/deltamerge demo

# Two parts at a time, unless --jobs says something else.
TWO = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,--jobs=2) $(if $(filter output-sync,$(.FEATURES)),--output-sync=line)

# In the order in which two at a time end soonest.
# PySpark 3.5 is supported as classic Spark only.
CONNECTED = $(if $(filter 3.5,$(SPARK)),,test-connect)
test: java $(READY)
	@$(MAKE) --no-print-directory $(TWO) test-classic $(CONNECTED) test-units test-apart test-install test-cases test-store

test-all: export DELTAMERGE_TEST_ALL = 1
test-all: test

# Finds the tests that take longer than others (tests/slow.py): each of their variants runs on one day in six.
slow: $(READY)
	DELTAMERGE_TEST_SLOW=1 PYTEST_ADDOPTS=--durations=0 $(MAKE) --jobs=1 test > .venv/durations
	$(BIN)/python -m tests.slow < .venv/durations

test-classic: java $(READY)
	$(BIN)/python -m pytest tests/e2e

test-connect: java $(READY)
	$(BIN)/python -m pytest tests --ignore=tests/oracle --connect

test-cases: java $(READY)
	$(BIN)/python -m pytest tests/cases

test-apart: java $(READY)
	$(BIN)/python -m pytest tests/docs tests/faults

# The built wheel in empty environments.
test-install: java $(READY)
	$(BIN)/python -m pytest tests/install

test-units: java $(READY)
	$(BIN)/python -m pytest tests/unit tests/spec tests/fuzz

test-store: java $(READY)
	$(BIN)/python -m pytest tests/e2e --store s3

# No other day's run makes up for what these leave out.
client minimal newest: export DELTAMERGE_TEST_SLOW = 1

# The tests of Spark Connect by pyspark-client alone, against a server of $(SPARK).
client: java $(READY) $(CLIENT)/.ready
	$(BIN)/python -m tests.client $(CLIENT)/bin/python tests/e2e

# Merges on a standalone cluster of two workers, whose Python has no deltamerge.
cluster: java $(READY)
	$(BIN)/python -m pytest tests/e2e/test_cluster.py --cluster

# A dbt project on the adapter of integrations/dbt, in an environment of its own: dbt pins what others have newer.
dbt: java $(DBT)/.ready
	$(DBT)/bin/python -m pytest integrations/dbt/tests

# Azure's emulator, from npm: what tests of object stores find there, and otherwise skip.
AZURITE = .venv/azurite/node_modules/.bin/azurite-blob
azure: java $(READY) $(AZURITE)
	$(BIN)/python -m pytest tests/unit/storage tests/unit/worker/test_object_data.py tests/unit/log/commit/test_unknown_state.py tests/e2e/test_object_store.py

$(AZURITE):
	npm install --silent --no-audit --no-fund --prefix .venv/azurite azurite@3.35.0

lint: $(READY)
	$(BIN)/ruff format --check src tests benchmarks integrations
	$(BIN)/ruff check src tests benchmarks integrations
	$(BIN)/mypy
	$(BIN)/lint-imports

oracle: java $(ORACLE)/.ready
	@$(MAKE) --no-print-directory $(TWO) oracle-merges oracle-tables

oracle-merges: java $(ORACLE)/.ready
	$(ORACLE)/bin/python -m pytest $(MERGES) -p no:cacheprovider

oracle-tables: java $(ORACLE)/.ready
	$(ORACLE)/bin/python -m pytest tests/oracle $(MERGES:%=--ignore=%) -p no:cacheprovider

# Overlapping transactions against a serial model, for a minute.
histories: java $(READY)
	DELTAMERGE_SOAK=60 $(BIN)/python -m pytest tests/faults/test_histories.py -s

# The same for a quarter of an hour, and 2,000 merges in a row, whose memory must not grow.
soak: java $(READY)
	DELTAMERGE_SOAK=900 $(BIN)/python -m pytest tests/faults/test_histories.py -s
	DELTAMERGE_SOAK_MERGES=2000 $(BIN)/python -m pytest tests/faults/test_many_merges.py -s

# Each group of readers of bytes that anybody may have written, for some minutes. With a SEED all runs are alike; without
# one the inputs that led further are kept for the next run.
fuzz: $(READY)
	DELTAMERGE_SEED=$(SEED) $(BIN)/python -m tests.fuzz $(or $(MINUTES),1)

# Breaks the code in some hundred ways, one at a time: the tests must tell.
mutants: $(READY)
	$(BIN)/python -m tests.mutants

bench: java $(ORACLE)/.ready
	$(ORACLE)/bin/python -m benchmarks.merge $(BENCH)

bench-report: $(ORACLE)/.ready
	$(ORACLE)/bin/python -m benchmarks.report

bench-log: java $(ORACLE)/.ready
	$(ORACLE)/bin/python -m benchmarks.log

docs: $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet

java:
	@$${JAVA_HOME:+$$JAVA_HOME/bin/}java -version >/dev/null 2>&1 || \
	  { echo "Java is missing: install Java 17 or 21 (for example Eclipse Temurin) and put it on PATH or set JAVA_HOME."; exit 1; }

$(READY): pyproject.toml constraints.txt hashes.txt Makefile
	@test -n "$(PYSPARK)" || { echo "SPARK must be one of 3.5, 4.0, 4.1, 4.2, 4.3."; exit 1; }
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(if $(filter 4.3,$(SPARK)),$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r hashes.txt)
	$(BIN)/python $(PIP) "pyspark==$(PYSPARK)" -e '.[dev]'
	@$(BIN)/python -m tests.archive >/dev/null 2>&1 || true  # what it makes only saves time
	@touch $@

$(CLIENT)/.ready: pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv $(CLIENT)
	$(CLIENT)/bin/python $(PIP) pyspark-client==4.0.4 -e '.[cli,test]'
	@touch $@

$(ORACLE)/.ready: pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv $(ORACLE)
	$(ORACLE)/bin/python $(PIP) pyspark==4.2.0 delta-spark==4.4.0 -e '.[dev]'
	$(ORACLE)/bin/python -m tests.oracle.conftest >/dev/null 2>&1  # brings delta-spark's JARs, before two sessions want them
	@touch $@

$(DOCS)/.ready: constraints.txt Makefile
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(PIP) mkdocs-material 'mkdocstrings[python]' ruff
	@touch $@

$(DBT)/.ready: pyproject.toml Makefile $(shell find integrations/dbt -path '*/tests' -prune -o -type f -print)
	$(PYTHON) -m venv $(DBT)
	$(DBT)/bin/python -m pip install --quiet --disable-pip-version-check -c integrations/dbt/constraints.txt \
	  "pyspark==$(PYSPARK)" pytest pytest-timeout -e . ./integrations/dbt
	@touch $@

# The lowest versions that pyproject.toml allows, on the lowest PySpark.
minimal: java $(MINIMAL)/.ready
	$(MINIMAL)/bin/python -m pytest tests/unit tests/spec tests/cases

$(MINIMAL)/.ready: pyproject.toml constraints.txt minimal.txt Makefile
	$(PYTHON) -m venv $(MINIMAL)
	grep -v -i -E "^($$(sed 's/==.*//' minimal.txt | paste -s -d '|' -))==" constraints.txt > $(MINIMAL)/constraints.txt
	$(MINIMAL)/bin/python -m pip install --quiet --disable-pip-version-check -c $(MINIMAL)/constraints.txt -r minimal.txt -e '.[cli,connect,demo,test]'
	@touch $@

# The newest versions that pyproject.toml allows, whatever constraints.txt says.
newest: java
	rm -rf $(NEWEST) && $(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check "pyspark==$(PYSPARK)" -e '.[cli,connect,demo,test]'
	$(NEWEST)/bin/python -m pytest tests/unit tests/spec tests/cases

# What an installation of the wheel with its extras has, as CycloneDX: dist/deltamerge.cdx.json.
sbom: pyproject.toml constraints.txt
	rm -rf .venv/sbom && $(PYTHON) -m venv .venv/sbom && $(PYTHON) -m venv .venv/sbom-tool
	.venv/sbom/bin/python $(PIP) "pyspark==$(PYSPARK)" '.[cli,connect,pyspark]'
	.venv/sbom/bin/python -m pip --quiet uninstall --yes pip setuptools
	.venv/sbom-tool/bin/python $(PIP) cyclonedx-bom
	mkdir -p dist
	.venv/sbom-tool/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/deltamerge.cdx.json .venv/sbom/bin/python

# Known vulnerabilities of what is pinned; asks the service that pip-audit asks, or the one that AUDIT names.
audit: constraints.txt
	rm -rf .venv/audit && $(PYTHON) -m venv .venv/audit
	.venv/audit/bin/python $(PIP) pip-audit
	echo "pyspark==$(PYSPARK)" > .venv/audit/pyspark.txt
	.venv/audit/bin/pip-audit --strict --no-deps --disable-pip $(AUDIT) -r constraints.txt -r .venv/audit/pyspark.txt
	.venv/audit/bin/pip-audit --strict --no-deps --disable-pip $(AUDIT) -r integrations/dbt/constraints.txt

# The hashes of all files of what constraints.txt pins, for whoever changes it.
hashes: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv/hashes
	.venv/hashes/bin/python $(PIP) pip-tools
	(sed '/^$$/,$$d' hashes.txt; echo; .venv/hashes/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
	  --no-annotate --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -c constraints.txt \
	  --extra connect --extra demo --extra test --extra dev -o - pyproject.toml 2>/dev/null \
	  | sed '/^# WARNING/,/^deltamerge/d') > .venv/hashes.txt
	mv .venv/hashes.txt hashes.txt

clean:
	rm -rf .venv site deltamerge-demo spark-warehouse
