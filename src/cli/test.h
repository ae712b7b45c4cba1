/* `orrery test`. */
#ifndef ORR_CLI_TEST_H
#define ORR_CLI_TEST_H

/* All words of the command line, of which the second is "test".  Answers the exit status. */
int test_main(int argc, char **argv);

/* The same in the process of one test file: "orrery test --child FILE ...", as lua/cli/test/job.lua has it. */
int test_file_main(int argc, char **argv);

#endif
