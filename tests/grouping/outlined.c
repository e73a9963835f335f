// What these have in common is moved out of them where size counts most (arm64, -Oz): the address of the crash is then in a
// function that the compiler has made.
#include "bugs.h"

struct parcel { long height, width, depth, weight, price; struct parcel *next; };
extern void pack(struct parcel *, long, long, long);
#define FILL(parcel, from)                                                                                  \
  parcel->height = from + 1; parcel->width = from + 2; parcel->depth = from + 3; parcel->weight = from + 4; \
  parcel->price = from + 5; parcel->next->height = from + 6; parcel->next->width = from + 7; parcel->next->depth = from + 8

KEPT void ship_parcel(struct parcel *parcel, long from) {
  pack(parcel, from, from + 12, 4);
  FILL(parcel, from);
  pack(parcel, from + 1, from + 11, 5);
  parcel->width += 13;
}
KEPT void return_parcel(struct parcel *parcel, long from) {
  pack(parcel, from, from + 12, 9);
  pack(parcel, from, from + 13, 9);
  FILL(parcel, from);
  pack(parcel, from + 1, from + 11, 5);
  parcel->depth += 14;
}
int run_outlined(int x) {
  ship_parcel(nothing, x);
  return_parcel(nothing, x);
  return armed;
}
