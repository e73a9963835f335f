//! Planted regressions: each edits one function of the corpus.

/// An edit of one function.
#[derive(Debug)]
pub struct Edit {
    pub file: &'static str,
    pub from: &'static str,
    pub to: &'static str,
    /// A part of the readable or the linkage name of the function.
    pub function: &'static str,
}

const fn edit(file: &'static str, function: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit { file, from, to, function }
}

/// The edits.
pub const EDITS: [Edit; 30] = [
    edit("cart.c", "apply_tax", "  if (tax <= 0)\n    return sum;\n", ""),
    edit("cart.c", "cart_find", "  if (cart == 0)\n    return 0;\n", ""),
    edit(
        "cart.c",
        "line_total",
        "  total *= item->amount;\n",
        "  total *= item->amount;\n  total -= total / 20;\n",
    ),
    edit("cart.c", "cart_total", "i < cart->count; i++) {\n    sum", "i <= cart->count; i++) {\n    sum"),
    // A constant: lines say nothing about it.
    edit("cart.c", "cart_cheapest", "int best = 1000000;", "int best = 100;"),
    edit("cart.c", "grow", "cart->capacity ? cart->capacity * 2 : 4", "cart->capacity + 1"),
    edit(
        "cart.c",
        "cart_add",
        "  cart->items[cart->count] = item;\n  cart->count++;\n",
        "  cart->count++;\n  cart->items[cart->count] = item;\n",
    ),
    edit("cart.c", "cart_remove", "i + 1 < cart->count", "i < cart->count"),
    edit("cart.c", "checksum", "while (*text) {", "while (*text != ' ') {"),
    edit(
        "cart.c",
        "cart_crash",
        "  cart_sink = found->amount;\n",
        "  if (found->price)\n    cart_sink = found->amount;\n",
    ),
    // Two operands that change places.
    edit(
        "cart.c",
        "cart_sort",
        "cart->items[k].price < cart->items[i].price",
        "cart->items[i].price < cart->items[k].price",
    ),
    edit("shelf.cpp", "4push", "    if (count_ == limit)\n      return;\n", ""),
    edit(
        "shelf.cpp",
        "2at",
        "    return values_[index];",
        "    return values_[index + 1 < limit ? index + 1 : 0];",
    ),
    edit("shelf.cpp", "Discount::of", "price * percent / 100", "price / 100 * percent"),
    edit("shelf.cpp", "Book::cost", "    if (extra > 20)\n      extra = 20;\n", ""),
    edit("shelf.cpp", "Shelf::find", "    return nullptr;", "    return products_.at(0);"),
    edit("shelf.cpp", "Shelf::average", "  if (products_.count() == 0)\n    return 0;\n", ""),
    edit("shelf.cpp", "price_of", "  if (!product)\n    return -1;\n", ""),
    edit(
        "shelf.cpp",
        "shop::fill",
        "  shelf.put(new Book(2, 1200, 320));\n",
        "  shelf.put(new Book(2, 1200, 320));\n  shelf.put(new Product(4, 0));\n",
    ),
    edit("shelf.cpp", "operator()", "return digits(value);", "return value < 0 ? 0 : digits(value);"),
    edit("order.m", "clamp", "  if (value > high)\n    return high;\n", ""),
    edit("order.m", "-[Order pay:]", "  if (amount <= 0)\n    return;\n", ""),
    edit("order.m", "-[Order lineAt:]", "index >= _count", "index > _count"),
    edit("order.m", "-[Order share:]", "  if (people == 0)\n    return 0;\n", ""),
    edit("order.m", "order_sum_block_invoke", "sum += price;", "sum += price > 0 ? price : 0;"),
    edit("basket.c", "V5check", "index >= count", "index > count"),
    edit("basket.c", "V5total", "sum += subscript(self, i);", "sum += self->values[i];"),
    edit("basket.c", "6unwrap", "  if (maybe.is_none)\n    fail();\n", ""),
    edit(
        "basket.c",
        "V3map",
        "    long before = self->values[i];\n",
        "    long before = self->values[i];\n    if (before == 0)\n      continue;\n",
    ),
    edit("basket.c", "V2ee", "  if (self->count != other->count)\n    return 0;\n", ""),
];
