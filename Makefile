# The two commands a newcomer needs are `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# The demo needs less than the tests; where those are installed, it needs nothing more.
DEMO   := $(if $(wildcard $(STAMP)),$(STAMP),$(VENV)/.installed-demo)
COMPILE := $(BIN)/uv pip compile pyproject.toml --generate-hashes --universal --no-header --no-emit-index-url \
    --no-annotate --quiet

.DEFAULT_GOAL := help
.PHONY: help install demo test check lint types unit kafka rabbitmq postgres mongo bench explore soak docs lock clean

help:  ## list the commands
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP)  ## create .venv with pinned, hash-checked requirements and the `strom` command

$(STAMP): requirements/dev.txt
$(VENV)/.installed-demo: requirements/demo.txt
$(STAMP) $(VENV)/.installed-demo: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python tools/install.py $(filter requirements/%,$^)
	@touch $@

demo: $(DEMO)  ## a shop's clicks become views, live, and are checked
	$(BIN)/strom demo

test: install check kafka rabbitmq postgres mongo unit  ## everything: style, types, layers, all tests

check: lint types

lint: install  ## style and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: install  ## mypy, strict
	$(BIN)/mypy

unit: install  ## all tests but the long ones
	$(BIN)/python -m tools.run_tests

kafka: install  ## fetch the real Apache Kafka (peer and judge) into .kafka/
	$(BIN)/python -m tools.kafka fetch

rabbitmq: install  ## install the real RabbitMQ, judge of queues (Debian, as root), and its Java client
	$(BIN)/python -m tools.rabbitmq install
	$(BIN)/python -m tools.amqp_client fetch

postgres: install  ## install the real PostgreSQL, the other side of connectors (Debian, as root)
	$(BIN)/python -m tools.postgres install

mongo: install  ## fetch a stand-in of MongoDB, for its connectors' tests
	$(BIN)/python -m tools.mongo fetch

bench: install kafka rabbitmq postgres  ## strom beside the real Kafka and RabbitMQ, as ratios
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.queues
	$(BIN)/python -m benchmarks.pipelines
	$(BIN)/python -m benchmarks.connect
	$(BIN)/python -m benchmarks.registry
	$(BIN)/python -m benchmarks.restart

explore: install kafka  ## the laws again, with new random examples
	$(BIN)/pytest -m "hypothesis and not soak" --hypothesis-profile=explore

soak: install kafka explore  ## the long runs
	$(BIN)/pytest -m soak --timeout=0 -o faulthandler_timeout=0

docs: install  ## write docs/reference from the code
	$(BIN)/python -m tools.reference

lock: install  ## pin the newest versions that fit pyproject.toml
	$(COMPILE) --group dev --extra all --upgrade -o requirements/dev.txt
	$(COMPILE) --group demo --extra pipelines -c requirements/dev.txt -o requirements/demo.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis dist build
