// Drafts: texts that write entries without choosing their values (completion.hpp).
//
// Problem: to end `{"minProperties": 1000}`, a thousand different names must be written. Constructing them one after
// the other takes a search for each, for each state that is examined.
//
// How: a *draft* follows the tree of shortest texts as if no values had to differ. Where an entry begins, it writes the
// bytes to the nearest loop and then some letters that are not chosen yet (new_letters.hpp), each of which is one
// token: enough that, whatever was written, some choice of them makes the entry unseen. So a draft is the text of a
// thread without a seen set. Everything known about such threads holds for it (alike.cpp), whatever was written.
//
// A draft has a *level*: it is valid for up to 4 to the power of its level values, which include seen values, current
// entries, and the entries that it writes itself. Their number does not grow along a draft, as an entry only moves from
// the last kind to the second and to the first. The lowest sufficient level is used. The memory of a draft's threads, a
// negative number, contains the level and the number of letters that the current entry still needs.
//
// Sound: if n values begin with what was read of an entry, one of A letters leads to at most n / A of them, and as many
// letters as the way requires lead to none; the entry then ends along the tree. Never too low: after that letter, the
// state's draft needs one letter less. After the entry, the draft has one entry less, at no higher level.
//
// In: a thread with a seen set. Out: the configuration of its draft; none if an entry has no loop nearby.
#include "budget/completion.hpp"

namespace guided {

namespace {
constexpr int kMaxLevels = 12;
constexpr int kMaxLetters = 31;
constexpr int32_t kAnyLetter = 256;  // a symbol that no token combines with others
constexpr int kMaxSteps = 4096;      // to the end of an entry
constexpr int64_t kManyAhead = 64;
constexpr int64_t kKnownEntries = 8;  // this many entries are constructed; drafts are used for those after them

int32_t draft_memory(int level, int letters) { return -2 - (level * (kMaxLetters + 1) + letters); }
int level_of(int32_t memory) { return (-2 - memory) / (kMaxLetters + 1); }
int letters_of(int32_t memory) { return (-2 - memory) % (kMaxLetters + 1); }
int64_t values_of(int level) { return int64_t{1} << (2 * level); }
}  // namespace

// Whether an entry that begins here is drafted rather than constructed. Entries within another one are constructed: the
// way to a new value of that one contains them.
bool CompletionFinder::is_drafted_from_here(const Thread& t) {
  const Uniqueness& uniqueness = arena_.uniqueness();
  return t.mem > kLastUnknownSet && !uniqueness.in_entry(t.mem) && uniqueness.read_entries(t.mem) >= kKnownEntries;
}

// Whether the current entry may become so many seen values that another end takes long to find.
bool CompletionFinder::is_hard_to_end(const Thread& t) {
  Uniqueness& uniqueness = arena_.uniqueness();
  if (!uniqueness.alive(t.mem) || uniqueness.ahead(t.mem) <= kManyAhead) return false;
  return !arena_.in_unbounded_string(t.pos) && !arena_.unbounded().begins_string(t.pos);
}

int32_t CompletionFinder::draft(const Thread& t) {
  if (t.mem <= kLastUnknownSet || t.pos == kExit || grammar_.is_later(t.pos)) return -1;
  Uniqueness& uniqueness = arena_.uniqueness();
  const bool alive = uniqueness.alive(t.mem);
  int letters = 0;
  if (alive) {
    const NewLetters::Way* way = uniqueness.tells_apart(t.mem) ? letters_.find(t) : nullptr;
    if (!way) return -1;
    letters = NewLetters::needed(*way, uniqueness.ahead(t.mem));
    if (letters > kMaxLetters) return -1;
  }
  const int64_t written = uniqueness.written(t.mem);
  for (int level = 1; level <= kMaxLevels; ++level) {
    if (written > values_of(level)) continue;
    Thread at = t;
    at.mem = draft_memory(level, letters);
    const int32_t id = arena_.intern({at}, false);
    const Completion& c = completion(id);
    if (c.total >= kUnreachable) return -1;
    if (written + c.entries <= values_of(level)) return id;
  }
  return -1;
}

int CompletionFinder::letters_of_draft(int32_t memory) { return letters_of(memory); }

// The bytes to the loop, and the letters, as one piece.
void CompletionFinder::follow_letters(const Thread& at, Completion& out) {
  const NewLetters::Way* way = letters_.find(at);
  const int letters = letters_of(at.mem);
  std::optional<Thread> after = way ? letters_.after(*way, letters) : std::nullopt;
  if (!after) {
    out.impossible = true;
    return;
  }
  for (char ch : way->text) out.symbols.push_back(static_cast<uint8_t>(ch));
  out.symbols.insert(out.symbols.end(), static_cast<size_t>(letters), kAnyLetter);
  after->mem = draft_memory(level_of(at.mem), 0);
  out.next = arena_.intern({*after}, false);
}

// Whether the tree's text after an entry along `way` is nearer to the end of the frame than the entry's start.
// Otherwise one entry might follow another forever.
bool CompletionFinder::comes_nearer(const Thread& entry, const NewLetters::Way& way) {
  Thread at = way.loop;
  at.mem = kOutside;
  for (int step = 0; step < kMaxSteps; ++step) {
    CallMeter::work(kLookup);
    const ShortestText::Choice c = tree_.choose(at);
    if (c.cost > kUnreachable || c.kind == ShortestText::Choice::Token) return false;
    if (c.kind == ShortestText::Choice::End) {
      const Config& ret = arena_.config(at.ret);
      if (ret.count != 1 || ret.threads[0].pos == kExit) return false;
      at = ret.threads[0];
    } else if (c.kind == ShortestText::Choice::Byte) {
      at.pos = grammar_.step(at.pos, static_cast<uint8_t>(c.index));
    } else if (c.kind == ShortestText::Choice::Call) {
      at = arena_.called(at, grammar_.calls[c.index]);
    } else {
      const EffectEdge& e = grammar_.effects[c.index];
      if (e.effect.op == Effect::Keep) return at.ret == entry.ret && tree_.cost(e.to) < tree_.cost(entry.pos);
      if (e.effect.changes_scopes() || !arena_.apply(grammar_.rule_at(at.pos), e.effect, at)) return false;
      at.pos = e.to;
    }
  }
  return false;
}

// Applies an effect on a scope. Scopes are not opened; their known names count as written.
bool CompletionFinder::draft_effect(const EffectEdge& e, Thread& at, Completion& out) {
  at.pos = e.to;
  if (e.effect.op == Effect::Open) out.entries += std::ssize(grammar_.known[static_cast<size_t>(e.effect.a)].sorted);
  if (e.effect.op != Effect::Begin) return true;
  ++out.entries;
  const int level = level_of(at.mem);
  const NewLetters::Way* way = letters_.find(at);
  const int letters = way ? NewLetters::needed(*way, values_of(level) - 1) : 0;
  out.impossible = !way || letters > kMaxLetters || !comes_nearer(at, *way);
  at.mem = draft_memory(level, letters);
  return !out.impossible;
}

}  // namespace guided
