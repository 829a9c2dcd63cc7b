// Adds what chooses tokens to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace guided {

void bind_choose(nanobind::module_& m);

}  // namespace guided
