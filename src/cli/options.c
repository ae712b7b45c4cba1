#include "cli/options.h"

#include "base/nearest.h"

#include <lua.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: orrery [options] [script [arguments]]\n"
    "       orrery repl [options]\n"
    "       orrery test [options] [files and directories]\n"
    "       orrery info\n"
    "\n"
    "Runs a Lua script as a task.  Ends when the script and all its tasks are done: with status 0, or\n"
    "with 1 and a report on stderr if it failed.  Without a script, opens a prompt on a terminal, or\n"
    "runs standard input.\n"
    "\n"
    "options of lua:\n"
    "  -e CODE           run this code first\n"
    "  -l [NAME=]MODULE  require a module first, as a global with its own name or another\n"
    "  -i                open a prompt after the script\n"
    "  -v                print the version\n"
    "  -E                ignore LUA_INIT, LUA_PATH and LUA_CPATH\n"
    "  -W                turn warnings on\n"
    "  -                 read the script from standard input\n"
    "  --                end the options\n"
    "\n"
    "options of orrery:\n"
    "  --mount NAME           make the API a global with this name, besides require \"orrery\"\n"
    "  --untrusted            run the script in the sandbox, with its limits; implies -E\n"
    "  --allow-net[=RULES]    let an untrusted script connect: to all but special addresses, or by rules such as\n"
    "                         example.com:443,10.0.0.0/8,localhost,unix:/run/x.sock; implies --untrusted\n"
    "  --allow-listen[=RULES] let an untrusted script listen: everywhere, or by rules such as localhost:8080,\n"
    "                         0.0.0.0:8000-8999,unix:/run/x.sock; implies --untrusted\n"
    "  --root DIR             let an untrusted script require modules from this folder; may be repeated\n"
    "  --slice MS             suspend Lua after this time, so that others can run (2)\n"
    "  --deadline MS          end every call and task that runs for this long without waiting\n"
    "  --instructions N       end every call and task after N instructions without waiting\n"
    "  --check-interval N     check that limit every N instructions (10000)\n"
    "  --strikes N            disable a handler after N timeouts in a row (3); or never\n"
    "  --schedule-limit N     let at most N callbacks wait in schedule() (1000)\n"
    "  --schedule-per-turn N  start at most N of them in a turn (16)\n"
    "  --slow-call MS         warn of a C function that blocks for this long (100); or never\n"
    "  --memory SIZE          limit the memory of Lua: bytes, or with K, M or G\n"
    "  --grace MS             limit the cleanup at the end (1000)\n"
    "  --reactor R            auto, uring or epoll\n"
    "  --virtual              run on a virtual clock, where waiting takes no time\n"
    "  --stats                print statistics at the end, on stderr\n"
    "  --color WHEN           auto, always or never; auto: on a terminal, unless NO_COLOR is set\n"
    "  --version              print the version\n"
    "  --help                 print this\n";

enum { GRACE_MS = 1000, SLOW_CALL_MS = 100 };

static int refuse(const char *what, const char *value)
{
    fprintf(stderr, "orrery: %s%s%s\norrery: see 'orrery --help'\n", what, value ? " " : "", value ? value : "");
    return 2;
}

/* --- Values ----------------------------------------------------------------------------------- */

static bool set_mount(struct options *options, const char *value)
{
    options->lua.mount = value;
    return *value != '\0';
}

/* Parses milliseconds, with fractions. */
static bool parse_ms(const char *value, uint64_t *ns)
{
    char *end;
    double ms = strtod(value, &end);
    if (end == value || *end || !(ms > 0) || ms > 1e12)
        return false;
    *ns = (uint64_t)(ms * 1e6);
    return *ns > 0;
}

static bool set_slice(struct options *options, const char *value)
{
    return parse_ms(value, &options->lua.slice_ns);
}

static bool set_deadline(struct options *options, const char *value)
{
    uint64_t ns;
    if (!parse_ms(value, &ns))
        return false;
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options->lua.deadline_ns[entry] = ns;
    return true;
}

/* Parses a whole number from 1 to `most`. */
static bool parse_count(const char *value, unsigned long long most, unsigned long long *count)
{
    char *end;
    errno = 0;
    *count = strtoull(value, &end, 10);
    return *value >= '0' && *value <= '9' && !*end && !errno && *count && *count <= most;
}

static bool set_unsigned(unsigned *field, const char *value, unsigned most)
{
    unsigned long long count;
    if (!parse_count(value, most, &count))
        return false;
    *field = (unsigned)count;
    return true;
}

static bool set_instructions(struct options *options, const char *value)
{
    unsigned long long count;
    if (!parse_count(value, LLONG_MAX, &count))
        return false;
    options->lua.mode = ORR_LUA_COUNT;
    options->lua.max_instructions = count;
    return true;
}

static bool set_check_interval(struct options *options, const char *value)
{
    return set_unsigned(&options->lua.check_interval, value, INT_MAX);
}

static bool set_strikes(struct options *options, const char *value)
{
    if (strcmp(value, "never") != 0)
        return set_unsigned(&options->lua.strikes, value, INT_MAX);
    options->lua.strikes = UINT_MAX;
    return true;
}

static bool set_schedule_limit(struct options *options, const char *value)
{
    return set_unsigned(&options->lua.schedule_limit, value, INT_MAX);
}

static bool set_schedule_per_turn(struct options *options, const char *value)
{
    return set_unsigned(&options->lua.schedule_per_turn, value, INT_MAX);
}

static bool set_grace(struct options *options, const char *value)
{
    uint64_t ns;
    if (!parse_ms(value, &ns) || ns < 1000000 || ns / 1000000 > INT_MAX)
        return false;
    options->runtime.grace_ms = (unsigned)(ns / 1000000);
    return true;
}

static bool set_memory(struct options *options, const char *value)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long size = strtoull(value, &end, 10);
    const char *unit = *end ? strchr(units, *end & ~0x20) : NULL; /* lower case letters, too */
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (unit)
        end++;
    if (end == value || *value == '-' || *end || errno || !size || size > SIZE_MAX >> shift)
        return false;
    options->lua.memory_limit = (size_t)size << shift;
    return true;
}

static bool set_slow_call(struct options *options, const char *value)
{
    options->lua.slow_call_ns = ORR_NEVER;
    return !strcmp(value, "never") || parse_ms(value, &options->lua.slow_call_ns);
}

static bool set_reactor(struct options *options, const char *value)
{
    for (int kind = ORR_REACTOR_AUTO; kind <= ORR_REACTOR_EPOLL; kind++) {
        options->runtime.reactor = (enum orr_reactor)kind;
        if (!strcmp(orr_reactor_name(options->runtime.reactor), value))
            return true;
    }
    return false;
}

static bool set_colour(struct options *options, const char *value)
{
    static const char *const names[] = { "auto", "always", "never" };
    for (int colour = COLOUR_AUTO; colour <= COLOUR_NEVER; colour++) {
        options->colour = (enum colour)colour;
        if (!strcmp(names[colour], value))
            return true;
    }
    return false;
}

static bool set_virtual(struct options *options, const char *value)
{
    (void)value;
    options->runtime.clock = ORR_CLOCK_VIRTUAL;
    return true;
}

static bool set_untrusted(struct options *options, const char *value)
{
    (void)value;
    options->lua.profile = ORR_LUA_UNTRUSTED;
    options->ignore_environment = true;
    return true;
}

/* Grants of the network imply the sandbox: a trusted script has everything. */
static bool allow_net(struct options *options, const char *value)
{
    return set_untrusted(options, NULL) && rule_list_add(&options->connect, value ? value : "*");
}

static bool allow_listen(struct options *options, const char *value)
{
    return set_untrusted(options, NULL) && rule_list_add(&options->listen, value ? value : "*");
}

/* The list has room for every argument, and a NULL at its end. */
static bool add_root(struct options *options, const char *value)
{
    options->roots[options->root_count++] = value;
    return *value != '\0';
}

static bool set_stats(struct options *options, const char *value)
{
    (void)value;
    options->stats = true;
    return true;
}

/* --- Words ------------------------------------------------------------------------------------ */

static const struct word {
    const char *name;
    /* Returns false if the value is wrong. */
    bool (*set)(struct options *options, const char *value);
    const char *expected; /* NULL: the option takes no value */
} words[] = {
    { "--mount", set_mount, "a name" },
    { "--untrusted", set_untrusted, NULL },
    { "--allow-net", allow_net, "rules with commas between them" },
    { "--allow-listen", allow_listen, "rules with commas between them" },
    { "--root", add_root, "a folder" },
    { "--slice", set_slice, "a number of milliseconds above 0" },
    { "--deadline", set_deadline, "a number of milliseconds above 0" },
    { "--instructions", set_instructions, "a number of instructions, at least 1" },
    { "--check-interval", set_check_interval, "a number of instructions, at least 1" },
    { "--strikes", set_strikes, "a number of timeouts, at least 1, or never" },
    { "--schedule-limit", set_schedule_limit, "a number of callbacks, at least 1" },
    { "--schedule-per-turn", set_schedule_per_turn, "a number of callbacks, at least 1" },
    { "--slow-call", set_slow_call, "a time in milliseconds, or never" },
    { "--memory", set_memory, "a size, such as 64M" },
    { "--grace", set_grace, "a number of milliseconds, at least 1" },
    { "--reactor", set_reactor, "auto, uring or epoll" },
    { "--virtual", set_virtual, NULL },
    { "--stats", set_stats, NULL },
    { "--color", set_colour, "auto, always or never" },
};

enum { WORDS = sizeof words / sizeof *words };

/* Whether the value may be left out; then it is never the next argument. */
static bool may_lack_value(const struct word *word)
{
    return !word->expected || word->set == allow_net || word->set == allow_listen;
}

static int refuse_unknown(const char *argument)
{
    const char *names[WORDS + 2];
    for (int i = 0; i < WORDS; i++)
        names[i] = words[i].name;
    names[WORDS] = "--help";
    names[WORDS + 1] = "--version";
    char text[256];
    const char *near = nearest(argument, names, WORDS + 2);
    snprintf(text, sizeof text, "unknown option '%s'%s%s%s", argument, near ? "; did you mean '" : "", near ? near : "",
             near ? "'?" : "");
    return refuse(text, NULL);
}

/* Parses a long option at *at, which moves on if its value is the next argument. */
static int parse_word(int argc, char **argv, int *at, struct options *options)
{
    const char *argument = argv[*at];
    size_t length = strcspn(argument, "=");
    const struct word *word = NULL;
    for (int i = 0; i < WORDS && !word; i++)
        if (strlen(words[i].name) == length && !strncmp(words[i].name, argument, length))
            word = &words[i];
    if (!word)
        return refuse_unknown(argument);
    const char *value = argument[length] ? argument + length + 1 : NULL;
    char text[256];
    if (value && !word->expected) {
        snprintf(text, sizeof text, "%s takes no value, but got '%s'", word->name, value);
        return refuse(text, NULL);
    }
    bool needed = !may_lack_value(word);
    if (!value && needed && *at + 1 < argc)
        value = argv[++*at];
    if ((!value && needed) || !word->set(options, value)) {
        snprintf(text, sizeof text, "%s needs %s, not", word->name, word->expected);
        return refuse(text, value && *value ? value : "nothing");
    }
    return -1;
}

/* --- Letters, as lua has them ----------------------------------------------------------------- */

static int parse_letter(int argc, char **argv, int *at, struct options *options)
{
    const char *argument = argv[*at];
    if (argument[1] == 'e' || argument[1] == 'l') {
        const char *value = argument[2] ? argument + 2 : *at + 1 < argc ? argv[++*at] : NULL;
        if (!value || !*value)
            if (argument[1] == 'l' || !value)
                return refuse(argument[1] == 'e' ? "-e needs code" : "-l needs the name of a module", NULL);
        options->steps[options->step_count++] = (struct step){ .kind = argument[1] == 'e' ? STEP_CODE : STEP_MODULE,
                                                               .text = value };
        return -1;
    }
    if (argument[2])
        return refuse_unknown(argument);
    switch (argument[1]) {
    case 'i':
        options->interactive = options->version = true;
        return -1;
    case 'v':
        options->version = true;
        return -1;
    case 'E':
        options->ignore_environment = true;
        return -1;
    case 'W':
        options->steps[options->step_count++] = (struct step){ .kind = STEP_WARN };
        return -1;
    default:
        return refuse_unknown(argument);
    }
}

static int parse_one(int argc, char **argv, int *at, struct options *options)
{
    if (!strcmp(argv[*at], "--help") || !strcmp(argv[*at], "-h")) {
        fputs(usage, stdout);
        return 0;
    }
    if (!strcmp(argv[*at], "--version")) {
        printf("orrery %s  (%s)\n", orr_version(), LUA_RELEASE);
        return 0;
    }
    return argv[*at][1] == '-' ? parse_word(argc, argv, at, options) : parse_letter(argc, argv, at, options);
}

/* Sets defaults for what the command line leaves open: a trusted script has no deadlines. */
static void set_defaults(struct options *options)
{
    if (!options->runtime.grace_ms)
        options->runtime.grace_ms = GRACE_MS;
    if (!options->lua.slow_call_ns)
        options->lua.slow_call_ns = SLOW_CALL_MS * UINT64_C(1000000);
    if (options->lua.profile != ORR_LUA_TRUSTED)
        return;
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        if (!options->lua.deadline_ns[entry])
            options->lua.deadline_ns[entry] = ORR_NEVER;
}

int options_parse(int argc, char **argv, int first, struct options *options)
{
    *options = (struct options){ .lua.profile = ORR_LUA_TRUSTED };
    options->steps = calloc((size_t)argc + 1, sizeof *options->steps);
    options->roots = calloc((size_t)argc + 1, sizeof *options->roots);
    if (!options->steps || !options->roots)
        return refuse("not enough memory for the options", NULL);
    int i = first, status = -1;
    for (; status < 0 && i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        if (!strcmp(argv[i], "--")) {
            i++;
            break;
        }
        status = parse_one(argc, argv, &i, options);
    }
    options->script = i;
    if (status < 0 && options->lua.mode == ORR_LUA_COUNT && options->lua.deadline_ns[0])
        status = refuse("--deadline and --instructions exclude each other: choose one of them", NULL);
    if (status < 0 && options->root_count && options->lua.profile == ORR_LUA_TRUSTED)
        status = refuse(
            "--root is for --untrusted: a trusted script requires modules by LUA_PATH and from its own folder", NULL);
    options->grants = (struct orr_grants){ .connect = (const char *const *)options->connect.rules,
                                           .listen = (const char *const *)options->listen.rules };
    if (options->connect.count || options->listen.count)
        options->lua.grants = &options->grants;
    options->lua.roots = options->root_count ? options->roots : NULL;
    set_defaults(options);
    return status;
}

void options_free(struct options *options)
{
    free(options->steps);
    options->steps = NULL;
    free((void *)options->roots);
    options->roots = NULL;
    rule_list_free(&options->connect);
    rule_list_free(&options->listen);
}
