#include "python/row_reader.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace guided {

namespace {

constexpr size_t kMaxConditions = 100000;  // the limit on conditions that wait for their parts

[[noreturn]] void reject_row() { throw nb::value_error("the stored table has a row that must be read by Python"); }

// Pairs of integers, as Python passes ranges.
RangeList ranges_of(std::span<const uint32_t> list) {
  RangeList out;
  out.reserve(list.size() / 2);
  for (size_t i = 0; i < list.size(); i += 2) out.emplace_back(list[i], list[i + 1]);
  return out;
}

int32_t to_int32(uint32_t value) {
  if (value > INT32_MAX) reject_row();
  return static_cast<int32_t>(value);
}

}  // namespace

const ReadEncoding* RowEncodings::read(const StoredTable& table, uint32_t row) {
  for (const auto& [encoding_row, encoding] : encodings_)
    if (encoding_row == row) return encoding.get();
  if (encodings_.size() >= kMaxEncodings) reject_row();
  FieldReader in(table.fields(row));
  const bool may_be_utf8 = utf8_of(table.text(in.next())) == "utf-8";
  FormList forms;
  for (const uint32_t form : in.list()) {
    FieldReader form_fields(table.fields(form));
    auto& [ranges, digits] = forms.emplace_back();
    ranges = ranges_of(form_fields.list(2));
    for (uint32_t count = form_fields.next(); count > 0; --count) {
      auto& spans = digits.emplace_back();
      const std::span<const uint32_t> values = form_fields.list(4);
      for (size_t i = 0; i < values.size(); i += 4)
        spans.emplace_back(to_int32(values[i]), to_int32(values[i + 1]), values[i + 2], values[i + 3]);
    }
  }
  auto encoding = std::make_unique<ReadEncoding>(forms);
  if (may_be_utf8 && encoding->digest == utf8_.digest) encoding = nullptr;
  encodings_.emplace_back(row, std::move(encoding));
  return encodings_.back().second.get();
}

int32_t RowReader::read(uint32_t root) {
  stack_.assign(1, root);
  while (!stack_.empty()) {
    const uint32_t row = stack_.back();
    if (numbers_.of(row) < 0) {
      const size_t height = stack_.size();
      push_children(row);
      if (stack_.size() > height) continue;
      numbers_.set(row, add(row));
    }
    stack_.pop_back();
  }
  return numbers_.of(root);
}

// Pushes the children whose nodes do not exist yet, in reverse order.
void RowReader::push_children(uint32_t row) {
  FieldReader in(table_.fields(row));
  auto push_all = [&](std::span<const uint32_t> rows, bool are_members) {
    for (size_t i = rows.size(); i-- > 0;) push(are_members ? *table_.fields(rows[i]) : rows[i]);
  };
  switch (table_.kind(row)) {
    case RowKind::Seq:
    case RowKind::Alt:
    case RowKind::And:
      return push_all(in.list(), false);
    case RowKind::Repeat:
    case RowKind::Not:
    case RowKind::Length:
    case RowKind::Encoded:
    case RowKind::MaxTokens:
    case RowKind::Distinct:
    case RowKind::Entry:
      return push(in.next());
    case RowKind::Dispatch: {
      const uint32_t automaton = in.next();
      in.list();
      push_all(in.list(), false);
      return push(automaton);
    }
    case RowKind::Permutation: {
      const std::span<const uint32_t> members = in.list();
      push(in.next());
      return push_all(members, true);
    }
    default:
      return;
  }
}

// Adds the node of a row to the builder, and returns its number. The nodes of its children must exist.
int32_t RowReader::add(uint32_t row) {
  FieldReader in(table_.fields(row));
  const RowKind kind = table_.kind(row);
  auto child = [&] { return numbers_.of(in.next()); };
  switch (kind) {
    case RowKind::Chars:
      return builder_.chars(ranges_of(in.list(2)));
    case RowKind::Text:
      return builder_.text(table_.text(in.next()));
    case RowKind::Seq:
    case RowKind::Alt:
    case RowKind::And:
      return builder_.many(kind_of_many(kind), numbers(in.list()));
    case RowKind::Repeat:
    case RowKind::Length: {
      const int32_t item = child();
      const int64_t min = in.next(), max = in.limit();
      return kind == RowKind::Repeat ? builder_.repeat(item, min, max) : builder_.length(item, min, max);
    }
    case RowKind::Not:
      return builder_.negation(child());
    case RowKind::Automaton:
      return add_automaton(in);
    case RowKind::Dispatch:
      return add_dispatch(in);
    case RowKind::Encoded:
      return add_encoded(in);
    case RowKind::Ref: {
      const int32_t rule = table_.rule_of_text[in.next()];
      if (rule < 0 || !tokens_) reject_row();
      return builder_.ref(rule);
    }
    case RowKind::Special:
      return add_token(row);
    case RowKind::MaxTokens: {
      const int32_t item = child();
      return builder_.max_tokens(item, in.next());
    }
    case RowKind::Permutation:
      return add_permutation(in);
    case RowKind::Distinct:
      return add_distinct(in);
    case RowKind::Entry:
      return builder_.entry(child());
    case RowKind::Substrings:
    case RowKind::OtherTokens:
      return add_by_callback(row);
    default:
      reject_row();
  }
}

// Exchanges the numbers of the start state and state 0, because automata of the core start in state 0.
int32_t RowReader::add_automaton(FieldReader in) {
  struct State {
    bool accepts;
    std::span<const uint32_t> edges;
  };
  std::vector<State> states;
  size_t edge_count = 0;
  for (uint32_t count = in.next(); count > 0; --count) {
    const bool accepts = in.next();
    states.push_back({accepts, in.list(3)});
    edge_count += states.back().edges.size() / 3;
  }
  const uint32_t start = in.next();
  if (start >= states.size()) reject_row();
  std::swap(states[0], states[start]);
  std::vector<bool> accept;
  std::vector<std::tuple<int32_t, int64_t, int64_t, int32_t>> edges;
  edges.reserve(edge_count);
  for (size_t from = 0; from < states.size(); ++from) {
    accept.push_back(states[from].accepts);
    const std::span<const uint32_t> edge_list = states[from].edges;
    for (size_t i = 0; i < edge_list.size(); i += 3) {
      const uint32_t to = edge_list[i + 2];
      const uint32_t target = to == start ? 0 : to == 0 ? start : to;
      edges.emplace_back(static_cast<int32_t>(from), edge_list[i], edge_list[i + 1], to_int32(target));
    }
  }
  return builder_.automaton(accept, edges);
}

int32_t RowReader::add_dispatch(FieldReader in) {
  const uint32_t automaton = in.next();
  FieldReader automaton_fields(table_.fields(automaton));
  for (uint32_t count = automaton_fields.next(); count > 0; --count) {
    automaton_fields.next();
    automaton_fields.list(3);
  }
  const uint32_t start = automaton_fields.next();
  std::vector<int32_t> exits;
  for (const uint32_t state : in.list()) exits.push_back(to_int32(state == start ? 0 : state == 0 ? start : state));
  return builder_.dispatch(numbers_.of(automaton), exits, numbers(in.list()));
}

int32_t RowReader::add_encoded(FieldReader in) {
  const int32_t item = numbers_.of(in.next());
  const ReadEncoding* encoding = encodings_.read(table_, in.next());
  if (!encoding) return builder_.encoded(item, 0);
  const auto it = std::ranges::find(encoding_numbers_, encoding, &std::pair<const ReadEncoding*, int32_t>::first);
  if (it != encoding_numbers_.end()) return builder_.encoded(item, it->second);
  encoding_numbers_.emplace_back(encoding, builder_.encoding(*encoding));
  return builder_.encoded(item, encoding_numbers_.back().second);
}

int32_t RowReader::add_token(uint32_t row) {
  if (!tokens_) reject_row();
  const uint32_t* fields = table_.fields(row);
  const int32_t id = tokens_->find(table_, fields[0] != 0, fields[1]);
  return id < 0 ? add_by_callback(row) : builder_.special(id, id);
}

int32_t RowReader::add_permutation(FieldReader in) {
  std::vector<int32_t> items;
  std::vector<bool> required, repeatable;
  for (const uint32_t member : in.list()) {
    const uint32_t* fields = table_.fields(member);
    items.push_back(numbers_.of(fields[0]));
    required.push_back(fields[1] != 0);
    repeatable.push_back(fields[2] != 0);
  }
  const int32_t separator = numbers_.of(in.next());
  const int64_t min = in.next(), max = in.limit();
  std::vector<int32_t> slots;
  for (const uint32_t slot : in.list()) slots.push_back(to_int32(slot));
  const bool ordered = in.next();
  const uint32_t condition_row = in.next();
  if (slots.empty() && !ordered && condition_row == kNoNumber)
    return builder_.permutation(items, required, repeatable, separator, min, max);
  if (slots.empty())
    for (size_t member = 0; member < items.size(); ++member) slots.push_back(static_cast<int32_t>(member));
  return builder_.conditional(items, required, repeatable, separator, min, max, slots, ordered,
                              flatten_condition(condition_row));
}

int32_t RowReader::add_distinct(FieldReader in) {
  const int32_t item = numbers_.of(in.next());
  std::vector<std::string> names;
  for (const uint32_t name : in.list()) names.push_back(utf8_of(table_.text(name)));
  return builder_.distinct(item, names);
}

int32_t RowReader::add_by_callback(uint32_t row) {
  if (!add_in_python_) reject_row();
  const auto number = nb::cast<int32_t>((*add_in_python_)(table_.position(row)));
  builder_.node(number);  // throws if it does not exist
  return number;
}

// Lists a condition and all its parts, in the order of guided/automaton/conditions.py.
std::vector<std::pair<int32_t, std::vector<int32_t>>> RowReader::flatten_condition(uint32_t root) const {
  std::vector<std::pair<int32_t, std::vector<int32_t>>> out;
  if (root == kNoNumber) return out;
  std::map<uint32_t, int32_t> positions;
  std::vector<uint32_t> stack{root};
  while (!stack.empty()) {
    const uint32_t row = stack.back();
    const std::span<const uint32_t> items = FieldReader(table_.fields(row)).list();
    const bool is_leaf = table_.kind(row) == RowKind::Written, is_listed = positions.contains(row);
    const size_t height = stack.size();
    if (!is_leaf && !is_listed)
      for (const uint32_t part : items)
        if (!positions.contains(part)) stack.push_back(part);
    if (stack.size() > height) {
      if (height > kMaxConditions) reject_row();
      continue;
    }
    stack.pop_back();
    if (is_listed) continue;
    std::vector<int32_t> numbers;
    for (const uint32_t item : items) numbers.push_back(is_leaf ? to_int32(item) : positions.at(item));
    positions.emplace(row, static_cast<int32_t>(out.size()));
    out.emplace_back(static_cast<int32_t>(table_.kind(row)) - static_cast<int32_t>(RowKind::Written),
                     std::move(numbers));
  }
  return out;
}

}  // namespace guided
