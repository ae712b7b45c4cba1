/*
 * The memory account of an isolate: where blocks come from, what happens when they are resized, and
 * what is counted.
 */
#include "lua_host.h"

#include "lua/isolate/slab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
enum { POOLED = 0 }; /* under AddressSanitizer, all blocks come from malloc() */
#else
enum { POOLED = 1 };
#endif

static bool without_pages;

void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int file, off_t offset);
void *__real_mmap64(void *address, size_t size, int protection, int flags, int file, off_t offset);

void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    return without_pages ? MAP_FAILED : __real_mmap64(address, size, protection, flags, file, offset);
}

/* Blocks that are small enough for the slabs, but were asked of the host's own allocator. */
static _Atomic unsigned small_blocks;

static void *host_alloc(void *data, void *block, size_t old_size, size_t size)
{
    if (!block && size && size <= SLAB_LARGEST)
        small_blocks++;
    return counting_alloc(data, block, old_size, size);
}

struct allocator {
    lua_Alloc fn;
    void *data;
};

static struct allocator allocator_of(lua_State *L)
{
    struct allocator allocator;
    allocator.fn = lua_getallocf(L, &allocator.data);
    return allocator;
}

static size_t used(lua_State *L)
{
    struct orr_lua_stats stats;
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    return stats.memory_used;
}

static void mark(unsigned char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        block[i] = (unsigned char)(i * 7 + 3);
}

static void check_marks(const unsigned char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        assert_int_equal(block[i], (unsigned char)(i * 7 + 3));
}

static void blocks_keep_their_contents_when_they_are_resized(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 16, 17, 40, 255, 256, 257, 300, 1024, 5000, 256, 100, 3 };
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct allocator a = allocator_of(L);
    size_t before = used(L);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        for (size_t j = 0; j < LENGTH(sizes); j++) {
            unsigned char *block = a.fn(a.data, NULL, 0, sizes[i]);
            assert_non_null(block);
            mark(block, sizes[i]);
            block = a.fn(a.data, block, sizes[i], sizes[j]);
            assert_non_null(block);
            check_marks(block, sizes[i] < sizes[j] ? sizes[i] : sizes[j]);
            assert_int_equal(used(L), before + sizes[j]);
            assert_null(a.fn(a.data, block, sizes[j], 0));
            assert_int_equal(used(L), before);
        }
    }
    finish(rt, L);
}

enum { MANY = 100 };

/* No page can be had for the smaller blocks. */
static void shrinking_never_fails(void **state)
{
    (void)state;
    static unsigned char *blocks[MANY];
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct allocator a = allocator_of(L);
    size_t before = used(L);
    without_pages = false;
    for (int i = 0; i < MANY; i++) {
        blocks[i] = a.fn(a.data, NULL, 0, 4000);
        mark(blocks[i], 4000);
    }
    without_pages = true;
    static void *filling[100000];
    size_t filled = 0;
    while (POOLED && filled < LENGTH(filling) && (filling[filled] = a.fn(a.data, NULL, 0, 200)))
        filled++;
    assert_true(!POOLED || (filled && filled < LENGTH(filling)));
    for (int i = 0; i < MANY; i++) {
        blocks[i] = a.fn(a.data, blocks[i], 4000, 200);
        assert_non_null(blocks[i]);
        check_marks(blocks[i], 200);
    }
    for (int i = 0; i < MANY; i++) { /* once more, so that it grows again */
        blocks[i] = a.fn(a.data, blocks[i], 200, 199 - (size_t)i);
        assert_non_null(blocks[i]);
        check_marks(blocks[i], 199 - (size_t)i);
        if (i % 2) {
            blocks[i] = a.fn(a.data, blocks[i], 199 - (size_t)i, 3000);
            assert_non_null(blocks[i]);
            check_marks(blocks[i], 199 - (size_t)i);
        }
    }
    without_pages = false;
    for (int i = 0; i < MANY; i++) {
        check_marks(blocks[i], 199 - (size_t)i);
        a.fn(a.data, blocks[i], i % 2 ? 3000 : 199 - (size_t)i, 0);
    }
    while (filled)
        a.fn(a.data, filling[--filled], 200, 0);
    assert_int_equal(used(L), before);
    finish(rt, L);
}

static const char makes_things[] = "local keep = {}\n"
                                   "for i = 1, 3000 do keep[i] = { 'k' .. i, {}, function() return i end } end\n"
                                   "for i = 1, 3000, 2 do keep[i] = nil end\n"
                                   "local s = ('x'):rep(100000) keep.s = s .. s";

static void host_with_an_allocator_sees_every_block(void **state)
{
    (void)state;
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .alloc = host_alloc });
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, makes_things);
    small_blocks = 0;
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_true(small_blocks >= 9000);
    assert_true(allocated_bytes >= (long long)used(L));
    finish_counting(rt, L);
}

static void closing_frees_all_memory_that_a_script_still_holds(void **state)
{
    (void)state;
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .alloc = host_alloc });
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .memory_limit = 4 << 20 });
    struct orr_task *task = start(L, "keep = {} while true do keep[#keep + 1] = { #keep } end");
    turn_until_done(rt, task, 4 * MS);
    assert_int_not_equal(error_of(rt, task), 0);
    finish_counting(rt, L);
}

/* Exactly what Lua itself counts, plus what C holds for the script, which stays the same here. */
static void script_sees_how_much_it_uses_exactly(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(
        L, "local runtime = game.runtime\n"
           "collectgarbage 'stop'\n" /* it must not run between the two readings */
           /* A slice that ends between the two readings may allocate: then both are taken again. */
           "local function others()\n"
           "  local used, lua\n"
           "  repeat used, lua = runtime.memory_used, collectgarbage 'count' * 1024\n"
           "  until used == runtime.memory_used\n"
           "  return used - lua\n"
           "end\n"
           "local first, keep = others(), {}\n"
           "for i = 1, 2000 do\n"
           "  keep[i % 100] = { ('x'):rep(i), 'k' .. i }\n"
           "  if i % 500 == 0 then collectgarbage() end\n"
           "  if others() ~= first then note(i) end\n"
           "end\n"
           "local a = ('x'):rep(50000)\n"
           "local before = runtime.memory_used\n"
           "local b = a .. a\n"
           "local grown = runtime.memory_used - before\n"
           "note(grown > #b and grown < #b + 64)");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "true;");
    finish(rt, L);
}

static const struct CMUnitTest memory_tests[] = {
    cmocka_unit_test(blocks_keep_their_contents_when_they_are_resized),
    cmocka_unit_test(shrinking_never_fails),
    cmocka_unit_test(host_with_an_allocator_sees_every_block),
    cmocka_unit_test(closing_frees_all_memory_that_a_script_still_holds),
    cmocka_unit_test(script_sees_how_much_it_uses_exactly),
};

HARNESS_MAIN(memory_tests)
