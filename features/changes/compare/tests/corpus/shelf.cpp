// Shelves in C++.
extern "C" void log_text(const char *text, int value);
extern "C" void *get_memory(unsigned long size);
void *operator new(unsigned long size) { return get_memory(size); }
void operator delete(void *) noexcept {}

namespace shop {

template <class T> class Row {
public:
  void push(T value) {
    if (count_ == limit)
      return;
    values_[count_] = value;
    count_++;
  }
  T at(int index) const {
    return values_[index];
  }
  int count() const { return count_; }

private:
  static constexpr int limit = 16;
  T values_[limit];
  int count_ = 0;
};

struct Discount {
  int percent;
  int of(int price) const {
    int cut = price * percent / 100;
    return price - cut;
  }
};

class Product {
public:
  Product(int id, int price) : id_(id), price_(price) {}
  virtual ~Product() {}
  virtual int cost() const {
    return price_;
  }
  int id() const { return id_; }

protected:
  int id_;
  int price_;
};

class Book : public Product {
public:
  Book(int id, int price, int pages) : Product(id, price), pages_(pages) {}
  int cost() const override {
    int extra = pages_ / 10;
    if (extra > 20)
      extra = 20;
    return price_ + extra;
  }

private:
  int pages_;
};

class Shelf {
public:
  void put(Product *product) {
    products_.push(product);
    log_text("put", product->id());
  }
  Product *find(int id) const {
    for (int i = 0; i < products_.count(); i++) {
      Product *product = products_.at(i);
      if (product->id() == id)
        return product;
    }
    return nullptr;
  }
  int worth(const Discount &discount) const;
  int dearest() const;
  int average() const;

private:
  Row<Product *> products_;
};

int Shelf::worth(const Discount &discount) const {
  int sum = 0;
  for (int i = 0; i < products_.count(); i++) {
    sum += discount.of(products_.at(i)->cost());
  }
  return sum;
}

int Shelf::dearest() const {
  int best = 0;
  for (int i = 0; i < products_.count(); i++) {
    int cost = products_.at(i)->cost();
    if (cost > best)
      best = cost;
  }
  return best;
}

int Shelf::average() const {
  int sum = 0;
  for (int i = 0; i < products_.count(); i++)
    sum += products_.at(i)->cost();
  if (products_.count() == 0)
    return 0;
  return sum / products_.count();
}

int digits(int number) {
  int count = 1;
  while (number >= 10) {
    number /= 10;
    count++;
  }
  return count;
}

int price_of(const Shelf &shelf, int id) {
  const Product *product = shelf.find(id);
  if (!product)
    return -1;
  return product->cost();
}

void fill(Shelf &shelf) {
  shelf.put(new Product(1, 500));
  shelf.put(new Book(2, 1200, 320));
  shelf.put(new Book(3, 900, 80));
}

int report(const Shelf &shelf) {
  auto print = [](int value) {
    log_text("value", value);
    return digits(value);
  };
  int width = print(shelf.dearest());
  width += print(shelf.average());
  return width;
}

} // namespace shop

extern "C" int shelf_crash(int id) {
  shop::Shelf shelf;
  shop::fill(shelf);
  shop::Discount discount{15};
  int worth = shelf.worth(discount);
  return worth + shop::report(shelf) + shop::price_of(shelf, id);
}
