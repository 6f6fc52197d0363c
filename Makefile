# Thin on purpose: Meson builds, the scripts in tools/ work. `make` alone lists the targets.

# Debian's meson, ninja and python3, whatever else is in the path: the tests need Debian's modules.
export PATH := /usr/bin:$(PATH)

ARGS ?=
BENCH ?= task drive depot
CAMPAIGN ?=
OPERATIONS ?= 1000000
POINTS ?= 80
PREFIX ?= /usr/local
ROUNDS ?= 200
SECONDS ?= 60
SEEDS ?= 1000
STAGES ?=
TARGET ?=

.PHONY: help
help:
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r target line; do \
		printf 'make %-9s %s\n' "$$target" "$$line"; done

.PHONY: run
run: program ## serve memcached's protocol on 127.0.0.1:11211 from ./data.tarn (ARGS="--listen ...")
	@exec build/tarn serve --data data.tarn --size 1G --listen 127.0.0.1:11211 $(ARGS)

.PHONY: test
test: ## build, then run a part of every kind of test, in some 10 minutes (STAGES="unit lint" for some)
	@tools/packages test
	@tools/test $(STAGES)

.PHONY: test-all
test-all: ## build, then run the tests of continuous integration, in some 70 minutes (STAGES="unit lint" for some)
	@tools/packages test
	@tools/test --all $(STAGES)

.PHONY: test-whole
test-whole: ## the same, and what takes longest for the little that others have not said: some hours
	@tools/packages test
	@tools/test --whole $(STAGES)

.PHONY: bench
bench: program ## print the benchmarks' results, a JSON line each (BENCH="task drive depot")
	@tools/packages bench
	@ninja -C build tarn-lab >&2
	@for name in $(BENCH); do build/tarn-lab $$name --json || exit; done

.PHONY: asan
asan: ## run all tests with the address and undefined behaviour sanitizers, in an hour
	@tools/packages test
	@tools/test --whole asan

.PHONY: tsan
tsan: ## run all tests with the thread sanitizer, in an hour or two
	@tools/packages test
	@tools/test --whole tsan

.PHONY: fuzz
fuzz: ## fuzz every target for SECONDS=60, or one (TARGET=name)
	@tools/packages test
	@tools/fuzz $(SECONDS) $(TARGET)

.PHONY: sim
sim: program ## run SEEDS=1000 of the simulator, of every campaign or one (CAMPAIGN=name)
	@build/tarn sim --seeds=$(SEEDS) $(if $(CAMPAIGN),--campaign=$(CAMPAIGN)) $(ARGS)

.PHONY: model
model: ## a million operations against a plain map, and histories of real threads (OPERATIONS= ARGS="" for the seed)
	@tools/packages test
	@[ -e build/build.ninja ] || meson setup -Dwerror=true build
	@ninja -C build depot_model_test tests/model/model_threads
	@build/depot_model_test $(OPERATIONS) $(ARGS)
	@build/tests/model/model_threads 60 $(ARGS)

.PHONY: crash
crash: program ## kill a server and a program with -9 under load, ROUNDS=200 times each
	@tools/packages test
	@ninja -C build tests/crash/crash_load
	@/usr/bin/python3 tests/crash/load.py build/tests/crash/crash_load $(ROUNDS)
	@/usr/bin/python3 tests/crash/kill.py build/tarn $(ROUNDS)

.PHONY: powercut
powercut: program ## look at what a power cut leaves on a real NVMe driver, at POINTS=80 points (in the virtual machine)
	@tools/packages test
	@tests/vm/powercut build $(POINTS)

.PHONY: mutations
mutations: ## break the store in known places, one at a time, and see the simulator notice (ARGS="NAME...")
	@tools/packages test
	@tests/mutations/run $(ARGS)

.PHONY: ensemble
ensemble: program ## see what masters agree on with three real ZooKeeper servers, while these and masters die
	@tools/packages ensemble
	@ninja -C build tests/conformance/conformance_cluster_suites tests/conformance/conformance_cluster_member \
	  tests/conformance/conformance_space_worker >&2
	@python3 tests/conformance/zookeeper.py build/tests/conformance/conformance_cluster_suites build/tests/conformance/conformance_cluster_member
	@python3 tests/conformance/masters.py build/tarn build/tests/conformance/conformance_space_worker

.PHONY: protocol
protocol: ## look at all interleavings of the hash store's protocol, and find the broken ones out (ARGS="short long", or a run's name)
	@tools/packages protocol
	@tests/model/hash/check.py $(or $(ARGS),short)

.PHONY: lint
lint: ## check the repository's rules, the layout and what clang-tidy knows
	@tools/packages lint
	@tools/lint

.PHONY: install
install: ## install under PREFIX=/usr/local (DESTDIR=... for packages)
	@tools/packages run
	@[ -e build-install/build.ninja ] || meson setup -Dtests=false build-install
	meson configure build-install -Dprefix=$(PREFIX)
	ninja -C build-install
	DESTDIR=$(DESTDIR) meson install -C build-install --no-rebuild
	@# so that programs find the library; a package does that by itself
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

.PHONY: clean
clean: ## remove everything built; stores (*.tarn) stay
	rm -rf build build-*

.PHONY: program
program:
	@tools/packages run
	@[ -e build/build.ninja ] || meson setup -Dwerror=true build
	@ninja -C build tarn
