#include "lua/host/host_call.h"

#include "lua/host/value.h"
#include "lua/isolate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FEW_ARGUMENTS = 8 };

void host_call_format(char *message, size_t size, const char *format, va_list arguments)
{
    if ((size_t)vsnprintf(message, size, format, arguments) >= size)
        memcpy(message + size - sizeof "...", "...", sizeof "...");
}

int orr_call_fail(struct orr_call *call, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    host_call_format(call->message, sizeof call->message, format, arguments);
    va_end(arguments);
    return error;
}

int host_call_raise(lua_State *L, const char *path, const struct orr_call *call, int error)
{
    return luaL_error(L, "%s: %s", path, *call->message ? call->message : strerror(error < 0 ? -error : error));
}

int host_call_run(struct orr_isolate *iso, lua_State *L, int first, struct orr_call *call, host_call_fn *fn, void *data)
{
    struct orr_value few[FEW_ARGUMENTS];
    struct alloc alloc = charge_alloc(iso);
    size_t count = (size_t)(lua_gettop(L) - first + 1);
    size_t size = count * sizeof *few;
    struct orr_value *arguments = count <= FEW_ARGUMENTS ? few : alloc_new(&alloc, size);
    if (!arguments)
        return -ENOMEM;
    int error = value_copy_all(iso, L, first, count, true, arguments);
    if (error == -ELOOP || error == -EFBIG)
        orr_call_fail(call, error, "an argument is %s", error == -ELOOP ? "nested too deep" : "too large");
    if (!error) {
        call->arguments = arguments;
        call->count = count;
        execution_begin_call(&iso->execution);
        error = fn(data, iso, L, call);
        execution_end_call(&iso->execution);
        value_return_all(arguments, count);
    }
    if (arguments != few)
        alloc_free(&alloc, arguments, size);
    return error;
}
