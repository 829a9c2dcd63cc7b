#include "run/walk_points.hpp"

#include <algorithm>

#include "base/whole_characters.hpp"
#include "run/trie_walk.hpp"

namespace guided {

int32_t WalkPoints::number_of(int32_t code) {
  if (points_.size() * 2 >= numbers_.size()) {
    numbers_.assign(std::max<size_t>(64, numbers_.size() * 4), -1);
    for (int32_t i = 0; i < count(); ++i) numbers_[find_slot(points_[i].code)] = i;
  }
  int32_t& number = numbers_[find_slot(code)];
  if (number < 0) {
    number = count();
    const ByteSet& bytes =
        code < kFirstPosition ? arena_.config(code).bytes : grammar_.positions[code - kFirstPosition].bytes;
    int32_t* row = nullptr;
    if (bytes.count() >= kMinRowBytes) {
      rows_.emplace_back().fill(kNotYet);
      row = rows_.back().data();
    }
    points_.push_back({code, row, bytes});
  }
  return number;
}

// The slot that contains the number of the point with this code, or the free slot for it.
size_t WalkPoints::find_slot(int32_t code) const {
  size_t i = static_cast<uint32_t>(code) * 0x9E3779B1u & (numbers_.size() - 1);
  while (numbers_[i] >= 0 && points_[numbers_[i]].code != code) i = (i + 1) & (numbers_.size() - 1);
  return i;
}

int32_t WalkPoints::step(int32_t from, uint8_t byte) {
  int32_t target = kDead;
  const int32_t code = points_[from].code;
  if (code >= kFirstPosition) {
    const int32_t pos = grammar_.step(code - kFirstPosition, byte);
    if (pos >= 0) target = code_of(pos);
  } else if (points_[from].bytes.has(byte)) {
    target = arena_.step(code, byte);
  }
  const int32_t next_number = target == kDead ? kNowhere : number_of(target);
  if (int32_t* row = points_[from].row) row[byte] = next_number;
  return next_number;
}

int32_t WalkPoints::code_of(int32_t pos) {
  const Position& p = grammar_.positions[pos];
  if (!p.accept && p.call_lo == p.call_hi && p.effect_lo == p.effect_hi) return kFirstPosition + pos;
  auto [it, inserted] = closures_.try_emplace(pos, kDead);
  if (inserted) {
    std::vector<Thread> kernel{{pos, thread_.reg, thread_.ret, thread_.mem}};
    const int32_t state = arena_.close(kernel);
    it->second = arena_.config(state).count == 0 ? kDead : state;
  }
  return it->second;
}

bool WalkPoints::at_boundary(int32_t point) const {
  if (points_[point].code < kFirstPosition) return guided::at_boundary(arena_, points_[point].code);
  return !grammar_.single || grammar_.positions[points_[point].code - kFirstPosition].boundary;
}

int32_t WalkPoints::position_of(int32_t point) const {
  const Config* config_of_point = config(point);
  if (!config_of_point) return points_[point].code - kFirstPosition;
  // After a tail call, the thread is no longer in the caller's frame.
  const int32_t rule = grammar_.positions[thread_.pos].rule;
  int32_t position = -1;
  for (const Thread& t : *config_of_point) {
    if (t.pos == kExit) continue;
    if (position >= 0 || grammar_.positions[t.pos].rule != rule || t.reg != thread_.reg || t.ret != thread_.ret ||
        t.mem != thread_.mem)
      return -1;
    position = t.pos;
  }
  return position;
}

std::pair<int32_t, uint8_t> WalkPoints::find_next_count(int32_t point) {
  for (int b = 0; b < 128; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    const int32_t next_point = next(point, byte);
    if (next_point != kNowhere && is_one_count_further(point, next_point)) return {next_point, byte};
  }
  return {kNowhere, 0};
}

bool WalkPoints::is_one_count_further(int32_t a, int32_t b) const {
  const Config* next_config = config(b);
  if (!next_config) return false;  // the count has not changed
  const Thread single_thread{points_[a].code - kFirstPosition, thread_.reg, thread_.ret, thread_.mem};
  const Config* config_of_point = config(a);
  if (next_config->count != (config_of_point ? config_of_point->count : 1)) return false;
  for (int32_t i = 0; i < next_config->count; ++i) {
    const Thread &x = config_of_point ? config_of_point->threads[i] : single_thread, &y = next_config->threads[i];
    if (x.ret > kFree || x.ret != y.ret || x.pos != y.pos || x.reg + 1 != y.reg || x.mem != y.mem) return false;
  }
  return true;
}

// The classes of bytes that the point does not distinguish; null if its threads belong to several rules.
const std::array<uint8_t, 256>* WalkPoints::byte_classes(int32_t point) const {
  const Config* threads = config(point);
  if (!threads) return &grammar_.rules[grammar_.positions[points_[point].code - kFirstPosition].rule].byte_class;
  int32_t rule = -1;
  for (const Thread& t : *threads) {
    if (t.pos == kExit) continue;
    if (t.mem > kLastUnknownSet || (rule >= 0 && grammar_.positions[t.pos].rule != rule)) return nullptr;
    rule = grammar_.positions[t.pos].rule;
  }
  return rule < 0 ? nullptr : &grammar_.rules[rule].byte_class;
}

CharClasses WalkPoints::classes_leading(int32_t from, int32_t to) {
  CharClasses rejected = kBrokenBytes;
  const std::array<uint8_t, 256>* byte_class = byte_classes(from);
  std::array<int32_t, 256> targets;
  targets.fill(kNotYet);
  for (int b = 0; b < 128; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    const CharClasses char_class = char_class_of_ascii(byte);
    if (rejected & char_class || !vocabulary_.live.has(byte)) continue;
    if (to != kNowhere && !points_[from].bytes.has(byte)) {
      rejected |= char_class;
      continue;
    }
    int32_t& target = targets[byte_class ? (*byte_class)[byte] : byte];
    if (target == kNotYet) target = next(from, byte);
    if (target != to) rejected |= char_class;
  }
  if (~rejected == kNonAscii || !non_ascii_leads_to(from, to)) rejected |= kNonAscii;
  return ~rejected;
}

// ---- non-ASCII characters, as far as tokens contain their bytes
bool WalkPoints::non_ascii_leads_to(int32_t from, int32_t to) {
  if (to != kNowhere)
    for (int b = 0xC2; b <= 0xF4; ++b)
      if (vocabulary_.live.has(static_cast<uint8_t>(b)) && !points_[from].bytes.has(static_cast<uint8_t>(b)))
        return false;
  for (const CharacterLead& lead : kCharacterLeads) {
    auto leads_to_target = [&](int32_t next_point) {
      return next_point == kNowhere
                 ? to == kNowhere
                 : tails_lead_to(next_point, lead.second_lo, lead.second_hi, lead.continuation_bytes, to);
    };
    if (!bytes_lead_to(from, lead.lo, lead.hi, leads_to_target)) return false;
  }
  for (const CharacterEnd& end : kCharacterEnds) {
    int32_t point = from;
    for (uint8_t byte : {end.first, end.second}) point = point == kNowhere ? kNowhere : next(point, byte);
    if (point == kNowhere ? to != kNowhere : !tails_lead_to(point, end.lo, end.hi, 1, to)) return false;
  }
  return true;
}

// Whether every way to write the last `remaining` bytes of a character leads to `to`. Their first byte is in lo..hi.
bool WalkPoints::tails_lead_to(int32_t from, int lo, int hi, int remaining, int32_t to) {
  return bytes_lead_to(from, lo, hi, [&](int32_t next_point) {
    if (remaining == 1 || next_point == kNowhere) return next_point == to;
    return tails_lead_to(next_point, 0x80, 0xBF, remaining - 1, to);
  });
}

template <class Check>
bool WalkPoints::bytes_lead_to(int32_t from, int lo, int hi, Check&& check) {
  const std::array<uint8_t, 256>* byte_class = byte_classes(from);
  int32_t last_checked = kNotYet, last_class = -1;  // adjacent bytes mostly lead to the same point
  for (int b = lo; b <= hi; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    if (!vocabulary_.live.has(byte) || (byte_class && (*byte_class)[byte] == last_class)) continue;
    if (byte_class) last_class = (*byte_class)[byte];
    const int32_t next_point = next(from, byte);
    if (next_point != last_checked && !check(next_point)) return false;
    last_checked = next_point;
  }
  return true;
}

}  // namespace guided
