#include "io/input.h"

#include "exec/worker.h"

#include <errno.h>
#include <string.h>

enum { BUFFER_FIRST = 16 * 1024 }; /* bytes of a new buffer, if so many are asked for */

void input_drop(struct input *input, const struct opened *owner)
{
    if (!input->capacity)
        return;
    alloc_free(&owner->worker->alloc, input->bytes, input->capacity);
    account_uncharge(owner->open.account, input->capacity);
    *input = (struct input){ 0 };
}

static int input_grow(struct input *input, const struct opened *owner, size_t capacity)
{
    const struct orr_account *account = owner->open.account;
    int error = account_charge(account, capacity - input->capacity);
    if (error)
        return error;
    char *bytes = alloc_resize(&owner->worker->alloc, input->bytes, input->capacity, capacity);
    if (!bytes) {
        account_uncharge(account, capacity - input->capacity);
        return -ENOMEM;
    }
    input->bytes = bytes;
    input->capacity = capacity;
    return 0;
}

int input_reserve(struct input *input, const struct opened *owner, size_t least, size_t most)
{
    if (input->start) {
        memmove(input->bytes, input->bytes + input->start, input->length);
        input->start = 0;
    }
    if (input->capacity >= least && input->length < input->capacity)
        return 0;
    size_t capacity = input->capacity ? 2 * input->capacity : BUFFER_FIRST;
    capacity = capacity < most ? capacity : most;
    return input_grow(input, owner, capacity < least ? least : capacity);
}

void input_settle(struct input *input, const struct opened *owner)
{
    if (!input->length)
        input_drop(input, owner);
}

int input_append(struct input *input, const struct opened *owner, const void *bytes, size_t length)
{
    int error = length ? input_reserve(input, owner, input->length + length, input->length + length) : 0;
    if (error)
        return error;
    if (length)
        memcpy(input->bytes + input->length, bytes, length);
    input->length += length;
    return 0;
}
