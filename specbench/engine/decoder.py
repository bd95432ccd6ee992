"""The decoder: prefill, then rounds of drafting and verification for a batch of sequences."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from specbench.engine.attention import Forward, forward
from specbench.engine.coins import CoinSource
from specbench.engine.draft_model import DraftModel
from specbench.engine.drafters import (
    DDTreeDrafter,
    DFlashDrafter,
    Drafter,
    NoDrafter,
    SampledChainDrafter,
    StepTreeDrafter,
)
from specbench.engine.faults import break_seams
from specbench.engine.features import REACH
from specbench.engine.finish import end_tokens
from specbench.engine.judging import judge
from specbench.engine.lm import LanguageModel
from specbench.engine.logprobs import token_logprob
from specbench.engine.ngram import NgramDrafter
from specbench.engine.noise import Kernel, Noise, NoiseConfig
from specbench.engine.prefill import extend_caches, last_row_logits, scored_rows
from specbench.engine.sampling import draw
from specbench.engine.seams import Round, Seams
from specbench.engine.sequence import LogprobWish, Sequence, TokenLogprob, tokens_before
from specbench.engine.speculation import STANDALONE_REACH, SpeculationConfig
from specbench.engine.target_rows import TargetRows
from specbench.engine.trees import Trees
from specbench.engine.verify import Coins, Thresholds, Walk, split_trees
from specbench.engine.weights import Floats


@dataclass(frozen=True, slots=True)
class Emission:
    """What one step gave one sequence.

    token_ids: new tokens, cut where the request ended; accepted: drafts that the step accepted,
    not cut, None for prefill and plain decoding; logprobs: of token_ids, empty unless asked for.
    """

    sequence: Sequence
    token_ids: list[int]
    accepted: int | None = None
    logprobs: list[TokenLogprob] = field(default_factory=list)


class Decoder:
    """Runs sequences through the target, one batch step a call; not thread-safe.

    noise: numerical noise of the kernels; faults: names from `faults`; seed: of the coins;
    deterministic: requests' own seeds are honoured and no noise is added.
    """

    def __init__(
        self,
        language: LanguageModel,
        spec: SpeculationConfig | None = None,
        *,
        noise: NoiseConfig | None = None,
        faults: Iterable[str] = (),
        seed: int = 0,
        deterministic: bool = False,
    ) -> None:
        self.language = language
        self.spec = spec or SpeculationConfig()
        self.thresholds = Thresholds(
            self.spec.accept_threshold_single, self.spec.accept_threshold_acc
        )
        self.seams = break_seams(Seams(), faults)
        self.watch: Callable[[Round, Walk], None] | None = None  # told of every verification
        self._noise = Noise(NoiseConfig() if deterministic or noise is None else noise)
        self._drafter = make_drafter(language, self.spec, seed)
        self._coins = CoinSource(seed, deterministic)
        self._prefilled = 0

    @property
    def speculative(self) -> bool:
        """Whether steps draft and verify."""
        return self.spec.algorithm != "ar"

    def set_thresholds(self, single: float, acc: float) -> None:
        """Change the accept thresholds of the running server."""
        self.thresholds = Thresholds(single, acc)

    def flush(self) -> None:
        """Forget what the drafter has learnt from earlier requests."""
        self._drafter.flush()

    def text(self, ids: Iterable[int]) -> str:
        """Return the text of output tokens."""
        return self.seams.text(self.language.tokenizer.decode(ids))

    def prefill(self, sequences: list[Sequence]) -> list[Emission]:
        """Read the prompts and give each sequence its next token, by the plain sampler.

        A sequence whose cache already holds a prefix of its tokens starts from there. One that was
        retracted brings its output so far; it is read again like the prompt.
        """
        for sequence in sequences:
            if not sequence.output_ids:
                self._prefilled += 1
                sequence.number = self._prefilled
            reused = min(sequence.kv.length, len(sequence.ids) - 1)
            if reused:
                sequence.kv = self.seams.reuse(sequence.kv.prefix(reused))
                sequence.cached_tokens = reused
        extend_caches(self.language, sequences)
        logits = last_row_logits(self.language, sequences)
        tokens = np.array([s.ids[-1] for s in sequences])
        context = np.array([tokens_before(s.ids) for s in sequences])
        places = np.array([len(s.ids) - 1 for s in sequences])
        self._noise.add(logits, "prefill", len(sequences), tokens, context, places)
        coins = self._coins.draw(sequences, 0)[1]
        return [
            self._sample_plainly(sequence, logits[row : row + 1], float(coins[row]))
            for row, sequence in enumerate(sequences)
        ]

    def step(self, sequences: list[Sequence]) -> list[Emission]:
        """Run one decode step, or one round of draft and verification, for all sequences."""
        trees = self.seams.drafted(self._drafter.propose(sequences))
        lengths = np.array([sequence.kv.length for sequence in sequences])
        visible = self.seams.visible(trees)
        positions = self.seams.positions(lengths, trees)
        run = forward(self.language, sequences, trees, visible, positions)
        kernel: Kernel = "verify" if self.speculative else "decode"
        self._noise.add(
            run.logits,
            kernel,
            len(sequences),
            run.tokens.ravel(),
            run.context.reshape(-1, REACH),
            run.positions.ravel(),
        )
        if self.speculative:
            return self._verify(sequences, trees, run)
        return self._decode(sequences, run)

    def score(
        self, ids: list[int], start: int, top_n: int = 0, token_ids: tuple[int, ...] = ()
    ) -> list[TokenLogprob]:
        """Return the log-probability of each of ids[max(start, 1):] given those before it.

        Teacher forcing in the prefill kernel: raw logits at temperature 1.
        """
        wish = LogprobWish(top_n, token_ids)
        scored: list[TokenLogprob] = []
        for first, logits, context in scored_rows(self.language, ids, max(start, 1) - 1):
            places = np.arange(first, first + len(logits))
            tokens = np.array(ids[first : first + len(logits)])
            self._noise.add(logits, "prefill", 1, tokens, context, places)
            for row, place in enumerate(places):
                scored.append(token_logprob(logits[row], ids[place + 1], wish, 1.0))
        return scored

    def _decode(self, sequences: list[Sequence], run: Forward) -> list[Emission]:
        coins = self._coins.draw(sequences, 0)[1].tolist()
        emissions = []
        for row, sequence in enumerate(sequences):
            _commit(sequence, run, row, slice(0, 1))
            emissions.append(self._sample_plainly(sequence, run.logits[row : row + 1], coins[row]))
        return emissions

    def _sample_plainly(self, sequence: Sequence, logits: Floats, coin: float) -> Emission:
        params = sequence.params
        rows = TargetRows(logits, params, sequence.generated, self._ends(sequence))
        token = rows.argmax(0) if params.greedy else draw(rows.distribution(0), coin)
        return self._emit(sequence, [token], [0], rows, accepted=None)

    def _verify(self, sequences: list[Sequence], trees: Trees, run: Forward) -> list[Emission]:
        width, parents = trees.width, trees.parents.tolist()
        nodes, final = self.seams.coins(*self._coins.draw(sequences, width))
        coins = [Coins(*pair) for pair in zip(nodes.tolist(), final.tolist(), strict=True)]
        best = run.logits.argmax(axis=1).tolist()
        blockwise = self.spec.use_block_verification
        emissions = []
        for row, (sequence, tree) in enumerate(zip(sequences, split_trees(trees), strict=True)):
            block = slice(row * width, (row + 1) * width)
            rows = TargetRows(
                run.logits[block],
                self.seams.judge_by(sequence.params),
                sequence.generated,
                self._ends(sequence),
                tree.tokens,
                parents[row],
                best[block],
                self.seams.shape,
                self.seams.drafted_above,
            )
            drawn = trees.drawn_from
            proposal = drawn.of_chain(row, self.language.vocab_size) if drawn else None
            judged = Round(sequence, tree, len(sequences), rows, coins[row], proposal)
            walk = judge(self.seams, judged, self.thresholds, blockwise=blockwise)
            if self.watch is not None:
                self.watch(judged, walk)
            _commit(sequence, run, row, self.seams.commit(judged, walk))
            tokens = [*(tree.tokens[node] for node in walk.path), walk.bonus]
            self.seams.count(sequence, len(walk.path), self.spec.num_draft_tokens - 1)
            emissions.append(
                self._emit(sequence, tokens, [0, *walk.path], rows, accepted=len(walk.path))
            )
        return emissions

    def _ends(self, sequence: Sequence) -> tuple[int, ...]:
        return end_tokens(sequence, self.language.tokenizer.eos_id)

    def _emit(
        self,
        sequence: Sequence,
        tokens: list[int],
        nodes: list[int],
        rows: TargetRows,
        accepted: int | None,
    ) -> Emission:
        """Append what the request keeps of `tokens`; token k came from the row of nodes[k]."""
        eos_id = self.language.tokenizer.eos_id
        kept, sequence.finish = self.seams.truncate(sequence, tokens, eos_id)
        logprobs: list[TokenLogprob] = []
        wish = sequence.logprobs
        if wish is not None:
            temperature = sequence.params.logprob_temperature
            logprobs = self.seams.logprobs(
                [
                    token_logprob(rows.logits(node), token, wish, temperature)
                    for node, token in zip(nodes, kept, strict=False)
                ]
            )
            sequence.output_logprobs += logprobs
        sequence.output_ids += kept
        if sequence.params.adjusts:
            sequence.generated.update(kept)
        return Emission(sequence, kept, accepted, logprobs)


def make_drafter(language: LanguageModel, spec: SpeculationConfig, seed: int) -> Drafter:
    """Return the drafter of a configuration."""
    if spec.algorithm == "ar":
        return NoDrafter()
    drafter: Drafter
    model = DraftModel(language, spec.quality)
    match spec.algorithm:
        case "dflash":
            drafter = DFlashDrafter(model, spec.num_draft_tokens)
        case "ddtree":
            drafter = DDTreeDrafter(model, spec.num_steps, spec.num_draft_tokens - 1, spec.topk)
        case "eagle" if spec.samples_drafts:
            drafter = SampledChainDrafter(model, spec.num_steps, seed)
        case "eagle":
            drafter = StepTreeDrafter(model, spec.step_shape)
        case "standalone":
            alone = DraftModel(language, spec.quality, reach=STANDALONE_REACH)
            drafter = StepTreeDrafter(alone, spec.step_shape)
        case "ngram":
            drafter = NgramDrafter(spec.num_draft_tokens, spec.topk)
    return drafter


def _commit(sequence: Sequence, run: Forward, row: int, nodes: list[int] | slice) -> None:
    sequence.kv.append(run.tokens[row, nodes], run.positions[row, nodes], run.memory[row, nodes])
