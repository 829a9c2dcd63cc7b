// Finds how many tokens make an entry (uniqueness.hpp) unseen, whatever has been written.
//
// Problem: to end an object that needs a thousand more names, each name must differ from all earlier ones. Finding each
// name by a search is too slow, because a mask needs such a text for every token that it examines.
//
// How: most entries have a *loop* nearby: a position in a string or in the digits of a number at which the same
// characters can be read again and again. *Letters* are tokens of equal length that consist of such characters.
// Different letters make different values. So if n seen values begin with the text so far, one of A letters leads to at
// most n / A of them (the pigeonhole principle). After floor(log_A(n)) + 1 letters, the entry can become none of them.
//
// In: a thread at the start of an entry or inside one. Out: the bytes to the nearest loop, the thread there, and the
// number of different letters. Nothing if the only loops are deeper, in an array or object.
// Example: at the start of a name, the bytes are `"`, and the letters are the tokens with six characters, about ten
// thousand.
// Cost: a few positions, once per thread; all tokens of the vocabulary, once for each set of characters.
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
    std::string text;         // the bytes to the loop
    Thread loop;              // the thread at the loop; its memory has no meaning
    int64_t letters = 0;      // the number of different letters, at least two
    bool is_counted = false;  // whether each letter adds one to the register
  };
  // The memory of `thread` is ignored. Null if no way is known.
  const Way* find(Thread thread);
  // The number of letters after which the entry can become none of `value_count` values.
  static int letters_needed(const Way& way, int64_t value_count);
  // The thread after some letters; nullopt if they would exceed the maximum count.
  std::optional<Thread> thread_after(const Way& way, int letters) const;

 private:
  std::optional<Way> search(const Thread& thread);
  bool find_loop(const Thread& thread, Way& out);
  int64_t count_letters(const ByteSet& bytes, bool are_digits);

  Arena& arena_;
  const TokenVocabulary& vocabulary_;
  std::unordered_map<Thread, std::optional<Way>, ThreadHash> ways_;
  std::unordered_map<int32_t, std::optional<Way>> loops_;  // by position
  std::map<std::pair<std::array<uint64_t, 4>, bool>, int64_t> counts_;
};

}  // namespace guided
