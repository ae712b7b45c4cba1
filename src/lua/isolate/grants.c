#include "lua/isolate/grants.h"

#include "base/log.h"

#include <errno.h>

static const char *const *list_of(const struct orr_grants *grants, enum gate_use use)
{
    return use == GATE_CONNECT ? grants->connect : grants->listen;
}

static bool has_any(const char *const *list)
{
    return list && *list;
}

bool grants_have_network(const struct orr_grants *grants)
{
    return grants && (has_any(grants->connect) || has_any(grants->listen) || grants->ask);
}

static unsigned count_rules(const char *const *list)
{
    unsigned count = 0;
    while (list && list[count])
        count++;
    return count;
}

/* A host name does not say on which of the machine's addresses to listen. */
static const char *check_for(enum gate_use use, const struct address_rule *rule)
{
    return use == GATE_LISTEN && rule->kind == RULE_NAME
               ? "expected *, localhost or a network of this machine's addresses, since names are for connecting"
               : NULL;
}

/* Reads a copy of a rule.  The copy belongs to the rule, on an error as well. */
static int add_rule(struct address_rule *rule, enum gate_use use, const char *text, const struct alloc *alloc,
                    const struct log *log)
{
    static const char *const names[GATE_USES] = { "connect", "listen" };
    const char *expected = NULL, *copy = alloc_copy(alloc, text);
    if (!copy)
        return -ENOMEM;
    int error = address_rule_parse(copy, rule, &expected);
    if (!error)
        expected = check_for(use, rule);
    if (expected)
        log_line(log, ORR_LOG_ERROR, "option grants.%s has \"%s\": %s", names[use], text, expected);
    return expected ? -EINVAL : 0;
}

static int add_rules(struct grants *grants, enum gate_use use, const char *const *list, const struct alloc *alloc,
                     const struct log *log)
{
    unsigned count = count_rules(list);
    if (!count)
        return 0;
    grants->network.rules[use] = alloc_zeroed(alloc, count * sizeof *grants->network.rules[use]);
    if (!grants->network.rules[use])
        return -ENOMEM;
    grants->network.count[use] = count;
    for (unsigned i = 0; i < count; i++) {
        int error = add_rule(&grants->network.rules[use][i], use, list[i], alloc, log);
        if (error)
            return error;
    }
    return 0;
}

int grants_new(const struct orr_lua_options *options, const struct alloc *alloc, const struct log *log,
               struct grants **out)
{
    const struct orr_grants *wanted = options->grants;
    *out = NULL;
    if (!wanted)
        return 0;
    if (options->profile == ORR_LUA_TRUSTED) {
        log_line(log, ORR_LOG_ERROR,
                 "option grants is for untrusted isolates; expected none, since a trusted one has "
                 "everything");
        return -EINVAL;
    }
    struct grants *grants = alloc_zeroed(alloc, sizeof *grants);
    if (!grants)
        return -ENOMEM;
    grants->ask = wanted->ask;
    grants->ask_data = wanted->ask_data;
    int error = 0;
    for (enum gate_use use = GATE_CONNECT; use < GATE_USES && !error; use++)
        error = add_rules(grants, use, list_of(wanted, use), alloc, log);
    if (error)
        grants_free(grants, alloc);
    else
        *out = grants;
    return error;
}

static void free_rules(struct address_rule *rules, unsigned count, const struct alloc *alloc)
{
    for (unsigned i = 0; i < count; i++)
        if (rules[i].text)
            alloc_free(alloc, (char *)rules[i].text, strlen(rules[i].text) + 1);
    if (rules)
        alloc_free(alloc, rules, count * sizeof *rules);
}

void grants_free(struct grants *grants, const struct alloc *alloc)
{
    if (!grants)
        return;
    for (enum gate_use use = GATE_CONNECT; use < GATE_USES; use++)
        free_rules(grants->network.rules[use], grants->network.count[use], alloc);
    alloc_free(alloc, grants, sizeof *grants);
}
