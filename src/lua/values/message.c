#include "lua/values/message.h"

#include "lua/isolate/quota.h"

#include <errno.h>
#include <string.h>

enum { CAPACITY_MIN = 256, LIST_MIN = 4 };

void message_init(struct message *m, const struct alloc *alloc)
{
    *m = (struct message){ .alloc = *alloc };
}

void message_give_room(struct message *m, void *room, size_t size)
{
    m->room = room;
    m->room_size = size;
}

bool message_take(struct message *m, size_t bytes)
{
    if (!m->quota)
        return true;
    if (!quota_take(m->quota, bytes)) {
        m->over_quota = true;
        return false;
    }
    m->charged += bytes;
    return true;
}

void message_give(struct message *m, size_t bytes)
{
    if (!m->quota)
        return;
    quota_give(m->quota, bytes);
    m->charged -= bytes;
}

int message_charge_to(struct message *m, struct quota *quota)
{
    m->quota = quota_ref(quota);
    return message_take(m, QUOTA_MESSAGE) ? 0 : -ENOMEM;
}

void message_clear(struct message *m)
{
    struct quota *quota = m->quota;
    size_t kept = m->charged < QUOTA_MESSAGE ? m->charged : QUOTA_MESSAGE;
    quota_give(quota, m->charged - kept);
    for (unsigned i = 0; i < m->attachment_count; i++)
        m->attachments[i]->unref(m->attachments[i]);
    for (unsigned i = 0; i < m->segment_count; i++)
        alloc_free(&m->alloc, m->segments[i].bytes, m->segments[i].size);
    alloc_free(&m->alloc, m->attachments, m->attachment_capacity * sizeof(struct attachment *));
    alloc_free(&m->alloc, m->segments, m->segment_capacity * sizeof *m->segments);
    if (m->bytes != m->room)
        alloc_free(&m->alloc, m->bytes, m->capacity);
    *m = (struct message){
        .alloc = m->alloc,
        .room = m->room,
        .room_size = m->room_size,
        .flat = m->flat,
        .quota = quota,
        .charged = kept,
    };
}

void message_free(struct message *m)
{
    message_clear(m);
    quota_give(m->quota, m->charged);
    quota_unref(m->quota);
    m->quota = NULL;
    m->charged = 0;
}

/* Moves the bytes out of the owner's room. */
static unsigned char *leave_room(struct message *m, size_t capacity)
{
    unsigned char *bytes = alloc_new(&m->alloc, capacity);
    if (bytes && m->size)
        memcpy(bytes, m->bytes, m->size);
    return bytes;
}

int message_grow(struct message *m, size_t more)
{
    if (more > UINT32_MAX || m->size + more > UINT32_MAX)
        return -E2BIG;
    if (!m->bytes && more <= m->room_size) {
        m->bytes = m->room;
        m->capacity = m->room_size;
        return 0;
    }
    bool in_room = m->bytes && m->bytes == m->room;
    size_t before = in_room ? 0 : m->capacity;
    size_t capacity = before ? before : CAPACITY_MIN;
    while (capacity < m->size + more)
        capacity *= 2;
    if (!message_take(m, capacity - before))
        return -ENOMEM;
    unsigned char *bytes = in_room ? leave_room(m, capacity) : alloc_resize(&m->alloc, m->bytes, before, capacity);
    if (!bytes) {
        message_give(m, capacity - before);
        return -ENOMEM;
    }
    m->bytes = bytes;
    m->capacity = capacity;
    return 0;
}

/*
 * Makes room for one more element in a list.  Answers the list, which may move; NULL for lack of
 * memory.
 */
static void *list_grow(struct message *m, void *list, unsigned count, unsigned *capacity, size_t size)
{
    if (count < *capacity)
        return list;
    unsigned more = *capacity ? *capacity * 2 : LIST_MIN;
    if (more <= *capacity || !message_take(m, (more - *capacity) * size))
        return NULL;
    void *grown = alloc_resize(&m->alloc, list, *capacity * size, more * size);
    if (grown)
        *capacity = more;
    else
        message_give(m, (more - *capacity) * size);
    return grown;
}

int message_add_segment(struct message *m, const char *bytes, size_t size)
{
    struct segment *list = list_grow(m, m->segments, m->segment_count, &m->segment_capacity, sizeof *m->segments);
    if (!list)
        return -ENOMEM;
    m->segments = list;
    if (!message_take(m, size))
        return -ENOMEM;
    char *copy = alloc_new(&m->alloc, size);
    if (!copy) {
        message_give(m, size);
        return -ENOMEM;
    }
    memcpy(copy, bytes, size);
    list[m->segment_count++] = (struct segment){ .bytes = copy, .size = size };
    return 0;
}

int message_add_attachment(struct message *m, struct attachment *attachment)
{
    struct attachment **list = list_grow(m, (void *)m->attachments, m->attachment_count, &m->attachment_capacity,
                                         sizeof(struct attachment *));
    if (!list)
        return -ENOMEM;
    m->attachments = list;
    if (!message_take(m, attachment->size))
        return -ENOMEM;
    attachment->ref(attachment);
    list[m->attachment_count++] = attachment;
    return 0;
}
