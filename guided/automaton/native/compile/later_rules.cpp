#include "compile/later_rules.hpp"

#include <stdexcept>

namespace guided {

namespace {

std::unique_ptr<Grammar> copy_grammar(const Grammar& from) {
  auto out = std::make_unique<Grammar>();
  out->rules = from.rules;
  out->positions = from.positions;
  out->next = from.next;
  out->spans = from.spans;
  out->calls = from.calls;
  out->effects = from.effects;
  out->tokens = from.tokens;
  out->names = from.names;
  out->start = from.start;
  out->nullable = from.nullable;
  out->recursive = from.recursive;
  out->known = from.known;
  out->token_rests = from.token_rests;
  out->later = from.later;
  return out;
}

template <class Item>
int32_t size_of(const std::vector<Item>& list) {
  return static_cast<int32_t>(list.size());
}

// Appends the rules of `part`. Their indices are shifted by the sizes of the grammar's lists.
void append_part(Grammar& g, const Grammar& part) {
  const int32_t first_rule = size_of(g.rules), first_position = size_of(g.positions), first_name = size_of(g.names),
                first_scope = size_of(g.known);
  const Position::ListSizes sizes{.rows = size_of(g.next),
                                  .spans = size_of(g.spans),
                                  .calls = size_of(g.calls),
                                  .effects = size_of(g.effects),
                                  .tokens = size_of(g.tokens)};
  for (Rule r : part.rules) {
    r.start += first_position;
    r.base += first_position;
    if (r.origin >= 0) r.origin += first_name;
    for (RulePart& inlined : r.parts) inlined = {inlined.position + first_position, inlined.rule + first_rule};
    g.rules.push_back(std::move(r));
  }
  for (Position p : part.positions) {
    p.rule += first_rule;
    p.shift_lists(sizes);
    g.positions.push_back(p);
  }
  for (int32_t to : part.next) g.next.push_back(to < 0 ? to : to + first_position);
  for (const ByteSpan& s : part.spans) g.spans.push_back({s.lo, s.hi, s.to + first_position});
  for (const CallEdge& c : part.calls) g.calls.push_back({c.rule + first_rule, c.after + first_position, c.tail});
  for (EffectEdge e : part.effects) {
    if (e.effect.op == Effect::Open) e.effect.a += first_scope;
    g.effects.push_back({e.effect, e.to + first_position});
  }
  for (const TokenEdge& t : part.tokens) g.tokens.push_back({t.token, t.to + first_position});
  g.names.insert(g.names.end(), part.names.begin(), part.names.end());
  g.known.insert(g.known.end(), part.known.begin(), part.known.end());
  g.recursive |= part.recursive;
  if (g.token_rests.empty() && part.token_rests.empty()) return;  // no rule has a token limit
  g.token_rests.resize(static_cast<size_t>(first_position));
  g.token_rests.insert(g.token_rests.end(), part.token_rests.begin(), part.token_rests.end());
  g.token_rests.resize(g.positions.size());
}

}  // namespace

std::unique_ptr<Grammar> append_later_rules(const Grammar& grammar, const std::vector<LaterPart>& parts) {
  std::unique_ptr<Grammar> out = copy_grammar(grammar);
  for (const LaterPart& part : parts) {
    if (part.grammar->nullable || !part.grammar->later.empty())
      throw std::logic_error("a rule that is compiled later generates the empty text, or has later rules itself");
    out->later[part.later].compiled = size_of(out->rules) + part.grammar->start;
    append_part(*out, *part.grammar);
  }
  for (CallEdge& call : out->calls) {
    const int32_t later = out->rules[call.rule].later;
    if (later >= 0 && out->later[later].compiled >= 0) call.rule = out->later[later].compiled;
  }
  return out;
}

}  // namespace guided
