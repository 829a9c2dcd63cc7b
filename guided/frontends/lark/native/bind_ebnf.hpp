#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "ebnf.hpp"

namespace guided::lark {

namespace nb = nanobind;

// Rule name -> its alternatives. A symbol is a pair of its name and whether it is a terminal.
nb::dict named_rules(const Ebnf& names, const std::vector<Ebnf::Rule>& rules);
void bind_ebnf(nb::module_& m);

}  // namespace guided::lark
