/*
 * The command line of a test file's process, as lua/cli/test/job.lua writes it.  Only the program
 * itself writes it, so mistakes in it are not explained.
 */
#ifndef ORR_CLI_TEST_OPTIONS_H
#define ORR_CLI_TEST_OPTIONS_H

#include <orrery.h>

struct test_options {
    const char *file, *filter, *mount; /* the last two may be NULL */
    enum orr_reactor reactor;
    bool real_time, list, shuffle, shuffle_tasks;
    uint64_t test_limit, file_limit; /* in milliseconds; 0 for none */
    int64_t seed;
};

/*
 * Parses the arguments from the third on into zeroed memory; the texts stay the caller's.  Returns
 * false if there is a mistake.
 */
bool test_options_parse(struct test_options *self, int argc, char **argv);

/* Pushes the options for lua/cli/test/file.lua as a table.  May raise. */
void test_options_push(struct lua_State *L, const struct test_options *self, unsigned grace_ms);

#endif
