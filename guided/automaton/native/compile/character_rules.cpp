#include "compile/character_rules.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace guided {

namespace {

constexpr int32_t kMaxStates = 64;          // the limit on the states of an inlined rule
constexpr int32_t kManyCharacters = 8;      // a character rule has at least this many texts of one character
constexpr int64_t kMaxAddedStates = 20000;  // the limit on the states that are added to a grammar
constexpr int kMaxNesting = 16;             // the limit on nested calls in an inlined rule

// An automaton that is being edited. Its edges are sorted at the end.
struct EditedDfa {
  std::vector<std::vector<Edge>> edges;
  std::vector<uint8_t> accept;
  std::vector<std::vector<int32_t>> parts;  // by state: the rules to which it belongs; empty: only the rule itself
  int32_t size() const { return static_cast<int32_t>(edges.size()); }
  int32_t add(bool accepting = false) {
    edges.emplace_back();
    parts.emplace_back();
    accept.push_back(accepting);
    return size() - 1;
  }
  ByteSet bytes_at(int32_t s) const {
    ByteSet out;
    for (const Edge& e : edges[s])
      for (Symbol b = e.lo; e.lo < 256 && b <= e.hi; ++b) out.add(static_cast<uint8_t>(b));
    return out;
  }
};

bool have_common_byte(const ByteSet& a, const ByteSet& b) {
  return (a.w[0] & b.w[0]) || (a.w[1] & b.w[1]) || (a.w[2] & b.w[2]) || (a.w[3] & b.w[3]);
}

// Replaces the edge that represents the spellings of a character by the states of the spellings. Such an edge is the
// only text edge of its state.
void expand_spellings(EditedDfa& edited, int32_t s, const std::vector<std::shared_ptr<const Spelling>>& spellings) {
  const auto it = std::ranges::find_if(edited.edges[s], [](const Edge& e) { return is_spelling(e.lo); });
  if (it == edited.edges[s].end()) return;
  const Edge spelling_edge = *it;
  edited.edges[s].erase(it);
  const Dfa& dfa = spellings[spelling_edge.lo - kSpelling]->dfa;
  const int32_t first = edited.size(), last = dfa.size() - 1;
  for (int32_t i = 1; i < last; ++i) edited.add();
  for (int32_t i = 0; i < last; ++i)
    for (const Edge& e : dfa.edges[i])
      edited.edges[i == 0 ? s : first + i - 1].push_back(
          {e.lo, e.hi, e.to == last ? spelling_edge.to : first + e.to - 1});
}

class Inliner {
 public:
  Inliner(std::vector<LoweredRule>& rules, const IrGrammar& ir) : rules_(rules), is_later_(ir.rules.size(), 0) {
    for (const IrLater& later : ir.later) is_later_[static_cast<size_t>(later.rule)] = 1;
    bodies_.resize(rules.size());
  }

  // Returns the automaton of a rule after inlining character rules; nullopt if it calls none.
  std::optional<EditedDfa> inline_calls_of(int32_t rule) {
    const LoweredRule& from = rules_[rule];
    if (!from.prepared || from.substrings) return std::nullopt;
    auto is_character_rule = [&](int32_t callee) { return body(callee).reads_characters; };
    if (std::ranges::none_of(from.callees, is_character_rule)) return std::nullopt;
    EditedDfa edited = copy_for_editing(from);
    const int32_t size_before = edited.size();
    if (!inline_calls(edited, rule, is_character_rule)) return std::nullopt;
    added_states_ += edited.size() - size_before;
    return edited;
  }

 private:
  struct Body {
    enum { Unknown, InProgress, NotInlinable, Inlinable } state = Unknown;
    bool reads_characters = false;
    EditedDfa edited;  // without calls
    ByteSet first;
  };

  static EditedDfa copy_for_editing(const LoweredRule& rule) {
    const Dfa& dfa = rule.prepared->automaton.dfa;
    EditedDfa edited;
    for (int32_t s = 0; s < dfa.size(); ++s) {
      edited.add(dfa.accept[s] != 0);
      edited.edges[s].assign(dfa.edges[s].begin(), dfa.edges[s].end());
    }
    return edited;
  }

  const Body& body(int32_t rule) {
    if (bodies_[rule].state == Body::Unknown && nesting_depth_ < kMaxNesting) {
      bodies_[rule].state = Body::InProgress;  // a call of a rule in this state is recursive
      Body out;
      out.state = make_body(rule, out.edited) ? Body::Inlinable : Body::NotInlinable;
      if (out.state == Body::Inlinable) {
        out.first = out.edited.bytes_at(0);
        out.reads_characters = count_character_texts(out.edited, 0, 0) >= kManyCharacters;
      }
      bodies_[rule] = std::move(out);
    }
    return bodies_[rule];
  }

  bool make_body(int32_t rule, EditedDfa& out) {
    const LoweredRule& from = rules_[rule];
    if (!from.prepared || from.substrings || from.kind != RuleKind::Plain || from.max_tokens >= 0) return false;
    if (!from.effects.empty() || from.prepared->automaton.dfa.size() > kMaxStates) return false;
    if (from.origin >= 0 && is_later_[static_cast<size_t>(from.origin)]) return false;
    out = copy_for_editing(from);
    for (int32_t s = 0; s < out.size() && out.size() <= kMaxStates; ++s)
      expand_spellings(out, s, from.prepared->automaton.spellings);
    ++nesting_depth_;
    inline_calls(out, rule, [&](int32_t callee) { return body(callee).state == Body::Inlinable; });
    --nesting_depth_;
    if (out.size() > kMaxStates) return false;
    for (int32_t s = 0; s < out.size(); ++s) {
      if (out.accept[s] && !out.edges[s].empty()) return false;
      if (std::ranges::any_of(out.edges[s], [](const Edge& e) { return e.lo >= 256; })) return false;
      if (out.parts[s].empty()) out.parts[s] = {rule};
    }
    return is_acyclic(out);
  }

  static bool is_acyclic(const EditedDfa& edited) {
    std::vector<int32_t> incoming(edited.edges.size(), 0), ready;
    for (const auto& edges : edited.edges)
      for (const Edge& e : edges) ++incoming[e.to];
    for (int32_t s = 0; s < edited.size(); ++s)
      if (incoming[s] == 0) ready.push_back(s);
    for (size_t i = 0; i < ready.size(); ++i)
      for (const Edge& e : edited.edges[ready[i]])
        if (--incoming[e.to] == 0) ready.push_back(e.to);
    return ready.size() == edited.edges.size();
  }

  // Counts the texts that complete one character in UTF-8, up to kManyCharacters. `missing`: how many bytes of the
  // character are missing; 0: it has not begun.
  static int64_t count_character_texts(const EditedDfa& edited, int32_t s, int missing) {
    int64_t texts = 0;
    for (const Edge& e : edited.edges[s])
      for (Symbol b = e.lo; b <= e.hi && texts < kManyCharacters; ++b) {
        const int still_missing = missing > 0 ? (b >= 0x80 && b < 0xC0 ? missing - 1 : -1)
                                  : b < 0x80  ? 0
                                  : b < 0xC2  ? -1
                                  : b < 0xE0  ? 1
                                  : b < 0xF0  ? 2
                                              : 3;
        if (still_missing == 0) texts += edited.accept[e.to];
        if (still_missing > 0) texts += count_character_texts(edited, e.to, still_missing);
      }
    return texts;
  }

  // Replaces calls by the bodies of the called rules. Returns whether it has replaced any.
  template <class IsInlined>
  bool inline_calls(EditedDfa& edited, int32_t rule, IsInlined&& is_inlined) {
    const LoweredRule& from = rules_[rule];
    std::map<std::pair<int32_t, int32_t>, int32_t> copies;  // by rule and end: the first state of the copy
    bool has_inlined = false;
    for (int32_t s = 0, size = edited.size(); s < size; ++s) {
      std::vector<Edge> calls;
      for (const Edge& e : edited.edges[s])
        if (is_call(e.lo) && is_inlined(from.callees[e.lo - kCall])) calls.push_back(e);
      if (calls.empty()) continue;
      expand_spellings(edited, s, from.prepared->automaton.spellings);
      std::vector<int32_t> parts;
      if (std::ranges::any_of(edited.edges[s], [](const Edge& e) { return e.lo < 256 || is_token(e.lo); }))
        parts.push_back(rule);
      ByteSet read_bytes = edited.bytes_at(s);
      for (const Edge& call : calls) {
        const int32_t callee = from.callees[call.lo - kCall];
        const Body& inner = bodies_[callee];
        if (have_common_byte(read_bytes, inner.first) ||
            added_states_ + edited.size() + inner.edited.size() > kMaxAddedStates + size)
          continue;
        read_bytes |= inner.first;
        std::erase_if(edited.edges[s], [&](const Edge& e) { return e.lo == call.lo; });
        insert_body(edited, s, inner.edited, call.to, copies.try_emplace({callee, call.to}, edited.size()));
        parts.insert(parts.end(), inner.edited.parts[0].begin(), inner.edited.parts[0].end());
        edited.parts[s] = parts;
        has_inlined = true;
      }
    }
    return has_inlined;
  }

  // Inserts a body between two states. Its start becomes `from`, and its accepting states become `to`. `copy`: the
  // number of the first of the body's other states in `edited`, and whether these states must still be added.
  template <class Copy>
  static void insert_body(EditedDfa& edited, int32_t from, const EditedDfa& body, int32_t to, const Copy& copy) {
    std::vector<int32_t> states(body.edges.size(), to);
    int32_t next = copy.first->second;
    for (int32_t s = 1; s < body.size(); ++s)
      if (!body.accept[s]) states[s] = next++;
    states[0] = from;
    for (int32_t s = 0; s < body.size(); ++s) {
      if (body.accept[s] || (s > 0 && !copy.second)) continue;
      if (s > 0) {
        edited.add();
        edited.parts.back() = body.parts[s];
      }
      for (const Edge& e : body.edges[s]) edited.edges[states[s]].push_back({e.lo, e.hi, states[e.to]});
    }
  }

  std::vector<LoweredRule>& rules_;
  std::vector<uint8_t> is_later_;  // by IR rule
  std::vector<Body> bodies_;
  int64_t added_states_ = 0;
  int nesting_depth_ = 0;
};

// Replaces the automaton of a rule.
void replace_automaton(LoweredRule& rule, EditedDfa&& edited, Meter& meter) {
  ByteAutomaton automaton;
  automaton.spellings = rule.prepared->automaton.spellings;
  for (int32_t s = 0; s < edited.size(); ++s) {
    automaton.dfa.add(edited.accept[s] != 0);
    std::vector<Edge>& edges = edited.edges[s];
    meter.work(1 + static_cast<int64_t>(edges.size()));
    for (Edge& e : edges)
      if (is_call(e.lo)) e.lo = e.hi = kCall + static_cast<Symbol>(rule.callees[e.lo - kCall]);
    std::ranges::sort(edges, {}, &Edge::lo);
    automaton.dfa.edges.set(s, edges);
    for (int32_t part : edited.parts[s]) rule.parts.push_back({s, part});
  }
  rule.prepare(std::move(automaton));
}

}  // namespace

void inline_character_rules(LoweredGrammar& grammar, const IrGrammar& ir, Meter& meter) {
  Inliner inliner(grammar.rules, ir);
  std::vector<std::pair<int32_t, EditedDfa>> edited_rules;  // applied at the end: bodies are made from unchanged rules
  for (int32_t r = 0; r < static_cast<int32_t>(grammar.rules.size()); ++r)
    if (std::optional<EditedDfa> edited = inliner.inline_calls_of(r)) edited_rules.emplace_back(r, std::move(*edited));
  for (auto& [r, edited] : edited_rules) replace_automaton(grammar.rules[r], std::move(edited), meter);
}

}  // namespace guided
