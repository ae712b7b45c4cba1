#include "base/text.h"

#include <string.h>

size_t text_cut(const char *text, size_t length, size_t most)
{
    enum { LONGEST = 4 }; /* bytes of a character */
    if (length <= most)
        return length;
    size_t end = most;
    while (end && most - end < LONGEST && ((unsigned char)text[end] & 0xc0) == 0x80) /* in the middle of one */
        end--;
    return most - end < LONGEST ? end : most;
}

void text_name(char out[TEXT_NAME_ROOM], const char *name)
{
    static const char more[] = "...";
    size_t length = strnlen(name, TEXT_NAME_ROOM);
    if (length <= TEXT_NAME) {
        memcpy(out, name, length + 1);
        return;
    }
    size_t kept = text_cut(name, length, TEXT_NAME - (sizeof more - 1));
    memcpy(out, name, kept);
    memcpy(out + kept, more, sizeof more);
}
