// Python bindings of composed grammars.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "composed/composed_states.hpp"
#include "python/bindings.hpp"

using namespace nanobind::literals;

namespace guided {

namespace nb = nanobind;

namespace {

using Occurrences = std::vector<std::tuple<int32_t, std::vector<int32_t>, bool>>;

std::shared_ptr<CompiledComposition> make_composition(std::vector<std::shared_ptr<Compiled>> parts,
                                                      const Occurrences& occurrences, std::vector<int32_t> first,
                                                      bool is_empty, const std::shared_ptr<TokenVocabulary>& vocabulary,
                                                      int64_t memory, int64_t call_work) {
  for (const std::shared_ptr<Compiled>& part : parts)
    if (part->vocabulary != vocabulary) throw nb::value_error("a part was compiled for another vocabulary");
  std::vector<PartGraph::Occurrence> graph_occurrences;
  for (const auto& [part, next, last] : occurrences) graph_occurrences.push_back({part, next, last});
  nb::gil_scoped_release release;
  return std::make_shared<CompiledComposition>(
      PartGraph(std::move(parts), std::move(graph_occurrences), std::move(first), is_empty), vocabulary,
      call_limits(memory, call_work));
}

constexpr auto kMakeComposed = R"(Compose compiled grammars according to a graph.

Args:
    parts: the compiled grammars. Nothing else may use them.
    occurrences: (part, next, last): the part's number, the occurrences that may follow, and whether the output
        may end after this one.
    first: the occurrences with which the output may begin.
    is_empty: whether the output may be empty.
    vocabulary: the vocabulary of all parts.
    memory: how many bytes the states may take before they are dropped, in addition to the states of the parts.
    call_work: units of work that one call on the states may take.)";

}  // namespace

void bind_composed(nb::module_& m) {
  nb::class_<CompiledComposition, Compiled>(m, "CompiledComposition", "A grammar that is composed of compiled parts.")
      .def(nb::new_(&make_composition), "parts"_a, "occurrences"_a, "first"_a, "is_empty"_a, "vocabulary"_a, "memory"_a,
           "call_work"_a, kMakeComposed);
}

}  // namespace guided
