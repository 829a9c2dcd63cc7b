// Thrown for input that the C++ code leaves to the Python code, which reads every input and explains every error.
#pragma once

namespace guided::lark {

struct NotHandled {};

}  // namespace guided::lark
