#include "lua/api/open_objects.h"

#include "base/list.h"
#include "lua/api/primitive.h"
#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/limits/stack_trace.h"
#include "lua/task/script.h"

#include <errno.h>

/* --- The account ------------------------------------------------------------------------------ */

/*
 * Runs no collector: the core is in the middle of an operation.  At the limit the operation fails,
 * and the script goes on: a peer that sends much must not end it.
 */
static int charge(void *data, size_t bytes)
{
    struct orr_isolate *iso = data;
    if (!charge_has_room(iso, bytes))
        return -ENOMEM;
    charge_force(iso, bytes);
    return 0;
}

static void uncharge(void *data, size_t bytes)
{
    charge_give(data, bytes);
}

void open_objects_init(struct orr_isolate *iso)
{
    list_init(&iso->opened.open);
    iso->opened.account = (struct orr_account){ .charge = charge, .uncharge = uncharge, .data = iso };
}

struct orr_open open_object_options(const struct open_object *object)
{
    struct orr_isolate *iso = object->iso;
    return (struct orr_open){ .account = &iso->opened.account, .label = object->label, .gate = iso->gate };
}

const struct orr_account *open_objects_account(const struct orr_isolate *iso)
{
    return &iso->opened.account;
}

int open_objects_check(const struct orr_isolate *iso, unsigned more)
{
    unsigned most = iso->limits.max_sockets, count = iso->opened.count;
    return most && (count >= most || more > most - count) ? -EDQUOT : 0;
}

/* --- The life of an object -------------------------------------------------------------------- */

void open_object_init(struct open_object *object, struct orr_isolate *iso, const struct open_class *class, lua_State *L)
{
    list_init(&object->in_isolate);
    object->class = class;
    object->iso = iso;
    if (iso->opened.ended)
        luaL_error(L, "cannot open a %s: this Lua state is being closed", class->kind ? class->kind : "network");
    object->script = script_running(iso);
    if (!iso->debug)
        return;
    stack_trace_push_location(L, L, 1);
    object->label = charge_copy(iso, lua_tostring(L, -1));
    lua_pop(L, 1);
}

static void count(struct open_object *object, bool counted)
{
    if (object->counted == counted)
        return;
    object->counted = counted;
    object->iso->opened.count += counted ? 1U : -1U;
}

int open_object_reserve(struct open_object *object)
{
    int error = open_objects_check(object->iso, 1);
    if (!error)
        count(object, true);
    return error;
}

void open_object_share(struct open_object *object)
{
    object->shared = true;
    object->script = 0;
    charge_free_text(object->iso, &object->label);
}

void open_object_opened(struct open_object *object)
{
    list_append(&object->iso->opened.open, &object->in_isolate);
    count(object, !object->shared);
}

void open_object_closed(struct open_object *object)
{
    list_remove(&object->in_isolate);
    count(object, false);
}

static void report_open(const struct open_object *object)
{
    char text[ORR_ADDRESS_TEXT];
    object->class->describe(object, text, sizeof text);
    log_line(&object->iso->log, ORR_LOG_WARNING, "a %s (%s), opened at %s, was collected while it was open",
             object->class->kind, text, object->label);
}

int open_object_finalize(lua_State *L, const char *class, struct open_object *object)
{
    struct orr_isolate *iso = isolate_of(L);
    int error = isolate_visit(iso);
    if (error)
        return primitive_ended(L, class, error);
    if (object->label && object->class->kind && !list_empty(&object->in_isolate) && !iso->closing)
        report_open(object);
    open_object_closed(object);
    object->class->free(object);
    isolate_leave(iso);
    charge_free_text(iso, &object->label);
    return primitive_ended(L, class, 0);
}

/* --- All of them ------------------------------------------------------------------------------ */

void open_objects_close(struct orr_isolate *iso, uint32_t script)
{
    struct orr_link *head = &iso->opened.open;
    if (list_empty(head) || isolate_visit(iso))
        return;
    for (struct orr_link *link = head->next, *next; link != head; link = next) {
        next = link->next;
        struct open_object *object = container_of(link, struct open_object, in_isolate);
        if (object->script == script && !object->shared)
            object->class->close(object);
    }
    isolate_leave(iso);
}

void open_objects_end(struct orr_isolate *iso)
{
    iso->opened.ended = true;
    while (!list_empty(&iso->opened.open)) {
        struct open_object *object = container_of(iso->opened.open.next, struct open_object, in_isolate);
        open_object_closed(object);
        object->class->free(object);
    }
}

static void set_text(lua_State *L, const char *key, const char *text)
{
    if (!text)
        return;
    lua_pushstring(L, text);
    lua_setfield(L, -2, key);
}

void open_objects_list(struct orr_isolate *iso, lua_State *L, uint32_t script)
{
    struct orr_link *head = &iso->opened.open;
    for (struct orr_link *link = head->next; link != head; link = link->next) {
        const struct open_object *object = container_of(link, struct open_object, in_isolate);
        if (object->script != script || object->shared || !object->class->kind)
            continue;
        char text[ORR_ADDRESS_TEXT];
        object->class->describe(object, text, sizeof text);
        lua_createtable(L, 0, 3);
        set_text(L, "kind", object->class->kind);
        set_text(L, "name", text);
        set_text(L, "created", object->label);
        lua_rawseti(L, -2, luaL_len(L, -2) + 1);
    }
}
