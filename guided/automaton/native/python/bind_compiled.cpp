// Python bindings of vocabularies and compiled grammars.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "python/bindings.hpp"

using namespace nanobind::literals;

namespace guided {

namespace nb = nanobind;

namespace {

using Tokens = nb::typed<nb::sequence, std::optional<nb::bytes>>;
using Automaton = std::vector<std::tuple<int32_t, bool, std::vector<std::tuple<int, int, int32_t>>>>;

std::shared_ptr<TokenVocabulary> make_vocabulary(const Tokens& tokens, const std::vector<int32_t>& ends, int32_t size,
                                                 int64_t cache_bytes) {
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
    throw nb::value_error("size is out of range");
  if (cache_bytes < 0) throw nb::value_error("cache_bytes must be at least 0");
  for (int32_t e : ends)
    if (e < 0 || e >= size) throw nb::index_error("an end token is not an id");
  nb::gil_scoped_release release;
  return std::make_shared<TokenVocabulary>(std::move(list), std::move(has_text), ends, size,
                                           static_cast<size_t>(cache_bytes));
}

bool extends(const TokenVocabulary& v, const nb::bytes& data) {
  int32_t node = 0;
  for (char ch : as_string_view(data)) {
    node = v.trie.child(node, static_cast<uint8_t>(ch));
    if (node < 0) return false;
  }
  return v.trie.nodes()[node].children > 0;
}

Automaton automaton(const CompiledRules& c) {
  const std::shared_ptr<const Grammar> grammar = c.grammar();
  const Grammar& g = *grammar;
  const Rule& rule = g.rules[g.start];
  Automaton out;
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
}

constexpr auto kMakeVocabulary = R"(Build the trie of tokens.

Args:
    tokens: the bytes of each token id; None for an id without text.
    end_tokens: the ids that end an output.
    size: how many ids there are, at least `len(tokens)` and at most 2**24.
    cache_bytes: how much memory the token tables of all grammars may take.

Raises:
    ValueError: `size` or `cache_bytes` is out of range.
    IndexError: an end token is not an id.)";

}  // namespace

void bind_compiled(nb::module_& m) {
  nb::class_<TokenVocabulary>(
      m, "TokenVocabulary",
      "The bytes of each token id, the trie of all tokens, and the token tables that all grammars share.")
      .def(nb::new_(&make_vocabulary), "tokens"_a, "end_tokens"_a, "size"_a, "cache_bytes"_a, kMakeVocabulary)
      .def_ro("size", &TokenVocabulary::size, "How many token ids there are. A bitmask row has a bit for each id.")
      .def_ro("byte_complete", &TokenVocabulary::byte_complete, "Whether every single byte is a token.")
      .def_ro("longest", &TokenVocabulary::max_token_bytes, "The length of the longest token in bytes.")
      .def_prop_ro(
          "trie_nodes", [](const TokenVocabulary& v) { return v.trie.nodes().size(); }, "How many nodes the trie has.")
      .def_prop_ro(
          "cached_bytes", [](const TokenVocabulary& v) { return v.cache.bytes(); },
          "The memory of the cached token tables, in bytes.")
      .def_prop_ro(
          "cached_tables", [](const TokenVocabulary& v) { return v.cache.size(); }, "How many token tables are cached.")
      .def("extends", &extends, "data"_a, "Whether some token begins with `data` and is longer.")
      .def(
          "clear_cache", [](TokenVocabulary& v) { v.cache.clear(); },
          "Drop the cached token tables. Grammars keep the tables that they use.");

  nb::class_<Compiled>(
      m, "Compiled",
      "A compiled grammar. Its behaviour never changes. Matchers add states while they run, on any number of\n"
      "OS threads.")
      .def_prop_ro("positions", &Compiled::positions, "How many positions the automata of all rules have.")
      .def_prop_ro("rules", &Compiled::rules, "How many rules were compiled.")
      .def_prop_ro("recursive", &Compiled::recursive,
                   "Whether a rule can contain itself. Then the depth of the stack is not bounded.")
      .def_prop_ro(
          "states", [](Compiled& c) { return c.states()->size(); }, "How many states have been visited so far.")
      .def_prop_ro(
          "memory_bytes", [](Compiled& c) { return c.states()->bytes(); },
          "The memory of the visited states and of their caches, in bytes.")
      .def_prop_ro("rebuilds", &Compiled::rebuilds,
                   "How often the states were dropped because they reached the memory limit.");
  nb::class_<CompiledRules, Compiled>(m, "CompiledRules", "A compiled grammar whose rules read bytes.")
      .def_prop_ro(
          "limits_tokens", [](const CompiledRules& c) { return !c.grammar()->token_rests.empty(); },
          "Whether some rule has a limit on tokens.")
      .def("automaton", &automaton,
           "The states of the start rule: (number, accepting, [(lowest byte, highest byte, target)]).");
}

}  // namespace guided
