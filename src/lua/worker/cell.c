#include "lua/worker/cell.h"

#include "lua/capability.h"
#include "lua/charge.h"
#include "lua/loop.h"
#include "lua/quota.h"
#include "lua/worker/birth.h"
#include "lua/worker/library.h"

enum {
    SPARES = 4,              /* cells that a thread keeps */
    GARBAGE_MAX = 512 << 10, /* that a spare cell may hold */
};

/* --- Making and freeing ------------------------------------------------------------------------------------------------ */

/* It is no more one of those kept for the next job. */
static void unspare(struct cell *cell)
{
    quota_give_spare(cell->program->terms->quota, cell->spared);
    cell->spared = 0;
}

/* What is kept for the next job takes memory from its script, so it may not be much. */
static bool spare(struct cell *cell)
{
    size_t memory = cell->iso->memory;
    charge_end_slice(cell->iso);
    if (!quota_take_spare(cell->program->terms->quota, memory))
        return false;
    cell->spared = memory;
    return true;
}

static void cell_free(struct cell *cell)
{
    struct station *station = cell->station;
    if (cell->iso && cell->iso->tasks) { /* the kernel has not let go of their I/O */
        cell->next = station->remains;
        station->remains = cell;
        return;
    }
    struct alloc alloc = cell->program->alloc;
    unspare(cell);
    if (cell->iso)
        isolate_free(cell->iso);
    program_unref(cell->program);
    alloc_free(&alloc, cell, sizeof *cell);
}

/* [cell] -> [library] */
static int prepare(lua_State *L)
{
    struct cell *cell = lua_touserdata(L, 1);
    const struct terms *terms = cell->program->terms;
    library_adapt(cell->iso, L, &cell->spoiled);
    birth_note_library(L);
    if (terms->prepare)
        terms->prepare(terms->prepare_data, L);
    lua_settop(L, 1);
    return 1;
}

/* NULL for lack of memory. */
static struct cell *cell_new(struct station *station, struct job *job)
{
    struct program *program = job->program;
    struct cell *cell = alloc_zeroed(&program->alloc, sizeof *cell);
    if (!cell)
        return NULL;
    cell->station = station;
    cell->job = job;
    cell->program = program_ref(program);
    if (isolate_new(station->worker->runtime, program->terms, &cell->L)) {
        cell_free(cell);
        return NULL;
    }
    cell->iso = isolate_find(cell->L);
    charge_force(cell->iso, sizeof *cell + sizeof *cell->iso);
    cell->iso->stray = perform_note_stray;
    cell->iso->stray_data = cell;
    lua_pushcfunction(cell->L, prepare);
    lua_pushlightuserdata(cell->L, cell);
    cell->unfit = lua_pcall(cell->L, 1, 1, 0) != LUA_OK;
    return cell;
}

struct cell *cell_get(struct station *station, struct job *job)
{
    for (struct cell **at = &station->spares; *at; at = &(*at)->next) {
        struct cell *cell = *at;
        if (cell->program != job->program)
            continue;
        *at = cell->next;
        station->spare_count--;
        unspare(cell);
        cell->job = job;
        return cell;
    }
    struct pools *pools = station->worker->runtime->pools;
    pthread_mutex_lock(&pools->lock);
    pools->made++;
    pthread_mutex_unlock(&pools->lock);
    return cell_new(station, job);
}

/* [cell] [library] -> [script] [birth] */
static int remember(lua_State *L)
{
    struct cell *cell = lua_touserdata(L, 1);
    const struct program *program = cell->program;
    if (!program_load(&program->code, L))
        lua_error(L);
    bool can_be_put_back = birth_remember(L, 2, 3);
    cell->single = !can_be_put_back || capability_beyond_jobs(program->terms->modules);
    return 2;
}

bool cell_bear(struct cell *cell)
{
    lua_State *L = cell->L;
    lua_settop(L, CELL_LIBRARY);
    lua_pushcfunction(L, remember);
    lua_insert(L, 1);
    lua_pushlightuserdata(L, cell);
    lua_insert(L, 2);
    if (lua_pcall(L, 2, 2, 0) != LUA_OK)
        return false;
    cell->newborn = cell->iso->memory;
    cell->born = true;
    return true;
}

/* --- Between jobs ---------------------------------------------------------------------------------------------------------- */

/* [cell] [NULL] [handle or script] [birth] */
static int restore(lua_State *L)
{
    library_check(L);
    birth_restore(L, 4);
    library_restore(L);
    return 0;
}

/* What is not Lua's. */
static void isolate_forget(struct orr_isolate *iso)
{
    iso->closer = (struct orr_waker){ 0 };
    iso->debug = false;
    iso->preemptions = iso->timeouts = iso->schedule_errors = 0;
}

static bool is_at_rest(const struct orr_isolate *iso)
{
    return !iso->tasks && !iso->unseen.first && !iso->urgent && !iso->parked.first && !iso->belated.first &&
           !iso->schedule.count;
}

/* Makes it as it was.  False if that cannot be. */
static bool cell_renew(struct cell *cell)
{
    lua_State *L = cell->L;
    loop_close_timers(cell->iso, 0);
    if (!cell->born || cell->single || cell->spoiled || !is_at_rest(cell->iso) || cell->iso->over_memory)
        return false;
    isolate_forget(cell->iso);
    lua_settop(L, CELL_BIRTH);
    lua_pushcfunction(L, restore);
    lua_pushlightuserdata(L, cell);
    lua_pushnil(L);
    lua_pushvalue(L, CELL_SCRIPT);
    lua_pushvalue(L, CELL_BIRTH);
    if (lua_pcall(L, 4, 0, 0) != LUA_OK)
        return false;
    if (cell->iso->memory > cell->newborn + GARBAGE_MAX)
        lua_gc(L, LUA_GCCOLLECT);
    slab_trim(&cell->iso->account.slab, true);
    return cell->iso->memory <= cell->newborn + GARBAGE_MAX;
}

bool cell_is_large(const struct cell *cell)
{
    enum { PARTS = 16 };
    const struct quota *quota = cell->program->terms->quota;
    return quota && cell->iso->charge.drawn > quota->limit / PARTS;
}

void cell_leave(struct cell *cell)
{
    struct station *station = cell->station;
    if (station->ending || !cell_renew(cell) || !spare(cell)) {
        cell_free(cell);
        return;
    }
    cell->next = station->spares;
    station->spares = cell;
    if (++station->spare_count <= SPARES)
        return;
    struct cell **at = &station->spares;
    while ((*at)->next)
        at = &(*at)->next;
    struct cell *oldest = *at;
    *at = NULL;
    station->spare_count--;
    cell_free(oldest);
}

/* --- The thread ----------------------------------------------------------------------------------------------------------------- */

struct station *station_of(struct worker *worker)
{
    if (worker->station)
        return worker->station;
    struct pools *pools = worker->runtime->pools;
    struct station *station = alloc_zeroed(&worker->alloc, sizeof *station);
    if (!station)
        return NULL;
    station->worker = worker;
    worker->station = pools->berths[worker->number - pools->first].station = station;
    return station;
}

static void free_all(struct cell **first)
{
    while (*first) {
        struct cell *cell = *first;
        *first = cell->next;
        cell_free(cell);
    }
}

/* Jobs that run are ended when their tasks are polled, which are cancelled next. */
void cell_farewell(struct worker *worker)
{
    struct station *station = worker->station;
    if (!station)
        return;
    station->ending = true;
    station->spare_count = 0;
    free_all(&station->spares);
}

void station_free(struct station *station, const struct alloc *alloc)
{
    if (!station)
        return;
    free_all(&station->remains);
    alloc_free(alloc, station, sizeof *station);
}
