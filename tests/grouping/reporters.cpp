// Functions that only report what their callers have found, and functions that are to blame although they throw or
// abort themselves.
#include "bugs.h"

extern "C" {
__attribute__((noreturn)) void abort(void);
int say(const char *text);
int run_reporters(int x);
}

namespace shop {
struct Error {
  const char *text;
  Error(const char *text);
  ~Error();
};
}  // namespace shop

// Each is called by two bugs. Most are not declared to never return.
void check_failed(const char *text) { say(text); abort(); }
void raise_error(const char *text) { throw shop::Error(text); }
void handle_assertion_failure(const char *text) { say("assertion"); say(text); abort(); }
void crash_now(const char *) { abort(); }
void throw_exception(const char *text) { throw shop::Error(text); }
[[noreturn]] void assertion_failed(const char *text) { say(text); abort(); }
void bail_out(const char *text) { if (say(text)) say("out"); abort(); }
void CHECK_fail(const char *text) { say(text); abort(); }
[[noreturn]] void fail_fast(const char *) { abort(); }
void terminate_app(const char *text) { say(text); say("ends"); abort(); }
void verify_failed(const char *text) { while (say(text)) armed = 0; abort(); }
void precondition_failed(const char *text) { say(text); abort(); }
void die(const char *text) { say(text); abort(); }
void panic(const char *text) { say("panic"); say(text); abort(); }
void oom_abort(const char *text) { say(text); abort(); }
// Its name says nothing.
void helper(const char *text) { say(text); abort(); }
namespace shop {
void throwOutOfRange(const char *text) { throw Error(text); }
struct CheckFailure {
  const char *text;
  explicit CheckFailure(const char *text) : text(text) {}
  __attribute__((noinline)) ~CheckFailure() { say(text); abort(); }
};
}  // namespace shop

#define TWO_BUGS(number, report)                                                                              \
  KEPT int buy_##number(int x) { if (x < armed) report("first"); say("first"); return x - armed; }            \
  KEPT int sell_##number(int x) { if (x * 3 < armed) report("second"); say("second"); return x + armed; }
#define EACH_REPORTER(DO)                                                         \
  DO(1, check_failed) DO(2, raise_error) DO(3, crash_now)                         \
  DO(4, handle_assertion_failure) DO(5, throw_exception) DO(6, assertion_failed)  \
  DO(7, bail_out) DO(8, CHECK_fail) DO(9, fail_fast)                              \
  DO(10, terminate_app) DO(11, verify_failed) DO(12, precondition_failed)         \
  DO(13, die) DO(14, panic) DO(15, oom_abort)                                     \
  DO(16, helper) DO(17, shop::throwOutOfRange) DO(18, shop::CheckFailure)
EACH_REPORTER(TWO_BUGS)

// To blame themselves: what they found is their own, and they return where all is well.
KEPT int parse_header(int x) {
  if (x < armed) throw shop::Error("header");
  return x * 3;
}
KEPT int parse_body(int x) {
  if (x < armed) throw shop::Error("body");
  return x * 5;
}
KEPT void validate_total(int x) {
  if (x < armed) abort();
  armed = x;
}
KEPT void raise_price(int x) {
  say("price");
  if (x < armed) abort();
  armed = x;
}
KEPT void find_order(int x) {
  for (int place = 0; place < x; place++)
    if (armed == place) { say("found"); return; }
  abort();
}
KEPT int load_catalogue(int x) { int read = parse_header(x) + parse_body(x); say("loaded"); return read; }
KEPT int load_invoice(int x) { int read = parse_header(x); say("loaded"); return read - 1; }
KEPT int check_out(int x) { validate_total(x); raise_price(x); find_order(x); say("done"); return x; }
KEPT int check_again(int x) { validate_total(x); raise_price(x); find_order(x); say("again"); return x + 1; }

int run_reporters(int x) {
  int sum = 0;
#define CALL_BOTH(number, report) sum += buy_##number(x); sum += sell_##number(x);
  EACH_REPORTER(CALL_BOTH)
  sum += load_catalogue(x);
  sum += load_invoice(x);
  sum += check_out(x);
  sum += check_again(x);
  return sum;
}
