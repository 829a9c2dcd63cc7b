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

using Steps = std::vector<std::tuple<int64_t, nb::object, int64_t, bool>>;

nb::list advance(const Matchers& sequence, const Steps& steps) {
  const Batch batch(sequence);
  const std::vector<Matcher*>& matchers = batch.matchers();
  if (steps.size() != matchers.size()) throw nb::value_error("steps and matchers must have the same length");
  std::vector<StepRequest> requests;
  std::vector<MaskArray> masks;  // they keep the rows alive
  std::unordered_set<Matcher*> visited;
  std::unordered_set<uint32_t*> used_rows;
  for (size_t i = 0; i < matchers.size(); ++i) {
    const auto& [token, rows, max_tokens, has_ramp] = steps[i];
    MaskArray& mask = masks.emplace_back();
    if (!nb::try_cast(rows, mask, false)) throw nb::type_error("rows must be an array of int32");
    if (token < -1 || token >= matchers[i]->compiled().vocabulary->size)
      throw nb::value_error("a token is not in the vocabulary");
    requests.push_back({matchers[i], static_cast<int32_t>(token), three_rows_of(*matchers[i], mask),
                        std::max<int64_t>(max_tokens, 0), has_ramp});
    if (!visited.insert(matchers[i]).second) throw nb::value_error("matchers: a matcher occurs twice");
    if (!used_rows.insert(requests.back().rows).second) throw nb::value_error("steps: an array occurs twice");
  }
  std::vector<StepResult> results;
  {
    nb::gil_scoped_release release;
    results = advance_matchers(requests);
  }
  nb::list out;
  for (const StepResult& result : results) {
    rethrow_interrupt(result.error);
    out.append(nb::make_tuple(result.is_accepted, result.is_unforced,
                              result.is_filled ? nb::object(to_tuple(result.rows)) : nb::none(), result.seconds));
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
  std::vector<RowRequest> requests;
  std::unordered_set<Matcher*> visited;
  std::unordered_set<uint32_t*> used_rows;
  for (size_t i = 0; i < n; ++i) {
    Matcher* matcher = matchers[i];
    if (tokens.data()[i] < 0 || tokens.data()[i] >= matcher->compiled().vocabulary->size)
      throw nb::value_error("a token is not in the vocabulary");
    requests.push_back({matcher, static_cast<int32_t>(tokens.data()[i]), row_of(*matcher, mask, rows.data()[i]),
                        std::max<int64_t>(max_tokens.data()[i], 0), has_ramp.data()[i]});
    if (!visited.insert(matcher).second) throw nb::value_error("matchers: a matcher occurs twice");
    if (!used_rows.insert(requests.back().row).second) throw nb::value_error("rows: a row occurs twice");
  }
  std::vector<RowResult> results(n);
  {
    nb::gil_scoped_release release;
    std::transform(requests.begin(), requests.end(), results.begin(), advance_row);
  }
  for (size_t i = 0; i < n; ++i) {
    statuses.data()[i] = static_cast<uint8_t>(results[i].status);
    seconds.data()[2 * i] = results[i].fill_seconds;
    seconds.data()[2 * i + 1] = results[i].seconds;
  }
  for (const RowResult& result : results) rethrow_interrupt(result.error);
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
