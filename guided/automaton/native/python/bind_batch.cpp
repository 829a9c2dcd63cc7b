// Python bindings of functions that run many matchers in one call, without the GIL.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_set>

#include "matching/budget_rows.hpp"
#include "matching/fill_rows.hpp"
#include "python/bindings.hpp"
#include "python/mask_array.hpp"

using namespace nanobind::literals;

namespace guided {

namespace nb = nanobind;

namespace {

using Matchers = nb::typed<nb::sequence, Matcher>;

// The matchers of one call. It keeps them alive and marks them as in use until the call returns.
class Batch {
 public:
  explicit Batch(const Matchers& sequence) {
    std::unordered_set<const Matcher*> visited;
    for (nb::handle item : sequence) {
      objects_.push_back(nb::borrow(item));  // the caller may change the sequence, or it may create its items on access
      Matcher* matcher = nullptr;
      if (item.is_none()) throw nb::type_error("a matcher is None");
      if (!nb::try_cast(item, matcher, false) || !matcher) throw nb::type_error("matchers must be GrammarMatchers");
      if (visited.insert(matcher).second) uses_.emplace_back(*matcher);
      matchers_.push_back(matcher);
    }
  }
  const std::vector<Matcher*>& matchers() const { return matchers_; }

 private:
  std::vector<nb::object> objects_;
  std::vector<Matcher*> matchers_;
  std::deque<InUse> uses_;
};

void fill_batch(const Matchers& sequence, const MaskArray& mask, const std::vector<int64_t>& rows,
                std::optional<int64_t> max_tokens, int threads) {
  const Batch batch(sequence);
  const std::vector<Matcher*>& matchers = batch.matchers();
  if (rows.size() != matchers.size()) throw nb::value_error("rows and matchers must have the same length");
  std::unordered_set<int64_t> used_rows;
  for (size_t i = 0; i < matchers.size(); ++i) {
    if (!used_rows.insert(rows[i]).second) throw nb::value_error("rows: a row occurs twice");
    row_of(*matchers[i], mask, rows[i]);
  }
  uint32_t* data = reinterpret_cast<uint32_t*>(mask.data());
  nb::gil_scoped_release release;
  const auto fill = [&](int64_t budget) {
    fill_rows(matchers, data, rows, static_cast<int64_t>(mask.shape(1)), budget, threads);
  };
  if (max_tokens) {
    with_budget(*max_tokens, fill);
  } else {
    fill(-1);
  }
}

// Rethrows an exception that is no subclass of Python's Exception, such as KeyboardInterrupt. The Python code that
// compiles a deferred rule may raise one. Ignores all other errors.
void rethrow_interrupt(const std::exception_ptr& error) {
  if (!error) return;
  try {
    std::rethrow_exception(error);
  } catch (nb::python_error& raised) {
    if (!raised.matches(PyExc_Exception)) throw;
  } catch (...) {
  }
}

// The steps of one call. All matchers and all rows must be different.
class Steps {
 public:
  // `token`: -1: none.
  void add(Matcher* matcher, int64_t token, uint32_t* rows, int64_t max_tokens, bool has_ramp) {
    if (token < -1 || token >= matcher->compiled().vocabulary->size)
      throw nb::value_error("a token is not in the vocabulary");
    if (!matchers_.insert(matcher).second) throw nb::value_error("matchers: a matcher occurs twice");
    if (!rows_.insert(rows).second) throw nb::value_error("rows: a row occurs twice");
    requests_.push_back({matcher, static_cast<int32_t>(token), rows, std::max<int64_t>(max_tokens, 0), has_ramp});
  }

  // Runs all steps without the GIL, one after the other.
  std::vector<StepResult> run(StepResult (*step)(const StepRequest&)) const {
    std::vector<StepResult> results(requests_.size());
    nb::gil_scoped_release release;
    std::transform(requests_.begin(), requests_.end(), results.begin(), step);
    return results;
  }

 private:
  std::vector<StepRequest> requests_;
  std::unordered_set<Matcher*> matchers_;
  std::unordered_set<uint32_t*> rows_;
};

using StepTuples = std::vector<std::tuple<int64_t, nb::object, int64_t, bool>>;

nb::list advance(const Matchers& sequence, const StepTuples& tuples) {
  const Batch batch(sequence);
  const std::vector<Matcher*>& matchers = batch.matchers();
  if (tuples.size() != matchers.size()) throw nb::value_error("steps and matchers must have the same length");
  Steps steps;
  std::vector<MaskArray> masks;  // they keep the rows alive
  for (size_t i = 0; i < matchers.size(); ++i) {
    const auto& [token, rows, max_tokens, has_ramp] = tuples[i];
    MaskArray& mask = masks.emplace_back();
    if (!nb::try_cast(rows, mask, false)) throw nb::type_error("rows must be an array of int32");
    steps.add(matchers[i], token, three_rows_of(*matchers[i], mask), max_tokens, has_ramp);
  }
  nb::list out;
  for (const StepResult& result : steps.run(advance_matcher)) {
    rethrow_interrupt(result.error);
    const bool is_filled = result.status == StepStatus::kFilled;
    out.append(nb::make_tuple(result.status >= StepStatus::kAccepted, result.status >= StepStatus::kUnforced,
                              is_filled ? nb::object(to_tuple(result.rows)) : nb::none(), result.seconds));
  }
  return out;
}

using Integers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Statuses = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Seconds = nb::ndarray<double, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

void advance_rows(const Matchers& sequence, const MaskArray& mask, const Integers& rows, const Integers& tokens,
                  const Integers& max_tokens, const Flags& has_ramp, const Statuses& statuses, const Seconds& seconds) {
  const Batch batch(sequence);
  const std::vector<Matcher*>& matchers = batch.matchers();
  const size_t n = matchers.size();
  for (const size_t size :
       {rows.shape(0), tokens.shape(0), max_tokens.shape(0), has_ramp.shape(0), statuses.shape(0), seconds.shape(0)})
    if (size != n) throw nb::value_error("all arguments must have the same length");
  Steps steps;
  for (size_t i = 0; i < n; ++i) {
    if (tokens.data()[i] < 0) throw nb::value_error("a token is not in the vocabulary");
    steps.add(matchers[i], tokens.data()[i], row_of(*matchers[i], mask, rows.data()[i]), max_tokens.data()[i],
              has_ramp.data()[i]);
  }
  const std::vector<StepResult> results = steps.run(advance_row);
  for (size_t i = 0; i < n; ++i) {
    statuses.data()[i] = static_cast<uint8_t>(results[i].status);
    seconds.data()[2 * i] = results[i].rows.seconds;
    seconds.data()[2 * i + 1] = results[i].seconds;
  }
  for (const StepResult& result : results) rethrow_interrupt(result.error);
}

constexpr auto kFillBatch = R"(Fill a bitmask row for each matcher on several OS threads, without the GIL.

Args:
    matchers: one for each row, all with the same vocabulary. Their grammars may differ.
    bitmask: int32, shape (batch, ceil(size / 32)), C-contiguous, on the CPU. Written in place.
    rows: the row of each matcher. Other rows stay as they are.
    max_tokens: the budget of every row; None: no budget.
    threads: the maximum number of threads.

Raises:
    TypeError: an item of `matchers` is not a matcher, or the bitmask has another type, layout or device.
    ValueError: `rows` and `matchers` differ in length, a row occurs twice, or the width is wrong.
    IndexError: there is no such row.
    BudgetError: the shortest completion of a row does not fit. Other rows may have been filled.)";

constexpr auto kFillBatchSignature =
    "def fill_batch(matchers: collections.abc.Sequence[Matcher], bitmask: typing.Any, "
    "rows: collections.abc.Sequence[int], max_tokens: int | None, threads: int) -> None";
constexpr auto kAdvance =
    R"(Run one step of each matcher, without the GIL: accept a token, and fill the rows of the next choice.

Args:
    matchers: all different.
    steps: for each matcher a tuple: the token, or -1 for none; the rows, the budget after the token, and has_ramp,
        as for _fill_under_budget. All arrays of rows must be different.

Returns:
    For each matcher a tuple: whether the token was accepted; whether nothing is forced after it; if so, what
    _fill_under_budget returns, otherwise None; the seconds of thread time. After an error the remaining values are
    False or None. The error is not raised: repeating what is missing usually raises it again.

Raises:
    TypeError, ValueError, IndexError: the arguments do not fit together.)";
constexpr auto kAdvanceSignature =
    "def advance_matchers(matchers: collections.abc.Sequence[Matcher], "
    "steps: collections.abc.Sequence[tuple[int, typing.Any, int, bool]]) "
    "-> list[tuple[bool, bool, tuple[bool, int, float] | None, float]]";

constexpr auto kAdvanceRows =
    R"(Run one step of each matcher, without the GIL: accept a token, and fill the row of the next choice.

Args:
    matchers: all different.
    bitmask: int32, shape (batch, words), C-contiguous, on the CPU. Written in place.
    rows: int64 (n,), the row of each matcher, all different.
    tokens: int64 (n,).
    max_tokens: int64 (n,), the budget after the token, as for fill_next_token_bitmask.
    has_ramp: bool (n,): whether a budget of which half is too small needs more rows, see _fill_under_budget.
    statuses: uint8 (n,), written. 0: the token was not accepted. 1: it was; something is forced after it, or the
        output has ended. 2: nothing is forced, but the row is not filled, or it is not enough: the budget removes
        tokens, or the output has to end. 3: the row is filled. After an error, the status is that of the last part
        without an error. The error is not raised: repeating what is missing usually raises it again.
    seconds: float64 (n, 2), written: the wall time for the row, and the thread time of the step.

Raises:
    TypeError, ValueError, IndexError: the arguments do not fit together.)";
constexpr auto kAdvanceRowsSignature =
    "def advance_rows(matchers: collections.abc.Sequence[Matcher], bitmask: typing.Any, rows: typing.Any, "
    "tokens: typing.Any, max_tokens: typing.Any, has_ramp: typing.Any, statuses: typing.Any, seconds: typing.Any) "
    "-> None";

}  // namespace

void bind_batch(nb::module_& m) {
  m.def("fill_batch", &fill_batch, "matchers"_a, "bitmask"_a.noconvert(), "rows"_a, "max_tokens"_a, "threads"_a,
        nb::sig(kFillBatchSignature), kFillBatch);
  m.def("advance_matchers", &advance, "matchers"_a, "steps"_a, nb::sig(kAdvanceSignature), kAdvance);
  m.def("advance_rows", &advance_rows, "matchers"_a, "bitmask"_a.noconvert(), "rows"_a.noconvert(),
        "tokens"_a.noconvert(), "max_tokens"_a.noconvert(), "has_ramp"_a.noconvert(), "statuses"_a.noconvert(),
        "seconds"_a.noconvert(), nb::sig(kAdvanceRowsSignature), kAdvanceRows);
}

}  // namespace guided
