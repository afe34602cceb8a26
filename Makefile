# The one command surface; CI runs nothing else. Every target sets up what it needs by itself.

PYTHON ?= python3
BUF_VERSION := 1.75.0
GRPCURL_VERSION := 1.9.3
UV_VERSION := 0.13.9

# Stamps carry a digest, not a time: a checkout does not keep times.
digest = $(shell cat $(1) | cksum | cut -d' ' -f1)
BIN := .venv/bin
LOCKED := .venv/.locked-$(call digest,requirements.lock)
READY := .venv/.ready-$(call digest,requirements.lock pyproject.toml)
BUF := .tools/buf-$(BUF_VERSION)
GRPCURL := .tools/grpcurl-$(GRPCURL_VERSION)
UV := .tools/uv-$(UV_VERSION)
COMPILE := $(UV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock"

.DEFAULT_GOAL := help
.PHONY: help setup demo test check fix proto lock bench tools clean lint types imports proto-check proto-lint

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Install Baton and its tools into .venv

demo: $(READY) ## Run the demo: a server, a worker and a turn, without a key
	$(BIN)/baton demo

test: $(READY) tools ## Run the tests (ARGS="-k name" is handed to pytest)
	$(BIN)/python -m pytest $(ARGS)

check: lint types imports proto-check proto-lint ## Check style, types, imports, stubs and protos

fix: $(READY) ## Repair what ruff can repair
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

proto: $(READY) ## Regenerate the Python stubs from proto/
	$(BIN)/python scripts/proto.py

lock: $(UV) ## Renew the locks (UPGRADE=1: with the newest versions)
	$(COMPILE) $(if $(UPGRADE),--upgrade) --extra server --group dev --output-file requirements.lock pyproject.toml
	$(COMPILE) --constraint requirements.lock --extra server --output-file requirements.server.lock pyproject.toml
	$(COMPILE) --constraint requirements.lock --group build --output-file requirements.build.lock

bench: $(READY) ## Measure what a run costs
	$(BIN)/python -m bench first

tools: ## Install grpcurl and buf into .tools, to speak to a server by hand
	@$(call fetch,go,grpcurl,$(GRPCURL))
	@$(call fetch,npm,buf,$(BUF))

clean: ## Remove everything that is not in git's keeping
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The parts of `check`.

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports --no-logo

proto-check: $(READY)
	$(BIN)/python scripts/proto.py --check

proto-lint:
	@$(call fetch,npm,buf lint,$(BUF))
	@if test -d $(BUF); then echo "buf lint proto" && $(BUF)/node_modules/.bin/buf lint proto; fi

# What the targets need.

# $(call fetch,go,grpcurl,$(GRPCURL)): what comes from go or npm; a machine without them does without it and is told
# so, CI is not.
define fetch
if command -v $(1) >/dev/null; then $(MAKE) --silent --no-print-directory $(3); \
elif test ! -d $(3); then echo "$(2): skipped, $(1) is missing" >&2; test "$$CI" != true; fi
endef

$(LOCKED):
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 11) and sys.exit("Baton needs Python 3.11: make PYTHON=…")'
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
		--requirement requirements.lock
	@touch $@

$(READY): | $(LOCKED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(BUF):
	npm install --loglevel error --no-audit --no-fund --no-save --no-package-lock \
		--prefix $@.part @bufbuild/buf@$(BUF_VERSION)
	@mv $@.part $@

$(GRPCURL):
	GOBIN="$(CURDIR)/$@.part" go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v$(GRPCURL_VERSION)
	@mv $@.part $@

$(UV):
	$(PYTHON) -m venv --clear $@.part
	$@.part/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@mv $@.part $@
