#include "budget/rest_bound.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace guided {

namespace {
constexpr int64_t kNotYet = -1, kUnderWay = -2;
constexpr int64_t kPositionWork = 4;
constexpr int kDeepest = 1000;             // nested positions
constexpr int64_t kStatesOfWay = 6000;     // states that a search of new_entry.hpp examines, at least
constexpr int64_t kNewEnds = 10;           // bytes with two choices at each: more ends than there may be values
constexpr int64_t kNewEndsOfStrings = 16;  // the same for unbounded strings, whose search has no limit
bool known(int64_t cost) { return cost < kUnreachable; }
int64_t bytes_of(int64_t cost) { return cost / kByteCost + 1; }
}  // namespace

// ---- entries
// The positions of a frame from the start of an entry to its end.
const RestBound::Entry& RestBound::entry_at(int32_t begin) {
  auto [it, inserted] = entries_.try_emplace(begin);
  Entry& out = it->second;
  if (!inserted) return out;
  std::unordered_set<int32_t> visited{begin};
  out.inside.push_back(begin);
  auto add = [&](int32_t to) {
    if (visited.insert(to).second) out.inside.push_back(to);
  };
  for (size_t i = 0; i < out.inside.size(); ++i) {
    CallMeter::work(kPositionWork);
    const Position& p = grammar_.positions[out.inside[i]];
    grammar_.each_next(p, add);
    for (const CallEdge& call : grammar_.calls_of(p)) add(call.after);
    for (const EffectEdge& e : grammar_.effects_of(p)) {
      if (e.effect.op != Effect::Keep)
        add(e.to);
      else
        out.behind.push_back(e.to);
    }
  }
  return out;
}

// Whether two different characters or digits lead from a position back to it, possibly by another iteration, so that
// texts of equal length have many values. Returns the bytes of each, or 0 if there are none.
int RestBound::loop_bytes(int32_t position) const {
  auto leads_back = [&](int32_t from) {
    const Position& p = grammar_.positions[from];
    for (const EffectEdge& edge : grammar_.effects_of(p))
      if (edge.to == position) return true;
    return from == position;
  };
  int loops = 0;
  const ByteSet& bytes = grammar_.positions[position].bytes;
  for (int b = 0x21; b < 256 && loops < 2; ++b)
    loops += b != StringProgress::kQuote && bytes.has(static_cast<uint8_t>(b)) &&
             leads_back(grammar_.step(position, static_cast<uint8_t>(b)));
  if (loops > 1) return 1;
  if (!bytes.has(StringProgress::kEscape)) return 0;
  const int32_t escaped = grammar_.step(position, StringProgress::kEscape);
  for (size_t i = 0; i < StringProgress::kShort.size(); ++i) {  // each represents a different character
    const auto c = static_cast<uint8_t>(StringProgress::kShort[i]);
    loops += !StringProgress::is_plain(static_cast<uint8_t>(StringProgress::kMeaning[i])) &&
             grammar_.positions[escaped].bytes.has(c) && leads_back(grammar_.step(escaped, c));
  }
  return loops > 1 ? 2 : 0;
}

// The positions inside of entries that are, or are not, one of few strings, with those of the rules that they call.
// False if bytes and counts are not everything: entries in entries, control tokens.
bool RestBound::find_inside(bool few, std::vector<int32_t>& inside) {
  std::vector<int64_t> frames(grammar_.rules.size(), 0);  // by rule: frames around its positions, including its own
  for (const EffectEdge& e : grammar_.effects)
    if (e.effect.op == Effect::Begin && arena_.finite_strings().begins_few(e.to) == few)
      for (int32_t at : entry_at(e.to).inside) inside.push_back(at);
  sort_unique(inside);
  for (size_t i = 0; i < inside.size(); ++i) {
    const Position& p = grammar_.positions[inside[i]];
    if (p.token_lo < p.token_hi) return false;
    for (const EffectEdge& edge : grammar_.effects_of(p))
      if (edge.effect.op != Effect::Keep && edge.effect.op != Effect::Inc) return false;
    for (const CallEdge& call : grammar_.calls_of(p)) {
      const Rule& rule = grammar_.rules[call.rule];
      int64_t& around = frames[call.rule];
      if (around > 0) continue;
      around = std::max<int64_t>(1, frames[p.rule]) + 1;
      frames_of_entry_ = std::max(frames_of_entry_, around);
      if (rule.kind == RuleKind::Set) return false;
      if (rule.max >= 0) bounded_.push_back(call.rule);
      for (int32_t at = rule.base; at < rule.base + rule.size; ++at) inside.push_back(at);
    }
  }
  return true;
}

// Calls visit(position, bytes) for what comes next in an entry, in the same frame or in a called one.
template <class Visit>
void RestBound::each_next_inside(int32_t position, Visit&& visit) const {
  const Position& p = grammar_.positions[position];
  grammar_.each_next(p, [&](int32_t to) { visit(to, 1); });
  for (const EffectEdge& edge : grammar_.effects_of(p))
    if (edge.effect.op == Effect::Inc) visit(edge.to, 0);
  for (const CallEdge& call : grammar_.calls_of(p)) {
    visit(grammar_.rules[call.rule].start, 0);
    visit(call.after, bytes_of(tree_.rule_cost(call.rule)));
  }
}

// Computes the bytes of an entry that must end with an unseen value; false if they are unknown. Each position inside
// must have a loop nearby, which gives an unseen value after a few rounds; or it has no loops, so there is a longest
// text.
bool RestBound::find_entries() {
  most_written_ = INT32_MAX;
  std::vector<int32_t> inside, few;
  if (!find_inside(false, inside) || !find_inside(true, few)) return false;
  std::unordered_map<int32_t, int64_t> near, longest;
  int64_t end = 0, farthest = 0;
  const bool unbounded = arena_.unbounded().all_entries();
  const int64_t new_ends = unbounded ? kNewEndsOfStrings : kNewEnds;
  for (int32_t at : inside) {
    const Rule& rule = grammar_.rule_at(at);
    end = std::max(end, times(bytes_of(tree_.cost(at)), rule.kind == RuleKind::Counter ? rule.min + 1 : 1));
    if (const int bytes = loop_bytes(at); bytes > 0) near[at] = (bytes - 1) * new_ends;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = inside.size(); i-- > 0;) {
      CallMeter::work(kPositionWork);
      int64_t best = near.contains(inside[i]) ? near[inside[i]] : kUnreachable;
      const int64_t before = best;
      each_next_inside(inside[i], [&](int32_t to, int64_t bytes) {
        if (auto it = near.find(to); it != near.end()) best = std::min(best, it->second + bytes);
      });
      if (best == before) continue;
      near[inside[i]] = best;
      changed = true;
    }
  }
  for (int32_t at : inside) {
    auto it = near.find(at);
    farthest = std::max(farthest, it != near.end() ? it->second + end + new_ends : longest_from(at, longest, 0));
  }
  // For few strings, an unseen one is looked up; for others, it is searched.
  if (!inside.empty() && known(farthest))
    most_written_ = static_cast<int32_t>(
        std::min(unbounded ? INT32_MAX : kStatesOfWay / (farthest + 1), int64_t{1} << (new_ends - 1)));
  for (int32_t at : few) farthest = std::max(farthest, longest_from(at, longest, 0));
  if (!known(farthest)) return false;
  entry_ = times(farthest, frames_of_entry_);
  room_ = farthest + vocabulary_.longest;
  return has_room();
}

// A bounded count must leave room for an unseen value, wherever a token ends.
bool RestBound::has_room() const {
  for (int32_t r : bounded_) {
    const Rule& rule = grammar_.rules[r];
    if (rule.max < room_) return false;
    for (const Position& p : grammar_.positions_of(rule))
      if (p.call_lo < p.call_hi) return false;
  }
  return true;
}

// The longest text of an entry from a position on, in its frame; kUnreachable if there is none.
int64_t RestBound::longest_from(int32_t position, std::unordered_map<int32_t, int64_t>& longest, int depth) const {
  auto [it, inserted] = longest.try_emplace(position, kUnreachable);
  if (!inserted || depth > kDeepest) return it->second;  // in progress: a loop
  int64_t out = 0;
  const Position& p = grammar_.positions[position];
  for (const EffectEdge& edge : grammar_.effects_of(p))
    if (edge.effect.op == Effect::Inc) return kUnreachable;
  grammar_.each_next(p, [&](int32_t to) { out = std::max(out, plus(1, longest_from(to, longest, depth + 1))); });
  for (const CallEdge& call : grammar_.calls_of(p)) {
    const int64_t whole = longest_from(grammar_.rules[call.rule].start, longest, depth + 1);
    out = std::max(out, plus(whole, longest_from(call.after, longest, depth + 1)));
  }
  return longest[position] = out;
}

// ---- frames
RestBound::Steps RestBound::steps(int32_t r) const {
  const Rule& rule = grammar_.rules[r];
  Steps out;
  for (const Position& p : grammar_.positions_of(rule)) {
    for (int32_t i = p.effect_lo; i < p.effect_hi; ++i) {
      const Effect::Op op = grammar_.effects[i].effect.op;
      if (op == Effect::Put) out.puts.push_back(i);
      if (op == Effect::Inc) out.incs.push_back(i);
      if (op == Effect::More) out.mores.push_back(i);
    }
  }
  return out;
}

// Whether the tree's text needs the register only where an iteration or member begins, with all members to choose from,
// and at the end of a member, where the frame ends or another member follows.
bool RestBound::has_known_shape(int32_t r, const Steps& steps) const {
  const Rule& rule = grammar_.rules[r];
  if (rule.kind == RuleKind::Plain) return steps.puts.empty() && steps.incs.empty() && steps.mores.empty();
  auto members = [&](const Position& p) {
    std::vector<int64_t> out;
    for (const EffectEdge& edge : grammar_.effects_of(p))
      if (edge.effect.op == Effect::Put) out.push_back(edge.effect.a);
    std::sort(out.begin(), out.end());
    return out;
  };
  const auto all = members(grammar_.positions[rule.start]);
  for (const Position& p : grammar_.positions_of(rule)) {
    bool begins = false, more = false;
    for (const EffectEdge& edge : grammar_.effects_of(p)) {
      const Effect& e = edge.effect;
      begins |= e.op == Effect::Put || e.op == Effect::Inc;
      more |= e.op == Effect::More;
    }
    const bool reads = p.bytes.count() > 0 || p.call_lo < p.call_hi || p.token_lo < p.token_hi;
    if (rule.kind == RuleKind::Counter && begins && !p.accept && reads) return false;
    if (rule.kind == RuleKind::Set && (more != p.accept || (begins && (p.accept || members(p) != all)))) return false;
  }
  return true;
}

// The most iterations of the tree's text after the minimum. If any number of iterations may follow, it ends at once.
// Otherwise it follows the tree until a guard forbids this. Then the remaining iterations are fewer than the text would
// have had, and each has at least one byte.
int64_t RestBound::more_iterations(int32_t r) const {
  const Rule& rule = grammar_.rules[r];
  bool any = true;
  int64_t longest = 0;
  for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos) {
    const Position& p = grammar_.positions[pos];
    bool begins = false;
    for (const EffectEdge& edge : grammar_.effects_of(p)) {
      const Effect& e = edge.effect;
      begins |= e.op == Effect::Inc;
      any &= e.op != Effect::Inc || (e.a == 0 && e.b < 0);
    }
    any &= begins == (p.accept || pos == rule.start);
    if (known(tree_.cost(pos))) longest = std::max(longest, bytes_of(tree_.cost(pos)));
  }
  return any ? 1 : 2 * longest + 2;
}

// The cost of the text along the tree, from a position to the end of the frame or to its next iteration or member.
int64_t RestBound::rest(int32_t pos, int depth) {
  if (rest_[pos] == kNotYet && depth > kDeepest) return kUnreachable;
  const size_t first = path_.size();
  int32_t at = pos;
  for (; rest_[at] == kNotYet && reads(at); at = tree_.by_byte(at)) {
    path_.push_back(at);
    rest_[at] = kUnderWay;
  }
  if (rest_[at] == kNotYet) {
    rest_[at] = kUnderWay;
    const int64_t found = along_tree(at, depth + 1);
    rest_[at] = found;
  }
  int64_t found = rest_[at] == kUnderWay ? kUnreachable : rest_[at];
  while (path_.size() > first) {
    const int32_t before = path_.back();
    path_.pop_back();
    rest_[before] = found = spells_ ? spelled(before) : plus(1, found);
  }
  return found;
}

// Whether the tree continues with a byte, whatever the register contains.
bool RestBound::reads(int32_t pos) const {
  if (tree_.by_byte(pos) < 0) return false;
  const Position& p = grammar_.positions[pos];
  for (const EffectEdge& edge : grammar_.effects_of(p))
    if (!edge.effect.changes_scopes()) return false;
  return true;
}

// As ShortestText::choose() if no effect on the register applies.
int64_t RestBound::along_tree(int32_t pos, int depth) {
  const Position& p = grammar_.positions[pos];
  if (p.accept || !known(tree_.cost(pos))) return 0;  // no thread is at a position without an end
  for (const EffectEdge& edge : grammar_.effects_of(p))
    if (!edge.effect.changes_scopes()) return 0;
  const int64_t cost = tree_.cost(pos);
  for (const EffectEdge& e : grammar_.effects_of(p)) {
    if (tree_.cost(e.to) != cost) continue;
    if (e.effect.op != Effect::Begin) return rest(e.to, depth);
    // An entry may have to end differently from the tree's text, and continue from there.
    int64_t most = 0;
    for (int32_t to : entry_at(e.to).behind) most = std::max(most, rest(to, depth));
    return plus(most, plus(entry_, bytes_of(cost)));
  }
  for (int32_t i = p.call_lo; i < p.call_hi; ++i)
    if (plus(tree_.call_cost(i), tree_.cost(grammar_.calls[i].after)) == cost)
      return plus(whole(grammar_.calls[i].rule, depth), rest(grammar_.calls[i].after, depth));
  for (const TokenEdge& edge : grammar_.tokens_of(p))
    if (plus(kTokenCost, tree_.cost(edge.to)) == cost) return plus(1, rest(edge.to, depth));
  return kUnreachable;
}

// The fewest tokens that spell the tree's bytes from a position on. The rests after these bytes are known.
int64_t RestBound::spelled(int32_t pos) const {
  const TokenTrie& trie = vocabulary_.trie;
  int64_t least = kUnreachable;
  int32_t node = 0;
  for (int32_t at = pos; reads(at);) {
    const int32_t to = tree_.by_byte(at);
    const ByteSet& bytes = grammar_.positions[at].bytes;
    int b = -1;
    bytes.each([&](uint8_t byte) {
      if (b < 0 && grammar_.step(at, byte) == to) b = byte;
    });
    node = trie.child(node, static_cast<uint8_t>(b));
    if (node < 0) break;
    at = to;
    const TokenTrie::Node& n = trie.nodes()[node];
    if (n.payload_hi > n.payload_lo && rest_[at] >= 0) least = std::min(least, plus(1, rest_[at]));
  }
  return least;
}

// The largest rest after some effects.
int64_t RestBound::most(const std::vector<int32_t>& effects, int depth) {
  int64_t out = 0;
  for (int32_t i : effects) out = std::max(out, rest(grammar_.effects[i].to, depth));
  return out;
}

// The cost of a rule's shortest text.
int64_t RestBound::whole(int32_t r, int depth) {
  if (whole_[r] == kUnderWay) return kUnreachable;
  if (whole_[r] != kNotYet) return whole_[r];
  whole_[r] = kUnderWay;
  const Rule& rule = grammar_.rules[r];
  steps_[r] = steps(r);
  int64_t out = kUnreachable;
  if (rule.size > 0 && has_known_shape(r, steps_[r])) {
    if (rule.kind == RuleKind::Plain) out = rest(rule.start, depth);
    if (rule.kind == RuleKind::Counter) {
      more_[r] = more_iterations(r);
      out = times(most(steps_[r].incs, depth), more_[r] == 1 ? std::max<int64_t>(1, rule.min) : rule.min + more_[r]);
    }
    if (rule.kind == RuleKind::Set) out = whole_set(r, depth);
  }
  if (rule.later >= 0) out = grammar_.later[rule.later].shortest_bound;
  return whole_[r] = out;
}

// The required members, and the cheapest others up to the minimum; with a condition, each member that may be chosen for
// it.
int64_t RestBound::whole_set(int32_t r, int depth) {
  const Rule& rule = grammar_.rules[r];
  const int64_t between = most(steps_[r].mores, depth);
  int64_t sum = 0, written = 0, dearest = 0;
  std::vector<int32_t> others;
  auto member = [&](int32_t i) { return static_cast<size_t>(grammar_.effects[i].effect.a); };
  std::vector<int64_t> needed(rule.required.size(), 0);
  for (int32_t i : steps_[r].puts) {
    const int32_t to = grammar_.effects[i].to;
    if (rule.choices ? tree_.cost(to) <= tree_.rule_cost(r) : rule.required[member(i)])
      needed[member(i)] = std::max(needed[member(i)], plus(rest(to, depth), between));
    else if (!rule.choices)
      others.push_back(i);
  }
  for (size_t m = 0; m < needed.size(); ++m) {
    sum = plus(sum, needed[m]);
    dearest = std::max(dearest, needed[m]);
    written += rule.required[m] != 0;
  }
  if (rule.choices) return plus(sum, times(dearest, rule.min));
  std::stable_sort(others.begin(), others.end(), [&](int32_t a, int32_t b) {
    return tree_.cost(grammar_.effects[a].to) < tree_.cost(grammar_.effects[b].to);
  });
  for (int32_t i : others) {
    if (written >= rule.min) break;
    dearest = std::max(dearest, plus(rest(grammar_.effects[i].to, depth), between));
    if (rule.repeatable[member(i)]) break;
    ++written;
  }
  return plus(sum, times(dearest, rule.min));
}

// The most that the register of a frame may still require, whatever it contains; for a counter, per iteration.
int64_t RestBound::owed(int32_t r) {
  const Rule& rule = grammar_.rules[r];
  const Steps& s = steps_[r];
  if (rule.kind == RuleKind::Plain) return 0;
  if (!known(whole_[r])) return kUnreachable;
  if (rule.kind == RuleKind::Counter) return most(s.incs, 0);
  const int64_t between = most(s.mores, 0);
  std::vector<int64_t> cost(rule.required.size(), 0);
  int64_t sum = 0, dearest = 0;
  for (int32_t i : s.puts) {
    int64_t& of_member = cost[static_cast<size_t>(grammar_.effects[i].effect.a)];
    of_member = std::max(of_member, plus(rest(grammar_.effects[i].to, 0), between));
    dearest = std::max(dearest, of_member);
  }
  for (size_t m = 0; m < cost.size(); ++m)
    if (rule.choices || rule.required[m]) sum = plus(sum, cost[m]);
  return plus(sum, times(dearest, rule.min));
}

void RestBound::prepare() {
  prepared_ = true;
  CallMeter::work(kPositionWork * std::ssize(grammar_.positions));
  for (size_t r = 0; r < grammar_.rules.size(); ++r) tree_.prepare(static_cast<int32_t>(r));
  if (!vocabulary_.byte_complete || !find_entries()) return;
  const size_t rules = grammar_.rules.size();
  rest_.assign(grammar_.positions.size(), kNotYet);
  whole_.assign(rules, kNotYet);
  owed_.assign(rules, 0);
  more_.assign(rules, 0);
  steps_.resize(rules);
  for (size_t pos = rest_.size(); pos-- > 0;) rest(static_cast<int32_t>(pos), 0);
  for (const EffectEdge& e : grammar_.effects)
    if (e.effect.op == Effect::Begin) entry_at(e.to);
  // A current entry may have to end differently, too.
  for (const auto& [begin, entry] : entries_) {
    int64_t longest = 0, most = 0;
    for (int32_t at : entry.inside) longest = std::max(longest, known(tree_.cost(at)) ? bytes_of(tree_.cost(at)) : 0);
    for (int32_t to : entry.behind) most = std::max(most, rest_[to]);
    for (int32_t at : entry.inside) rest_[at] = std::max(rest_[at], plus(most, plus(entry_, longest)));
  }
  for (size_t r = 0; r < rules; ++r) whole(static_cast<int32_t>(r), 0);
  for (size_t r = 0; r < rules; ++r) owed_[r] = owed(static_cast<int32_t>(r));
  bound_rules();
  known_ = true;
}

// ---- states
int64_t RestBound::of_frame(const Thread& t) const {
  const int32_t r = grammar_.positions[t.pos].rule;
  const Rule& rule = grammar_.rules[r];
  if (rule.kind != RuleKind::Counter) return plus(rest_[t.pos], owed_[r]);
  return plus(rest_[t.pos], times(owed_[r], std::max<int64_t>(0, rule.min - t.reg) + more_[r]));
}

RestBound::Rest RestBound::of_caller(int32_t config) {
  std::vector<int32_t> open{config};
  while (!open.empty()) {
    const int32_t at = open.back();
    if (callers_.contains(at)) {
      open.pop_back();
      continue;
    }
    const size_t before = open.size();
    for (const Thread& t : arena_.config(at))
      if (t.pos != kExit && !callers_.contains(t.ret)) open.push_back(t.ret);
    if (open.size() > before) continue;
    Rest out;
    for (const Thread& t : arena_.config(at)) {
      if (t.pos == kExit) continue;
      const Rest outside = callers_.at(t.ret);
      out.now = std::max(out.now, plus(of_frame(t), outside.now));
      const int64_t here = plus(anywhere_[grammar_.positions[t.pos].rule], outside.now);
      out.after = std::max({out.after, here, outside.after});
    }
    callers_.emplace(at, out);
    arena_.charge(48);
    open.pop_back();
  }
  return callers_.at(config);
}

int64_t RestBound::after_token(int32_t state) {
  if (!prepared_) prepare();
  if (!known_) return kUnreachable;
  int64_t most = 0;
  for (const Thread& t : arena_.config(state)) {
    if (t.pos == kExit) continue;
    if (arena_.uniqueness().most_written(t.mem) > most_written_) most = kUnreachable;
    const int32_t r = grammar_.positions[t.pos].rule;
    if (std::ranges::find(bounded_, r) != bounded_.end() && t.reg + room_ > grammar_.rules[r].max) most = kUnreachable;
    const Rest outside = of_caller(t.ret);
    most = std::max({most, plus(anywhere_[grammar_.positions[t.pos].rule], outside.now), outside.after});
  }
  const int64_t known_before = least_.get(state);
  if (known_before < 0 || most < known_before) arena_.charge(least_.set(state, most));
  return most;
}

}  // namespace guided
