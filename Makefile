# Everything is built into .venv and target; `make help` lists the goals.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PAPER ?= voip-sctp
SECONDS_EACH ?= 600
MINUTES_EACH ?= 1

# What a change of means that the engine must be built again.
ENGINE_SOURCES := Cargo.toml Cargo.lock pyproject.toml \
	$(shell find crates -name '*.rs' -o -name '*.toml' -not -path '*/target/*')

# On Linux, zig links against the C library of manylinux_2_17 (2.17 of 2012), whatever this machine has.
WHEEL_OPTIONS := --features quic
ifeq ($(shell uname), Linux)
WHEEL_OPTIONS += --zig --compatibility manylinux_2_17
endif

# QUIC with peers costs half a minute of CPU to build: whoever only runs studies does without.
QUIC := anabranch/quic,anabranch-live/quic
FEATURES := $(if $(wildcard $(VENV)/.dev),--features quic)
dev: FEATURES := --features quic

.DEFAULT_GOAL := help
.PHONY: help setup dev lab reproduce test test-rust test-python test-stubs bench bench-check bench-peers bench-scaling bench-update lint format docs site docs-check fuzz kernel oracles validate wheel wheel-check clean
.DELETE_ON_ERROR:

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

setup: $(VENV)/.built ## .venv with the anabranch command

dev: $(VENV)/.dev ## beside it the extras, and the tools for tests, lints and documentation

lab: ## the page of `anabranch lab`, with the engine as WebAssembly (needs Node.js and a compiler for it; some minutes)
	@command -v npm > /dev/null || { echo "make lab needs Node.js 20 or later with npm." >&2; exit 1; }
	tools/lab_engine.sh
	cd lab && npm ci --no-audit --no-fund --ignore-scripts && npm run --silent build

reproduce: setup ## a study (PAPER=voip-sctp, tcp-wimax, sctp-handover or mptcp-aqm), quick form: tables and figures beside the published ones
	$(BIN)/anabranch reproduce $(PAPER) --quick

test: test-rust test-stubs test-python ## all tests: Rust, doc tests, examples, Python, every scenario file

# A commit's result does not depend on luck: `validate` is what looks at ever new cases. Examples are run as
# `cargo test` has built them: in another profile, the engine would be compiled once more for them.
test-rust:
	PROPTEST_RNG_SEED=1 cargo test --locked --features $(QUIC)
	cargo test --locked --package anabranch-wasm
	@set -e; for example in crates/anabranch/examples/*.rs; do \
		[ -e "$$example" ] || continue; \
		echo "example $$example"; \
		cargo run --locked --quiet --profile test --example "$$(basename "$$example" .rs)" > /dev/null; \
	done

test-stubs: dev
	$(BIN)/python -m mypy.stubtest anabranch._engine --mypy-config-file pyproject.toml

test-python: dev
	$(BIN)/python -m pytest --hypothesis-seed=1 --numprocesses auto --dist loadscope --no-loadscope-reorder

bench: ## speed of the engine
	cargo bench --locked -p anabranch-bench

bench-check: dev ## instructions of eight runs beside the committed ones, within 1 % (needs valgrind, else it says so)
	$(BIN)/python tools/bench_check.py benches/instructions.json

bench-peers: setup ## how much longer ns-2 and ns-3 take, where they are installed (three minutes)
	$(BIN)/python tools/bench_peers.py

bench-scaling: dev ## instructions per packet for more links, flows, paths and larger windows (needs valgrind; ten minutes)
	$(BIN)/python tools/scaling.py

bench-update: dev
	$(BIN)/python tools/bench_check.py --update benches/instructions.json

lint: dev ## formatting, clippy, ruff, mypy, arrows between folders; changes nothing
	cargo fmt --all --check
	git ls-files '*.rs' | xargs $(BIN)/python tools/comment_width.py --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked -p anabranch --no-default-features -- -D warnings
	cargo clippy --locked -p anabranch -p anabranch-live -p anabranch-py -p anabranch-transport --features anabranch/quic,anabranch-py/quic --all-targets -- -D warnings
	@if [ -d lab/node_modules ]; then cd lab && npm run --silent check; else echo 'the modules of lab/ are not checked: make lab has not been run'; fi
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@if git grep -nE '^(<<<<<<<|>>>>>>>) '; then echo 'left of a merge' >&2; exit 1; fi

format: dev ## formats everything and applies safe fixes
	cargo fmt --all
	git ls-files '*.rs' | xargs $(BIN)/python tools/comment_width.py
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: dev ## regenerates docs/scenario.schema.json, docs/scenario.md, docs/results.md and docs/imports.md
	$(BIN)/python tools/scenario_reference.py docs
	$(BIN)/python tools/imports_page.py docs/imports.md

# cargo-fuzz builds with the stable compiler: without a sanitizer it needs nothing of a nightly one.
fuzz: dev ## every fuzz target in turn (SECONDS_EACH=600), beginning with packets of our own captures; ends at the first finding
	@command -v cargo-fuzz > /dev/null || { echo "make fuzz needs cargo-fuzz: cargo install cargo-fuzz" >&2; exit 1; }
	$(BIN)/python tools/fuzz_seeds.py fuzz/seeds
	cargo fuzz build --sanitizer none
	@set -e; for target in $$(cargo fuzz list); do \
		echo "fuzz target $$target, $(SECONDS_EACH) s"; \
		mkdir -p fuzz/corpus/$$target fuzz/seeds/$$target; \
		cargo fuzz run --sanitizer none $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-max_total_time=$(SECONDS_EACH) -max_len=2048 -print_final_stats=1; \
	done

kernel: ## target/kernel/linux, a Linux in virtual time, from the distribution's kernel sources (about 5 minutes)
	kernel/build.sh target/kernel

oracles: dev ## regenerates the comparisons with other implementations in docs (some minutes)
	$(BIN)/python tools/comparison_pages.py docs

docs-check: dev
	$(BIN)/python tools/scenario_reference.py --check docs
	$(BIN)/python tools/imports_page.py --check docs/imports.md
	$(BIN)/python tools/documentation_site.py --check target/site

site: dev ## target/site/html, the documentation as a static site with a search, with the figures of its gallery
	$(BIN)/python tools/documentation_site.py target/site

wheel: $(BIN)/maturin lab ## dist/ with the source distribution, and a wheel for this platform made from it (some minutes)
	rm -rf dist
	$(BIN)/python -m pip install --quiet 'maturin[zig]>=1.16,<2'
	$(BIN)/maturin sdist --out dist
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/wheel.py dist/*.tar.gz dist $(WHEEL_OPTIONS)

wheel-check: wheel ## installs the wheel where there is no compiler, and draws a first figure within a minute
	$(BIN)/python tests/wheel_check.py dist/*.whl

# A case of a property about whole simulations costs a thousand times what one about a part does.
validate: dev lab site wheel-check kernel ## the long validations: slow tests, properties of 10,000 cases (simulations 1,000), golden records in docs/validation (MINUTES_EACH=1 for each kind of damaged capture or log)
	PROPTEST_CASES=10000 cargo test --locked --profile dev --workspace --features $(QUIC) --lib -- --include-ignored
	PROPTEST_CASES=1000 TSHARK_CASES=200 cargo test --locked --profile dev --workspace --features $(QUIC) --test '*' -- --include-ignored
	PROPTEST_CASES=100000 cargo test --locked --profile dev --package anabranch-transport --test wire --test wire_ip
	cargo check --locked --manifest-path fuzz/Cargo.toml
	$(BIN)/python tools/scenario_search.py 10000 "$$(date +%s)" --jobs 2
	$(BIN)/python tests/reader_fuzzing.py --minutes $(MINUTES_EACH) --seed "$$(date +%s)"
	for paper in voip-sctp tcp-wimax sctp-handover mptcp-aqm; do \
		$(BIN)/anabranch reproduce $$paper --smoke || exit 1; \
	done
	$(BIN)/python -m pip install --quiet --group interop
	$(BIN)/python tools/interop_page.py docs
	$(BIN)/python tools/quic_beside_peers.py docs/validation/quic-peers.md
	$(BIN)/python tools/quic_live_beside_peers.py docs/validation/quic-live-peers.md
	$(BIN)/python tools/comparison_pages.py docs
	$(BIN)/python tools/paper_record.py voip-sctp docs/validation/voip-sctp.md
	$(BIN)/python tools/bench_cc_page.py docs/bench-cc.md
	$(BIN)/python tools/bench_rtc_page.py docs/bench-rtc.md
	$(BIN)/python tools/mobility.py docs
	$(BIN)/python tools/which_multipath.py docs
	$(BIN)/python tools/video_two_paths.py docs
	$(BIN)/python tests/profile_paths.py docs/validation/profile.md
	$(BIN)/python tests/dissection.py docs/validation/captures.md
	$(BIN)/python tests/emulated_paths.py docs/validation/profile-emulated.md
	$(BIN)/python -m pytest tests/test_virtual_kernel.py
	ANABRANCH_LAB_WHOLE=1 $(BIN)/python -m pytest tests/test_lab_engine.py tests/test_lab_page.py tests/test_lab_layout.py
	$(BIN)/python tools/virtual_kernel.py docs/virtual-kernel.md
	$(BIN)/python tools/virtual_tcp.py docs/linux-tcp.md
	$(BIN)/python tools/beside_linux.py docs/beside-linux.md
	$(BIN)/python tools/beside_linux_queues.py docs/beside-linux.md
	$(BIN)/python tools/paper_record.py tcp-wimax docs/validation/tcp-wimax.md
	$(BIN)/python tools/paper_record.py sctp-handover docs/validation/sctp-handover.md
	$(BIN)/python tools/paper_record.py mptcp-aqm docs/validation/mptcp-aqm.md
	$(BIN)/python tools/paper_record.py multipath-quic docs/validation/multipath-quic.md
	for paper in tcp-wimax mptcp-aqm sctp-handover voip-sctp; do \
		$(BIN)/python tools/paper_record.py --kernel $$paper docs/validation/$$paper.md || exit 1; \
	done
	for paper in sctp-handover voip-sctp; do \
		$(BIN)/python tools/paper_record.py --usrsctp $$paper docs/validation/$$paper.md || exit 1; \
	done

clean: ## removes everything that was built
	rm -rf target dist lab/node_modules python/anabranch/lab/static $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f python/anabranch/_engine*.so python/anabranch/_engine*.pyd

$(BIN)/maturin: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || { \
		echo "anabranch needs Python 3.11 or later; \`$(PYTHON)\` is $$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@command -v cargo > /dev/null || { echo "anabranch needs Rust 1.88 or later: \`cargo\` was not found." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' 'maturin>=1.16,<2'
	@touch $@

# maturin cannot follow the extra `all`, which names the package itself.
DEVELOP = PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet

$(VENV)/.built: $(BIN)/maturin $(ENGINE_SOURCES)
	$(DEVELOP) $(FEATURES)
	@touch $@

# Once the engine is built, only what Python needs is installed here.
$(VENV)/.dev: pyproject.toml | $(VENV)/.built
	$(DEVELOP) --features quic --extras dask,gym,optuna,pandas,sensitivity --group dev
	@touch $@
