#include "cart.hpp"

namespace cafe {

template <typename Each>
static inline __attribute__((always_inline)) Money sum(const Item *items, int size, Each each) {
  Money all = {0};
  for (int i = 0; i < size; i++) {
    all = all.plus(each(items[i]));
  }
  return all;
}

__attribute__((noinline)) Money Cart::total() const {
  return sum(items, size, [](const Item &item) { return item.reduced(); });
}

__attribute__((noinline)) long Checkout::charge(const Cart &cart) const {
  long fee = 30;
  return cart.total().cents + fee;
}

}  // namespace cafe

extern "C" long cafe_charge(const cafe::Cart *cart) {
  cafe::Checkout checkout;
  const cafe::Item *gift = cart->items + cart->size - 1;
  long points = gift->reduced().cents / 10;
  return checkout.charge(*cart) * 2 - points;
}
