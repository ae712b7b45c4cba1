#include "io/gate.h"

#include "io/socket_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* An address that a name led to. */
struct noted {
    struct ip ip;
    uint16_t first_port, last_port;
    bool simulated;
};

/* A grant that was added; its rule points into the text. */
struct added {
    enum gate_use use;
    char *text; /* NULL: the place is free */
    struct address_rule rule;
};

struct orr_gate {
    struct alloc alloc;
    const struct gate_rules *rules;
    struct noted *noted; /* a ring of GATE_NOTED; NULL before the first */
    unsigned noted_count;
    struct added *added; /* a ring of GATE_ADDED; NULL before the first */
    unsigned added_count;
};

/* --- Life ------------------------------------------------------------------------------------- */

struct orr_gate *gate_new(const struct alloc *alloc, const struct gate_rules *rules)
{
    static const struct gate_rules none;
    struct orr_gate *gate = alloc_zeroed(alloc, sizeof *gate);
    if (!gate)
        return NULL;
    gate->alloc = *alloc;
    gate->rules = rules ? rules : &none;
    return gate;
}

static void free_text(const struct orr_gate *gate, struct added *added)
{
    if (added->text)
        alloc_free(&gate->alloc, added->text, strlen(added->text) + 1);
    added->text = NULL;
}

void gate_free(struct orr_gate *gate)
{
    if (!gate)
        return;
    struct alloc alloc = gate->alloc;
    for (unsigned i = 0; gate->added && i < GATE_ADDED; i++)
        free_text(gate, &gate->added[i]);
    if (gate->added)
        alloc_free(&alloc, gate->added, GATE_ADDED * sizeof *gate->added);
    if (gate->noted)
        alloc_free(&alloc, gate->noted, GATE_NOTED * sizeof *gate->noted);
    alloc_free(&alloc, gate, sizeof *gate);
}

/* --- All rules -------------------------------------------------------------------------------- */

/* How many places to look at: the rules, then the ring of grants that were added. */
static unsigned place_count(const struct orr_gate *gate, enum gate_use use)
{
    unsigned added = gate->added_count < GATE_ADDED ? gate->added_count : GATE_ADDED;
    return gate->rules->count[use] + added;
}

/* The rule at a place; NULL if it is for another use. */
static const struct address_rule *rule_at(const struct orr_gate *gate, enum gate_use use, unsigned place)
{
    if (place < gate->rules->count[use])
        return &gate->rules->rules[use][place];
    const struct added *added = &gate->added[place - gate->rules->count[use]];
    return added->text && added->use == use ? &added->rule : NULL;
}

void gate_visit(const struct orr_gate *gate, enum gate_use use, void (*each)(void *data, const char *text), void *data)
{
    for (unsigned i = 0, count = place_count(gate, use); i < count; i++) {
        const struct address_rule *rule = rule_at(gate, use, i);
        if (rule)
            each(data, rule->text);
    }
}

int gate_add(struct orr_gate *gate, enum gate_use use, const char *text)
{
    struct address_rule rule;
    const char *expected;
    int error = address_rule_parse(text, &rule, &expected);
    if (error)
        return error;
    if (!gate->added)
        gate->added = alloc_zeroed(&gate->alloc, GATE_ADDED * sizeof *gate->added);
    char *copy = gate->added ? alloc_copy(&gate->alloc, text) : NULL;
    if (!copy)
        return -ENOMEM;
    struct added *added = &gate->added[gate->added_count % GATE_ADDED];
    free_text(gate, added);
    *added = (struct added){ .use = use, .text = copy };
    gate->added_count++;
    return address_rule_parse(copy, &added->rule, &expected);
}

/* --- Paths ------------------------------------------------------------------------------------ */

/* The path or abstract name of an address that is no IP address. */
static const char *path_of(const struct orr_address *address, size_t *length, bool *abstract)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)address_kernel(address);
    size_t header = offsetof(struct sockaddr_un, sun_path);
    size_t bytes = address->length > header ? address->length - header : 0;
    *abstract = bytes && !un->sun_path[0];
    *length = *abstract ? bytes - 1 : strnlen(un->sun_path, bytes);
    return un->sun_path + *abstract;
}

static bool has_path(const struct orr_gate *gate, const struct gate_request *request)
{
    size_t length;
    bool abstract;
    const char *path = path_of(request->address, &length, &abstract);
    for (unsigned i = 0, count = place_count(gate, request->use); length && i < count; i++) {
        const struct address_rule *rule = rule_at(gate, request->use, i);
        if (rule && address_rule_has_path(rule, path, length, abstract))
            return true;
    }
    return false;
}

/* --- IP addresses ----------------------------------------------------------------------------- */

static bool is_noted(const struct orr_gate *gate, const struct ip *ip, uint16_t port, bool simulated)
{
    unsigned count = gate->noted_count < GATE_NOTED ? gate->noted_count : GATE_NOTED;
    if (!simulated && address_class_of(ip))
        return false;
    for (unsigned i = 0; i < count; i++) {
        const struct noted *noted = &gate->noted[i];
        if (noted->simulated == simulated && port >= noted->first_port && port <= noted->last_port &&
            ip_same_prefix(&noted->ip, ip, IP_BITS))
            return true;
    }
    return false;
}

static bool has_target(const struct orr_gate *gate, const struct ip *ip, uint16_t port, bool simulated)
{
    struct ip target = ip_as_target(*ip);
    for (unsigned i = 0, count = place_count(gate, GATE_CONNECT); i < count; i++) {
        const struct address_rule *rule = rule_at(gate, GATE_CONNECT, i);
        if (rule && address_rule_has_target(rule, &target, port))
            return true;
    }
    return is_noted(gate, &target, port, simulated);
}

static bool has_own(const struct orr_gate *gate, const struct ip *ip, uint16_t port, bool shared)
{
    for (unsigned i = 0, count = place_count(gate, GATE_LISTEN); i < count; i++) {
        const struct address_rule *rule = rule_at(gate, GATE_LISTEN, i);
        bool fits = rule && (!shared || rule->first_port == rule->last_port);
        if (fits && address_rule_has_own(rule, ip, port))
            return true;
    }
    return false;
}

bool gate_grants(const struct orr_gate *gate, const struct gate_request *request)
{
    struct ip ip;
    if (!gate)
        return true;
    if (!ip_of_address(request->address, &ip))
        return has_path(gate, request);
    uint16_t port = ip_port(request->address);
    return request->use == GATE_CONNECT ? has_target(gate, &ip, port, request->simulated)
                                        : has_own(gate, &ip, port, request->shared);
}

/* --- Names ------------------------------------------------------------------------------------ */

/* A name of this machine may be looked up to listen, too. */
static bool may_look_up(const struct address_rule *rule, enum gate_use use, const char *host)
{
    return rule && (use == GATE_CONNECT || rule->kind == RULE_LOCALHOST) && address_rule_has_name(rule, host);
}

bool gate_grants_lookup(const struct orr_gate *gate, const char *host)
{
    for (enum gate_use use = GATE_CONNECT; gate && use < GATE_USES; use++)
        for (unsigned i = 0, count = place_count(gate, use); i < count; i++)
            if (may_look_up(rule_at(gate, use, i), use, host))
                return true;
    return !gate;
}

static bool is_noted_already(const struct orr_gate *gate, const struct noted *one)
{
    unsigned count = gate->noted_count < GATE_NOTED ? gate->noted_count : GATE_NOTED;
    for (unsigned i = 0; i < count; i++) {
        const struct noted *noted = &gate->noted[i];
        if (noted->simulated == one->simulated && noted->first_port == one->first_port &&
            noted->last_port == one->last_port && ip_same_prefix(&noted->ip, &one->ip, IP_BITS))
            return true;
    }
    return false;
}

int gate_note(struct orr_gate *gate, const char *host, const struct orr_address *address, bool simulated)
{
    struct noted noted = { .simulated = simulated };
    if (!gate || !ip_of_address(address, &noted.ip))
        return 0;
    noted.ip = ip_as_target(noted.ip);
    if (!gate->noted)
        gate->noted = alloc_zeroed(&gate->alloc, GATE_NOTED * sizeof *gate->noted);
    if (!gate->noted)
        return -ENOMEM;
    for (unsigned i = 0, count = place_count(gate, GATE_CONNECT); i < count; i++) {
        const struct address_rule *rule = rule_at(gate, GATE_CONNECT, i);
        if (!rule || rule->kind == RULE_LOCALHOST || !address_rule_has_name(rule, host))
            continue;
        noted.first_port = rule->first_port;
        noted.last_port = rule->last_port;
        if (!is_noted_already(gate, &noted))
            gate->noted[gate->noted_count++ % GATE_NOTED] = noted;
    }
    return 0;
}

/* --- What people read ------------------------------------------------------------------------- */

void gate_describe(const struct gate_request *request, char text[GATE_GRANT])
{
    struct ip ip;
    if (ip_of_address(request->address, &ip)) {
        if (request->use == GATE_CONNECT)
            ip = ip_as_target(ip);
        ip_print(&ip, ip_port(request->address), text, GATE_GRANT);
        return;
    }
    size_t length;
    bool abstract;
    const char *path = path_of(request->address, &length, &abstract);
    snprintf(text, GATE_GRANT, "unix:%s%.*s", abstract ? "@" : "", (int)length, path);
}

static void explain(const char *what, const char *grant, const char *why, enum gate_use use, char text[GATE_TEXT])
{
    static const char *const names[GATE_USES] = { "connect", "listen" }, *const flags[GATE_USES] = { "net", "listen" };
    snprintf(text, GATE_TEXT, "%s is not granted%s; it needs %s in grants.%s of the host, or --allow-%s=%s", what, why,
             grant, names[use], flags[use], grant);
}

/* Why a path that a rule has is refused all the same, or that it is no plain one. */
static const char *why_not_path(const struct orr_address *address)
{
    size_t length;
    bool abstract;
    const char *path = path_of(address, &length, &abstract);
    return abstract || address_rule_path_is_plain(path, length)
               ? ""
               : " (the path must begin with / and be without empty parts, \".\" and \"..\")";
}

void gate_explain(const struct gate_request *request, char text[GATE_TEXT])
{
    char grant[GATE_GRANT], why[64] = "";
    struct ip ip;
    gate_describe(request, grant);
    const char *what = request->use == GATE_CONNECT ? "this address" : "to listen on this address";
    const char *reason = why;
    if (!ip_of_address(request->address, &ip)) {
        reason = why_not_path(request->address);
    } else if (request->use == GATE_CONNECT) {
        ip = ip_as_target(ip);
        const struct address_class *class = address_class_of(&ip);
        if (class)
            snprintf(why, sizeof why, ": it is special (%s)", class->name);
    } else if (request->shared) {
        reason = ": a port that is shared must be granted by its number";
    }
    explain(what, grant, reason, request->use, text);
}

void gate_explain_lookup(const char *host, uint16_t port, char text[GATE_TEXT])
{
    char grant[GATE_GRANT];
    snprintf(grant, sizeof grant, "%s:%u", host, port);
    explain("to look up this name", grant, "", GATE_CONNECT, text);
}

/* --- The way through -------------------------------------------------------------------------- */

/* Gives the kernel a reference to the socket at a path. */
static int pass_to_path(const char *path, struct passage *passage)
{
    int fd = socket_path_open(path);
    if (fd < 0)
        return fd;
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int length = snprintf(un.sun_path, sizeof un.sun_path, "/proc/self/fd/%d", fd);
    address_from_kernel(&passage->instead, (const struct sockaddr *)&un,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length + 1));
    passage->address = &passage->instead;
    passage->held = fd;
    return 0;
}

static int pass_by_path(enum gate_use use, const char *path, struct passage *passage)
{
    if (use == GATE_CONNECT)
        return pass_to_path(path, passage);
    int folder = socket_path_open_folder(path, &passage->name);
    if (folder < 0)
        return folder;
    passage->folder = passage->held = folder;
    return 0;
}

int gate_pass(const struct orr_gate *gate, const struct gate_request *request, struct passage *passage)
{
    passage->address = request->address;
    passage->folder = AT_FDCWD;
    passage->name = NULL;
    passage->held = -1;
    if (gate && !gate_grants(gate, request))
        return -EACCES;
    if (address_family(request->address) != AF_UNIX)
        return 0;
    size_t length;
    bool abstract;
    const char *path = path_of(request->address, &length, &abstract);
    if (abstract || !length)
        return 0;
    passage->name = path;
    return gate ? pass_by_path(request->use, path, passage) : 0;
}

void gate_leave(struct passage *passage)
{
    if (passage->held >= 0)
        close(passage->held);
    passage->held = -1;
}

int gate_confirm(const struct passage *passage)
{
    struct stat there, here;
    size_t length;
    bool abstract;
    if (passage->folder == AT_FDCWD)
        return 0;
    const char *path = path_of(passage->address, &length, &abstract);
    bool same = !lstat(path, &there) && !fstatat(passage->folder, passage->name, &here, AT_SYMLINK_NOFOLLOW) &&
                there.st_dev == here.st_dev && there.st_ino == here.st_ino;
    return same ? 0 : -EACCES;
}
