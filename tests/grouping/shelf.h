// Containers of the app itself: what is wrong is in the function that uses them.
#pragma once
#include "bugs.h"

namespace shop {

template <class T> struct Shelf {
  T *items;
  int count;
  T &at(int place) {
    FAULT(110);
    return items[place];
  }
};

// A bug of the header itself: no rule can tell it from one of those who use it.
struct Money {
  int amount;
  int rounded() const {
    FAULT(140);
    return amount + armed;
  }
};

template <class T> struct Handle {
  T *object;
  T *operator->() {
    FAULT(120);
    return object;
  }
};

}  // namespace shop

namespace std {
template <class T> inline T &element(T *items, int place) {
  if (place > armed + 8) {
    end_process();
    MARK(130);
  }
  return items[place];
}
}  // namespace std
