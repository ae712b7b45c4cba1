// The header in C++: all of it compiles without a warning, and what is used here links and runs.
// Designated initialisers are not part of C++17, so options are set field by field.
#include <orrery.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

static int failures;

static void expect(bool fine, const char *what)
{
    std::printf("%s: %s\n", fine ? "ok" : "FAILED", what);
    failures += !fine;
}

struct sleeper {
    struct orr_wait wait;
    unsigned polls;
    bool dropped;
};

static enum orr_poll sleep_a_second(struct orr_task *task, void *data)
{
    sleeper *self = static_cast<sleeper *>(data);
    self->polls++;
    int error = orr_sleep(task, &self->wait, UINT64_C(1000000000));
    if (error == -EAGAIN)
        return ORR_PENDING;
    return orr_task_fail(task, error);
}

int main()
{
    char version[32];
    std::snprintf(version, sizeof version, "%d.%d.%d", ORR_VERSION_MAJOR, ORR_VERSION_MINOR, ORR_VERSION_PATCH);
    expect(!std::strcmp(orr_version(), version), "the version is the header's");

    struct orr_options options = {};
    options.clock = ORR_CLOCK_VIRTUAL;
    struct orr_runtime *rt = orr_runtime_new(&options);
    expect(rt, "a runtime is made");

    sleeper self = {};
    struct orr_spawn what = {}; // the function has the same name: "struct" tells them apart
    what.poll = sleep_a_second;
    what.data = &self;
    what.drop = [](void *data) { static_cast<sleeper *>(data)->dropped = true; };
    what.name = "sleeper";
    uint64_t before = orr_runtime_now(rt);
    expect(orr_spawn(rt, &what) == 0, "a task is made");
    expect(orr_runtime_run(rt) == 0, "the runtime runs");
    expect(orr_runtime_now(rt) - before >= UINT64_C(1000000000), "a second has passed");
    expect(self.polls >= 2 && self.dropped, "the task has been polled, and dropped by a lambda");

    struct lua_State *L = nullptr;
    struct orr_lua_options lua_options = {};
    lua_options.mount = "host";
    lua_options.deadline_ns[ORR_LUA_HANDLER] = 50000000;
    expect(orr_lua_new(rt, &lua_options, &L) == 0, "a Lua state is made");
    struct orr_lua_source source = {};
    source.text = "host.async.sleep(1000)";
    expect(orr_lua_load(L, &source) == 0 && orr_lua_start(L, 0, "script", nullptr) == 0, "a script is started");
    expect(orr_runtime_run(rt) == 0, "and runs");
    expect(orr_lua_close(L) == 0 && orr_runtime_free(rt) == 0, "all is closed");
    return failures != 0;
}
