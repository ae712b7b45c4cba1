/*
 * The program: chooses the command.  A first argument that is no command is a script, or an option.
 */
#include "cli/commands.h"

#include <string.h>

static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
} commands[] = {
    { "info", info_main },
    { "repl", repl_main },
    { "test", test_main },
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].main(argc, argv);
    return script_main(argc, argv);
}
