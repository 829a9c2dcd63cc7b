#include "choose_row.hpp"

#include <algorithm>
#include <cmath>

namespace guided {
namespace {

constexpr int64_t kFirstLook = 256;                            // the most likely tokens; top-p rarely needs more
constexpr float kColdest = std::numeric_limits<float>::min();  // a lower temperature's inverse could be infinite
constexpr float kLowest = -87.0F;                              // below this, e ** x counts as 0

// Buffers of a thread, kept for its next row.
struct Workspace {
  std::vector<float> row;
  std::vector<uint32_t> bits;
  std::vector<double> blocks;
  std::vector<Entry> entries;
};

Workspace& workspace() {
  static thread_local Workspace own;
  return own;
}

int64_t words_of(int64_t size) { return (size + 31) / 32; }

bool is_set(const uint32_t* bits, int64_t id) { return (bits[id / 32] >> (id % 32) & 1U) != 0; }

void clear(std::vector<uint32_t>& bits, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) bits[static_cast<size_t>(id / 32)] &= ~(1U << (id % 32));
}

// Computes the probability that the mask leaves, and how much of it the budget and its ramp remove.
void count_removed(const Choice& choice, const Logits& logits, Chosen& out) {
  const int64_t behind = choice.width - choice.size;
  const uint32_t* specified = choice.unbudgeted == nullptr ? choice.allowed : choice.unbudgeted;
  const LogMasses masses = log_masses({choice.logits, choice.size, specified}, behind);
  out.mass = masses.all;
  double after = masses.kept;
  if (choice.unbudgeted != nullptr || choice.ramped != nullptr) {
    after = log_masses(logits, 0).kept;
    out.by_budget = std::max(0.0, std::exp(masses.kept - masses.all) - std::exp(after - masses.all));
  }
  out.removed = std::max(0.0, masses.all - after);
}

bool is_empty(const Logits& logits) {
  const Best best = best_logit(logits);
  return best.is_number && best.logit == kNothing;
}

// Removes the tokens that the request bans from the bits.
Refusal ban(const Changes& changes, Logits& logits, std::vector<uint32_t>& bits) {
  if (changes.permitted == nullptr && changes.banned.empty() && changes.ends.empty()) return Refusal::kNone;
  const auto words = static_cast<size_t>(words_of(logits.size));
  bits.assign(logits.bits, logits.bits + words);
  logits.bits = bits.data();
  if (changes.permitted != nullptr)
    for (size_t i = 0; i < words; ++i) bits[i] &= changes.permitted[i];
  clear(bits, changes.banned);
  if (is_empty(logits)) return Refusal::kAllBanned;
  std::vector<int32_t> removed;
  for (const int32_t id : changes.ends)
    if (is_set(logits.bits, id)) removed.push_back(id);
  clear(bits, removed);
  if (!removed.empty() && is_empty(logits))
    for (const int32_t id : removed) bits[static_cast<size_t>(id / 32)] |= 1U << (id % 32);
  return Refusal::kNone;
}

void change_values(const Changes& changes, float* row) {
  for (int64_t i = 0; i < changes.biases; ++i) row[changes.biased[i]] += changes.bias[i];
  for (int64_t i = 0; i < changes.seen_count; ++i) {
    float& x = row[changes.seen[i]];
    x = x > 0 ? x / changes.repetition : x * changes.repetition;
    if (changes.counts[i] > 0) x -= changes.frequency * changes.counts[i] + changes.presence;
  }
}

double sum_of(const std::vector<Entry>& weights, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += static_cast<double>(weights[i].number);
  return sum;
}

// The number of greatest weights, among the first `size`, that are needed to reach a sum, or to exceed it. They are
// moved to the front, the smallest of them last. Only the neighbours of this position are sorted: O(size).
size_t count_to(std::vector<Entry>& weights, size_t size, double target, bool exceed) {
  const auto is_there = [&](double sum) { return exceed ? sum > target : sum >= target; };
  const auto at = [&](size_t i) { return weights.begin() + static_cast<std::ptrdiff_t>(i); };
  size_t begin = 0, end = size;
  double before = 0;
  while (end - begin > static_cast<size_t>(kFirstLook)) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(at(begin), at(middle), at(end), is_greater);
    double sum = before;
    for (size_t i = begin; i < middle; ++i) sum += static_cast<double>(weights[i].number);
    if (is_there(sum)) {
      end = middle;
    } else {
      begin = middle;
      before = sum;
    }
  }
  std::sort(at(begin), at(end), is_greater);
  for (size_t i = begin; i < end; ++i)
    if (is_there(before += static_cast<double>(weights[i].number))) return i + 1;
  return end;
}

// Draws a token at the temperature, after min-p, top-k and top-p.
int64_t draw(const Choice& choice, const Logits& logits, const Best& best, Workspace& own) {
  const float scale = 1 / std::max(static_cast<float>(choice.temperature), kColdest);
  const Weighting weighting{best.logit, scale, std::max(kLowest, std::log(static_cast<float>(choice.min_p)))};
  const bool few = choice.top_k > 0 && choice.top_k < choice.size, cut = choice.top_p < 1;
  const double all = few ? 0 : weigh(logits, weighting, own.blocks);
  if (!few && !cut) {
    const int64_t found = find_weight(logits, weighting, own.blocks, choice.uniform * all);
    return found < 0 ? best.id : found;
  }
  std::vector<Entry>& weights = own.entries;
  double sum = 0;
  for (const int64_t count : {few ? choice.top_k : kFirstLook, 16 * kFirstLook, choice.size}) {
    greatest_logits(logits, count, weights);
    for (Entry& entry : weights) entry.number = weight_of(entry.number, weighting);
    sum = sum_of(weights, weights.size());
    if (few || sum >= choice.top_p * all) break;
  }
  const size_t kept = cut ? count_to(weights, weights.size(), choice.top_p * (few ? sum : all), false) : weights.size();
  size_t last = count_to(weights, kept, choice.uniform * sum_of(weights, kept), true) - 1;
  while (last > 0 && weights[last].number == 0) --last;  // rounding kept the sum below its target
  return weights[last].id;
}

// The model's probability of the token, and the token that the model prefers. If the token alone is more likely than
// everything that the mask removed, no removed token is the most likely one, and the row need not be read again.
void compare(const Choice& choice, std::vector<uint32_t>& everything, Chosen& out) {
  out.by_model = static_cast<double>(choice.logits[out.token]) - out.mass;
  if (std::exp(out.by_model) > -1.001 * std::expm1(-out.removed) + 1e-9) return;
  everything.assign(static_cast<size_t>(words_of(choice.size)), ~0U);
  const Best best = best_logit({choice.logits, choice.size, everything.data()});
  if (!is_set(choice.allowed, best.id)) out.preferred = best.id;
}

void score(const Choice& choice, const Logits& logits, double mass, Chosen& out) {
  out.mass = mass;
  out.logprob = static_cast<double>(logits.row[out.token]) - mass;
  greatest_logits(logits, choice.scores, out.top);
  std::sort(out.top.begin(), out.top.end(), is_greater);
}

}  // namespace

Chosen choose_row(const Choice& choice) {
  Workspace& own = workspace();
  Chosen out;
  std::vector<uint32_t> everything;
  const bool masked = choice.allowed != nullptr, raw = choice.scores >= 0 && choice.raw_scores;
  if (!masked || raw) everything.assign(static_cast<size_t>(words_of(choice.size)), ~0U);
  const Logits model{choice.logits, choice.size, everything.data()};
  Logits logits{choice.logits, choice.size, masked ? choice.allowed : everything.data()};
  const auto copy = [&] {
    if (logits.row == choice.logits) own.row.assign(choice.logits, choice.logits + choice.size);
    logits.row = own.row.data();
  };
  if (choice.ramped != nullptr) {
    copy();
    for (int64_t id = 0; id < choice.size; ++id)
      if (is_set(choice.ramped, id)) own.row[static_cast<size_t>(id)] -= choice.ramp;
  }
  if (masked) count_removed(choice, logits, out);
  Best best = best_logit(logits);
  if (choice.changes && !(best.is_number && best.logit == kNothing)) {
    const Changes& changes = *choice.changes;
    out.refusal = ban(changes, logits, own.bits);
    if (out.refusal != Refusal::kNone) return out;
    if (changes.biases > 0 || changes.seen_count > 0) {
      copy();
      change_values(changes, own.row.data());
    }
    best = best_logit(logits);
  }
  if (!best.is_number || !std::isfinite(best.logit)) {
    out.refusal = Refusal::kNoNumber;
    out.highest = best.is_number ? best.logit : std::nan("");
    return out;
  }
  out.token = choice.temperature == 0 ? best.id : draw(choice, logits, best, own);
  if (masked) compare(choice, everything, out);
  if (raw)
    score(choice, model, masked ? out.mass : log_masses(model, choice.width - choice.size).all, out);
  else if (choice.scores >= 0)
    score(choice, logits, std::max<double>(log_masses(logits, 0).kept, best.logit), out);  // no probability is above 1
  return out;
}

}  // namespace guided
