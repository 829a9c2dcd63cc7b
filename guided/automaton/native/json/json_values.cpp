#include "json/json_values.hpp"

#include <algorithm>
#include <cctype>

#include "json/json_number.hpp"

namespace guided {

namespace {
bool is_space(uint8_t b) { return b == ' ' || b == '\t' || b == '\n' || b == '\r'; }
bool is_bare(uint8_t b) { return std::isalnum(b) || b == '-' || b == '+' || b == '.'; }
}  // namespace

JsonValues::JsonValues() : texts_(4), frames_{{-1, -1, 0, 0, 't', Phase::Item}} {}

// ---- reading
int32_t JsonValues::read(int32_t text, uint8_t byte) {
  if (is_space(byte) && !in_string(text)) return text;
  if (const int32_t* known = next_.find(pair_key(text, byte))) return *known;
  const auto id = static_cast<int32_t>(texts_.size());
  next_.set(pair_key(text, byte), id);
  const Text longer = next(text, byte);
  texts_.push_back(longer);
  bytes_ += sizeof(Text) + 48;
  return id;
}

JsonValues::Text JsonValues::next(int32_t text, uint8_t byte) {
  Text out = texts_[text];
  out.before = text;
  out.byte = byte;
  out.adds = kNothing;
  if (out.kind == Kind::Broken) {
    if (out.unit == 2)
      out.unit = 1;
    else if (byte == JsonString::kQuote)
      out.unit ^= 1;
    else if (out.unit == 1 && byte == JsonString::kEscape)
      out.unit = 2;
    return out;
  }
  if (out.kind == Kind::String) {
    read_string(out, byte);
    return out;
  }
  if (out.kind == Kind::Bare) {
    if (is_bare(byte)) return out;
    const int32_t value = bare_value(text);
    out.kind = value < 0 ? Kind::Broken : Kind::Between;
    if (value >= 0) add(out, value);
  }
  if (out.kind == Kind::Between) read_structure(out, byte);
  if (out.kind == Kind::Broken) out.unit = byte == '"';
  return out;
}

void JsonValues::read_string(Text& out, uint8_t byte) {
  JsonString progress{{}, out.escape, out.unit, out.high};
  const bool plain = out.escape < 0;
  if (!progress.read(byte)) {
    const int32_t value = values_.string(string(out.before).text);
    out.kind = Kind::Between;
    out.unit = 0;
    out.high = 0;
    add(out, value);
    return;
  }
  out.escape = static_cast<int8_t>(progress.escape);
  out.unit = static_cast<uint16_t>(progress.unit);
  out.high = progress.high;
  if (progress.text.empty()) return;
  const auto first = static_cast<uint8_t>(progress.text[0]);
  out.adds = plain || first < 0x80 ? first : 256 + static_cast<int32_t>(code_point(progress.text));
}

void JsonValues::read_structure(Text& out, uint8_t byte) {
  const Frame& frame = frames_[out.frame];
  if (byte == '"' || is_bare(byte)) {
    out.kind = expects(out.frame, byte == '"') ? byte == '"' ? Kind::String : Kind::Bare : Kind::Broken;
    out.since = out.before;
    out.escape = -1;
    out.unit = 0;
  } else if ((byte == '[' || byte == '{') && expects(out.frame, false)) {
    frames_.push_back({out.frame, -1, 0, frame.depth + 1, byte == '[' ? 'a' : 'o', Phase::Begin});
    bytes_ += sizeof(Frame);
    out.frame = static_cast<int32_t>(frames_.size()) - 1;
  } else if (byte == ']' || byte == '}') {
    close(out, byte == ']' ? 'a' : 'o');
  } else if (byte == ',' && frame.phase == Phase::Ended && frame.kind != 't') {
    out.frame = in_phase(out.frame, Phase::Item);
  } else if (byte == ':' && frame.phase == Phase::Colon) {
    out.frame = in_phase(out.frame, Phase::Member);
  } else {
    out.kind = Kind::Broken;
  }
}

bool JsonValues::expects(int32_t frame, bool string) const {
  const Frame& f = frames_[frame];
  if (f.kind == 'o') return f.phase == Phase::Member || (string && (f.phase == Phase::Begin || f.phase == Phase::Item));
  return f.phase == Phase::Begin || f.phase == Phase::Item;
}

int32_t JsonValues::in_phase(int32_t frame, Phase phase) {
  Frame changed = frames_[frame];
  changed.phase = phase;
  frames_.push_back(changed);
  bytes_ += sizeof(Frame);
  return static_cast<int32_t>(frames_.size()) - 1;
}

void JsonValues::add(Text& out, int32_t value) {
  Frame frame = frames_[out.frame];
  parts_.push_back({frame.parts, value});
  frame.parts = static_cast<int32_t>(parts_.size()) - 1;
  ++frame.count;
  frame.phase = frame.kind == 'o' && frame.phase != Phase::Member ? Phase::Colon : Phase::Ended;
  frames_.push_back(frame);
  bytes_ += sizeof(Frame) + sizeof(PartOf);
  out.frame = static_cast<int32_t>(frames_.size()) - 1;
}

void JsonValues::close(Text& out, char kind) {
  const Frame& frame = frames_[out.frame];
  if (frame.kind != kind || (frame.phase != Phase::Begin && frame.phase != Phase::Ended)) {
    out.kind = Kind::Broken;
    return;
  }
  const int32_t value = values_.container(kind, parts(out.frame));
  out.frame = frame.outer;
  add(out, value);
}

int32_t JsonValues::bare_value(int32_t text) {
  const std::string word = bare(text);
  if (is_number(word)) return values_.intern(number_content(word));
  if (word == "true" || word == "false" || word == "null") return values_.intern(std::string(1, 'l').append(word));
  return -1;
}

// ---- parts
int32_t JsonValues::frame_at(int32_t frame, int32_t depth) const {
  while (frames_[frame].depth > depth) frame = frames_[frame].outer;
  return frame;
}

// The containers that have been opened since `start` and not closed, innermost first.
std::vector<int32_t> JsonValues::open_frames(int32_t start, int32_t text) const {
  std::vector<int32_t> out;
  const int32_t depth = frames_[texts_[start].frame].depth;
  for (int32_t at = texts_[text].frame; frames_[at].depth > depth; at = frames_[at].outer) out.push_back(at);
  return out;
}

JsonValues::Part JsonValues::part(int32_t start, int32_t text) const {
  const Text &from = texts_[start], &to = texts_[text];
  if (start == text) return Part::Empty;
  if (to.kind == Kind::Broken || from.kind != Kind::Between || !expects(from.frame, true)) return Part::Unknown;
  const Frame& around = frames_[from.frame];
  const int32_t level = frame_at(to.frame, around.depth);
  if (level == from.frame)
    return to.frame != level         ? Part::Open
           : to.kind == Kind::String ? Part::String
           : to.kind == Kind::Bare   ? Part::Bare
                                     : Part::Unknown;
  const Frame& now = frames_[level];
  const bool one_more = level == to.frame && to.kind == Kind::Between && now.outer == around.outer &&
                        now.count == around.count + 1 && parts_[now.parts].before == around.parts;
  return one_more && (now.phase == Phase::Ended || now.phase == Phase::Colon) ? Part::Whole : Part::Unknown;
}

std::string JsonValues::raw(int32_t start, int32_t text) const {
  std::string out;
  for (int32_t at = text; at != start; at = texts_[at].before) out += static_cast<char>(texts_[at].byte);
  std::reverse(out.begin(), out.end());
  return out;
}

int32_t JsonValues::value(int32_t start, int32_t text) {
  const Part is = part(start, text);
  if (is == Part::Whole) return parts_[frames_[texts_[text].frame].parts].value;
  if (is == Part::Bare)
    if (const int32_t value = bare_value(text); value >= 0) return value;
  const std::string spelled = raw(start, text);
  if (is == Part::Unknown && start > kFrom) {  // the text around it is not JSON, or not yet
    int32_t alone = kStart;
    for (char byte : spelled) alone = read(alone, static_cast<uint8_t>(byte));
    return value(kStart, alone);
  }
  return values_.intern(std::string(1, 'r').append(spelled));
}

JsonString JsonValues::string(int32_t text) const {
  const std::string spelled = bare(text);
  JsonString out;
  for (size_t i = 1; i < spelled.size(); ++i) out.read(static_cast<uint8_t>(spelled[i]));
  return out;
}

std::vector<int32_t> JsonValues::parts(int32_t frame) const {
  std::vector<int32_t> out(static_cast<size_t>(frames_[frame].count));
  int32_t part = frames_[frame].parts;
  for (size_t i = out.size(); i-- > 0; part = parts_[part].before) out[i] = parts_[part].value;
  return out;
}

// The value of a member of an object, or of the parts of one so far; -1 if it has no member of this name.
static int32_t member(const std::vector<int32_t>& parts, int32_t name) {
  for (size_t i = 0; i + 1 < parts.size(); i += 2)
    if (parts[i] == name) return parts[i + 1];
  return -1;
}

bool JsonValues::fits_scalar(int32_t text, int32_t value) const {
  const std::string& c = values_.content(value);
  if (c[0] == 'r') return true;
  if (texts_[text].kind == Kind::String) return c[0] == 's' && string(text).fits(std::string_view(c).substr(1));
  const std::string word = bare(text);
  if (word[0] == '-' || std::isdigit(static_cast<unsigned char>(word[0]))) return c[0] == 'n' && number_fits(word, c);
  return c[0] == 'l' && std::string_view(c).substr(1, word.size()) == word;
}

bool JsonValues::fits(std::span<const int32_t> open, int32_t text, int32_t value) const {
  const Text& to = texts_[text];
  const bool in_scalar = to.kind != Kind::Between;
  for (size_t level = open.size(); level-- > 0;) {
    const Frame& frame = frames_[open[level]];
    const std::string& c = values_.content(value);
    if (c[0] == 'r') return true;
    if (c[0] != frame.kind) return false;
    const std::vector<int32_t> wanted = values_.parts(value), written = parts(open[level]);
    const bool inside = level > 0 || in_scalar;  // the text ends inside a part of this container
    const size_t n = written.size();
    if (frame.kind == 'a') {
      if (n > wanted.size() || !std::equal(written.begin(), written.end(), wanted.begin())) return false;
      if (!inside) return frame.phase != Phase::Item || n < wanted.size();
      if (n == wanted.size()) return false;
      value = wanted[n];
      continue;
    }
    for (size_t i = 0; i + 1 < n; i += 2)
      if (member(wanted, written[i]) != written[i + 1]) return false;
    if (n % 2 == 0) {  // between members, or in a name
      if (!inside) return true;
      for (size_t i = 0; i + 1 < wanted.size(); i += 2)
        if (member(written, wanted[i]) < 0 && fits_scalar(text, wanted[i])) return true;
      return false;
    }
    value = member(wanted, written[n - 1]);
    if (value < 0 || !inside) return value >= 0;
  }
  return fits_scalar(text, value);
}

void JsonValues::describe(int32_t start, int32_t text, std::vector<int32_t>& out) {
  const Part is = part(start, text);
  const Text to = texts_[text];
  out.push_back(static_cast<int32_t>(is));
  if (is == Part::Unknown || is == Part::Empty) {
    out.push_back(values_.intern(std::string(1, 'r').append(raw(start, text))));
    return;
  }
  if (is == Part::Whole) out.push_back(value(start, text));
  out.push_back(static_cast<int32_t>(to.kind));
  if (to.kind == Kind::Bare) {
    const std::string word = bare(text);
    const bool number = word[0] == '-' || std::isdigit(static_cast<unsigned char>(word[0]));
    out.push_back(values_.intern('r' + (number ? number_essence(word) : word)));
  }
  if (to.kind == Kind::String) {
    const int32_t unit = to.escape > 0 ? to.unit : 0;
    out.insert(out.end(), {values_.string(string(text).text), to.escape, unit, static_cast<int32_t>(to.high)});
  }
  for (int32_t f : open_frames(start, text)) {
    std::vector<int32_t> written = parts(f);
    if (frames_[f].kind == 'o') sort_members(written);
    out.insert(out.end(), {frames_[f].kind, static_cast<int32_t>(frames_[f].phase), frames_[f].count});
    out.insert(out.end(), written.begin(), written.end());
  }
}

}  // namespace guided
