// The characters that a vocabulary can write.
//
// The problem: some vocabularies lack bytes; a character-level vocabulary has only the bytes of its characters.
// Characters that the vocabulary cannot write must be removed before automata are minimised and tested for emptiness.
//
// In: encodings, and the *live* bytes, which occur in some token. Out: for each encoding, the code points with a
// spelling in live bytes, and those whose only spelling is the byte of the same value. `remove_dead_characters` removes
// the characters without a spelling in live bytes from an automaton over code points.
// How: a form spells a code point as a sum of digits, one for each byte (forms.hpp). All sums of digits with live bytes
// are computed from the last digit to the first, as sorted ranges. Sums above the largest code point are dropped.
// Cost: O(ranges * live bytes per digit), once for each encoding of a vocabulary; the meter counts eight ranges as a
// state. Removing characters from an automaton takes O(edges * ranges).
#pragma once

#include <memory>
#include <vector>

#include "base/content_cache.hpp"
#include "compile/forms.hpp"
#include "fsa/symbolic_automaton.hpp"

namespace guided {

struct LiveCharacters {
  std::vector<Range> ranges;  // the code points that have a spelling in live bytes
  ByteSet plain;              // ASCII characters whose only spelling is the byte of the same value
  size_t size() const { return ranges.size(); }
};

class LiveAlphabet {
 public:
  // `digests`: of the encodings. `cache` may be null.
  LiveAlphabet(const Encodings& encodings, const std::vector<Digest>& digests, const ByteSet& live,
               ContentCache<LiveCharacters>* cache, Meter& meter);
  // Removes the characters without a spelling in live bytes. States may become dead.
  Dfa remove_dead_characters(Dfa dfa) const;
  // Whether all `characters` have a spelling in live bytes. Their ranges must be sorted and disjoint.
  bool can_write_all(size_t encoding, const std::vector<Range>& characters) const;
  bool is_plain(size_t encoding, uint8_t character) const { return live_[encoding]->plain.has(character); }

 private:
  std::vector<std::shared_ptr<const LiveCharacters>> live_;  // by encoding
};

}  // namespace guided
