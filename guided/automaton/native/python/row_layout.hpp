// The classes that occur in stored grammars, and the forms of their fields, as in guided/frontends/stored/layout.py.
// Data only. Change both files together.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace guided {

// The classes, in the order of layout.py.
enum class RowKind : uint8_t {
  Chars,
  Text,
  Seq,
  Alt,
  Repeat,
  And,
  Not,
  Automaton,
  Substrings,
  Dispatch,
  Length,
  Encoded,
  Ref,
  Special,
  OtherTokens,
  MaxTokens,
  Member,
  Permutation,
  Distinct,
  Entry,
  Lexed,
  Written,
  AllOf,
  AnyOf,
  NoneOf,
  Form,
  Encoding,
  Keyword,
  Terminal,
  Indentation,
  Lexer,
  Ending,
  Region,
  DeferredRule,
  Embedded,
  Grammar
};

constexpr int kKinds = static_cast<int>(RowKind::Grammar) + 1;

using Kinds = uint64_t;

constexpr Kinds kinds_of(std::initializer_list<RowKind> kinds) {
  Kinds out = 0;
  for (const RowKind kind : kinds) out |= Kinds{1} << static_cast<int>(kind);
  return out;
}

constexpr Kinds kNodes = ((Kinds{1} << (static_cast<int>(RowKind::Entry) + 1)) - 1) & ~kinds_of({RowKind::Member});
constexpr Kinds kConditions = kinds_of({RowKind::Written, RowKind::AllOf, RowKind::AnyOf, RowKind::NoneOf});
// Kinds of rows that Python must read, together with all rows that refer to them.
constexpr Kinds kRare = kinds_of({RowKind::Lexed, RowKind::Ending, RowKind::Region});

// The forms of fields; see fields.py and compound_fields.py in guided/frontends/stored/.
enum class FieldForm : uint8_t {
  Count,
  Limit,
  Flag,
  Text,
  Numbers,
  Pairs,
  States,
  Texts,
  Names,
  Token,
  Tokens,
  Row,
  OptionalRow,
  Rows,
  Digits,
  Contexts,
  Later,
  Hex,
  Value,
  TextMap,
  RowMap
};

struct FieldLayout {
  FieldForm form;
  Kinds kinds = 0;  // the allowed kinds of the rows to which it refers
};

constexpr FieldLayout kNode{FieldForm::Row, kNodes}, kNodeList{FieldForm::Rows, kNodes};

// The fields of each class.
inline const std::array<std::vector<FieldLayout>, kKinds>& row_layout() {
  using enum FieldForm;
  static const std::array<std::vector<FieldLayout>, kKinds> kLayout{{
      {{Pairs}},
      {{Text}},
      {kNodeList},
      {kNodeList},
      {kNode, {Count}, {Limit}},
      {kNodeList},
      {kNode},
      {{States}, {Count}},
      {{Texts}, {Flag}},
      {{Row, kinds_of({RowKind::Automaton})}, {Numbers}, kNodeList},
      {kNode, {Count}, {Limit}},
      {kNode, {Row, kinds_of({RowKind::Encoding})}},
      {{Text}},
      {{Token}},
      {{Tokens}, {Count}, {Limit}},
      {kNode, {Count}},
      {kNode, {Flag}, {Flag}},
      {{Rows, kinds_of({RowKind::Member})}, kNode, {Count}, {Limit}, {Numbers}, {Flag}, {OptionalRow, kConditions}},
      {kNode, {Texts}},
      {kNode},
      {},  // Lexed
      {{Numbers}},
      {{Rows, kConditions}},
      {{Rows, kConditions}},
      {{Rows, kConditions}},
      {{Pairs}, {Digits}},
      {{Text}, {Rows, kinds_of({RowKind::Form})}},
      {{Text}, kNode, {Flag}},
      {{Text}, kNode, {Rows, kinds_of({RowKind::Keyword})}, {Text}},
      {{Text}, {Text}, {Text}, {Names}, {Names}, {Count}, {Count}, {Count}},
      {{Rows, kinds_of({RowKind::Terminal})},
       {Names},
       {OptionalRow, kinds_of({RowKind::Indentation})},
       {Contexts},
       {Flag},
       {Contexts}},
      {},  // Ending
      {},  // Region
      {{Later}, {Hex}, {Count}},
      {{Value}, {Value}, {Value}, {Value}, {Text}},
      {{RowMap, kNodes},
       {Text},
       {TextMap},
       {OptionalRow, kinds_of({RowKind::Lexer})},
       {RowMap, kinds_of({RowKind::Region})},
       {RowMap, kinds_of({RowKind::DeferredRule})},
       {Flag},
       {RowMap, kinds_of({RowKind::Embedded})}},
  }};
  return kLayout;
}

}  // namespace guided
