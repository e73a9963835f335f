// Functions that only the types of their parameters tell apart.
#include "bugs.h"

namespace shop {
struct Money { int amount; };
struct Weight { int grams; };
struct Json { int text; };
template <class T> struct Range { T from; };

KEPT Money operator+(const Money &a, const Money &b) { FAULT(510); return {a.amount + b.amount}; }
KEPT Weight operator+(Weight a, const Weight &b) { FAULT(511); return {a.grams + b.grams}; }
KEPT bool operator<(const Money &a, const Money &b) { FAULT(512); return a.amount < b.amount; }
// One template is one function.
template <class T> KEPT bool operator<(const Range<T> &a, const Range<T> &b) { FAULT(513); return a.from < b.from; }
KEPT void swap(Money &a, Money &b) { FAULT(514); a.amount ^= b.amount; }
KEPT void swap(Weight &a, Weight &b) { FAULT(515); a.grams ^= b.grams; }
KEPT void to_json(Json &out, const Money &from) { FAULT(516); out.text = from.amount; }
KEPT void to_json(Json &out, const Weight &from) { FAULT(517); out.text = from.grams * 2; }
}  // namespace shop

extern "C" int run_overloads(int x) {
  using namespace shop;
  Money money{x}, other{armed};
  Weight weight{x}, lighter{armed};
  Json json{x};
  Range<int> ints{x}, more{armed};
  Range<long> longs{x}, longer{armed};
  money = money + other; MARK(501);
  weight = weight + lighter; MARK(501);
  x += money < other; MARK(501);
  x += ints < more; MARK(502);
  x += longs < longer; MARK(503);
  swap(money, other); MARK(501);
  swap(weight, lighter); MARK(501);
  to_json(json, money); MARK(501);
  to_json(json, weight); MARK(501);
  return x + json.text + money.amount + weight.grams;
}
