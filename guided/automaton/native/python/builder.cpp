#include "python/builder.hpp"

using namespace nanobind::literals;

namespace guided {

namespace {

constexpr auto kEncoding = R"(Read an encoding, which defines how characters become bytes.

Args:
    forms: (ranges of code points, digits); a digit is a list of (lowest byte, highest byte, value, step), where
        byte b adds `value + (b - lowest) * step` to the code point.

Raises:
    ValueError: ranges or digits are out of range.)";

constexpr auto kPermutation = R"(Members in any order, with a separator between them.

Args:
    items: the members' nodes.
    required: by member, whether it must occur.
    repeatable: by member, whether it may occur more than once.
    separator: the node between two members.
    min, max: bounds on the number of members; `max` -1: no upper bound.

Raises:
    ValueError: the lists have different lengths, or the bounds are out of range.)";

constexpr auto kConditional =
    R"(Members that have slots and satisfy a condition.

Args:
    items, required, repeatable, separator, min, max: as in `permutation`; `min` is at least 1.
    slots: the slot of each member. Of the members that share a slot, at most one is written, once. A repeatable
        member does not share its slot.
    ordered: whether members are written in the order of their slots, and repeatable members after them.
    nodes: the condition as a list of (kind, parts). Kind 0: one of the members `parts` is written. Kinds 1, 2
        and 3: all, any or none of the earlier nodes `parts` are true. The last node is the whole condition.)";

constexpr auto kAutomaton = R"(A deterministic automaton over code points. Its start is state 0.

Args:
    accept: by state, whether it accepts.
    edges: (from, lowest, highest, to), sorted by state and code point.

Raises:
    ValueError: there are no states, or edges are out of order, overlap, or lead to states that do not exist.)";

constexpr auto kCompile =
    R"(Compile the rules that were added, without the GIL. The builder can be used again afterwards.

Args:
    vocabulary: the vocabulary for which the grammar is compiled.
    rules: the node of each rule.
    names: the name of each rule, for errors and explanations.
    start: the number of the start rule.
    max_states, max_seconds, max_work: limits of compilation.
    memory: how many bytes the states of the grammar may take while matchers run, and how many one call may add.
    call_work: units of work that one call on the states may take.
    later: rules that are compiled when they are first entered: (rule, a digest of its future content, an upper
        bound on the bytes of its shortest text). Until then, the rule itself is a placeholder.
    compile_later: compiles some of these rules, given by their numbers in `later`, and returns the compiled
        grammars. Called on any OS thread, without a lock. Its exceptions are raised where the rule was entered.

Raises:
    SpecError: the grammar generates nothing.
    UnsupportedError: a combination of nodes is not supported.
    VocabularyError: the tokens cannot write any text of the language.
    LimitExceeded: a limit was reached.
    IndexError: a rule, a reference or a control token does not exist.)";

}  // namespace

void bind_builder(nb::module_& m) {
  nb::class_<ReadEncoding>(m, "Encoding", "An encoding, read once for all grammars.")
      .def(nb::init<const FormList&>(), "forms"_a, kEncoding);
  nb::class_<Builder>(
      m, "Builder",
      "Collects the nodes of a grammar's IR and compiles them.\n\n"
      "Each method that adds a node returns its number. Children are given by their numbers (IndexError if there\n"
      "is no such node). While another OS thread compiles the grammar, calls raise RuntimeError.")
      .def(nb::init<>(), "A builder without nodes.")
      .def("chars", &Builder::chars, "ranges"_a,
           "One character of these ranges (lowest, highest). ValueError if they overlap, are unsorted or have "
           "surrogates.")
      .def("text", &Builder::text, "text"_a, "Exactly this text. ValueError if it contains a surrogate.")
      .def("many", nb::overload_cast<const std::string&, const std::vector<int32_t>&>(&Builder::many), "kind"_a,
           "items"_a, "A sequence ('seq'), alternatives ('alt') or a conjunction ('and') of nodes.")
      .def("negation", &Builder::negation, "item"_a, "All texts that a regular node does not match.")
      .def("repeat", &Builder::repeat, "item"_a, "min"_a, "max"_a,
           "A node `min` to `max` times; `max` -1: no upper bound.")
      .def("length", &Builder::length, "item"_a, "min"_a, "max"_a,
           "The texts of a node that have `min` to `max` characters; `max` -1: no upper bound.")
      .def("encoded", &Builder::encoded, "item"_a, "encoding"_a, "A node whose characters are written in an encoding.")
      .def("ref", &Builder::ref, "rule"_a, "A reference to a rule, by its number.")
      .def("special", &Builder::special, "first"_a, "last"_a, "One control token, whose id is from `first` to `last`.")
      .def("permutation", &Builder::permutation, "items"_a, "required"_a, "repeatable"_a, "separator"_a, "min"_a,
           "max"_a, kPermutation)
      .def("conditional", &Builder::conditional, "items"_a, "required"_a, "repeatable"_a, "separator"_a, "min"_a,
           "max"_a, "slots"_a, "ordered"_a, "nodes"_a, kConditional)
      .def("automaton", &Builder::automaton, "accept"_a, "edges"_a, kAutomaton)
      .def("substrings", &Builder::substrings, "texts"_a, "marked"_a,
           "The non-empty substrings of the texts. With `marked`, they begin after U+D800 and end before U+D801.\n"
           "ValueError if a text contains another surrogate.")
      .def("dispatch", &Builder::dispatch, "automaton"_a, "states"_a, "items"_a,
           "An automaton, by its number; after a text that leads to one of `states`, the corresponding item follows.")
      .def("distinct", &Builder::distinct, "item"_a, "names"_a,
           "A node whose entries must differ from each other and from `names`.")
      .def("max_tokens", &Builder::max_tokens, "item"_a, "max"_a,
           "The texts of a regular node, written in at most `max` tokens.")
      .def("entry", &Builder::entry, "item"_a, "A node whose value is an entry of the surrounding uniqueness scope.")
      .def("encoding", &Builder::encoding, "encoding"_a,
           "Add an encoding and return its number for `encoded`. The first encoding must be UTF-8.")
      .def("compile", &Builder::compile, "vocabulary"_a, "rules"_a, "names"_a, "start"_a, "max_states"_a,
           "max_seconds"_a, "memory"_a, "max_work"_a = INT64_MAX, "call_work"_a = INT64_MAX,
           "later"_a = Builder::Later{}, "compile_later"_a = nb::none(), kCompile);
}

}  // namespace guided
