# Targets. Each installs missing tools itself, on a machine with apt and Rust 1.88 or later (from rustup; Debian 12's is too old). apt
# installs, using sudo if needed: gcc and libc6-dev; rustfmt and clippy, unless rustup has them; for `make test` also rt-app and Chromium;
# with a nightly toolchain also g++ and cargo-fuzz. Python tools are in target/venv. The network is needed for these and for crates.io.
#
#   make demo    a video player, a build and a web service on 8 CPUs, under 6.1 and 6.12; writes demo-out/
#   make test    formatting, clippy, documentation, all tests, the fuzzers' corpus; CI (.ci/run) runs this and then the demo
#   make bench   the benchmarks
#   make wheel   target/wheels/: the Python package with the command (needs Python 3.9 or later with venv)
#   make pgo     target/pgo/vruntime: the command, optimized by a profile of itself (needs rustup)
#   make fuzz    the fuzzers, FUZZ_SECONDS each (default 60)
#   make soak    random tests of the scheduler for SOAK_SECONDS (default 600), from SOAK_SEED on
#   make deny    licences, sources and advisories of packages of others (installs cargo-deny)
#   make package  the packages for crates.io, each built alone
#   make dist    what a release contains, in target/dist/: command, wheel, man pages, completions, licences, bill of materials
#   make doc     the API documentation, in target/doc/
#   make site    the documentation as a site, in target/site/ (needs Python 3.9 or later with venv)
#   make lint    formatting and clippy

CARGO ?= cargo
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 600
export CARGO_TERM_COLOR ?= auto
# Incremental builds need gigabytes. CARGO_INCREMENTAL=1 switches them on.
export CARGO_INCREMENTAL ?= 0

.DEFAULT_GOAL := help
.PHONY: help setup demo test unit loom bench wheel python-tools pgo fuzz fuzz-corpus soak doc site lint deny dist package

help:
	@sed -n 's/^#   \(make .*\)/\1/p' Makefile

# Rust needs a linker. The formatter and the linter are rustup components or Debian packages.
setup:
	@command -v cc >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y gcc libc6-dev; }
	@$(CARGO) --version >/dev/null || { echo "Rust 1.88 or later is needed: https://rustup.rs"; exit 1; }
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt || $(SUDO) apt-get install -y rustfmt
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy || $(SUDO) apt-get install -y rust-clippy

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# Intermediate files are removed, as they need ten times the space of the command. A change of the sources builds it again.
DEMO = $(or $(CARGO_TARGET_DIR),target)/demo
DEMO_BUILD = $(CARGO) build --profile demo --no-default-features --features quick-build -p vruntime
demo: setup
	@if [ ! -x $(DEMO)/vruntime ] \
		|| [ -n "$$(find Cargo.toml Cargo.lock crates fidelity scenarios -type f -newer $(DEMO)/vruntime -print -quit)" ]; then \
		echo "Building vruntime takes 2 to 4 minutes on two idle cores, and longer beside other work. The demo then takes a second."; \
		echo "$(DEMO_BUILD)"; \
		$(DEMO_BUILD) || exit 1; \
		rm -rf $(DEMO)/deps $(DEMO)/build $(DEMO)/incremental $(DEMO)/.fingerprint; \
	fi
	@echo "Running the demo: a video player, a build and a web service on 8 CPUs, under Linux 6.1 and 6.12, with 5 seeds each"
	@$(DEMO)/vruntime compare scenarios/demo/demo.toml --out demo-out

test: setup lint doc unit loom fuzz-corpus

# Tests read the example files of Debian's rt-app package, and load pages in Chromium. Tests that miss one of these skip it, and say so.
#
# The seed of random tests is the first 15 hexadecimal digits of the commit. So a commit passes or fails on any day, and the next commit
# tries other cases. Without git (a tarball, or a folder inside another repository) the seed is a fixed number. It is printed before the
# tests and after a failure. `PROPTEST_RNG_SEED=N make test` repeats them.
COMMIT = $(shell [ "$$(git rev-parse --show-toplevel 2>/dev/null)" -ef . ] && git rev-parse --verify --quiet HEAD)
NO_COMMIT_SEED := 427088507491
ifndef PROPTEST_RNG_SEED
PROPTEST_RNG_SEED = $(if $(COMMIT),$(shell echo $$((0x$$(echo $(COMMIT) | cut -c1-15)))),$(NO_COMMIT_SEED))
SEED_IS = $(if $(COMMIT),of commit $(COMMIT),as this is no git clone)
endif
SEED_LINE = random tests draw from PROPTEST_RNG_SEED=$(PROPTEST_RNG_SEED) $(or $(SEED_IS),as given)

# Benchmarks that run once, untimed, to check their assertions.
ONCE = collector timeline readers writers
# The Python package is tested with and without pandas.
unit: export VRUNTIME_PYTHON = $(VENV)/bin/python
unit: export PROPTEST_RNG_SEED := $(PROPTEST_RNG_SEED)
unit: setup python-tools
	@[ -d /usr/share/doc/rt-app/examples ] || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y rt-app; } \
		|| echo "no rt-app package: its examples are not tested"
	@command -v chromium >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y chromium; } \
		|| echo "no Chromium: pages are not loaded in a browser"
	@echo "$(SEED_LINE)"
	$(CARGO) test --workspace || { echo "$(SEED_LINE)"; exit 1; }
	$(CARGO) test --quiet -p vruntime-report -p vruntime-sched -p vruntime-trace $(ONCE:%=--bench %)

lint: setup python-tools
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@[ ! -x $(VENV)/bin/ruff ] || { cd python && $(VENV)/bin/ruff format --check && $(VENV)/bin/ruff check && $(VENV)/bin/mypy vruntime; }

# Tools to check and test the Python package, for Python 3.11 or later. Users of the package do not need them.
VENV = $(CURDIR)/target/venv
python-tools:
	@cmp -s python/requirements-dev.txt $(VENV)/requirements-dev.txt || { \
		rm -rf $(VENV) && python3 -m venv $(VENV) \
		&& $(VENV)/bin/pip install --quiet --disable-pip-version-check -r python/requirements-dev.txt \
		&& cp python/requirements-dev.txt $(VENV)/; } \
		|| { rm -rf $(VENV); echo "no venv with python/requirements-dev.txt: the Python package is not linted, and not tested with pandas"; }

# Documentation of private items has links of its own. The second run leaves what users read, and checks that it links no private item.
doc: setup
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

# MkDocs Material, in a virtual environment. A broken link or anchor is an error.
SITE = $(CURDIR)/target/site-venv
site:
	@cmp -s site/requirements.txt $(SITE)/requirements.txt || { \
		rm -rf $(SITE) && python3 -m venv $(SITE) \
		&& $(SITE)/bin/pip install --quiet --disable-pip-version-check -r site/requirements.txt \
		&& cp site/requirements.txt $(SITE)/; }
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet --strict --config-file site/mkdocs.yml
	@echo "target/site/index.html"

# Tests the values that CPUs publish in every order that the memory model permits. loom replaces atomics, so it has a build folder of
# its own.
loom: setup
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test -p vruntime-sched --lib loom_model

bench: setup
	$(CARGO) bench --workspace

# For `pip install target/wheels/vruntime-*.whl` on machines without Rust.
wheel: setup
	python3 -m venv target/maturin && target/maturin/bin/pip install --quiet --disable-pip-version-check 'maturin>=1.7,<2'
	rm -f target/wheels/vruntime-*.whl
	cd python && ../target/maturin/bin/maturin build --release --out ../target/wheels

# The policy is deny.toml. Advisories are checked if their database can be fetched.
deny: setup
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources
	$(CARGO) deny check advisories || echo "no advisories: the database cannot be fetched, or it has a finding above"

# Builds each crate that is published from its package alone, as a user of crates.io would.
package: setup
	$(CARGO) package --workspace --exclude vruntime-xtask --allow-dirty

# A release. Its archive has one folder with the command and all that belongs to it.
DIST = $(CURDIR)/target/dist
DIST_NAME = vruntime-$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)-$(HOST)
dist: wheel
	$(CARGO) build --release -p vruntime
	rm -rf $(DIST) && mkdir -p $(DIST)/$(DIST_NAME)/completions
	cp target/release/vruntime README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE $(DIST)/$(DIST_NAME)/
	$(CARGO) xtask notices --check --sbom $(DIST)/$(DIST_NAME)/vruntime.cdx.json
	cp crates/cli/THIRD-PARTY.txt $(DIST)/$(DIST_NAME)/
	target/release/vruntime man $(DIST)/$(DIST_NAME)/man
	for shell in bash zsh fish; do \
		target/release/vruntime completions $$shell > $(DIST)/$(DIST_NAME)/completions/vruntime.$$shell || exit 1; \
	done
	tar -C $(DIST) --sort=name --owner=0 --group=0 --mtime='UTC 1980-01-01' -czf $(DIST)/$(DIST_NAME).tar.gz $(DIST_NAME)
	cp target/wheels/vruntime-*.whl $(DIST)/
	cd $(DIST) && sha256sum *.tar.gz *.whl > SHA256SUMS
	@ls -l $(DIST)

# Profile-guided: builds the command with counters, runs it, and builds it again with the counts. With `--target`, flags do not apply to
# build scripts.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
PGO = $(CURDIR)/target/pgo
PGO_BUILD = $(CARGO) build --release --quiet -p vruntime --target $(HOST) --target-dir $(PGO)
pgo: setup
	@command -v rustup >/dev/null || { echo "make pgo needs rustup (https://rustup.rs), which has llvm-profdata"; exit 1; }
	rustup component add llvm-tools
	rm -rf $(PGO)/profiles
	RUSTFLAGS="-Cprofile-generate=$(PGO)/profiles" $(PGO_BUILD)
	set -e; cd scenarios; for what in \
		"fidelity" \
		"compare demo/demo.toml --repeat 5" \
		"run capacity/phone.toml" \
		"run limits/shop.toml" \
		"run wasted-cores/group-imbalance.toml"; \
	do $(PGO)/$(HOST)/release/vruntime $$what >/dev/null; done
	"$$(rustc --print sysroot)/lib/rustlib/$(HOST)/bin/llvm-profdata" merge -o $(PGO)/profile $(PGO)/profiles
	RUSTFLAGS="-Cprofile-use=$(PGO)/profile" $(PGO_BUILD)
	cp $(PGO)/$(HOST)/release/vruntime $(PGO)/vruntime
	@echo "$(PGO)/vruntime"

# Runs the fuzzers on their corpus, and then on new inputs for FUZZ_SECONDS. They need a nightly toolchain, g++ and cargo-fuzz. Without
# these, plain tests read the corpus, and no new inputs are tried.
fuzz: FUZZ_LIMIT = -max_total_time=$(FUZZ_SECONDS)
fuzz: setup
	@plain() { \
		echo "$$1: the plain tests read the corpus instead"; \
		$(CARGO) test -p vruntime-workload -p vruntime-trace -p vruntime --test hostile; \
		exit; \
	}; \
	rustup toolchain list 2>/dev/null | grep -q nightly || plain "no nightly toolchain (rustup toolchain install nightly)"; \
	command -v c++ >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y g++; } || plain "no g++"; \
	command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz || plain "no cargo-fuzz"; \
	for target in fuzz/fuzz_targets/*.rs; do \
		target=$$(basename $$target .rs); \
		echo "fuzzing $$target: $(FUZZ_LIMIT)"; \
		work=$$(mktemp -d); \
		$(CARGO) +nightly fuzz run --target-dir target/fuzz $$target $$work fuzz/corpus/$$target -- \
			$(FUZZ_LIMIT) -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 || exit 1; \
		rm -rf $$work; \
	done

# Runs the corpus only, so the same commit gives the same result. `make fuzz` tries new inputs.
fuzz-corpus:
	$(MAKE) fuzz FUZZ_LIMIT=-runs=0

# Repeats random tests with new cases until the time is over or one fails. They check the invariants of ARCHITECTURE.md ("Always true"):
# verbs of the scheduler on one and several threads (1, 7), time of whole machines (2), EEVDF's lags (3), idle CPUs beside waiting tasks
# (4), limits (5) and deadlines (6), while CPUs, limits, groups and affinities change. The last round is completed. Each round prints its
# seed: SOAK_SEED and the number of the round. SOAK_SEED=N repeats a soak.
SOAKED := invariants threads eevdf limits cpusets conservation changes work_conservation deadline realtime rt_groups

soak: setup
	$(CARGO) test -p vruntime-sched -p vruntime-sim $(SOAKED:%=--test %) --no-run
	@end=$$(( $$(date +%s) + $(SOAK_SECONDS) )); round=0; first=$(or $(SOAK_SEED),$$(date +%s%3N)); \
	while [ $$(date +%s) -lt $$end ]; do \
		round=$$((round + 1)); \
		echo "soak: round $$round, SOAK_SEED=$$first: PROPTEST_RNG_SEED=$$((first + round))"; \
		PROPTEST_RNG_SEED=$$((first + round)) \
			$(CARGO) test --quiet -p vruntime-sched -p vruntime-sim $(SOAKED:%=--test %) || exit 1; \
		echo "soak: round $$round passed, $$(( end - $$(date +%s) )) s to go"; \
	done
