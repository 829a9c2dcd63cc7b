// How an entry (uniqueness.hpp) can become new, in tokens, whatever was written.
//
// Problem: a text that writes a thousand more names must avoid all those that were written, and its own. To construct
// each name costs a search, and a mask asks for such texts after many tokens.
//
// How: in most entries there is a *loop* near: a position in a string or in the digits of a number at which the same
// characters may be read again and again. *Letters* are tokens of equal length of such characters. Different letters
// make different values, so of A letters after a text that n seen values begin with, one leads to at most n / A of them
// (the pigeonhole principle): the logarithm of n to the base A, and one, is a number of letters after which the entry
// can come to none.
//
// In: a thread at which an entry begins, or within one. Out: the bytes to the nearest loop, the thread there, and how
// many letters there are. Nothing where the loop lies deeper, in an array or object.
// Example: where any name begins, the bytes are `"`, and the letters the words of six characters, some ten thousand.
// Cost: a few positions, once for each thread; for each set of characters once the tokens of the vocabulary.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "run/arena.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

class NewLetters {
 public:
  NewLetters(Arena& arena, const TokenVocabulary& vocabulary) : arena_(arena), vocabulary_(vocabulary) {}
  struct Way {
    std::string text;     // to the loop
    Thread loop;          // its memory is of no meaning
    int64_t letters = 0;  // how many there are, two at least
    bool counts = false;  // each adds one to the register
  };
  // `thread`: its memory is not looked at. Null: none is known.
  const Way* find(Thread thread);
  // So many letters lead to none of `values`.
  static int needed(const Way& way, int64_t values);
  // The thread after some letters; nothing where the count has no room for them.
  std::optional<Thread> after(const Way& way, int letters) const;

 private:
  std::optional<Way> search(const Thread& thread);
  bool find_loop(const Thread& thread, Way& out);
  int64_t count_letters(const ByteSet& bytes, bool digits);

  Arena& arena_;
  const TokenVocabulary& vocabulary_;
  std::unordered_map<Thread, std::optional<Way>, ThreadHash> ways_;
  std::unordered_map<int32_t, std::optional<Way>> loops_;  // by position
  std::map<std::pair<std::array<uint64_t, 4>, bool>, int64_t> counts_;
};

}  // namespace guided
