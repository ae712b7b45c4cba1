/*
 * Fuzzes addresses as text.  Any text is read or refused without harm.  What was read can be
 * printed, and gives the same address when it is read again.  A name that parsing refuses because
 * it must be looked up can be split, and so can every address but a path.
 *
 * A target for libFuzzer: see tests/fuzz/run.
 */
#include "io/address.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void print_and_read_again(const struct orr_address *address)
{
    char text[ORR_ADDRESS_TEXT], cut[8];
    struct orr_address again;
    int length = orr_address_print(address, text, sizeof text);
    must(length > 0, "an address that was read cannot be printed");
    must(orr_address_parse(text, (size_t)length, &again) == 0, "what was printed cannot be read");
    must(again.length == address->length && !memcmp(again.bytes, address->bytes, again.length),
         "what was printed is another address");
    must(orr_address_print(address, cut, sizeof cut) == -ENOSPC || length < (int)sizeof cut, "it was cut");
}

/* The bytes as an address of the kernel, which may be anything. */
static void print_anything(const unsigned char *bytes, size_t size)
{
    struct orr_address address;
    char text[ORR_ADDRESS_TEXT];
    address_from_kernel(&address, (const struct sockaddr *)bytes, (socklen_t)size);
    int length = orr_address_print(&address, text, sizeof text);
    must(length == -EINVAL || (length > 0 && !text[length]), "an address of the kernel was printed badly");
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size)
{
    struct orr_address address;
    char host[ORR_HOST_TEXT];
    uint16_t port;
    const char *text = (const char *)bytes;
    int error = orr_address_parse(text, size, &address);
    int split = orr_address_split(text, size, host, &port);
    bool is_path = size >= 5 && !memcmp(text, "unix:", 5);
    if (!error)
        print_and_read_again(&address);
    if (!error || error == -EDESTADDRREQ)
        must(split == (is_path ? -EINVAL : 0), "parsing and splitting disagree");
    else
        must(split != 0, "what cannot be an address was split");
    print_anything(bytes, size);
    return 0;
}
