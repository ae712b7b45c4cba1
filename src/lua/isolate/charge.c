#include "lua/isolate/charge.h"

#include "lua/isolate.h"
#include "lua/isolate/quota.h"
#include "lua/limits/budget.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

enum {
    CHUNK_MIN = 16 << 10,
    CHUNK_MAX = 256 << 10,
    CHUNKS = 256,       /* of the limit */
    TELL = 16 << 10,    /* the collector is told of so much at a time */
    OVERDRAFT = 2,      /* times the limit may be in use, for a moment */
    PATIENCE_SHARE = 8, /* of the limit: how far the next error is from the last */
    COLLECT_SHARE = 32, /* of the limit: what must have been allocated between two collections */
    PLAIN_SHARE = 32,   /* of the limit: what plain code of the host's may overdraw between two slices */
};

/* --- Drawing from the quota ------------------------------------------------------------------------------------------------ */

static size_t chunk_of(const struct quota *quota)
{
    size_t chunk = quota->limit / CHUNKS;
    return chunk < CHUNK_MIN ? CHUNK_MIN : chunk > CHUNK_MAX ? CHUNK_MAX : chunk;
}

static bool take(const struct charge *charge, size_t bytes)
{
    return charge->own ? quota_take_own(charge->quota, bytes) : quota_take(charge->quota, bytes);
}

/* How much more a total needs than the isolate has. */
static size_t missing(const struct charge *charge, size_t total)
{
    size_t has = charge->drawn + charge->overdrawn;
    return charge->quota && total > has ? total - has : 0;
}

/* Draws up to a total, and if it can a little more.  False if there is not as much. */
static bool draw(struct charge *charge, size_t total)
{
    size_t need = missing(charge, total);
    if (!need)
        return true;
    size_t chunk = chunk_of(charge->quota);
    size_t more = (need + chunk - 1) / chunk * chunk;
    if (!take(charge, more)) {
        more = need;
        if (!take(charge, more))
            return false;
    }
    charge->drawn += more;
    return true;
}

static bool overdraw(struct charge *charge, size_t total, bool force)
{
    size_t need = missing(charge, total);
    if (!quota_overdraw(charge->quota, need, force))
        return false;
    charge->overdrawn += need;
    return true;
}

/* What was overdrawn is given back as far as it is not in use, and drawn if there is room for it by now. */
static void repay(struct orr_isolate *iso)
{
    struct charge *charge = &iso->charge;
    size_t excess = charge->drawn + charge->overdrawn - iso->memory.used;
    size_t unused = excess < charge->overdrawn ? excess : charge->overdrawn;
    quota_repay(charge->quota, unused);
    charge->overdrawn -= unused;
    if (charge->overdrawn && take(charge, charge->overdrawn)) {
        charge->drawn += charge->overdrawn;
        quota_repay(charge->quota, charge->overdrawn);
        charge->overdrawn = 0;
    }
}

/* The allocator is not to take more than is drawn without a look. */
static void limit_credit(struct orr_isolate *iso)
{
    struct memory_account *account = &iso->memory;
    size_t room = charge_room(iso);
    if (account->credit <= room)
        return;
    account->given -= account->credit - room;
    account->credit = room;
}

/* Gives back what is not in use, but for so much, if it is more than twice that.  False if there was nothing. */
static bool trim(struct orr_isolate *iso, size_t slack)
{
    struct charge *charge = &iso->charge;
    size_t had = charge->drawn + charge->overdrawn, kept = iso->memory.used + slack;
    if (charge->overdrawn)
        repay(iso);
    if (!charge->overdrawn && charge->drawn > kept + slack) {
        quota_give(charge->quota, charge->drawn - kept);
        charge->drawn = kept;
    }
    size_t has = charge->drawn + charge->overdrawn;
    limit_credit(iso);
    return has < had;
}

static void give_back(struct orr_isolate *iso)
{
    if (iso->charge.quota)
        trim(iso, chunk_of(iso->charge.quota));
}

/* --- For the account ---------------------------------------------------------------------------------------------------------- */

bool charge_overdraws_plainly(const struct orr_isolate *iso, size_t more)
{
    size_t total = iso->memory.used + more;
    return !iso->execution.level &&
           (iso->closing || (total <= iso->charge.plain && total / OVERDRAFT <= iso->limits.memory));
}

/*
 * At the limit, Lua is not refused what it asks for: it would collect its garbage then and there, and up to 5.4.7 there are stores into
 * tables that this pulls the ground from under.  Instead the hook is asked for (budget.h), which at the next instruction collects, and
 * raises the error if that has not helped.  One instruction, or one C function of ours, can overdraw the account; what goes beyond twice
 * the limit is refused after all.
 *
 * In plain code of the host's no hook looks.  It may overdraw a little, for what it needs to call Lua, which is told at its first
 * instruction, and what closes the state may at any rate: refused, each such call would be a whole collection in one piece.
 */
bool charge_may_have(struct orr_isolate *iso, size_t more)
{
    struct charge *charge = &iso->charge;
    size_t limit = iso->limits.memory;
    size_t total = iso->memory.used + more;
    if (!limit)
        return true;
    if (charge->reports) {
        charge_cover(iso, more);
        return true;
    }
    if (more <= limit && total <= iso->memory.next && draw(charge, total))
        return true;
    if (charge_overdraws_plainly(iso, more)) {
        charge_cover(iso, more);
        return true;
    }
    if (more > limit || total / OVERDRAFT > limit)
        return false;
    bool told = total <= charge->patience;
    return (told || budget_ask_for_memory(iso)) && overdraw(charge, total, false);
}

size_t charge_room(const struct orr_isolate *iso)
{
    size_t has = iso->charge.drawn + iso->charge.overdrawn;
    return !iso->charge.quota ? SIZE_MAX : has > iso->memory.used ? has - iso->memory.used : 0;
}

void charge_cover(struct orr_isolate *iso, size_t more)
{
    size_t total = iso->memory.used + more;
    if (!draw(&iso->charge, total))
        overdraw(&iso->charge, total, true);
}

/* The next error is some way off: or what cleans up after this one would be made to collect again and again. */
bool charge_settle(struct orr_isolate *iso)
{
    struct charge *charge = &iso->charge;
    size_t limit = iso->limits.memory;
    give_back(iso);
    charge->patience = iso->memory.used + limit / PATIENCE_SHARE;
    iso->memory.next = charge->patience > limit ? charge->patience : limit;
    return iso->memory.used > limit || charge->overdrawn;
}

void charge_end_slice(struct orr_isolate *iso)
{
    struct charge *charge = &iso->charge;
    if (iso->memory.next > iso->limits.memory && iso->memory.used < iso->limits.memory / 8 * 7)
        iso->memory.next = iso->limits.memory;
    give_back(iso);
    if (!charge->overdrawn)
        charge->patience = 0;
    charge->plain = iso->memory.used + iso->limits.memory / PLAIN_SHARE;
}

void charge_close(struct orr_isolate *iso)
{
    quota_give(iso->charge.quota, iso->charge.drawn);
    quota_repay(iso->charge.quota, iso->charge.overdrawn);
    iso->charge = (struct charge){ 0 };
}

/* --- For what C holds ------------------------------------------------------------------------------------------------------------ */

static void count(struct orr_isolate *iso, size_t bytes)
{
    iso->memory.used += bytes;
    if (iso->memory.used > iso->memory.peak)
        iso->memory.peak = iso->memory.used;
    limit_credit(iso);
}

/* As if Lua had allocated as much. */
void charge_tell(struct orr_isolate *iso, size_t bytes)
{
    size_t untold = iso->charge.untold + bytes;
    iso->charge.untold = untold;
    if (untold < TELL)
        return;
    iso->charge.untold = 0;
    if (iso->collector.managed)
        collector_hear(iso, untold);
    else
        lua_gc(iso->execution.running, LUA_GCSTEP, (int)(untold >> 10 < INT_MAX ? untold >> 10 : INT_MAX));
}

/* In plain code of the host's no hook will look: it is collected here. */
static bool may_have_after_all(struct orr_isolate *iso, size_t bytes)
{
    if (iso->execution.level && iso->limits.mode != ORR_LUA_OFF)
        return false;
    return charge_collect(iso, iso->execution.running) && charge_may_have(iso, bytes);
}

int charge_take(struct orr_isolate *iso, size_t bytes)
{
    if (!charge_may_have(iso, bytes) && !may_have_after_all(iso, bytes))
        return -ENOMEM;
    count(iso, bytes);
    charge_tell(iso, bytes);
    return 0;
}

void charge_force(struct orr_isolate *iso, size_t bytes)
{
    struct charge *charge = &iso->charge;
    charge_cover(iso, bytes);
    count(iso, bytes);
    charge->untold += bytes;
}

void charge_give(struct orr_isolate *iso, size_t bytes)
{
    iso->memory.used -= bytes;
}

static void *resize(void *data, void *block, size_t old_size, size_t size)
{
    struct orr_isolate *iso = data;
    old_size = block ? old_size : 0;
    if (size > old_size) {
        size_t more = size - old_size;
        if (!charge_may_have(iso, more))
            return NULL;
    }
    void *result = alloc_resize(&iso->alloc, block, old_size, size);
    if (!result && size)
        return NULL;
    iso->memory.used -= old_size;
    count(iso, size);
    iso->charge.untold += size > old_size ? size - old_size : 0;
    return result;
}

struct alloc charge_alloc(struct orr_isolate *iso)
{
    return (struct alloc){ .fn = resize, .data = iso };
}

char *charge_copy(struct orr_isolate *iso, const char *text)
{
    struct alloc alloc = charge_alloc(iso);
    return text ? alloc_copy(&alloc, text) : NULL;
}

void charge_free_text(struct orr_isolate *iso, char **text)
{
    struct alloc alloc = charge_alloc(iso);
    if (*text)
        alloc_free(&alloc, *text, strlen(*text) + 1);
    *text = NULL;
}

/* Whether enough has been allocated since the last time. */
static bool may_help(const struct orr_isolate *iso)
{
    const struct charge *charge = &iso->charge;
    return !charge->collected_at || iso->memory.used >= charge->collected_at + iso->limits.memory / COLLECT_SHARE;
}

bool charge_collect(struct orr_isolate *iso, lua_State *L)
{
    struct charge *charge = &iso->charge;
    bool trimmed = trim(iso, 0);
    if (!may_help(iso))
        return trimmed;
    if (iso->collector.managed && iso->execution.level) { /* for a slice's time: what is left is done in later turns */
        collector_force(iso, 2);
        collector_pay_anyway(iso, iso->limits.slice_ns);
    } else {
        lua_gc(L, LUA_GCCOLLECT);
    }
    trim(iso, 0);
    charge->collected_at = iso->memory.used;
    return true;
}

bool charge_collects(struct orr_isolate *iso)
{
    bool trimmed = trim(iso, 0);
    if (!may_help(iso) || !iso->collector.managed)
        return trimmed;
    collector_force(iso, 2);
    return true;
}

void charge_collected(struct orr_isolate *iso)
{
    trim(iso, 0);
    iso->charge.collected_at = iso->memory.used;
}

size_t charge_overdraw_begin(struct orr_isolate *iso)
{
    size_t before = iso->charge.patience;
    iso->charge.patience = SIZE_MAX;
    return before;
}

void charge_overdraw_end(struct orr_isolate *iso, size_t before)
{
    iso->charge.patience = before;
}

int charge_raise(lua_State *L)
{
    lua_pushliteral(L, "not enough memory"); /* which every state has: it is not made */
    return lua_error(L);
}
