// Token limits: what happens when a token ends.
//
// In: a state at the end of a token. Out: the state after it. In a rule with a limit (Rule::max_tokens), the register
// of a thread counts the tokens that contain text of the rule. The token that ends is one of them if the thread is past
// the rule's start. The thread is dropped if the remaining tokens cannot lead to the rule's end, by tokens that end
// there or before it (Grammar::token_rests). Threads that have left the rule by then are separate threads.
//
// Cost: linear in the threads, once per state; nothing if no rule has a limit.
#include "run/arena.hpp"

namespace guided {

bool Arena::is_counting(const Thread& t) const {
  if (grammar_->token_rests.empty() || t.pos == kExit) return false;
  const Rule& rule = grammar_->rule_at(t.pos);
  return rule.max_tokens >= 0 && t.pos != rule.start;
}

int32_t Arena::counted(int32_t state) {
  if (state == kDead || !config(state).counts) return state;
  if (const int32_t known = peek_counted(state); known != kUnknown) return known;
  std::vector<Thread> threads;
  for (Thread t : config(state)) {
    if (is_counting(t)) {
      ++t.reg;
      const int64_t most = grammar_->rule_at(t.pos).max_tokens;
      if (t.reg + grammar_->token_rests[t.pos].tokens > most) continue;
    }
    threads.push_back(t);
  }
  merge_threads(threads, 0);
  const int32_t after = threads.empty() ? kDead : intern(threads, true);
  config(state).counted.store(after, std::memory_order_release);
  return after;
}

}  // namespace guided
