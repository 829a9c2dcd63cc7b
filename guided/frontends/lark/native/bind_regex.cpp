// Python bindings of `read_regex` and `leftmost_texts`: automata are returned as the states of an `Automaton` node.
#include "bind_regex.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "leftmost.hpp"
#include "regex.hpp"
#include "texts.hpp"

namespace guided::lark {
namespace {

nb::object tuple_of(size_t size, auto item) {
  nb::object out = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(size)));
  for (size_t index = 0; index < size; ++index)
    PyTuple_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(index), nb::object(item(index)).release().ptr());
  return out;
}

nb::object make_int(int32_t value) { return nb::steal(PyLong_FromLong(value)); }

nb::object make_state(bool accepts, const std::vector<Edge>& edges) {
  return nb::make_tuple(accepts, tuple_of(edges.size(), [&](size_t index) {
                          const Edge& edge = edges[index];
                          return nb::make_tuple(make_int(edge.low), make_int(edge.high), make_int(edge.to));
                        }));
}

nb::object terminal_states(const nb::str& pattern, PythonAlphabet& alphabet,
                           const std::tuple<int32_t, int64_t, int64_t>& bounds) {
  try {
    const auto& [depth, nodes, max_unrolled] = bounds;
    const Regex tree = read_regex(characters(pattern), alphabet, {depth, nodes}).tree;
    const Automaton automaton = leftmost_texts(tree, max_unrolled);
    return tuple_of(automaton.edges.size(),
                    [&](size_t index) { return make_state(automaton.accepts[index] != 0, automaton.edges[index]); });
  } catch (const NotHandled&) {
    return nb::none();
  }
}

Texts texts_of(const nb::tuple& states, int32_t start) {
  Automaton out;
  const auto checked_state = [&](int32_t state) {
    if (state < 0 || static_cast<size_t>(state) >= nb::len(states)) throw nb::index_error("there is no such state");
    return state;
  };
  for (const nb::handle state : states) {
    const auto accepts_and_edges = nb::cast<nb::tuple>(state);
    out.accepts.push_back(nb::cast<bool>(accepts_and_edges[0]));
    auto& edges = out.edges.emplace_back();
    for (const nb::handle each : nb::cast<nb::tuple>(accepts_and_edges[1])) {
      const auto edge = nb::cast<nb::tuple>(each);
      edges.push_back(
          {nb::cast<int32_t>(edge[0]), nb::cast<int32_t>(edge[1]), checked_state(nb::cast<int32_t>(edge[2]))});
    }
  }
  return Texts(std::move(out), checked_state(start));
}

nb::object string_states(const nb::str& text, bool any_case, PythonAlphabet& alphabet) {
  const std::u32string value = characters(text);
  return tuple_of(value.size() + 1, [&](size_t index) {
    std::vector<Edge> edges;
    if (index < value.size()) {
      const auto character = static_cast<int32_t>(value[index]);
      const Ranges single_range{{character, character}};
      for (const auto& [low, high] : any_case ? alphabet.case_variants(character) : single_range)
        edges.push_back({low, high, static_cast<int32_t>(index) + 1});
    }
    return make_state(index == value.size(), edges);
  });
}

}  // namespace

const Ranges& PythonAlphabet::case_variants(int32_t character) {
  const auto known = chars_by_key_.find(-1 - character);
  if (known != chars_by_key_.end()) return known->second;
  const nb::object text = nb::steal(PyUnicode_FromOrdinal(character));
  return chars(nb::cast<std::string>(text), -1 - character);
}

const Ranges& PythonAlphabet::chars(const std::string& pattern, int32_t key) {
  const auto known = chars_by_key_.find(key);
  if (known != chars_by_key_.end()) return known->second;
  Ranges out;
  for (const nb::handle each : nb::cast<nb::tuple>(chars_of_(pattern))) {
    const auto pair = nb::cast<nb::tuple>(each);
    out.emplace_back(nb::cast<int32_t>(pair[0]), nb::cast<int32_t>(pair[1]));
  }
  return chars_by_key_.emplace(key, std::move(out)).first->second;
}

std::u32string characters(nb::handle text) {
  const Py_ssize_t size = PyUnicode_GetLength(text.ptr());
  std::u32string out(static_cast<size_t>(std::max<Py_ssize_t>(size, 0)) + 1, U'\0');
  if (size < 0 || PyUnicode_AsUCS4(text.ptr(), reinterpret_cast<Py_UCS4*>(out.data()), size + 1, 1) == nullptr)
    throw nb::python_error();
  out.pop_back();
  return out;
}

void bind_regex(nb::module_& m) {
  nb::class_<PythonAlphabet>(
      m, "Alphabet", "The character sets that depend on Unicode: classes, and characters that differ only in case.")
      .def(
          nb::init<nb::callable>(), nb::arg("chars_of"),
          nb::sig("def __init__(self, chars_of: typing.Callable[[str], tuple[tuple[int, int], ...]]) -> None"),
          R"(`chars_of`: the characters of "\\d", "\\s" or "\\w", or those that a character matches if case is ignored.)");
  m.def("terminal_states", &terminal_states, nb::arg("pattern"), nb::arg("alphabet"), nb::arg("bounds"),
        nb::sig("def terminal_states(pattern: str, alphabet: Alphabet, bounds: tuple[int, int, int]) -> "
                "tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...] | None"),
        R"(The states of the automaton of the texts that `re.match` matches as a whole; the first one is the start.

None: the Python code has to find them, see `native/regex.hpp` and `native/leftmost.hpp`.

Args:
    bounds: the maximum depth and number of nodes of the pattern, as in `Limits`, and the maximum number of
        character positions that unrolling repetitions may add.)");
  nb::class_<Texts>(m, "Texts", "The texts of an automaton, as in `guided/frontends/common/regular_texts.py`.")
      .def(
          "__init__",
          [](Texts* self, const nb::tuple& states, int32_t start) { new (self) Texts(texts_of(states, start)); },
          nb::arg("states"), nb::arg("start"),
          nb::sig("def __init__(self, states: tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...], start: int) "
                  "-> None"),
          "The states and the start of an `Automaton`. Raises IndexError if an edge leads to no state.")
      .def(
          "longest_match", [](const Texts& self, const nb::str& text) { return self.longest_match(characters(text)); },
          nb::arg("text"), "The length of the longest prefix that the automaton accepts; 0 if there is none.")
      .def("share_a_text", &Texts::share_a_text, nb::arg("other"), nb::arg("most"),
           "Whether a text of one is a prefix of a text of the other; True if it is undecided after `most` pairs of "
           "states.");
  m.def("string_states", &string_states, nb::arg("text"), nb::arg("any_case"), nb::arg("alphabet"),
        nb::sig("def string_states(text: str, any_case: bool, alphabet: Alphabet) -> "
                "tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...]"),
        "The states of an automaton that accepts one string.");
}

}  // namespace guided::lark
