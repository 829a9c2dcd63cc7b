// Sets of JSON values, as tries of the values' keys.
//
// In: values, and the part of a value that has been read. Out: keys, and the trie node to which that part leads: all
// values that it may still become are below this node.
//
// The key of a scalar is its content: a letter for the type, followed by the characters of a string, or by the sign of
// a number, its digits without zeros at either end, and its exponent (json_number.hpp). So 1, 1.0 and 10e-1 have the
// same key. The key of an array is a letter and the keys of its items in order. Each item's key is followed by a byte
// that no UTF-8 text contains. So an unfinished array leads to a node within its current item, however deeply nested.
//
// The members of an object may come in any order, so no single key leads to it. Therefore an object's key is only its
// number in the store (json_store.hpp). Each member of each object of the set, including objects within other values,
// has two more keys: the name with the value's number, and the name with the value's key. Both end with the object's
// number. An unfinished object may become any object that has all of its members. It is compared with the objects that
// contain its rarest member. If there are too many of them, only the current name or value is checked: it must begin
// like a name in the set, or like a value of the current name.
//
// Cost: the length of a key, and of the current scalar; for each open object, one look-up for each member read so far,
// and at most kMaxComparedObjects comparisons.
#include <charconv>

#include "json/json_number.hpp"
#include "json/json_values.hpp"

namespace guided {

namespace {
constexpr int32_t kMaxComparedObjects = 16;  // the objects that are compared, member by member, with an unfinished one

void append_number(std::string& out, int32_t number, char end) {
  char digits[12];
  const auto [to, error] = std::to_chars(digits, digits + sizeof digits, number, 16);
  static_cast<void>(error);
  out.append(digits, to) += end;
}

}  // namespace

// Appends a value's key. There is no recursion, because arrays may nest as deeply as the text.
void JsonValues::append_key(int32_t value, std::string& out) const {
  struct OpenArray {
    std::vector<int32_t> items;
    size_t next = 0;
  };
  std::vector<OpenArray> open_arrays;
  for (;;) {
    const std::string& content = values_.content(value);
    if (content[0] == 'a') {
      open_arrays.push_back({values_.parts(value)});
      out += 'a';
    } else if (content[0] == 'o') {
      append_number(out += 'o', value, ':');
    } else {
      out += content;
    }
    if (content[0] != 'a' && !open_arrays.empty()) out += kItemEnd;
    while (!open_arrays.empty() && open_arrays.back().next == open_arrays.back().items.size()) {
      open_arrays.pop_back();
      if (!open_arrays.empty()) out += kItemEnd;
    }
    if (open_arrays.empty()) return;
    value = open_arrays.back().items[open_arrays.back().next++];
  }
}

std::string JsonValues::key(int32_t value) const {
  std::string out;
  append_key(value, out);
  return out;
}

// The common prefix of the keys of all members with this name. `kind`: m for keys with the value's number, k for keys
// with the value's key.
std::string JsonValues::name_key(char kind, int32_t name) const {
  return std::string(1, kind).append(values_.content(name)) += kItemEnd;
}

std::string JsonValues::member_key(int32_t name, int32_t value) const {
  std::string out = name_key('m', name);
  append_number(out, value, ':');
  return out;
}

int32_t JsonValues::insert(PersistentTrie& set, int32_t root, int32_t value) const {
  root = set.insert(root, key(value));
  std::vector<int32_t> pending{value};
  while (!pending.empty()) {
    const int32_t current = pending.back();
    pending.pop_back();
    const char kind = values_.content(current)[0];
    if (kind != 'a' && kind != 'o') continue;
    const std::vector<int32_t> parts = values_.parts(current);
    pending.insert(pending.end(), parts.begin(), parts.end());
    for (size_t i = 0; kind == 'o' && i + 1 < parts.size(); i += 2) {
      std::string numbered_key = member_key(parts[i], parts[i + 1]), content_key = name_key('k', parts[i]);
      append_number(numbered_key, current, ':');
      append_key(parts[i + 1], content_key);
      append_number(content_key += kItemEnd, current, ':');
      root = set.insert(set.insert(root, numbered_key), content_key);
    }
  }
  return root;
}

// A prefix of the key of the current string, number or literal; empty between scalars.
std::string JsonValues::scalar_key(int32_t text) const {
  if (texts_[text].kind == Kind::String) return string_key(current_string(text).text);
  if (texts_[text].kind != Kind::Word) return {};
  const std::string word = current_word(text);
  const bool is_literal = word[0] == 't' || word[0] == 'f' || word[0] == 'n';
  return is_literal ? std::string(1, 'l').append(word) : number_stem(word);
}

// The node to which the complete items of an array lead from `node`, at which the array begins. `last`: the index of
// the last item in parts_. Nodes never change, so the results are cached, and each further item takes one step.
int32_t JsonValues::node_after_items(const PersistentTrie& set, int32_t node, int32_t last) {
  std::vector<int32_t> path;
  int32_t part = last, out = node;
  for (; part >= 0; part = parts_[part].previous) {
    if (const int32_t* cached = item_nodes_.find(pair_key(node, part))) {
      out = *cached;
      break;
    }
    path.push_back(part);
  }
  for (size_t i = path.size(); i-- > 0;) {
    out = set.descend(out, key(parts_[path[i]].value) += kItemEnd);
    item_nodes_.set(pair_key(node, path[i]), out);
    bytes_ += 24;
  }
  return out;
}

int32_t JsonValues::find(const PersistentTrie& set, int32_t root, int32_t start, int32_t text, PartKind part_kind) {
  if (part_kind == PartKind::Unknown || part_kind == PartKind::Empty) return kUndecided;
  if (part_kind == PartKind::Whole) return set.descend(root, key(value(start, text)));
  const std::vector<int32_t> frames = open_frames(start, text);
  int32_t node = root;
  for (size_t level = frames.size(); level-- > 0 && node >= 0;) {
    const Frame& frame = frames_[frames[level]];
    node = set.child(node, static_cast<uint8_t>(frame.kind));
    if (node < 0) return node;
    if (frame.kind == 'a') {
      node = node_after_items(set, node, frame.last_part);
      continue;
    }
    const std::vector<int32_t> members = parts(frames[level]);
    if (const auto objects = find_few_objects(set, root, node, members)) {
      const auto inner_frames = std::span(frames).first(level + 1);
      const bool any_fits = std::ranges::any_of(*objects, [&](int32_t object) {
        std::string number;
        append_number(number, object, ':');
        return set.descend(node, number) >= 0 && may_become(inner_frames, text, object);
      });
      return any_fits ? node : PersistentTrie::kNoNode;
    }
    if (members.size() % 2 == 0)  // between members, or in a name
      return texts_[text].kind == Kind::Between ? node
                                                : set.descend(root, std::string(1, 'k').append(scalar_key(text)));
    node = set.descend(root, name_key('k', members.back()));
  }
  return set.descend(node, scalar_key(text));
}

// The numbers of the objects that have the rarest of the members read so far; of the current member, only the name is
// considered. nullopt if there are more than kMaxComparedObjects. `numbers_node`: the node above the numbers of all
// possible objects.
std::optional<std::vector<int32_t>> JsonValues::find_few_objects(const PersistentTrie& set, int32_t root,
                                                                 int32_t numbers_node,
                                                                 const std::vector<int32_t>& members) const {
  int32_t rarest = numbers_node;
  for (size_t i = 0; i < members.size() && rarest >= 0; i += 2) {
    const int32_t member_node =
        set.descend(root, i + 1 < members.size() ? member_key(members[i], members[i + 1]) : name_key('m', members[i]));
    if (member_node < 0 || set.count(member_node) < set.count(rarest)) rarest = member_node;
  }
  std::vector<int32_t> objects;
  if (rarest < 0) return objects;
  if (set.count(rarest) > kMaxComparedObjects) return std::nullopt;
  std::vector<std::pair<int32_t, int32_t>> pending{{rarest, 0}};  // (node, the number since the last colon)
  while (!pending.empty()) {
    const auto [node, number] = pending.back();
    pending.pop_back();
    for (const PersistentTrie::Child& c : set.children(node)) {
      const int32_t digit = c.byte <= '9' ? c.byte - '0' : c.byte - 'a' + 10;
      if (c.byte != ':')
        pending.push_back({c.node, number * 16 + digit});
      else if (rarest == numbers_node || set.is_end(c.node))
        objects.push_back(number);
      else
        pending.push_back({c.node, 0});  // that was the number of a member's value
    }
  }
  return objects;
}

}  // namespace guided
