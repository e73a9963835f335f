// Orders in Objective-C.
extern void log_text(const char *text, int value);
extern id objc_msgSend(id receiver, SEL name, ...);

@interface Order {
@public
  Class isa;
  int _total;
  int _paid;
  int _lines[8];
  int _count;
}
- (int)open;
- (void)pay:(int)amount;
- (int)lineAt:(int)index;
- (void)addLine:(int)price;
- (int)share:(int)people;
- (void)eachLine:(void (^)(int))block;
+ (int)limit;
@end

static int clamp(int value, int low, int high) {
  if (value < low)
    return low;
  if (value > high)
    return high;
  return value;
}

@implementation Order
+ (int)limit {
  return 8;
}
- (int)open {
  int open = _total - _paid;
  return clamp(open, 0, 100000);
}
- (void)pay:(int)amount {
  if (amount <= 0)
    return;
  _paid += amount;
  log_text("paid", _paid);
}
- (int)lineAt:(int)index {
  if (index < 0 || index >= _count)
    return 0;
  return _lines[index];
}
- (void)addLine:(int)price {
  if (_count < [Order limit]) {
    _lines[_count] = price;
    _count++;
    _total += price;
  }
}
- (int)share:(int)people {
  if (people == 0)
    return 0;
  return [self open] / people;
}
- (void)eachLine:(void (^)(int))block {
  for (int i = 0; i < _count; i++) {
    block(_lines[i]);
  }
}
@end

int order_sum(Order *order) {
  __block int sum = 0;
  [order eachLine:^(int price) {
    sum += price;
    log_text("line", price);
  }];
  return sum;
}

void order_fill(Order *order, int lines) {
  for (int i = 0; i < lines; i++) {
    [order addLine:i * 100];
  }
}

int order_crash(Order *order, int people) {
  order_fill(order, 6);
  [order pay:200];
  int share = [order share:people];
  return share + order_sum(order) + [order lineAt:people];
}
