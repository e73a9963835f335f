// Bugs in Objective-C: methods, categories, blocks, exceptions of the system's frameworks.
#include "bugs.h"

extern int perform(int (^)(int));
extern int element_of_array(int);
extern int unknown_method(int);

__attribute__((objc_root_class)) @interface Cart { void *isa; int total; }
- (int)totalWithTax:(int)tax;
- (int)totalWithVoucher:(int)voucher;
- (int)load:(int)from;
- (int)fetch:(int)place;
- (int)store:(int)place;
@end

@implementation Cart
- (int)totalWithTax:(int)tax { FAULT(410); return total * tax; }
- (int)totalWithVoucher:(int)voucher { FAULT(420); return total - voucher; }
- (int)load:(int)from {
  int loaded = perform(^(int at) { FAULT(430); return at + from; });
  return loaded + total;
}
- (int)fetch:(int)place { int item = element_of_array(place); MARK(440); return item + total; }
- (int)store:(int)place { int item = unknown_method(place); MARK(450); return item + total; }
@end

@interface Cart (Sums)
- (int)sum:(int)x;
@end
@implementation Cart (Sums)
- (int)sum:(int)x { FAULT(460); return x + armed; }
@end

int run_objects(int x) {
  Cart *cart = (Cart *)nothing;
  int sum = [cart totalWithTax:x]; MARK(3);
  sum += [cart totalWithVoucher:x]; MARK(3);
  sum += [cart load:x]; MARK(3);
  sum += [cart fetch:x]; MARK(3);
  sum += [cart store:x]; MARK(3);
  sum += [cart sum:x]; MARK(3);
  return sum;
}
