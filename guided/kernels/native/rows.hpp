// The row-wise operations of a transformer between its matrix products, on a CPU, each in one pass.
//
// In and out: contiguous rows of float32 or bfloat16, computed in float32 and rounded once. torch runs several kernels
// for each operation. With few rows, starting them takes longer than the work. Cost: reading the bytes; no threads.
#pragma once

#include <cstdint>

#include "numbers.hpp"

namespace guided {

// x / sqrt(mean(x ** 2) + eps) * (offset + weight); a null weight omits the last factor.
template <typename Number>
void rms_norm(const Number* x, const Number* weight, Number* out, int64_t rows, int64_t size, float eps, float offset);

// silu(gate) * up, for rows (gate, up) of `size` numbers each.
template <typename Number>
void swiglu(const Number* x, Number* out, int64_t rows, int64_t size);

// gelu(gate) * up with the tanh approximation, for the same rows as swiglu.
template <typename Number>
void geglu(const Number* x, Number* out, int64_t rows, int64_t size);

// x P(X <= x) for a standard normal X: exact, or with the tanh approximation.
template <typename Number>
void gelu(bool exact, const Number* x, Number* out, int64_t rows, int64_t size);

// Rotates heads in place: (a, b), the first `turned` numbers of a head, become (a cos - b sin, b cos + a sin); see
// models/rotary.py. Rows of x are `stride` apart. Rows of cos and sin are contiguous and have `turned` numbers; sin
// includes its sign.
template <typename Number>
void rotate(Number* x, int64_t stride, const Number* cos, const Number* sin, int64_t rows, int64_t heads, int64_t size,
            int64_t turned);

// Quantises the heads of x, whose rows are `stride` apart. A head becomes `size` 8-bit integers, followed by 4 bytes
// for the float by which they are multiplied; see kv/quantised.py.
template <typename Number>
void pack(const Number* x, int64_t stride, int8_t* out, int64_t rows, int64_t heads, int64_t size);

// Replaces x by cap tanh(x / cap), in place.
void softcap(float* x, int64_t rows, int64_t size, float cap);

}  // namespace guided
