/*
 * The stack on which the handler of the preemption signal runs.
 *
 * The handler asks for the thread's alternate signal stack (SA_ONSTACK): some hosts run on stacks
 * that have no room for a signal, and insist on it.  A thread without an alternate stack gets one
 * here.  So a signal never needs room on the stack that it interrupts, which may be nearly full.
 * And valgrind can deliver it: without an alternate stack, it would end the host as soon as a
 * signal with that flag needs a page that the main thread's stack has not grown to yet.
 */
#ifndef ORR_EXEC_SIGNAL_STACK_H
#define ORR_EXEC_SIGNAL_STACK_H

/*
 * Gives the calling thread an alternate signal stack, unless it has one.  It is freed when the
 * thread ends.  Where that is not possible, the handler runs on the thread's own stack.
 */
void signal_stack_ensure(void);

#endif
