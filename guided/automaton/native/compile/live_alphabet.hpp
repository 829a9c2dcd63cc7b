// The characters that a vocabulary can write.
//
// In: encodings, and the bytes that occur in some token (`live`). Out: for each encoding the code points that some form
// of it spells in live bytes only, and which of them are spelled as themselves; an automaton over code points without
// the others.
// How: a form spells sums of digits, so the sums of live digits are found from the last digit forwards, as stretches.
// Sums past the last code point are no characters, and dropped; many stretches of sums are metered as states.
// Cost: O(stretches * live bytes of a digit), once for each encoding of a vocabulary; O(edges * stretches) an
// automaton.
#pragma once

#include <memory>
#include <vector>

#include "base/content_cache.hpp"
#include "compile/forms.hpp"
#include "fsa/symbolic_automaton.hpp"

namespace guided {

// The code points that some form of an encoding spells in live bytes only.
struct LiveCharacters {
  std::vector<Range> ranges;
  ByteSet plain;  // spelled as the byte of the same value, and in no other way
  size_t size() const { return ranges.size(); }
};

class LiveAlphabet {
 public:
  // `digests`: of the encodings; `made`: what was made for earlier grammars; may be null.
  LiveAlphabet(const Encodings& encodings, const std::vector<Digest>& digests, const ByteSet& live,
               ContentCache<LiveCharacters>* made, Meter& meter);
  // `dfa` without the characters that cannot be written.
  Dfa restricted(Dfa dfa) const;
  bool plain(size_t encoding, uint8_t character) const { return live_[encoding]->plain.has(character); }

 private:
  std::vector<std::shared_ptr<const LiveCharacters>> live_;  // by encoding
};

}  // namespace guided
