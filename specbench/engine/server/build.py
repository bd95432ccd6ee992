"""Put the parts of one server together: language, drafter, decoder, clock, scheduler."""

from dataclasses import replace
from typing import Any

from specbench.engine.decoder import Decoder
from specbench.engine.lm import LanguageModel, load_language
from specbench.engine.noise import NoiseConfig
from specbench.engine.server.backend import Backend
from specbench.engine.server.clock import Clock, Pace, Round, round_of
from specbench.engine.server.faults import SERVER_FAULTS, ServerFaults
from specbench.engine.server.kv_pool import KvPool
from specbench.engine.server.scheduler import Limits, Machine, Scheduler
from specbench.engine.server.statistics import Statistics
from specbench.engine.speculation import SpeculationConfig

Args = dict[str, Any]
ENGINE_SEEDS = 1 << 31


def speculation_of(args: Args) -> SpeculationConfig:
    """Translate resolved arguments into the decoder's configuration.

    `--speculative-draft-load-format dummy` is a draft of quality 0, unless told otherwise.
    """
    name = args["speculative_algorithm"]
    if name is None:
        return SpeculationConfig.ar()
    steps, topk, width = (
        int(args[f"speculative_{key}"]) for key in ("num_steps", "eagle_topk", "num_draft_tokens")
    )
    match name:
        case "DFLASH":
            config = SpeculationConfig.dflash(width)
        case "DDTREE":
            config = SpeculationConfig.ddtree(width - 1, topk)
            if topk > 1:
                depth = min(width - 1, int(args["speculative_dflash_block_size"]) - 1)
                config = replace(config, num_steps=depth)
        case "STANDALONE":
            config = SpeculationConfig.standalone(steps, topk, width)
        case "NGRAM":
            config = SpeculationConfig.ngram(width, topk)
        case _:
            config = SpeculationConfig.eagle(steps, topk, width)
    quality = args["draft_quality"]
    if quality is None and args["speculative_draft_load_format"] == "dummy":
        quality = 0.0
    return replace(
        config,
        quality=config.quality if quality is None else quality,
        accept_threshold_single=args["speculative_accept_threshold_single"],
        accept_threshold_acc=args["speculative_accept_threshold_acc"],
        use_rejection_sampling=args["speculative_use_rejection_sampling"],
        use_block_verification=args["speculative_use_block_verification"],
    )


def round_shape(args: Args) -> Round:
    """Return the clock's view of one decode round."""
    return round_of(
        args["speculative_algorithm"],
        steps=int(args["speculative_num_steps"] or 0),
        topk=int(args["speculative_eagle_topk"] or 1),
        width=int(args["speculative_num_draft_tokens"] or 1),
        block=int(args["speculative_dflash_block_size"] or 0),
        overlap=not args["disable_overlap_schedule"],
    )


def build_decoder(language: LanguageModel, args: Args) -> Decoder:
    """Make the decoder, with the faults of the computation that are asked for."""
    seed = int(args["random_seed"]) % ENGINE_SEEDS
    autotune = not args["disable_flashinfer_autotune"]
    return Decoder(
        language,
        speculation_of(args),
        noise=NoiseConfig(sd=args["noise_sd"], autotune=autotune, seed=seed),
        faults=tuple(name for name in args["fault"] if name not in SERVER_FAULTS),
        seed=seed,
        deterministic=args["enable_deterministic_inference"],
    )


def build_backend(args: Args, facts: Args, clock: Clock, faults: ServerFaults) -> Backend:
    """Make everything behind the port."""
    language = load_language()
    statistics = Statistics(
        width=int(args["speculative_num_draft_tokens"] or 0),
        log_interval=int(args["decode_log_interval"]),
    )
    limits = Limits(
        running=facts["running"] * args["dp_size"],
        prefill_tokens=args["max_prefill_tokens"],
        width=max(1, statistics.width),
        chunk=args["chunked_prefill_size"],
        queued=args["max_queued_requests"],
        conservativeness=args["schedule_conservativeness"],
    )
    machine = Machine(
        decoder=build_decoder(language, args),
        pool=KvPool(facts["kv_tokens"] * args["dp_size"], radix=not args["disable_radix_cache"]),
        clock=clock,
        pace=Pace(args["time_scale"]),
        shape=round_shape(args),
    )
    scheduler = Scheduler(machine, limits, statistics)
    scheduler.before_step = faults.before_step
    return Backend(args, facts, language.tokenizer, scheduler, faults)
