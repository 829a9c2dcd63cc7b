#include "vocabulary/free_runs.hpp"

#include <algorithm>

#include "base/whole_characters.hpp"

namespace guided {

namespace {
constexpr int32_t kLong = 2;     // characters; shorter runs are of no use
constexpr int kMaxNarrowed = 4;  // how often character classes are left out to make the runs longer

// The class of an ASCII character, or the common class of all other characters for the bytes of these.
CharClasses char_class_of(int byte) {
  return byte < 0x80 ? char_class_of_ascii(static_cast<uint8_t>(byte)) : kWholeCharacters;
}
}  // namespace

// ---- one character
bool FreeRuns::is_passive(int32_t position) const {
  const Position& p = grammar_.positions[position];
  return p.call_lo == p.call_hi && p.effect_lo == p.effect_hi && p.token_lo == p.token_hi &&
         (!grammar_.single || p.boundary);
}

bool FreeRuns::only_reads(int32_t position) const {
  const Position& p = grammar_.positions[position];
  return !p.accept && p.call_lo == p.call_hi && p.effect_lo == p.effect_hi && p.token_lo == p.token_hi;
}

void FreeRuns::read_ascii(int32_t position, Reading& out) const {
  CharClasses refused = 0;
  std::vector<std::pair<int32_t, CharClasses>> next;
  for (int b = 0; b < 0x80; ++b) {
    if (!live_.has(static_cast<uint8_t>(b))) continue;
    const int32_t to = grammar_.step(position, static_cast<uint8_t>(b));
    if (to < 0 || !is_passive(to))
      refused |= char_class_of(b);
    else if (!next.empty() && next.back().first == to)
      next.back().second |= char_class_of(b);
    else
      next.push_back({to, char_class_of(b)});
    out.readable |= char_class_of(b);
  }
  out.readable &= ~refused;
  std::sort(next.begin(), next.end());
  for (const auto& [to, char_classes] : next) {
    if (!out.next.empty() && out.next.back().second == to)
      out.next.back().first |= char_classes;
    else
      out.next.push_back({char_classes, to});
  }
}

// Where the last `more` bytes of a character lead. The first of these is in lo..hi.
const FreeRuns::Tail& FreeRuns::tail(int32_t position, int lo, int hi, int more) {
  auto [it, inserted] = tails_.try_emplace(pair_key(position, lo << 16 | hi << 8 | more));
  Tail& out = it->second;
  if (!inserted) return out;
  out.readable = only_reads(position);
  each_byte(position, lo, hi, [&](int32_t to) {
    out.readable &= to >= 0 && (more > 1 || is_passive(to));
    if (!out.readable) return false;
    if (more > 1)
      out.add(tail(to, 0x80, 0xBF, more - 1));
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

// Calls visit(next position or -1) for the live bytes among lo..hi, once for adjacent bytes of one byte class, until it
// returns false.
template <class Visit>
void FreeRuns::each_byte(int32_t position, int lo, int hi, Visit&& visit) const {
  const auto& alike = grammar_.rule_at(position).byte_class;
  int last = -1;  // the byte class visited last
  for (int b = lo; b <= hi; ++b) {
    if (!live_.has(static_cast<uint8_t>(b)) || alike[static_cast<size_t>(b)] == last) continue;
    last = alike[static_cast<size_t>(b)];
    if (!visit(grammar_.step(position, static_cast<uint8_t>(b)))) return;
  }
}

// Where non-ASCII characters lead.
FreeRuns::Tail FreeRuns::others(int32_t position) {
  Tail out;
  auto go_on = [&](int lo, int hi, int more) {
    return [&out, this, lo, hi, more](int32_t to) {
      out.readable &= to >= 0;
      if (out.readable) out.add(tail(to, lo, hi, more));
      return out.readable;
    };
  };
  for (const CharacterLead& lead : kCharacterLeads)
    if (out.readable) each_byte(position, lead.lo, lead.hi, go_on(lead.second_lo, lead.second_hi, lead.more));
  for (const CharacterEnd& end : kCharacterEnds) {
    if (!out.readable || !live_.has(end.first) || !live_.has(end.second)) continue;
    const int32_t second = grammar_.step(position, end.first);
    const int32_t third = second >= 0 && only_reads(second) ? grammar_.step(second, end.second) : -1;
    go_on(end.lo, end.hi, 1)(third);
  }
  sort_unique(out.next);
  return out;
}

const FreeRuns::Reading& FreeRuns::reading(int32_t position) {
  auto [it, inserted] = readings_.try_emplace(position);
  Reading& out = it->second;
  if (!inserted) return out;
  read_ascii(position, out);
  if (const Tail non_ascii = others(position); non_ascii.readable) {
    out.readable |= kWholeCharacters;
    for (int32_t to : non_ascii.next) out.next.push_back({kWholeCharacters, to});
  }
  return out;
}

// ---- several characters
FreeRuns::Runs::Runs(FreeRuns& all, const Rule& rule, CharClasses char_classes, bool ends)
    : all_(all),
      base_(rule.base),
      classes_of_(char_classes),
      ends_(ends),
      numbers_(static_cast<size_t>(rule.size), -1) {}

// What is known about a position. The first call examines it for one character.
FreeRuns::Runs::Known& FreeRuns::Runs::look(int32_t position) {
  int32_t& number = numbers_[static_cast<size_t>(position - base_)];
  if (number >= 0) return known_[static_cast<size_t>(number)];
  number = static_cast<int32_t>(known_.size());
  Known known;
  known.next_lo = static_cast<int32_t>(next_.size());
  const Position& p = all_.grammar_.positions[position];
  if (!all_.is_passive(position) || (p.accept && !ends_)) {
    known.most = -1;
  } else if (const Reading& reading = all_.reading(position); classes_of_ & ~reading.readable) {
    known.most = 0;
  } else {
    for (const auto& [char_classes, to] : reading.next)
      if (char_classes & classes_of_) next_.push_back(to);
  }
  known.next_hi = static_cast<int32_t>(next_.size());
  known_.push_back(known);
  return known_.back();
}

bool FreeRuns::Runs::reads(int32_t position, int32_t characters) {
  const Known known = look(position);
  const auto number = static_cast<size_t>(numbers_[static_cast<size_t>(position - base_)]);
  if (characters > known.most) return false;
  if (characters <= known.least) return true;
  for (int32_t i = known.next_lo; i < known.next_hi; ++i) {
    if (reads(next_[static_cast<size_t>(i)], characters - 1)) continue;
    known_[number].most = std::min(known_[number].most, characters - 1);
    return false;
  }
  known_[number].least = std::max(known_[number].least, characters);
  return true;
}

int32_t FreeRuns::Runs::length(int32_t position) {
  int32_t most = look(position).most;
  while (most > 0 && !reads(position, most)) most = look(position).most;
  return most;
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

// The character classes that are readable at a position, except those after which most of the others are not.
CharClasses FreeRuns::lasting(int32_t position) {
  const Reading here = reading(position);
  const int64_t all = weight(here.readable);
  CharClasses left = here.readable;
  for (const auto& [char_classes, to] : here.next)
    if (weight(reading(to).readable & here.readable) * 2 < all) left &= ~char_classes;
  return left;
}

FreeRuns::Runs* FreeRuns::find(int32_t position, CharClasses follow) {
  auto [it, inserted] = found_.try_emplace({position, follow}, nullptr);
  if (!inserted) return it->second;
  int64_t best = weight(~CharClasses{0}) / 4;  // walking fewer tokens is fast enough
  std::vector<int32_t> seeds{position};        // where to look for classes: here, and after frequent characters
  for (uint8_t byte : {'e', ' '})
    if (const int32_t to = grammar_.step(position, byte); to >= 0) seeds.push_back(to);
  for (const int32_t seed : seeds) {
    if (!is_passive(seed)) continue;
    CharClasses char_classes = lasting(seed);
    for (int i = 0; i < kMaxNarrowed && weight(char_classes) > best; ++i) {
      if (Runs& found = runs(seed, char_classes, follow); found.reads(seed, kLong)) {
        best = weight(char_classes);
        it->second = &found;
        break;
      }
      const Reading here = reading(seed);
      for (const auto& [led, to] : here.next)
        if (led & char_classes) char_classes &= reading(to).readable;
    }
  }
  return it->second;
}

}  // namespace guided
