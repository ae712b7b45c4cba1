/* Tells the processor that this is a spin loop. */
#ifndef ORR_BASE_CPU_H
#define ORR_BASE_CPU_H

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
