// A cart in C.
typedef struct { int price, amount; const char *name; } Item;
typedef struct { Item *items; int count, capacity; int tax; } Cart;
extern void log_text(const char *text, int value);
extern void *get_memory(unsigned long size);
extern volatile int cart_sink;

static inline int line_total(const Item *item) {
  int total = item->price;
  total *= item->amount;
  return total;
}

static int apply_tax(int sum, int tax) {
  if (tax <= 0)
    return sum;
  return sum + sum * tax / 100;
}

int cart_total(const Cart *cart) {
  int sum = 0;
  for (int i = 0; i < cart->count; i++) {
    sum += line_total(&cart->items[i]);
  }
  return apply_tax(sum, cart->tax);
}

const Item *cart_find(const Cart *cart, int price) {
  if (cart == 0)
    return 0;
  for (int i = 0; i < cart->count; i++) {
    if (cart->items[i].price == price)
      return &cart->items[i];
  }
  return 0;
}

int cart_cheapest(const Cart *cart) {
  int best = 1000000;
  for (int i = 0; i < cart->count; i++) {
    int total = line_total(&cart->items[i]);
    if (total < best)
      best = total;
  }
  log_text("cheapest", best);
  return best;
}

static void grow(Cart *cart) {
  int capacity = cart->capacity ? cart->capacity * 2 : 4;
  Item *items = get_memory(sizeof(Item) * (unsigned long)capacity);
  for (int i = 0; i < cart->count; i++)
    items[i] = cart->items[i];
  cart->items = items;
  cart->capacity = capacity;
}

void cart_add(Cart *cart, Item item) {
  if (cart->count == cart->capacity)
    grow(cart);
  cart->items[cart->count] = item;
  cart->count++;
  log_text(item.name, item.price);
}

int cart_remove(Cart *cart, int at) {
  if (at < 0 || at >= cart->count)
    return 0;
  for (int i = at; i + 1 < cart->count; i++)
    cart->items[i] = cart->items[i + 1];
  cart->count--;
  return 1;
}

static int checksum(const char *text) {
  int sum = 0;
  while (*text) {
    sum = sum * 31 + *text;
    text++;
  }
  return sum;
}

int cart_hash(const Cart *cart) {
  int hash = 7;
  for (int i = 0; i < cart->count; i++) {
    hash ^= checksum(cart->items[i].name);
    hash += cart->items[i].amount;
  }
  return hash;
}

void cart_swap(Cart *cart, int a, int b) {
  Item kept = cart->items[a];
  cart->items[a] = cart->items[b];
  cart->items[b] = kept;
}

void cart_sort(Cart *cart) {
  for (int i = 0; i < cart->count; i++) {
    for (int k = i + 1; k < cart->count; k++) {
      if (cart->items[k].price < cart->items[i].price)
        cart_swap(cart, i, k);
    }
  }
}

int cart_crash(Cart *cart) {
  cart_sort(cart);
  const Item *found = cart_find(cart, cart_cheapest(cart));
  cart_sink = found->amount;
  return cart_total(cart) + cart_hash(cart);
}
