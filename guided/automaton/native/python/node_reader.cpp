// Reads the nodes of guided/ir/nodes.py: children before parents, each object once.
//
// In: a node, the classes of nodes and of members, the names of the rules. Out: the number of the node. Unusual nodes
// (a kind that is unknown here, fields of other types, bounds out of range) are passed to a callback, which returns the
// number or raises the error. Objects are distinguished by identity, and kept alive once they are met. A node inside
// itself is an error. Subtrees that many grammars share as the same objects are copied from an earlier reading
// (kept_nodes.hpp). Candidates are subtrees to whose top something other than the grammar holds a reference. They count
// towards the limit as if they had been read. Cost: about 0.2 us per node.
#include <Python.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "python/builder.hpp"
#include "python/kept_nodes.hpp"
#include "python/node_types.hpp"

using namespace nanobind::literals;

namespace guided {

namespace {

// Maps objects, distinguished by identity, to numbers. Keeps the objects alive: otherwise another object might get the
// same address.
class ObjectNumbers {
 public:
  static constexpr int32_t kNone = -1;
  explicit ObjectNumbers(size_t slots) : slots_(slots, Slot{nullptr, kNone}) {}
  ObjectNumbers(const ObjectNumbers&) = delete;
  ObjectNumbers& operator=(const ObjectNumbers&) = delete;
  ~ObjectNumbers() {
    for (const Slot& slot : slots_) Py_XDECREF(slot.object);
  }
  int64_t size() const { return size_; }
  int32_t of(PyObject* object) const { return slots_[place(object)].number; }
  void set(PyObject* object, int32_t number) {
    Slot* slot = &slots_[place(object)];
    if (!slot->object) {
      if (static_cast<size_t>(++size_) * 2 > slots_.size()) {
        grow();
        slot = &slots_[place(object)];
      }
      slot->object = Py_NewRef(object);
    }
    slot->number = number;
  }

 private:
  struct Slot {
    PyObject* object;
    int32_t number;
  };
  // The slot of the object, or the free slot for it.
  size_t place(PyObject* object) const {
    size_t at = mix(reinterpret_cast<uintptr_t>(object)) & (slots_.size() - 1);
    while (slots_[at].object && slots_[at].object != object) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    std::vector<Slot> before(slots_.size() * 2, Slot{nullptr, kNone});
    before.swap(slots_);
    for (const Slot& slot : before)
      if (slot.object) slots_[place(slot.object)] = slot;
  }
  std::vector<Slot> slots_;
  int64_t size_ = 0;
};

class NodeReader {
 public:
  // `rules`: name -> number. `kept`: the cache of subtrees; null: none.
  NodeReader(Builder& builder, const NodeTypes& types, nb::dict rules, int64_t most, KeptNodes* kept)
      : builder_(builder), types_(types), rules_(std::move(rules)), most_(most), kept_(kept) {}

  // `other(node)` returns the number of an unusual node. It may call `read` again for a node below it.
  int32_t read(const nb::object& root, const nb::callable& other) {
    if (is_open(root.ptr())) throw nb::value_error("a node is inside of itself");
    if (calls_ == kMaxCalls) throw nb::value_error("too many calls inside of one another");
    ++calls_;
    std::vector<nb::object> stack{root};
    try {
      while (!stack.empty()) step(stack, other);
    } catch (...) {
      --calls_;
      for (const nb::object& node : stack)  // unfinished nodes may be read again
        if (is_open(node.ptr())) known_.set(node.ptr(), ObjectNumbers::kNone);
      throw;
    }
    --calls_;
    return known_.of(root.ptr());
  }

 private:
  static constexpr int32_t kOpen = -2;             // its children are being read
  static constexpr int32_t kCounted = -3;          // not read, but in a cached subtree that was copied
  static constexpr Py_ssize_t kOwnReferences = 3;  // to a node that was read: from its parent, and two from this reader
  static constexpr int kMaxCalls = 16;             // nested calls of `read`: each takes some of the machine's stack

  bool is_open(PyObject* node) const { return known_.of(node) == kOpen; }
  // The number of a node that was read, or a negative value.
  int32_t number_of(PyObject* node) const { return known_.of(node); }

  // Reads the last node of the stack, or pushes the children that must be read before it.
  void step(std::vector<nb::object>& stack, const nb::callable& other) {
    const nb::object node = stack.back();
    const int kind = types_.kind_of(node.ptr());
    const int32_t before = known_.of(node.ptr());
    if (before == ObjectNumbers::kNone || before == kCounted) {
      if (const auto subtree = kept_ ? kept_->find(node.ptr()) : nullptr) {
        take(node.ptr(), subtree);
        stack.pop_back();
        return;
      }
      if (before == ObjectNumbers::kNone) count_one_more();
      known_.set(node.ptr(), kOpen);
      const size_t height = stack.size();
      push_children(node.ptr(), kind, stack);
      if (stack.size() > height) return;
    } else if (before != kOpen) {
      stack.pop_back();
      return;
    }
    int32_t number = usual(node.ptr(), kind);
    if (number < 0) {
      number = nb::cast<int32_t>(other(node));
      builder_.node(number);  // throws if it does not exist
      if (kind == NodeTypes::EncodedType) {
        const nb::object encoding = types_.field(node.ptr(), kind, NodeTypes::EncodingField);
        if (encoding.is_valid()) encodings_.set(encoding.ptr(), builder_.node(number).ref);
      }
    }
    known_.set(node.ptr(), number);
    stack.pop_back();
    if (kept_ && Py_REFCNT(node.ptr()) > kOwnReferences) keep(node.ptr(), number);
  }

  // ---- cached subtrees
  void take(PyObject* node, const std::shared_ptr<const KeptSubtree>& subtree) {
    known_.set(node, builder_.append(subtree->nodes));
    taken_.push_back(subtree);
    in_taken_ += static_cast<int64_t>(subtree->objects.size()) - 1;
    if (known_.size() + in_taken_ <= most_) return;
    count_taken();
    if (known_.size() > most_) throw_most();
  }
  // Checks the limit before another object is added.
  void count_one_more() {
    if (known_.size() + in_taken_ < most_) return;
    count_taken();
    if (known_.size() >= most_) throw_most();
  }
  // Counts the objects of copied subtrees one by one: some may be in several subtrees, or may have been read as well.
  void count_taken() {
    for (const auto& subtree : std::exchange(taken_, {}))
      for (const nb::object& object : subtree->objects)
        if (known_.of(object.ptr()) == ObjectNumbers::kNone) known_.set(object.ptr(), kCounted);
    in_taken_ = 0;
  }
  [[noreturn]] void throw_most() const {
    throw LimitFailure("nodes", static_cast<double>(most_ + 1), static_cast<double>(most_));
  }
  // Caches the subtree of a node that was read if it is large enough and means the same in all grammars.
  void keep(PyObject* top, int32_t number) {
    if (const IrNode& n = builder_.node(number); !n.closed || (n.items.empty() && n.kind != Kind::Automaton)) return;
    std::map<int32_t, PyObject*> objects;  // by number
    std::vector<PyObject*> work{top};
    size_t weight = 0;
    while (!work.empty()) {
      PyObject* object = work.back();
      work.pop_back();
      const int32_t of = number_of(object);
      if (of < 0 || !objects.emplace(of, object).second) {
        if (of < 0) return;
        continue;
      }
      const IrNode& n = builder_.node(of);
      weight += 1 + (n.automaton ? static_cast<size_t>(n.automaton->size()) : 0);
      if (n.kind == Kind::Encoded || weight > KeptNodes::kLargest) return;
      each_child(object, types_.kind_of(object), [&](nb::object child) { work.push_back(child.ptr()); });
    }
    if (weight < KeptNodes::kMinWeight) return;
    auto subtree = std::make_shared<KeptSubtree>();
    std::map<int32_t, int32_t> places;
    for (const auto& [of, object] : objects) {
      places.emplace(of, static_cast<int32_t>(subtree->nodes.size()));
      subtree->objects.push_back(nb::borrow(object));
      IrNode& n = subtree->nodes.emplace_back(builder_.node(of));
      for (int32_t& child : n.items) {
        const auto place = places.find(child);
        if (place == places.end()) return;  // it was read as another object
        child = place->second;
      }
    }
    kept_->insert(top, std::move(subtree), weight);
  }

  // Pushes the children that have no number yet, the last one first.
  void push_children(PyObject* node, int kind, std::vector<nb::object>& stack) {
    each_child(node, kind, [&](nb::object child) {
      if (is_open(child.ptr())) throw nb::value_error("a node is inside of itself");
      if (number_of(child.ptr()) < 0) stack.push_back(std::move(child));
    });
  }

  // Calls visit(child) for each child, the last one first. Members of an unknown class are skipped.
  template <class Visit>
  void each_child(PyObject* node, int kind, Visit&& visit) const {
    auto push = [&](nb::object child) {
      if (child.is_valid()) visit(std::move(child));
    };
    auto push_all = [&](const nb::object& list, bool members) {
      if (!list.is_valid() || !PyTuple_Check(list.ptr())) return;
      for (Py_ssize_t i = PyTuple_GET_SIZE(list.ptr()); i-- > 0;) {
        PyObject* item = PyTuple_GET_ITEM(list.ptr(), i);
        if (!members)
          push(nb::borrow(item));
        else if (types_.is(item, NodeTypes::MemberType))
          push(types_.field(item, NodeTypes::MemberType, NodeTypes::Item));
      }
    };
    switch (kind) {
      case NodeTypes::SeqType:
      case NodeTypes::AltType:
      case NodeTypes::AndType:
        return push_all(types_.field(node, kind, NodeTypes::Items), false);
      case NodeTypes::RepeatType:
      case NodeTypes::EncodedType:
      case NodeTypes::NotType:
      case NodeTypes::LengthType:
      case NodeTypes::DistinctType:
      case NodeTypes::EntryType:
        return push(types_.field(node, kind, NodeTypes::Item));
      case NodeTypes::PermutationType:
        push(types_.field(node, kind, NodeTypes::Separator));
        return push_all(types_.field(node, kind, NodeTypes::Members), true);
    }
  }

  // The number of a node whose children have numbers; -1 if the node is unusual.
  int32_t usual(PyObject* node, int kind) {
    switch (kind) {
      case NodeTypes::TextType: {
        nb::object text = types_.field(node, kind, NodeTypes::TextField);
        if (!text.is_valid() || !PyUnicode_CheckExact(text.ptr())) return -1;
        for (Py_ssize_t i = PyUnicode_GET_LENGTH(text.ptr()); i-- > 0;)
          if (Py_UCS4 c = PyUnicode_READ_CHAR(text.ptr(), i); c >= 0xD800 && c <= 0xDFFF) return -1;
        return builder_.text(nb::borrow<nb::str>(text));
      }
      case NodeTypes::SeqType:
      case NodeTypes::AltType:
      case NodeTypes::AndType: {
        nb::object items = types_.field(node, kind, NodeTypes::Items);
        if (!items.is_valid() || !PyTuple_Check(items.ptr())) return -1;
        std::vector<int32_t> numbers;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.ptr()); ++i) {
          numbers.push_back(number_of(PyTuple_GET_ITEM(items.ptr(), i)));
          if (numbers.back() < 0) return -1;  // the field has changed since the children were read
        }
        return builder_.many(kind == NodeTypes::SeqType   ? Kind::Seq
                             : kind == NodeTypes::AltType ? Kind::Alt
                                                          : Kind::And,
                             numbers);
      }
      case NodeTypes::RefType: {
        nb::object name = types_.field(node, kind, NodeTypes::Name);
        if (!name.is_valid() || !PyUnicode_CheckExact(name.ptr())) return -1;
        const nb::object rule = nb::borrow(PyDict_GetItemWithError(rules_.ptr(), name.ptr()));
        int64_t number = 0;
        if (!rule.is_valid() && PyErr_Occurred()) throw nb::python_error();
        return rule.is_valid() && count(rule, number) ? builder_.ref(static_cast<int32_t>(number)) : -1;
      }
      case NodeTypes::RepeatType:
      case NodeTypes::LengthType: {
        int64_t min = 0, max = 0;
        const int32_t item = child(node, kind);
        if (item < 0 || !count(types_.field(node, kind, NodeTypes::Min), min) ||
            !count(types_.field(node, kind, NodeTypes::Max), max) || min < 0)
          return -1;
        return kind == NodeTypes::RepeatType ? builder_.repeat(item, min, max) : builder_.length(item, min, max);
      }
      case NodeTypes::CharsType: {
        nb::object ranges = types_.field(node, kind, NodeTypes::RangesField);
        if (!ranges.is_valid() || !PyTuple_Check(ranges.ptr())) return -1;
        RangeList list;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(ranges.ptr()); ++i) {
          PyObject* pair = PyTuple_GET_ITEM(ranges.ptr(), i);
          int64_t lo = -1, hi = -1;
          if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 ||
              !count(nb::borrow(PyTuple_GET_ITEM(pair, 0)), lo) || !count(nb::borrow(PyTuple_GET_ITEM(pair, 1)), hi) ||
              !follows(list, lo, hi))
            return -1;
          list.push_back({lo, hi});
        }
        return builder_.chars(list);
      }
      case NodeTypes::EncodedType: {
        nb::object encoding = types_.field(node, kind, NodeTypes::EncodingField);
        const int32_t number = encoding.is_valid() ? encodings_.of(encoding.ptr()) : ObjectNumbers::kNone;
        const int32_t item = child(node, kind);
        return number < 0 || item < 0 ? -1 : builder_.encoded(item, number);
      }
      case NodeTypes::NotType: {
        const int32_t item = child(node, kind);
        return item < 0 ? -1 : builder_.negation(item);
      }
      case NodeTypes::EntryType: {
        const int32_t item = child(node, kind);
        return item < 0 ? -1 : builder_.entry(item);
      }
      case NodeTypes::DistinctType: {
        nb::object known = types_.field(node, kind, NodeTypes::KnownField);
        const int32_t item = child(node, kind);
        if (item < 0 || !known.is_valid() || !PyTuple_Check(known.ptr())) return -1;
        std::vector<std::string> list;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(known.ptr()); ++i) {
          Py_ssize_t size = 0;
          PyObject* name = PyTuple_GET_ITEM(known.ptr(), i);
          const char* utf8 = PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8AndSize(name, &size) : nullptr;
          if (!utf8) {
            PyErr_Clear();
            return -1;
          }
          list.emplace_back(utf8, static_cast<size_t>(size));
        }
        return builder_.distinct(item, list);
      }
    }
    return -1;
  }
  int32_t child(PyObject* node, int kind) const {
    const nb::object item = types_.field(node, kind, NodeTypes::Item);
    return item.is_valid() ? number_of(item.ptr()) : -1;
  }
  // Reads a count. None becomes -1. Returns false if the value is unusual.
  static bool count(const nb::object& value, int64_t& out) {
    if (value.is_valid() && value.is_none()) {
      out = -1;
      return true;
    }
    if (!value.is_valid() || !PyLong_CheckExact(value.ptr())) return false;
    int overflow = 0;
    out = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    return !overflow && out >= 0 && out < INT32_MAX / 2;
  }
  static bool follows(const RangeList& ranges, int64_t lo, int64_t hi) {
    return lo >= 0 && lo <= hi && hi <= static_cast<int64_t>(kMaxCodePoint) && !(lo <= 0xDFFF && hi >= 0xD800) &&
           (ranges.empty() || lo > ranges.back().second);
  }

  Builder& builder_;
  const NodeTypes& types_;
  nb::dict rules_;
  int64_t most_;
  int calls_ = 0;
  ObjectNumbers known_{256}, encodings_{8};
  KeptNodes* kept_;
  std::vector<std::shared_ptr<const KeptSubtree>> taken_;  // subtrees whose objects were not counted one by one
  int64_t in_taken_ = 0;                                   // their objects, without the tops
};

constexpr auto kReader = R"(A reader that adds nodes to `builder`.

Args:
    types: the classes of nodes that are read here.
    rules: name -> number.
    most: the limit of nodes.
    kept: subtrees of earlier readings; None: every node is read.)";

constexpr auto kTypes = R"(The classes of nodes that a `NodeReader` reads.

Args:
    types: the classes, in the order of `Usual`.

Raises:
    ValueError: there are more or fewer classes, or a field is not a slot of its class.)";

constexpr auto kRead = R"(The number of a node, after it and all nodes below it were read.

Args:
    other: called with each node that is not read here; it returns the node's number or raises the error, and
        may call `read` again.

Raises:
    ValueError: a node contains itself, or calls nest too deeply.
    LimitExceeded: there are too many nodes.)";

constexpr auto kReaderSignature =
    "def __init__(self, builder: Builder, types: NodeTypes, rules: dict[str, int], most: int, "
    "kept: KeptNodes | None = None) -> None";
constexpr auto kReadSignature =
    "def read(self, root: object, other: collections.abc.Callable[[typing.Any], int]) -> int";

}  // namespace

void bind_node_reader(nb::module_& m) {
  nb::class_<KeptNodes>(m, "KeptNodes", "Subtrees of the IR that many grammars share as the same objects, read once.")
      .def(nb::init<>(), "No subtrees yet.")
      .def("clear", &KeptNodes::clear, "Forget all subtrees.")
      .def("__len__", &KeptNodes::size, "How many subtrees are kept.")
      .def_prop_ro("nodes", &KeptNodes::weight, "How many nodes they have, states of automata included.");
  nb::class_<NodeTypes>(m, "NodeTypes", "The classes of nodes, with the offsets of their fields.")
      .def(nb::init<nb::tuple>(), "types"_a, nb::sig("def __init__(self, types: tuple[type, ...]) -> None"), kTypes);
  nb::class_<NodeReader>(m, "NodeReader", "Reads the nodes of `guided.ir`, children before parents, each object once.")
      .def(nb::init<Builder&, const NodeTypes&, nb::dict, int64_t, KeptNodes*>(), "builder"_a, "types"_a, "rules"_a,
           "most"_a, "kept"_a = nb::none(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 6>(),
           nb::sig(kReaderSignature), kReader)
      .def("read", &NodeReader::read, "root"_a, "other"_a, nb::sig(kReadSignature), kRead);
}

}  // namespace guided
