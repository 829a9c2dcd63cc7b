#include "python/builder.hpp"

using namespace nanobind::literals;

namespace guided {

void bind_builder(nb::module_& m) {
  nb::class_<ReadEncoding>(m, "Encoding").def(nb::init<const FormList&>(), "forms"_a);
  nb::class_<Builder>(m, "Builder")
      .def(nb::init<>())
      .def("chars", &Builder::chars)
      .def("text", &Builder::text)
      .def("many", nb::overload_cast<const std::string&, const std::vector<int32_t>&>(&Builder::many))
      .def("negation", &Builder::negation)
      .def("repeat", &Builder::repeat)
      .def("length", &Builder::length)
      .def("encoded", &Builder::encoded)
      .def("ref", &Builder::ref)
      .def("special", &Builder::special)
      .def("permutation", &Builder::permutation)
      .def("conditional", &Builder::conditional)
      .def("automaton", &Builder::automaton)
      .def("distinct", &Builder::distinct)
      .def("entry", &Builder::entry)
      .def("encoding", &Builder::encoding)
      .def("compile", &Builder::compile, "vocabulary"_a, "rules"_a, "names"_a, "start"_a, "max_states"_a,
           "max_seconds"_a, "memory"_a, "max_work"_a = INT64_MAX);
}

}  // namespace guided
