/* What the program can be told to do: each command has a file of its own, is given what main() was, and answers the exit status. */
#ifndef ORR_CLI_COMMANDS_H
#define ORR_CLI_COMMANDS_H

int script_main(int argc, char **argv); /* orrery [options] script [arguments] */
int repl_main(int argc, char **argv);   /* orrery repl [options] */
int test_main(int argc, char **argv);   /* orrery test [options] [paths] */
int info_main(int argc, char **argv);   /* orrery info */

#endif
