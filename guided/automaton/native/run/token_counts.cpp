// Token limits: what happens when a token ends.
//
// In: a state in which a token ends. Out: the state after the token has been counted. In a rule with a limit
// (Rule::max_tokens), the register of a thread counts the tokens that contain text of the rule. The token that ends is
// one of them if the thread is past the rule's start. The thread is dropped if the remaining number of tokens does not
// suffice to reach the rule's end with tokens that do not extend beyond it (Grammar::token_rests). If the token can
// also leave the rule, a separate thread, which is not dropped, has done so.
//
// Cost: linear in the threads, once per state; nothing if no rule has a limit.
#include "run/arena.hpp"

namespace guided {

bool Arena::is_counting(const Thread& t) const {
  if (grammar_->token_rests.empty() || t.pos == kExit) return false;
  const Rule& rule = grammar_->rule_at(t.pos);
  return rule.max_tokens >= 0 && t.pos != rule.start;
}

int32_t Arena::end_token(int32_t state) {
  if (state == kDead || !config(state).counts_tokens) return state;
  if (const int32_t cached = peek_token_end(state); cached != kUnknown) return cached;
  std::vector<Thread> threads;
  for (Thread t : config(state)) {
    if (is_counting(t)) {
      ++t.reg;
      const int64_t max_tokens = grammar_->rule_at(t.pos).max_tokens;
      if (t.reg + grammar_->token_rests[t.pos].tokens > max_tokens) continue;
    }
    threads.push_back(t);
  }
  merge_threads(threads, 0);
  const int32_t next_state = threads.empty() ? kDead : intern(threads, true);
  config(state).token_end.store(next_state, std::memory_order_release);
  return next_state;
}

}  // namespace guided
