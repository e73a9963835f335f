// Functions with the names that Swift gives to those of `struct Basket`.
#define SWIFT(name) __asm__("_" name)
typedef struct { long *values; long count; long owner; } Basket;
typedef struct { long value; _Bool is_none; } Maybe;
extern void log_text(const char *text, int value);
extern void fail(void) __attribute__((noreturn));

static inline long check(long index, long count) SWIFT("$s4Shop6BasketV5check33_AA");
static inline long check(long index, long count) {
  if (index < 0 || index >= count)
    fail();
  return index;
}

long subscript(Basket *self, long index) SWIFT("$s4Shop6BasketVyS2icig");
long subscript(Basket *self, long index) {
  return self->values[check(index, self->count)];
}

Maybe first(Basket *self) SWIFT("$s4Shop6BasketV5firstSiSgvg");
Maybe first(Basket *self) {
  Maybe found = {0, 1};
  if (self->count > 0) {
    found.value = self->values[0];
    found.is_none = 0;
  }
  return found;
}

long total(Basket *self) SWIFT("$s4Shop6BasketV5totalSiyF");
long total(Basket *self) {
  long sum = 0;
  for (long i = 0; i < self->count; i++)
    sum += subscript(self, i);
  return sum;
}

long largest(Basket *self) SWIFT("$s4Shop6BasketV7largestSiyF");
long largest(Basket *self) {
  long best = subscript(self, 0);
  for (long i = 1; i < self->count; i++) {
    long value = self->values[i];
    if (value > best)
      best = value;
  }
  return best;
}

long map(Basket *self, long (*change)(long)) SWIFT("$s4Shop6BasketV3mapyS2iXEF");
long map(Basket *self, long (*change)(long)) {
  long changed = 0;
  for (long i = 0; i < self->count; i++) {
    long before = self->values[i];
    self->values[i] = change(before);
    changed += self->values[i] != before;
  }
  return changed;
}

long double_closure(long value) SWIFT("$s4Shop6BasketV6doubleyyFS2iXEfU_");
long double_closure(long value) {
  log_text("double", (int)value);
  return value * 2;
}

void double_all(Basket *self) SWIFT("$s4Shop6BasketV6doubleyyF");
void double_all(Basket *self) {
  long changed = map(self, double_closure);
  log_text("changed", (int)changed);
}

long unwrap(Maybe maybe) SWIFT("$s4Shop6unwrapyS2iSgF");
long unwrap(Maybe maybe) {
  if (maybe.is_none)
    fail();
  return maybe.value;
}

_Bool equals(Basket *self, Basket *other) SWIFT("$s4Shop6BasketV2eeoiySbAC_ACtFZ");
_Bool equals(Basket *self, Basket *other) {
  if (self->count != other->count)
    return 0;
  for (long i = 0; i < self->count; i++) {
    if (self->values[i] != other->values[i])
      return 0;
  }
  return self->owner == other->owner;
}

long basket_crash(Basket *self, Basket *other) {
  double_all(self);
  if (equals(self, other))
    return total(self);
  return unwrap(first(self)) + largest(other);
}
