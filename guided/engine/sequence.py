"""One growing output: the tokens that the constraint forces, the masks, and the tokens that are chosen.

`Sequence.steps` is a coroutine. It yields `Forward`, the tokens that the model must read next, and receives the logits.
It yields `Choose`, rows of logits to choose tokens from, or `Draft`, and receives an `Answer`. It also yields
`StreamEvent`s. So the rounds of an output are plain sequential code here, while the scheduler (scheduler.py) answers
the requests of many sequences at once.

One round: the model reads the last token, the grammar's forced tokens, and the drafts that the grammar allows
(drafting.py) in **one** forward pass. The mask is filled while this pass runs on an accelerator (`fill_mask`; on a CPU,
filling takes microseconds). Then a token is chosen (sampling/choice.py). If the matcher does not accept it, the output
fails, so an output contains only accepted tokens. With drafts, a token is chosen at the position of each draft, as if
all drafts before it were right. Drafts and choices after the first wrong draft are dropped.

The budget counts the tokens of the text, including forced tokens but not the end token. Every mask gets the remaining
budget plus one, because a matcher's budget includes the end token. Forced tokens are checked against such a mask too,
so a constrained output is complete when the budget is used up. Where the output may end, the mask is filled before the
pass: if the specification allows only the end, the output stops without a forward pass. If only the budget forces the
end, the pass is run, so that `Result.budget_bound` can report the probability of the tokens that the budget removed.

Tools (tool_calls.py) are called when forced tokens are collected. Their results are forced tokens, too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Final

from guided.engine.call_budget import CallBudget
from guided.engine.drafting import Ngrams
from guided.engine.fields import decode_captures
from guided.engine.masks import MaskRow, Masks
from guided.engine.matchers import iterate_layers
from guided.engine.reasoning import ReasoningGate
from guided.engine.result import FinishReason, Result, StreamEvent, Timings
from guided.engine.scores import Scores
from guided.engine.step_requests import Draft, Forward, LogitRows, Steps
from guided.engine.stopping import Stops
from guided.engine.tool_calls import ToolCalls
from guided.engine.transcript import Transcript
from guided.errors import BudgetError, GuidedError, OptionError
from guided.matching.canonical.matcher import CanonicalMatcher
from guided.matching.constraint import ValueParser
from guided.matching.healing import HealingMatcher
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import Matcher
from guided.sampling.choice import Answer, Choice, Choose, ChosenToken, RunTokens
from guided.sampling.logprobs import LogprobParams, TokenLogprobs
from guided.sampling.params import SamplingParams
from guided.sampling.penalties import Penalties
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Sequence"]

_NO_STOPS: Final = Stops()
_NO_MASK: Final = MaskRow()
_NO_LOGPROBS: Final = LogprobParams()


class Sequence:
    """One output.

    Args:
        prompt: ids that the model reads first.
        max_tokens: the budget in tokens.
        context_left: how many tokens still fit into the model's context; None: no limit.
        score_forced: also count the model's probability of forced tokens.
        stops: stop conditions in addition to end tokens.
        logprobs: which log probabilities to compute.
        calls: the tool calls, if the matcher's grammar contains tools.
        drafts: the maximum number of tokens to draft for each forward pass.
        drafted_by_model: whether drafts come from a second model instead of earlier text.
        budget_ramp: the largest penalty of the budget ramp, see `Masks`.
        parse: parses the text into the result's value.
        open_ended: whether the matcher's text may end anywhere, so that the budget may cut it.
        has_calls: whether the matcher's text consists of calls, or of free text with calls (call_budget.py).
        prefill: the beginning of the text: the prompt ends with it, and the matcher has accepted it.

    Raises:
        BudgetError: no output fits. OptionError: stops with a constraint, or an unknown stop token.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        prompt: list[int],
        matcher: Matcher | None,
        params: SamplingParams,
        *,
        max_tokens: int,
        context_left: int | None = None,
        score_forced: bool = False,
        stops: Stops = _NO_STOPS,
        logprobs: LogprobParams = _NO_LOGPROBS,
        calls: ToolCalls | None = None,
        drafts: int = 0,
        drafted_by_model: bool = False,
        budget_ramp: float = 0.0,
        parse: ValueParser | None = None,
        open_ended: bool = False,
        has_calls: bool = False,
        prefill: str = "",
    ) -> None:
        limit = max_tokens if context_left is None else min(max_tokens, context_left)
        if matcher is not None and (shortest_length := matcher.min_tokens_to_finish() - 1) > limit:
            if context_left is not None and context_left < shortest_length:
                raise BudgetError(shortest_length, context_left, max_tokens)
            raise BudgetError(shortest_length, limit)
        if matcher is not None and stops and not (open_ended and stops.has_only_text_stops and calls is None):
            problem = "a constraint determines where its output ends: leave out stops and ignore_eos"
            raise OptionError(problem, option=stops.option)
        stops.check(vocabulary.size)
        self.vocabulary, self.prompt, self.matcher, self.params = vocabulary, prompt, matcher, params
        self.max_tokens, self.calls, self.parse, self.prefill = limit, calls, parse, prefill
        self.score_forced = score_forced and matcher is not None
        self.stops, self.logprob_params = stops, logprobs
        self.prompt_logprobs: list[TokenLogprobs | None] | None = None if logprobs.prompt is None else [None]
        self.ends = frozenset(stops.token_ids).union(() if stops.ignore_eos else vocabulary.eos_token_ids)
        self.penalties = None if params.keeps_logits else Penalties(params, prompt, self.ends, vocabulary.size)
        self.gate = matcher if isinstance(matcher, ReasoningGate) else None
        layers = list(iterate_layers(matcher))
        self.regions = next((m for m in layers if isinstance(m, GrammarMatcher) and m.grammar.regions), None)
        self.canonical = next((m for m in layers if isinstance(m, CanonicalMatcher)), None)
        self.healed = next((m.prefix for m in layers if isinstance(m, HealingMatcher)), b"")
        self.call_budget = CallBudget(matcher) if has_calls and matcher is not None else None
        if self.regions is not None or self.call_budget is not None:  # they know only the state after all drafts
            drafts = 0
        self.transcript = Transcript(vocabulary, stops, is_reasoning=self.gate is not None, skip=len(self.healed))
        self.result_positions: set[int] = set()  # positions of tool-result tokens in the output
        self.scores, self.timings = Scores(vocabulary, logprobs), Timings()
        self.open_ended, self.cut = open_ended, False  # cut: whether only the budget forced the end
        self.masks: Masks | None = None
        if matcher is not None:
            times = self.timings.mask
            self.masks = Masks(matcher, vocabulary, 1 + drafts, times, ramp=budget_ramp, open_ended=open_ended)
        self.max_drafts, self.prompt_is_read = drafts, False
        self.ngrams = Ngrams(prompt) if drafts and not drafted_by_model else None
        self.finish_reason: FinishReason | None = None
        self.stop: str | int | None = None
        self.can_run_ahead = calls is None and not drafts and not self.score_forced
        self.is_choosing = False  # a token is chosen after the current pass, which has no drafts

    @property
    def tokens_left(self) -> int:
        """The remaining budget in tokens."""
        return self.max_tokens - len(self.transcript.tokens)

    def steps(self) -> Steps:
        """Run rounds of: force, forward, mask, choose. The last event contains the result.

        Raises:
            GuidedError: the matcher rejects a token that its mask allowed, or the largest logit is not finite.
        """
        unread, forget_count = self.prompt, 0
        if self.prompt_logprobs is not None:
            yield from self.scores.score_prompt(self.prompt, self.prompt_logprobs)
            self.transcript.prompt_logprobs, unread = self.prompt_logprobs, self.prompt[-1:]
        while True:
            forced = self.collect_forced_tokens()
            if forced:
                self.transcript.append(forced, sampled=False, is_free_text=self.is_free_text())
                if not self.score_forced:  # otherwise the event follows once they are scored
                    yield self.event()
            if self.call_budget is not None:
                self.call_budget.record_length(len(self.transcript.tokens), is_answer=not self.transcript.is_reasoning)
            self.check_end()
            if self.finish_reason is not None and not self.score_forced:
                break
            if not unread and (self.score_forced or not forced):  # read the last token again: its logits are needed
                unread, forget_count = self.transcript.tokens[-1 - len(forced) :][:1], 1
            drafts, is_settled = list[int](), False
            if self.finish_reason is None and self.max_drafts:
                drafts, is_settled = yield from self.draft()
            needs_choice, scored_count = not is_settled, len(forced) if self.score_forced else 0
            self.is_choosing = not drafts and self.finish_reason is None
            logits = yield Forward([*unread, *forced, *drafts], scored_count + 1 + len(drafts), forget_count)
            assert isinstance(logits, LogitRows)
            self.is_choosing, self.prompt_is_read = False, True
            if self.score_forced:
                self.add_forced_scores(logits, forced)
                if forced:
                    yield self.event()
            if self.finish_reason is not None:
                break
            choices = [self.choice(index, drafts) for index in range(len(drafts) + needs_choice)]
            answer = yield Choose(logits.logits, choices, logits.first_row + scored_count)
            assert isinstance(answer, Answer)
            del logits  # they refer to the logits of the whole batch, which a waiting sequence would keep alive
            forget_count = len(drafts) - (accepted_count := self.take_choices(answer, drafts))
            if self.finish_reason is not None:
                break
            reasoning_ended = self.transcript.is_reasoning and self.gate is not None and self.gate.has_ended
            if reasoning_ended:
                self.transcript.close()  # an incomplete character
            if (event := self.event()).tokens or event.text:
                yield event
            if reasoning_ended and self.gate is not None:
                self.transcript.begin_answer(self.gate.end_text)
            unread = [] if accepted_count == len(drafts) and not needs_choice else self.transcript.tokens[-1:]
        yield from self.end()

    def add_forced_scores(self, logits: LogitRows, forced: list[int]) -> None:
        """Count the model's probability of forced tokens. `logits`: the rows before each of them, and the next row."""
        begin, rows = len(self.transcript.tokens) - len(forced), logits.tensor[: len(forced) + 1]
        is_counted = [begin + i not in self.result_positions for i in range(len(forced))]
        is_ended = self.finish_reason == "stop"
        logprobs = self.scores.score_forced_tokens(rows, forced, is_counted=is_counted, is_ended=is_ended)
        self.transcript.logprobs[len(self.transcript.logprobs) - len(logprobs) :] = logprobs

    def end(self) -> Iterator[StreamEvent]:
        """Yield the last events of a finished output. The very last one contains the result."""
        self.transcript.close()
        if (event := self.event()).tokens:  # withheld tokens
            yield event
            event = self.event()
        yield replace(event, result=self.result())

    def fill_mask(self) -> None:
        """Fill the mask of the next choice while the model runs; not if there are drafts: it may not be needed."""
        if self.masks is not None and self.is_choosing:
            self.masks.fill(self.budget(0))

    def collect_forced_tokens(self) -> list[int]:
        """Collect all tokens that must come next: results of complete calls, and the tokens that the grammar forces."""
        forced: list[int] = []
        while self.masks is not None:
            if self.calls is not None and self.calls.has_complete_call:
                self.append_result(self.calls, forced)
                self.masks.invalidate()
            self.append_forced(self.masks, forced)
            if self.calls is None or not self.calls.has_complete_call:
                break
        return forced

    def append_result(self, calls: ToolCalls, forced: list[int]) -> None:
        """Run the tool, and append the tokens of its result to `forced`."""
        result = calls.answer(self.tokens_left + 1 - len(forced))
        begin = len(self.transcript.tokens) + len(forced)
        self.result_positions.update(range(begin, begin + len(result)))
        forced += result

    def append_forced(self, masks: Masks, forced: list[int]) -> None:
        """Append forced tokens up to the end of a call. Stop at a token that is banned or exceeds the budget."""
        tokens = masks.forced_tokens()
        output = [*self.transcript.tokens, *forced] if tokens and self.penalties is not None else []
        for token in tokens:
            if self.penalties is not None and self.penalties.forbids(token, output):
                return
            masks.fill(self.budget(len(forced)), measure_time=False)
            if not masks.allows(token) or not masks.accept(token):
                return
            if token in self.vocabulary.eos_token_ids:
                self.finish_reason = "stop"
                return
            forced.append(token)
            output.append(token)
            if self.calls is not None:
                self.calls.read(token, self.tokens_left + 1 - len(forced))
                if self.calls.has_complete_call:
                    return

    def budget(self, ahead: int) -> int:
        """The budget of the mask `ahead` tokens from here: with the end token, without tokens reserved for a result."""
        tokens_left = self.tokens_left + 1 - ahead - (0 if self.calls is None else self.calls.reserved)
        return tokens_left if self.call_budget is None else self.call_budget.limit(tokens_left)

    def is_free_text(self) -> bool:
        """Whether the text is free here, so that a stop string may end it."""
        return self.call_budget is None or self.call_budget.is_between_calls()

    def check_end(self) -> None:
        """Set the finish reason if only the end token can follow."""
        if self.finish_reason is not None:
            return
        if self.masks is None:
            self.finish_reason = "length" if self.tokens_left <= 0 else None
        elif self.masks.matcher.is_terminated():
            self.finish_reason = "stop"
        elif self.masks.ends_here(self.budget(0)):
            self.finish_reason = "length" if self.open_ended and self.masks.is_budget_bound() else "stop"

    def draft(self) -> Generator[Draft, LogitRows | Answer | None, tuple[list[int], bool]]:
        """Draft tokens, which the matcher accepts provisionally. Return them, and whether no token is chosen after the
        last one."""
        is_settled, drafts, proposed = False, list[int](), list[int]()
        limit, parts = min(self.max_drafts, self.tokens_left - 1), [p for p in (self.calls, self.gate) if p is not None]
        if self.ngrams is not None:
            self.ngrams.extend(self.transcript.tokens[self.ngrams.length - len(self.prompt) :])
            proposed = self.ngrams.propose(limit)
        for index in range(limit):
            if index < len(proposed):
                token = proposed[index]
            elif self.ngrams is None and self.prompt_is_read:
                answer = yield Draft([*self.prompt, *self.transcript.tokens, *drafts], self.choice(index, drafts))
                if not (isinstance(answer, Answer) and answer.rows and isinstance(answer.rows[0], ChosenToken)):
                    break
                token = answer.rows[0].token
            else:
                break
            if token in self.ends or any(part.is_boundary(token) for part in parts):
                break
            if self.masks is not None and not self.masks.accept_draft(token, self.budget(index), index):
                break
            drafts.append(token)
            is_settled = self.masks is not None and self.masks.is_settled(self.budget(len(drafts)), len(drafts))
            if is_settled:  # no token is chosen here
                break
        self.timings.drafted_tokens += len(drafts)
        return drafts, is_settled

    def choice(self, index: int, drafts: list[int]) -> Choice:
        """How to choose the token after the first `index` drafts."""
        row = _NO_MASK
        if self.masks is not None:
            self.masks.fill(self.budget(index), index)
            row = self.masks.row(index)
        changes = None
        if self.penalties is not None and not (self.masks is not None and self.masks.allows_only_ends(index)):
            changes = self.penalties.changes(self.transcript.tokens, drafts[:index])
        return Choice(
            self.current_params(),
            len(self.transcript.tokens) + index,
            self.vocabulary.size,
            *row,
            changes=changes,
            logprobs=self.logprob_params.output,
            raw=self.logprob_params.mode == "raw",
        )

    def take_choices(self, answer: Answer, drafts: list[int]) -> int:
        """Append the chosen tokens, up to the first that differs from its draft. Return how many drafts were right."""
        if answer.run is not None:
            self.append_run(answer.run)
        accepted_count = 0
        for index, choice in enumerate(answer.rows):
            if isinstance(choice, GuidedError):
                raise choice
            self.timings.sample.append(answer.seconds / len(answer.rows))
            is_drafted = index < len(drafts) and choice.token == drafts[index]
            self.accept(choice, index, drafts, is_drafted=is_drafted)
            self.append_chosen(choice)
            if not is_drafted or self.finish_reason is not None:
                break
            accepted_count += 1
        self.timings.accepted_drafts += accepted_count
        if accepted_count and self.masks is not None:
            self.masks.invalidate()
        return accepted_count

    def append_run(self, run: RunTokens) -> None:
        """Append tokens that were chosen in a run (runs.py). The matcher has accepted them."""
        self.timings.sample += [run.seconds] * len(run.tokens)
        self.scores.add_run(run)
        self.transcript.append_run(run.tokens)

    def accept(self, choice: ChosenToken, index: int, drafts: list[int], *, is_drafted: bool) -> None:
        """Let the matcher accept a token, unless it is an accepted draft. Record the mass that the mask removed."""
        penalty = 0.0
        if self.masks is not None:
            penalty, self.cut = self.masks.effects(choice.token, index)
            if not is_drafted and not self.masks.accept(choice.token, index, len(drafts)):
                raise GuidedError(f"the matcher rejects token {choice.token}, although the mask allowed it")
        self.scores.add(choice, penalty)

    def current_params(self) -> SamplingParams:
        """The sampling parameters of the next token, at the grammar's temperature if it sets one."""
        temperature = None if self.regions is None else self.regions.temperature()
        return self.params if temperature is None else self.params.at(temperature)

    def append_chosen(self, choice: ChosenToken) -> None:
        """Append a chosen token, or end the output with it."""
        token = choice.token
        if token in self.ends:
            self.finish_reason = "stop"
            self.stop = token if token in self.stops.token_ids else None
            if self.stop is None or not self.stops.includes_stop:
                return
        if self.calls is not None:
            self.calls.read(token, self.tokens_left)
        is_free, may_stop = self.is_free_text(), len(self.transcript.tokens) >= self.params.min_tokens
        self.transcript.append([token], sampled=True, may_stop=may_stop, is_free_text=is_free, logprobs=choice.scores)
        if self.transcript.stop_match is not None:
            self.finish_reason, self.stop = "stop", self.transcript.stop_match.stop

    def event(self) -> StreamEvent:
        """The event with everything since the last event."""
        event = self.transcript.event(self.scores.budget_bound)
        if self.regions is not None:
            event = replace(event, captures=decode_captures(self.regions.captures(partial=True)))
        return event

    def result(self) -> Result:
        """The result of a finished output."""
        assert self.finish_reason is not None
        return Result(
            text=self.transcript.text,
            tokens=self.transcript.tokens,
            token_masks=self.transcript.token_masks,
            finish_reason=self.finish_reason,
            stop=self.stop,
            logprobs=None if self.logprob_params.output is None else self.transcript.logprobs,
            prompt_logprobs=self.prompt_logprobs,
            timings=self.timings,
            removed_log_masses=self.scores.removed_log_masses,
            removed_log_mass=sum(self.scores.removed_log_masses) + self.scores.forced_log_mass,
            seed=self.params.seed,
            prompt_tokens=len(self.prompt),
            parse=self.parse,
            prefill=self.prefill,
            reasoning=None if self.gate is None else self.transcript.reasoning,
            reasoning_tokens=self.transcript.reasoning_tokens,
            tool_calls=[] if self.calls is None else self.calls.completed_calls,
            budget_bound=self.scores.budget_bound,
            healed=self.healed.decode("utf-8", "replace"),
            non_canonical=0 if self.canonical is None else self.canonical.non_canonical,
            captures={} if self.regions is None else decode_captures(self.regions.captures()),
            cut=self.cut or self.finish_reason == "length",
            record=None if self.masks is None else self.scores.record(self.transcript.starts, self.regions),
        )
