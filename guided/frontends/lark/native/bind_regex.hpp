#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "not_handled.hpp"
#include "ranges.hpp"

namespace guided::lark {

namespace nb = nanobind;

// Asks a Python function for the characters of \d, \s and \w, and for the case variants of single characters.
class PythonAlphabet final : public Alphabet {
 public:
  explicit PythonAlphabet(nb::callable chars_of) : chars_of_(std::move(chars_of)) {}
  const Ranges& class_chars(char letter) override { return chars(std::string{'\\', letter}, letter); }
  const Ranges& case_variants(int32_t character) override;

 private:
  const Ranges& chars(const std::string& pattern, int32_t key);

  nb::callable chars_of_;
  std::unordered_map<int32_t, Ranges> chars_by_key_;
};

// The characters of a Python string.
std::u32string characters(nb::handle text);
void bind_regex(nb::module_& m);

}  // namespace guided::lark
