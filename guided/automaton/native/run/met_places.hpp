// The places that a walk of the vocabulary has met, with all that is the same for the nodes that are met in one.
//
// In: what is asked, and places (places.hpp). Out, for each: whether tokens may end there and in which of the table's
// sets; whether the frame may end; the kinds of characters that *loop*, which all lead back to the place, so that the
// tokens made of them need no walk (kind_sets.hpp); under a counter, where nothing leads back, the *chain* of places
// that such characters lead along, each one count further.
// Cost: each place is looked at once, for loops only where tokens below it are many; a chain grows as it is followed.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "run/label.hpp"
#include "run/places.hpp"
#include "run/table_builder.hpp"

namespace guided {

constexpr int kManyBytes = 4;          // a place that reads fewer is no loop worth looking for
constexpr int32_t kFewTokens = 16;     // below a node: walked without looking for loops
constexpr int32_t kManyTokens = 2000;  // below a node: worth finding out which consist of some kinds

inline Kinds kind_of(uint8_t byte) { return byte < 128 ? kind_of_ascii(byte) : kWholeCharacters; }
inline bool begins_character(uint8_t byte) { return (byte & 0xC0) != 0x80; }

class MetPlaces : public Places {
 public:
  // The places after 0, 1, 2, ... characters of a kind that counts, and the sets for tokens that end there.
  struct Chain {
    std::vector<int32_t> sets, places;
    uint8_t byte = 0;  // that leads on
    Kinds kinds = 0;
    bool exits = false;  // along all of it, or nowhere
    bool torn = false;   // a bound is looked at that only some of the characters meet
  };
  // The tokens that consist of the kinds that loop in a place, and the bytes at whose edges something goes on.
  struct Loop {
    std::shared_ptr<const KindSet> set;
    std::vector<uint8_t> edges;
  };
  struct Met : Ending {
    bool known = false, exits = false, looped = false;  // looped: `loops` is known
    int32_t place = 0;
    Kinds loops = 0;  // kinds of characters that all lead back to the place (under a counter: one count further)
    Chain* chain = nullptr;
    const Loop* loop = nullptr;  // what there is to take; null: not looked up, or not known
  };
  struct Link {
    int32_t set, place;
  };

  MetPlaces(const TableTask& task, TableBuilder& table);

  Kinds follow_kinds() const { return follow_kinds_; }
  const Met& meet(int32_t place) {
    if (static_cast<size_t>(place) < met_.size() && met_[place].known) return met_[place];
    return look(place);
  }
  // The same, with `loops` and `chain` known.
  const Met& with_loops(int32_t place);
  // Of a place that loops, when the walk was in the place `before` ahead of it. Null where the set is not known and is
  // not to be built.
  const Loop* loop(int32_t before, const Met& met, bool build);
  // So many characters further: in a loop nowhere else, under a counter along the chain.
  Link link(const Met& met, int32_t further) {
    if (!met.chain) return {met.set, met.place};
    if (static_cast<int32_t>(met.chain->sets.size()) <= further) lengthen(*met.chain, further);
    return {met.chain->sets[further], met.chain->places[further]};
  }
  // Whether the chain holds for all tokens below a node, whose own string has so many characters.
  bool holds(const Met& met, const TokenTrie::Node& node, int32_t length);

 private:
  const Met& look(int32_t place);
  void find_loops(Met& met);
  void lengthen(Chain& chain, int32_t further);

  const TableTask& task_;
  TableBuilder& table_;
  const bool relative_, counter_;
  Kinds follow_kinds_ = 0;  // of the bytes that may follow
  Labels labels_;
  std::vector<Met> met_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::unordered_map<int32_t, Chain> chains_;
};

}  // namespace guided
