// The Python border. Python hands over the IR once, node by node; afterwards calls pass an object, ints and a buffer.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "matcher.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace guided;

namespace {

using MaskArray = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using RangeList = std::vector<std::pair<int64_t, int64_t>>;

nb::bytes to_bytes(const std::vector<uint8_t>& v) { return nb::bytes(reinterpret_cast<const char*>(v.data()), v.size()); }

// Collects IR nodes; children are named by the numbers that earlier calls returned.
class Builder {
 public:
  int32_t chars(const RangeList& ranges) {
    IrNode n{Kind::Chars, {}, {}, {}, 0, -1, -1, {}, {}, {}, true};
    n.ranges = checked(ranges);
    return add(std::move(n));
  }
  int32_t text(nb::str text) {
    IrNode n{Kind::Text, {}, {}, {}, 0, -1, -1, {}, {}, {}, true};
    Py_ssize_t length = PyUnicode_GetLength(text.ptr());
    for (Py_ssize_t i = 0; i < length; ++i) {
      Py_UCS4 c = PyUnicode_ReadChar(text.ptr(), i);
      if (c >= 0xD800 && c <= 0xDFFF) throw nb::value_error("text holds a surrogate");
      n.text.push_back(c);
    }
    return add(std::move(n));
  }
  int32_t many(const std::string& kind, const std::vector<int32_t>& items) {
    Kind k = kind == "seq" ? Kind::Seq : kind == "alt" ? Kind::Alt : Kind::And;
    IrNode n{k, {}, {}, children(items), 0, -1, -1, {}, {}, {}, true};
    return add(std::move(n));
  }
  int32_t negation(int32_t item) { return add({Kind::Not, {}, {}, children({item}), 0, -1, -1, {}, {}, {}, true}); }
  int32_t repeat(int32_t item, int64_t min, int64_t max) {
    bounds(min, max);
    return add({Kind::Repeat, {}, {}, children({item}), min, max, -1, {}, {}, {}, true});
  }
  int32_t length(int32_t item, int64_t min, int64_t max) {
    bounds(min, max);
    return add({Kind::Length, {}, {}, children({item}), min, max, -1, {}, {}, {}, true});
  }
  int32_t encoded(int32_t item, int32_t encoding) {
    if (encoding < 0 || encoding >= static_cast<int32_t>(ir_.encodings.size())) throw nb::index_error("encoding");
    return add({Kind::Encoded, {}, {}, children({item}), 0, -1, encoding, {}, {}, {}, true});
  }
  int32_t ref(int32_t rule) { return add({Kind::Ref, {}, {}, {}, 0, -1, rule, {}, {}, {}, true}); }
  int32_t special(int32_t token) {
    if (token < 0 || token >= static_cast<int32_t>(kEffect - kToken)) throw nb::index_error("token");
    return add({Kind::Special, {}, {}, {}, 0, -1, token, {}, {}, {}, true});
  }
  int32_t permutation(const std::vector<int32_t>& items, const std::vector<bool>& required,
                      const std::vector<bool>& repeatable, int32_t separator, int64_t min, int64_t max) {
    bounds(min, max);
    if (required.size() != items.size() || repeatable.size() != items.size()) throw nb::value_error("lengths differ");
    IrNode n{Kind::Permutation, {}, {}, children(items), min, max, children({separator})[0], {}, {}, {}, true};
    n.required.assign(required.begin(), required.end());
    n.repeatable.assign(repeatable.begin(), repeatable.end());
    return add(std::move(n));
  }
  // forms: (ranges, digits), a digit a list of (low, high, value, step). The first encoding is UTF-8.
  int32_t encoding(const std::vector<std::pair<RangeList, std::vector<std::vector<std::tuple<int, int, int64_t, int64_t>>>>>& forms) {
    if (ir_.encodings.size() >= kMaxEncodings) throw nb::value_error("too many encodings");
    Encoding e;
    for (const auto& [ranges, digits] : forms) {
      Form form;
      form.ranges = checked(ranges);
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
        int64_t most = 0;
        for (const DigitSpan& s : form.digits[i]) most = std::max(most, s.value + (s.high - s.low) * s.step);
        form.rest[i - 1] = form.rest[i] + most;
      }
      e.forms.push_back(std::move(form));
    }
    Digest d;
    for (const Form& form : e.forms) {
      for (const Range& r : form.ranges) d.add(uint64_t{r.lo} << 32 | r.hi);
      for (const auto& digit : form.digits) {
        d.add(digit.size());
        for (const DigitSpan& s : digit) {
          d.add(static_cast<uint64_t>(s.low) << 8 | static_cast<uint64_t>(s.high));
          d.add(static_cast<uint64_t>(s.value) << 24 | static_cast<uint64_t>(s.step));
        }
      }
    }
    ir_.encoding_digests.push_back(d);
    ir_.encodings.push_back(std::move(e));
    return static_cast<int32_t>(ir_.encodings.size()) - 1;
  }
  std::shared_ptr<Compiled> compile(std::shared_ptr<TokenVocabulary> vocabulary, const std::vector<int32_t>& rules,
                                    const std::vector<std::string>& names, int32_t start, int64_t max_states,
                                    double max_seconds, int64_t memory) {
    if (rules.empty() || names.size() != rules.size() || start < 0 || start >= static_cast<int32_t>(rules.size()))
      throw nb::index_error("rules");
    ir_.rules = children(rules);
    ir_.names = names;
    ir_.start = start;
    if (ir_.encodings.empty()) throw nb::value_error("no encoding was given");
    for (const IrNode& n : ir_.nodes)
      if (n.kind == Kind::Ref && (n.ref < 0 || n.ref >= static_cast<int32_t>(rules.size()))) throw nb::index_error("ref");
    nb::gil_scoped_release release;
    Meter meter(max_states, max_seconds);
    LowerOptions options;
    options.live = vocabulary->live;
    options.flat = !vocabulary->byte_complete;
    options.cache = &vocabulary->rules;
    std::unique_ptr<Grammar> grammar;
    try {
      grammar = assemble(lower(ir_, options, meter), ir_.names, meter);
      if (options.flat) prune_token_graph(*grammar, *vocabulary, meter);
    } catch (const EmptyLanguage&) {
      // Whose fault: the specification's, or a vocabulary's that cannot write it?
      LowerOptions all;
      for (uint64_t& w : all.live.w) w = ~uint64_t{0};
      assemble(lower(ir_, all, meter), ir_.names, meter);
      throw VocabularyFailure("the vocabulary's tokens cannot write any output of the specification");
    }
    return std::make_shared<Compiled>(std::shared_ptr<const Grammar>(std::move(grammar)), std::move(vocabulary),
                                      static_cast<size_t>(memory));
  }

 private:
  static std::vector<Range> checked(const RangeList& ranges) {
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
  static void bounds(int64_t min, int64_t max) {
    if (min < 0 || max < -1 || min > INT32_MAX / 2 || max > INT32_MAX / 2) throw nb::value_error("bounds out of range");
  }
  std::vector<int32_t> children(const std::vector<int32_t>& items) const {
    for (int32_t i : items)
      if (i < 0 || i >= static_cast<int32_t>(ir_.nodes.size())) throw nb::index_error("node");
    return items;
  }
  int32_t add(IrNode n) {
    Digest& d = n.digest;
    d.add(static_cast<uint64_t>(n.kind));
    for (const Range& r : n.ranges) d.add(uint64_t{r.lo} << 32 | r.hi);
    d.add(n.text.size());
    for (uint32_t c : n.text) d.add(c);
    d.add(static_cast<uint64_t>(n.min));
    d.add(static_cast<uint64_t>(n.max));
    if (n.kind == Kind::Encoded) d.add(ir_.encoding_digests[n.ref]);
    n.closed = n.kind != Kind::Ref && n.kind != Kind::Special && n.kind != Kind::Permutation;
    for (int32_t c : n.items) {
      d.add(ir_.nodes[c].digest);
      n.closed = n.closed && ir_.nodes[c].closed;
    }
    ir_.nodes.push_back(std::move(n));
    return static_cast<int32_t>(ir_.nodes.size()) - 1;
  }
  IrGrammar ir_;
};

uint32_t* row_of(const Matcher& matcher, const MaskArray& mask, int64_t row) {
  int32_t words = const_cast<Matcher&>(matcher).compiled().vocabulary->words;
  if (static_cast<int64_t>(mask.shape(1)) != words)
    throw nb::value_error(("bitmask has " + std::to_string(mask.shape(1)) + " words a row, the vocabulary needs " +
                           std::to_string(words)).c_str());
  if (row < 0 || row >= static_cast<int64_t>(mask.shape(0))) throw nb::index_error("row outside the bitmask");
  return reinterpret_cast<uint32_t*>(mask.data()) + row * words;
}

bool fill(Matcher& m, const MaskArray& mask, int64_t row, nb::object max_tokens) {
  uint32_t* at = row_of(m, mask, row);
  bool masks_something = true;
  if (max_tokens.is_none()) {
    if (m.fill_known(at, masks_something)) return masks_something;
    nb::gil_scoped_release release;
    return m.fill(at, -1);
  }
  int64_t n = 0;
  if (!nb::try_cast<int64_t>(max_tokens, n)) throw nb::type_error("max_tokens must be an integer or None");
  nb::gil_scoped_release release;
  return m.fill(at, std::max<int64_t>(n, 0));
}

void fill_batch(const std::vector<Matcher*>& matchers, const MaskArray& mask, const std::vector<int64_t>& rows,
                int64_t max_tokens, int threads) {
  if (rows.size() != matchers.size()) throw nb::value_error("as many rows as matchers are needed");
  for (size_t i = 0; i < matchers.size(); ++i) {
    if (!matchers[i]) throw nb::type_error("a matcher is None");
    row_of(*matchers[i], mask, rows[i]);
  }
  uint32_t* data = reinterpret_cast<uint32_t*>(mask.data());
  nb::gil_scoped_release release;
  fill_rows(matchers, data, rows, static_cast<int64_t>(mask.shape(1)), max_tokens, threads);
}

// The value of `call`, made without the GIL.
template <class Call>
auto unlocked(Call&& call) {
  nb::gil_scoped_release release;
  return call();
}

std::string_view view(const nb::bytes& b) { return {b.c_str(), b.size()}; }

// Raises guided.errors.<name>(*args, **kwargs) from C++ data.
void raise(const char* name, nb::args args) {
  nb::object type = nb::module_::import_("guided.errors").attr(name);
  nb::object error = type(*args);
  PyErr_SetObject(type.ptr(), error.ptr());
}

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const LimitFailure& e) {
    raise("LimitExceeded", nb::borrow<nb::args>(nb::make_tuple(e.limit, e.given, e.allowed, e.fixed)));
  } catch (const EmptyLanguage& e) {
    raise("SpecError", nb::borrow<nb::args>(nb::make_tuple(e.what())));
  } catch (const Unsupported& e) {
    raise("UnsupportedError", nb::borrow<nb::args>(nb::make_tuple(e.what())));
  } catch (const VocabularyFailure& e) {
    raise("VocabularyError", nb::borrow<nb::args>(nb::make_tuple(e.what())));
  } catch (const BudgetFailure& e) {
    raise("BudgetError", nb::borrow<nb::args>(nb::make_tuple(e.needed, e.given)));
  }
}

}  // namespace

NB_MODULE(_core, m) {
  // A grammar in a global outlives the interpreter; that is no fault of its owner.
  nb::set_leak_warnings(false);
  // Bitmasks are never converted: a copy of the wrong type or layout would be filled and thrown away.
  nb::register_exception_translator(translate);

  nb::class_<TokenVocabulary>(m, "TokenVocabulary")
      .def("__init__",
           [](TokenVocabulary* self, const nb::sequence& tokens, const std::vector<int32_t>& ends, int32_t size,
              int64_t cache_bytes) {
             std::vector<std::string> list;
             std::vector<uint8_t> has_text;
             size_t n = nb::len(tokens);
             list.reserve(n);
             for (nb::handle t : tokens) {
               has_text.push_back(!t.is_none());
               if (t.is_none()) {
                 list.emplace_back();
                 continue;
               }
               nb::bytes b = nb::cast<nb::bytes>(t);
               list.emplace_back(b.c_str(), b.size());
             }
             if (size < static_cast<int32_t>(n) || size > (1 << 24)) throw nb::value_error("vocabulary size");
             for (int32_t e : ends)
               if (e < 0 || e >= size) throw nb::index_error("end token");
             nb::gil_scoped_release release;
             new (self) TokenVocabulary(std::move(list), std::move(has_text), ends, size, static_cast<size_t>(cache_bytes));
           },
           "tokens"_a, "end_tokens"_a, "size"_a, "cache_bytes"_a)
      .def_ro("size", &TokenVocabulary::size)
      .def_ro("byte_complete", &TokenVocabulary::byte_complete)
      .def_ro("longest", &TokenVocabulary::longest)
      .def_prop_ro("trie_nodes", [](const TokenVocabulary& v) { return v.trie.nodes().size(); })
      .def_prop_ro("cached_bytes", [](const TokenVocabulary& v) { return v.cache.bytes(); })
      .def_prop_ro("cached_tables", [](const TokenVocabulary& v) { return v.cache.size(); })
      .def("extends", [](const TokenVocabulary& v, const nb::bytes& b) {
        int32_t node = 0;
        for (char ch : view(b)) {
          node = v.trie.child(node, static_cast<uint8_t>(ch));
          if (node < 0) return false;
        }
        return v.trie.nodes()[node].children > 0;
      })
      .def("clear_cache", [](TokenVocabulary& v) { v.cache.clear(); });

  nb::class_<Compiled>(m, "Compiled")
      .def_prop_ro("positions", [](const Compiled& c) { return c.grammar->positions.size(); })
      .def_prop_ro("rules", [](const Compiled& c) { return c.grammar->rules.size(); })
      .def_prop_ro("recursive", [](const Compiled& c) { return c.grammar->recursive; })
      .def_prop_ro("states", [](Compiled& c) { return c.workspace()->arena.size(); })
      .def_prop_ro("bytes", [](Compiled& c) { return c.workspace()->arena.bytes(); })
      .def_prop_ro("rebuilds", [](const Compiled& c) { return c.rebuilds(); })
      // (position, accepts, [(low, high, target)]) of the start rule, for pictures.
      .def("automaton", [](const Compiled& c) {
        const Grammar& g = *c.grammar;
        const Rule& rule = g.rules[g.start];
        std::vector<std::tuple<int32_t, bool, std::vector<std::tuple<int, int, int32_t>>>> out;
        for (int32_t p = rule.base; p < rule.base + rule.size; ++p) {
          std::vector<std::tuple<int, int, int32_t>> edges;
          for (int b = 0; b < 256; ++b) {
            int32_t to = g.step(p, static_cast<uint8_t>(b));
            if (to < 0) continue;
            to -= rule.base;
            if (!edges.empty() && std::get<1>(edges.back()) == b - 1 && std::get<2>(edges.back()) == to)
              std::get<1>(edges.back()) = b;
            else
              edges.emplace_back(b, b, to);
          }
          out.emplace_back(p - rule.base, g.positions[p].accept, std::move(edges));
        }
        return out;
      });

  nb::class_<Builder>(m, "Builder")
      .def(nb::init<>())
      .def("chars", &Builder::chars)
      .def("text", &Builder::text)
      .def("many", &Builder::many)
      .def("negation", &Builder::negation)
      .def("repeat", &Builder::repeat)
      .def("length", &Builder::length)
      .def("encoded", &Builder::encoded)
      .def("ref", &Builder::ref)
      .def("special", &Builder::special)
      .def("permutation", &Builder::permutation)
      .def("encoding", &Builder::encoding)
      .def("compile", &Builder::compile, "vocabulary"_a, "rules"_a, "names"_a, "start"_a, "max_states"_a,
           "max_seconds"_a, "memory"_a);

  nb::class_<Matcher>(m, "Matcher")
      .def(nb::init<std::shared_ptr<Compiled>>())
      .def(nb::init<Matcher&>())
      .def("fill_next_token_bitmask", &fill, "bitmask"_a.noconvert(), "row"_a = 0, nb::kw_only(), "max_tokens"_a = nb::none())
      .def("accept_token", [](Matcher& self, int64_t id) {
             if (id < 0 || id > INT32_MAX) return false;
             if (std::optional<bool> known = self.accept_known(static_cast<int32_t>(id))) return *known;
             // Another thread may hold the grammar's lock for long: never wait for it with the GIL held.
             nb::gil_scoped_release release;
             return self.accept_token(static_cast<int32_t>(id));
           }, "token"_a)
      .def("_accept_bytes", [](Matcher& self, const nb::bytes& b) {
        std::string_view bytes = view(b);
        return unlocked([&] { return self.accept_bytes(bytes); });
      })
      .def("validate_tokens", &Matcher::validate, "tokens"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("rollback", &Matcher::rollback, "n"_a)
      .def("reset", &Matcher::reset)
      .def("is_accepting", &Matcher::accepting)
      .def("is_terminated", &Matcher::terminated)
      .def("min_tokens_to_finish", &Matcher::min_tokens, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("steps", &Matcher::steps)
      .def_prop_ro("state", &Matcher::state)
      .def_prop_ro("configurations", [](const Matcher& self) { return self.arena().size(); })
      .def_prop_ro("bytes", [](const Matcher& self) { return self.arena().bytes(); })
      .def("_forced", &Matcher::forced, nb::call_guard<nb::gil_scoped_release>())
      .def("_shortest", &Matcher::shortest, nb::call_guard<nb::gil_scoped_release>())
      .def("_next_bytes", [](Matcher& self) { return to_bytes(unlocked([&] { return self.next_bytes(); })); })
      .def("_next_tokens", &Matcher::next_tokens)
      .def("_probe", [](Matcher& self, const nb::bytes& b) {
        std::string_view bytes = view(b);
        auto [read, possible] = unlocked([&] { return self.probe(bytes); });
        return std::make_pair(read, to_bytes(possible));
      })
      .def("_places", [](Matcher& self, const nb::bytes& b) {
        std::string_view bytes = view(b);
        return unlocked([&] { return self.places(bytes); });
      })
      .def("_walk_mask", &Matcher::walk_mask, nb::call_guard<nb::gil_scoped_release>());

  m.def("fill_batch", &fill_batch, "matchers"_a, "bitmask"_a.noconvert(), "rows"_a, "max_tokens"_a, "threads"_a);
}
