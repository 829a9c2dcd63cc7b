#include "run/table_walk.hpp"

#include <span>
#include <vector>

#include "run/line_walk.hpp"
#include "run/table_builder.hpp"
#include "run/visited_points.hpp"

namespace guided {

namespace {

class TableWalk {
 public:
  explicit TableWalk(const TableTask& task)
      : task_(task), trie_(task_.trie()), table_(task_), points_(task_, table_), lines_(task_, points_, table_) {}

  std::shared_ptr<TokenTable> run(const OtherTable* other) {
    if (is_of_substrings()) {
      follow_positions();
      return table_.finish(false);
    }
    const int reads = points_.bytes(0).count();
    if (other && reads >= kManyReadBytes && lines_.differ(*other)) return table_.finish(points_.only_positions());
    if (task_.left || reads < kManyReadBytes || !begin_in_loop()) visit({});
    // Walk the items of one root child after the other: memory is read in order, and the queue stays short.
    std::vector<Item> begun;
    begun.swap(queue_);
    for (const Item& first : begun) {
      queue_.assign(1, first);
      for (size_t head = 0; head < queue_.size() && !table_.overflow(); ++head) visit(queue_[head]);
    }
    return table_.finish(points_.only_positions());
  }

 private:
  static constexpr int64_t kVisitWork = 4;
  struct Item {
    int32_t node = 0, point = 0, depth = 0;
    // Of the node's string, in characters; kInsideOnly: tokens that end between characters are already taken.
    int32_t length = 0;
    CharClasses char_classes = 0;  // of which the string consists
  };
  static constexpr int32_t kInsideOnly = -1;

  // ---- substrings of texts
  bool is_of_substrings() const {
    const Grammar& grammar = task_.arena.grammar();
    return !task_.left && grammar.rule_at(task_.thread.pos).substrings;
  }

  // In a rule without cycles, calls and actions, each byte leads from one position to another, no character loops, and
  // no state of the arena is needed. The positions of a large document are not in the processor's caches, so they are
  // fetched when they are queued.
  void follow_positions() {
    const Grammar& grammar = task_.arena.grammar();
    const auto& nodes = trie_.nodes();
    const Ending ending{.set = table_.set_of({})};
    std::vector<Item> queue{{.point = task_.thread.pos}};
    for (size_t head = 0; head < queue.size(); ++head) {
      CallMeter::work(kVisitWork);
      const Item item = queue[head];
      const TokenTrie::Node& node = nodes[item.node];
      const Position& at = grammar.positions[item.point];
      if (!grammar.single || at.accept || at.boundary) table_.take(ending, node.payload_lo, node.payload_hi);
      if (at.accept && item.depth > 0)
        trie_.children(item.node, task_.follow, [&](int32_t child) {
          table_.leave(item.depth, nodes[child].payload_lo, nodes[child].subtree_hi);
        });
      trie_.children(item.node, at.bytes, [&](int32_t child) {
        const int32_t to = grammar.step(item.point, nodes[child].byte);
        __builtin_prefetch(&grammar.positions[to]);
        __builtin_prefetch(&grammar.positions[to].bytes);
        queue.push_back({.node = child, .point = to, .depth = item.depth + 1});
      });
    }
  }

  // ---- other rules
  void visit(const Item item) {
    CallMeter::work(kVisitWork);
    const TokenTrie::Node& node = trie_.nodes()[item.node];
    const bool inside_only = item.length == kInsideOnly;
    if (!task_.left && item.depth > 0 && !inside_only && !node.inside &&
        node.subtree_hi - node.payload_lo > kFewTokens && take_subtree(item, node))
      return;
    table_.take(points_.look_up(item.point), node.payload_lo, node.payload_hi);
    if (node.children == 0) return;
    if (points_.look_up(item.point).exits && item.depth > 0)
      trie_.children(item.node, task_.follow, [&](int32_t child) { leave(child, item.point, item.depth); });
    const ByteSet readable = points_.bytes(item.point);  // a copy, because points are added below
    trie_.children(item.node, readable, [&](int32_t c) {
      const TokenTrie::Node& child = trie_.nodes()[c];
      if (inside_only && !child.inside) return;
      const int32_t after = points_.next(item.point, child.byte);
      if (after == WalkPoints::kNowhere) return;
      if (child.children == 0) {  // most children are leaves
        table_.take(points_.look_up(after), child.payload_lo, child.payload_hi);
        return;
      }
      const int32_t length = inside_only ? kInsideOnly : item.length + begins_character(child.byte);
      queue_.push_back({c, after, item.depth + 1, length, item.char_classes | char_class_of(child.byte)});
    });
  }

  // Notes the tokens below a node, which leave the frame before this node's byte.
  void leave(int32_t node, int32_t point, int32_t depth) {
    table_.leave(*points_.config(point), depth, trie_.nodes()[node].payload_lo, trie_.nodes()[node].subtree_hi);
  }

  // ---- short cuts
  // Takes all tokens below a node at once, if their characters loop in the point or most can be read.
  bool take_subtree(const Item& item, const TokenTrie::Node& node) {
    const VisitedPoints::PointInfo& info = points_.with_loops(item.point);
    if (node.below & ~info.loops) {
      if (!lines_.leads_everywhere(item.node, item.point, info.loops))
        return (item.char_classes & ~info.loops) == 0 && take_loop(item, item.point);
      lines_.sweep(item.node, item.point, item.depth);
      return true;
    }
    if (!info.chain)
      table_.take(info, node.payload_lo, node.subtree_hi);
    else if (const VisitedPoints::PointInfo chained = info; points_.holds(chained, node, item.length))
      take_counting(chained, node.payload_lo, node.subtree_hi, item.length);
    else
      return false;
    return true;
  }

  void take_counting(const VisitedPoints::PointInfo& info, int32_t from, int32_t to, int32_t length) {
    table_.note_entries(info.touched, from, to);
    for (int32_t i = from; i < to; ++i) take_linked(info, i, length);
  }

  // Takes a token whose first `length` characters lead to the loop, and whose other characters loop.
  void take_linked(const VisitedPoints::PointInfo& info, int32_t payload, int32_t length) {
    table_.take_one(points_.link(info, trie_.lengths()[payload] - length).set, payload);
  }

  // For starts from which most characters lead to a point in which they loop (often the start itself).
  bool begin_in_loop() {
    int32_t loop = 0;
    CharClasses char_classes = points_.with_loops(0).loops, led = char_classes;
    for (uint8_t byte : {'e', '0'}) {
      const int32_t after = char_classes == 0 ? points_.next(0, byte) : WalkPoints::kNowhere;
      if (after == WalkPoints::kNowhere) continue;
      loop = after;
      char_classes = points_.with_loops(loop).loops;
      led = points_.leading(0, loop);
    }
    if (lines_.leads_everywhere(0, 0, char_classes)) {
      lines_.sweep(0, 0, 0);
      return true;
    }
    if (char_classes == 0) return false;
    const int32_t length = loop == 0 ? 0 : 1;
    if ((char_classes & ~led) == 0) return take_loop({.length = length}, loop);
    // Some characters of these character classes lead elsewhere: examine one child of the root after the other.
    const bool taken = take_all_of(loop, length);
    const TokenTrie::Node root = trie_.nodes()[0];
    for (int32_t c = root.first_child; c < root.first_child + root.children; ++c) {
      const TokenTrie::Node& child = trie_.nodes()[c];
      const uint8_t byte = child.byte;
      const int32_t after = points_.next(0, byte);
      const bool leads = byte < 128 ? after == loop : (led & kWholeCharacters) != 0;
      const bool loops = (char_classes & char_class_of(byte)) != 0;
      if (after != WalkPoints::kNowhere && leads && loops && take_loop({.node = c, .length = length}, loop, taken))
        continue;
      if (taken && loops) table_.drop(child.payload_lo, child.subtree_hi);
      if (after != WalkPoints::kNowhere) queue_.push_back({c, after, 1, begins_character(byte), char_class_of(byte)});
    }
    return true;
  }

  // Takes all tokens that consist of the character classes that loop in a point, if single ones can be dropped later.
  // `length`: of the characters that lead to the loop.
  bool take_all_of(int32_t place_of_loop, int32_t length) {
    const VisitedPoints::PointInfo info = points_.look_up(place_of_loop);
    if (task_.relative() != (info.chain != nullptr) || info.touched > 0 || info.set < 0) return false;
    const auto* loop = points_.loop(0, info, true);
    if (!loop || loop->set->tokens.empty()) return false;
    if (info.chain)
      take_by_length(info, *loop->set, length);
    else
      table_.take_all(info.set, loop->set->tokens, {});
    return true;
  }

  // The same for all tokens in a relative table, in which every chain holds.
  void take_by_length(const VisitedPoints::PointInfo& info, const ClassTokens& set, int32_t length) {
    set.each_length(trie_, [&](int32_t characters, std::span<const int32_t> ids) {
      if (characters >= length) table_.take_list(points_.link(info, characters - length).set, ids);
    });
  }

  // Takes the tokens below a node that consist of the classes that loop in a point, unless `taken`, and queues the
  // nodes where others begin. `at.length` characters lead to the loop; before them, the walk is in `at.point`.
  bool take_loop(const Item at, int32_t place_of_loop, bool taken = false) {
    CallMeter::work(kVisitWork);
    const TokenTrie::Node& node = trie_.nodes()[at.node];
    const VisitedPoints::PointInfo info = points_.look_up(place_of_loop);
    if (info.touched > 1 || !points_.holds(info, node, at.length)) return false;
    const auto* loop = points_.loop(at.point, info, node.subtree_hi - node.payload_lo > kManyTokens);
    if (!loop) return false;
    if (info.touched > 0) table_.note_some_entries();
    if (!taken && at.node == 0 && !info.chain)
      table_.take_all(info.set, loop->set->tokens, loop->set->ids);
    else if (!taken && at.node == 0 && task_.relative() && info.touched == 0)
      take_by_length(info, *loop->set, at.length);
    else if (!taken)
      loop->set->each_token(node.payload_lo, node.subtree_hi, [&](int32_t i) { take_linked(info, i, at.length); });
    for (const uint8_t byte : loop->edges) go_on_at(byte, at, info, *loop->set);
    return true;
  }

  // Queues the nodes at which this byte follows strings of the character classes that loop.
  void go_on_at(uint8_t byte, const Item& at, const VisitedPoints::PointInfo& info, const ClassTokens& set) {
    const bool leaves = info.exits && task_.follow.has(byte);
    const bool inside_only = byte >= 128 && (info.loops & kWholeCharacters);
    set.each_edge(trie_, trie_.nodes()[at.node], byte, [&](const ClassTokens::Edge& edge) {
      if (edge.depth < at.depth) return;
      const bool before = edge.length < at.length;
      const int32_t point = before ? at.point : points_.link(info, edge.length - at.length).point;
      if (point == WalkPoints::kNowhere) return;
      if (leaves && !before && edge.depth > 0) leave(edge.node, point, edge.depth);
      const int32_t after = points_.next(point, byte);
      if (after == WalkPoints::kNowhere) return;
      const int32_t length = inside_only ? kInsideOnly : edge.length + begins_character(byte);
      queue_.push_back({edge.node, after, edge.depth + 1, length, info.loops | char_class_of(byte)});
    });
  }

  const TableTask task_;
  const TokenTrie& trie_;
  TableBuilder table_;
  VisitedPoints points_;
  LineWalk lines_;
  std::vector<Item> queue_;
};

}  // namespace

std::shared_ptr<TokenTable> build_token_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                              const ByteSet& follow, FreeRuns& runs, const OtherTable* other) {
  return TableWalk({arena, vocabulary, thread, follow, &runs}).run(other);
}

std::shared_ptr<TokenTable> build_remainder_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                                  const ByteSet& follow, const TokenTable& left) {
  return TableWalk({arena, vocabulary, thread, follow, nullptr, &left}).run(nullptr);
}

}  // namespace guided
