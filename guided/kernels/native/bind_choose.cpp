// Python bindings of choose_row.hpp: rows are tuples; bitmasks and ids are numpy arrays.
#include "bind_choose.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "choose_row.hpp"
#include "team.hpp"

namespace nb = nanobind;

namespace guided {
namespace {

template <typename Number>
using Array = nb::ndarray<const Number, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bits = Array<int32_t>;
using Ids = Array<int32_t>;
using Floats = Array<float>;
using ChangesRow = std::tuple<std::optional<Bits>, std::vector<int32_t>, std::vector<int32_t>, Ids, Floats, Ids, Floats,
                              float, float, float>;
using Row = std::tuple<uintptr_t, int64_t, int64_t, std::optional<Bits>, std::optional<Bits>, std::optional<Bits>,
                       float, std::optional<ChangesRow>, double, int64_t, double, double, double, int64_t, bool>;
using ChosenRow = std::tuple<int32_t, int64_t, double, double, std::optional<double>, double,
                             std::vector<std::tuple<int32_t, double>>, double, int64_t>;

const uint32_t* check_bits(const std::optional<Bits>& bits, int64_t size) {
  if (!bits) return nullptr;
  if (static_cast<int64_t>(bits->shape(0)) != (size + 31) / 32)
    throw std::invalid_argument("a bitmask must have one bit for each token");
  return reinterpret_cast<const uint32_t*>(bits->data());
}

template <typename IdList>
const int32_t* check_ids(const IdList& ids, int64_t count, int64_t size) {
  for (int64_t i = 0; i < count; ++i)
    if (ids.data()[i] < 0 || ids.data()[i] >= size) throw std::out_of_range("there is no such token");
  return ids.data();
}

Changes read_changes(const ChangesRow& row, int64_t size) {
  const auto& [permitted, banned, ends, biased, bias, seen, counts, repetition, presence, frequency] = row;
  const auto bias_count = static_cast<int64_t>(biased.shape(0)), seen_count = static_cast<int64_t>(seen.shape(0));
  if (bias.shape(0) != biased.shape(0) || counts.shape(0) != seen.shape(0))
    throw std::invalid_argument("a list of biases or counts must have one number for each token");
  check_ids(banned, static_cast<int64_t>(banned.size()), size);
  check_ids(ends, static_cast<int64_t>(ends.size()), size);
  return {.permitted = check_bits(permitted, size),
          .banned = banned,
          .ends = ends,
          .biased = check_ids(biased, bias_count, size),
          .bias = bias.data(),
          .bias_count = bias_count,
          .seen = check_ids(seen, seen_count, size),
          .counts = counts.data(),
          .seen_count = seen_count,
          .repetition = repetition,
          .presence = presence,
          .frequency = frequency};
}

Choice read_choice(const Row& row) {
  const auto& [logits, width, size, allowed, unbudgeted, ramped, ramp, changes, temperature, top_k, top_p, min_p,
               uniform, scores, raw_scores] = row;
  if (width < size) throw std::invalid_argument("there are fewer logits than tokens");
  Choice out{.logits = reinterpret_cast<const float*>(logits),
             .width = width,
             .size = size,
             .allowed = check_bits(allowed, size),
             .unbudgeted = check_bits(unbudgeted, size),
             .ramped = check_bits(ramped, size),
             .ramp = ramp,
             .changes = std::nullopt,
             .temperature = temperature,
             .top_k = top_k,
             .top_p = top_p,
             .min_p = min_p,
             .uniform = uniform,
             .scores = scores,
             .raw_scores = raw_scores};
  if (changes) out.changes = read_changes(*changes, size);
  return out;
}

ChosenRow to_row(const ChosenToken& chosen) {
  std::vector<std::tuple<int32_t, double>> top;
  for (const Entry& entry : chosen.top) top.emplace_back(entry.id, static_cast<double>(entry.number) - chosen.mass);
  return {static_cast<int32_t>(chosen.refusal),
          chosen.token,
          chosen.highest,
          chosen.removed_log_mass,
          chosen.budget_mass,
          chosen.logprob,
          std::move(top),
          chosen.model_logprob,
          chosen.preferred};
}

std::vector<ChosenRow> choose_rows(const std::vector<Row>& rows, int64_t threads) {
  std::vector<Choice> choices;
  choices.reserve(rows.size());
  for (const Row& row : rows) choices.push_back(read_choice(row));
  std::vector<ChosenToken> tokens(rows.size());
  {
    const nb::gil_scoped_release released;
    share(static_cast<int64_t>(rows.size()), threads,
          [&](int64_t i) { tokens[static_cast<size_t>(i)] = choose_row(choices[static_cast<size_t>(i)]); });
  }
  std::vector<ChosenRow> out;
  out.reserve(rows.size());
  for (const ChosenToken& token : tokens) out.push_back(to_row(token));
  return out;
}

constexpr auto kSignature =
    "def choose_rows(rows: collections.abc.Sequence[tuple[typing.Any, ...]], threads: int) -> "
    "list[tuple[int, int, float, float, float | None, float, list[tuple[int, float]], float, int]]";

constexpr auto kChooseRows = R"(Choose a token from each row of logits; see guided/kernels/choose.py.

Args:
    rows: one tuple per row: the address of its float32 logits; their number; the size of the vocabulary; three
        bitmasks or None (allowed tokens, allowed tokens without a budget, ramped tokens); the amount by which the
        logits of ramped tokens are lowered; changes or None; temperature; top_k (0: all); top_p; min_p; a uniform
        number in [0, 1); the number of most likely tokens to return (-1: no log probabilities); whether log
        probabilities are computed from the model's logits. Changes are a tuple: a bitmask of permitted tokens or
        None, banned ids, end ids, biased ids, biases, seen ids, their counts in the output, and the penalties for
        repetition, presence and frequency. Bitmasks and ids are int32 arrays; other arrays are float32.
    threads: the maximum number of threads. It does not affect the results.

Returns:
    One tuple per row: 0, or the reason for a refusal (1: the greatest logit is not finite, 2: all tokens are
    banned); the token; with reason 1, the greatest logit; -log of the total probability of the allowed tokens; the
    probability that the budget removed, or None; the token's log probability; the most likely tokens with their log
    probabilities; log of the model's probability of the token, 0 without a mask; the model's most likely token if
    the mask forbids it, otherwise -1.

Raises:
    ValueError: the length of an array does not fit the vocabulary or the ids.
    IndexError: an id is not below the vocabulary's size.)";

}  // namespace

void bind_choose(nb::module_& m) {
  m.def("choose_rows", &choose_rows, nb::arg("rows"), nb::arg("threads"), nb::sig(kSignature), kChooseRows);
}

}  // namespace guided
