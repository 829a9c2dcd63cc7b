// Completions in a permutation: members that are written later, with or without one of the earlier ones (completion.hpp).
//
// Problem: an object with n required members, in any order, can begin with n different members. After each of them, the
// text writes the n - 1 others, so the texts of one state have n^2 members together, and those of an output n^3.
//
// How: the text writes the missing members in a fixed order, the shortest first. The tokens of one member depend only
// on the window of what follows (alike.cpp): mostly, the name of the next member. So the tokens of each member are
// stored by this window. Then the total of a text is a sum over its members, from the last one to the first, and its
// completion is copied from a text that begins with the same member and has the same window after it. Only a member
// before a window for which nothing is stored is constructed: where one is left out, usually the member before it.
//
// In: a configuration before a member. Out: its completion; or the configuration that must be completed first; or
// neither, if it must be constructed. Permutations with a condition are always constructed: their next member depends
// on all that were written.
// Cost: a look-up for each missing member.

#include <algorithm>

#include "budget/completion.hpp"

namespace guided {

namespace {
constexpr size_t kMaxMemberSegments = 4096;  // segments of one member
constexpr size_t kLookupsPerUnit = 4;        // look-ups that count as one unit of work
constexpr int64_t kMemberSegmentWork = 4;
}  // namespace

// Whether a position begins members: the start of a permutation, or a position after a separator.
bool CompletionFinder::begins_member(int32_t pos) const {
  const auto effects = grammar_.effects_of(grammar_.positions[pos]);
  return std::ranges::any_of(effects, [](const EffectEdge& edge) { return edge.effect.op == Effect::Put; });
}

// The edges of the missing members of a thread that begins one, in the order in which the text writes them; only the
// first one if the position after a separator is not known yet. Empty if the text writes other members, too, or may write
// none.
std::vector<int32_t> CompletionFinder::missing_members(const Thread& t) {
  const int32_t number = grammar_.positions[t.pos].rule;
  const Rule& rule = grammar_.rules[number];
  if (rule.choices) return {};
  const SeenSet& seen = arena_.seen(t.reg);
  int64_t count = 0;
  for (size_t w = 0; w < seen.bits.size(); ++w) count += __builtin_popcountll(rule.required_bits[w] & ~seen.bits[w]);
  if (count == 0 || seen.count + count < rule.min || (rule.max >= 0 && seen.count + count > rule.max)) return {};
  CallMeter::work(1 + static_cast<int64_t>(rule.required.size() / kLookupsPerUnit));
  tree_.prepare(number);
  std::vector<int32_t> out;
  auto append_from = [&](int32_t pos, size_t wanted) {
    for (int32_t edge : tree_.cheapest_effects(pos)) {
      const Effect& e = grammar_.effects[edge].effect;
      const auto member = static_cast<size_t>(e.a);
      if (out.size() == wanted) return;
      if (e.op != Effect::Put || !rule.required[member] || seen.has(member)) continue;
      if (out.empty() || grammar_.effects[out[0]].effect.a != e.a) out.push_back(edge);
    }
  };
  append_from(t.pos, 1);
  const auto separated = positions_after_separators_.find(number);
  if (separated == positions_after_separators_.end()) return out;
  append_from(separated->second, static_cast<size_t>(count));
  if (out.size() != static_cast<size_t>(count)) out.clear();
  return out;
}

// Does what take_alike() does, for a configuration before a member.
int32_t CompletionFinder::take_alike_members(const Thread& t, int32_t config, std::unique_ptr<Completion>& out) {
  const std::vector<int32_t> members = missing_members(t);
  const int32_t number = grammar_.positions[t.pos].rule;
  const auto separated = positions_after_separators_.find(number);
  if (members.empty() || separated == positions_after_separators_.end()) return -1;
  const int32_t after_frame = with_memory(t.ret, t.mem);
  TextSize size = completion_of(after_frame);
  int32_t window = window_of(after_frame);
  for (size_t i = members.size(); i-- > 0;) {
    const auto stored = member_texts_.find({members[i], t.mem, window, i + 1 == members.size()});
    if (stored != member_texts_.end()) {
      const MemberText& text = stored->second;
      size = size + text.size;
      window = text.window;
      if (i == 0) copy_completion(text.config, size - completion_of(text.config), config, out);
      continue;
    }
    if (i == 0) return -1;  // it must be constructed
    Thread later = t;
    later.pos = separated->second;
    later.reg = arena_.with_members(grammar_.rules[number], t.reg, std::span(members).first(i));
    const int32_t later_config = arena_.intern({later}, false);
    const Completion* later_completion = completions_.get(later_config);
    if (!later_completion) return later_config;
    if (later_completion->total >= kUnreachable) return -1;
    size = *later_completion;  // its first member is unlike others
    window = window_of(later_config);
  }
  return -1;
}

// Stores the tokens of the member with which a constructed completion begins.
void CompletionFinder::store_member(int32_t config) {
  const Thread t = arena_.config(config).threads[0];
  const Completion& completion = completion_of(config);
  if (completion.copied_from >= 0 || completion.total >= kUnreachable || !leaves_memory_unchanged(t)) return;
  const std::vector<int32_t> members = missing_members(t);
  if (members.empty()) return;
  const Rule& rule = grammar_.rule_at(t.pos);
  Thread written = t;
  if (!arena_.apply(rule, grammar_.effects[members[0]].effect, written)) return;
  const bool is_last = arena_.may_end(rule, written.reg);
  bool ends_frame = false;
  int32_t next = config;
  for (size_t segments = 0; !ends_frame; ++segments) {
    const Completion* c = completions_.get(next);
    if (!c || c->next < 0 || !c->alternatives.empty() || c->open_text >= 0 || segments > kMaxMemberSegments) return;
    CallMeter::work(kMemberSegmentWork);
    ends_frame = c->ends_frame;
    next = ends_frame ? c->next : continuation_in_frame(c->next, t.ret);
    if (next < 0) return;
    const Thread& after = arena_.config(next).threads[0];
    if (!ends_frame && after.reg == written.reg && begins_member(after.pos)) break;
  }
  if (ends_frame != is_last) return;
  if (!is_last) {
    const int32_t pos = arena_.config(next).threads[0].pos;
    if (positions_after_separators_.try_emplace(grammar_.positions[t.pos].rule, pos).first->second != pos) return;
  }
  const MemberText text{config, window_of(config), completion - completion_of(next)};
  if (member_texts_.try_emplace({members[0], t.mem, window_of(next), is_last}, text).second) arena_.charge(96);
}

}  // namespace guided
