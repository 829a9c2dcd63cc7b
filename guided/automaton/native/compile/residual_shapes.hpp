// Residual shapes: what a state inside a character can still read, without the numbers of its targets.
//
// In: the text edges of a state, and the encodings (forms.hpp). Out: the states inside its characters (*residuals*, see
// encoding.hpp), each as a shape and a list of targets.
// How: a shape consists of a form, the number of digits read, and ranges whose targets are numbered in the order in
// which they occur. Example: in `[a-z]{200}`, 200 states have the edge [a-z], each to another state. In JSON strings,
// the residual after `\u` has the shape {0x61..0x7A -> target 0} for all of them, so its bytes are computed only once.
// Cost: O(distinct shapes * bytes per digit). Equal residuals have equal shapes and equal targets.
#pragma once

#include <span>
#include <vector>

#include "base/int_lists.hpp"
#include "compile/forms.hpp"
#include "fsa/symbolic_automaton.hpp"

namespace guided {

class ResidualShapes {
 public:
  // `live`: the bytes that occur in some token. Other bytes are left out.
  ResidualShapes(const Encodings& encodings, const ByteSet& live) : encodings_(encodings), live_(live) {}

  // A residual. Its target i is target `targets[i]` of the state that leads to it.
  struct Residual {
    int32_t shape;
    std::vector<int32_t> targets;
    bool operator==(const Residual&) const = default;
  };
  // The bytes lo..hi complete a character and lead to a target, or lead to a residual if `target` is kInside.
  struct Step {
    int lo, hi;
    int32_t target;
    Residual residual;
  };
  static constexpr int32_t kInside = -1;

  // The residuals before the first byte of the characters on the edges, one for each form. Each edge leads to a target;
  // targets are numbered in the order in which they occur. The result is valid until the next call.
  const std::vector<Residual>& first_residuals(std::span<const Edge> edges, Meter& meter);
  // The steps that read the next digit, sorted by byte. Valid until the next call.
  const std::vector<Step>& steps_of(int32_t shape, Meter& meter);

 private:
  // A range of code points, relative to the sum of the digits read so far, and a target.
  struct Segment {
    int64_t lo, hi;
    int32_t to;
  };
  struct Shape {
    const Form* form;
    int digit;
    std::vector<Segment> segments;
    std::vector<Step> steps;
    bool has_steps;
  };

  static std::vector<Segment> clip(const std::vector<Segment>& segments, int64_t from, int64_t to);
  Residual make_residual(const Form* form, int digit, std::vector<Segment> segments, Meter& meter);
  std::vector<Residual> find_first_residuals(std::span<const Edge> edges, Meter& meter);
  std::vector<Step> find_steps(const Form& form, int digit, const std::vector<Segment>& segments, Meter& meter);

  const Encodings& encodings_;
  const ByteSet& live_;
  IntLists shape_keys_, edge_keys_;
  std::vector<Shape> shapes_;                           // by number in `shape_keys_`
  std::vector<std::vector<Residual>> first_residuals_;  // by number in `edge_keys_`
  std::vector<int32_t> numbers_;  // by target: its number while targets are being numbered; otherwise -1
  std::vector<int32_t> key_;
};

}  // namespace guided
