// Basic types of the core: symbols, failures that become Python errors, the compile-time meter, hashing, byte sets.
//
// Nearly all files of the core include this one, and it includes none of them. Cost: a unit of work of the meter is an
// addition and a comparison; the clock is read every few thousand units.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace guided {

// A symbol of the extended alphabet. Automata are built over one number line:
//
//   0 .. 2^21-1             code points spelled by encoding 0 (UTF-8)
//   e << 21 | code point    code points spelled by encoding e < 64
//   kCall + rule            a call of a rule
//   kToken + id             a control token
//   kEffect + index         an action of the rule (`Effect` in rule_block.hpp)
//
//   kSpelling + index       only after encoding: all spellings of one character; the layout expands it (encoding.hpp)
//
// After encoding, 0..255 are bytes; calls, control tokens and actions are unchanged.
using Symbol = uint32_t;
constexpr int kEncodingShift = 21;
constexpr int kMaxEncodings = 64;
constexpr Symbol kSpelling = 0x40000000u;
constexpr Symbol kCall = 0x80000000u;
constexpr Symbol kToken = 0xA0000000u;
constexpr Symbol kEffect = 0xC0000000u;
constexpr Symbol kMaxCodePoint = 0x10FFFF;

inline bool is_call(Symbol s) { return s >= kCall && s < kToken; }
inline bool is_token(Symbol s) { return s >= kToken && s < kEffect; }
inline bool is_effect(Symbol s) { return s >= kEffect; }
inline bool is_text(Symbol s) { return s < kCall; }
inline bool is_spelling(Symbol s) { return s >= kSpelling && s < kCall; }

struct Range {
  Symbol lo, hi;  // inclusive
};

// Results of a step that are not states. kDead: no text can follow. kUnknown: the step has not been computed yet.
enum NoState : int32_t { kDead = -1, kUnknown = -2 };

// Failures. The Python bindings translate them into Python errors.
struct LimitFailure : std::runtime_error {
  std::string limit, rule;  // rule: where the limit was reached, or empty
  double given, allowed;
  std::string advice;  // for a fixed limit, which no setting can raise: what to do about it; otherwise empty
  LimitFailure(std::string limit_name, double value, double max_value, std::string advice_text = "")
      : std::runtime_error("limit " + limit_name + " exceeded"),
        limit(std::move(limit_name)),
        given(value),
        allowed(max_value),
        advice(std::move(advice_text)) {}
};
struct EmptyLanguage : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Unsupported : std::runtime_error {
  std::string rule;  // where the construct was found, or empty
  using std::runtime_error::runtime_error;
};
struct VocabularyFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct BudgetFailure : std::runtime_error {
  int64_t needed, given;
  BudgetFailure(int64_t n, int64_t g) : std::runtime_error("budget too small"), needed(n), given(g) {}
};

// The cost of a hash-table look-up, in units of work (`Meter`).
inline constexpr int64_t kLookup = 8;

// Counts the resources that one compilation uses, and stops it at its limits.
class Meter {
 public:
  Meter(int64_t max_states, double max_seconds, int64_t max_work)
      : max_states_(max_states),
        max_work_(max_work),
        max_seconds_(max_seconds),
        start_(std::chrono::steady_clock::now()) {}
  // Adds work. A unit is about one automaton state or edge. Checks the limit and the clock every few thousand units.
  void work(int64_t units) {
    pending_ += units;
    if (pending_ >= 4096) check();
  }
  void states(int64_t count) const {
    if (count > max_states_) throw LimitFailure("states", static_cast<double>(count), static_cast<double>(max_states_));
  }
  int64_t max_states() const { return max_states_; }
  int64_t worked() const { return worked_ + pending_; }
  // The rule that is being compiled, or -1. Errors name it as the rule in which a limit was reached.
  int32_t rule = -1;

 private:
  void check() {
    worked_ += pending_;
    pending_ = 0;
    if (worked_ > max_work_) throw LimitFailure("work", static_cast<double>(worked_), static_cast<double>(max_work_));
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    if (elapsed.count() > max_seconds_) throw LimitFailure("seconds", elapsed.count(), max_seconds_);
  }
  int64_t max_states_, max_work_;
  double max_seconds_;
  std::chrono::steady_clock::time_point start_;
  int64_t pending_ = 0, worked_ = 0;
};

inline uint64_t mix(uint64_t h) {
  h ^= h >> 32;
  h *= 0x9E3779B97F4A7C15ull;
  h ^= h >> 29;
  h *= 0xBF58476D1CE4E5B9ull;
  h ^= h >> 32;
  return h;
}
inline uint64_t combine(uint64_t h, uint64_t v) { return mix(h * 0x9E3779B97F4A7C15ull + v + 0x632BE59BD9B4E019ull); }

// Sorts a list and removes duplicates.
template <class T>
void sort_unique(std::vector<T>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// Packs two numbers into one key.
inline uint64_t pair_key(int32_t a, int32_t b) {
  return uint64_t{static_cast<uint32_t>(a)} << 32 | static_cast<uint32_t>(b);
}

// Hashes a vector of 32-bit integers. The compiler's interning tables use such vectors as keys.
struct IntsHash {
  size_t operator()(const std::vector<int32_t>& v) const {
    uint64_t h = v.size();
    for (int32_t x : v) h = combine(h, static_cast<uint32_t>(x));
    return static_cast<size_t>(h);
  }
};

// A 128-bit hash of some content (two independent mixes), used to share equal content.
struct Digest {
  uint64_t a = 0x243F6A8885A308D3ull, b = 0x13198A2E03707344ull;
  void add(uint64_t v) {
    a = combine(a, v);
    b = combine(b ^ 0xA4093822299F31D0ull, v * 0xD6E8FEB86659FD93ull + 0x082EFA98EC4E6C89ull);
  }
  void add(const Digest& d) {
    add(d.a);
    add(d.b);
  }
  bool operator==(const Digest& d) const { return a == d.a && b == d.b; }
  bool operator<(const Digest& d) const { return a != d.a ? a < d.a : b < d.b; }
};
struct DigestHash {
  size_t operator()(const Digest& d) const { return static_cast<size_t>(d.a ^ (d.b * 31)); }
};

// A set of bytes.
struct ByteSet {
  uint64_t w[4] = {0, 0, 0, 0};
  bool has(uint8_t b) const { return (w[b >> 6] >> (b & 63)) & 1; }
  void add(uint8_t b) { w[b >> 6] |= uint64_t{1} << (b & 63); }
  static ByteSet all() { return {{~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}}}; }
  ByteSet& operator|=(const ByteSet& o) {
    for (int i = 0; i < 4; ++i) w[i] |= o.w[i];
    return *this;
  }
  ByteSet& operator&=(const ByteSet& o) {
    for (int i = 0; i < 4; ++i) w[i] &= o.w[i];
    return *this;
  }
  bool empty() const { return !(w[0] | w[1] | w[2] | w[3]); }
  bool operator==(const ByteSet& o) const {
    return w[0] == o.w[0] && w[1] == o.w[1] && w[2] == o.w[2] && w[3] == o.w[3];
  }
  // Calls visit(byte) for each byte, in order.
  template <class Visit>
  void each(Visit&& visit) const {
    for (int i = 0; i < 4; ++i)
      for (uint64_t remaining_bits = w[i]; remaining_bits; remaining_bits &= remaining_bits - 1)
        visit(static_cast<uint8_t>(i * 64 + __builtin_ctzll(remaining_bits)));
  }
  int count() const {
    int n = 0;
    for (uint64_t x : w) n += __builtin_popcountll(x);
    return n;
  }
};

}  // namespace guided
