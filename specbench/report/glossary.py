"""Words of verdicts and of the page, explained where they are read."""

TERMS: dict[str, str] = {
    "garbage_pct": "share of tokens, in percent, whose regret is beyond the hard margin (3 nat, or"
    " more where the server's own noise asks for it): wrong, not a near tie",
    "doubtful_pct": "share of tokens, in percent, whose regret is beyond the soft margin (1 nat)"
    " and within the hard one",
    "t_eff_pct": "how far the temperature that fits the sampled tokens is from the one asked for,"
    " in percent; positive: sampled hotter",
    "excess_greedy_pct": "share of tokens, in percent, that were the target's first choice beyond"
    " what the temperature gives; negative: too few of them",
    "regret": "how far an emitted token lies below the target's first choice at the same context,"
    " in nat, by the target's own prefill; 0 is the first choice itself",
    "place": "number of a token within its verify round, from 0; Z by place shows where in a round"
    " tokens are too unlikely or too likely",
    "independent coins": "equal prompts side by side must draw with random numbers of their own:"
    " their answers agree no more often than chance gives",
    "frozen contexts": "one context asked many times, so that the distribution of its next tokens"
    " is compared with the target's directly; finds a bias aligned with the drafter",
    "witness": "a wrong token that came again on a fresh request, with a command that shows what"
    " the target itself chooses",
    "not lossless": "a verdict says that the output is not the target's: the speed beside it ranks"
    " nowhere",
}
