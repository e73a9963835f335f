// Bugs in C++: templates, lambdas, virtual functions and their thunks, containers, destructors, deep inlining.
#include "shelf.h"

namespace shop {

template <class T> struct Cart {
  T total;
  T sum(T tax) { FAULT(210); return total * tax + armed; }
};
KEPT int cart_of_ints(int tax) { Cart<int> cart{tax}; int sum = cart.sum(tax); MARK(211); return sum; }
KEPT int cart_of_longs(int tax) { Cart<long> cart{tax}; int sum = (int)cart.sum(tax); MARK(212); return sum; }

template <class Work> int each(int count, Work work) {
  int sum = 0;
  for (int place = 0; place < count + armed; place++) { sum += work(place); MARK(222); }
  return sum;
}
KEPT int apply_discounts(int count) {
  int sum = each(count, [&](int place) { FAULT(220); return place * count; });
  MARK(223);
  return sum;
}
KEPT int apply_vouchers(int count) {
  int sum = each(count, [&](int place) { FAULT(230); return place + count; });
  MARK(231);
  return sum;
}

struct Drawable { virtual int draw(int) = 0; int base = 0; };
struct Clickable { virtual int click(int) = 0; int taps = 0; };
struct Button : Drawable, Clickable {
  int draw(int x) override { FAULT(240); return x + base; }
  int click(int x) override { FAULT(250); return x + taps; }
};
Button button;
Drawable *volatile drawable = &button;
Clickable *volatile clickable = &button;
int redraw(int x) { int drawn = drawable->draw(x); MARK(241); return drawn + 1; }
int tapped(int x) { int clicked = clickable->click(x); MARK(251); return clicked + 1; }

KEPT int first_title(int place) { int items[4] = {place}; Shelf<int> shelf{items, 4}; int item = shelf.at(place & 3); MARK(261); return item; }
KEPT int last_badge(int place) { long items[4] = {place}; Shelf<long> shelf{items, 4}; int item = (int)shelf.at(place & 3); MARK(271); return item; }
KEPT int open_shelf(int place) { int found = first_title(place); MARK(262); return found + last_badge(place + 1); }
KEPT int open_badges(int place) { int found = last_badge(place); MARK(272); return found; }

struct Order { int number; };
KEPT int cancel_order(int number) { Order order{number}; Handle<Order> handle{&order}; int was = handle->number; MARK(281); return was; }
KEPT int repeat_order(int number) { Order order{number}; Handle<Order> handle{&order}; int was = handle->number; MARK(291); return was + 1; }

KEPT int receipt(int amount) { Money money{amount}; int rounded = money.rounded(); MARK(371); return rounded + 1; }
KEPT int invoice(int amount) { Money money{amount}; int rounded = money.rounded(); MARK(372); return rounded + 2; }

KEPT int pick_size(int place) { int sizes[4] = {place}; int size = std::element(sizes, place & 3); MARK(301); return size; }
KEPT int pick_colour(int place) { int colours[4] = {place}; int colour = std::element(colours, place & 3); MARK(311); return colour; }

struct Session {
  int token;
  __attribute__((noinline)) Session(int token) : token(token) { FAULT(320); }
  __attribute__((noinline)) ~Session() { FAULT(330); armed = 0; }
};
int sign_in(int token) { Session session(token); MARK(321); return session.token; }
int sign_out(int token) {
  int was;
  { Session session(token); was = session.token; }
  MARK(331);
  return was;
}

static inline int exchange_rate(int amount) { FAULT(340); return amount * 7 + armed; }
static inline int to_currency(int amount) { int rate = exchange_rate(amount); MARK(341); return rate + 1; }
static inline int format_amount(int amount) { int text = to_currency(amount); MARK(342); return text + 1; }
KEPT int price_label(int amount) { int text = format_amount(amount); MARK(343); return text + 1; }
KEPT int price_badge(int amount) { int text = format_amount(amount); MARK(344); return text + 2; }

namespace {
int validate(int value) { FAULT(350); return value + armed; }
}
int submit(int value) { int valid = validate(value); MARK(351); return valid; }

struct Address { int street; static int validate(int value) { FAULT(360); return value * 2 + armed; } };
int save_address(int value) { int valid = Address::validate(value); MARK(361); return valid; }

}  // namespace shop

extern "C" int run_shapes(int x) {
  using namespace shop;
  int sum = cart_of_ints(x); MARK(2);
  sum += cart_of_longs(x); MARK(2);
  sum += apply_discounts(x); MARK(2);
  sum += apply_vouchers(x); MARK(2);
  sum += redraw(x); MARK(2);
  sum += tapped(x); MARK(2);
  sum += open_shelf(x); MARK(2);
  sum += open_badges(x); MARK(2);
  sum += cancel_order(x); MARK(2);
  sum += repeat_order(x); MARK(2);
  sum += receipt(x); MARK(2);
  sum += invoice(x); MARK(2);
  sum += pick_size(x); MARK(2);
  sum += pick_colour(x); MARK(2);
  sum += sign_in(x); MARK(2);
  sum += sign_out(x); MARK(2);
  sum += price_label(x); MARK(2);
  sum += price_badge(x); MARK(2);
  sum += submit(x); MARK(2);
  sum += save_address(x); MARK(2);
  return sum;
}
