#include "budget/new_letters.hpp"

#include <algorithm>
#include <unordered_set>

namespace guided {

namespace {
constexpr size_t kMaxNewThreads = 64;  // on the way to a loop
constexpr size_t kLongestLetter = 16;
bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }
bool is_letter(uint8_t byte) { return byte < 0x7F && byte != StringProgress::kQuote && StringProgress::is_plain(byte); }
}  // namespace

int NewLetters::needed(const Way& way, int64_t values) {
  int out = 0;
  for (; values > 0; values /= way.letters) ++out;
  return out;
}

std::optional<Thread> NewLetters::after(const Way& way, int letters) const {
  Thread out = way.loop;
  if (!way.counts) return out;
  const Rule& rule = arena_.grammar().rule_at(out.pos);
  const int64_t count = int64_t{out.reg} + letters;
  if (rule.max >= 0 && count + rule.reach > rule.max) return std::nullopt;
  out.reg = static_cast<int32_t>(rule.max < 0 ? std::min(count, rule.min) : count);
  return out;
}

// The largest number of tokens of one length. In a number, a last digit 0 might not change the value.
int64_t NewLetters::count_letters(const ByteSet& bytes, bool digits) {
  const std::pair key{std::array{bytes.w[0], bytes.w[1], bytes.w[2], bytes.w[3]}, digits};
  auto [it, inserted] = counts_.try_emplace(key, 0);
  if (!inserted) return it->second;
  std::array<int64_t, kLongestLetter + 1> found{};
  for (const std::string& token : vocabulary_.tokens) {
    if (token.empty() || token.size() > kLongestLetter || (digits && token.back() == '0')) continue;
    if (std::ranges::all_of(token, [&](char ch) { return bytes.has(static_cast<uint8_t>(ch)); })) ++found[token.size()];
  }
  return it->second = *std::ranges::max_element(found);
}

// Whether the same letters can be read at a position again and again.
bool NewLetters::find_loop(const Thread& thread, Way& out) {
  const Grammar& g = arena_.grammar();
  auto [it, inserted] = loops_.try_emplace(thread.pos);
  if (inserted) {
    const Position& p = g.positions[thread.pos];
    const bool string = arena_.in_string(thread.pos), number = arena_.repeats_digits(thread.pos);
    ByteSet loops, counted;
    if (string || number) {
      p.bytes.each([&](uint8_t byte) {
        if (string ? !is_letter(byte) : !is_digit(byte)) return;
        const int32_t to = g.step(thread.pos, byte);
        if (to == thread.pos) loops.add(byte);
        const Position& after = g.positions[to];
        for (int32_t i = after.effect_lo; string && i < after.effect_hi; ++i) {
          const EffectEdge& e = g.effects[i];
          if (e.effect.op == Effect::Inc && e.effect.b < 0 && e.to == thread.pos) counted.add(byte);
        }
      });
    }
    Way way;
    way.letters = count_letters(loops, number);
    if (way.letters < 2) {
      way.counts = true;
      way.letters = counted.count();
    }
    if (way.letters > 1) it->second = way;
  }
  if (!it->second) return false;
  out.letters = it->second->letters;
  out.counts = it->second->counts;
  out.loop = {thread.pos, thread.reg, thread.ret};
  return true;
}

const NewLetters::Way* NewLetters::find(Thread thread) {
  thread.mem = kOutside;
  auto [it, inserted] = ways_.try_emplace(thread);
  if (inserted) {
    it->second = search(thread);
    arena_.charge(128);
  }
  return it->second ? &*it->second : nullptr;
}

// Breadth first, in byte order. So the rest of a way is the way from each thread on it.
std::optional<NewLetters::Way> NewLetters::search(const Thread& thread) {
  struct Step {
    Thread at;
    std::string text;
  };
  const Grammar& g = arena_.grammar();
  std::vector<Step> now{{thread, {}}}, then;
  std::unordered_set<Thread, ThreadHash> visited{thread};
  Way out;
  for (; !now.empty(); now = std::exchange(then, {})) {
    for (size_t i = 0; i < now.size(); ++i) {
      CallMeter::work(kLookup);
      const Step step = now[i];
      if (find_loop(step.at, out)) {
        out.text = step.text;
        return out;
      }
      auto lead = [&](const Thread& to) {
        if (visited.size() < kMaxNewThreads && visited.insert(to).second) now.push_back({to, step.text});
      };
      const Thread& t = step.at;
      const Position& p = g.positions[t.pos];
      if (g.is_later(t.pos)) continue;
      for (const CallEdge& call : g.calls_of(p)) lead(arena_.called(t, call));
      for (const EffectEdge& edge : g.effects_of(p)) {
        Thread after = t;
        if (edge.effect.op != Effect::Inc || !arena_.apply(g.rules[p.rule], edge.effect, after)) continue;
        after.pos = edge.to;
        lead(after);
      }
      const bool string = arena_.in_string(t.pos);
      if (p.accept && string && arena_.may_end(g.rules[p.rule], t.reg))
        for (const Thread& caller : arena_.config(t.ret))
          if (caller.pos != kExit) lead({caller.pos, caller.reg, caller.ret});
      p.bytes.each([&](uint8_t byte) {
        if (string ? !is_letter(byte) : byte != StringProgress::kQuote && (!is_digit(byte) || byte == '0')) return;
        const Thread to{g.step(t.pos, byte), t.reg, t.ret};
        if (visited.size() < kMaxNewThreads && visited.insert(to).second)
          then.push_back({to, step.text + static_cast<char>(byte)});
      });
    }
  }
  return std::nullopt;
}

}  // namespace guided
