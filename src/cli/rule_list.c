#include "cli/rule_list.h"

#include <stdlib.h>
#include <string.h>

static bool add_one(struct rule_list *list, const char *text, size_t length)
{
    char **more = realloc(list->rules, (list->count + 2) * sizeof *more);
    if (!more)
        return false;
    list->rules = more;
    list->rules[list->count] = strndup(text, length);
    if (!list->rules[list->count])
        return false;
    list->rules[++list->count] = NULL;
    return true;
}

bool rule_list_add(struct rule_list *list, const char *text)
{
    for (bool last = false; !last; text++) {
        size_t length = strcspn(text, ",");
        if (!length || !add_one(list, text, length))
            return false;
        text += length;
        last = !*text;
    }
    return true;
}

void rule_list_free(struct rule_list *list)
{
    for (unsigned i = 0; i < list->count; i++)
        free(list->rules[i]);
    free(list->rules);
    *list = (struct rule_list){ 0 };
}
