#include "python/builder.hpp"

using namespace nanobind::literals;

namespace guided {

namespace {

constexpr auto kEncoding = R"(Read an encoding: how characters become bytes.

Args:
    forms: (ranges of code points, digits); a digit is a list of (lowest byte, highest byte, value, step), where
        byte b adds `value + (b - lowest) * step` to the number that the digits spell.

Raises:
    ValueError: ranges or digits are out of range.)";

constexpr auto kPermutation = R"(Members in any order, with a separator between them.

Args:
    items: the members' nodes.
    required: which of them must occur.
    repeatable: which of them may occur more than once.
    separator: the node between two members.
    min, max: how many members there are in all; `max` -1: no upper bound.

Raises:
    ValueError: the lists have different lengths, or the bounds are out of range.)";

constexpr auto kConditional =
    R"(Members that share slots, may have to follow the order of slots, and satisfy a condition.

Args:
    items, required, repeatable, separator, min, max: as in `permutation`; `min` is at least 1.
    slots: the slot of each member; a slot is written at most once, unless its member is repeatable.
    ordered: whether members come in the order of their slots.
    nodes: the condition, (kind, parts), nodes before those that they are parts of.)";

constexpr auto kAutomaton = R"(A deterministic automaton over code points. Its start is state 0.

Args:
    accept: which states accept.
    edges: (from, lowest, highest, to), in the order of states and code points.

Raises:
    ValueError: there are no states, or edges are out of order, overlap, or lead elsewhere.)";

constexpr auto kCompile =
    R"(Compile the rules that were added, without the GIL. The builder can be used again afterwards.

Args:
    vocabulary: whose tokens the grammar is compiled for.
    rules: the node of each rule.
    names: the name of each rule, for errors and explanations.
    start: the number of the start rule.
    max_states, max_seconds, max_work: limits of compilation.
    memory: how many bytes the states of the grammar may take while matchers run, and one call may add to them.
    call_work: units of work that one call on the states may take.
    later: rules that are compiled when they are first entered: (rule, a digest of what it will be, bytes that
        its shortest text has at most). The rule itself stands for it until then.
    compile_later: compiles some of them, given by their numbers in `later`: a list of compiled grammars.
        Called on any OS thread, without a lock; what it raises is raised where the rule was entered.

Raises:
    SpecError: nothing satisfies the grammar.
    UnsupportedError: a combination of nodes that is not supported.
    VocabularyError: the tokens cannot write the language.
    LimitExceeded: a limit was reached.
    IndexError: a rule, a reference or a control token does not exist.)";

}  // namespace

void bind_builder(nb::module_& m) {
  nb::class_<ReadEncoding>(m, "Encoding", "An encoding that was read once, for all grammars.")
      .def(nb::init<const FormList&>(), "forms"_a, kEncoding);
  nb::class_<Builder>(
      m, "Builder",
      "Collects the nodes of a grammar's IR and compiles them.\n\n"
      "Each method that adds a node returns its number; children are given by their numbers (IndexError where\n"
      "there is no such node). While a grammar is compiled on another OS thread, calls raise RuntimeError.")
      .def(nb::init<>(), "A builder without nodes.")
      .def("chars", &Builder::chars, "ranges"_a,
           "One character out of ranges (lowest, highest): sorted, disjoint, without surrogates (else ValueError).")
      .def("text", &Builder::text, "text"_a, "These characters; ValueError where one is a surrogate.")
      .def("many", nb::overload_cast<const std::string&, const std::vector<int32_t>&>(&Builder::many), "kind"_a,
           "items"_a, "A sequence ('seq'), alternatives ('alt') or a conjunction ('and') of nodes.")
      .def("negation", &Builder::negation, "item"_a, "All texts that a regular node does not match.")
      .def("repeat", &Builder::repeat, "item"_a, "min"_a, "max"_a,
           "A node `min` to `max` times; `max` -1: no upper bound.")
      .def("length", &Builder::length, "item"_a, "min"_a, "max"_a,
           "The texts of a node that have `min` to `max` characters; `max` -1: no upper bound.")
      .def("encoded", &Builder::encoded, "item"_a, "encoding"_a, "A node whose characters are written in an encoding.")
      .def("ref", &Builder::ref, "rule"_a, "A reference to a rule, by its number.")
      .def("special", &Builder::special, "first"_a, "last"_a, "One token, by its id: any from `first` to `last`.")
      .def("permutation", &Builder::permutation, "items"_a, "required"_a, "repeatable"_a, "separator"_a, "min"_a,
           "max"_a, kPermutation)
      .def("conditional", &Builder::conditional, "items"_a, "required"_a, "repeatable"_a, "separator"_a, "min"_a,
           "max"_a, "slots"_a, "ordered"_a, "nodes"_a, kConditional)
      .def("automaton", &Builder::automaton, "accept"_a, "edges"_a, kAutomaton)
      .def("substrings", &Builder::substrings, "texts"_a, "marked"_a,
           "The substrings of the texts, not the empty one. With `marked`, they begin after U+D800 and end before\n"
           "U+D801. ValueError where there is another surrogate.")
      .def("dispatch", &Builder::dispatch, "automaton"_a, "states"_a, "items"_a,
           "An automaton, by its number, and for some of its states a node that follows where a text leads there.")
      .def("distinct", &Builder::distinct, "item"_a, "names"_a,
           "A node whose entries must differ from each other and from `names`.")
      .def("max_tokens", &Builder::max_tokens, "item"_a, "max"_a,
           "The texts of a regular node, in at most `max` tokens.")
      .def("entry", &Builder::entry, "item"_a, "A node whose value is an entry of the uniqueness scope around it.")
      .def("encoding", &Builder::encoding, "encoding"_a,
           "The number of an encoding for `encoded`. The first must be UTF-8.")
      .def("compile", &Builder::compile, "vocabulary"_a, "rules"_a, "names"_a, "start"_a, "max_states"_a,
           "max_seconds"_a, "memory"_a, "max_work"_a = INT64_MAX, "call_work"_a = INT64_MAX,
           "later"_a = Builder::Later{}, "compile_later"_a = nb::none(), kCompile);
}

}  // namespace guided
