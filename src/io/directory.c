/* The names in what LIST has read: records of getdents64(2), one after the other. */
#include "io/file_work.h"

#include <dirent.h>

/* As the kernel writes it. */
struct record {
    uint64_t inode;
    int64_t next;
    uint16_t length;
    uint8_t type;
    char name[];
};

static enum orr_file_type type_of(uint8_t type)
{
    switch (type) {
    case DT_REG:
        return ORR_TYPE_REGULAR;
    case DT_DIR:
        return ORR_TYPE_DIRECTORY;
    case DT_LNK:
        return ORR_TYPE_SYMLINK;
    case DT_FIFO:
        return ORR_TYPE_FIFO;
    case DT_SOCK:
        return ORR_TYPE_SOCKET;
    case DT_CHR:
        return ORR_TYPE_CHARACTER;
    case DT_BLK:
        return ORR_TYPE_BLOCK;
    default:
        return ORR_TYPE_UNKNOWN;
    }
}

bool orr_file_next_name(const struct orr_file_work *work, size_t *cursor, const char **name, enum orr_file_type *type)
{
    const struct orr_file_answer *answer = orr_file_answer(work);
    if (!answer || !cursor || !name || file_work_call(work)->kind != ORR_FILE_LIST)
        return false;
    const char *bytes = file_work_call(work)->bytes;
    while (answer->result > 0 && *cursor < (size_t)answer->result) {
        struct record head;
        memcpy(&head, bytes + *cursor, sizeof head);
        const char *found = bytes + *cursor + offsetof(struct record, name);
        *cursor += head.length;
        if (!strcmp(found, ".") || !strcmp(found, ".."))
            continue;
        *name = found;
        if (type)
            *type = type_of(head.type);
        return true;
    }
    return false;
}
