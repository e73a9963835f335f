# `make demo` shows the service at work; `make test` is what a change has to pass.
CACHE := $(or $(UNSLIDE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/unslide)
# librdkafka does not compile below a folder with a space in its name.
ifeq ($(words $(CURDIR)),1)
CARGO_TARGET_DIR ?= $(CURDIR)/target
else
CARGO_TARGET_DIR ?= $(CACHE)/target-$(firstword $(shell printf %s '$(CURDIR)' | cksum))
endif
export CARGO_TARGET_DIR
SERVERS := '$(CARGO_TARGET_DIR)/debug/unslide-servers'
SERVERS_DATA ?= $(CURDIR)/.unslide/servers
DATA := '$(SERVERS_DATA)'

.PHONY: help demo screens pictures test check servers servers-down chaos bench bench-grouping bench-queries fuzz release fmt lint month prepare walls clean-cache

help:
	@echo 'make demo          the whole path, from an upload to an enriched report (installs what is missing)'
	@echo 'make test          formatting, lints, all tests, licences, queries, manifests'
	@echo 'make check CRATE=unslide-report [TEST=name]   formatting, lints and tests of one crate or feature'
	@echo 'make screens       screenshots of every page of the console in SCREENS (.unslide/screens)'
	@echo 'make pictures      the pictures of docs/console.md'
	@echo 'make servers       Kafka and PostgreSQL for tests in the background; prints what to export'
	@echo 'make servers-down  stop them'
	@echo 'make chaos         faults for CHAOS_SECONDS (300) while reports flow; CHAOS_SEED repeats a run, CHAOS_HISTORY=1 moves rows to ClickHouse'
	@echo 'make bench         the figures of docs/benchmarks.md'
	@echo 'make bench-grouping  precision and recall of grouping on a corpus of known bugs'
	@echo 'make bench-queries  times of lists and groups over BENCH_STORED reports (10000000)'
	@echo 'make fuzz          run each fuzz target for FUZZ_SECONDS (1800)'
	@echo 'make release       the optimised binary'
	@echo 'make month         six days of three tenants, with faults and a clock that moves; needs root'
	@echo 'make walls         compile and test the rest without each feature in turn'
	@echo 'make fmt | lint    format | formatting and lints only'
	@echo 'make prepare       write .sqlx anew after a change of a query or a migration'
	@echo 'make clean-cache   delete fetched servers and tools'

demo:
	@echo '== tools and packages'
	@scripts/setup build
	@echo '== building (some minutes the first time)'
	@CARGO_INCREMENTAL=0 cargo build --locked --package unslide --package unslide-feature-union --bin unslide
	@echo '== the demo'
	@'$(CARGO_TARGET_DIR)/debug/unslide' demo

test:
	@scripts/test

check:
	@scripts/check $(CRATE) $(TEST)

SCREENS ?= $(CURDIR)/.unslide/screens
screens:
	@scripts/setup test
	@cargo build --locked --quiet --package unslide --package unslide-embedded --bin unslide --bin unslide-servers
	@mkdir -p $(DATA)
	@eval "$$($(SERVERS) up $(DATA) --fast)"; UNSLIDE_SCREENS='$(SCREENS)' \
	  PATH="$(CACHE)/tools/bin:$$PATH" cargo nextest run --locked --cargo-quiet --package unslide-tests --test e2e console
	@echo 'the screenshots are in $(SCREENS)'

pictures:
	@scripts/setup test
	@cargo build --locked --quiet --package unslide --package unslide-feature-union --bin unslide
	@scripts/pictures '$(CARGO_TARGET_DIR)/debug/unslide'

servers:
	@scripts/setup build >&2
	@cargo build --locked --quiet --package unslide-embedded --package unslide-feature-union --bin unslide-servers
	@mkdir -p $(DATA)
	@$(SERVERS) up $(DATA) --fast

servers-down:
	@$(SERVERS) down $(DATA)

chaos:
	@scripts/setup test
	@echo '== building'
	@cargo build --locked --package unslide
	@UNSLIDE_CHAOS_SEED=$(or $(CHAOS_SEED),$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')) UNSLIDE_CHAOS_SECONDS=$(or $(CHAOS_SECONDS),300) \
	  UNSLIDE_CHAOS_REPORTS=$(CHAOS_REPORTS) UNSLIDE_CHAOS_HISTORY=$(CHAOS_HISTORY) cargo test --locked --quiet --package unslide-tests --test chaos

bench:
	@scripts/setup test
	@scripts/bench

bench-queries:
	@scripts/setup test
	@UNSLIDE_BENCH_STORED=$(or $(BENCH_STORED),10000000) scripts/bench queries

bench-grouping:
	@scripts/setup test
	@cargo test --locked --quiet --package unslide-tests --bench bench -- --full grouping

fuzz:
	@scripts/fuzz

release:
	@scripts/setup build
	@echo '== building the optimised binary'
	@scripts/release build

month:
	@scripts/setup test
	@scripts/month --short

walls:
	@scripts/setup check
	@scripts/without-feature --all

fmt:
	@cargo fmt --all

lint:
	@cargo fmt --all --check
	@cargo clippy --locked --workspace --all-targets -- -D warnings

prepare:
	@scripts/prepare

clean-cache:
	rm -rf '$(CACHE)' /var/cache/unslide/servers-*
