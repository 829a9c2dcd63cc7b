"""One growing output: what the constraint forces, masks and accepts, and which tokens are chosen.

`Sequence.steps` is a coroutine. It yields `Forward`, the tokens that the model must read next, and receives the logits.
It yields `Choose`, rows of logits to choose tokens from, and `Draft`, and receives answers. It also yields
`StreamEvent`s. So the rounds of an output are plain sequential code here, and the driver (scheduler.py) answers the
requests of one sequence or of a hundred at once.

One round: the grammar's forced tokens join the last token in **one** forward pass, and so do the drafts that the
grammar allows (drafting.py). The mask is filled once that pass is launched (`meanwhile`: on an accelerator it runs
then; on a CPU filling takes microseconds). A token is chosen (sampling/choice.py). If the matcher does not accept it,
the output fails, so it contains only accepted tokens. With drafts, a token is chosen at the position of each draft, as
if all drafts before it were right. Drafts and choices after the first wrong draft are dropped.

The budget counts the tokens of the text, including forced ones; the end costs nothing. Every mask gets the remaining
budget, plus one token for the end, which a matcher's budget counts. Forced tokens are checked against such a mask too,
so that a constrained output is complete when the budget ends. Where the output may end, the mask is filled first: if
the specification allows nothing but the end, the output stops without a forward pass. If only the budget forces the
end, the pass is made, so that `Result.budget_bound` can report what the model would have written.

Tools (tool_calls.py) are called when forced tokens are taken from the grammar. Their results are forced tokens too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Final

from guided.engine.drafting import Ngrams
from guided.engine.masks import MaskRow, Masks
from guided.engine.matchers import layers
from guided.engine.reasoning import ReasoningGate
from guided.engine.result import BudgetBound, FinishReason, Result, StreamEvent, Timings
from guided.engine.scores import Scores
from guided.engine.step_requests import Draft, Forward, LogitRows, Steps
from guided.engine.stopping import Stops
from guided.engine.tool_calls import ToolCalls
from guided.engine.transcript import Transcript
from guided.errors import BudgetError, GuidedError
from guided.matching.canonical.matcher import CanonicalMatcher
from guided.matching.healing import HealingMatcher
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import Matcher
from guided.sampling.choice import Answer, Choice, Choose, Chosen
from guided.sampling.logprobs import LogprobParams, TokenLogprobs
from guided.sampling.params import SamplingParams
from guided.sampling.penalties import Penalties
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Sequence"]

_NO_STOPS: Final = Stops()
_NO_MASK: Final = MaskRow()
_NO_LOGPROBS: Final = LogprobParams()
_PIECE: Final = 128  # positions of a scored prompt whose logits are held at once


class Sequence:
    """One output.

    Args:
        prompt: ids that the model reads first.
        max_tokens: the budget, in tokens of the text.
        room: tokens that still fit the model's context; None: no limit.
        score_forced: count the model's probability of forced tokens, too.
        stops: what ends the output besides an end token.
        logprobs: which log probabilities to compute.
        calls: the tool calls, if the matcher's grammar contains tools.
        drafts: the most tokens to draft for a forward pass.
        drafted_by_model: drafts come from a second model, not from earlier text.
        budget_ramp: the largest penalty of the budget ramp, see `Masks`.
        parse: makes the value of the text.
        free: whether the matcher's text may end anywhere, so that the budget cuts it.

    Raises:
        BudgetError: no output fits. GuidedError: stops under a constraint. ValueError: ids outside the vocabulary.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        prompt: list[int],
        matcher: Matcher | None,
        params: SamplingParams,
        *,
        max_tokens: int,
        room: int | None = None,
        score_forced: bool = False,
        stops: Stops = _NO_STOPS,
        logprobs: LogprobParams = _NO_LOGPROBS,
        calls: ToolCalls | None = None,
        drafts: int = 0,
        drafted_by_model: bool = False,
        budget_ramp: float = 0.0,
        parse: Callable[[str], Any] | None = None,
        free: bool = False,
    ) -> None:
        most = max_tokens if room is None else min(max_tokens, room)
        if matcher is not None and (needed := matcher.min_tokens_to_finish() - 1) > most:
            if room is not None and room < needed:
                raise BudgetError(needed, room, max_tokens)
            raise BudgetError(needed, most)
        max_tokens = most
        if matcher is not None and stops and not (free and stops.are_texts and calls is None):
            raise GuidedError("a constraint says where its output ends: stops and ignore_eos go with none")
        stops.check(vocabulary.size)
        self.vocabulary, self.prompt, self.matcher, self.params = vocabulary, prompt, matcher, params
        self.max_tokens, self.calls, self.parse = max_tokens, calls, parse
        self.score_forced = score_forced and matcher is not None
        self.stops, self.wanted = stops, logprobs
        self.prompt_logprobs: list[TokenLogprobs | None] | None = None if logprobs.prompt is None else [None]
        self.ends = frozenset(stops.token_ids).union(() if stops.ignore_eos else vocabulary.eos_token_ids)
        self.penalties = None if params.keeps_logits else Penalties(params, prompt, self.ends, vocabulary.size)
        self.gate = matcher if isinstance(matcher, ReasoningGate) else None
        parts = list(layers(matcher))
        self.regions = next((it for it in parts if isinstance(it, GrammarMatcher) and it.grammar.regions), None)
        self.canonical = next((it for it in parts if isinstance(it, CanonicalMatcher)), None)
        self.healed = next((it.prefix for it in parts if isinstance(it, HealingMatcher)), b"")
        if self.regions is not None:  # a draft would need the temperature after it too early
            drafts = 0
        self.out = Transcript(vocabulary, stops, thinking=self.gate is not None, skip=len(self.healed))
        self.results: set[int] = set()  # positions of tokens of tool results in the output
        self.scores = Scores(vocabulary, logprobs)
        self.timings = Timings()
        self.budget_bound = BudgetBound()
        self.free, self.cut = free, False  # cut: the budget allowed only the end
        self.masks: Masks | None = None
        if matcher is not None:
            times = self.timings.mask
            self.masks = Masks(matcher, vocabulary, 1 + drafts, times, ramp=budget_ramp, free=self.free)
        self.most_drafts = drafts
        self.ngrams = Ngrams(prompt) if drafts and not drafted_by_model else None
        self.prompt_is_read = False
        self.finish_reason: FinishReason | None = None
        self.stop: str | int | None = None
        self.can_run_ahead = calls is None and not drafts and not self.score_forced
        self.choosing = False  # a token is chosen from the current pass, which has no drafts

    @property
    def left(self) -> int:
        """The remaining budget: tokens of the text."""
        return self.max_tokens - len(self.out.tokens)

    def steps(self) -> Steps:
        """Rounds of: force, forward, mask, choose. The last event holds the result.

        Raises:
            GuidedError: the matcher refuses a token that its mask allowed, or the logits are not numbers.
        """
        fresh, wrong = self.prompt, 0
        if self.prompt_logprobs is not None:
            yield from self.score_prompt(self.prompt_logprobs)
            fresh = self.prompt[-1:]
        while True:
            forced = self.force()
            if forced:
                self.out.write(forced, sampled=False)
                if not self.score_forced:  # else after they are scored
                    yield self.event()
            self.look_for_the_end()
            if self.finish_reason is not None and not self.score_forced:
                break
            if not fresh and (self.score_forced or not forced):  # the logits after the last token are needed again
                fresh, wrong = self.out.tokens[-1 - len(forced) :][:1], 1
            drafts, settled = list[int](), False
            if self.finish_reason is None and self.most_drafts:
                drafts, settled = yield from self.draft()
            choosing = not settled
            before = len(forced) if self.score_forced else 0
            self.choosing = not drafts and self.finish_reason is None
            logits = yield Forward([*fresh, *forced, *drafts], before + 1 + len(drafts), wrong)
            assert isinstance(logits, LogitRows)
            self.choosing, self.prompt_is_read = False, True
            if self.score_forced:
                at = len(self.out.tokens) - len(forced)
                scored = self.scores.forced(
                    logits.tensor[: before + 1],
                    forced,
                    counted=[at + i not in self.results for i in range(len(forced))],
                    ended=self.finish_reason == "stop",
                )
                self.out.logprobs[len(self.out.logprobs) - len(scored) :] = scored
                if forced:
                    yield self.event()
            if self.finish_reason is not None:
                break
            choices = [self.choice(at, drafts) for at in range(len(drafts) + choosing)]
            answer = yield Choose(logits.logits, choices, logits.first + before)
            assert isinstance(answer, Answer)
            wrong = len(drafts) - (held := self.take(answer, drafts))
            if self.finish_reason is not None:
                break
            opened = self.out.thinking and self.gate is not None and self.gate.is_open
            if opened:
                self.out.close()  # an incomplete character
            if (event := self.event()).tokens or event.text:
                yield event
            if opened and self.gate is not None:
                self.out.begin_answer(self.gate.end_text)
            fresh = [] if held == len(drafts) and not choosing else self.out.tokens[-1:]
        self.out.close()
        if (event := self.event()).tokens:  # tokens that were held back
            yield event
            event = self.event()
        yield replace(event, result=self.result())

    def meanwhile(self) -> None:
        """While the model runs, fill the mask of the next choice. With drafts, only the mask after the last one is
        missing, and it may not be needed."""
        if self.masks is not None and self.choosing:
            self.masks.fill(self.budget(0))

    def score_prompt(self, scores: list[TokenLogprobs | None]) -> Steps:
        """Read the prompt without its last token, and record the log probability of the token after each position."""
        for start in range(0, len(self.prompt) - 1, _PIECE):
            piece = self.prompt[start : min(start + _PIECE, len(self.prompt) - 1)]
            logits = yield Forward(piece, len(piece))
            assert isinstance(logits, LogitRows)
            coming = self.prompt[start + 1 : start + 1 + len(piece)]
            scores += [
                self.scores.of(row, token, self.wanted.prompt) for row, token in zip(logits.tensor, coming, strict=True)
            ]

    def force(self) -> list[int]:
        """Take all tokens that must come next: results of finished calls, and the tokens that the grammar forces."""
        taken: list[int] = []
        if self.masks is not None:
            self.masks.moved()
        while self.masks is not None:
            if self.calls is not None and self.calls.waiting:
                self.take_result(self.calls, taken)
                self.masks.moved()
            self.take_forced(self.masks, taken)
            if self.calls is None or not self.calls.waiting:
                break
        return taken

    def take_result(self, calls: ToolCalls, taken: list[int]) -> None:
        """Run the tool, and append its result."""
        result = calls.answer(self.left + 1 - len(taken))
        begin = len(self.out.tokens) + len(taken)
        self.results.update(range(begin, begin + len(result)))
        taken += result

    def take_forced(self, masks: Masks, taken: list[int]) -> None:
        """Take the forced tokens up to the end of a call, as far as the budget's mask and the bans allow."""
        for token in masks.matcher.forced_tokens():
            if self.penalties is not None and self.penalties.forbids(token, [*self.out.tokens, *taken]):
                return
            masks.fill(self.budget(len(taken)), timed=False)
            if not masks.has(token) or not masks.take(token):
                return
            if token in self.vocabulary.eos_token_ids:
                self.finish_reason = "stop"
                return
            taken.append(token)
            if self.calls is not None:
                self.calls.read(token, self.left + 1 - len(taken))
                if self.calls.waiting:
                    return

    def budget(self, ahead: int) -> int:
        """The budget of a mask `ahead` tokens from here: for that token and all that follow, including the end, without
        the tokens reserved for the result of a call."""
        return self.left + 1 - ahead - (0 if self.calls is None else self.calls.reserved)

    def look_for_the_end(self) -> None:
        """Set the finish reason if only the end can follow."""
        if self.finish_reason is not None:
            return
        if self.masks is None:
            if self.left <= 0:
                self.finish_reason = "length"
        elif self.masks.matcher.is_terminated():
            self.finish_reason = "stop"
        elif self.masks.is_end(self.budget(0)):
            self.finish_reason = "length" if self.free and self.masks.is_cut() else "stop"

    def draft(self) -> Generator[Draft, LogitRows | Answer | None, tuple[list[int], bool]]:
        """Drafts, which the matcher has accepted provisionally; and whether no token is chosen after them."""
        settled, drafts, repeated = False, list[int](), list[int]()
        most = min(self.most_drafts, self.left - 1)
        if self.ngrams is not None:
            self.ngrams.extend(self.out.tokens[self.ngrams.length - len(self.prompt) :])
            repeated = self.ngrams.propose(most)
        for at in range(most):
            if at < len(repeated):
                token = repeated[at]
            elif self.ngrams is None and self.prompt_is_read:
                answer = yield Draft([*self.prompt, *self.out.tokens, *drafts], self.choice(at, drafts))
                if not (isinstance(answer, Answer) and answer.rows and isinstance(answer.rows[0], Chosen)):
                    break
                token = answer.rows[0].token
            else:
                break
            if token in self.ends or any(
                other.watches(token) for other in (self.calls, self.gate) if other is not None
            ):
                break
            if self.masks is not None and not self.masks.draft(token, self.budget(at), at):
                break
            drafts.append(token)
            settled = self.masks is not None and self.masks.is_settled(self.budget(len(drafts)), len(drafts))
            if settled:  # there is nothing to choose here
                break
        self.timings.drafted += len(drafts)
        return drafts, settled

    def choice(self, at: int, drafts: list[int]) -> Choice:
        """How to choose the token after the first `at` drafts."""
        row = _NO_MASK
        if self.masks is not None:
            self.masks.fill(self.budget(at), at)
            row = self.masks.row(at)
        changes = None
        if self.penalties is not None and not (self.masks is not None and self.masks.allows_only_ends(at)):
            changes = self.penalties.changes(self.out.tokens, drafts[:at])
        return Choice(
            self.params_here(),
            len(self.out.tokens) + at,
            self.vocabulary.size,
            row.allowed,
            row.unbudgeted,
            row.ramp,
            changes=changes,
            logprobs=self.wanted.output,
            raw=self.wanted.mode == "raw",
        )

    def take(self, answer: Answer, drafts: list[int]) -> int:
        """Write the chosen tokens, up to the first that differs from its draft. Return how many drafts were right."""
        held = 0
        for at, chosen in enumerate(answer.rows):
            if isinstance(chosen, GuidedError):
                raise chosen
            self.timings.sample.append(answer.seconds / len(answer.rows))
            drafted = at < len(drafts) and chosen.token == drafts[at]
            self.accept(chosen, at, drafts, drafted=drafted)
            self.write(chosen)
            if not drafted or self.finish_reason is not None:
                break
            held += 1
        self.timings.held += held
        return held

    def accept(self, chosen: Chosen, at: int, drafts: list[int], *, drafted: bool) -> None:
        """Let the matcher accept a token, unless it has accepted it as a draft, and count what its mask removed."""
        removed = chosen.removed
        if self.masks is not None:
            removed -= self.masks.penalty(chosen.token, at)
            self.cut = self.masks.is_cut(at) and self.masks.allows_only_ends(at)
            if not drafted and not self.masks.take(chosen.token, at, len(drafts)):
                raise GuidedError(
                    f"token {chosen.token} was chosen, but the grammar refuses it: the mask and the matcher disagree"
                )
        self.scores.removed.append(removed)
        if chosen.by_budget is not None:
            self.budget_bound = self.budget_bound.with_step(chosen.by_budget)

    def params_here(self) -> SamplingParams:
        """The sampling parameters of the next token, at the grammar's temperature if it sets one."""
        temperature = None if self.regions is None else self.regions.temperature()
        return self.params if temperature is None else self.params.at(temperature)

    def write(self, chosen: Chosen) -> None:
        """Append a chosen token, or end the output with it."""
        token = chosen.token
        if token in self.ends:
            self.finish_reason = "stop"
            self.stop = token if token in self.stops.token_ids else None
            if self.stop is None or not self.stops.included:
                return
        if self.calls is not None:
            self.calls.read(token, self.left)
        stoppable = len(self.out.tokens) >= self.params.min_tokens
        self.out.write([token], sampled=True, stoppable=stoppable, logprobs=chosen.scores)
        if self.out.stop_match is not None:
            self.finish_reason, self.stop = "stop", self.out.stop_match.stop

    def event(self) -> StreamEvent:
        """The event for everything since the last event."""
        event = self.out.event(self.budget_bound)
        if self.regions is not None:
            event = replace(event, captures=_texts(self.regions.captures(partial=True)))
        return event

    def result(self) -> Result:
        """The result of a finished output."""
        assert self.finish_reason is not None
        return Result(
            text=self.out.text,
            tokens=self.out.tokens,
            token_masks=self.out.token_masks,
            finish_reason=self.finish_reason,
            stop=self.stop,
            logprobs=None if self.wanted.output is None else self.out.logprobs,
            prompt_logprobs=self.prompt_logprobs,
            timings=self.timings,
            removed_log_masses=self.scores.removed,
            removed_log_mass=sum(self.scores.removed) + self.scores.forced_log_mass,
            seed=self.params.seed,
            prompt_tokens=len(self.prompt),
            parse=self.parse,
            reasoning=None if self.gate is None else self.out.reasoning,
            tool_calls=[] if self.calls is None else self.calls.done,
            budget_bound=self.budget_bound,
            healed=self.healed.decode("utf-8", "replace"),
            non_canonical=0 if self.canonical is None else self.canonical.non_canonical,
            captures={} if self.regions is None else _texts(self.regions.captures()),
            cut=self.cut or self.finish_reason == "length",
        )


def _texts(captures: dict[str, list[bytes]]) -> dict[str, list[str]]:
    return {name: [text.decode("utf-8", "replace") for text in texts] for name, texts in captures.items()}
