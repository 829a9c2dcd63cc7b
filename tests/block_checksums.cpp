// Prints the instructions in use, and for each format a checksum of the bits of products of random blocks. The same on
// all processors that fuse multiplication and addition alike: test_models_block_arm.py compares them under an emulator.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "../guided/kernels/native/block_format.hpp"
#include "../guided/kernels/native/block_matrix.hpp"

using namespace guided;

namespace {

struct Random {
  uint64_t state;
  uint32_t next() {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<uint32_t>(state >> 32);
  }
  float number() { return static_cast<float>(static_cast<int32_t>(next()) >> 8) * 0x1p-22F; }
};

// Where blocks of a format have float16 numbers.
std::vector<int> halves(int32_t type) {
  if (type == 10) return {80, 82};
  if (type == 11) return {108};
  if (type == 14) return {208};
  if (type == 3 || type == 7 || type == 12 || type == 13) return {0, 2};
  return {0};
}

template <Format F, typename Number>
uint64_t checksum(int32_t type) {
  uint64_t sum = 14695981039346656037U;
  for (const int64_t outs : {1, 16, 50, 131})
    for (const int64_t ins : {256, 768}) {
      Random random{static_cast<uint64_t>(1000 * type + outs + ins)};
      const int64_t blocks = outs * ins / F.columns;
      std::vector<uint8_t> raw(static_cast<size_t>(blocks * F.bytes));
      for (uint8_t& byte : raw) byte = static_cast<uint8_t>(random.next());
      for (int64_t block = 0; block < blocks; ++block)
        for (const int at : halves(type)) raw[static_cast<size_t>(block * F.bytes + at + 1)] &= 0xBF;  // finite
      BlockMatrix matrix(ins);
      matrix.add(type, raw.data(), outs, nullptr, outs, 1);
      std::vector<Number> x(static_cast<size_t>(13 * ins)), bias(static_cast<size_t>(outs)), out(13 * bias.size());
      for (Number& number : x) write(random.number(), number);
      for (Number& number : bias) write(random.number(), number);
      std::fill_n(x.begin(), 32, Number{});
      for (int64_t rows = 1; rows <= 13; ++rows) {
        matrix.multiply(x.data(), rows % 2 ? bias.data() : nullptr, out.data(), rows, 1);
        const auto* bytes = reinterpret_cast<const uint8_t*>(out.data());
        for (size_t i = 0; i < static_cast<size_t>(rows * outs) * sizeof(Number); ++i)
          sum = (sum ^ bytes[i]) * 1099511628211U;
      }
    }
  return sum;
}

}  // namespace

int main() {
  std::printf("%s\n", block_instructions());
  for (int32_t type = 0; type < 64; ++type)
    with_format(type, [type]<Format F>() {
      std::printf("%d %016llx %016llx\n", type, static_cast<unsigned long long>(checksum<F, float>(type)),
                  static_cast<unsigned long long>(checksum<F, bfloat16>(type)));
    });
}
