// A café's cart: what the demo's app crashes in.
#pragma once

namespace cafe {

struct Money {
  long cents;
  Money plus(Money other) const { return {cents + other.cents}; }
};

struct Discount {
  long percent;
  Money of(Money price) const { return {price.cents * percent / 100}; }
};

struct Item {
  Money price;
  int count;
  const Discount *discount;

  // Not every item has a discount: this is the bug.
  inline __attribute__((always_inline)) Money reduced() const {
    return {price.cents * count - discount->of(price).cents};
  }
};

class Cart {
 public:
  Item items[8];
  int size;

  Money total() const;
};

class Checkout {
 public:
  long charge(const Cart &cart) const;
};

}  // namespace cafe
