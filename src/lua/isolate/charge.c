#include "lua/isolate/charge.h"

#include "lua/isolate.h"
#include "lua/isolate/account.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/memory_alarm.h"
#include "lua/isolate/memory_lack.h"
#include "lua/isolate/quota.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

enum {
    CHUNK_MIN = 16 << 10,
    CHUNK_MAX = 256 << 10,
    CHUNKS = 256,         /* a chunk is the limit divided by this, between the two above */
    TELL = 16 << 10,      /* bytes charged between two reports to the collector */
    OVERDRAFT = 2,        /* times the limit that may be in use for a moment */
    NEXT_ERROR_SHARE = 8, /* memory grows by the limit divided by this between two errors */
    /* The limit divided by this must be allocated between two collections */
    COLLECT_SHARE = 32,
    /* Plain code of the host may overdraw by the limit divided by this, between two slices */
    HOST_SHARE = 32,
};

/* --- Drawing from the quota ------------------------------------------------------------------- */

void charge_open(struct charge *self, struct quota *quota, bool for_script)
{
    self->quota = quota;
    self->for_script = for_script;
}

static size_t chunk_of(const struct quota *quota)
{
    size_t chunk = quota->limit / CHUNKS;
    return chunk < CHUNK_MIN ? CHUNK_MIN : chunk > CHUNK_MAX ? CHUNK_MAX : chunk;
}

static bool take(const struct charge *charge, size_t bytes)
{
    return charge->for_script ? quota_take_own(charge->quota, bytes) : quota_take(charge->quota, bytes);
}

/* Bytes by which a total exceeds what the isolate has drawn and overdrawn. */
static size_t missing(const struct charge *charge, size_t total)
{
    size_t has = charge->drawn + charge->overdrawn;
    return charge->quota && total > has ? total - has : 0;
}

/* The end of the slice has something to do. */
static void unsettle(struct charge *charge)
{
    charge->settled_used = SIZE_MAX;
}

/*
 * Draws up to a total, and rounds up to whole chunks if it can.  False if the quota has too little.
 */
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
    unsettle(charge);
    return true;
}

static bool overdraw(struct charge *charge, size_t total, bool force)
{
    size_t need = missing(charge, total);
    if (!quota_overdraw(charge->quota, need, force))
        return false;
    charge->overdrawn += need;
    unsettle(charge);
    return true;
}

/*
 * Gives back overdrawn bytes that are not in use.  Draws the rest from the quota, if it has room by
 * now.
 */
static void repay(struct orr_isolate *iso)
{
    struct charge *charge = &iso->charge;
    size_t excess = charge->drawn + charge->overdrawn - account_used(&iso->account);
    size_t unused = excess < charge->overdrawn ? excess : charge->overdrawn;
    quota_repay(charge->quota, unused);
    charge->overdrawn -= unused;
    unsettle(charge);
    if (charge->overdrawn && take(charge, charge->overdrawn)) {
        charge->drawn += charge->overdrawn;
        quota_repay(charge->quota, charge->overdrawn);
        charge->overdrawn = 0;
    }
}

/* The allocator must not take more than is drawn without a check. */
static void limit_credit(struct orr_isolate *iso)
{
    account_limit_credit(&iso->account, charge_room(iso));
}

/*
 * Gives back all unused drawn bytes but `slack`, if there are more than twice `slack`.  False if
 * nothing was given back.
 */
static bool trim(struct orr_isolate *iso, size_t slack)
{
    struct charge *charge = &iso->charge;
    size_t had = charge->drawn + charge->overdrawn, kept = account_used(&iso->account) + slack;
    if (charge->overdrawn)
        repay(iso);
    if (!charge->overdrawn && charge->drawn > kept + slack) {
        quota_give(charge->quota, charge->drawn - kept);
        charge->drawn = kept;
        unsettle(charge);
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

/* --- For the allocator ------------------------------------------------------------------------ */

bool charge_host_may_overdraw(const struct orr_isolate *iso, size_t more)
{
    size_t total = account_used(&iso->account) + more;
    return !execution_level(&iso->execution) &&
           (iso->closing || (total <= iso->charge.host_overdraft && total / OVERDRAFT <= iso->limits.memory));
}

/*
 * At the limit Lua's request is not refused (memory.h says why).  Instead the alarm is raised, and
 * one instruction, or one C function of the library, may overdraw the account.  A request beyond
 * twice the limit is refused.
 *
 * In plain code of the host no hook runs.  That code may overdraw a little, for what it needs to
 * call Lua, which is told at its first instruction.  Code that closes the state may always
 * overdraw.  Each refusal of such a request would cause a full collection in one piece.
 */
bool charge_may_have(struct orr_isolate *iso, size_t more)
{
    struct charge *charge = &iso->charge;
    size_t limit = iso->limits.memory;
    size_t total = account_used(&iso->account) + more;
    if (!limit)
        return true;
    if (charge->writes_report) {
        charge_cover(iso, more);
        return true;
    }
    if (more <= limit && total <= account_look_at(&iso->account) && draw(charge, total))
        return true;
    if (charge_host_may_overdraw(iso, more)) {
        charge_cover(iso, more);
        return true;
    }
    if (more > limit || total / OVERDRAFT > limit)
        return false;
    bool told = total <= charge->overdraft_end;
    return (told || memory_alarm_raise(iso)) && overdraw(charge, total, false);
}

bool charge_has_room(struct orr_isolate *iso, size_t more)
{
    size_t limit = iso->limits.memory, used = account_used(&iso->account);
    return !limit || (used <= limit && more <= limit - used && draw(&iso->charge, used + more));
}

size_t charge_room(const struct orr_isolate *iso)
{
    size_t has = iso->charge.drawn + iso->charge.overdrawn;
    return !iso->charge.quota ? SIZE_MAX : has > account_used(&iso->account) ? has - account_used(&iso->account) : 0;
}

void charge_cover(struct orr_isolate *iso, size_t more)
{
    size_t total = account_used(&iso->account) + more;
    if (!draw(&iso->charge, total))
        overdraw(&iso->charge, total, true);
}

/*
 * Sets the next error some way above the memory in use.  Otherwise the code that cleans up after
 * this error would collect again and again.
 */
bool charge_settle(struct orr_isolate *iso)
{
    struct charge *charge = &iso->charge;
    size_t limit = iso->limits.memory;
    give_back(iso);
    charge->overdraft_end = account_used(&iso->account) + limit / NEXT_ERROR_SHARE;
    unsettle(charge);
    account_set_look_at(&iso->account, charge->overdraft_end > limit ? charge->overdraft_end : limit);
    return account_used(&iso->account) > limit || charge->overdrawn;
}

void charge_end_slice(struct orr_isolate *iso)
{
    struct charge *charge = &iso->charge;
    if (account_look_at(&iso->account) > iso->limits.memory && account_used(&iso->account) < iso->limits.memory / 8 * 7)
        account_set_look_at(&iso->account, iso->limits.memory);
    give_back(iso);
    if (!charge->overdrawn)
        charge->overdraft_end = 0;
    charge->host_overdraft = account_used(&iso->account) + iso->limits.memory / HOST_SHARE;
    if (!charge->overdraft_end)
        charge->settled_used = account_used(&iso->account);
}

void charge_close(struct orr_isolate *iso)
{
    quota_give(iso->charge.quota, iso->charge.drawn);
    quota_repay(iso->charge.quota, iso->charge.overdrawn);
    iso->charge = (struct charge){ 0 };
}

/* --- For what C holds ------------------------------------------------------------------------- */

static void count(struct orr_isolate *iso, size_t bytes)
{
    account_add(&iso->account, bytes);
    account_note_peak(&iso->account);
    limit_credit(iso);
}

/* The collector treats charged bytes as if Lua had allocated them. */
void charge_tell_collector(struct orr_isolate *iso, size_t bytes)
{
    size_t untold = iso->charge.untold + bytes;
    iso->charge.untold = untold;
    if (untold < TELL)
        return;
    iso->charge.untold = 0;
    if (collector_is_managed(&iso->collector))
        collector_note_allocated(iso, untold);
    else
        compat_count_allocated(execution_running(&iso->execution), untold);
}

/* In plain code of the host no hook runs, so the collection happens here. */
static bool may_have_after_all(struct orr_isolate *iso, size_t bytes)
{
    if (execution_level(&iso->execution) && iso->limits.mode != ORR_LUA_OFF)
        return false;
    return charge_collect(iso, execution_running(&iso->execution)) && charge_may_have(iso, bytes);
}

int charge_take(struct orr_isolate *iso, size_t bytes)
{
    if (!charge_may_have(iso, bytes) && !may_have_after_all(iso, bytes))
        return -ENOMEM;
    count(iso, bytes);
    charge_tell_collector(iso, bytes);
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
    account_remove(&iso->account, bytes);
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
    account_remove(&iso->account, old_size);
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

/* Whether enough has been allocated since the last collection. */
static bool may_help(const struct orr_isolate *iso)
{
    const struct charge *charge = &iso->charge;
    return !charge->collected_at ||
           account_used(&iso->account) >= charge->collected_at + iso->limits.memory / COLLECT_SHARE;
}

bool charge_collect(struct orr_isolate *iso, lua_State *L)
{
    struct charge *charge = &iso->charge;
    bool trimmed = trim(iso, 0);
    if (!may_help(iso))
        return trimmed;
    if (collector_is_managed(&iso->collector) && execution_level(&iso->execution)) {
        collector_force(iso, 2);
        collector_pay_anyway(iso, iso->limits.slice_ns); /* later turns pay the rest */
    } else {
        lua_gc(L, LUA_GCCOLLECT);
    }
    trim(iso, 0);
    charge->collected_at = account_used(&iso->account);
    return true;
}

bool charge_begin_to_collect(struct orr_isolate *iso)
{
    bool trimmed = trim(iso, 0);
    if (!may_help(iso) || !collector_is_managed(&iso->collector))
        return trimmed;
    collector_force(iso, 2);
    return true;
}

void charge_collected(struct orr_isolate *iso)
{
    trim(iso, 0);
    iso->charge.collected_at = account_used(&iso->account);
}

size_t charge_overdraw_begin(struct orr_isolate *iso)
{
    size_t before = iso->charge.overdraft_end;
    iso->charge.overdraft_end = SIZE_MAX;
    return before;
}

void charge_overdraw_end(struct orr_isolate *iso, size_t before)
{
    iso->charge.overdraft_end = before;
}

int charge_raise(lua_State *L)
{
    struct orr_isolate *iso = isolate_find(L);
    if (iso)
        memory_lack_note(iso, L, LACK_BY_LIMIT, 0);
    lua_pushliteral(L, "not enough memory"); /* needs no memory: every state has this string */
    return lua_error(L);
}
