/*
 * A game at 60 frames a second whose monsters are scripts.  One of them is malicious: it loops
 * without end, and catches every error.  It costs no frame.
 *
 *     game MONSTERS [FRAMES [fast]]      MONSTERS is a folder of scripts; fast: does not wait
 *
 * Time in the game is counted in frames: the game moves the runtime's clock by hand, one frame at a
 * time.  So scripts that sleep wake up in the same frame on a slow machine as on a fast one.  In
 * each frame all scripts together have four milliseconds of real time.  A script that is not done
 * by then is suspended between two instructions and goes on in the next frame.  A script that has
 * run for a tenth of a second without waiting is ended.
 */
#include "monster.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS UINT64_C(1000000)
#define FRAME_NS (1000 * MS / 60)
#define SCRIPTS_NS (4 * MS)

enum { MONSTERS_MAX = 16, DRAWN = 15 }; /* one frame of this many is printed */

struct game {
    struct field field;
    struct monster monsters[MONSTERS_MAX];
    unsigned monster_count;
    uint64_t *work; /* processor time of each frame, in nanoseconds: without other programs */
    unsigned late;  /* frames that were not done when the next one was due */
    bool fast;
};

/* --- Frames ----------------------------------------------------------------------------------- */

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
    struct timespec time = { .tv_sec = (time_t)(ns / (1000 * MS)), .tv_nsec = (long)(ns % (1000 * MS)) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        ;
}

/* The hero walks back and forth. */
static void move_hero(struct field *field)
{
    int place = (int)(field->frame / 6) % (2 * (FIELD - 1));
    field->hero = place < FIELD ? place : 2 * (FIELD - 1) - place;
}

static void draw(const struct game *game)
{
    char line[FIELD + 1];
    memset(line, '.', FIELD);
    line[FIELD] = 0;
    for (unsigned i = 0; i < game->monster_count; i++)
        line[game->monsters[i].column] = game->monsters[i].name[0];
    line[game->field.hero] = '@';
    printf("%4u  [%s]\n", game->field.frame, line);
}

static int play_frame(struct game *game)
{
    struct field *field = &game->field;
    field->frame++;
    move_hero(field);
    orr_runtime_advance(field->rt, FRAME_NS);
    int more = orr_runtime_turn(field->rt, SCRIPTS_NS);
    if (field->frame % DRAWN == 0)
        draw(game);
    return more < 0 ? more : 0;
}

static int play(struct game *game, unsigned frames)
{
    uint64_t due = read_clock(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < frames; i++) {
        uint64_t start = read_clock(CLOCK_THREAD_CPUTIME_ID);
        int error = play_frame(game);
        if (error)
            return error;
        game->work[i] = read_clock(CLOCK_THREAD_CPUTIME_ID) - start;
        due += FRAME_NS;
        game->late += read_clock(CLOCK_MONOTONIC) > due;
        if (!game->fast)
            sleep_until(due);
    }
    return 0;
}

/* --- The report ------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static double to_ms(uint64_t ns)
{
    return (double)ns / MS;
}

static void report(struct game *game, unsigned frames)
{
    qsort(game->work, frames, sizeof *game->work, compare);
    printf("\n%u frames of %.1f ms, %u of them late; work in a frame: median %.2f ms, longest %.2f ms\n", frames,
           to_ms(FRAME_NS), game->late, to_ms(game->work[frames / 2]), to_ms(game->work[frames - 1]));
    for (unsigned i = 0; i < game->monster_count; i++) {
        const struct monster *monster = &game->monsters[i];
        printf("%-8s steps %u, timeouts %u\n", monster->name, monster->steps, monster->timeouts);
    }
}

/* --- Start and end ---------------------------------------------------------------------------- */

/* Reports a script that has failed by itself.  Each monster counts its own timeouts. */
static void failure(void *data, struct orr_task *task)
{
    const struct orr_result *result = orr_task_result(task);
    (void)data;
    if (!result || result->error == -ETIME)
        return;
    const char *why = result->message ? result->message : strerror(-result->error);
    printf("      a script has failed: %.*s\n", (int)strcspn(why, "\n"), why);
}

static int load_monsters(struct game *game, const char *folder)
{
    char pattern[4096];
    glob_t found = { 0 };
    snprintf(pattern, sizeof pattern, "%s/*.lua", folder);
    if (glob(pattern, 0, NULL, &found)) {
        fprintf(stderr, "game: no monsters in %s\n", folder);
        return -ENOENT;
    }
    int error = 0;
    for (size_t i = 0; i < found.gl_pathc && i < MONSTERS_MAX && !error; i++) {
        int column = (int)((i + 1) * FIELD / (found.gl_pathc + 1));
        error = monster_load(&game->monsters[i], &game->field, found.gl_pathv[i], column);
        game->monster_count += !error;
    }
    globfree(&found);
    return error;
}

static int run(struct game *game, const char *folder, unsigned frames)
{
    int error = load_monsters(game, folder);
    if (!error)
        error = play(game, frames);
    if (!error)
        report(game, frames);
    for (unsigned i = 0; i < game->monster_count; i++)
        monster_unload(&game->monsters[i]);
    return error;
}

int main(int argc, char **argv)
{
    struct game game = { .fast = argc > 3 && !strcmp(argv[3], "fast") };
    unsigned frames = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 300;
    if (argc < 2 || !frames) {
        fprintf(stderr, "usage: game MONSTERS [FRAMES [fast]]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    game.work = calloc(frames, sizeof *game.work);
    game.field.rt = game.work ? orr_runtime_new(
                                    &(struct orr_options){ .clock = ORR_CLOCK_MANUAL, .sink = failure, .grace_ms = 50 })
                              : NULL;
    int error = game.field.rt ? run(&game, argv[1], frames) : -ENOMEM;
    if (error)
        fprintf(stderr, "game: %s\n", strerror(-error));
    orr_runtime_free(game.field.rt);
    free(game.work);
    return error ? 1 : 0;
}
