# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Python >= 3.11 with venv and ensurepip; being on PATH proves nothing, so each candidate is run. PYTHON=... names another one.
PYTHON3 := $(shell for p in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; exit; }; done)
ifeq ($(PYTHON3),)
$(error need Python >= 3.11 with venv and ensurepip; name it with PYTHON=...)
endif
PY := .cache/venv/bin/python

.PHONY: demo test lint cluster bench kill docs build bootstrap mutation

demo: bootstrap
	$(PY) -m tests.demo

test: bootstrap
	$(PY) -m tests.tools.run_tests

lint: bootstrap
	$(PY) -m tests.tools.lint

cluster: bootstrap
	$(PY) -m tests.cluster up

bench: bootstrap
	$(PY) -m tests.bench

kill: bootstrap
	$(PY) -m tests.kill

mutation: bootstrap
	$(PY) -m tests.mutation

docs: bootstrap
	$(PY) -m tests.tools.docs

build: bootstrap
	$(PY) -m tests.tools.importer

bootstrap:
	@$(PYTHON3) tests/tools/bootstrap.py
