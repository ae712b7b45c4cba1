/*
 * A host with an asynchronous function: `primes(n)` counts on a thread, and scripts simply call it.
 * The task that calls it is suspended, and the others go on.
 */
#include <orrery.h>

#include <lauxlib.h>
#include <lua.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char script[] = "local async = require('orrery').async\n"
                             "local counting = async.run('counting', function() return primes(2000000) end)\n"
                             "local ticks = async.run('ticking', function()\n"
                             "  local n = 0\n"
                             "  while counting:status() ~= 'completed' do n = n + 1; async.sleep(10) end\n"
                             "  return n\n"
                             "end)\n"
                             "print(async.await(counting) .. ' primes, and the clock went on ticking: ' ..\n"
                             "      tostring(async.await(ticks) > 0))\n";

struct count {
    long below, primes;
    struct orr_future *future;
};

static void *count_primes(void *data)
{
    struct count *count = data;
    for (long n = 2; n < count->below; n++) {
        long d = 2;
        while (d <= n / d && n % d)
            d++;
        count->primes += d > n / d;
    }
    orr_future_complete(count->future, (struct orr_result){ .value = count, .drop = free });
    orr_future_unref(count->future);
    return NULL;
}

/* Begins the work: the script's arguments are on the stack from `first` on. */
static int primes_start(lua_State *L, struct orr_future *future, int first)
{
    long below = (long)luaL_checkinteger(L, first); /* if it raises, there is nothing to free yet */
    struct count *count = malloc(sizeof *count);
    pthread_t thread;
    if (!count)
        return -ENOMEM;
    *count = (struct count){ .below = below, .future = orr_future_ref(future) };
    int error = pthread_create(&thread, NULL, count_primes, count);
    if (error) {
        orr_future_unref(future);
        free(count);
        return -error;
    }
    return -pthread_detach(thread);
}

/* Pushes the results of the call when the future is completed. */
static int primes_push(lua_State *L, const struct orr_result *result)
{
    lua_pushinteger(L, ((struct count *)result->value)->primes);
    return 1;
}

int main(void)
{
    struct orr_runtime *rt = orr_runtime_new(NULL);
    lua_State *L;
    if (!rt || orr_lua_new(rt, &(struct orr_lua_options){ .profile = ORR_LUA_TRUSTED }, &L))
        return 1;
    orr_lua_push_async(L, primes_start, primes_push);
    lua_setglobal(L, "primes");
    if (luaL_loadstring(L, script) != LUA_OK || orr_lua_start(L, 0, "script", NULL))
        return 1;
    orr_runtime_run(rt);
    orr_lua_close(L);
    return orr_runtime_free(rt) ? 1 : 0;
}
