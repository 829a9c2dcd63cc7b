// What a transformer does with single rows between its products, on a CPU, each in one pass.
//
// In and out: contiguous rows of float32 or bfloat16, computed in float32 and rounded once. torch runs several kernels for
// each of these, whose starts take longer than the work when there are few rows. Cost: the bytes that are read, no threads.
#pragma once

#include <cstdint>

#include "numbers.hpp"

namespace guided {

// x / sqrt(mean(x ** 2) + eps) * (offset + weight); no weight: nothing is multiplied.
template <typename Number>
void rms_norm(const Number* x, const Number* weight, Number* out, int64_t rows, int64_t size, float eps, float offset);

// silu(gate) * up, of rows (gate, up), each of `size`.
template <typename Number>
void swiglu(const Number* x, Number* out, int64_t rows, int64_t size);

// gate P(X <= gate) up, of the same rows, by the approximation with tanh.
template <typename Number>
void geglu(const Number* x, Number* out, int64_t rows, int64_t size);

// x P(X <= x) of a normal X; `exact`, or by an approximation with tanh.
template <typename Number>
void gelu(bool exact, const Number* x, Number* out, int64_t rows, int64_t size);

// In place: (a, b), the first `turned` numbers of a head, become (a cos - b sin, b cos + a sin), see models/rotary.py. Rows
// of x are `stride` apart, those of cos and sin (`turned` numbers, sin with its sign) follow one another.
template <typename Number>
void rotate(Number* x, int64_t stride, const Number* cos, const Number* sin, int64_t rows, int64_t heads, int64_t size,
            int64_t turned);

// Heads of x, whose rows are `stride` apart, each as `size` whole numbers of 8 bits and, in the 4 bytes behind them, the
// float that they are multiplied by; see kv/quantised.py.
template <typename Number>
void pack(const Number* x, int64_t stride, int8_t* out, int64_t rows, int64_t heads, int64_t size);

// In place: cap tanh(x / cap).
void softcap(float* x, int64_t rows, int64_t size, float cap);

}  // namespace guided
