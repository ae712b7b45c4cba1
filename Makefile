# A thin front for Meson: every target installs missing packages, sets up its build, and does its
# job.

BUILD := build
# In CI, a warning is an error.
SETUP := meson setup $(if $(CI),-Dwerror=true)
NINJA := ninja -C

.PHONY: all run test bench sanitize asan tsan valgrind install deb docs pictures format format-check lint clean setup

all: $(BUILD)/build.ninja
	$(NINJA) $(BUILD)

setup:
	@tools/setup

$(BUILD)/build.ninja: | setup
	$(SETUP) $(BUILD)

run: all
	$(BUILD)/orrery examples/tour.lua

test: all
	tools/setup tests
	tools/run-tests $(BUILD)
	tests/model/check

bench: all
	bench/run $(BUILD) $(ONLY)

# The same tests under AddressSanitizer with UndefinedBehaviorSanitizer, under ThreadSanitizer, and
# some under valgrind.
sanitize: asan tsan valgrind

asan: | setup
	test -f build-asan/build.ninja || $(SETUP) build-asan -Db_sanitize=address,undefined -Db_lundef=false --buildtype=debugoptimized
	tools/setup tests
	$(NINJA) build-asan
	tools/run-tests build-asan

tsan: | setup
	test -f build-tsan/build.ninja || $(SETUP) build-tsan -Db_sanitize=thread -Db_lundef=false --buildtype=debugoptimized
	$(NINJA) build-tsan
	tools/run-tests build-tsan

# Finds reads of uninitialised memory, which no sanitizer above sees. valgrind does not know
# io_uring well enough, and is too slow for tests with millions of operations.
valgrind: all
	tools/run-valgrind $(BUILD)

# Builds the site from the Markdown pages, the header and the types.
docs: | setup
	tools/make-docs . $(BUILD)/site

# Records the README's picture again.
pictures: all
	tools/record docs/runaway.svg --columns 84 --show "orrery runaway.lua" -- $(BUILD)/orrery docs/runaway.lua

# Takes PREFIX, also for a build that was set up with another, and DESTDIR.
install: | $(BUILD)/build.ninja
	$(if $(PREFIX),meson configure $(BUILD) --prefix=$(abspath $(PREFIX)))
	$(NINJA) $(BUILD)
	meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))
	$(if $(DESTDIR),,tools/after-install $$(pkg-config --variable=libdir $(BUILD)/meson-private/orrery.pc))

# Builds the Debian packages in build/deb.
deb: | setup
	tools/build-deb $(BUILD)/deb

format:
	tools/sources | xargs clang-format -i

format-check:
	tools/sources | xargs clang-format --dry-run --Werror

lint: all
	luacheck -q lua tests/differential tests/lua tests/memory tests/module tests/runner examples docs
	tools/check-layers $(BUILD)
	tools/check-width
	tools/check-exports $(BUILD)
	tools/sources src examples/game examples/hosts examples/plugins | grep '\.c$$' | xargs clang-tidy --quiet -p $(BUILD)

clean:
	rm -rf build build-asan build-tsan build-rock
