/*
 * Runs a program that asks for io_uring by name, or says why it is left out.
 * Usage: with_rings PROGRAM [ARGUMENT]...
 */
#include "rings.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: with_rings PROGRAM [ARGUMENT]...\n");
        return 2;
    }
    if (!rings_available(io_uring_queue_init_params))
        return RINGS_LEFT_OUT;
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
