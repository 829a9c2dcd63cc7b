#include "compile/rule_keys.hpp"

namespace guided {

RuleKey RuleKeys::of(int32_t rule, int32_t encoding) {
  RuleKey key;
  key.portable = true;
  const int32_t root = ir_.rules[rule];
  std::vector<int32_t> visited, stack;
  if (!ir_.nodes[root].closed) stack.push_back(root);
  while (!stack.empty()) {
    const int32_t id = stack.back();
    const IrNode& n = ir_.nodes[id];
    const size_t size_before = stack.size();
    auto push_if_new = [&](int32_t child) {
      if (!ir_.nodes[child].closed && node_numbers_[child] < 0) stack.push_back(child);
    };
    if (node_numbers_[id] < 0) {
      for (size_t i = n.items.size(); i-- > 0;) push_if_new(n.items[i]);
      if (n.kind == Kind::Permutation) push_if_new(n.ref);
    }
    if (stack.size() > size_before) continue;
    stack.pop_back();
    if (node_numbers_[id] >= 0) continue;
    add(n, key);
    node_numbers_[id] = static_cast<int32_t>(visited.size());
    visited.push_back(id);
  }
  add_child(root, key.digest);
  key.digest.add(ir_.encoding_digests[encoding]);
  for (int32_t id : visited) node_numbers_[id] = -1;
  for (int32_t ref : key.refs) rule_numbers_[ref] = -1;
  return key;
}

void RuleKeys::add(const IrNode& n, RuleKey& key) {
  Digest& d = key.digest;
  d.add(static_cast<uint64_t>(n.kind));
  d.add(static_cast<uint64_t>(n.min));
  d.add(static_cast<uint64_t>(n.max));
  d.add(n.items.size());
  for (int32_t child : n.items) add_child(child, d);
  switch (n.kind) {
    case Kind::And:
    case Kind::Not:
    case Kind::Length:  // the automaton depends on the content of the referenced rules
    case Kind::Permutation:
    case Kind::Tokens:
      key.portable = false;
      break;
    case Kind::Ref:
      if (rule_numbers_[n.ref] < 0) {
        rule_numbers_[n.ref] = static_cast<int32_t>(key.refs.size());
        key.refs.push_back(n.ref);
      }
      d.add(static_cast<uint64_t>(rule_numbers_[n.ref]) * 2 + nullable_.is_nullable_rule(n.ref));
      break;
    case Kind::Dispatch:
      for (const uint32_t state : n.text) d.add(state);
      break;
    case Kind::Special:
      d.add(static_cast<uint64_t>(n.ref));
      break;
    case Kind::Encoded:
      d.add(ir_.encoding_digests[n.ref]);
      break;
    case Kind::Distinct:
      d.add(ir_.known[n.ref].digest);
      d.add(ir_.known[n.ref].sorted.size());
      key.scopes.push_back(n.ref);
      break;
    default:
      break;
  }
}

void RuleKeys::add_child(int32_t id, Digest& digest) const {
  if (!ir_.nodes[id].closed) {
    digest.add(static_cast<uint64_t>(node_numbers_[id]));
    return;
  }
  digest.add(0xC105ED);
  digest.add(ir_.nodes[id].digest);
}

}  // namespace guided
