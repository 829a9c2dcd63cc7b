// The states of grammars with a lexer, and all data that is computed for them.
//
// One half of the data belongs to the lexer: lexemes, competitors and tables (lexemes.hpp, competitors.hpp,
// lexer_tables.hpp). The other half belongs to the visited states: parser, lexer positions, readings, masks and rests
// (lexer_positions.hpp, readings.hpp, lexed_masks.hpp, lexed_rests.hpp).
//
// When the second half exceeds the memory limit, a fresh one replaces it (matching/states.hpp). One lock guards both
// halves. If an exception may have left either half inconsistent, both are replaced.
#pragma once

#include "base/memory_limit.hpp"
#include "lexer/lexed_masks.hpp"

namespace guided {

// The parts of a grammar with a lexer. `rules`: a grammar over terminals, compiled for a vocabulary in which each
// terminal is a control token. `control_tokens`: by terminal, its control token in the text, or kNoTerminal.
struct LexerParts {
  std::vector<LexerTerminal> terminals;
  std::vector<LexerKeyword> keywords;
  std::shared_ptr<CompiledRules> rules;
  std::vector<int32_t> control_tokens;
  LexerContexts contexts;
  Indentation indentation;
  std::shared_ptr<const TokenVocabulary> vocabulary;
};

// All data that depends on the lexer alone, not on states of the parser.
struct Lexer {
  explicit Lexer(const LexerParts& parts);
  // The memory of the members that grow with the texts, except tables, which have a limit of their own (LexedMasks).
  size_t memory() const { return lexemes.memory() + competitors.memory() + ends.memory(); }

  const std::shared_ptr<const Grammar> rules;
  Lexemes lexemes;
  Competitors competitors;
  BlockLevels levels;
  SureTexts sure_texts;
  SureLines empty_lines;
  SequenceCosts costs, guesses;
  BlockingCompetitors blocking;
  LexemeEnds ends;
  LexerTables tables;
  std::mutex mutex;
  const States::Flag broken = std::make_shared<std::atomic<bool>>(false);
};

class LexedStates final : public States {
 public:
  LexedStates(const LexerParts& parts, std::shared_ptr<Lexer> lexer, CallLimits limits);

  int32_t initial() const override { return readings_.initial(); }
  bool accepting(int32_t state) const override { return readings_.accepting(state); }
  int32_t known_after_token(int32_t state, int32_t id) const override;
  int32_t after_token(int32_t state, int32_t id) override;
  int32_t after_bytes(int32_t state, std::string_view bytes) override;
  bool known_mask(int32_t state, uint32_t* row, bool& masks_something) const override;
  bool mask(int32_t state, uint32_t* row) override;
  bool budget_mask(int32_t state, uint32_t* row, int64_t max_tokens, bool& is_budget_bound) override;
  int64_t distance(int32_t state) override;
  std::tuple<int64_t, int64_t, int64_t> rests(int32_t state) override;
  std::vector<int32_t> shortest(int32_t state, size_t limit) override;
  std::vector<int32_t> walk_mask(int32_t state) override;
  std::mutex& mutex() override { return lexer_->mutex; }
  int32_t token_ended(int32_t state) override;
  bool ends_token(int32_t state) override { return vocabulary_->byte_complete || rests_.viable(state); }
  int32_t step(int32_t state, uint8_t byte) override;
  int32_t step_control(int32_t state, int32_t token) override;
  ByteSet bytes(int32_t state) const override { return readings_.bytes(state); }
  CharClasses loops(int32_t state) override { return readings_.loops(state); }
  std::vector<int32_t> controls(int32_t state) const override { return readings_.controls(state); }
  void open_rules(int32_t state, std::vector<std::string>& out) const override;
  bool full() const override { return bytes() > memory_limit_; }
  size_t bytes() const override { return memory_.load(std::memory_order_relaxed); }
  int32_t size() const override { return readings_.size(); }

  const std::shared_ptr<Lexer>& lexer() const { return lexer_; }
  bool viable(int32_t state) { return rests_.viable(state); }
  // Copies a state of `other`, and returns its number here. `carried`: what earlier calls have copied. The caller holds
  // the lock.
  struct Carried {
    Arena::Carried parser;
    std::unordered_set<int32_t> completions;
  };
  int32_t import(LexedStates& other, int32_t state, Carried& carried);
  size_t measure_memory();
  void add_carried(size_t bytes) { memory_limit_.add_carried(bytes); }

 private:
  int32_t locked_after_token(int32_t state, int32_t id);
  int32_t locked_after_bytes(int32_t state, std::string_view bytes);

  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  const std::shared_ptr<Lexer> lexer_;
  TerminalParser parser_;
  LexerPositions positions_;
  Readings readings_;
  LexedRests rests_;
  LexedMasks masks_;
  std::atomic<size_t> memory_{0};
  MemoryLimit memory_limit_;
};

class CompiledLexer final : public CompiledInto<LexedStates> {
 public:
  CompiledLexer(LexerParts parts, CallLimits limits);
  std::shared_ptr<States> renewed(const std::shared_ptr<States>& old, std::vector<int32_t>& carried) override;
  size_t positions() const override { return parts_.rules->positions() + terminal_positions_; }
  size_t rules() const override { return parts_.rules->rules() + parts_.control_tokens.size(); }
  bool recursive() const override { return parts_.rules->recursive(); }
  bool is_sure();
  int32_t lexeme_states();
  int32_t tables();
  // Whether the grammar has any output.
  bool can_end();

 private:
  std::shared_ptr<LexedStates> fresh() const override { return states_with(std::make_shared<Lexer>(parts_)); }
  std::shared_ptr<LexedStates> states_with(std::shared_ptr<Lexer> lexer) const {
    return std::make_shared<LexedStates>(parts_, std::move(lexer), limits_);
  }

  const LexerParts parts_;
  size_t terminal_positions_ = 0;
};

}  // namespace guided
