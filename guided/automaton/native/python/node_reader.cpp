// Reads the nodes of guided/ir/nodes.py: children before parents, each object once.
//
// In: a node, the classes of nodes and of members, the names of the rules. Out: the number of the node. Unusual nodes
// (of an unknown class, with fields of other types, or with bounds out of range) are passed to a callback, which
// returns the number or raises the error. Objects are distinguished by identity, and kept alive once they have been
// seen. A node inside itself is an error. Subtrees that many grammars share as the same objects are read once, and
// copied for later grammars (kept_nodes.hpp). A subtree is cached if something other than the grammar holds a
// reference to its top. Copied nodes count towards the limit as if they had been read. Cost: about 0.2 us per node.
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
  int32_t of(PyObject* object) const { return slots_[find_slot(object)].number; }
  void set(PyObject* object, int32_t number) {
    Slot* slot = &slots_[find_slot(object)];
    if (!slot->object) {
      if (static_cast<size_t>(++size_) * 2 > slots_.size()) {
        grow();
        slot = &slots_[find_slot(object)];
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
  // The index of the object's slot, or of the free slot for it.
  size_t find_slot(PyObject* object) const {
    size_t index = mix(reinterpret_cast<uintptr_t>(object)) & (slots_.size() - 1);
    while (slots_[index].object && slots_[index].object != object) index = (index + 1) & (slots_.size() - 1);
    return index;
  }
  void grow() {
    std::vector<Slot> old_slots(slots_.size() * 2, Slot{nullptr, kNone});
    old_slots.swap(slots_);
    for (const Slot& slot : old_slots)
      if (slot.object) slots_[find_slot(slot.object)] = slot;
  }
  std::vector<Slot> slots_;
  int64_t size_ = 0;
};

class NodeReader {
 public:
  // `rules`: name -> number. `cache`: the cache of subtrees; null: none.
  NodeReader(Builder& builder, const NodeTypes& types, nb::dict rules, int64_t max_nodes, KeptNodes* cache)
      : builder_(builder), types_(types), rules_(std::move(rules)), max_nodes_(max_nodes), cache_(cache) {}

  // `other(node)` returns the number of an unusual node. It may call `read` again for a node below it.
  int32_t read(const nb::object& root, const nb::callable& other) {
    if (is_open(root.ptr())) throw nb::value_error("a node contains itself");
    if (calls_ == kMaxCalls) throw nb::value_error("too many nested calls");
    ++calls_;
    std::vector<nb::object> stack{root};
    try {
      while (!stack.empty()) step(stack, other);
    } catch (...) {
      --calls_;
      for (const nb::object& node : stack)  // unfinished nodes may be read again
        if (is_open(node.ptr())) numbers_.set(node.ptr(), ObjectNumbers::kNone);
      throw;
    }
    --calls_;
    return numbers_.of(root.ptr());
  }

 private:
  static constexpr int32_t kOpen = -2;             // its children are being read
  static constexpr int32_t kCounted = -3;          // not read, but in a copied subtree
  static constexpr Py_ssize_t kOwnReferences = 3;  // to a node that was read: one from its parent, two from this reader
  static constexpr int kMaxCalls = 16;             // nested calls of `read`; each takes some of the machine stack

  bool is_open(PyObject* node) const { return numbers_.of(node) == kOpen; }
  // The number of a node that was read, or a negative value.
  int32_t number_of(PyObject* node) const { return numbers_.of(node); }

  // Reads the last node of the stack, or pushes the children that must be read before it.
  void step(std::vector<nb::object>& stack, const nb::callable& other) {
    const nb::object node = stack.back();
    const int kind = types_.kind_of(node.ptr());
    const int32_t status = numbers_.of(node.ptr());
    if (status == ObjectNumbers::kNone || status == kCounted) {
      if (const auto subtree = cache_ ? cache_->find(node.ptr()) : nullptr) {
        copy_subtree(node.ptr(), subtree);
        stack.pop_back();
        return;
      }
      if (status == ObjectNumbers::kNone) reserve_node();
      numbers_.set(node.ptr(), kOpen);
      const size_t height = stack.size();
      push_children(node.ptr(), kind, stack);
      if (stack.size() > height) return;
    } else if (status != kOpen) {
      stack.pop_back();
      return;
    }
    int32_t number = add_usual(node.ptr(), kind);
    if (number < 0) {
      number = nb::cast<int32_t>(other(node));
      builder_.node(number);  // throws if it does not exist
      if (kind == NodeTypes::EncodedType) {
        const nb::object encoding = types_.field(node.ptr(), kind, NodeTypes::EncodingField);
        if (encoding.is_valid()) encodings_.set(encoding.ptr(), builder_.node(number).ref);
      }
    }
    numbers_.set(node.ptr(), number);
    stack.pop_back();
    if (cache_ && Py_REFCNT(node.ptr()) > kOwnReferences) cache_subtree(node.ptr(), number);
  }

  // ---- cached subtrees
  void copy_subtree(PyObject* node, const std::shared_ptr<const KeptSubtree>& subtree) {
    numbers_.set(node, builder_.append(subtree->nodes));
    copied_subtrees_.push_back(subtree);
    uncounted_ += static_cast<int64_t>(subtree->objects.size()) - 1;
    if (numbers_.size() + uncounted_ <= max_nodes_) return;
    count_copied();
    if (numbers_.size() > max_nodes_) throw_limit();
  }
  // Checks the limit before another object is added.
  void reserve_node() {
    if (numbers_.size() + uncounted_ < max_nodes_) return;
    count_copied();
    if (numbers_.size() >= max_nodes_) throw_limit();
  }
  // Counts the objects of copied subtrees one by one, because some may be in several subtrees, or may also have been
  // read.
  void count_copied() {
    for (const auto& subtree : std::exchange(copied_subtrees_, {}))
      for (const nb::object& object : subtree->objects)
        if (numbers_.of(object.ptr()) == ObjectNumbers::kNone) numbers_.set(object.ptr(), kCounted);
    uncounted_ = 0;
  }
  [[noreturn]] void throw_limit() const {
    throw LimitFailure("nodes", static_cast<double>(max_nodes_ + 1), static_cast<double>(max_nodes_));
  }
  // Caches the subtree of a node that was read, if it is large enough and means the same in all grammars.
  void cache_subtree(PyObject* top, int32_t number) {
    if (const IrNode& n = builder_.node(number); !n.closed || (n.items.empty() && n.kind != Kind::Automaton)) return;
    std::map<int32_t, PyObject*> objects;  // by number
    std::vector<PyObject*> todo{top};
    size_t weight = 0;
    while (!todo.empty()) {
      PyObject* object = todo.back();
      todo.pop_back();
      const int32_t object_number = number_of(object);
      if (object_number < 0 || !objects.emplace(object_number, object).second) {
        if (object_number < 0) return;
        continue;
      }
      const IrNode& n = builder_.node(object_number);
      weight += 1 + (n.automaton ? static_cast<size_t>(n.automaton->size()) : 0);
      if (n.kind == Kind::Encoded || weight > KeptNodes::kMaxSubtreeWeight) return;
      each_child(object, types_.kind_of(object), [&](nb::object child) { todo.push_back(child.ptr()); });
    }
    if (weight < KeptNodes::kMinWeight) return;
    auto subtree = std::make_shared<KeptSubtree>();
    std::map<int32_t, int32_t> indices;
    for (const auto& [object_number, object] : objects) {
      indices.emplace(object_number, static_cast<int32_t>(subtree->nodes.size()));
      subtree->objects.push_back(nb::borrow(object));
      IrNode& n = subtree->nodes.emplace_back(builder_.node(object_number));
      for (int32_t& child : n.items) {
        const auto it = indices.find(child);
        if (it == indices.end()) return;  // the child was read as another object
        child = it->second;
      }
    }
    cache_->insert(top, std::move(subtree), weight);
  }

  // Pushes the children that have no number yet, last child first.
  void push_children(PyObject* node, int kind, std::vector<nb::object>& stack) {
    each_child(node, kind, [&](nb::object child) {
      if (is_open(child.ptr())) throw nb::value_error("a node contains itself");
      if (number_of(child.ptr()) < 0) stack.push_back(std::move(child));
    });
  }

  // Calls visit(child) for each child, last child first. Skips members of an unknown class.
  template <class Visit>
  void each_child(PyObject* node, int kind, Visit&& visit) const {
    auto visit_child = [&](nb::object child) {
      if (child.is_valid()) visit(std::move(child));
    };
    auto visit_all = [&](const nb::object& list, bool are_members) {
      if (!list.is_valid() || !PyTuple_Check(list.ptr())) return;
      for (Py_ssize_t i = PyTuple_GET_SIZE(list.ptr()); i-- > 0;) {
        PyObject* item = PyTuple_GET_ITEM(list.ptr(), i);
        if (!are_members)
          visit_child(nb::borrow(item));
        else if (types_.is(item, NodeTypes::MemberType))
          visit_child(types_.field(item, NodeTypes::MemberType, NodeTypes::Item));
      }
    };
    switch (kind) {
      case NodeTypes::SeqType:
      case NodeTypes::AltType:
      case NodeTypes::AndType:
        return visit_all(types_.field(node, kind, NodeTypes::Items), false);
      case NodeTypes::RepeatType:
      case NodeTypes::EncodedType:
      case NodeTypes::NotType:
      case NodeTypes::LengthType:
      case NodeTypes::DistinctType:
      case NodeTypes::EntryType:
        return visit_child(types_.field(node, kind, NodeTypes::Item));
      case NodeTypes::PermutationType:
        visit_child(types_.field(node, kind, NodeTypes::Separator));
        return visit_all(types_.field(node, kind, NodeTypes::Members), true);
    }
  }

  // Adds a node whose children have numbers, and returns its number; -1 if the node is unusual.
  int32_t add_usual(PyObject* node, int kind) {
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
        return rule.is_valid() && read_count(rule, number) ? builder_.ref(static_cast<int32_t>(number)) : -1;
      }
      case NodeTypes::RepeatType:
      case NodeTypes::LengthType: {
        int64_t min = 0, max = 0;
        const int32_t item = child(node, kind);
        if (item < 0 || !read_count(types_.field(node, kind, NodeTypes::Min), min) ||
            !read_count(types_.field(node, kind, NodeTypes::Max), max) || min < 0)
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
              !read_count(nb::borrow(PyTuple_GET_ITEM(pair, 0)), lo) ||
              !read_count(nb::borrow(PyTuple_GET_ITEM(pair, 1)), hi) || !can_append(list, lo, hi))
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
  static bool read_count(const nb::object& value, int64_t& out) {
    if (value.is_valid() && value.is_none()) {
      out = -1;
      return true;
    }
    if (!value.is_valid() || !PyLong_CheckExact(value.ptr())) return false;
    int overflow = 0;
    out = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    return !overflow && out >= 0 && out < INT32_MAX / 2;
  }
  static bool can_append(const RangeList& ranges, int64_t lo, int64_t hi) {
    return lo >= 0 && lo <= hi && hi <= static_cast<int64_t>(kMaxCodePoint) && !(lo <= 0xDFFF && hi >= 0xD800) &&
           (ranges.empty() || lo > ranges.back().second);
  }

  Builder& builder_;
  const NodeTypes& types_;
  nb::dict rules_;
  int64_t max_nodes_;
  int calls_ = 0;
  ObjectNumbers numbers_{256}, encodings_{8};
  KeptNodes* cache_;
  std::vector<std::shared_ptr<const KeptSubtree>>
      copied_subtrees_;    // copied, but their objects are not yet counted one by one
  int64_t uncounted_ = 0;  // the number of their objects, without the tops
};

constexpr auto kReader = R"(A reader that adds nodes to `builder`.

Args:
    types: the classes of nodes that the reader knows.
    rules: name -> number.
    most: the limit on nodes.
    kept: the cache of subtrees; None: every node is read.)";

constexpr auto kTypes = R"(The classes of nodes that a `NodeReader` reads.

Args:
    types: the classes, in the order of `Usual`.

Raises:
    ValueError: the number of classes is wrong, or a field is not a slot of its class.)";

constexpr auto kRead = R"(Read a node and all nodes below it, and return its number.

Args:
    other: called with each unusual node. It returns the node's number or raises the error, and may call `read`
        again.

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
  nb::class_<KeptNodes>(m, "KeptNodes", "A cache of IR subtrees that many grammars share as the same objects.")
      .def(nb::init<>(), "An empty cache.")
      .def("clear", &KeptNodes::clear, "Drop all subtrees.")
      .def("__len__", &KeptNodes::size, "How many subtrees are cached.")
      .def_prop_ro("nodes", &KeptNodes::weight, "How many nodes and automaton states the subtrees have.");
  nb::class_<NodeTypes>(m, "NodeTypes", "The classes of nodes, with the offsets of their fields.")
      .def(nb::init<nb::tuple>(), "types"_a, nb::sig("def __init__(self, types: tuple[type, ...]) -> None"), kTypes);
  nb::class_<NodeReader>(m, "NodeReader", "Reads the nodes of `guided.ir`, children before parents, each object once.")
      .def(nb::init<Builder&, const NodeTypes&, nb::dict, int64_t, KeptNodes*>(), "builder"_a, "types"_a, "rules"_a,
           "most"_a, "kept"_a = nb::none(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 6>(),
           nb::sig(kReaderSignature), kReader)
      .def("read", &NodeReader::read, "root"_a, "other"_a, nb::sig(kReadSignature), kRead);
}

}  // namespace guided
