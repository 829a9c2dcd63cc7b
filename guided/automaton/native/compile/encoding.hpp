// From automata over code points to automata over bytes.
//
// In: a deterministic automaton whose text symbols are `encoding << 21 | code point`, and the encodings (forms.hpp).
// Out: one over bytes (0..255); calls, tokens and effects stay as they are.
//
// A state of the result is a set of automaton states at a character
// border and of *residuals*: (form, digit reached, the part of the transition function that the digits so far leave).
// Residuals are interned relative to the digits read, so that equal remainders meet: the idea of range tries
// (regex-automata's range_trie.rs) without the trie. Characters whose bytes are not in `live` are dropped.
// A state from which a single character leads on, as in a literal, gets one edge that stands for the character's
// spelling: all literals share these, and only where a rule is laid out for stepping are they copied.
// Cost: O(distinct residuals * bytes of a digit); a uniform range costs one residual per digit.
#pragma once

#include <memory>
#include <vector>

#include "base/content_cache.hpp"
#include "compile/forms.hpp"
#include "compile/live_alphabet.hpp"
#include "fsa/symbolic_automaton.hpp"

namespace guided {

// The bytes of one character: from state 0 to the last one, which is its end.
struct Spelling {
  Dfa dfa;
  Digest digest;
  size_t size() const { return static_cast<size_t>(dfa.size()); }
  int32_t inside() const { return dfa.size() - 2; }  // how many states lie between
};

// An edge with the symbol kSpelling + i stands for spellings[i].
struct ByteAutomaton {
  Dfa dfa;
  std::vector<std::shared_ptr<const Spelling>> spellings;
  size_t size() const { return static_cast<size_t>(dfa.size()); }
};

struct EncodeOptions {
  const Encodings& encodings;
  const std::vector<Digest>& digests;
  const ByteSet& live;
  const LiveAlphabet& alphabet;
  ContentCache<Spelling>* spellings;  // of single characters; may be null
};

// The result is nearly minimal where `dfa` is: remainders that meet are equal, those of different spellings may be
// alike.
ByteAutomaton encode(const Dfa& dfa, const EncodeOptions& options, Meter& meter);

}  // namespace guided
