#include "json/json_values.hpp"

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "base/call_meter.hpp"
#include "json/json_number.hpp"

namespace guided {

namespace {
bool is_space(uint8_t b) { return b == ' ' || b == '\t' || b == '\n' || b == '\r'; }
bool belongs_to_word(uint8_t b) { return std::isalnum(b) || b == '-' || b == '+' || b == '.'; }
}  // namespace

JsonValues::JsonValues() : texts_(4), frames_{{-1, -1, 0, 0, 't', Phase::Item}} {}

// ---- reading
int32_t JsonValues::read(int32_t text, uint8_t byte) {
  if (is_space(byte) && !is_in_string(text)) return text;
  if (const int32_t* cached = next_.find(pair_key(text, byte))) return *cached;
  const auto id = static_cast<int32_t>(texts_.size());
  next_.set(pair_key(text, byte), id);
  const Text longer_text = extend(text, byte);
  texts_.push_back(longer_text);
  bytes_ += sizeof(Text) + 48;
  return id;
}

JsonValues::Text JsonValues::extend(int32_t text, uint8_t byte) {
  Text out = texts_[text];
  out.previous = text;
  out.byte = byte;
  out.added_character = kNothing;
  if (out.kind == Kind::Broken) {
    if (out.broken_state == BrokenState::AfterEscape)
      out.broken_state = BrokenState::InString;
    else if (byte == JsonString::kQuote)
      out.broken_state = out.broken_state == BrokenState::InString ? BrokenState::Outside : BrokenState::InString;
    else if (out.broken_state == BrokenState::InString && byte == JsonString::kEscape)
      out.broken_state = BrokenState::AfterEscape;
    return out;
  }
  if (out.kind == Kind::String) {
    read_string(out, byte);
    return out;
  }
  if (out.kind == Kind::Word) {
    if (belongs_to_word(byte)) return out;
    const int32_t value = word_value(text);
    out.kind = value < 0 ? Kind::Broken : Kind::Between;
    if (value >= 0) add_part(out, value);
  }
  if (out.kind == Kind::Between) read_structure(out, byte);
  if (out.kind == Kind::Broken) out.broken_state = byte == '"' ? BrokenState::InString : BrokenState::Outside;
  return out;
}

void JsonValues::read_string(Text& out, uint8_t byte) {
  JsonString progress{{}, out.escape, out.unit, out.high};
  const bool is_unescaped = out.escape < 0;
  if (!progress.read(byte)) {
    const int32_t value = values_.string(current_string(out.previous).text);
    out.kind = Kind::Between;
    out.unit = 0;
    out.high = 0;
    add_part(out, value);
    return;
  }
  out.escape = static_cast<int8_t>(progress.escape);
  out.unit = static_cast<uint16_t>(progress.unit);
  out.high = progress.high;
  if (progress.text.empty()) return;
  const auto first = static_cast<uint8_t>(progress.text[0]);
  out.added_character = is_unescaped || first < 0x80 ? first : 256 + static_cast<int32_t>(code_point(progress.text));
}

void JsonValues::read_structure(Text& out, uint8_t byte) {
  const Frame& frame = frames_[out.frame];
  if (byte == '"' || belongs_to_word(byte)) {
    out.kind = expects_value(out.frame, byte == '"') ? byte == '"' ? Kind::String : Kind::Word : Kind::Broken;
    out.word_start = out.previous;
    out.escape = -1;
    out.unit = 0;
  } else if ((byte == '[' || byte == '{') && expects_value(out.frame, false)) {
    frames_.push_back({out.frame, -1, 0, frame.depth + 1, byte == '[' ? 'a' : 'o', Phase::Begin});
    bytes_ += sizeof(Frame);
    out.frame = static_cast<int32_t>(frames_.size()) - 1;
  } else if (byte == ']' || byte == '}') {
    close_container(out, byte == ']' ? 'a' : 'o');
  } else if (byte == ',' && frame.phase == Phase::Ended && frame.kind != 't') {
    out.frame = with_phase(out.frame, Phase::Item);
  } else if (byte == ':' && frame.phase == Phase::Colon) {
    out.frame = with_phase(out.frame, Phase::Member);
  } else {
    out.kind = Kind::Broken;
  }
}

bool JsonValues::expects_value(int32_t frame, bool is_string) const {
  const Frame& f = frames_[frame];
  if (f.kind == 'o')
    return f.phase == Phase::Member || (is_string && (f.phase == Phase::Begin || f.phase == Phase::Item));
  return f.phase == Phase::Begin || f.phase == Phase::Item;
}

int32_t JsonValues::with_phase(int32_t frame, Phase phase) {
  Frame changed_frame = frames_[frame];
  changed_frame.phase = phase;
  frames_.push_back(changed_frame);
  bytes_ += sizeof(Frame);
  return static_cast<int32_t>(frames_.size()) - 1;
}

void JsonValues::add_part(Text& out, int32_t value) {
  Frame frame = frames_[out.frame];
  parts_.push_back({frame.last_part, value});
  frame.last_part = static_cast<int32_t>(parts_.size()) - 1;
  ++frame.part_count;
  frame.phase = frame.kind == 'o' && frame.phase != Phase::Member ? Phase::Colon : Phase::Ended;
  frames_.push_back(frame);
  bytes_ += sizeof(Frame) + sizeof(PartLink);
  out.frame = static_cast<int32_t>(frames_.size()) - 1;
}

void JsonValues::close_container(Text& out, char kind) {
  const Frame& frame = frames_[out.frame];
  if (frame.kind != kind || (frame.phase != Phase::Begin && frame.phase != Phase::Ended)) {
    out.kind = Kind::Broken;
    return;
  }
  const int32_t value = values_.container(kind, parts(out.frame));
  out.frame = frame.outer;
  add_part(out, value);
}

int32_t JsonValues::word_value(int32_t text) {
  const std::string word = current_word(text);
  if (is_number(word)) return values_.intern(canonical_number(word));
  if (word == "true" || word == "false" || word == "null") return values_.intern(std::string(1, 'l').append(word));
  return -1;
}

// ---- parts
int32_t JsonValues::ancestor_at(int32_t frame, int32_t depth) const {
  while (frames_[frame].depth > depth) frame = frames_[frame].outer;
  return frame;
}

// The containers that have been opened since `start` and are not closed, innermost first.
std::vector<int32_t> JsonValues::open_frames(int32_t start, int32_t text) const {
  std::vector<int32_t> out;
  const int32_t depth = frames_[texts_[start].frame].depth;
  for (int32_t frame = texts_[text].frame; frames_[frame].depth > depth; frame = frames_[frame].outer)
    out.push_back(frame);
  return out;
}

JsonValues::PartKind JsonValues::kind_since(int32_t start, int32_t text) const {
  const Text &from = texts_[start], &to = texts_[text];
  if (start == text) return PartKind::Empty;
  if (to.kind == Kind::Broken || from.kind != Kind::Between || !expects_value(from.frame, true))
    return PartKind::Unknown;
  const Frame& start_frame = frames_[from.frame];
  const int32_t frame = ancestor_at(to.frame, start_frame.depth);
  if (frame == from.frame)
    return to.frame != frame         ? PartKind::Open
           : to.kind == Kind::String ? PartKind::String
           : to.kind == Kind::Word   ? PartKind::Word
                                     : PartKind::Unknown;
  const Frame& current = frames_[frame];
  const bool has_one_more = frame == to.frame && to.kind == Kind::Between && current.outer == start_frame.outer &&
                            current.part_count == start_frame.part_count + 1 &&
                            parts_[current.last_part].previous == start_frame.last_part;
  return has_one_more && (current.phase == Phase::Ended || current.phase == Phase::Colon) ? PartKind::Whole
                                                                                          : PartKind::Unknown;
}

std::string JsonValues::raw_text(int32_t start, int32_t text) const {
  std::string out;
  for (int32_t current = text; current != start; current = texts_[current].previous)
    out += static_cast<char>(texts_[current].byte);
  std::reverse(out.begin(), out.end());
  return out;
}

int32_t JsonValues::value(int32_t start, int32_t text) {
  const PartKind part_kind = kind_since(start, text);
  if (part_kind == PartKind::Whole) return parts_[frames_[texts_[text].frame].last_part].value;
  if (part_kind == PartKind::Word)
    if (const int32_t value = word_value(text); value >= 0) return value;
  const std::string spelling = raw_text(start, text);
  if (part_kind == PartKind::Unknown && start > kAfterUnknownText) {  // the text before the part may not be JSON
    int32_t own_text = kEmptyText;
    for (char byte : spelling) own_text = read(own_text, static_cast<uint8_t>(byte));
    return value(kEmptyText, own_text);
  }
  return values_.intern(std::string(1, 'r').append(spelling));
}

JsonString JsonValues::current_string(int32_t text) const {
  const std::string spelling = current_word(text);
  JsonString progress;
  for (size_t i = 1; i < spelling.size(); ++i) progress.read(static_cast<uint8_t>(spelling[i]));
  return progress;
}

std::vector<int32_t> JsonValues::parts(int32_t frame) const {
  std::vector<int32_t> out(static_cast<size_t>(frames_[frame].part_count));
  int32_t part = frames_[frame].last_part;
  for (size_t i = out.size(); i-- > 0; part = parts_[part].previous) out[i] = parts_[part].value;
  return out;
}

constexpr size_t kBytesPerMember = 48;  // of a hash table
constexpr int64_t kNamesPerUnit = 8;    // names that are compared in one unit of work

// Compares the parts of an unfinished object with `value`, an object. From one byte to the next, an object has the same
// parts or one more. So the last comparison at each level of nesting is kept, and only continued.
const JsonValues::Comparison& JsonValues::compare_parts(size_t level, int32_t frame, int32_t value) const {
  if (level >= comparisons_.size()) comparisons_.resize(level + 1);
  Comparison& comparison = comparisons_[level];
  const int32_t last_part = frames_[frame].last_part;
  if (comparison.value == value && comparison.last_part == last_part) return comparison;
  auto add = [&](int32_t part, bool is_name) {
    if (!is_name) {
      comparison.is_subset &= part == comparison.next_value;
      return;
    }
    const auto member = comparison.members_left.find(part);
    comparison.next_value = member == comparison.members_left.end() ? -1 : member->second;
    if (comparison.next_value >= 0) comparison.members_left.erase(member);
  };
  if (comparison.value == value && last_part >= 0 && parts_[last_part].previous == comparison.last_part) {
    add(parts_[last_part].value, frames_[frame].part_count % 2 == 1);
  } else {
    const std::vector<int32_t> target = values_.parts(value), parts_so_far = parts(frame);
    CallMeter::work(static_cast<int64_t>(target.size() + parts_so_far.size()));
    const size_t bytes = sizeof(Comparison) + kBytesPerMember * (target.size() / 2);
    comparison_bytes_ += bytes - comparison.bytes;
    comparison = {last_part, value, true, -1, {}, bytes};
    for (size_t i = 0; i + 1 < target.size(); i += 2) comparison.members_left[target[i]] = target[i + 1];
    for (size_t i = 0; i < parts_so_far.size(); ++i) add(parts_so_far[i], i % 2 == 0);
  }
  comparison.last_part = last_part;
  return comparison;
}

bool JsonValues::scalar_may_become(int32_t text, int32_t value) const {
  const std::string& c = values_.content(value);
  if (c[0] == 'r') return true;
  if (texts_[text].kind == Kind::String)
    return c[0] == 's' && current_string(text).may_become(std::string_view(c).substr(1));
  const std::string word = current_word(text);
  if (word[0] == '-' || std::isdigit(static_cast<unsigned char>(word[0])))
    return c[0] == 'n' && may_become_number(word, c);
  return c[0] == 'l' && std::string_view(c).substr(1, word.size()) == word;
}

bool JsonValues::may_become(std::span<const int32_t> frames, int32_t text, int32_t value) const {
  const Text& to = texts_[text];
  const bool is_in_scalar = to.kind != Kind::Between;
  for (size_t level = frames.size(); level-- > 0;) {
    const Frame& frame = frames_[frames[level]];
    const std::string& c = values_.content(value);
    if (c[0] == 'r') return true;
    if (c[0] != frame.kind) return false;
    const bool ends_inside = level > 0 || is_in_scalar;  // the text ends inside a part of this container
    if (frame.kind == 'a') {
      const std::vector<int32_t> target_parts = values_.parts(value), parts_so_far = parts(frames[level]);
      const size_t n = parts_so_far.size();
      if (n > target_parts.size() || !std::equal(parts_so_far.begin(), parts_so_far.end(), target_parts.begin()))
        return false;
      if (!ends_inside) return frame.phase != Phase::Item || n < target_parts.size();
      if (n == target_parts.size()) return false;
      value = target_parts[n];
      continue;
    }
    const Comparison& comparison = compare_parts(frames.size() - level, frames[level], value);
    if (!comparison.is_subset) return false;
    if (frame.part_count % 2 == 0) {  // between members, or in a name
      if (!ends_inside) return true;
      CallMeter::work(static_cast<int64_t>(comparison.members_left.size()) / kNamesPerUnit);
      return std::ranges::any_of(comparison.members_left,
                                 [&](const auto& member) { return scalar_may_become(text, member.first); });
    }
    value = comparison.next_value;
    if (value < 0 || !ends_inside) return value >= 0;
  }
  return scalar_may_become(text, value);
}

void JsonValues::describe(int32_t start, int32_t text, std::vector<int32_t>& out) {
  const PartKind part_kind = kind_since(start, text);
  const Text to = texts_[text];
  out.push_back(static_cast<int32_t>(part_kind));
  if (part_kind == PartKind::Unknown || part_kind == PartKind::Empty) {
    out.push_back(values_.intern(std::string(1, 'r').append(raw_text(start, text))));
    return;
  }
  if (part_kind == PartKind::Whole) out.push_back(value(start, text));
  out.push_back(static_cast<int32_t>(to.kind));
  if (to.kind == Kind::Word) {
    const std::string word = current_word(text);
    const bool is_number_word = word[0] == '-' || std::isdigit(static_cast<unsigned char>(word[0]));
    out.push_back(values_.intern('r' + (is_number_word ? number_prefix_key(word) : word)));
  }
  if (to.kind == Kind::String) {
    const int32_t unit = to.escape > 0 ? to.unit : 0;
    out.insert(out.end(), {values_.string(current_string(text).text), to.escape, unit, static_cast<int32_t>(to.high)});
  }
  for (int32_t frame : open_frames(start, text)) {
    std::vector<int32_t> written_parts = parts(frame);
    if (frames_[frame].kind == 'o') sort_members(written_parts);
    out.insert(out.end(), {frames_[frame].kind, static_cast<int32_t>(frames_[frame].phase), frames_[frame].part_count});
    out.insert(out.end(), written_parts.begin(), written_parts.end());
  }
}

}  // namespace guided
