// What the bugs have in common: marks, and the app's own small helpers.
#pragma once

// Notes the address behind the instructions in front of it in the section __DATA,__marks, with a number. Behind a
// call, that is where the call returns to.
#define MARK(number) MARKED("", number)
#define MARKED(instruction, number)                                                                         \
  __asm__ volatile("1:\n\t" instruction                                                                     \
                   ".pushsection __DATA,__marks,regular,no_dead_strip\n\t.p2align 3\n\t"                    \
                   ".quad %c0\n\t.quad 1b\n\t.popsection" ::"i"(number)                                    \
                   : "memory")
// Functions that call the same helper are kept apart: which copy of the helper belongs to which call could not be
// told inside one function.
#define KEPT __attribute__((noinline))
#ifdef __aarch64__
#define TRAP "brk #1\n\t"
#else
#define TRAP "ud2\n\t"
#endif

#ifdef __cplusplus
extern "C" {
#endif
// No compiler can know whether a fault happens, so it keeps what comes after.
extern volatile int armed;
extern void *volatile nothing;
// Stands for `abort`, of which a compiler knows that it does not return.
extern void end_process(void);
extern void qsort(void *, unsigned long, unsigned long, int (*)(const void *, const void *));
#ifdef __cplusplus
}
#endif

#define FAULT(number)                                                                                       \
  do {                                                                                                      \
    if (armed) MARKED(TRAP, number);                                                                        \
  } while (0)
