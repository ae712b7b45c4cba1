/*
 * A host with a function that takes time: `primes(n)` counts on a thread, and scripts simply call
 * it.  The task that calls it is suspended, and the others go on.  If that task is cancelled, the
 * thread finds that nobody wants its answer any more, and stops.
 */
#include <orrery.h>

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
    int64_t below;
    struct orr_reply *reply;
};

static void *count_primes(void *data)
{
    struct count count = *(struct count *)data;
    int64_t primes = 0;
    for (int64_t n = 2; n < count.below && orr_reply_wanted(count.reply); n++) {
        int64_t d = 2;
        while (d <= n / d && n % d)
            d++;
        primes += d > n / d;
    }
    struct orr_value answer = orr_value_integer(primes);
    orr_reply_send(count.reply, &answer, 1); /* frees `data`, too */
    return NULL;
}

/* Begins the work. */
static int primes(void *data, struct orr_call *call, struct orr_reply *reply)
{
    (void)data;
    if (call->count != 1 || call->arguments[0].type != ORR_INTEGER)
        return orr_call_fail(call, -EINVAL, "expected an integer");
    struct count *count = malloc(sizeof *count);
    pthread_t thread;
    if (!count)
        return -ENOMEM;
    *count = (struct count){ .below = call->arguments[0].integer, .reply = reply };
    orr_reply_attach(reply, count, free);
    int error = pthread_create(&thread, NULL, count_primes, count);
    if (!error)
        pthread_detach(thread);
    return -error;
}

int main(void)
{
    struct lua_State *L;
    struct orr_runtime *rt = orr_runtime_new(NULL);
    if (!rt || orr_lua_new(rt, NULL, &L))
        return 1;
    if (orr_lua_set_async(L, "primes", &(struct orr_async){ .start = primes }) ||
        orr_lua_load(L, &(struct orr_lua_source){ .name = "script", .text = script }) ||
        orr_lua_start(L, 0, "script", NULL))
        return 1;
    orr_runtime_run(rt);
    orr_lua_close(L);
    return orr_runtime_free(rt) ? 1 : 0;
}
