// Python bindings of `Ebnf`: converts the rule trees that Lark's parser returns, which are Python objects.
#include "bind_ebnf.hpp"

#include <nanobind/stl/string.h>

#include <string_view>
#include <unordered_map>

#include "ebnf.hpp"

namespace guided::lark {
namespace {

constexpr int kMaxDepth = 200;

std::string_view view(nb::handle text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_Check(text.ptr()) ? PyUnicode_AsUTF8AndSize(text.ptr(), &size) : nullptr;
  if (data == nullptr) {
    PyErr_Clear();  // a lone surrogate, or not a str
    throw NotHandled{};
  }
  return {data, static_cast<size_t>(size)};
}

class TreeReader {
 public:
  TreeReader(Ebnf& out, const nb::callable& terminal_of) : out_(out), terminal_of_(terminal_of) {}

  // `keeps_all`: the rule keeps all tokens in its trees (`!` before its name).
  int32_t add_root(nb::handle tree, bool keeps_all) {
    if (!nb::hasattr(tree, "children") || view(tree.attr("data")) != "expansions") throw NotHandled{};
    const int32_t out = add_tree(tree, 0);
    name_literals(out, keeps_all);
    return out;
  }

 private:
  using Kind = Ebnf::Kind;

  int32_t add_tree(nb::handle tree, int depth) {
    if (depth > kMaxDepth) throw NotHandled{};
    if (!nb::hasattr(tree, "children")) return add_symbol(tree);
    const auto kind = view(tree.attr("data"));
    const nb::list parts = nb::cast<nb::list>(tree.attr("children"));
    if (kind == "value" && parts.size() == 1) return add_tree(parts[0], depth);
    if (kind == "expansions" || kind == "expansion") {
      Ebnf::Node out{.kind = kind == "expansion" ? Kind::kSequence : Kind::kChoice};
      for (const nb::handle part : parts) out.parts.push_back(add_tree(part, depth + 1));
      return out_.add_node(std::move(out));
    }
    if (kind == "literal" || kind == "range") return add_literal(tree, parts);
    if (kind == "maybe" && parts.size() == 1)
      return out_.add_node({.kind = Kind::kMaybe, .parts = {add_tree(parts[0], depth + 1)}});
    if (kind == "alias" && parts.size() == 2)
      return out_.add_node(
          {.kind = Kind::kAlias, .symbol = intern_name(parts[1], false), .parts = {add_tree(parts[0], depth + 1)}});
    if (kind == "expr" && parts.size() >= 2) return add_operation(parts, depth);
    throw NotHandled{};
  }

  int32_t add_operation(const nb::list& parts, int depth) {
    const auto sign = view(parts[1]);
    Ebnf::Node out{.kind = sign == "?"   ? Kind::kOptional
                           : sign == "*" ? Kind::kStar
                           : sign == "+" ? Kind::kPlus
                                         : Kind::kTimes};
    if (out.kind == Kind::kTimes) {
      if (sign != "~" || parts.size() < 3 || parts.size() > 4) throw NotHandled{};
      out.low = parse_count(parts[2]);
      out.high = parse_count(parts[parts.size() - 1]);
    }
    out.parts.push_back(add_tree(parts[0], depth + 1));
    return out_.add_node(std::move(out));
  }

  static int32_t parse_count(nb::handle number) {
    const auto digits = view(number);
    int32_t out = 0;
    if (digits.empty() || digits.size() > 4) throw NotHandled{};
    for (const char digit : digits) {
      if (digit < '0' || digit > '9') throw NotHandled{};
      out = 10 * out + (digit - '0');
    }
    return out;
  }

  int32_t intern_name(nb::handle symbol, bool is_terminal) {
    return out_.intern_symbol(std::string(view(symbol.attr("name"))), is_terminal);
  }

  int32_t add_symbol(nb::handle tree) {
    if (!nb::hasattr(tree, "is_term")) throw NotHandled{};
    const bool is_terminal = nb::cast<bool>(tree.attr("is_term"));
    return out_.add_node({.kind = Kind::kSymbol,
                          .symbol = intern_name(tree, is_terminal),
                          .is_filtered_out = is_terminal && nb::cast<bool>(tree.attr("filter_out"))});
  }

  // A literal gets its name later, because Lark numbers names in the order of its own tree walk
  // (`Ebnf::nodes_in_order`).
  int32_t add_literal(nb::handle tree, const nb::list& parts) {
    const int32_t out = out_.add_node({.kind = Kind::kSymbol});
    std::string key;
    for (const nb::handle part : parts) key.append(view(part)).append("\n..\n");
    unnamed_literals_.emplace(out, std::pair{std::move(key), nb::borrow(tree)});
    return out;
  }

  void name_literals(int32_t root, bool keeps_all) {
    for (const int32_t node : out_.nodes_in_order(root)) {
      const auto it = unnamed_literals_.find(node);
      if (it == unnamed_literals_.end()) continue;
      const auto& [key, tree] = it->second;
      auto known = terminals_.find(key);
      if (known == terminals_.end()) {
        const nb::tuple terminal = nb::cast<nb::tuple>(terminal_of_(tree));
        const int32_t number = out_.intern_symbol(nb::cast<std::string>(terminal[0]), true);
        known = terminals_.emplace(key, std::pair{number, nb::cast<bool>(terminal[1])}).first;
      }
      out_.set_symbol(node, known->second.first, known->second.second && !keeps_all);
    }
    unnamed_literals_.clear();
  }

  Ebnf& out_;
  const nb::callable& terminal_of_;
  std::unordered_map<int32_t, std::pair<std::string, nb::object>> unnamed_literals_;
  std::unordered_map<std::string, std::pair<int32_t, bool>>
      terminals_;  // literal as written -> its terminal's symbol, and whether it is a string
};

nb::object expanded(const nb::list& definitions, const nb::str& start, const nb::callable& terminal_of) {
  Ebnf all;
  TreeReader reader(all, terminal_of);
  try {
    for (const nb::handle each : definitions) {
      const auto definition = nb::cast<nb::tuple>(each);
      const nb::handle options = definition[3];
      if (nb::len(nb::object(definition[1])) != 0) throw NotHandled{};  // a template
      const bool keeps_all = !options.is_none() && nb::cast<bool>(options.attr("keep_all_tokens"));
      const int32_t name = all.intern_symbol(std::string(view(definition[0])), false);
      all.add_rule(name, reader.add_root(definition[2], keeps_all), keeps_all);
    }
    const auto rules = all.expand_rules(all.intern_symbol(std::string(view(start)), false));
    return named_rules(all, rules);
  } catch (const NotHandled&) {
    return nb::none();
  }
}

}  // namespace

nb::dict named_rules(const Ebnf& names, const std::vector<Ebnf::Rule>& rules) {
  std::unordered_map<int32_t, nb::tuple> symbols;
  nb::dict out;
  for (const auto& rule : rules) {
    nb::list alternatives;
    for (const auto& alternative : rule.alternatives) {
      nb::list items;
      for (const int32_t symbol : alternative) {
        auto known = symbols.find(symbol);
        if (known == symbols.end()) {
          const auto& [name, is_terminal] = names.symbol_info(symbol);
          known = symbols.emplace(symbol, nb::make_tuple(name, is_terminal)).first;
        }
        items.append(known->second);
      }
      alternatives.append(nb::tuple(items));
    }
    out[names.symbol_info(rule.name).first.c_str()] = alternatives;
  }
  return out;
}

void bind_ebnf(nb::module_& m) {
  m.def("expanded", &expanded, nb::arg("definitions"), nb::arg("start"), nb::arg("terminal_of"),
        nb::sig("def expanded(definitions: list[typing.Any], start: str, terminal_of: typing.Callable[[typing.Any], "
                "tuple[str, bool]]) -> dict[str, list[tuple[tuple[str, bool], ...]]] | None"),
        R"(The alternatives of rules that are given as Lark's trees.

Args:
    definitions: name, parameters, tree and options of each rule.
    terminal_of: the name of the terminal of a literal or range, and whether it is a string.

None: Lark itself has to expand them, see `native/ebnf.hpp`.)");
}

}  // namespace guided::lark
