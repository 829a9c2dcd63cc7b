#include "budget/new_letters.hpp"

#include <algorithm>
#include <unordered_set>

namespace guided {

namespace {
constexpr size_t kMaxWayThreads = 64;  // threads that the search for a loop visits
constexpr size_t kMaxLetterBytes = 16;
bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }
bool is_letter(uint8_t byte) { return byte < 0x7F && byte != StringProgress::kQuote && StringProgress::is_plain(byte); }
}  // namespace

int NewLetters::letters_needed(const Way& way, int64_t value_count) {
  int out = 0;
  for (; value_count > 0; value_count /= way.letters) ++out;
  return out;
}

std::optional<Thread> NewLetters::thread_after(const Way& way, int letters) const {
  Thread out = way.loop;
  if (!way.is_counted) return out;
  const Rule& rule = arena_.grammar().rule_at(out.pos);
  const int64_t count = int64_t{out.reg} + letters;
  if (rule.max >= 0 && count + rule.reach > rule.max) return std::nullopt;
  out.reg = static_cast<int32_t>(rule.max < 0 ? std::min(count, rule.min) : count);
  return out;
}

// The largest number of tokens that consist of `bytes` and have equal length. In a number, tokens that end with 0 are
// not counted, because they might not change the value.
int64_t NewLetters::count_letters(const ByteSet& bytes, bool are_digits) {
  const std::pair key{std::array{bytes.w[0], bytes.w[1], bytes.w[2], bytes.w[3]}, are_digits};
  auto [it, inserted] = counts_.try_emplace(key, 0);
  if (!inserted) return it->second;
  std::array<int64_t, kMaxLetterBytes + 1> counts{};
  for (const std::string& token : vocabulary_.tokens) {
    if (token.empty() || token.size() > kMaxLetterBytes || (are_digits && token.back() == '0')) continue;
    if (std::ranges::all_of(token, [&](char ch) { return bytes.has(static_cast<uint8_t>(ch)); }))
      ++counts[token.size()];
  }
  return it->second = *std::ranges::max_element(counts);
}

// Whether the same letters can be read at a position again and again. If so, fills `out`, except for its text.
bool NewLetters::find_loop(const Thread& thread, Way& out) {
  const Grammar& g = arena_.grammar();
  auto [it, inserted] = loops_.try_emplace(thread.pos);
  if (inserted) {
    const Position& p = g.positions[thread.pos];
    const bool is_string = arena_.is_in_string(thread.pos), is_number = arena_.repeats_digits(thread.pos);
    ByteSet loop_bytes, counted_bytes;
    if (is_string || is_number) {
      p.bytes.each([&](uint8_t byte) {
        if (is_string ? !is_letter(byte) : !is_digit(byte)) return;
        const int32_t to = g.step(thread.pos, byte);
        if (to == thread.pos) loop_bytes.add(byte);
        const Position& next = g.positions[to];
        for (int32_t i = next.effect_lo; is_string && i < next.effect_hi; ++i) {
          const EffectEdge& e = g.effects[i];
          if (e.effect.op == Effect::Inc && e.effect.b < 0 && e.to == thread.pos) counted_bytes.add(byte);
        }
      });
    }
    Way way;
    way.letters = count_letters(loop_bytes, is_number);
    if (way.letters < 2) {
      way.is_counted = true;
      way.letters = counted_bytes.count();
    }
    if (way.letters > 1) it->second = way;
  }
  if (!it->second) return false;
  out.letters = it->second->letters;
  out.is_counted = it->second->is_counted;
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

// A breadth-first search in byte order. So a search from any thread on a way finds the remainder of the same way.
std::optional<NewLetters::Way> NewLetters::search(const Thread& thread) {
  struct Step {
    Thread thread;
    std::string text;
  };
  const Grammar& g = arena_.grammar();
  std::vector<Step> current_steps{{thread, {}}}, next_steps;
  std::unordered_set<Thread, ThreadHash> visited{thread};
  Way out;
  for (; !current_steps.empty(); current_steps = std::exchange(next_steps, {})) {
    for (size_t i = 0; i < current_steps.size(); ++i) {
      CallMeter::work(kLookup);
      const Step step = current_steps[i];
      if (find_loop(step.thread, out)) {
        out.text = step.text;
        return out;
      }
      auto add = [&](const Thread& to) {
        if (visited.size() < kMaxWayThreads && visited.insert(to).second) current_steps.push_back({to, step.text});
      };
      const Thread& current = step.thread;
      const Position& p = g.positions[current.pos];
      if (g.is_later(current.pos)) continue;
      for (const CallEdge& call : g.calls_of(p)) add(arena_.callee_thread(current, call));
      for (const EffectEdge& edge : g.effects_of(p)) {
        Thread next = current;
        if (edge.effect.op != Effect::Inc || !arena_.apply(g.rules[p.rule], edge.effect, next)) continue;
        next.pos = edge.to;
        add(next);
      }
      const bool is_string = arena_.is_in_string(current.pos);
      if (p.accept && is_string && arena_.may_end(g.rules[p.rule], current.reg))
        for (const Thread& caller : arena_.config(current.ret))
          if (caller.pos != kExit) add({caller.pos, caller.reg, caller.ret});
      p.bytes.each([&](uint8_t byte) {
        if (is_string ? !is_letter(byte) : byte != StringProgress::kQuote && (!is_digit(byte) || byte == '0')) return;
        const Thread to{g.step(current.pos, byte), current.reg, current.ret};
        if (visited.size() < kMaxWayThreads && visited.insert(to).second)
          next_steps.push_back({to, step.text + static_cast<char>(byte)});
      });
    }
  }
  return std::nullopt;
}

}  // namespace guided
