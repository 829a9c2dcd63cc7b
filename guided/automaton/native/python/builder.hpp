// Collects a grammar's IR nodes for the core, and compiles them. Nodes refer to their children by the numbers that
// earlier calls have returned.
//
// In: calls from Python, one for each node, encoding and rule. Out: the number of the node; from `compile`, the
// compiled grammar. Arguments are checked here, so the compiler can rely on them: numbers of earlier nodes, ordered
// ranges, bounds. Cost: linear in the nodes, plus the compilation (matching/compile.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "fsa/substrings.hpp"
#include "matching/compile.hpp"
#include "python/bindings.hpp"

namespace guided {

namespace nb = nanobind;

using RangeList = std::vector<std::pair<int64_t, int64_t>>;
// Pairs (ranges, digits). A digit is a list of (low, high, value, step).
using FormList = std::vector<std::pair<RangeList, std::vector<std::vector<std::tuple<int, int, int64_t, int64_t>>>>>;

inline std::vector<Range> check_ranges(const RangeList& ranges) {
  std::vector<Range> out;
  int64_t last = -1;
  for (auto [lo, hi] : ranges) {
    if (lo <= last || hi < lo || hi > kMaxCodePoint || (lo <= 0xDFFF && hi >= 0xD800))
      throw nb::value_error("ranges must be sorted, disjoint, without surrogates");
    out.push_back({static_cast<Symbol>(lo), static_cast<Symbol>(hi)});
    last = hi;
  }
  return out;
}

// An encoding, read once for all grammars.
struct ReadEncoding {
  std::shared_ptr<const Encoding> encoding;
  Digest digest;
  explicit ReadEncoding(const FormList& forms) {
    Encoding out;
    for (const auto& [ranges, digits] : forms) {
      Form form;
      form.ranges = check_ranges(ranges);
      if (digits.empty() || digits.size() > 64) throw nb::value_error("a form needs 1 to 64 digits");
      for (const auto& digit : digits) {
        std::vector<DigitSpan> spans;
        for (const auto& [low, high, value, step] : digit) {
          if (low < 0 || high > 255 || low > high || value < 0 || step < 0 || value > 0x200000 || step > 0x200000)
            throw nb::value_error("digit span out of range");
          spans.push_back({low, high, value, step});
        }
        form.digits.push_back(std::move(spans));
      }
      form.rest.assign(form.digits.size(), 0);
      for (size_t i = form.digits.size(); i-- > 1;) {
        int64_t max_value = 0;
        for (const DigitSpan& s : form.digits[i]) max_value = std::max(max_value, s.value + (s.high - s.low) * s.step);
        form.rest[i - 1] = form.rest[i] + max_value;
      }
      out.forms.push_back(std::move(form));
    }
    for (const Form& form : out.forms) {
      digest.add(form.ranges.size());
      digest.add(form.digits.size());
      for (const Range& r : form.ranges) digest.add(uint64_t{r.lo} << 32 | r.hi);
      for (const auto& digit : form.digits) {
        digest.add(digit.size());
        for (const DigitSpan& s : digit) {
          digest.add(static_cast<uint64_t>(s.low) << 8 | static_cast<uint64_t>(s.high));
          digest.add(static_cast<uint64_t>(s.value) << 24 | static_cast<uint64_t>(s.step));
        }
      }
    }
    encoding = std::make_shared<const Encoding>(std::move(out));
  }
};

// While a grammar is being compiled, without the GIL, its builder accepts no other calls.
class Builder {
 public:
  using Later = std::vector<std::tuple<int32_t, nb::bytes, int64_t>>;  // see `compile`
  Builder() { ir_.nodes.reserve(kTypicalNodes); }
  const IrNode& node(int32_t number) const { return ir_.nodes[static_cast<size_t>(check_node(number))]; }
  // Adds nodes whose children are indices in the list. Returns the number of the last one.
  int32_t append(const std::vector<IrNode>& nodes) {
    check_not_busy();
    const auto base = static_cast<int32_t>(ir_.nodes.size());
    for (const IrNode& node : nodes) {
      IrNode& n = ir_.nodes.emplace_back(node);
      for (int32_t& child : n.items) child += base;
    }
    return static_cast<int32_t>(ir_.nodes.size()) - 1;
  }
  int32_t chars(const RangeList& ranges) {
    IrNode n{.kind = Kind::Chars};
    n.ranges = check_ranges(ranges);
    return add(std::move(n));
  }
  int32_t text(nb::str text) {
    IrNode n{.kind = Kind::Text, .text = code_points(text)};
    if (std::ranges::any_of(n.text, [](Symbol c) { return c >= 0xD800 && c <= 0xDFFF; }))
      throw nb::value_error("the text contains a surrogate");
    return add(std::move(n));
  }
  int32_t many(const std::string& kind, const std::vector<int32_t>& items) {
    return many(kind == "seq" ? Kind::Seq : kind == "alt" ? Kind::Alt : Kind::And, items);
  }
  int32_t many(Kind kind, const std::vector<int32_t>& items) { return add({.kind = kind, .items = children(items)}); }
  int32_t negation(int32_t item) { return add({.kind = Kind::Not, .items = {check_node(item)}}); }
  int32_t repeat(int32_t item, int64_t min, int64_t max) {
    check_bounds(min, max);
    return add({.kind = Kind::Repeat, .items = {check_node(item)}, .min = min, .max = max});
  }
  int32_t length(int32_t item, int64_t min, int64_t max) {
    check_bounds(min, max);
    return add({.kind = Kind::Length, .items = {check_node(item)}, .min = min, .max = max});
  }
  int32_t encoded(int32_t item, int32_t encoding) {
    if (encoding < 0 || encoding >= static_cast<int32_t>(ir_.encodings.size()))
      throw nb::index_error("there is no such encoding");
    return add({.kind = Kind::Encoded, .items = {check_node(item)}, .ref = encoding});
  }
  int32_t max_tokens(int32_t item, int64_t max) {
    check_bounds(0, max);
    return add({.kind = Kind::Tokens, .items = {check_node(item)}, .max = max});
  }
  int32_t ref(int32_t rule) { return add({.kind = Kind::Ref, .ref = rule}); }
  int32_t special(int32_t first, int32_t last) {
    if (first < 0 || last < first || last >= static_cast<int32_t>(kEffect - kToken))
      throw nb::index_error("there is no such token");
    return add({.kind = Kind::Special, .max = last, .ref = first});
  }
  int32_t permutation(const std::vector<int32_t>& items, const std::vector<bool>& required,
                      const std::vector<bool>& repeatable, int32_t separator, int64_t min, int64_t max) {
    check_bounds(min, max);
    if (required.size() != items.size() || repeatable.size() != items.size())
      throw nb::value_error("the lists have different lengths");
    IrNode n{.kind = Kind::Permutation, .items = children(items), .min = min, .max = max, .ref = check_node(separator)};
    n.required.assign(required.begin(), required.end());
    n.repeatable.assign(repeatable.begin(), repeatable.end());
    return add(std::move(n));
  }
  // Like `permutation`, but members have slots, may have to follow the order of the slots, and must satisfy a
  // condition. `nodes`: the condition as a list of (kind, parts), in which nodes come after their parts
  // (condition.hpp).
  int32_t conditional(const std::vector<int32_t>& items, const std::vector<bool>& required,
                      const std::vector<bool>& repeatable, int32_t separator, int64_t min, int64_t max,
                      const std::vector<int32_t>& slots, bool ordered,
                      const std::vector<std::pair<int32_t, std::vector<int32_t>>>& nodes) {
    if (min < 1) throw nb::value_error("a permutation with a condition, slots or an order needs min >= 1");
    const int32_t id = permutation(items, required, repeatable, separator, min, max);
    IrNode& n = ir_.nodes[id];
    n.condition = std::make_shared<Condition>(Condition::read(n.required, n.repeatable, slots, ordered, nodes));
    n.required.assign(n.required.size(), 0);  // the condition includes which members are required
    return id;
  }
  int32_t distinct(int32_t item, const std::vector<std::string>& names) {
    check_not_busy();
    KnownNames known;
    known.sorted = names;
    std::sort(known.sorted.begin(), known.sorted.end());
    for (const std::string& name : known.sorted) {
      known.digest.add(name.size());
      for (char ch : name) known.digest.add(static_cast<uint8_t>(ch));
    }
    const auto known_index = static_cast<int32_t>(ir_.known.size());
    IrNode n{.kind = Kind::Distinct, .items = {check_node(item)}, .ref = known_index};
    ir_.known.push_back(std::move(known));
    return add(std::move(n));
  }
  int32_t entry(int32_t item) { return add({.kind = Kind::Entry, .items = {check_node(item)}}); }
  // edges: (from, low, high, to), sorted by state and symbol.
  int32_t automaton(const std::vector<bool>& accept,
                    const std::vector<std::tuple<int32_t, int64_t, int64_t, int32_t>>& edges) {
    if (accept.empty()) throw nb::value_error("an automaton needs at least one state");
    auto dfa = std::make_shared<Dfa>();
    for (bool accepting : accept) dfa->add(accepting);
    IrNode n{.kind = Kind::Automaton};
    int32_t last = 0;
    int64_t last_symbol = -1;
    std::vector<Edge> state_edges;
    for (auto [from, low, high, to] : edges) {
      if (from != last) {
        dfa->edges.set(last, state_edges);
        state_edges.clear();
        last_symbol = -1;
      }
      if (from < last || from >= dfa->size() || to < 0 || to >= dfa->size() || low <= last_symbol || high < low ||
          high > kMaxCodePoint || (low <= 0xDFFF && high >= 0xD800))
        throw nb::value_error("edges must lead to existing states, and be sorted and disjoint, without surrogates");
      state_edges.push_back({static_cast<Symbol>(low), static_cast<Symbol>(high), to});
      last = from;
      last_symbol = high;
    }
    dfa->edges.set(last, state_edges);
    n.automaton = std::move(dfa);
    return add(std::move(n));
  }
  // For the marks in the texts, see fsa/substrings.hpp.
  int32_t substrings(const std::vector<nb::str>& texts, bool marked) {
    check_not_busy();
    IrNode n{.kind = Kind::Substrings, .min = marked};
    std::vector<std::vector<Symbol>> symbols;
    for (const nb::str& text : texts) {
      symbols.push_back(code_points(text));
      if (std::ranges::any_of(symbols.back(), [](Symbol c) { return c > kEndMark && c <= 0xDFFF; }))
        throw nb::value_error("the text contains a surrogate");
      n.text.insert(n.text.end(), symbols.back().begin(), symbols.back().end());
      n.text.push_back(kMaxCodePoint + 1);
    }
    n.ranges = characters_of(symbols);
    auto automaton = std::make_shared<const Dfa>(substring_automaton(symbols, marked));
    const int32_t id = add(std::move(n));  // computes the digest of the texts
    ir_.nodes[id].text = {};
    ir_.nodes[id].automaton = std::move(automaton);
    return id;
  }
  // An automaton, and the items that follow some of its states.
  int32_t dispatch(int32_t automaton, const std::vector<int32_t>& states, const std::vector<int32_t>& items) {
    const std::shared_ptr<const Dfa> dfa = ir_.nodes[check_node(automaton)].automaton;
    if (!dfa || states.size() != items.size())
      throw nb::value_error("dispatch needs an automaton, and an item for each exit state");
    IrNode n{.kind = Kind::Dispatch, .items = {automaton}};
    for (size_t i = 0; i < items.size(); ++i) {
      if (states[i] < 0 || states[i] >= dfa->size()) throw nb::value_error("an exit must be a state of the automaton");
      n.text.push_back(static_cast<uint32_t>(states[i]));
      n.items.push_back(check_node(items[i]));
    }
    return add(std::move(n));
  }
  // The first encoding is UTF-8.
  int32_t encoding(const ReadEncoding& new_encoding) {
    check_not_busy();
    if (ir_.encodings.size() >= kMaxEncodings) throw nb::value_error("too many encodings");
    ir_.encoding_digests.push_back(new_encoding.digest);
    ir_.encodings.push_back(new_encoding.encoding);
    return static_cast<int32_t>(ir_.encodings.size()) - 1;
  }
  std::shared_ptr<CompiledRules> compile(std::shared_ptr<TokenVocabulary> vocabulary, const std::vector<int32_t>& rules,
                                         const std::vector<std::string>& names, int32_t start, int64_t max_states,
                                         double max_seconds, int64_t memory, int64_t max_work, int64_t call_work,
                                         const Later& later, nb::object compile_later) {
    if (rules.empty() || names.size() != rules.size() || start < 0 || start >= static_cast<int32_t>(rules.size()))
      throw nb::index_error("the rules, their names and the start do not match");
    check_not_busy();
    ir_.rules = children(rules);
    ir_.names = names;
    ir_.start = start;
    ir_.later.clear();
    for (const auto& [rule, digest, shortest_bound] : later) {
      if (rule < 0 || rule >= static_cast<int32_t>(rules.size())) throw nb::index_error("there is no such rule");
      Digest content;
      for (char ch : as_string_view(digest)) content.add(static_cast<uint8_t>(ch));
      ir_.later.push_back({rule, content, shortest_bound});
    }
    if (ir_.encodings.empty()) throw nb::value_error("the builder has no encoding");
    for (const IrNode& n : ir_.nodes)
      if (n.kind == Kind::Ref && (n.ref < 0 || n.ref >= static_cast<int32_t>(rules.size())))
        throw nb::index_error("a reference to a rule that does not exist");
      else if (n.kind == Kind::Special && n.max >= vocabulary->size)
        throw nb::index_error("there is no such token");
    const CompileLater callback = later.empty() ? CompileLater{} : make_callback(std::move(compile_later));
    const BusyMark mark(busy_);
    nb::gil_scoped_release release;
    Meter meter(max_states, max_seconds, max_work);
    std::shared_ptr<const Grammar> grammar = compile_grammar(ir_, *vocabulary, meter);
    auto compiled = std::make_shared<CompiledRules>(std::move(grammar), std::move(vocabulary),
                                                    call_limits(memory, call_work), callback);
    if (!compiled->can_end()) throw Unsupported("no way to an end is found: too few values are left that differ");
    return compiled;
  }

 private:
  // Returns a function that calls Python to compile deferred rules. Any OS thread may call or destroy it.
  static CompileLater make_callback(nb::object function) {
    const std::shared_ptr<nb::object> shared_function(new nb::object(std::move(function)), [](nb::object* owned) {
      nb::gil_scoped_acquire acquire;
      delete owned;
    });
    const auto busy = std::make_shared<std::recursive_mutex>();  // recursive: Python may run anything in between
    return [shared_function, busy](const auto& find_missing, const auto& add) {
      nb::gil_scoped_acquire acquire;
      std::unique_lock<std::recursive_mutex> lock(*busy, std::defer_lock);
      {
        nb::gil_scoped_release release;  // the thread that holds the lock needs the GIL
        lock.lock();
      }
      const std::vector<int32_t> numbers = find_missing();
      if (numbers.empty()) return;
      std::vector<std::shared_ptr<const Grammar>> compiled;
      for (nb::handle rules : (*shared_function)(numbers))
        compiled.push_back(nb::cast<std::shared_ptr<CompiledRules>>(rules)->grammar());
      if (compiled.size() != numbers.size()) throw nb::value_error("compile_later must return a grammar for each rule");
      nb::gil_scoped_release release;
      add(compiled);
    };
  }
  struct BusyMark {
    explicit BusyMark(std::atomic<bool>& busy) : busy(busy) { busy = true; }
    ~BusyMark() { busy = false; }
    BusyMark(const BusyMark&) = delete;
    std::atomic<bool>& busy;
  };
  void check_not_busy() const {
    if (busy_) throw std::runtime_error("another thread is compiling this builder's grammar");
  }
  static std::vector<uint32_t> code_points(nb::str text) {
    const Py_ssize_t length = PyUnicode_GET_LENGTH(text.ptr());
    const int width = PyUnicode_KIND(text.ptr());
    const void* data = PyUnicode_DATA(text.ptr());
    std::vector<uint32_t> out(static_cast<size_t>(length));
    for (Py_ssize_t i = 0; i < length; ++i) out[static_cast<size_t>(i)] = PyUnicode_READ(width, data, i);
    return out;
  }
  static std::vector<Range> characters_of(const std::vector<std::vector<Symbol>>& texts) {
    std::vector<uint8_t> is_used;
    for (const auto& text : texts)
      for (const Symbol c : text) {
        if (c >= is_used.size()) is_used.resize(c + 1, 0);
        is_used[c] = c != kBeginMark && c != kEndMark;
      }
    std::vector<Range> out;
    for (Symbol c = 0; c < is_used.size(); ++c)
      if (is_used[c] && c > 0 && is_used[c - 1])
        out.back().hi = c;
      else if (is_used[c])
        out.push_back({c, c});
    return out;
  }
  static void check_bounds(int64_t min, int64_t max) {
    if (min < 0 || max < -1 || min > INT32_MAX / 2 || max > INT32_MAX / 2)
      throw nb::value_error("the bounds are out of range");
  }
  int32_t check_node(int32_t node) const {
    if (node < 0 || node >= static_cast<int32_t>(ir_.nodes.size())) throw nb::index_error("there is no such node");
    return node;
  }
  std::vector<int32_t> children(const std::vector<int32_t>& items) const {
    for (int32_t i : items) check_node(i);
    return items;
  }
  int32_t add(IrNode n) {
    check_not_busy();
    Digest& d = n.digest;
    d.add(static_cast<uint64_t>(n.kind));
    for (const Range& r : n.ranges) d.add(uint64_t{r.lo} << 32 | r.hi);
    d.add(n.text.size());
    uint64_t packed = 0;  // three characters of 21 bits each
    for (size_t i = 0; i < n.text.size(); ++i) {
      packed = packed << 21 | n.text[i];
      if (i % 3 == 2 || i + 1 == n.text.size()) d.add(std::exchange(packed, 0));
    }
    d.add(static_cast<uint64_t>(n.min));
    d.add(static_cast<uint64_t>(n.max));
    if (n.automaton)
      for (int32_t s = 0; s < n.automaton->size(); ++s) {
        d.add(0x5157A7Eu + n.automaton->accept[s]);
        for (const Edge& e : n.automaton->edges[s]) {
          d.add(uint64_t{e.lo} << 32 | e.hi);
          d.add(static_cast<uint64_t>(e.to));
        }
      }
    if (n.kind == Kind::Distinct) d.add(ir_.known[n.ref].digest);
    if (n.kind == Kind::Encoded) d.add(ir_.encoding_digests[n.ref]);
    n.closed = n.kind != Kind::Ref && n.kind != Kind::Special && n.kind != Kind::Permutation &&
               n.kind != Kind::Distinct && n.kind != Kind::Entry;
    for (int32_t c : n.items) {
      d.add(ir_.nodes[c].digest);
      n.closed = n.closed && ir_.nodes[c].closed;
    }
    ir_.nodes.push_back(std::move(n));
    return static_cast<int32_t>(ir_.nodes.size()) - 1;
  }
  static constexpr size_t kTypicalNodes = 256;  // enough for most grammars
  IrGrammar ir_;
  std::atomic<bool> busy_ = false;
};

}  // namespace guided
