// Encoding: turns an automaton over code points into an automaton over bytes.
//
// In: a deterministic automaton whose text symbols are `encoding << 21 | code point`, and the encodings (forms.hpp).
// Out: a deterministic automaton over bytes (0..255). Calls, control tokens and actions are unchanged. If a spelling of
// a character has a byte that no token contains (not `live`), it is left out.
//
// How: a subset construction. A state of the result is a set of
//  - *boundaries*: states of the input, between two characters, and
//  - *residuals*, inside a character: the form of the encoding, the number of digits read, and the edges that the
//    following digits can still select.
// The ranges of a residual are stored relative to the sum of the digits read so far. Example: `[U+0400-U+04FF]` in
// UTF-8, whose first byte is 0xD0, 0xD1, 0xD2 or 0xD3 (64 code points each, value (byte - 0xC0) * 64):
//     boundary --D0--> residual {0..63 -> q}     each of the four bytes leaves the same range, relative to its value,
//     boundary --D1--> the same residual         so all four lead to one state,
//     residual --80..BF--> q                     whose continuation bytes lead to q
// This merging of equal suffixes is what range tries do (regex-automata's range_trie.rs), without a trie.
//
// A state that reads a single character, as in a literal, gets one edge with a symbol `kSpelling + i` instead. This
// edge represents the automaton of the character's spellings, which all literals share. The inner states of that
// automaton are copied only when the rule is laid out for stepping (rule_block.hpp).
//
// Residuals that differ only in their targets share the computation of their bytes (residual_shapes.hpp).
//
// Cost: O(distinct residuals), plus the shapes. A range that a digit does not split costs one residual per digit.
#pragma once

#include <memory>
#include <vector>

#include "base/content_cache.hpp"
#include "compile/forms.hpp"
#include "compile/live_alphabet.hpp"
#include "compile/residual_shapes.hpp"
#include "fsa/symbolic_automaton.hpp"

namespace guided {

// All spellings of one character, as an automaton over bytes. State 0 is the start; the last state is the only end.
struct Spelling {
  Dfa dfa;
  Digest digest;
  size_t size() const { return static_cast<size_t>(dfa.size()); }
  int32_t inner_states() const { return dfa.size() - 2; }  // the number of states between start and end
};

// An edge with the symbol kSpelling + i represents the automaton spellings[i].
struct ByteAutomaton {
  Dfa dfa;
  std::vector<std::shared_ptr<const Spelling>> spellings;
  size_t size() const { return static_cast<size_t>(dfa.size()); }
};

struct EncodeOptions {
  const Encodings& encodings;
  const std::vector<Digest>& digests;  // of the encodings
  ResidualShapes& shapes;              // shared by the rules of a grammar
  const LiveAlphabet& alphabet;
  ContentCache<Spelling>* spellings;  // a cache of the spellings of characters; may be null
};

// If `dfa` is minimal, the result is nearly minimal: residuals of one form are merged, but equivalent residuals of
// different forms are not. `in_order`: the states of `dfa`, which must be trimmed, keep their numbers, and the states
// inside characters follow. Stepping is then faster if the states of a large `dfa` lead to their neighbours.
ByteAutomaton encode(const Dfa& dfa, const EncodeOptions& options, Meter& meter, bool in_order = false);

}  // namespace guided
