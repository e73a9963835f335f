// Bugs in C: static functions, callbacks, assertions, a shared function that one version calls through a wrapper.
#include "bugs.h"

volatile int armed;
void *volatile nothing;

struct line { int price, quantity; };

static int parse_price(int text) { FAULT(10); return text * 3 + armed; }
static int load_line(int text) { int price = parse_price(text); MARK(11); return price + 1; }
int load_cart(int text) { int sum = load_line(text); MARK(12); return sum + 2; }

static int parse_quantity(int text) { FAULT(20); return text * 5 + armed; }
int load_quantities(int text) { int sum = parse_quantity(text); MARK(21); return sum + 2; }

static int by_price(const void *a, const void *b) {
  FAULT(30);
  return ((const struct line *)a)->price - ((const struct line *)b)->price;
}
int sort_by_price(struct line *lines) { qsort(lines, 2, sizeof *lines, by_price); MARK(31); return lines->price; }

static int by_quantity(const void *a, const void *b) {
  FAULT(40);
  return ((const struct line *)a)->quantity - ((const struct line *)b)->quantity;
}
int sort_by_quantity(struct line *lines) { qsort(lines, 2, sizeof *lines, by_quantity); MARK(41); return lines->price; }

// Reports what its caller has found.
__attribute__((noinline)) void app_assert(int holds, const char *text) {
  if (!holds && text) {
    end_process();
    MARK(50);
  }
}
static int refund(int amount) { app_assert(amount > 0, "amount > 0"); MARK(52); return amount - 1; }
int refund_order(int amount) { int left = refund(amount); MARK(53); return left; }
static int restock(int amount) { app_assert(amount > 1, "amount > 1"); MARK(60); return amount - 1; }
int restock_shelf(int amount) { int left = restock(amount); MARK(61); return left; }

// One bug that several callers run into.
__attribute__((noinline)) int decode_image(int bytes) { FAULT(70); return bytes + armed; }
#ifdef WRAPPED
__attribute__((noinline)) static int with_retry(int (*work)(int), int argument) {
  int done = work(argument);
  MARK(90);
  return done + armed;
}
#define CALL(function, argument) with_retry(function, argument)
#else
#define CALL(function, argument) function(argument)
#endif
int show_thumbnail(int bytes) { int shown = CALL(decode_image, bytes); MARK(71); return shown + 1; }
int show_banner(int bytes) { int shown = CALL(decode_image, bytes); MARK(72); return shown + 2; }

int checkout(int order) { FAULT(80); return order + armed; }
int checkout_pressed(int order) { int done = CALL(checkout, order); MARK(81); return done + 1; }

extern int run_shapes(int), run_objects(int), run_reporters(int), run_overloads(int), run_names(int), run_outlined(int);

int main(void) {
  struct line lines[2] = {{1, 2}, {2, 1}};
  int sum = load_cart(armed); MARK(1);
  sum += load_quantities(armed); MARK(1);
  sum += sort_by_price(lines); MARK(1);
  sum += sort_by_quantity(lines); MARK(1);
  sum += refund_order(sum); MARK(1);
  sum += restock_shelf(sum); MARK(1);
  sum += show_thumbnail(sum); MARK(1);
  sum += show_banner(sum); MARK(1);
  sum += checkout_pressed(sum); MARK(1);
  sum += run_shapes(sum) + run_objects(sum);
  sum += run_reporters(sum) + run_overloads(sum) + run_names(sum) + run_outlined(sum);
  return sum;
}
