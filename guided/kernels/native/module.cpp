// Python bindings: they take addresses and sizes of tensors that the caller keeps alive. This module knows nothing
// about tensors, so Python checks their types and shapes (kernels/__init__.py, attention/slots.py).
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "attend_prompt.hpp"
#include "attend_slots.hpp"
#include "bind_choose.hpp"
#include "block_matrix.hpp"
#include "product.hpp"
#include "rows.hpp"
#include "team.hpp"

namespace nb = nanobind;

namespace guided {
namespace {

constexpr int64_t kMaxFewPositions = 8;          // up to this many new positions, attend_slots is used
constexpr int64_t kFewProducts = 1 << 18;        // with fewer multiplications, a second thread starts too late to help
constexpr int64_t kFewPromptProducts = 1 << 22;  // like kFewProducts, for prompts
// The limit of heads, head size and rows, so that a product of two fits into int64.
constexpr int64_t kMaxSize = int64_t{1} << 31;

// A batch of sequences, bound once per forward pass and run for each layer.
class Batch {
 public:
  using Row = std::tuple<uintptr_t, uintptr_t, int64_t, int64_t, int64_t, std::optional<uintptr_t>, int64_t, int64_t,
                         int64_t, int64_t>;

  Batch(int64_t heads, int64_t kv_heads, int64_t head_dim, bool half, int64_t stored, const std::vector<Row>& rows)
      : shape_{heads, kv_heads, head_dim}, half_(half), stored_(stored) {
    if (stored != 1 && stored != 2 && (stored != 4 || half))
      throw std::invalid_argument("keys and values must be int8 or bfloat16, or float32 if the queries are float32");
    if (heads <= 0 || kv_heads <= 0 || head_dim <= 0 || heads % kv_heads != 0 || heads > kMaxSize ||
        head_dim > kMaxSize)
      throw std::invalid_argument(
          "the number of heads must be a positive multiple of the number of KV heads, and head_dim must be positive");
    for (const auto& [keys, values, layers, layer_stride, slot_count, slots_address, start, total, first, count] :
         rows) {
      if (first < 0 || count < 0 || count > total || first > kMaxSize)
        throw std::out_of_range(
            "the new positions must be the last ones of their sequence, and the query row must be from 0 to 2**31");
      const int64_t* copied_slots =
          slots_address ? copy_slots(reinterpret_cast<const int64_t*>(*slots_address), total, slot_count) : nullptr;
      if (copied_slots == nullptr && (start < 0 || start > slot_count || total > slot_count - start))
        throw std::out_of_range("there are no such slots");
      const Sequence sequence{reinterpret_cast<const void*>(keys),
                              reinterpret_cast<const void*>(values),
                              layer_stride,
                              copied_slots,
                              start,
                              total,
                              first,
                              count};
      (count <= kMaxFewPositions ? short_ : long_).push_back(sequence);
      if (count <= kMaxFewPositions) products_ += products_of(sequence);
      layers_ = std::min(layers_, layers);
      queries_ = std::max(queries_, first + count);
    }
  }

  void run(int64_t layer, uintptr_t q, int64_t q_stride, uintptr_t out, int64_t queries, float scale, float softcap,
           std::optional<int64_t> window, int64_t threads) const {
    const Kind kind{scale, softcap, window.value_or(std::numeric_limits<int64_t>::max())};
    if (kind.window < 1) throw std::invalid_argument("a window must contain at least one position");
    if (layer < 0 || layer >= layers_) throw std::out_of_range("there is no such layer");
    if (queries != queries_) throw std::out_of_range("the number of queries does not match the new positions");
    if (stored_ == 1)
      half_ ? run_as<bfloat16, int8_t>(kind, layer, q, q_stride, out, threads)
            : run_as<float, int8_t>(kind, layer, q, q_stride, out, threads);
    else if (stored_ == 2)
      half_ ? run_as<bfloat16, bfloat16>(kind, layer, q, q_stride, out, threads)
            : run_as<float, bfloat16>(kind, layer, q, q_stride, out, threads);
    else
      run_as<float, float>(kind, layer, q, q_stride, out, threads);
  }

 private:
  double products_of(const Sequence& sequence) const {
    return 2.0 * static_cast<double>(sequence.count) * static_cast<double>(sequence.total) *
           static_cast<double>(shape_.heads * shape_.head_dim);
  }

  // Copies the slots, so that they cannot change after the check.
  const int64_t* copy_slots(const int64_t* slots, int64_t count, int64_t slot_count) {
    const auto& copied_slots = slots_.emplace_back(slots, slots + count);
    if (std::any_of(copied_slots.begin(), copied_slots.end(),
                    [&](int64_t slot) { return slot < 0 || slot >= slot_count; }))
      throw std::out_of_range("there are no such slots");
    return copied_slots.data();
  }

  template <typename Number, typename Stored>
  void run_as(const Kind& kind, int64_t layer, uintptr_t q, int64_t q_stride, uintptr_t out, int64_t threads) const {
    const Queries<Number> queries{reinterpret_cast<const Number*>(q), q_stride, reinterpret_cast<Number*>(out)};
    const auto heads = static_cast<int64_t>(short_.size()) * shape_.kv_heads;
    share(heads, products_ < kFewProducts ? 1 : threads, [&](int64_t i) {
      const Sequence& sequence = short_[static_cast<size_t>(i / shape_.kv_heads)];
      attend_slots<Stored>(sequence, shape_, kind, layer, i % shape_.kv_heads, queries);
    });
    for (const auto& sequence : long_) {
      attend_prompt<Stored>(sequence, shape_, kind, layer, queries,
                            products_of(sequence) < kFewPromptProducts ? 1 : threads);
    }
  }

  Heads shape_;
  bool half_;
  int64_t stored_;
  std::vector<Sequence> short_, long_;
  std::vector<std::vector<int64_t>> slots_;
  int64_t layers_ = std::numeric_limits<int64_t>::max(), queries_ = 0;
  double products_ = 0;  // of the sequences in short_
};

template <typename Number>
Number* pointer_to(uintptr_t address) {
  return reinterpret_cast<Number*>(address);
}

// Calls `work` with the type of the numbers.
template <typename Work>
void with_type(bool half, const Work& work) {
  half ? work.template operator()<bfloat16>() : work.template operator()<float>();
}

void multiply_rows(bool half, uintptr_t x, uintptr_t weights, uintptr_t bias, uintptr_t out, int64_t rows, int64_t outs,
                   int64_t ins, int64_t threads) {
  with_type(half, [&]<typename N>() {
    const Product<N> product{pointer_to<const N>(x),
                             pointer_to<const N>(weights),
                             pointer_to<const N>(bias),
                             pointer_to<N>(out),
                             rows,
                             outs,
                             ins,
                             outs};
    multiply(product, threads);
  });
}

void add_blocks(BlockMatrix& matrix, int32_t ggml_type, uintptr_t raw, int64_t rows, std::optional<uintptr_t> order,
                int64_t count, int64_t threads) {
  const auto* order_pointer = order ? pointer_to<const int64_t>(*order) : nullptr;
  matrix.add(ggml_type, pointer_to<const uint8_t>(raw), rows, order_pointer, count, threads);
}

void multiply_by_blocks(const BlockMatrix& matrix, bool half, uintptr_t x, uintptr_t bias, uintptr_t out, int64_t rows,
                        int64_t threads) {
  with_type(half, [&]<typename N>() {
    matrix.multiply(pointer_to<const N>(x), pointer_to<const N>(bias), pointer_to<N>(out), rows, threads);
  });
}

void block_values(const BlockMatrix& matrix, uintptr_t rows, int64_t count, uintptr_t out) {
  matrix.values(pointer_to<const int64_t>(rows), count, pointer_to<float>(out));
}

void rms_norm_rows(bool half, uintptr_t x, uintptr_t weight, uintptr_t out, int64_t rows, int64_t size, float eps,
                   float offset) {
  with_type(half, [&]<typename N>() {
    rms_norm(pointer_to<const N>(x), pointer_to<const N>(weight), pointer_to<N>(out), rows, size, eps, offset);
  });
}

void swiglu_rows(bool half, uintptr_t x, uintptr_t out, int64_t rows, int64_t size) {
  with_type(half, [&]<typename N>() { swiglu(pointer_to<const N>(x), pointer_to<N>(out), rows, size); });
}

void geglu_rows(bool half, uintptr_t x, uintptr_t out, int64_t rows, int64_t size) {
  with_type(half, [&]<typename N>() { geglu(pointer_to<const N>(x), pointer_to<N>(out), rows, size); });
}

void softcap_rows(uintptr_t x, int64_t rows, int64_t size, float cap) {
  softcap(pointer_to<float>(x), rows, size, cap);
}

void gelu_rows(bool half, bool exact, uintptr_t x, uintptr_t out, int64_t rows, int64_t size) {
  with_type(half, [&]<typename N>() { gelu(exact, pointer_to<const N>(x), pointer_to<N>(out), rows, size); });
}

void rotate_rows(bool half, uintptr_t x, int64_t stride, uintptr_t cos, uintptr_t sin, int64_t rows, int64_t heads,
                 int64_t size, int64_t turned) {
  with_type(half, [&]<typename N>() {
    rotate(pointer_to<N>(x), stride, pointer_to<const N>(cos), pointer_to<const N>(sin), rows, heads, size, turned);
  });
}

void pack_rows(bool half, uintptr_t x, int64_t stride, uintptr_t out, int64_t rows, int64_t heads, int64_t size) {
  with_type(half,
            [&]<typename N>() { pack(pointer_to<const N>(x), stride, pointer_to<int8_t>(out), rows, heads, size); });
}

}  // namespace
}  // namespace guided

namespace {

// The docstrings, except that of choose_rows (bind_choose.cpp). `make stubs` writes guided/kernels/_kernels.pyi from
// them.
constexpr auto kModule = R"(Kernels for rows on a CPU.

They take addresses, which they cannot check, and sizes, most of which they do not check. The caller
(guided/kernels/__init__.py, guided/attention/slots.py) checks shapes and types and keeps the memory alive. `half`:
whether numbers are bfloat16 instead of float32. Rows are contiguous unless a stride is given; strides are counted in
numbers. Functions release the GIL while they compute.)";

constexpr auto kMultiply = R"(Write `x @ weights.T + bias` to `out`.

Args:
    x: address of (rows, ins).
    weights: address of (outs, ins).
    bias: address of (outs,); 0: none.
    out: address of (rows, outs).
    threads: the maximum number of threads. It does not affect the results.)";

constexpr auto kAddBlocks = R"(Append rows of a GGUF file.

Args:
    ggml_type: the format of the rows.
    raw: address of `rows` rows of blocks, as they are stored in the file.
    order: address of the indices of the rows to append, int64 (count,); None: the first `count` rows.
    threads: the maximum number of threads.

Raises:
    ValueError: the format is unknown, or the rows do not consist of whole blocks.
    IndexError: a row does not exist.)";

constexpr auto kMultiplyBlocks = R"(Write `x @ weights.T + bias` to `out`.

Args:
    half: whether x, bias and out are bfloat16 instead of float32.
    x: address of (rows, columns).
    bias: address of (outs,); 0: none.
    out: address of (rows, outs). `outs` is the number of rows of the matrix.
    threads: the maximum number of threads. It does not affect the results.)";

constexpr auto kBlockValues = R"(Write rows to `out` as float32 (count, columns).

Args:
    rows: address of the indices of the rows, int64 (count,).
    out: address of the output.

Raises:
    IndexError: a row does not exist.)";

constexpr auto kRmsNorm = R"(Write `x / sqrt(mean(x ** 2) + eps) * (offset + weight)` to `out`.

Args:
    x: address of (rows, size).
    weight: address of (size,); 0: the last factor is omitted.
    out: address of (rows, size).)";

constexpr auto kSwiglu = R"(Write `silu(gate) * up` to `out`.

Args:
    x: address of (rows, 2 * size): gate, then up.
    out: address of (rows, size).)";

constexpr auto kGeglu = R"(Write `gelu(gate) * up` to `out`, with the tanh approximation (see `gelu`).

Args:
    x: address of (rows, 2 * size): gate, then up.
    out: address of (rows, size).)";

constexpr auto kSoftcap = R"(Replace each number by `cap * tanh(number / cap)`, in place.

Args:
    x: address of float32 (rows, size).)";

constexpr auto kGelu = R"(Write `x * P(X <= x)`, for a standard normal X, to `out`.

Args:
    exact: whether to use the error function instead of the tanh approximation.
    x: address of (rows, size).
    out: address of (rows, size).)";

constexpr auto kRotate = R"(Rotate heads in place: (a, b) becomes (a cos - b sin, b cos + a sin).

a and b are the numbers i and i + turned / 2 of a head.

Args:
    x: address of (rows, heads, size); rows are `stride` numbers apart.
    cos: address of (rows, turned).
    sin: address of (rows, turned); its first half is negated (models/rotary.py).
    turned: the number of numbers at the beginning of each head that are rotated, a and b together.)";

constexpr auto kPack = R"(Quantise heads to 8 bits.

Args:
    x: address of (rows, heads, size); rows are `stride` numbers apart.
    out: address of int8 (rows, heads, size + 4): the numbers, then the float32 by which they are multiplied.)";

constexpr auto kBatch =
    R"(Bind the sequences of a forward pass. Their new positions attend to all positions before them.

Args:
    heads: the number of query heads, a multiple of `kv_heads`.
    kv_heads: the number of heads of keys and values.
    head_dim: the numbers per head.
    half: whether queries and output are bfloat16 instead of float32.
    stored: bytes per number of keys and values: 4 (float32), 2 (bfloat16) or 1 (int8, see `pack`).
    rows: one tuple per sequence: the address of the keys of layer 0; the address of the values of layer 0; the
        number of layers; the distance between two layers, in numbers; the number of slots in the cache; the
        address of the sequence's slots as int64, or None if they are consecutive; the first slot if they are
        consecutive; the number of positions; the query row of the first new position; the number of new
        positions.

Raises:
    ValueError: the numbers of heads or the types do not fit together.
    IndexError: a row refers to slots or positions that do not exist.)";

constexpr auto kRun = R"(Write the attention of one layer to `out`.

Args:
    layer: the index of the layer.
    q: address of (queries, heads, head_dim); rows are `q_stride` numbers apart.
    out: address of (queries, heads, head_dim).
    scale: the factor by which dot products of queries and keys are multiplied.
    softcap: c: scores become c * tanh(score / c); 0: scores are not capped.
    window: the maximum number of positions that a query reads, including its own; None: no limit.
    threads: the maximum number of threads. It does not affect the results.

Raises:
    IndexError: the layer does not exist, or `queries` is not the number of new positions.
    ValueError: the window is empty.)";

}  // namespace

NB_MODULE(_kernels, m) {
  m.doc() = kModule;
  const auto released = nb::call_guard<nb::gil_scoped_release>();
  m.def("multiply", &guided::multiply_rows, nb::arg("half"), nb::arg("x"), nb::arg("weights"), nb::arg("bias"),
        nb::arg("out"), nb::arg("rows"), nb::arg("outs"), nb::arg("ins"), nb::arg("threads"), kMultiply, released);
  m.def("rms_norm", &guided::rms_norm_rows, nb::arg("half"), nb::arg("x"), nb::arg("weight"), nb::arg("out"),
        nb::arg("rows"), nb::arg("size"), nb::arg("eps"), nb::arg("offset"), kRmsNorm, released);
  m.def("swiglu", &guided::swiglu_rows, nb::arg("half"), nb::arg("x"), nb::arg("out"), nb::arg("rows"), nb::arg("size"),
        kSwiglu, released);
  m.def("geglu", &guided::geglu_rows, nb::arg("half"), nb::arg("x"), nb::arg("out"), nb::arg("rows"), nb::arg("size"),
        kGeglu, released);
  m.def("softcap", &guided::softcap_rows, nb::arg("x"), nb::arg("rows"), nb::arg("size"), nb::arg("cap"), kSoftcap,
        released);
  m.def("gelu", &guided::gelu_rows, nb::arg("half"), nb::arg("exact"), nb::arg("x"), nb::arg("out"), nb::arg("rows"),
        nb::arg("size"), kGelu, released);
  m.def("rotate", &guided::rotate_rows, nb::arg("half"), nb::arg("x"), nb::arg("stride"), nb::arg("cos"),
        nb::arg("sin"), nb::arg("rows"), nb::arg("heads"), nb::arg("size"), nb::arg("turned"), kRotate, released);
  m.def("pack", &guided::pack_rows, nb::arg("half"), nb::arg("x"), nb::arg("stride"), nb::arg("out"), nb::arg("rows"),
        nb::arg("heads"), nb::arg("size"), kPack, released);
  guided::bind_choose(m);
  m.def("block_instructions", &guided::block_instructions,
        "The instructions that multiply blocks on this processor: avx512, avxvnni, avx2, neon or plain.");
  nb::class_<guided::BlockMatrix>(m, "BlockMatrix", "A matrix that stays quantised in ggml's formats, stored in tiles.")
      .def(nb::init<int64_t>(), nb::arg("columns"), "Make a matrix without rows.")
      .def("add", &guided::add_blocks, nb::arg("ggml_type"), nb::arg("raw"), nb::arg("rows"), nb::arg("order").none(),
           nb::arg("count"), nb::arg("threads"), kAddBlocks, released)
      .def("multiply", &guided::multiply_by_blocks, nb::arg("half"), nb::arg("x"), nb::arg("bias"), nb::arg("out"),
           nb::arg("rows"), nb::arg("threads"), kMultiplyBlocks, released)
      .def("values", &guided::block_values, nb::arg("rows"), nb::arg("count"), nb::arg("out"), kBlockValues, released)
      .def_prop_ro("bytes", &guided::BlockMatrix::bytes, "The number of bytes that a multiplication reads.");
  nb::class_<guided::Batch>(m, "Batch", "The sequences of one forward pass, for attention over slots of a cache.")
      .def(nb::init<int64_t, int64_t, int64_t, bool, int64_t, const std::vector<guided::Batch::Row>&>(),
           nb::arg("heads"), nb::arg("kv_heads"), nb::arg("head_dim"), nb::arg("half"), nb::arg("stored"),
           nb::arg("rows"), kBatch)
      .def("run", &guided::Batch::run, nb::arg("layer"), nb::arg("q"), nb::arg("q_stride"), nb::arg("out"),
           nb::arg("queries"), nb::arg("scale"), nb::arg("softcap"), nb::arg("window").none(), nb::arg("threads"), kRun,
           released);
}
