/*
 * The commands of the program.  Each has its own file, gets the arguments of main(), and returns
 * the exit status.
 */
#ifndef ORR_CLI_COMMANDS_H
#define ORR_CLI_COMMANDS_H

int script_main(int argc, char **argv); /* orrery [options] script [arguments] */
int repl_main(int argc, char **argv);   /* orrery repl [options] */
int test_main(int argc, char **argv);   /* orrery test [options] [paths] */
int info_main(int argc, char **argv);   /* orrery info */

#endif
