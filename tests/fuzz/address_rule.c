/*
 * Fuzzes rules for addresses: an input is a rule, a newline, and an address or a name.  Any text is
 * read or refused without harm.  Only a network, or localhost, grants a special address.  What a
 * gate says that a request for an IP address needs is a rule that grants it.
 *
 * A target for libFuzzer: see tests/fuzz/run.
 */
#include "io/gate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static bool grants(const char *rule, const struct gate_request *request)
{
    const struct alloc alloc = alloc_from(NULL, NULL);
    struct orr_gate *gate = gate_new(&alloc, NULL);
    must(gate_add(gate, request->use, rule) == 0, "a rule cannot be added");
    bool granted = gate_grants(gate, request);
    gate_free(gate);
    return granted;
}

/* The rule with an address. */
static void check_rule(const struct address_rule *rule, const struct orr_address *address)
{
    struct gate_request request = { .use = GATE_CONNECT, .address = address };
    struct ip ip;
    bool granted = grants(rule->text, &request);
    bool is_ip = ip_of_address(address, &ip);
    if (!is_ip)
        must(!granted || rule->kind == RULE_PATH || rule->kind == RULE_ABSTRACT, "a path is granted by another rule");
    if (is_ip && granted)
        must(rule->kind == RULE_ANY || rule->kind == RULE_NETWORK || rule->kind == RULE_LOCALHOST, "a wrong kind");
    if (!is_ip || !granted)
        return;
    ip = ip_as_target(ip);
    const struct address_class *class = address_class_of(&ip);
    if (class && rule->kind == RULE_NETWORK)
        must(rule->bits >= class->bits, "a wide network grants a special address");
    else
        must(!class || rule->kind == RULE_LOCALHOST, "a special address is granted");
}

/* What an address needs, for connecting and for listening. */
static void check_address(const struct orr_address *address)
{
    for (enum gate_use use = GATE_CONNECT; use < GATE_USES; use++) {
        struct gate_request request = { .use = use, .address = address };
        char text[GATE_GRANT], reason[GATE_TEXT];
        struct ip ip;
        gate_describe(&request, text);
        gate_explain(&request, reason);
        must(strstr(reason, text), "a refusal does not name the grant");
        if (ip_of_address(address, &ip))
            must(grants(text, &request), "what an address needs does not grant it");
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size)
{
    char *text = malloc(size + 1);
    memcpy(text, bytes, size);
    text[size] = '\0';
    char *second = strchr(text, '\n');
    if (second)
        *second++ = '\0';
    size_t length = second ? size - (size_t)(second - text) : 0;
    struct address_rule rule;
    struct orr_address address;
    const char *expected = NULL;
    int error = address_rule_parse(text, &rule, &expected);
    must(error ? error == -EINVAL && expected : !expected && rule.first_port <= rule.last_port, "a wrong answer");
    if (second && !orr_address_parse(second, length, &address)) {
        check_address(&address);
        if (!error)
            check_rule(&rule, &address);
    }
    if (second && !error)
        must(!address_rule_has_name(&rule, second) || rule.kind == RULE_ANY || rule.kind == RULE_NAME ||
                 rule.kind == RULE_LOCALHOST,
             "a name is granted by another rule");
    free(text);
    return 0;
}
