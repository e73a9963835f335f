// The screen on which the order is paid. No SDK header: a root class of its own.
extern long cafe_charge(const void *cart);
extern void perform(void *queue, void (^work)(void));

__attribute__((objc_root_class)) @interface OrderController {
  void *isa;
  void *queue;
  const void *cart;
  long paid;
}
- (long)pay:(id)sender;
@end

@implementation OrderController
- (long)pay:(id)sender {
  perform(queue, ^{
    paid = cafe_charge(cart) + 1;
  });
  return paid;
}
@end
