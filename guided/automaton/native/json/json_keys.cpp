// Sets of JSON values, as tries of the values' keys.
//
// In: values, and the part of a value that has been read. Out: keys, and the trie node to which that part leads: all
// values that it may still become are below this node.
//
// The key of a scalar is its content: a letter, then the characters of a string, or the sign of a number, its digits
// without zeros at either end, and its exponent (json_number.hpp). So 1, 1.0 and 10e-1 have one key. The key of an array
// is a letter and the keys of its items in order, each with a byte at its end that no UTF-8 text contains. So an array
// is followed within its current item, however deep.
//
// Members of an object may come in any order, so a single key cannot be followed. Therefore an object's key is only its
// number in the store (json_store.hpp). For each object of the set, also within other values, there are two more keys
// for each member: the name and the value's number, and the name and the value's key. Each ends with the object's
// number. An unfinished object may become any object that has all of its members. The objects with its rarest member are
// compared with it. If they are many, its current name or value must at least begin one of theirs.
//
// Cost: the length of a key, and of the current scalar; for each open object, at most kFewObjects comparisons.
#include <charconv>

#include "json/json_number.hpp"
#include "json/json_values.hpp"

namespace guided {

namespace {
constexpr int32_t kFewObjects = 16;  // objects that are compared, member by member, with an unfinished one

void append_number(std::string& out, int32_t number, char end) {
  char digits[12];
  const auto [to, error] = std::to_chars(digits, digits + sizeof digits, number, 16);
  static_cast<void>(error);
  out.append(digits, to) += end;
}

}  // namespace

// Appends a value's key. Arrays may nest as deeply as texts, so there is no recursion.
void JsonValues::append_key(int32_t value, std::string& out) const {
  struct Array {
    std::vector<int32_t> items;
    size_t next = 0;
  };
  std::vector<Array> open;
  for (;;) {
    const std::string& content = values_.content(value);
    if (content[0] == 'a') {
      open.push_back({values_.parts(value)});
      out += 'a';
    } else if (content[0] == 'o') {
      append_number(out += 'o', value, ':');
    } else {
      out += content;
    }
    if (content[0] != 'a' && !open.empty()) out += kItemEnd;
    while (!open.empty() && open.back().next == open.back().items.size()) {
      open.pop_back();
      if (!open.empty()) out += kItemEnd;
    }
    if (open.empty()) return;
    value = open.back().items[open.back().next++];
  }
}

std::string JsonValues::key(int32_t value) const {
  std::string out;
  append_key(value, out);
  return out;
}

// The beginning of the keys of a member. `kind`: m for those with its value's number, k for those with its value's key.
std::string JsonValues::name_key(char kind, int32_t name) const {
  return std::string(1, kind).append(values_.content(name)) += kItemEnd;
}

std::string JsonValues::member_key(int32_t name, int32_t value) const {
  std::string out = name_key('m', name);
  append_number(out, value, ':');
  return out;
}

int32_t JsonValues::with(PersistentTrie& set, int32_t root, int32_t value) const {
  root = set.with(root, key(value));
  std::vector<int32_t> inner{value};
  while (!inner.empty()) {
    const int32_t at = inner.back();
    inner.pop_back();
    const char kind = values_.content(at)[0];
    if (kind != 'a' && kind != 'o') continue;
    const std::vector<int32_t> parts = values_.parts(at);
    inner.insert(inner.end(), parts.begin(), parts.end());
    for (size_t i = 0; kind == 'o' && i + 1 < parts.size(); i += 2) {
      std::string numbered = member_key(parts[i], parts[i + 1]), spelled = name_key('k', parts[i]);
      append_number(numbered, at, ':');
      append_key(parts[i + 1], spelled);
      append_number(spelled += kItemEnd, at, ':');
      root = set.with(set.with(root, numbered), spelled);
    }
  }
  return root;
}

// The beginning of the key of the current string, number or literal; empty between two of them.
std::string JsonValues::scalar_key(int32_t text) const {
  if (texts_[text].kind == Kind::String) return string_key(string(text).text);
  if (texts_[text].kind != Kind::Bare) return {};
  const std::string word = bare(text);
  const bool literal = word[0] == 't' || word[0] == 'f' || word[0] == 'n';
  return literal ? std::string(1, 'l').append(word) : number_stem(word);
}

// The node to which the items of an array lead from its beginning. `last`: the last item. Nodes never change, so the
// answers are kept, and another item takes one more step.
int32_t JsonValues::after_items(const PersistentTrie& set, int32_t node, int32_t last) {
  std::vector<int32_t> path;
  int32_t at = last, out = node;
  for (; at >= 0; at = parts_[at].before) {
    if (const int32_t* known = after_items_.find(pair_key(node, at))) {
      out = *known;
      break;
    }
    path.push_back(at);
  }
  for (size_t i = path.size(); i-- > 0;) {
    out = set.at(out, key(parts_[path[i]].value) += kItemEnd);
    after_items_.set(pair_key(node, path[i]), out);
    bytes_ += 24;
  }
  return out;
}

int32_t JsonValues::find(const PersistentTrie& set, int32_t root, int32_t start, int32_t text, Part part) {
  if (part == Part::Unknown || part == Part::Empty) return kUndecided;
  if (part == Part::Whole) return set.at(root, key(value(start, text)));
  const std::vector<int32_t> open = open_frames(start, text);
  int32_t node = root;
  for (size_t level = open.size(); level-- > 0 && node >= 0;) {
    const Frame& frame = frames_[open[level]];
    node = set.child(node, static_cast<uint8_t>(frame.kind));
    if (node < 0) return node;
    if (frame.kind == 'a') {
      node = after_items(set, node, frame.parts);
      continue;
    }
    const std::vector<int32_t> members = parts(open[level]);
    if (const auto objects = few_objects(set, root, node, members)) {
      const auto own = std::span(open).first(level + 1);
      const bool fit = std::ranges::any_of(*objects, [&](int32_t object) {
        std::string number;
        append_number(number, object, ':');
        return set.at(node, number) >= 0 && fits(own, text, object);
      });
      return fit ? node : PersistentTrie::kNowhere;
    }
    if (members.size() % 2 == 0)  // between members, or in a name
      return texts_[text].kind == Kind::Between ? node : set.at(root, std::string(1, 'k').append(scalar_key(text)));
    node = set.at(root, name_key('k', members.back()));
  }
  return set.at(node, scalar_key(text));
}

// The numbers of the objects that have the rarest of the members read so far, or the name of the current one; nullopt
// if they are more than kFewObjects. `here`: the node below which the numbers of the possible objects are.
std::optional<std::vector<int32_t>> JsonValues::few_objects(const PersistentTrie& set, int32_t root, int32_t here,
                                                            const std::vector<int32_t>& members) const {
  int32_t rarest = here;
  for (size_t i = 0; i < members.size() && rarest >= 0; i += 2) {
    const int32_t with_it =
        set.at(root, i + 1 < members.size() ? member_key(members[i], members[i + 1]) : name_key('m', members[i]));
    if (with_it < 0 || set.count(with_it) < set.count(rarest)) rarest = with_it;
  }
  std::vector<int32_t> objects;
  if (rarest < 0) return objects;
  if (set.count(rarest) > kFewObjects) return std::nullopt;
  std::vector<std::pair<int32_t, int32_t>> below{{rarest, 0}};  // (node, the number spelled since the last colon)
  while (!below.empty()) {
    const auto [node, number] = below.back();
    below.pop_back();
    for (const PersistentTrie::Child& c : set.children(node)) {
      const int32_t digit = c.byte <= '9' ? c.byte - '0' : c.byte - 'a' + 10;
      if (c.byte != ':')
        below.push_back({c.node, number * 16 + digit});
      else if (rarest == here || set.ends(c.node))
        objects.push_back(number);
      else
        below.push_back({c.node, 0});  // that was the number of a member's value
    }
  }
  return objects;
}

}  // namespace guided
