#include "lua/host/reply.h"

#include "lua/host/host_call.h"
#include "lua/host/value.h"

#include <errno.h>
#include <string.h>

enum { MAX_CALLS = 10000 };

/* --- The function ----------------------------------------------------------------------------- */

static size_t function_size(const char *path)
{
    return sizeof(struct async_function) + strlen(path) + 1;
}

struct async_function *async_function_new(const struct alloc *alloc, const char *path, const struct orr_async *what)
{
    struct async_function *function = alloc_zeroed(alloc, function_size(path));
    if (!function)
        return NULL;
    function->alloc = *alloc;
    function->what = *what;
    function->references = 1;
    if (!function->what.max_calls)
        function->what.max_calls = MAX_CALLS;
    strcpy(function->path, path);
    return function;
}

void async_function_unref(struct async_function *function, bool drop)
{
    /* Release and acquire: every use of the function and its data happens before they are freed. */
    if (atomic_fetch_sub_explicit(&function->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = function->alloc;
    if (drop && function->what.drop)
        function->what.drop(function->what.data);
    alloc_free(&alloc, function, function_size(function->path));
}

/* --- The reply -------------------------------------------------------------------------------- */

int reply_new(struct orr_runtime *rt, struct async_function *function, struct orr_reply **out)
{
    /* Only this thread adds calls; a reply on another thread makes the number smaller. */
    if (atomic_load_explicit(&function->open, memory_order_relaxed) >= function->what.max_calls)
        return -EAGAIN;
    struct orr_reply *reply = alloc_zeroed(&function->alloc, sizeof *reply);
    if (!reply)
        return -ENOMEM;
    int error = orr_future_new(rt, &(struct orr_future_options){ .foreign = true }, &reply->future);
    if (error) {
        alloc_free(&function->alloc, reply, sizeof *reply);
        return error;
    }
    reply->alloc = function->alloc;
    reply->function = function;
    reply->references = 2;
    atomic_fetch_add_explicit(&function->references, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&function->open, 1, memory_order_relaxed);
    *out = reply;
    return 0;
}

static void reply_unref(struct orr_reply *reply)
{
    /* Release and acquire: what either side did with the reply happens before it is freed. */
    if (atomic_fetch_sub_explicit(&reply->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = reply->alloc;
    if (reply->drop)
        reply->drop(reply->attached);
    value_clone_free(reply->values, reply->count);
    orr_future_unref(reply->future);
    async_function_unref(reply->function, true);
    alloc_free(&alloc, reply, sizeof *reply);
}

bool reply_has_come(const struct orr_reply *reply)
{
    return orr_future_result(reply->future);
}

/* The host's side is done with the reply. */
static void host_lets_go(struct orr_reply *reply)
{
    atomic_fetch_sub_explicit(&reply->function->open, 1, memory_order_relaxed);
    orr_future_complete(reply->future, (struct orr_result){ 0 });
    reply_unref(reply);
}

void reply_refuse(struct orr_reply *reply)
{
    if (!reply_has_come(reply))
        host_lets_go(reply);
}

void reply_leave(struct orr_reply *reply)
{
    const struct orr_async *what = &reply->function->what;
    if (!reply_has_come(reply)) {
        atomic_store_explicit(&reply->abandoned, true, memory_order_relaxed);
        if (what->cancel)
            what->cancel(what->data, reply);
    }
    reply_unref(reply);
}

/* --- The host's API --------------------------------------------------------------------------- */

bool orr_reply_wanted(const struct orr_reply *reply)
{
    return reply && !atomic_load_explicit(&reply->abandoned, memory_order_relaxed);
}

int orr_reply_attach(struct orr_reply *reply, void *what, void (*drop)(void *what))
{
    if (!reply || !what)
        return -EINVAL;
    if (reply->attached)
        return -EALREADY;
    reply->attached = what;
    reply->drop = drop;
    return 0;
}

void *orr_reply_attached(const struct orr_reply *reply)
{
    return reply ? reply->attached : NULL;
}

static void __attribute__((format(printf, 3, 4))) set_error(struct orr_reply *reply, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    reply->error = error;
    host_call_format(reply->message, sizeof reply->message, format, arguments);
    va_end(arguments);
}

int orr_reply_send(struct orr_reply *reply, const struct orr_value *values, size_t count)
{
    if (!reply)
        return -EINVAL;
    int error = -ECANCELED;
    if (orr_reply_wanted(reply)) {
        error = value_clone_all(&reply->alloc, values, count, &reply->values);
        if (error)
            set_error(reply, error, "it replied with a value that cannot be converted to Lua: %s", strerror(-error));
        else
            reply->count = count;
    }
    host_lets_go(reply);
    return error;
}

int orr_reply_fail(struct orr_reply *reply, int error, const char *format, ...)
{
    if (!reply)
        return -EINVAL;
    bool wanted = orr_reply_wanted(reply);
    va_list arguments;
    va_start(arguments, format);
    reply->error = error < 0 ? error : -EIO;
    if (format)
        host_call_format(reply->message, sizeof reply->message, format, arguments);
    va_end(arguments);
    host_lets_go(reply);
    return wanted ? 0 : -ECANCELED;
}
