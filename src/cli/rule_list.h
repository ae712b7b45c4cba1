/*
 * Lists of rules on the command line: texts with commas between them, copied, and a NULL at the
 * end, as struct orr_grants has them.
 */
#ifndef ORR_CLI_RULE_LIST_H
#define ORR_CLI_RULE_LIST_H

#include <stdbool.h>

struct rule_list {
    char **rules; /* NULL: none, or else with a NULL at the end */
    unsigned count;
};

/* Appends "a,b,c".  False without memory, or if a rule is empty. */
bool rule_list_add(struct rule_list *list, const char *text);

void rule_list_free(struct rule_list *list);

#endif
