// Open texts: texts that write entries without choosing their values (completion.hpp).
//
// Problem: to end an object with `{"minProperties": 1000}`, a thousand different names must be written. Constructing
// them one by one would take a search for each name, for each state that is examined.
//
// How: an *open text* follows the tree of shortest texts as if no values had to differ. Where an entry begins, the open
// text writes the bytes to the nearest loop, and then some *letters* that are not chosen yet (new_letters.hpp). Each
// letter is one token. There are enough letters that some choice of them makes the entry unseen, whatever has been
// written. So an open text is the text of a thread without a seen set, and everything known about such threads applies
// to it (alike.cpp).
//
// An open text has a *level* n: it is valid for up to 4^n values, including seen values, current entries, and the
// entries that the open text itself writes. The number of these values does not grow along an open text, because an
// entry of the open text only becomes a current entry and then a seen value. The lowest sufficient level is used. The
// memory (`Thread::mem`) of an open text's threads is a negative number, which encodes the level and the number of
// letters that the current entry still needs.
//
// Sound: if k values begin like the current entry, one of A letters leads to at most k / A of them. So after the
// required number of letters, the entry begins like none of them, and it ends along the tree. The distance is never too
// low: after such a letter, the state's open text needs one letter less, and after the entry, it has one entry less and
// no higher level.
//
// In: a thread with a seen set. Out: the configuration of its open text; -1 if it has none, for example because some
// entry has no loop nearby.
#include "budget/completion.hpp"

namespace guided {

namespace {
constexpr int kMaxLevels = 12;
constexpr int kMaxLetters = 31;
constexpr int32_t kAnyLetter = 256;     // a symbol for any one letter; no token combines it with other symbols
constexpr int kMaxSteps = 4096;         // steps to the end of an entry
constexpr int64_t kMaxEasyValues = 64;  // an entry that may become more seen values is hard to end
// Once this many entries have been read in the open scopes, the next entries are left open, not constructed.
constexpr int64_t kMaxConstructedEntries = 8;

int32_t open_text_memory(int level, int letters) { return -2 - (level * (kMaxLetters + 1) + letters); }
int level_of(int32_t memory) { return (-2 - memory) / (kMaxLetters + 1); }
int letters_of(int32_t memory) { return (-2 - memory) % (kMaxLetters + 1); }
int64_t max_values_of(int level) { return int64_t{1} << (2 * level); }
}  // namespace

// Whether an entry that begins here is left open rather than constructed. Entries inside another entry are constructed,
// because they are part of the way to a new value of the outer entry.
bool CompletionFinder::is_left_open_from_here(const Thread& t) {
  const Uniqueness& uniqueness = arena_.uniqueness();
  return t.mem > kLastUnknownSet && !uniqueness.is_in_entry(t.mem) &&
         uniqueness.count_read_entries(t.mem) >= kMaxConstructedEntries;
}

// Whether the current entry may become so many seen values that finding another end takes long. In an unbounded string,
// another end is found quickly.
bool CompletionFinder::is_hard_to_end(const Thread& t) {
  Uniqueness& uniqueness = arena_.uniqueness();
  if (!uniqueness.may_become_seen(t.mem) || uniqueness.max_seen_ahead(t.mem) <= kMaxEasyValues) return false;
  return !arena_.is_in_unbounded_string(t.pos) && !arena_.unbounded().begins_unbounded_string(t.pos);
}

int32_t CompletionFinder::find_open_text(const Thread& t) {
  Uniqueness& uniqueness = arena_.uniqueness();
  if (t.mem <= kLastUnknownSet || t.pos == kExit || grammar_.is_later(t.pos) || !uniqueness.is_in_scope(t.mem))
    return -1;
  const bool may_become_seen = uniqueness.may_become_seen(t.mem);
  int letters = 0;
  if (may_become_seen) {
    const NewLetters::Way* way = uniqueness.can_tell_apart(t.mem) ? letters_.find(t) : nullptr;
    if (!way) return -1;
    letters = NewLetters::letters_needed(*way, uniqueness.max_seen_ahead(t.mem));
    if (letters > kMaxLetters) return -1;
  }
  const int64_t value_count = uniqueness.count_values(t.mem);
  for (int level = 1; level <= kMaxLevels; ++level) {
    if (value_count > max_values_of(level)) continue;
    Thread open_thread = t;
    open_thread.mem = open_text_memory(level, letters);
    const int32_t open_config = arena_.intern({open_thread}, false);
    const Completion& c = completion(open_config);
    if (c.total >= kUnreachable) return -1;
    if (value_count + c.entries <= max_values_of(level)) return open_config;
  }
  return -1;
}

int CompletionFinder::letters_of_open_text(int32_t memory) { return letters_of(memory); }

// Appends one segment: the bytes that lead to the loop, and then the letters.
void CompletionFinder::follow_letters(const Thread& thread, Completion& out) {
  const NewLetters::Way* way = letters_.find(thread);
  const int letters = letters_of(thread.mem);
  std::optional<Thread> loop_thread = way ? letters_.thread_after(*way, letters) : std::nullopt;
  if (!loop_thread) {
    out.is_impossible = true;
    return;
  }
  for (char ch : way->text) out.symbols.push_back(static_cast<uint8_t>(ch));
  out.symbols.insert(out.symbols.end(), static_cast<size_t>(letters), kAnyLetter);
  loop_thread->mem = open_text_memory(level_of(thread.mem), 0);
  out.next = arena_.intern({*loop_thread}, false);
}

// Whether the position after an entry along `way` is closer to the end of the frame than the position before the entry.
// Otherwise one entry might follow another forever.
bool CompletionFinder::gets_closer_to_end(const Thread& entry, const NewLetters::Way& way) {
  Thread thread = way.loop;
  thread.mem = kOutside;
  for (int step = 0; step < kMaxSteps; ++step) {
    CallMeter::work(kLookup);
    const ShortestText::Choice c = tree_.choose(thread);
    if (c.cost > kUnreachable || c.kind == ShortestText::Choice::Token) return false;
    if (c.kind == ShortestText::Choice::End) {
      const Config& ret = arena_.config(thread.ret);
      if (ret.count != 1 || ret.threads[0].pos == kExit) return false;
      thread = ret.threads[0];
    } else if (c.kind == ShortestText::Choice::Byte) {
      thread.pos = grammar_.step(thread.pos, static_cast<uint8_t>(c.index));
    } else if (c.kind == ShortestText::Choice::Call) {
      thread = arena_.callee_thread(thread, grammar_.calls[c.index]);
    } else {
      const EffectEdge& e = grammar_.effects[c.index];
      if (e.effect.op == Effect::Keep) return thread.ret == entry.ret && tree_.cost(e.to) < tree_.cost(entry.pos);
      if (e.effect.changes_scopes() || !arena_.apply(grammar_.rule_at(thread.pos), e.effect, thread)) return false;
      thread.pos = e.to;
    }
  }
  return false;
}

// Applies an effect on a scope in an open text. Scopes are not opened, but their known names count as written entries.
bool CompletionFinder::apply_effect_in_open_text(const EffectEdge& e, Thread& thread, Completion& out) {
  thread.pos = e.to;
  if (e.effect.op == Effect::Open) out.entries += std::ssize(grammar_.known[static_cast<size_t>(e.effect.a)].sorted);
  if (e.effect.op != Effect::Begin) return true;
  ++out.entries;
  const int level = level_of(thread.mem);
  const NewLetters::Way* way = letters_.find(thread);
  const int letters = way ? NewLetters::letters_needed(*way, max_values_of(level) - 1) : 0;
  out.is_impossible = !way || letters > kMaxLetters || !gets_closer_to_end(thread, *way);
  thread.mem = open_text_memory(level, letters);
  return !out.is_impossible;
}

}  // namespace guided
