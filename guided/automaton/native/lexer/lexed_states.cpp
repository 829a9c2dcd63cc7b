#include "lexer/lexed_states.hpp"

#include <algorithm>

namespace guided {

namespace {

std::vector<uint8_t> find_used_terminals(const Grammar& rules, size_t count) {
  std::vector<uint8_t> is_used(count);
  for (const TokenEdge& edge : rules.tokens)
    if (edge.token < static_cast<int32_t>(count)) is_used[edge.token] = true;
  return is_used;
}

// An automaton may be shared with another grammar, in which an exception may have broken its states.
std::vector<LexerTerminal> with_usable_states(std::vector<LexerTerminal> terminals) {
  for (LexerTerminal& terminal : terminals) terminal.automaton = terminal.automaton.with_usable_states();
  return terminals;
}

std::vector<LexerKeyword> with_usable_states(std::vector<LexerKeyword> keywords) {
  for (LexerKeyword& keyword : keywords) keyword.automaton = keyword.automaton.with_usable_states();
  return keywords;
}

}  // namespace

Lexer::Lexer(const LexerParts& parts)
    : rules(parts.rules->grammar()),
      lexemes(with_usable_states(parts.terminals), with_usable_states(parts.keywords), parts.indentation),
      competitors(lexemes),
      levels(*rules, parts.indentation),
      sure_texts(lexemes, competitors, *parts.vocabulary, parts.control_tokens, parts.contexts,
                 find_used_terminals(*rules, parts.control_tokens.size()),
                 Followers(*rules, parts.rules->vocabulary->size), levels.is_balanced(),
                 static_cast<size_t>(parts.rules->vocabulary->size)),
      costs(*rules, parts.indentation, levels, sure_texts.weights(), sure_texts.lines()),
      guesses(*rules, parts.indentation, levels, sure_texts.guesses(), empty_lines),
      blocking(lexemes, competitors, *rules, levels, parts.control_tokens,
               static_cast<size_t>(parts.rules->vocabulary->size)),
      ends(lexemes, competitors, sure_texts, *parts.vocabulary),
      tables(lexemes, competitors, ends, *parts.vocabulary) {}

LexedStates::LexedStates(const LexerParts& parts, std::shared_ptr<Lexer> lexer, CallLimits limits)
    : States(limits, lexer->broken),
      vocabulary_(parts.vocabulary),
      lexer_(std::move(lexer)),
      parser_(lexer_->rules, *parts.rules->vocabulary, limits, parts.control_tokens, parts.contexts, lexer_->lexemes),
      positions_(parser_, lexer_->lexemes),
      readings_(lexer_->lexemes, lexer_->competitors, positions_, parts.control_tokens),
      rests_(readings_, positions_, parser_, lexer_->ends, lexer_->costs, lexer_->guesses, lexer_->blocking,
             *vocabulary_),
      masks_(readings_, positions_, rests_, lexer_->tables, *vocabulary_, limits.memory / 2),
      memory_limit_(limits.memory) {
  memory_limit_.add_carried(measure_memory());
}

// Fails if the lexer takes too much memory. The failure marks the lexer as broken, so a fresh lexer replaces it.
size_t LexedStates::measure_memory() {
  const auto lexer_memory = static_cast<int64_t>(lexer_->memory());
  if (const int64_t max_memory = limits().max_added_memory(); lexer_memory > max_memory)
    throw LimitFailure("memory", static_cast<double>(lexer_memory), static_cast<double>(max_memory));
  return memory_ =
             parser_.arena().bytes() + positions_.memory() + readings_.memory() + rests_.memory() + masks_.memory();
}

// ---- steps
int32_t LexedStates::locked_after_bytes(int32_t state, std::string_view bytes) {
  for (char byte : bytes) {
    state = readings_.step(state, static_cast<uint8_t>(byte));
    if (state == kDead) return kDead;
  }
  measure_memory();
  return rests_.viable(state) ? state : static_cast<int32_t>(kDead);
}

int32_t LexedStates::locked_after_token(int32_t state, int32_t id) {
  if (vocabulary_->textual(id)) return locked_after_bytes(state, vocabulary_->tokens[id]);
  const int32_t next = readings_.step_control(state, id);
  return rests_.viable(next) ? next : static_cast<int32_t>(kDead);
}

int32_t LexedStates::after_bytes(int32_t state, std::string_view bytes) {
  const StatesLock lock(*this);
  return locked_after_bytes(state, bytes);
}

int32_t LexedStates::after_token(int32_t state, int32_t id) {
  const StatesLock lock(*this);
  return locked_after_token(state, id);
}

// Always unknown: finding a known step is fast, but needs the lock, which another thread may hold for long.
int32_t LexedStates::known_after_token(int32_t, int32_t) const { return kUnknown; }

bool LexedStates::known_mask(int32_t state, uint32_t* row, bool& masks_something) const {
  std::unique_lock<std::mutex> lock(lexer_->mutex, std::try_to_lock);
  if (!lock.owns_lock() || is_broken()) return false;
  const std::vector<uint32_t>* words = masks_.known(state);
  if (!words) return false;
  std::copy(words->begin(), words->end(), row);
  masks_something = true;
  return true;
}

bool LexedStates::mask(int32_t state, uint32_t* row) {
  const StatesLock lock(*this);
  const std::vector<uint32_t>& words = masks_.mask(state);
  std::copy(words.begin(), words.end(), row);
  measure_memory();
  return true;
}

bool LexedStates::budget_mask(int32_t state, uint32_t* row, int64_t max_tokens, bool& is_budget_bound) {
  {
    StatesLock lock(*this);
    const int64_t max_rest = max_tokens - 2;  // without this token and the end token
    if (masks_.max_rest_after(state) > max_rest) {
      const int64_t needed_tokens = rests_.distance(state) + 1;
      if (max_tokens < needed_tokens) {
        lock.unlock();
        throw BudgetFailure(needed_tokens, max_tokens);
      }
      is_budget_bound = true;
      std::fill(row, row + vocabulary_->words, 0);
      masks_.fill(state, max_rest, row);
      return true;
    }
  }
  return mask(state, row);
}

int64_t LexedStates::distance(int32_t state) {
  const StatesLock lock(*this);
  return rests_.distance(state);
}

std::tuple<int64_t, int64_t, int64_t> LexedStates::rests(int32_t state) {
  const StatesLock lock(*this);
  const int64_t max_rest = masks_.max_rest_after(state);
  return {max_rest, max_rest, max_rest};
}

// Follows the distances: in each state, some token lowers the distance.
std::vector<int32_t> LexedStates::shortest(int32_t state, size_t limit) {
  const StatesLock lock(*this);
  std::vector<int32_t> out;
  const TokenVocabulary& vocabulary = *vocabulary_;
  std::vector<uint32_t> row(static_cast<size_t>(vocabulary.words));
  while (out.size() < limit) {
    const int64_t distance = rests_.distance(state);
    if (distance <= 0 || distance >= kNever) break;
    std::fill(row.begin(), row.end(), 0);
    masks_.fill(state, distance - 1, row.data());
    int32_t token = -1;
    for (int32_t id = 0; id < vocabulary.size && token < 0; ++id)
      if (row[id >> 5] >> (id & 31) & 1 && !vocabulary.is_end(id)) token = id;
    if (token < 0) break;
    if (vocabulary.textual(token))
      for (char byte : vocabulary.tokens[token]) out.push_back(static_cast<uint8_t>(byte));
    else
      out.push_back(256 + token);
    state = locked_after_token(state, token);
  }
  return out;
}

std::vector<int32_t> LexedStates::walk_mask(int32_t state) {
  const StatesLock lock(*this);
  const TokenVocabulary& vocabulary = *vocabulary_;
  std::vector<int32_t> out;
  for (int32_t id = 0; id < vocabulary.size; ++id) {
    const bool is_allowed = vocabulary.is_end(id) ? readings_.accepting(state) : locked_after_token(state, id) != kDead;
    if (is_allowed) out.push_back(id);
  }
  return out;
}

int32_t LexedStates::token_ended(int32_t state) {
  if (vocabulary_->byte_complete) return state;
  const StatesLock lock(*this);
  return ends_token(state) ? state : static_cast<int32_t>(kDead);
}

// ---- looking ahead
int32_t LexedStates::step(int32_t state, uint8_t byte) {
  const int32_t next = readings_.step(state, byte);
  // If some byte is no token, an output may continue inside a token although no token begins there.
  return !vocabulary_->byte_complete || rests_.viable(next) ? next : static_cast<int32_t>(kDead);
}

int32_t LexedStates::step_control(int32_t state, int32_t token) {
  const int32_t next = readings_.step_control(state, token);
  return rests_.viable(next) ? next : static_cast<int32_t>(kDead);
}

void LexedStates::open_rules(int32_t state, std::vector<std::string>& out) const {
  for (const Reading& reading : readings_.of(state)) positions_.open_rules(reading.position, out);
}

int32_t LexedStates::import(LexedStates& other, int32_t state, Carried& carried) {
  auto move = [&](Reading reading) {
    reading.position = positions_.import(other.positions_, reading.position, carried.parser);
    return reading;
  };
  std::vector<Reading> readings = other.readings_.of(state);
  for (Reading& reading : readings) {
    rests_.import(other.rests_, reading, move, carried.completions);
    reading = move(reading);
  }
  return readings_.intern(std::move(readings));
}

// ---- the compiled grammar
CompiledLexer::CompiledLexer(LexerParts parts, CallLimits limits)
    : CompiledInto(parts.vocabulary, limits), parts_(std::move(parts)) {
  for (const LexerTerminal& terminal : parts_.terminals) terminal_positions_ += terminal.automaton.position_count();
  renew(fresh());
}

std::shared_ptr<States> CompiledLexer::renewed(const std::shared_ptr<States>& old, std::vector<int32_t>& carried) {
  LexedStates& old_states = static_cast<LexedStates&>(*old);
  std::shared_ptr<LexedStates> new_states;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (current_ == old) renew(states_with(old_states.lexer()));
    new_states = current_;
  }
  if (new_states->lexer() != old_states.lexer())
    throw StatesBroken{};  // the fresh lexer numbers its states differently
  const StatesLock lock(*new_states, {});
  LexedStates::Carried transferred;
  const size_t before = new_states->measure_memory();
  carry(carried, [&](int32_t state) { return new_states->import(old_states, state, transferred); });
  new_states->add_carried(new_states->measure_memory() - before);
  return new_states;
}

bool CompiledLexer::is_sure() { return current()->lexer()->sure_texts.all(); }

int32_t CompiledLexer::lexeme_states() { return current()->lexer()->lexemes.size(); }

int32_t CompiledLexer::tables() { return current()->lexer()->tables.size(); }

bool CompiledLexer::can_end() {
  const std::shared_ptr<LexedStates> states = current();
  const StatesLock lock(*states);
  return states->viable(states->initial());
}

}  // namespace guided
