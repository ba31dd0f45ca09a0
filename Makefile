# SPDX-License-Identifier: Apache-2.0
# Short names for what CMake presets and scripts do.
PRESET ?= release
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
RANKS ?= $(shell nproc)

build := build/$(PRESET)
leat := $(build)/bin/leat

export JOBS

.PHONY: all build setup run check bench cuda install lint format clean help

all: build

help:
	@echo 'make run      install what is missing, build, run a water box on all cores'
	@echo 'make check    the same, then all tests'
	@echo 'make bench    build and run the benchmarks'
	@echo 'make cuda     compile everything with nvcc for sm_90 (preset cuda)'
	@echo 'make install  PREFIX=/usr/local'
	@echo 'make lint, make format, make clean'
	@echo 'PRESET=release|debug|asan|tsan|fuzz|cuda JOBS=$(JOBS) RANKS=$(RANKS)'

setup:
	@scripts/setup.sh build

build: setup
	@cmake --preset $(PRESET) >/dev/null
	@cmake --build --preset $(PRESET) -j $(JOBS)

# Only what it takes: no tests, no benchmarks.
run: setup
	@cmake --preset $(PRESET) >/dev/null
	@cmake --build --preset $(PRESET) -j $(JOBS) --target leat_cli
	$(leat) md --gro test/data/water.gro --top test/data/water.top --mdp test/data/water.mdp \
	    -n $(RANKS) --stats

# Peer programs (GROMACS) are compared with; LEAT_NO_PEERS=1 leaves them out.
check:
	@scripts/setup.sh check
	@$(MAKE) --no-print-directory build
	@test/run_tests.sh $(build)

bench:
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory build
	@cmake --build --preset $(PRESET) -j $(JOBS) --target bench
	@scripts/bench.sh $(build)

cuda:
	@$(MAKE) --no-print-directory build PRESET=cuda

# Only what is installed: no tests, no benchmarks.
install: setup
	@cmake --preset $(PRESET) >/dev/null
	@cmake --build --preset $(PRESET) -j $(JOBS) --target leat_installed
	cmake --install $(build) --prefix $(PREFIX)

lint:
	@scripts/setup.sh lint
	@scripts/lint.sh

format:
	@scripts/setup.sh lint
	@scripts/lint.sh --fix-format

clean:
	rm -rf build
