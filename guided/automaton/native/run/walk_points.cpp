#include "run/walk_points.hpp"

#include <algorithm>

#include "base/whole_characters.hpp"
#include "run/trie_walk.hpp"

namespace guided {

int32_t WalkPoints::number(int32_t point) {
  if (points_.size() * 2 >= numbers_.size()) {
    numbers_.assign(std::max<size_t>(64, numbers_.size() * 4), -1);
    for (int32_t i = 0; i < count(); ++i) numbers_[slot(points_[i].point)] = i;
  }
  int32_t& number = numbers_[slot(point)];
  if (number < 0) {
    number = count();
    const ByteSet& bytes = point < kPosition ? arena_.config(point).bytes : grammar_.positions[point - kPosition].bytes;
    int32_t* row = nullptr;
    if (bytes.count() >= kFewBytes) {
      rows_.emplace_back().fill(kNotYet);
      row = rows_.back().data();
    }
    points_.push_back({point, row, bytes});
  }
  return number;
}

// The slot with the number of a point, or the free slot for it.
size_t WalkPoints::slot(int32_t point) const {
  size_t at = static_cast<uint32_t>(point) * 0x9E3779B1u & (numbers_.size() - 1);
  while (numbers_[at] >= 0 && points_[numbers_[at]].point != point) at = (at + 1) & (numbers_.size() - 1);
  return at;
}

int32_t WalkPoints::step(int32_t from, uint8_t byte) {
  int32_t to = kDead;
  const int32_t point = points_[from].point;
  if (point >= kPosition) {
    const int32_t pos = grammar_.step(point - kPosition, byte);
    if (pos >= 0) to = point_of(pos);
  } else if (points_[from].bytes.has(byte)) {
    to = arena_.step(point, byte);
  }
  const int32_t found = to == kDead ? kNowhere : number(to);
  if (int32_t* row = points_[from].row) row[byte] = found;
  return found;
}

int32_t WalkPoints::point_of(int32_t pos) {
  const Position& p = grammar_.positions[pos];
  if (!p.accept && p.call_lo == p.call_hi && p.effect_lo == p.effect_hi) return kPosition + pos;
  auto [it, inserted] = closed_.try_emplace(pos, kDead);
  if (inserted) {
    std::vector<Thread> kernel{{pos, thread_.reg, thread_.ret, thread_.mem}};
    const int32_t state = arena_.close(kernel);
    it->second = arena_.config(state).count == 0 ? kDead : state;
  }
  return it->second;
}

bool WalkPoints::at_boundary(int32_t point) const {
  if (points_[point].point < kPosition) return guided::at_boundary(arena_, points_[point].point);
  return !grammar_.single || grammar_.positions[points_[point].point - kPosition].boundary;
}

int32_t WalkPoints::position_of(int32_t point) const {
  const Config* threads = config(point);
  if (!threads) return points_[point].point - kPosition;
  const int32_t rule = grammar_.positions[thread_.pos].rule;  // a tail call leaves the caller's frame
  int32_t found = -1;
  for (const Thread& t : *threads) {
    if (t.pos == kExit) continue;
    if (found >= 0 || grammar_.positions[t.pos].rule != rule || t.reg != thread_.reg || t.ret != thread_.ret ||
        t.mem != thread_.mem)
      return -1;
    found = t.pos;
  }
  return found;
}

std::pair<int32_t, uint8_t> WalkPoints::counted_on(int32_t point) {
  for (int b = 0; b < 128; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    const int32_t after = next(point, byte);
    if (after != kNowhere && counts_on(point, after)) return {after, byte};
  }
  return {kNowhere, 0};
}

bool WalkPoints::counts_on(int32_t a, int32_t b) const {
  const Config* after = config(b);
  if (!after) return false;  // the count has not changed
  const Thread alone{points_[a].point - kPosition, thread_.reg, thread_.ret, thread_.mem};
  const Config* before = config(a);
  if (after->count != (before ? before->count : 1)) return false;
  for (int32_t i = 0; i < after->count; ++i) {
    const Thread &x = before ? before->threads[i] : alone, &y = after->threads[i];
    if (x.ret > kFree || x.ret != y.ret || x.pos != y.pos || x.reg + 1 != y.reg || x.mem != y.mem) return false;
  }
  return true;
}

// Classes of bytes that the point does not distinguish; null if its threads belong to several rules.
const std::array<uint8_t, 256>* WalkPoints::classes(int32_t point) const {
  const Config* threads = config(point);
  if (!threads) return &grammar_.rules[grammar_.positions[points_[point].point - kPosition].rule].byte_class;
  int32_t rule = -1;
  for (const Thread& t : *threads) {
    if (t.pos == kExit) continue;
    if (t.mem > kLastUnknownSet || (rule >= 0 && grammar_.positions[t.pos].rule != rule)) return nullptr;
    rule = grammar_.positions[t.pos].rule;
  }
  return rule < 0 ? nullptr : &grammar_.rules[rule].byte_class;
}

CharClasses WalkPoints::leading(int32_t from, int32_t to) {
  CharClasses broken = kBrokenBytes;
  const std::array<uint8_t, 256>* alike = classes(from);
  std::array<int32_t, 256> after;
  after.fill(kNotYet);
  for (int b = 0; b < 128; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    const CharClasses kind = char_class_of_ascii(byte);
    if (broken & kind || !vocabulary_.live.has(byte)) continue;
    if (to != kNowhere && !points_[from].bytes.has(byte)) {
      broken |= kind;
      continue;
    }
    int32_t& leads_to = after[alike ? (*alike)[byte] : byte];
    if (leads_to == kNotYet) leads_to = next(from, byte);
    if (leads_to != to) broken |= kind;
  }
  if (~broken == kWholeCharacters || !characters_lead(from, to)) broken |= kWholeCharacters;
  return ~broken;
}

// ---- non-ASCII characters, as far as tokens contain their bytes
bool WalkPoints::characters_lead(int32_t from, int32_t to) {
  if (to != kNowhere)
    for (int b = 0xC2; b <= 0xF4; ++b)
      if (vocabulary_.live.has(static_cast<uint8_t>(b)) && !points_[from].bytes.has(static_cast<uint8_t>(b)))
        return false;
  for (const CharacterLead& lead : kCharacterLeads) {
    auto leads = [&](int32_t after) {
      return after == kNowhere ? to == kNowhere : tail_leads(after, lead.second_lo, lead.second_hi, lead.more, to);
    };
    if (!bytes_lead(from, lead.lo, lead.hi, leads)) return false;
  }
  for (const CharacterEnd& end : kCharacterEnds) {
    int32_t at = from;
    for (uint8_t byte : {end.first, end.second}) at = at == kNowhere ? kNowhere : next(at, byte);
    if (at == kNowhere ? to != kNowhere : !tail_leads(at, end.lo, end.hi, 1, to)) return false;
  }
  return true;
}

// The last `more` bytes of a character, the first of them in lo..hi.
bool WalkPoints::tail_leads(int32_t from, int lo, int hi, int more, int32_t to) {
  return bytes_lead(from, lo, hi, [&](int32_t after) {
    if (more == 1 || after == kNowhere) return after == to;
    return tail_leads(after, 0x80, 0xBF, more - 1, to);
  });
}

template <class Check>
bool WalkPoints::bytes_lead(int32_t from, int lo, int hi, Check&& check) {
  const std::array<uint8_t, 256>* alike = classes(from);
  int32_t checked = kNotYet, last = -1;  // adjacent bytes mostly lead to the same point
  for (int b = lo; b <= hi; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    if (!vocabulary_.live.has(byte) || (alike && (*alike)[byte] == last)) continue;
    if (alike) last = (*alike)[byte];
    const int32_t after = next(from, byte);
    if (after != checked && !check(after)) return false;
    checked = after;
  }
  return true;
}

}  // namespace guided
