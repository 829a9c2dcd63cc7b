#include "grammar.hpp"

#include <algorithm>

namespace guided::lark {
namespace {

// Bounds above which the Python code reads the grammar. None exceeds its counterpart in ../bounds.py.
constexpr int32_t kMaxImports = 8, kMaxLevels = 30, kMaxUsages = 4'000, kRepeatBreak = 50, kMaxNodes = 300'000;
constexpr int64_t kMaxExpanded = 100'000, kMaxTotalLength = 2'000'000, kMaxAlternatives = 50'000;
constexpr size_t kMaxNameLength = 150, kMaxSymbols = 3'000'000;
constexpr int32_t kMaxArgumentLength = 64;

template <class Visit>
void for_each_tree(const SyntaxTree& tree, const Visit& visit) {
  visit(tree);
  for (const SyntaxTree& part : tree.parts) for_each_tree(part, visit);
}

bool is_name(const SyntaxTree& tree) {
  return tree.kind == SyntaxTree::Kind::kName || tree.kind == SyntaxTree::Kind::kTemplate;
}

void rename(SyntaxTree& tree, const std::function<std::string(const std::string&)>& mangle) {
  if (is_name(tree)) tree.name = mangle(tree.name);
  for (SyntaxTree& part : tree.parts) rename(part, mangle);
}

// The number of alternatives to which Lark expands a tree; see `_count_alternatives` in ../bounds.py.
int64_t count_alternatives(const SyntaxTree& tree) {
  using Kind = SyntaxTree::Kind;
  const auto bounded = [](int64_t count) { return std::min(count, kMaxAlternatives + 1); };
  int64_t out = 0;
  switch (tree.kind) {
    case Kind::kChoice:
      for (const SyntaxTree& part : tree.parts) out = bounded(out + count_alternatives(part));
      return out;
    case Kind::kMaybe:
      return bounded(count_alternatives(tree.parts[0]) + 1);
    case Kind::kOperator:
      return bounded(count_alternatives(tree.parts[0]) + (tree.sign == '?'));
    case Kind::kTimes: {
      const int64_t each = count_alternatives(tree.parts[0]);
      if (tree.high >= kRepeatBreak) throw NotHandled{};
      int64_t power = 1;
      for (int32_t count = 0; count <= tree.high; ++count) {
        if (count >= tree.low) out = bounded(out + power);
        power = bounded(power * each);
        if (power > kMaxAlternatives) return power;
      }
      return out;
    }
    case Kind::kSequence:
    case Kind::kAlias:
      out = 1;
      for (const SyntaxTree& part : tree.parts) out = bounded(out * count_alternatives(part));
      return out;
    default:
      return 1;
  }
}

}  // namespace

Grammar::Grammar(const Loader& loader, std::u32string_view text, const std::string& start)
    : ebnf(kMaxSymbols), loader_(loader) {
  const File& main_file = read_file(text, 0, nullptr, 0);
  check_rules(main_file);
  const auto it = main_file.scope.find(start);
  if (it == main_file.scope.end() || it->second->is_terminal || !it->second->parameters.empty()) throw NotHandled{};
  for (const std::string& name : ignored)
    if (!main_file.scope.contains(name)) throw NotHandled{};
  add_terminals(main_file);
  add_rules(main_file, start);
}

Grammar::File& Grammar::read_file(std::u32string_view text, int32_t number, const Mangle& mangle, int32_t depth) {
  std::vector<Statement> statements = parse_statements(text, loader_.max_depth);
  File& out = files_.emplace_back();
  import_into(out, statements, number, mangle, depth);
  for (Statement& each : statements) add_definition(out, each, number, mangle);
  for (Definition* each : out.order)
    if (each->is_terminal) check_terminal(*each, 0);
  return out;
}

void Grammar::import_into(File& out, const std::vector<Statement>& statements, int32_t number, const Mangle& mangle,
                          int32_t depth) {
  std::vector<Import> imports;
  for (const Statement& each : statements) {
    if (each.kind != Statement::Kind::kImport) continue;
    const auto has_path = [&](const Import& other) { return other.path == each.names; };
    auto it = std::find_if(imports.begin(), imports.end(), has_path);
    if (it == imports.end()) it = imports.insert(it, {each.names, each.is_relative, {}, number});
    for (const auto& [name, alias] : each.aliases) it->aliases[name] = alias;
  }
  if (!imports.empty() && depth >= kMaxImports) throw NotHandled{};
  for (const Import& each : imports) {
    std::string prefix;
    for (const std::string& part : each.path) prefix += (prefix.empty() ? "" : "__") + part;
    const Mangle inner_mangle = [&](const std::string& name) {
      const auto alias = each.aliases.find(name);
      std::string mangled = alias != each.aliases.end() ? alias->second
                            : name[0] == '_'            ? "_" + prefix + "__" + name.substr(1)
                                                        : prefix + "__" + name;
      return mangle ? mangle(mangled) : mangled;
    };
    const ImportedText imported = loader_.open_import(each);
    File& file = read_file(imported.text, imported.number, inner_mangle, depth + 1);
    std::vector<std::string> used_names;
    for (const auto& [name, _] : each.aliases) used_names.push_back(inner_mangle(name));
    remove_unused(file, std::move(used_names));
    for (Definition* definition : file.order) {
      if (!out.scope.emplace(definition->name, definition).second) throw NotHandled{};
      out.order.push_back(definition);
    }
  }
}

void Grammar::add_definition(File& out, Statement& statement, int32_t number, const Mangle& mangle) {
  const auto mangled = [&](const std::string& name) { return mangle ? mangle(name) : name; };
  switch (statement.kind) {
    case Statement::Kind::kImport:
      return;
    case Statement::Kind::kIgnore:
      if (!mangle) add_ignored(out, statement, number);  // in an imported file, it has no effect
      return;
    case Statement::Kind::kDeclare:
      for (const std::string& name : statement.names) {
        if (!is_terminal(name)) throw NotHandled{};
        new_definition(out, mangled(name), true).is_declared = true;
      }
      return;
    case Statement::Kind::kRule:
    case Statement::Kind::kTerminal:
      Definition& definition =
          new_definition(out, mangled(statement.name), statement.kind == Statement::Kind::kTerminal);
      definition.keeps_all = statement.keeps_all;
      definition.priority = statement.priority;
      for (const std::string& name : statement.names) definition.parameters.push_back(mangled(name));
      definition.tree = std::move(statement.tree);
      if (mangle) rename(definition.tree, mangle);
      defined_names.push_back({definition.name, statement.name, number, statement.span});
  }
}

Grammar::Definition& Grammar::new_definition(File& out, std::string name, bool is_terminal) {
  Definition& definition = definitions_.emplace_back(Definition{.name = std::move(name), .is_terminal = is_terminal});
  definition.scope = &out.scope;
  if (!out.scope.emplace(definition.name, &definition).second) throw NotHandled{};
  if (definition.name.starts_with("__") && !definition.name.starts_with("__IGNORE_")) throw NotHandled{};
  out.order.push_back(&definition);
  return definition;
}

void Grammar::add_ignored(File& out, Statement& statement, int32_t number) {
  const SyntaxTree& tree = statement.tree;
  if (tree.parts.size() == 1 && tree.parts[0].kind == SyntaxTree::Kind::kSequence && tree.parts[0].parts.size() == 1) {
    const SyntaxTree& item = tree.parts[0].parts[0];
    if (item.kind == SyntaxTree::Kind::kName && item.is_terminal) {
      ignored.push_back(item.name);
      return;
    }
  }
  ignored.push_back("__IGNORE_" + std::to_string(ignored.size()));
  new_definition(out, ignored.back(), true).tree = std::move(statement.tree);
  defined_names.push_back({ignored.back(), "%ignore", number, statement.span});
}

void Grammar::remove_unused(File& file, std::vector<std::string> used_names) {
  std::set<std::string> kept_names(used_names.begin(), used_names.end());
  while (!used_names.empty()) {
    const auto it = file.scope.find(used_names.back());
    used_names.pop_back();
    if (it == file.scope.end() || it->second->is_terminal) continue;
    const auto& parameters = it->second->parameters;
    for_each_tree(it->second->tree, [&](const SyntaxTree& tree) {
      if (!is_name(tree) || std::find(parameters.begin(), parameters.end(), tree.name) != parameters.end()) return;
      if (kept_names.insert(tree.name).second) used_names.push_back(tree.name);
    });
  }
  std::erase_if(file.order, [&](const Definition* each) { return !kept_names.contains(each->name); });
}

// Throws `NotHandled` for terminals that Lark refuses, and for large ones.
void Grammar::check_terminal(Definition& terminal, int32_t depth) {
  if (terminal.level != 0 || terminal.is_declared) return;
  if (depth > kMaxLevels) throw NotHandled{};
  terminal.level = -1;
  check_terminal_tree(terminal, terminal.tree, depth);
  const auto& options = terminal.tree.parts;
  if (options.size() == 1 && options[0].parts.empty()) throw NotHandled{};  // an empty terminal
  int32_t level = 1;
  for_each_tree(terminal.tree, [&](const SyntaxTree& tree) {
    if (tree.kind == SyntaxTree::Kind::kName) level = std::max(level, terminal.scope->at(tree.name)->level + 1);
  });
  terminal.level = level;
  if (level > kMaxLevels || terminal.length > kMaxExpanded) throw NotHandled{};
}

void Grammar::check_terminal_tree(Definition& terminal, const SyntaxTree& tree, int32_t depth) {
  if (tree.kind == SyntaxTree::Kind::kAlias || tree.kind == SyntaxTree::Kind::kTemplate) throw NotHandled{};
  terminal.length += tree.length;
  if (tree.kind == SyntaxTree::Kind::kName) {
    const auto it = terminal.scope->find(tree.name);
    if (it == terminal.scope->end() || !tree.is_terminal) throw NotHandled{};
    if (!it->second->is_terminal || it->second->is_declared) throw NotHandled{};
    if (it->second->level < 0) throw NotHandled{};  // it contains itself
    check_terminal(*it->second, depth + 1);
    terminal.length += it->second->length;
  }
  for (const SyntaxTree& part : tree.parts) check_terminal_tree(terminal, part, depth);
}

void Grammar::check_rules(const File& file) const {
  int64_t total = 0;
  for (const Definition* each : file.order) {
    if (each->is_terminal) continue;
    const auto& parameters = each->parameters;
    for (const std::string& name : parameters)
      if (file.scope.contains(name) || std::count(parameters.begin(), parameters.end(), name) > 1) throw NotHandled{};
    check_rule(file, *each, each->tree);
    total += count_alternatives(each->tree);
    if (total > kMaxAlternatives) throw NotHandled{};
  }
}

void Grammar::check_rule(const File& file, const Definition& rule, const SyntaxTree& tree) const {
  for_each_tree(tree, [&](const SyntaxTree& each) {
    if (each.kind == SyntaxTree::Kind::kRange)
      loader_.patterns.literal_pattern(each);  // Lark also reads the ranges of unused templates
    if (!is_name(each)) return;
    const auto it = file.scope.find(each.name);
    const bool is_parameter =
        std::find(rule.parameters.begin(), rule.parameters.end(), each.name) != rule.parameters.end();
    if (each.kind == SyntaxTree::Kind::kName) {
      if (it == file.scope.end() && !is_parameter) throw NotHandled{};
      return;
    }
    if (is_parameter || it == file.scope.end() || it->second->parameters.size() != each.parts.size())
      throw NotHandled{};
  });
}

const TerminalPattern& Grammar::pattern_of(Definition& terminal) {
  if (!terminal.pattern) {
    terminal.pattern = loader_.patterns.pattern_of(terminal.tree, [&](const std::string& name) -> TerminalPattern {
      return pattern_of(*terminal.scope->at(name));
    });
    total_length_ += static_cast<int64_t>(terminal.pattern->value.size());
    if (total_length_ > kMaxTotalLength) throw NotHandled{};
  }
  return *terminal.pattern;
}

void Grammar::add_terminals(const File& file) {
  for (Definition* each : file.order) {
    if (each->is_declared) declared_.insert(each->name);
    if (!each->is_terminal || each->is_declared) continue;
    const TerminalPattern& pattern = pattern_of(*each);
    terminals.push_back({each->name, pattern, each->priority, true});
    terminal_names_.insert(each->name);
    names_by_pattern_[{pattern.is_text, pattern.value, pattern.flag}] = each->name;
  }
}

void Grammar::add_rules(const File& file, const std::string& start) {
  for (const Definition* each : file.order)
    if (!each->is_terminal && each->parameters.empty())
      instances_.push_back({ebnf.intern_symbol(each->name, false), each, {}});
  for (size_t i = 0; i < instances_.size(); ++i) {  // grows during the loop
    const Instance each = instances_[i];
    const int32_t root = build_node(each.definition->tree, each.arguments);
    name_literals(root, each.definition->keeps_all);
    apply_templates(root, file);
    ebnf.add_rule(each.name, root, each.definition->keeps_all);
  }
  rules = ebnf.expand_rules(ebnf.intern_symbol(start, false));
  std::set<int32_t> names;
  for (const auto& rule : rules) names.insert(rule.name);
  for (const auto& rule : rules)
    for (const auto& symbols : rule.alternatives)
      for (const int32_t symbol : symbols)
        if (!ebnf.symbol_info(symbol).second && !names.contains(symbol))
          throw NotHandled{};  // a template without arguments
}

int32_t Grammar::build_node(const SyntaxTree& tree, const Arguments& arguments) {
  using Kind = SyntaxTree::Kind;
  if (++node_count_ > kMaxNodes) throw NotHandled{};
  const auto build_parts = [&] {
    std::vector<int32_t> out;
    for (const SyntaxTree& part : tree.parts) out.push_back(build_node(part, arguments));
    return out;
  };
  switch (tree.kind) {
    case Kind::kChoice:
      return ebnf.add_node({.kind = Ebnf::Kind::kChoice, .parts = build_parts()});
    case Kind::kSequence:
      return ebnf.add_node({.kind = Ebnf::Kind::kSequence, .parts = build_parts()});
    case Kind::kAlias:
      return ebnf.add_node(
          {.kind = Ebnf::Kind::kAlias, .symbol = ebnf.intern_symbol(tree.name, false), .parts = build_parts()});
    case Kind::kMaybe:
      return ebnf.add_node({.kind = Ebnf::Kind::kMaybe, .parts = build_parts()});
    case Kind::kTimes:
      return ebnf.add_node({.kind = Ebnf::Kind::kTimes, .low = tree.low, .high = tree.high, .parts = build_parts()});
    case Kind::kOperator:
      return ebnf.add_node({.kind = tree.sign == '?'   ? Ebnf::Kind::kOptional
                                    : tree.sign == '*' ? Ebnf::Kind::kStar
                                                       : Ebnf::Kind::kPlus,
                            .parts = build_parts()});
    case Kind::kTemplate: {
      for (const SyntaxTree& part : tree.parts)
        if (part.length > kMaxArgumentLength) throw NotHandled{};
      const int32_t out = ebnf.add_node({.kind = Ebnf::Kind::kSequence, .parts = build_parts()});
      usages_.emplace(out, &tree);
      return out;
    }
    case Kind::kName: {
      if (const auto it = arguments.find(tree.name); it != arguments.end())
        return ebnf.add_node(
            {.kind = Ebnf::Kind::kSymbol, .symbol = it->second.number, .is_filtered_out = it->second.is_filtered_out});
      return ebnf.add_node({.kind = Ebnf::Kind::kSymbol,
                            .symbol = ebnf.intern_symbol(tree.name, tree.is_terminal),
                            .is_filtered_out = tree.is_filtered_out});
    }
    case Kind::kLiteral:
    case Kind::kRange: {
      const int32_t out = ebnf.add_node({.kind = Ebnf::Kind::kSymbol});
      literals_.emplace(out, &tree);
      return out;
    }
  }
  throw NotHandled{};
}

void Grammar::name_literals(int32_t root, bool keeps_all) {
  if (literals_.empty()) return;
  for (const int32_t node : ebnf.nodes_in_order(root)) {
    const auto it = literals_.find(node);
    if (it == literals_.end()) continue;
    const Symbol symbol = literal_symbol(*it->second);
    ebnf.set_symbol(node, symbol.number, symbol.is_filtered_out && !keeps_all);
  }
  literals_.clear();
}

Grammar::Symbol Grammar::literal_symbol(const SyntaxTree& literal) {
  const TerminalPattern pattern = loader_.patterns.literal_pattern(literal);
  auto key = std::tuple(pattern.is_text, pattern.value, pattern.flag);
  auto known = names_by_pattern_.find(key);
  if (known == names_by_pattern_.end()) {
    std::string name = literal_name(pattern);
    terminal_names_.insert(name);
    terminals.push_back({name, pattern, 0, declared_.contains(name)});
    known = names_by_pattern_.emplace(std::move(key), std::move(name)).first;
  }
  return {ebnf.intern_symbol(known->second, true), pattern.is_text};
}

std::string Grammar::literal_name(const TerminalPattern& pattern) {
  std::string name = pattern.is_text ? loader_.terminal_name(pattern.value) : "";
  if (!name.empty() && !terminal_names_.contains(name)) return name;
  name = "__ANON_" + std::to_string(unnamed_count_++);
  if (terminal_names_.contains(name)) throw NotHandled{};
  return name;
}

// Replaces each use of a template by the name of a rule, inner uses first.
void Grammar::apply_templates(int32_t root, const File& file) {
  if (usages_.empty()) return;
  for (const int32_t node : ebnf.nodes_in_order(root)) {
    const auto it = usages_.find(node);
    if (it == usages_.end()) continue;
    if (++usage_count_ > kMaxUsages) throw NotHandled{};
    const Definition* definition = file.scope.at(it->second->name);
    std::string name = definition->name + "{";
    Arguments arguments;
    const std::vector<int32_t> parts = ebnf.node(node).parts;
    for (size_t part = 0; part < parts.size(); ++part) {
      const Ebnf::Node& argument = ebnf.node(parts[part]);
      name += (part == 0 ? "" : ",") + ebnf.symbol_info(argument.symbol).first;
      arguments[definition->parameters[part]] = {argument.symbol, argument.is_filtered_out};
    }
    name += "}";
    if (name.size() > kMaxNameLength) throw NotHandled{};
    const int32_t symbol = ebnf.intern_symbol(name, false);
    if (created_rules_.insert(symbol).second) instances_.push_back({symbol, definition, std::move(arguments)});
    ebnf.set_symbol(node, symbol, false);
  }
  usages_.clear();
}

}  // namespace guided::lark
