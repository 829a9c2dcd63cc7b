// The Python bindings, one file for each group of classes: vocabularies and compiled grammars, matchers, batches, compositions,
// lexers, and three ways to pass in a grammar (builder.cpp, node_reader.cpp, bind_stored.cpp). module.cpp combines them
// and translates errors.
//
// The .cpp files have the docstrings of all classes and methods. `make stubs` writes guided/automaton/_core.pyi from
// them.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "matching/matcher.hpp"
#include "matching/workspace.hpp"

namespace guided {

void bind_builder(nanobind::module_& m);
void bind_compiled(nanobind::module_& m);
void bind_matcher(nanobind::module_& m);
void bind_batch(nanobind::module_& m);
void bind_composed(nanobind::module_& m);
void bind_lexer(nanobind::module_& m);
void bind_node_reader(nanobind::module_& m);
void bind_stored_grammar(nanobind::module_& m);

// Converts the limits of one call from Python's values: the memory for a grammar's states, and the work.
inline CallLimits call_limits(int64_t memory, int64_t work) {
  if (memory < 0 || work < 0) throw nanobind::value_error("limits must be at least 0");
  return {.work = work, .memory = static_cast<size_t>(memory)};
}

inline std::string_view as_string_view(const nanobind::bytes& b) { return {b.c_str(), b.size()}; }

}  // namespace guided
