// Sets of JSON values, as tries of the values' keys.
//
// In: values, and the part of a value that has been read. Out: keys, and the trie node to which that part leads: all
// values that it may still become are below this node.
//
// The key of a scalar is its content: a letter, then the characters of a string, or the sign of a number, its digits
// without zeros at either end, and its exponent (json_number.hpp). So 1, 1.0 and 10e-1 have one key. All values are
// numbered (json_store.hpp). The key of an array is a letter and the store's numbers of its items in order. Members of
// an object may come in any order, so a single key cannot be followed. Therefore an object adds its own store number
// and, for each member, a key that ends with this number. An unfinished object may become any object that has all of
// its members. The objects with its rarest member are compared with it. Cost: the length of a key; for objects, at most
// kFewObjects comparisons.
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

std::string name_key(int32_t name) {
  std::string out(1, 'm');
  append_number(out, name, ':');
  return out;
}

std::string member_key(int32_t name, int32_t value) {
  std::string out = name_key(name);
  append_number(out, value, ':');
  return out;
}
}  // namespace

// The content of a scalar. An array has the store's numbers of its items, in hexadecimal digits; an object has its own.
std::string JsonValues::key(int32_t value) const {
  const std::string& content = values_.content(value);
  std::string out(1, content[0]);
  if (content[0] == 'o')
    append_number(out, value, ':');
  else if (content[0] == 'a')
    for (int32_t part : values_.parts(value)) append_number(out, part, ',');
  else
    return content;
  return out;
}

int32_t JsonValues::with(PersistentTrie& set, int32_t root, int32_t value) const {
  root = set.with(root, key(value));
  if (values_.content(value)[0] != 'o') return root;
  const std::vector<int32_t> parts = values_.parts(value);
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    std::string member = member_key(parts[i], parts[i + 1]);
    append_number(member, value, ':');
    root = set.with(root, member);
  }
  return root;
}

int32_t JsonValues::find(const PersistentTrie& set, int32_t root, int32_t start, int32_t text, Part part) {
  switch (part) {
    case Part::String:
      return set.at(root, string_key(string(text).text));
    case Part::Bare: {
      const std::string word = bare(text);
      const bool literal = word[0] == 't' || word[0] == 'f' || word[0] == 'n';
      return set.at(root, literal ? std::string(1, 'l').append(word) : number_stem(word));
    }
    case Part::Whole:
      return set.at(root, key(value(start, text)));
    case Part::Open: {
      const auto [kind, parts] = outermost(start, text);
      if (kind == 'o')
        return object_may_be_there(set, root, start, text, parts) ? kUndecided : PersistentTrie::kNowhere;
      std::string written(1, 'a');
      for (int32_t part_of : parts) append_number(written, part_of, ',');
      return set.at(root, written);
    }
    default:
      return kUndecided;
  }
}

// Whether some object of the set has the members read so far, and the name of the current one. Also true if more than
// kFewObjects objects have them.
bool JsonValues::object_may_be_there(const PersistentTrie& set, int32_t root, int32_t start, int32_t text,
                                     const std::vector<int32_t>& members) const {
  int32_t least = set.child(root, 'o');
  for (size_t i = 0; i + 1 < members.size() && least >= 0; i += 2) {
    const std::string member = member_key(members[i], members[i + 1]);
    const int32_t with_it = set.at(root, member);
    if (with_it >= 0 && set.count(with_it) > set.count(least)) continue;
    least = with_it;
  }
  if (least >= 0 && members.size() % 2 == 1) {
    const int32_t with_name = set.at(root, name_key(members.back()));
    if (with_name < 0 || set.count(with_name) < set.count(least)) least = with_name;
  }
  if (least < 0) return false;
  if (set.count(least) > kFewObjects) return true;
  std::vector<std::pair<int32_t, int32_t>> open{{least, 0}};  // (node, the number spelled since the last colon)
  while (!open.empty()) {
    const auto [node, number] = open.back();
    open.pop_back();
    if (set.ends(node) && fits(start, text, number)) return true;
    for (const PersistentTrie::Child& c : set.children(node)) {
      const int32_t digit = c.byte == ':' ? 0 : c.byte <= '9' ? c.byte - '0' : c.byte - 'a' + 10;
      open.push_back({c.node, c.byte != ':' ? number * 16 + digit : set.ends(c.node) ? number : 0});
    }
  }
  return false;
}

}  // namespace guided
