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

const uint32_t* bits_of(const std::optional<Bits>& given, int64_t size) {
  if (!given) return nullptr;
  if (static_cast<int64_t>(given->shape(0)) != (size + 31) / 32)
    throw std::invalid_argument("a bitmask has one bit for each token");
  return reinterpret_cast<const uint32_t*>(given->data());
}

template <typename Given>
const int32_t* ids_of(const Given& given, int64_t count, int64_t size) {
  for (int64_t i = 0; i < count; ++i)
    if (given.data()[i] < 0 || given.data()[i] >= size) throw std::out_of_range("there is no such token");
  return given.data();
}

Changes changes_of(const ChangesRow& row, int64_t size) {
  const auto& [permitted, banned, ends, biased, bias, seen, counts, repetition, presence, frequency] = row;
  const auto biases = static_cast<int64_t>(biased.shape(0)), seen_count = static_cast<int64_t>(seen.shape(0));
  if (bias.shape(0) != biased.shape(0) || counts.shape(0) != seen.shape(0))
    throw std::invalid_argument("there is one number for each token");
  ids_of(banned, static_cast<int64_t>(banned.size()), size);
  ids_of(ends, static_cast<int64_t>(ends.size()), size);
  return {.permitted = bits_of(permitted, size),
          .banned = banned,
          .ends = ends,
          .biased = ids_of(biased, biases, size),
          .bias = bias.data(),
          .biases = biases,
          .seen = ids_of(seen, seen_count, size),
          .counts = counts.data(),
          .seen_count = seen_count,
          .repetition = repetition,
          .presence = presence,
          .frequency = frequency};
}

Choice choice_of(const Row& row) {
  const auto& [logits, width, size, allowed, unbudgeted, ramped, ramp, changes, temperature, top_k, top_p, min_p,
               uniform, scores, raw_scores] = row;
  if (width < size) throw std::invalid_argument("there are fewer logits than tokens");
  Choice out{.logits = reinterpret_cast<const float*>(logits),
             .width = width,
             .size = size,
             .allowed = bits_of(allowed, size),
             .unbudgeted = bits_of(unbudgeted, size),
             .ramped = bits_of(ramped, size),
             .ramp = ramp,
             .changes = std::nullopt,
             .temperature = temperature,
             .top_k = top_k,
             .top_p = top_p,
             .min_p = min_p,
             .uniform = uniform,
             .scores = scores,
             .raw_scores = raw_scores};
  if (changes) out.changes = changes_of(*changes, size);
  return out;
}

ChosenRow result_of(const Chosen& chosen) {
  std::vector<std::tuple<int32_t, double>> top;
  for (const Entry& entry : chosen.top) top.emplace_back(entry.id, static_cast<double>(entry.number) - chosen.mass);
  return {static_cast<int32_t>(chosen.refusal),
          chosen.token,
          chosen.highest,
          chosen.removed,
          chosen.by_budget,
          chosen.logprob,
          std::move(top),
          chosen.by_model,
          chosen.preferred};
}

std::vector<ChosenRow> choose_rows(const std::vector<Row>& rows, int64_t threads) {
  std::vector<Choice> choices;
  choices.reserve(rows.size());
  for (const Row& row : rows) choices.push_back(choice_of(row));
  std::vector<Chosen> chosen(rows.size());
  {
    const nb::gil_scoped_release released;
    share(static_cast<int64_t>(rows.size()), threads,
          [&](int64_t i) { chosen[static_cast<size_t>(i)] = choose_row(choices[static_cast<size_t>(i)]); });
  }
  std::vector<ChosenRow> out;
  out.reserve(rows.size());
  for (const Chosen& one : chosen) out.push_back(result_of(one));
  return out;
}

constexpr auto kSignature =
    "def choose_rows(rows: collections.abc.Sequence[tuple[typing.Any, ...]], threads: int) -> "
    "list[tuple[int, int, float, float, float | None, float, list[tuple[int, float]], float, int]]";

constexpr auto kChooseRows = R"(Choose a token from each row of logits; see guided/kernels/choose.py.

Args:
    rows: for each (address of float32 logits, how many there are, how many of them are tokens; bitmasks or None:
        allowed, the same without a budget, tokens whose logits are lowered; by how much; changes or None;
        temperature, top_k (0: all), top_p, min_p, uniform number, how many of the most likely tokens come back (-1:
        no log probabilities), whether by the model's own logits). Changes are (permitted bitmask or None, banned
        ids, end ids, biased ids, biases, seen ids, their counts in the output, penalties for repetition, presence,
        frequency). Bitmasks and ids are int32, numbers float32, in numpy.
    threads: the most threads to use; they change nothing.

Returns:
    For each (0, or why not: 1 there is no number, 2 everything is banned; the token; the greatest logit in the
    first case; -log of the probability that the mask leaves; what the budget took of it, or None; the token's log
    probability; the most likely tokens with theirs; log of the model's probability of the token, 0 without a mask;
    the model's most likely token if the mask forbids it, else -1).

Raises:
    ValueError: an array is of another size than the vocabulary, or than its ids.
    IndexError: an id is not below the vocabulary's size.)";

}  // namespace

void bind_choose(nb::module_& m) {
  m.def("choose_rows", &choose_rows, nb::arg("rows"), nb::arg("threads"), nb::sig(kSignature), kChooseRows);
}

}  // namespace guided
