// The Python border, in two files: builder.cpp takes grammars in, module.cpp has the rest.
#pragma once

#include <nanobind/nanobind.h>

#include "matcher.hpp"

namespace guided {

void bind_builder(nanobind::module_& m);

}  // namespace guided
