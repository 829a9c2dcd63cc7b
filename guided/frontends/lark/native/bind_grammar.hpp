#pragma once

#include <nanobind/nanobind.h>

namespace guided::lark {

namespace nb = nanobind;

void bind_grammar(nb::module_& m);

}  // namespace guided::lark
