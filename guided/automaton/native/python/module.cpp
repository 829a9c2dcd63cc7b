// The Python border. Python hands over the IR once, node by node; afterwards calls pass an object, ints and a buffer.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <unordered_set>

#include "python/bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace guided;

namespace {

using MaskArray = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

nb::bytes to_bytes(const std::vector<uint8_t>& v) {
  return nb::bytes(reinterpret_cast<const char*>(v.data()), v.size());
}

uint32_t* row_of(const Matcher& matcher, const MaskArray& mask, int64_t row) {
  int32_t words = const_cast<Matcher&>(matcher).compiled().vocabulary->words;
  if (static_cast<int64_t>(mask.shape(1)) != words)
    throw nb::value_error(
        ("bitmask has " + std::to_string(mask.shape(1)) + " words a row, the vocabulary needs " + std::to_string(words))
            .c_str());
  if (row < 0 || row >= static_cast<int64_t>(mask.shape(0))) throw nb::index_error("row outside the bitmask");
  return reinterpret_cast<uint32_t*>(mask.data()) + row * words;
}

bool fill(Matcher& m, const MaskArray& mask, int64_t row, nb::object max_tokens) {
  InUse use(m);
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

void fill_batch(const nb::sequence& sequence, const MaskArray& mask, const std::vector<int64_t>& rows,
                int64_t max_tokens, int threads) {
  std::vector<nb::object> kept;  // the sequence may be changed meanwhile, or make its items as they are asked for
  std::vector<Matcher*> matchers;
  for (nb::handle item : sequence) {
    kept.push_back(nb::borrow(item));
    Matcher* matcher = nullptr;
    if (item.is_none()) throw nb::type_error("a matcher is None");
    if (!nb::try_cast(item, matcher, false) || !matcher) throw nb::type_error("matchers must be GrammarMatchers");
    matchers.push_back(matcher);
  }
  if (rows.size() != matchers.size()) throw nb::value_error("as many rows as matchers are needed");
  std::deque<InUse> uses;
  std::unordered_set<const Matcher*> met;
  std::unordered_set<int64_t> taken;
  for (size_t i = 0; i < matchers.size(); ++i) {
    if (met.insert(matchers[i]).second) uses.emplace_back(*matchers[i]);
    if (!taken.insert(rows[i]).second) throw nb::value_error("rows: the same row is named twice");
    row_of(*matchers[i], mask, rows[i]);
  }
  uint32_t* data = reinterpret_cast<uint32_t*>(mask.data());
  nb::gil_scoped_release release;
  fill_rows(matchers, data, rows, static_cast<int64_t>(mask.shape(1)), max_tokens, threads);
}

// The value of `call` on a matcher, made without the GIL.
template <class Call>
auto unlocked(Matcher& matcher, Call&& call) {
  InUse use(matcher);
  nb::gil_scoped_release release;
  return call();
}

// A short call on a matcher, with the GIL; a slow one, without it.
template <class Value, class Self, class... Arguments>
auto alone(Value (Self::*method)(Arguments...)) {
  return [method](Matcher& self, Arguments... arguments) {
    InUse use(self);
    return (self.*method)(arguments...);
  };
}
template <class Value, class Self, class... Arguments>
auto alone(Value (Self::*method)(Arguments...) const) {
  return [method](const Matcher& self, Arguments... arguments) {
    InUse use(self);
    return (self.*method)(arguments...);
  };
}
template <class Value, class... Arguments>
auto unlocked(Value (Matcher::*method)(Arguments...)) {
  return [method](Matcher& self, Arguments... arguments) {
    return unlocked(self, [&] { return (self.*method)(arguments...); });
  };
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
    raise("LimitExceeded", nb::borrow<nb::args>(nb::make_tuple(e.limit, e.given, e.allowed, e.fixed, "", e.rule)));
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
      .def(
          nb::new_([](const nb::sequence& tokens, const std::vector<int32_t>& ends, int32_t size, int64_t cache_bytes) {
            std::vector<std::string> list;
            std::vector<uint8_t> has_text;
            for (nb::handle t : tokens) {
              has_text.push_back(!t.is_none());
              if (t.is_none()) {
                list.emplace_back();
                continue;
              }
              nb::bytes b = nb::cast<nb::bytes>(t);
              list.emplace_back(b.c_str(), b.size());
            }
            if (size < 0 || size > (1 << 24) || list.size() > static_cast<size_t>(size))
              throw nb::value_error("vocabulary size");
            if (cache_bytes < 0) throw nb::value_error("cache_bytes");
            for (int32_t e : ends)
              if (e < 0 || e >= size) throw nb::index_error("end token");
            nb::gil_scoped_release release;
            return std::make_shared<TokenVocabulary>(std::move(list), std::move(has_text), ends, size,
                                                     static_cast<size_t>(cache_bytes));
          }),
          "tokens"_a, "end_tokens"_a, "size"_a, "cache_bytes"_a)
      .def_ro("size", &TokenVocabulary::size)
      .def_ro("byte_complete", &TokenVocabulary::byte_complete)
      .def_ro("longest", &TokenVocabulary::longest)
      .def_prop_ro("trie_nodes", [](const TokenVocabulary& v) { return v.trie.nodes().size(); })
      .def_prop_ro("cached_bytes", [](const TokenVocabulary& v) { return v.cache.bytes(); })
      .def_prop_ro("cached_tables", [](const TokenVocabulary& v) { return v.cache.size(); })
      .def("extends",
           [](const TokenVocabulary& v, const nb::bytes& b) {
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

  bind_builder(m);
  bind_node_reader(m);

  nb::class_<Matcher>(m, "Matcher")
      .def(nb::init<std::shared_ptr<Compiled>>())
      .def("__init__",
           [](Matcher* self, Matcher& other) {
             InUse use(other);
             new (self) Matcher(other);
           })
      .def("fill_next_token_bitmask", &fill, "bitmask"_a.noconvert(), "row"_a = 0, nb::kw_only(),
           "max_tokens"_a = nb::none())
      .def(
          "accept_token",
          [](Matcher& self, int64_t id) {
            InUse use(self);
            if (id < 0 || id > INT32_MAX) return false;
            if (std::optional<bool> known = self.accept_known(static_cast<int32_t>(id))) return *known;
            // Another thread may hold the grammar's lock for long: never wait for it with the GIL held.
            nb::gil_scoped_release release;
            return self.accept_token(static_cast<int32_t>(id));
          },
          "token"_a)
      .def("_accept_bytes",
           [](Matcher& self, const nb::bytes& b) {
             std::string_view bytes = view(b);
             return unlocked(self, [&] { return self.accept_bytes(bytes); });
           })
      .def("validate_tokens", unlocked(&Matcher::validate), "tokens"_a)
      .def("rollback", alone(&Matcher::rollback), "n"_a)
      .def("reset", alone(&Matcher::reset))
      .def_prop_ro("budget_bound", alone(&Matcher::budget_bound))
      .def("is_accepting", alone(&Matcher::accepting))
      .def("is_terminated", alone(&Matcher::terminated))
      .def("min_tokens_to_finish", unlocked(&Matcher::min_tokens))
      .def_prop_ro("steps", alone(&Matcher::steps))
      .def_prop_ro("state", alone(&Matcher::state))
      .def_prop_ro("configurations", alone(&Matcher::configurations))
      .def_prop_ro("bytes", alone(&Matcher::bytes))
      .def("_forced", unlocked(&Matcher::forced))
      .def("_shortest", unlocked(&Matcher::shortest))
      .def("_next_bytes", [](Matcher& self) { return to_bytes(unlocked(self, [&] { return self.next_bytes(); })); })
      .def("_next_tokens", alone(&Matcher::next_tokens))
      .def("_probe",
           [](Matcher& self, const nb::bytes& b) {
             std::string_view bytes = view(b);
             auto [read, possible] = unlocked(self, [&] { return self.probe(bytes); });
             return std::make_pair(read, to_bytes(possible));
           })
      .def("_characters",
           [](Matcher& self, const nb::bytes& b, const nb::bytes& begun) {
             std::string_view bytes = view(b), first = view(begun);
             return unlocked(self, [&] { return self.characters(bytes, first); });
           })
      .def("_places",
           [](Matcher& self, const nb::bytes& b) {
             std::string_view bytes = view(b);
             return unlocked(self, [&] { return self.places(bytes); });
           })
      .def("_rests", unlocked(&Matcher::rests))
      .def("_walk_mask", unlocked(&Matcher::walk_mask));

  m.def("fill_batch", &fill_batch, "matchers"_a, "bitmask"_a.noconvert(), "rows"_a, "max_tokens"_a, "threads"_a);
}
