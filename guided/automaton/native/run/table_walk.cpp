#include "run/table_walk.hpp"

#include <span>
#include <vector>

#include "run/line_walk.hpp"
#include "run/table_builder.hpp"
#include "run/visited_points.hpp"

namespace guided {

namespace {

// One walk (see the head of table_walk.hpp). `run` chooses the way:
//   - the rule of substrings of a text: `walk_substrings`, without points;
//   - a sibling's table is nearly equal: `LineWalk::derive`;
//   - most characters loop near the start: `begin_at_loop` takes their tokens as a set;
//   - in all other cases, and after `begin_at_loop`: `visit` takes the tokens of a node and queues its children, unless
//     `take_subtree` can take all tokens below the node.
// `take_loop` takes the tokens of the classes that loop, and `continue_after_loop` queues the nodes at which other
// characters follow.
class TableWalk {
 public:
  explicit TableWalk(const TableTask& task)
      : task_(task), trie_(task_.trie()), table_(task_), points_(task_, table_), line_walk_(task_, points_, table_) {}

  std::shared_ptr<TokenTable> run(const SiblingTable* sibling) {
    if (is_substring_rule()) {
      walk_substrings();
      return table_.finish(false);
    }
    const int byte_count = points_.bytes(0).count();
    if (sibling && byte_count >= kManyReadBytes && line_walk_.derive(*sibling))
      return table_.finish(points_.only_positions());
    if (task_.source || byte_count < kManyReadBytes || !begin_at_loop()) visit({});
    // Walk the subtrees of the root's children one after the other, so that memory is read in order and the queue stays
    // short.
    std::vector<Item> root_items;
    root_items.swap(queue_);
    for (const Item& root_item : root_items) {
      queue_.assign(1, root_item);
      for (size_t head = 0; head < queue_.size() && !table_.overflow(); ++head) visit(queue_[head]);
    }
    return table_.finish(points_.only_positions());
  }

 private:
  static constexpr int64_t kVisitWork = 4;
  struct Item {
    int32_t node = 0, point = 0, depth = 0;
    // The length of the node's string in characters. kInsideCharacter instead of a length: only tokens that end
    // inside a character are left to be taken.
    int32_t length = 0;
    CharClasses char_classes = 0;  // the classes of the string's characters
  };
  static constexpr int32_t kInsideCharacter = -1;

  // ---- substrings of texts
  bool is_substring_rule() const {
    const Grammar& grammar = task_.arena.grammar();
    return !task_.source && grammar.rule_at(task_.thread.pos).substrings;
  }

  // In a rule without cycles, calls and actions, each byte leads from one position to another position, no character
  // loops, and no state of the arena is needed. The positions of a large document are not in the processor's caches, so
  // they are prefetched when they are queued.
  void walk_substrings() {
    const Grammar& grammar = task_.arena.grammar();
    const auto& nodes = trie_.nodes();
    const Ending ending{.set = table_.set_number({})};
    std::vector<Item> queue{{.point = task_.thread.pos}};
    for (size_t head = 0; head < queue.size(); ++head) {
      CallMeter::work(kVisitWork);
      const Item item = queue[head];
      const TokenTrie::Node& node = nodes[item.node];
      const Position& position = grammar.positions[item.point];
      if (!grammar.single || position.accept || position.boundary)
        table_.take(ending, node.payload_lo, node.payload_hi);
      if (position.accept && item.depth > 0)
        trie_.children(item.node, task_.follow, [&](int32_t child) {
          table_.leave(item.depth, nodes[child].payload_lo, nodes[child].subtree_hi);
        });
      trie_.children(item.node, position.bytes, [&](int32_t child) {
        const int32_t next_position = grammar.step(item.point, nodes[child].byte);
        __builtin_prefetch(&grammar.positions[next_position]);
        __builtin_prefetch(&grammar.positions[next_position].bytes);
        queue.push_back({.node = child, .point = next_position, .depth = item.depth + 1});
      });
    }
  }

  // ---- other rules
  void visit(const Item item) {
    CallMeter::work(kVisitWork);
    const TokenTrie::Node& node = trie_.nodes()[item.node];
    const bool is_inside_only = item.length == kInsideCharacter;
    if (!task_.source && item.depth > 0 && !is_inside_only && !node.is_inside_character &&
        node.subtree_hi - node.payload_lo > kFewTokens && take_subtree(item, node))
      return;
    table_.take(points_.look_up(item.point), node.payload_lo, node.payload_hi);
    if (node.children == 0) return;
    if (points_.look_up(item.point).can_exit && item.depth > 0)
      trie_.children(item.node, task_.follow, [&](int32_t child) { leave(child, item.point, item.depth); });
    const ByteSet readable = points_.bytes(item.point);  // a copy, because points are added below
    trie_.children(item.node, readable, [&](int32_t c) {
      const TokenTrie::Node& child = trie_.nodes()[c];
      if (is_inside_only && !child.is_inside_character) return;
      const int32_t next_point = points_.next(item.point, child.byte);
      if (next_point == WalkPoints::kNowhere) return;
      if (child.children == 0) {  // most children are leaves
        table_.take(points_.look_up(next_point), child.payload_lo, child.payload_hi);
        return;
      }
      const int32_t length = is_inside_only ? kInsideCharacter : item.length + begins_character(child.byte);
      queue_.push_back({c, next_point, item.depth + 1, length, item.char_classes | char_class_of(child.byte)});
    });
  }

  // Notes that the tokens at and below a node leave the frame before this node's byte.
  void leave(int32_t node, int32_t point, int32_t depth) {
    table_.leave(*points_.config(point), depth, trie_.nodes()[node].payload_lo, trie_.nodes()[node].subtree_hi);
  }

  // ---- short cuts
  // Takes all tokens below a node at once if their characters loop at the point, or if most of the tokens can be read.
  bool take_subtree(const Item& item, const TokenTrie::Node& node) {
    const VisitedPoints::PointInfo& info = points_.with_loops(item.point);
    if (node.classes_below & ~info.loops) {
      if (!line_walk_.is_sweep_worthwhile(item.node, item.point, info.loops))
        return (item.char_classes & ~info.loops) == 0 && take_loop(item, item.point);
      line_walk_.sweep(item.node, item.point, item.depth);
      return true;
    }
    if (!info.chain)
      table_.take(info, node.payload_lo, node.subtree_hi);
    else if (const VisitedPoints::PointInfo info_copy = info; points_.is_chain_intact(info_copy, node, item.length))
      take_by_chain(info_copy, node.payload_lo, node.subtree_hi, item.length);
    else
      return false;
    return true;
  }

  void take_by_chain(const VisitedPoints::PointInfo& info, int32_t from, int32_t to, int32_t length) {
    table_.note_touched_entries(info.touched_entries, from, to);
    for (int32_t i = from; i < to; ++i) take_linked(info, i, length);
  }

  // Takes a token whose first `length` characters lead to the loop and whose other characters loop.
  void take_linked(const VisitedPoints::PointInfo& info, int32_t payload, int32_t length) {
    table_.take_one(points_.link_after(info, trie_.lengths()[payload] - length).set, payload);
  }

  // Begins the walk if most characters lead from the start to a point at which they loop, which is often the start
  // itself. Returns false if there is no such point.
  bool begin_at_loop() {
    int32_t loop_point = 0;
    CharClasses char_classes = points_.with_loops(0).loops, leading_classes = char_classes;
    for (uint8_t byte : {'e', '0'}) {
      const int32_t next_point = char_classes == 0 ? points_.next(0, byte) : WalkPoints::kNowhere;
      if (next_point == WalkPoints::kNowhere) continue;
      loop_point = next_point;
      char_classes = points_.with_loops(loop_point).loops;
      leading_classes = points_.classes_leading(0, loop_point);
    }
    if (line_walk_.is_sweep_worthwhile(0, 0, char_classes)) {
      line_walk_.sweep(0, 0, 0);
      return true;
    }
    if (char_classes == 0) return false;
    const int32_t length = loop_point == 0 ? 0 : 1;
    if ((char_classes & ~leading_classes) == 0) return take_loop({.length = length}, loop_point);
    // Some characters of these classes lead elsewhere, so examine each child of the root.
    const bool is_set_taken = take_loop_set(loop_point, length);
    const TokenTrie::Node root = trie_.nodes()[0];
    for (int32_t c = root.first_child; c < root.first_child + root.children; ++c) {
      const TokenTrie::Node& child = trie_.nodes()[c];
      const uint8_t byte = child.byte;
      const int32_t next_point = points_.next(0, byte);
      const bool leads_to_loop = byte < 128 ? next_point == loop_point : (leading_classes & kNonAscii) != 0;
      const bool is_looping = (char_classes & char_class_of(byte)) != 0;
      if (next_point != WalkPoints::kNowhere && leads_to_loop && is_looping &&
          take_loop({.node = c, .length = length}, loop_point, is_set_taken))
        continue;
      if (is_set_taken && is_looping) table_.drop(child.payload_lo, child.subtree_hi);
      if (next_point != WalkPoints::kNowhere)
        queue_.push_back({c, next_point, 1, begins_character(byte), char_class_of(byte)});
    }
    return true;
  }

  // Takes all tokens that consist of the character classes that loop at a point, and returns true. Returns false without
  // taking any if there are no such tokens, or if the table could not drop single tokens of their set later.
  // `length`: the number of characters that lead to the loop.
  bool take_loop_set(int32_t loop_point, int32_t length) {
    const VisitedPoints::PointInfo info = points_.look_up(loop_point);
    if (task_.is_relative() != (info.chain != nullptr) || info.touched_entries > 0 || info.set < 0) return false;
    const auto* loop = points_.loop(0, info, true);
    if (!loop || loop->set->tokens.empty()) return false;
    if (info.chain)
      take_by_length(info, *loop->set, length);
    else
      table_.take_most(info.set, loop->set->tokens, {});
    return true;
  }

  // Takes the tokens of `set` along a chain: the length of a token determines which set of the table receives it. Only
  // for relative tables, in which every chain is intact.
  void take_by_length(const VisitedPoints::PointInfo& info, const ClassTokens& set, int32_t length) {
    set.each_length(trie_, [&](int32_t characters, std::span<const int32_t> ids) {
      if (characters >= length) table_.take_list(points_.link_after(info, characters - length).set, ids);
    });
  }

  // Takes the tokens below a node that consist of the classes that loop at a point, unless `is_set_taken`, and queues
  // the nodes at which other characters follow. The first `item.length` characters lead to the loop; until they are
  // read, the walk is at `item.point`.
  bool take_loop(const Item item, int32_t loop_point, bool is_set_taken = false) {
    CallMeter::work(kVisitWork);
    const TokenTrie::Node& node = trie_.nodes()[item.node];
    const VisitedPoints::PointInfo info = points_.look_up(loop_point);
    if (info.touched_entries > 1 || !points_.is_chain_intact(info, node, item.length)) return false;
    const auto* loop = points_.loop(item.point, info, node.subtree_hi - node.payload_lo > kManyTokens);
    if (!loop) return false;
    if (info.touched_entries > 0) table_.note_some_touched_entries();
    if (!is_set_taken && item.node == 0 && !info.chain)
      table_.take_most(info.set, loop->set->tokens, loop->set->ids);
    else if (!is_set_taken && item.node == 0 && task_.is_relative() && info.touched_entries == 0)
      take_by_length(info, *loop->set, item.length);
    else if (!is_set_taken)
      loop->set->each_token(node.payload_lo, node.subtree_hi, [&](int32_t i) { take_linked(info, i, item.length); });
    for (const uint8_t byte : loop->edges) continue_after_loop(byte, item, info, *loop->set);
    return true;
  }

  // Queues the nodes at which this byte follows a string of the character classes that loop.
  void continue_after_loop(uint8_t byte, const Item& item, const VisitedPoints::PointInfo& info,
                           const ClassTokens& set) {
    const bool may_leave = info.can_exit && task_.follow.has(byte);
    const bool is_inside_only = byte >= 128 && (info.loops & kNonAscii);
    set.each_edge(trie_, trie_.nodes()[item.node], byte, [&](const ClassTokens::Edge& edge) {
      if (edge.depth < item.depth) return;
      const bool is_before_loop = edge.length < item.length;
      const int32_t point = is_before_loop ? item.point : points_.link_after(info, edge.length - item.length).point;
      if (point == WalkPoints::kNowhere) return;
      if (may_leave && !is_before_loop && edge.depth > 0) leave(edge.node, point, edge.depth);
      const int32_t next_point = points_.next(point, byte);
      if (next_point == WalkPoints::kNowhere) return;
      const int32_t length = is_inside_only ? kInsideCharacter : edge.length + begins_character(byte);
      queue_.push_back({edge.node, next_point, edge.depth + 1, length, info.loops | char_class_of(byte)});
    });
  }

  const TableTask task_;
  const TokenTrie& trie_;
  TableBuilder table_;
  VisitedPoints points_;
  LineWalk line_walk_;
  std::vector<Item> queue_;
};

}  // namespace

std::shared_ptr<TokenTable> build_token_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                              const ByteSet& follow, FreeRuns& runs, const SiblingTable* sibling) {
  return TableWalk({arena, vocabulary, thread, follow, &runs}).run(sibling);
}

std::shared_ptr<TokenTable> build_remainder_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                                  const ByteSet& follow, const TokenTable& source) {
  return TableWalk({arena, vocabulary, thread, follow, nullptr, &source}).run(nullptr);
}

}  // namespace guided
