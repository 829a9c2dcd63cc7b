#include "choose_row.hpp"

#include <algorithm>
#include <cmath>

namespace guided {
namespace {

constexpr int64_t kFirstLook = 256;  // the number of most likely tokens to sort first; top-p rarely needs more
// The inverse of a lower temperature could be infinite.
constexpr float kMinTemperature = std::numeric_limits<float>::min();
constexpr float kMinExponent = -87.0F;  // below this, e ** x counts as 0

// The buffers of a thread, which it reuses for its next row.
struct Workspace {
  std::vector<float> row;
  std::vector<uint32_t> bits;
  std::vector<double> blocks;
  std::vector<Entry> entries;
};

Workspace& thread_workspace() {
  static thread_local Workspace workspace;
  return workspace;
}

int64_t count_words(int64_t size) { return (size + 31) / 32; }

bool is_set(const uint32_t* bits, int64_t id) { return (bits[id / 32] >> (id % 32) & 1U) != 0; }

void clear(std::vector<uint32_t>& bits, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) bits[static_cast<size_t>(id / 32)] &= ~(1U << (id % 32));
}

// Computes the probability mass that the mask removes, and how much of it the budget and its ramp remove.
void measure_removed_mass(const Choice& choice, const Logits& logits, ChosenToken& out) {
  const int64_t extra_count = choice.width - choice.size;
  const uint32_t* specified = choice.unbudgeted == nullptr ? choice.allowed : choice.unbudgeted;
  const LogMasses masses = log_masses({choice.logits, choice.size, specified}, extra_count);
  out.mass = masses.all;
  double allowed_mass = masses.allowed;
  if (choice.unbudgeted != nullptr || choice.ramped != nullptr) {
    allowed_mass = log_masses(logits, 0).allowed;
    out.budget_mass = std::max(0.0, std::exp(masses.allowed - masses.all) - std::exp(allowed_mass - masses.all));
  }
  out.removed_log_mass = std::max(0.0, masses.all - allowed_mass);
}

bool is_empty(const Logits& logits) {
  const Best best = best_logit(logits);
  return best.is_number && best.logit == kNothing;
}

// Clears the bits of the tokens that the request bans.
Refusal ban(const Changes& changes, Logits& logits, std::vector<uint32_t>& bits) {
  if (changes.permitted == nullptr && changes.banned.empty() && changes.ends.empty()) return Refusal::kNone;
  const auto words = static_cast<size_t>(count_words(logits.size));
  bits.assign(logits.bits, logits.bits + words);
  logits.bits = bits.data();
  if (changes.permitted != nullptr)
    for (size_t i = 0; i < words; ++i) bits[i] &= changes.permitted[i];
  clear(bits, changes.banned);
  if (is_empty(logits)) return Refusal::kAllBanned;
  std::vector<int32_t> allowed_ends;
  for (const int32_t id : changes.ends)
    if (is_set(logits.bits, id)) allowed_ends.push_back(id);
  clear(bits, allowed_ends);
  if (!allowed_ends.empty() && is_empty(logits))
    for (const int32_t id : allowed_ends) bits[static_cast<size_t>(id / 32)] |= 1U << (id % 32);
  return Refusal::kNone;
}

void change_values(const Changes& changes, float* row) {
  for (int64_t i = 0; i < changes.bias_count; ++i) row[changes.biased[i]] += changes.bias[i];
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

// How many of the greatest weights among the first `size` are needed for a sum that reaches `target` (or exceeds it, if
// `must_exceed`). These weights are moved to the front, the smallest of them last. Only the weights around that position
// are sorted, so the cost is O(size).
size_t count_to_reach(std::vector<Entry>& weights, size_t size, double target, bool must_exceed) {
  const auto has_reached = [&](double sum) { return must_exceed ? sum > target : sum >= target; };
  const auto iterator_at = [&](size_t i) { return weights.begin() + static_cast<std::ptrdiff_t>(i); };
  size_t begin = 0, end = size;
  double sum_before = 0;
  while (end - begin > static_cast<size_t>(kFirstLook)) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(iterator_at(begin), iterator_at(middle), iterator_at(end), is_greater);
    double sum = sum_before;
    for (size_t i = begin; i < middle; ++i) sum += static_cast<double>(weights[i].number);
    if (has_reached(sum)) {
      end = middle;
    } else {
      begin = middle;
      sum_before = sum;
    }
  }
  std::sort(iterator_at(begin), iterator_at(end), is_greater);
  for (size_t i = begin; i < end; ++i)
    if (has_reached(sum_before += static_cast<double>(weights[i].number))) return i + 1;
  return end;
}

// Draws a token at the choice's temperature, after min-p, top-k and top-p.
int64_t draw(const Choice& choice, const Logits& logits, const Best& best, Workspace& workspace) {
  const float scale = 1 / std::max(static_cast<float>(choice.temperature), kMinTemperature);
  const Weighting weighting{best.logit, scale, std::max(kMinExponent, std::log(static_cast<float>(choice.min_p)))};
  const bool has_top_k = choice.top_k > 0 && choice.top_k < choice.size, has_top_p = choice.top_p < 1;
  const double all = has_top_k ? 0 : weigh(logits, weighting, workspace.blocks);
  if (!has_top_k && !has_top_p) {
    const int64_t id = find_weight(logits, weighting, workspace.blocks, choice.uniform * all);
    return id < 0 ? best.id : id;
  }
  std::vector<Entry>& weights = workspace.entries;
  double sum = 0;
  for (const int64_t count : {has_top_k ? choice.top_k : kFirstLook, 16 * kFirstLook, choice.size}) {
    greatest_logits(logits, count, weights);
    for (Entry& entry : weights) entry.number = weight_of(entry.number, weighting);
    sum = sum_of(weights, weights.size());
    if (has_top_k || sum >= choice.top_p * all) break;
  }
  const size_t kept_count = has_top_p
                                ? count_to_reach(weights, weights.size(), choice.top_p * (has_top_k ? sum : all), false)
                                : weights.size();
  size_t last = count_to_reach(weights, kept_count, choice.uniform * sum_of(weights, kept_count), true) - 1;
  while (last > 0 && weights[last].number == 0) --last;  // rounding kept the sum below its target
  return weights[last].id;
}

// Computes the model's probability of the token, and the token that the model prefers. If the chosen token is more
// likely than all removed tokens together, no removed token is the most likely one, and the row need not be read again.
void compare_with_model(const Choice& choice, std::vector<uint32_t>& all_bits, ChosenToken& out) {
  out.model_logprob = static_cast<double>(choice.logits[out.token]) - out.mass;
  if (std::exp(out.model_logprob) > -1.001 * std::expm1(-out.removed_log_mass) + 1e-9) return;
  all_bits.assign(static_cast<size_t>(count_words(choice.size)), ~0U);
  const Best best = best_logit({choice.logits, choice.size, all_bits.data()});
  if (!is_set(choice.allowed, best.id)) out.preferred = best.id;
}

void compute_logprobs(const Choice& choice, const Logits& logits, double mass, ChosenToken& out) {
  out.mass = mass;
  out.logprob = static_cast<double>(logits.row[out.token]) - mass;
  greatest_logits(logits, choice.scores, out.top);
  std::sort(out.top.begin(), out.top.end(), is_greater);
}

}  // namespace

ChosenToken choose_row(const Choice& choice) {
  Workspace& workspace = thread_workspace();
  ChosenToken out;
  std::vector<uint32_t> all_bits;
  const bool has_mask = choice.allowed != nullptr, raw = choice.scores >= 0 && choice.raw_scores;
  if (!has_mask || raw) all_bits.assign(static_cast<size_t>(count_words(choice.size)), ~0U);
  const Logits model{choice.logits, choice.size, all_bits.data()};
  Logits logits{choice.logits, choice.size, has_mask ? choice.allowed : all_bits.data()};
  const auto copy = [&] {
    if (logits.row == choice.logits) workspace.row.assign(choice.logits, choice.logits + choice.size);
    logits.row = workspace.row.data();
  };
  if (choice.ramped != nullptr) {
    copy();
    for (int64_t id = 0; id < choice.size; ++id)
      if (is_set(choice.ramped, id)) workspace.row[static_cast<size_t>(id)] -= choice.ramp;
  }
  if (has_mask) measure_removed_mass(choice, logits, out);
  Best best = best_logit(logits);
  if (choice.changes && !(best.is_number && best.logit == kNothing)) {
    const Changes& changes = *choice.changes;
    out.refusal = ban(changes, logits, workspace.bits);
    if (out.refusal != Refusal::kNone) return out;
    if (changes.bias_count > 0 || changes.seen_count > 0) {
      copy();
      change_values(changes, workspace.row.data());
    }
    best = best_logit(logits);
  }
  if (!best.is_number || !std::isfinite(best.logit)) {
    out.refusal = Refusal::kNoNumber;
    out.highest = best.is_number ? best.logit : std::nan("");
    return out;
  }
  out.token = choice.temperature == 0 ? best.id : draw(choice, logits, best, workspace);
  if (has_mask) compare_with_model(choice, all_bits, out);
  if (raw)
    compute_logprobs(choice, model, has_mask ? out.mass : log_masses(model, choice.width - choice.size).all, out);
  else if (choice.scores >= 0)
    // The maximum ensures that no probability is above 1.
    compute_logprobs(choice, logits, std::max<double>(log_masses(logits, 0).allowed, best.logit), out);
  return out;
}

}  // namespace guided
