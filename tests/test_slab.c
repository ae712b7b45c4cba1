/* Small blocks: the slab compared with a simple model, and what happens to its pages and chunks. */
#include "harness.h"

#include "lua/isolate/slab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)

static bool without_memory;
static unsigned maps, unmaps;
static size_t bytes_mapped;

void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __wrap_munmap(void *address, size_t size);
void *__real_mmap64(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __real_munmap(void *address, size_t size);

void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    if (without_memory)
        return MAP_FAILED;
    maps++;
    bytes_mapped += size;
    return __real_mmap64(address, size, protection, flags, file, offset);
}

int __wrap_munmap(void *address, size_t size)
{
    unmaps++;
    bytes_mapped -= size;
    return __real_munmap(address, size);
}

static uint64_t random_state;

static void seed_randomness(void)
{
    random_state = harness_seed(20240229);
    random_state = random_state ? random_state : 1;
}

static void open_slab(struct slab *slab)
{
    without_memory = false;
    maps = unmaps = 0;
    bytes_mapped = 0;
    slab_open(slab);
}

/* Takes `count` blocks of a size and links them into a list; returns the first. */
static void *take_chain(struct slab *slab, size_t size, unsigned count)
{
    void *first = NULL;
    for (unsigned i = 0; i < count; i++) {
        void **block = slab_take(slab, size);
        assert_non_null(block);
        *block = first;
        first = block;
    }
    return first;
}

static void give_chain(struct slab *slab, void *first)
{
    while (first) {
        void *next = *(void **)first;
        slab_give(slab, first);
        first = next;
    }
}

static void block_of_every_size_is_aligned_and_large_enough(void **state)
{
    (void)state;
    struct slab slab;
    open_slab(&slab);
    for (size_t size = 1; size <= SLAB_LARGEST; size++) {
        for (int i = 0; i < 3; i++) {
            void *block = slab_take(&slab, size);
            assert_non_null(block);
            assert_int_equal((uintptr_t)block % 16, 0);
            assert_true(slab_size(block) >= size);
            assert_true(slab_size(block) < size + SLAB_GRAIN);
            memset(block, 0xa5, slab_size(block));
        }
    }
    slab_close(&slab);
}

static void freed_block_is_taken_next(void **state)
{
    (void)state;
    struct slab slab;
    open_slab(&slab);
    void *keep = slab_take(&slab, 48);
    void *block = slab_take(&slab, 48);
    slab_give(&slab, block);
    assert_ptr_equal(slab_take(&slab, 33), block);
    assert_ptr_not_equal(slab_take(&slab, 48), keep);
    slab_close(&slab);
}

static void steady_use_takes_no_more_pages(void **state)
{
    (void)state;
    struct slab slab;
    open_slab(&slab);
    void *chain = take_chain(&slab, 64, 1000);
    size_t held = slab.held;
    for (int i = 0; i < 50; i++) {
        give_chain(&slab, chain);
        chain = take_chain(&slab, 64, 1000);
        assert_int_equal(slab.held, held);
    }
    assert_int_equal(unmaps, 0);
    slab_close(&slab);
}

/* The page from which blocks are being taken stays with its size class. */
static void page_that_empties_serves_another_class(void **state)
{
    (void)state;
    struct slab slab;
    open_slab(&slab);
    give_chain(&slab, take_chain(&slab, 16, 10000));
    assert_int_equal(slab.held, SLAB_PAGE);
    size_t mapped = slab.mapped;
    void *chain = take_chain(&slab, 256, 500);
    assert_int_equal(slab.mapped, mapped);
    give_chain(&slab, chain);
    assert_int_equal(slab.held, 2 * SLAB_PAGE);
    slab_close(&slab);
}

static void held_counts_pages_in_use_and_mapped_counts_chunks(void **state)
{
    (void)state;
    struct slab slab;
    open_slab(&slab);
    assert_int_equal(slab.held, 0);
    assert_int_equal(slab.mapped, 0);
    void *block = slab_take(&slab, 1);
    assert_int_equal(slab.held, SLAB_PAGE);
    assert_int_equal(slab.mapped, 64 * KB);
    size_t each = (SLAB_PAGE - sizeof(struct slab_page)) / 256;
    void *chain = take_chain(&slab, 256, (unsigned)each * 100);
    assert_int_equal(slab.held, 101 * SLAB_PAGE);
    assert_true(slab.mapped >= slab.held);
    give_chain(&slab, chain);
    assert_int_equal(slab.held, 2 * SLAB_PAGE);
    slab_give(&slab, block);
    slab_close(&slab);
    assert_int_equal(slab.held, 0);
    assert_int_equal(slab.mapped, 0);
}

static void trim_gives_empty_chunks_back_to_the_system(void **state)
{
    (void)state;
    struct slab slab;
    open_slab(&slab);
    void *chain = take_chain(&slab, 256, (unsigned)(16 * MB / 256));
    assert_true(slab.mapped >= 16 * MB);
    slab_trim(&slab, false);
    assert_int_equal(unmaps, 0); /* all of it is in use */
    give_chain(&slab, chain);
    assert_true(slab.mapped >= 16 * MB); /* kept until the end of a collector cycle is reported */
    slab_trim(&slab, false);
    assert_true(unmaps > 0);
    assert_true(slab.mapped <= 3 * MB);
    chain = take_chain(&slab, 128, 1000);
    give_chain(&slab, chain);
    slab_close(&slab);
    assert_int_equal(maps, unmaps);
}

static void trim_leaves_room_for_half_of_what_is_in_use(void **state)
{
    (void)state;
    struct slab slab;
    open_slab(&slab);
    void *stays = take_chain(&slab, 256, (unsigned)(8 * MB / 256));
    give_chain(&slab, take_chain(&slab, 256, (unsigned)(16 * MB / 256)));
    slab_trim(&slab, false);
    assert_true(slab.mapped <= slab.held / 2 * 3 + 2 * MB);
    assert_true(slab.mapped >= slab.held / 2 * 3);
    give_chain(&slab, stays);
    slab_close(&slab);
}

static void close_unmaps_pages_that_are_in_use(void **state)
{
    (void)state;
    struct slab slab;
    open_slab(&slab);
    for (size_t size = 1; size <= SLAB_LARGEST; size += 5)
        take_chain(&slab, size < sizeof(void *) ? sizeof(void *) : size, 300);
    assert_true(maps > 1);
    slab_close(&slab);
    assert_int_equal(maps, unmaps);
    assert_non_null(slab_take(&slab, 16)); /* it can be used again */
    slab_close(&slab);
}

/* Its chunks are huge pages, cut out of larger mappings. */
static void large_slab_maps_what_it_says_and_unmaps_all(void **state)
{
    (void)state;
    struct slab slab;
    open_slab(&slab);
    size_t largest = 40 * MB;
    void *first = take_chain(&slab, SLAB_LARGEST, (unsigned)(largest / SLAB_LARGEST));
    assert_true(slab.mapped > largest);
    assert_int_equal(slab.mapped, bytes_mapped);
    without_memory = true;
    while (slab_take(&slab, SLAB_LARGEST))
        continue;
    without_memory = false;
    assert_int_equal(slab.mapped, bytes_mapped);
    give_chain(&slab, first);
    slab_trim(&slab, false);
    assert_true(slab.mapped < largest);
    assert_int_equal(slab.mapped, bytes_mapped);
    slab_close(&slab);
    assert_int_equal(bytes_mapped, 0);
}

static void slab_without_memory_returns_null(void **state)
{
    (void)state;
    struct slab slab;
    open_slab(&slab);
    without_memory = true;
    assert_null(slab_take(&slab, 16));
    assert_int_equal(slab.held + slab.mapped, 0);
    without_memory = false;
    void *chain = take_chain(&slab, 16, 100);
    without_memory = true;
    unsigned more = 0;
    for (void *block; (block = slab_take(&slab, 256)); more++) {
        *(void **)block = chain;
        chain = block;
    }
    assert_true(more > 100); /* the rest of the chunk */
    assert_int_equal(slab.held, slab.mapped);
    give_chain(&slab, chain);
    assert_non_null(slab_take(&slab, 256));
    without_memory = false;
    slab_close(&slab);
}

/* --- A random sequence compared with a model -------------------------------------------------- */

enum { BLOCKS = 5000 };

struct taken {
    unsigned char *block;
    size_t size;
    unsigned char mark;
};

static void check_mark(const struct taken *taken)
{
    for (size_t i = 0; i < taken->size; i++)
        assert_int_equal(taken->block[i], taken->mark);
}

static void take_one(struct slab *slab, struct taken *taken)
{
    taken->size = 1 + random_bits(&random_state) % SLAB_LARGEST;
    taken->mark = (unsigned char)random_bits(&random_state);
    taken->block = slab_take(slab, taken->size);
    assert_non_null(taken->block);
    assert_int_equal((uintptr_t)taken->block % 16, 0);
    memset(taken->block, taken->mark, taken->size);
}

static void give_one(struct slab *slab, struct taken *taken)
{
    check_mark(taken);
    slab_give(slab, taken->block);
    taken->block = NULL;
}

static int by_address(const void *a, const void *b)
{
    const struct taken *one = a, *other = b;
    return (one->block > other->block) - (one->block < other->block);
}

/* Pages in use are those with a block, and at most one more for each size class. */
static void check_held(const struct slab *slab, struct taken *taken)
{
    qsort(taken, BLOCKS, sizeof *taken, by_address);
    size_t pages = 0;
    uintptr_t last = 0;
    for (int i = 0; i < BLOCKS; i++) {
        uintptr_t page = (uintptr_t)taken[i].block / SLAB_PAGE;
        pages += page && page != last;
        last = page;
    }
    assert_true(slab->held >= pages * SLAB_PAGE);
    assert_true(slab->held <= (pages + SLAB_CLASSES) * SLAB_PAGE);
    assert_true(slab->mapped >= slab->held);
    assert_int_equal(slab->mapped % (64 * KB), 0);
}

static void blocks_keep_their_contents_in_a_random_sequence(void **state)
{
    (void)state;
    static struct taken taken[BLOCKS];
    struct slab slab;
    seed_randomness();
    open_slab(&slab);
    memset(taken, 0, sizeof taken);
    for (unsigned i = 0, mood = 50; i < WORK(2000000); i++) {
        if (i % 20000 == 0) /* alternates between growth and shrinking */
            mood = (unsigned)(10 + random_bits(&random_state) % 81);
        struct taken *one = &taken[random_bits(&random_state) % BLOCKS];
        if (one->block && random_bits(&random_state) % 100 >= mood)
            give_one(&slab, one);
        else if (!one->block && random_bits(&random_state) % 100 < mood)
            take_one(&slab, one);
        if (i % 10007 == 0)
            slab_trim(&slab, false);
        if (i % 50021 == 0)
            check_held(&slab, taken);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (taken[i].block)
            give_one(&slab, &taken[i]);
    assert_true(slab.held <= (size_t)SLAB_CLASSES * SLAB_PAGE);
    slab_close(&slab);
    assert_int_equal(maps, unmaps);
}

static const struct CMUnitTest slab_tests[] = {
    cmocka_unit_test(block_of_every_size_is_aligned_and_large_enough),
    cmocka_unit_test(freed_block_is_taken_next),
    cmocka_unit_test(steady_use_takes_no_more_pages),
    cmocka_unit_test(page_that_empties_serves_another_class),
    cmocka_unit_test(held_counts_pages_in_use_and_mapped_counts_chunks),
    cmocka_unit_test(trim_gives_empty_chunks_back_to_the_system),
    cmocka_unit_test(trim_leaves_room_for_half_of_what_is_in_use),
    cmocka_unit_test(close_unmaps_pages_that_are_in_use),
    cmocka_unit_test(large_slab_maps_what_it_says_and_unmaps_all),
    cmocka_unit_test(slab_without_memory_returns_null),
    cmocka_unit_test(blocks_keep_their_contents_in_a_random_sequence),
};

HARNESS_MAIN(slab_tests)
