# A thin front for Meson: every target installs what it needs and is missing, sets up its build, and
# does its job.  tools/packages says what each installs.

BUILD := build
NINJA := ninja -C
SANITIZED := -Db_lundef=false --buildtype=debugoptimized

.PHONY: all run test bench compare sanitize asan tsan valgrind stalls install deb rock docs pictures format format-check lint check-fresh clean

all:
	@tools/setup all
	@tools/configure $(BUILD)
	$(NINJA) $(BUILD)

run:
	@tools/setup run
	@tools/configure $(BUILD)
	$(NINJA) $(BUILD) orrery
	$(BUILD)/orrery examples/tour.lua

test:
	@tools/setup test
	@tools/configure $(BUILD)
	$(NINJA) $(BUILD)
	tools/run-tests $(BUILD)

bench:
	@tools/setup bench
	@tools/configure $(BUILD)
	$(NINJA) $(BUILD)
	bench/run $(BUILD) $(if $(ONLY),'$(ONLY)')

# Says what has become worse between two revisions, or two build folders.  ROWS=REGEX and ROUNDS=N
# measure some rows, and more or fewer rounds.  The status of make is 2 for every failure; that of
# bench/compare tells them apart.
NEW = HEAD
compare:
	@test -n '$(OLD)' || { echo 'make compare OLD=revision NEW=revision: OLD is missing' >&2; exit 2; }
	@tools/setup compare
	bench/compare '$(OLD)' '$(NEW)' $(if $(ROWS),--rows '$(ROWS)') $(if $(ROUNDS),--rounds '$(ROUNDS)')

# The same tests under AddressSanitizer with UndefinedBehaviorSanitizer, under ThreadSanitizer, and
# some under valgrind.
sanitize: asan tsan valgrind

asan:
	@tools/setup asan
	@tools/configure build-asan -Db_sanitize=address,undefined $(SANITIZED)
	$(NINJA) build-asan
	tools/run-tests build-asan

tsan:
	@tools/setup tsan
	@tools/configure build-tsan -Db_sanitize=thread $(SANITIZED)
	$(NINJA) build-tsan
	tools/run-tests build-tsan

# Finds reads of uninitialised memory, which no sanitizer above sees. valgrind does not know
# io_uring well enough, and is too slow for tests with millions of operations.
valgrind:
	@tools/setup valgrind
	@tools/configure $(BUILD)
	$(NINJA) $(BUILD)
	tools/run-valgrind $(BUILD)

# The same tests, stopped for a moment now and then, as a busy machine stops them: finds tests that
# depend on how long something takes.
stalls:
	@tools/setup test
	@tools/configure $(BUILD)
	$(NINJA) $(BUILD)
	tools/run-tests $(BUILD) tests/stall

# Builds the site from the Markdown pages, the header and the types.
docs:
	@tools/setup docs
	tools/make-docs . $(BUILD)/site

# Records the README's picture again.
pictures: all
	tools/record docs/runaway.svg --columns 84 --show "orrery runaway.lua" -- $(BUILD)/orrery docs/runaway.lua

# Takes PREFIX, also for a build that was set up with another, and DESTDIR.
install:
	@tools/setup install
	@tools/configure $(BUILD)
	$(if $(PREFIX),meson configure $(BUILD) --prefix=$(abspath $(PREFIX)))
	$(NINJA) $(BUILD)
	meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))
	$(if $(DESTDIR),,tools/after-install $$(pkg-config --variable=libdir $(BUILD)/meson-private/orrery.pc))

# Builds the Debian packages in build/deb.
deb:
	@tools/setup deb
	tools/build-deb $(BUILD)/deb

# Builds the rock, the module for a stock Lua, into the tree build/rock, and tests it there.
rock:
	@tools/setup rock
	tools/build-rock $(BUILD)/rock

format:
	@tools/setup format
	tools/sources | xargs clang-format -i

format-check:
	@tools/setup format
	tools/sources | xargs clang-format --dry-run --Werror

lint:
	@tools/setup lint
	@tools/configure $(BUILD)
	$(NINJA) $(BUILD)
	luacheck -q lua tests/differential tests/lua tests/memory tests/module tests/runner examples docs
	tools/check-layers $(BUILD)
	tools/check-width
	tools/check-exports $(BUILD)
	tools/sources src examples/game examples/hosts examples/plugins | grep '\.c$$' | xargs clang-tidy --quiet -p $(BUILD)

# Builds, tests and packages Orrery in a new Debian 12, as root and as an ordinary user; needs root.
# ONLY=pattern tries some of it.
check-fresh:
	@tools/setup fresh
	tools/check-fresh $(BUILD)/fresh '$(ONLY)'

clean:
	rm -rf build build-asan build-compare build-tsan build-rock
