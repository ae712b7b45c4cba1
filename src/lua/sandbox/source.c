#include "lua/sandbox/source.h"

#include "lua/limits/preempt.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum {
    PIECE = 64,    /* bytes that the parser gets at a time: some texts take long */
    BUFFER = 4096, /* bytes that are read of a file at a time */
};

/* The answer for a status of lua_load(). */
static int answer_of(lua_State *L, int status)
{
    if (status == LUA_OK)
        return 0;
    if (status != LUA_ERRMEM)
        return -EPROTO;
    lua_pop(L, 1);
    return -ENOMEM;
}

/* --- Text ------------------------------------------------------------------------------------- */

struct text {
    struct orr_isolate *iso;
    const char *at;
    size_t left;
};

static const char *read_text(lua_State *L, void *data, size_t *size)
{
    struct text *text = data;
    const char *piece = text->at;
    preempt_check(text->iso, L);
    *size = text->left < PIECE ? text->left : PIECE;
    text->at += *size;
    text->left -= *size;
    return piece;
}

int source_load_text(lua_State *L, const char *text, size_t size, const struct source_options *options)
{
    if (options->limit && size > options->limit)
        return -EFBIG;
    struct text source = { options->iso, text, size };
    return answer_of(L, lua_load(L, read_text, &source, options->name, options->mode));
}

/* --- Files ------------------------------------------------------------------------------------ */

struct file {
    struct orr_isolate *iso;
    int fd, error;
    size_t size, limit;
    bool begun;
    bool in_comment;  /* in the first line, which is for the shell */
    size_t next, end; /* the bytes in the buffer that the parser has not got yet */
    char buffer[BUFFER];
};

/* False at the end. */
static bool fill_buffer(struct file *file)
{
    ssize_t size;
    do
        size = read(file->fd, file->buffer, BUFFER);
    while (size < 0 && errno == EINTR);
    if (size < 0)
        file->error = -errno;
    else if (file->limit && (file->size += (size_t)size) > file->limit)
        file->error = -EFBIG;
    file->next = 0;
    file->end = size > 0 ? (size_t)size : 0;
    return size > 0 && !file->error;
}

/* Answers how many bytes the next piece has; 0 at the end. */
static size_t next_piece(struct file *file, const char **piece)
{
    if (file->next == file->end && !fill_buffer(file))
        return 0;
    size_t left = file->end - file->next;
    size_t size = left < PIECE ? left : PIECE;
    *piece = file->buffer + file->next;
    file->next += size;
    return size;
}

static const char *read_file(lua_State *L, void *data, size_t *size)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* a byte order mark */
    struct file *file = data;
    const char *start;
    do {
        preempt_check(file->iso, L);
        size_t length = next_piece(file, &start);
        if (!length)
            return NULL;
        const char *end = start + length;
        if (!file->begun && length >= strlen(mark) && !memcmp(start, mark, strlen(mark)))
            start += strlen(mark);
        if (!file->begun)
            file->in_comment = start < end && *start == '#';
        file->begun = true;
        *size = (size_t)(end - start);
        if (file->in_comment) {
            const char *newline = memchr(start, '\n', *size);
            file->in_comment = !newline;
            start = newline ? newline : end; /* keep the line break: lines are counted */
            *size = (size_t)(end - start);
        }
    } while (!*size);
    return start;
}

int source_load_file(lua_State *L, int fd, const struct source_options *options)
{
    struct file file = { .iso = options->iso, .fd = fd, .limit = options->limit };
    int error = answer_of(L, lua_load(L, read_file, &file, options->name, options->mode));
    if (!file.error)
        return error;
    if (error != -ENOMEM)
        lua_pop(L, 1);
    return file.error;
}

void source_set_globals(lua_State *L)
{
    if (!lua_setupvalue(L, -2, 1))
        lua_pop(L, 1);
}
