rockspec_format = "3.0"
package = "orrery"
version = "0.1.0-1"
-- The project has no public address yet, so this rock is built in a clone: `luarocks make`.  Whoever
-- publishes it names the archive of the release here, and adds description.homepage and .maintainer.
source = {
  url = "git+file://.",
}
description = {
  summary = "Structured concurrency: tasks, timers, events and worker threads, that cannot freeze their host",
  detailed = [[
    `require "orrery"` in a stock Lua 5.4: async tasks in a tree, cancellation, time limits, timers, events, queues and
    semaphores, jobs on other threads; driven by `orrery.run(fn, ...)`.
  ]],
  license = "MIT",
}
supported_platforms = { "linux" }
dependencies = { "lua ~> 5.4" }
external_dependencies = {
  LIBURING = { header = "liburing.h" },
}
build = { -- with Meson and Ninja; Lua's headers are found by pkg-config, as lua5.4
  type = "command",
  build_command = "meson setup build-rock -Dprogram=false -Dtests=false && ninja -C build-rock src/module/orrery.so",
  install_command = "install -D -m 755 build-rock/src/module/orrery.so $(LIBDIR)/orrery.so",
}
test = {
  type = "command",
  command = "tests/check-module . build-rock",
}
