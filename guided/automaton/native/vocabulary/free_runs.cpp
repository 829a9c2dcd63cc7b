#include "vocabulary/free_runs.hpp"

#include <algorithm>

#include "base/whole_characters.hpp"

namespace guided {

namespace {
constexpr int32_t kMinRun = 2;     // characters; shorter runs do not pay off
constexpr int kMaxNarrowings = 4;  // how often character classes may be dropped to make the runs longer

// The class of an ASCII character; kNonAscii for every byte of a non-ASCII character.
CharClasses char_class_of(int byte) {
  return byte < 0x80 ? char_class_of_ascii(static_cast<uint8_t>(byte)) : kNonAscii;
}
}  // namespace

// ---- one character
bool FreeRuns::is_passive(int32_t position) const {
  const Position& p = grammar_.positions[position];
  return p.call_lo == p.call_hi && p.effect_lo == p.effect_hi && p.token_lo == p.token_hi &&
         (!grammar_.single || p.boundary);
}

bool FreeRuns::has_only_byte_edges(int32_t position) const {
  const Position& p = grammar_.positions[position];
  return !p.accept && p.call_lo == p.call_hi && p.effect_lo == p.effect_hi && p.token_lo == p.token_hi;
}

void FreeRuns::read_ascii(int32_t position, CharacterTargets& out) const {
  CharClasses rejected = 0;
  std::vector<std::pair<int32_t, CharClasses>> next;
  for (int b = 0; b < 0x80; ++b) {
    if (!live_.has(static_cast<uint8_t>(b))) continue;
    const int32_t to = grammar_.step(position, static_cast<uint8_t>(b));
    if (to < 0 || !is_passive(to))
      rejected |= char_class_of(b);
    else if (!next.empty() && next.back().first == to)
      next.back().second |= char_class_of(b);
    else
      next.push_back({to, char_class_of(b)});
    out.readable |= char_class_of(b);
  }
  out.readable &= ~rejected;
  std::sort(next.begin(), next.end());
  for (const auto& [to, char_classes] : next) {
    if (!out.next.empty() && out.next.back().second == to)
      out.next.back().first |= char_classes;
    else
      out.next.push_back({char_classes, to});
  }
}

// Where the last `remaining` bytes of a character lead if the first of them is in lo..hi.
const FreeRuns::Tail& FreeRuns::tail(int32_t position, int lo, int hi, int remaining) {
  auto [it, inserted] = tails_.try_emplace(pair_key(position, lo << 16 | hi << 8 | remaining));
  Tail& out = it->second;
  if (!inserted) return out;
  out.readable = has_only_byte_edges(position);
  each_byte(position, lo, hi, [&](int32_t to) {
    out.readable &= to >= 0 && (remaining > 1 || is_passive(to));
    if (!out.readable) return false;
    if (remaining > 1)
      out.add(tail(to, 0x80, 0xBF, remaining - 1));
    else
      out.next.push_back(to);
    return out.readable;
  });
  sort_unique(out.next);
  return out;
}

void FreeRuns::Tail::add(const Tail& other) {
  readable &= other.readable;
  next.insert(next.end(), other.next.begin(), other.next.end());
}

// Calls visit(next position or -1) for the live bytes in lo..hi, until it returns false. Visits adjacent bytes of the
// same byte class only once.
template <class Visit>
void FreeRuns::each_byte(int32_t position, int lo, int hi, Visit&& visit) const {
  const auto& byte_class_of = grammar_.rule_at(position).byte_class;
  int last = -1;  // the byte class that was visited last
  for (int b = lo; b <= hi; ++b) {
    if (!live_.has(static_cast<uint8_t>(b)) || byte_class_of[static_cast<size_t>(b)] == last) continue;
    last = byte_class_of[static_cast<size_t>(b)];
    if (!visit(grammar_.step(position, static_cast<uint8_t>(b)))) return;
  }
}

// Where non-ASCII characters lead.
FreeRuns::Tail FreeRuns::non_ascii_tail(int32_t position) {
  Tail out;
  auto continue_with = [&](int lo, int hi, int remaining) {
    return [&out, this, lo, hi, remaining](int32_t to) {
      out.readable &= to >= 0;
      if (out.readable) out.add(tail(to, lo, hi, remaining));
      return out.readable;
    };
  };
  for (const CharacterLead& lead : kCharacterLeads)
    if (out.readable)
      each_byte(position, lead.lo, lead.hi, continue_with(lead.second_lo, lead.second_hi, lead.continuation_bytes));
  for (const CharacterEnd& end : kCharacterEnds) {
    if (!out.readable || !live_.has(end.first) || !live_.has(end.second)) continue;
    const int32_t second = grammar_.step(position, end.first);
    const int32_t third = second >= 0 && has_only_byte_edges(second) ? grammar_.step(second, end.second) : -1;
    continue_with(end.lo, end.hi, 1)(third);
  }
  sort_unique(out.next);
  return out;
}

const FreeRuns::CharacterTargets& FreeRuns::targets_at(int32_t position) {
  auto [it, inserted] = targets_.try_emplace(position);
  CharacterTargets& out = it->second;
  if (!inserted) return out;
  read_ascii(position, out);
  if (const Tail non_ascii = non_ascii_tail(position); non_ascii.readable) {
    out.readable |= kNonAscii;
    for (int32_t to : non_ascii.next) out.next.push_back({kNonAscii, to});
  }
  return out;
}

// ---- several characters
FreeRuns::Runs::Runs(FreeRuns& owner, const Rule& rule, CharClasses char_classes, bool may_pass_ends)
    : owner_(owner),
      base_(rule.base),
      char_classes_(char_classes),
      may_pass_ends_(may_pass_ends),
      bounds_index_(static_cast<size_t>(rule.size), -1) {}

// The bounds for a position. The first call examines one character.
FreeRuns::Runs::Bounds& FreeRuns::Runs::examine(int32_t position) {
  int32_t& number = bounds_index_[static_cast<size_t>(position - base_)];
  if (number >= 0) return bounds_[static_cast<size_t>(number)];
  number = static_cast<int32_t>(bounds_.size());
  Bounds bounds;
  bounds.next_lo = static_cast<int32_t>(next_.size());
  const Position& p = owner_.grammar_.positions[position];
  if (!owner_.is_passive(position) || (p.accept && !may_pass_ends_)) {
    bounds.upper = -1;
  } else if (const CharacterTargets& targets = owner_.targets_at(position); char_classes_ & ~targets.readable) {
    bounds.upper = 0;
  } else {
    for (const auto& [char_classes, to] : targets.next)
      if (char_classes & char_classes_) next_.push_back(to);
  }
  bounds.next_hi = static_cast<int32_t>(next_.size());
  bounds_.push_back(bounds);
  return bounds_.back();
}

bool FreeRuns::Runs::has_run(int32_t position, int32_t characters) {
  const Bounds bounds = examine(position);
  const auto number = static_cast<size_t>(bounds_index_[static_cast<size_t>(position - base_)]);
  if (characters > bounds.upper) return false;
  if (characters <= bounds.lower) return true;
  for (int32_t i = bounds.next_lo; i < bounds.next_hi; ++i) {
    if (has_run(next_[static_cast<size_t>(i)], characters - 1)) continue;
    bounds_[number].upper = std::min(bounds_[number].upper, characters - 1);
    return false;
  }
  bounds_[number].lower = std::max(bounds_[number].lower, characters);
  return true;
}

int32_t FreeRuns::Runs::longest_run(int32_t position) {
  int32_t upper = examine(position).upper;
  while (upper > 0 && !has_run(position, upper)) upper = examine(position).upper;
  return upper;
}

// ---- the choice of character classes
int64_t FreeRuns::weight(CharClasses char_classes) const {
  int64_t sum = 0;
  for (CharClasses k = char_classes; k; k &= k - 1) sum += weights_[static_cast<size_t>(__builtin_ctzll(k))];
  return sum;
}

FreeRuns::Runs& FreeRuns::runs(int32_t position, CharClasses char_classes, CharClasses follow) {
  const int32_t rule = grammar_.positions[position].rule;
  auto& runs = runs_[{rule, char_classes, (char_classes & follow) == 0}];
  if (!runs)
    runs = std::make_unique<Runs>(*this, grammar_.rules[static_cast<size_t>(rule)], char_classes,
                                  (char_classes & follow) == 0);
  return *runs;
}

// The character classes that are readable at a position, except those that lead to positions at which most of the
// others are not readable.
CharClasses FreeRuns::lasting_classes(int32_t position) {
  const CharacterTargets targets = targets_at(position);
  const int64_t all = weight(targets.readable);
  CharClasses lasting = targets.readable;
  for (const auto& [char_classes, to] : targets.next)
    if (weight(targets_at(to).readable & targets.readable) * 2 < all) lasting &= ~char_classes;
  return lasting;
}

FreeRuns::Runs* FreeRuns::find(int32_t position, CharClasses follow) {
  auto [it, inserted] = best_runs_.try_emplace({position, follow}, nullptr);
  if (!inserted) return it->second;
  int64_t best_weight = weight(~CharClasses{0}) / 4;  // with fewer tokens, a walk is fast enough
  std::vector<int32_t> seeds{position};               // where to look for classes: here, and after frequent characters
  for (uint8_t byte : {'e', ' '})
    if (const int32_t to = grammar_.step(position, byte); to >= 0) seeds.push_back(to);
  for (const int32_t seed : seeds) {
    if (!is_passive(seed)) continue;
    CharClasses char_classes = lasting_classes(seed);
    for (int i = 0; i < kMaxNarrowings && weight(char_classes) > best_weight; ++i) {
      if (Runs& candidate = runs(seed, char_classes, follow); candidate.has_run(seed, kMinRun)) {
        best_weight = weight(char_classes);
        it->second = &candidate;
        break;
      }
      const CharacterTargets targets = targets_at(seed);
      for (const auto& [leading_classes, to] : targets.next)
        if (leading_classes & char_classes) char_classes &= targets_at(to).readable;
    }
  }
  return it->second;
}

}  // namespace guided
