// Adds `choose_rows` to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace guided {

void bind_choose(nanobind::module_& m);

}  // namespace guided
