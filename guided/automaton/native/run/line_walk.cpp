#include "run/line_walk.hpp"

#include <algorithm>
#include <utility>

namespace guided {

namespace {
// A table is not derived from another one if the two differ in at least this many lines.
constexpr int32_t kMaxDifferentLines = 6000;
// A sweep may be worthwhile if more than 1 / kMinOtherShareReciprocal of the tokens contain characters that the point reads but
// that do not loop.
constexpr int64_t kMinOtherShareReciprocal = 8;
constexpr int32_t kMinLongRun = 8;  // characters
constexpr size_t kUsualDepth = 64;  // bytes of a token; few tokens are longer
}  // namespace

int64_t LineWalk::count_tokens_with(CharClasses char_classes) const {
  int64_t tokens = 0;
  for (CharClasses k = char_classes; k; k &= k - 1)
    tokens += trie_.string_counts()[static_cast<size_t>(__builtin_ctzll(k))];
  return tokens;
}

bool LineWalk::is_sweep_worthwhile(int32_t node, int32_t point, CharClasses loops) {
  const TokenTrie::Node& n = trie_.nodes()[node];
  const ByteSet& bytes = points_.bytes(point);
  if (n.subtree_hi - n.payload_lo < kManyTokens || bytes.count() < kManyReadBytes) return false;
  const auto token_count = static_cast<int64_t>(trie_.payloads().size());
  if (count_tokens_with(~loops) * 2 > token_count) return true;
  CharClasses readable = 0;
  for (int b = 0; b < 256; ++b)
    if (bytes.has(static_cast<uint8_t>(b))) readable |= char_class_of(static_cast<uint8_t>(b));
  return count_tokens_with(readable & ~loops) * kMinOtherShareReciprocal > token_count &&
         free_run(point) >= kMinLongRun;
}

FreeRuns::Runs* LineWalk::runs() {
  if (!has_searched_runs_ && task_.runs && !task_.is_relative())
    runs_ = task_.runs->find(task_.thread.pos, points_.follow_classes());
  has_searched_runs_ = true;
  return runs_;
}

void LineWalk::sweep(int32_t node, int32_t start, int32_t start_depth) {
  struct PathPoint {  // what the walk needs to know about its point at one depth
    int32_t point = WalkPoints::kNowhere;
    Ending ending;
    const int32_t* row = nullptr;
    bool can_exit = false;
    int32_t free_run = -1;
  };
  const auto& lines = trie_.lines();
  const int32_t first = trie_.line_of(node), end = lines[first].skip, top_depth = lines[first].depth;
  auto set_point = [&](PathPoint& path_point, int32_t point) {
    const VisitedPoints::PointInfo& info = points_.look_up(point);
    path_point = {point, info, points_.row(point), info.can_exit, free_run(point)};
  };
  std::vector<PathPoint> path(kUsualDepth);
  set_point(path[0], start);
  table_.take(path[0].ending, lines[first].payload_lo, lines[first + 1].payload_lo);
  for (int32_t i = first + 1; i < end;) {
    const TokenTrie::Line& line = lines[i];
    const auto depth = static_cast<size_t>(line.depth - top_depth);
    const PathPoint& from = path[depth - 1];
    const int32_t depth_before = start_depth + static_cast<int32_t>(depth) - 1;
    if (from.can_exit && depth_before > 0 && follow_.has(line.byte))
      table_.leave(*points_.config(from.point), depth_before, line.payload_lo, lines[line.skip].payload_lo);
    int32_t point = from.row ? from.row[line.byte] : WalkPoints::kNotYet;
    if (point == WalkPoints::kNotYet) point = step(from.point, line.byte);
    if (point == WalkPoints::kNowhere) {
      i = line.skip;
      continue;
    }
    if (depth >= path.size()) path.resize(depth * 2);
    if (path[depth].point != point) set_point(path[depth], point);
    if (line.max_length_below <= path[depth].free_run && (trie_.classes_below(i) & ~runs_->char_classes()) == 0)
      i = line.skip;
    else
      ++i;
    table_.take(path[depth].ending, line.payload_lo, lines[i].payload_lo);
  }
}

int32_t LineWalk::free_run(int32_t point) {
  if (!runs()) return -1;
  if (static_cast<size_t>(point) >= free_runs_.size())
    free_runs_.resize(static_cast<size_t>(point) * 2 + 64, kNotComputed);
  int32_t& run = free_runs_[static_cast<size_t>(point)];
  if (run == kNotComputed) {
    const int32_t position = points_.position_of(point);
    run = position < 0 ? -1 : runs()->longest_run(position);
  }
  return run;
}

bool LineWalk::derive(const SiblingTable& other) {
  const auto& lines = trie_.lines();
  const int32_t end = lines[0].skip;
  int32_t lines_left = kMaxDifferentLines;
  std::vector<SharedPayloads> shared_payloads;
  table_.take_most(table_.set_number({}), other.table->staying.dense, {});
  std::vector<std::pair<int32_t, int32_t>> pairs(kUsualDepth);  // by depth: the points of the two walks
  pairs[0] = {0, points_.position(other.pos)};
  for (int32_t i = 1; i < end;) {
    const TokenTrie::Line line = lines[i];
    const auto [from, other_from] = pairs[line.depth - 1];
    const int32_t subtree_end = lines[line.skip].payload_lo;
    if (line.depth > 1 && from != WalkPoints::kNowhere && points_.look_up(from).can_exit && follow_.has(line.byte))
      table_.leave(*points_.config(from), line.depth - 1, line.payload_lo, subtree_end);
    const int32_t to = step(from, line.byte), other_to = step(other_from, line.byte);
    if (to == other_to || to == WalkPoints::kNowhere) {
      if (to == other_to)
        shared_payloads.push_back({line.payload_lo, subtree_end, line.depth});
      else
        table_.drop(line.payload_lo, subtree_end);
      i = line.skip;
      continue;
    }
    if (--lines_left == 0) {
      table_.restart();
      return false;
    }
    if (subtree_end - line.payload_lo > kFewTokens && points_agree(to, other_to, trie_.classes_below(i))) {
      shared_payloads.push_back({line.payload_lo, subtree_end, line.depth});
      i = line.skip;
      continue;
    }
    if (line.depth >= pairs.size()) pairs.resize(line.depth * 2);
    pairs[line.depth] = {to, other_to};
    ++i;
    table_.drop(line.payload_lo, lines[i].payload_lo);
    table_.take(points_.look_up(to), line.payload_lo, lines[i].payload_lo);
  }
  copy_remainders(*other.table, shared_payloads);
  return true;
}

// Copies the remainders of the tokens below shared lines, at which both walks are at the same point or at points that
// agree.
void LineWalk::copy_remainders(const TokenTable& other, const std::vector<SharedPayloads>& shared_payloads) {
  for (const Remainder& r : other.entries) {
    const int32_t payload = trie_.payload_index(r.token);
    auto it = std::upper_bound(shared_payloads.begin(), shared_payloads.end(), payload,
                               [](int32_t p, const SharedPayloads& s) { return p < s.from; });
    if (it != shared_payloads.begin() && payload < (--it)->to && it->depth <= r.depth) table_.leave_as(r);
  }
}

// Whether all these character classes loop at both points, and the points put tokens into the same set and either both
// or neither can exit.
bool LineWalk::points_agree(int32_t point, int32_t other, CharClasses char_classes) {
  if (other == WalkPoints::kNowhere || (char_classes & ~points_.with_loops(point).loops) ||
      (char_classes & ~points_.with_loops(other).loops))
    return false;
  const VisitedPoints::PointInfo &info = points_.look_up(point), &other_info = points_.look_up(other);
  return !info.chain && !other_info.chain && info.set == other_info.set && info.can_exit == other_info.can_exit;
}

}  // namespace guided
