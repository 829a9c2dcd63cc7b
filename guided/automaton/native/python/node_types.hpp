// The classes of IR nodes, and the offsets of their fields.
//
// In: the classes of guided/ir/nodes.py. Out: the kind of an object, and its fields without a look-up by name. How: the
// classes have slots, so each field has a fixed offset in objects of exactly this class; the field's descriptor
// contains the offset. An object of any other class is unusual. Cost: the offsets are read once, when
// `automaton/build.py` is imported.
#pragma once

#include <Python.h>
#include <structmember.h>

#include <array>
#include <utility>
#include <vector>

#include "python/bindings.hpp"

namespace guided {

namespace nb = nanobind;

class NodeTypes {
 public:
  enum Usual {
    TextType,
    SeqType,
    AltType,
    RefType,
    RepeatType,
    CharsType,
    EncodedType,
    AndType,
    NotType,
    LengthType,
    DistinctType,
    EntryType,
    PermutationType,
    Unusual,
    MemberType = Unusual,  // the class of a permutation's members, which are not nodes: `kind_of` never finds it
    Classes
  };
  enum Field {
    Item,
    Items,
    TextField,
    Name,
    Min,
    Max,
    RangesField,
    EncodingField,
    KnownField,
    Members,
    Separator,
    Fields
  };

  // `types`: the classes in the order of Usual.
  explicit NodeTypes(nb::tuple types) : types_(std::move(types)) {
    if (nb::len(types_) != Classes) throw nb::value_error("there must be a class for each kind of node");
    for (int kind = 0; kind < Classes; ++kind)
      for (const Field f : kFields[static_cast<size_t>(kind)]) offsets_[kind][f] = offset(types_[kind], kNames[f]);
  }

  bool is(PyObject* node, int kind) const {
    return reinterpret_cast<PyObject*>(Py_TYPE(node)) == PyTuple_GET_ITEM(types_.ptr(), kind);
  }
  int kind_of(PyObject* node) const {
    int kind = 0;
    while (kind < Unusual && !is(node, kind)) ++kind;
    return kind;
  }
  // A field of an object whose class is exactly the class of this kind; null if it is not set.
  nb::object field(PyObject* node, int kind, Field f) const {
    return nb::borrow(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(node) + offsets_[kind][f]));
  }

 private:
  static constexpr std::array<const char*, Fields> kNames{"item",   "items",    "text",  "name",    "min",      "max",
                                                          "ranges", "encoding", "known", "members", "separator"};
  static inline const std::array<std::vector<Field>, Classes> kFields{{{TextField},
                                                                       {Items},
                                                                       {Items},
                                                                       {Name},
                                                                       {Item, Min, Max},
                                                                       {RangesField},
                                                                       {Item, EncodingField},
                                                                       {Items},
                                                                       {Item},
                                                                       {Item, Min, Max},
                                                                       {Item, KnownField},
                                                                       {Item},
                                                                       {Members, Separator},
                                                                       {Item}}};

  // The offset of a field in the objects of a class with slots.
  static Py_ssize_t offset(nb::handle type, const char* name) {
    const nb::object slot = nb::getattr(type, name, nb::none());
    if (Py_TYPE(slot.ptr()) != &PyMemberDescr_Type) throw nb::value_error("a field is not a slot of its class");
    auto* descriptor = reinterpret_cast<PyMemberDescrObject*>(slot.ptr());
    auto* owner = descriptor->d_common.d_type;  // the slot of another class may be beyond the end of the object
    if (!PyType_Check(type.ptr()) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.ptr()), owner))
      throw nb::value_error("a field is a slot of another class");
    const PyMemberDef* member = descriptor->d_member;
    if (member->type != T_OBJECT_EX || member->offset <= 0)
      throw nb::value_error("a field is not a slot for an object");
    return member->offset;
  }

  nb::tuple types_;
  std::array<std::array<Py_ssize_t, Fields>, Classes> offsets_{};
};

}  // namespace guided
