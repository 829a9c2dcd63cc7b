// Python bindings of matchers. One OS thread at a time uses a matcher (`InUse`). Long calls run without the GIL.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "matching/budget_rows.hpp"
#include "matching/output_masks.hpp"
#include "python/bindings.hpp"
#include "python/mask_array.hpp"

using namespace nanobind::literals;

namespace guided {

namespace nb = nanobind;

namespace {

nb::bytes to_bytes(const std::vector<uint8_t>& v) {
  return nb::bytes(reinterpret_cast<const char*>(v.data()), v.size());
}

bool fill(Matcher& m, const MaskArray& mask, int64_t row, nb::object max_tokens) {
  InUse use(m);
  uint32_t* words = row_of(m, mask, row);
  bool masks_something = true;
  if (max_tokens.is_none()) {
    if (m.fill_known(words, masks_something)) return masks_something;
    nb::gil_scoped_release release;
    return m.fill(words, -1);
  }
  int64_t n = 0;
  if (!nb::try_cast<int64_t>(max_tokens, n)) throw nb::type_error("max_tokens must be an integer or None");
  nb::gil_scoped_release release;
  return with_budget(n, [&](int64_t budget) { return m.fill(words, budget); });
}

nb::tuple fill_rows_under_budget(Matcher& self, const MaskArray& rows, int64_t max_tokens, bool has_ramp) {
  InUse use(self);
  uint32_t* words = three_rows_of(self, rows);
  BudgetRows filled;
  {
    nb::gil_scoped_release release;
    filled = with_budget(max_tokens, [&](int64_t budget) { return fill_budget_rows(self, words, budget, has_ramp); });
  }
  return to_tuple(filled);
}

// Runs `call` on a matcher without the GIL, and returns its value.
template <class Call>
auto without_gil(Matcher& matcher, Call&& call) {
  InUse use(matcher);
  nb::gil_scoped_release release;
  return call();
}

// `with_gil` wraps a short method and keeps the GIL. `without_gil` wraps a slow method and releases it.
template <class Value, class Self, class... Arguments>
auto with_gil(Value (Self::*method)(Arguments...)) {
  return [method](Matcher& self, Arguments... arguments) {
    InUse use(self);
    return (self.*method)(arguments...);
  };
}
template <class Value, class Self, class... Arguments>
auto with_gil(Value (Self::*method)(Arguments...) const) {
  return [method](const Matcher& self, Arguments... arguments) {
    InUse use(self);
    return (self.*method)(arguments...);
  };
}
template <class Value, class... Arguments>
auto without_gil(Value (Matcher::*method)(Arguments...)) {
  return [method](Matcher& self, Arguments... arguments) {
    return without_gil(self, [&] { return (self.*method)(arguments...); });
  };
}
template <class Value>
auto without_gil_on_bytes(Value (Matcher::*method)(std::string_view)) {
  return [method](Matcher& self, const nb::bytes& data) {
    std::string_view bytes = as_string_view(data);
    return without_gil(self, [&] { return (self.*method)(bytes); });
  };
}

bool accept_token(Matcher& self, int64_t id) {
  InUse use(self);
  const int32_t size = self.compiled().vocabulary->size;
  if (id < 0 || id >= size)
    throw nb::value_error(
        (std::to_string(id) + " is not a token id of this vocabulary (0 to " + std::to_string(size - 1) + ")").c_str());
  if (std::optional<bool> accepted = self.accept_known(static_cast<int32_t>(id))) return *accepted;
  // Another thread may hold the grammar's lock for long: never wait for it with the GIL held.
  nb::gil_scoped_release release;
  return self.accept_token(static_cast<int32_t>(id));
}

using Ids = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Calls `work` with the ids and the budget, without the GIL.
template <class Work>
auto on_output(Matcher& self, const Ids& ids, std::optional<int64_t> max_tokens, Work&& work) {
  const std::span<const int64_t> output(ids.data(), ids.shape(0));
  return without_gil(self, [&] { return work(self, output, max_tokens ? std::max<int64_t>(*max_tokens, 0) : -1); });
}

nb::tuple masks_of_output(Matcher& self, const Ids& ids, std::optional<int64_t> max_tokens) {
  auto masks = std::make_unique<OutputMasks>(on_output(self, ids, max_tokens, output_masks));
  const auto words = static_cast<size_t>(self.compiled().vocabulary->words);
  OutputMasks* data = masks.get();
  const nb::capsule owner(masks.release(), [](void* p) noexcept { delete static_cast<OutputMasks*>(p); });
  using Rows = nb::ndarray<nb::numpy, int32_t, nb::ndim<2>>;
  using Numbers = nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>;
  auto* rows = reinterpret_cast<int32_t*>(data->rows.data());
  return nb::make_tuple(Rows(rows, {data->rows.size() / words, words}, owner),
                        Numbers(data->numbers.data(), {data->numbers.size()}, owner));
}

void fork(Matcher* self, Matcher& other) {
  InUse use(other);
  new (self) Matcher(other);
}

constexpr auto kFill = R"(Write the allowed tokens into a bitmask row.

Args:
    bitmask: int32, shape (batch, ceil(size / 32)), C-contiguous, an array or a tensor on the CPU.
    row: the row of the bitmask to write.
    max_tokens: the budget: a token is allowed only if the output can be completed with `max_tokens - 1` more
        tokens, including the end token. None: no budget.

Returns:
    Whether some token is not allowed.

Raises:
    TypeError: the bitmask has another type, layout or device.
    ValueError: the width of the bitmask does not fit the vocabulary.
    IndexError: there is no such row.
    BudgetError: not even the shortest completion fits into `max_tokens`.)";

constexpr auto kAccept = R"(Accept one token.

Returns:
    Whether the token was allowed. If not, the state is unchanged.

Raises:
    ValueError: the vocabulary has no such id.)";

constexpr auto kValidate =
    R"(The number of leading `tokens` that would be accepted one after the other. The state is unchanged.

Ids outside the vocabulary are not accepted.)";

constexpr auto kAcceptOutput = R"(Accept ids as long as they are allowed, and return their number.

Args:
    ids: int64, shape (n,).
    max_tokens: the budget at the first id, as for fill_next_token_bitmask. It shrinks by 1 with each id.

Raises:
    BudgetError: not even the shortest output fits.)";

constexpr auto kOutputMasks = R"(Accept ids like `_accept_output`, and return the masks of all positions.

Returns:
    The distinct rows, int32 (rows, words), and for each position the number of its row, int32 (n,). The
    positions after an id that is not allowed have a row without tokens.

Raises:
    LimitExceeded: the rows take more than the memory limit of the grammar.
    BudgetError: not even the shortest output fits.)";

constexpr auto kRollback = R"(Undo the last `n` steps. A step is one accepted token or one accepted string.

Raises:
    ValueError: there were fewer steps.)";

constexpr auto kMinTokens =
    R"(A number of tokens that suffices to complete the output, including the end token. 0 after an end token.)";

constexpr auto kCharacters = R"(The code points that may follow `data`, as ranges (lowest, highest).

Args:
    data: bytes that can be read here.
    begun: the bytes of an incomplete character that were read before. The result has the complete characters.)";

constexpr auto kFillSignature =
    "def fill_next_token_bitmask(self, bitmask: typing.Any, row: int = 0, *, max_tokens: int | None = None) -> bool";
constexpr auto kAcceptOutputSignature = "def _accept_output(self, ids: typing.Any, max_tokens: int | None) -> int";
constexpr auto kOutputMasksSignature =
    "def _output_masks(self, ids: typing.Any, max_tokens: int | None) -> tuple[typing.Any, typing.Any]";
constexpr auto kFillUnderBudget = R"(Fill the rows that choosing a token under a budget needs.

Args:
    rows: int32, shape (3, words). Row 0: the mask under the budget. Row 1, if they differ: the mask without a
        budget. Row 2, if half of the budget is too small to complete the output: the allowed tokens after which
        the shortest completion becomes longer.
    max_tokens: the budget, as for fill_next_token_bitmask.
    has_ramp: whether to compute row 2.

Returns:
    Whether row 1 is filled; the length of the shortest completion if row 2 is filled and not empty, otherwise
    0; the seconds for row 0.

Raises:
    BudgetError: not even the shortest completion fits into `max_tokens`.)";
constexpr auto kFillUnderBudgetSignature =
    "def _fill_under_budget(self, rows: typing.Any, max_tokens: int, has_ramp: bool) -> tuple[bool, int, float]";
}  // namespace

void bind_matcher(nb::module_& m) {
  nb::class_<Matcher>(
      m, "Matcher",
      "The state of one output under a compiled grammar.\n\n"
      "Only one OS thread may use it at a time (otherwise RuntimeError). Matchers of one grammar can run in parallel.")
      .def(nb::init<std::shared_ptr<Compiled>>(), "source"_a, "A matcher at the start of an output.")
      .def("__init__", &fork, "source"_a, "A matcher in the same state, with the same history.")
      .def("fill_next_token_bitmask", &fill, "bitmask"_a.noconvert(), "row"_a = 0, nb::kw_only(),
           "max_tokens"_a = nb::none(), nb::sig(kFillSignature), kFill)
      .def("_fill_under_budget", &fill_rows_under_budget, "rows"_a.noconvert(), "max_tokens"_a, "has_ramp"_a,
           nb::sig(kFillUnderBudgetSignature), kFillUnderBudget)
      .def("accept_token", &accept_token, "token"_a, kAccept)
      .def("validate_tokens", without_gil(&Matcher::validate), "tokens"_a, kValidate)
      .def(
          "_accept_output",
          [](Matcher& self, const Ids& ids, std::optional<int64_t> max_tokens) {
            return on_output(self, ids, max_tokens, accept_output);
          },
          "ids"_a.noconvert(), "max_tokens"_a.none(), nb::sig(kAcceptOutputSignature), kAcceptOutput)
      .def("_output_masks", &masks_of_output, "ids"_a.noconvert(), "max_tokens"_a.none(),
           nb::sig(kOutputMasksSignature), kOutputMasks)
      .def("rollback", with_gil(&Matcher::rollback), "n"_a, kRollback)
      .def("reset", with_gil(&Matcher::reset), "Go back to the start and forget the history.")
      .def_prop_ro(
          "budget_bound", with_gil(&Matcher::budget_bound),
          "Whether the budget may have removed tokens from the last mask. False: it equals the mask without a budget.")
      .def("is_accepting", with_gil(&Matcher::accepting),
           "Whether the output is complete here: an end token is allowed.")
      .def("is_terminated", with_gil(&Matcher::terminated), "Whether an end token was accepted.")
      .def("min_tokens_to_finish", without_gil(&Matcher::min_tokens), kMinTokens)
      .def_prop_ro("steps", with_gil(&Matcher::steps), "The number of steps that can be undone.")
      .def_prop_ro("state", with_gil(&Matcher::state), "The number of the state. Equal states have equal numbers.")
      .def_prop_ro("configurations", with_gil(&Matcher::configurations),
                   "The number of states that the grammar has visited so far.")
      .def_prop_ro("memory_bytes", with_gil(&Matcher::bytes),
                   "The memory of the visited states and of their caches, in bytes.")
      .def("_accept_bytes", without_gil_on_bytes(&Matcher::accept_bytes), "data"_a,
           "Accept bytes as one step, for any division into tokens. False: not allowed, state unchanged.")
      .def("_accept_part", without_gil_on_bytes(&Matcher::accept_part), "data"_a,
           "Accept bytes of an unfinished token as one step. False: not allowed, state unchanged.")
      .def("_end_token", without_gil(&Matcher::end_token),
           "End an unfinished token, as one step. False: it may not end here, state unchanged.")
      .def("_forced", without_gil(&Matcher::forced), "limit"_a,
           "The common prefix of all continuations, at most `limit` symbols: bytes, or 256 + a control token.")
      .def("_shortest", without_gil(&Matcher::shortest), "limit"_a,
           "A shortest completion, at most `limit` symbols: bytes, or 256 + a control token.")
      .def(
          "_next_bytes", [](Matcher& self) { return to_bytes(without_gil(self, [&] { return self.next_bytes(); })); },
          "The bytes that may come next, ascending.")
      .def("_next_tokens", without_gil(&Matcher::next_tokens), "The control tokens that may come next.")
      .def(
          "_probe",
          [](Matcher& self, const nb::bytes& data) {
            std::string_view bytes = as_string_view(data);
            auto [read, possible] = without_gil(self, [&] { return self.probe(bytes); });
            return std::make_pair(read, to_bytes(possible));
          },
          "data"_a, "The number of leading bytes that can be read, and the bytes that may come after them.")
      .def(
          "_characters",
          [](Matcher& self, const nb::bytes& data, const nb::bytes& begun) {
            std::string_view bytes = as_string_view(data), first = as_string_view(begun);
            return without_gil(self, [&] { return self.characters(bytes, first); });
          },
          "data"_a, "begun"_a, kCharacters)
      .def("_open_rules", without_gil_on_bytes(&Matcher::open_rules), "data"_a,
           "The names of the rules that are open after these bytes.")
      .def(
          "_accepted",
          [](Matcher& self) {
            nb::list out;
            for (const auto& [token, text] : without_gil(self, [&] { return self.accepted(); }))
              token < 0 ? out.append(nb::bytes(text.data(), text.size())) : out.append(token);
            return out;
          },
          nb::sig("def _accepted(self) -> list[int | bytes]"),
          "The accepted steps: ids of tokens, and bytes for steps that accepted bytes.")
      .def("_rests", without_gil(&Matcher::rests),
           "Three values for the number of tokens to the end after the next token, whichever it is: an upper bound\n"
           "from the rules, an upper bound that exists if values must differ, and the largest distance found.")
      .def("_walk_mask", without_gil(&Matcher::walk_mask), "The allowed ids, computed by definition, without caches.");
}

}  // namespace guided
