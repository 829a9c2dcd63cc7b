// Compiles the IR into a grammar for stepping: lowers, assembles and prunes it.
//
// In: an IrGrammar and a vocabulary. Out: the grammar. Errors come from the specification (EmptyLanguage, Unsupported),
// the vocabulary, or a limit. Lowering is recursive over nested nodes. The caller's stack may be small (512 KB on some
// threads, or less), but a specification must compile on every thread. So nodes that nest too deeply for the rest of
// the caller's stack are lowered on a thread whose stack suffices for the maximum depth (kMaxDepth).
#pragma once

#include <functional>
#include <memory>

#include "compile/grammar.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

std::unique_ptr<Grammar> compile_grammar(const IrGrammar& ir, const TokenVocabulary& vocabulary, Meter& meter);

// Calls `work` on a new thread with a stack of `bytes`, and waits for it. Rethrows its exceptions.
void run_with_stack(size_t bytes, const std::function<void()>& work);

}  // namespace guided
