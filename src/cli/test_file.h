/* The process of one test file, which `orrery test` starts. */
#ifndef ORR_CLI_TEST_FILE_H
#define ORR_CLI_TEST_FILE_H

/* Runs the process of one test file: "orrery test --child FILE ...".  Returns the exit status. */
int test_file_main(int argc, char **argv);

#endif
