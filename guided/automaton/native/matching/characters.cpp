// Finds the characters that can follow a text, for messages that name characters instead of bytes.
//
// In: a state, the bytes read from there, and the bytes of an incomplete character before them. Out: code points as
// ascending ranges. A depth-first walk over the bytes of UTF-8 in ascending order yields the code points in ascending
// order. There are few states after lead bytes, because many characters behave alike. So the rest of a character is
// computed once for each state and number of missing bytes.
// Cost: at most 64 steps for each such pair; about 800 steps for ".".
//
// In a string that must differ from others (a name of an object, an item of a set), every character leads to a new
// state, which stores the string so far. If the string can continue whatever was written before, this memory makes no
// difference, and states that differ only in this memory count as one. Otherwise, states are walked one by one, up to a
// limit on steps. Beyond the limit, the result may contain a character that leads only to strings that already exist.

#include <algorithm>
#include <map>
#include <stdexcept>

#include "matching/matcher.hpp"

namespace guided {

namespace {

using Characters = std::vector<std::pair<uint32_t, uint32_t>>;

void append_range(Characters& out, uint32_t low, uint32_t high) {
  if (!out.empty() && out.back().second + 1 == low)
    out.back().second = high;
  else
    out.emplace_back(low, high);
}

// Collects characters from their last bytes. Each state is visited once for each number of missing bytes.
class CharacterWalk {
 public:
  explicit CharacterWalk(States& states) : states_(states) {}

  // The values of the `missing` continuation bytes that can follow a state, six bits each, in ascending order.
  const Characters& rest(int32_t state, int missing) {
    auto [it, is_new] = rests_.try_emplace(key(state, missing));
    Characters& out = it->second;
    if (!is_new) return out;
    const int shift = 6 * (missing - 1);
    for_each_step(state, 0x80, 0xbf, [&](uint32_t byte, int32_t next) {
      const uint32_t bits = (byte & 0x3f) << shift;
      if (missing == 1) return append_range(out, bits, bits);
      for (auto [low, high] : rest(next, missing - 1)) append_range(out, bits | low, bits | high);
    });
    return out;
  }

  // The complete characters that can follow a state, in ascending order.
  Characters characters(int32_t state) {
    Characters out;
    for_each_step(state, 0, 0x7f, [&](uint32_t byte, int32_t) { append_range(out, byte, byte); });
    for_each_step(state, 0xc2, 0xf4, [&](uint32_t byte, int32_t next) {
      const int missing = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
      const uint32_t bits = (byte & (0x3f >> missing)) << (6 * missing);
      for (auto [low, high] : rest(next, missing)) append_range(out, bits | low, bits | high);
    });
    return out;
  }

 private:
  template <typename Visit>
  void for_each_step(int32_t state, int first, int last, Visit visit) {
    const ByteSet set = states_.bytes(state);
    for (int byte = first; byte <= last; ++byte) {
      if (!set.has(static_cast<uint8_t>(byte))) continue;
      const int32_t next = states_.step(state, static_cast<uint8_t>(byte));
      ++steps_;
      if (next != kDead) visit(static_cast<uint32_t>(byte), next);
    }
  }

  std::vector<int32_t> key(int32_t state, int missing) {
    std::vector<int32_t> out = states_.character_key(state, steps_);
    out.push_back(missing);
    return out;
  }

  States& states_;
  int steps_ = 0;
  std::map<std::vector<int32_t>, Characters> rests_;
};

}  // namespace

std::vector<std::pair<uint32_t, uint32_t>> Matcher::characters_after(std::string_view bytes, std::string_view begun) {
  const StatesLock lock(*states_);
  int32_t state = state_;
  for (char byte : bytes) {
    state = states_->step(state, static_cast<uint8_t>(byte));
    if (state == kDead) return {};
  }
  CharacterWalk walk(*states_);
  if (begun.empty()) return walk.characters(state);
  const uint32_t lead = static_cast<uint8_t>(begun[0]);
  const int length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4, missing = length - static_cast<int>(begun.size());
  if (lead < 0xc2 || lead > 0xf4 || missing < 1) throw std::invalid_argument("no character begins with these bytes");
  uint32_t bits = lead & (0x7fu >> length);
  for (char byte : begun.substr(1)) bits = bits << 6 | (static_cast<uint8_t>(byte) & 0x3f);
  bits <<= 6 * missing;
  Characters out;
  for (auto [low, high] : walk.rest(state, missing)) append_range(out, bits | low, bits | high);
  return out;
}

}  // namespace guided
