# Short names for the usual tasks; CMakeLists.txt has the build itself. `make help` lists them.
BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
PREFIX ?= /usr/local
PYTHON = build/venv/bin/python
GENERATOR := $(if $(shell command -v ninja),-G Ninja)
CONFIGURE = cmake -S . $(GENERATOR)
CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)

.DEFAULT_GOAL := build
.PHONY: help setup build demo test test-full bench asan tsan check suite install clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install what building and testing need
	@tools/setup.sh

build: ## build into build/: rlx, librlx.so, packages, examples
	@$(CONFIGURE) -B $(BUILD) -DCMAKE_BUILD_TYPE=RelWithDebInfo
	@cmake --build $(BUILD) -j $(JOBS)

test: setup build ## set up, build and test; ctest's summary comes last
	@$(CTEST) --test-dir $(BUILD)

install: build ## install under PREFIX (DESTDIR is honoured)
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix $(PREFIX)

clean: ## remove what was built, but not the fetched data and environments
	@if [ -f $(BUILD)/CMakeCache.txt ]; then cmake --build $(BUILD) --target clean; fi
	@rm -rf build-asan build-tsan
