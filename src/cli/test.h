/* Shared by the files of `orrery test`.  The command itself is in commands.h. */
#ifndef ORR_CLI_TEST_H
#define ORR_CLI_TEST_H

/* Runs the process of one test file: "orrery test --child FILE ...".  Returns the exit status. */
int test_file_main(int argc, char **argv);

#endif
