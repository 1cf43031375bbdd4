# The way in: meson and ninja do the work. Each target says below what it is for.
#
#   make            build/cupel
#   make demo       a small real analysis, from data to verdict
#   make test       the first tier of tests, in ten minutes: before each commit; LAYERS="unit kernel" for some layers of it
#   make test-all   every test there is; LAYERS="e2e vm" for some layers
#   make install    program, Python package, manual pages, completion to PREFIX (/usr/local), below DESTDIR
#   make vm         the tests again in virtual machines; KERNELS="6.1 6.12 5.10" for other kernels than Debian's own
#   make fresh      the README's two commands in a fresh minimal Debian 12
#   make bench      how fast a box starts, beside others, and what a running analysis pays: docs/BENCHMARK.md
#   make soak       2,000 runs of every kind, 20 at once, what the host notices of two at their limits, 10,000 runs by a service
#   make asan       the tests with a build by clang, AddressSanitizer and UBSan
#   make fuzz       the parsers against made-up input, FUZZ_SECONDS=60 each; FUZZ="analysis ids" for some
#   make format     let clang-format write the sources
#   make lint       layout, size, format, cppcheck, mypy, clang-tidy
#   make clean

BUILD  ?= build
PREFIX ?= /usr/local
LAYERS ?=
# Debian kernels for the virtual machines.
KERNELS ?= 6.1
FUZZ_SECONDS ?= 60
FUZZ ?=
# Options of tests/load/soak: --runs N --jobs N --seed N --as root|user|both
SOAK   ?=
# Warnings are errors where nobody is watching.
WERROR := $(if $(CI),true,false)
# meson finds ccache by itself where no compiler is named. The same sources in another clone are the same to it.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= true
CLANG := $(if $(shell command -v ccache),ccache clang,clang)

all: need-build $(BUILD)/build.ninja
	@$(call build,$(BUILD))

# The build without its tests needs fewer packages; with them it is configured when they are wanted.
$(BUILD)/build.ninja:
	@meson setup $(BUILD) --prefix=$(PREFIX) -Dtests=false

# build,DIR: compile, and give the program its plain place.
define build
ninja -C $(1) --quiet && ln -sf src/cli/cupel $(1)/cupel
endef

need-build:
	@tools/need --check build

with-tests: $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dtests=true -Dwerror=$(WERROR)
	@$(call build,$(BUILD))

demo:
	@tools/need build run demo
	@$(MAKE) --no-print-directory all
	@CUPEL=$(abspath $(BUILD))/cupel examples/demo

test:
	@tools/need build run test demo lint
	@$(MAKE) --no-print-directory with-tests
	@tests/run --build $(BUILD) --tier first $(LAYERS)

test-all:
	@tools/need build run test demo lint
	@$(MAKE) --no-print-directory with-tests
	@tests/run --build $(BUILD) --tier all $(LAYERS)

# A cupel that fails on request (src/base/fault.h), for the crash tests.
faults: need-build
	@test -f $(BUILD)/faults/build.ninja || meson setup $(BUILD)/faults -Dfaults=true -Dtests=false
	@ninja -C $(BUILD)/faults --quiet

# One build for all that sanitizers watch: the tests and the fuzz targets. Another compiler has other warnings, here they are errors.
sanitized: need-build
	@test -f $(BUILD)/asan/build.ninja || CC="$(CLANG)" meson setup $(BUILD)/asan \
		-Db_sanitize=address,undefined -Db_lundef=false -Dwerror=true
	@meson configure $(BUILD)/asan -Dfuzz=true -Doptimization=1
	@$(call build,$(BUILD)/asan)
	@ninja -C $(BUILD)/asan --quiet fuzz

vm:
	@tools/need build run test
	@$(MAKE) --no-print-directory with-tests
	@KERNELS="$(KERNELS)" tests/run --build $(BUILD) vm

fresh:
	@tools/fresh

install: need-build
	@test -f $(BUILD)/build.ninja || $(MAKE) --no-print-directory all
	@meson configure $(BUILD) --prefix=$(PREFIX)
	@$(call build,$(BUILD))
	@DESTDIR=$(abspath $(DESTDIR)) meson install -C $(BUILD) --no-rebuild --quiet

bench:
	@tools/need build run bench
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) --quiet bench-programs
	@CUPEL=$(abspath $(BUILD))/cupel bench/run --build $(BUILD)
	@CUPEL=$(abspath $(BUILD))/cupel bench/overhead --build $(BUILD)
	@ninja -C $(BUILD) --quiet bench/take_fingerprint
	@CUPEL_BUILD=$(abspath $(BUILD)) bench/fingerprint
	@bench/ledger --build $(BUILD)
	@CUPEL=$(abspath $(BUILD))/cupel bench/protect
	@ninja -C $(BUILD) --quiet bench/take_outputs
	@CUPEL_BUILD=$(abspath $(BUILD)) bench/outputs
	@CUPEL=$(abspath $(BUILD))/cupel bench/pipelines --build $(BUILD)
	@CUPEL=$(abspath $(BUILD))/cupel bench/service --build $(BUILD)
	@bench/report --build $(BUILD)

soak:
	@tools/need build run test
	@$(MAKE) --no-print-directory all
	@CUPEL=$(abspath $(BUILD))/cupel tests/load/soak $(SOAK)
	@CUPEL=$(abspath $(BUILD))/cupel tests/load/undisturbed
	@CUPEL=$(abspath $(BUILD))/cupel CUPEL_BUILD=$(abspath $(BUILD)) tests/load/service

# load is left out for its time, the rest need no such build.
asan:
	@tools/need build run test
	@$(MAKE) --no-print-directory sanitized
	@tests/run --build $(BUILD)/asan $(or $(LAYERS),unit kernel escape crash hosts e2e)

fuzz:
	@tools/need build test
	@$(MAKE) --no-print-directory sanitized
	@tests/fuzz/run --build $(BUILD) --built --seconds $(FUZZ_SECONDS) $(FUZZ)

format:
	@tools/need lint
	@find src tests bench examples -name '*.[ch]' -exec clang-format -i {} +

lint: need-build
	@tools/need lint
	@$(MAKE) --no-print-directory all
	@tools/lint -b $(BUILD)

clean:
	rm -rf build

.PHONY: all need-build with-tests demo test test-all faults sanitized vm fresh install bench soak asan fuzz format lint clean
