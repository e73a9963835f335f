// LLVM's demangler of C++ names, within bounds: the headers beside this are LLVM's, unchanged.
//
// A short name can stand for gigabytes, or for a type of a depth that no stack holds. So every step of reading and
// of writing a name is counted and looks at the stack; the step that is too many throws, as does an assertion.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <string_view>
#include <type_traits>

namespace {
struct Refused {};
} // namespace

#define DEMANGLE_ASSERT(condition, message) ((condition) ? (void)0 : throw Refused{})
// The classes of nodes are extended below.
#define final
#include <llvm/Demangle/ItaniumDemangle.h>
#undef final

namespace {

using namespace llvm::itanium_demangle;

// Nodes of the tree, walked once for each time that they are written.
constexpr size_t MOST_STEPS = 1 << 17;
// Bytes, of stacks of which the smallest has 2 MiB.
constexpr size_t MOST_STACK = 384 << 10;
// Bytes of nodes.
constexpr size_t MOST_MEMORY = 8 << 20;
// Bytes of a name. LLVM's parser calls its own `parseTemplateParamDecl` (`TpTp…`) and `parseType` (`u1aIu1aI…`) in two
// places, past the methods that count. This bounds them, at some 250 bytes of stack for two of the name.
constexpr size_t MOST_NAME = 4096;

// What one name may still cost.
struct Budget {
  size_t steps = MOST_STEPS;
  size_t output;
  const char *stack;

  void step() {
    const char *here = static_cast<const char *>(__builtin_frame_address(0));
    size_t used = here < stack ? stack - here : here - stack;
    if (steps == 0 || used > MOST_STACK)
      throw Refused{};
    --steps;
  }

  void write(const OutputBuffer &out) {
    step();
    if (out.getCurrentPosition() > output)
      throw Refused{};
  }
};

thread_local Budget *budget = nullptr;

// A node that counts each call of a method as a step.
template <class T> struct Counted : T {
  using T::T;

  bool hasRHSComponentSlow(OutputBuffer &out) const override {
    budget->write(out);
    return T::hasRHSComponentSlow(out);
  }
  bool hasArraySlow(OutputBuffer &out) const override {
    budget->write(out);
    return T::hasArraySlow(out);
  }
  bool hasFunctionSlow(OutputBuffer &out) const override {
    budget->write(out);
    return T::hasFunctionSlow(out);
  }
  const Node *getSyntaxNode(OutputBuffer &out) const override {
    budget->write(out);
    return T::getSyntaxNode(out);
  }
  void printLeft(OutputBuffer &out) const override {
    budget->write(out);
    T::printLeft(out);
  }
  void printRight(OutputBuffer &out) const override {
    budget->write(out);
    T::printRight(out);
  }
  std::string_view getBaseName() const override {
    budget->step();
    return T::getBaseName();
  }
};

// Memory that is given back at once. Nodes own nothing, so none is destroyed.
class Arena {
  struct Block {
    Block *before;
  };
  static constexpr size_t BLOCK = 16 << 10;

  alignas(std::max_align_t) char first[4 << 10];
  Block *blocks = nullptr;
  char *at = first;
  size_t left = sizeof(first);
  size_t total = 0;

  void *allocate(size_t size) {
    constexpr size_t unit = alignof(std::max_align_t);
    if (size > MOST_MEMORY)
      throw Refused{};
    size = (size + unit - 1) / unit * unit;
    total += size;
    if (total > MOST_MEMORY)
      throw Refused{};
    if (size > left)
      grow(size);
    void *found = at;
    at += size;
    left -= size;
    return found;
  }

  void grow(size_t size) {
    constexpr size_t unit = alignof(std::max_align_t);
    static_assert(sizeof(Block) <= unit, "a block begins with its header");
    size_t room = std::max(size, BLOCK);
    auto *block = static_cast<Block *>(std::malloc(unit + room));
    if (block == nullptr)
      throw Refused{};
    block->before = blocks;
    blocks = block;
    at = reinterpret_cast<char *>(block) + unit;
    left = room;
  }

public:
  Arena() = default;
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  ~Arena() { reset(); }

  void reset() {
    while (blocks != nullptr) {
      Block *before = blocks->before;
      std::free(blocks);
      blocks = before;
    }
    at = first;
    left = sizeof(first);
    total = 0;
  }

  template <class T, class... Args> Node *makeNode(Args &&...args) {
    budget->step();
    return new (allocate(sizeof(Counted<T>))) Counted<T>(std::forward<Args>(args)...);
  }

  void *allocateNodeArray(size_t count) {
    if (count > MOST_MEMORY / sizeof(Node *))
      throw Refused{};
    return allocate(sizeof(Node *) * count);
  }
};

// A parser that counts each call into itself as a step.
struct Parser : AbstractManglingParser<Parser, Arena> {
  using Base = AbstractManglingParser<Parser, Arena>;
  using Base::Base;

  Node *parseEncoding(bool parameters = true) {
    budget->step();
    return Base::parseEncoding(parameters);
  }
  Node *parseName(NameState *state = nullptr) {
    budget->step();
    return Base::parseName(state);
  }
  Node *parseType() {
    budget->step();
    return Base::parseType();
  }
  Node *parseQualifiedType() {
    budget->step();
    return Base::parseQualifiedType();
  }
  Node *parseExpr() {
    budget->step();
    return Base::parseExpr();
  }
  Node *parseBracedExpr() {
    budget->step();
    return Base::parseBracedExpr();
  }
  Node *parseTemplateArg() {
    budget->step();
    return Base::parseTemplateArg();
  }
  Node *parseTemplateParamDecl(TemplateParamList *parameters) {
    budget->step();
    return Base::parseTemplateParamDecl(parameters);
  }
};

// A buffer that is freed.
struct Output : OutputBuffer {
  ~Output() { std::free(getBuffer()); }
};

} // namespace

namespace llvm::itanium_demangle {

// The first character behind a discriminator, which is not shown: `_1`, `__12_`, or at the end of a name `1`.
const char *parse_discriminator(const char *first, const char *last) {
  auto digits = [last](const char *at) { return std::find_if_not(at, last, [](char c) { return c >= '0' && c <= '9'; }); };
  if (first == last)
    return first;
  if (*first != '_') {
    const char *end = digits(first);
    return end == last ? end : first;
  }
  const char *number = first + 1;
  if (number == last)
    return first;
  if (*number != '_')
    return *number >= '0' && *number <= '9' ? number + 1 : first;
  const char *end = digits(number + 1);
  return end != number + 1 && end != last && *end == '_' ? end + 1 : first;
}

} // namespace llvm::itanium_demangle

// Writes the readable form of a mangled name and returns its length; 0 where there is none within these bounds.
extern "C" size_t unslide_llvm_demangle(const char *name, size_t length, char *readable, size_t capacity) noexcept {
  if (length > MOST_NAME)
    return 0;
  Budget own;
  own.output = capacity;
  own.stack = static_cast<const char *>(__builtin_frame_address(0));
  budget = &own;
  try {
    Parser parser(name, name + length);
    Node *tree = parser.parse();
    if (tree == nullptr || !parser.ForwardTemplateRefs.empty())
      return 0;
    Output out;
    tree->print(out);
    size_t written = out.getCurrentPosition();
    if (written > capacity)
      return 0;
    std::memcpy(readable, out.getBuffer(), written);
    return written;
  } catch (...) {
    return 0;
  }
}
