from .bradley_terry import (
    Strengths as Strengths,
    fit_bradley_terry as fit_bradley_terry,
    fit_log_odds as fit_log_odds,
    maximum_likelihood as maximum_likelihood,
)
from .comparisons import (
    Comparisons as Comparisons,
    comparisons_of as comparisons_of,
    transitivity as transitivity,
)
from .debiasing import (
    DEBIASINGS as DEBIASINGS,
    Reweighting as Reweighting,
    SwapAverage as SwapAverage,
    content_free as content_free,
    dark_log_odds as dark_log_odds,
    debias as debias,
    fit_position_term as fit_position_term,
    fit_remedy as fit_remedy,
    fit_threshold as fit_threshold,
    fit_uniform_prior as fit_uniform_prior,
)
from .decoding import (
    DECODINGS as DECODINGS,
    CandidateScores as CandidateScores,
    Conditionals as Conditionals,
    MostLikelyRanking as MostLikelyRanking,
    decode as decode,
    fit_conditionals as fit_conditionals,
    most_likely_ranking as most_likely_ranking,
    rank as rank,
    rank_intervals as rank_intervals,
    ranks as ranks,
)
from .lists import (
    PlackettLuce as PlackettLuce,
    balanced_orders as balanced_orders,
    fit_plackett_luce as fit_plackett_luce,
    judge_ranker as judge_ranker,
    sliding_windows as sliding_windows,
    window_effect as window_effect,
)
from .remedies import compare_remedies as compare_remedies
from .selection import (
    STRATEGIES as STRATEGIES,
    most_informative as most_informative,
    select as select,
    select_adaptively as select_adaptively,
)
from .subsets import (
    agreement_by_budget as agreement_by_budget,
    budget_needed as budget_needed,
    self_consistency as self_consistency,
)
