// From the IR to a grammar that can be stepped: lowering, assembling, pruning.
//
// In: an IrGrammar and a vocabulary. Out: the grammar, or an error of the specification (EmptyLanguage, Unsupported),
// the vocabulary, or a limit. Lowering is recursive over nested nodes. The caller's stack may be small (512 KB on some
// threads, or less), but a specification must compile on every thread. So nodes that nest too deeply for the rest of
// the caller's stack are lowered on a thread whose stack suffices for the greatest depth (kMaxDepth).
#pragma once

#include <functional>
#include <memory>

#include "compile/grammar.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

std::unique_ptr<Grammar> compile_grammar(const IrGrammar& ir, const TokenVocabulary& vocabulary, Meter& meter);

// Calls `work` on a thread with a stack of `bytes`, and waits. Its exceptions are thrown here.
void on_stack_of(size_t bytes, const std::function<void()>& work);

}  // namespace guided
