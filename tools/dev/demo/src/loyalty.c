// What a compiler makes of Loyalty.swift, in C: no compiler for Swift makes Mach-O files on Linux. The labels are Swift's names;
// `build` gives the inlined function the name that says why Swift stopped, and the debug information Swift's language and file.
void next(long *tier, long points) __asm__("_$s7Loyalty4TierC4nextyySiF");
void add(long *account, long points) __asm__("_$s7Loyalty7AccountV3addyySiF");
void earn(long *account, long points) __asm__("_$s7Loyalty7AccountV4earnyySiF");

static inline __attribute__((always_inline)) void runtime_failure(void) { __builtin_trap(); }

__attribute__((noinline)) void next(long *tier, long points) {
  next(tier, points + 1);
  *tier += points;
}

__attribute__((noinline)) void add(long *account, long points) {
  if (__builtin_add_overflow(*account, points, account)) {
    runtime_failure();
  }
}

void earn(long *account, long points) {
  add(account, points);
  next(account, points);
  *account += 1;
}
