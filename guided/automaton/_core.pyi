"""
The native core: grammars are compiled into automata, and matchers follow outputs and fill token bitmasks.

Its objects are opaque; `guided.matching` has the classes that users call.
"""

from collections.abc import Callable, Sequence
from typing import Any, overload

class TokenVocabulary:
    """
    The bytes of each token id, the trie of all tokens, and the token tables that all grammars share.
    """

    def __init__(self, tokens: Sequence[bytes | None], end_tokens: Sequence[int], size: int, cache_bytes: int) -> None:
        """
        Build the trie of tokens.

        Args:
            tokens: the bytes of each token id; None for an id without text.
            end_tokens: the ids that end an output.
            size: how many ids there are, at least `len(tokens)` and at most 2**24.
            cache_bytes: how much memory the token tables of all grammars may take.

        Raises:
            ValueError: `size` or `cache_bytes` is out of range.
            IndexError: an end token is not an id.
        """

    @property
    def size(self) -> int:
        """How many token ids there are. A bitmask row has a bit for each id."""

    @property
    def byte_complete(self) -> bool:
        """Whether every single byte is a token."""

    @property
    def longest(self) -> int:
        """The length of the longest token in bytes."""

    @property
    def trie_nodes(self) -> int:
        """How many nodes the trie has."""

    @property
    def cached_bytes(self) -> int:
        """The memory of the cached token tables, in bytes."""

    @property
    def cached_tables(self) -> int:
        """How many token tables are cached."""

    def extends(self, data: bytes) -> bool:
        """Whether some token begins with `data` and is longer."""

    def clear_cache(self) -> None:
        """Drop the cached token tables. Grammars keep the tables that they use."""

class Compiled:
    """
    A compiled grammar. Its behaviour never changes. Matchers add states while they run, on any number of
    OS threads.
    """

    @property
    def positions(self) -> int:
        """How many positions the automata of all rules have."""

    @property
    def rules(self) -> int:
        """How many rules were compiled."""

    @property
    def recursive(self) -> bool:
        """
        Whether a rule can contain itself. Then the depth of the stack is not bounded.
        """

    @property
    def states(self) -> int:
        """How many states have been visited so far."""

    @property
    def memory_bytes(self) -> int:
        """The memory of the visited states and of their caches, in bytes."""

    @property
    def rebuilds(self) -> int:
        """
        How often the states were dropped because they reached the memory limit.
        """

class CompiledRules(Compiled):
    """A compiled grammar whose rules read bytes."""

    @property
    def limits_tokens(self) -> bool:
        """Whether some rule has a limit on tokens."""

    def automaton(self) -> list[tuple[int, bool, list[tuple[int, int, int]]]]:
        """
        The states of the start rule: (number, accepting, [(lowest byte, highest byte, target)]).
        """

class Encoding:
    """An encoding, read once for all grammars."""

    def __init__(
        self, forms: Sequence[tuple[Sequence[tuple[int, int]], Sequence[Sequence[tuple[int, int, int, int]]]]]
    ) -> None:
        """
        Read an encoding, which defines how characters become bytes.

        Args:
            forms: (ranges of code points, digits); a digit is a list of (lowest byte, highest byte, value, step), where
                byte b adds `value + (b - lowest) * step` to the code point.

        Raises:
            ValueError: ranges or digits are out of range.
        """

class Builder:
    """
    Collects the nodes of a grammar's IR and compiles them.

    Each method that adds a node returns its number. Children are given by their numbers (IndexError if there
    is no such node). While another OS thread compiles the grammar, calls raise RuntimeError.
    """

    def __init__(self) -> None:
        """A builder without nodes."""

    def chars(self, ranges: Sequence[tuple[int, int]]) -> int:
        """
        One character of these ranges (lowest, highest). ValueError if they overlap, are unsorted or have surrogates.
        """

    def text(self, text: str) -> int:
        """Exactly this text. ValueError if it contains a surrogate."""

    def many(self, kind: str, items: Sequence[int]) -> int:
        """
        A sequence ('seq'), alternatives ('alt') or a conjunction ('and') of nodes.
        """

    def negation(self, item: int) -> int:
        """All texts that a regular node does not match."""

    def repeat(self, item: int, min: int, max: int) -> int:
        """A node `min` to `max` times; `max` -1: no upper bound."""

    def length(self, item: int, min: int, max: int) -> int:
        """
        The texts of a node that have `min` to `max` characters; `max` -1: no upper bound.
        """

    def encoded(self, item: int, encoding: int) -> int:
        """A node whose characters are written in an encoding."""

    def ref(self, rule: int) -> int:
        """A reference to a rule, by its number."""

    def special(self, first: int, last: int) -> int:
        """One control token, whose id is from `first` to `last`."""

    def permutation(
        self,
        items: Sequence[int],
        required: Sequence[bool],
        repeatable: Sequence[bool],
        separator: int,
        min: int,
        max: int,
    ) -> int:
        """
        Members in any order, with a separator between them.

        Args:
            items: the members' nodes.
            required: by member, whether it must occur.
            repeatable: by member, whether it may occur more than once.
            separator: the node between two members.
            min, max: bounds on the number of members; `max` -1: no upper bound.

        Raises:
            ValueError: the lists have different lengths, or the bounds are out of range.
        """

    def conditional(
        self,
        items: Sequence[int],
        required: Sequence[bool],
        repeatable: Sequence[bool],
        separator: int,
        min: int,
        max: int,
        slots: Sequence[int],
        ordered: bool,
        nodes: Sequence[tuple[int, Sequence[int]]],
    ) -> int:
        """
        Members that have slots and satisfy a condition.

        Args:
            items, required, repeatable, separator, min, max: as in `permutation`; `min` is at least 1.
            slots: the slot of each member. Of the members that share a slot, at most one is written, once. A repeatable
                member does not share its slot.
            ordered: whether members are written in the order of their slots, and repeatable members after them.
            nodes: the condition as a list of (kind, parts). Kind 0: one of the members `parts` is written. Kinds 1, 2
                and 3: all, any or none of the earlier nodes `parts` are true. The last node is the whole condition.
        """

    def automaton(self, accept: Sequence[bool], edges: Sequence[tuple[int, int, int, int]]) -> int:
        """
        A deterministic automaton over code points. Its start is state 0.

        Args:
            accept: by state, whether it accepts.
            edges: (from, lowest, highest, to), sorted by state and code point.

        Raises:
            ValueError: there are no states, or edges are out of order, overlap, or lead to states that do not exist.
        """

    def substrings(self, texts: Sequence[str], marked: bool) -> int:
        """
        The non-empty substrings of the texts. With `marked`, they begin after U+D800 and end before U+D801.
        ValueError if a text contains another surrogate.
        """

    def dispatch(self, automaton: int, states: Sequence[int], items: Sequence[int]) -> int:
        """
        An automaton, by its number; after a text that leads to one of `states`, the corresponding item follows.
        """

    def distinct(self, item: int, names: Sequence[str]) -> int:
        """A node whose entries must differ from each other and from `names`."""

    def max_tokens(self, item: int, max: int) -> int:
        """The texts of a regular node, written in at most `max` tokens."""

    def entry(self, item: int) -> int:
        """A node whose value is an entry of the surrounding uniqueness scope."""

    def encoding(self, encoding: Encoding) -> int:
        """
        Add an encoding and return its number for `encoded`. The first encoding must be UTF-8.
        """

    def compile(
        self,
        vocabulary: TokenVocabulary,
        rules: Sequence[int],
        names: Sequence[str],
        start: int,
        max_states: int,
        max_seconds: float,
        memory: int,
        max_work: int = 9223372036854775807,
        call_work: int = 9223372036854775807,
        later: Sequence[tuple[int, bytes, int]] = [],
        compile_later: object | None = None,
    ) -> CompiledRules:
        """
        Compile the rules that were added, without the GIL. The builder can be used again afterwards.

        Args:
            vocabulary: the vocabulary for which the grammar is compiled.
            rules: the node of each rule.
            names: the name of each rule, for errors and explanations.
            start: the number of the start rule.
            max_states, max_seconds, max_work: limits of compilation.
            memory: how many bytes the states of the grammar may take while matchers run, and how many one call may add.
            call_work: units of work that one call on the states may take.
            later: rules that are compiled when they are first entered: (rule, a digest of its future content, an upper
                bound on the bytes of its shortest text). Until then, the rule itself is a placeholder.
            compile_later: compiles some of these rules, given by their numbers in `later`, and returns the compiled
                grammars. Called on any OS thread, without a lock. Its exceptions are raised where the rule was entered.

        Raises:
            SpecError: the grammar generates nothing.
            UnsupportedError: a combination of nodes is not supported.
            VocabularyError: the tokens cannot write any text of the language.
            LimitExceeded: a limit was reached.
            IndexError: a rule, a reference or a control token does not exist.
        """

class KeptNodes:
    """A cache of IR subtrees that many grammars share as the same objects."""

    def __init__(self) -> None:
        """An empty cache."""

    def clear(self) -> None:
        """Drop all subtrees."""

    def __len__(self) -> int:
        """How many subtrees are cached."""

    @property
    def nodes(self) -> int:
        """How many nodes and automaton states the subtrees have."""

class NodeTypes:
    """The classes of nodes, with the offsets of their fields."""

    def __init__(self, types: tuple[type, ...]) -> None:
        """
        The classes of nodes that a `NodeReader` reads.

        Args:
            types: the classes, in the order of `Usual`.

        Raises:
            ValueError: the number of classes is wrong, or a field is not a slot of its class.
        """

class NodeReader:
    """
    Reads the nodes of `guided.ir`, children before parents, each object once.
    """

    def __init__(
        self, builder: Builder, types: NodeTypes, rules: dict[str, int], most: int, kept: KeptNodes | None = None
    ) -> None:
        """
        A reader that adds nodes to `builder`.

        Args:
            types: the classes of nodes that the reader knows.
            rules: name -> number.
            most: the limit on nodes.
            kept: the cache of subtrees; None: every node is read.
        """

    def read(self, root: object, other: Callable[[Any], int]) -> int:
        """
        Read a node and all nodes below it, and return its number.

        Args:
            other: called with each unusual node. It returns the node's number or raises the error, and may call `read`
                again.

        Raises:
            ValueError: a node contains itself, or calls nest too deeply.
            LimitExceeded: there are too many nodes.
        """

class StoredTable:
    """The rows of a stored grammar, checked."""

    def __init__(self, ints: bytes, texts: tuple[str, ...], number: int, tables: int, max_nodes: int) -> None:
        """
        Check a table.

        Args:
            ints: the integers of the table, as little-endian 32-bit words.
            texts: the texts to which it refers, each once.
            number, tables: the number of this table, and the number of all tables.
            max_nodes: the limit on nodes.

        Raises:
            ValueError: the table is malformed, or only Python's reader can read it (stored_table.hpp). Python's reader
                distinguishes these cases.
        """

    def __len__(self) -> int:
        """The number of rows."""

    @property
    def has_lexer(self) -> bool:
        """Whether it has a lexer."""

    @property
    def start(self) -> str:
        """The name of the start rule."""

    @property
    def rules(self) -> list[str]:
        """The names of the rules."""

    @property
    def origins(self) -> dict[str, str]:
        """The name of a rule -> its location in the specification."""

    @property
    def schemas(self) -> list[tuple[str, int]]:
        """
        (name of a rule, position of its schema in the table) for each rule with a schema.
        """

    @property
    def embedded(self) -> list[int]:
        """The positions of all schemas in the table."""

    @property
    def later(self) -> list[tuple[str, str, int, int]]:
        """
        Deferred rules: (name, hexadecimal digits that identify the content, upper bound on the bytes of the
        shortest text, number of the table that has the content).
        """

    def compile_rules(
        self,
        builder: Builder,
        utf8: Encoding,
        other: Callable[[int], int],
        vocabulary: TokenVocabulary,
        special_ids: dict[str, list[int]],
        end_tokens: Sequence[int],
        limits: tuple[int, float, int, int, int],
        prefix: str,
        later: Sequence[bytes],
        compile_later: object | None,
    ) -> CompiledRules:
        """
        Compile the grammar, which must not have a lexer.

        Args:
            builder: a builder without nodes, whose first encoding is UTF-8.
            utf8: the encoding UTF-8.
            other: adds the node at a position of the table to the builder, and returns its number.
            vocabulary: the tokens for which the grammar is compiled.
            special_ids: the name of a token -> its ids.
            end_tokens: the ids that end an output.
            limits: states, seconds, memory, work and the work of a call; see `Builder.compile`.
            prefix: is prepended to the names of rules.
            later: a digest of each deferred rule, in the order of the attribute `later`.
            compile_later: see `Builder.compile`.

        Raises:
            ValueError: a node is malformed, or must be read by Python. Others: see `Builder.compile`.
        """

    def compile_lexer(
        self, utf8: Encoding, vocabulary: TokenVocabulary, limits: tuple[int, float, int, int, int]
    ) -> CompiledLexer:
        """
        Compile the grammar, which must have a lexer.

        Args:
            utf8: the encoding UTF-8.
            vocabulary: the tokens for which the grammar is compiled.
            limits: states, seconds, memory, work and the work of a call; see `Builder.compile`.

        Raises:
            ValueError: a node is malformed, or must be read by Python. Others: see `Builder.compile`.
        """

class Matcher:
    """
    The state of one output under a compiled grammar.

    Only one OS thread may use it at a time (otherwise RuntimeError). Matchers of one grammar can run in parallel.
    """

    @overload
    def __init__(self, source: Compiled) -> None:
        """A matcher at the start of an output."""

    @overload
    def __init__(self, source: Matcher) -> None:
        """A matcher in the same state, with the same history."""

    def fill_next_token_bitmask(self, bitmask: Any, row: int = 0, *, max_tokens: int | None = None) -> bool:
        """
        Write the allowed tokens into a bitmask row.

        Args:
            bitmask: int32, shape (batch, ceil(size / 32)), C-contiguous, an array or a tensor on the CPU.
            row: the row of the bitmask to write.
            max_tokens: the budget: a token is allowed only if the output can be completed with `max_tokens - 1` more
                tokens, including the end token. None: no budget.

        Returns:
            Whether some token is not allowed.

        Raises:
            TypeError: the bitmask has another type, layout or device.
            ValueError: the width of the bitmask does not fit the vocabulary.
            IndexError: there is no such row.
            BudgetError: not even the shortest completion fits into `max_tokens`.
        """

    def _fill_under_budget(self, rows: Any, max_tokens: int, has_ramp: bool) -> tuple[bool, int, float]:
        """
        Fill the rows that choosing a token under a budget needs.

        Args:
            rows: int32, shape (3, words). Row 0: the mask under the budget. Row 1, if they differ: the mask without a
                budget. Row 2, if half of the budget is too small to complete the output: the allowed tokens after which
                the shortest completion becomes longer.
            max_tokens: the budget, as for fill_next_token_bitmask.
            has_ramp: whether to compute row 2.

        Returns:
            Whether row 1 is filled; the length of the shortest completion if row 2 is filled and not empty, otherwise
            0; the seconds for row 0.

        Raises:
            BudgetError: not even the shortest completion fits into `max_tokens`.
        """

    def accept_token(self, token: int) -> bool:
        """
        Accept one token.

        Returns:
            Whether the token was allowed. If not, the state is unchanged.

        Raises:
            ValueError: the vocabulary has no such id.
        """

    def validate_tokens(self, tokens: Sequence[int]) -> int:
        """
        The number of leading `tokens` that would be accepted one after the other. The state is unchanged.

        Ids outside the vocabulary are not accepted.
        """

    def _accept_output(self, ids: Any, max_tokens: int | None) -> int:
        """
        Accept ids as long as they are allowed, and return their number.

        Args:
            ids: int64, shape (n,).
            max_tokens: the budget at the first id, as for fill_next_token_bitmask. It shrinks by 1 with each id.

        Raises:
            BudgetError: not even the shortest output fits.
        """

    def _output_masks(self, ids: Any, max_tokens: int | None) -> tuple[Any, Any]:
        """
        Accept ids like `_accept_output`, and return the masks of all positions.

        Returns:
            The distinct rows, int32 (rows, words), and for each position the number of its row, int32 (n,). The
            positions after an id that is not allowed have a row without tokens.

        Raises:
            LimitExceeded: the rows take more than the memory limit of the grammar.
            BudgetError: not even the shortest output fits.
        """

    def rollback(self, n: int) -> None:
        """
        Undo the last `n` steps. A step is one accepted token or one accepted string.

        Raises:
            ValueError: there were fewer steps.
        """

    def reset(self) -> None:
        """Go back to the start and forget the history."""

    @property
    def budget_bound(self) -> bool:
        """
        Whether the budget may have removed tokens from the last mask. False: it equals the mask without a budget.
        """

    def is_accepting(self) -> bool:
        """Whether the output is complete here: an end token is allowed."""

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""

    def min_tokens_to_finish(self) -> int:
        """
        A number of tokens that suffices to complete the output, including the end token. 0 after an end token.
        """

    @property
    def steps(self) -> int:
        """The number of steps that can be undone."""

    @property
    def state(self) -> int:
        """The number of the state. Equal states have equal numbers."""

    @property
    def configurations(self) -> int:
        """The number of states that the grammar has visited so far."""

    @property
    def memory_bytes(self) -> int:
        """The memory of the visited states and of their caches, in bytes."""

    def _accept_bytes(self, data: bytes) -> bool:
        """
        Accept bytes as one step, for any division into tokens. False: not allowed, state unchanged.
        """

    def _accept_part(self, data: bytes) -> bool:
        """
        Accept bytes of an unfinished token as one step. False: not allowed, state unchanged.
        """

    def _end_token(self) -> bool:
        """
        End an unfinished token, as one step. False: it may not end here, state unchanged.
        """

    def _forced(self, limit: int) -> list[int]:
        """
        The common prefix of all continuations, at most `limit` symbols: bytes, or 256 + a control token.
        """

    def _shortest(self, limit: int) -> list[int]:
        """
        A shortest completion, at most `limit` symbols: bytes, or 256 + a control token.
        """

    def _next_bytes(self) -> bytes:
        """The bytes that may come next, ascending."""

    def _next_tokens(self) -> list[int]:
        """The control tokens that may come next."""

    def _probe(self, data: bytes) -> tuple[int, bytes]:
        """
        The number of leading bytes that can be read, and the bytes that may come after them.
        """

    def _characters(self, data: bytes, begun: bytes) -> list[tuple[int, int]]:
        """
        The code points that may follow `data`, as ranges (lowest, highest).

        Args:
            data: bytes that can be read here.
            begun: the bytes of an incomplete character that were read before. The result has the complete characters.
        """

    def _open_rules(self, data: bytes) -> list[str]:
        """The names of the rules that are open after these bytes."""

    def _accepted(self) -> list[int | bytes]:
        """
        The accepted steps: ids of tokens, and bytes for steps that accepted bytes.
        """

    def _rests(self) -> tuple[int, int, int]:
        """
        Three values for the number of tokens to the end after the next token, whichever it is: an upper bound
        from the rules, an upper bound that exists if values must differ, and the largest distance found.
        """

    def _walk_mask(self) -> list[int]:
        """The allowed ids, computed by definition, without caches."""

def fill_batch(
    matchers: Sequence[Matcher], bitmask: Any, rows: Sequence[int], max_tokens: int | None, threads: int
) -> None:
    """
    Fill a bitmask row for each matcher on several OS threads, without the GIL.

    Args:
        matchers: one for each row, all with the same vocabulary. Their grammars may differ.
        bitmask: int32, shape (batch, ceil(size / 32)), C-contiguous, on the CPU. Written in place.
        rows: the row of each matcher. Other rows stay as they are.
        max_tokens: the budget of every row; None: no budget.
        threads: the maximum number of threads.

    Raises:
        TypeError: an item of `matchers` is not a matcher, or the bitmask has another type, layout or device.
        ValueError: `rows` and `matchers` differ in length, a row occurs twice, or the width is wrong.
        IndexError: there is no such row.
        BudgetError: the shortest completion of a row does not fit. Other rows may have been filled.
    """

def advance_matchers(
    matchers: Sequence[Matcher], steps: Sequence[tuple[int, Any, int, bool]]
) -> list[tuple[bool, bool, tuple[bool, int, float] | None, float]]:
    """
    Run one step of each matcher, without the GIL: accept a token, and fill the rows of the next choice.

    Args:
        matchers: all different.
        steps: for each matcher a tuple: the token, or -1 for none; the rows, the budget after the token, and has_ramp,
            as for _fill_under_budget. All arrays of rows must be different.

    Returns:
        For each matcher a tuple: whether the token was accepted; whether nothing is forced after it; if so, what
        _fill_under_budget returns, otherwise None; the seconds of thread time. After an error the remaining values are
        False or None. The error is not raised: repeating what is missing usually raises it again.

    Raises:
        TypeError, ValueError, IndexError: the arguments do not fit together.
    """

def advance_rows(
    matchers: Sequence[Matcher],
    bitmask: Any,
    rows: Any,
    tokens: Any,
    max_tokens: Any,
    has_ramp: Any,
    statuses: Any,
    seconds: Any,
) -> None:
    """
    Run one step of each matcher, without the GIL: accept a token, and fill the row of the next choice.

    Args:
        matchers: all different.
        bitmask: int32, shape (batch, words), C-contiguous, on the CPU. Written in place.
        rows: int64 (n,), the row of each matcher, all different.
        tokens: int64 (n,).
        max_tokens: int64 (n,), the budget after the token, as for fill_next_token_bitmask.
        has_ramp: bool (n,): whether a budget of which half is too small needs more rows, see _fill_under_budget.
        statuses: uint8 (n,), written. 0: the token was not accepted. 1: it was; something is forced after it, or the
            output has ended. 2: nothing is forced, but the row is not filled, or it is not enough: the budget removes
            tokens, or the output has to end. 3: the row is filled. After an error, the status is that of the last part
            without an error. The error is not raised: repeating what is missing usually raises it again.
        seconds: float64 (n, 2), written: the wall time for the row, and the thread time of the step.

    Raises:
        TypeError, ValueError, IndexError: the arguments do not fit together.
    """

class CompiledComposition(Compiled):
    """A grammar that is composed of compiled parts."""

    def __init__(
        self,
        parts: Sequence[Compiled],
        occurrences: Sequence[tuple[int, Sequence[int], bool]],
        first: Sequence[int],
        is_empty: bool,
        vocabulary: TokenVocabulary,
        memory: int,
        call_work: int,
    ) -> None:
        """
        Compose compiled grammars according to a graph.

        Args:
            parts: the compiled grammars. Nothing else may use them.
            occurrences: (part, next, last): the part's number, the occurrences that may follow, and whether the output
                may end after this one.
            first: the occurrences with which the output may begin.
            is_empty: whether the output may be empty.
            vocabulary: the vocabulary of all parts.
            memory: how many bytes the states may take before they are dropped, in addition to the states of the parts.
            call_work: units of work that one call on the states may take.
        """

class CompiledLexer(Compiled):
    """A compiled grammar with a lexer."""

    def __init__(
        self,
        rules: CompiledRules,
        terminals: Sequence[CompiledRules],
        ignored: Sequence[bool],
        keywords: Sequence[tuple[int, int, bool, CompiledRules]],
        control: Sequence[int],
        contexts: Sequence[tuple[Sequence[int], Sequence[int]]],
        contextual: bool,
        rows: Sequence[tuple[Sequence[int], Sequence[int]]],
        indentation: tuple[int, int, int, Sequence[int], Sequence[int], int, int, int] | None,
        vocabulary: TokenVocabulary,
        memory: int,
        call_work: int,
    ) -> None:
        """
        Make a grammar with a lexer from its compiled parts.

        Args:
            rules: the rules, compiled for a vocabulary in which the number of each terminal is its control token.
            terminals: each terminal's compiled pattern, in the order in which the lexer tries them.
            ignored: by terminal, whether the lexer drops its lexemes. They may occur between any other lexemes.
            keywords: (terminal, keyword, embedded, pattern): a lexeme of the terminal that matches the compiled pattern
                becomes the keyword. An embedded keyword is not tried as a separate terminal.
            control: by terminal, the id of the control token that it stands for in the output, or -1 for a pattern.
            contexts: (marks, terminals): the terminals that are also tried if the rules can accept these marks. Of
                several such sets of marks, only the largest ones count. The numbers of marks follow those of the
                terminals.
            contextual: whether to try only the terminals that the rules can accept, and those of the context. If not,
                all terminals are tried.
            rows: (tried, preceding): after a terminal in `preceding`, the lexer tries the terminals in `tried` and the
                ignored ones. If a terminal precedes several rows, the lexer is in one of them. Empty: unknown.
            indentation: (newline, indent, dedent, opening, closing, tab, most levels, most width), or None; see
                `guided.ir.Indentation`. Terminals are given by number, `indent` and `dedent` as symbols of the rules.
            vocabulary: the vocabulary of the output.
            memory: how many bytes the states may take before they are dropped.
            call_work: units of work that one call on the states may take.
        """

    @property
    def sure(self) -> bool:
        """
        Whether every terminal has a text that can be written wherever the parser accepts the terminal.
        """

    @property
    def lexemes(self) -> int:
        """How many lexer states have been visited so far."""

    @property
    def tables(self) -> int:
        """How many token tables there are."""
