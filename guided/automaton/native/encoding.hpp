// From automata over code points to automata over bytes.
//
// In: a deterministic automaton whose text symbols are `encoding << 21 | code point`, and the encodings. Out: one over
// bytes (0..255); calls, tokens and effects stay as they are.
//
// An encoding is a set of forms; a form spells a code point as a sum of positional digits, one byte each (UTF-8, JSON's
// \uXXXX and surrogate pairs are all of this kind). A state of the result is a set of automaton states at a character
// border and of *residuals*: (form, digit reached, the part of the transition function that the digits so far leave).
// Residuals are interned relative to the digits read, so that equal remainders meet: the idea of range tries
// (regex-automata's range_trie.rs) without the trie. Characters whose bytes are not in `live` are dropped.
// A state from which a single character leads on, as in a literal, gets a copy of that character's spelling.
// Cost: O(distinct residuals * bytes of a digit); a uniform range costs one residual per digit.
#pragma once

#include <vector>

#include "symbolic_automaton.hpp"

namespace guided {

struct DigitSpan {
  int low, high;  // bytes, inclusive
  int64_t value, step;
};
struct Form {
  std::vector<Range> ranges;
  std::vector<std::vector<DigitSpan>> digits;
  std::vector<int64_t> rest;  // rest[i]: the most that the digits after i can add
};
struct Encoding {
  std::vector<Form> forms;
};

// The code points that some form of each encoding spells in live bytes only.
class LiveAlphabet {
 public:
  LiveAlphabet(const std::vector<Encoding>& encodings, const ByteSet& live);
  // `dfa` without the characters that cannot be written.
  Dfa restricted(Dfa dfa) const;

 private:
  std::vector<std::vector<Range>> live_;  // by encoding
};

class RuleCache;
struct EncodeOptions {
  const std::vector<Encoding>& encodings;
  const std::vector<Digest>& digests;  // of the encodings
  const ByteSet& live;
  RuleCache* cache;  // of spellings of single characters; may be null
};
// The result is minimal where `dfa` is.
Dfa encode(const Dfa& dfa, const EncodeOptions& options, Meter& meter);

}  // namespace guided
