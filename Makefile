# The front door; CMake does the building (CMakePresets.json). `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := build
.PHONY: help setup build page wheel demo test test-frameworks test-versions test-soak soak-elastic bench bench-build format install clean
MAKEFLAGS += --no-print-directory

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
compile = scripts/compile --jobs $(JOBS)

help: ## this list
	@echo 'Cohort: distributed deep-learning training for C++.'
	sed -nE 's/^([a-z%-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 28
	echo 'COHORT_TORCH=off leaves LibTorch out; JOBS=N sets how many compilers and tests run at once.'

setup: ## install what the build needs and is missing (asks nothing)
	@scripts/setup

build: setup ## the release tree in build/, every program in build/bin/ (the default)
	@if [[ -d web/node_modules ]] && command -v node > /dev/null; then node web/build.mjs > /dev/null; fi
	$(compile)

page: ## the page in the browser: check, test and build web/ into web/dist/ (needs Node 20 and npm)
	@command -v npm > /dev/null || { echo 'make page: npm is not there; web/dist/ has the page as it was built last' >&2; exit 1; }
	cd web
	npm ci --no-audit --no-fund
	npm run --silent types
	npm run --silent check
	npm run --silent test
	npm run --silent build

wheel: setup ## the Python wheels `cohort` and `horovod`, in build/wheel/
	@$(compile) wheel_files
	scripts/wheel

demo: setup ## build what it needs, then train a small network on Fashion-MNIST with two workers
	@$(compile) demo_programs
	scripts/demo

test: build ## build, then run every test but the frameworks' and the slow ones; times in build/junit/
	@JOBS=$(JOBS) tests/run-ctest release --progress

test-frameworks: build ## run TensorFlow and PyTorch programs; installs both into .venv-frameworks
	@tests/frameworks/run

test-versions: build ## run the Python suites with the oldest and newest torch and TensorFlow (.venv-versions, 11 GB)
	@tests/frameworks/versions

test-soak: build ## run the tests that take tens of minutes (label slow)
	@ctest --test-dir build -L slow --output-on-failure

soak-elastic: build ## kill a worker every 3 seconds, for SECONDS=600; curves in build/soak/
	@python3 tests/elastic/soak.py --seconds $(or $(SECONDS),600)

bench: build ## run every benchmark of bench/benchmarks.txt; results in build/bench/
	@scripts/bench

bench-%: build ## run one benchmark of bench/benchmarks.txt
	@scripts/bench $*

bench-build: setup ## measure what building takes, in processor seconds, without the compiler cache
	@scripts/bench build

format: setup ## lay the sources out as .clang-format says
	@git ls-files -co --exclude-standard -z '*.h' '*.cpp' | xargs -0 -r clang-format-14 -i

install: build ## copy programs, libraries and the CMake package to PREFIX (default /usr/local)
	@cmake --install build --prefix '$(PREFIX)' | tail -n 1
	echo 'Installed in $(PREFIX). An outside project finds it with -DCMAKE_PREFIX_PATH=$(PREFIX).'

clean: ## remove the build trees (not .venv)
	@rm -rf build build-*
