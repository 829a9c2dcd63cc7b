// The Python border, in three files: builder.cpp and node_reader.cpp take grammars in, module.cpp has the rest.
#pragma once

#include <nanobind/nanobind.h>

#include "matching/matcher.hpp"

namespace guided {

void bind_builder(nanobind::module_& m);
void bind_node_reader(nanobind::module_& m);

}  // namespace guided
