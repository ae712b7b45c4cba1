/* `orrery test`: what its files share.  The command itself is in commands.h. */
#ifndef ORR_CLI_TEST_H
#define ORR_CLI_TEST_H

/* In the process of one test file: "orrery test --child FILE ...".  Answers the exit status. */
int test_file_main(int argc, char **argv);

#endif
