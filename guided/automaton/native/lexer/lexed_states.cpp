#include "lexer/lexed_states.hpp"

#include <algorithm>

namespace guided {

namespace {

std::vector<uint8_t> used_terminals(const Grammar& rules, size_t count) {
  std::vector<uint8_t> used(count);
  for (const TokenEdge& edge : rules.tokens)
    if (edge.token < static_cast<int32_t>(count)) used[edge.token] = true;
  return used;
}

}  // namespace

LexedStates::LexedStates(CompiledLexer& compiled, size_t memory)
    : compiled_(compiled),
      parser_(compiled.rules_->grammar(), *compiled.rules_->vocabulary, memory, compiled.control_, compiled.contexts_,
              compiled.lexemes_),
      places_(parser_, compiled.lexemes_),
      readings_(compiled.lexemes_, compiled.rivals_, places_, compiled.control_),
      rests_(readings_, places_, parser_, compiled.ends_, compiled.costs_, compiled.guesses_, *compiled.vocabulary),
      masks_(readings_, places_, rests_, compiled.tables_, *compiled.vocabulary, memory / 2),
      memory_limit_(memory) {
  measured();
}

std::mutex& LexedStates::mutex() { return compiled_.mutex_; }

size_t LexedStates::measured() {
  return memory_ = parser_.arena().bytes() + places_.memory() + readings_.memory() + rests_.memory() + masks_.memory();
}

// ---- steps
int32_t LexedStates::locked_after_bytes(int32_t state, std::string_view bytes) {
  for (char byte : bytes) {
    state = readings_.step(state, static_cast<uint8_t>(byte));
    if (state == kDead) return kDead;
  }
  measured();
  return rests_.viable(state) ? state : static_cast<int32_t>(kDead);
}

int32_t LexedStates::locked_after_token(int32_t state, int32_t id) {
  if (compiled_.vocabulary->textual(id)) return locked_after_bytes(state, compiled_.vocabulary->tokens[id]);
  const int32_t after = readings_.step_control(state, id);
  return rests_.viable(after) ? after : static_cast<int32_t>(kDead);
}

int32_t LexedStates::after_bytes(int32_t state, std::string_view bytes) {
  std::lock_guard<std::mutex> lock(compiled_.mutex_);
  return locked_after_bytes(state, bytes);
}

int32_t LexedStates::after_token(int32_t state, int32_t id) {
  std::lock_guard<std::mutex> lock(compiled_.mutex_);
  return locked_after_token(state, id);
}

// Steps that were taken are found quickly, but not without the lock: whoever holds it may take long.
int32_t LexedStates::known_after_token(int32_t, int32_t) const { return kUnknown; }

bool LexedStates::known_mask(int32_t state, uint32_t* row, bool& masks_something) const {
  std::unique_lock<std::mutex> lock(compiled_.mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  const std::vector<uint32_t>* words = masks_.known(state);
  if (!words) return false;
  std::copy(words->begin(), words->end(), row);
  masks_something = true;
  return true;
}

bool LexedStates::mask(int32_t state, uint32_t* row) {
  std::lock_guard<std::mutex> lock(compiled_.mutex_);
  const std::vector<uint32_t>& words = masks_.mask(state);
  std::copy(words.begin(), words.end(), row);
  measured();
  return true;
}

bool LexedStates::budget_mask(int32_t state, uint32_t* row, int64_t max_tokens, bool& bound) {
  {
    std::lock_guard<std::mutex> lock(compiled_.mutex_);
    const int64_t most = max_tokens - 2;  // that token, and the end token
    if (masks_.most_after(state) > most) {
      const int64_t needed = rests_.distance(state) + 1;
      if (max_tokens < needed) throw BudgetFailure(needed, max_tokens);
      bound = true;
      std::fill(row, row + compiled_.vocabulary->words, 0);
      masks_.fill(state, most, row);
      return true;
    }
  }
  return mask(state, row);
}

int64_t LexedStates::distance(int32_t state) {
  std::lock_guard<std::mutex> lock(compiled_.mutex_);
  return rests_.distance(state);
}

std::tuple<int64_t, int64_t, int64_t> LexedStates::rests(int32_t state) {
  std::lock_guard<std::mutex> lock(compiled_.mutex_);
  const int64_t most = masks_.most_after(state);
  return {most, most, most};
}

// Along the distances, each of which allows a token that lowers it.
std::vector<int32_t> LexedStates::shortest(int32_t state, size_t limit) {
  std::lock_guard<std::mutex> lock(compiled_.mutex_);
  std::vector<int32_t> out;
  const TokenVocabulary& vocabulary = *compiled_.vocabulary;
  std::vector<uint32_t> row(static_cast<size_t>(vocabulary.words));
  while (out.size() < limit) {
    const int64_t left = rests_.distance(state);
    if (left <= 0 || left >= kNever) break;
    std::fill(row.begin(), row.end(), 0);
    masks_.fill(state, left - 1, row.data());
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
  std::lock_guard<std::mutex> lock(compiled_.mutex_);
  const TokenVocabulary& vocabulary = *compiled_.vocabulary;
  std::vector<int32_t> out;
  for (int32_t id = 0; id < vocabulary.size; ++id) {
    const bool allowed = vocabulary.is_end(id) ? readings_.accepting(state) : locked_after_token(state, id) != kDead;
    if (allowed) out.push_back(id);
  }
  return out;
}

// ---- looking ahead
int32_t LexedStates::step(int32_t state, uint8_t byte) {
  const int32_t after = readings_.step(state, byte);
  return rests_.viable(after) ? after : static_cast<int32_t>(kDead);
}

int32_t LexedStates::step_control(int32_t state, int32_t token) {
  const int32_t after = readings_.step_control(state, token);
  return rests_.viable(after) ? after : static_cast<int32_t>(kDead);
}

void LexedStates::open_rules(int32_t state, std::vector<std::string>& out) const {
  for (const Reading& reading : readings_.readings(state)) places_.open_rules(reading.place, out);
}

int32_t LexedStates::import(LexedStates& other, int32_t state, Carried& carried) {
  auto move = [&](Reading reading) {
    reading.place = places_.import(other.places_, reading.place, carried.parser);
    return reading;
  };
  std::vector<Reading> readings = other.readings_.readings(state);
  for (Reading& reading : readings) {
    rests_.import(other.rests_, reading, move, carried.completions);
    reading = move(reading);
  }
  return readings_.intern(std::move(readings));
}

// ---- the compiled grammar
CompiledLexer::CompiledLexer(std::vector<LexerTerminal> terminals, std::vector<LexerKeyword> keywords,
                             std::shared_ptr<CompiledRules> rules, std::vector<int32_t> control, LexerContexts contexts,
                             Indentation indentation, std::shared_ptr<const TokenVocabulary> vocabulary, size_t memory)
    : Compiled(std::move(vocabulary)),
      rules_(std::move(rules)),
      control_(std::move(control)),
      contexts_(std::move(contexts)),
      indentation_(std::move(indentation)),
      lexemes_(std::move(terminals), std::move(keywords), indentation_),
      rivals_(lexemes_),
      levels_(*rules_->grammar(), indentation_),
      sure_(lexemes_, rivals_, *this->vocabulary, control_, contexts_,
            used_terminals(*rules_->grammar(), control_.size()),
            Followers(*rules_->grammar(), rules_->vocabulary->size), levels_.balanced(),
            static_cast<size_t>(rules_->vocabulary->size)),
      costs_(*rules_->grammar(), indentation_, levels_, sure_.weights(), sure_.lines()),
      guesses_(*rules_->grammar(), indentation_, levels_, sure_.guesses(), no_lines_),
      ends_(lexemes_, rivals_, sure_, *this->vocabulary),
      tables_(lexemes_, rivals_, ends_, *this->vocabulary),
      memory_(memory) {
  current_ = std::make_shared<LexedStates>(*this, memory_);
}

std::shared_ptr<States> CompiledLexer::states() {
  std::lock_guard<std::mutex> lock(current_mutex_);
  return current_;
}

std::shared_ptr<States> CompiledLexer::renewed(const std::shared_ptr<States>& old, std::vector<int32_t>& carried) {
  std::shared_ptr<LexedStates> renewed;
  {
    std::lock_guard<std::mutex> lock(current_mutex_);
    if (current_ == old) {
      current_ = std::make_shared<LexedStates>(*this, memory_);
      ++rebuilds_;
    }
    renewed = current_;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  LexedStates::Carried known;
  for (int32_t& code : carried) {
    const int32_t moved = renewed->import(static_cast<LexedStates&>(*old), code < 0 ? ~code : code, known);
    code = code < 0 ? ~moved : moved;
  }
  renewed->leave_room();
  return renewed;
}

bool CompiledLexer::can_end() {
  std::lock_guard<std::mutex> lock(mutex_);
  return current_->viable(current_->initial());
}

}  // namespace guided
