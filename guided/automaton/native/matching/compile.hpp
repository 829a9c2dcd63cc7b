// From the IR to a grammar laid out for stepping: lowering, assembling, pruning.
//
// In: an IrGrammar and a vocabulary. Out: the grammar, or an error: of the specification (EmptyLanguage, Unsupported),
// of the vocabulary, or of a limit. Lowering follows the nesting of nodes by recursion. Who calls may have little stack
// (a thread's 512 KB, or less), and the same specification must compile on every thread: what nests deeper than is left
// of the caller's stack is lowered on a thread whose stack holds the deepest there is (kMaxDepth).
#pragma once

#include <functional>
#include <memory>

#include "compile/grammar.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

std::unique_ptr<Grammar> compile_grammar(const IrGrammar& ir, const TokenVocabulary& vocabulary, Meter& meter);

// Calls `work` on a thread with a stack of `bytes` and waits; what it throws is thrown here.
void on_stack_of(size_t bytes, const std::function<void()>& work);

}  // namespace guided
